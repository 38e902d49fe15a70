//! Reductions over axes.

use onnx::{Attr, DType, Dim, Expr, Type};

use crate::ctx::{Ctx, Eqn};
use crate::elementwise::bits;
use crate::error::Result;

/// `Σ x` over the axes
pub(crate) fn reduce_sum<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axes = axes(eqn)?;
    let [x] = eqn.operands()?;
    Ok(x.reduce_sum(&axes, false))
}

/// `Π x` over the axes
pub(crate) fn reduce_prod<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axes = axes(eqn)?;
    let [x] = eqn.operands()?;
    Ok(x.reduce("ReduceProd", &axes, false))
}

/// The largest over the axes, NaN where there is one
pub(crate) fn reduce_max<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axes = axes(eqn)?;
    let [x] = eqn.operands()?;
    Ok(extreme(x, "ReduceMax", &axes))
}

/// The smallest over the axes, NaN where there is one
pub(crate) fn reduce_min<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axes = axes(eqn)?;
    let [x] = eqn.operands()?;
    Ok(extreme(x, "ReduceMin", &axes))
}

/// `∧ x` over the axes, bit by bit for integers
pub(crate) fn reduce_and<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axes = axes(eqn)?;
    let [x] = eqn.operands()?;
    match x.dtype() {
        DType::Bool => Ok(x.reduce("ReduceMin", &axes, false)),
        _ => by_halves(eqn, x, &axes, x.constant(0.0).bitwise_not(), bits::and),
    }
}

/// `∨ x` over the axes, bit by bit for integers
pub(crate) fn reduce_or<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axes = axes(eqn)?;
    let [x] = eqn.operands()?;
    match x.dtype() {
        DType::Bool => Ok(x.reduce("ReduceMax", &axes, false)),
        _ => by_halves(eqn, x, &axes, x.constant(0.0), bits::or),
    }
}

/// `⊕ x` over the axes, bit by bit for integers; of flags, whether their number is odd
pub(crate) fn reduce_xor<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axes = axes(eqn)?;
    let [x] = eqn.operands()?;
    match x.dtype() {
        DType::Bool => {
            Ok(x.cast(DType::I32).reduce_sum(&axes, false).modulo(2.0).cast(DType::Bool))
        }
        _ => by_halves(eqn, x, &axes, x.constant(0.0), bits::xor),
    }
}

/// The index of the largest along an axis, the first of equals; of NaN if there is one
pub(crate) fn argmax<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    arg(eqn, "ArgMax")
}

/// The index of the smallest along an axis, the first of equals; of NaN if there is one
pub(crate) fn argmin<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    arg(eqn, "ArgMin")
}

fn arg<'g>(eqn: &Eqn<'g, '_>, op: &str) -> Result<Expr<'g>> {
    let axes: Vec<usize> = eqn.param("axes")?;
    eqn.ignore(&["index_dtype"]);
    let [x] = eqn.operands()?;
    let result = eqn.output()?;
    let &[axis] = &axes[..] else {
        return Err(eqn.broken("not one axis").into());
    };
    let x = ordered_as_signed(x);
    let attrs = vec![("axis", Attr::Int(axis as i64)), ("keepdims", Attr::Int(0))];
    let index = x.builder.node(op, &[x], attrs, Type::new(DType::I64, result.shape.clone()));
    Ok(index.cast(result.dtype))
}

fn axes(eqn: &Eqn<'_, '_>) -> Result<Vec<usize>> {
    let axes = eqn.param("axes")?;
    eqn.refuse(&["out_sharding"])?;
    Ok(axes)
}

/// The extreme over the axes. The runtime loses NaN on the way, so it is put back.
fn extreme<'g>(x: Expr<'g>, op: &str, axes: &[usize]) -> Expr<'g> {
    if axes.is_empty() {
        return x;
    }
    if x.dtype() == DType::U64 {
        return flip_top_bit(ordered_as_signed(x).reduce(op, axes, false)).cast(DType::U64);
    }
    let extreme = x.reduce(op, axes, false);
    if !x.dtype().is_float() {
        return extreme;
    }
    let any_nan = x.is_nan().reduce("ReduceMax", axes, false);
    any_nan.select(x.constant(f64::NAN), extreme)
}

/// Unsigned 64-bit numbers as signed ones in the same order: the top bit the other way round.
pub(crate) fn ordered_as_signed(x: Expr<'_>) -> Expr<'_> {
    if x.dtype() == DType::U64 { flip_top_bit(x.cast(DType::I64)) } else { x }
}

fn flip_top_bit(x: Expr<'_>) -> Expr<'_> {
    x.bitwise_xor(x.builder.constant_ints(x.dtype(), &[], &[i64::MIN]))
}

/// Reduces one axis after the other, its second half joined with its first until one is left.
fn by_halves<'g>(
    eqn: &Eqn<'g, '_>,
    x: Expr<'g>,
    axes: &[usize],
    identity: Expr<'g>,
    join: fn(Expr<'g>, Expr<'g>) -> Expr<'g>,
) -> Result<Expr<'g>> {
    let mut rest = x;
    for &axis in axes {
        let Some(mut size) = rest.shape()[axis].known() else {
            return Err(crate::Refused::NoCounterpart {
                what: format!("{} over an axis of unknown size", eqn.primitive),
            }
            .into());
        };
        if size == 0 {
            let mut shape = rest.shape().to_vec();
            shape[axis] = Dim::Known(1);
            rest = identity.expand(&shape);
        }
        while size > 1 {
            let half = size / 2;
            let joined =
                join(rest.slice_axis(axis, 0, half), rest.slice_axis(axis, half, 2 * half));
            rest = if size % 2 == 1 {
                Expr::concat(&[joined, rest.slice_axis(axis, size - 1, size)], axis)
            } else {
                joined
            };
            size = half + size % 2;
        }
    }
    Ok(rest.squeeze(axes))
}
