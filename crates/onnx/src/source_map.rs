//! The source map of a model that says itself where its nodes came from.

use bytes::Bytes;
use provenance::codec::{self, DecodeError, Decoded};
use provenance::source_map::{Draft, Source};
use provenance::{SourceMap, keys};

use crate::proto::{ReadError, Skim, skim};

/// Why a model gives no source map.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoMap {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Table(#[from] DecodeError),
    #[error(
        "the model has no provenance table: export it with `provenance=\"indexed\"`, \
         or use its source map"
    )]
    NoTable,
    #[error("`{node}` has the origin `{found}`, which is not in the provenance table")]
    Origin { node: String, found: String },
}

/// The map of a model at the level `indexed`.
pub fn of_model(bytes: Bytes) -> Result<SourceMap, NoMap> {
    let skim = skim(bytes)?;
    let table = model_value(&skim, keys::PROVENANCE).ok_or(NoMap::NoTable)?;
    let provenance = codec::decode(table)?;
    let origins = origins(&skim, &provenance)?;
    let sources = vec![Source::default(); provenance.table.file_count()];
    let debug_id = match model_value(&skim, keys::DEBUG_ID) {
        Some(id) => id.into(),
        None => {
            let draft = Draft {
                table,
                outline: &skim.outline,
                origins: &origins,
                constants: &[],
                sources: &sources,
                more: &[],
            };
            draft.debug_id().into()
        }
    };
    let Skim { outline, .. } = skim;
    Ok(SourceMap { debug_id, provenance, outline, origins, constants: Vec::new(), sources })
}

/// What the model says under a key.
pub fn model_value<'a>(skim: &'a Skim, key: &str) -> Option<&'a str> {
    value(&skim.model_metadata, key)
}

fn origins(skim: &Skim, provenance: &Decoded) -> Result<Vec<Option<u32>>, NoMap> {
    let nodes = skim.outline.nodes.iter().zip(&skim.metadata);
    let origin = |(node, metadata): (&provenance::outline::Node, &Vec<(String, String)>)| {
        let Some(found) = value(metadata, keys::ORIGIN) else { return Ok(None) };
        let number = found.parse().ok();
        let known = number.filter(|&number: &u32| (number as usize) < provenance.origins.len());
        let unknown = || NoMap::Origin { node: node.name.to_string(), found: found.to_owned() };
        known.map(Some).ok_or_else(unknown)
    };
    nodes.map(origin).collect()
}

fn value<'a>(pairs: &'a [(String, String)], key: &str) -> Option<&'a str> {
    pairs.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
}
