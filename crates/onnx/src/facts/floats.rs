//! Facts about floats.

use crate::dtype::DType;
use crate::tensor::Tensor;

/// The ways in which a number may be `−0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NegativeZero {
    Never,
    /// Only if a number below zero is too small for its type.
    IfTooSmall,
    Possible,
}

/// A fact about all elements of an array of floats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Floats {
    /// No number is less. It may be infinite.
    pub low: f64,
    /// No number is larger. It may be infinite.
    pub high: f64,
    /// True if an element may be NaN.
    pub nan: bool,
    pub negative_zero: NegativeZero,
    /// No row along the last axis is longer: the root of the sum of its squares, unless an element is NaN.
    pub length: f64,
}

/// By how much a kernel may be off, as a part of the result: functions such as `Exp` are computed by polynomials.
const INEXACT: f64 = 1e-5;

/// Numbers of smaller magnitude may become zero in every type.
const TINY: f64 = 1e-4;

impl Floats {
    pub const ANY: Floats = Floats {
        low: f64::NEG_INFINITY,
        high: f64::INFINITY,
        nan: true,
        negative_zero: NegativeZero::Possible,
        length: f64::INFINITY,
    };

    /// Returns the fact for numbers between two, which are never `−0`.
    pub fn between(low: f64, high: f64) -> Floats {
        Floats { low, high, nan: false, negative_zero: NegativeZero::Never, length: f64::INFINITY }
    }

    /// Returns the fact for numbers of at most this magnitude, NaN excluded if that is finite.
    pub fn up_to(most: f64) -> Floats {
        Floats {
            nan: !most.is_finite(),
            negative_zero: NegativeZero::Possible,
            ..Floats::between(-most, most)
        }
    }

    /// Returns the fact for the numbers of a constant. `None` if it has none.
    pub(crate) fn of_numbers(tensor: &Tensor) -> Option<Floats> {
        let mut fact = Floats::between(f64::INFINITY, f64::NEG_INFINITY);
        let are_read = tensor.all_floats(|number| {
            fact.nan |= number.is_nan();
            if number == 0.0 && number.is_sign_negative() {
                fact.negative_zero = NegativeZero::Possible;
            }
            (fact.low, fact.high) = (fact.low.min(number), fact.high.max(number));
            true
        });
        (are_read && !tensor.is_empty()).then_some(())?;
        if fact.low > fact.high {
            // All are NaN.
            (fact.low, fact.high) = (0.0, 0.0);
        }
        Some(fact)
    }

    /// Returns the largest magnitude; infinite if there is none.
    pub fn most(self) -> f64 {
        self.low.abs().max(self.high.abs())
    }

    /// Returns the largest magnitude if all elements are finite numbers.
    pub fn finite(self) -> Option<f64> {
        (!self.nan && self.is_limited()).then(|| self.most())
    }

    /// True if no element is infinite.
    pub fn is_limited(self) -> bool {
        self.low.is_finite() && self.high.is_finite()
    }

    pub fn may_be_zero(self) -> bool {
        self.low <= 0.0 && self.high >= 0.0
    }

    /// True if the sign bit of a number may be set.
    fn may_have_sign(self) -> bool {
        self.low < 0.0 || self.negative_zero != NegativeZero::Never
    }

    /// True if the sign bit of a number may be unset.
    fn may_lack_sign(self) -> bool {
        self.high >= 0.0
    }

    /// Returns the fact for what is one or the other.
    #[must_use]
    pub fn or(self, other: Floats) -> Floats {
        Floats {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
            nan: self.nan || other.nan,
            negative_zero: self.negative_zero.max(other.negative_zero),
            length: self.length.max(other.length),
        }
    }

    /// Adds that an element may be NaN.
    #[must_use]
    pub(crate) fn or_nan(self, nan: bool) -> Floats {
        Floats { nan: self.nan || nan, ..self }
    }

    /// Returns the fact for numbers that were computed by other means than the operations of IEEE 754.
    #[must_use]
    pub(crate) fn inexact(self) -> Floats {
        let off = |bound: f64| if bound.is_finite() { bound.abs() * INEXACT } else { 0.0 };
        Floats { low: self.low - off(self.low), high: self.high + off(self.high), ..self }
    }

    /// Returns the fact for numbers that were rounded to a type. Numbers that are too small may become zero.
    #[must_use]
    pub(crate) fn rounded(self, dtype: DType) -> Floats {
        let (epsilon, step, largest) = limits(dtype);
        // Zero is exact, and no rounding crosses it.
        let away = |bound: f64| bound * (1.0 + epsilon) + bound.signum() * step;
        let near = |bound: f64| if bound.abs() < TINY { 0.0 } else { bound * (1.0 - epsilon) };
        let moved = |bound: f64, is_away: bool| match is_away {
            _ if bound == 0.0 || bound.is_infinite() => bound,
            true => away(bound),
            false => near(bound),
        };
        let (low, high) = (moved(self.low, self.low < 0.0), moved(self.high, self.high > 0.0));
        debug_assert!(low <= high, "{self:?}");
        let mut fact = Floats { low, high, ..self };
        if fact.low < -largest {
            fact.low = f64::NEG_INFINITY;
        }
        if fact.high > largest {
            fact.high = f64::INFINITY;
        }
        if fact.low > 0.0 || fact.high < 0.0 {
            fact.negative_zero = NegativeZero::Never;
        }
        fact
    }

    /// Adds that numbers below zero may be too small for their type.
    #[must_use]
    pub(crate) fn with_too_small(self) -> Floats {
        let too_small = if self.low < 0.0 { NegativeZero::IfTooSmall } else { NegativeZero::Never };
        Floats { negative_zero: self.negative_zero.max(too_small), ..self }
    }

    #[must_use]
    pub(crate) fn plus(self, other: Floats) -> Floats {
        let cancels = |a: f64, b: f64| a == f64::INFINITY && b == f64::NEG_INFINITY;
        let nan = cancels(self.high, other.low) || cancels(other.high, self.low);
        // A sum is `−0` only if both terms are.
        let negative_zero = self.negative_zero.min(other.negative_zero);
        let (low, high) = (
            add(self.low, other.low, f64::NEG_INFINITY),
            add(self.high, other.high, f64::INFINITY),
        );
        Floats { negative_zero, ..Floats::between(low, high) }.or_nan(self.nan || other.nan || nan)
    }

    #[must_use]
    pub(crate) fn negative(self) -> Floats {
        let negative_zero =
            if self.may_be_zero() { NegativeZero::Possible } else { NegativeZero::Never };
        Floats { low: -self.high, high: -self.low, negative_zero, ..self }
    }

    #[must_use]
    pub(crate) fn minus(self, other: Floats) -> Floats {
        let negated = Floats { negative_zero: NegativeZero::Possible, ..other.negative() };
        self.plus(negated)
    }

    #[must_use]
    pub(crate) fn times(self, other: Floats) -> Floats {
        let is_infinite = |x: Floats| !x.is_limited();
        let nan =
            is_infinite(self) && other.may_be_zero() || is_infinite(other) && self.may_be_zero();
        let corners = corners(self, other, |a, b| if a == 0.0 || b == 0.0 { 0.0 } else { a * b });
        let fact = Floats { negative_zero: self.zero_of_product(other), ..corners };
        fact.or_nan(self.nan || other.nan || nan)
    }

    /// Returns whether a product or a quotient may be `−0`: only of two different signs, and if one is zero or if it is
    /// too small.
    fn zero_of_product(self, other: Floats) -> NegativeZero {
        let differ = self.may_have_sign() && other.may_lack_sign()
            || other.may_have_sign() && self.may_lack_sign();
        let is_exact = self.may_be_zero() && other.may_have_sign()
            || other.may_be_zero() && self.may_have_sign()
            || !self.is_limited()
            || !other.is_limited();
        match (differ, is_exact) {
            (false, _) => NegativeZero::Never,
            // A positive factor keeps the zeros of the other.
            (true, _) if other.low > 0.0 && other.is_limited() => {
                self.with_too_small().negative_zero
            }
            (true, _) if self.low > 0.0 && self.is_limited() => {
                other.with_too_small().negative_zero
            }
            (true, true) => NegativeZero::Possible,
            (true, false) => NegativeZero::IfTooSmall,
        }
    }

    /// The square of each number.
    #[must_use]
    pub(crate) fn squared(self) -> Floats {
        let size = self.size();
        Floats::between(size.low * size.low, size.high * size.high).or_nan(self.nan)
    }

    #[must_use]
    pub(crate) fn divided(self, by: Floats) -> Floats {
        let is_infinite = !self.is_limited() && !by.is_limited();
        let nan = self.nan || by.nan || is_infinite || self.may_be_zero() && by.may_be_zero();
        let negative_zero = self.zero_of_product(by);
        if by.may_be_zero() {
            let is_positive = !self.may_have_sign() && !by.may_have_sign();
            let low = if is_positive { 0.0 } else { f64::NEG_INFINITY };
            return Floats { negative_zero, ..Floats::between(low, f64::INFINITY) }.or_nan(nan);
        }
        let fact = corners(self, by, |a, b| match b.is_infinite() {
            true => 0.0,
            false => a / b,
        });
        Floats { negative_zero, ..fact }.or_nan(nan)
    }

    /// The magnitude of each number.
    #[must_use]
    pub(crate) fn size(self) -> Floats {
        let low = if self.may_be_zero() { 0.0 } else { self.low.abs().min(self.high.abs()) };
        Floats { nan: self.nan, length: self.length, ..Floats::between(low, self.most()) }
    }

    #[must_use]
    pub(crate) fn maximum(self, other: Floats) -> Floats {
        Floats {
            low: self.low.max(other.low),
            high: self.high.max(other.high),
            ..self.chosen(other)
        }
    }

    #[must_use]
    pub(crate) fn minimum(self, other: Floats) -> Floats {
        Floats {
            low: self.low.min(other.low),
            high: self.high.min(other.high),
            ..self.chosen(other)
        }
    }

    fn chosen(self, other: Floats) -> Floats {
        Floats { length: f64::INFINITY, ..self.or(other) }
    }

    /// The results of a function that never falls.
    #[must_use]
    pub(crate) fn map(self, function: impl Fn(f64) -> f64) -> Floats {
        let (low, high) = (function(self.low), function(self.high));
        Floats { negative_zero: self.with_too_small().negative_zero, ..Floats::between(low, high) }
            .or_nan(self.nan)
    }
}

/// Adds two bounds, of which one may be infinite.
fn add(a: f64, b: f64, if_infinite: f64) -> f64 {
    if a.is_infinite() && b.is_infinite() && a != b { if_infinite } else { a + b }
}

/// Returns the least and the largest result of an operation that is monotone in each operand.
fn corners(a: Floats, b: Floats, operation: impl Fn(f64, f64) -> f64) -> Floats {
    let all = [(a.low, b.low), (a.low, b.high), (a.high, b.low), (a.high, b.high)]
        .map(|(a, b)| operation(a, b));
    let low = all.into_iter().fold(f64::INFINITY, f64::min);
    let high = all.into_iter().fold(f64::NEG_INFINITY, f64::max);
    match all.iter().any(|bound| bound.is_nan()) {
        true => Floats::between(f64::NEG_INFINITY, f64::INFINITY),
        false => Floats::between(low, high),
    }
}

/// Returns by how much a rounded number may be off as a part of it, the distance of the smallest numbers, and the largest
/// number.
fn limits(dtype: DType) -> (f64, f64, f64) {
    match dtype {
        DType::F64 => (f64::EPSILON, 5e-324, f64::MAX),
        DType::F32 => (f64::from(f32::EPSILON), 2e-45, f64::from(f32::MAX)),
        DType::F16 => (1e-3, 6e-8, 65504.0),
        DType::Bf16 => (8e-3, 1e-40, 3.3e38),
        _ => (0.5, 0.01, 240.0),
    }
}
