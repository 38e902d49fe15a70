//! Returns a hint for each kind of error.

use onnx::kernels::{Support, Target};
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
        Class::Shape if message.words.contains("Sym(") => SYMBOL,
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

const SHAPE: &str = "the shapes of the inputs do not match; a size with the same name in several inputs (`B` in \
    `f32[B,3]`) must have the same value in all of them";
const SYMBOL: &str = "tract cannot unify a named size of the model with the number in an input fact, and stops at the first \
    node that uses it: export the model with fixed sizes, or do not set facts with numbers";
const BUFFER: &str = "a symbolic size has different values in several inputs, and this is the first node that fails \
    because of it: pass arrays in which sizes with the same name are equal";
const INDEX: &str = "an index is out of bounds; JAX clips or drops such an index (except with \
    `mode=\"promise_in_bounds\"`), but the runtime reports an error: clip the indices on this line, or \
    check the inputs";
const OPSET: &str = "the runtime does not support the opset of the model: export with a lower `opset=`, or \
    update the runtime";
const FORMAT: &str = "the runtime does not support the IR version of the model: update the runtime, or export \
    with a lower `opset=`, which uses an older IR version";
const TYPE: &str = "an operand has a type that the operator does not support: look for a missing cast, or for a \
    tool that changed types after the export";
const ATTRIBUTE: &str = "a tool changed the model after the export, perhaps for another opset: export the model again, \
    and compare both with `jax2onnx diff`";
const GRAPH: &str = "the graph is not valid, usually because a tool changed it after the export: `jax2onnx check` \
    lists all problems of this kind";
const MEMORY: &str = "the result of this line does not fit into memory: use smaller batches, or compute the result \
    in parts (`lax.map`, `lax.scan`)";
const EXTERNAL: &str = "the weights are in a file beside the model: copy both files, and keep their names; if a copy \
    was interrupted, the file is too short";
const WEIGHT: &str = "the shape of a weight does not match its number of bytes: the model was truncated or changed \
    after the export";
const FILE: &str =
    "the file is truncated or is not an ONNX model: copy it again, and compare the sizes";

/// Returns the type that is not supported, and the types that are.
fn kernel(document: &Document<'_>, message: &Message, node: Option<usize>) -> String {
    let general = "ONNX Runtime has no kernel for this operator with these types on this device: cast \
                   the operands to `float32` (`x.astype(jnp.float32)`), and cast the result back";
    let opset = document.scan.opsets.iter().find(|(domain, _)| domain.is_empty());
    let node = node.and_then(|node| document.scan.nodes.get(node));
    let (Some(&(_, opset)), Some(op)) = (opset, op_type(node, message)) else {
        return general.to_owned();
    };
    let takes = |dtype: &DType| Target::default().runs(op, opset, *dtype) == Support::Yes;
    let all = (0..64).filter_map(DType::from_code);
    let types: Vec<String> = all.filter(takes).map(|dtype| dtype.to_string()).collect();
    match types.is_empty() {
        true => general.to_owned(),
        false => format!("{general}; ONNX Runtime supports {op} for {}", types.join(", ")),
    }
}

fn operator(document: &Document<'_>, message: &Message, node: Option<usize>) -> String {
    let named = message.clues.iter().rev().find_map(op_of);
    let node = node.and_then(|node| document.scan.nodes.get(node));
    let op = node.map(|node| node.op).or(named).unwrap_or("the operator");
    let opset = document.scan.opsets.iter().find(|(domain, _)| domain.is_empty());
    let opset = opset.map_or(0, |&(_, version)| version);
    match op_type(node, message).map(|op| Target::default().runs(op, opset, DType::F32)) {
        Some(Support::From(since)) => format!(
            "{op} exists since opset {since}, but the model uses opset {opset}: export with \
             `opset={since}` or higher"
        ),
        _ => match node.map(|node| node.domain).filter(|domain| !domain.is_empty()) {
            Some(domain) => format!(
                "{op} belongs to the domain `{domain}`: register a library of custom operators with the \
                 runtime, or add a function of that name to the model"
            ),
            None => format!(
                "the runtime does not support {op} in opset {opset}: use another opset or a newer runtime"
            ),
        },
    }
}

/// Returns the ONNX operator of the node, or else the one that the message names.
fn op_type(node: Option<&Node<'_>>, message: &Message) -> Option<OpType> {
    let name = match node {
        Some(node) => Some(node.op).filter(|_| node.domain().is_empty()),
        None => message.clues.iter().rev().find_map(op_of),
    };
    name.and_then(OpType::from_name)
}

fn op_of(clue: &Clue) -> Option<&str> {
    match clue {
        Clue::Node { op, .. } | Clue::Output { op, .. } => op.as_deref(),
        Clue::Context { op, .. }
        | Clue::Op { op, .. }
        | Clue::Unnamed { op }
        | Clue::Other { op, .. }
        | Clue::Numbered { op, .. } => Some(op),
        Clue::Operands(operands) => match operands.ops.as_slice() {
            [op] => Some(op),
            _ => None,
        },
        Clue::Product => Some("MatMul"),
        Clue::Inner { .. }
        | Clue::Fused { .. }
        | Clue::External { .. }
        | Clue::Value { .. }
        | Clue::Argument { .. }
        | Clue::Lacking { .. }
        | Clue::Broadcast { .. } => None,
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
    format!("the model takes {} and returns {}", listed(&graph.inputs), listed(&graph.outputs))
}
