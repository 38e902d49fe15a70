//! Operations on bits; on flags they are those of logic.

use onnx::{DType, Expr};

use crate::convert::{bits_of, float_of_bits};

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
    if x.dtype() == DType::Bool { x.not() } else { x.bitwise_not() }
}

/// `x · 2ʸ`; zero where `y` is not less than the width
pub(crate) fn shift_left<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    let shifted = unsigned(x).shift_left(within_width(x, y)).cast(x.dtype());
    zero_past_width(x, y, shifted)
}

/// The bits of `x` moved down, zeros moved in; zero where `y` is not less than the width
pub(crate) fn shift_right_logical<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    let shifted = unsigned(x).shift_right(within_width(x, y)).cast(x.dtype());
    zero_past_width(x, y, shifted)
}

/// The bits of `x` moved down, its sign moved in
///
/// A negative number is the complement of one that is not: `x >> y = ~(~x >> y)`.
pub(crate) fn shift_right_arithmetic<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    if x.dtype().is_unsigned_int() {
        return shift_right_logical(x, y);
    }
    let is_negative = x.less(0.0);
    let flipped = is_negative.select(x.bitwise_not(), x);
    let shifted = shift_right_logical(flipped, y);
    is_negative.select(shifted.bitwise_not(), shifted)
}

/// How many bits are set, by adding neighbours: pairs, then nibbles, then bytes
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

/// How many bits above the highest one are clear: those of the number with all below it set
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

/// The neighbour of `x` towards `y`: the bits as a number, one more or one less
pub(crate) fn nextafter<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    let bits = bits_of(x);
    let away_from_zero = x.less(y).xor(x.less(0.0));
    let step = away_from_zero.select(bits.constant(1.0), -1.0);
    let neighbour = float_of_bits(bits + step, x.dtype());
    let smallest = float_of_bits(bits.constant(1.0), x.dtype());
    let from_zero = y.less(0.0).select(-smallest, smallest);
    let moved = x.equal(0.0).select(from_zero, neighbour);
    let is_there = x.equal(y);
    let either_nan = x.is_nan().or(y.is_nan());
    either_nan.select(x + y, is_there.select(y, moved))
}

/// The same bits as an unsigned number.
fn unsigned(x: Expr<'_>) -> Expr<'_> {
    x.cast(match x.dtype().bits() {
        8 => DType::U8,
        16 => DType::U16,
        32 => DType::U32,
        _ => DType::U64,
    })
}

/// Shifting by the width or more is undefined in C: such a distance becomes zero.
fn within_width<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    unsigned(if is_known_within(x, y) { y } else { is_within_width(x, y).select(y, 0.0) })
}

/// `shifted`, or zero where the distance `y` is not less than the width of `x`.
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
