//! Linear systems with a given solver, and products of a matrix with itself.

use std::sync::Arc;

use jaxpr::{Jaxpr, Param};
use onnx::Expr;

use super::batch::transposed;
use super::operands;
use crate::ctx::{Body, Ctx, Eqn};
use crate::error::Result;

/// `x` with `matvec(x) = b`, computed by the given function `solve`
///
/// The operands are the constants of `matvec`, `vecmat`, `solve` and `transpose_solve`, then `b`.
/// The other functions are for derivatives.
pub(crate) fn custom_linear_solve<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let lengths: Param = eqn.param("const_lengths")?;
    let jaxprs: Param = eqn.param("jaxprs")?;
    let length = |name: &str| match lengths.field(name) {
        Some(Param::Int(length)) => usize::try_from(*length).ok(),
        _ => None,
    };
    let names = ["matvec", "vecmat", "solve", "transpose_solve"];
    let lengths: Option<Vec<usize>> = names.iter().map(|name| length(name)).collect();
    let (Some(lengths), Some(Param::Jaxpr(solve))) = (lengths, jaxprs.field("solve")) else {
        return Err(eqn.broken("it has no function `solve`").into());
    };
    let solve: &Arc<Jaxpr> = solve;
    let [matvec, vecmat, own, transpose_solve] = lengths[..] else {
        return Err(eqn.broken("it does not have four functions").into());
    };
    let start = matvec + vecmat;
    let Some(right) = eqn.inputs.get(start + own + transpose_solve..) else {
        return Err(eqn.broken("it has fewer operands than its parameters require").into());
    };
    let arguments = [&eqn.inputs[start..start + own], right].concat();
    ctx.inline("custom_linear_solve", Body::of("jaxprs.solve"), solve, &arguments)
}

/// `α · A · Aᵀ + β · C`
pub(crate) fn symmetric_product<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let alpha: f64 = eqn.param("alpha")?;
    let beta: f64 = eqn.param("beta")?;
    let [a, c] = operands(eqn)?;
    let scaled = |x: Expr<'g>, by: f64| if by == 1.0 { x } else { x * by };
    let product = scaled(a.matmul(transposed(a)), alpha);
    // Multiplies even by zero, because the product with an infinity is NaN.
    Ok(product + scaled(c, beta))
}
