//! Sizes: numbers, and expressions of symbols.

use std::fmt;
use std::sync::Arc;

/// The size of an axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    Known(i64),
    Symbolic(Arc<DimExpr>),
}

/// A size that depends on symbols. JAX keeps its expressions in a normal form, so two that are equal
/// have the same tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DimExpr {
    Const(i64),
    Symbol(Arc<str>),
    Add(Box<DimExpr>, Box<DimExpr>),
    Sub(Box<DimExpr>, Box<DimExpr>),
    Mul(Box<DimExpr>, Box<DimExpr>),
    Neg(Box<DimExpr>),
    FloorDiv(Box<DimExpr>, Box<DimExpr>),
    Mod(Box<DimExpr>, Box<DimExpr>),
    Max(Box<DimExpr>, Box<DimExpr>),
    Min(Box<DimExpr>, Box<DimExpr>),
}

impl Dim {
    /// The size, where it is a number.
    pub fn known(&self) -> Option<i64> {
        match self {
            Dim::Known(size) => Some(*size),
            Dim::Symbolic(_) => None,
        }
    }
}

impl From<i64> for Dim {
    fn from(size: i64) -> Dim {
        Dim::Known(size)
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Known(size) => size.fmt(f),
            Dim::Symbolic(expr) => expr.fmt(f),
        }
    }
}

/// As JAX writes it, with the brackets that the tree needs.
impl fmt::Display for DimExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let product_operand = |f: &mut fmt::Formatter<'_>, expr: &DimExpr| match expr {
            DimExpr::Add(..) | DimExpr::Sub(..) | DimExpr::Neg(..) => write!(f, "({expr})"),
            _ => write!(f, "{expr}"),
        };
        match self {
            DimExpr::Const(value) => value.fmt(f),
            DimExpr::Symbol(name) => f.write_str(name),
            DimExpr::Add(a, b) => write!(f, "{a} + {b}"),
            DimExpr::Sub(a, b) => {
                write!(f, "{a} - ")?;
                product_operand(f, b)
            }
            DimExpr::Mul(a, b) => {
                product_operand(f, a)?;
                f.write_str("*")?;
                product_operand(f, b)
            }
            DimExpr::Neg(a) => {
                f.write_str("-")?;
                product_operand(f, a)
            }
            DimExpr::FloorDiv(a, b) => write!(f, "floordiv({a}, {b})"),
            DimExpr::Mod(a, b) => write!(f, "mod({a}, {b})"),
            DimExpr::Max(a, b) => write!(f, "max({a}, {b})"),
            DimExpr::Min(a, b) => write!(f, "min({a}, {b})"),
        }
    }
}
