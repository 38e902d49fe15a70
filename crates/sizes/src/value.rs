//! Computes a size for given values of its symbols.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use crate::dim::{Dim, Symbol};
use crate::polynomial::{Atom, Operation};

/// A number with many divisors, so that quotients of sizes are integers.
const MANY_DIVISORS: i64 = 5040;

/// The number of assignments to try.
const TRIES: u64 = 3;

impl Dim {
    /// Returns the size for these values of its symbols; `None` if it is too large, or if a divisor is 0.
    pub fn value(&self, symbol: &dyn Fn(&Symbol) -> i64) -> Option<i128> {
        let polynomial = match self {
            Dim::Known(size) => return Some((*size).into()),
            Dim::Symbolic(polynomial) => polynomial,
        };
        polynomial.terms().iter().try_fold(0_i128, |sum, term| {
            let coefficient = i128::from(term.coefficient());
            let product = term.factors().try_fold(coefficient, |product, (atom, exponent)| {
                product.checked_mul(atom.value(symbol)?.checked_pow(exponent)?)
            });
            sum.checked_add(product?)
        })
    }

    /// True if two sizes are equal for some large values of their symbols, which makes it likely for all large values.
    pub fn is_equal_for_large_symbols(&self, other: &Dim) -> bool {
        (0..TRIES).all(|seed| {
            let value = |symbol: &Symbol| {
                let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one((symbol, seed));
                MANY_DIVISORS * (1 + (hash % 29) as i64)
            };
            let values = self.value(&value).zip(other.value(&value));
            values.is_none_or(|(a, b)| a == b)
        })
    }
}

impl Atom {
    pub(crate) fn value(&self, symbol: &dyn Fn(&Symbol) -> i64) -> Option<i128> {
        match self {
            Atom::Symbol(name) => Some(symbol(name).into()),
            Atom::Operation(op, operands) => {
                op.value(operands[0].value(symbol)?, operands[1].value(symbol)?)
            }
        }
    }
}

impl Operation {
    /// Returns the result for two numbers; `None` if the divisor is 0.
    pub(crate) fn value(self, a: i128, b: i128) -> Option<i128> {
        let remainder = || {
            let rest = a.checked_rem(b)?;
            Some(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
        };
        match self {
            Operation::FloorDiv => Some((a - remainder()?) / b),
            Operation::Max => Some(a.max(b)),
            Operation::Min => Some(a.min(b)),
            Operation::Mod => remainder(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::dim::Dim;

    fn size(text: &str) -> Dim {
        text.parse().unwrap()
    }

    #[test]
    fn a_size_is_computed_from_its_symbols() {
        let value = |text: &str, b: i64| size(text).value(&|_| b);
        assert_eq!(value("2*b^2 - 3", 5), Some(47));
        assert_eq!(value("floordiv(b - 7, 2)", 4), Some(-2));
        assert_eq!(value("mod(b - 7, 2)", 4), Some(1));
        assert_eq!(value("max(b - 7, 0)", 4), Some(0));
        assert_eq!(value("b^9", i64::MAX), None);
    }

    #[test]
    fn sizes_that_differ_only_for_small_symbols_are_equal_for_large_ones() {
        assert!(size("max(b - 1, 0)").is_equal_for_large_symbols(&size("b - 1")));
        assert!(size("4*floordiv(b, 4)").is_equal_for_large_symbols(&size("b")));
        assert!(!size("b + 1").is_equal_for_large_symbols(&size("b")));
        assert!(!size("a").is_equal_for_large_symbols(&size("b")));
    }
}
