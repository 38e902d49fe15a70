//! Sums of products that are products of matrices.
//!
//! `Σₖ wₖ·xₖₙ` is a row of weights times a matrix, and `Σₖ xₙₖ·wₖ` a matrix times a column, whatever
//! they are repeated for. The products are not written down then.

use onnx::{Attr, Dim, Op, OpType, Type, ValueId};

use crate::algebra::axis_map::transpose;
use crate::algebra::pattern::{Pattern, hole, reduce_sum};
use crate::rewrite::{Declined, Formulas, Found, Rewrite};

pub(crate) static REWRITES: Formulas = Formulas::new(&[&[Rewrite {
    name: "fuse-weighted-sum",
    pattern: || weighted(&hole("a"), &hole("b")),
    replacement: to_product,
}]]);

/// For smaller matrices, many products are slower in ONNX Runtime than all terms.
const FEWEST_TERMS: i64 = 8;

fn weighted(a: &Pattern, b: &Pattern) -> Pattern {
    reduce_sum(&(a * b).named("terms")).named("sum")
}

fn to_product(found: &mut Found<'_, '_, '_>) -> Result<Op, Declined> {
    let (a, b, terms) = (found.value("a")?, found.value("b")?, found.value("terms")?);
    let ty = found.ty(terms)?;
    let last =
        ty.rank().checked_sub(1).filter(|&last| last > 0).ok_or("an operand is not a matrix")?;
    if !ty.dtype.is_float() {
        return Err("the type is an integer".into());
    }
    found.expect_kernel(OpType::MatMul, terms)?;
    if found.edit.reads(terms) > 1 {
        return Err("another node reads the terms".into());
    }
    let axis = match found.axes("sum")?[..] {
        [axis] if axis + 1 >= last => axis,
        _ => return Err("the sum is over another axis".into()),
    };
    // The axis that the weights have no entries along.
    let other = if axis == last { last - 1 } else { last };
    let is_weights = |shape: &[Dim]| spans(shape, &ty, axis) && is_one(shape, &ty, other);
    let is_matrix =
        |shape: &[Dim]| shape.len() > 1 && spans(shape, &ty, axis) && spans(shape, &ty, other);
    let shape = |value: ValueId| found.ty(value).map(|ty| ty.shape);
    let (weights, matrix) = match (shape(a)?, shape(b)?) {
        (x, y) if is_weights(&x) && is_matrix(&y) => (a, b),
        (x, y) if is_matrix(&x) && is_weights(&y) => (b, a),
        _ => return Err("the sum is not over weighted rows or columns".into()),
    };
    let terms: Option<i64> = [axis, other].iter().map(|&axis| ty.shape[axis].known()).product();
    if ty.shape[other].is(1) || terms.is_some_and(|terms| terms < FEWEST_TERMS) {
        return Err("the matrix is too small".into());
    }
    let keeps = !matches!(found.node("sum")?.attr("keepdims"), Some(Attr::Int(0)));
    let weights = with_last_axes_swapped(found, weights)?;
    let operands = if axis == last { [matrix, weights] } else { [weights, matrix] };
    let product = Op::new(OpType::MatMul, &operands);
    if keeps {
        return Ok(product);
    }
    let mut kept = ty.clone();
    kept.shape = onnx::expr::reduced_shape(&ty.shape, &[axis], true).into();
    let product = found.emit(product);
    let axes = found.ints(&[axis as i64])?;
    Ok(Op::new(OpType::Squeeze, &[product, axes]))
}

/// True if an operand has its own entries along an axis of the whole.
fn spans(shape: &[Dim], whole: &Type, axis: usize) -> bool {
    let lacking = whole.rank() - shape.len();
    axis >= lacking && shape[axis - lacking] == whole.shape[axis]
}

fn is_one(shape: &[Dim], whole: &Type, axis: usize) -> bool {
    let lacking = whole.rank() - shape.len();
    axis < lacking || shape[axis - lacking].is(1)
}

/// Returns the weights with their last two axes in the other order; a list of them is a column.
fn with_last_axes_swapped(
    found: &mut Found<'_, '_, '_>,
    weights: ValueId,
) -> Result<ValueId, Declined> {
    let mut ty = found.ty(weights)?;
    let rank = ty.rank();
    if rank == 1 {
        ty.shape = [&ty.shape[..], &[Dim::Known(1)]].concat().into();
        let axes = found.ints(&[1])?;
        return Ok(found.emit(Op::new(OpType::Unsqueeze, &[weights, axes])));
    }
    let mut order: Vec<usize> = (0..rank).collect();
    order.swap(rank - 2, rank - 1);
    let mut shape = ty.shape.to_vec();
    shape.swap(rank - 2, rank - 1);
    ty.shape = shape.into();
    Ok(found.emit(transpose(weights, &order)))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::{check, formulas};

    #[test]
    fn weighted_rows_are_a_product() {
        check(
            formulas(&super::REWRITES),
            "graph g(w:f32[B,4,1], x:f32[4,3]) -> (y)
%0:f32[B,4,3] = Mul(w, x)
y:f32[B,3] = ReduceSum(%0, [1]:i64) {keepdims=0}",
            expect![[r#"
                graph g(w:f32[B,4,1], x:f32[4,3]) -> (y)
                %0 = Transpose(w) {perm=[0, 2, 1]}  # 3 2
                %1 = MatMul(%0, x)  # 3 2
                y:f32[B,3] = Squeeze(%1, [1]:i64)  # 3 2
            "#]],
        );
    }

    #[test]
    fn weighted_columns_are_a_product() {
        check(
            formulas(&super::REWRITES),
            "graph g(w:f32[3], x:f32[B,4,3]) -> (y)
%0:f32[B,4,3] = Mul(x, w)
y:f32[B,4,1] = ReduceSum(%0, [2]:i64) {keepdims=1}",
            expect![[r#"
                graph g(w:f32[3], x:f32[B,4,3]) -> (y)
                %0 = Unsqueeze(w, [1]:i64)  # 3 2
                y:f32[B,4,1] = MatMul(x, %0)  # 3 2
            "#]],
        );
    }

    #[test]
    fn weights_that_are_repeated_along_the_sum_are_left() {
        check(
            formulas(&super::REWRITES),
            "graph g(w:f32[4,1], x:f32[4,3]) -> (y)
%0:f32[4,3] = Mul(w, x)
y:f32[4] = ReduceSum(%0, [1]:i64) {keepdims=0}",
            expect![[r#"
                graph g(w:f32[4,1], x:f32[4,3]) -> (y)
                %0 = Mul(w, x)  # 2
                y:f32[4] = ReduceSum(%0, [1]:i64) {keepdims=0}  # 3
            "#]],
        );
    }
}
