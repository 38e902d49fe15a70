//! Writes a source map after an export.

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use super::{MapValue, Source, VERSION};
use crate::codec::json::Json;
use crate::outline::{GraphPlace, Node, Outline};

/// The contents of a map.
#[derive(Clone, Debug)]
pub struct Draft<'a> {
    /// The text of the table.
    pub table: &'a str,
    pub outline: &'a Outline,
    /// The origin of each node of the outline.
    pub origins: &'a [Option<u32>],
    pub values: &'a [MapValue],
    /// The sources of the files in the table.
    pub sources: &'a [Source],
    /// Other keys of the document, with their values as JSON.
    pub more: &'a [(&'static str, String)],
}

impl Draft<'_> {
    /// Returns the text of the map, and the id that it shares with the model.
    pub fn finish(&self) -> (String, String) {
        let graphs = self.graphs();
        let id = debug_id([self.table, &graphs]);
        (self.with_id(&graphs, &id), id)
    }

    /// Returns the id that [`Draft::finish`] assigns.
    pub fn debug_id(&self) -> String {
        debug_id([self.table, &self.graphs()])
    }

    /// Returns the text of the map for a model that already has an id.
    pub fn finish_with(&self, id: &str) -> String {
        self.with_id(&self.graphs(), id)
    }

    fn with_id(&self, graphs: &str, id: &str) -> String {
        let mut json = Json::default();
        json.object(|json| {
            json.key("version").number(VERSION);
            json.key("debug_id").text(id);
            json.key("provenance").raw(self.table);
            json.key("sources").each(self.sources, |json, source| {
                json.list(|json| {
                    json.text_or_null(source.sha256.as_deref());
                    if let Some(text) = &source.text {
                        json.text(text);
                    }
                });
            });
            json.raw(graphs);
            for (key, value) in self.more {
                json.key(key).raw(value);
            }
        });
        json.finish()
    }

    /// Returns the part that describes the model: the operators, the graphs and the values.
    fn graphs(&self) -> String {
        let mut ops: IndexMap<&str, u32, FxBuildHasher> = IndexMap::default();
        for node in &self.outline.nodes {
            let next = ops.len() as u32;
            ops.entry(&node.op).or_insert(next);
        }
        let mut json = Json::default();
        json.key("ops").each(ops.keys(), |json, op| json.text(op));
        json.key("graphs").each(0..self.outline.graphs.len(), |json, index| {
            let graph = &self.outline.graphs[index];
            json.object(|json| {
                match &graph.place {
                    GraphPlace::Main => {}
                    GraphPlace::Function(name) => json.key("function").text(name),
                    GraphPlace::Body { node, attribute } => {
                        json.key("node").number(*node);
                        json.key("attribute").text(attribute);
                    }
                }
                let origins = self.origins.iter().skip(graph.first as usize);
                let nodes = self.outline.nodes_of(index).iter().zip(origins);
                json.key("nodes").each(nodes, |json, (node, origin)| {
                    let op = ops.get(&*node.op).copied().unwrap_or_default();
                    write_node(json, node, op, *origin);
                });
            });
        });
        json.key("values").each(self.values, |json, value| {
            json.list(|json| {
                json.text(&value.name);
                json.number_or_null(value.origin);
                value.paths.iter().for_each(|path| json.text(path));
            });
        });
        json.finish()
    }
}

/// Writes a node. Most nodes have one result with the name of the node.
fn write_node(json: &mut Json, node: &Node, op: u32, origin: Option<u32>) {
    json.list(|json| {
        json.text(&node.name);
        json.number(op);
        json.number_or_null(origin);
        json.list(|json| json.numbers(node.inputs.iter().copied()));
        if !matches!(node.outputs.as_slice(), [output] if *output == node.name) {
            node.outputs.iter().for_each(|output| json.text(output));
        }
    });
}

/// Returns an id that depends only on the contents: FNV-1a with 128 bits, in hexadecimal.
pub fn debug_id<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let bytes = parts.into_iter().flat_map(|part| part.bytes().chain([0]));
    let hash = bytes.fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME));
    format!("{hash:032x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_that_of_its_parts() {
        assert_eq!(debug_id([""]), "d228cb69101a8caf78912b704e4a147f");
        assert_ne!(debug_id(["ab", "c"]), debug_id(["a", "bc"]));
    }
}
