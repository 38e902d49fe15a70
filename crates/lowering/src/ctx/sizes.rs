//! Converts sizes of axes from JAX to ONNX, which computes the symbolic ones at run time.

use std::sync::Arc;

use onnx::{Dim, Size, SizeOp};

use super::Ctx;
use crate::error::Refused;
use crate::linear::{self, Linear};

impl Ctx<'_> {
    /// Binds a symbol to a size, unless it is bound already.
    pub(crate) fn bind_symbol(&self, name: &Arc<str>, size: Size) {
        self.symbols.borrow_mut().entry(name.clone()).or_insert(size);
    }

    /// Binds the one unknown symbol of an expression whose size is known, if the expression is linear
    /// in that symbol.
    pub(crate) fn solve(&self, expr: &jaxpr::DimExpr, size: &Size) {
        if let Some(Linear { unknown: Some((name, factor)), rest }) = Linear::of(self, expr)
            && factor != 0
        {
            let (larger, smaller) =
                if factor > 0 { (size.clone(), rest) } else { (rest, size.clone()) };
            let multiple = linear::difference(larger, smaller);
            self.bind_symbol(&name, linear::quotient(multiple, factor.abs()));
        }
    }

    /// Converts sizes to those of ONNX, and declares how the symbolic ones are computed.
    pub fn dims(&self, dims: &[jaxpr::Dim]) -> Result<Vec<Dim>, Refused> {
        dims.iter().map(|dim| self.dim(dim)).collect()
    }

    /// Converts one size to that of ONNX, and declares how it is computed if it is symbolic.
    pub fn dim(&self, dim: &jaxpr::Dim) -> Result<Dim, Refused> {
        match dim {
            jaxpr::Dim::Known(size) => Ok(Dim::Known(*size)),
            jaxpr::Dim::Symbolic(expr) => {
                let name: Arc<str> = expr.to_string().into();
                self.builder.declare_size(&name, self.size(expr)?);
                Ok(Dim::Named(name))
            }
        }
    }

    /// Returns how the value of an expression is computed.
    pub(crate) fn size(&self, expr: &jaxpr::DimExpr) -> Result<Size, Refused> {
        use jaxpr::DimExpr as D;
        let (op, a, b) = match expr {
            D::Const(value) => return Ok(Size::Known(*value)),
            D::Symbol(name) => {
                return self
                    .symbols
                    .borrow()
                    .get(name)
                    .cloned()
                    .ok_or_else(|| Refused::NoSize { name: name.to_string() });
            }
            D::Neg(a) => {
                let zero = Box::new(Size::Known(0));
                return Ok(Size::Op(SizeOp::Sub, zero, Box::new(self.size(a)?)));
            }
            D::Add(a, b) => (SizeOp::Add, a, b),
            D::Sub(a, b) => (SizeOp::Sub, a, b),
            D::Mul(a, b) => (SizeOp::Mul, a, b),
            D::FloorDiv(a, b) => (SizeOp::FloorDiv, a, b),
            D::Mod(a, b) => (SizeOp::Mod, a, b),
            D::Max(a, b) => (SizeOp::Max, a, b),
            D::Min(a, b) => (SizeOp::Min, a, b),
        };
        Ok(Size::Op(op, Box::new(self.size(a)?), Box::new(self.size(b)?)))
    }
}
