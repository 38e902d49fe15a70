//! What other runtimes run, as measured by running tiny models in them.
//!
//! `tools/probe.py` runs each operator with each type in a runtime, with numbers that show how it computes, and each form of
//! `tools/probing/forms.py`. It stores the verdicts in `tools/probing/results`, and writes them as the tables below. If a
//! runtime refuses an operator for every type, its row has no types; an operator without a row was not probed.

mod abilities;
pub(super) mod coreml;
pub(super) mod qnn;
pub(super) mod rten;
pub(super) mod tensorrt;
pub(super) mod tract;

use super::behavior::{When, Wrong};
use super::target::{Release, Row};
use crate::dtype::DType;

pub(crate) use abilities::Ability;

/// How the facts about a runtime were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// By running models.
    Probe,
    /// By its documentation as of a date.
    Documentation(&'static str),
}

/// Casts from one type that a runtime refuses or computes wrongly.
#[derive(Debug)]
pub(crate) struct FaultyCast {
    pub from: DType,
    pub to: &'static [DType],
    /// The numbers that are wrong; `None` if the runtime refuses the cast.
    pub when: Option<When>,
}

/// A runtime as data.
#[derive(Debug)]
pub(in crate::kernels) struct Probed {
    pub name: &'static str,
    pub source: Source,
    pub releases: &'static [Release],
    /// By operator and opset. A type is listed if the runtime accepts it, even if [`Self::wrong`] has it too.
    pub rows: &'static [Row],
    pub wrong: &'static [Wrong],
    pub casts: &'static [FaultyCast],
    /// The forms that it runs correctly, sorted.
    pub abilities: &'static [Ability],
    /// The forms that it runs with wrong numbers, sorted.
    pub miscomputed: &'static [Ability],
    /// The types that inputs of a model may have, one bit each by the number of the type.
    pub inputs: u32,
    /// The types that outputs of a model may have. A runtime with few types returns a wider one.
    pub outputs: u32,
    /// The types that constants of a model may have.
    pub constants: u32,
}

impl Probed {
    /// True if the runtime runs a form, and its numbers are right.
    pub fn is_able(&self, ability: Ability) -> bool {
        self.abilities.binary_search(&ability).is_ok()
    }
}


