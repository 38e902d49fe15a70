//! Reads a model file in place, without its weights.
//!
//! Names, types and metadata are borrowed from the bytes, and the contents of tensors are skipped. The file is
//! untrusted, so memory and recursion are bounded. Parts that the scan does not return are checked nevertheless, so
//! that a damaged file is refused.

mod attribute;
mod types;

use std::borrow::Cow;
use std::ops::Range;

use provenance::outline::{GraphPlace, Outline, OutlineBuilder};

pub use attribute::{Attribute, AttributeValue};
pub use types::{Dim, Tensor, ValueInfo, ValueType};

use super::schema::{Field, FieldKind, Message};
pub use super::wire::FormatError;
use super::wire::{FieldBytes, MessageBytes};

/// The largest memory for the entries of a file, in bytes.
const MAX_MEMORY: usize = 1 << 29;

/// A key and its value.
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
    /// The main graph, then the functions, then the bodies, each after the graph that contains it.
    pub graphs: Vec<Graph<'a>>,
    /// In the order of their graphs.
    pub nodes: Vec<Node<'a>>,
    /// The whole file.
    bytes: &'a [u8],
}

/// A graph, a function, or the body of a node.
#[derive(Clone, Debug)]
pub struct Graph<'a> {
    pub place: GraphPlace,
    /// The enclosing graph, whose values this one can read.
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
    /// The range of its nodes in [`Scan::nodes`].
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
    /// The index of its graph.
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

    /// Returns the domain. The domain of ONNX has two names, and both become the empty one.
    pub fn domain(&self) -> &'a str {
        if self.domain == "ai.onnx" { "" } else { self.domain }
    }

    /// Returns the operator, prefixed with its domain unless that is the domain of ONNX:
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
pub fn scan(bytes: &[u8]) -> Result<Scan<'_>, FormatError> {
    scan_within(bytes, MAX_MEMORY)
}

fn scan_within(bytes: &[u8], memory: usize) -> Result<Scan<'_>, FormatError> {
    let mut memory = Memory(memory);
    let mut scan = Scan { bytes, ..Scan::default() };
    let mut pending = read_model(&mut memory, &mut scan)?;
    let mut next = 0;
    while let Some(graph) = pending.get(next).cloned() {
        read_graph(&mut memory, &mut scan, &mut pending, graph)?;
        next += 1;
    }
    Ok(scan)
}

/// The number of bytes that the entries of a file may still take.
struct Memory(usize);

impl Memory {
    /// Keeps an entry, if there is room for it.
    fn push<T>(&mut self, list: &mut Vec<T>, entry: T) -> Result<(), FormatError> {
        // An entry of a list takes at most twice its size, because lists grow by doubling.
        self.0 = self.0.checked_sub(size_of::<T>()).ok_or(FormatError::TooMany)?;
        list.push(entry);
        Ok(())
    }
}

impl<'a> Scan<'a> {
    /// Returns the metadata of the model under a key.
    pub fn meta(&self, key: &str) -> Option<&'a str> {
        meta(&self.metadata, key)
    }

    /// Returns the main graph.
    pub fn main(&self) -> &Graph<'a> {
        // `scan` refuses a model without a graph.
        &self.graphs[0]
    }

    /// Returns the functions of the model.
    pub fn functions(&self) -> impl Iterator<Item = &Graph<'a>> {
        self.graphs.iter().filter(|graph| matches!(graph.place, GraphPlace::Function(_)))
    }

    /// Returns all tensors of the file, wherever they are; sparse ones as their values and their indices.
    pub fn tensors(&self) -> impl Iterator<Item = Tensor<'a>> + use<'a> {
        let is_tensor = |field: Field| field.kind() == Some(FieldKind::Message(Message::Tensor));
        let is_entered = move |field: Field| field.has_tensors() && !is_tensor(field);
        let fields = MessageBytes::new(Message::Model, self.bytes).walk(is_entered);
        let tensors = fields.map_while(Result::ok).filter(move |field| is_tensor(field.id()));
        tensors.filter_map(|field| types::tensor(&mut Memory(MAX_MEMORY), &field).ok())
    }

    /// Returns the names and the readers. Nodes and graphs keep their indices.
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
    /// For a function, without its name.
    place: GraphPlace,
    around: Option<usize>,
    message: MessageBytes<'a>,
}

/// Reads the fields of the model itself, and finds the main graph and the functions.
fn read_model<'a>(
    memory: &mut Memory,
    scan: &mut Scan<'a>,
) -> Result<Vec<Pending<'a>>, FormatError> {
    let mut graphs = Vec::new();
    let mut functions = Vec::new();
    for field in MessageBytes::new(Message::Model, scan.bytes) {
        let field = field?;
        match field.id() {
            Field::ModelIrVersion => scan.ir_version = field.int(),
            Field::ModelProducerName => scan.producer = field.text()?,
            Field::ModelProducerVersion => scan.producer_version = field.text()?,
            Field::ModelDomain => scan.domain = field.text()?,
            Field::ModelModelVersion => scan.model_version = field.int(),
            Field::ModelDocString => scan.doc = field.text()?,
            Field::ModelGraph => graphs.push(pending(GraphPlace::Main, None, &field)?),
            Field::ModelOpsetImport => memory.push(&mut scan.opsets, opset(&field)?)?,
            Field::ModelMetadataProps => memory.push(&mut scan.metadata, field.pair()?)?,
            Field::ModelFunctions => {
                memory.push(
                    &mut functions,
                    pending(GraphPlace::Function("".into()), None, &field)?,
                )?;
            }
            _ => field.check()?,
        }
    }
    if graphs.is_empty() {
        return Err(FormatError::NoGraph);
    }
    graphs.append(&mut functions);
    Ok(graphs)
}

fn pending<'a>(
    place: GraphPlace,
    around: Option<usize>,
    field: &FieldBytes<'a>,
) -> Result<Pending<'a>, FormatError> {
    let message = field.nested()?.ok_or(FormatError::NoGraph)?;
    Ok(Pending { place, around, message })
}

/// Reads a graph or a function, and adds the bodies of its nodes to `pending`.
fn read_graph<'a>(
    memory: &mut Memory,
    scan: &mut Scan<'a>,
    pending: &mut Vec<Pending<'a>>,
    Pending { place, around, message }: Pending<'a>,
) -> Result<(), FormatError> {
    let first = scan.nodes.len();
    let mut domain = "";
    let mut graph = Graph {
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
    };
    for field in message {
        let field = field?;
        match field.id() {
            Field::GraphNode | Field::FunctionNode => {
                let graph = scan.graphs.len();
                let node = read_node(memory, &field, graph, scan.nodes.len(), pending)?;
                memory.push(&mut scan.nodes, node)?;
            }
            Field::GraphName | Field::FunctionName => graph.name = field.text()?,
            Field::FunctionDomain => domain = field.text()?,
            Field::GraphDocString | Field::FunctionDocString => graph.doc = field.text()?,
            Field::GraphInput
            | Field::GraphOutput
            | Field::GraphValueInfo
            | Field::FunctionValueInfo => {
                let value = types::value_info(memory, &field)?;
                let list = match field.id() {
                    Field::GraphInput => &mut graph.inputs,
                    Field::GraphOutput => &mut graph.outputs,
                    _ => &mut graph.values,
                };
                memory.push(list, value)?;
            }
            Field::FunctionInput => {
                memory.push(&mut graph.inputs, ValueInfo::named(field.text()?))?;
            }
            Field::FunctionOutput => {
                memory.push(&mut graph.outputs, ValueInfo::named(field.text()?))?;
            }
            Field::GraphInitializer => {
                let tensor = types::tensor(memory, &field)?;
                memory.push(&mut graph.initializers, tensor)?;
            }
            Field::GraphSparseInitializer => {
                let tensor = types::sparse(memory, &field)?;
                memory.push(&mut graph.initializers, tensor)?;
            }
            Field::GraphMetadataProps | Field::FunctionMetadataProps => {
                memory.push(&mut graph.metadata, field.pair()?)?;
            }
            Field::FunctionOpsetImport => memory.push(&mut graph.opsets, opset(&field)?)?,
            Field::FunctionAttribute => memory.push(&mut graph.attributes, field.text()?)?,
            Field::FunctionAttributeProto => {
                // The default may be a graph, which is not a body of this model.
                field.check()?;
                let (attribute, _) = attribute::read(memory, &field)?;
                memory.push(&mut graph.attributes, attribute.name)?;
            }
            _ => field.check()?,
        }
    }
    if let GraphPlace::Function(name) = &mut graph.place {
        *name = format!("{domain}::{}", graph.name).into();
    }
    graph.nodes = first..scan.nodes.len();
    memory.push(&mut scan.graphs, graph)
}

/// Reads a node with the number `number`, and adds its bodies to `pending`.
fn read_node<'a>(
    memory: &mut Memory,
    node: &FieldBytes<'a>,
    graph: usize,
    number: usize,
    pending: &mut Vec<Pending<'a>>,
) -> Result<Node<'a>, FormatError> {
    let message = node.message()?;
    let mut node = Node { graph: graph as u32, ..Node::default() };
    for field in message {
        let field = field?;
        match field.id() {
            Field::NodeInput => memory.push(&mut node.inputs, field.text()?)?,
            Field::NodeOutput => memory.push(&mut node.outputs, field.text()?)?,
            Field::NodeName => node.name = field.text()?,
            Field::NodeOpType => node.op = field.text()?,
            Field::NodeAttribute => {
                let (attribute, bodies) = attribute::read(memory, &field)?;
                for message in bodies {
                    let attribute = attribute.name.into();
                    let place = GraphPlace::Body { node: number as u32, attribute };
                    memory.push(pending, Pending { place, around: Some(graph), message })?;
                }
                memory.push(&mut node.attributes, attribute)?;
            }
            Field::NodeDocString => node.doc = field.text()?,
            Field::NodeDomain => node.domain = field.text()?,
            Field::NodeOverload => node.overload = field.text()?,
            Field::NodeMetadataProps => memory.push(&mut node.metadata, field.pair()?)?,
            _ => field.check()?,
        }
    }
    Ok(node)
}

/// Returns the domain and the version of an operator set.
fn opset<'a>(field: &FieldBytes<'a>) -> Result<(&'a str, i64), FormatError> {
    let mut opset = ("", 0);
    for field in field.message()? {
        let field = field?;
        match field.id() {
            Field::OperatorSetIdDomain => opset.0 = field.text()?,
            Field::OperatorSetIdVersion => opset.1 = field.int(),
            _ => {}
        }
    }
    Ok(opset)
}

#[cfg(test)]
mod tests;
