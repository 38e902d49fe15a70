//! Running sums, products and extremes along an axis.

use onnx::{Attr, Expr};

use crate::Refused;
use crate::ctx::{Ctx, Eqn};
use crate::elementwise::arithmetic::{max, min};
use crate::elementwise::exponential::log1p;
use crate::error::Result;

/// `yᵢ = Σ xⱼ` for `j ≤ i`
pub(crate) fn cumsum<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axis: usize = eqn.param("axis")?;
    let reverse: bool = eqn.param("reverse")?;
    let [x] = eqn.operands()?;
    let axis = ctx.builder.constant_ints(onnx::DType::I64, &[], &[axis as i64]);
    let attrs = if reverse { vec![("reverse", Attr::Int(1))] } else { Vec::new() };
    Ok(ctx.builder.node("CumSum", &[x, axis], attrs, x.ty()))
}

/// `yᵢ = Π xⱼ` for `j ≤ i`
pub(crate) fn cumprod<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    by_doubling(eqn, |x, y| x * y)
}

/// `yᵢ = max xⱼ` for `j ≤ i`
pub(crate) fn cummax<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    by_doubling(eqn, max)
}

/// `yᵢ = min xⱼ` for `j ≤ i`
pub(crate) fn cummin<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    by_doubling(eqn, min)
}

/// `yᵢ = log Σ exp xⱼ` for `j ≤ i`
pub(crate) fn cumlogsumexp<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    by_doubling(eqn, logaddexp)
}

/// `log(exp x + exp y) = m + log1p(exp(−|x − y|))` with `m = max(x, y)`
///
/// Where both are the same infinity, the difference is not a number and `m` is the answer.
fn logaddexp<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    let difference = x - y;
    let larger = x.max(y);
    let sum = larger + log1p((-difference.abs()).exp());
    difference.is_nan().select(larger, sum)
}

/// After step `k`, each element has joined the `2ᵏ` up to it.
fn by_doubling<'g>(
    eqn: &Eqn<'g, '_>,
    join: fn(Expr<'g>, Expr<'g>) -> Expr<'g>,
) -> Result<Expr<'g>> {
    let axis: usize = eqn.param("axis")?;
    let reverse: bool = eqn.param("reverse")?;
    let [x] = eqn.operands()?;
    let Some(size) = x.shape()[axis].known() else {
        let what = format!("{} along an axis of unknown size", eqn.primitive);
        return Err(Refused::NoCounterpart { what }.into());
    };

    let mut running = x;
    let mut step = 1;
    while step < size {
        let (first, last) =
            (running.slice_axis(axis, 0, size - step), running.slice_axis(axis, step, size));
        let joined = if reverse { join(last, first) } else { join(first, last) };
        running = if reverse {
            Expr::concat(&[joined, running.slice_axis(axis, size - step, size)], axis)
        } else {
            Expr::concat(&[running.slice_axis(axis, 0, step), joined], axis)
        };
        step *= 2;
    }
    Ok(running)
}
