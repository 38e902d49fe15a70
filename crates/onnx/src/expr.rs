//! A value of a graph under construction, with operators.
//!
//! Every method that creates a node is `#[track_caller]`, so that the node knows the line of the
//! formula.

mod arith;
mod shape;

use std::sync::Arc;

use crate::build::{Attrs, Builder};
use crate::dtype::DType;
use crate::operator::OpType;
use crate::tensor::Tensor;
use crate::value::{Dim, Type, ValueId};

pub use shape::{Range, broadcast_shapes, reduced_shape};

/// A value of the model under construction, and the builder that contains it.
#[derive(Clone, Copy)]
pub struct Expr<'g> {
    pub builder: &'g Builder,
    pub id: ValueId,
}

/// An operand of a formula: an expression, or a number of the same type.
pub trait Operand<'g> {
    fn operand(self, beside: Expr<'g>) -> Expr<'g>;
}

impl<'g> Operand<'g> for Expr<'g> {
    fn operand(self, _: Expr<'g>) -> Expr<'g> {
        self
    }
}

impl<'g> Operand<'g> for f64 {
    fn operand(self, beside: Expr<'g>) -> Expr<'g> {
        beside.builder.scalar(beside.dtype(), self)
    }
}

impl<'g> Expr<'g> {
    pub fn ty(self) -> Type {
        self.builder.type_of(self.id)
    }

    pub fn dtype(self) -> DType {
        self.ty().dtype
    }

    pub fn shape(self) -> Arc<[Dim]> {
        self.ty().shape
    }

    pub fn rank(self) -> usize {
        self.ty().rank()
    }

    /// Returns the contents, if the value is a constant.
    pub fn tensor(self) -> Option<Arc<Tensor>> {
        self.builder.tensor_of(self.id)
    }

    /// Returns a constant of the same type.
    pub fn constant(self, value: f64) -> Expr<'g> {
        self.builder.scalar(self.dtype(), value)
    }

    /// Adds a node with this operand only.
    #[track_caller]
    pub fn unary(self, op: OpType) -> Expr<'g> {
        self.builder.node(op, &[self], Attrs::new())
    }

    /// Adds a node with two operands of one type that broadcast.
    #[track_caller]
    pub fn binary(self, op: OpType, other: impl Operand<'g>) -> Expr<'g> {
        self.builder.node(op, &[self, other.operand(self)], Attrs::new())
    }
}
