//! Cumulative sums, products and extremes along an axis.

use onnx::{Attr, Dim, Expr, OpType};

use crate::bodies::joined_along;
use crate::complex;
use crate::ctx::{Ctx, Eqn};
use crate::elementwise::arithmetic::{max, min};
use crate::elementwise::exponential::log1p;
use crate::error::Result;

/// With more elements, doubling takes fewer nodes.
const MAX_SPLIT: i64 = 16;
const MAX_SPLIT_REVERSED: i64 = 5;

/// `yᵢ = Σ xⱼ` for `j ≤ i`
pub(crate) fn cumsum<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axis: usize = eqn.param("axis")?;
    let reverse: bool = eqn.param("reverse")?;
    let [x] = eqn.operands()?;
    let axis = ctx.builder.constant_ints(onnx::DType::I64, &[], &[axis as i64]);
    let attrs = if reverse { vec![("reverse", Attr::Int(1))] } else { Vec::new() };
    Ok(ctx.builder.node(OpType::CumSum, &[x, axis], attrs))
}

/// `yᵢ = Π xⱼ` for `j ≤ i`
///
/// The elements of a short axis are multiplied one after the other from the first to the last, as
/// XLA does, so that the same products overflow. This also takes fewer nodes than doubling.
pub(crate) fn cumprod<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axis: usize = eqn.param("axis")?;
    let reverse: bool = eqn.param("reverse")?;
    let [x] = eqn.operands()?;
    let longest = if reverse { MAX_SPLIT_REVERSED } else { MAX_SPLIT };
    let Some(size) = x.shape()[axis].known().filter(|size| (2..=longest).contains(size)) else {
        return by_doubling(eqn, |x, y| x * y);
    };
    let mut shape = x.shape().to_vec();
    shape[axis] = Dim::Known(1);
    let sizes = ctx.builder.ints(&vec![1; size as usize]);
    let attrs = vec![("axis", Attr::Int(axis as i64))];
    let shapes = vec![&shape[..]; size as usize];
    let parts = ctx.builder.sized_nodes(OpType::Split, &[Some(x), Some(sizes)], attrs, &shapes);
    let mut products = vec![parts[0]];
    for (place, &part) in parts.iter().enumerate().skip(1) {
        if reverse {
            for product in &mut products {
                *product = *product * part;
            }
            products.push(part);
        } else {
            products.push(products[place - 1] * part);
        }
    }
    Ok(Expr::concat(&products, axis))
}

/// `yᵢ = Π zⱼ` for `j ≤ i`, for complex numbers
pub(crate) fn complex_cumprod<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    by_doubling(eqn, complex::product)
}

/// `yᵢ = max xⱼ` for `j ≤ i`
pub(crate) fn cummax<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    by_doubling(eqn, max)
}

/// `yᵢ = min xⱼ` for `j ≤ i`
pub(crate) fn cummin<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    by_doubling(eqn, min)
}

/// `yᵢ = log Σ exp xⱼ` for `j ≤ i`
///
/// JAX starts with the logarithm of 0, so no zero in the result is negative.
pub(crate) fn cumlogsumexp<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let sums = by_doubling(eqn, logaddexp)?;
    Ok(sums.equal(0.0).select(sums.constant(0.0), sums))
}

/// `log(exp x + exp y) = m + log1p(exp(−|x − y|))` with `m = max(x, y)`
///
/// If both are the same infinity, the difference is NaN and the result is `m`.
fn logaddexp<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    let difference = x - y;
    let larger = x.max(y);
    let sum = larger + log1p((-difference.abs()).exp());
    difference.is_nan().select(larger, sum)
}

/// Joins elements by doubling: after `k` steps, each element is joined with up to `2ᵏ − 1` elements
/// before it.
fn by_doubling<'g>(
    eqn: &Eqn<'g, '_>,
    join: fn(Expr<'g>, Expr<'g>) -> Expr<'g>,
) -> Result<Expr<'g>> {
    let axis: usize = eqn.param("axis")?;
    let reverse: bool = eqn.param("reverse")?;
    let [x] = eqn.operands()?;
    let Some(size) = x.shape()[axis].known() else {
        let join_all = |far: &[Expr<'g>], near: &[Expr<'g>]| {
            Ok(far.iter().zip(near).map(|(&far, &near)| join(far, near)).collect())
        };
        let joined = joined_along(eqn.primitive, &[x], axis, reverse, join_all)?;
        return Ok(joined[0]);
    };

    let mut running = x;
    let mut step = 1;
    while step < size {
        let (first, last) =
            (running.slice_axis(axis, 0, size - step), running.slice_axis(axis, step, size));
        let joined = if reverse { join(last, first) } else { join(first, last) };
        running = if reverse {
            Expr::concat(&[joined, running.slice_axis(axis, size - step, size)], axis)
        } else {
            Expr::concat(&[running.slice_axis(axis, 0, step), joined], axis)
        };
        step *= 2;
    }
    Ok(running)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn a_cumulative_sum_is_one_node() {
        check(
            "x:f32[3] -> y:f32[3] = cumsum{axis=0; reverse=True} x",
            expect![[r"
                graph test(in_0:f32[3]) -> (out_0)
                out_0:f32[3] = CumSum(in_0, 0:i64) {reverse=1}
            "]],
        );
    }

    #[test]
    fn three_are_joined_in_two_steps() {
        check(
            "x:f32[3] -> y:f32[3] = cummax{axis=0; reverse=False} x",
            expect![[r"
                graph test(in_0:f32[3]) -> (out_0)
                %0 = Slice(in_0, [0]:i64, [2]:i64, [0]:i64)
                %1 = Slice(in_0, [1]:i64, [3]:i64, [0]:i64)
                %2 = Max(%0, %1)
                %3 = Slice(in_0, [0]:i64, [1]:i64, [0]:i64)
                %4 = Concat(%3, %2) {axis=0}
                %5 = Slice(%4, [0]:i64, [1]:i64, [0]:i64)
                %6 = Slice(%4, [2]:i64, [3]:i64, [0]:i64)
                %7 = Max(%5, %6)
                %8 = Slice(%4, [0]:i64, [2]:i64, [0]:i64)
                out_0:f32[3] = Concat(%8, %7) {axis=0}
            "]],
        );
    }

    #[test]
    fn a_short_product_is_split_and_multiplied_in_order() {
        check(
            "x:f32[B,4] -> y:f32[B,4] = cumprod{axis=1; reverse=False} x",
            expect![[r#"
                graph test(in_0:f32[B,4]) -> (out_0)
                %0, %1, %2, %3 = Split(in_0, [1, 1, 1, 1]:i64) {axis=1}
                %4 = Mul(%0, %1)
                %5 = Mul(%4, %2)
                %6 = Mul(%5, %3)
                out_0:f32[B,4] = Concat(%0, %4, %5, %6) {axis=1}
            "#]],
        );
        check(
            "x:f32[3] -> y:f32[3] = cumprod{axis=0; reverse=True} x",
            expect![[r#"
                graph test(in_0:f32[3]) -> (out_0)
                %0, %1, %2 = Split(in_0, [1, 1, 1]:i64) {axis=0}
                %3 = Mul(%0, %1)
                %4 = Mul(%3, %2)
                %5 = Mul(%1, %2)
                out_0:f32[3] = Concat(%4, %5, %2) {axis=0}
            "#]],
        );
    }

    #[test]
    fn one_is_itself() {
        check(
            "x:f32[1] -> y:f32[1] = cumprod{axis=0; reverse=False} x",
            expect![[r"
                graph test(in_0:f32[1]) -> (out_0)
                out_0:f32[1] = Identity(in_0)
            "]],
        );
    }

    #[test]
    fn an_axis_of_unknown_size_is_joined_in_a_loop() {
        check(
            "x:f32[3,B] -> y:f32[3,B] = cumprod{axis=1; reverse=True} x",
            expect![[r#"
            graph test(in_0:f32[3,B]) -> (out_0)
            %0 = Shape(in_0) {end=2, start=1}
            %1 = Squeeze(%0, [0]:i64)
            %2 = Range(0:i64, %1, 1:i64)
            %3 = Greater(%1, 1:i64)
            %4, out_0:f32[3,B] = Loop(_, %3, 1:i64, in_0) {body={
              graph cumprod(%5:i64[], %6:bool[], %7:i64[], %8:f32[3,B]) -> (%17, %16, %18)
              %9 = Add(%2, %7)
              %10 = Sub(%1, 1:i64)
              %11 = Less(%9, %10)
              %12 = Where(%11, %9, %10)
              %13 = Less(%9, %1)
              %14 = Gather(%8, %12) {axis=1}
              %15 = Mul(%14, %8)
              %16:i64[] = Mul(%7, 2:i64)
              %17:bool[] = Less(%16, %1)
              %18:f32[3,B] = Where(%13, %15, %8)
            }}
        "#]],
        );
        check(
            "x:i8[B,2] -> y:i8[B,2] = cummax{axis=0; reverse=False} x",
            expect![[r#"
            graph test(in_0:i8[B,2]) -> (out_0)
            %0 = Shape(in_0) {end=1, start=0}
            %1 = Squeeze(%0, [0]:i64)
            %2 = Range(0:i64, %1, 1:i64)
            %3 = Greater(%1, 1:i64)
            %4, out_0:i8[B,2] = Loop(_, %3, 1:i64, in_0) {body={
              graph cummax(%5:i64[], %6:bool[], %7:i64[], %8:i8[B,2]) -> (%19, %18, %24)
              %9 = Sub(%2, %7)
              %10 = Greater(%9, 0:i64)
              %11 = Where(%10, %9, 0:i64)
              %12 = GreaterOrEqual(%9, 0:i64)
              %13 = Gather(%8, %11) {axis=0}
              %14 = Cast(%13) {to=6}
              %15 = Cast(%8) {to=6}
              %16 = Max(%14, %15)
              %17 = Cast(%16) {to=3}
              %18:i64[] = Mul(%7, 2:i64)
              %19:bool[] = Less(%18, %1)
              %20 = Unsqueeze(%12, [1]:i64)
              %21 = Cast(%17) {to=6}
              %22 = Cast(%8) {to=6}
              %23 = Where(%20, %21, %22)
              %24:i8[B,2] = Cast(%23) {to=3}
            }}
        "#]],
        );
    }
}
