//! Primitives that act on each element.

pub(crate) mod arithmetic;
pub(crate) mod bessel;
pub(crate) mod bits;
pub(crate) mod compare;
pub(crate) mod exponential;
pub(crate) mod gamma;
pub(crate) mod hyperbolic;
pub(crate) mod incomplete_beta;
pub(crate) mod incomplete_gamma;
pub(crate) mod polynomial;
pub(crate) mod power;
pub(crate) mod rounding;
pub(crate) mod special;
pub(crate) mod trigonometric;
pub(crate) mod zeta;

use onnx::{DType, Expr};

use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

/// `clamp(low, x, high) = min(max(x, low), high)`
pub(crate) fn clamp<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let [low, x, high] = eqn.operands()?;
    Ok(arithmetic::min(arithmetic::max(x, low), high))
}

/// `select_n(which, case₀, case₁, …)`: for each element, the case with the index `which`
///
/// Two cases become one `Where`, in which `true` selects the second. More cases become a chain of
/// `Where`.
pub(crate) fn select_n<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let shape = eqn.output()?.shape.clone();
    let (which, cases) = match &eqn.inputs[..] {
        [which, cases @ ..] if !cases.is_empty() => (*which, cases),
        _ => return Err(eqn.broken("no cases").into()),
    };
    let (&first, others) = cases.split_first().ok_or_else(|| eqn.broken("no cases"))?;
    let trailing: Vec<usize> = (which.rank()..which.rank() + eqn.part_axes()).collect();
    let which = which.unsqueeze(&trailing);
    if which.dtype() == DType::Bool {
        let chosen = others.first().map(|&second| which.select(second, first));
        return Ok(chosen.unwrap_or(first).expand(&shape));
    }
    let chosen = others
        .iter()
        .enumerate()
        .fold(first, |chosen, (i, &case)| which.equal((i + 1) as f64).select(case, chosen));
    Ok(chosen.expand(&shape))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn true_selects_the_second_of_two_cases() {
        check(
            "p:bool[3] x:f32[3] y:f32[3] -> z:f32[3] = select_n p x y",
            expect![[r#"
                graph test(in_0:bool[3], in_1:f32[3], in_2:f32[3]) -> (out_0)
                out_0:f32[3] = Where(in_0, in_2, in_1)
            "#]],
        );
    }

    #[test]
    fn more_than_two_cases_are_a_chain() {
        check(
            "p:i32[] x:i16[3] y:i16[3] z:i16[3] -> w:i16[3] = select_n p x y z",
            expect![[r#"
                graph test(in_0:i32[], in_1:i16[3], in_2:i16[3], in_3:i16[3]) -> (out_0)
                %0 = Equal(in_0, 1:i32)
                %1 = Cast(in_2) {to=6}
                %2 = Cast(in_1) {to=6}
                %3 = Where(%0, %1, %2)
                %4 = Cast(%3) {to=5}
                %5 = Equal(in_0, 2:i32)
                %6 = Cast(in_3) {to=6}
                %7 = Cast(%4) {to=6}
                %8 = Where(%5, %6, %7)
                out_0:i16[3] = Cast(%8) {to=5}
            "#]],
        );
    }

    #[test]
    fn a_clamp_is_two_extremes() {
        check(
            "x:f32[3] -> y:f32[3] = clamp 0.0:f32[] x 1.0:f32[]",
            expect![[r#"
                graph test(in_0:f32[3]) -> (out_0)
                %0 = Max(in_0, 0.0)
                out_0:f32[3] = Min(%0, 1.0)
            "#]],
        );
    }
}
