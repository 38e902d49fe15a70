//! The size of an axis.

use std::fmt;
use std::sync::Arc;

use crate::polynomial::{Atom, Polynomial};

/// The size of an axis: a number, or a polynomial of symbols that is not a number.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Dim {
    Known(i64),
    Symbolic(Arc<Polynomial>),
}

/// A size that is not computed from others. It is a size of an array, so it is never negative.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Symbol {
    /// A name means the same size everywhere. It may be any text.
    Named(Arc<str>),
    /// An axis whose size a model does not specify.
    Unknown(u32),
}

impl Dim {
    /// Returns the symbol with this name. The name is not read as an expression.
    pub fn symbol(name: impl Into<Arc<str>>) -> Dim {
        Dim::from(Symbol::Named(name.into()))
    }

    /// Returns the number, if it is one.
    pub fn known(&self) -> Option<i64> {
        match self {
            Dim::Known(size) => Some(*size),
            Dim::Symbolic(_) => None,
        }
    }

    /// Returns the symbol, if it is a single one.
    pub fn as_symbol(&self) -> Option<&Symbol> {
        match self {
            Dim::Known(_) => None,
            Dim::Symbolic(polynomial) => polynomial.as_symbol(),
        }
    }

    /// True if it is this number.
    pub fn is(&self, size: i64) -> bool {
        self.known() == Some(size)
    }

    /// Calls `f` with each symbol, including those inside operations. A symbol may occur several times.
    pub fn for_each_symbol<'a>(&'a self, f: &mut impl FnMut(&'a Symbol)) {
        let Dim::Symbolic(polynomial) = self else { return };
        let factors = polynomial.terms().iter().flat_map(|term| term.factors());
        for (atom, _) in factors {
            match atom {
                Atom::Symbol(symbol) => f(symbol),
                Atom::Operation(_, operands) => {
                    for operand in operands.iter() {
                        operand.for_each_symbol(f);
                    }
                }
            }
        }
    }

    /// True if the size contains the symbol, also inside an operation.
    pub fn contains(&self, symbol: &Symbol) -> bool {
        let mut is_found = false;
        self.for_each_symbol(&mut |other| is_found |= other == symbol);
        is_found
    }
}

impl From<i64> for Dim {
    fn from(size: i64) -> Dim {
        Dim::Known(size)
    }
}

impl From<Symbol> for Dim {
    fn from(symbol: Symbol) -> Dim {
        Dim::Symbolic(Arc::new(Polynomial::from_atom(Atom::Symbol(symbol))))
    }
}

impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
