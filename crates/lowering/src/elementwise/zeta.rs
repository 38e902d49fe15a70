//! The Hurwitz zeta function, and the derivatives of the digamma function.

use onnx::Expr;

use crate::ctx::{Ctx, Eqn};
use crate::elementwise::gamma::{digamma_at_zero, lgamma, psi};
use crate::elementwise::special::in_single;
use crate::error::Result;

/// `ψ⁽ⁿ⁾(x) = (−1)ⁿ⁺¹ · n! · ζ(n + 1, x)`; the digamma function if `n` is zero
pub(crate) fn polygamma<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let at_zero = digamma_at_zero(eqn)?;
    let operands: [Expr<'g>; 2] = eqn.operands()?;
    Ok(in_single(operands, |[n, x]| {
        let next = n + 1.0;
        let value = lgamma(next).exp() * hurwitz(next, x);
        let signed = is_even(n).select(-value, value);
        let value = n.equal(0.0).select(psi(x, at_zero), signed);
        let is_order = n.greater_equal(0.0).and(n.equal(n.floor()));
        is_order.select(value, f64::NAN)
    }))
}

/// `ζ(x, q) = Σ (q + k)⁻ˣ` over all `k ≥ 0`
pub(crate) fn zeta<'g>(x: Expr<'g>, q: Expr<'g>) -> Expr<'g> {
    in_single([x, q], |[x, q]| hurwitz(x, q))
}

/// `Σ (q + k)⁻ˣ` over `k < N`, plus the Euler–Maclaurin formula for the remainder, with
/// `a = q + N`: `a⁻ˣ · (a / (x − 1) + ½ + x / a · (c₁ + (x + 1) (x + 2) / a² · (c₂ + …)))`
///
/// The sum has as many terms as that of JAX, so both have the same error where all terms are left
/// of the last pole. As in JAX, the remainder is NaN if `x` is so large that the series overflows
/// and `a⁻ˣ` is zero.
fn hurwitz<'g>(x: Expr<'g>, q: Expr<'g>) -> Expr<'g> {
    let power = |k: u32| (q + f64::from(k)).pow(-x);
    let sum = (1..STEPS).fold(q.pow(-x), |sum, k| sum + power(k));

    let a = q + f64::from(STEPS);
    let last = power(STEPS);
    let inverse = a.recip();
    let square = inverse * inverse;
    let (outermost, others) = MACLAURIN.split_first().unwrap_or((&0.0, &[]));
    let orders = (1..=others.len()).rev().map(|k| (2 * k) as f64);
    let series = others.iter().zip(orders).fold(x.constant(*outermost), |series, (&c, order)| {
        series * ((x + (order - 1.0)) * (x + order) * square) + c
    });
    let rest = last * (a / (x - 1.0) + (x * inverse * series + 0.5));
    let value = sum + rest;

    let left = q.less_equal(0.0);
    let is_whole = x.equal(x.floor());
    let outside = x.less(1.0).or(x.is_inf()).or(left.and(is_whole.logical_not()));
    let value = outside.select(x.constant(f64::NAN), value);
    let pole = is_even(x).select(x.constant(f64::INFINITY), f64::NAN);
    let value = left.and(q.equal(q.floor())).select(pole, value);
    x.equal(1.0).select(x.constant(f64::INFINITY), value)
}

/// True if a number is an even integer.
fn is_even(x: Expr<'_>) -> Expr<'_> {
    let half = x * 0.5;
    half.equal(half.floor()).and(x.is_inf().logical_not())
}

/// The number of terms of the sum, `N`.
const STEPS: u32 = 10;

/// `B₂ₖ / (2k)!` with the Bernoulli numbers, in descending order of `k`.
const MACLAURIN: &[f64] = &[
    -1.395_446_468_581_252_5e-19,
    5.509_002_828_360_229_5e-18,
    -2.174_868_698_558_062e-16,
    8.586_062_056_277_845e-15,
    -3.389_680_296_322_582_7e-13,
    1.338_253_653_068_468e-11,
    -5.284_190_138_687_493e-10,
    2.087_675_698_786_81e-8,
    -8.267_195_767_195_768e-7,
    3.306_878_306_878_306_4e-5,
    -0.001_388_888_888_888_889,
    0.083_333_333_333_333_33,
];
