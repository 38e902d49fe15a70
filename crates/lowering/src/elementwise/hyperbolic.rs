//! Hyperbolic functions and their inverses.
//!
//! ONNX Runtime has these operators only in single precision. In double precision, they are
//! formulas of other operators.

use std::f64::consts::LN_2;

use onnx::{DType, Expr};

use crate::elementwise::exponential::log1p;
use crate::elementwise::trigonometric::with_sign_of;

/// `acosh(x) = 2 · log1p(√h + h / (1 + √(1 + h)))` with `h = (x − 1) / 2`
///
/// This is `2 · asinh(√h)`, without overflow.
pub(crate) fn acosh(x: Expr<'_>) -> Expr<'_> {
    if x.dtype() != DType::F64 {
        return x.acosh();
    }
    let h = (x - 1.0) / 2.0;
    let value = log1p(h.sqrt() + h / ((h + 1.0).sqrt() + 1.0)) * 2.0;
    x.equal(f64::INFINITY).select(x, value)
}

/// `asinh(x) = log1p(x + x² / (1 + √(1 + x²)))` for `x ≥ 0`, and `log(x) + log(2)` for large `x`
pub(crate) fn asinh(x: Expr<'_>) -> Expr<'_> {
    if x.dtype() != DType::F64 {
        return x.asinh();
    }
    let size = x.abs();
    let root = (size * size + 1.0).sqrt();
    let near = log1p(size + size * (size / (root + 1.0)));
    let far = size.log() + LN_2;
    with_sign_of(x, size.greater(1e8).select(far, near))
}

/// `atanh(x) = log1p(2x / (1 − x)) / 2` for `x ≥ 0`
pub(crate) fn atanh(x: Expr<'_>) -> Expr<'_> {
    if x.dtype() != DType::F64 {
        return x.atanh();
    }
    let size = x.abs();
    with_sign_of(x, log1p(size * 2.0 / (1.0 - size)) / 2.0)
}

/// `cosh(x) = (e² + 1 / e²) / 2` with `e = exp(x / 2)`
///
/// `exp(x)` would overflow for smaller `x` than the result does.
pub(crate) fn cosh(x: Expr<'_>) -> Expr<'_> {
    if x.dtype() != DType::F64 {
        return x.cosh();
    }
    let e = (x / 2.0).exp();
    e * (e / 2.0) + 0.5 / e / e
}

/// `sinh(x) = tanh(x / 2) · (cosh(x) + 1)`
///
/// The difference of exponentials has no correct digits near zero.
pub(crate) fn sinh(x: Expr<'_>) -> Expr<'_> {
    if x.dtype() != DType::F64 {
        return x.sinh();
    }
    (x / 2.0).tanh() * (cosh(x) + 1.0)
}
