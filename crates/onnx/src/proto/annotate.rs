//! Writes the provenance in a source map into a model.

use bytes::Bytes;
use prost::Message;
use provenance::render::Renderer;
use provenance::source_map::MapValue;
use provenance::{File, Level, PathPolicy, Paths, SourceMap, keys};
use rustc_hash::FxHashMap;

use super::ReadError;
use super::generated::{GraphProto, ModelProto, NodeProto, StringStringEntryProto};

/// Writes the provenance of a map into a model that has none, at the level `indexed`.
pub(crate) fn annotate(model: &[u8], map: &SourceMap) -> Result<Vec<u8>, ReadError> {
    let mut model = ModelProto::decode(Bytes::copy_from_slice(model))?;
    let nothing_there = |_: &std::path::Path| false;
    // A map already contains the paths to write.
    let paths = Paths::new(PathPolicy::Absolute, &nothing_there);
    let mut renderer = Renderer::new(&map.provenance.table, Level::Indexed, paths, &[]);
    // Origins keep their numbers.
    for &origin in &map.provenance.origins {
        renderer.number(origin);
    }
    let mut of_name: FxHashMap<&str, u32> = FxHashMap::default();
    for (node, origin) in map.outline.nodes.iter().zip(&map.origins) {
        of_name.extend(origin.map(|origin| (&*node.name, origin)));
    }
    let mut rendered = |number: u32| {
        let origin = map.provenance.origins.get(number as usize);
        let pairs = origin.map(|&origin| renderer.node(origin)).unwrap_or_default();
        pairs.into_iter().map(|(key, value)| entry(key, value)).collect::<Vec<_>>()
    };
    if let Some(graph) = &mut model.graph {
        annotate_values(graph, map, &mut rendered);
    }
    let mut open: Vec<&mut NodeProto> = Vec::new();
    open.extend(model.graph.iter_mut().flat_map(|graph| &mut graph.node));
    open.extend(model.functions.iter_mut().flat_map(|function| &mut function.node));
    while let Some(node) = open.pop() {
        let number = node.name.as_deref().and_then(|name| of_name.get(name));
        node.metadata_props.extend(number.into_iter().flat_map(|&number| rendered(number)));
        let bodies = node
            .attribute
            .iter_mut()
            .flat_map(|attribute| attribute.g.iter_mut().chain(&mut attribute.graphs));
        open.extend(bodies.flat_map(|graph: &mut GraphProto| &mut graph.node));
    }
    let hash = |number: usize, _: &File| map.sources.get(number)?.sha256.clone();
    let table = renderer.model(&hash);
    model.metadata_props.extend(table.map(|(key, table)| entry(key, table)));
    model.metadata_props.push(entry(keys::DEBUG_ID, map.debug_id.to_string()));
    Ok(model.encode_to_vec())
}

/// Writes the metadata of inputs, weights and outputs from the map.
fn annotate_values(
    graph: &mut GraphProto,
    map: &SourceMap,
    rendered: &mut impl FnMut(u32) -> Vec<StringStringEntryProto>,
) {
    let of_name: FxHashMap<&str, &MapValue> =
        map.values.iter().map(|value| (&*value.name, value)).collect();
    let ends = graph.input.iter_mut().chain(&mut graph.output);
    let ends = ends.map(|value| (value.name.as_deref(), &mut value.metadata_props));
    let weights = graph.initializer.iter_mut();
    let weights = weights.map(|tensor| (tensor.name.as_deref(), &mut tensor.metadata_props));
    for (name, props) in ends.chain(weights) {
        if let Some(value) = name.and_then(|name| of_name.get(name)) {
            if !value.paths.is_empty() {
                props.push(entry(keys::PATH, value.paths.join("\n")));
            }
            props.extend(value.origin.map(&mut *rendered).unwrap_or_default());
        }
    }
}

fn entry(key: &str, value: String) -> StringStringEntryProto {
    StringStringEntryProto { key: Some(key.into()), value: Some(value) }
}
