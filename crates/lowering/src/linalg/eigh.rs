//! Eigenvalues and eigenvectors of symmetric and Hermitian matrices.

use onnx::{Expr, Type};

use super::batch::{
    any, axes, batched, column_numbers, diagonal, epsilon, is_diagonal, row_numbers, sorted,
};
use super::jacobi::{Tournament, phases, tangent, with_phases};
use super::loops::{Carried, loop_over, loop_while};
use super::matrix::Matrix;
use super::{known_sizes, matrices};
use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

/// The maximum number of sweeps. No matrix needs that many, because the off-diagonal entries
/// decrease quadratically.
const SWEEPS: i64 = 30;

/// `A · V = V · diag(w)` with ascending `w` and `Vᴴ · V = I`; reads one triangle of `A`
pub(crate) fn eigh<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let lower: bool = eqn.param("lower")?;
    let subset: Option<(i64, i64)> = eqn.optional("subset_by_index")?.flatten();
    // All algorithms compute the same, and if any order is allowed, ascending order is too.
    eqn.ignore(&["algorithm", "sort_eigenvalues"]);
    let [a] = matrices(eqn)?;
    let (size, _) = known_sizes(eqn, a.re)?;

    let (row_axis, column_axis) = axes(a.re);
    let (values, vectors) = match size {
        0 => return Ok(eqn.outputs.iter().map(|ty| zeros(ctx, ty)).collect()),
        1 => (a.re.squeeze(&[column_axis]), a.with_real(a.re * 0.0 + 1.0)),
        2 => of_two(a, lower),
        _ => {
            let rows = row_numbers(ctx.builder, &size.into());
            let columns = column_numbers(ctx.builder, &size.into());
            let is_given = if lower { rows.less(columns) } else { columns.less(rows) };
            let whole = Matrix::choose(is_given, a.adjoint(), a);
            let real = |im: Expr<'g>| rows.equal(columns).select(im.constant(0.0), im);
            let (values, vectors) =
                by_rotations(Matrix { re: whole.re, im: whole.im.map(real) }, size);
            (values, with_real_row(vectors, if lower { 0 } else { size - 1 }))
        }
    };
    Ok(match subset {
        Some((start, end)) if (start, end) != (0, size) => vec![
            vectors.slice_axis(column_axis, start, end).value(),
            values.slice_axis(row_axis, start, end),
        ],
        _ => vec![vectors.value(), values],
    })
}

/// Multiplies each complex vector by a phase that makes one of its entries real, as in LAPACK.
#[track_caller]
fn with_real_row(vectors: Matrix<'_>, row: i64) -> Matrix<'_> {
    if !vectors.is_complex() {
        return vectors;
    }
    let (row_axis, _) = axes(vectors.re);
    let (length, phase) = vectors.slice_axis(row_axis, row, row + 1).polar();
    let rotated = vectors * phase.conj();
    let is_row = row_numbers(vectors.builder(), &rotated.shape()[row_axis])
        .equal(vectors.builder().ints(&[row]));
    Matrix::choose(is_row, Matrix::real(length), rotated)
}

fn zeros<'g>(ctx: &Ctx<'g>, ty: &Type) -> Expr<'g> {
    ctx.builder.scalar(ty.dtype, 0.0).expand(&ty.shape)
}

/// Runs sweeps of rotations. Each rotation clears a pair of off-diagonal entries.
///
/// With `ζ = (a_qq − a_pp) / (2 · a_pq)`, the tangent `t` of the angle is a solution of
/// `t² + 2 · ζ · t = 1`. Before, a phase of row and column `q` makes a complex `a_pq` real.
fn by_rotations(a: Matrix<'_>, size: i64) -> (Expr<'_>, Matrix<'_>) {
    let builder = a.builder();
    let tournament = Tournament::of(size);
    let (row_axis, column_axis) = axes(a.re);
    let zero_or_nan = a.zero_or_nan();
    let padded = a.map(|part| padded(part + zero_or_nan, size, tournament.size));
    let (half, whole) = (tournament.half(), tournament.size);
    let met = tournament.met(builder);
    let is_on_it = is_diagonal(builder, whole);
    let zero = a.constant(0.0);

    let start = [padded, a.identity(size, whole)];
    let [a, vectors] = loop_while(builder, SWEEPS, start, |swept| {
        let [a, vectors] =
            loop_over(builder, &tournament.steps().into(), swept, |_, [a, vectors]| {
                let on_it = diagonal(a.re, whole, whole);
                let difference =
                    on_it.slice_axis(row_axis, half, whole) - on_it.slice_axis(row_axis, 0, half);
                let block = a.slice_axis(row_axis, 0, half).slice_axis(column_axis, half, whole);
                let off_diagonal = block.map(|part| diagonal(part, half, half));
                let (off_diagonal, phases) = phases(off_diagonal);
                let rotation =
                    tournament.rotation(tangent(difference, off_diagonal, off_diagonal.equal(0.0)));
                let a = with_phases(a, row_axis, phases);
                let a = with_phases(a, column_axis, phases.map(Matrix::conj));
                let rotated = a.map(|part| tournament.rotate(part, row_axis, &rotation));
                let rotated = rotated.map(|part| tournament.rotate(part, column_axis, &rotation));
                let vectors = with_phases(vectors, column_axis, phases.map(Matrix::conj));
                let vectors = vectors.map(|part| tournament.rotate(part, column_axis, &rotation));
                [Matrix::choose(met, zero, rotated), vectors]
            });
        let off_diagonal = Matrix::choose(is_on_it, zero, a).magnitude();
        (any(off_diagonal.greater(a.magnitude() * epsilon(a.dtype()))), [a, vectors])
    });
    let values = diagonal(a.re, size, size);
    let vectors = vectors.slice_axis(column_axis, 0, size);
    let parts: Vec<Expr<'_>> = std::iter::once(vectors.re).chain(vectors.im).collect();
    let (values, parts) = sorted(values, size, true, &parts);
    (values, vectors.replaced(&mut parts.into_iter()))
}

/// Adds a last row and column of zeros if `size` is less than `whole`.
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

/// Returns the eigenvalues and eigenvectors of matrices with two rows.
///
/// A phase of the row and the column of `b` in the given triangle makes a complex `b` real, with
/// the sign opposite to that of its real part.
fn of_two(matrix: Matrix<'_>, lower: bool) -> (Expr<'_>, Matrix<'_>) {
    let (row_axis, _) = axes(matrix.re);
    let place = if lower { (1, 0) } else { (0, 1) };
    let Some(im) = matrix.im.map(|im| entry(im, place)) else {
        let (values, vectors) = of_real_two(matrix.re, entry(matrix.re, place));
        return (values, Matrix::real(vectors));
    };
    let b = Matrix { re: entry(matrix.re, place), im: Some(im) };
    let (length, phase) = b.polar();
    let is_real = im.equal(0.0);
    let falls = b.re.less(0.0);
    let beta = is_real.select(b.re, falls.select(length, -length));
    let (values, vectors) = of_real_two(matrix.re, beta);
    let phase = Matrix::choose(falls, phase, -phase);
    let phase = Matrix::choose(is_real, matrix.constant(1.0), phase);
    let phase = phase.map(|part| part.unsqueeze(&[row_axis]));
    let rotated = matrix.with_real(vectors) * phase;
    let is_row = row_numbers(matrix.builder(), &2.into()).equal(matrix.builder().ints(&[place.0]));
    (values, Matrix::choose(is_row, rotated, Matrix::real(vectors)))
}

/// Returns an entry of each matrix, as a list of one element.
#[track_caller]
fn entry(matrix: Expr<'_>, (row, column): (i64, i64)) -> Expr<'_> {
    let (row_axis, column_axis) = axes(matrix);
    let row = matrix.slice_axis(row_axis, row, row + 1);
    row.slice_axis(column_axis, column, column + 1).squeeze(&[row_axis])
}

/// Returns the eigenvalues and eigenvectors of `[a b; b c]`, in closed form.
///
/// With `r = √((a − c)² + 4b²)`, the eigenvalue with the larger magnitude is `½ · (a + c ± r)`,
/// with the sign of `a + c`, and the other one follows from the determinant. The signs of the
/// vectors are those of LAPACK.
fn of_real_two<'g>(matrix: Expr<'g>, b: Expr<'g>) -> (Expr<'g>, Expr<'g>) {
    let (row_axis, _) = axes(matrix);
    let (a, c) = (entry(matrix, (0, 0)), entry(matrix, (1, 1)));
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
    let rotations = sum_falls.equal(difference_falls);
    let (x, y) = (rotations.select(-y, x), rotations.select(x, y));

    // An off-diagonal entry that is lost in rounding counts as zero.
    let negligible = a.abs().sqrt() * c.abs().sqrt() * (epsilon(a.dtype()) / 2.0);
    let is_done = b.abs().less_equal(negligible);
    let (first, second) = (is_done.select(a, first), is_done.select(c, second));
    let (x, y) = (is_done.select(one, x), is_done.select(a.constant(0.0), y));

    // The vectors (x, y) and (−y, x), in the order of their eigenvalues.
    let swaps = second.less(first);
    let top = Expr::concat(&[swaps.select(-y, x), swaps.select(x, -y)], row_axis);
    let bottom = Expr::concat(&[swaps.select(x, y), swaps.select(y, x)], row_axis);
    let rows = [top.unsqueeze(&[row_axis]), bottom.unsqueeze(&[row_axis])];
    let values = [swaps.select(second, first), swaps.select(first, second)];
    (Expr::concat(&values, row_axis), Expr::concat(&rows, row_axis))
}
