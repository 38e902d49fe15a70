//! Triangular matrices: the Cholesky factor, its update, and linear systems.

use onnx::{DType, Expr};

use super::batch::{axes, column, column_numbers, from_the_end, row, row_numbers, size_of};
use super::loops::loop_over;
use super::matrix::Matrix;
use super::{matrices, operands};
use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

/// `L` with `L · Lᴴ = A`, from the lower triangle of `A`; all elements are NaN if a pivot is not
/// positive
///
/// Step `k` subtracts `lᵢₖ · l̄ⱼₖ` from the columns after column `k`, where `lᵢₖ = aᵢₖ / √aₖₖ`. The
/// elements above the diagonal do not reach those below it. The imaginary part of the diagonal is
/// ignored. As in LAPACK, a pivot may be NaN, and the columns before it are right.
pub(crate) fn cholesky<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    eqn.ignore(&["symmetrize_input"]);
    let [a] = matrices(eqn)?;
    let (size, _) = size_of(a.re);
    let rows = row_numbers(ctx.builder, &size);
    let columns = column_numbers(ctx.builder, &size);

    let real = |im: Expr<'g>| rows.equal(columns).select(im.constant(0.0), im);
    let a = Matrix { re: a.re, im: a.im.map(real) };
    let reduced = loop_over(ctx.builder, &size, a, |k, a| {
        let current = a.column(k);
        let done = current.over(row(current.re, k).sqrt());
        Matrix::choose(columns.greater(k), a - done * done.adjoint(), a)
    });
    let (row_axis, column_axis) = axes(a.re);
    let is_pivot = rows.equal(columns);
    let pivots = is_pivot.select(reduced.re, 0.0).reduce_sum(&[row_axis], true);
    let roots = pivots.sqrt();
    let factor = Matrix::choose(is_pivot, Matrix::real(roots), reduced.over(roots));
    let factor = Matrix::choose(rows.less(columns), a.constant(0.0), factor);
    let failures = pivots.less_equal(0.0).cast(DType::I32).reduce_sum(&[column_axis], true);
    let fails = failures.greater(0.0);
    Ok(factor.map(|part| fails.select(part.constant(f64::NAN), part)).value())
}

/// `R'` with `R'ᵀ · R' = Rᵀ · R + z · zᵀ`; `R` and `R'` are upper triangular
///
/// Step `k` rotates row `k` and `z` in their plane so that `zₖ` becomes zero.
pub(crate) fn cholesky_update<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let [r, z] = operands(eqn)?;
    let (size, _) = size_of(r);
    let rows = row_numbers(ctx.builder, &size);

    let z = z.unsqueeze(&[z.rank() - 1]);
    let [r, _] = loop_over(ctx.builder, &size, [r, z], |k, [r, z]| {
        let current = row(r, k);
        let (x, y) = (column(current, k), column(z, k));
        let is_zero = y.equal(0.0);
        let larger = is_zero.select(x.constant(1.0), x.abs().max(y.abs()));
        let (x, y) = (x / larger, y / larger);
        let length = (x * x + y * y).sqrt();
        let cosine = is_zero.select(x.constant(1.0), x / length);
        let sine = is_zero.select(x.constant(0.0), y / length);
        let rotated = cosine * current + sine * z;
        [rows.equal(k).select(rotated, r), cosine * z - sine * current]
    });
    Ok(r)
}

/// `X` with `op(A) · X = B` or `X · op(A) = B`; reads one triangle of `A`
///
/// Every case becomes that of a matrix on the left: `X · A = B` is `Aᵀ · Xᵀ = Bᵀ`, and the
/// transpose of a lower triangle is an upper one. Step `k` computes one row of `X`, and subtracts
/// its contribution from the remaining rows. A lower triangle starts with the first row, an upper
/// one with the last row.
pub(crate) fn triangular_solve<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let left: bool = eqn.param("left_side")?;
    let lower: bool = eqn.param("lower")?;
    let transpose: bool = eqn.param("transpose_a")?;
    let unit: bool = eqn.param("unit_diagonal")?;
    let conjugate: bool = eqn.optional("conjugate_a")?.unwrap_or(false);
    let [a, b] = matrices(eqn)?;

    let flip = transpose == left;
    let a = if flip { a.transposed() } else { a };
    let a = if conjugate { a.conj() } else { a };
    let lower = lower != flip;
    let right = if left { b } else { b.transposed() };
    let (size, _) = size_of(a.re);
    let rows = row_numbers(ctx.builder, &size);

    let solution = loop_over(ctx.builder, &size, right, |k, x| {
        let k = if lower { k } else { from_the_end(k, &size) };
        let current = a.column(k);
        let done = if unit { x.row(k) } else { x.row(k).div(current.row(k)) };
        let rest = x - current * done;
        let is_open = if lower { rows.greater(k) } else { rows.less(k) };
        let others = if unit { x } else { Matrix::choose(rows.equal(k), done, x) };
        Matrix::choose(is_open, rest, others)
    });
    Ok(if left { solution } else { solution.transposed() }.value())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn a_system_with_a_unit_diagonal_does_not_divide() {
        check(
            "jaxpr f(a:f32[3,3], b:f32[3,2]) {
               c:f32[3,2] = triangular_solve{left_side=True; lower=True; transpose_a=False; conjugate_a=False; unit_diagonal=True} a b
               return c
             }",
            expect![[r#"
                graph test(in_0:f32[3,3], in_1:f32[3,2]) -> (out_0)
                out_0:f32[3,2] = Loop(3:i64, true, in_1) {body={
                  graph round(%0:i64[], %1:bool[], %2:f32[3,2]) -> (%10, %9)
                  %3 = Unsqueeze(%0, [0]:i64)
                  %4 = Gather(in_0, %3) {axis=1}
                  %5 = Gather(%2, %3) {axis=0}
                  %6 = Mul(%4, %5)
                  %7 = Sub(%2, %6)
                  %8 = Greater([[0], [1], [2]]:i64, %3)
                  %9:f32[3,2] = Where(%8, %7, %2)
                  %10:bool[] = Identity(%1)
                }}
            "#]],
        );
    }

    #[test]
    fn one_row_needs_no_loop() {
        check(
            "jaxpr f(a:f32[1,1], b:f32[1,2]) {
               c:f32[1,2] = triangular_solve{left_side=True; lower=False; transpose_a=False; conjugate_a=False; unit_diagonal=False} a b
               return c
             }",
            expect![[r#"
                graph test(in_0:f32[1,1], in_1:f32[1,2]) -> (out_0)
                %0 = Gather(in_0, [0]:i64) {axis=1}
                %1 = Gather(in_1, [0]:i64) {axis=0}
                %2 = Gather(%0, [0]:i64) {axis=0}
                %3 = Div(%1, %2)
                %4 = Mul(%0, %3)
                %5 = Sub(in_1, %4)
                %6 = Less([[0]]:i64, [0]:i64)
                %7 = Equal([[0]]:i64, [0]:i64)
                %8 = Where(%7, %3, in_1)
                out_0:f32[1,2] = Where(%6, %5, %8)
            "#]],
        );
    }

    #[test]
    fn a_factor_is_a_loop_over_columns() {
        check(
            "jaxpr f(a:f32[5,5]) {
               b:f32[5,5] = cholesky a
               return b
             }",
            expect![[r#"
                graph test(in_0:f32[5,5]) -> (out_0)
                %0 = Loop(5:i64, true, in_0) {body={
                  graph round(%13:i64[], %14:bool[], %15:f32[5,5]) -> (%26, %25)
                  %16 = Unsqueeze(%13, [0]:i64)
                  %17 = Gather(%15, %16) {axis=1}
                  %18 = Gather(%17, %16) {axis=0}
                  %19 = Sqrt(%18)
                  %20 = Div(%17, %19)
                  %21 = Greater([0, 1, 2, 3, 4]:i64, %16)
                  %22 = Transpose(%20) {perm=[1, 0]}
                  %23 = Mul(%20, %22)
                  %24 = Sub(%15, %23)
                  %25:f32[5,5] = Where(%21, %24, %15)
                  %26:bool[] = Identity(%14)
                }}
                %1 = Equal([[0], [1], [2], [3], [4]]:i64, [0, 1, 2, 3, 4]:i64)
                %2 = Where(%1, %0, 0.0)
                %3 = ReduceSum(%2, [0]:i64) {keepdims=1}
                %4 = Sqrt(%3)
                %5 = Div(%0, %4)
                %6 = Where(%1, %4, %5)
                %7 = Less([[0], [1], [2], [3], [4]]:i64, [0, 1, 2, 3, 4]:i64)
                %8 = Where(%7, 0.0, %6)
                %9 = LessOrEqual(%3, 0.0)
                %10 = Cast(%9) {to=6}
                %11 = ReduceSum(%10, [1]:i64) {keepdims=1}
                %12 = Greater(%11, 0:i32)
                out_0:f32[5,5] = Where(%12, nan, %8)
            "#]],
        );
    }
}
