//! The order in which JAX prints sizes.
//!
//! The order does not depend on values. JAX compares the extents first, then the parts one by one.

use std::cmp::Ordering;

use crate::dim::Dim;
use crate::polynomial::{Atom, Factors, Term};

impl PartialOrd for Dim {
    fn partial_cmp(&self, other: &Dim) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Dim {
    fn cmp(&self, other: &Dim) -> Ordering {
        match (self, other) {
            (Dim::Known(a), Dim::Known(b)) => a.cmp(b),
            (Dim::Known(_), Dim::Symbolic(_)) => Ordering::Less,
            (Dim::Symbolic(_), Dim::Known(_)) => Ordering::Greater,
            (Dim::Symbolic(a), Dim::Symbolic(b)) => {
                let terms = || {
                    let by_term = |a: &Term, b: &Term| {
                        a.cmp_factors(b).then_with(|| a.coefficient.cmp(&b.coefficient))
                    };
                    cmp_sequence(a.terms(), b.terms(), by_term)
                };
                self.extent().order.cmp(&other.extent().order).then_with(terms)
            }
        }
    }
}

impl Dim {
    /// True if this polynomial has a lower degree, or the same degree and a smaller sum of coefficients.
    ///
    /// No sequence of sizes can become simpler forever, so a computation of sizes from simpler ones terminates.
    pub fn is_simpler_than(&self, other: &Dim) -> bool {
        self.complexity() < other.complexity()
    }

    fn complexity(&self) -> (u64, u128) {
        let terms = self.to_terms();
        let degree = terms.iter().map(|term| degree(&term.factors)).max().unwrap_or(0);
        let coefficients = terms.iter().map(|term| u128::from(term.coefficient.unsigned_abs()));
        (degree, coefficients.sum())
    }
}

impl Term {
    /// Compares the factors. They differ for any two terms of a polynomial.
    pub(crate) fn cmp_factors(&self, other: &Term) -> Ordering {
        let factors = || cmp_sequence(&self.factors, &other.factors, cmp_powers);
        self.extent().order.cmp(&other.extent().order).then_with(factors)
    }
}

impl PartialOrd for Atom {
    fn partial_cmp(&self, other: &Atom) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Atom {
    fn cmp(&self, other: &Atom) -> Ordering {
        let kinds = || match (self, other) {
            (Atom::Symbol(a), Atom::Symbol(b)) => a.cmp(b),
            (Atom::Symbol(_), Atom::Operation(..)) => Ordering::Less,
            (Atom::Operation(..), Atom::Symbol(_)) => Ordering::Greater,
            (Atom::Operation(op, operands), Atom::Operation(other_op, other_operands)) => {
                op.cmp(other_op).then_with(|| operands.cmp(other_operands))
            }
        };
        self.extent().order.cmp(&other.extent().order).then_with(kinds)
    }
}

/// Compares products by degree, then by the exponents of the atoms from the largest on.
///
/// Unlike the order of JAX, it does not change if both products are multiplied by a third one. Polynomial division
/// needs this.
pub(crate) fn cmp_degrees(a: &Factors, b: &Factors) -> Ordering {
    degree(a).cmp(&degree(b)).then_with(|| cmp_sequence(a, b, cmp_powers))
}

fn degree(factors: &Factors) -> u64 {
    factors.iter().map(|(_, by)| u64::from(*by)).sum()
}

fn cmp_powers(a: &(Atom, u32), b: &(Atom, u32)) -> Ordering {
    a.0.cmp(&b.0).then_with(|| a.1.cmp(&b.1))
}

fn cmp_sequence<T>(a: &[T], b: &[T], cmp: impl Fn(&T, &T) -> Ordering) -> Ordering {
    let parts = a.iter().zip(b).map(|(a, b)| cmp(a, b)).find(|order| order.is_ne());
    parts.unwrap_or_else(|| a.len().cmp(&b.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factors_of_a_product_are_simpler_than_it_unless_one_is_a_unit() {
        let dim = |text: &str| text.parse::<Dim>().unwrap();
        let is_simpler = |a: &str, b: &str| dim(a).is_simpler_than(&dim(b));
        assert!(is_simpler("N + 1", "(N + 1)*(N + 1)"));
        assert!(is_simpler("N + 1", "2*N + 2"));
        assert!(is_simpler("2", "2*N + 2"));
        assert!(is_simpler("floordiv(N, 2) + 1", "(floordiv(N, 2) + 1)*M"));
        assert!(!is_simpler("N + 1", "N + 1"));
        assert!(!is_simpler("N + 1", "-1*N - 1"));
        assert!(!is_simpler("M + N", "N + 1"));
        assert!(!is_simpler("-9223372036854775808*N", "N"));
    }
}
