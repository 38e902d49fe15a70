//! An ONNX model in memory: values, nodes, graphs; how they are built, edited, checked and written.
//!
//! Only [`proto`] knows protobuf. A node cannot be made without an origin.

pub mod attr;
pub mod dtype;
pub mod model;
pub mod tensor;
pub mod value;

pub use attr::Attr;
pub use dtype::DType;
pub use model::{Graph, Model, Node};
pub use tensor::Tensor;
pub use value::{Dim, Type, Value, ValueId, Values};
