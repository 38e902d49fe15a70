//! The runtimes that a model is for.
//!
//! Builder, passes and lowering ask a [`Target`] what they may use. They know no runtime by its name, so that a runtime
//! or a version is data: a list of releases, a generated table of kernels, and a table of kernels with wrong numbers.

use smallvec::SmallVec;

use super::behavior::{WRONG, Wrong};
use super::{Kernel, Lookup, Support, generated};
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

/// A runtime as data.
#[derive(Debug)]
struct Runtime {
    name: &'static str,
    /// The oldest is first.
    releases: &'static [Release],
    /// By operator and opset.
    rows: &'static [Row],
    wrong: &'static [Wrong],
}

const ONNX_RUNTIME: Runtime = Runtime {
    name: "ONNX Runtime",
    releases: generated::RELEASES,
    rows: generated::ROWS,
    wrong: WRONG,
};

/// All releases of a runtime from one on.
#[derive(Debug)]
struct Range {
    runtime: &'static Runtime,
    /// The index of the oldest release.
    oldest: usize,
}

/// The runtimes that a model is for. The model runs in every one of them.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    ranges: &'static [Range],
}

impl Default for Target {
    /// Returns every release of ONNX Runtime that the documentation promises.
    fn default() -> Target {
        Target { ranges: &[Range { runtime: &ONNX_RUNTIME, oldest: 0 }] }
    }
}

impl Target {
    /// Says whether every runtime computes `op` on operands of a type correctly and without a cast.
    pub fn runs(self, op: OpType, opset: i64, dtype: DType) -> Support {
        match self.kernel(op, opset) {
            Lookup::Kernel(kernel) => match kernel.variable_of_input(0) {
                Some(variable) if kernel.takes(variable, dtype) && self.is_right(op, dtype) => {
                    Support::Yes
                }
                _ => Support::No,
            },
            Lookup::Later(since) => Support::From(since),
            Lookup::Unlisted => Support::No,
        }
    }

    /// True if no kernel of `op` computes something else than ONNX says for a number of the type.
    pub fn is_right(self, op: OpType, dtype: DType) -> bool {
        let is_wrong = |range: &Range, row: &Wrong| {
            let version = range.runtime.releases.get(range.oldest).map(|release| release.version);
            let is_met = row.right_since.is_none_or(|since| version < Some(since));
            is_met && row.op == op && row.types.contains(&dtype)
        };
        !self.ranges.iter().any(|range| range.runtime.wrong.iter().any(|row| is_wrong(range, row)))
    }

    /// Returns a type of an operand or a result that some runtime has no kernel of `op` for, in models of this opset. A
    /// type that is not known counts as one that is taken, and so does every type of an operator without kernels, which
    /// is a function of ONNX.
    pub fn missing_type(
        self,
        op: OpType,
        opset: i64,
        operands: &[Option<DType>],
        results: &[Option<DType>],
    ) -> Option<DType> {
        let Lookup::Kernel(kernel) = self.kernel(op, opset) else {
            return None;
        };
        let of_operands =
            operands.iter().enumerate().map(|(at, &ty)| (kernel.variable_of_input(at), ty));
        let of_results =
            results.iter().enumerate().map(|(at, &ty)| (kernel.variable_of_output(at), ty));
        let known = of_operands.chain(of_results).filter_map(|(variable, ty)| variable.zip(ty));
        known
            .into_iter()
            .find(|&(variable, dtype)| !kernel.takes(variable, dtype))
            .map(|(_, dtype)| dtype)
    }

    /// Returns the first opset in which every runtime has values of the type; `None` if one never has, or rounds
    /// numbers to the type differently from JAX.
    pub fn type_comes_with(self, dtype: DType) -> Option<i64> {
        if dtype == DType::F8E8M0 {
            return None;
        }
        let casts = self.ranges.iter().flat_map(|range| range.runtime.rows_of(OpType::Cast));
        let has_type = |opset: &i64| match self.kernel(OpType::Cast, *opset) {
            Lookup::Kernel(kernel) => kernel.takes(0, dtype),
            _ => false,
        };
        casts.map(|row| row.since).filter(has_type).min()
    }

    /// Returns what every runtime takes as operands of `op`, in models of this opset.
    pub(crate) fn kernel(self, op: OpType, opset: i64) -> Lookup {
        let mut ranges = self.ranges.iter().map(|range| range.kernel(op, opset));
        let first = ranges.next().unwrap_or(Lookup::Unlisted);
        ranges.fold(first, |known, other| match (known, other) {
            (Lookup::Kernel(known), Lookup::Kernel(other)) => Lookup::Kernel(known.and(&other)),
            (Lookup::Kernel(_), lacking) | (lacking, _) => lacking,
        })
    }

    /// Returns the name of each runtime with its oldest and its newest release.
    pub fn releases(self) -> impl Iterator<Item = (&'static str, Release, Release)> {
        self.ranges.iter().filter_map(|Range { runtime, oldest }| {
            let promised = runtime.releases.get(*oldest..)?;
            Some((runtime.name, *promised.first()?, *promised.last()?))
        })
    }
}

impl Range {
    /// Returns what all releases of the range take as operands of `op`.
    fn kernel(&self, op: OpType, opset: i64) -> Lookup {
        let mut later = None;
        for row in self.runtime.rows_of(op) {
            if (row.since..=row.until).contains(&opset) {
                let all =
                    |&(since, mask): &(usize, u32)| if since <= self.oldest { mask } else { 0 };
                let masks = row.types.iter().map(|types| types.iter().map(all).sum());
                return Lookup::Kernel(Kernel {
                    op,
                    inputs: row.inputs,
                    outputs: row.outputs,
                    types: masks.collect::<SmallVec<[u32; 4]>>(),
                });
            }
            if row.since > opset {
                later = later.or(Some(row.since));
            }
        }
        later.map_or(Lookup::Unlisted, Lookup::Later)
    }
}

impl Runtime {
    fn rows_of(&self, op: OpType) -> impl Iterator<Item = &'static Row> + use<> {
        let start = self.rows.partition_point(|row| row.op < op);
        self.rows[start..].iter().take_while(move |row| row.op == op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ONNX Runtime from the release of this index on.
    fn since(oldest: usize) -> Target {
        let range = Range { runtime: &ONNX_RUNTIME, oldest };
        Target { ranges: Box::leak(Box::new([range])) }
    }

    #[test]
    fn a_target_runs_what_all_of_its_releases_run() {
        let newest = since(generated::RELEASES.len() - 1);
        let operands = [DType::Bool, DType::U32, DType::U32].map(Some);
        let missing = |target: Target| target.missing_type(OpType::Where, 23, &operands, &[]);
        assert_eq!(missing(newest), None);
        assert_eq!(missing(Target::default()), Some(DType::U32));
        assert_eq!(Target::default().runs(OpType::Max, 23, DType::U8), Support::No);
        assert_eq!(since(1).runs(OpType::Max, 23, DType::U8), Support::Yes);
    }

    #[test]
    fn a_release_that_does_not_load_an_opset_does_not_lack_its_kernels() {
        let target = Target::default();
        assert_eq!(target.runs(OpType::Max, 24, DType::U8), Support::Yes);
        assert_eq!(target.runs(OpType::TensorScatter, 24, DType::F32), Support::No);
        assert_eq!(target.runs(OpType::TensorScatter, 26, DType::F32), Support::Yes);
        assert_eq!(target.type_comes_with(DType::U2), Some(25));
        assert_eq!(target.type_comes_with(DType::F32), Some(13));
    }

    #[test]
    fn several_runtimes_run_what_each_of_them_runs() {
        static FEW: Runtime = Runtime {
            name: "few",
            releases: &[Release { version: (0, 1), opset: 23 }],
            rows: &[Row {
                op: OpType::Add,
                since: 14,
                until: 23,
                inputs: &[0, 0],
                outputs: &[0],
                types: &[&[(0, 1 << 6)]],
            }],
            wrong: &[],
        };
        static BOTH: [Range; 2] =
            [Range { runtime: &ONNX_RUNTIME, oldest: 0 }, Range { runtime: &FEW, oldest: 0 }];
        let target = Target { ranges: &BOTH };
        assert_eq!(target.runs(OpType::Add, 23, DType::I32), Support::Yes);
        assert_eq!(target.runs(OpType::Add, 23, DType::F32), Support::No);
        assert_eq!(target.runs(OpType::Sub, 23, DType::I32), Support::No);
    }

    #[test]
    fn the_rows_are_sorted_for_the_lookup() {
        assert!(generated::ROWS.is_sorted_by_key(|row| (row.op, row.since)));
    }

    #[test]
    fn the_documentation_promises_the_releases_of_the_default_target() {
        let readme = include_str!("../../../../README.md");
        let manifest = include_str!("../../../../pyproject.toml");
        for (name, oldest, newest) in Target::default().releases() {
            let [oldest, newest] = [oldest, newest]
                .map(|Release { version: (major, minor), .. }| format!("{major}.{minor}"));
            assert!(readme.contains(&format!("{name} {oldest} to {newest}")), "{oldest} {newest}");
            assert!(manifest.contains(&format!("onnxruntime>={oldest}")), "{oldest}");
        }
    }
}
