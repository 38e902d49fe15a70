//! Values, the edges between nodes.

use std::fmt;
use std::sync::Arc;

use provenance::OriginId;
pub use sizes::{Dim, Symbol, Total};
use smallvec::SmallVec;

use crate::dtype::DType;
use crate::tensor::Tensor;

/// A value of a model. Ids are unique in the whole model, including bodies and functions, so a body refers to outer
/// values and to its own in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub u32);

impl ValueId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The type of a tensor. In a model from jax2onnx, every axis is known or named; a model from a file may say less.
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

    /// Returns the size of the elements in bytes; `None` for strings, or if it is too large.
    pub fn bytes(&self) -> Option<Dim> {
        let elements = Dim::checked_product(&*self.shape)?;
        match self.dtype.bits() {
            0 => None,
            bits if bits % 8 == 0 => elements.checked_mul(&Dim::Known(bits as i64 / 8)),
            bits => {
                let bits = elements.checked_mul(&Dim::Known(bits as i64))?;
                bits.checked_add(&Dim::Known(7))?.checked_floordiv(&Dim::Known(8))
            }
        }
    }
}

/// Returns the sizes of a shape, if all are known.
pub fn known_shape(shape: &[Dim]) -> Option<Vec<i64>> {
    shape.iter().map(Dim::known).collect()
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
    /// Set for inputs, outputs and weights, and for all values of a model from a file. Other values are named when
    /// the model is finished.
    pub name: Option<Arc<str>>,
    pub ty: Option<Type>,
    /// The contents of an initializer. Such a value has no node. It is written if something reads it.
    pub tensor: Option<Arc<Tensor>>,
    /// True if the contents are an array of the user's program, or computed from one. False for numbers that belong
    /// to a formula.
    pub is_weight: bool,
    /// The paths of the value in the weights, inputs and outputs of the user's function: `blocks.0.kernel`,
    /// `out_0`. A value that a pass computed from several weights has the paths of all of them.
    pub paths: SmallVec<[Arc<str>; 1]>,
    /// The equations that a folded initializer replaces; [`Model::assign_value_origins`] sets the other origins.
    ///
    /// [`Model::assign_value_origins`]: crate::Model::assign_value_origins
    pub(crate) origin: Option<OriginId>,
    /// The integers of a short list that a node computes from sizes. Those of a constant are its contents.
    pub(crate) sizes: Option<Arc<[Dim]>>,
    /// The smallest and the largest possible integer in an input of a body.
    pub bounds: Option<(i64, i64)>,
    /// The lines that read a weight, before passes merged them with others.
    pub(crate) captured: Option<OriginId>,
    /// Metadata from a file. New values have none until they are rendered.
    pub metadata: Vec<(String, String)>,
}

impl Value {
    /// Returns a value with the same type and sizes, for a copy of the node that computes it.
    pub(crate) fn like(&self) -> Value {
        Value { ty: self.ty.clone(), sizes: self.sizes.clone(), ..Value::default() }
    }

    /// True if it is an array that the user's function captured.
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

    /// Drops the values from index `length` on.
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
