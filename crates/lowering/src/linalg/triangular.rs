//! Triangular matrices: the Cholesky factor, its update, and systems to solve.

use onnx::{DType, Expr};

use super::{
    axes, column, column_numbers, operands, row, row_numbers, rounds, size_of, transposed,
};
use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

/// `L` with `L · Lᵀ = A`, of the lower triangle of `A`; NaN throughout where `A` is not positive
///
/// Round `k` finishes column `k`, `lᵢₖ = aᵢₖ / √aₖₖ`, and takes `lᵢₖ · lⱼₖ` from the columns behind it.
pub(crate) fn cholesky<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    eqn.ignore(&["symmetrize_input"]);
    let [a] = operands(eqn)?;
    let (size, _) = size_of(a);
    let rows = row_numbers(ctx.builder, &size);
    let columns = column_numbers(ctx.builder, &size);

    let [factor] = rounds(ctx.builder, &size, [a], |k, [a]| {
        let current = column(a, k);
        let root = row(current, k).sqrt();
        let done = rows.less(k).select(a.constant(0.0), current / root);
        let rest = a - done * transposed(done);
        [columns.equal(k).select(done, columns.less(k).select(a, rest))]
    });
    let is_diagonal = rows.equal(columns);
    let is_positive = is_diagonal.not().or(factor.greater(0.0));
    let (row_axis, column_axis) = axes(a);
    let failures = is_positive.not().cast(DType::I32).reduce_sum(&[row_axis, column_axis], true);
    Ok(failures.greater(0.0).select(a.constant(f64::NAN), factor))
}

/// `R'` with `R'ᵀ · R' = Rᵀ · R + z · zᵀ`, upper triangular as `R`
///
/// Round `k` turns row `k` and `z` in their plane so that `zₖ` becomes zero.
pub(crate) fn cholesky_update<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let [r, z] = operands(eqn)?;
    let (size, _) = size_of(r);
    let rows = row_numbers(ctx.builder, &size);

    let z = z.unsqueeze(&[z.rank() - 1]);
    let [r, _] = rounds(ctx.builder, &size, [r, z], |k, [r, z]| {
        let current = row(r, k);
        let (x, y) = (column(current, k), column(z, k));
        let is_zero = y.equal(0.0);
        let larger = is_zero.select(x.constant(1.0), x.abs().max(y.abs()));
        let (x, y) = (x / larger, y / larger);
        let length = (x * x + y * y).sqrt();
        let cosine = is_zero.select(x.constant(1.0), x / length);
        let sine = is_zero.select(x.constant(0.0), y / length);
        let turned = cosine * current + sine * z;
        [rows.equal(k).select(turned, r), cosine * z - sine * current]
    });
    Ok(r)
}

/// `X` with `op(A) · X = B` or `X · op(A) = B`, where only one triangle of `A` is looked at
///
/// Any case is that of a matrix on the left: `X · A = B` is `Aᵀ · Xᵀ = Bᵀ`, and the transpose of a
/// lower triangle is an upper one. Round `k` finishes one row of `X` and takes its share from the rows
/// that are still open; from the first row on for a lower triangle, from the last for an upper one.
pub(crate) fn triangular_solve<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let left: bool = eqn.param("left_side")?;
    let lower: bool = eqn.param("lower")?;
    let transpose: bool = eqn.param("transpose_a")?;
    let unit: bool = eqn.param("unit_diagonal")?;
    // A real matrix is its own conjugate.
    eqn.ignore(&["conjugate_a"]);
    let [a, b] = operands(eqn)?;

    let flip = transpose == left;
    let a = if flip { transposed(a) } else { a };
    let lower = lower != flip;
    let right = if left { b } else { transposed(b) };
    let (size, _) = size_of(a);
    let rows = row_numbers(ctx.builder, &size);
    let last = ctx.builder.size(&size) - ctx.builder.constant_ints(DType::I64, &[], &[1]);

    let [solution] = rounds(ctx.builder, &size, [right], |k, [x]| {
        let k = if lower { k } else { last - k };
        let current = column(a, k);
        let done = if unit { row(x, k) } else { row(x, k) / row(current, k) };
        let rest = x - current * done;
        let is_open = if lower { rows.greater(k) } else { rows.less(k) };
        let others = if unit { x } else { rows.equal(k).select(done, x) };
        [is_open.select(rest, others)]
    });
    Ok(if left { solution } else { transposed(solution) })
}
