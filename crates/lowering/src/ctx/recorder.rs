//! Types that record which value holds each variable of the program.

use std::cell::RefCell;
use std::sync::Arc;

use onnx::pairs::{Pairs, Round, Step};

/// Identifies a body of an equation, and the iterations of the loop that run it if the equation is
/// a loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body {
    pub(super) param: &'static str,
    pub(super) index: usize,
    pub(super) round: Option<Round>,
}

impl Body {
    /// Returns the body in the parameter `param`.
    pub fn of(param: &'static str) -> Body {
        Body { param, index: 0, round: None }
    }

    /// Returns a branch of `cond`.
    pub fn branch(index: usize) -> Body {
        Body { param: "branches", index, round: None }
    }

    /// Returns the body of a loop in the parameter `param`, for the given iterations.
    pub fn of_loop(param: &'static str, round: Round) -> Body {
        Body { param, index: 0, round: Some(round) }
    }
}

/// The variables that the lowering has reached so far.
pub(crate) struct Recorder {
    pub(super) pairs: Pairs,
    /// The path to the jaxpr that is being lowered.
    pub(super) path: Arc<[Step]>,
    pub(super) rounds: Vec<Round>,
    /// The index of the equation that is being lowered.
    pub(super) eqn: usize,
}

impl Recorder {
    pub fn new() -> RefCell<Recorder> {
        let pairs = Pairs::default();
        RefCell::new(Recorder { pairs, path: [].into(), rounds: Vec::new(), eqn: 0 })
    }
}
