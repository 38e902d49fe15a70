//! Keys: numbers that `TopK` compares as JAX compares the elements.

use onnx::{DType, Expr};

use crate::reduce::ordered_as_signed;

/// Beyond every finite number of the narrower types, and less than infinite.
const PAST_FLOATS: f64 = 1e300;
/// Nearer to zero than every number of the narrower types.
const NEAR_ZERO: f64 = 1e-300;

/// True if elements of a type are compared by `TopK` as they are, and equal ones are the same.
pub(super) fn is_plain(dtype: &jaxpr::DType) -> bool {
    use jaxpr::DType as J;
    let small = matches!(dtype, J::Bool | J::I2 | J::I4 | J::I8 | J::I16 | J::I32 | J::I64);
    small || matches!(dtype, J::U2 | J::U4 | J::U8 | J::U16 | J::U32)
}

/// Returns the keys of a number in an order where NaN is above everything and the zeros are equal,
/// the one that counts most first.
///
/// A double has room above the infinity of the narrower types. For doubles themselves, whether it is
/// NaN is a key of its own.
pub(super) fn levels(x: Expr<'_>) -> Vec<Expr<'_>> {
    match x.dtype() {
        dtype if dtype.is_float() && !x.builder.exact_nan() => vec![x],
        DType::F64 => {
            let is_nan = x.is_nan();
            vec![is_nan, is_nan.select(x.constant(f64::INFINITY), x)]
        }
        dtype if dtype.is_float() => vec![with_nan_above(x, x.cast(DType::F64))],
        _ => vec![ordered_as_signed(x)],
    }
}

/// Returns the keys of a number in the total order, where NaN is above everything and `−0` below
/// `0`.
///
/// Every NaN counts as positive. The sign of a zero is that of its reciprocal.
pub(super) fn total_levels(x: Expr<'_>) -> Vec<Expr<'_>> {
    if !x.dtype().is_float() {
        return levels(x);
    }
    let wide = x.cast(DType::F64);
    let is_negative_zero = wide.recip().equal(f64::NEG_INFINITY);
    if x.dtype() == DType::F64 {
        // The reciprocal of the smallest doubles is infinite too; those are no zeros.
        let is_negative_zero = is_negative_zero.and(x.equal(0.0));
        return levels(x).into_iter().chain([is_negative_zero.logical_not()]).collect();
    }
    vec![with_nan_above(x, is_negative_zero.select(wide.constant(-NEAR_ZERO), wide))]
}

/// Puts NaN above everything; below everything if it has the bits of a negative zero, as in the types that have
/// neither this zero nor an infinity.
///
/// `wide` holds the numbers of `x` in double precision.
fn with_nan_above<'g>(x: Expr<'g>, wide: Expr<'g>) -> Expr<'g> {
    if !x.builder.exact_nan() {
        return wide;
    }
    let is_nan = if x.dtype().bits() < 16 { wide.is_nan() } else { x.is_nan() };
    if matches!(x.dtype(), DType::F8E4M3FnUz | DType::F8E5M2FnUz) {
        return is_nan.select(wide.constant(f64::NEG_INFINITY), wide);
    }
    is_nan.select(wide.constant(f64::INFINITY), wide.min(PAST_FLOATS))
}
