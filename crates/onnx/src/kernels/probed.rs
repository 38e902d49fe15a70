//! The abilities of other runtimes, measured with tiny models.
//!
//! `tools/probe.py` runs each operator with each type in a runtime, with numbers that show how it computes, and each form of
//! `tools/probing/forms.py`. It stores the verdicts in `tools/probing/results`, and writes them as the tables below. If a
//! runtime refuses an operator for every type, its row has no types; an operator without a row was not probed.

mod abilities;
pub(super) mod coreml;
pub(super) mod iree;
pub(super) mod mnn;
pub(super) mod onnxruntime_cuda;
pub(super) mod onnxruntime_web;
pub(super) mod openvino;
pub(super) mod qnn;
pub(super) mod rten;
pub(super) mod tensorrt;
pub(super) mod tract;

use super::behavior::{When, Wrong};
use super::target::{Release, Row};
use crate::dtype::DType;

pub(crate) use abilities::Ability;

/// The source of the facts about a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// By running models.
    Probe,
    /// By its documentation as of a date.
    Documentation(&'static str),
}

/// A runtime as data.
#[derive(Debug)]
pub(in crate::kernels) struct Probed {
    pub name: &'static str,
    pub source: Source,
    pub releases: &'static [Release],
    /// By operator and opset. A type is listed if the runtime accepts it, even if [`Self::wrong`] has it too.
    pub rows: &'static [Row],
    /// The operators with wrong numbers, beyond those of [`Self::narrowed`].
    pub wrong: &'static [Wrong],
    /// The types whose numbers change even if they are only moved, such as int64 in a runtime that stores 32 bits.
    pub narrowed: &'static [(DType, When)],
    /// The forms that it runs correctly, sorted.
    pub abilities: &'static [Ability],
    /// The forms that it runs with wrong numbers, sorted.
    pub miscomputed: &'static [Ability],
    /// The types that inputs of a model may have, one bit each by the number of the type.
    pub inputs: u32,
    /// The types that constants of a model may have.
    pub constants: u32,
    /// The types that it computes in narrower ones, so that inputs and outputs cannot have them.
    pub demoted: &'static [DType],
}

#[cfg(test)]
impl Probed {
    /// True if the runtime runs a form, and its numbers are right.
    pub fn is_able(&self, ability: Ability) -> bool {
        self.abilities.binary_search(&ability).is_ok()
    }
}

#[cfg(test)]
pub(in crate::kernels) const RUNTIMES: &[&Probed] = &[
    &coreml::PROBED,
    &iree::PROBED,
    &mnn::PROBED,
    &onnxruntime_cuda::PROBED,
    &onnxruntime_web::PROBED,
    &openvino::PROBED,
    &qnn::PROBED,
    &rten::PROBED,
    &tensorrt::PROBED,
    &tract::PROBED,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::OpType;

    #[test]
    fn the_tables_are_sorted_for_the_lookup() {
        for runtime in RUNTIMES {
            assert!(runtime.rows.is_sorted_by_key(|row| (row.op, row.since)), "{}", runtime.name);
            assert!(runtime.abilities.is_sorted(), "{}", runtime.name);
            assert!(runtime.miscomputed.is_sorted(), "{}", runtime.name);
        }
    }

    #[test]
    fn no_form_is_both_right_and_wrong() {
        for runtime in RUNTIMES {
            assert!(!runtime.miscomputed.iter().any(|&ability| runtime.is_able(ability)));
        }
    }

    #[test]
    fn a_refused_operator_takes_no_type() {
        let row = tract::PROBED.rows.iter().find(|row| row.op == OpType::Loop);
        assert!(row.is_some_and(|row| row.types.iter().all(|types| types.is_empty())));
    }

    #[test]
    fn runtimes_differ_in_what_a_scan_may_read() {
        assert!(tract::PROBED.is_able(Ability::ScanCaptures));
        assert!(!tract::PROBED.is_able(Ability::ScanUnreadInput));
        assert!(!openvino::PROBED.is_able(Ability::ScanCaptures));
        assert!(!rten::PROBED.is_able(Ability::Scan));
    }
}
