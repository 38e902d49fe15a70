//! Sizes that are linear in a symbol which no axis is by itself.

use std::sync::Arc;

use jaxpr::DimExpr;
use onnx::{Size, SizeOp};

use crate::ctx::Ctx;

/// `factor · unknown + rest`
pub(crate) struct Linear {
    pub unknown: Option<(Arc<str>, i64)>,
    pub rest: Size,
}

impl Linear {
    /// Reads an expression of sizes; `None` if it is not linear, or has several unknown symbols.
    pub(crate) fn of(ctx: &Ctx<'_>, expr: &DimExpr) -> Option<Linear> {
        if let Ok(rest) = ctx.size(expr) {
            return Some(Linear { unknown: None, rest });
        }
        match expr {
            DimExpr::Symbol(name) => {
                Some(Linear { unknown: Some((name.clone(), 1)), rest: Size::Known(0) })
            }
            DimExpr::Neg(a) => Linear::of(ctx, a)?.times(-1),
            DimExpr::Add(a, b) => Linear::of(ctx, a)?.plus(Linear::of(ctx, b)?),
            DimExpr::Sub(a, b) => Linear::of(ctx, a)?.plus(Linear::of(ctx, b)?.times(-1)?),
            DimExpr::Mul(a, b) => match (&**a, &**b) {
                (DimExpr::Const(factor), other) | (other, DimExpr::Const(factor)) => {
                    Linear::of(ctx, other)?.times(*factor)
                }
                _ => None,
            },
            _ => None,
        }
    }

    fn times(self, by: i64) -> Option<Linear> {
        let unknown = match self.unknown {
            Some((name, factor)) => Some((name, factor.checked_mul(by)?)),
            None => None,
        };
        Some(Linear { unknown, rest: product(self.rest, by) })
    }

    fn plus(self, other: Linear) -> Option<Linear> {
        let unknown = match (self.unknown, other.unknown) {
            (Some((name, a)), Some((same, b))) if name == same => Some((name, a.checked_add(b)?)),
            (Some(_), Some(_)) => return None,
            (one, None) | (None, one) => one,
        };
        Some(Linear { unknown, rest: sum(self.rest, other.rest) })
    }
}

pub(crate) fn difference(a: Size, b: Size) -> Size {
    if matches!(b, Size::Known(0)) { a } else { op(SizeOp::Sub, a, b) }
}

pub(crate) fn quotient(a: Size, by: i64) -> Size {
    if by == 1 { a } else { op(SizeOp::FloorDiv, a, Size::Known(by)) }
}

fn sum(a: Size, b: Size) -> Size {
    match (a, b) {
        (Size::Known(0), other) | (other, Size::Known(0)) => other,
        (a, b) => op(SizeOp::Add, a, b),
    }
}

fn product(a: Size, by: i64) -> Size {
    match a {
        Size::Known(size) => Size::Known(size.saturating_mul(by)),
        other if by == 1 => other,
        other => op(SizeOp::Mul, other, Size::Known(by)),
    }
}

fn op(op: SizeOp, a: Size, b: Size) -> Size {
    Size::Op(op, Box::new(a), Box::new(b))
}
