//! The runtimes that jax2onnx knows, as data.

use super::behavior::{WRONG, When, Wrong};
use super::generated;
use super::probed::{self, Ability, Probed, Source};
use crate::dtype::DType;
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

/// The source of the table of a runtime.
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
    /// The types that have fewer digits in the runtime, with the numbers that do not fit.
    pub narrowed: &'static [(DType, When)],
    /// The forms of operators that it runs correctly, sorted; `None` if it runs all of them.
    pub abilities: Option<&'static [Ability]>,
    /// The forms that it runs with wrong numbers, sorted.
    pub miscomputed: &'static [Ability],
    /// The types of inputs and outputs of a model, one bit each by the number of the type.
    pub interface: u32,
    /// The abilities whose results are wrong in the releases before a version.
    pub mended: &'static [(Ability, (u32, u32))],
    /// The types of constants, one bit each.
    pub constants: u32,
    /// The types that it computes in narrower ones. Inputs of a model cannot have them.
    pub demoted: &'static [DType],
    /// The operators that are not of ONNX, by domain and name, each with the first release that has it; `None` if they are
    /// not known.
    pub others: Option<&'static [(&'static str, &'static str, usize)]>,
    /// True if it runs an operator without a kernel as the function by which ONNX defines it.
    pub has_functions: bool,
    /// True if it has the optimizations of ONNX Runtime, some of which are wrong.
    pub optimizes: bool,
    pub evidence: Evidence,
}

impl Runtime {
    const fn probed(key: &'static str, name: &'static str, probed: &Probed) -> Runtime {
        Runtime {
            key,
            name,
            releases: probed.releases,
            rows: probed.rows,
            wrong: probed.wrong,
            narrowed: probed.narrowed,
            abilities: Some(probed.abilities),
            miscomputed: probed.miscomputed,
            mended: &[],
            interface: probed.inputs,
            constants: probed.constants,
            demoted: probed.demoted,
            others: None,
            has_functions: false,
            optimizes: false,
            evidence: match probed.source {
                Source::Probe => Evidence::Run,
                Source::Documentation(_) => Evidence::Documentation,
            },
        }
    }

    /// Marks a build of ONNX Runtime.
    const fn of_onnxruntime(self) -> Runtime {
        Runtime { optimizes: true, ..self }
    }

    /// True for the runtime of the default target. Its table of wrong kernels was written by hand, and the builder
    /// avoids all of them.
    pub fn is_default(&self) -> bool {
        self.abilities.is_none()
    }

    pub fn rows_of(&self, op: OpType) -> impl Iterator<Item = &'static Row> + use<> {
        let start = self.rows.partition_point(|row| row.op < op);
        self.rows[start..].iter().take_while(move |row| row.op == op)
    }

    /// True if it runs loops or branches of this kind. Their types follow from their bodies, so that a table may have no
    /// row for them.
    pub fn has_body(&self, op: OpType) -> bool {
        match op {
            OpType::If => !self.lacks(Ability::If),
            OpType::Loop => !self.lacks(Ability::Loop),
            OpType::Scan => !self.lacks(Ability::Scan),
            _ => false,
        }
    }

    /// Says whether it has an operator that is not of ONNX, from the `oldest` of its releases on; `None` if that is not
    /// known.
    pub fn has_other(&self, domain: &str, name: &str, oldest: usize) -> Option<bool> {
        let others = self.others?;
        let found = others.binary_search_by(|&(of, op, _)| (of, op).cmp(&(domain, name)));
        Some(found.is_ok_and(|at| others[at].2 <= oldest))
    }

    pub fn takes_constant(&self, dtype: DType) -> bool {
        self.constants >> dtype.code() & 1 == 1
    }

    /// True if it does not run a form, or computes wrong numbers.
    pub fn lacks(&self, ability: Ability) -> bool {
        self.abilities.is_some_and(|able| able.binary_search(&ability).is_err())
    }

    /// True if it computes a form wrongly in all releases, or in the oldest one of a range.
    pub fn miscomputes(&self, ability: Ability, oldest: usize) -> bool {
        let version = self.releases.get(oldest).map(|release| release.version);
        let mut mended = self.mended.iter();
        self.miscomputed.binary_search(&ability).is_ok()
            || mended.any(|&(each, since)| each == ability && version.is_some_and(|it| it < since))
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
        narrowed: &[],
        abilities: None,
        miscomputed: &[],
        mended: &[(Ability::AttentionSoftcapMask, (1, 27))],
        interface: u32::MAX,
        constants: u32::MAX,
        demoted: &[],
        others: Some(generated::OTHERS),
        has_functions: true,
        optimizes: true,
        evidence: Evidence::Run,
    },
    Runtime::probed("onnxruntime-web", "onnxruntime-web", &probed::onnxruntime_web::PROBED)
        .of_onnxruntime(),
    Runtime::probed("openvino", "OpenVINO", &probed::openvino::PROBED),
    Runtime::probed("tract", "tract", &probed::tract::PROBED),
    Runtime::probed("rten", "rten", &probed::rten::PROBED),
    Runtime::probed("iree", "IREE", &probed::iree::PROBED),
    Runtime::probed("mnn", "MNN", &probed::mnn::PROBED),
    Runtime::probed("tensorrt", "TensorRT", &probed::tensorrt::PROBED),
    Runtime::probed("coreml", "Core ML", &probed::coreml::PROBED),
    Runtime::probed("qnn", "QNN", &probed::qnn::PROBED),
];
