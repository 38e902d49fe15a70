//! Polynomials with integer coefficients in a canonical form.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::dim::{Dim, Symbol};

/// A polynomial that is not a number.
///
/// The terms are sorted, no two of them have the same factors, and no coefficient is 0. So equal polynomials have
/// equal terms. Only the arithmetic of [`Dim`] creates polynomials.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Polynomial {
    /// Largest first.
    terms: Vec<Term>,
    extent: Extent,
}

/// `coefficient · factor^exponent · …`; the constant term has no factors.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    pub(crate) coefficient: i64,
    pub(crate) factors: Factors,
}

/// Factors with their exponents, largest factor first.
pub(crate) type Factors = SmallVec<[(Atom, u32); 1]>;

/// A factor that is not a product or a sum.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Atom {
    Symbol(Symbol),
    Operation(Operation, Arc<[Dim; 2]>),
}

/// An operation on two sizes whose result is not a polynomial.
///
/// As in Python, the quotient is rounded down, and the remainder has the sign of the divisor. The variants are in
/// the order of their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    FloorDiv,
    Max,
    Min,
    Mod,
}

/// The complexity of a size. No text can create a size that exceeds [`MAX_WEIGHT`] or [`MAX_DEPTH`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Extent {
    /// The number by which JAX orders sizes.
    pub order: u64,
    /// The number of symbols, numbers and operations in the text of the size.
    pub weight: usize,
    /// The depth of nested operations.
    pub depth: usize,
}

/// The maximum weight of a size. It limits the time and the memory for a size.
pub(crate) const MAX_WEIGHT: usize = 4096;

/// The maximum depth of operations, so that no size exhausts the stack.
pub(crate) const MAX_DEPTH: usize = 64;

impl Polynomial {
    /// Returns the terms in the order of the text, with the constant term last.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    pub(crate) fn from_atom(atom: Atom) -> Polynomial {
        let term = Term { coefficient: 1, factors: SmallVec::from_iter([(atom, 1)]) };
        Polynomial::from_terms(vec![term])
    }

    fn from_terms(terms: Vec<Term>) -> Polynomial {
        let extent = terms.iter().fold(Extent::default(), |sum, term| {
            let own = term.extent();
            Extent {
                order: sum
                    .order
                    .saturating_add(own.order.saturating_mul(term.coefficient.unsigned_abs()))
                    .saturating_add(1),
                weight: sum.weight.saturating_add(own.weight),
                depth: sum.depth.max(own.depth),
            }
        });
        Polynomial { terms, extent }
    }

    pub(crate) fn as_symbol(&self) -> Option<&Symbol> {
        match &self.terms[..] {
            [Term { coefficient: 1, factors }] => match &factors[..] {
                [(Atom::Symbol(symbol), 1)] => Some(symbol),
                _ => None,
            },
            _ => None,
        }
    }
}

impl Term {
    pub fn coefficient(&self) -> i64 {
        self.coefficient
    }

    /// Returns the factors with their exponents, in the order of the text.
    pub fn factors(&self) -> impl DoubleEndedIterator<Item = (&Atom, u32)> {
        self.factors.iter().rev().map(|(atom, exponent)| (atom, *exponent))
    }

    pub(crate) fn number(value: i64) -> Term {
        Term { coefficient: value, factors: Factors::new() }
    }

    pub(crate) fn is_number(&self) -> bool {
        self.factors.is_empty()
    }

    pub(crate) fn extent(&self) -> Extent {
        let number = Extent { order: 0, weight: 1, depth: 0 };
        self.factors.iter().fold(number, |sum, (atom, exponent)| {
            let own = atom.extent();
            Extent {
                order: sum
                    .order
                    .saturating_add(own.order.saturating_mul(u64::from(*exponent)))
                    .saturating_add(1),
                weight: sum.weight.saturating_add(own.weight.saturating_mul(*exponent as usize)),
                depth: sum.depth.max(own.depth),
            }
        })
    }
}

impl Atom {
    pub(crate) fn extent(&self) -> Extent {
        match self {
            Atom::Symbol(_) => Extent { order: 1, weight: 1, depth: 0 },
            Atom::Operation(_, operands) => {
                let [a, b] = [operands[0].extent(), operands[1].extent()];
                Extent {
                    order: a.order.saturating_add(b.order).saturating_add(1),
                    weight: a.weight.saturating_add(b.weight).saturating_add(1),
                    depth: a.depth.max(b.depth) + 1,
                }
            }
        }
    }
}

impl Dim {
    pub(crate) fn extent(&self) -> Extent {
        match self {
            Dim::Known(_) => Extent { order: 1, weight: 1, depth: 0 },
            Dim::Symbolic(polynomial) => polynomial.extent,
        }
    }

    /// Returns the terms. A number has one, and 0 has none.
    pub(crate) fn to_terms(&self) -> Vec<Term> {
        match self {
            Dim::Known(0) => Vec::new(),
            Dim::Known(value) => vec![Term::number(*value)],
            Dim::Symbolic(polynomial) => polynomial.terms.clone(),
        }
    }

    /// Returns the sum of terms that are sorted and have different factors. `None` if the sum is too large.
    pub(crate) fn from_terms(terms: Vec<Term>) -> Option<Dim> {
        match &terms[..] {
            [] => return Some(Dim::Known(0)),
            [term] if term.is_number() => return Some(Dim::Known(term.coefficient)),
            _ => {}
        }
        let polynomial = Polynomial::from_terms(terms);
        let Extent { weight, depth, .. } = polynomial.extent;
        let is_small = weight <= MAX_WEIGHT && depth <= MAX_DEPTH;
        is_small.then(|| Dim::Symbolic(Arc::new(polynomial)))
    }
}
