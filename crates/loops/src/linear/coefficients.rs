//! The numbers by which a step multiplies states: constants, and numbers that the model computes.

use std::cell::RefCell;

use onnx::ValueId;
use rustc_hash::FxHashMap;

/// A number times a symbol.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Coefficient {
    pub number: f64,
    symbol: u32,
    /// True if the model computes it as a sum or a difference.
    is_sum: bool,
    /// True if it differs between the steps.
    pub is_varying: bool,
}

/// The symbol of the number one.
const ONE: u32 = 0;

impl Coefficient {
    pub(super) fn known(number: f64) -> Coefficient {
        Coefficient { number, symbol: ONE, is_sum: false, is_varying: false }
    }

    /// Returns the number if it is a constant.
    pub(super) fn constant(self) -> Option<f64> {
        (self.symbol == ONE).then_some(self.number)
    }

    /// True if the errors of its rounding to single precision do not add up over the steps: it has this precision, is a
    /// product, or has another error in each step.
    pub(super) fn is_single(self) -> bool {
        match self.constant() {
            Some(number) => f64::from(number as f32) == number,
            None => self.is_varying || !self.is_sum,
        }
    }

    fn times(self, by: f64) -> Coefficient {
        Coefficient { number: self.number * by, ..self }
    }
}

/// The columns of a row that are not zero, in order, with their coefficients.
pub(super) type Row = Vec<(u32, Coefficient)>;

#[derive(PartialEq, Eq, Hash)]
enum Symbol {
    /// An element of a value.
    Element(ValueId, usize),
    Inverse(u32),
    Product(u32, u32),
    /// Symbols times the bits of numbers.
    Sum(Vec<(u32, u64)>),
}

/// Numbers the symbols, so that equal expressions have the same number.
#[derive(Default)]
pub(super) struct Symbols(RefCell<FxHashMap<Symbol, u32>>);

impl Symbols {
    fn number(&self, symbol: Symbol) -> u32 {
        let mut all = self.0.borrow_mut();
        let next = all.len() as u32 + 1;
        *all.entry(symbol).or_insert(next)
    }

    /// Returns the elements of a value that the model computes.
    pub(super) fn elements(
        &self,
        value: ValueId,
        count: usize,
        is_varying: bool,
    ) -> Vec<Coefficient> {
        let element = |place| {
            let symbol = self.number(Symbol::Element(value, place));
            Coefficient { symbol, is_varying, ..Coefficient::known(1.0) }
        };
        (0..count).map(element).collect()
    }

    pub(super) fn inverse(&self, one: Coefficient) -> Coefficient {
        let symbol = match one.symbol {
            ONE => ONE,
            symbol => self.number(Symbol::Inverse(symbol)),
        };
        Coefficient { number: 1.0 / one.number, symbol, ..one }
    }

    fn product(&self, a: Coefficient, b: Coefficient) -> Coefficient {
        let symbol = match (a.symbol, b.symbol) {
            (ONE, symbol) | (symbol, ONE) => symbol,
            (a, b) => self.number(Symbol::Product(a.min(b), a.max(b))),
        };
        Coefficient {
            number: a.number * b.number,
            symbol,
            is_sum: a.is_sum || b.is_sum,
            is_varying: a.is_varying || b.is_varying,
        }
    }

    fn sum(&self, mut terms: Vec<Coefficient>) -> Coefficient {
        terms.sort_by_key(|term| term.symbol);
        terms.dedup_by(|next, first| {
            let is_same = next.symbol == first.symbol;
            if is_same {
                first.number += next.number;
                first.is_sum = true;
            }
            is_same
        });
        terms.retain(|term| term.number != 0.0);
        match terms[..] {
            [] => Coefficient::known(0.0),
            [one] => one,
            _ => {
                let bits = terms.iter().map(|term| (term.symbol, term.number.to_bits())).collect();
                let symbol = self.number(Symbol::Sum(bits));
                let is_varying = terms.iter().any(|term| term.is_varying);
                Coefficient { number: 1.0, symbol, is_sum: true, is_varying }
            }
        }
    }

    pub(super) fn scaled(&self, row: &Row, by: Coefficient) -> Row {
        let products = row.iter().map(|&(column, one)| (column, self.product(one, by)));
        products.filter(|(_, one)| one.number != 0.0).collect()
    }

    /// Returns the sum of rows times coefficients.
    pub(super) fn combined<'r>(
        &self,
        terms: impl IntoIterator<Item = (&'r Row, Coefficient)>,
    ) -> Row {
        let mut all: Row = Vec::new();
        for (row, by) in terms {
            if by.number != 0.0 {
                all.extend(row.iter().map(|&(column, one)| (column, self.product(one, by))));
            }
        }
        all.sort_by_key(|entry| entry.0);
        let mut sums = Row::new();
        for same in all.chunk_by(|a, b| a.0 == b.0) {
            let sum = match same {
                [(_, one)] => *one,
                _ => self.sum(same.iter().map(|&(_, one)| one).collect()),
            };
            if sum.number != 0.0 {
                sums.push((same[0].0, sum));
            }
        }
        sums
    }
}

/// Returns a row with the other sign.
pub(super) fn negated(row: &Row) -> Row {
    row.iter().map(|&(column, one)| (column, one.times(-1.0))).collect()
}
