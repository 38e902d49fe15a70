//! Conversions between types.

mod bitcast;
mod float_bits;
mod precision;

use onnx::{DType, Expr};

pub(crate) use bitcast::{bitcast, unsigned};
pub(crate) use float_bits::{bits_of, float_of_bits, smallest};
pub(crate) use precision::reduce_precision;

use crate::ctx::{Ctx, Eqn};
use crate::element::guards_nan;
use crate::error::Result;

/// Converts numbers to another type: integers wrap, floats round, and floats saturate if they
/// become integers.
pub(crate) fn convert_element_type<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    eqn.ignore(&["new_dtype", "weak_type"]);
    let [x] = eqn.operands()?;
    Ok(convert(x, eqn.output()?.dtype))
}

pub(crate) fn convert(x: Expr<'_>, dtype: DType) -> Expr<'_> {
    let from = x.dtype();
    if from.is_float() && dtype.is_int() {
        return saturate(x, dtype);
    }
    // ONNX Runtime would convert through single precision and round twice.
    let x = match float_bits::digits(dtype) {
        Some((mantissa, least)) if from == DType::F64 => precision::round_to(x, mantissa, least),
        _ => x,
    };
    x.cast(dtype)
}

/// Converts a float to an integer: a number out of range becomes the nearest integer in range, and
/// NaN becomes zero.
///
/// `Cast` leaves both cases undefined. If the largest integer is not a float, the cast would
/// overflow there, so a comparison selects it.
fn saturate(x: Expr<'_>, dtype: DType) -> Expr<'_> {
    let x = if x.dtype().bits() < 32 { x.cast(DType::F32) } else { x };
    let bits = dtype.bits() as i32;
    let past = f64::powi(2.0, if dtype.is_signed_int() { bits - 1 } else { bits });
    let low = if dtype.is_signed_int() { -past } else { 0.0 };
    let number = if guards_nan(x) { x.is_nan().select(x.constant(0.0), x) } else { x };
    let digits = if x.dtype() == DType::F64 { 53 } else { 24 };
    if bits <= digits {
        return number.max(low).min(past - 1.0).cast(dtype);
    }
    let largest = if dtype.is_signed_int() { i64::MAX >> (64 - bits) } else { -1 };
    let largest = x.builder.constant_ints(dtype, &[], &[largest]);
    let is_past = number.greater_equal(past);
    let inside = is_past.select(x.constant(0.0), number.max(low));
    is_past.select(largest, inside.cast(dtype))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn integers_wrap_as_the_cast_does() {
        check(
            "x:i32[3] -> y:u8[3] = convert_element_type{new_dtype=uint8; weak_type=False} x",
            expect![[r#"
                graph test(in_0:i32[3]) -> (out_0)
                out_0:u8[3] = Cast(in_0) {to=2}
            "#]],
        );
    }

    #[test]
    fn a_float_is_kept_in_the_range_of_the_integer() {
        check(
            "x:f32[3] -> y:i8[3] = convert_element_type{new_dtype=int8; weak_type=False} x",
            expect![[r#"
                graph test(in_0:f32[3]) -> (out_0)
                %0 = IsNaN(in_0)
                %1 = Where(%0, 0.0, in_0)
                %2 = Max(%1, -128.0)
                %3 = Min(%2, 127.0)
                out_0:i8[3] = Cast(%3) {to=3}
            "#]],
        );
    }

    #[test]
    fn the_largest_integer_is_selected_if_it_is_not_a_float() {
        check(
            "x:f32[3] -> y:i32[3] = convert_element_type{new_dtype=int32; weak_type=False} x",
            expect![[r#"
                graph test(in_0:f32[3]) -> (out_0)
                %0 = IsNaN(in_0)
                %1 = Where(%0, 0.0, in_0)
                %2 = GreaterOrEqual(%1, 2147483600.0)
                %3 = Max(%1, -2147483600.0)
                %4 = Where(%2, 0.0, %3)
                %5 = Cast(%4) {to=6}
                out_0:i32[3] = Where(%2, 2147483647:i32, %5)
            "#]],
        );
    }

    #[test]
    fn a_float_becomes_true_unless_it_is_zero() {
        check(
            "x:f32[3] -> y:bool[3] = convert_element_type{new_dtype=bool; weak_type=False} x",
            expect![[r#"
                graph test(in_0:f32[3]) -> (out_0)
                out_0:bool[3] = Cast(in_0) {to=9}
            "#]],
        );
    }
}
