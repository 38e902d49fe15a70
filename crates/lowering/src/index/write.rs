//! Writes updates at given places.

use onnx::{Attr, DType, Expr, OpType};

use super::numbers::Axis;
use super::reduction::Reduction;

/// Transposes updates to the wanted axes, and removes the other axes, which have size one.
#[track_caller]
pub(super) fn rearrange<'g>(updates: Expr<'g>, have: &[Axis], want: &[Axis]) -> Expr<'g> {
    let (kept, narrow): (Vec<usize>, Vec<usize>) =
        (0..have.len()).partition(|&place| want.contains(&have[place]));
    let order = want.iter().filter_map(|axis| kept.iter().position(|&i| have[i] == *axis));
    updates.squeeze(&narrow).transpose(&order.collect::<Vec<_>>())
}

/// Writes one update after the other, with `ScatterElements`.
#[track_caller]
pub(super) fn write_elements<'g>(
    x: Expr<'g>,
    places: Expr<'g>,
    updates: Expr<'g>,
    axis: usize,
    reduction: Reduction,
) -> Expr<'g> {
    let write = |x: Expr<'g>, updates: Expr<'g>, reduction: Reduction| {
        let mut attrs = vec![("axis", Attr::Int(axis as i64))];
        attrs.extend(reduction.attr());
        x.builder.node(OpType::ScatterElements, &[x, places, updates], attrs)
    };
    let written = write(x, updates, reduction);
    if !reduction.loses_nan(x.dtype()) || !x.builder.exact_nan() {
        return written;
    }
    let flag = |x: Expr<'g>| x.is_nan().cast(DType::I32);
    let any_nan = write(flag(x), flag(updates), Reduction::Max).cast(DType::Bool);
    any_nan.select(x.constant(f64::NAN), written)
}

/// Writes updates at distinct places, with `ScatterND`.
#[track_caller]
pub(super) fn write_nd<'g>(
    x: Expr<'g>,
    places: Expr<'g>,
    updates: Expr<'g>,
    reduction: Reduction,
) -> Expr<'g> {
    let attrs = reduction.attr().into_iter().collect();
    x.builder.node(OpType::ScatterND, &[x, places, updates], attrs)
}
