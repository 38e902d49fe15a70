//! Reductions over axes.

mod extreme;
mod monoid;

use onnx::{DType, Dim, Expr, OpType};

use crate::bodies::joined_to_one;
use crate::complex;
use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

pub(crate) use extreme::{argmax, argmin, ordered_as_signed, reduce_max, reduce_min};
pub(crate) use monoid::Monoid;

/// `Σ x` over the axes
pub(crate) fn reduce_sum<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axes = axes(eqn)?;
    let [x] = eqn.operands()?;
    Monoid::Add.reduce(eqn, x, &axes)
}

/// `Π x` over the axes
///
/// ONNX Runtime multiplies integers in double precision and does not wrap, so integers are
/// multiplied pairwise.
pub(crate) fn reduce_prod<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axes = axes(eqn)?;
    let [x] = eqn.operands()?;
    Monoid::Mul.reduce(eqn, x, &axes)
}

/// `Π z` over the axes, for complex numbers
pub(crate) fn complex_reduce_prod<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axes = axes(eqn)?;
    let [z] = eqn.operands()?;
    let one = z.builder.constant(z.dtype(), &[2], &[1.0, 0.0]);
    by_halves(eqn, z, &axes, one, complex::product)
}

/// Returns the maximum over the axes, by the real part, then by the imaginary part.
pub(crate) fn complex_reduce_max<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axes = axes(eqn)?;
    let [z] = eqn.operands()?;
    let least = z.builder.constant(z.dtype(), &[2], &[f64::NEG_INFINITY, 0.0]);
    by_halves(eqn, z, &axes, least, complex::larger)
}

/// Returns the minimum over the axes, by the real part, then by the imaginary part.
pub(crate) fn complex_reduce_min<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axes = axes(eqn)?;
    let [z] = eqn.operands()?;
    let most = z.builder.constant(z.dtype(), &[2], &[f64::INFINITY, 0.0]);
    by_halves(eqn, z, &axes, most, complex::smaller)
}

/// `∧ x` over the axes, bit by bit for integers
pub(crate) fn reduce_and<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axes = axes(eqn)?;
    let [x] = eqn.operands()?;
    Monoid::And.reduce(eqn, x, &axes)
}

/// `∨ x` over the axes, bit by bit for integers
pub(crate) fn reduce_or<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axes = axes(eqn)?;
    let [x] = eqn.operands()?;
    Monoid::Or.reduce(eqn, x, &axes)
}

/// `⊕ x` over the axes, bit by bit for integers; for booleans, true if an odd number of them is
/// true
pub(crate) fn reduce_xor<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axes = axes(eqn)?;
    let [x] = eqn.operands()?;
    Monoid::Xor.reduce(eqn, x, &axes)
}

fn axes(eqn: &Eqn<'_, '_>) -> Result<Vec<usize>> {
    Ok(eqn.param("axes")?)
}

/// Returns the sum of integers, with wrapping.
///
/// ONNX Runtime adds integers in double precision and does not wrap. If every sum fits into 53
/// bits, this is exact, and the cast back wraps. Otherwise, the sum is a matrix product with ones,
/// which is exact.
fn sum_of_ints<'g>(x: Expr<'g>, axes: &[usize]) -> Expr<'g> {
    if axes.is_empty() {
        return x;
    }
    let shape = x.shape();
    let reduced: Vec<Dim> = axes.iter().map(|&axis| shape[axis].clone()).collect();
    let count = x.builder.product(&reduced);
    let longest = 1i64 << 53usize.saturating_sub(x.dtype().bits());
    let is_exact = count.known().map_or(x.dtype().bits() <= 16, |count| count <= longest);
    if is_exact && x.dtype().bits() < 64 {
        return x.cast(DType::I64).reduce_sum(axes, false).cast(x.dtype());
    }
    // ONNX Runtime fails on empty products of unsigned integers. Signed integers wrap in the same
    // way.
    let signed = x.cast(if x.dtype().bits() < 64 { DType::I32 } else { DType::I64 });
    let ones = signed.constant(1.0).expand(&[count, Dim::Known(1)]);
    let sums = joined_last(signed, axes).matmul(ones);
    sums.squeeze(&[sums.rank() - 1]).cast(x.dtype())
}

/// Merges the axes into one, after the others.
fn joined_last<'g>(x: Expr<'g>, axes: &[usize]) -> Expr<'g> {
    let kept: Vec<usize> = (0..x.rank()).filter(|axis| !axes.contains(axis)).collect();
    let shape = x.shape();
    let dims = |axes: &[usize]| axes.iter().map(|&axis| shape[axis].clone()).collect::<Vec<Dim>>();
    let mut joined = dims(&kept);
    joined.push(x.builder.product(&dims(axes)));
    x.transpose(&[&kept[..], axes].concat()).reshape(&joined)
}

/// True if all (`ReduceMin`) or any (`ReduceMax`) of the booleans are true.
///
/// ONNX Runtime fails on an empty axis of booleans. Before 1.31, both `ReduceMin` and `ReduceMax` of no bytes are 0, but
/// `ReduceMin` of no floats is infinity.
pub(crate) fn of_flags<'g>(x: Expr<'g>, op: OpType, axes: &[usize]) -> Expr<'g> {
    if !may_be_empty(x, axes) {
        return x.reduce(op, axes, false);
    }
    let wide = if op == OpType::ReduceMin { DType::F32 } else { DType::U8 };
    x.cast(wide).reduce(op, axes, false).cast(DType::Bool)
}

/// True if an axis may be empty.
fn may_be_empty(x: Expr<'_>, axes: &[usize]) -> bool {
    let shape = x.shape();
    !axes.iter().all(|&axis| shape[axis].is_positive())
}

/// Reduces one axis after the other: joins the two halves of the axis until one element is left.
fn by_halves<'g>(
    eqn: &Eqn<'g, '_>,
    x: Expr<'g>,
    axes: &[usize],
    identity: Expr<'g>,
    join: fn(Expr<'g>, Expr<'g>) -> Expr<'g>,
) -> Result<Expr<'g>> {
    let mut rest = x;
    for &axis in axes {
        let Some(mut size) = rest.shape()[axis].known() else {
            let join_all = |lefts: &[Expr<'g>], rights: &[Expr<'g>]| {
                Ok(lefts.iter().zip(rights).map(|(&left, &right)| join(left, right)).collect())
            };
            rest = joined_to_one(eqn.primitive, &[rest], axis, &[identity], join_all)?[0];
            continue;
        };
        if size == 0 {
            let mut shape = rest.shape().to_vec();
            shape[axis] = Dim::Known(1);
            rest = identity.expand(&shape);
        }
        while size > 1 {
            let half = size / 2;
            let joined =
                join(rest.slice_axis(axis, 0, half), rest.slice_axis(axis, half, 2 * half));
            rest = if size % 2 == 1 {
                Expr::concat(&[joined, rest.slice_axis(axis, size - 1, size)], axis)
            } else {
                joined
            };
            size = half + size % 2;
        }
    }
    Ok(rest.squeeze(axes))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn a_sum_of_floats_is_one_node() {
        check(
            "x:f32[2,3] -> y:f32[2] = reduce_sum{axes=[1]} x",
            expect![[r"
                graph test(in_0:f32[2,3]) -> (out_0)
                out_0:f32[2] = ReduceSum(in_0, [1]:i64) {keepdims=0}
            "]],
        );
    }

    #[test]
    fn a_sum_of_integers_is_wide_enough_to_wrap() {
        check(
            "x:i32[2,3] -> y:i32[2] = reduce_sum{axes=[1]} x",
            expect![[r"
                graph test(in_0:i32[2,3]) -> (out_0)
                %0 = Cast(in_0) {to=7}
                %1 = ReduceSum(%0, [1]:i64) {keepdims=0}
                out_0:i32[2] = Cast(%1) {to=6}
            "]],
        );
    }

    #[test]
    fn a_sum_of_64_bits_is_a_product_with_ones() {
        check(
            "x:i64[2,3] -> y:i64[3] = reduce_sum{axes=[0]} x",
            expect![[r"
                graph test(in_0:i64[2,3]) -> (out_0)
                %0 = Expand(1:i64, [2, 1]:i64)
                %1 = Transpose(in_0) {perm=[1, 0]}
                %2 = MatMul(%1, %0)
                out_0:i64[3] = Squeeze(%2, [1]:i64)
            "]],
        );
    }

    #[test]
    fn a_sum_over_no_axes_is_the_operand() {
        check(
            "x:i32[2,3] -> y:i32[2,3] = reduce_sum{axes=[]} x",
            expect![[r"
                graph test(in_0:i32[2,3]) -> (out_0)
                out_0:i32[2,3] = Identity(in_0)
            "]],
        );
    }

    #[test]
    fn integers_are_multiplied_pairwise() {
        check(
            "x:i32[3] -> y:i32[] = reduce_prod{axes=[0]} x",
            expect![[r"
                graph test(in_0:i32[3]) -> (out_0)
                %0 = Slice(in_0, [0]:i64, [1]:i64, [0]:i64)
                %1 = Slice(in_0, [1]:i64, [2]:i64, [0]:i64)
                %2 = Mul(%0, %1)
                %3 = Slice(in_0, [2]:i64, [3]:i64, [0]:i64)
                %4 = Concat(%2, %3) {axis=0}
                %5 = Slice(%4, [0]:i64, [1]:i64, [0]:i64)
                %6 = Slice(%4, [1]:i64, [2]:i64, [0]:i64)
                %7 = Mul(%5, %6)
                out_0:i32[] = Squeeze(%7, [0]:i64)
            "]],
        );
    }

    #[test]
    fn booleans_are_bytes_if_an_axis_may_be_empty() {
        check(
            "x:bool[B] -> y:bool[] = reduce_and{axes=[0]} x",
            expect![[r#"
                graph test(in_0:bool[B]) -> (out_0)
                %0 = Cast(in_0) {to=1}
                %1 = ReduceMin(%0, [0]:i64) {keepdims=0}
                out_0:bool[] = Cast(%1) {to=9}
            "#]],
        );
    }

    #[test]
    fn bits_of_an_axis_of_unknown_size_are_joined_in_a_loop() {
        check(
            "x:i32[B] -> y:i32[] = reduce_xor{axes=[0]} x",
            expect![[r#"
            graph test(in_0:i32[B]) -> (out_0)
            %0 = Shape(in_0) {end=1, start=0}
            %1 = Squeeze(%0, [0]:i64)
            %2 = Range(0:i64, %1, 1:i64)
            %3 = Greater(%1, 1:i64)
            %4, %5 = Loop(_, %3, 1:i64, in_0) {body={
              graph reduce_xor(%10:i64[], %11:bool[], %12:i64[], %13:i32[B]) -> (%21, %20, %22)
              %14 = Sub(%2, %12)
              %15 = Greater(%14, 0:i64)
              %16 = Where(%15, %14, 0:i64)
              %17 = GreaterOrEqual(%14, 0:i64)
              %18 = Gather(%13, %16) {axis=0}
              %19 = BitwiseXor(%18, %13)
              %20:i64[] = Mul(%12, 2:i64)
              %21:bool[] = Less(%20, %1)
              %22:i32[B] = Where(%17, %19, %13)
            }}
            %6 = Expand(0:i32, [1]:i64)
            %7 = Concat(%6, %5) {axis=0}
            %8 = Unsqueeze(%1, [0]:i64)
            %9 = Gather(%7, %8) {axis=0}
            out_0:i32[] = Squeeze(%9, [0]:i64)
        "#]],
        );
    }
}
