//! Powers and roots.

use onnx::Expr;

use crate::ctx::{Ctx, Eqn};
use crate::elementwise::special::in_single;
use crate::error::Result;

/// `xⁿ` for a constant integer `n`, by squaring; `1 / x⁻ⁿ` if `n` is negative
pub(crate) fn integer_pow<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let n: i64 = eqn.param("y")?;
    eqn.ignore(&["accuracy"]);
    let [x] = eqn.operands()?;

    let power = by_squaring(x, n.unsigned_abs(), |a, b| a * b);
    let power = power.unwrap_or_else(|| x.constant(1.0).expand(&x.shape()));
    Ok(if n < 0 { x.constant(1.0) / power } else { power })
}

/// `xⁿ` for any type with a product; `None` for `n = 0`
pub(crate) fn by_squaring<T: Copy>(x: T, n: u64, times: impl Fn(T, T) -> T) -> Option<T> {
    let mut square = x;
    let mut product: Option<T> = None;
    let mut rest = n;
    while rest > 0 {
        if rest & 1 == 1 {
            product = Some(product.map_or(square, |product| times(product, square)));
        }
        rest >>= 1;
        if rest > 0 {
            square = times(square, square);
        }
    }
    product
}

/// `xʸ`; like JAX, casts an integer exponent to the type of `x`
pub(crate) fn pow<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    x.pow(y.cast(x.dtype()))
}

/// `1 / √x`
pub(crate) fn rsqrt(x: Expr<'_>) -> Expr<'_> {
    in_single([x], |[x]| x.sqrt().recip())
}

/// `∛x = sign(x) · |x|^⅓`, with one Newton step that corrects the rounding of ⅓
///
/// The step is `(e − x / e²) / 3`, in which no power overflows. The step is NaN only if `x` is
/// zero, infinite or NaN, and then the root is `x` itself. The comparison `step = step` is false
/// for NaN.
pub(crate) fn cbrt(x: Expr<'_>) -> Expr<'_> {
    in_single([x], |[x]| {
        let estimate = x.sign() * x.abs().pow(1.0 / 3.0);
        let step = (estimate - x / (estimate * estimate)) / 3.0;
        step.equal(step).select(estimate - step, x)
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn a_power_is_computed_by_squaring() {
        check(
            "x:f32[3] -> y:f32[3] = integer_pow{y=7} x",
            expect![[r#"
                graph test(in_0:f32[3]) -> (out_0)
                %0 = Mul(in_0, in_0)
                %1 = Mul(in_0, %0)
                %2 = Mul(%0, %0)
                out_0:f32[3] = Mul(%1, %2)
            "#]],
        );
    }

    #[test]
    fn a_reciprocal_of_a_root_is_rounded_once() {
        check(
            "x:bf16[3] -> y:bf16[3] = rsqrt x",
            expect![[r#"
                graph test(in_0:bf16[3]) -> (out_0)
                %0 = Cast(in_0) {to=1}
                %1 = Sqrt(%0)
                %2 = Reciprocal(%1)
                out_0:bf16[3] = Cast(%2) {to=16}
            "#]],
        );
    }

    #[test]
    fn a_negative_power_is_a_reciprocal() {
        check(
            "x:f32[3] -> y:f32[3] = integer_pow{y=-2} x",
            expect![[r#"
                graph test(in_0:f32[3]) -> (out_0)
                %0 = Mul(in_0, in_0)
                out_0:f32[3] = Div(1.0, %0)
            "#]],
        );
    }

    #[test]
    fn the_power_of_zero_has_the_shape_of_its_operand() {
        check(
            "x:f32[3] -> y:f32[3] = integer_pow{y=0} x",
            expect![[r#"
                graph test(in_0:f32[3]) -> (out_0)
                out_0:f32[3] = Expand(1.0, [3]:i64)
            "#]],
        );
    }

    #[test]
    fn an_integer_exponent_is_cast_to_a_float() {
        check(
            "x:f32[3] y:i8[3] -> z:f32[3] = pow x y",
            expect![[r#"
                graph test(in_0:f32[3], in_1:i8[3]) -> (out_0)
                %0 = Cast(in_1) {to=1}
                out_0:f32[3] = Pow(in_0, %0)
            "#]],
        );
    }

    #[test]
    fn the_cube_root_of_a_zero_is_that_zero() {
        check(
            "x:f32[3] -> y:f32[3] = cbrt x",
            expect![[r#"
                graph test(in_0:f32[3]) -> (out_0)
                %0 = Sign(in_0)
                %1 = Abs(in_0)
                %2 = Pow(%1, 0.33333334)
                %3 = Mul(%0, %2)
                %4 = Mul(%3, %3)
                %5 = Div(in_0, %4)
                %6 = Sub(%3, %5)
                %7 = Div(%6, 3.0)
                %8 = Equal(%7, %7)
                %9 = Sub(%3, %7)
                out_0:f32[3] = Where(%8, %9, in_0)
            "#]],
        );
    }

    #[test]
    fn an_unread_parameter_is_refused() {
        check(
            "x:f32[3] -> y:f32[3] = integer_pow{y=2; mode=fast} x",
            expect![[r#"
                refused: the plugin for `integer_pow` does not support the parameter `mode=fast`
            "#]],
        );
    }
}
