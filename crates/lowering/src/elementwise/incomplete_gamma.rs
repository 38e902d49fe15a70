//! The regularized incomplete gamma functions `P(a, x)` and `Q(a, x) = 1 − P(a, x)`.
//!
//! They are a power series where `x` is small, otherwise a continued fraction. Both have the factor
//! `F = xᵃ · exp(−x) / Γ(a)`. The iteration of an element ends when it no longer changes.

use onnx::Expr;

use crate::bodies::until_all;
use crate::ctx::{Ctx, Eqn};
use crate::elementwise::gamma::{lgamma, psi};
use crate::elementwise::special::{by_precision, epsilon, in_single};
use crate::error::Result;

/// The maximum number of steps of the continued fraction, as in JAX.
const STEPS: f64 = 2000.0;

/// `P(a, x)`
pub(crate) fn igamma<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let takes_infinity = takes_infinity(eqn)?;
    let operands = operands(eqn)?;
    Ok(in_single(operands, |[a, x]| {
        let is_far = x.greater_equal(1.0).and(x.greater(a));
        let factor = Factor::of(a, x);
        let outside = is_outside(a, x).or(a.equal(0.0).and(x.equal(0.0)));
        let is_open = outside.or(x.equal(0.0)).or(factor.vanishes).or(x.is_inf()).logical_not();
        let fraction = fraction(a, x, is_open.and(is_far)) * factor.value;
        let series = series(a, x, is_open.and(is_far.logical_not())) * factor.value / a;
        let value = is_far.select(1.0 - fraction, series);
        let value = x.equal(0.0).select(x.constant(0.0), value);
        let value = x.is_inf().select(x.constant(1.0), value);
        let value = if takes_infinity { at_infinity(a, x, 0.0, value) } else { value };
        outside.select(x.constant(f64::NAN), value)
    }))
}

/// `Q(a, x)`
pub(crate) fn igammac<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let takes_infinity = takes_infinity(eqn)?;
    let operands = operands(eqn)?;
    Ok(in_single(operands, |[a, x]| {
        let is_near = x.less(1.0).or(x.less(a));
        let factor = Factor::of(a, x);
        let outside = is_outside(a, x).or(a.equal(0.0).and(x.equal(0.0)));
        let is_zero = x.is_inf().or(a.equal(0.0));
        let is_open = outside.or(factor.vanishes).or(is_zero).logical_not();
        let fraction = fraction(a, x, is_open.and(is_near.logical_not())) * factor.value;
        let series = series(a, x, is_open.and(is_near)) * factor.value / a;
        let value = is_near.select(1.0 - series, fraction);
        let value = is_zero.select(x.constant(0.0), value);
        let value = if takes_infinity { at_infinity(a, x, 1.0, value) } else { value };
        outside.select(x.constant(f64::NAN), value)
    }))
}

/// True if `a` may be infinite, as in JAX 0.11 and later.
fn takes_infinity(eqn: &Eqn<'_, '_>) -> Result<bool> {
    Ok(eqn.optional("takes_infinity")?.unwrap_or(false))
}

/// Returns `limit` where only `a` is infinite, NaN where `x` is also infinite, and `value`
/// elsewhere.
fn at_infinity<'g>(a: Expr<'g>, x: Expr<'g>, limit: f64, value: Expr<'g>) -> Expr<'g> {
    let at_infinity = x.is_inf().select(x.constant(f64::NAN), limit);
    a.is_inf().select(at_infinity, value)
}

/// `∂P(a, x) / ∂a`
pub(crate) fn igamma_grad_a<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    slope(eqn, |factor, _| factor)
}

/// `∂x / ∂a` for constant `P(a, x)`, which is `−(∂P / ∂a) / (∂P / ∂x)`
pub(crate) fn random_gamma_grad<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    slope(eqn, |_, x| -x)
}

/// Returns the derivative of `P` with respect to `a`, with `scale(F, x)` in place of the factor
/// `F`.
///
/// The derivative of `P = F · s(a) / a` is `F · (s · (log(x) − ψ(a + 1)) + s′) / a`, and that of
/// `P = 1 − F · f(a)` is `−F · (f · (log(x) − ψ(a)) + f′)`.
fn slope<'g>(
    eqn: &Eqn<'g, '_>,
    scale: impl Fn(Expr<'g>, Expr<'g>) -> Expr<'g>,
) -> Result<Expr<'g>> {
    let operands = operands(eqn)?;
    Ok(in_single(operands, |[a, x]| {
        let is_far = x.greater(1.0).and(x.greater(a));
        let factor = Factor::of(a, x);
        let outside = is_outside(a, x).or(a.equal(0.0));
        let is_open = outside.or(x.equal(0.0)).or(factor.vanishes).logical_not();
        let scale = scale(factor.value, x);

        let [value, change] = fraction_and_slope(a, x, is_open.and(is_far));
        let far = -(scale * (value * (x.log() - psi(a, f64::NAN)) + change));
        let [value, change] = series_and_slope(a, x, is_open.and(is_far.logical_not()));
        let near = scale * (value * (x.log() - psi(a + 1.0, f64::NAN)) + change) / a;
        let value = x.equal(0.0).select(x.constant(0.0), is_far.select(far, near));
        outside.select(x.constant(f64::NAN), value)
    }))
}

/// Returns both operands in the shape of the result.
fn operands<'g>(eqn: &Eqn<'g, '_>) -> Result<[Expr<'g>; 2]> {
    let operands: [Expr<'g>; 2] = eqn.operands()?;
    let shape = &eqn.output()?.shape;
    Ok(operands.map(|operand| operand.expand(shape)))
}

fn is_outside<'g>(a: Expr<'g>, x: Expr<'g>) -> Expr<'g> {
    x.greater_equal(0.0).and(a.greater_equal(0.0)).logical_not()
}

struct Factor<'g> {
    /// `xᵃ · exp(−x) / Γ(a)`
    value: Expr<'g>,
    /// True if the factor is smaller than the smallest number.
    vanishes: Expr<'g>,
}

impl<'g> Factor<'g> {
    fn of(a: Expr<'g>, x: Expr<'g>) -> Factor<'g> {
        let log = a * x.log() - x - lgamma(a);
        let least = -by_precision(x, f64::from(f32::MAX), f64::MAX).ln();
        Factor { value: log.exp(), vanishes: log.less(least) }
    }
}

/// `1 + x / (a + 1) + x² / ((a + 1) (a + 2)) + …`
fn series<'g>(a: Expr<'g>, x: Expr<'g>, is_open: Expr<'g>) -> Expr<'g> {
    let one = full(x, 1.0);
    let [.., sum] = until_all(
        "series",
        [a, one, one],
        |[_, term, sum]| is_open.and((term / sum).greater(epsilon(x))),
        |[r, term, sum]| {
            let r = r + 1.0;
            let term = term * (x / r);
            [r, term, sum + term]
        },
    );
    sum
}

/// Returns the series and its derivative with respect to `a`.
fn series_and_slope<'g>(a: Expr<'g>, x: Expr<'g>, is_open: Expr<'g>) -> [Expr<'g>; 2] {
    let (zero, one) = (full(x, 0.0), full(x, 1.0));
    let [.., sum, sum_slope, _] = until_all(
        "series",
        [a, one, zero, one, zero, one],
        |[.., change]| is_open.and(change.greater(epsilon(x))),
        |[r, term, slope, sum, sum_slope, _]| {
            let r = r + 1.0;
            let slope = slope * (x / r) - term * x / (r * r);
            let term = term * (x / r);
            let sum_slope = sum_slope + slope;
            [r, term, slope, sum + term, sum_slope, (slope / sum_slope).abs()]
        },
    );
    [sum, sum_slope]
}

/// `1 / (x + 1 − a − 1 · (1 − a) / (x + 3 − a − 2 · (2 − a) / …))` as quotients `p / q`; each `p`
/// and `q` follows from the previous two
///
/// Scales both down before they overflow.
fn fraction<'g>(a: Expr<'g>, x: Expr<'g>, is_open: Expr<'g>) -> Expr<'g> {
    let first = Quotient::first(a, x);
    let [.., value, _] = until_all(
        "fraction",
        [full(x, 0.0), first.p[0], first.p[1], first.q[0], first.q[1], first.value(), full(x, 1.0)],
        |[k, .., change]| is_open.and(change.greater(epsilon(x))).and(k.less(STEPS)),
        |[k, p0, p1, q0, q1, value, _]| {
            let k = k + 1.0;
            let (numerator, denominator) = step(a, x, k);
            let p = p1 * denominator - p0 * numerator;
            let q = q1 * denominator - q0 * numerator;
            let is_defined = q.not_equal(0.0);
            let quotient = p / q;
            let change = is_defined.select(((value - quotient) / quotient).abs(), 1.0);
            let scale = scale(p);
            let value = is_defined.select(quotient, value);
            [k, p1 * scale, p * scale, q1 * scale, q * scale, value, change]
        },
    );
    value
}

/// Returns the continued fraction and its derivative with respect to `a`.
fn fraction_and_slope<'g>(a: Expr<'g>, x: Expr<'g>, is_open: Expr<'g>) -> [Expr<'g>; 2] {
    let (zero, one) = (full(x, 0.0), full(x, 1.0));
    let Quotient { p, q } = Quotient::first(a, x);
    let value = p[1] / q[1];
    let slope = value * x / q[1];
    let [.., value, slope, _] = until_all(
        "fraction",
        [zero, p[0], p[1], q[0], q[1], zero, zero, zero, -x, value, slope, one],
        |[k, .., change]| is_open.and(change.greater(epsilon(x))).and(k.less(STEPS)),
        |[k, p0, p1, q0, q1, dp0, dp1, dq0, dq1, value, slope, _]| {
            let k = k + 1.0;
            let (numerator, denominator) = step(a, x, k);
            let p = p1 * denominator - p0 * numerator;
            let q = q1 * denominator - q0 * numerator;
            let dp = dp1 * denominator - p1 - dp0 * numerator + p0 * k;
            let dq = dq1 * denominator - q1 - dq0 * numerator + q0 * k;
            let is_defined = q.not_equal(0.0);
            let value = is_defined.select(p / q, value);
            let after = is_defined.select((dp - value * dq) / q, slope);
            let change = is_defined.select((after - slope).abs(), 1.0);
            let state = [p1, p, q1, q, dp1, dp, dq1, dq].map(|part| part * scale(p));
            let [p0, p1, q0, q1, dp0, dp1, dq0, dq1] = state;
            [k, p0, p1, q0, q1, dp0, dp1, dq0, dq1, value, after, change]
        },
    );
    [value, slope]
}

/// Two consecutive approximations `p / q` of the continued fraction.
struct Quotient<'g> {
    p: [Expr<'g>; 2],
    q: [Expr<'g>; 2],
}

impl<'g> Quotient<'g> {
    fn first(a: Expr<'g>, x: Expr<'g>) -> Quotient<'g> {
        let z = x + (1.0 - a) + 1.0;
        Quotient { p: [full(x, 1.0), x + 1.0], q: [x, z * x] }
    }

    fn value(&self) -> Expr<'g> {
        self.p[1] / self.q[1]
    }
}

/// Returns the numerator and the denominator of a step of the continued fraction.
fn step<'g>(a: Expr<'g>, x: Expr<'g>, k: Expr<'g>) -> (Expr<'g>, Expr<'g>) {
    let y = k + 1.0 - a;
    (y * k, x + y + 1.0 + k)
}

/// Returns the factor of `p` and `q` that prevents an overflow.
fn scale(p: Expr<'_>) -> Expr<'_> {
    let epsilon = epsilon(p);
    p.abs().greater(1.0 / epsilon).select(p.constant(epsilon), 1.0)
}

/// Returns an array of the shape of `x` that is filled with `value`.
fn full(x: Expr<'_>, value: f64) -> Expr<'_> {
    x.constant(value).expand(&x.shape())
}
