//! Primitives that move elements and change shapes.
//!
//! An additional last axis contains the parts of keys or complex numbers, and stays unchanged.

use onnx::{Attr, DType, Dim, Expr, OpType, Range, Type};

use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

pub(crate) use pad::{pad, pad_around};

mod pad;

/// Broadcasts: axis `i` of the operand is axis `broadcast_dimensions[i]` of the result.
pub(crate) fn broadcast_in_dim<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let mut axes: Vec<usize> = eqn.param("broadcast_dimensions")?;
    eqn.ignore(&["shape"]);
    let [x] = eqn.operands()?;
    let shape = &eqn.output()?.shape;
    axes.extend(shape.len() - eqn.part_axes()..shape.len());
    let is_repeated =
        !shape.iter().enumerate().all(|(axis, size)| match axes.binary_search(&axis) {
            Ok(own) => x.shape()[own] == *size,
            Err(_) => size.is(1),
        });
    // If an axis is repeated, `Expand` adds the leading axes. Only axes between and after those of
    // the operand need an `Unsqueeze`.
    let lead = if is_repeated { axes.first().map_or(0, |&first| first) } else { 0 };
    let rank = if is_repeated && axes.is_empty() { lead } else { shape.len() };
    let added: Vec<usize> =
        (lead..rank).filter(|axis| !axes.contains(axis)).map(|axis| axis - lead).collect();
    Ok(x.unsqueeze(&added).expand(shape))
}

/// Reshapes an array, after a transpose to the order `dimensions` if there is one.
pub(crate) fn reshape<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let order: Option<Vec<usize>> = eqn.param("dimensions")?;
    eqn.ignore(&["new_sizes"]);
    let [x] = eqn.operands()?;
    let x = order.map_or(x, |mut order| {
        order.extend(order.len()..x.rank());
        x.transpose(&order)
    });
    Ok(x.reshape(&eqn.output()?.shape))
}

/// Removes some axes of size one.
pub(crate) fn squeeze<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axes: Vec<usize> = eqn.param("dimensions")?;
    let [x] = eqn.operands()?;
    Ok(x.squeeze(&axes))
}

/// Transposes: axis `i` of the result is axis `permutation[i]` of the operand.
pub(crate) fn transpose<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let mut order: Vec<usize> = eqn.param("permutation")?;
    let [x] = eqn.operands()?;
    order.extend(order.len()..x.rank());
    Ok(x.transpose(&order))
}

/// Concatenates the operands along an axis.
pub(crate) fn concatenate<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axis: usize = eqn.param("dimension")?;
    let size = eqn.output()?.shape[axis].clone();
    Ok(Expr::concat_to(&eqn.inputs, axis, size))
}

/// Stacks the operands along a new axis.
pub(crate) fn stack<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axis: usize = eqn.param("axis")?;
    let parts: Vec<Expr<'g>> = eqn.inputs.iter().map(|part| part.unsqueeze(&[axis])).collect();
    Ok(Expr::concat(&parts, axis))
}

/// Returns the entries along an axis, without the axis.
pub(crate) fn unstack<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let axis: usize = eqn.param("axis")?;
    let [x] = eqn.operands()?;
    let entry = |i: usize| x.slice_axis(axis, i as i64, i as i64 + 1).squeeze(&[axis]);
    Ok((0..eqn.outputs.len()).map(entry).collect())
}

/// Splits an axis into consecutive parts of the given sizes.
pub(crate) fn split<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let axis: usize = eqn.param("axis")?;
    eqn.ignore(&["sizes"]);
    let [x] = eqn.operands()?;
    let shapes: Vec<&[Dim]> = eqn.outputs.iter().map(|part| &*part.shape).collect();
    let sizes: Vec<Dim> = shapes.iter().map(|shape| shape[axis].clone()).collect();
    let attrs = vec![("axis", Attr::Int(axis as i64))];
    let sizes = ctx.builder.sizes(&sizes);
    Ok(ctx.builder.sized_nodes(OpType::Split, &[Some(x), Some(sizes)], attrs, &shapes))
}

/// Repeats each axis.
pub(crate) fn tile<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let repeats: Vec<Dim> = eqn.param("reps")?;
    let mut repeats = ctx.dims(&repeats)?;
    let [x] = eqn.operands()?;
    repeats.resize(x.rank(), Dim::Known(1));
    let repeats = ctx.builder.sizes(&repeats);
    let shape = &eqn.output()?.shape;
    Ok(ctx.builder.sized_node(OpType::Tile, &[x, repeats], Vec::new(), shape))
}

/// Reverses some axes.
pub(crate) fn rev<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axes: Vec<usize> = eqn.param("dimensions")?;
    let [x] = eqn.operands()?;
    let range =
        |axis: usize| if axes.contains(&axis) { Range::backwards() } else { Range::whole() };
    let ranges: Vec<Range> = (0..x.rank()).map(range).collect();
    Ok(x.slice(&ranges, &x.shape()))
}

/// Returns elements `start, start + stride, …` before `limit` of each axis.
pub(crate) fn slice<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let starts: Vec<Dim> = eqn.param("start_indices")?;
    let limits: Vec<Dim> = eqn.param("limit_indices")?;
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

/// Returns a symbolic size as a number.
pub(crate) fn dim_as_value<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let dim: Dim = eqn.param("dim")?;
    let dim = ctx.dim(&dim)?;
    Ok(ctx.builder.size(&dim).cast(eqn.output()?.dtype))
}

/// `0, 1, 2, …` along one axis, repeated along the others
pub(crate) fn iota<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axis: usize = eqn.param("dimension")?;
    eqn.ignore(&["dtype", "shape"]);
    Ok(numbered(ctx, eqn.output()?, axis))
}

/// Returns an array whose elements are their positions along an axis.
pub(crate) fn numbered<'g>(ctx: &Ctx<'g>, ty: &Type, axis: usize) -> Expr<'g> {
    let Type { dtype, shape } = ty;
    let trailing = shape.len() - axis - 1;
    let count = match shape[axis].known() {
        // A short list is cheaper than the nodes that compute it.
        Some(size @ 0..=256) if dtype.bits() >= 8 && *dtype != DType::Bool => {
            let list: Vec<i64> = (0..size).collect();
            ctx.builder.constant_ints(*dtype, &[&[size][..], &vec![1; trailing]].concat(), &list)
        }
        _ => {
            let trailing: Vec<usize> = (1..=trailing).collect();
            Expr::range(ctx.builder, &shape[axis]).cast(*dtype).unsqueeze(&trailing)
        }
    };
    count.expand(shape)
}

/// Returns zeros, as XLA does on the CPU for an uninitialized array.
pub(crate) fn empty<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let Type { dtype, shape } = eqn.output()?;
    Ok(ctx.builder.constant_ints(*dtype, &[], &[0]).expand(shape))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn expand_adds_leading_axes() {
        check(
            "x:f32[3] -> y:f32[2,3] = broadcast_in_dim{broadcast_dimensions=[1]} x",
            expect![[r"
                graph test(in_0:f32[3]) -> (out_0)
                out_0:f32[2,3] = Expand(in_0, [2, 3]:i64)
            "]],
        );
    }

    #[test]
    fn axes_between_and_after_are_unsqueezed() {
        check(
            "x:f32[2,3] -> y:f32[4,2,5,3,6] = broadcast_in_dim{broadcast_dimensions=[1, 3]} x",
            expect![[r"
                graph test(in_0:f32[2,3]) -> (out_0)
                %0 = Unsqueeze(in_0, [1, 3]:i64)
                out_0:f32[4,2,5,3,6] = Expand(%0, [4, 2, 5, 3, 6]:i64)
            "]],
        );
    }

    #[test]
    fn added_axes_of_size_one_need_no_expand() {
        check(
            "x:f32[3] -> y:f32[3,1] = broadcast_in_dim{broadcast_dimensions=[0]} x",
            expect![[r"
                graph test(in_0:f32[3]) -> (out_0)
                out_0:f32[3,1] = Unsqueeze(in_0, [1]:i64)
            "]],
        );
    }

    #[test]
    fn a_scalar_is_expanded_to_a_symbolic_size() {
        check(
            "n:i32[B] x:f32[] -> y:f32[B,2] = broadcast_in_dim{broadcast_dimensions=[]} x",
            expect![[r"
                graph test(in_0:i32[B], in_1:f32[]) -> (out_0)
                %0 = Shape(in_0) {end=1, start=0}
                %1 = Squeeze(%0, [0]:i64)
                %2 = Unsqueeze(%1, [0]:i64)
                %3 = Concat(%2, [2]:i64) {axis=0}
                out_0:f32[B,2] = Expand(in_1, %3)
            "]],
        );
    }

    #[test]
    fn a_short_iota_is_a_constant() {
        check(
            "-> y:i32[3,2] = iota{dimension=0}",
            expect![[r"
                graph test() -> (out_0)
                out_0:i32[3,2] = Expand([[0], [1], [2]]:i32, [3, 2]:i64)
            "]],
        );
    }

    #[test]
    fn an_iota_of_symbolic_size_is_a_range() {
        check(
            "x:f32[B] -> y:f32[B] = iota{dimension=0}",
            expect![[r"
                graph test(in_0:f32[B]) -> (out_0)
                %0 = Shape(in_0) {end=1, start=0}
                %1 = Squeeze(%0, [0]:i64)
                %2 = Range(0:i64, %1, 1:i64)
                out_0:f32[B] = Cast(%2) {to=1}
            "]],
        );
    }

    #[test]
    fn a_reshape_with_an_order_of_axes_transposes_first() {
        check(
            "x:f32[2,3] -> y:f32[6] = reshape{dimensions=[1, 0]} x",
            expect![[r"
                graph test(in_0:f32[2,3]) -> (out_0)
                %0 = Transpose(in_0) {perm=[1, 0]}
                out_0:f32[6] = Reshape(%0, [6]:i64)
            "]],
        );
    }
}
