//! Combines several writes to the same entry.

use onnx::{Attr, DType, Expr};

use super::places::movable;

/// The operation that combines an update with the existing element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduction {
    /// The last update replaces the element.
    Overwrite,
    Add,
    Multiply,
    Min,
    Max,
}

impl Reduction {
    /// Returns the attribute `reduction` of ONNX, or `None` for `Overwrite`.
    pub fn attr(self) -> Option<(&'static str, Attr)> {
        let name = match self {
            Reduction::Overwrite => return None,
            Reduction::Add => "add",
            Reduction::Multiply => "mul",
            Reduction::Min => "min",
            Reduction::Max => "max",
        };
        Some(("reduction", name.into()))
    }

    /// Returns the opset that the reduction needs.
    pub fn opset(self) -> i64 {
        match self {
            Reduction::Min | Reduction::Max => 18,
            _ => 16,
        }
    }

    /// Returns the equivalent reduction for booleans that are stored as integers.
    pub fn of_flags(self) -> Reduction {
        match self {
            Reduction::Add => Reduction::Max,
            Reduction::Multiply => Reduction::Min,
            same => same,
        }
    }

    /// Returns the type of the computation: ONNX Runtime cannot add or compare 16-bit floats and
    /// booleans here.
    pub fn compute_type(self, dtype: DType) -> DType {
        match dtype {
            _ if self == Reduction::Overwrite => movable(dtype),
            DType::Bool => DType::I32,
            DType::F16 | DType::Bf16 => DType::F32,
            _ => movable(dtype),
        }
    }

    /// Returns the update that does not change an element, in the type of `x`.
    pub fn identity(self, x: Expr<'_>) -> Expr<'_> {
        let (builder, dtype) = (x.builder, x.dtype());
        let top_bit: i64 = match dtype.bits() {
            0 => 0,
            bits => 1 << (bits - 1),
        };
        match self {
            // `-0 + 0` would be `0`, so the identity of a sum is `-0`.
            Reduction::Overwrite | Reduction::Add => x.constant(-0.0),
            Reduction::Multiply => x.constant(1.0),
            Reduction::Min if dtype.is_float() => x.constant(f64::INFINITY),
            Reduction::Max if dtype.is_float() => x.constant(f64::NEG_INFINITY),
            Reduction::Min if dtype.is_signed_int() => {
                builder.constant_ints(dtype, &[], &[top_bit.wrapping_sub(1)])
            }
            Reduction::Max if dtype.is_signed_int() => {
                builder.constant_ints(dtype, &[], &[top_bit])
            }
            Reduction::Min => builder.constant_ints(dtype, &[], &[-1]),
            Reduction::Max => builder.constant_ints(dtype, &[], &[0]),
        }
    }

    /// True if ONNX Runtime loses an existing NaN when it writes a number.
    pub fn loses_nan(self, dtype: DType) -> bool {
        dtype.is_float() && matches!(self, Reduction::Min | Reduction::Max)
    }
}
