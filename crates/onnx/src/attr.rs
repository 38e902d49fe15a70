//! Attributes of a node.

use std::sync::Arc;

use crate::model::Graph;
use crate::tensor::Tensor;

#[derive(Clone, Debug, PartialEq)]
pub enum Attr {
    Int(i64),
    Float(f32),
    Str(Arc<str>),
    Ints(Arc<[i64]>),
    Floats(Arc<[f32]>),
    Strs(Arc<[Arc<str>]>),
    Tensor(Arc<Tensor>),
    /// The body of a loop or a branch.
    Graph(Box<Graph>),
}

impl From<i64> for Attr {
    fn from(value: i64) -> Attr {
        Attr::Int(value)
    }
}

impl From<&str> for Attr {
    fn from(value: &str) -> Attr {
        Attr::Str(value.into())
    }
}

impl From<&[i64]> for Attr {
    fn from(value: &[i64]) -> Attr {
        Attr::Ints(value.into())
    }
}

impl From<Graph> for Attr {
    fn from(value: Graph) -> Attr {
        Attr::Graph(Box::new(value))
    }
}
