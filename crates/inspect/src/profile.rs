//! A profile of ONNX Runtime: the time of each node in each run.
//!
//! The file is read event by event. The time of a node excludes the bodies of a loop, whose nodes have their own
//! times. So the times add up to the total of the profile, however the nodes are grouped.

mod attribute;
mod copies;
mod flamegraph;
mod read;
mod runs;
mod show;
mod stacks;
mod summary;
mod trace;

use std::io::Read;
use std::sync::Arc;

pub(crate) use attribute::heaviest;
pub use attribute::{Attribution, attribute};
pub use copies::{CPU, Direction};
pub(crate) use copies::{Copied, copies};
pub(crate) use flamegraph::escaped;
pub use flamegraph::flamegraph;
pub use read::{ProfileError, Shapes};
pub use runs::{Run, Spread};
pub(crate) use show::time;
pub use show::{Json, text};
pub(crate) use stacks::level;
pub use stacks::{Level, speedscope, stacks};
pub use summary::{By, Row, Summary, summarize};
pub use trace::trace;

/// A node as it ran, and its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    pub node: Arc<str>,
    pub op: Arc<str>,
    pub provider: Arc<str>,
    /// Microseconds in each run, without nested kernels.
    pub times: Vec<u64>,
    /// The number of times that it ran, in each run of the model.
    pub calls: Vec<u64>,
    /// The kernels before and after its first run, for kernels whose names do not identify them.
    pub before: Option<usize>,
    pub after: Option<usize>,
    pub shapes: Shapes,
    /// The size of the results of its first run, in bytes.
    pub bytes: Option<u64>,
}

/// The contents of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// The kernels, in the order of their first run.
    pub kernels: Vec<Kernel>,
    pub runs: Vec<Run>,
}

impl Profile {
    /// Reads a profile.
    pub fn read(file: impl Read) -> Result<Profile, ProfileError> {
        runs::profile(read::events(file)?)
    }

    /// Returns a profile without times from the providers, names and operators of nodes.
    pub fn of_assignment(nodes: impl IntoIterator<Item = [String; 3]>) -> Profile {
        let kernel = |[provider, node, op]: [String; 3]| Kernel {
            node: node.into(),
            op: op.into(),
            provider: provider.into(),
            times: Vec::new(),
            calls: Vec::new(),
            before: None,
            after: None,
            shapes: Shapes::default(),
            bytes: None,
        };
        Profile { kernels: nodes.into_iter().map(kernel).collect(), runs: Vec::new() }
    }

    /// Returns the time of all kernels in microseconds.
    pub fn total(&self) -> u64 {
        self.kernels.iter().flat_map(|kernel| &kernel.times).sum()
    }
}

#[cfg(test)]
mod tests;
