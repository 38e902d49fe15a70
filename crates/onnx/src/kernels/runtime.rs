//! The runtimes that jax2onnx knows, as data.

use super::behavior::{WRONG, Wrong};
use super::generated;
use super::limit::Limit;
use crate::operator::OpType;

/// A version of a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    pub version: (u32, u32),
    /// The newest opset that it loads.
    pub opset: i64,
}

/// The operand types of one operator over a range of opsets.
#[derive(Debug)]
pub(crate) struct Row {
    pub op: OpType,
    pub since: i64,
    pub until: i64,
    /// The type variable of each operand; the last one repeats for a variadic operator.
    pub inputs: &'static [usize],
    /// The type variable of each result.
    pub outputs: &'static [usize],
    /// The types of each variable: the first release since which all releases that load the opset take them, and one
    /// bit for each by the number of the type.
    pub types: &'static [&'static [(usize, u32)]],
}

/// How the table of a runtime was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Each row is from the kernels that the runtime lists, or was run in it.
    Run,
    /// The rows are from its documentation.
    Documentation,
}

/// A runtime as data.
#[derive(Debug)]
pub(crate) struct Runtime {
    /// The name in `target=`.
    pub key: &'static str,
    pub name: &'static str,
    /// The oldest is first.
    pub releases: &'static [Release],
    /// By operator and opset.
    pub rows: &'static [Row],
    pub wrong: &'static [Wrong],
    pub limits: &'static [Limit],
    /// True if it runs an operator without a kernel as the function by which ONNX defines it.
    pub has_functions: bool,
    pub evidence: Evidence,
}

impl Runtime {
    pub fn rows_of(&self, op: OpType) -> impl Iterator<Item = &'static Row> + use<> {
        let start = self.rows.partition_point(|row| row.op < op);
        self.rows[start..].iter().take_while(move |row| row.op == op)
    }
}

/// All runtimes. The first one is the default target.
pub(crate) static RUNTIMES: &[Runtime] = &[
    Runtime {
        key: "onnxruntime",
        name: "ONNX Runtime",
        releases: generated::RELEASES,
        rows: generated::ROWS,
        wrong: WRONG,
        limits: &[],
        has_functions: true,
        evidence: Evidence::Run,
    },
];
