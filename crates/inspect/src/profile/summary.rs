//! Sums the times of kernels by line, function, scope, operator, plugin or node.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::attribute::{Attribution, attribute};
use super::{Profile, Run, Spread};
use crate::{Document, Frame, Recorded};

/// The key that times are grouped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    #[default]
    Line,
    Function,
    Scope,
    Op,
    Plugin,
    /// A node as it ran.
    Node,
}

impl By {
    const ALL: [By; 6] = [By::Line, By::Function, By::Scope, By::Op, By::Plugin, By::Node];

    pub fn of_word(word: &str) -> Option<By> {
        By::ALL.into_iter().find(|by| by.word() == word)
    }

    pub fn words() -> Vec<&'static str> {
        By::ALL.iter().map(|by| by.word()).collect()
    }

    pub fn word(self) -> &'static str {
        match self {
            By::Line => "line",
            By::Function => "function",
            By::Scope => "scope",
            By::Op => "op",
            By::Plugin => "plugin",
            By::Node => "node",
        }
    }
}

/// The time of all kernels with the same key.
#[derive(Clone, Debug, PartialEq)]
pub struct Row<'d> {
    /// The key of the group; `None` if it is unknown.
    pub key: Option<String>,
    /// The line, or the first line of the function.
    pub frame: Option<Frame<'d>>,
    /// Microseconds in each counted run.
    pub times: Vec<u64>,
    pub spread: Spread,
    /// The share of the sum of all medians.
    pub share: f64,
    /// The number of times that kernels ran, in all counted runs.
    pub calls: u64,
    /// The operators, the longest time first.
    pub ops: Vec<String>,
}

/// The usual deviation of the runs on a quiet machine, as a share of the median, and the excess of their median
/// over the sum of the rows.
const MAX_DEVIATION: f64 = 0.2;
const MAX_EXCESS: f64 = 1.25;
/// Runs that take fewer microseconds vary on any machine, because ONNX Runtime counts whole microseconds.
const MIN_NOISE: f64 = 200.0;

/// A profile, grouped by a key.
#[derive(Clone, Debug)]
pub struct Summary<'d> {
    pub by: By,
    /// The rows, the longest median first.
    pub rows: Vec<Row<'d>>,
    pub warmup: Vec<Run>,
    pub runs: Vec<Run>,
    /// Microseconds of all kernels in a run.
    pub kernels: Spread,
    /// The sum of the medians of all rows, in microseconds. Shares are shares of it.
    pub sum: f64,
    /// True if other programs probably took time from the runs.
    pub is_noisy: bool,
    /// Microseconds of all kernels in all runs, including warm-up.
    pub total: u64,
    /// The share of the time in counted runs that has a line of the user.
    pub users: f64,
    /// The share of the time in counted runs that has any line.
    pub known: f64,
    /// A sentence about missing provenance, if the rows would need it.
    pub missing: Option<&'static str>,
}

/// Sums a profile. The first runs are for warming up and are listed separately.
pub fn summarize<'d>(
    document: &'d Document<'_>,
    profile: &Profile,
    by: By,
    warmup: Option<usize>,
) -> Summary<'d> {
    let attributions = attribute(document, profile);
    let runs = profile.runs.len();
    // A single run always counts.
    let warmup = warmup.unwrap_or(1).min(runs.saturating_sub(1));
    let counted = |times: &[u64]| -> u64 { times.iter().skip(warmup).sum() };
    let of_runs: Vec<u64> = profile.runs.iter().skip(warmup).map(|run| run.kernels).collect();
    let kernels = Spread::of(&of_runs);
    let of = |is_it: &dyn Fn(&Attribution<'_>) -> bool| -> f64 {
        let of_kind = profile.kernels.iter().zip(&attributions).filter(|(_, it)| is_it(it));
        let time: u64 = of_kind.map(|(kernel, _)| counted(&kernel.times)).sum();
        share(time as f64, of_runs.iter().sum::<u64>() as f64)
    };
    let mut groups: FxHashMap<Option<String>, Group<'d>> = FxHashMap::default();
    let mut order: Vec<Option<String>> = Vec::new();
    for (kernel, attribution) in profile.kernels.iter().zip(&attributions) {
        let (key, frame) = key(by, kernel, attribution);
        let group = groups.entry(key.clone()).or_insert_with(|| {
            order.push(key);
            Group { frame, times: vec![0; runs - warmup], ..Group::default() }
        });
        add(&mut group.times, &kernel.times[warmup..]);
        group.calls += counted(&kernel.calls);
        *group.ops.entry(kernel.op.clone()).or_default() += counted(&kernel.times);
    }
    let mut rows: Vec<Row<'d>> = Vec::new();
    for key in order {
        let Some(group) = groups.remove(&key) else { continue };
        rows.push(group.row(key));
    }
    let sum = rows.iter().map(|row| row.spread.median).sum();
    for row in &mut rows {
        row.share = share(row.spread.median, sum);
    }
    rows.sort_by(|a, b| {
        let by_median = b.spread.median.total_cmp(&a.spread.median);
        by_median.then_with(|| b.spread.mean.total_cmp(&a.spread.mean))
    });
    Summary {
        by,
        rows,
        warmup: profile.runs.iter().take(warmup).copied().collect(),
        runs: profile.runs.iter().skip(warmup).copied().collect(),
        kernels,
        sum,
        is_noisy: is_noisy(&kernels, sum, of_runs.len()),
        total: profile.total(),
        users: of(&|it| it.is_users),
        known: of(&|it| it.origin.as_ref().is_some_and(|origin| origin.callsite.is_some())),
        missing: document.missing().filter(|_| match by {
            By::Line | By::Function => true,
            By::Scope | By::Plugin => document.level == Recorded::Off,
            By::Op | By::Node => false,
        }),
    }
}

/// True if the runs differ much, or if a usual run has much more time than its rows usually have: pauses in a
/// different row each time.
fn is_noisy(kernels: &Spread, sum: f64, runs: usize) -> bool {
    let differs = kernels.median_deviation > MAX_DEVIATION * kernels.median;
    runs > 1 && kernels.median >= MIN_NOISE && (differs || kernels.median > MAX_EXCESS * sum)
}

#[derive(Default)]
struct Group<'d> {
    frame: Option<Frame<'d>>,
    times: Vec<u64>,
    calls: u64,
    ops: FxHashMap<Arc<str>, u64>,
}

impl<'d> Group<'d> {
    fn row(self, key: Option<String>) -> Row<'d> {
        let mut ops: Vec<(Arc<str>, u64)> = self.ops.into_iter().collect();
        ops.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Row {
            key,
            frame: self.frame,
            spread: Spread::of(&self.times),
            share: 0.0,
            times: self.times,
            calls: self.calls,
            ops: ops.into_iter().map(|(op, _)| op.to_string()).collect(),
        }
    }
}

/// Adds the times of a kernel run by run.
fn add(times: &mut [u64], more: &[u64]) {
    times.iter_mut().zip(more).for_each(|(time, more)| *time += more);
}

/// Returns a share of a whole, at most 1.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).min(1.0) } else { 0.0 }
}

/// Returns the key of a kernel, and the line to show for it.
fn key<'d>(
    by: By,
    kernel: &super::Kernel,
    attribution: &Attribution<'d>,
) -> (Option<String>, Option<Frame<'d>>) {
    let origin = attribution.origin.as_ref();
    let frame = origin.and_then(|origin| origin.callsite);
    match by {
        By::Line => (frame.map(|frame| frame.to_string()), frame),
        By::Function => {
            (frame.map(|frame| format!("{}, in {}", frame.file, frame.function)), frame)
        }
        By::Scope => (origin.map(|origin| origin.scope.join("/")), None),
        By::Op => (Some(kernel.op.to_string()), None),
        By::Plugin => {
            let plugin = origin.and_then(|origin| origin.plugin.as_ref());
            (plugin.map(|plugin| plugin.name.clone()), None)
        }
        By::Node => (Some(kernel.node.to_string()), frame),
    }
}
