//! The operations of reductions over axes and windows.

use onnx::expr::reduced_shape;
use onnx::{DType, Expr, OpType};

use super::extreme::{End, extreme, of_empty};
use super::{by_halves, of_flags, sum_of_ints};
use crate::ctx::Eqn;
use crate::elementwise::{arithmetic, bits};
use crate::error::Result;

/// An associative operation with an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Monoid {
    Add,
    Mul,
    Max,
    Min,
    And,
    Or,
    Xor,
}

impl Monoid {
    /// Returns the operation that a primitive computes, if it is one of these.
    pub(crate) fn of(primitive: &str) -> Option<Monoid> {
        Some(match primitive {
            "add" => Monoid::Add,
            "mul" => Monoid::Mul,
            "max" => Monoid::Max,
            "min" => Monoid::Min,
            "and" => Monoid::And,
            "or" => Monoid::Or,
            "xor" => Monoid::Xor,
            _ => return None,
        })
    }

    pub(crate) fn join<'g>(self, x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
        match self {
            Monoid::Add => x + y,
            Monoid::Mul => x * y,
            Monoid::Max => arithmetic::max(x, y),
            Monoid::Min => arithmetic::min(x, y),
            Monoid::And => bits::and(x, y),
            Monoid::Or => bits::or(x, y),
            Monoid::Xor => bits::xor(x, y),
        }
    }

    /// Returns the identity of the operation, in the type of `x`.
    pub(crate) fn identity(self, x: Expr<'_>) -> Expr<'_> {
        match self {
            Monoid::Add | Monoid::Or | Monoid::Xor => x.constant(0.0),
            Monoid::Mul => x.constant(1.0),
            Monoid::Max => of_empty(x, End::Largest),
            Monoid::Min => of_empty(x, End::Smallest),
            Monoid::And if x.dtype() == DType::Bool => x.constant(1.0),
            Monoid::And => x.builder.constant_ints(x.dtype(), &[], &[-1]),
        }
    }

    /// Reduces all elements along the axes, and removes the axes. Without elements, the result repeats the identity:
    /// CUDA fails on reductions of empty arrays.
    ///
    /// ONNX Runtime multiplies integers in double precision and does not wrap, so integers are
    /// multiplied pairwise.
    pub(crate) fn reduce<'g>(
        self,
        eqn: &Eqn<'g, '_>,
        x: Expr<'g>,
        axes: &[usize],
    ) -> Result<Expr<'g>> {
        let shape = x.shape();
        if !axes.is_empty() && shape.iter().any(|size| size.is(0)) {
            return Ok(self.identity(x).expand(&reduced_shape(&shape, axes, false)));
        }
        let is_flag = x.dtype() == DType::Bool;
        Ok(match self {
            Monoid::Add if x.dtype().is_int() => sum_of_ints(x, axes),
            Monoid::Add => x.reduce_sum(axes, false),
            Monoid::Mul if !x.dtype().is_int() => x.reduce(OpType::ReduceProd, axes, false),
            Monoid::Max => extreme(x, End::Largest, axes),
            Monoid::Min => extreme(x, End::Smallest, axes),
            Monoid::And if is_flag => of_flags(x, OpType::ReduceMin, axes),
            Monoid::Or if is_flag => of_flags(x, OpType::ReduceMax, axes),
            Monoid::Xor if is_flag => {
                x.cast(DType::I32).reduce_sum(axes, false).modulo(2.0).cast(DType::Bool)
            }
            Monoid::Mul => by_halves(eqn, x, axes, self.identity(x), |x, y| x * y)?,
            Monoid::And => by_halves(eqn, x, axes, self.identity(x), bits::and)?,
            Monoid::Or => by_halves(eqn, x, axes, self.identity(x), bits::or)?,
            Monoid::Xor => by_halves(eqn, x, axes, self.identity(x), bits::xor)?,
        })
    }
}
