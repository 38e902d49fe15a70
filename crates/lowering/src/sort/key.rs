//! Sort keys: `TopK` compares the keys as JAX compares the elements.

use onnx::{DType, Expr, OpType};

use crate::reduce::ordered_as_signed;

/// Larger than every finite number of the narrower types, and finite.
const PAST_FLOATS: f64 = 1e300;
/// Smaller than every positive number of the narrower types.
const NEAR_ZERO: f64 = 1e-300;

/// True if `TopK` compares the elements of a type like JAX, and equal elements are identical.
pub(super) fn is_plain(dtype: &jaxpr::DType) -> bool {
    use jaxpr::DType as J;
    let small = matches!(dtype, J::Bool | J::I2 | J::I4 | J::I8 | J::I16 | J::I32 | J::I64);
    small || matches!(dtype, J::U2 | J::U4 | J::U8 | J::U16 | J::U32)
}

/// Returns the keys of a number, the most significant one first, in an order in which NaN is above
/// all numbers and the zeros are equal.
///
/// For narrower types, the key is a double, in which NaN is infinite and infinity is a large
/// number. For doubles, and without them, a separate key tells whether the element is NaN.
pub(super) fn levels(x: Expr<'_>) -> Vec<Expr<'_>> {
    match x.dtype() {
        dtype if dtype.is_float() && !x.builder.exact_nan() => vec![x],
        dtype if dtype.is_float() && (dtype == DType::F64 || !has_doubles(x)) => {
            let is_nan = x.is_nan();
            vec![is_nan, is_nan.select(x.constant(f64::INFINITY), x)]
        }
        dtype if dtype.is_float() => vec![with_nan_above(x, x.cast(DType::F64))],
        _ => vec![ordered_as_signed(x)],
    }
}

/// True if all runtimes compare doubles with all of their digits.
fn has_doubles(x: Expr<'_>) -> bool {
    let target = x.builder.target();
    let wide = [Some(DType::F64)];
    target.is_ordinary(OpType::TopK, DType::F64)
        && target.missing_type(OpType::TopK, x.builder.opset(), &wide, &[]).is_none()
}

/// Returns the keys of a number in the total order, in which NaN is above all numbers and `−0` is
/// below `0`.
///
/// Every NaN counts as positive. The sign of a zero is the sign of its reciprocal.
pub(super) fn total_levels(x: Expr<'_>) -> Vec<Expr<'_>> {
    if !x.dtype().is_float() {
        return levels(x);
    }
    let wide = if has_doubles(x) { x.cast(DType::F64) } else { x };
    let is_negative_zero = wide.recip().equal(f64::NEG_INFINITY);
    if wide.dtype() == x.dtype() {
        // The reciprocals of the smallest numbers are infinite too, although they are not zero.
        let is_negative_zero = is_negative_zero.and(x.equal(0.0));
        return levels(x).into_iter().chain([is_negative_zero.logical_not()]).collect();
    }
    vec![with_nan_above(x, is_negative_zero.select(wide.constant(-NEAR_ZERO), wide))]
}

/// Puts NaN above all numbers. In types without negative zero and infinity, NaN has the bits of the
/// negative zero, and is below all numbers.
///
/// `wide` is `x` in double precision.
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
