//! Solves tridiagonal systems.

use onnx::{DType, Dim, Expr};

use super::batch::{axes, batched, column, from_the_end, row, row_numbers};
use super::loops::loop_over;
use super::{known_sizes, operands};
use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

/// `X` with `dlᵢ · xᵢ₋₁ + dᵢ · xᵢ + duᵢ · xᵢ₊₁ = bᵢ`; all elements are NaN if there is no solution
///
/// An equation is a row `[dl, d, du, b…]`, with the first entry in the column to clear. Each step
/// takes the open row and the next row. The row with the larger first entry stays and clears the
/// other one, which loses its first entry and becomes the open row of the next step. Then back
/// substitution computes the solution.
pub(crate) fn tridiagonal_solve<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    eqn.refuse(&["perturb_singular"])?;
    let [below, diagonal, above, b] = operands(eqn)?;
    let (size, count) = known_sizes(eqn, b)?;
    if size == 0 || count == 0 {
        return Ok(b);
    }
    let builder = ctx.builder;
    let (row_axis, column_axis) = axes(b);
    let band = [below, diagonal, above].map(|part| part.unsqueeze(&[column_axis]));
    let table = Expr::concat(&[&band[..], &[b]].concat(), column_axis);
    let rows = row_numbers(builder, &size.into());
    let zero = b.constant(0.0).expand(&batched(b, &[1.into(), 1.into()]));
    let width = 3 + count;
    let entry = |row: Expr<'g>, i: i64| row.slice_axis(column_axis, i, i + 1);
    let shifted = |row: Expr<'g>| {
        let right = row.slice_axis(column_axis, 3, width);
        Expr::concat(&[row.slice_axis(column_axis, 1, 3), zero, right], column_axis)
    };

    let one = builder.ints(&[1]);
    let first = shifted(table.slice_axis(row_axis, 0, 1));
    let steps = Dim::Known(size - 1);
    let [table, last] = loop_over(builder, &steps, [table, first], |k, [table, open]| {
        let next = row(table, k + one);
        let is_smaller = entry(open, 0).abs().less(entry(next, 0).abs());
        let (stays, other) = (is_smaller.select(next, open), is_smaller.select(open, next));
        let factor = entry(other, 0) / entry(stays, 0);
        [rows.equal(k).select(stays, table), shifted(other - factor * stays)]
    });
    let table = rows.equal(builder.ints(&[size - 1])).select(last, table);

    let right = table.slice_axis(column_axis, 3, width);
    let zeros = b.constant(0.0).expand(&batched(b, &[1.into(), count.into()]));
    let start = [right, zeros, zeros];
    let [solution, ..] = loop_over(builder, &size.into(), start, |k, [x, after, after_next]| {
        let k = from_the_end(k, &size.into());
        let current = row(table, k);
        let open = row(x, k) - entry(current, 1) * after - entry(current, 2) * after_next;
        let done = open / entry(current, 0);
        [rows.equal(k).select(done, x), done, after]
    });
    let pivots = column(table, builder.ints(&[0]));
    let failures = pivots.equal(0.0).cast(DType::I32).reduce_sum(&[row_axis], true);
    Ok(failures.greater(0.0).select(b.constant(f64::NAN), solution))
}
