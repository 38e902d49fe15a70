//! Graphs, nodes, values and weights of a view.

use onnx::scan::{self, AttributeValue, Pair, Tensor};
use provenance::outline::Place;
use provenance::resolve::Sure;
use provenance::source_map::MapValue;
use provenance::{OriginId, keys};
use rustc_hash::FxHashMap;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::places::Places;
use crate::Document;
use crate::show::attribute_text;

/// The longest text of an attribute.
const MAX_TEXT: usize = 400;

/// A graph with the numbers of its values.
#[derive(Debug)]
pub(super) struct Graph<'d> {
    place: &'d Place,
    name: &'d str,
    first: usize,
    count: usize,
    inputs: Vec<u32>,
    outputs: Vec<u32>,
}

/// A node with the numbers of its values and its origin.
#[derive(Debug)]
pub(super) struct Node<'d> {
    name: String,
    op: std::borrow::Cow<'d, str>,
    graph: u32,
    inputs: Vec<i64>,
    pub(super) outputs: Vec<i64>,
    pub(super) origin: i64,
    sure: Sure,
    attributes: Vec<(&'d str, String)>,
    pub(super) has_line: bool,
}

/// A value, its bytes, its origin, and whether its contents are in another file.
pub(super) type Weight = (u32, u64, i64, u8);

/// The lists of `docs/view-format.md` that describe what a model computes.
pub(super) struct Contents<'d> {
    pub(super) graphs: Vec<Graph<'d>>,
    pub(super) nodes: Vec<Node<'d>>,
    pub(super) values: Vec<(&'d str, Option<String>, Option<String>)>,
    pub(super) weights: Vec<Weight>,
}

pub(super) fn read<'d>(document: &'d Document<'_>, origins: &mut Places<'d>) -> Contents<'d> {
    let scan = &document.scan;
    let of_map = document.map_values().iter().map(|value| (&*value.name, value)).collect();
    let mut values = Values { document, of_map, known: FxHashMap::default(), list: Vec::new() };
    let mut weights = Vec::new();
    let mut graphs = Vec::new();
    for (number, graph) in scan.graphs.iter().enumerate() {
        for tensor in &graph.initializers {
            let value = values.declare(number, tensor.name, &tensor.metadata);
            let bytes = tensor.bytes().unwrap_or(tensor.typed as u64);
            let origin = origins.origin(values.origins_of_weight(number, tensor));
            weights.push((value, bytes, origin, u8::from(tensor.is_external)));
        }
        let mut declare = |list: &'d [scan::ValueInfo<'_>]| -> Vec<u32> {
            list.iter().map(|value| values.declare(number, value.name, &value.metadata)).collect()
        };
        graphs.push(Graph {
            place: &graph.place,
            name: graph.name,
            first: graph.nodes.start,
            count: graph.nodes.len(),
            inputs: declare(&graph.inputs),
            outputs: declare(&graph.outputs),
        });
        for node in &scan.nodes[graph.nodes.clone()] {
            node.outputs.iter().filter(|name| !name.is_empty()).for_each(|name| {
                values.declare(number, name, &[]);
            });
        }
    }
    let nodes = scan.nodes.iter().enumerate().map(|(number, node)| {
        let graph = node.graph as usize;
        let (sure, found) = document.answer(number);
        let origin = origins.origin(found);
        let is_body =
            |attribute: &&scan::Attribute<'_>| matches!(attribute.value(), AttributeValue::Graphs);
        let attributes = node.attributes.iter().filter(|attribute| !is_body(attribute));
        Node {
            name: document.node_name(number),
            op: node.op_with_domain(),
            graph: node.graph,
            inputs: node.inputs.iter().map(|name| values.seen_from(graph, name)).collect(),
            outputs: node.outputs.iter().map(|name| values.seen_from(graph, name)).collect(),
            has_line: origins.callsite(origin).is_some(),
            origin,
            sure,
            attributes: attributes.map(|it| (it.name, attribute_text(it, MAX_TEXT))).collect(),
        }
    });
    let nodes = nodes.collect();
    Contents { graphs, nodes, values: values.list, weights }
}

/// The values of all graphs, by graph and name.
struct Values<'d, 'a> {
    document: &'d Document<'a>,
    /// The values of the main graph in the source map.
    of_map: FxHashMap<&'d str, &'d MapValue>,
    known: FxHashMap<(usize, &'d str), u32>,
    list: Vec<(&'d str, Option<String>, Option<String>)>,
}

impl<'d> Values<'d, '_> {
    fn declare(&mut self, graph: usize, name: &'d str, metadata: &[Pair<'_>]) -> u32 {
        if let Some(&known) = self.known.get(&(graph, name)) {
            return known;
        }
        let number = self.list.len() as u32;
        let path = scan::meta(metadata, keys::PATH).map(ToOwned::to_owned).or_else(|| {
            let value = self.value_of_map(graph, name)?;
            (!value.paths.is_empty()).then(|| value.paths.join("\n"))
        });
        self.list.push((name, self.document.value_type(graph, name), path));
        self.known.insert((graph, name), number);
        number
    }

    fn value_of_map(&self, graph: usize, name: &str) -> Option<&'d MapValue> {
        if graph == 0 { self.of_map.get(name).copied() } else { None }
    }

    /// Returns the origins of a weight that was computed during the export.
    fn origins_of_weight(&self, graph: usize, tensor: &Tensor<'_>) -> Vec<OriginId> {
        let written = scan::meta(&tensor.metadata, keys::ORIGIN).and_then(|text| text.parse().ok());
        let number = written.or_else(|| self.value_of_map(graph, tensor.name)?.origin);
        number.map(|number| self.document.origins(&[number])).unwrap_or_default()
    }

    /// Returns the number of the value that a name means in a graph, or -1 for an input that is left out.
    fn seen_from(&mut self, graph: usize, name: &'d str) -> i64 {
        if name.is_empty() {
            return -1;
        }
        let around = |&graph: &usize| self.document.graph(graph).and_then(|graph| graph.around);
        let mut graphs = std::iter::successors(Some(graph), around);
        let known = graphs.find_map(|graph| self.known.get(&(graph, name)).copied());
        known.unwrap_or_else(|| self.declare(graph, name, &[])).into()
    }
}

impl Serialize for Graph<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let (kind, name) = match self.place {
            Place::Main => ("main", self.name),
            Place::Function(name) => ("function", &**name),
            Place::Body { .. } => ("body", self.name),
        };
        map.serialize_entry("kind", kind)?;
        map.serialize_entry("name", name)?;
        if let Place::Body { node, attribute } = self.place {
            map.serialize_entry("node", node)?;
            map.serialize_entry("attribute", &**attribute)?;
        }
        map.serialize_entry("first", &self.first)?;
        map.serialize_entry("count", &self.count)?;
        map.serialize_entry("inputs", &self.inputs)?;
        map.serialize_entry("outputs", &self.outputs)?;
        map.end()
    }
}

impl Serialize for Node<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Node { name, op, graph, inputs, outputs, origin, sure, attributes, .. } = self;
        (name, op, graph, inputs, outputs, origin, sure.word(), attributes).serialize(serializer)
    }
}
