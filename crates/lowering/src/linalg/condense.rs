//! Reduces matrices to similar matrices with few entries off the diagonal.

use onnx::{Dim, Expr, Range};

use super::householder::reflection;
use super::{
    axes, batched, column, column_numbers, diagonal, is_diagonal, known_sizes, operands, refused,
    rounds, row_numbers, transposed,
};
use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

/// `A = Q · H · Qᵀ` with zeros below the first subdiagonal of `H`, where the vectors of the
/// reflections stand
///
/// Round `k` reflects column `k` onto the entry below its diagonal, on both sides of the matrix.
pub(crate) fn hessenberg<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let [a] = operands(eqn)?;
    let (size, _) = known_sizes(eqn, a)?;
    let builder = ctx.builder;
    let steps = Dim::Known((size - 1).max(0));
    let rows = row_numbers(builder, &size.into());
    let columns = column_numbers(builder, &size.into());
    let step_numbers = column_numbers(builder, &steps);
    let (row_axis, _) = axes(a);

    let taus = a.constant(0.0).expand(&batched(a, &[1.into(), steps.clone()]));
    let one = builder.ints(&[1]);
    let [a, taus] = rounds(builder, &steps, [a, taus], |k, [a, taus]| {
        let below = k + one;
        let current = column(a, k);
        let reflection = reflection(current, rows, below);
        let upper = rows.equal(below).select(reflection.beta, current);
        let packed = rows.greater(below).select(reflection.vector, upper);
        let right = transposed(reflection.apply(transposed(a)));
        let both = columns.greater(k).select(reflection.apply(right), a);
        let taus = step_numbers.equal(k).select(reflection.tau, taus);
        [columns.equal(k).select(packed, both), taus]
    });
    Ok(vec![a, taus.squeeze(&[row_axis])])
}

/// `A = Q · T · Qᵀ` of a symmetric matrix: the vectors of the reflections beside `T`, the diagonal and
/// the subdiagonal of `T`, and the factors `τ`
///
/// Only one triangle of `A` is looked at, and only that is written to. The upper one is the lower one
/// of the matrix with rows and columns backwards.
pub(crate) fn tridiagonal<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let lower: bool = eqn.param("lower")?;
    let [a] = operands(eqn)?;
    let (size, _) = known_sizes(eqn, a)?;
    let builder = ctx.builder;
    let (row_axis, column_axis) = axes(a);
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

    let given = backwards(a, &[row_axis, column_axis]);
    let symmetric = rows.less(columns).select(transposed(given), given);
    let nothing = a.constant(0.0).expand(&batched(a, &[1.into(), steps.clone()]));
    let one = builder.ints(&[1]);
    let start = [symmetric, given, nothing, nothing];
    let [symmetric, packed, beside, taus] =
        rounds(builder, &steps, start, |k, [a, packed, beside, taus]| {
            let below = k + one;
            let reflection = reflection(column(a, k), rows, below);
            let (v, tau) = (reflection.vector, reflection.tau);
            // H · A · H = A − v · wᵀ − w · vᵀ with p = τ · A · v, w = p − ½ · τ · (pᵀ · v) · v
            let p = a.matmul(v) * tau;
            let w = p - v * (transposed(p).matmul(v) * tau * 0.5);
            let both = a - (v * transposed(w) + w * transposed(v));
            let here = rows.equal(below).select(reflection.beta, packed);
            let here = rows.greater(below).select(v, here);
            let is_step = step_numbers.equal(k);
            [
                both,
                columns.equal(k).select(here, packed),
                is_step.select(reflection.beta, beside),
                is_step.select(tau, taus),
            ]
        });
    let packed = is_diagonal(builder, size).select(symmetric, packed);
    let list = |x: Expr<'g>| backwards(x.squeeze(&[row_axis]), &[row_axis]);
    Ok(vec![
        backwards(packed, &[row_axis, column_axis]),
        backwards(diagonal(symmetric, size, size), &[row_axis]),
        list(beside),
        list(taus),
    ])
}

/// `A = Q · T · Qᵀ` with `T` upper triangular but for blocks of two; of one number, `T` is it
pub(crate) fn schur<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let with_vectors: bool = eqn.param("compute_schur_vectors")?;
    eqn.refuse(&["sort_eig_vals"])?;
    eqn.ignore(&["select_callable"]);
    let [a] = operands(eqn)?;
    let (size, _) = known_sizes(eqn, a)?;
    if size > 1 {
        return Err(refused(eqn, "of a matrix with more than one row").into());
    }
    let mut results = vec![a];
    if with_vectors {
        results.push(super::identity(a, size, size));
    }
    Ok(results)
}
