//! What a source map says, written into a model.

use bytes::Bytes;
use prost::Message;
use provenance::render::Renderer;
use provenance::{Level, PathPolicy, Paths, SourceMap, keys};
use rustc_hash::FxHashMap;

use super::ReadError;
use super::generated::{GraphProto, ModelProto, NodeProto, StringStringEntryProto};

/// The model at the level `indexed`; its own metadata of ours is replaced.
pub(crate) fn annotate(model: &[u8], map: &SourceMap) -> Result<Vec<u8>, ReadError> {
    let mut model = ModelProto::decode(Bytes::copy_from_slice(model))?;
    let nothing_there = |_: &std::path::Path| false;
    // The files of a map are named already as they are to be.
    let paths = Paths::new(PathPolicy::Absolute, &nothing_there);
    let mut renderer = Renderer::new(&map.provenance.table, Level::Indexed, paths, &[]);
    // The numbers of the table are those of the map.
    for &origin in &map.provenance.origins {
        renderer.number(origin);
    }
    let mut of_name: FxHashMap<&str, u32> = FxHashMap::default();
    for (node, origin) in map.outline.nodes.iter().zip(&map.origins) {
        of_name.extend(origin.map(|origin| (&*node.name, origin)));
    }
    let mut metadata = |node: &NodeProto| {
        let number = of_name.get(node.name.as_deref()?)?;
        let origin = map.provenance.origins.get(*number as usize)?;
        Some(renderer.node(*origin))
    };
    let mut open: Vec<&mut NodeProto> = Vec::new();
    open.extend(model.graph.iter_mut().flat_map(|graph| &mut graph.node));
    open.extend(model.functions.iter_mut().flat_map(|function| &mut function.node));
    while let Some(node) = open.pop() {
        let fresh = metadata(node).unwrap_or_default();
        node.metadata_props.retain(|entry| !is_ours(entry));
        node.metadata_props.extend(fresh.into_iter().map(|(key, value)| entry(key, value)));
        let bodies = node
            .attribute
            .iter_mut()
            .flat_map(|attribute| attribute.g.iter_mut().chain(&mut attribute.graphs));
        open.extend(bodies.flat_map(|graph: &mut GraphProto| &mut graph.node));
    }
    model.metadata_props.retain(|entry| !is_ours(entry));
    model.metadata_props.push(entry(keys::PROVENANCE, renderer.table()));
    model.metadata_props.push(entry(keys::DEBUG_ID, map.debug_id.to_string()));
    Ok(model.encode_to_vec())
}

fn is_ours(entry: &StringStringEntryProto) -> bool {
    entry.key.as_deref().is_some_and(|key| key.starts_with(keys::PREFIX))
}

fn entry(key: &str, value: String) -> StringStringEntryProto {
    StringStringEntryProto { key: Some(key.into()), value: Some(value) }
}
