//! Arrays that are part of a jaxpr.

use std::sync::Arc;

use bytes::Bytes;

use crate::aval::DType;

/// An array of known contents.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    pub dtype: DType,
    pub shape: Arc<[i64]>,
    /// Little-endian, row-major, with one byte per element for types narrower than a byte.
    pub data: Bytes,
    /// The path of the array in the user's model, if one was found.
    pub name: Option<Arc<str>>,
}

impl Constant {
    /// Returns the number of elements; `None` if the shape is invalid or too large.
    pub fn elements(&self) -> Option<usize> {
        self.shape.iter().try_fold(1usize, |count, &size| count.checked_mul(size.try_into().ok()?))
    }
}
