//! Rounding to integers.

use jaxpr::Param;
use onnx::Expr;

use crate::ctx::{Ctx, Eqn};
use crate::elementwise::arithmetic;
use crate::error::{Refused, Result};

/// Rounds to the nearest integer; halves to the even integer, or away from zero.
pub(crate) fn round<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let method: Param = eqn.param("rounding_method")?;
    let [x] = eqn.operands()?;

    // Some versions of JAX write a number in place of the name.
    match &method {
        Param::Enum(_, name) if &**name == "TO_NEAREST_EVEN" => Ok(x.round()),
        Param::Enum(_, name) if &**name == "AWAY_FROM_ZERO" => Ok(away_from_zero(x)),
        Param::Int(1) => Ok(x.round()),
        Param::Int(0) => Ok(away_from_zero(x)),
        _ => Err(Refused::NoCounterpart { what: format!("rounding_method={method}") }.into()),
    }
}

/// `sign(x) · ⌊|x| + ½⌋`, without the sum, which would round up the number just below ½
fn away_from_zero(x: Expr<'_>) -> Expr<'_> {
    let size = x.abs();
    let floor = size.floor();
    let is_half_or_more = (size - floor).greater_equal(0.5);
    is_half_or_more.select(floor + 1.0, floor) * arithmetic::sign(x)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn rounding_to_even_is_one_node() {
        check(
            "x:f32[3] -> y:f32[3] = round{rounding_method=RoundingMethod.TO_NEAREST_EVEN} x",
            expect![[r#"
                graph test(in_0:f32[3]) -> (out_0)
                out_0:f32[3] = Round(in_0)
            "#]],
        );
    }

    #[test]
    fn rounding_away_from_zero_adds_no_half() {
        check(
            "x:f32[3] -> y:f32[3] = round{rounding_method=RoundingMethod.AWAY_FROM_ZERO} x",
            expect![[r#"
                graph test(in_0:f32[3]) -> (out_0)
                %0 = Abs(in_0)
                %1 = Floor(%0)
                %2 = Sub(%0, %1)
                %3 = GreaterOrEqual(%2, 0.5)
                %4 = Add(%1, 1.0)
                %5 = Where(%3, %4, %1)
                %6 = Abs(in_0)
                %7 = Greater(%6, 0.0)
                %8 = Sign(in_0)
                %9 = Where(%7, %8, in_0)
                out_0:f32[3] = Mul(%5, %9)
            "#]],
        );
    }

    #[test]
    fn another_rounding_method_is_refused() {
        check(
            "x:f32[3] -> y:f32[3] = round{rounding_method=RoundingMethod.UP} x",
            expect![[r#"
                refused: `rounding_method=UP` has no ONNX counterpart
            "#]],
        );
    }
}
