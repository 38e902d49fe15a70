//! Computes the time of each node in each run from the events of a profile.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::read::{Event, EventKind, ProfileError};
use super::{Kernel, Profile};

/// The maximum number of times to store, and the additional number per event. A kernel has a time in every run, so
/// a few events could take much memory.
const MIN_TIMES: usize = 1 << 20;
const MAX_TIMES_PER_EVENT: usize = 8;

/// One run of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Microseconds from its start to its end, if the profile contains them.
    pub wall: Option<u64>,
    /// Microseconds of all kernels.
    pub kernels: u64,
}

/// Several measurements of one time, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    pub median: f64,
    /// The median of the distances from the median. One slow run does not change it.
    pub median_deviation: f64,
    pub mean: f64,
    /// The standard deviation.
    pub deviation: f64,
}

impl Spread {
    pub fn of(times: &[u64]) -> Spread {
        if times.is_empty() {
            return Spread::default();
        }
        let count = times.len() as f64;
        let mean = times.iter().map(|&time| time as f64).sum::<f64>() / count;
        let squares = times.iter().map(|&time| (time as f64 - mean).powi(2)).sum::<f64>();
        let deviation = if times.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
        let times: Vec<f64> = times.iter().map(|&time| time as f64).collect();
        let median = median(times.clone());
        let median_deviation =
            self::median(times.iter().map(|time| (time - median).abs()).collect());
        Spread { median, median_deviation, mean, deviation }
    }
}

/// Returns the median. There is at least one time.
fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    let (before, after) = (times[(times.len() - 1) / 2], times[times.len() / 2]);
    f64::midpoint(before, after)
}

/// Sums the events by node and run.
pub(super) fn profile(mut events: Vec<Event>) -> Result<Profile, ProfileError> {
    // An event that contains others starts before them, or at the same time and lasts longer.
    events.sort_by_key(|event| (event.start, u64::MAX - event.length));
    let spans = runs(&events);
    let own = own_times(&events);
    let mut runs: Vec<Run> =
        spans.iter().map(|span| Run { wall: Some(span.length), kernels: 0 }).collect();
    if runs.is_empty() {
        runs.push(Run::default());
    }
    let max_kernels = (MIN_TIMES + events.len() * MAX_TIMES_PER_EVENT) / runs.len();
    let mut kernels: Vec<Kernel> = Vec::new();
    let mut numbers: FxHashMap<[Option<Arc<str>>; 4], usize> = FxHashMap::default();
    let mut last: Option<usize> = None;
    for (event, own) in events.iter().zip(own) {
        let EventKind::Kernel { node, op, provider, index, shapes, bytes } = &event.kind else {
            continue;
        };
        let key = [Some(node.clone()), Some(op.clone()), Some(provider.clone()), index.clone()];
        let number = *numbers.entry(key).or_insert_with(|| {
            kernels.push(Kernel {
                node: node.clone(),
                op: op.clone(),
                provider: provider.clone(),
                times: vec![0; runs.len()],
                calls: vec![0; runs.len()],
                before: last,
                after: None,
                shapes: shapes.clone(),
                bytes: *bytes,
            });
            kernels.len() - 1
        });
        if kernels.len() > max_kernels {
            return Err(ProfileError::TooManyRuns { runs: runs.len() });
        }
        if let Some(last) = last
            && let Some(before) = kernels.get_mut(last)
            && before.after.is_none()
            && last != number
        {
            before.after = Some(number);
        }
        last = Some(number);
        let run = run_of(&spans, event);
        let kernel = &mut kernels[number];
        kernel.times[run] += own;
        kernel.calls[run] += 1;
        runs[run].kernels += own;
    }
    Ok(Profile { kernels, runs })
}

/// Returns the runs of the model in order. A run within another one does not count.
fn runs(events: &[Event]) -> Vec<&Event> {
    let mut runs: Vec<&Event> = Vec::new();
    for event in events.iter().filter(|event| event.kind == EventKind::Run) {
        let is_within = |run: &&Event| event.start + event.length <= run.start + run.length;
        if !runs.last().is_some_and(is_within) {
            runs.push(event);
        }
    }
    runs
}

/// Returns the run in which an event started, or the last one before it.
fn run_of(runs: &[&Event], event: &Event) -> usize {
    runs.partition_point(|run| run.start <= event.start).saturating_sub(1)
}

/// Returns the time of each event without the kernels within it. The events are sorted by start.
fn own_times(events: &[Event]) -> Vec<u64> {
    let mut own: Vec<u64> = events.iter().map(|event| event.length).collect();
    // The open kernels of each thread.
    let mut open: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
    for (number, event) in events.iter().enumerate() {
        if event.kind == EventKind::Run {
            continue;
        }
        let stack = open.entry(event.thread).or_default();
        let end = |number: usize| events[number].start + events[number].length;
        while stack
            .last()
            .is_some_and(|&around| end(around) < end(number) || end(around) <= event.start)
        {
            stack.pop();
        }
        if let Some(&around) = stack.last() {
            own[around] = own[around].saturating_sub(event.length);
        }
        stack.push(number);
    }
    own
}
