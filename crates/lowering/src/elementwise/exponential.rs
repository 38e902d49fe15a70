//! Exponentials and logarithms that are precise near zero.

use onnx::{DType, Expr};

use crate::elementwise::special::in_single;

/// `2ˣ`
pub(crate) fn exp2(x: Expr<'_>) -> Expr<'_> {
    match x.dtype().bits() {
        // Like JAX, rounds the logarithm of 2 to the type.
        8 => (x * x.constant(std::f64::consts::LN_2)).exp(),
        _ => x.constant(2.0).pow(x),
    }
}

/// `expm1(x) = tanh(x / 2) · (exp(x) + 1)`
///
/// ONNX has no `Expm1`, and `exp(x) − 1` has no correct digits near zero.
pub(crate) fn expm1(x: Expr<'_>) -> Expr<'_> {
    in_single([x], |[x]| (x / 2.0).tanh() * (x.exp() + 1.0))
}

/// `logistic(x) = 1 / (1 + exp(−x))`
///
/// For doubles, `Sigmoid` computes the left half as `1 − …` and loses digits there. In 8-bit types,
/// XLA rounds each step, and `exp` becomes NaN beyond the largest number.
pub(crate) fn logistic(x: Expr<'_>) -> Expr<'_> {
    let in_steps = x.dtype() == DType::F64 || x.dtype().bits() == 8;
    if in_steps { ((-x).exp() + 1.0).recip() } else { x.sigmoid() }
}

/// `log1p(x) = x · log(u) / (u − 1)` with `u = 1 + x`
///
/// The quotient compensates for the rounding of `u`. It is 1 if `u` is rounded to 1 or is infinite.
pub(crate) fn log1p(x: Expr<'_>) -> Expr<'_> {
    in_single([x], |[x]| {
        let u = x + 1.0;
        let is_itself = u.equal(1.0).or(u.equal(f64::INFINITY));
        x * is_itself.select(x.constant(1.0), u.log() / (u - 1.0))
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn expm1_keeps_its_digits_near_zero() {
        check(
            "x:f32[3] -> y:f32[3] = expm1 x",
            expect![[r#"
                graph test(in_0:f32[3]) -> (out_0)
                %0 = Div(in_0, 2.0)
                %1 = Tanh(%0)
                %2 = Exp(in_0)
                %3 = Add(%2, 1.0)
                out_0:f32[3] = Mul(%1, %3)
            "#]],
        );
    }

    #[test]
    fn log1p_compensates_for_the_rounding_of_the_sum() {
        check(
            "x:f32[3] -> y:f32[3] = log1p x",
            expect![[r#"
                graph test(in_0:f32[3]) -> (out_0)
                %0 = Add(in_0, 1.0)
                %1 = Equal(%0, 1.0)
                %2 = Equal(%0, inf)
                %3 = Or(%1, %2)
                %4 = Log(%0)
                %5 = Sub(%0, 1.0)
                %6 = Div(%4, %5)
                %7 = Where(%3, 1.0, %6)
                out_0:f32[3] = Mul(in_0, %7)
            "#]],
        );
    }

    #[test]
    fn a_double_keeps_its_digits_in_the_left_tail() {
        check(
            "x:f64[3] -> y:f64[3] = logistic x",
            expect![[r#"
                graph test(in_0:f64[3]) -> (out_0)
                %0 = Neg(in_0)
                %1 = Exp(%0)
                %2 = Add(%1, 1.0:f64)
                out_0:f64[3] = Reciprocal(%2)
            "#]],
        );
    }

    #[test]
    fn half_precision_is_rounded_once() {
        check(
            "x:f16[3] -> y:f16[3] = expm1 x",
            expect![[r#"
                graph test(in_0:f16[3]) -> (out_0)
                %0 = Cast(in_0) {to=1}
                %1 = Div(%0, 2.0)
                %2 = Tanh(%1)
                %3 = Exp(%0)
                %4 = Add(%3, 1.0)
                %5 = Mul(%2, %4)
                out_0:f16[3] = Cast(%5) {to=10}
            "#]],
        );
    }

    #[test]
    fn a_hint_of_accuracy_is_ignored() {
        check(
            "x:f32[3] -> y:f32[3] = logistic{accuracy=None} x",
            expect![[r#"
                graph test(in_0:f32[3]) -> (out_0)
                out_0:f32[3] = Sigmoid(in_0)
            "#]],
        );
    }
}
