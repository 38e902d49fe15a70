//! Primitives that act on each element.

pub(crate) mod arithmetic;
pub(crate) mod bits;
pub(crate) mod compare;
pub(crate) mod exponential;
pub(crate) mod gamma;
pub(crate) mod hyperbolic;
pub(crate) mod polynomial;
pub(crate) mod power;
pub(crate) mod rounding;
pub(crate) mod special;
pub(crate) mod trigonometric;

use onnx::{DType, Expr};

use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

/// `clamp(low, x, high) = min(max(x, low), high)`
pub(crate) fn clamp<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let [low, x, high] = eqn.operands()?;
    Ok(arithmetic::min(arithmetic::max(x, low), high))
}

/// `select_n(which, case₀, case₁, …)`: the case that `which` names, element by element
///
/// Two cases are one `Where`, and `true` is the second; more are a chain of them.
pub(crate) fn select_n<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let shape = eqn.output()?.shape.clone();
    let (which, cases) = match &eqn.inputs[..] {
        [which, cases @ ..] if !cases.is_empty() => (*which, cases),
        _ => return Err(eqn.broken("no cases").into()),
    };
    let (&first, others) = cases.split_first().ok_or_else(|| eqn.broken("no cases"))?;
    let behind: Vec<usize> = (which.rank()..which.rank() + eqn.part_axes()).collect();
    let which = which.unsqueeze(&behind);
    if which.dtype() == DType::Bool {
        let chosen = others.first().map(|&second| which.select(second, first));
        return Ok(chosen.unwrap_or(first).expand(&shape));
    }
    let chosen = others
        .iter()
        .enumerate()
        .fold(first, |chosen, (i, &case)| which.equal((i + 1) as f64).select(case, chosen));
    Ok(chosen.expand(&shape))
}
