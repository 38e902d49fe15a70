//! Sums, products, quotients, extremes.

use onnx::{DType, Expr};

/// `|x|`; an unsigned number is its own.
pub(crate) fn abs(x: Expr<'_>) -> Expr<'_> {
    if x.dtype().is_unsigned_int() { x } else { x.abs() }
}

/// `x / y`, for integers towards zero
///
/// XLA defines `x / 0 = −1` and `MIN / −1 = MIN`; the processor traps on both. So the divisor is
/// made harmless there, unless it is a constant that already is.
pub(crate) fn div<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    if !x.dtype().is_int() || is_harmless_divisor(y) {
        return x / y;
    }
    let is_zero = y.equal(0.0);
    if x.dtype().is_unsigned_int() {
        let all_ones = x.constant(0.0).bitwise_not();
        return is_zero.select(all_ones, x / is_zero.select(y.constant(1.0), y));
    }
    let is_minus_one = y.equal(-1.0);
    let safe = is_zero.or(is_minus_one).select(y.constant(1.0), y);
    is_zero.select(x.constant(-1.0), is_minus_one.select(-x, x / safe))
}

/// `x − trunc(x / y) · y`, with the sign of `x`
///
/// `Mod` computes integers in double precision, which is not enough for 64 bits.
pub(crate) fn rem<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    if x.dtype().is_float() { x.fmod(y) } else { x - div(x, y) * y }
}

/// The larger; NaN where either is; of flags, `x or y`
pub(crate) fn max<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    if x.dtype() == DType::Bool { x.or(y) } else { x.max(y) }
}

/// The smaller; NaN where either is; of flags, `x and y`
pub(crate) fn min<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    if x.dtype() == DType::Bool { x.and(y) } else { x.min(y) }
}

fn is_harmless_divisor(y: Expr<'_>) -> bool {
    let divisors = y.tensor().and_then(|tensor| tensor.ints());
    divisors.is_some_and(|divisors| divisors.iter().all(|&divisor| divisor != 0 && divisor != -1))
}
