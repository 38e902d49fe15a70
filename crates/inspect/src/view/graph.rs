//! Graphs, nodes, values and weights of a view.

use std::borrow::Cow;

use onnx::scan::{self, AttributeValue, Pair, Tensor};
use provenance::outline::GraphPlace;
use provenance::resolve::Sure;
use provenance::source_map::MapValue;
use provenance::{OriginId, keys};
use rustc_hash::FxHashMap;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::limits::Limits;
use super::places::Places;
use super::statistics::{Statistics, Summary};
use crate::Document;
use crate::show::attribute_text;

/// The maximum length of the text of an attribute.
const MAX_TEXT: usize = 400;

/// A graph with the numbers of its values.
#[derive(Debug)]
pub(super) struct Graph<'d> {
    place: &'d GraphPlace,
    name: Cow<'d, str>,
    /// The node and the attribute that contain a body, if the view contains the node.
    owner: Option<(u32, Cow<'d, str>)>,
    first: usize,
    count: usize,
    inputs: Vec<u32>,
    outputs: Vec<u32>,
}

/// A node with the numbers of its values and its origin.
#[derive(Debug)]
pub(super) struct Node<'d> {
    name: Cow<'d, str>,
    op: Cow<'d, str>,
    graph: u32,
    inputs: Vec<i64>,
    pub(super) outputs: Vec<i64>,
    pub(super) origin: i64,
    sure: Sure,
    attributes: Vec<(Cow<'d, str>, Cow<'d, str>)>,
    pub(super) has_line: bool,
}

/// A value, its bytes, its origin, whether its contents are in another file, and their summary.
pub(super) type Weight = (u32, u64, i64, u8, Option<Summary>);

/// A name, a type and a path.
pub(super) type Value<'d> = (Cow<'d, str>, Option<Cow<'d, str>>, Option<Cow<'d, str>>);

/// The lists of `docs/view-format.md` that describe what a model computes.
pub(super) struct Contents<'d> {
    pub(super) graphs: Vec<Graph<'d>>,
    pub(super) nodes: Vec<Node<'d>>,
    pub(super) values: Vec<Value<'d>>,
    pub(super) weights: Vec<Weight>,
}

pub(super) fn read<'d>(
    document: &'d Document<'_>,
    origins: &mut Places<'d>,
    limits: &mut Limits,
) -> Contents<'d> {
    let scan = &document.scan;
    let kept_graphs = limits.graphs.take(scan.graphs.len());
    let kept_nodes = limits.nodes.take(scan.nodes.len());
    let is_left_out = |node: &scan::Node<'_>| node.graph as usize >= kept_graphs;
    let kept_nodes = scan.nodes[..kept_nodes].iter().position(is_left_out).unwrap_or(kept_nodes);
    let of_map = document.map_values().iter().map(|value| (&*value.name, value)).collect();
    let mut values =
        Values { document, limits, of_map, known: FxHashMap::default(), list: Vec::new() };
    let mut weights = Vec::new();
    let mut statistics = Statistics::new(document);
    let mut graphs = Vec::new();
    let mut outputs_of_nodes = Vec::new();
    for (number, graph) in scan.graphs[..kept_graphs].iter().enumerate() {
        let kept = values.limits.weights.take(graph.initializers.len());
        for tensor in &graph.initializers[..kept] {
            let value = values.declare(number, tensor.name, &tensor.metadata);
            let bytes = tensor.bytes().unwrap_or(tensor.typed as u64);
            let found = values.origins_of_weight(number, tensor);
            let origin = origins.origin(found, values.limits);
            let summary = statistics.of(tensor, values.limits);
            weights.push((value, bytes, origin, u8::from(tensor.is_external), summary));
        }
        let mut declare = |list: &'d [scan::ValueInfo<'_>]| -> Vec<u32> {
            let kept = values.limits.ends.take(list.len());
            let list = list[..kept].iter();
            list.map(|value| values.declare(number, value.name, &value.metadata)).collect()
        };
        let (inputs, outputs) = (declare(&graph.inputs), declare(&graph.outputs));
        let nodes = graph.nodes.start.min(kept_nodes)..graph.nodes.end.min(kept_nodes);
        let name = match &graph.place {
            GraphPlace::Function(name) => &**name,
            GraphPlace::Main | GraphPlace::Body { .. } => graph.name,
        };
        let owner = match &graph.place {
            GraphPlace::Body { node, attribute } if (*node as usize) < kept_nodes => {
                Some((*node, values.limits.cut(&**attribute)))
            }
            _ => None,
        };
        graphs.push(Graph {
            place: &graph.place,
            name: values.limits.cut(name),
            owner,
            first: nodes.start,
            count: nodes.len(),
            inputs,
            outputs,
        });
        for node in &scan.nodes[nodes] {
            let kept = values.limits.links.take(node.outputs.len());
            node.outputs[..kept].iter().filter(|name| !name.is_empty()).for_each(|name| {
                values.declare(number, name, &[]);
            });
            outputs_of_nodes.push(kept);
        }
    }
    let nodes = scan.nodes[..kept_nodes].iter().enumerate().map(|(number, node)| {
        let graph = node.graph as usize;
        let (sure, found) = document.answer(number);
        let origin = origins.origin(found, values.limits);
        let inputs = values.limits.links.take(node.inputs.len());
        let outputs = outputs_of_nodes.get(number).copied().unwrap_or(0);
        let is_body =
            |attribute: &&scan::Attribute<'_>| matches!(attribute.value(), AttributeValue::Graphs);
        let attributes = node.attributes.iter().filter(|attribute| !is_body(attribute));
        let kept = values.limits.attributes.take(attributes.clone().count());
        let mut text = |it: &'d scan::Attribute<'_>| {
            let name = values.limits.cut(it.name);
            (name, values.limits.cut(attribute_text(it, MAX_TEXT)))
        };
        let attributes = attributes.take(kept).map(&mut text).collect();
        Node {
            name: values.limits.cut(document.node_name(number)),
            op: values.limits.cut(node.op_with_domain()),
            graph: node.graph,
            inputs: values.seen_all(graph, &node.inputs[..inputs]),
            outputs: values.seen_all(graph, &node.outputs[..outputs]),
            has_line: origins.callsite(origin).is_some(),
            origin,
            sure,
            attributes,
        }
    });
    let nodes = nodes.collect();
    Contents { graphs, nodes, values: values.list, weights }
}

/// The values of all graphs, by graph and name.
struct Values<'l, 'd, 'a> {
    document: &'d Document<'a>,
    limits: &'l mut Limits,
    /// The values of the main graph in the source map.
    of_map: FxHashMap<&'d str, &'d MapValue>,
    known: FxHashMap<(usize, &'d str), u32>,
    list: Vec<Value<'d>>,
}

impl<'d> Values<'_, 'd, '_> {
    fn declare(&mut self, graph: usize, name: &'d str, metadata: &[Pair<'_>]) -> u32 {
        if let Some(&known) = self.known.get(&(graph, name)) {
            return known;
        }
        let number = self.list.len() as u32;
        let path = scan::meta(metadata, keys::PATH).map(ToOwned::to_owned).or_else(|| {
            let value = self.value_of_map(graph, name)?;
            (!value.paths.is_empty()).then(|| value.paths.join("\n"))
        });
        let ty = self.document.value_type(graph, name);
        let limits = &mut *self.limits;
        let mut cut = |text: String| limits.cut(text);
        let (ty, path) = (ty.map(&mut cut), path.map(&mut cut));
        self.list.push((self.limits.cut(name), ty, path));
        self.known.insert((graph, name), number);
        number
    }

    fn seen_all(&mut self, graph: usize, names: &[&'d str]) -> Vec<i64> {
        names.iter().map(|name| self.seen_from(graph, name)).collect()
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

    /// Returns the number of the value with a name, as seen from a graph, or -1 for an omitted input.
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
        let kind = match self.place {
            GraphPlace::Main => "main",
            GraphPlace::Function(_) => "function",
            GraphPlace::Body { .. } => "body",
        };
        map.serialize_entry("kind", kind)?;
        map.serialize_entry("name", &self.name)?;
        if let Some((node, attribute)) = &self.owner {
            map.serialize_entry("node", node)?;
            map.serialize_entry("attribute", attribute)?;
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
