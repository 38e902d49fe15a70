//! Orthogonal matrices as products of reflections `H = I − τ · v · vᵀ`.

use onnx::{Dim, Expr, OpType, Type};

use super::{
    axes, batched, column, column_numbers, from_the_end, identity, known_sizes, operands,
    position_of_largest, rounds, row, row_numbers, swapped, transposed, triangle,
};
use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

/// A reflection that leaves one entry of a column, `beta`, and zeros below it.
pub(super) struct Reflection<'g> {
    /// One at the entry, zeros above it.
    pub vector: Expr<'g>,
    pub tau: Expr<'g>,
    pub beta: Expr<'g>,
}

/// A matrix whose columns hold the vectors of reflections below what the reflections left of it.
pub(super) struct Packed<'g> {
    pub matrix: Expr<'g>,
    pub taus: Expr<'g>,
    /// The original index of each column, if columns were exchanged.
    pub order: Option<Expr<'g>>,
}

/// Returns the reflection of `x` onto entry `at`, which gets the sign that its length adds to
///
/// `β = −sign(x_at) · ‖x‖`, `τ = (β − x_at) / β`, `v = x / (x_at − β)` below the entry; no reflection,
/// `τ = 0`, if there are zeros below it already. The length is taken of numbers up to one.
#[track_caller]
pub(super) fn reflection<'g>(x: Expr<'g>, rows: Expr<'g>, at: Expr<'g>) -> Reflection<'g> {
    let (axis, _) = axes(x);
    x.builder.helper("reflection", || {
        let zero = x.constant(0.0);
        let is_below = rows.greater(at);
        let alpha = row(x, at);
        let tail = is_below.select(x, zero);
        let largest = tail.abs().reduce(OpType::ReduceMax, &[axis], true);
        let is_done = largest.equal(0.0);
        let scale = largest.max(alpha.abs());
        let scale = scale.equal(0.0).select(x.constant(1.0), scale);
        let (a, b) = (alpha / scale, tail / scale);
        let length = (a * a + (b * b).reduce_sum(&[axis], true)).sqrt() * scale;
        let beta = is_done.select(alpha, alpha.less(0.0).select(length, -length));
        let tau = is_done.select(zero, (beta - alpha) / beta);
        let divisor = is_done.select(x.constant(1.0), alpha - beta);
        let vector = rows.equal(at).select(x.constant(1.0), tail / divisor);
        Reflection { vector, tau, beta }
    })
}

impl<'g> Reflection<'g> {
    /// `H · A`
    #[track_caller]
    pub fn apply(&self, a: Expr<'g>) -> Expr<'g> {
        a - (self.tau * self.vector) * transposed(self.vector).matmul(a)
    }
}

/// `A = H₀ · H₁ ⋯ · R`, with the columns in another order if `pivoting`
///
/// Round `k` reflects column `k` onto its diagonal entry. With pivoting, the column whose open part is
/// longest comes before, the first of equals.
#[track_caller]
pub(super) fn factor(a: Expr<'_>, height: i64, width: i64, pivoting: bool) -> Packed<'_> {
    let builder = a.builder;
    builder.helper("factor", || {
        let (row_axis, column_axis) = axes(a);
        let steps = Dim::Known(height.min(width));
        let rows = row_numbers(builder, &height.into());
        let columns = column_numbers(builder, &width.into());
        let step_numbers = column_numbers(builder, &steps);
        let taus = a.constant(0.0).expand(&batched(a, &[1.into(), steps.clone()]));
        let order = columns.expand(&batched(a, &[1.into(), width.into()]));

        let [matrix, taus, order] =
            rounds(builder, &steps, [a, taus, order], |k, [a, taus, order]| {
                let (a, order) = if pivoting {
                    let open = rows.less(k).select(a.constant(0.0), a);
                    let squares = (open * open).reduce_sum(&[row_axis], true);
                    let squares = columns.less(k).select(a.constant(-1.0), squares);
                    let longest = position_of_largest(squares, column_axis);
                    let swap = |x| swapped(x, column_axis, columns, k, longest);
                    (swap(a), swap(order))
                } else {
                    (a, order)
                };
                let current = column(a, k);
                let reflection = reflection(current, rows, k);
                let above = rows.equal(k).select(reflection.beta, current);
                let packed = rows.greater(k).select(reflection.vector, above);
                let rest = columns.greater(k).select(reflection.apply(a), a);
                let taus = step_numbers.equal(k).select(reflection.tau, taus);
                [columns.equal(k).select(packed, rest), taus, order]
            });
        Packed {
            matrix,
            taus: taus.squeeze(&[row_axis]),
            order: pivoting.then(|| order.squeeze(&[row_axis])),
        }
    })
}

/// `H₀ · H₁ ⋯ · C`, or the reflections the other way round: `⋯ H₁ · H₀ · C`
#[track_caller]
pub(super) fn apply_reflections<'g>(
    packed: Expr<'g>,
    taus: Expr<'g>,
    c: Expr<'g>,
    first_is_inner: bool,
) -> Expr<'g> {
    let builder = packed.builder;
    builder.helper("apply_reflections", || {
        let (row_axis, _) = axes(packed);
        let rows = row_numbers(builder, &packed.shape()[row_axis]);
        let steps = taus.shape()[taus.rank() - 1].clone();
        let taus = taus.unsqueeze(&[row_axis]);
        let [c] = rounds(builder, &steps, [c], |k, [c]| {
            let k = if first_is_inner { k } else { from_the_end(k, &steps) };
            let at = rows.equal(k).select(c.constant(1.0), 0.0);
            let vector = rows.greater(k).select(column(packed, k), at);
            let reflection = Reflection { vector, tau: column(taus, k), beta: vector };
            [reflection.apply(c)]
        });
        c
    })
}

/// Returns the first `width` columns of `H₀ · H₁ ⋯`
#[track_caller]
pub(super) fn orthogonal<'g>(packed: &Packed<'g>, height: i64, width: i64) -> Expr<'g> {
    let start = identity(packed.matrix, height, width);
    apply_reflections(packed.matrix, packed.taus, start, false)
}

/// `A` as reflections and what they leave: the vectors below the diagonal, and the factors `τ`
pub(crate) fn geqrf<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let [a] = operands(eqn)?;
    let (height, width) = known_sizes(eqn, a)?;
    let packed = factor(a, height, width, false);
    Ok(vec![packed.matrix, packed.taus])
}

/// Does the same as `geqrf`, with the columns in order of decreasing length; the order counts from
/// one
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
    let (height, width) = known_sizes(eqn, a)?;
    let packed = factor(a, height, width, true);
    let order = packed.order.unwrap_or(fixed) + 1.0;
    Ok(vec![packed.matrix, order.cast(order_type.dtype), packed.taus])
}

/// Returns the columns of `H₀ · H₁ ⋯`, as many as `A` has
pub(crate) fn householder_product<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let [a, taus] = operands(eqn)?;
    let (height, width) = known_sizes(eqn, a)?;
    Ok(apply_reflections(a, taus, identity(a, height, width), false))
}

/// `Q · C`, `Qᵀ · C`, `C · Q` or `C · Qᵀ` with `Q = H₀ · H₁ ⋯`; from the right it is the transpose of
/// the other from the left
pub(crate) fn ormqr<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let left: bool = eqn.param("left")?;
    let transpose: bool = eqn.param("transpose")?;
    let [a, taus, c] = operands(eqn)?;
    if left {
        return Ok(apply_reflections(a, taus, c, transpose));
    }
    Ok(transposed(apply_reflections(a, taus, transposed(c), !transpose)))
}

/// `A = Q · R`, or `A[:, order] = Q · R` with pivoting; signs as the reflections leave them
pub(crate) fn qr<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let full: bool = eqn.param("full_matrices")?;
    let pivoting: bool = eqn.optional("pivoting")?.unwrap_or(false);
    eqn.ignore(&["use_magma"]);
    let [a] = operands(eqn)?;
    let (height, width) = known_sizes(eqn, a)?;
    let inner = if full { height } else { height.min(width) };
    let (row_axis, _) = axes(a);

    let packed = factor(a, height, width, pivoting);
    let q = orthogonal(&packed, height, inner);
    let r = triangle(packed.matrix.slice_axis(row_axis, 0, inner), true);
    let mut results = vec![q, r];
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
