//! Lowers each equation to ONNX nodes with origins, with one plugin per primitive.
//!
//! [`PLUGINS`] is the table of plugins. Everything else implements its entries.

mod bodies;
mod bytes;
mod call;
mod complex;
mod control;
mod conv;
mod convert;
mod ctx;
mod cumulative;
mod devices;
mod dot_general;
mod element;
mod elementwise;
mod emitted;
mod error;
mod index;
mod linalg;
mod lower;
mod parts;
mod plugin;
mod plugins;
mod random;
mod reduce;
mod shape;
mod sort;
#[cfg(test)]
mod testing;
mod window;

pub use ctx::DROP_CALLBACKS;
pub use error::{LoweringError, Refused};
pub use lower::{Call, Failure, lower};
pub use plugin::Plugin;
pub use plugins::{EmittedOps, PLUGINS, emitted_ops};
