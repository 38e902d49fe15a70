//! Removes the order of `−0` and `0` from `argmax`, if `−0` does not occur.

use algebra::pattern::{Pattern, hole, node, number, reciprocal};
use algebra::rewrite::{Formulas, Match, Result, ensure, rewrite};
use onnx::facts::floats::NegativeZero;
use onnx::{Op, OpType};

pub(crate) static REWRITES: Formulas =
    Formulas::new(&[&[rewrite("drop-zero-order", zeros_apart, to_zeros_alike)]]);

/// `1/x = −∞ ? −ε : x`, which puts `−0` below `0`
fn zeros_apart() -> Pattern {
    let x = hole("x");
    let is_negative_zero = node(OpType::Equal, &[&reciprocal(&x), &number("infinite")]);
    node(OpType::Where, &[&is_negative_zero, &number("near zero"), &x])
}

fn to_zeros_alike(found: &mut Match<'_, '_, '_>) -> Result<Op> {
    let x = found.value("x")?;
    let least = found.number("near zero")?;
    ensure(
        found.number("infinite")? == f64::NEG_INFINITY && (-1e-250..0.0).contains(&least),
        "the constants do not distinguish zeros by their sign",
    )?;
    // A number that underflows may become a zero of either sign.
    ensure(
        found.fact(x).floats().negative_zero != NegativeZero::Possible,
        "zeros of both signs may occur",
    )?;
    Ok(Op::new(OpType::Identity, &[x]))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check, formulas};

    #[test]
    fn the_signs_of_zeros_from_a_product_do_not_matter() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[4,3], w:f32[3,5]) -> (y)
%0:f32[4,5] = MatMul(x, w)
%1:f64[4,5] = Cast(%0) {to=11}
%2:f64[4,5] = Reciprocal(%1)
%3:bool[4,5] = Equal(%2, -inf:f64)
y:f64[4,5] = Where(%3, -1e-300:f64, %1)",
            expect![[r#"
                graph g(x:f32[4,3], w:f32[3,5]) -> (y)
                %0 = MatMul(x, w)  # 2
                %1 = Cast(%0) {to=11}  # 3
                y:f64[4,5] = Identity(%1)  # 6 4 5
            "#]],
        );
    }

    #[test]
    fn zeros_of_an_input_are_not() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[4]) -> (y)
%0:f64[4] = Cast(x) {to=11}
%1:f64[4] = Reciprocal(%0)
%2:bool[4] = Equal(%1, -inf:f64)
y:f64[4] = Where(%2, -1e-300:f64, %0)",
            expect![[r#"
                graph g(x:f32[4]) -> (y)
                %0 = Cast(x) {to=11}  # 2
                %1 = Reciprocal(%0)  # 3
                %2 = Equal(%1, -inf:f64)  # 4
                y:f64[4] = Where(%2, -1e-300:f64, %0)  # 5
            "#]],
        );
    }
}
