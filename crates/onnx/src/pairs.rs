//! Pairs: which value of a model holds which variable of the lowered program.
//!
//! The lowering records the value of each variable. A pass may change the node that computes a value, but the value
//! keeps its contents. If another value replaces it, the edit records that.
//! [`Model::pairs`](crate::Model::pairs) follows these records to the values of the finished model.

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
    /// The steps from the main jaxpr to the one with the variable.
    pub path: Arc<[Step]>,
    pub definition: Definition,
    /// The position in the results of the equation, the inputs or the constants.
    pub position: usize,
    /// True if the value has an additional last axis for the parts of an element.
    pub has_parts: bool,
    /// True if its equation has several correct results.
    pub is_ambiguous: bool,
    /// The site of the equation that defines it.
    pub site: Option<SiteId>,
}

/// A step from an equation into one of its bodies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub eqn: usize,
    /// The parameter that is or contains the body.
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
    /// In each iteration, it holds the variable of that iteration.
    Each,
    /// In each iteration, it holds the variable of the next one: an iteration computes the condition of a
    /// `while_loop` for the next.
    Next,
    /// It holds the variable of this iteration only.
    At(usize),
    /// It holds the variable of every iteration, which is always the same.
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
    /// The steps from the value to the variable.
    view: View,
}

/// The iterations of each loop around a variable, the outermost loop first.
pub type Rounds = SmallVec<[Round; 2]>;

/// A call of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Call {
    /// The first result of the call.
    result: ValueId,
    /// The number of loops around it.
    loops: usize,
}

/// A change of a value by a pass.
#[derive(Clone, Debug)]
enum Change {
    /// Another value has the same contents.
    Same { from: ValueId, to: ValueId },
    /// Another value has the contents that a value in a loop body has in one iteration.
    Unrolled { from: ValueId, to: ValueId, round: usize, place: LoopPlace },
    /// A value has the elements of another one in another order.
    View { from: ValueId, to: ValueId, step: ViewStep },
}

/// The position of a loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoopPlace {
    /// The number of loops around it, in the main graph or in the function.
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

    /// Returns the number of variables, for [`Pairs::add_call`].
    pub fn len(&self) -> usize {
        self.variables.len()
    }

    pub fn is_empty(&self) -> bool {
        self.variables.is_empty()
    }

    /// Records that the variables from index `first` on are in a function, whose call has this first result and is
    /// inside this many loops. Without a result, forgets them.
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

    /// Records that a value has the contents of another one.
    pub(crate) fn note_same(&mut self, from: ValueId, to: ValueId) {
        self.changes.push(Change::Same { from, to });
    }

    /// Records that a value is the result of a step from another one.
    pub(crate) fn note_view(&mut self, from: ValueId, to: ValueId, step: ViewStep) {
        self.changes.push(Change::View { from, to, step });
    }

    /// Records that a value has the contents of another one in an iteration of a loop.
    pub(crate) fn note_unrolled(
        &mut self,
        from: ValueId,
        to: ValueId,
        round: usize,
        place: LoopPlace,
    ) {
        self.changes.push(Change::Unrolled { from, to, round, place });
    }

    /// Returns the number of recorded changes, for [`Pairs::forget`].
    pub(crate) fn changes(&self) -> usize {
        self.changes.len()
    }

    /// Forgets the changes from index `length` on.
    pub(crate) fn forget(&mut self, length: usize) {
        self.changes.truncate(length);
    }
}
