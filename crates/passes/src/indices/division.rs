//! Simplifies the floor division of integers that are not negative: the quotient needs no correction.

use algebra::pattern::{Pattern, either_order, hole, node, number};
use algebra::rewrite::{Formulas, Match, Result, ensure, rewrite};
use onnx::{Op, OpType};

pub(crate) static REWRITES: Formulas =
    Formulas::new(&[&[rewrite("drop-floor", floor, to_quotient)]]);

/// `sign(x) ≠ 1 ∧ x − q · d ≠ 0 ? q − 1 : q` with `q = x / d`, which is how JAX rounds down
fn floor() -> Pattern {
    let x = hole("x");
    let quotient = node(OpType::Div, &[&x, &number("divisor")]).named("quotient");
    let differs =
        |a: &Pattern, b: &Pattern| node(OpType::Not, &[&either_order(OpType::Equal, a, b)]);
    let is_other_sign = differs(&node(OpType::Sign, &[&x]), &1.0.into());
    let product = either_order(OpType::Mul, &quotient, &number("factor"));
    let has_rest = differs(&node(OpType::Sub, &[&x, &product]), &0.0.into());
    let is_above = either_order(OpType::And, &is_other_sign, &has_rest);
    let below = node(OpType::Sub, &[&quotient, &1.0.into()]);
    node(OpType::Where, &[&is_above, &below, &quotient])
}

fn to_quotient(found: &mut Match<'_, '_, '_>) -> Result<Op> {
    let divisor = found.number("divisor")?;
    if divisor < 1.0 || found.number("factor")? != divisor {
        return Err("the divisor is not positive".into());
    }
    let is_negative = |(low, _): (i64, i64)| low < 0;
    ensure(
        !found.fact(found.value("x")?).ints().is_none_or(is_negative),
        "the dividend may be negative",
    )?;
    let quotient = found.value("quotient")?;
    ensure(found.ty(quotient)? == found.ty(found.result())?, "the quotient is broadcast")?;
    Ok(Op::new(OpType::Identity, &[quotient]))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::REWRITES;
    use testing::{check_lean, formulas};

    fn divided(low: i32) -> String {
        format!(
            "graph g(i:i32[3]) -> (y)
%0:i32[3] = Clip(i, {low}:i32, 99:i32)
%1:i32[3] = Div(%0, 8:i32)
%2:i32[3] = Sign(%0)
%3:bool[3] = Equal(%2, 1:i32)
%4:bool[3] = Not(%3)
%5:i32[3] = Mul(%1, 8:i32)
%6:i32[3] = Sub(%0, %5)
%7:bool[3] = Equal(%6, 0:i32)
%8:bool[3] = Not(%7)
%9:bool[3] = And(%4, %8)
%10:i32[3] = Sub(%1, 1:i32)
y:i32[3] = Where(%9, %10, %1)"
        )
    }

    #[test]
    fn a_number_that_is_not_negative_is_rounded_down_by_the_quotient() {
        check_lean(
            formulas(&REWRITES),
            &divided(0),
            expect![[r#"
                graph g(i:i32[3]) -> (y)
                %0 = Clip(i, 0:i32, 99:i32)  # 2
                %1 = Div(%0, 8:i32)  # 3
                y:i32[3] = Identity(%1)  # 13 3 4 5 6 7 8 9 10 11 12
            "#]],
        );
    }

    #[test]
    fn a_number_that_may_be_negative_needs_the_correction() {
        check_lean(
            formulas(&REWRITES),
            &divided(-1),
            expect![[r#"
                graph g(i:i32[3]) -> (y)
                %0 = Clip(i, -1:i32, 99:i32)  # 2
                %1 = Div(%0, 8:i32)  # 3
                %2 = Sign(%0)  # 4
                %3 = Equal(%2, 1:i32)  # 5
                %4 = Not(%3)  # 6
                %5 = Mul(%1, 8:i32)  # 7
                %6 = Sub(%0, %5)  # 8
                %7 = Equal(%6, 0:i32)  # 9
                %8 = Not(%7)  # 10
                %9 = And(%4, %8)  # 11
                %10 = Sub(%1, 1:i32)  # 12
                y:i32[3] = Where(%9, %10, %1)  # 13
            "#]],
        );
    }
}
