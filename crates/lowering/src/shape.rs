//! Primitives that move elements and change shapes.
//!
//! The axes behind those that an equation knows are those of parts, and stay where they are.

use onnx::{Attr, DType, Dim, Expr, Range, Type};

use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

pub(crate) use pad::pad;

mod pad;

/// Axis `i` of the operand is axis `broadcast_dimensions[i]` of the result
pub(crate) fn broadcast_in_dim<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let mut axes: Vec<usize> = eqn.param("broadcast_dimensions")?;
    eqn.ignore(&["shape", "sharding"]);
    let [x] = eqn.operands()?;
    let shape = &eqn.output()?.shape;
    axes.extend(shape.len() - eqn.part_axes()..shape.len());
    // Leading axes come by themselves; those between and behind the operand's are put in.
    let lead = axes.first().map_or(0, |&first| first);
    let rank = if axes.is_empty() { lead } else { shape.len() };
    let added: Vec<usize> =
        (lead..rank).filter(|axis| !axes.contains(axis)).map(|axis| axis - lead).collect();
    Ok(x.unsqueeze(&added).expand(shape))
}

/// The same elements in another shape
pub(crate) fn reshape<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    eqn.ignore(&["new_sizes", "sharding"]);
    eqn.refuse(&["dimensions"])?;
    let [x] = eqn.operands()?;
    Ok(x.reshape(&eqn.output()?.shape))
}

/// Without some axes of size one
pub(crate) fn squeeze<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axes: Vec<usize> = eqn.param("dimensions")?;
    let [x] = eqn.operands()?;
    Ok(x.squeeze(&axes))
}

/// Axis `i` of the result is axis `permutation[i]` of the operand
pub(crate) fn transpose<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let mut order: Vec<usize> = eqn.param("permutation")?;
    let [x] = eqn.operands()?;
    order.extend(order.len()..x.rank());
    Ok(x.transpose(&order))
}

/// The operands one after the other along an axis
pub(crate) fn concatenate<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axis: usize = eqn.param("dimension")?;
    let size = eqn.output()?.shape[axis].clone();
    Ok(Expr::concat_to(&eqn.inputs, axis, size))
}

/// The operands side by side along a new axis
pub(crate) fn stack<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axis: usize = eqn.param("axis")?;
    let parts: Vec<Expr<'g>> = eqn.inputs.iter().map(|part| part.unsqueeze(&[axis])).collect();
    Ok(Expr::concat(&parts, axis))
}

/// The entries along an axis, each without it
pub(crate) fn unstack<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let axis: usize = eqn.param("axis")?;
    let [x] = eqn.operands()?;
    let entry = |i: usize| x.slice_axis(axis, i as i64, i as i64 + 1).squeeze(&[axis]);
    Ok((0..eqn.outputs.len()).map(entry).collect())
}

/// Consecutive parts along an axis, of the given sizes
pub(crate) fn split<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let axis: usize = eqn.param("axis")?;
    eqn.ignore(&["sizes"]);
    let [x] = eqn.operands()?;
    let sizes: Vec<Dim> = eqn.outputs.iter().map(|part| part.shape[axis].clone()).collect();
    let attrs = vec![("axis", Attr::Int(axis as i64))];
    let sizes = ctx.builder.sizes(&sizes);
    Ok(ctx.builder.nodes("Split", &[Some(x), Some(sizes)], attrs, &eqn.outputs))
}

/// Each axis repeated
pub(crate) fn tile<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let mut repeats: Vec<i64> = eqn.param("reps")?;
    let [x] = eqn.operands()?;
    repeats.resize(x.rank(), 1);
    let repeats = ctx.builder.ints(&repeats);
    Ok(ctx.builder.node("Tile", &[x, repeats], Vec::new(), eqn.output()?.clone()))
}

/// Some axes backwards
pub(crate) fn rev<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axes: Vec<usize> = eqn.param("dimensions")?;
    let [x] = eqn.operands()?;
    let range = |axis: usize| match axes.contains(&axis) {
        true => Range::backwards(),
        false => Range::whole(),
    };
    let ranges: Vec<Range> = (0..x.rank()).map(range).collect();
    Ok(x.slice(&ranges, &x.shape()))
}

/// Elements `start, start + stride, …` before `limit` of each axis
pub(crate) fn slice<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let starts: Vec<jaxpr::Dim> = eqn.param("start_indices")?;
    let limits: Vec<jaxpr::Dim> = eqn.param("limit_indices")?;
    let strides: Option<Vec<i64>> = eqn.param("strides")?;
    let [x] = eqn.operands()?;
    let strides = strides.unwrap_or_else(|| vec![1; x.rank()]);
    let mut ranges = Vec::new();
    for ((start, limit), step) in starts.iter().zip(&limits).zip(strides) {
        let (start, end) = (ctx.dim(start)?, ctx.dim(limit)?);
        ranges.push(Range { start, end, step });
    }
    Ok(x.slice(&ranges, &eqn.output()?.shape))
}

/// `0, 1, 2, …` along one axis, repeated along the others
pub(crate) fn iota<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axis: usize = eqn.param("dimension")?;
    eqn.ignore(&["dtype", "shape", "sharding"]);
    let Type { dtype, shape } = eqn.output()?;

    let count = match shape[axis].known() {
        // A short list is cheaper than the node that makes it.
        Some(size @ 0..=256) if dtype.bits() >= 8 && *dtype != DType::Bool => {
            let list: Vec<i64> = (0..size).collect();
            ctx.builder.constant_ints(*dtype, &[size], &list)
        }
        _ => Expr::range(ctx.builder, &shape[axis]).cast(*dtype),
    };
    let behind: Vec<usize> = (1..shape.len() - axis).collect();
    Ok(count.unsqueeze(&behind).expand(shape))
}
