//! Values, the edges between nodes.

use std::fmt;
use std::sync::Arc;

use provenance::OriginId;
pub use sizes::{Dim, Symbol};
use smallvec::SmallVec;

use crate::dtype::DType;
use crate::tensor::Tensor;

/// A value of a model. Ids are unique over the whole model, bodies and functions included, so a body
/// refers to a value of its surroundings as to one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub u32);

impl ValueId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The type of a tensor. Every axis of what we build is known or named; a model that was read may
/// say less.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Type {
    pub dtype: DType,
    pub shape: Arc<[Dim]>,
}

impl Type {
    pub fn new(dtype: DType, shape: impl Into<Arc<[Dim]>>) -> Type {
        Type { dtype, shape: shape.into() }
    }

    pub fn rank(&self) -> usize {
        self.shape.len()
    }
}

/// `f32[2,B]`
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.dtype)?;
        for (i, dim) in self.shape.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{dim}")?;
        }
        f.write_str("]")
    }
}

/// A value of the model.
#[derive(Clone, Debug, Default)]
pub struct Value {
    /// Set for inputs, outputs and weights, and for everything in a model that was read; the rest is
    /// named when the model is finished.
    pub name: Option<Arc<str>>,
    pub ty: Option<Type>,
    /// The contents of an initializer. A value with contents has no node and needs no listing: what
    /// is used is written, what is not used is gone.
    pub tensor: Option<Arc<Tensor>>,
    /// True if the contents are an array of the user's program, or computed from one, and not just
    /// a number of a formula.
    pub is_weight: bool,
    /// The paths of the value in the weights, inputs and outputs of the user's function: `blocks.0.kernel`,
    /// `out_0`. A value that a pass computed from several weights has the path of each.
    pub paths: SmallVec<[Arc<str>; 1]>,
    /// The equations that a folded initializer replaces; see [`Model::assign_value_origins`] for
    /// the rest.
    ///
    /// [`Model::assign_value_origins`]: crate::Model::assign_value_origins
    pub(crate) origin: Option<OriginId>,
    /// The integers that a node computes from sizes, if it is a short list of them. Those of a constant are its contents.
    pub(crate) sizes: Option<Arc<[Dim]>>,
    /// The least and the largest that an integer of an input of a body can be.
    pub bounds: Option<(i64, i64)>,
    /// The lines that read a weight, as they were before passes joined them with others.
    pub(crate) captured: Option<OriginId>,
    /// Metadata that was read from a file; what we build has none until it is rendered.
    pub metadata: Vec<(String, String)>,
}

impl Value {
    /// Returns a value of the same type, which holds the same sizes, for a copy of the node that makes it.
    pub(crate) fn like(&self) -> Value {
        Value { ty: self.ty.clone(), sizes: self.sizes.clone(), ..Value::default() }
    }

    /// True if it is an array that the user's function contains.
    pub(crate) fn is_captured(&self) -> bool {
        self.tensor.is_some() && (self.is_weight || !self.paths.is_empty())
    }
}

/// Every value of a model.
#[derive(Clone, Debug, Default)]
pub struct Values(Vec<Value>);

impl Values {
    pub fn add(&mut self, value: Value) -> ValueId {
        self.0.push(value);
        ValueId(self.0.len() as u32 - 1)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets the values that were added since there were `length`.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.0.truncate(length);
    }

    pub fn ids(&self) -> impl Iterator<Item = ValueId> + use<> {
        (0..self.0.len() as u32).map(ValueId)
    }
}

impl std::ops::Index<ValueId> for Values {
    type Output = Value;

    fn index(&self, id: ValueId) -> &Value {
        &self.0[id.index()]
    }
}

impl std::ops::IndexMut<ValueId> for Values {
    fn index_mut(&mut self, id: ValueId) -> &mut Value {
        &mut self.0[id.index()]
    }
}
