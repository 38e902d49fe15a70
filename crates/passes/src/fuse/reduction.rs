//! Reductions of squares, and quotients.
//!
//! `logsumexp` stays as it is, but for the absolute value that JAX takes of its sum: the runtime's
//! `ReduceLogSumExp` is right but many times slower than the formula.

use onnx::{Attr, Op};

use crate::pattern::{Pattern, abs, exp, hole, reciprocal, reduce_sum, sqrt};
use crate::rewrite::{Declined, Found, Rewrite};

/// A root of a sum before the sum, which is a part of it.
pub(super) const STAGES: &[&[Rewrite]] = &[
    &[Rewrite { name: "fuse-l2-norm", pattern: || sqrt(&squares()), replacement: to_l2_norm }],
    &[
        Rewrite { name: "fuse-sum-of-squares", pattern: squares, replacement: to_sum_of_squares },
        Rewrite { name: "fuse-quotient", pattern: quotient, replacement: to_quotient },
        Rewrite {
            name: "drop-abs",
            pattern: || abs(&reduce_sum(&exp(&hole("x"))).named("sum")),
            replacement: |found| Ok(Op::new("Identity", &[found.value("sum")?])),
        },
    ],
];

/// `Σ x²`
fn squares() -> Pattern {
    let x = hole("x");
    reduce_sum(&(&x * &x).named("square")).named("sum")
}

fn to_l2_norm(found: &mut Found<'_, '_>) -> Result<Op<'static>, Declined> {
    if found.edit.reads(found.value("sum")?) > 1 {
        return Err("the sum is read elsewhere".into());
    }
    of_operand(found, "ReduceL2")
}

fn to_sum_of_squares(found: &mut Found<'_, '_>) -> Result<Op<'static>, Declined> {
    of_operand(found, "ReduceSumSquare")
}

/// Another reduction of `x` over the axes of the sum.
fn of_operand(found: &mut Found<'_, '_>, op: &'static str) -> Result<Op<'static>, Declined> {
    let x = found.value("x")?;
    if !found.ty(x)?.dtype.is_float() {
        return Err("the runtime reduces integers in double precision".into());
    }
    if found.edit.reads(found.value("square")?) > 1 {
        return Err("the squares are read elsewhere".into());
    }
    found.expect_kernel(op, x)?;
    found.expect_axes_as_operand()?;
    let sum = found.node("sum")?;
    let axes = sum.inputs.get(1).copied().flatten().ok_or("the axes are not given")?;
    let keeps = sum.attr("keepdims").cloned().unwrap_or(Attr::Int(1));
    Ok(Op::new(op, &[x, axes]).attr("keepdims", keeps))
}

/// `x · (1 / √v)`, which is `x / √v` with one rounding less
///
/// A root is never so small that its reciprocal overflows.
fn quotient() -> Pattern {
    hole("x") * reciprocal(&sqrt(&hole("v")).named("root")).named("reciprocal")
}

fn to_quotient(found: &mut Found<'_, '_>) -> Result<Op<'static>, Declined> {
    if found.edit.reads(found.value("reciprocal")?) > 1 {
        return Err("the reciprocal is read elsewhere".into());
    }
    Ok(Op::new("Div", &[found.value("x")?, found.value("root")?]))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::fuse::reductions;
    use crate::testing::check;

    #[test]
    fn the_root_of_a_sum_of_squares_is_a_norm() {
        check(
            reductions,
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
    fn a_sum_that_is_read_elsewhere_is_one_of_squares() {
        check(
            reductions,
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
    fn other_products_and_integers_are_summed_as_they_are() {
        check(
            reductions,
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
    fn a_sum_of_exponentials_is_its_absolute_value() {
        check(
            reductions,
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
            reductions,
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
}
