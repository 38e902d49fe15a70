//! Trigonometric functions and their inverses.
//!
//! ONNX Runtime has these operators only in single precision. In double precision, they are
//! formulas of other operators.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, FRAC_PI_4, PI, SQRT_2};

use onnx::{DType, Expr};

use crate::elementwise::polynomial::polynomial;
use crate::elementwise::special::in_single;

/// `acos(x) = 2 · atan(√((1 − x) / (1 + x)))`
///
/// `π/2 − asin(x)` would have no correct digits near one.
pub(crate) fn acos(x: Expr<'_>) -> Expr<'_> {
    if x.dtype() != DType::F64 {
        return x.acos();
    }
    atan(((1.0 - x) / (1.0 + x)).sqrt()) * 2.0
}

/// `asin(x) = atan(x / √((1 − x) · (1 + x)))`
///
/// Near one, the product is precise, and `1 − x²` is not.
pub(crate) fn asin(x: Expr<'_>) -> Expr<'_> {
    if x.dtype() != DType::F64 {
        return x.asin();
    }
    atan(x / ((1.0 - x) * (1.0 + x)).sqrt())
}

/// `atan(x) = a + atan(t)` for `x ≥ 0`, where `atan(t) = t + t · t² · P(t²) / Q(t²)`
///
/// Below 0.66, `t = x` and `a = 0`. Then `t = (x − 1) / (x + 1)` and `a = π/4`. From `tan(3π/8)`
/// on, `t = −1 / x` and `a = π/2`. The coefficients are from Cephes.
pub(crate) fn atan(x: Expr<'_>) -> Expr<'_> {
    if x.dtype() != DType::F64 {
        return x.atan();
    }
    let size = x.abs();
    let is_flat = size.less(0.66);
    let is_steep = size.greater(1.0 + SQRT_2);
    let reduced = is_steep.select(-1.0 / size, (size - 1.0) / (size + 1.0));
    let turn = is_steep.select(x.constant(FRAC_PI_2), FRAC_PI_4);
    let t = is_flat.select(size, reduced);
    let square = t * t;
    let rest = t * square * polynomial(square, ATAN_P) / polynomial(square, ATAN_Q);
    let angle = is_flat.select(x.constant(0.0), turn) + (rest + t);
    with_sign_of(x, angle)
}

/// `atan2(y, x) = ±atan(|y / x|)` right of the vertical axis, `±(π − atan(|y / x|))` left of it
///
/// The sign of `y` decides the sign, and the sign of `x` decides the side; a zero has a sign too.
/// If `|x| = |y|`, the formula does not divide: the slope is 1, or 0 if both are zero.
pub(crate) fn atan2<'g>(y: Expr<'g>, x: Expr<'g>) -> Expr<'g> {
    in_single([y, x], |[y, x]| {
        let (height, width) = (y.abs(), x.abs());
        let slope = height.equal(width).select(height.sign(), height / width);
        let incline = atan(slope);
        let angle = is_positive(x).select(incline, PI - incline);
        // With the branches exchanged, the `Where` of ONNX Runtime would lose the sign of a zero.
        is_positive(y).select(angle, -angle)
    })
}

/// `tan(x) = sin(t) / cos(t)` or `−cos(t) / sin(t)`, for `x = t + n · π/2` with `n` even or odd
///
/// The formula subtracts `π/2` in three parts, so that `t` is precise. Above a million, `t = x`.
pub(crate) fn tan(x: Expr<'_>) -> Expr<'_> {
    if x.dtype() != DType::F64 {
        return x.tan();
    }
    let size = x.abs();
    let quarters = size.less(1e6).select((size * FRAC_2_PI).round(), 0.0);
    let t = FRAC_PI_2_PARTS.iter().fold(size, |rest, &part| rest - quarters * part);
    let (sine, cosine) = (t.sin(), t.cos());
    let halves = quarters * 0.5;
    let is_even = halves.equal(halves.floor());
    with_sign_of(x, is_even.select(sine / cosine, -cosine / sine))
}

/// Returns `value` with the sign of `x`, for a function with `f(−x) = −f(x)`; `x` itself if it is
/// zero.
#[track_caller]
pub(crate) fn with_sign_of<'g>(x: Expr<'g>, value: Expr<'g>) -> Expr<'g> {
    x.builder.helper("with_sign_of", || {
        // The `Where` of ONNX Runtime keeps the sign of a zero only in its last operand.
        x.abs().greater(0.0).select(x.sign() * value, x)
    })
}

/// True for positive numbers and +0.
#[track_caller]
pub(crate) fn is_positive(x: Expr<'_>) -> Expr<'_> {
    x.builder.helper("is_positive", || x.greater(0.0).or(x.recip().greater(0.0)))
}

const ATAN_P: &[f64] = &[
    -0.875_060_860_003_190_4,
    -16.157_537_187_333_652,
    -75.008_557_923_147_05,
    -122.886_668_449_013_61,
    -64.850_219_049_420_25,
];

const ATAN_Q: &[f64] = &[
    1.0,
    24.858_464_901_423_062,
    165.027_009_831_698_85,
    432.881_060_491_290_27,
    485.390_399_635_913_7,
    194.550_657_148_261_4,
];

/// Two parts of `π/2` whose products with small integers are exact, and the remainder.
const FRAC_PI_2_PARTS: [f64; 3] =
    [1.570_796_326_734_125_6, 6.077_100_506_303_966e-11, 2.022_266_248_795_950_6e-21];
