//! Rounds floats to fewer bits.

use onnx::{DType, Expr};

use crate::convert::float_bits::exponent_of;
use crate::ctx::{Ctx, Eqn};
use crate::error::{Refused, Result};

/// Rounds to fewer bits of exponent and mantissa, without a change of the type.
///
/// Numbers that are too large become infinite, and numbers below the least normal number become
/// zero. A cast to a narrower type and back is not enough, because it keeps subnormal numbers.
pub(crate) fn reduce_precision<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let exponent_bits: i64 = eqn.param("exponent_bits")?;
    let mantissa_bits: i64 = eqn.param("mantissa_bits")?;
    let [x] = eqn.operands()?;
    let dtype = x.dtype();
    let (exponent, mantissa) = match dtype {
        DType::F64 => (11, 52),
        DType::F32 => (8, 23),
        DType::Bf16 => (8, 7),
        DType::F16 => (5, 10),
        _ => {
            let what = format!("reduce_precision of {dtype}");
            return Err(Refused::NoCounterpart { what }.into());
        }
    };
    if mantissa_bits == 0 {
        // In this case, XLA breaks ties by the exponent.
        return Err(Refused::NoCounterpart { what: "mantissa_bits=0".into() }.into());
    }

    let rounded = match (dtype, exponent_bits, mantissa_bits) {
        (_, _, bits) if bits >= mantissa => x,
        (DType::F64, 8, 23) => x.cast(DType::F32).cast(dtype),
        (DType::F32, 8, 7) => x.cast(DType::Bf16).cast(dtype),
        (DType::F32, 5, 10) => x.cast(DType::F16).cast(dtype),
        (_, _, bits) => round_to(x, bits as i32, 2 - (1 << (exponent - 1))).cast(dtype),
    };
    Ok(if exponent_bits < exponent { with_exponent(rounded, exponent_bits) } else { rounded })
}

/// `round(x / 2^(e − m)) · 2^(e − m)` with `e = max(⌊log₂|x|⌋, least)`, as a double: `m` bits after
/// the leading one
pub(crate) fn round_to(x: Expr<'_>, mantissa: i32, least: i32) -> Expr<'_> {
    let x = x.cast(DType::F64);
    let size = x.abs().max(f64::powi(2.0, least));
    let is_finite = size.less(f64::INFINITY);
    let exponent = exponent_of(is_finite.select(size, 1.0), least, 1023);
    // Two steps, so that no power is subnormal.
    let scale = f64::powi(2.0, mantissa);
    let power = exponent.constant(2.0).pow(exponent);
    (x / power * scale).round() / scale * power
}

/// Returns `x`, or infinity or zero where the exponent does not fit into `bits` bits.
///
/// Multiplies, which keeps the sign of a zero.
fn with_exponent(x: Expr<'_>, bits: i64) -> Expr<'_> {
    let bias = (1 << (bits - 1)) - 1;
    let size = x.abs();
    let is_large = size.greater_equal(f64::powi(2.0, bias + 1));
    let is_small = size.less(f64::powi(2.0, 1 - bias));
    let kept = is_small.select(x.constant(0.0), 1.0);
    x * is_large.select(x.constant(f64::INFINITY), kept)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn a_type_without_more_bits_is_not_rounded() {
        check(
            "x:bf16[3] -> y:bf16[3] = reduce_precision{exponent_bits=8; mantissa_bits=23} x",
            expect![[r#"
                graph test(in_0:bf16[3]) -> (out_0)
                out_0:bf16[3] = Identity(in_0)
            "#]],
        );
    }

    #[test]
    fn bfloat16_is_a_cast_and_back() {
        check(
            "x:f32[3] -> y:f32[3] = reduce_precision{exponent_bits=8; mantissa_bits=7} x",
            expect![[r#"
                graph test(in_0:f32[3]) -> (out_0)
                %0 = Cast(in_0) {to=16}
                out_0:f32[3] = Cast(%0) {to=1}
            "#]],
        );
    }

    #[test]
    fn half_precision_loses_its_subnormal_numbers() {
        check(
            "x:f32[3] -> y:f32[3] = reduce_precision{exponent_bits=5; mantissa_bits=10} x",
            expect![[r#"
                graph test(in_0:f32[3]) -> (out_0)
                %0 = Cast(in_0) {to=10}
                %1 = Cast(%0) {to=1}
                %2 = Abs(%1)
                %3 = GreaterOrEqual(%2, 65536.0)
                %4 = Less(%2, 6.1035156e-5)
                %5 = Where(%4, 0.0, 1.0)
                %6 = Where(%3, inf, %5)
                out_0:f32[3] = Mul(%1, %6)
            "#]],
        );
    }

    #[test]
    fn any_mantissa_is_rounded_to_its_unit() {
        check(
            "x:f32[3] -> y:f32[3] = reduce_precision{exponent_bits=8; mantissa_bits=3} x",
            expect![[r#"
                graph test(in_0:f32[3]) -> (out_0)
                %0 = Cast(in_0) {to=11}
                %1 = Abs(%0)
                %2 = Max(%1, 1.1754943508222875e-38:f64)
                %3 = Less(%2, inf:f64)
                %4 = Where(%3, %2, 1.0:f64)
                %5 = Log(%4)
                %6 = Mul(%5, 1.4426950408889634:f64)
                %7 = Round(%6)
                %8 = Max(%7, -126.0:f64)
                %9 = Min(%8, 1023.0:f64)
                %10 = Pow(2.0:f64, %9)
                %11 = Greater(%10, %4)
                %12 = Sub(%9, 1.0:f64)
                %13 = Where(%11, %12, %9)
                %14 = Pow(2.0:f64, %13)
                %15 = Div(%0, %14)
                %16 = Mul(%15, 8.0:f64)
                %17 = Round(%16)
                %18 = Div(%17, 8.0:f64)
                %19 = Mul(%18, %14)
                out_0:f32[3] = Cast(%19) {to=1}
            "#]],
        );
    }

    #[test]
    fn a_mantissa_without_bits_is_refused() {
        check(
            "x:f32[3] -> y:f32[3] = reduce_precision{exponent_bits=8; mantissa_bits=0} x",
            expect![[r#"
                refused: `mantissa_bits=0` has no ONNX counterpart
            "#]],
        );
    }
}
