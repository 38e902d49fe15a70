//! Facts about floats.

use crate::dtype::DType;

/// The possibility that a number is `−0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NegativeZero {
    Never,
    /// Only if a negative number underflows.
    IfTooSmall,
    Possible,
}

/// A fact about all elements of an array of floats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Floats {
    /// The lower bound; may be infinite.
    pub low: f64,
    /// The upper bound; may be infinite.
    pub high: f64,
    /// True if an element may be NaN.
    pub nan: bool,
    pub negative_zero: NegativeZero,
    /// The upper bound of the Euclidean length of each row along the last axis, unless an element is NaN.
    pub length: f64,
}

/// The largest relative error of kernels that use polynomials, such as the one for `Exp`.
const INEXACT: f64 = 1e-5;

/// Numbers of smaller magnitude may become zero, depending on the type.
const TINY: f64 = 1e-4;

impl Floats {
    pub const ANY: Floats = Floats {
        low: f64::NEG_INFINITY,
        high: f64::INFINITY,
        nan: true,
        negative_zero: NegativeZero::Possible,
        length: f64::INFINITY,
    };

    /// Returns the fact for numbers in a range without NaN and `−0`.
    pub fn between(low: f64, high: f64) -> Floats {
        Floats { low, high, nan: false, negative_zero: NegativeZero::Never, length: f64::INFINITY }
    }

    /// Returns the fact for numbers of at most this magnitude. If the magnitude is finite, it excludes NaN.
    pub fn up_to(most: f64) -> Floats {
        Floats {
            nan: !most.is_finite(),
            negative_zero: NegativeZero::Possible,
            ..Floats::between(-most, most)
        }
    }

    /// Returns the fact for the numbers in the range of a constant.
    pub(crate) fn of_range(low: f64, high: f64, nan: bool, has_negative_zero: bool) -> Floats {
        // If all numbers are NaN, there is no range.
        let (low, high) = if low > high { (0.0, 0.0) } else { (low, high) };
        let negative_zero =
            if has_negative_zero { NegativeZero::Possible } else { NegativeZero::Never };
        Floats { nan, negative_zero, ..Floats::between(low, high) }
    }

    /// Returns the largest magnitude; it may be infinite.
    pub fn most(self) -> f64 {
        self.low.abs().max(self.high.abs())
    }

    /// Returns the largest magnitude if all elements are finite.
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

    /// True if the sign bit of an element may be set.
    fn may_have_sign(self) -> bool {
        self.low < 0.0 || self.negative_zero != NegativeZero::Never
    }

    /// True if the sign bit of an element may be unset.
    fn may_lack_sign(self) -> bool {
        self.high >= 0.0
    }

    /// Returns the fact that holds for the results of a choice between two values.
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

    /// If `nan` is set, adds that an element may be NaN.
    #[must_use]
    pub(crate) fn or_nan(self, nan: bool) -> Floats {
        Floats { nan: self.nan || nan, ..self }
    }

    /// Widens the range by the error of kernels that do not round correctly.
    #[must_use]
    pub(crate) fn inexact(self) -> Floats {
        let off = |bound: f64| if bound.is_finite() { bound.abs() * INEXACT } else { 0.0 };
        Floats { low: self.low - off(self.low), high: self.high + off(self.high), ..self }
    }

    /// Returns the fact for numbers that were rounded to a type. Small numbers may become zero.
    #[must_use]
    pub(crate) fn rounded(self, dtype: DType) -> Floats {
        let (epsilon, step, largest) = limits(dtype);
        // Zero is exact, and rounding never changes the sign.
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
        fact.exact()
    }

    /// Returns the fact for numbers that were not rounded: there is no zero outside of the range.
    #[must_use]
    pub(crate) fn exact(self) -> Floats {
        let has_zero = self.low <= 0.0 && self.high >= 0.0;
        let negative_zero = if has_zero { self.negative_zero } else { NegativeZero::Never };
        Floats { negative_zero, ..self }
    }

    /// Adds that negative numbers may underflow to `−0`.
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

    /// Returns whether a product or a quotient may be `−0`: the signs must differ, and one operand must be zero or
    /// the result must underflow.
    fn zero_of_product(self, other: Floats) -> NegativeZero {
        let differ = self.may_have_sign() && other.may_lack_sign()
            || other.may_have_sign() && self.may_lack_sign();
        let is_exact = self.may_be_zero() && other.may_have_sign()
            || other.may_be_zero() && self.may_have_sign()
            || !self.is_limited()
            || !other.is_limited();
        match (differ, is_exact) {
            (false, _) => NegativeZero::Never,
            // A finite positive factor keeps the zeros of the other one.
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

    /// Returns the fact for the squares.
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

    /// Returns the fact for the magnitudes.
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

    /// Returns the fact for the results of a function that never decreases.
    #[must_use]
    pub(crate) fn map(self, function: impl Fn(f64) -> f64) -> Floats {
        let (low, high) = (function(self.low), function(self.high));
        Floats { negative_zero: self.with_too_small().negative_zero, ..Floats::between(low, high) }
            .or_nan(self.nan)
    }
}

/// Adds two bounds. If they are opposite infinities, returns `if_infinite`.
fn add(a: f64, b: f64, if_infinite: f64) -> f64 {
    if a.is_infinite() && b.is_infinite() && a != b { if_infinite } else { a + b }
}

/// Returns the range of the results of an operation that is monotone in each operand.
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

/// Returns the relative rounding error, the distance between the smallest numbers, and the largest number of a
/// type.
fn limits(dtype: DType) -> (f64, f64, f64) {
    match dtype {
        DType::F64 => (f64::EPSILON, 5e-324, f64::MAX),
        DType::F32 => (f64::from(f32::EPSILON), 2e-45, f64::from(f32::MAX)),
        DType::F16 => (1e-3, 6e-8, 65504.0),
        DType::Bf16 => (8e-3, 1e-40, 3.3e38),
        _ => (0.5, 0.01, 240.0),
    }
}
