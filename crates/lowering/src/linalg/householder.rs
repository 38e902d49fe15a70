//! Orthogonal and unitary matrices as products of reflections `H = I − τ · v · vᴴ`.

use onnx::{Dim, Expr, OpType, Type};

use super::batch::{
    axes, batched, column_numbers, from_the_end, position_of_largest, row_numbers, swapped,
    triangle,
};
use super::loops::loop_over;
use super::matrix::Matrix;
use super::{known_sizes, matrices};
use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

/// A reflection of a column onto one of its entries, which becomes `beta`. The entries below become
/// zero.
pub(super) struct Reflection<'g> {
    /// One at the entry, and zero above it.
    pub vector: Matrix<'g>,
    pub tau: Matrix<'g>,
    /// A real number, also for a complex column.
    pub beta: Expr<'g>,
}

/// The result of reflections of a matrix. The columns store the vectors of the reflections where
/// the matrix has become zero.
pub(super) struct Packed<'g> {
    pub matrix: Matrix<'g>,
    pub taus: Matrix<'g>,
    /// The original index of each column, if columns were exchanged.
    pub order: Option<Expr<'g>>,
}

/// Returns the reflection of `x` onto entry `at`. The sign of `β` avoids cancellation.
///
/// `β = −sign(re x_at) · ‖x‖`, `τ = (β − x_at) / β`, and `v = x / (x_at − β)` below the entry. If
/// the entry is real and there are only zeros below it, there is no reflection: `τ = 0`. The
/// numbers are scaled to at most one before the norm. `Hᴴ · x` is `β` at the entry.
#[track_caller]
pub(super) fn reflection<'g>(x: Matrix<'g>, rows: Expr<'g>, at: Expr<'g>) -> Reflection<'g> {
    let (axis, _) = axes(x.re);
    x.builder().helper("reflection", || {
        let zero = x.constant(0.0);
        let is_below = rows.greater(at);
        let alpha = x.row(at);
        let tail = Matrix::choose(is_below, x, zero);
        let largest = tail.larger_parts().reduce(OpType::ReduceMax, &[axis], true);
        let is_done = largest.equal(0.0);
        let is_done = alpha.im.map_or(is_done, |im| is_done.and(im.equal(0.0)));
        let scale = largest.max(alpha.larger_parts());
        let scale = scale.equal(0.0).select(x.re.constant(1.0), scale);
        let (a, b) = (alpha.over(scale), tail.over(scale));
        let length = (a.squares() + b.squares().reduce_sum(&[axis], true)).sqrt() * scale;
        let beta = is_done.select(alpha.re, alpha.re.less(0.0).select(length, -length));
        let tau = (Matrix::real(beta) - alpha).over(beta);
        let tau = Matrix::choose(is_done, zero, tau);
        let divisor = Matrix::choose(is_done, x.constant(1.0), alpha - Matrix::real(beta));
        let vector = Matrix::choose(rows.equal(at), x.constant(1.0), tail.div(divisor));
        Reflection { vector, tau, beta }
    })
}

impl<'g> Reflection<'g> {
    /// `H · A`
    #[track_caller]
    pub fn apply(&self, a: Matrix<'g>) -> Matrix<'g> {
        a - (self.tau * self.vector) * self.vector.adjoint().matmul(a)
    }

    /// Returns `Hᴴ`, which is `H` for real numbers.
    #[track_caller]
    pub fn adjoint(&self) -> Reflection<'g> {
        Reflection { tau: self.tau.conj(), ..*self }
    }
}

/// `A = H₀ · H₁ ⋯ · R`, with the columns in another order if `pivoting`
///
/// Step `k` reflects column `k` onto its diagonal entry. With pivoting, it first exchanges column
/// `k` with the column that has the largest norm on and below row `k`, the first one if several are
/// equal.
#[track_caller]
pub(super) fn factor(a: Matrix<'_>, height: i64, width: i64, pivoting: bool) -> Packed<'_> {
    let builder = a.builder();
    builder.helper("factor", || {
        let (row_axis, column_axis) = axes(a.re);
        let steps = Dim::Known(height.min(width));
        let rows = row_numbers(builder, &height.into());
        let columns = column_numbers(builder, &width.into());
        let step_numbers = column_numbers(builder, &steps);
        let like_taus = batched(a.re, &[1.into(), steps.clone()]);
        let taus = a.constant(0.0).map(|part| part.expand(&like_taus));
        let order = columns.expand(&batched(a.re, &[1.into(), width.into()]));

        let start = ([a, taus], order);
        let ([matrix, taus], order) = loop_over(builder, &steps, start, |k, ([a, taus], order)| {
            let (a, order) = if pivoting {
                let open = Matrix::choose(rows.less(k), a.constant(0.0), a);
                let squares = open.squares().reduce_sum(&[row_axis], true);
                let squares = columns.less(k).select(a.re.constant(-1.0), squares);
                let longest = position_of_largest(squares, column_axis, k);
                let swap = |x| swapped(x, column_axis, columns, k, longest);
                (a.map(swap), swap(order))
            } else {
                (a, order)
            };
            let current = a.column(k);
            let reflection = reflection(current, rows, k);
            let above = Matrix::choose(rows.equal(k), Matrix::real(reflection.beta), current);
            let packed = Matrix::choose(rows.greater(k), reflection.vector, above);
            let is_after = columns.greater(k);
            let rest = Matrix::choose(is_after, reflection.adjoint().apply(a), a);
            let taus = Matrix::choose(step_numbers.equal(k), reflection.tau, taus);
            ([Matrix::choose(columns.equal(k), packed, rest), taus], order)
        });
        Packed {
            matrix,
            taus: taus.map(|part| part.squeeze(&[row_axis])),
            order: pivoting.then(|| order.squeeze(&[row_axis])),
        }
    })
}

/// `H₀ · H₁ ⋯ · C`, or the adjoint of the product times `C`: `⋯ H₁ᴴ · H₀ᴴ · C`
#[track_caller]
pub(super) fn apply_reflections<'g>(
    packed: Matrix<'g>,
    taus: Matrix<'g>,
    c: Matrix<'g>,
    adjoint: bool,
) -> Matrix<'g> {
    let builder = packed.builder();
    builder.helper("apply_reflections", || {
        let (row_axis, _) = axes(packed.re);
        let rows = row_numbers(builder, &packed.shape()[row_axis]);
        let steps = taus.shape()[taus.re.rank() - 1].clone();
        let taus = taus.map(|part| part.unsqueeze(&[row_axis]));
        loop_over(builder, &steps, c, |k, c| {
            let k = if adjoint { k } else { from_the_end(k, &steps) };
            let at = rows.equal(k).select(c.re.constant(1.0), 0.0);
            let is_below = rows.greater(k);
            let vector = Matrix::choose(is_below, packed.column(k), Matrix::real(at));
            let reflection = Reflection { vector, tau: taus.column(k), beta: vector.re };
            if adjoint { reflection.adjoint().apply(c) } else { reflection.apply(c) }
        })
    })
}

/// Returns the first `width` columns of `H₀ · H₁ ⋯`.
#[track_caller]
pub(super) fn orthogonal<'g>(packed: &Packed<'g>, height: i64, width: i64) -> Matrix<'g> {
    let start = packed.matrix.identity(height, width);
    apply_reflections(packed.matrix, packed.taus, start, false)
}

/// Factors `A` into reflections and `R`: returns `R` with the vectors below the diagonal, and the
/// factors `τ`.
pub(crate) fn geqrf<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let [a] = matrices(eqn)?;
    let (height, width) = known_sizes(eqn, a.re)?;
    let packed = factor(a, height, width, false);
    Ok(vec![packed.matrix.value(), packed.taus.value()])
}

/// Does the same as `geqrf`, with pivoting of columns. The order of the columns counts from one.
pub(crate) fn geqp3<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    eqn.ignore(&["use_magma"]);
    let [a, fixed] = eqn.operands()?;
    let [_, order_type, _] = &eqn.outputs[..] else {
        return Err(eqn.broken("it does not have three results").into());
    };
    let is_free = |tensor: &onnx::Tensor| tensor.bytes().iter().all(|byte| *byte == 0);
    if !fixed.tensor().is_some_and(|tensor| is_free(&tensor)) || !a.dtype().is_float() {
        return Err(super::refused(eqn, "with columns that are fixed at the front").into());
    }
    let a = Matrix::of(eqn, a);
    let (height, width) = known_sizes(eqn, a.re)?;
    let packed = factor(a, height, width, true);
    let order = packed.order.unwrap_or(fixed) + 1.0;
    Ok(vec![packed.matrix.value(), order.cast(order_type.dtype), packed.taus.value()])
}

/// Returns the first columns of `H₀ · H₁ ⋯`, as many as `A` has.
pub(crate) fn householder_product<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let [a, taus] = matrices(eqn)?;
    let (height, width) = known_sizes(eqn, a.re)?;
    Ok(apply_reflections(a, taus, a.identity(height, width), false).value())
}

/// `Q · C`, `Qᴴ · C`, `C · Q` or `C · Qᴴ` with `Q = H₀ · H₁ ⋯`. The last two are `(Qᴴ · Cᴴ)ᴴ` and
/// `(Q · Cᴴ)ᴴ`.
pub(crate) fn ormqr<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let left: bool = eqn.param("left")?;
    let transpose: bool = eqn.param("transpose")?;
    let [a, taus, c] = matrices(eqn)?;
    if left {
        return Ok(apply_reflections(a, taus, c, transpose).value());
    }
    Ok(apply_reflections(a, taus, c.adjoint(), !transpose).adjoint().value())
}

/// `A = Q · R`, or `A[:, order] = Q · R` with pivoting. The diagonal of `R` can be negative.
pub(crate) fn qr<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let full: bool = eqn.param("full_matrices")?;
    let pivoting: bool = eqn.optional("pivoting")?.unwrap_or(false);
    eqn.ignore(&["use_magma"]);
    let [a] = matrices(eqn)?;
    let (height, width) = known_sizes(eqn, a.re)?;
    let inner = if full { height } else { height.min(width) };
    let (row_axis, _) = axes(a.re);

    let packed = factor(a, height, width, pivoting);
    let q = orthogonal(&packed, height, inner);
    let r = packed.matrix.slice_axis(row_axis, 0, inner).map(|part| triangle(part, true));
    let mut results = vec![q.value(), r.value()];
    if let (Some(order), Some(Type { dtype, .. })) = (packed.order, eqn.outputs.get(2)) {
        // For a matrix without elements, JAX returns 0 for every column.
        let order = if height == 0 { order * order.constant(0.0) } else { order };
        results.push(order.cast(*dtype));
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn a_matrix_of_unknown_size_is_refused() {
        check(
            "jaxpr f(a:f32[N,3]) {
               b:f32[N,3] c:f32[3] = geqrf a
               return b, c
             }",
            expect![[r#"
                refused: `geqrf of a matrix of unknown size` has no ONNX counterpart
            "#]],
        );
    }

    #[test]
    fn reflections_are_applied_from_the_last() {
        check(
            "jaxpr f(a:f32[B,4,2], t:f32[B,2], c:f32[B,4,3]) {
               d:f32[B,4,3] = ormqr{left=True; transpose=False} a t c
               return d
             }",
            expect![[r#"
                graph test(in_0:f32[B,4,2], in_1:f32[B,2], in_2:f32[B,4,3]) -> (out_0)
                %0 = Unsqueeze(in_1, [1]:i64)
                out_0:f32[B,4,3] = Loop(2:i64, true, in_2) {body={
                  graph round(%1:i64[], %2:bool[], %3:f32[B,4,3]) -> (%17, %16)
                  %4 = Unsqueeze(%1, [0]:i64)
                  %5 = Sub([1]:i64, %4)
                  %6 = Equal([[0], [1], [2], [3]]:i64, %5)
                  %7 = Where(%6, 1.0, 0.0)
                  %8 = Greater([[0], [1], [2], [3]]:i64, %5)
                  %9 = Gather(in_0, %5) {axis=2}
                  %10 = Where(%8, %9, %7)
                  %11 = Gather(%0, %5) {axis=2}
                  %12 = Mul(%11, %10)
                  %13 = Transpose(%10) {perm=[0, 2, 1]}
                  %14 = MatMul(%13, %3)
                  %15 = Mul(%12, %14)
                  %16:f32[B,4,3] = Sub(%3, %15)
                  %17:bool[] = Identity(%2)
                }}
            "#]],
        );
    }
}
