//! Creates a source map from a model with provenance.

use std::sync::Arc;

use provenance::codec::{self, DecodeError, Decoded};
use provenance::from_text::{self, NodeTexts};
use provenance::source_map::{Draft, MapValue, Source};
use provenance::{FileId, SourceMap, keys};

use crate::proto::{ReadError, Skim, skim};

/// The reason why a model has no source map.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoMap {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Table(#[from] DecodeError),
    #[error(
        "the model contains no provenance: export it with a provenance level, \
         or use its source map"
    )]
    Nothing,
    #[error("the provenance table has {found} bytes, but jax2onnx writes at most {most}")]
    TableSize { found: usize, most: usize },
    #[error("`{node}` has the origin `{found}`, which is not in the provenance table")]
    Origin { node: String, found: String },
}

/// Returns the map of a model, from its table or from the texts on its nodes.
pub fn of_model(bytes: &[u8]) -> Result<SourceMap, NoMap> {
    let skim = skim(bytes).map_err(ReadError::from)?;
    let parts = MapParts::of(&skim)?;
    let id = model_value(&skim, keys::DEBUG_ID).map(str::to_owned);
    let debug_id = id.unwrap_or_else(|| parts.draft(&skim).debug_id()).into();
    let MapParts { provenance, origins, values, sources, .. } = parts;
    let Skim { outline, .. } = skim;
    let provenance = Arc::new(provenance);
    Ok(SourceMap { debug_id, provenance, outline, origins, values, sources })
}

/// Returns the metadata of a model under a key.
pub fn model_value<'a>(skim: &'a Skim, key: &str) -> Option<&'a str> {
    value(&skim.model_metadata, key)
}

/// The parts of a source map that the metadata of a model contains.
pub(crate) struct MapParts {
    table: String,
    provenance: Decoded,
    origins: Vec<Option<u32>>,
    values: Vec<MapValue>,
    sources: Vec<Source>,
    /// The parts that the metadata of its level leaves out.
    pub(crate) lost: Vec<&'static str>,
}

impl MapParts {
    pub(crate) fn of(skim: &Skim) -> Result<MapParts, NoMap> {
        let written = model_value(skim, keys::PROVENANCE);
        let (table, numbers, lost) = if let Some(table) = written {
            (table.to_owned(), None, Vec::new())
        } else {
            let values = skim.values.iter().map(|(_, pairs)| pairs);
            let texts: Vec<_> = skim.metadata.iter().chain(values).map(|p| texts(p)).collect();
            let read = from_text::read(&texts).ok_or(NoMap::Nothing)?;
            (read.table, Some(read.origins), read.lost)
        };
        let provenance = codec::decode(&table)?;
        let mut origins = numbers.map_or_else(|| written_numbers(skim, &provenance), Ok)?;
        let of_values = origins.split_off(skim.outline.nodes.len().min(origins.len()));
        let values = skim.values.iter().zip(of_values).map(|((name, pairs), origin)| MapValue {
            name: name.as_str().into(),
            origin,
            paths: value(pairs, keys::PATH)
                .into_iter()
                .flat_map(str::lines)
                .map(Into::into)
                .collect(),
        });
        let values = values.collect();
        let files = (0..provenance.table.file_count() as u32).map(FileId);
        let hash = |file| provenance.hash(file).map(str::to_owned);
        let sources = files.map(|file| Source { sha256: hash(file), text: None }).collect();
        Ok(MapParts { table, provenance, origins, values, sources, lost })
    }

    pub(crate) fn draft<'a>(&'a self, skim: &'a Skim) -> Draft<'a> {
        let MapParts { table, origins, values, sources, .. } = self;
        Draft { table, outline: &skim.outline, origins, values, sources, more: &[] }
    }
}

/// Returns the numbers of the origins of nodes, followed by those of values.
fn written_numbers(skim: &Skim, provenance: &Decoded) -> Result<Vec<Option<u32>>, NoMap> {
    let names = skim.outline.nodes.iter().map(|node| &*node.name);
    let nodes = names.zip(&skim.metadata);
    let values = skim.values.iter().map(|(name, metadata)| (name.as_str(), metadata));
    let origin = |(name, metadata): (&str, &Vec<(String, String)>)| {
        let Some(found) = value(metadata, keys::ORIGIN) else { return Ok(None) };
        let number = found.parse().ok();
        let known = number.filter(|&number: &u32| (number as usize) < provenance.origins.len());
        let unknown = || NoMap::Origin { node: name.to_owned(), found: found.to_owned() };
        known.map(Some).ok_or_else(unknown)
    };
    nodes.chain(values).map(origin).collect()
}

fn texts(metadata: &[(String, String)]) -> NodeTexts<'_> {
    NodeTexts {
        callsite: value(metadata, keys::CALLSITE),
        plugin: value(metadata, keys::PLUGIN),
        stacktrace: value(metadata, keys::STACKTRACE),
        jax_traceback: value(metadata, keys::JAX_TRACEBACK),
        fused_from: value(metadata, keys::FUSED_FROM),
    }
}

fn value<'a>(pairs: &'a [(String, String)], key: &str) -> Option<&'a str> {
    pairs.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
}
