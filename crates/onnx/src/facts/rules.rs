//! The rules by which facts about results follow from facts about operands.

use super::floats::{Floats, NegativeZero};
use super::{Fact, Question, ints};
use crate::attr::Attr;
use crate::dtype::DType;
use crate::operator::OpType;
use crate::tensor::Tensor;

type Query<'a, 'q, 'e, 'm> = &'a mut Question<'q, 'e, 'm>;

/// The longest axis: JAX computes sizes in 32 bits.
const MAX_AXIS: i128 = i32::MAX as i128;

/// The largest result of functions that are bounded by 1: kernels may exceed it by rounding errors.
const ONE: f64 = 1.0 + 1e-5;

/// Only the type is known.
pub(crate) fn unknown(_: Query<'_, '_, '_, '_>) -> Option<Fact> {
    None
}

/// All elements are elements of the first operand.
pub(crate) fn same(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    let fact = q.fact(0)?;
    let keeps_rows =
        q.operand_type(0)?.shape.last() == q.ty.shape.last() && q.node().op != OpType::Transpose;
    Some(match fact {
        Fact::Floats(floats) if !keeps_rows => {
            Fact::Floats(Floats { length: f64::INFINITY, ..floats })
        }
        other => other,
    })
}

/// Each element is an element of the operand `first` or a later one.
fn any_from(q: Query<'_, '_, '_, '_>, first: usize) -> Option<Fact> {
    let whole = (first + 1..q.operands())
        .try_fold(q.fact(first)?, |fact, operand| Some(fact.or(q.fact(operand)?)))?;
    Some(match whole {
        Fact::Floats(floats) => Fact::Floats(Floats { length: f64::INFINITY, ..floats }),
        other => other,
    })
}

pub(crate) fn concat(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    any_from(q, 0)
}

/// `Where`
pub(crate) fn choose(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    any_from(q, 1)
}

pub(crate) fn add(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    match q.fact(0)? {
        Fact::Floats(a) => Some(Fact::Floats(a.plus(q.floats(1)?))),
        Fact::Ints(a) => ints::add(q.dtype(), a, q.ints(1)?).map(Fact::Ints),
        Fact::Nothing => None,
    }
}

pub(crate) fn subtract(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    match q.fact(0)? {
        Fact::Floats(a) if q.is_same(0, 1) => {
            Some(Fact::Floats(Floats::between(0.0, 0.0).or_nan(a.nan || !a.is_limited())))
        }
        Fact::Floats(a) => Some(Fact::Floats(a.minus(q.floats(1)?))),
        Fact::Ints(a) => {
            if let Some(rest) = rest_of_division(q) {
                return Some(rest);
            }
            ints::sub(q.dtype(), a, q.ints(1)?).map(Fact::Ints)
        }
        Fact::Nothing => None,
    }
}

/// The remainder `x − x / d · d` of a division by a positive number.
fn rest_of_division(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    let edit = q.edit;
    let (x, product) = (q.operand(0)?, edit.producer(q.operand(1)?)?);
    let operands = |index: usize| Some((edit.input(index, 0)?, edit.input(index, 1)?));
    let number = |id| match edit.tensor(id)?.ints()?[..] {
        [number] => Some(number),
        _ => None,
    };
    let (a, b) = operands(product).filter(|_| edit.node(product).op == OpType::Mul)?;
    let (quotient, factor) = if number(b).is_some() { (a, b) } else { (b, a) };
    let quotient = edit.producer(quotient)?;
    let (dividend, divisor) =
        operands(quotient).filter(|_| edit.node(quotient).op == OpType::Div)?;
    let divisor =
        number(divisor).filter(|&d| d > 0 && number(factor) == Some(d) && dividend == x)?;
    ints::rest(q.ints(0)?, (divisor.into(), divisor.into())).map(Fact::Ints)
}

pub(crate) fn multiply(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    let is_square = q.is_same(0, 1);
    match q.fact(0)? {
        Fact::Floats(a) if is_square => Some(Fact::Floats(a.squared())),
        Fact::Floats(a) => Some(Fact::Floats(a.times(q.floats(1)?))),
        Fact::Ints(a) if is_square => ints::square(q.dtype(), a).map(Fact::Ints),
        Fact::Ints(a) => ints::mul(q.dtype(), a, q.ints(1)?).map(Fact::Ints),
        Fact::Nothing => None,
    }
}

pub(crate) fn divide(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    match q.fact(0)? {
        Fact::Floats(a) => Some(Fact::Floats(a.divided(q.floats(1)?))),
        Fact::Ints(a) => ints::div(q.dtype(), a, q.ints(1)?).map(Fact::Ints),
        Fact::Nothing => None,
    }
}

pub(crate) fn reciprocal(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    let one = Floats::between(1.0, 1.0);
    Some(Fact::Floats(one.divided(q.floats(0)?)))
}

/// `Mod`
pub(crate) fn remainder(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    let (x, by) = (q.ints(0)?, q.ints(1)?);
    let rest = ints::rest(x, by)?;
    let has_sign_of_divisor = q.int_attr("fmod", 0) != 1;
    Some(Fact::Ints(if has_sign_of_divisor && x.0 < 0 { (0, by.1 - 1) } else { rest }))
}

pub(crate) fn negate(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    match q.fact(0)? {
        Fact::Floats(x) => Some(Fact::Floats(x.negative())),
        Fact::Ints(x) => ints::neg(q.dtype(), x).map(Fact::Ints),
        Fact::Nothing => None,
    }
}

pub(crate) fn size(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    match q.fact(0)? {
        Fact::Floats(x) => Some(Fact::Floats(x.size())),
        Fact::Ints(x) => ints::abs(q.dtype(), x).map(Fact::Ints),
        Fact::Nothing => None,
    }
}

pub(crate) fn sign(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    match q.fact(0)? {
        Fact::Floats(x) => {
            let sign = |bound: f64| if bound == 0.0 { 0.0 } else { bound.signum() };
            Some(Fact::Floats(x.map(sign)))
        }
        Fact::Ints(x) => Some(Fact::Ints((x.0.signum(), x.1.signum()))),
        Fact::Nothing => None,
    }
}

pub(crate) fn maximum(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    chosen(q, Floats::maximum, ints::max)
}

pub(crate) fn minimum(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    chosen(q, Floats::minimum, ints::min)
}

fn chosen(
    q: Query<'_, '_, '_, '_>,
    of_floats: fn(Floats, Floats) -> Floats,
    of_ints: fn(ints::Interval, ints::Interval) -> ints::Interval,
) -> Option<Fact> {
    let mut whole = q.fact(0)?;
    for operand in 1..q.operands() {
        whole = match (whole, q.fact(operand)?) {
            (Fact::Floats(a), Fact::Floats(b)) => Fact::Floats(of_floats(a, b)),
            (Fact::Ints(a), Fact::Ints(b)) => Fact::Ints(of_ints(a, b)),
            _ => return None,
        };
    }
    Some(whole)
}

/// If the limits are in the wrong order, the upper limit wins.
pub(crate) fn clip(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    let mut whole = q.fact(0)?;
    for (operand, is_floor) in [(1, true), (2, false)] {
        let limit = if q.operand(operand).is_some() { q.fact(operand)? } else { continue };
        whole = match (whole, limit) {
            (Fact::Floats(x), Fact::Floats(limit)) if is_floor => Fact::Floats(x.maximum(limit)),
            (Fact::Floats(x), Fact::Floats(limit)) => Fact::Floats(x.minimum(limit)),
            (Fact::Ints(x), Fact::Ints(limit)) if is_floor => Fact::Ints(ints::max(x, limit)),
            (Fact::Ints(x), Fact::Ints(limit)) => Fact::Ints(ints::min(x, limit)),
            _ => return None,
        };
    }
    Some(whole)
}

pub(crate) fn relu(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    Some(match q.fact(0)? {
        // A negative number may become either zero.
        Fact::Floats(x) => {
            let may_be = if x.low < 0.0 { NegativeZero::Possible } else { x.negative_zero };
            Fact::Floats(Floats { negative_zero: may_be, ..x.map(|x| x.max(0.0)) })
        }
        Fact::Ints(x) => Fact::Ints(ints::max(x, (0, 0))),
        Fact::Nothing => return None,
    })
}

pub(crate) fn root(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    let x = q.floats(0)?;
    let negative_zero = x.negative_zero;
    let fact = x.map(|x| x.max(0.0).sqrt()).or_nan(x.low < 0.0);
    Some(Fact::Floats(Floats { negative_zero, ..fact }.inexact()))
}

pub(crate) fn exponential(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    let x = q.floats(0)?;
    let fact = x.map(f64::exp).inexact();
    Some(Fact::Floats(Floats { negative_zero: NegativeZero::Never, ..fact }))
}

pub(crate) fn logarithm(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    let x = q.floats(0)?;
    let fact = x.map(|x| x.max(0.0).ln()).inexact().or_nan(x.low < 0.0);
    Some(Fact::Floats(Floats { negative_zero: NegativeZero::Possible, ..fact }))
}

pub(crate) fn power(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    if let Some(base) = q.constant(0).and_then(uniform) {
        let exponent = q.floats(1).filter(|_| base > 0.0)?;
        let ends = [exponent.low, exponent.high].map(|exponent| base.powf(exponent));
        let fact = Floats::between(ends[0].min(ends[1]), ends[0].max(ends[1])).inexact();
        return Some(Fact::Floats(fact.or_nan(exponent.nan)));
    }
    let exponent = q.constant(1).and_then(uniform)?;
    let x = q.floats(0).filter(|_| exponent == 2.0)?;
    Some(Fact::Floats(x.squared().inexact()))
}

/// Functions with results between −1 and 1 that keep the sign of their operand.
pub(crate) fn limited(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    let x = q.floats(0)?;
    let low = if x.low < 0.0 { -ONE } else { 0.0 };
    let high = if x.high > 0.0 { ONE } else { 0.0 };
    Some(Fact::Floats(Floats { nan: x.nan, ..x.map(|_| 0.0) }.or(Floats::between(low, high))))
}

/// `Sin` and `Cos`: the result for an infinite number is NaN.
pub(crate) fn wave(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    let x = q.floats(0)?;
    let fact = Floats { negative_zero: NegativeZero::Possible, ..Floats::between(-ONE, ONE) };
    Some(Fact::Floats(fact.or_nan(x.nan || !x.is_limited())))
}

/// `Sigmoid`
pub(crate) fn probability(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    let x = q.floats(0)?;
    Some(Fact::Floats(Floats::between(0.0, ONE).or_nan(x.nan)))
}

/// `Softmax` and `Hardmax`: a row with an infinite number may become NaN.
pub(crate) fn probabilities(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    let x = q.floats(0)?;
    Some(Fact::Floats(Floats::between(0.0, ONE).or_nan(x.nan || !x.is_limited())))
}

/// `LogSoftmax`: the largest number of a row is subtracted from itself, which is `+0`, and then the logarithm of the sum,
/// which is positive if another number of the row is a zero too.
pub(crate) fn log_probabilities(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    let x = q.floats(0)?;
    let fact = Floats::between(f64::NEG_INFINITY, ONE - 1.0);
    let fact = Floats { negative_zero: NegativeZero::IfTooSmall, ..fact };
    Some(Fact::Floats(fact.or_nan(x.nan || !x.is_limited())))
}

/// Functions whose results are never negative.
pub(crate) fn positive(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    let x = q.floats(0)?;
    let fact = Floats::between(0.0, f64::INFINITY);
    Some(Fact::Floats(fact.or_nan(x.nan || !x.is_limited())))
}

pub(crate) fn floor(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    rounded_by(q, f64::floor)
}

pub(crate) fn ceil(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    rounded_by(q, f64::ceil)
}

pub(crate) fn round(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    rounded_by(q, f64::round_ties_even)
}

fn rounded_by(q: Query<'_, '_, '_, '_>, function: fn(f64) -> f64) -> Option<Fact> {
    let x = q.floats(0)?;
    // Numbers just below zero may become `−0`.
    let may_be = if x.low < 0.0 { NegativeZero::Possible } else { x.negative_zero };
    Some(Fact::Floats(Floats { negative_zero: may_be, ..x.map(function) }))
}

pub(crate) fn cast(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    let dtype = q.dtype();
    match q.fact(0)? {
        Fact::Floats(x) if dtype.is_float() => {
            Some(Fact::Floats(Floats { length: f64::INFINITY, ..x.with_too_small() }))
        }
        Fact::Floats(x) => {
            x.finite().filter(|&most| most < 1e18 && dtype != DType::Bool)?;
            ints::within(dtype, (x.low as i128, x.high as i128)).map(Fact::Ints)
        }
        Fact::Ints((low, high)) if dtype.is_float() => {
            Some(Fact::Floats(Floats::between(low as f64, high as f64)))
        }
        Fact::Ints(x) if dtype == DType::Bool => {
            Some(Fact::Ints((i128::from(x.0 > 0 || x.1 < 0), i128::from(x != (0, 0)))))
        }
        Fact::Ints(x) => ints::within(dtype, x).map(Fact::Ints),
        Fact::Nothing => None,
    }
}

/// `ReduceMax` and `ReduceMin`
pub(crate) fn extreme(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    let is_filled = q.reduced().is_some_and(|count| count > 0);
    Some(match q.fact(0)? {
        Fact::Floats(x) if is_filled => Fact::Floats(Floats { length: f64::INFINITY, ..x }),
        Fact::Ints(x) if is_filled => Fact::Ints(x),
        _ => return None,
    })
}

/// `ReduceSum`
pub(crate) fn sum(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    let count = q.reduced();
    match q.fact(0)? {
        Fact::Ints(x) => ints::sum(q.dtype(), x, count?).map(Fact::Ints),
        Fact::Floats(x) => {
            let times = |bound: f64| match count {
                Some(count) => bound * (count.max(0) as f64) * ONE,
                None if bound == 0.0 => 0.0,
                None => bound * f64::INFINITY,
            };
            let (low, high) = (times(x.low).min(0.0), times(x.high).max(0.0));
            // Partial sums that overflow in both directions cancel to NaN.
            let nan = x.nan || !low.is_finite() && !high.is_finite();
            let fact = Floats { negative_zero: x.negative_zero, ..Floats::between(low, high) };
            let overflows = low.abs().max(high) > 1e38;
            Some(Fact::Floats(fact.or_nan(nan || overflows && low < 0.0 && high > 0.0)))
        }
        Fact::Nothing => None,
    }
}

pub(crate) fn mean(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    let x = q.floats(0)?;
    let is_filled = q.reduced().is_some_and(|count| count > 0);
    // The sum may overflow before it is divided.
    let is_safe = is_filled && x.most() < 1e30;
    let fact = if is_safe {
        x.inexact()
    } else {
        let low = if x.low < 0.0 { f64::NEG_INFINITY } else { 0.0 };
        let high = if x.high > 0.0 { f64::INFINITY } else { 0.0 };
        Floats { low, high, ..x }
    };
    let fact = Floats { length: f64::INFINITY, ..fact.with_too_small() };
    Some(Fact::Floats(fact.or_nan(!is_safe)))
}

/// `ReduceL1`, `ReduceL2` and `ReduceSumSquare`
pub(crate) fn norm(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    let x = q.floats(0)?;
    Some(Fact::Floats(Floats::between(0.0, f64::INFINITY).or_nan(x.nan)))
}

/// Indices along an axis.
pub(crate) fn place(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    let axis = q.axis(0)?;
    let size = q.operand_type(0)?.shape.get(axis)?.known().map_or(MAX_AXIS, i128::from);
    Some(Fact::Ints((0, (size - 1).max(0))))
}

/// `TopK`: elements, and their indices.
pub(crate) fn top_k(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    if q.node().outputs.get(1) != Some(&q.value) {
        return same(q);
    }
    let axis = q.axis(-1)?;
    let size = q.operand_type(0)?.shape.get(axis)?.known().map_or(MAX_AXIS, i128::from);
    Some(Fact::Ints((0, (size - 1).max(0))))
}

/// Sizes and indices.
#[expect(clippy::unnecessary_wraps, reason = "rules have this signature")]
pub(crate) fn sizes(_: Query<'_, '_, '_, '_>) -> Option<Fact> {
    Some(Fact::Ints((0, MAX_AXIS)))
}

/// The elements `start + k · step` before `limit`.
///
/// The kernel subtracts `start` from `limit` in the type of the operands and divides as doubles. If that may wrap
/// or round, `limit` is not a bound, and only the longest axis bounds `k`.
pub(crate) fn range(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    let dtype = q.dtype();
    let (start, limit, step) = (q.ints(0)?, q.ints(1)?, q.ints(2)?);
    let is_exact =
        |number: i128| ints::within(dtype, (number, number)).is_some() && number.abs() < 1 << 53;
    let has_length = is_exact(limit.0 - start.1) && is_exact(limit.1 - start.0);
    let last_of = |start: i128, step: i128| Some(start + step.checked_mul(MAX_AXIS - 1)?);
    let (low, high) = if step.0 > 0 {
        let by_limit = (limit.1 - 1).max(start.1);
        let by_length = last_of(start.1, step.1)?;
        (start.0, if has_length { by_limit.min(by_length) } else { by_length })
    } else if step.1 < 0 {
        let by_limit = (limit.0 + 1).min(start.0);
        let by_length = last_of(start.0, step.0)?;
        (if has_length { by_limit.max(by_length) } else { by_length }, start.1)
    } else {
        return None;
    };
    ints::within(dtype, (low, high)).map(Fact::Ints)
}

pub(crate) fn bits_of_both(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    ints::bits_of_both(q.ints(0)?, q.ints(1)?).map(Fact::Ints)
}

pub(crate) fn bits_of_one(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    ints::bits_of_one(q.ints(0)?, q.ints(1)?).map(Fact::Ints)
}

/// `BitShift`
pub(crate) fn shift(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    let x = q.ints(0)?;
    match q.attr("direction") == Some(&Attr::from("LEFT")) {
        true => ints::shifted_up(q.dtype(), x, q.ints(1)?).map(Fact::Ints),
        false => (x.0 >= 0).then_some(Fact::Ints((0, x.1))),
    }
}

pub(crate) fn matmul(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    let (a, b) = (q.floats(0)?, q.floats(1)?);
    let count = q.last_size(0)?;
    let by_size = a.most() * b.most() * count;
    let by_length = column_length(q)
        .map_or(f64::INFINITY, |column| column * a.length.min(a.most() * count.sqrt()));
    // No partial sum exceeds the sum of all magnitudes.
    let most = by_size.min(by_length) * ONE;
    let is_finite = a.finite().is_some() && b.finite().is_some() && by_size < 1e38;
    if most.is_nan() {
        return None;
    }
    let low = if a.low >= 0.0 && b.low >= 0.0 { 0.0 } else { -most };
    // The sum starts with zero, and `0 + −0` is `0`.
    let fact = Floats { nan: !is_finite, ..Floats::between(low, most) };
    Some(Fact::Floats(fact.with_too_small()))
}

/// Returns the largest Euclidean length of a column of the constant matrix on the right, if weights are read.
fn column_length(q: Query<'_, '_, '_, '_>) -> Option<f64> {
    let is_read = q.facts.weights == super::Weights::Read;
    q.constant(1).filter(|_| is_read)?.column_length()
}

/// The squares of numbers up to this one do not overflow.
const SQUARED: f64 = 1e18;

/// `LayerNormalization` and `RMSNormalization`: a normalized number is at most the square root of their count.
pub(crate) fn normalize(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    let axis = q.axis(-1)?;
    let root = q.count_from(axis)?.sqrt();
    let scale = q.floats(1)?.most();
    let bias = if q.operand(2).is_some() { q.floats(2)?.most() } else { 0.0 };
    let has_divisor = matches!(q.attr("epsilon"), Some(Attr::Float(epsilon)) if *epsilon > 0.0);
    let x = q.floats(0).and_then(Floats::finite);
    let is_number = has_divisor && x.is_some_and(|most| most <= SQUARED);
    let is_last = axis + 1 == q.operand_type(0)?.rank();
    let length = if is_last { root * (scale + bias) * ONE } else { f64::INFINITY };
    let most = (scale * root + bias) * ONE;
    Some(Fact::Floats(Floats { nan: !is_number, length, ..Floats::up_to(most) }))
}

pub(crate) fn rotate(q: Query<'_, '_, '_, '_>) -> Option<Fact> {
    let (x, cos, sin) = (q.floats(0)?, q.floats(1)?, q.floats(2)?);
    let angle = cos.or(sin);
    let most = 2.0 * x.most() * angle.most() * ONE;
    let is_finite = x.finite().is_some() && angle.finite().is_some();
    (!most.is_nan()).then(|| Fact::Floats(Floats { nan: !is_finite, ..Floats::up_to(most) }))
}

/// Returns the number that all elements of a constant are equal to.
fn uniform(tensor: &Tensor) -> Option<f64> {
    tensor.uniform()?.floats()?.first().copied()
}
