//! Pairs: which value of a model holds which variable of the program that was lowered.
//!
//! The lowering notes the value of each variable. A pass may change the node that computes a value, but the
//! value keeps its contents. If another value replaces it, the edit records that. [`Model::pairs`] follows
//! these notes to the values of the finished model.

mod resolve;
mod view;

use std::sync::Arc;

use provenance::SiteId;
use smallvec::SmallVec;

use crate::value::ValueId;

pub use resolve::{Holder, Hop, Pair};
pub use view::{View, ViewStep};

/// Tracks the variables of a program while its model is built and changed.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    variables: Vec<Variable>,
    held: Vec<Held>,
    changes: Vec<Change>,
}

/// A variable of a jaxpr.
#[derive(Clone, Debug)]
pub struct Variable {
    /// From the main jaxpr to the one that has the variable.
    pub path: Arc<[Step]>,
    pub definition: Definition,
    /// The position among the results of the equation, among the inputs or among the constants.
    pub position: usize,
    /// True if the value has one more axis, the last, for the parts of an element.
    pub has_parts: bool,
    /// True if correct results of its equation differ.
    pub is_ambiguous: bool,
    /// The place of the equation that defines it.
    pub site: Option<SiteId>,
}

/// A step from an equation into one of its bodies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub eqn: usize,
    /// The parameter that is the body, or contains it.
    pub param: &'static str,
    /// The position of the body in the parameter.
    pub index: usize,
}

/// The definition of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Definition {
    Constant,
    Input,
    Equation(usize),
}

/// The iterations of a loop in which a value holds a variable of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// In each round, the one of that round.
    Each,
    /// In each round, the one of the round after: the condition of a `while_loop` is computed by the round before.
    Next,
    /// The one of this round only.
    At(usize),
    /// The one of all rounds, which is the same in each.
    All,
}

/// A value that held a variable when it was lowered.
#[derive(Clone, Debug)]
struct Held {
    variable: usize,
    value: ValueId,
    rounds: Rounds,
    /// The calls of functions around it, the outermost first.
    calls: SmallVec<[Call; 1]>,
    /// From the value to the variable.
    view: View,
}

/// One for each loop around a variable, the outermost first.
pub type Rounds = SmallVec<[Round; 2]>;

/// A call of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Call {
    /// The first result of the call.
    result: ValueId,
    /// How many loops are around it.
    loops: usize,
}

/// Something that a pass did to a value.
#[derive(Clone, Debug)]
enum Change {
    /// Another value has the same contents.
    Same { from: ValueId, to: ValueId },
    /// Another value has the contents that a value in the body of a loop has in one round.
    Unrolled { from: ValueId, to: ValueId, round: usize, place: LoopPlace },
    /// A value has the elements of another one in other places.
    View { from: ValueId, to: ValueId, step: ViewStep },
}

/// The place of a loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoopPlace {
    /// How many loops are around it in the main graph or in the function.
    pub depth: usize,
    pub is_in_function: bool,
}

impl Pairs {
    /// Adds a variable and the value that holds it.
    pub fn add(&mut self, variable: Variable, value: ValueId, rounds: &[Round]) {
        self.variables.push(variable);
        self.held.push(Held {
            variable: self.variables.len() - 1,
            value,
            rounds: rounds.into(),
            calls: SmallVec::new(),
            view: View::default(),
        });
    }

    /// Returns how many variables were added so far, for [`Pairs::add_call`].
    pub fn len(&self) -> usize {
        self.variables.len()
    }

    pub fn is_empty(&self) -> bool {
        self.variables.is_empty()
    }

    /// Says that the variables since there were `first` are in a function that was called inside of so many loops,
    /// with this first result.
    pub fn add_call(&mut self, first: usize, result: Option<ValueId>, loops: usize) {
        let is_inside = |held: &Held| held.variable >= first;
        match result {
            Some(result) => {
                let inside = self.held.iter_mut().rev().take_while(|held| is_inside(held));
                inside.for_each(|held| held.calls.insert(0, Call { result, loops }));
            }
            None => self.held.retain(|held| !is_inside(held)),
        }
    }

    /// Notes that a value has the contents of another one.
    pub(crate) fn note_same(&mut self, from: ValueId, to: ValueId) {
        self.changes.push(Change::Same { from, to });
    }

    /// Notes that a value is what a step makes of another one.
    pub(crate) fn note_view(&mut self, from: ValueId, to: ValueId, step: ViewStep) {
        self.changes.push(Change::View { from, to, step });
    }

    /// Notes that a value has the contents that another one has in a round of a loop.
    pub(crate) fn note_unrolled(
        &mut self,
        from: ValueId,
        to: ValueId,
        round: usize,
        place: LoopPlace,
    ) {
        self.changes.push(Change::Unrolled { from, to, round, place });
    }

    /// Returns how many changes were noted, for [`Pairs::forget`].
    pub(crate) fn changes(&self) -> usize {
        self.changes.len()
    }

    /// Forgets the changes that were noted since there were `length`.
    pub(crate) fn forget(&mut self, length: usize) {
        self.changes.truncate(length);
    }
}
