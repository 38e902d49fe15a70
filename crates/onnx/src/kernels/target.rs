//! The runtimes that a model is for.
//!
//! Builder, passes and lowering ask a [`Target`] what they may use. They know no runtime by its name, so that a runtime
//! or a version is data: a list of releases, a generated table of kernels, and a table of kernels with wrong numbers.

use smallvec::SmallVec;

use super::behavior::{When, Wrong};
use super::device::{DEVICES, Device};
use super::runtime::{RUNTIMES, Runtime};
pub(super) use super::runtime::{Release, Row};
use super::view::View;
use super::{Kernel, Limit, Lookup, Support};
use crate::dtype::DType;
use crate::operator::OpType;
use crate::operator::properties::CASTS;

/// All releases of a runtime from one on.
#[derive(Clone, Copy, Debug)]
struct Range {
    runtime: &'static Runtime,
    /// The index of the oldest release.
    oldest: usize,
}

/// The most runtimes that [`RUNTIMES`] contains.
const MOST: usize = 16;

/// The runtimes that a model is for. The model runs in every one of them.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// For each runtime the index of the oldest release, if the model is for the runtime.
    oldest: [Option<u8>; MOST],
    /// The device of the default runtime.
    pub(super) device: Option<&'static Device>,
}

impl Default for Target {
    /// Returns every release of ONNX Runtime that the documentation promises.
    fn default() -> Target {
        let mut oldest = [None; MOST];
        oldest[0] = Some(0);
        Target { oldest, device: None }
    }
}

/// A name in `target=` that stands for no runtime.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownTarget {
    #[error("`{given}` is not a target: use {}", names().collect::<Vec<_>>().join(", "))]
    Runtime { given: String },
    #[error("`{given}` is not a target: jax2onnx knows {runtime} {releases}")]
    Release { given: String, runtime: &'static str, releases: String },
}

/// Returns the names of all runtimes, as `target=` takes them.
pub fn names() -> impl Iterator<Item = &'static str> {
    RUNTIMES.iter().map(|runtime| runtime.key).chain(DEVICES.iter().map(|device| device.key))
}

impl Target {
    /// Reads names such as `openvino` or `onnxruntime>=1.31`. Without a name, returns the default.
    pub fn parse<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Target, UnknownTarget> {
        let mut oldest = [None; MOST];
        let mut device = None;
        for name in names {
            let (key, version) = match name.split_once(">=") {
                Some((key, version)) => (key.trim(), Some(version.trim())),
                None => (name.trim(), None),
            };
            let own = DEVICES.iter().find(|device| device.key == key);
            device = own.or(device);
            // A device belongs to the default runtime, which is the first one.
            let key = if own.is_some() { RUNTIMES[0].key } else { key };
            let known = RUNTIMES.iter().zip(&mut oldest).find(|(runtime, _)| runtime.key == key);
            let Some((runtime, oldest)) = known else {
                return Err(UnknownTarget::Runtime { given: name.into() });
            };
            let index = version.map_or(Some(0), |version| runtime.release_since(version));
            let Some(index) = index else {
                let releases = runtime.spell_releases();
                let (given, runtime) = (name.into(), runtime.name);
                return Err(UnknownTarget::Release { given, runtime, releases });
            };
            *oldest = Some(oldest.map_or(index, |known: u8| known.min(index)));
        }
        let is_empty = oldest.iter().all(Option::is_none);
        Ok(if is_empty { Target::default() } else { Target { oldest, device } })
    }

    fn ranges(&self) -> impl Iterator<Item = Range> {
        let ranges = RUNTIMES.iter().zip(self.oldest);
        ranges.filter_map(|(runtime, oldest)| Some(Range { runtime, oldest: oldest?.into() }))
    }

    /// Returns the newest opset that every runtime loads.
    pub fn newest_opset(&self) -> Option<i64> {
        self.ranges().filter_map(|range| range.releases().first()).map(|it| it.opset).min()
    }

    /// Returns the runtimes except the default one and its device.
    #[must_use]
    pub fn without_default(mut self) -> Target {
        self.oldest[0] = None;
        self.device = None;
        self
    }

    /// True if the model is for a build of ONNX Runtime, perhaps among others.
    pub fn includes_onnxruntime(self) -> bool {
        self.ranges().any(|range| range.runtime.optimizes)
    }

    /// True if the model is for the default runtime only. Then the builder refuses what it cannot write at once.
    /// Otherwise the passes may still remove it.
    pub fn is_default(self) -> bool {
        self.oldest[1..].iter().all(Option::is_none)
    }

    /// True if the model is for a device.
    pub fn has_device(self) -> bool {
        self.device.is_some()
    }

    /// True if every runtime has the operators `LinearAttention` and `CausalConvWithState` of the domain `com.microsoft`.
    pub fn has_state_operators(self) -> bool {
        let has = |range: Range| {
            range.runtime.is_default()
                && range.releases().first().is_some_and(|release| release.version >= (1, 31))
        };
        self.device.is_none() && self.ranges().all(has)
    }

    /// True if some runtime has a limit.
    pub fn has_limit(&self, limit: Limit) -> bool {
        self.ranges().any(|range| limit.holds_in(range.runtime, range.oldest))
            || self.device.is_some_and(|device| device.miscomputes(limit))
    }

    /// True if some runtime does not take a node because of a limit.
    pub(crate) fn limits(&self, limit: Limit, view: &View<'_>) -> bool {
        self.ranges().any(|range| limit.concerns(range.runtime, range.oldest, view))
    }

    /// Returns the index of the oldest release of a runtime of the target.
    pub(super) fn oldest_of(&self, runtime: &Runtime) -> usize {
        let own = self.ranges().find(|range| std::ptr::eq(range.runtime, runtime));
        own.map_or(0, |range| range.oldest)
    }

    /// True if every runtime has the operator, for some types.
    pub fn has(&self, op: OpType, opset: i64) -> bool {
        self.ranges().all(|range| range.has(op, opset))
    }

    /// Returns each runtime by itself.
    pub(super) fn each(&self) -> impl Iterator<Item = (&'static Runtime, Target)> {
        self.ranges().map(|Range { runtime, oldest }| {
            let is_it = |known: &Runtime| std::ptr::eq(known, runtime);
            let mut alone = [None; MOST];
            for (slot, known) in alone.iter_mut().zip(RUNTIMES) {
                *slot = is_it(known).then_some(oldest as u8);
            }
            let device = self.device.filter(|_| std::ptr::eq(runtime, &raw const RUNTIMES[0]));
            (runtime, Target { oldest: alone, device })
        })
    }

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

    /// True if the kernel of the default runtime computes what ONNX says for every number of the type. Other runtimes do
    /// not count: the passes rewrite what they lack when all patterns are found.
    pub fn is_right(self, op: OpType, dtype: DType) -> bool {
        let mut defaults = self.ranges().filter(|range| range.runtime.is_default());
        defaults.all(|range| range.faults(op, dtype).next().is_none())
    }

    /// True if no kernel of `op` is wrong for numbers of ordinary programs.
    pub fn is_ordinary(self, op: OpType, dtype: DType) -> bool {
        let is_met = |row: &Wrong| row.is_ordinary(dtype);
        !self.ranges().any(|range| range.rounds(dtype) || range.faults(op, dtype).any(is_met))
    }

    /// True if no kernel of `op` computes large numbers of a type with fewer digits.
    pub fn keeps_digits(self, op: OpType, dtype: DType) -> bool {
        let is_met = |row: &Wrong| row.when.iter().any(|it| matches!(it, When::Any | When::Large));
        !self.ranges().any(|range| range.faults(op, dtype).any(is_met))
    }

    /// Returns the numbers of a type for which a kernel of `op` is wrong in ordinary programs.
    pub(super) fn wrong_numbers(self, op: OpType, dtype: DType) -> Option<Numbers> {
        let rows = || self.ranges().flat_map(move |range| range.faults(op, dtype));
        let kinds = || rows().filter(|row| row.is_ordinary(dtype)).flat_map(|row| row.when);
        let mut ordinary = kinds().filter(|kind| kind.is_ordinary(dtype)).peekable();
        if self.ranges().any(|range| range.rounds(dtype)) {
            return Some(Numbers::Most);
        }
        ordinary.peek()?;
        Some(match ordinary.all(|kind| matches!(kind, When::Zero | When::Large | When::Ties)) {
            false => Numbers::Most,
            true if kinds().any(|kind| *kind == When::Large) => Numbers::Large,
            true if kinds().any(|kind| *kind == When::Zero) => Numbers::Zero,
            true => Numbers::Ties,
        })
    }

    /// Returns what is wrong with `op` on operands of a type, if a runtime does not compute it correctly.
    pub fn fault(self, op: OpType, opset: i64, dtype: DType) -> Option<Fault> {
        let takes = |kernel: &Kernel| {
            kernel.variable_of_input(0).is_none_or(|variable| kernel.takes(variable, dtype))
        };
        if !self.has(op, opset)
            || matches!(self.kernel(op, opset), Lookup::Kernel(kernel) if !takes(&kernel))
        {
            return Some(Fault::Missing);
        }
        if !self.is_ordinary(op, dtype) {
            return Some(Fault::Wrong);
        }
        let is_nan = |row: &Wrong| row.when.contains(&When::Nan);
        let drops_nan = self.ranges().any(|range| range.faults(op, dtype).any(is_nan));
        drops_nan.then_some(Fault::OfNan)
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
        let casts = self.ranges().flat_map(|range| range.runtime.rows_of(OpType::Cast));
        let has_type = |opset: &i64| match self.kernel(OpType::Cast, *opset) {
            Lookup::Kernel(kernel) => kernel.takes(0, dtype),
            _ => false,
        };
        casts.map(|row| row.since).filter(has_type).min()
    }

    /// Returns what every runtime takes as operands of `op`, in models of this opset.
    pub(crate) fn kernel(self, op: OpType, opset: i64) -> Lookup {
        let mut ranges = self.ranges().map(|range| range.kernel(op, opset));
        let first = ranges.next().unwrap_or(Lookup::Unlisted);
        ranges.fold(first, |known, other| match (known, other) {
            (Lookup::Kernel(known), Lookup::Kernel(other)) => Lookup::Kernel(known.and(&other)),
            (Lookup::Kernel(_), lacking) | (lacking, _) => lacking,
        })
    }

    /// Returns the names of all runtimes, for a sentence.
    pub fn spell(self) -> String {
        self.ranges().map(|range| range.runtime.name).collect::<Vec<_>>().join(" and ")
    }

    /// Returns the names that [`Target::parse`] reads, separated by commas; nothing for the default.
    pub fn spell_names(self) -> Option<String> {
        let names: Vec<String> = self
            .ranges()
            .map(|range| {
                let is_default = range.runtime.is_default();
                let device = self.device.filter(|_| is_default).map(|device| device.key);
                let key = device.unwrap_or(range.runtime.key);
                match range.releases().first().filter(|_| range.oldest > 0) {
                    Some(Release { version: (major, minor), .. }) => {
                        format!("{key}>={major}.{minor}")
                    }
                    None => key.into(),
                }
            })
            .collect();
        (names != [RUNTIMES[0].key]).then(|| names.join(","))
    }

    /// Returns the name of each runtime with its oldest and its newest release.
    pub fn releases(self) -> impl Iterator<Item = (&'static str, Release, Release)> {
        let ranges: SmallVec<[Range; 2]> = self.ranges().collect();
        ranges.into_iter().filter_map(|range| {
            let promised = range.releases();
            Some((range.runtime.name, *promised.first()?, *promised.last()?))
        })
    }
}

/// The numbers for which a kernel is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    Most,
    /// A program may have no such numbers.
    Large,
    Zero,
    Ties,
    /// The program asks which numbers are NaN.
    Nan,
}

/// The reason why an operator does not compute what ONNX says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A runtime has no such operator.
    Missing,
    /// A runtime computes wrong numbers.
    Wrong,
    /// A runtime returns a number for a NaN, or the other way round.
    OfNan,
}

impl Range {
    /// Returns the rows about wrong numbers of `op`.
    fn faults(self, op: OpType, dtype: DType) -> impl Iterator<Item = &'static Wrong> {
        let version = self.releases().first().map(|release| release.version);
        self.runtime.wrong.iter().filter(move |row| {
            let is_met = row.right_since.is_none_or(|since| version < Some(since));
            is_met && row.op == op && row.types.contains(&dtype)
        })
    }

    fn releases(self) -> &'static [Release] {
        self.runtime.releases.get(self.oldest..).unwrap_or_default()
    }

    /// Returns the types that a runtime computes wrongly and that a wider type may replace, one bit each.
    fn wrong_mask(self, op: OpType) -> u32 {
        if op.is(CASTS) {
            return 0;
        }
        let rows = self.runtime.wrong.iter().filter(|row| row.op == op);
        let types = rows.flat_map(|row| row.types.iter().map(move |&dtype| (row, dtype)));
        let is_wrong = |&(row, dtype): &(&Wrong, DType)| {
            dtype.is_int() && dtype.bits() <= 32 && row.is_ordinary(dtype)
        };
        types.filter(is_wrong).fold(0, |mask, (_, dtype)| mask | 1 << dtype.code())
    }

    /// True if ordinary numbers of a type lose digits.
    fn rounds(self, dtype: DType) -> bool {
        self.runtime.narrowed.iter().any(|&(it, when)| it == dtype && when.is_ordinary(dtype))
    }

    /// True if `int64` has fewer bits.
    fn narrows(self) -> bool {
        self.runtime.narrowed.contains(&(DType::I64, When::High))
    }

    fn has(self, op: OpType, opset: i64) -> bool {
        match self.kernel(op, opset) {
            Lookup::Kernel(kernel) => !kernel.is_empty(),
            Lookup::Later(_) => false,
            Lookup::Unlisted => self.runtime.has_functions || self.runtime.has_body(op),
        }
    }

    /// Returns what all releases of the range take as operands of `op`.
    fn kernel(&self, op: OpType, opset: i64) -> Lookup {
        let mut later = None;
        for row in self.runtime.rows_of(op) {
            if (row.since..=row.until).contains(&opset) {
                let all =
                    |&(since, mask): &(usize, u32)| if since <= self.oldest { mask } else { 0 };
                let masks = row.types.iter().map(|types| types.iter().map(all).sum::<u32>());
                // The forms say more about a loop than its types.
                if self.runtime.has_body(op) && masks.clone().all(|mask| mask == 0) {
                    return Lookup::Unlisted;
                }
                let wrong = self.wrong_mask(op);
                return Lookup::Kernel(Kernel {
                    op,
                    inputs: row.inputs,
                    outputs: row.outputs,
                    types: masks.map(|mask| mask & !wrong).collect(),
                    narrows: self.narrows(),
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
    /// Returns the index of the first release from a version on.
    fn release_since(&self, version: &str) -> Option<u8> {
        let mut numbers = version.split('.').map(|number| number.parse::<u32>().ok());
        let version = (numbers.next()??, numbers.next().unwrap_or(Some(0))?);
        let index = self.releases.iter().position(|release| release.version >= version)?;
        u8::try_from(index).ok()
    }

    fn spell_releases(&self) -> String {
        let spell = |release: &Release| format!("{}.{}", release.version.0, release.version.1);
        match self.releases {
            [] => String::new(),
            [only] => spell(only),
            [first, .., last] => format!("{} to {}", spell(first), spell(last)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ONNX Runtime from the release of this index on.
    fn since(oldest: u8) -> Target {
        let mut target = Target::default();
        target.oldest[0] = Some(oldest);
        target
    }

    #[test]
    fn a_target_runs_what_all_of_its_releases_run() {
        let newest = Target::parse(["onnxruntime>=1.31"]).unwrap();
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
    fn a_kernel_of_several_runtimes_takes_what_each_of_them_takes() {
        let kernel = |inputs: &'static [usize], types: &[u32]| Kernel {
            op: OpType::Where,
            inputs,
            outputs: &[1],
            types: types.into(),
            narrows: false,
        };
        // The runtimes may number the variables of types in different orders.
        let both = kernel(&[0, 1, 1], &[0b1, 0b110]).and(&kernel(&[2, 1, 1], &[0, 0b10, 0b1]));
        assert_eq!(both.types[..], [0b1, 0b10]);
    }

    #[test]
    fn the_optimizations_of_onnx_runtime_are_those_of_its_builds() {
        let optimizes =
            |names: &[&str]| Target::parse(names.iter().copied()).unwrap().includes_onnxruntime();
        assert!(
            optimizes(&[])
                && optimizes(&["onnxruntime-web"])
                && optimizes(&["rten", "onnxruntime"])
        );
        assert!(!optimizes(&["rten"]));
    }

    #[test]
    fn a_target_is_a_name_and_perhaps_a_version() {
        let parse = |name| Target::parse([name]).map_err(|error| error.to_string());
        assert_eq!(parse("onnxruntime >= 1.31").unwrap().newest_opset(), Some(26));
        assert_eq!(Target::parse([]).unwrap().newest_opset(), Some(23));
        let unknown = "`nowhere` is not a target: use onnxruntime, ";
        assert!(parse("nowhere").unwrap_err().starts_with(unknown));
        for wrong in ["onnxruntime>=9", "onnxruntime>=", "onnxruntime>=a.b"] {
            let error = parse(wrong).unwrap_err();
            assert_eq!(
                error,
                format!("`{wrong}` is not a target: jax2onnx knows ONNX Runtime 1.23 to 1.31")
            );
        }
    }

    #[test]
    fn a_target_is_spelled_as_it_is_read() {
        let spell = |names: &str| Target::parse(names.split(',')).unwrap().spell_names();
        assert_eq!(Target::default().spell_names(), None);
        assert_eq!(spell("onnxruntime"), None);
        for names in ["onnxruntime>=1.31", "onnxruntime-cuda", "onnxruntime,openvino", "tract,rten"]
        {
            assert_eq!(spell(names).as_deref(), Some(names));
        }
        assert_eq!(spell("rten,onnxruntime>=1.25").as_deref(), Some("onnxruntime>=1.25,rten"));
    }

    #[test]
    fn the_rows_are_sorted_for_the_lookup() {
        for runtime in RUNTIMES {
            let rows = runtime.rows;
            assert!(rows.is_sorted_by_key(|row| (row.op, row.since)), "{}", runtime.key);
        }
        assert!(RUNTIMES.len() <= MOST);
    }

    #[test]
    fn the_documentation_promises_the_releases_of_the_default_target() {
        let readme = include_str!("../../../../README.md");
        let manifest = include_str!("../../../../pyproject.toml");
        for (name, oldest, newest) in Target::default().releases() {
            let [oldest, newest] = [oldest, newest]
                .map(|Release { version: (major, minor), .. }| format!("{major}.{minor}"));
            let (_, promised) = manifest.split_once("onnxruntime>=").expect("the oldest release");
            let promised = promised.split(['"', ',']).next().unwrap_or_default();
            assert!(format!("{promised}.").starts_with(&format!("{oldest}.")), "{promised}");
            let promise = format!("{name} {promised} to {newest}");
            assert!(readme.contains(&promise), "{promise}");
        }
    }
}
