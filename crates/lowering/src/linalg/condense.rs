//! Reduces matrices to similar matrices with few entries off the diagonal.

use onnx::{Dim, Expr, Range};

use super::batch::{axes, batched, column_numbers, diagonal, is_diagonal, row_numbers};
use super::householder::reflection;
use super::loops::loop_over;
use super::matrix::Matrix;
use super::{known_sizes, matrices, refused};
use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

/// `A = Q · H · Qᴴ`, where `H` is zero below the first subdiagonal. The result stores the vectors
/// of the reflections there.
///
/// Step `k` reflects column `k` onto the entry below the diagonal, on both sides of the matrix.
pub(crate) fn hessenberg<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let [a] = matrices(eqn)?;
    let (size, _) = known_sizes(eqn, a.re)?;
    let builder = ctx.builder;
    let steps = Dim::Known((size - 1).max(0));
    let rows = row_numbers(builder, &size.into());
    let columns = column_numbers(builder, &size.into());
    let step_numbers = column_numbers(builder, &steps);
    let (row_axis, _) = axes(a.re);

    let like_taus = batched(a.re, &[1.into(), steps.clone()]);
    let taus = a.constant(0.0).map(|part| part.expand(&like_taus));
    let one = builder.ints(&[1]);
    let [a, taus] = loop_over(builder, &steps, [a, taus], |k, [a, taus]| {
        let below = k + one;
        let current = a.column(k);
        let reflection = reflection(current, rows, below);
        let upper = Matrix::choose(rows.equal(below), Matrix::real(reflection.beta), current);
        let packed = Matrix::choose(rows.greater(below), reflection.vector, upper);
        let reflected = reflection.adjoint();
        let right = reflected.apply(a.adjoint()).adjoint();
        let both = Matrix::choose(columns.greater(k), reflected.apply(right), a);
        let taus = Matrix::choose(step_numbers.equal(k), reflection.tau, taus);
        [Matrix::choose(columns.equal(k), packed, both), taus]
    });
    Ok(vec![a.value(), taus.map(|part| part.squeeze(&[row_axis])).value()])
}

/// `A = Q · T · Qᴴ` for a Hermitian matrix. Returns the vectors of the reflections beside `T`, the
/// diagonal and the subdiagonal of `T`, and the factors `τ`.
///
/// Reads and writes only one triangle of `A`. If rows and columns are reversed, the upper triangle
/// becomes the lower one.
pub(crate) fn tridiagonal<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let lower: bool = eqn.param("lower")?;
    let [a] = matrices(eqn)?;
    let (size, _) = known_sizes(eqn, a.re)?;
    let builder = ctx.builder;
    let (row_axis, column_axis) = axes(a.re);
    let backwards = |x: Expr<'g>, axes: &[usize]| {
        let range = |axis: usize| {
            if !lower && axes.contains(&axis) { Range::backwards() } else { Range::whole() }
        };
        let ranges: Vec<Range> = (0..x.rank()).map(range).collect();
        x.slice(&ranges, &x.shape())
    };
    let steps = Dim::Known(size - 1);
    let rows = row_numbers(builder, &size.into());
    let columns = column_numbers(builder, &size.into());
    let step_numbers = column_numbers(builder, &steps);

    let given = a.map(|part| backwards(part, &[row_axis, column_axis]));
    let symmetric = Matrix::choose(rows.less(columns), given.adjoint(), given);
    let real = |im: Expr<'g>| is_diagonal(builder, size).select(im.constant(0.0), im);
    let symmetric = Matrix { re: symmetric.re, im: symmetric.im.map(real) };
    let like_taus = batched(a.re, &[1.into(), steps.clone()]);
    let zeros = a.constant(0.0).map(|part| part.expand(&like_taus));
    let one = builder.ints(&[1]);
    let start = ([symmetric, given], (zeros.re, zeros));
    let ([symmetric, packed], (off_diagonal, taus)) =
        loop_over(builder, &steps, start, |k, ([a, packed], (off_diagonal, taus))| {
            let below = k + one;
            let reflection = reflection(a.column(k), rows, below);
            let (v, tau) = (reflection.vector, reflection.tau);
            // Hᴴ · A · H = A − v · wᴴ − w · vᴴ with p = τ · A · v, w = p − ½ · τ · (pᴴ · v) · v
            let p = a.matmul(v) * tau;
            let half = p.adjoint().matmul(v) * tau;
            let w = p - v * half.map(|part| part * 0.5);
            let both = a - (v * w.adjoint() + w * v.adjoint());
            let beta = Matrix::real(reflection.beta);
            let here = Matrix::choose(rows.equal(below), beta, packed);
            let here = Matrix::choose(rows.greater(below), v, here);
            let is_step = step_numbers.equal(k);
            let packed = Matrix::choose(columns.equal(k), here, packed);
            let off_diagonal = is_step.select(reflection.beta, off_diagonal);
            ([both, packed], (off_diagonal, Matrix::choose(is_step, tau, taus)))
        });
    let packed = Matrix::choose(is_diagonal(builder, size), symmetric, packed);
    let list = |x: Expr<'g>| backwards(x.squeeze(&[row_axis]), &[row_axis]);
    Ok(vec![
        packed.map(|part| backwards(part, &[row_axis, column_axis])).value(),
        backwards(diagonal(symmetric.re, size, size), &[row_axis]),
        list(off_diagonal),
        taus.map(list).value(),
    ])
}

/// `A = Q · T · Qᵀ`, where `T` is upper triangular except for blocks of two rows. For a matrix with
/// one row, `T` is `A`.
pub(crate) fn schur<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let with_vectors: bool = eqn.param("compute_schur_vectors")?;
    eqn.refuse(&["sort_eig_vals"])?;
    eqn.ignore(&["select_callable"]);
    let [a] = matrices(eqn)?;
    let (size, _) = known_sizes(eqn, a.re)?;
    if size > 1 {
        return Err(refused(eqn, "of a matrix with more than one row").into());
    }
    let mut results = vec![a.value()];
    if with_vectors {
        results.push(a.identity(size, size).value());
    }
    Ok(results)
}
