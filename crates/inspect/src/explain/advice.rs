//! What usually helps.

use onnx::kernels::{Support, support};
use onnx::scan::Node;
use onnx::{DType, OpType};

use crate::Document;
use crate::log::{Class, Clue, Message};

/// Returns advice on a message, if something usually helps.
pub(super) fn advice(
    document: &Document<'_>,
    message: &Message,
    node: Option<usize>,
) -> Option<String> {
    let text = match message.class? {
        Class::Shape => SHAPE,
        Class::Buffer => BUFFER,
        Class::Index => INDEX,
        Class::Kernel => return Some(kernel(document, message, node)),
        Class::Operator => return Some(operator(document, message, node)),
        Class::Opset => OPSET,
        Class::Format => FORMAT,
        Class::Type => TYPE,
        Class::Attribute => ATTRIBUTE,
        Class::Graph => GRAPH,
        Class::Memory => MEMORY,
        Class::ExternalData => EXTERNAL,
        Class::Weight => WEIGHT,
        Class::Call => return Some(call(document)),
        Class::File => FILE,
    };
    Some(text.to_owned())
}

const SHAPE: &str = "the sizes of what was fed do not fit each other; sizes that have one name in the model \
    (`B` in `f32[B,3]`) must be equal when it runs";
const BUFFER: &str = "a size is not what the model declares: values of one symbolic size had different \
    ones. The node is the first that noticed; feed arrays whose equally named sizes are equal";
const INDEX: &str = "an index is outside of the array; JAX clips or drops such an index unless it is told \
    `mode=\"promise_in_bounds\"`, and ONNX Runtime refuses it: clip the indices on this line or check \
    what is fed";
const OPSET: &str = "the runtime is older than the opset of the model: export with a lower `opset=`, or \
    update the runtime";
const FORMAT: &str = "the runtime is older than the format of the model: update it, or export with a \
    lower `opset=`, which writes an older format";
const TYPE: &str = "an operand has a type that the operator does not take: look for a cast that is \
    missing, or for a tool that changed types after the export";
const ATTRIBUTE: &str = "the model was changed after the export, or by a tool of another opset: export it \
    again and compare with `jax2onnx diff`";
const GRAPH: &str = "the graph is not put together as ONNX asks: it was changed after the export, as a rule; \
    `jax2onnx check` lists everything of that kind";
const MEMORY: &str = "the result of this line does not fit into memory: run smaller batches, or compute it \
    in parts (`lax.map`, `lax.scan`)";
const EXTERNAL: &str = "the file with the weights lies beside the model and belongs to it: copy both, and \
    keep its name; a copy that was interrupted is too short";
const WEIGHT: &str = "the bytes of a weight are not as many as its shape says: the model was cut off or \
    changed after the export";
const FILE: &str = "the file is cut off or is not an ONNX model: copy it again, and compare sizes";

/// Returns the type that is not supported, and the types that are.
fn kernel(document: &Document<'_>, message: &Message, node: Option<usize>) -> String {
    let general = "ONNX Runtime has no kernel for this operator with these types on this device: compute \
                   it in `float32` (`x.astype(jnp.float32)`) and cast back";
    let opset = document.scan.opsets.iter().find(|(domain, _)| domain.is_empty());
    let node = node.and_then(|node| document.scan.nodes.get(node));
    let (Some(&(_, opset)), Some(op)) = (opset, op_type(node, message)) else {
        return general.to_owned();
    };
    let takes = |dtype: &DType| support(op, opset, *dtype) == Support::Yes;
    let all = (0..64).filter_map(DType::from_code);
    let types: Vec<String> = all.filter(takes).map(|dtype| dtype.to_string()).collect();
    match types.is_empty() {
        true => general.to_owned(),
        false => format!("{general}; it has {op} for {}", types.join(", ")),
    }
}

fn operator(document: &Document<'_>, message: &Message, node: Option<usize>) -> String {
    let named = message.clues.iter().rev().find_map(op_of);
    let node = node.and_then(|node| document.scan.nodes.get(node));
    let op = node.map(|node| node.op).or(named).unwrap_or("the operator");
    let opset = document.scan.opsets.iter().find(|(domain, _)| domain.is_empty());
    let opset = opset.map_or(0, |&(_, version)| version);
    match op_type(node, message).map(|op| support(op, opset, DType::F32)) {
        Some(Support::From(since)) => format!(
            "{op} is in ONNX from opset {since} on, and the model says {opset}: export with \
             `opset={since}` or more"
        ),
        _ => match node.map(|node| node.domain).filter(|domain| !domain.is_empty()) {
            Some(domain) => format!(
                "{op} is of the domain `{domain}`: the runtime needs a library that has it, or the model \
                 the function of that name"
            ),
            None => format!(
                "the runtime does not know {op} in opset {opset}: use another opset, or a newer runtime"
            ),
        },
    }
}

/// Returns the operator of ONNX that the node has; if there is none, the one that the message
/// names.
fn op_type(node: Option<&Node<'_>>, message: &Message) -> Option<OpType> {
    let name = match node {
        Some(node) => Some(node.op).filter(|_| node.domain().is_empty()),
        None => message.clues.iter().rev().find_map(op_of),
    };
    name.and_then(OpType::from_name)
}

fn op_of(clue: &Clue) -> Option<&str> {
    match clue {
        Clue::Node { op, .. } => op.as_deref(),
        Clue::Op { op, .. } | Clue::Unnamed { op } => Some(op),
        Clue::Value { .. } => None,
    }
}

/// Describes the inputs and the outputs of the model.
fn call(document: &Document<'_>) -> String {
    const MAX: usize = 12;
    let Some(graph) = document.graph(0) else {
        return String::new();
    };
    let listed = |values: &[onnx::scan::ValueInfo<'_>]| {
        let is_weight = |name: &str| graph.initializers.iter().any(|tensor| tensor.name == name);
        let values = values.iter().filter(|value| !is_weight(value.name));
        let typed = values.map(|value| match &value.ty {
            Some(ty) => format!("`{}` {ty}", value.name),
            None => format!("`{}`", value.name),
        });
        let mut all: Vec<String> = typed.take(MAX + 1).collect();
        if all.len() > MAX {
            "…".clone_into(&mut all[MAX]);
        }
        all.join(", ")
    };
    format!("the model takes {} and gives {}", listed(&graph.inputs), listed(&graph.outputs))
}
