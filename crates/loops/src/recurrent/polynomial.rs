//! Sums of products of gates, candidates and states, in one form for all ways of writing them.

use std::collections::BTreeMap;

use onnx::{OpType, ValueId};

use super::body::{Body, View};

/// The most products of a sum.
const MAX_PRODUCTS: usize = 16;

/// The depth of formulas that are read.
const MAX_DEPTH: usize = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Sigmoid,
    Tanh,
    Exp,
    /// The view itself, which is a state.
    Itself,
}

/// A function of `factor · view`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Atom {
    pub function: Function,
    pub view: View,
    pub factor: f64,
}

/// The index of an atom.
pub(super) type Place = usize;

/// A sum of products of atoms, by the atoms of each product in order.
pub(super) type Polynomial = BTreeMap<Vec<Place>, f64>;

/// A sigmoid, or one minus it, which is the sigmoid of the other sign.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Gate {
    pub atom: Place,
    pub is_negated: bool,
}

/// The atoms of the polynomials of a body.
pub(super) struct Atoms<'a, 'b> {
    body: &'a Body<'b>,
    states: Vec<ValueId>,
    pub all: Vec<Atom>,
}

impl<'a, 'b> Atoms<'a, 'b> {
    pub(super) fn new(body: &'a Body<'b>) -> Atoms<'a, 'b> {
        let states = (0..body.carries()).map(|number| body.carry(number)).collect();
        Atoms { body, states, all: Vec::new() }
    }

    /// Reads a view as a polynomial.
    pub(super) fn read(&mut self, view: &View) -> Option<Polynomial> {
        self.polynomial(view, MAX_DEPTH)
    }

    /// Returns the place of a state.
    pub(super) fn state(&mut self, value: ValueId) -> Place {
        let view = View { value, moves: Vec::new() };
        self.place(Atom { function: Function::Itself, view, factor: 1.0 })
    }

    fn place(&mut self, atom: Atom) -> Place {
        let found = self.all.iter().position(|other| *other == atom);
        found.unwrap_or_else(|| {
            self.all.push(atom);
            self.all.len() - 1
        })
    }

    fn polynomial(&mut self, view: &View, depth: usize) -> Option<Polynomial> {
        let depth = depth.checked_sub(1)?;
        let body = self.body;
        let view = &body.peel(view.clone());
        if let Some(number) = body.edit.number(view.value) {
            return number.is_finite().then(|| constant(number));
        }
        if self.states.contains(&view.value) && view.moves.is_empty() {
            let place = self.state(view.value);
            return Some(Polynomial::from([(vec![place], 1.0)]));
        }
        let (op, operands) = body.formula(view.value)?;
        let mut read = |operand: ValueId| {
            // A single number has no elements to move.
            match body.edit.number(operand) {
                Some(number) => number.is_finite().then(|| constant(number)),
                None => self.polynomial(&body.operand(view, operand)?, depth),
            }
        };
        let sum = match (op, &operands[..]) {
            (OpType::Sigmoid, &[x]) => return self.function(Function::Sigmoid, view, x),
            (OpType::Tanh, &[x]) => return self.function(Function::Tanh, view, x),
            (OpType::Exp, &[x]) => return self.function(Function::Exp, view, x),
            (OpType::Neg, &[x]) => scaled(&read(x)?, -1.0),
            (OpType::Add, &[a, b]) => plus(read(a)?, &read(b)?),
            (OpType::Sub, &[a, b]) => plus(read(a)?, &scaled(&read(b)?, -1.0)),
            (OpType::Mul, &[a, b]) => times(&read(a)?, &read(b)?),
            (OpType::Reciprocal, &[x]) => {
                let divisor = read(x)?;
                return self.logistic(&divisor);
            }
            (OpType::Div, &[a, b]) => {
                let (dividend, divisor) = (read(a)?, read(b)?);
                match number_of(&divisor) {
                    Some(divisor) if divisor != 0.0 => scaled(&dividend, divisor.recip()),
                    _ => return Some(times(&dividend, &self.logistic(&divisor)?)),
                }
            }
            _ => return None,
        };
        (sum.len() <= MAX_PRODUCTS).then(|| self.with_sigmoids(sum))
    }

    /// Reads a function of a value.
    fn function(&mut self, function: Function, of: &View, operand: ValueId) -> Option<Polynomial> {
        let (view, factor) = self.factored(self.body.operand(of, operand)?);
        Some(self.applied(function, view, factor))
    }

    /// `tanh(−x) = −tanh(x)`, `σ(−x) = 1 − σ(x)`
    fn applied(&mut self, function: Function, view: View, factor: f64) -> Polynomial {
        let is_signed = factor < 0.0 && function != Function::Exp;
        let factor = if is_signed { -factor } else { factor };
        let place = self.place(Atom { function, view, factor });
        let atom = Polynomial::from([(vec![place], 1.0)]);
        match function {
            Function::Sigmoid if is_signed => plus(constant(1.0), &scaled(&atom, -1.0)),
            _ if is_signed => scaled(&atom, -1.0),
            _ => atom,
        }
    }

    /// Takes the factors before a view.
    fn factored(&self, mut view: View) -> (View, f64) {
        let (mut factor, body) = (1.0, self.body);
        let number = |id: ValueId| body.edit.number(id).filter(|n| n.is_finite() && *n != 0.0);
        for _ in 0..MAX_DEPTH {
            let Some((op, operands)) = body.formula(view.value) else { break };
            let (by, operand) = match (op, &operands[..]) {
                (OpType::Neg, &[x]) => (-1.0, x),
                (OpType::Mul, &[a, b]) => match (number(a), number(b)) {
                    (Some(by), _) => (by, b),
                    (_, Some(by)) => (by, a),
                    _ => break,
                },
                (OpType::Div, &[a, b]) => match number(b) {
                    Some(by) => (by.recip(), a),
                    None => break,
                },
                _ => break,
            };
            let Some(inner) = body.operand(&view, operand) else { break };
            (view, factor) = (inner, factor * by);
        }
        (view, factor)
    }

    /// `1 / (1 + exp(−x)) = σ(x)`
    fn logistic(&mut self, divisor: &Polynomial) -> Option<Polynomial> {
        let (place, factor) = divisor.iter().find_map(|(atoms, factor)| match atoms[..] {
            [place] => Some((place, *factor)),
            _ => None,
        })?;
        let atom = self.all.get(place)?.clone();
        let is_logistic = atom.function == Function::Exp
            && factor == 1.0
            && divisor.len() == 2
            && divisor.get(&vec![]) == Some(&1.0);
        is_logistic.then(|| self.applied(Function::Sigmoid, atom.view, -atom.factor))
    }

    /// `½ + ½·tanh(x) = σ(2·x)`
    fn with_sigmoids(&mut self, sum: Polynomial) -> Polynomial {
        let tanh = sum.iter().find_map(|(atoms, factor)| match atoms[..] {
            [place] if self.all[place].function == Function::Tanh => Some((place, *factor)),
            _ => None,
        });
        if let Some((place, factor)) = tanh
            && sum.len() == 2
            && sum.get(&vec![]) == Some(&0.5)
            && factor.abs() == 0.5
        {
            let Atom { view, factor: of, .. } = self.all[place].clone();
            return self.applied(Function::Sigmoid, view, 4.0 * factor * of);
        }
        sum
    }

    /// Returns the only atom of a function.
    pub(super) fn only(&self, sum: &Polynomial, function: Function) -> Option<Place> {
        let mut places: Vec<Place> = sum.keys().flatten().copied().collect();
        places.retain(|&place| self.all[place].function == function);
        places.sort_unstable();
        places.dedup();
        match places[..] {
            [place] => Some(place),
            _ => None,
        }
    }

    /// Reads a polynomial as a gate.
    pub(super) fn gate(&self, sum: &Polynomial) -> Option<Gate> {
        let (place, factor) = sum.iter().find_map(|(atoms, factor)| match atoms[..] {
            [place] if self.all[place].function == Function::Sigmoid => Some((place, *factor)),
            _ => None,
        })?;
        let rest = sum.get(&vec![]).copied();
        match (sum.len(), factor, rest) {
            (1, 1.0, None) => Some(Gate { atom: place, is_negated: false }),
            (2, -1.0, Some(1.0)) => Some(Gate { atom: place, is_negated: true }),
            _ => None,
        }
    }
}

pub(super) fn constant(number: f64) -> Polynomial {
    Polynomial::from([(Vec::new(), number)])
        .into_iter()
        .filter(|(_, number)| *number != 0.0)
        .collect()
}

fn number_of(sum: &Polynomial) -> Option<f64> {
    match sum.len() {
        0 => Some(0.0),
        1 => sum.get(&vec![]).copied(),
        _ => None,
    }
}

pub(super) fn scaled(sum: &Polynomial, factor: f64) -> Polynomial {
    sum.iter().map(|(atoms, number)| (atoms.clone(), number * factor)).collect()
}

pub(super) fn plus(mut sum: Polynomial, other: &Polynomial) -> Polynomial {
    for (atoms, number) in other {
        *sum.entry(atoms.clone()).or_insert(0.0) += number;
    }
    sum.retain(|_, number| *number != 0.0);
    sum
}

fn times(a: &Polynomial, b: &Polynomial) -> Polynomial {
    let mut product = Polynomial::new();
    for (left, x) in a {
        for (right, y) in b {
            let mut atoms = [&left[..], right].concat();
            atoms.sort_unstable();
            *product.entry(atoms).or_insert(0.0) += x * y;
        }
    }
    product.retain(|_, number| *number != 0.0);
    product
}

/// Splits a sum into the factor of an atom and the rest.
pub(super) fn split_at(sum: &Polynomial, atom: Place) -> (Polynomial, Polynomial) {
    let (mut factor, mut rest) = (Polynomial::new(), Polynomial::new());
    for (atoms, number) in sum {
        match atoms.iter().position(|&place| place == atom) {
            Some(place) => {
                let mut others = atoms.clone();
                others.remove(place);
                factor.insert(others, *number);
            }
            None => _ = rest.insert(atoms.clone(), *number),
        }
    }
    (factor, rest)
}
