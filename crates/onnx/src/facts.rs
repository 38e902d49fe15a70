//! Facts about the numbers of a value: between which they are, and whether they may be NaN, infinite, zero or `−0`.
//!
//! A fact holds for all elements, whatever the inputs of the model are. How facts follow from those of operands is in the
//! rows of [the table](crate::operator): [`rules`] contains the rules. A rewrite keeps the numbers of a value, so that a
//! fact stays true while a graph changes.

pub mod floats;
pub mod ints;
pub(crate) mod rules;

use rustc_hash::FxHashMap;

use crate::attr::Attr;
use crate::dtype::DType;
use crate::edit::Edit;
use crate::infer::axis_from_front;
use crate::model::Node;
use crate::tensor::Tensor;
use crate::value::{Dim, Type, ValueId};
use floats::{Floats, NegativeZero};
use ints::Interval;

/// A question looks at no more nodes than this. Behind them, only the types are known.
const MAX_NODES: usize = 64;

/// Constants with more elements are not read, unless the question is about weights.
const MAX_READ: usize = 1 << 14;

/// The largest magnitude that is assumed of a weight that is not read.
pub const ASSUMED: f64 = 1e6;

/// A fact about all elements of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fact {
    Floats(Floats),
    /// Integers, or flags, which are 0 and 1.
    Ints(Interval),
    /// The value has no numbers, or its type is not known.
    Nothing,
}

impl Fact {
    /// Returns the fact that holds for every value of the type.
    pub fn of_type(dtype: DType) -> Fact {
        match ints::of_type(dtype) {
            _ if dtype.is_float() => Fact::Floats(Floats::ANY),
            Some(interval) => Fact::Ints(interval),
            None => Fact::Nothing,
        }
    }

    /// Returns the fact that holds for what is one or the other.
    #[must_use]
    pub fn or(self, other: Fact) -> Fact {
        match (self, other) {
            (Fact::Floats(a), Fact::Floats(b)) => Fact::Floats(a.or(b)),
            (Fact::Ints(a), Fact::Ints(b)) => Fact::Ints(ints::either(a, b)),
            _ => Fact::Nothing,
        }
    }

    /// Returns what is known of floats. Nothing is known of them if the value has others.
    pub fn floats(self) -> Floats {
        match self {
            Fact::Floats(floats) => floats,
            Fact::Ints(_) | Fact::Nothing => Floats::ANY,
        }
    }

    /// Returns the smallest and the largest integer; `None` if the value has no integers, or 64 signed bits do not hold
    /// them.
    pub fn ints(self) -> Option<(i64, i64)> {
        let Fact::Ints((low, high)) = self else { return None };
        Some((low.try_into().ok()?, high.try_into().ok()?))
    }

    /// True if an element may be less than zero.
    pub fn may_be_negative(self) -> bool {
        match self {
            Fact::Floats(floats) => floats.low < 0.0,
            Fact::Ints((low, _)) => low < 0,
            Fact::Nothing => true,
        }
    }

    /// True if an element may be `−0`, also because it is too small for its type.
    pub fn may_be_negative_zero(self) -> bool {
        match self {
            Fact::Floats(floats) => floats.negative_zero != NegativeZero::Never,
            Fact::Ints(_) => false,
            Fact::Nothing => true,
        }
    }
}

/// The knowledge about large weights that a question may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weights {
    /// Nothing is known of them, because reading them takes longer than the rest of an export.
    #[default]
    Unknown,
    /// They are of ordinary size if the model may assume that, and are read if not.
    Assumed,
    /// They are read.
    Read,
}

/// The facts that have been asked for.
#[derive(Debug, Default)]
pub struct Facts {
    known: FxHashMap<ValueId, Fact>,
    weights: Weights,
    /// The weights about which something was assumed.
    assumed: Vec<ValueId>,
    /// The nodes that the question may still look at.
    left: usize,
    /// True if the question could not look at all nodes.
    is_cut: bool,
}

impl Facts {
    pub fn with(weights: Weights) -> Facts {
        Facts { weights, ..Facts::default() }
    }

    /// Supposes a fact, from which those that are asked for next follow.
    pub fn suppose(&mut self, value: ValueId, fact: Fact) {
        self.known.clear();
        self.known.insert(value, fact);
    }

    /// Notes what has been assumed about weights, because it is made use of.
    pub fn assume(self, edit: &Edit<'_>) {
        let Some(assumptions) = edit.assumptions() else {
            return;
        };
        for tensor in self.assumed.into_iter().filter_map(|value| edit.tensor(value)) {
            assumptions.limit(tensor, ASSUMED);
        }
    }

    /// Returns what is known about a value.
    pub fn of(&mut self, edit: &Edit<'_>, value: ValueId) -> Fact {
        self.left = MAX_NODES;
        self.is_cut = false;
        self.follow(edit, value)
    }

    /// Forgets what is known about values, because the node that makes them changed: more may be known now.
    pub(crate) fn forget(&mut self, values: &[ValueId]) {
        for value in values {
            self.known.remove(value);
        }
    }

    /// Forgets what is known about the values that were added since there were `length`.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.known.retain(|value, _| value.index() < length);
    }

    fn follow(&mut self, edit: &Edit<'_>, value: ValueId) -> Fact {
        if let Some(&known) = self.known.get(&value) {
            return known;
        }
        let Some(ty) = edit.ty(value) else { return Fact::Nothing };
        let of_type = Fact::of_type(ty.dtype);
        let found = match (edit.tensor(value), edit.producer(value)) {
            (Some(tensor), _) => self.of_constant(edit, value, tensor).unwrap_or(of_type),
            (None, Some(_)) if self.left == 0 => {
                self.is_cut = true;
                of_type
            }
            (None, Some(index)) => {
                self.left -= 1;
                let rule = edit.node(index).op.onnx().map(|op| op.row().facts);
                let mut question = Question { facts: self, edit, index, value, ty };
                rule.and_then(|rule| rule(&mut question))
                    .map_or(of_type, |fact| fact.rounded(ty.dtype))
            }
            (None, None) => match edit.bounds_of_input(value) {
                Some((low, high)) => Fact::Ints((low.into(), high.into())),
                None => of_type,
            },
        };
        if !self.is_cut {
            self.known.insert(value, found);
        }
        found
    }

    fn of_constant(&mut self, edit: &Edit<'_>, value: ValueId, tensor: &Tensor) -> Option<Fact> {
        if !tensor.dtype.is_float() {
            let numbers = tensor.ints().filter(|_| tensor.dtype != DType::U64)?;
            let (low, high) = (numbers.iter().min()?, numbers.iter().max()?);
            return Some(Fact::Ints(((*low).into(), (*high).into())));
        }
        if tensor.len() <= MAX_READ {
            return Some(Fact::Floats(Floats::of_numbers(tensor)?));
        }
        let most = match self.weights {
            Weights::Unknown => return None,
            Weights::Assumed if edit.assumptions().is_some() => {
                self.assumed.push(value);
                ASSUMED
            }
            Weights::Assumed | Weights::Read => tensor.max_magnitude(),
        };
        Some(Fact::Floats(Floats::up_to(most)))
    }
}

impl Fact {
    /// Returns the fact for numbers that were rounded to a type.
    fn rounded(self, dtype: DType) -> Fact {
        match self {
            Fact::Floats(floats) => Fact::Floats(floats.rounded(dtype)),
            other => other,
        }
    }
}

/// A question about a result of a node.
pub(crate) struct Question<'q, 'e, 'm> {
    facts: &'q mut Facts,
    edit: &'q Edit<'e>,
    index: usize,
    value: ValueId,
    ty: &'m Type,
}

/// The rule of an operator: what is known about a result, or `None` if that is only its type.
pub(crate) type Rule = fn(&mut Question<'_, '_, '_>) -> Option<Fact>;

impl Question<'_, '_, '_> {
    fn node(&self) -> &Node {
        self.edit.node(self.index)
    }

    fn dtype(&self) -> DType {
        self.ty.dtype
    }

    fn operands(&self) -> usize {
        self.node().inputs.len()
    }

    fn operand(&self, operand: usize) -> Option<ValueId> {
        self.edit.input(self.index, operand)
    }

    fn operand_type(&self, operand: usize) -> Option<&Type> {
        self.edit.ty(self.operand(operand)?)
    }

    fn constant(&self, operand: usize) -> Option<&Tensor> {
        self.edit.tensor(self.operand(operand)?)
    }

    fn fact(&mut self, operand: usize) -> Option<Fact> {
        let value = self.operand(operand)?;
        Some(self.facts.follow(self.edit, value))
    }

    fn floats(&mut self, operand: usize) -> Option<Floats> {
        match self.fact(operand)? {
            Fact::Floats(floats) => Some(floats),
            Fact::Ints(_) | Fact::Nothing => None,
        }
    }

    fn ints(&mut self, operand: usize) -> Option<Interval> {
        match self.fact(operand)? {
            Fact::Ints(interval) => Some(interval),
            Fact::Floats(_) | Fact::Nothing => None,
        }
    }

    fn attr(&self, name: &str) -> Option<&Attr> {
        self.node().attr(name)
    }

    fn int_attr(&self, name: &str, default: i64) -> i64 {
        match self.attr(name) {
            Some(Attr::Int(value)) => *value,
            _ => default,
        }
    }

    /// Returns the axis that an attribute names, in the first operand.
    fn axis(&self, default: i64) -> Option<usize> {
        axis_from_front(self.int_attr("axis", default), self.operand_type(0)?.rank())
    }

    /// Returns how many numbers a reduction makes one of.
    fn reduced(&self) -> Option<i64> {
        let shape = &self.operand_type(0)?.shape;
        let axes = match self.attr("axes") {
            Some(Attr::Ints(axes)) => axes.to_vec(),
            _ => self.constant(1)?.ints()?,
        };
        // Without axes, all are reduced, or none.
        if axes.is_empty() {
            return None;
        }
        axes.into_iter().try_fold(1, |count: i64, axis| {
            count.checked_mul(shape[axis_from_front(axis, shape.len())?].known()?)
        })
    }

    /// Returns how many numbers there are along the axes from one on.
    fn count_from(&self, axis: usize) -> Option<f64> {
        let shape = &self.operand_type(0)?.shape;
        shape.get(axis..)?.iter().map(|dim| Some(dim.known()? as f64)).product()
    }

    /// True if two operands are one value.
    fn is_same(&self, a: usize, b: usize) -> bool {
        self.operand(a).is_some() && self.operand(a) == self.operand(b)
    }

    fn last_size(&self, operand: usize) -> Option<f64> {
        Some(self.operand_type(operand)?.shape.last().and_then(Dim::known)? as f64)
    }
}
