//! Conversion between types.

mod float_bits;

use onnx::{DType, Expr};

pub(crate) use float_bits::{bits_of, float_of_bits};

use crate::Refused;
use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

/// The same number in another type: integers wrap, floats round, floats saturate to integers
pub(crate) fn convert_element_type<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    eqn.ignore(&["new_dtype", "weak_type"]);
    // Where an array lives does not change the numbers.
    eqn.ignore(&["sharding"]);
    let [x] = eqn.operands()?;
    Ok(convert(x, eqn.output()?.dtype))
}

pub(crate) fn convert(x: Expr<'_>, dtype: DType) -> Expr<'_> {
    let from = x.dtype();
    if from.is_float() && dtype.is_int() {
        return saturate(x, dtype);
    }
    if dtype.is_float() && dtype.bits() == 8 {
        return x.cast_without_saturation(dtype);
    }
    x.cast(dtype)
}

/// A float as an integer: what is out of range becomes the nearest in range, NaN becomes zero
///
/// `Cast` leaves both undefined. The largest integer may not be a float; then the cast would
/// overflow just there, and the comparison puts it right.
fn saturate(x: Expr<'_>, dtype: DType) -> Expr<'_> {
    let x = if x.dtype().bits() < 32 { x.cast(DType::F32) } else { x };
    let bits = dtype.bits() as i32;
    let (low, past) = match dtype.is_signed_int() {
        true => (-f64::powi(2.0, bits - 1), f64::powi(2.0, bits - 1)),
        false => (0.0, f64::powi(2.0, bits)),
    };
    let number = x.is_nan().select(x.constant(0.0), x);
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

/// The same bits read as another type
///
/// ONNX has `BitCast` since opset 26; before, integers of one width are a cast apart and floats are
/// taken apart by arithmetic.
pub(crate) fn bitcast<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    eqn.ignore(&["new_dtype"]);
    let [x] = eqn.operands()?;
    let result = eqn.output()?;
    let (from, to) = (x.dtype(), result.dtype);
    if from.bits() != to.bits() || from.bits() < 8 {
        let what = format!("bitcast_convert_type from {from} to {to}");
        return Err(Refused::NoCounterpart { what }.into());
    }
    if from == to {
        return Ok(x);
    }
    if ctx.builder.opset() >= 26 && from != DType::Bool && to != DType::Bool {
        let attrs = vec![("to", onnx::Attr::Int(to.code().into()))];
        return Ok(ctx.builder.node("BitCast", &[x], attrs, result.clone()));
    }
    let bits = if from.is_float() { bits_of(x) } else { x };
    Ok(if to.is_float() { float_of_bits(bits, to) } else { bits.cast(to) })
}

/// Rounded to fewer bits of exponent and mantissa, in the same type
pub(crate) fn reduce_precision<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let exponent_bits: i64 = eqn.param("exponent_bits")?;
    let mantissa_bits: i64 = eqn.param("mantissa_bits")?;
    let [x] = eqn.operands()?;
    let (exponent, mantissa) = match x.dtype() {
        DType::F64 => (11, 52),
        DType::F32 => (8, 23),
        DType::Bf16 => (8, 7),
        _ => (5, 10),
    };
    let narrow = match (exponent_bits, mantissa_bits) {
        (e, m) if e >= exponent && m >= mantissa => return Ok(x),
        (8, 23) => DType::F32,
        (8, 7) => DType::Bf16,
        (5, 10) => DType::F16,
        (e, m) => {
            let what = format!("reduce_precision to {e} bits of exponent and {m} of mantissa");
            return Err(Refused::NoCounterpart { what }.into());
        }
    };
    Ok(x.cast(narrow).cast(x.dtype()))
}
