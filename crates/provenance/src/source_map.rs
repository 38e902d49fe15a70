//! Stores the table in a separate file, with the names of nodes and values as keys.
//!
//! `docs/provenance-format.md` is the specification of the file.

mod read;
mod write;

use std::sync::Arc;

use crate::codec::Decoded;
use crate::outline::Outline;

pub use read::MapError;
pub use write::{Draft, debug_id};

/// The version that jax2onnx writes, and the only one that it reads.
pub const VERSION: u64 = 1;

/// The origins of the nodes of a model, in a separate file.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    /// The same text as in the model: a map belongs to one model.
    pub debug_id: Arc<str>,
    pub provenance: Arc<Decoded>,
    pub outline: Outline,
    /// For each node of the outline, its number in `provenance.origins`.
    pub origins: Vec<Option<u32>>,
    /// The inputs, weights and outputs of the main graph.
    pub values: Vec<MapValue>,
    /// The sources of the files in the table.
    pub sources: Vec<Source>,
}

/// An input, a weight or an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapValue {
    pub name: Arc<str>,
    /// Its number in the table.
    pub origin: Option<u32>,
    /// The paths of the value in the inputs, weights and outputs of the function.
    pub paths: Vec<Arc<str>>,
}

/// The error for a map and a model that do not belong together.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "this is the source map of another model: its debug id is `{map}`, and the debug id of the model is `{model}`"
)]
pub struct WrongPair {
    map: String,
    model: String,
}

impl SourceMap {
    /// Refuses a model with another id.
    pub fn check(&self, model_id: &str) -> Result<(), WrongPair> {
        if model_id == &*self.debug_id {
            return Ok(());
        }
        Err(WrongPair { map: self.debug_id.to_string(), model: model_id.to_owned() })
    }
}

/// The recorded facts about a source file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: Option<String>,
    pub text: Option<String>,
}

#[cfg(test)]
mod tests;
