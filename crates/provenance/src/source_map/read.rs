//! Reads a source map from an untrusted source.

use std::sync::Arc;

use serde_json::Value;

use super::{MapValue, Source, SourceMap, VERSION};
use crate::codec::{DecodeError, decode_value};
use crate::outline::{Graph, GraphPlace, Node, Outline};

/// The reason why a text is not a source map.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    #[error("this is not a source map, because it is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("this is not a source map, because it has no `{0}`")]
    Missing(&'static str),
    #[error("the source map has the unknown version {0}; update jax2onnx to read it")]
    Version(Value),
    #[error(transparent)]
    Table(#[from] DecodeError),
    #[error("entry {index} of `{list}` in the source map is malformed")]
    Malformed { list: &'static str, index: usize },
}

impl SourceMap {
    /// Reads a map from its text.
    pub fn read(text: &str) -> Result<SourceMap, MapError> {
        SourceMap::from_value(&serde_json::from_str(text)?)
    }

    /// Reads a map from JSON.
    pub fn from_value(document: &Value) -> Result<SourceMap, MapError> {
        let id = document.get("debug_id").and_then(Value::as_str);
        let debug_id = id.ok_or(MapError::Missing("debug_id"))?.into();
        match document.get("version") {
            None => return Err(MapError::Missing("version")),
            Some(version) if version.as_u64() != Some(VERSION) => {
                return Err(MapError::Version(version.clone()));
            }
            Some(_) => {}
        }
        let table = document.get("provenance").ok_or(MapError::Missing("provenance"))?;
        let provenance = Arc::new(decode_value(table)?);
        let known = provenance.origins.len();
        let sources = entries(document, "sources", source)?;
        let (outline, origins) = outline(document, known)?;
        let values = entries(document, "values", |entry| value(entry, known))?;
        Ok(SourceMap { debug_id, provenance, outline, origins, values, sources })
    }
}

fn value(entry: &Value, known: usize) -> Option<MapValue> {
    let [name, origin, paths @ ..] = entry.as_array()?.as_slice() else { return None };
    let paths = paths.iter().map(|path| path.as_str().map(Arc::from)).collect::<Option<_>>()?;
    Some(MapValue { name: name.as_str()?.into(), origin: node_origin(origin, known)?, paths })
}

fn source(entry: &Value) -> Option<Source> {
    let (sha256, text) = entry.as_array()?.split_first()?;
    let text_of = |value: &Value| value.as_str().map(str::to_owned);
    let text = match text {
        [] => None,
        [text] => Some(text_of(text)?),
        _ => return None,
    };
    Some(Source { sha256: if sha256.is_null() { None } else { Some(text_of(sha256)?) }, text })
}

/// Returns the outline, and the origin of each node. `known` is the number of origins.
fn outline(document: &Value, known: usize) -> Result<(Outline, Vec<Option<u32>>), MapError> {
    let ops: Vec<Arc<str>> = entries(document, "ops", |op| Some(op.as_str()?.into()))?;
    let graphs = list(document, "graphs")?;
    let nodes_of = |graph: &'_ Value| graph.get("nodes")?.as_array().map(Vec::len);
    let count: usize = graphs.iter().filter_map(nodes_of).sum();
    let mut outline = Outline::default();
    let mut origins = Vec::with_capacity(count);
    for (index, graph) in graphs.iter().enumerate() {
        let malformed = || MapError::Malformed { list: "graphs", index };
        let first = outline.nodes.len() as u32;
        let place = place(graph, first).ok_or_else(malformed)?;
        outline.graphs.push(Graph { place, first });
        for entry in graph.get("nodes").and_then(Value::as_array).ok_or_else(malformed)? {
            let (node, origin) = node(entry, &ops, count, known).ok_or_else(malformed)?;
            outline.nodes.push(node);
            origins.push(origin);
        }
    }
    Ok((outline, origins))
}

fn place(graph: &Value, first: u32) -> Option<GraphPlace> {
    match (graph.get("function"), graph.get("node")) {
        (None, None) => Some(GraphPlace::Main),
        (Some(name), None) => Some(GraphPlace::Function(name.as_str()?.into())),
        (None, Some(node)) => {
            let node = below(node, first as usize)?;
            let attribute = graph.get("attribute")?.as_str()?.into();
            Some(GraphPlace::Body { node, attribute })
        }
        _ => None,
    }
}

#[expect(clippy::option_option)]
fn node_origin(origin: &Value, known: usize) -> Option<Option<u32>> {
    if origin.is_null() { Some(None) } else { below(origin, known).map(Some) }
}

fn node(
    entry: &Value,
    ops: &[Arc<str>],
    count: usize,
    known: usize,
) -> Option<(Node, Option<u32>)> {
    let [name, op, origin, inputs, outputs @ ..] = entry.as_array()?.as_slice() else {
        return None;
    };
    let name: Arc<str> = name.as_str()?.into();
    let op = ops.get(below(op, ops.len())? as usize)?.clone();
    let inputs = inputs.as_array()?.iter().map(|input| below(input, count));
    let inputs = inputs.collect::<Option<_>>()?;
    let outputs = if outputs.is_empty() {
        vec![name.clone()]
    } else {
        outputs.iter().map(|output| output.as_str().map(Arc::from)).collect::<Option<_>>()?
    };
    Some((Node { name, op, inputs, outputs }, node_origin(origin, known)?))
}

fn list<'a>(document: &'a Value, list: &'static str) -> Result<&'a [Value], MapError> {
    let entries = document.get(list).and_then(Value::as_array);
    entries.map(Vec::as_slice).ok_or(MapError::Missing(list))
}

fn entries<T>(
    document: &Value,
    name: &'static str,
    mut read: impl FnMut(&Value) -> Option<T>,
) -> Result<Vec<T>, MapError> {
    let entries = list(document, name)?.iter().enumerate();
    let malformed = |index| MapError::Malformed { list: name, index };
    entries.map(|(index, entry)| read(entry).ok_or_else(|| malformed(index))).collect()
}

fn below(value: &Value, limit: usize) -> Option<u32> {
    let number = value.as_u64()?;
    (number < limit as u64).then_some(number as u32)
}
