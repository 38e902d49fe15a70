//! Reads a model file in place, without its weights.
//!
//! Names, types and metadata are borrowed from the bytes, and the contents of tensors are skipped. The file is
//! untrusted, so reading takes a bounded amount of memory, and recursion is bounded.

mod attribute;
mod message;
mod types;

use std::borrow::Cow;
use std::ops::Range;

use provenance::outline::{Outline, OutlineBuilder, Place};

pub use attribute::{Attribute, AttributeValue};
use message::Reader;
pub use types::{Dim, Tensor, ValueInfo, ValueType};

use super::wire::{Content, WireError};

/// The deepest nesting of bodies; protobuf itself stops at about a third of it.
pub const MAX_NESTED: usize = 100;

/// The largest memory for the entries of a file, in bytes.
const MAX_MEMORY: usize = 1 << 29;

/// The reason why a file cannot be read as a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    #[error("this is not an ONNX model: {why}, in the `{message}` at byte {at}")]
    Wire { message: &'static str, at: usize, why: WireError },
    #[error(
        "this is not an ONNX model: field {field} of the `{message}` at byte {at} has the wrong kind"
    )]
    Field { message: &'static str, field: u64, at: usize },
    #[error("this is not an ONNX model: it has no graph")]
    NoGraph,
    #[error("this is not an ONNX model: it has two graphs")]
    TwoGraphs,
    #[error("the text at byte {at}, in a `{message}`, is not UTF-8")]
    Utf8 { message: &'static str, at: usize },
    #[error("graphs or types are nested more than {MAX_NESTED} deep")]
    Nested,
    #[error("the file has more entries than a model can have")]
    TooMany,
}

/// Key and value, as they are in the file.
pub type Pair<'a> = (&'a str, &'a str);

/// A model without the contents of its weights.
#[derive(Clone, Debug, Default)]
pub struct Scan<'a> {
    pub ir_version: i64,
    pub producer: &'a str,
    pub producer_version: &'a str,
    pub domain: &'a str,
    pub model_version: i64,
    pub doc: &'a str,
    pub metadata: Vec<Pair<'a>>,
    /// Domain and version.
    pub opsets: Vec<(&'a str, i64)>,
    /// The main one, the functions, the bodies; each behind the one that it is a body in.
    pub graphs: Vec<Graph<'a>>,
    /// In the order of their graphs.
    pub nodes: Vec<Node<'a>>,
}

/// A graph, a function, or the body of a node.
#[derive(Clone, Debug)]
pub struct Graph<'a> {
    pub place: Place,
    /// The graph whose values are seen from this one.
    pub around: Option<usize>,
    pub name: &'a str,
    pub doc: &'a str,
    pub inputs: Vec<ValueInfo<'a>>,
    pub outputs: Vec<ValueInfo<'a>>,
    /// The types of other values.
    pub values: Vec<ValueInfo<'a>>,
    pub initializers: Vec<Tensor<'a>>,
    pub metadata: Vec<Pair<'a>>,
    /// For a function, domain and version.
    pub opsets: Vec<(&'a str, i64)>,
    /// For a function, the attributes that a call may set.
    pub attributes: Vec<&'a str>,
    /// The numbers of its nodes.
    pub nodes: Range<usize>,
}

impl<'a> Graph<'a> {
    /// Returns the inputs, the outputs and the other values, in this order.
    pub fn typed_values(&self) -> impl Iterator<Item = &ValueInfo<'a>> {
        self.inputs.iter().chain(&self.outputs).chain(&self.values)
    }
}

/// An operator.
#[derive(Clone, Debug, Default)]
pub struct Node<'a> {
    pub name: &'a str,
    pub op: &'a str,
    pub domain: &'a str,
    pub overload: &'a str,
    pub inputs: Vec<&'a str>,
    pub outputs: Vec<&'a str>,
    pub attributes: Vec<Attribute<'a>>,
    pub metadata: Vec<Pair<'a>>,
    pub doc: &'a str,
    /// The number of its graph.
    pub graph: u32,
}

impl<'a> Node<'a> {
    /// Returns the metadata of the node under a key.
    pub fn meta(&self, key: &str) -> Option<&'a str> {
        meta(&self.metadata, key)
    }

    pub fn attribute(&self, name: &str) -> Option<&Attribute<'a>> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    /// Returns the domain; empty for ONNX's own, which has two names.
    pub fn domain(&self) -> &'a str {
        if self.domain == "ai.onnx" { "" } else { self.domain }
    }

    /// Returns the operator, with its domain in front if that is not ONNX's:
    /// `com.microsoft::FusedGemm`.
    pub fn op_with_domain(&self) -> Cow<'a, str> {
        match self.domain() {
            "" => Cow::Borrowed(self.op),
            domain => Cow::Owned(format!("{domain}::{}", self.op)),
        }
    }
}

/// Returns the entry of a list of metadata under a key.
pub fn meta<'a>(metadata: &[Pair<'a>], key: &str) -> Option<&'a str> {
    metadata.iter().find(|(known, _)| *known == key).map(|&(_, value)| value)
}

/// Reads a model without the contents of its weights.
pub fn scan(bytes: &[u8]) -> Result<Scan<'_>, ScanError> {
    let mut reader = Reader::new(bytes, MAX_MEMORY);
    let mut scan = Scan::default();
    let mut pending = read_model(&mut reader, &mut scan)?;
    let mut next = 0;
    while next < pending.len() {
        let Pending { place, around, content, depth } = pending[next].clone();
        if depth > MAX_NESTED {
            return Err(ScanError::Nested);
        }
        let number = scan.graphs.len();
        let first = scan.nodes.len();
        let graph = if matches!(place, Place::Function(_)) {
            read_function(&mut reader, content, place, first)?
        } else {
            read_graph(&mut reader, content, place, around, first)?
        };
        let (graph, nodes) = graph;
        for content in nodes {
            let (mut node, bodies) = read_node(&mut reader, content)?;
            node.graph = number as u32;
            for (attribute, content) in bodies {
                let place =
                    Place::Body { node: scan.nodes.len() as u32, attribute: attribute.into() };
                let around = Some(number);
                reader.push(&mut pending, Pending { place, around, content, depth: depth + 1 })?;
            }
            reader.push(&mut scan.nodes, node)?;
        }
        reader.push(&mut scan.graphs, Graph { nodes: first..scan.nodes.len(), ..graph })?;
        next += 1;
    }
    Ok(scan)
}

impl<'a> Scan<'a> {
    /// Returns the metadata of the model under a key.
    pub fn meta(&self, key: &str) -> Option<&'a str> {
        meta(&self.metadata, key)
    }

    /// Returns the main graph.
    pub fn main(&self) -> &Graph<'a> {
        // A scan has at least one graph: what has none is refused.
        &self.graphs[0]
    }

    /// Returns the functions of the model.
    pub fn functions(&self) -> impl Iterator<Item = &Graph<'a>> {
        self.graphs.iter().filter(|graph| matches!(graph.place, Place::Function(_)))
    }

    /// Returns the tensors of all graphs and attributes.
    pub fn tensors(&self) -> impl Iterator<Item = Tensor<'a>> + '_ {
        let initializers = self.graphs.iter().flat_map(|graph| graph.initializers.iter().cloned());
        let attributes = self.nodes.iter().flat_map(|node| &node.attributes);
        initializers.chain(attributes.flat_map(Attribute::tensors))
    }

    /// Returns the names and the readers; nodes and graphs have the same numbers as here.
    pub fn outline(&self) -> Outline {
        let mut builder = OutlineBuilder::default();
        for graph in &self.graphs {
            builder.graph(graph.place.clone(), graph.around);
            for node in &self.nodes[graph.nodes.clone()] {
                let (inputs, outputs) = (node.inputs.iter().copied(), node.outputs.iter().copied());
                builder.node(node.name, node.domain(), node.op, inputs, outputs);
            }
        }
        builder.finish()
    }
}

/// A graph that is still to be read.
#[derive(Clone)]
struct Pending<'a> {
    place: Place,
    around: Option<usize>,
    content: &'a [u8],
    depth: usize,
}

/// Reads what stands on the model itself, and finds the main graph and the functions.
fn read_model<'a>(
    reader: &mut Reader<'a>,
    scan: &mut Scan<'a>,
) -> Result<Vec<Pending<'a>>, ScanError> {
    const NAME: &str = "ModelProto";
    let mut graph = None;
    let mut functions = Vec::new();
    for field in reader.fields(NAME, reader.whole) {
        let field = field?;
        match field.number {
            1 => scan.ir_version = field.int()?,
            2 => scan.producer = field.text()?,
            3 => scan.producer_version = field.text()?,
            4 => scan.domain = field.text()?,
            5 => scan.model_version = field.int()?,
            6 => scan.doc = field.text()?,
            7 if graph.is_some() => return Err(ScanError::TwoGraphs),
            7 => graph = Some(field.message()?),
            8 => {
                let opset = message::opset(reader, field.message()?)?;
                reader.push(&mut scan.opsets, opset)?;
            }
            14 => {
                let pair = message::pair(reader, field.message()?)?;
                reader.push(&mut scan.metadata, pair)?;
            }
            25 => reader.push(&mut functions, field.message()?)?,
            _ => {}
        }
    }
    let main = Pending {
        place: Place::Main,
        around: None,
        content: graph.ok_or(ScanError::NoGraph)?,
        depth: 0,
    };
    let mut pending = vec![main];
    for content in functions {
        let (domain, name) = message::function_name(reader, content)?;
        let place = Place::Function(format!("{domain}::{name}").into());
        reader.push(&mut pending, Pending { place, around: None, content, depth: 0 })?;
    }
    Ok(pending)
}

/// A graph without its nodes, and the nodes as they stand in the file.
type Unread<'a> = (Graph<'a>, Vec<&'a [u8]>);

fn empty_graph<'a>(place: Place, around: Option<usize>, first: usize) -> Graph<'a> {
    Graph {
        place,
        around,
        name: "",
        doc: "",
        inputs: Vec::new(),
        outputs: Vec::new(),
        values: Vec::new(),
        initializers: Vec::new(),
        metadata: Vec::new(),
        opsets: Vec::new(),
        attributes: Vec::new(),
        nodes: first..first,
    }
}

fn read_graph<'a>(
    reader: &mut Reader<'a>,
    content: &'a [u8],
    place: Place,
    around: Option<usize>,
    first: usize,
) -> Result<Unread<'a>, ScanError> {
    let mut graph = empty_graph(place, around, first);
    let mut nodes = Vec::new();
    for field in reader.fields("GraphProto", content) {
        let field = field?;
        match field.number {
            1 => reader.push(&mut nodes, field.message()?)?,
            2 => graph.name = field.text()?,
            5 => {
                let tensor = types::tensor(reader, field.message()?)?;
                reader.push(&mut graph.initializers, tensor)?;
            }
            10 => graph.doc = field.text()?,
            11..=13 => {
                let value = types::value_info(reader, field.message()?)?;
                let list = match field.number {
                    11 => &mut graph.inputs,
                    12 => &mut graph.outputs,
                    _ => &mut graph.values,
                };
                reader.push(list, value)?;
            }
            15 => {
                let tensor = types::sparse(reader, field.message()?)?;
                reader.push(&mut graph.initializers, tensor)?;
            }
            16 => {
                let pair = message::pair(reader, field.message()?)?;
                reader.push(&mut graph.metadata, pair)?;
            }
            _ => {}
        }
    }
    Ok((graph, nodes))
}

fn read_function<'a>(
    reader: &mut Reader<'a>,
    content: &'a [u8],
    place: Place,
    first: usize,
) -> Result<Unread<'a>, ScanError> {
    let mut graph = empty_graph(place, None, first);
    let mut nodes = Vec::new();
    for field in reader.fields("FunctionProto", content) {
        let field = field?;
        match field.number {
            1 => graph.name = field.text()?,
            4 => reader.push(&mut graph.inputs, ValueInfo::named(field.text()?))?,
            5 => reader.push(&mut graph.outputs, ValueInfo::named(field.text()?))?,
            6 => reader.push(&mut graph.attributes, field.text()?)?,
            7 => reader.push(&mut nodes, field.message()?)?,
            8 => graph.doc = field.text()?,
            9 => {
                let opset = message::opset(reader, field.message()?)?;
                reader.push(&mut graph.opsets, opset)?;
            }
            12 => {
                let value = types::value_info(reader, field.message()?)?;
                reader.push(&mut graph.values, value)?;
            }
            14 => {
                let pair = message::pair(reader, field.message()?)?;
                reader.push(&mut graph.metadata, pair)?;
            }
            _ => {}
        }
    }
    Ok((graph, nodes))
}

/// A node, and the bodies in it: the name of the attribute, and the graph as it stands in the file.
type WithBodies<'a> = (Node<'a>, Vec<Pair2<'a>>);
type Pair2<'a> = (&'a str, &'a [u8]);

fn read_node<'a>(reader: &mut Reader<'a>, content: &'a [u8]) -> Result<WithBodies<'a>, ScanError> {
    let mut node = Node::default();
    let mut bodies = Vec::new();
    for field in reader.fields("NodeProto", content) {
        let field = field?;
        match field.number {
            1 => reader.push(&mut node.inputs, field.text()?)?,
            2 => reader.push(&mut node.outputs, field.text()?)?,
            3 => node.name = field.text()?,
            4 => node.op = field.text()?,
            5 => {
                let attribute = attribute::read(reader, field.message()?, &mut bodies)?;
                reader.push(&mut node.attributes, attribute)?;
            }
            6 => node.doc = field.text()?,
            7 => node.domain = field.text()?,
            8 => node.overload = field.text()?,
            9 => {
                let pair = message::pair(reader, field.message()?)?;
                reader.push(&mut node.metadata, pair)?;
            }
            _ => {}
        }
    }
    Ok((node, bodies))
}

/// Returns the number that a field holds, packed or not.
fn numbers(content: Content<'_>) -> impl Iterator<Item = Result<u64, WireError>> + '_ {
    let (one, mut packed) = match content {
        Content::Number(number) | Content::Fixed64(number) => (Some(number), &[][..]),
        Content::Fixed32(number) => (Some(u64::from(number)), &[][..]),
        Content::Bytes(bytes) => (None, bytes),
    };
    let rest = std::iter::from_fn(move || {
        if packed.is_empty() {
            return None;
        }
        let read = super::wire::varint(packed);
        packed = match read {
            Ok((_, size)) => &packed[size..],
            Err(_) => &[],
        };
        Some(read.map(|(number, _)| number))
    });
    one.into_iter().map(Ok).chain(rest)
}

#[cfg(test)]
mod tests;
