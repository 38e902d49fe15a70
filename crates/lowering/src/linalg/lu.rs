//! Gaussian elimination with row exchanges.

use onnx::{DType, Expr};

use super::batch::{
    axes, batched, column_numbers, position_of_largest, row_numbers, size_of, swapped,
};
use super::loops::loop_over;
use super::matrices;
use super::matrix::Matrix;
use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

/// A smaller matrix is reduced without a loop.
const MAX_UNROLLED: i64 = 4;

/// `A[permutation] = L · U`, with both factors in one matrix. The ones on the diagonal of `L` are
/// not stored.
///
/// Step `k` finds the largest entry of column `k` on or below the diagonal, the first one if
/// several are equal, exchanges its row with row `k` and stores the exchange in `pivots`. It
/// divides the entries below by the largest entry, and subtracts multiples of row `k` from the rows
/// below. A column of zeros does not change, and neither does one whose largest entry is NaN, as in
/// LAPACK.
pub(crate) fn lu<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let [a] = matrices(eqn)?;
    let [_, pivots_type, permutation_type] = &eqn.outputs[..] else {
        return Err(eqn.broken("it does not have three results").into());
    };
    let builder = ctx.builder;
    let (height, width) = size_of(a.re);
    let steps = pivots_type.shape[pivots_type.rank() - 1].clone();
    let (row_axis, column_axis) = axes(a.re);
    let rows = row_numbers(builder, &height);
    let columns = column_numbers(builder, &width);
    let step_numbers = row_numbers(builder, &steps);

    let permutation = rows.expand(&batched(a.re, &[height.clone(), 1.into()]));
    let pivots = step_numbers.expand(&batched(a.re, &[steps.clone(), 1.into()]));
    let start = (a, [pivots, permutation]);
    let step = |k: Expr<'g>, (a, [pivots, permutation]): (Matrix<'g>, [Expr<'g>; 2])| {
        let open = rows.less(k).select(a.re.constant(-1.0), a.column(k).sizes());
        let pivot = position_of_largest(open, row_axis, k);
        let a = a.map(|part| swapped(part, row_axis, rows, k, pivot));
        let current = a.row(k);
        let divisor = current.column(k);
        let divisor = Matrix::choose(divisor.sizes().greater(0.0), divisor, a.constant(1.0));
        let factors = a.column(k).div(divisor);
        let rest = a - factors * current;
        let is_current = columns.equal(k);
        let below = Matrix::choose(is_current, factors, Matrix::choose(columns.less(k), a, rest));
        let a = Matrix::choose(rows.greater(k), below, a);
        let pivots = step_numbers.equal(k).select(pivot, pivots);
        (a, [pivots, swapped(permutation, row_axis, rows, k, pivot)])
    };
    let (a, [pivots, permutation]) = match (height.known(), steps.known()) {
        // The last row of a square matrix has no row below.
        (Some(rows), Some(steps)) if steps <= MAX_UNROLLED => {
            (0..steps.min(rows - 1)).fold(start, |state, k| step(builder.ints(&[k]), state))
        }
        _ => loop_over(builder, &steps, start, step),
    };
    let list = |x: Expr<'g>, dtype: DType| x.squeeze(&[column_axis]).cast(dtype);
    Ok(vec![a.value(), list(pivots, pivots_type.dtype), list(permutation, permutation_type.dtype)])
}

/// Returns the permutation that results from exchanging entry `k` with entry `pivotsₖ`, one `k`
/// after the other.
pub(crate) fn lu_pivots_to_permutation<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    eqn.ignore(&["permutation_size"]);
    let [pivots] = eqn.operands()?;
    let result = eqn.output()?;
    let axis = result.rank() - 1;
    let numbers = column_numbers(ctx.builder, &result.shape[axis]);
    let steps = pivots.shape()[axis].clone();
    let pivots = pivots.cast(DType::I64);

    let start = numbers.expand(&result.shape);
    let [permutation] = loop_over(ctx.builder, &steps, [start], |k, [permutation]| {
        [swapped(permutation, axis, numbers, k, pivots.gather(k, axis))]
    });
    Ok(permutation.cast(result.dtype))
}
