//! Fuses reductions of squares, sums of exponentials, and quotients.
//!
//! `logsumexp` stays a formula: `ReduceLogSumExp` of ONNX Runtime is correct but many times slower.

use algebra::pattern::{
    Pattern, abs, exp, hole, log, node, reciprocal, reduce_max, reduce_sum, spread, sqrt,
};
use algebra::rewrite::{Declined, Formulas, Match, Result, ensure, rewrite};
use onnx::expr::reduced_shape;
use onnx::{Attr, DType, Op, OpType, Type};

/// The root of a sum comes first, because it contains the sum.
pub(crate) static STAGES: Formulas = Formulas::new(&[
    &[rewrite("fuse-l2-norm", || sqrt(&squares()), to_l2_norm)],
    &[
        rewrite("fuse-sum-of-squares", squares, |found| of_operand(found, OpType::ReduceSumSquare)),
        rewrite("fuse-quotient", quotient, to_quotient),
        rewrite(
            "drop-abs",
            || abs(&reduce_sum(&exp(&hole("x"))).named("sum")),
            |found| Ok(Op::new(OpType::Identity, &[found.value("sum")?])),
        ),
    ],
    &[rewrite("fuse-log-sum-exp", log_sum_exp, to_plain_log_sum_exp)],
]);

/// `Σ x²`
fn squares() -> Pattern {
    let x = hole("x");
    reduce_sum(&(&x * &x).named("square")).named("sum")
}

/// `log Σ exp(x − m) + m`, where `m` is the maximum, or 0 if the maximum is not finite.
fn log_sum_exp() -> Pattern {
    let x = hole("x");
    let max = spread(&reduce_max(&x).named("max"));
    let is_finite = node(OpType::Less, &[&abs(&max), &f64::INFINITY.into()]);
    let shift = node(OpType::Where, &[&is_finite, &max, &0.0.into()]).named("shift");
    let shifted = &x - spread(&shift).named("spread shift");
    let sum = reduce_sum(&exp(&shifted).named("exponentials")).named("sum");
    log(&spread(&sum)).named("log") + spread(&shift).named("shift behind")
}

/// Drops the special cases of the maximum, which is only a shift. If an element is NaN, the sum is NaN with any shift. If
/// the maximum is infinite, the largest finite number is a correct shift too, because the sum is still 0 or infinite.
fn to_plain_log_sum_exp(found: &mut Match<'_, '_, '_>) -> Result<Op> {
    let x = found.value("x")?;
    let axes = found.axes("max")?;
    ensure(found.axes("sum")? == axes, "the axes of the maximum differ from those of the sum")?;
    found.expect_reduced(found.value("spread shift")?, x, &axes)?;
    let Type { shape, dtype } = found.ty(x)?;
    let largest = largest_of(dtype).ok_or("the type has no infinity")?;
    let ty = found.ty(found.result())?;
    let [kept, dropped] = [true, false].map(|keep| reduced_shape(&shape, &axes, keep));
    let keeps = ty.shape[..] == kept[..];
    let is_whole = |name: &str| Ok::<_, Declined>(found.ty(found.value(name)?)? == ty);
    ensure(
        (keeps || ty.shape[..] == dropped[..]) && is_whole("log")? && is_whole("shift behind")?,
        "the maximum is broadcast along other axes",
    )?;
    for name in ["exponentials", "sum"] {
        ensure(found.reads(found.value(name)?) <= 1, "another node reads a part of the formula")?;
    }
    found.expect_kernel(OpType::ReduceMax, x)?;
    found.expect_kernel(OpType::Clip, x)?;
    found.expect_axes_as_operand()?;
    found.formula([x], |[x]| {
        let max = x.reduce(OpType::ReduceMax, &axes, keeps);
        let (low, high) = (x.constant(-largest), x.constant(largest));
        let shift = x.builder.node(OpType::Clip, &[max, low, high], Vec::new());
        let spread = if keeps { shift } else { shift.unsqueeze(&axes) };
        (x - spread).exp().reduce_sum(&axes, keeps).log() + shift
    })
}

/// Returns the largest finite number of a type.
fn largest_of(dtype: DType) -> Option<f64> {
    match dtype {
        DType::F64 => Some(f64::MAX),
        DType::F32 => Some(f32::MAX.into()),
        DType::F16 => Some(65504.0),
        _ => None,
    }
}

fn to_l2_norm(found: &mut Match<'_, '_, '_>) -> Result<Op> {
    ensure(found.reads(found.value("sum")?) <= 1, "another node reads the sum")?;
    of_operand(found, OpType::ReduceL2)
}

/// Returns another reduction of `x` over the axes of the sum.
fn of_operand(found: &mut Match<'_, '_, '_>, op: OpType) -> Result<Op> {
    let x = found.value("x")?;
    ensure(found.ty(x)?.dtype.is_float(), "ONNX Runtime reduces integers in float64")?;
    ensure(found.reads(found.value("square")?) <= 1, "another node reads the squares")?;
    found.expect_kernel(op, x)?;
    found.expect_axes_as_operand()?;
    let sum = found.node("sum")?;
    let axes = sum.inputs.get(1).copied().flatten().ok_or("the axes are unknown")?;
    let keeps = sum.attr("keepdims").cloned().unwrap_or(Attr::Int(1));
    Ok(Op::new(op, &[x, axes]).attr("keepdims", keeps))
}

/// `x · (1 / √v)`, which is `x / √v` with an additional rounding.
///
/// The reciprocal of a root does not overflow.
fn quotient() -> Pattern {
    hole("x") * reciprocal(&sqrt(&hole("v")).named("root")).named("reciprocal")
}

fn to_quotient(found: &mut Match<'_, '_, '_>) -> Result<Op> {
    ensure(found.reads(found.value("reciprocal")?) <= 1, "another node reads the reciprocal")?;
    Ok(Op::new(OpType::Div, &[found.value("x")?, found.value("root")?]))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check, formulas};

    #[test]
    fn the_root_of_a_sum_of_squares_is_a_norm() {
        check(
            formulas(&super::STAGES),
            "graph g(x:f32[2,3]) -> (y)
%0:f32[2,3] = Mul(x, x)
%1:f32[2] = ReduceSum(%0, [1]:i64) {keepdims=0}
y:f32[2] = Sqrt(%1)",
            expect![[r#"
                graph g(x:f32[2,3]) -> (y)
                y:f32[2] = ReduceL2(x, [1]:i64) {keepdims=0}  # 4 2 3
            "#]],
        );
    }

    #[test]
    fn a_sum_of_squares_with_other_readers_is_not_a_norm() {
        check(
            formulas(&super::STAGES),
            "graph g(x:f32[2,3]) -> (y, z)
%0:f32[2,3] = Mul(x, x)
%1:f32[2] = ReduceSum(%0, [1]:i64) {keepdims=0}
y:f32[2] = Sqrt(%1)
z:f32[2] = Exp(%1)",
            expect![[r#"
                graph g(x:f32[2,3]) -> (y, z)
                %0 = ReduceSumSquare(x, [1]:i64) {keepdims=0}  # 3 2
                y:f32[2] = Sqrt(%0)  # 4
                z:f32[2] = Exp(%0)  # 5
            "#]],
        );
    }

    #[test]
    fn sums_of_other_products_and_of_integers_are_kept() {
        check(
            formulas(&super::STAGES),
            "graph g(x:f32[2,3], y:f32[2,3], n:i64[3]) -> (z, m)
%0:f32[2,3] = Mul(x, y)
z:f32[2] = ReduceSum(%0, [1]:i64) {keepdims=0}
%1:i64[3] = Mul(n, n)
m:i64[] = ReduceSum(%1, [0]:i64) {keepdims=0}",
            expect![[r#"
                graph g(x:f32[2,3], y:f32[2,3], n:i64[3]) -> (z, m)
                %0 = Mul(x, y)  # 2
                z:f32[2] = ReduceSum(%0, [1]:i64) {keepdims=0}  # 3
                %1 = Mul(n, n)  # 4
                m:i64[] = ReduceSum(%1, [0]:i64) {keepdims=0}  # 5
            "#]],
        );
    }

    #[test]
    fn the_absolute_value_of_a_sum_of_exponentials_is_the_sum() {
        check(
            formulas(&super::STAGES),
            "graph g(x:f32[2,3]) -> (y)
%0:f32[2,3] = Exp(x)
%1:f32[2] = ReduceSum(%0, [1]:i64) {keepdims=0}
%2:f32[2] = Abs(%1)
y:f32[2] = Log(%2)",
            expect![[r#"
                graph g(x:f32[2,3]) -> (y)
                %0 = Exp(x)  # 2
                %1 = ReduceSum(%0, [1]:i64) {keepdims=0}  # 3
                %2 = Identity(%1)  # 4 2 3
                y:f32[2] = Log(%2)  # 5
            "#]],
        );
    }

    #[test]
    fn a_product_with_the_reciprocal_of_a_root_is_a_quotient() {
        check(
            formulas(&super::STAGES),
            "graph g(x:f32[2,3], v:f32[2,1], w:f32[2,1]) -> (y, z)
%0:f32[2,1] = Sqrt(v)
%1:f32[2,1] = Reciprocal(%0)
y:f32[2,3] = Mul(%1, x)
%2:f32[2,1] = Reciprocal(w)
z:f32[2,3] = Mul(x, %2)",
            expect![[r#"
                graph g(x:f32[2,3], v:f32[2,1], w:f32[2,1]) -> (y, z)
                %0 = Sqrt(v)  # 2
                y:f32[2,3] = Div(x, %0)  # 4 2 3
                %1 = Reciprocal(w)  # 5
                z:f32[2,3] = Mul(x, %1)  # 6
            "#]],
        );
    }

    fn log_sum_exp(how: [&str; 2]) -> String {
        let [shape, behind] = how;
        format!(
            "graph g(x:f32[3,3]) -> (y)
%0:f32[3] = jax2onnx.composite::reduce_max(x) {{axes=[1]}}
%1:f32[3] = Abs(%0)
%2:bool[3] = Less(%1, inf)
%3:f32[3] = Where(%2, %0, 0.0)
%4:{shape} = Unsqueeze(%3, [{behind}]:i64)
%5:f32[3,3] = Sub(x, %4)
%6:f32[3,3] = Exp(%5)
%7:f32[3] = ReduceSum(%6, [1]:i64) {{keepdims=0}}
%8:f32[3] = Log(%7)
y:f32[3] = Add(%8, %3)"
        )
    }

    fn lean(edit: &mut onnx::Edit<'_>) {
        super::STAGES.run(edit);
        edit.drop_unread();
    }

    #[test]
    fn the_maximum_of_a_log_sum_exp_needs_no_special_cases() {
        check(
            lean,
            &log_sum_exp(["f32[3,1]", "1"]),
            expect![[r#"
            graph g(x:f32[3,3]) -> (y)
            %0 = ReduceMax(x, [1]:i64) {keepdims=0}  # 11 2 3 4 5 6 7 8 9 10
            %1 = Clip(%0, -3.4028235e38, 3.4028235e38)  # 11 2 3 4 5 6 7 8 9 10
            %2 = Unsqueeze(%1, [1]:i64)  # 6 2 3 4 5 7 8 9 10 11
            %3 = Sub(x, %2)  # 7 2 3 4 5 6 8 9 10 11
            %4 = Exp(%3)  # 8 2 3 4 5 6 7 9 10 11
            %5 = ReduceSum(%4, [1]:i64) {keepdims=0}  # 9 2 3 4 5 6 7 8 10 11
            %6 = Log(%5)  # 10 2 3 4 5 6 7 8 9 11
            y:f32[3] = Add(%6, %1)  # 11 2 3 4 5 6 7 8 9 10
        "#]],
        );
    }

    #[test]
    fn a_shift_of_other_rows_is_not_fused() {
        check(
            lean,
            &log_sum_exp(["f32[1,3]", "0"]),
            expect![[r#"
            graph g(x:f32[3,3]) -> (y)
            %0 = jax2onnx.composite::reduce_max(x) {axes=[1]}  # 2
            %1 = Abs(%0)  # 3
            %2 = Less(%1, inf)  # 4
            %3 = Where(%2, %0, 0.0)  # 5
            %4 = Unsqueeze(%3, [0]:i64)  # 6
            %5 = Sub(x, %4)  # 7
            %6 = Exp(%5)  # 8
            %7 = ReduceSum(%6, [1]:i64) {keepdims=0}  # 9
            %8 = Log(%7)  # 10
            y:f32[3] = Add(%8, %3)  # 11
        "#]],
        );
        let twice = log_sum_exp(["f32[3,1]", "1"]).replace("(y)", "(y, z)");
        check(
            lean,
            &(twice + "\nz:f32[3,3] = Neg(%6)"),
            expect![[r#"
            graph g(x:f32[3,3]) -> (y, z)
            %0 = jax2onnx.composite::reduce_max(x) {axes=[1]}  # 2
            %1 = Abs(%0)  # 3
            %2 = Less(%1, inf)  # 4
            %3 = Where(%2, %0, 0.0)  # 5
            %4 = Unsqueeze(%3, [1]:i64)  # 6
            %5 = Sub(x, %4)  # 7
            %6 = Exp(%5)  # 8
            %7 = ReduceSum(%6, [1]:i64) {keepdims=0}  # 9
            %8 = Log(%7)  # 10
            y:f32[3] = Add(%8, %3)  # 11
            z:f32[3,3] = Neg(%6)  # 12
        "#]],
        );
    }
}
