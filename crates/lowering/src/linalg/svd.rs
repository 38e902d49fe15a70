//! Singular values and vectors.

use onnx::{DType, Expr, Type};

use super::batch::{axes, batched, column_numbers, diagonal, epsilon, sorted};
use super::householder::{factor, orthogonal};
use super::jacobi::{Tournament, phases, tangent, with_phases};
use super::loops::{Carried, loop_over, loop_while};
use super::matrix::Matrix;
use super::{known_sizes, matrices};
use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

/// The maximum number of sweeps. No matrix needs that many, because the products of columns
/// decrease quadratically.
const SWEEPS: i64 = 30;

/// `A = U · diag(s) · Vᴴ` with descending `s` and orthogonal or unitary `U` and `V`
///
/// For a wide matrix, factors its adjoint.
pub(crate) fn svd<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let full: bool = eqn.param("full_matrices")?;
    let with_vectors: bool = eqn.param("compute_uv")?;
    let subset: Option<(i64, i64)> = eqn.optional("subset_by_index")?.flatten();
    eqn.ignore(&["algorithm"]);
    let [a] = matrices(eqn)?;
    let (height, width) = known_sizes(eqn, a.re)?;
    let rank = height.min(width);
    if rank == 0 {
        return Ok(eqn.outputs.iter().map(|ty| trivial(ctx, a, ty)).collect());
    }

    let (row_axis, column_axis) = axes(a.re);
    let is_wide = width > height;
    let tall = if is_wide { a.adjoint() } else { a };
    let (values, vectors) = of_tall(tall, height.max(width), rank, with_vectors, full);
    let mut results = vec![Matrix::real(values)];
    if let Some((left, right)) = vectors {
        let (left, right) = match (is_wide, rank) {
            (true, _) => (right, left),
            // With one column, the left vector gets the sign.
            (false, 1) => {
                let axis = column_numbers(ctx.builder, &left.shape()[column_axis]);
                let is_first = axis.equal(ctx.builder.ints(&[0]));
                (Matrix::choose(is_first, left * right, left), right * right)
            }
            (false, _) => (left, right),
        };
        results.extend([left, right.adjoint()]);
    }
    if let Some((start, end)) = subset
        && (start, end) != (0, rank)
    {
        let axes = [row_axis, column_axis, row_axis];
        let parts = results.iter().zip(axes);
        results = parts.map(|(x, axis)| x.slice_axis(axis, start, end)).collect();
    }
    Ok(results.into_iter().map(Matrix::value).collect())
}

/// Returns a result for a matrix without elements: the identity for `U` and `V`.
fn trivial<'g>(ctx: &Ctx<'g>, a: Matrix<'g>, ty: &Type) -> Expr<'g> {
    let shape = &ty.shape[..ty.rank() - usize::from(a.is_complex())];
    match *shape {
        [.., onnx::Dim::Known(rows), onnx::Dim::Known(columns)]
            if shape.len() == a.re.rank() && rows == columns =>
        {
            a.identity(rows, columns).value()
        }
        _ => ctx.builder.scalar(ty.dtype, 0.0).expand(&ty.shape),
    }
}

/// Returns the singular values, and `U` and `V` if wanted, of a matrix with at least as many rows
/// as columns.
///
/// Rotations of pairs of columns make all columns of `A · V` orthogonal. With the squared norms `α`
/// and `β` of two columns and their product `γ`, the tangent `t` of the angle is a solution of
/// `t² + (β − α) / γ · t = 1`. Then the columns are `s · U`. They are sorted by descending norm and
/// factored by reflections, which returns vectors even where `s` is zero, and all columns of `U`.
/// The result is `s` except for signs, which `V` gets.
fn of_tall<'g>(
    a: Matrix<'g>,
    height: i64,
    width: i64,
    with_vectors: bool,
    full: bool,
) -> (Expr<'g>, Option<(Matrix<'g>, Matrix<'g>)>) {
    let (row_axis, column_axis) = axes(a.re);
    let zero_or_nan = a.zero_or_nan();
    let a = a.map(|part| part + zero_or_nan);
    let scale = a.magnitude();
    let scale = scale.equal(0.0).select(a.re.constant(1.0), scale);

    let tournament = Tournament::of(width);
    let whole = if width == 1 { 1 } else { tournament.size };
    let mut start = a.over(scale);
    if whole > width {
        let column = a.re.constant(0.0).expand(&batched(a.re, &[height.into(), 1.into()]));
        start = start.map(|part| Expr::concat(&[part, column], column_axis));
    }
    if with_vectors {
        start = start.above(a.identity(width, whole));
    }
    let top = |x: Matrix<'g>| x.slice_axis(row_axis, 0, height);
    let rotated = if width == 1 { start } else { rotate(start, height, &tournament) };

    let rotated = rotated.slice_axis(column_axis, 0, width);
    let lengths = top(rotated).squares().reduce_sum(&[row_axis], false).sqrt();
    let mut vectors = Vec::new();
    if with_vectors {
        rotated.list(&mut vectors);
    }
    let (lengths, vectors) = sorted(lengths, width, false, &vectors);
    let values = lengths * scale.squeeze(&[row_axis]);
    if !with_vectors {
        return (values, None);
    }
    let rotated = rotated.replaced(&mut vectors.into_iter());
    let packed = factor(top(rotated), height, width, false);
    let left = orthogonal(&packed, height, if full { height } else { width });
    let right = rotated.slice_axis(row_axis, height, height + width);
    let signs = diagonal(packed.matrix.re, height, width).less(0.0).unsqueeze(&[row_axis]);
    let right = Matrix::choose(signs, -right, right);
    (values, Some((left, right.map(|part| part + zero_or_nan))))
}

/// Rotates pairs of columns until all columns are orthogonal in their first `height` entries.
///
/// For complex columns, a phase of the second column first makes the product of both real.
fn rotate<'g>(start: Matrix<'g>, height: i64, tournament: &Tournament) -> Matrix<'g> {
    let builder = start.builder();
    let (row_axis, column_axis) = axes(start.re);
    let half = tournament.half();
    let tolerance = (height as f64).sqrt() * epsilon(start.dtype());
    let none = builder.constant_ints(DType::I32, &[], &[0]);
    loop_while(builder, SWEEPS, start, |x| {
        let steps = tournament.steps().into();
        let (x, rotations) = loop_over(builder, &steps, (x, none), |_, (x, rotations)| {
            let columns = x.slice_axis(row_axis, 0, height);
            let first = columns.slice_axis(column_axis, 0, half);
            let second = columns.slice_axis(column_axis, half, tournament.size);
            let square = |x: Matrix<'g>| x.squares().reduce_sum(&[row_axis], false);
            let (alpha, beta) = (square(first), square(second));
            let gamma = (first.conj() * second).reduce_sum(&[row_axis], false);
            let (gamma, phases) = phases(gamma);
            let limit = alpha.sqrt() * beta.sqrt() * tolerance;
            let is_idle = gamma.abs().greater(limit).logical_not();
            let rotation = tournament.rotation(tangent(beta - alpha, gamma, is_idle));
            let every: Vec<usize> = (0..is_idle.rank()).collect();
            let busy = is_idle.logical_not().cast(DType::I32).reduce_sum(&every, false);
            let x = with_phases(x, column_axis, phases.map(Matrix::conj));
            (x.map(|part| tournament.rotate(part, column_axis, &rotation)), rotations + busy)
        });
        (rotations.greater(0.0), x)
    })
}
