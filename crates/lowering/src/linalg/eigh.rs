//! Eigenvalues and eigenvectors of symmetric matrices.

use onnx::{Expr, Type};

use super::jacobi::{Tournament, tangent};
use super::{
    any, axes, batched, column_numbers, diagonal, epsilon, identity, is_diagonal, known_sizes,
    magnitude, operands, rounds, rounds_while, row_numbers, sorted, transposed, zero_or_nan,
};
use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

/// More iterations than any matrix needs, because the off-diagonal entries decrease quadratically.
const SWEEPS: i64 = 30;

/// `A · V = V · diag(w)` with `w` ascending and `Vᵀ · V = I`, of one triangle of `A`
pub(crate) fn eigh<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let lower: bool = eqn.param("lower")?;
    let subset: Option<(i64, i64)> = eqn.optional("subset_by_index")?.flatten();
    // What an algorithm computes does not depend on it, and ascending order is one of all.
    eqn.ignore(&["algorithm", "sort_eigenvalues"]);
    let [a] = operands(eqn)?;
    let (size, _) = known_sizes(eqn, a)?;

    let (row_axis, column_axis) = axes(a);
    let (values, vectors) = match size {
        0 => return Ok(eqn.outputs.iter().map(|ty| nothing(ctx, ty)).collect()),
        1 => (a.squeeze(&[column_axis]), a * 0.0 + 1.0),
        2 => of_two(a, lower),
        _ => {
            let rows = row_numbers(ctx.builder, &size.into());
            let columns = column_numbers(ctx.builder, &size.into());
            let is_given = if lower { rows.less(columns) } else { columns.less(rows) };
            by_rotations(is_given.select(transposed(a), a), size)
        }
    };
    Ok(match subset {
        Some((start, end)) if (start, end) != (0, size) => vec![
            vectors.slice_axis(column_axis, start, end),
            values.slice_axis(row_axis, start, end),
        ],
        _ => vec![vectors, values],
    })
}

fn nothing<'g>(ctx: &Ctx<'g>, ty: &Type) -> Expr<'g> {
    ctx.builder.scalar(ty.dtype, 0.0).expand(&ty.shape)
}

/// Runs sweeps of rotations, each of which clears one pair of entries beside the diagonal
///
/// With `ζ = (a_qq − a_pp) / (2 · a_pq)` the angle has the tangent `t` with `t² + 2 · ζ · t = 1`.
fn by_rotations(a: Expr<'_>, size: i64) -> (Expr<'_>, Expr<'_>) {
    let builder = a.builder;
    let tournament = Tournament::of(size);
    let (row_axis, column_axis) = axes(a);
    let padded = padded(a + zero_or_nan(a), size, tournament.size);
    let (half, whole) = (tournament.half(), tournament.size);
    let met = tournament.met(builder);
    let is_on_it = is_diagonal(builder, whole);
    let zero = a.constant(0.0);

    let start = [padded, identity(a, size, whole)];
    let [a, vectors] = rounds_while(builder, SWEEPS, start, |swept| {
        let [a, vectors] =
            rounds(builder, &tournament.rounds().into(), swept, |_, [a, vectors]| {
                let on_it = diagonal(a, whole, whole);
                let difference =
                    on_it.slice_axis(row_axis, half, whole) - on_it.slice_axis(row_axis, 0, half);
                let block = a.slice_axis(row_axis, 0, half).slice_axis(column_axis, half, whole);
                let beside = diagonal(block, half, half);
                let turn = tournament.turn(tangent(difference, beside, beside.equal(0.0)));
                let rotated = tournament.play(a, row_axis, &turn);
                let rotated = tournament.play(rotated, column_axis, &turn);
                [met.select(zero, rotated), tournament.play(vectors, column_axis, &turn)]
            });
        let beside = magnitude(is_on_it.select(zero, a));
        (any(beside.greater(magnitude(a) * epsilon(a.dtype()))), [a, vectors])
    });
    let values = diagonal(a, size, size);
    let (values, vectors) = sorted(values, size, true, &[vectors.slice_axis(column_axis, 0, size)]);
    (values, vectors[0])
}

/// Returns a matrix with zeros in a last row and column, if it has less than `whole`.
#[track_caller]
fn padded(a: Expr<'_>, size: i64, whole: i64) -> Expr<'_> {
    if size == whole {
        return a;
    }
    let (row_axis, column_axis) = axes(a);
    let zeros = |rows: i64, columns: i64| {
        a.constant(0.0).expand(&batched(a, &[rows.into(), columns.into()]))
    };
    let wider = Expr::concat(&[a, zeros(size, 1)], column_axis);
    Expr::concat(&[wider, zeros(1, whole)], row_axis)
}

/// Returns the closed form for `[a b; b c]`
///
/// With `r = √((a − c)² + 4b²)`, the eigenvalue of larger size is `½ · (a + c ± r)` with the sign of
/// `a + c`, and the other one follows from the determinant. Signs of vectors are LAPACK's.
fn of_two(matrix: Expr<'_>, lower: bool) -> (Expr<'_>, Expr<'_>) {
    let (row_axis, column_axis) = axes(matrix);
    let entry = |i: i64, j: i64| {
        let row = matrix.slice_axis(row_axis, i, i + 1);
        row.slice_axis(column_axis, j, j + 1).squeeze(&[row_axis])
    };
    let (a, c) = (entry(0, 0), entry(1, 1));
    let b = if lower { entry(1, 0) } else { entry(0, 1) };
    let one = a.constant(1.0);

    let (sum, difference, twice) = (a + c, a - c, b + b);
    let (sum_falls, difference_falls) = (sum.less(0.0), difference.less(0.0));
    let (wide, high) = (difference.abs(), twice.abs());
    let larger = wide.max(high);
    let ratio = wide.min(high) / larger.equal(0.0).select(one, larger);
    let root = (ratio * ratio + 1.0).sqrt() * larger;
    let first = (sum + sum_falls.select(-root, root)) * 0.5;
    let a_is_larger = a.abs().greater(c.abs());
    let (large, small) = (a_is_larger.select(a, c), a_is_larger.select(c, a));
    let second = (large / first) * small - (b / first) * b;
    let second = sum.equal(0.0).select(-first, second);

    let base = difference + difference_falls.select(-root, root);
    let is_flat = base.abs().greater(high);
    let slope = is_flat.select(-twice / base, -base / twice);
    let long = (slope * slope + 1.0).sqrt().recip();
    let short = slope * long;
    let (x, y) = (is_flat.select(short, long), is_flat.select(long, short));
    let turns = sum_falls.equal(difference_falls);
    let (x, y) = (turns.select(-y, x), turns.select(x, y));

    // An entry beside the diagonal that is lost in rounding counts as zero.
    let negligible = a.abs().sqrt() * c.abs().sqrt() * (epsilon(a.dtype()) / 2.0);
    let is_done = b.abs().less_equal(negligible);
    let (first, second) = (is_done.select(a, first), is_done.select(c, second));
    let (x, y) = (is_done.select(one, x), is_done.select(a.constant(0.0), y));

    // The vectors (x, y) and (−y, x) in the order of their values.
    let swaps = second.less(first);
    let top = Expr::concat(&[swaps.select(-y, x), swaps.select(x, -y)], row_axis);
    let bottom = Expr::concat(&[swaps.select(x, y), swaps.select(y, x)], row_axis);
    let rows = [top.unsqueeze(&[row_axis]), bottom.unsqueeze(&[row_axis])];
    let values = [swaps.select(second, first), swaps.select(first, second)];
    (Expr::concat(&values, row_axis), Expr::concat(&rows, row_axis))
}
