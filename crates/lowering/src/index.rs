//! Reading and writing at places that are computed.
//!
//! ONNX Runtime stops at an index that is out of bounds, where JAX clamps it, fills or drops; so every
//! index is brought into bounds before a node sees it.

mod gather;
mod numbers;
mod places;
mod reduction;
mod scatter;
mod slice;

pub(crate) use gather::gather;
pub(crate) use scatter::{
    scatter, scatter_add, scatter_max, scatter_min, scatter_mul, scatter_sub,
};
pub(crate) use slice::{dynamic_slice, dynamic_update_slice};
