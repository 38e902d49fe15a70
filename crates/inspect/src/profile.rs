//! A profile of ONNX Runtime: how long each node took, run by run.
//!
//! The file is read event by event. The time of a node is its own: what the bodies of a loop took is
//! theirs. So the times add up to what the profile says, however the nodes are grouped.

mod attribute;
mod flamegraph;
mod read;
mod runs;
mod show;
mod stacks;
mod summary;
mod trace;

use std::io::Read;
use std::sync::Arc;

pub use attribute::{Attribution, attribute};
pub use flamegraph::flamegraph;
pub use read::{ProfileError, Shapes};
pub use runs::{Run, Spread};
pub use show::{Json, text};
pub use stacks::{Level, speedscope, stacks};
pub use summary::{By, Row, Summary, summarize};
pub use trace::trace;

/// A node of the model as it was run, and its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    pub node: Arc<str>,
    pub op: Arc<str>,
    pub provider: Arc<str>,
    /// Microseconds of its own, in each run.
    pub times: Vec<u64>,
    /// The number of times that it ran, in each run of the model.
    pub calls: Vec<u64>,
    /// The kernels before and after it if it was run first, for those whose name says nothing.
    pub before: Option<usize>,
    pub after: Option<usize>,
    pub shapes: Shapes,
}

/// The contents of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// In the order in which they were run first.
    pub kernels: Vec<Kernel>,
    pub runs: Vec<Run>,
}

impl Profile {
    /// Reads a profile.
    pub fn read(file: impl Read) -> Result<Profile, ProfileError> {
        runs::profile(read::events(file)?)
    }

    /// Returns the time of all kernels, in microseconds: the sum of those that no other contains.
    pub fn total(&self) -> u64 {
        self.kernels.iter().flat_map(|kernel| &kernel.times).sum()
    }
}

#[cfg(test)]
mod tests;
