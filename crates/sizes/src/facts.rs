//! Proves facts about a size for all values of its symbols.
//!
//! A symbol may be 0 or greater: JAX assumes that sizes are at least 1, but a model also runs with empty arrays.

use crate::dim::Dim;
use crate::division::floor_division;
use crate::polynomial::{Atom, Operation, Term};

/// The maximum number of `max` and `min` operations for which both cases are examined.
const MAX_CHOICES: usize = 3;

impl Dim {
    /// True if the size is at least 1 for all values of its symbols.
    pub fn is_positive(&self) -> bool {
        self.is_at_least(1)
    }

    /// True if the size is at least `bound` for all values of its symbols.
    pub fn is_at_least(&self, bound: i64) -> bool {
        self.lower_bound().is_some_and(|low| low >= bound)
    }

    /// True if the size is at most `bound` for all values of its symbols.
    pub fn is_at_most(&self, bound: i64) -> bool {
        self.upper_bound().is_some_and(|high| high <= bound)
    }

    /// True if the size is a multiple of `divisor` for all values of its symbols.
    pub fn is_divisible_by(&self, divisor: i64) -> bool {
        let is_multiple = |number: i64| number.checked_rem(divisor) == Some(0);
        match self {
            Dim::Known(size) => is_multiple(*size),
            Dim::Symbolic(polynomial) => {
                polynomial.terms().iter().all(|term| is_multiple(term.coefficient))
            }
        }
    }

    /// Returns a lower bound of the size, if one is known.
    pub fn lower_bound(&self) -> Option<i64> {
        self.bounds().low
    }

    /// Returns an upper bound of the size, if one is known.
    pub fn upper_bound(&self) -> Option<i64> {
        self.bounds().high
    }

    fn bounds(&self) -> Bounds {
        self.bounds_with(MAX_CHOICES)
    }

    /// Returns the bounds that follow from those of each term, and from both cases of up to `choices` operations
    /// `max` and `min`.
    fn bounds_with(&self, choices: usize) -> Bounds {
        match self {
            Dim::Known(size) => Bounds::exactly(*size),
            Dim::Symbolic(polynomial) => {
                let terms = polynomial.terms().iter().map(Term::bounds);
                let bounds = terms.fold(Bounds::exactly(0), Bounds::plus);
                match self.chosen().filter(|_| choices > 0) {
                    Some((op, sizes)) => {
                        let [a, b] = sizes.map(|size| size.bounds_with(choices - 1));
                        bounds.within(a.chosen(op, b))
                    }
                    None => bounds,
                }
            }
        }
    }

    /// Returns the size as a `max` or a `min` of two sizes, if one of its terms is a multiple of such an operation:
    /// `B - min(B, 2)` is the maximum of `B - B` and `B - 2`.
    fn chosen(&self) -> Option<(Operation, [Dim; 2])> {
        let Dim::Symbolic(polynomial) = self else { return None };
        polynomial.terms().iter().find_map(|term| {
            let [(Atom::Operation(op, operands), 1)] = &term.factors[..] else { return None };
            let op = match (op, term.coefficient > 0) {
                (Operation::Max, true) | (Operation::Min, false) => Operation::Max,
                (Operation::Max, false) | (Operation::Min, true) => Operation::Min,
                _ => return None,
            };
            let rest = self.checked_sub(&Dim::from_terms(vec![term.clone()])?)?;
            let with = |operand: &Dim| {
                rest.checked_add(&operand.checked_mul(&Dim::Known(term.coefficient))?)
            };
            Some((op, [with(&operands[0])?, with(&operands[1])?]))
        })
    }
}

impl Term {
    fn bounds(&self) -> Bounds {
        let powers = self
            .factors
            .iter()
            .flat_map(|(atom, exponent)| std::iter::repeat_n(atom.bounds(), *exponent as usize));
        powers.fold(Bounds::exactly(self.coefficient), Bounds::times)
    }
}

impl Atom {
    fn bounds(&self) -> Bounds {
        let Atom::Operation(op, operands) = self else { return Bounds::from(0) };
        let [a, b] = [operands[0].bounds(), operands[1].bounds()];
        match op {
            Operation::FloorDiv => a.divided(b),
            Operation::Mod => a.remainder(b),
            Operation::Max | Operation::Min => a.chosen(*op, b),
        }
    }
}

/// The bounds of a size; `None` if there is no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    low: Option<i64>,
    high: Option<i64>,
}

impl Bounds {
    const UNKNOWN: Bounds = Bounds { low: None, high: None };

    fn exactly(number: i64) -> Bounds {
        Bounds { low: Some(number), high: Some(number) }
    }

    fn from(low: i64) -> Bounds {
        Bounds { low: Some(low), high: None }
    }

    fn is_non_negative(self) -> bool {
        self.low.is_some_and(|low| low >= 0)
    }

    /// Returns the bounds of a `max` or a `min`.
    fn chosen(self, op: Operation, other: Bounds) -> Bounds {
        if op == Operation::Max {
            let high = self.high.zip(other.high).map(|(a, b)| a.max(b));
            Bounds { low: self.low.max(other.low), high }
        } else {
            self.negated().chosen(Operation::Max, other.negated()).negated()
        }
    }

    /// Returns the tighter bounds.
    fn within(self, other: Bounds) -> Bounds {
        let high = self.high.into_iter().chain(other.high).min();
        Bounds { low: self.low.max(other.low), high }
    }

    fn plus(self, other: Bounds) -> Bounds {
        let sum = |a: Option<i64>, b: Option<i64>| a?.checked_add(b?);
        Bounds { low: sum(self.low, other.low), high: sum(self.high, other.high) }
    }

    fn times(self, other: Bounds) -> Bounds {
        match (self, other) {
            (Bounds { low: Some(0), high: Some(0) }, _)
            | (_, Bounds { low: Some(0), high: Some(0) }) => Bounds::exactly(0),
            _ if self.is_non_negative() && other.is_non_negative() => {
                let product = |a: Option<i64>, b: Option<i64>| a?.checked_mul(b?);
                Bounds { low: product(self.low, other.low), high: product(self.high, other.high) }
            }
            _ if self.negated().is_non_negative() => self.negated().times(other).negated(),
            _ if other.negated().is_non_negative() => self.times(other.negated()).negated(),
            _ => self.times_of_any_sign(other).unwrap_or(Bounds::UNKNOWN),
        }
    }

    /// Returns the smallest and the largest product of the ends.
    fn times_of_any_sign(self, other: Bounds) -> Option<Bounds> {
        let [a, b] = [(self.low?, self.high?), (other.low?, other.high?)];
        let products = [
            a.0.checked_mul(b.0)?,
            a.0.checked_mul(b.1)?,
            a.1.checked_mul(b.0)?,
            a.1.checked_mul(b.1)?,
        ];
        Some(Bounds { low: products.into_iter().min(), high: products.into_iter().max() })
    }

    fn negated(self) -> Bounds {
        let negated = |end: Option<i64>| end?.checked_neg();
        Bounds { low: negated(self.high), high: negated(self.low) }
    }

    /// Returns the bounds of a quotient, rounded down. A model divides by 1 instead of 0.
    fn divided(self, by: Bounds) -> Bounds {
        match by {
            Bounds { low: Some(low), high: Some(high) } if low == high && low > 0 => {
                let quotient = |end: Option<i64>| floor_division(end?, low);
                Bounds { low: quotient(self.low), high: quotient(self.high) }
            }
            _ if self.is_non_negative() && by.is_non_negative() => {
                let least = by.low.map(|low| low.max(1));
                let high = self.high.zip(least).and_then(|(high, by)| floor_division(high, by));
                Bounds { low: Some(0), high }
            }
            _ => Bounds::UNKNOWN,
        }
    }

    /// Returns the bounds of a remainder, which has the sign of the divisor.
    fn remainder(self, by: Bounds) -> Bounds {
        if !by.is_non_negative() {
            return Bounds::UNKNOWN;
        }
        let below_divisor = by.high.map(|high| (high - 1).max(0));
        let at_most_dividend = self.high.filter(|_| self.is_non_negative());
        Bounds { low: Some(0), high: below_divisor.into_iter().chain(at_most_dividend).min() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, low: Option<i64>, high: Option<i64>) {
        let size: Dim = text.parse().unwrap();
        assert_eq!((size.lower_bound(), size.upper_bound()), (low, high), "{text}");
    }

    #[test]
    fn bounds_follow_from_symbols_that_are_not_negative() {
        check("B", Some(0), None);
        check("2*B + 1", Some(1), None);
        check("5 - B", None, Some(5));
        check("B*T - 3", Some(-3), None);
        check("B - T", None, None);
        check("-2*B*T", None, Some(0));
    }

    #[test]
    fn bounds_of_operations_follow_from_their_operands() {
        check("floordiv(B + 4, 3)", Some(1), None);
        check("floordiv(B, T)", Some(0), None);
        check("floordiv(B - T, 2)", None, None);
        check("mod(B, 8)", Some(0), Some(7));
        check("mod(-1*B, 8)", Some(0), Some(7));
        check("mod(B, T)", Some(0), None);
        check("mod(B, -8)", None, None);
        check("max(B - T, 3)", Some(3), None);
        check("min(B, 3) + 1", Some(1), Some(4));
        check("mod(B, 4)*mod(T, 3) - 2*mod(T, 3)", Some(-4), Some(6));
        check("(mod(B, 4) - 2)*1", Some(-2), Some(1));
    }

    #[test]
    fn bounds_follow_from_both_values_of_a_choice() {
        check("B - min(B, 2)", Some(0), None);
        check("B - max(0, B - 2)", Some(0), Some(2));
        check("min(B, T) - B", None, Some(0));
        check("max(B, T) - T", Some(0), None);
        check("2*max(B, T) - B - T", None, None);
        check("B - min(B, 2) - min(B - min(B, 2), 3)", Some(0), None);
        check("B*min(B, 2) - B", None, None);
    }

    #[test]
    fn an_overflow_is_not_a_bound() {
        check("9223372036854775807 + 2*B", Some(i64::MAX), None);
        check("4611686018427387904*(mod(B, 4))", Some(0), None);
    }

    #[test]
    fn a_size_is_divisible_if_all_its_terms_are() {
        let is_divisible = |text: &str, by: i64| text.parse::<Dim>().unwrap().is_divisible_by(by);
        assert!(is_divisible("6*B + 3*T", 3));
        assert!(!is_divisible("6*B + 3*T", 6));
        assert!(!is_divisible("B", 2));
        assert!(is_divisible("12", 4));
        assert!(!is_divisible("12", 0));
    }
}
