//! Singular values and vectors.

use onnx::{DType, Expr, Type};

use super::householder::{factor, orthogonal};
use super::jacobi::{Tournament, tangent};
use super::{
    axes, batched, column_numbers, diagonal, epsilon, identity, known_sizes, magnitude, operands,
    rounds, rounds_while, sorted, transposed, zero_or_nan,
};
use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

/// More iterations than any matrix needs, because the products of columns decrease quadratically.
const SWEEPS: i64 = 30;

/// `A = U · diag(s) · Vᵀ` with `s` descending and `U`, `V` orthogonal
///
/// A wide matrix is the transpose of a tall one.
pub(crate) fn svd<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let full: bool = eqn.param("full_matrices")?;
    let with_vectors: bool = eqn.param("compute_uv")?;
    let subset: Option<(i64, i64)> = eqn.optional("subset_by_index")?.flatten();
    eqn.ignore(&["algorithm"]);
    let [a] = operands(eqn)?;
    let (height, width) = known_sizes(eqn, a)?;
    let rank = height.min(width);
    if rank == 0 {
        return Ok(eqn.outputs.iter().map(|ty| trivial(ctx, a, ty)).collect());
    }

    let (row_axis, column_axis) = axes(a);
    let is_wide = width > height;
    let tall = if is_wide { transposed(a) } else { a };
    let (values, vectors) = of_tall(tall, height.max(width), rank, with_vectors, full);
    let mut results = vec![values];
    if let Some((left, right)) = vectors {
        let (left, right) = match (is_wide, rank) {
            (true, _) => (right, left),
            // The sign of one value is one of the left vector.
            (false, 1) => {
                let axis = column_numbers(ctx.builder, &left.shape()[column_axis]);
                (axis.equal(ctx.builder.ints(&[0])).select(left * right, left), right * right)
            }
            (false, _) => (left, right),
        };
        results.extend([left, transposed(right)]);
    }
    if let Some((start, end)) = subset
        && (start, end) != (0, rank)
    {
        let axes = [row_axis, column_axis, row_axis];
        let parts = results.iter().zip(axes);
        results = parts.map(|(x, axis)| x.slice_axis(axis, start, end)).collect();
    }
    Ok(results)
}

/// Returns the vectors of a matrix without elements: the axes.
fn trivial<'g>(ctx: &Ctx<'g>, a: Expr<'g>, ty: &Type) -> Expr<'g> {
    match ty.shape[..] {
        [.., onnx::Dim::Known(rows), onnx::Dim::Known(columns)]
            if ty.rank() == a.rank() && rows == columns =>
        {
            identity(a, rows, columns)
        }
        _ => ctx.builder.scalar(ty.dtype, 0.0).expand(&ty.shape),
    }
}

/// Returns the values, and if wanted `U` and `V`, of a matrix with no more columns than rows
///
/// Rotations of pairs of columns make all columns of `A · V` orthogonal: with `α`, `β` their squares and
/// `γ` their product, the angle has the tangent `t` with `t² + (β − α) / γ · t = 1`. Then the columns
/// are `s · U`. In order of falling length they are factored once more, by reflections: that gives
/// vectors also where `s` is zero and, for all of `U`, beyond. What is left is `s` but for signs, which
/// `V` takes.
fn of_tall<'g>(
    a: Expr<'g>,
    height: i64,
    width: i64,
    with_vectors: bool,
    full: bool,
) -> (Expr<'g>, Option<(Expr<'g>, Expr<'g>)>) {
    let (row_axis, column_axis) = axes(a);
    let zero_or_nan = zero_or_nan(a);
    let a = a + zero_or_nan;
    let scale = magnitude(a);
    let scale = scale.equal(0.0).select(a.constant(1.0), scale);

    let tournament = Tournament::of(width);
    let whole = if width == 1 { 1 } else { tournament.size };
    let mut parts = vec![a / scale];
    if whole > width {
        let column = a.constant(0.0).expand(&batched(a, &[height.into(), 1.into()]));
        parts = vec![Expr::concat(&[parts[0], column], column_axis)];
    }
    if with_vectors {
        parts.push(identity(a, width, whole));
    }
    let top = |x: Expr<'g>| x.slice_axis(row_axis, 0, height);
    let start = Expr::concat(&parts, row_axis);
    let rotated = if width == 1 { start } else { rotate(start, height, &tournament) };

    let rotated = rotated.slice_axis(column_axis, 0, width);
    let columns = top(rotated);
    let lengths = (columns * columns).reduce_sum(&[row_axis], false).sqrt();
    let vectors = if with_vectors { vec![rotated] } else { Vec::new() };
    let (lengths, vectors) = sorted(lengths, width, false, &vectors);
    let values = lengths * scale.squeeze(&[row_axis]);
    let Some(&rotated) = vectors.first() else {
        return (values, None);
    };
    let packed = factor(top(rotated), height, width, false);
    let left = orthogonal(&packed, height, if full { height } else { width });
    let right = rotated.slice_axis(row_axis, height, height + width);
    let signs = diagonal(packed.matrix, height, width).less(0.0).unsqueeze(&[row_axis]);
    (values, Some((left, signs.select(-right, right) + zero_or_nan)))
}

/// Rotates pairs of columns until the first `height` entries of all columns are orthogonal.
fn rotate<'g>(start: Expr<'g>, height: i64, tournament: &Tournament) -> Expr<'g> {
    let builder = start.builder;
    let (row_axis, column_axis) = axes(start);
    let half = tournament.half();
    let tolerance = (height as f64).sqrt() * epsilon(start.dtype());
    let none = builder.constant_ints(DType::I32, &[], &[0]);
    let [rotated] = rounds_while(builder, SWEEPS, [start], |[x]| {
        let steps = tournament.rounds().into();
        let [x, turns] = rounds(builder, &steps, [x, none], |_, [x, turns]| {
            let columns = x.slice_axis(row_axis, 0, height);
            let first = columns.slice_axis(column_axis, 0, half);
            let second = columns.slice_axis(column_axis, half, tournament.size);
            let product = |x: Expr<'g>, y: Expr<'g>| (x * y).reduce_sum(&[row_axis], false);
            let (alpha, beta) = (product(first, first), product(second, second));
            let gamma = product(first, second);
            let limit = alpha.sqrt() * beta.sqrt() * tolerance;
            let is_idle = gamma.abs().greater(limit).logical_not();
            let turn = tournament.turn(tangent(beta - alpha, gamma, is_idle));
            let every: Vec<usize> = (0..is_idle.rank()).collect();
            let busy = is_idle.logical_not().cast(DType::I32).reduce_sum(&every, false);
            [tournament.play(x, column_axis, &turn), turns + busy]
        });
        (turns.greater(0.0), [x])
    });
    rotated
}
