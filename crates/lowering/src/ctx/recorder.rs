//! The variables of the program that were met so far, and the values that hold them.

use std::cell::RefCell;
use std::sync::Arc;

use onnx::pairs::{Pairs, Round, Step};

/// A body of an equation: which one, and in which rounds it runs if the equation is a loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body {
    pub(super) param: &'static str,
    pub(super) index: usize,
    pub(super) round: Option<Round>,
}

impl Body {
    /// The body that is a parameter.
    pub fn of(param: &'static str) -> Body {
        Body { param, index: 0, round: None }
    }

    /// A branch of `cond`.
    pub fn branch(index: usize) -> Body {
        Body { param: "branches", index, round: None }
    }

    /// The body of a loop, for a round.
    pub fn of_loop(param: &'static str, round: Round) -> Body {
        Body { param, index: 0, round: Some(round) }
    }
}

/// The variables that were met so far.
pub(crate) struct Recorder {
    pub(super) pairs: Pairs,
    /// The jaxpr that is being lowered.
    pub(super) path: Arc<[Step]>,
    pub(super) rounds: Vec<Round>,
    /// The equation that is being lowered.
    pub(super) eqn: usize,
}

impl Recorder {
    pub fn new() -> RefCell<Recorder> {
        let pairs = Pairs::default();
        RefCell::new(Recorder { pairs, path: [].into(), rounds: Vec::new(), eqn: 0 })
    }
}
