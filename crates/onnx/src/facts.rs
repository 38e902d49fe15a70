//! Facts about the numbers of a value: the range that they are in, and whether they may be NaN, infinite, zero or
//! `−0`.
//!
//! A fact holds for all elements and for all inputs of the model. The rows of [the table](crate::operator) name the
//! `rules` by which the fact about a result follows from the facts about the operands. A rewrite keeps the
//! numbers of a value, so a fact stays true while a graph changes.

pub mod floats;
pub mod ints;
pub(crate) mod rules;

use rustc_hash::FxHashMap;

use crate::attr::Attr;
use crate::dtype::DType;
use crate::edit::Edit;
use crate::infer::axis_from_front;
use crate::model::Node;
use crate::operator::properties::EXACT;
use crate::tensor::{Range, Tensor};
use crate::value::{Dim, Type, ValueId};
use floats::{Floats, NegativeZero};
use ints::Interval;

/// The maximum number of nodes to visit per question. Beyond them, only the types are known.
const MAX_NODES: usize = 64;

/// Constants with more elements are not read, unless the question is about weights.
const MAX_READ: usize = 1 << 14;

/// The largest magnitude that is assumed for the elements of a weight that is not read.
pub const ASSUMED: f64 = 1e6;

/// A fact about all elements of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fact {
    Floats(Floats),
    /// Integers, or booleans as 0 and 1.
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

    /// Returns the fact that holds for both values: for the result of a choice between them.
    #[must_use]
    pub fn or(self, other: Fact) -> Fact {
        match (self, other) {
            (Fact::Floats(a), Fact::Floats(b)) => Fact::Floats(a.or(b)),
            (Fact::Ints(a), Fact::Ints(b)) => Fact::Ints(ints::either(a, b)),
            _ => Fact::Nothing,
        }
    }

    /// Returns the fact about floats; [`Floats::ANY`] for other values.
    pub fn floats(self) -> Floats {
        match self {
            Fact::Floats(floats) => floats,
            Fact::Ints(_) | Fact::Nothing => Floats::ANY,
        }
    }

    /// Returns the smallest and the largest integer; `None` if the value has no integers, or if they do not fit
    /// into 64 signed bits.
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

    /// True if an element may be `−0`, for example because it underflows.
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
    /// They may be any numbers, because reading them takes longer than the rest of an export.
    #[default]
    Unknown,
    /// If the model permits assumptions, no element exceeds [`ASSUMED`]; otherwise they are read.
    Assumed,
    Read,
}

/// The facts that were computed so far.
#[derive(Debug, Default)]
pub struct Facts {
    known: FxHashMap<ValueId, Fact>,
    weights: Weights,
    /// The weights about which something was assumed.
    assumed: Vec<ValueId>,
    /// The number of nodes that the current question may still visit.
    left: usize,
    /// True if the current question reached the limit of nodes.
    is_cut: bool,
}

impl Facts {
    pub fn with(weights: Weights) -> Facts {
        Facts { weights, ..Facts::default() }
    }

    /// Assumes a fact about a value. All facts from now on follow from it.
    pub fn suppose(&mut self, value: ValueId, fact: Fact) {
        self.known.clear();
        self.known.insert(value, fact);
    }

    /// Records the assumptions about weights, because the caller relies on them.
    pub fn assume(self, edit: &Edit<'_>) {
        let Some(assumptions) = edit.assumptions() else {
            return;
        };
        for tensor in self.assumed.into_iter().filter_map(|value| edit.tensor(value)) {
            assumptions.limit(tensor, ASSUMED);
        }
    }

    /// Returns the fact about a value.
    pub fn of(&mut self, edit: &Edit<'_>, value: ValueId) -> Fact {
        self.left = MAX_NODES;
        self.is_cut = false;
        self.follow(edit, value)
    }

    /// Forgets the facts about values whose producer changed, because a better fact may follow now.
    pub(crate) fn forget(&mut self, values: &[ValueId]) {
        for value in values {
            self.known.remove(value);
        }
    }

    /// Forgets the facts about values from index `length` on.
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
                let op = edit.node(index).op.onnx();
                let rule = op.map(|op| op.row().facts);
                let is_exact = op.is_some_and(|op| op.is(EXACT));
                let mut question = Question { facts: self, edit, index, value, ty };
                rule.and_then(|rule| rule(&mut question))
                    .map_or(of_type, |fact| fact.stored(is_exact, ty.dtype))
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
        if !tensor.dtype.is_float() || tensor.len() <= MAX_READ {
            return Some(match tensor.range()? {
                Range::Floats { low, high, has_nan, has_negative_zero } => {
                    Fact::Floats(Floats::of_range(low, high, has_nan, has_negative_zero))
                }
                Range::Ints { low, high } => Fact::Ints((low.into(), high.into())),
            });
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
    /// Returns the fact for results of an operator, which rounds unless it is exact.
    fn stored(self, is_exact: bool, dtype: DType) -> Fact {
        match self {
            Fact::Floats(floats) if is_exact => Fact::Floats(floats.exact()),
            Fact::Floats(floats) => Fact::Floats(floats.rounded(dtype)),
            other => other,
        }
    }
}

/// A question about a result of a node, for its rule.
pub(crate) struct Question<'q, 'e, 'm> {
    facts: &'q mut Facts,
    edit: &'q Edit<'e>,
    index: usize,
    value: ValueId,
    ty: &'m Type,
}

/// The rule of an operator: returns the fact about a result, or `None` if only its type is known.
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

    /// Returns the axis of the first operand that the attribute `axis` names.
    fn axis(&self, default: i64) -> Option<usize> {
        axis_from_front(self.int_attr("axis", default), self.operand_type(0)?.rank())
    }

    /// Returns how many numbers a reduction combines into one.
    fn reduced(&self) -> Option<i64> {
        let shape = &self.operand_type(0)?.shape;
        let axes = match self.attr("axes") {
            Some(Attr::Ints(axes)) => axes.to_vec(),
            _ => self.constant(1)?.ints()?,
        };
        // An empty list means all axes or none, depending on an attribute.
        if axes.is_empty() {
            return None;
        }
        axes.into_iter().try_fold(1, |count: i64, axis| {
            count.checked_mul(shape[axis_from_front(axis, shape.len())?].known()?)
        })
    }

    /// Returns the number of elements in the axes from `axis` on.
    fn count_from(&self, axis: usize) -> Option<f64> {
        let shape = &self.operand_type(0)?.shape;
        shape.get(axis..)?.iter().map(|dim| Some(dim.known()? as f64)).product()
    }

    /// True if two operands are the same value.
    fn is_same(&self, a: usize, b: usize) -> bool {
        self.operand(a).is_some() && self.operand(a) == self.operand(b)
    }

    fn last_size(&self, operand: usize) -> Option<f64> {
        Some(self.operand_type(operand)?.shape.last().and_then(Dim::known)? as f64)
    }
}
