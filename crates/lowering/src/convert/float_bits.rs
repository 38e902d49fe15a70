//! Converts between a float and its bits by arithmetic.

use onnx::{DType, Expr};

use crate::element::guards_nan;

/// The bits of a floating-point type.
struct Layout {
    /// The type in which the arithmetic is exact.
    compute: DType,
    integer: DType,
    mantissa: i32,
    bias: i32,
}

fn layout(dtype: DType) -> Layout {
    let (compute, integer, mantissa, bias) = match dtype {
        DType::F64 => (DType::F64, DType::I64, 52, 1023),
        DType::F16 => (DType::F32, DType::I16, 10, 15),
        DType::Bf16 => (DType::F64, DType::I16, 7, 127),
        _ => (DType::F64, DType::I32, 23, 127),
    };
    Layout { compute, integer, mantissa, bias }
}

/// Returns the number of mantissa bits after the leading one, and the least exponent, of the types
/// to which [`super::convert`] rounds a double itself.
pub(crate) fn digits(dtype: DType) -> Option<(i32, i32)> {
    match dtype {
        DType::F16 => Some((10, -14)),
        DType::F8E4M3Fn => Some((3, -6)),
        DType::F8E4M3FnUz => Some((3, -7)),
        DType::F8E5M2 => Some((2, -14)),
        DType::F8E5M2FnUz => Some((2, -15)),
        _ => None,
    }
}

/// Returns the bits of a float as a signed integer of the same width; NaN becomes the quiet NaN
/// without a payload.
///
/// With `e = ⌊log₂|x|⌋`, the fields are `e + bias` and `(|x| / 2ᵉ − 1) · 2ᵐ`. Below the least
/// normal number, they are `0` and `|x| / 2^(1 − bias − m)`.
pub(crate) fn bits_of(x: Expr<'_>) -> Expr<'_> {
    let Layout { compute, integer, mantissa, bias } = layout(x.dtype());
    let size = x.cast(compute).abs();
    let least = f64::powi(2.0, 1 - bias);
    let normal = size.max(least);
    let is_special = if guards_nan(x) { x.is_nan().or(x.is_inf()) } else { x.is_inf() };
    let normal = is_special.select(size.constant(1.0), normal);

    let two = size.constant(2.0);
    let exponent = exponent_of(normal, 1 - bias, bias);
    let fraction = normal / two.pow(exponent) - 1.0;
    let is_tiny = size.less(least);
    let unit = f64::powi(2.0, mantissa);
    // With two steps, no divisor is subnormal.
    let tiny_field = size / least * unit;
    let normal_field = (exponent + f64::from(bias) + fraction) * unit;

    let exact = if mantissa == 52 { DType::I64 } else { DType::I32 };
    let field = if mantissa == 52 {
        // The sum needs 63 bits, so the two fields are added as integers.
        let high = (exponent + f64::from(bias)).cast(DType::I64) * unit;
        is_tiny.select(tiny_field.cast(DType::I64), high + (fraction * unit).cast(DType::I64))
    } else {
        is_tiny.select(tiny_field, normal_field).cast(exact)
    };
    let constant = |bits: i64| field.builder.constant_ints(exact, &[], &[bits]);
    let exponent_ones = (2 * i64::from(bias) + 1) << mantissa;
    let special = constant(exponent_ones);
    let special = if guards_nan(x) {
        x.is_nan().select(constant(exponent_ones | 1 << (mantissa - 1)), special)
    } else {
        special
    };
    let unsigned = is_special.select(special, field);
    // The sign of a zero is the sign of its reciprocal.
    let is_zero = size.equal(0.0);
    let signed = is_zero.select(x.cast(compute).recip(), x.cast(compute)).less(0.0);
    let top = field.builder.constant_ints(exact, &[], &[sign_bit(integer, exact)]);
    signed.select(unsigned + top, unsigned).cast(integer)
}

/// Returns the float with these bits.
pub(crate) fn float_of_bits(bits: Expr<'_>, dtype: DType) -> Expr<'_> {
    let Layout { compute, integer, mantissa, bias } = layout(dtype);
    let exact = if mantissa == 52 { DType::I64 } else { DType::I32 };
    let bits = bits.cast(integer);
    let is_negative = bits.less(0.0);
    let top = bits.builder.constant_ints(integer, &[], &[sign_bit(integer, integer)]);
    let field = is_negative.select(bits.bitwise_xor(top), bits).cast(exact);
    let unit = field.builder.constant_ints(exact, &[], &[1 << mantissa]);
    let exponent = field / unit;
    let fraction = field - exponent * unit;

    let exponent = exponent.cast(compute);
    let fraction = fraction.cast(compute);
    let is_tiny = exponent.equal(0.0);
    let is_special = exponent.equal(f64::from(2 * bias + 1));
    let two = exponent.constant(2.0);
    let scale = f64::powi(2.0, mantissa);
    let power = is_special.select(exponent.constant(0.0), exponent.max(1.0) - f64::from(bias));
    let lead = is_tiny.select(exponent.constant(0.0), 1.0);
    let size = (lead + fraction / scale) * two.pow(power);
    let infinite = exponent.constant(f64::INFINITY);
    let special = fraction.equal(0.0).select(infinite, f64::NAN);
    let size = is_special.select(special, size);
    // A product keeps the sign of a zero, and `Where` does not.
    (size * is_negative.select(size.constant(-1.0), 1.0)).cast(dtype)
}

/// `⌊log₂ x⌋` for `x` from `2^lowest` to below `2^(highest + 1)`
///
/// Near a power of two, the logarithm may be inexact. Therefore it is rounded to the nearest
/// integer, and decreased by one if this power of two is larger than `x`.
pub(super) fn exponent_of(x: Expr<'_>, lowest: i32, highest: i32) -> Expr<'_> {
    let nearest = (x.log() * std::f64::consts::LOG2_E).round();
    let guess = nearest.max(f64::from(lowest)).min(f64::from(highest));
    let is_too_large = x.constant(2.0).pow(guess).greater(x);
    is_too_large.select(guess - 1.0, guess)
}

/// Returns the smallest positive number of a type, which is subnormal.
pub(crate) fn smallest(dtype: DType) -> f64 {
    if let Some((mantissa, least)) = digits(dtype) {
        return f64::powi(2.0, least - mantissa);
    }
    let Layout { mantissa, bias, .. } = layout(dtype);
    // The exponent is below that of the normal numbers: `powi` would compute it as the reciprocal
    // of an overflow.
    f64::powi(2.0, 1 - bias) * f64::powi(2.0, -mantissa)
}

/// Returns the top bit of `integer`, as an integer of type `exact`.
fn sign_bit(integer: DType, exact: DType) -> i64 {
    if integer == DType::I16 && exact != DType::I16 {
        1 << 15
    } else {
        i64::MIN >> (64 - integer.bits())
    }
}
