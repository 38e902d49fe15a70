//! Exponentials and logarithms that keep their digits near zero.

use onnx::Expr;

/// `2ˣ`
pub(crate) fn exp2(x: Expr<'_>) -> Expr<'_> {
    x.constant(2.0).pow(x)
}

/// `expm1(x) = tanh(x / 2) · (exp(x) + 1)`
///
/// ONNX has no `Expm1`, and `exp(x) − 1` has no correct digit left near zero.
pub(crate) fn expm1(x: Expr<'_>) -> Expr<'_> {
    (x / 2.0).tanh() * (x.exp() + 1.0)
}

/// `log1p(x) = log(u) · x / (u − 1)` with `u = 1 + x`, and `x` itself where `u` is 1
///
/// The rounding of `u` is made up for by the quotient. Where `u` is infinite so is the result.
pub(crate) fn log1p(x: Expr<'_>) -> Expr<'_> {
    let u = x + 1.0;
    let log = u.log();
    let rounded_away = u.equal(1.0);
    let excess = rounded_away.select(x.constant(1.0), u - 1.0);
    let corrected = log * (x / excess);
    rounded_away.select(x, u.is_inf().select(log, corrected))
}
