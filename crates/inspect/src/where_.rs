//! Finds the origin of a node or value.

use onnx::scan::{self, Pair, Tensor};
use provenance::keys;
use provenance::outline::GraphPlace;
use provenance::resolve::Sure;

use crate::find::Target;
use crate::{Document, Provenance};

/// The answer of `jax2onnx where`.
#[derive(Clone, Debug)]
pub struct Where<'d> {
    pub name: String,
    /// The operator of a node.
    pub op: Option<String>,
    /// The kind of a value that no node computes: `input`, `initializer`.
    pub kind: &'static str,
    pub provenance: Option<Provenance<'d>>,
    pub inputs: Vec<Value<'d>>,
    pub outputs: Vec<Value<'d>>,
    /// For a weight or an input, its path in the model or in the arguments.
    pub path: Option<&'d str>,
    /// The enclosing graphs, outermost first: `function local::block`, `body then_branch of cond`.
    pub inside: Vec<String>,
    /// The nodes that call the enclosing function.
    pub callers: Vec<usize>,
    /// For a value, the nodes that read it.
    pub readers: Vec<usize>,
}

impl<'d> Where<'d> {
    /// Returns the answer for a name without any information.
    pub fn nothing(name: String, kind: &'static str) -> Where<'d> {
        Where {
            name,
            op: None,
            kind,
            provenance: None,
            inputs: Vec::new(),
            outputs: Vec::new(),
            path: None,
            inside: Vec::new(),
            callers: Vec::new(),
            readers: Vec::new(),
        }
    }
}

/// A value with its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value<'d> {
    pub name: &'d str,
    pub ty: Option<String>,
}

/// Returns all information about a node or a value.
pub fn where_<'d>(document: &'d Document<'_>, target: &Target<'_>) -> Where<'d> {
    match *target {
        Target::Node(number) => of_node(document, number),
        Target::Value { graph, name } => of_value(document, graph, name),
    }
}

fn of_node<'d>(document: &'d Document<'_>, number: usize) -> Where<'d> {
    let Some(node) = document.scan.nodes.get(number) else {
        return Where::nothing(document.node_name(number), "node");
    };
    let graph = node.graph as usize;
    let value = |&name: &&'d str| Value { name, ty: document.value_type(graph, name) };
    let named = |list: &'d [&'d str]| list.iter().filter(|n| !n.is_empty()).map(value).collect();
    let (inside, callers) = around(document, graph);
    Where {
        op: Some(node.op_with_domain().into_owned()),
        provenance: document.provenance(number),
        inputs: named(&node.inputs),
        outputs: named(&node.outputs),
        inside,
        callers,
        ..Where::nothing(document.node_name(number), "node")
    }
}

fn of_value<'d>(document: &'d Document<'_>, graph: usize, name: &str) -> Where<'d> {
    let Some(entry) = document.graph(graph) else {
        return Where::nothing(name.to_owned(), "value");
    };
    let tensor = entry.initializers.iter().find(|tensor| tensor.name == name);
    let input = entry.inputs.iter().find(|value| value.name == name);
    let metadata = tensor.map(|t| &t.metadata).or(input.map(|value| &value.metadata));
    let metadata: &[Pair<'d>] = metadata.map_or(&[], Vec::as_slice);
    let named = tensor.map(|t| t.name).or(input.map(|value| value.name)).unwrap_or_default();
    let ty = tensor.map(Tensor::type_text).or_else(|| document.value_type(graph, name));
    let (inside, callers) = around(document, graph);
    let number = scan::meta(metadata, keys::ORIGIN).and_then(|number| number.parse().ok());
    let written = number.and_then(|number| document.provenance_of_origin(number));
    let nodes = document.scan.nodes.iter().enumerate();
    let reads = |graph_of: u32| document.sees(graph_of as usize, graph);
    let readers = nodes.filter(|(_, node)| node.inputs.contains(&name) && reads(node.graph));
    Where {
        provenance: written.or_else(|| document.resolve_name(name)),
        outputs: vec![Value { name: named, ty }],
        path: scan::meta(metadata, keys::PATH),
        inside,
        callers,
        readers: readers.map(|(number, _)| number).collect(),
        ..Where::nothing(name.to_owned(), if tensor.is_some() { "initializer" } else { "input" })
    }
}

/// Returns the enclosing graphs of a graph, and the calls of the enclosing function.
fn around(document: &Document<'_>, graph: usize) -> (Vec<String>, Vec<usize>) {
    let mut inside = Vec::new();
    let mut callers = Vec::new();
    let mut at = document.graph(graph);
    while let Some(graph) = at {
        match &graph.place {
            GraphPlace::Main => {}
            GraphPlace::Function(name) => {
                inside.push(format!("function {name}"));
                callers = document.callers(name);
            }
            GraphPlace::Body { node, attribute } => {
                inside.push(format!("{attribute} of {}", document.node_name(*node as usize)));
            }
        }
        at = graph.around.and_then(|around| document.graph(around));
    }
    inside.reverse();
    (inside, callers)
}

/// Describes how an answer was found; `None` if it is the node itself.
pub fn how(sure: Sure) -> Option<&'static str> {
    match sure {
        Sure::Exact => None,
        Sure::Name => Some("found by the name of the node, because its result was renamed"),
        Sure::Fused => Some("the node replaces nodes from all of these lines"),
        Sure::Neighbour => Some("a tool inserted this node; the lines are those of its neighbors"),
        Sure::Unknown => Some("nothing is known about this node"),
    }
}
