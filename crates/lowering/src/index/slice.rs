//! Reads and writes one window at a computed index.

use onnx::{DType, Dim, Expr, OpType};

use super::numbers::Windows;
use super::places::{Starts, as_index, clamp, is_narrow, wide_axes};
use super::reduction::Reduction;
use super::write::write_nd;
use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

/// Returns the window of the result's shape at the start given by the other operands; a window that
/// does not fit starts earlier.
pub(crate) fn dynamic_slice<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    eqn.ignore(&["slice_sizes"]);
    let [x, starts @ ..] = &eqn.inputs[..] else {
        return Err(eqn.broken("no operand").into());
    };
    let (shape, result) = (x.shape(), eqn.output()?);
    let axes: Vec<usize> = (0..shape.len()).filter(|&i| shape[i] != result.shape[i]).collect();
    if starts.len() + eqn.part_axes() != shape.len() {
        return Err(eqn.broken("it does not have one start index per axis").into());
    }

    let builder = ctx.builder;
    let room: Vec<(&Dim, &Dim)> =
        axes.iter().map(|&axis| (&shape[axis], &result.shape[axis])).collect();
    if axes.is_empty() {
        return Ok(*x);
    }
    let are_narrow = axes.iter().all(|&axis| is_narrow(starts[axis].dtype()));
    let start = clamp(joined(&axes, starts, &room), &room, are_narrow);
    if let ([axis], [(_, window)]) = (&axes[..], &room[..])
        && window.is(1)
    {
        return Ok(x.gather(start, *axis));
    }
    let start = start.cast(DType::I64);
    let sizes: Vec<Dim> = room.iter().map(|&(_, window)| window.clone()).collect();
    let end = start + builder.sizes(&sizes);
    let axes: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
    let inputs = [*x, start, end, builder.ints(&axes)];
    Ok(builder.sized_node(OpType::Slice, &inputs, Vec::new(), &result.shape))
}

/// Overwrites a window of the operand; a window that does not fit starts earlier.
pub(crate) fn dynamic_update_slice<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let [x, update, starts @ ..] = &eqn.inputs[..] else {
        return Err(eqn.broken("it has no operand and update").into());
    };
    let shape = x.shape();
    if starts.len() + eqn.part_axes() != shape.len() {
        return Err(eqn.broken("it does not have one start index per axis").into());
    }
    let parts: Vec<usize> =
        (0..shape.len()).filter(|&axis| shape[axis] != update.shape()[axis]).collect();
    if parts.is_empty() {
        return Ok(*update);
    }
    if update.shape().iter().any(|dim| dim.is(0)) {
        return Ok(*x);
    }
    let windows = Windows {
        collapsed: Vec::new(),
        batching: Vec::new(),
        offsets: (0..shape.len()).collect(),
        sizes: update.shape().to_vec(),
        mapped: parts.clone(),
    };
    let room: Vec<(&Dim, &Dim)> =
        parts.iter().map(|&axis| (&shape[axis], &windows.sizes[axis])).collect();
    let starts = Starts::new(joined(&parts, starts, &room), &windows, &shape, false);
    let axes: Vec<usize> = (0..=parts.last().copied().unwrap_or(0)).collect();
    let places = starts.places(&windows, &axes, &[]);
    let wide = wide_axes(&windows, &axes);
    let narrow: Vec<usize> = axes.iter().copied().filter(|axis| !wide.contains(axis)).collect();
    Ok(write_nd(*x, places, update.squeeze(&narrow), Reduction::Overwrite))
}

/// Returns the starts along some axes, as one list.
fn joined<'g>(axes: &[usize], starts: &[Expr<'g>], room: &[(&Dim, &Dim)]) -> Expr<'g> {
    let mut parts: Vec<Expr<'g>> =
        axes.iter().map(|&axis| as_index(starts[axis].unsqueeze(&[0]), room)).collect();
    if parts.iter().any(|part| part.dtype() != DType::I32) {
        parts = parts.iter().map(|part| part.cast(DType::I64)).collect();
    }
    Expr::concat(&parts, 0)
}
