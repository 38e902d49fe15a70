//! Operations on bits. On booleans, they are logical operations.

use onnx::{DType, Expr, OpType};

use crate::convert::{bits_of, float_of_bits, smallest, unsigned};
use crate::element::guards_nan;

pub(crate) fn and<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    if x.dtype() == DType::Bool { x.and(y) } else { x.bitwise_and(y) }
}

pub(crate) fn or<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    if x.dtype() == DType::Bool { x.or(y) } else { x.bitwise_or(y) }
}

pub(crate) fn xor<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    if x.dtype() == DType::Bool { x.xor(y) } else { x.bitwise_xor(y) }
}

pub(crate) fn not(x: Expr<'_>) -> Expr<'_> {
    if x.dtype() == DType::Bool { x.logical_not() } else { x.bitwise_not() }
}

/// `x · 2ʸ`; zero where `y` is not less than the width
pub(crate) fn shift_left<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    if let Some(power) = power_without_shifts(x, y) {
        return (x.cast(DType::I32) * power).cast(x.dtype());
    }
    let shifted = unsigned(x).shift_left(within_width(x, y)).cast(x.dtype());
    zero_past_width(x, y, shifted)
}

/// Shifts the bits of `x` to the right and fills with zeros; zero where `y` is not less than the
/// width.
pub(crate) fn shift_right_logical<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    let shifted = unsigned(x).shift_right(within_width(x, y)).cast(x.dtype());
    zero_past_width(x, y, shifted)
}

/// Shifts the bits of `x` to the right and fills with the sign.
///
/// The complement of a negative number is not negative, so `x >> y = ~(~x >> y)`. For unsigned
/// numbers too, the top bit counts as the sign.
pub(crate) fn shift_right_arithmetic<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    if let Some(power) = power_without_shifts(x, y) {
        let x_wide = x.cast(DType::I32);
        return ((x_wide - x_wide.modulo(power)) / power).cast(x.dtype());
    }
    let is_negative = signed(x).less(0.0);
    let flipped = is_negative.select(x.bitwise_not(), x);
    let shifted = shift_right_logical(flipped, y);
    is_negative.select(shifted.bitwise_not(), shifted)
}

/// Returns the power of two by which a shift of signed integers multiplies or divides, if a runtime of the target does not
/// shift the bits of `uint32`.
fn power_without_shifts<'g>(x: Expr<'g>, y: Expr<'g>) -> Option<f64> {
    use OpType::{BitShift, BitwiseNot, Div, Mod};
    let (target, opset) = (x.builder.target(), x.builder.opset());
    let shifts = target.has(BitwiseNot, opset)
        && target.is_ordinary(BitShift, DType::U32)
        && target.missing_type(BitShift, opset, &[Some(DType::U32)], &[]).is_none();
    let keeps_digits = [Div, Mod].iter().all(|&op| target.keeps_digits(op, DType::I32));
    let is_signed = x.dtype().is_signed_int() && (8..=32).contains(&x.dtype().bits());
    match y.tensor()?.ints()?[..] {
        [distance @ 0..31] if !target.is_default() && is_signed && !shifts && keeps_digits => {
            Some(2f64.powi(distance as i32))
        }
        _ => None,
    }
}

/// Counts the set bits, by adding neighbors: pairs, then nibbles, then bytes.
pub(crate) fn population_count(x: Expr<'_>) -> Expr<'_> {
    let width = x.dtype().bits();
    let x_bits = unsigned(x);
    let ones = |pattern: u64| x_bits.builder.constant_ints(x_bits.dtype(), &[], &[pattern as i64]);
    let by = |bits: f64| x_bits.constant(bits);
    let pairs = x_bits - x_bits.shift_right(by(1.0)).bitwise_and(ones(0x5555_5555_5555_5555));
    let two = ones(0x3333_3333_3333_3333);
    let nibbles = pairs.bitwise_and(two) + pairs.shift_right(by(2.0)).bitwise_and(two);
    let bytes = (nibbles + nibbles.shift_right(by(4.0))).bitwise_and(ones(0x0f0f_0f0f_0f0f_0f0f));
    let mut sum = bytes;
    let mut step = 8;
    while step < width {
        sum = sum + sum.shift_right(by(step as f64));
        step *= 2;
    }
    sum.bitwise_and(by(127.0)).cast(x.dtype())
}

/// Counts the leading zeros: sets all bits below the highest set bit, and counts the clear bits.
pub(crate) fn clz(x: Expr<'_>) -> Expr<'_> {
    let width = x.dtype().bits();
    let mut filled = unsigned(x);
    let mut step = 1;
    while step < width {
        filled = filled.bitwise_or(filled.shift_right(filled.constant(step as f64)));
        step *= 2;
    }
    population_count(filled.bitwise_not()).cast(x.dtype())
}

/// Returns the next number after `x` in the direction of `y`.
pub(crate) fn nextafter<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    let rounded = match x.dtype() {
        DType::F32 => Some((DType::F64, 23, 128)),
        DType::F16 => Some((DType::F32, 10, 16)),
        DType::F8E5M2 | DType::F8E5M2FnUz => Some((DType::F32, 2, 16)),
        DType::F8E4M3Fn | DType::F8E4M3FnUz => Some((DType::F32, 3, 9)),
        _ => None,
    };
    let moved = match rounded {
        Some((wide, mantissa, overflow)) => {
            let overflow = f64::powi(2.0, overflow);
            let start = x.cast(wide);
            // In the direction of an infinity, the same infinity and NaN do not change.
            if is_only(y, f64::INFINITY) {
                let start = start.max(-overflow);
                return (start + step_of(start, mantissa, x.dtype())).cast(x.dtype());
            }
            if is_only(y, f64::NEG_INFINITY) {
                let start = start.min(overflow);
                return (start - step_of(start, mantissa, x.dtype())).cast(x.dtype());
            }
            let start = start.max(-overflow).min(overflow);
            let step = step_of(start, mantissa, x.dtype());
            let direction = x.less(y).select(step.constant(1.0), -1.0);
            (start + step * direction).cast(x.dtype())
        }
        None => neighbor_by_bits(x, y),
    };
    let is_elsewhere = x.less(y).or(x.greater(y));
    let neighbor = is_elsewhere.select(moved, y);
    if !guards_nan(x) {
        return neighbor;
    }
    let either_nan = x.is_nan().or(y.is_nan());
    either_nan.select(x + y, neighbor)
}

/// Returns the neighbor of `x`: its bits as an integer, plus or minus one.
///
/// The neighbor of a zero is the smallest number with the sign of `y`.
fn neighbor_by_bits<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    let bits = bits_of(x);
    let away_from_zero = x.less(y).xor(x.less(0.0));
    let step = away_from_zero.select(bits.constant(1.0), -1.0);
    let neighbor = float_of_bits(bits + step, x.dtype());
    let from_zero = y.sign() * smallest(x.dtype());
    x.equal(0.0).select(from_zero, neighbor)
}

/// Returns a step such that `x` plus or minus the step rounds to the neighbor of `x` in a type.
///
/// `x` is a number of the type in a type with more than twice the digits, and `mantissa` is the number of bits
/// after the first one. The step `1.25 · |x| · 2^(−mantissa − 1)` is 0.625 to 1.25 times as long as the distance
/// to the next number. Below a power of two, this distance is half as long, and a step of 1.25 times it still
/// rounds to the neighbor. Among subnormal numbers, the step is three quarters of their distance. The neighbor of
/// infinity is the largest number, and so is that of the power of two that overflows.
fn step_of(x: Expr<'_>, mantissa: i32, dtype: DType) -> Expr<'_> {
    (x.abs() * (1.25 * f64::powi(2.0, -mantissa - 1))).max(0.75 * smallest(dtype))
}

/// True if `x` is a constant whose elements all equal `number`.
fn is_only(x: Expr<'_>, number: f64) -> bool {
    let elements = x.tensor().and_then(|tensor| tensor.floats());
    elements.is_some_and(|elements| elements.iter().all(|element| *element == number))
}

/// Returns the same bits as a signed integer.
fn signed(x: Expr<'_>) -> Expr<'_> {
    x.cast(match x.dtype().bits() {
        2 => DType::I2,
        4 => DType::I4,
        8 => DType::I8,
        16 => DType::I16,
        32 => DType::I32,
        _ => DType::I64,
    })
}

/// Returns the shift distance, with zero in place of distances that are not less than the width,
/// which are undefined in C.
fn within_width<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    unsigned(if is_known_within(x, y) { y } else { is_within_width(x, y).select(y, 0.0) })
}

/// Returns `shifted`, or zero where the distance `y` is not less than the width of `x`.
fn zero_past_width<'g>(x: Expr<'g>, y: Expr<'g>, shifted: Expr<'g>) -> Expr<'g> {
    if is_known_within(x, y) { shifted } else { is_within_width(x, y).select(shifted, 0.0) }
}

fn is_within_width<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    unsigned(y).less(x.dtype().bits() as f64)
}

fn is_known_within(x: Expr<'_>, y: Expr<'_>) -> bool {
    let width = x.dtype().bits() as i64;
    let distances = y.tensor().and_then(|tensor| tensor.ints());
    distances
        .is_some_and(|distances| distances.iter().all(|distance| (0..width).contains(distance)))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn a_constant_shift_within_the_width_needs_no_guard() {
        check(
            "x:u32[3] -> y:u32[3] = shift_left x 3:u32[]",
            expect![[r#"
                graph test(in_0:u32[3]) -> (out_0)
                out_0:u32[3] = BitShift(in_0, 3:u32) {direction="LEFT"}
            "#]],
        );
    }

    #[test]
    fn a_distance_past_the_width_returns_zero() {
        check(
            "x:u8[3] y:u8[3] -> z:u8[3] = shift_right_logical x y",
            expect![[r#"
                graph test(in_0:u8[3], in_1:u8[3]) -> (out_0)
                %0 = Less(in_1, 8:u8)
                %1 = Where(%0, in_1, 0:u8)
                %2 = BitShift(in_0, %1) {direction="RIGHT"}
                %3 = Less(in_1, 8:u8)
                out_0:u8[3] = Where(%3, %2, 0:u8)
            "#]],
        );
    }

    #[test]
    fn an_arithmetic_shift_moves_the_complement_of_a_negative_number() {
        check(
            "x:i32[3] -> y:i32[3] = shift_right_arithmetic x 1:i32[]",
            expect![[r#"
                graph test(in_0:i32[3]) -> (out_0)
                %0 = Less(in_0, 0:i32)
                %1 = BitwiseNot(in_0)
                %2 = Where(%0, %1, in_0)
                %3 = Cast(%2) {to=12}
                %4 = Cast(1:i32) {to=12}
                %5 = BitShift(%3, %4) {direction="RIGHT"}
                %6 = Cast(%5) {to=6}
                %7 = BitwiseNot(%6)
                out_0:i32[3] = Where(%0, %7, %6)
            "#]],
        );
    }

    #[test]
    fn operations_on_booleans_are_logical() {
        check(
            "x:bool[3] y:bool[3] -> z:bool[3] = xor x y",
            expect![[r#"
                graph test(in_0:bool[3], in_1:bool[3]) -> (out_0)
                out_0:bool[3] = Xor(in_0, in_1)
            "#]],
        );
    }
}
