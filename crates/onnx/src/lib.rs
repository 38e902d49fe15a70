//! An ONNX model in memory: values, nodes and graphs, and how to build, edit, check and write them.
//!
//! Only [`proto`] knows protobuf. A node cannot be created without an origin.

pub mod attr;
pub mod build;
pub mod check;
pub mod cost;
pub mod dtype;
pub mod edit;
pub mod expr;
pub mod external_data;
pub mod facts;
pub mod functions;
pub mod hoist;
pub mod infer;
pub mod kernels;
pub mod locate;
pub mod memory;
pub mod model;
pub mod names;
pub mod operator;
pub mod outline;
pub mod outputs;
pub mod pairs;
pub mod proto;
#[cfg(test)]
mod round_trip;
pub mod sized;
pub mod source_map;
pub mod staged;
pub mod strip;
pub mod tensor;
pub mod text;
pub mod value;
mod value_origins;
mod weight_files;

pub use attr::Attr;
pub use build::{Builder, Problem, SymbolSource};
pub use dtype::DType;
pub use edit::{Declined, Done, Edit, Op, Outcome, Patch, Replacement, Touched, declined};
pub use expr::{Expr, Operand, Range};
pub use facts::{Fact, Facts, Weights};
pub use model::{Function, Graph, Label, Model, Node, Note, Trial};
pub use operator::{OpType, Operator};
pub use proto::scan;
pub use tensor::Tensor;
pub use value::{Dim, Symbol, Total, Type, Value, ValueId, Values, known_shape};
