//! The regularized incomplete beta function.

use onnx::Expr;

use crate::bodies::until_all;
use crate::ctx::{Ctx, Eqn};
use crate::elementwise::exponential::log1p;
use crate::elementwise::gamma::lgamma;
use crate::elementwise::special::{by_precision, epsilon, in_single};
use crate::error::Result;

/// `I(a, b, x) = xᵃ (1 − x)ᵇ Γ(a + b) / (Γ(a + 1) Γ(b)) · K`, or `1 − I(b, a, 1 − x)` where its
/// continued fraction `K` converges faster
pub(crate) fn regularized_incomplete_beta<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let operands: [Expr<'g>; 3] = eqn.operands()?;
    let shape = &eqn.output()?.shape;
    Ok(in_single(operands.map(|operand| operand.expand(shape)), |[a, b, x]| {
        let a_vanishes = a.equal(0.0).or(b.equal(f64::INFINITY));
        let b_vanishes = b.equal(0.0).or(a.equal(f64::INFINITY));
        let (is_left, is_right) = (x.equal(0.0), x.equal(1.0));
        let is_zero = b_vanishes.and(is_right.logical_not()).or(a_vanishes.and(is_left));
        let is_one = a_vanishes.and(is_left.logical_not()).or(b_vanishes.and(is_right));
        let is_inside = x.greater_equal(0.0).and(x.less_equal(1.0));
        let is_defined = is_inside.and(a.greater_equal(0.0)).and(b.greater_equal(0.0));
        let is_defined = is_defined.and(a_vanishes.and(b_vanishes).logical_not());

        let is_direct = x.less((a + 1.0) / (a + b + 2.0));
        let is_open = is_defined.and(is_zero.or(is_one).logical_not());
        let (a, b) = (is_direct.select(a, b), is_direct.select(b, a));
        let x = is_direct.select(x, 1.0 - x);
        let value = factor(a, b, x) * fraction(a, b, x, is_open);
        let value = is_direct.select(value, 1.0 - value);

        let value = is_zero.select(x.constant(0.0), value);
        let value = is_one.select(x.constant(1.0), value);
        is_defined.select(value, f64::NAN)
    }))
}

/// `xᵃ (1 − x)ᵇ Γ(a + b) / (Γ(a + 1) Γ(b))`
///
/// For the smallest `a`, `a · Γ(a)` is one.
fn factor<'g>(a: Expr<'g>, b: Expr<'g>, x: Expr<'g>) -> Expr<'g> {
    let least = 2.0 * by_precision(x, f64::from(f32::MIN_POSITIVE), f64::MIN_POSITIVE);
    let others = log1p(-x) * b - (lgamma(b) - lgamma(a + b));
    let value = (x.log() * a + (others - lgamma(a))).exp() / a;
    a.less(least).select(others.exp(), value)
}

/// `1 / (1 + d₁ / (1 + d₂ / (1 + …)))` with
/// `d₂ₘ = m (b − m) x / ((a + 2m − 1) (a + 2m))` and
/// `d₂ₘ₊₁ = −(a + m) (a + b + m) x / ((a + 2m) (a + 2m + 1))`
///
/// Uses the algorithm of Lentz, Thompson and Barnett, two steps per iteration.
fn fraction<'g>(a: Expr<'g>, b: Expr<'g>, x: Expr<'g>, is_open: Expr<'g>) -> Expr<'g> {
    let max_steps = by_precision(x, 100.0, 300.0);
    let one = x.constant(1.0).expand(&x.shape());
    let first = away_from_zero(1.0 - (a + b) * x / (a + 1.0)).recip();
    let step = |[c, d, value]: [Expr<'g>; 3], numerator: Expr<'g>| {
        let c = away_from_zero(numerator / c + 1.0);
        let d = away_from_zero(numerator * d + 1.0).recip();
        (c * d, [c, d, value * (c * d)])
    };
    let [.., value, _] = until_all(
        "fraction",
        [one - 1.0, one, first, first, one],
        |[m, .., change]| is_open.and(change.greater(epsilon(x))).and(m.less(max_steps)),
        |[m, c, d, value, _]| {
            let m = m + 1.0;
            let place = a + m * 2.0;
            let even = m * (b - m) * x / ((place - 1.0) * place);
            let odd = -((a + m) * (a + b + m) * x / (place * (place + 1.0)));
            let (_, state) = step([c, d, value], even);
            let (ratio, [c, d, value]) = step(state, odd);
            [m, c, d, value, (ratio - 1.0).abs()]
        },
    );
    value
}

/// Replaces a number that is almost zero by a small number.
fn away_from_zero(x: Expr<'_>) -> Expr<'_> {
    let small = epsilon(x) / 2.0;
    x.abs().less(small).select(x.constant(small), x)
}
