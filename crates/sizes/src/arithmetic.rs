//! Arithmetic of sizes.
//!
//! A result is `None` if a coefficient does not fit into 64 bits, if the polynomial is too large, or if the divisor
//! is 0.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::dim::{Dim, Symbol};
use crate::polynomial::{Atom, Factors, MAX_WEIGHT, Operation, Polynomial, Term};

impl Dim {
    /// Returns `self + other`.
    pub fn checked_add(&self, other: &Dim) -> Option<Dim> {
        match (self, other) {
            (Dim::Known(a), Dim::Known(b)) => a.checked_add(*b).map(Dim::Known),
            (Dim::Known(0), sum) | (sum, Dim::Known(0)) => Some(sum.clone()),
            _ => sum(self.to_terms(), other.to_terms()),
        }
    }

    /// Returns `self - other`.
    pub fn checked_sub(&self, other: &Dim) -> Option<Dim> {
        match (self, other) {
            (Dim::Known(a), Dim::Known(b)) => a.checked_sub(*b).map(Dim::Known),
            _ => self.checked_add(&other.checked_mul(&Dim::Known(-1))?),
        }
    }

    /// Returns `self * other`.
    pub fn checked_mul(&self, other: &Dim) -> Option<Dim> {
        match (self, other) {
            (Dim::Known(a), Dim::Known(b)) => a.checked_mul(*b).map(Dim::Known),
            (Dim::Known(0), _) | (_, Dim::Known(0)) => Some(Dim::Known(0)),
            (Dim::Known(1), product) | (product, Dim::Known(1)) => Some(product.clone()),
            _ => product(self, other),
        }
    }

    /// Returns the size of several axes that are merged into one.
    pub fn checked_product<'a>(dims: impl IntoIterator<Item = &'a Dim>) -> Option<Dim> {
        dims.into_iter().try_fold(Dim::Known(1), |product, dim| product.checked_mul(dim))
    }

    /// Returns `factor` and `rest` of `factor · symbol + rest`, if the size is linear in the symbol: `rest` does
    /// not contain it, and `factor` is a number.
    pub fn linear_in(&self, symbol: &Symbol) -> Option<(i64, Dim)> {
        let Dim::Symbolic(polynomial) = self else { return None };
        let is_symbol = |factors: &Factors| match &factors[..] {
            [(Atom::Symbol(other), 1)] => other == symbol,
            _ => false,
        };
        let term = polynomial.terms().iter().find(|term| is_symbol(&term.factors))?;
        let rest = self.checked_sub(&Dim::from_terms(vec![term.clone()])?)?;
        let factor = term.coefficient();
        (factor != i64::MIN && !rest.contains(symbol)).then_some((factor, rest))
    }

    /// Returns the larger size. If one is larger for all values of the symbols, returns that one.
    pub fn checked_max(&self, other: &Dim) -> Option<Dim> {
        let difference = self.checked_sub(other)?;
        if difference.is_at_least(0) {
            return Some(self.clone());
        }
        if difference.is_at_most(0) {
            return Some(other.clone());
        }
        operation(Operation::Max, self, other)
    }

    /// Returns the smaller size.
    pub fn checked_min(&self, other: &Dim) -> Option<Dim> {
        let difference = self.checked_sub(other)?;
        if difference.is_at_least(0) {
            return Some(other.clone());
        }
        if difference.is_at_most(0) {
            return Some(self.clone());
        }
        operation(Operation::Min, self, other)
    }
}

/// Returns an operation without simplifying it.
pub(crate) fn operation(op: Operation, a: &Dim, b: &Dim) -> Option<Dim> {
    let atom = Atom::Operation(op, Arc::new([a.clone(), b.clone()]));
    Dim::from_terms(Polynomial::from_atom(atom).terms().to_vec())
}

/// Merges two sorted lists of terms.
fn sum(a: Vec<Term>, b: Vec<Term>) -> Option<Dim> {
    let mut terms = Vec::with_capacity(a.len() + b.len());
    let (mut a, mut b) = (a.into_iter().peekable(), b.into_iter().peekable());
    loop {
        let order = match (a.peek(), b.peek()) {
            (Some(a), Some(b)) => a.cmp_factors(b),
            (Some(_), None) => Ordering::Greater,
            (None, _) => Ordering::Less,
        };
        let next = match order {
            Ordering::Greater => a.next(),
            Ordering::Less => b.next(),
            Ordering::Equal => match (a.next(), b.next()) {
                (Some(a), Some(b)) => Some(a.plus(b.coefficient)?),
                _ => None,
            },
        };
        match next {
            Some(term) if term.coefficient == 0 => {}
            Some(term) => terms.push(term),
            None => return Dim::from_terms(terms),
        }
    }
}

/// Multiplies each term of one size with each term of the other.
fn product(a: &Dim, b: &Dim) -> Option<Dim> {
    let (of_a, of_b) = (a.to_terms(), b.to_terms());
    let weight = of_a.len() * b.extent().weight + of_b.len() * a.extent().weight;
    if weight > 2 * MAX_WEIGHT {
        return None;
    }
    let mut products = Vec::with_capacity(of_a.len() * of_b.len());
    for a in &of_a {
        for b in &of_b {
            products.push(a.times(b)?);
        }
    }
    products.sort_by(|a, b| b.cmp_factors(a));
    let mut terms: Vec<Term> = Vec::with_capacity(products.len());
    for term in products {
        match terms.last_mut().filter(|last| last.factors == term.factors) {
            Some(last) => *last = last.clone().plus(term.coefficient)?,
            None => terms.push(term),
        }
    }
    terms.retain(|term| term.coefficient != 0);
    Dim::from_terms(terms)
}

impl Term {
    fn plus(self, coefficient: i64) -> Option<Term> {
        let coefficient = self.coefficient.checked_add(coefficient)?;
        Some(Term { coefficient, ..self })
    }

    pub(crate) fn times(&self, other: &Term) -> Option<Term> {
        let coefficient = self.coefficient.checked_mul(other.coefficient)?;
        let mut factors = Factors::with_capacity(self.factors.len() + other.factors.len());
        let (mut a, mut b) = (self.factors.iter().peekable(), other.factors.iter().peekable());
        loop {
            let order = match (a.peek(), b.peek()) {
                (Some(a), Some(b)) => a.0.cmp(&b.0),
                (Some(_), None) => Ordering::Greater,
                (None, _) => Ordering::Less,
            };
            let next = match order {
                Ordering::Greater => a.next().cloned(),
                Ordering::Less => b.next().cloned(),
                Ordering::Equal => match (a.next(), b.next()) {
                    (Some((atom, a)), Some((_, b))) => Some((atom.clone(), a.checked_add(*b)?)),
                    _ => None,
                },
            };
            match next {
                Some(factor) => factors.push(factor),
                None => return Some(Term { coefficient, factors }),
            }
        }
    }
}
