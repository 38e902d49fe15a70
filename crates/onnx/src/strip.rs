//! Removes the provenance from a model, and restores it.

use provenance::source_map::Draft;
use provenance::{Level, keys};

use crate::proto::annotations::{self, Entry};
use crate::proto::{ReadError, annotate, skim};
use crate::source_map::{MapParts, NoMap, model_value};

mod annotations_json;

pub use annotations_json::NoAnnotations;

/// A model without some of its metadata.
#[derive(Clone, Debug)]
pub struct Stripped {
    pub model: Vec<u8>,
    /// The number of metadata entries that were removed.
    pub removed: usize,
}

/// Removes the metadata of jax2onnx that `level` does not include. With `keep_debug_id`, the id of the source map
/// stays.
pub fn strip(model: &[u8], level: Level, keep_debug_id: bool) -> Result<Stripped, ReadError> {
    skim(model).map_err(ReadError::from)?;
    let unwanted = |key: &str| match key {
        keys::CALLSITE | keys::PLUGIN | keys::FUSED_FROM | keys::PATH => level == Level::Off,
        keys::DEBUG_ID => !keep_debug_id,
        _ => keys::is_provenance(key),
    };
    let (model, entries) = annotations::take(model, &unwanted)?;
    Ok(Stripped { model, removed: entries.len() })
}

/// A model and its source map.
#[derive(Clone, Debug)]
pub struct Apart {
    pub model: Vec<u8>,
    pub map: String,
    pub removed: usize,
    /// The information that only a source map from the export itself would contain.
    pub lost: Vec<&'static str>,
}

/// The reason why a model cannot be stripped or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StripError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Map(#[from] NoMap),
    #[error(transparent)]
    Pair(#[from] provenance::source_map::WrongPair),
    #[error(transparent)]
    Source(#[from] provenance::source_map::MapError),
    #[error(transparent)]
    Annotations(#[from] NoAnnotations),
    #[error(
        "the model has no `{}`, so jax2onnx cannot tell whether this is its source map",
        keys::DEBUG_ID
    )]
    NoId,
    #[error(
        "the metadata cannot be restored byte for byte, because the encoding of the model is unusual"
    )]
    Form,
    #[error("the source map belongs to another model: its entries do not match this model")]
    Place,
}

/// Splits a model into one without provenance and a source map. [`attach`] restores the model from both, byte for
/// byte.
pub fn take_apart(model: &[u8]) -> Result<Apart, StripError> {
    let skim = skim(model).map_err(ReadError::from)?;
    let parts = MapParts::of(&skim)?;
    let (mut clean, entries) = annotations::take(model, &is_ours)?;
    if annotations::put(&clean, &entries)?.as_deref() != Some(model) {
        return Err(StripError::Form);
    }
    let more = [(annotations_json::KEY, annotations_json::write(&entries))];
    let draft = Draft { more: &more, ..parts.draft(&skim) };
    let id = model_value(&skim, keys::DEBUG_ID).map_or_else(|| draft.debug_id(), str::to_owned);
    annotations::push(&mut clean, keys::DEBUG_ID, &id);
    let map = draft.finish_with(&id);
    Ok(Apart { model: clean, map, removed: entries.len(), lost: parts.lost })
}

/// Writes the provenance of a source map into its model. If [`take_apart`] created the map, the result is the
/// original model.
pub fn attach(model: &[u8], map: &str) -> Result<Vec<u8>, StripError> {
    let skim = skim(model).map_err(ReadError::from)?;
    let (source_map, entries) = annotations_json::read(map)?;
    source_map.check(model_value(&skim, keys::DEBUG_ID).ok_or(StripError::NoId)?)?;
    let (clean, _) = annotations::take(model, &is_ours)?;
    match entries {
        Some(entries) => annotations::put(&clean, &entries)?.ok_or(StripError::Place),
        None => Ok(annotate(&clean, &source_map)?),
    }
}

fn is_ours(key: &str) -> bool {
    keys::is_provenance(key)
}
