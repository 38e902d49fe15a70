//! The sentences in which runtimes name nodes, operators and values.

use std::ops::Range;
use std::sync::LazyLock;

use super::clean::Squeezed;
use super::pattern::{Sentence, SentenceMatch, find};

/// A node, value or operator that a message names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clue {
    /// A node, and its operator if the message contains it.
    Node { name: String, op: Option<String> },
    /// A value: a tensor, a weight, an input.
    Value { name: String, role: Role },
    /// The operator of a node whose name the message does not contain.
    Op { op: String, domain: Option<String> },
    /// The operator of a node that has no name according to the message.
    Unnamed { op: String },
}

/// The role of a value that a message names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A value that nodes read and that no node computes.
    Read,
    /// A value that a node computes.
    Made,
    Weight,
    Input,
}

/// The subject of a sentence.
#[derive(Clone, Copy)]
enum About {
    Node,
    Value(Role),
    Op,
    /// An operator that the sentence implies.
    OpNamed(&'static str),
    /// A node, if the model has one with that name, because other texts contain such words too.
    LooseNode,
}

/// The sentences, the most specific first.
const SENTENCES: &[(About, &str)] = &[
    // ONNX Runtime, while a model runs.
    (About::Node, "running {op} node. Name:'{name}'"),
    // ONNX Runtime, while a model is loaded.
    (About::Node, "Could not find an implementation for {op}({_}) node with name '{name}'"),
    (About::Node, "Node ({name}) Op ({op})"),
    (About::Node, "of operator ({op}) in node ({name}) is"),
    (About::Node, "of Optype ({op}) bound to different types ({_} in node ({name})."),
    (About::Node, "of node ({name}) does not match expected type"),
    (About::Node, "of node ({name}) of operator ({op})"),
    (About::Node, "In Node, (\"{name}\", {op}, \""),
    (About::Node, "Node({name}) with schema("),
    (About::Node, "Node ({name}) has input size"),
    (About::Node, "Node ({name}) has output size"),
    (About::Node, "Failed to find kernel for {op}({_}) (node:'{name}'"),
    (About::Node, "Failed to find kernel for {op}({_}) (node {name})"),
    (About::Node, "Could not find an implementation for the node {name}:{op}({_})"),
    (About::Node, "Node: {name} Output:"),
    (About::Node, "Node:{name} Output:"),
    (About::Op, "Fatal error: {domain}:{op}({_}) is not a registered function/op"),
    (About::Op, "Fatal error: {op} is not a registered function/op"),
    (About::Op, "Attribute {_} of {op} has an invalid value"),
    (About::Value(Role::Read), "Node input '{value}' is not a graph input"),
    (About::Value(Role::Made), "Duplicate definition of name ({value})."),
    (About::Value(Role::Weight), "validation failed for initializer: {value}. Error"),
    (About::Value(Role::Weight), "External initializer: {value} offset:"),
    (About::Value(Role::Weight), "Deserialize tensor {value} failed"),
    (About::Value(Role::Input), "Got invalid dimensions for input: {value} for the following"),
    (About::Value(Role::Input), "Invalid rank for input: {value} Got:"),
    (About::Value(Role::Input), "Required inputs (['{value}'"),
    (About::Value(Role::Input), "Missing Input: {value}"),
    // The rest of a message of ONNX Runtime whose beginning is missing.
    (About::Node, "Name:'{name}' Status Message"),
    (About::Node, "(\"{name}\", {op}, \"{_}\", {_}) : ("),
    (About::Node, "of Optype {_} in node ({name})."),
    (About::Node, "node with name '{name}'"),
    (About::Node, "error in node '{name}'"),
    (About::Node, "Error in node '{name}'"),
    (About::Node, "error in node \"{name}\""),
    (About::Node, "Error in node \"{name}\""),
    (About::Node, "error in node `{name}`"),
    (About::Node, "Error in node `{name}`"),
    (About::Node, "error in node: {name}"),
    (About::Node, "Error in node: {name}"),
    (About::Node, "error in node {name}"),
    (About::Node, "Error in node {name}"),
    (About::Op, "an implementation for {op}({_}) node"),
    (About::Op, "Op ({op}) ["),
    (About::Op, "No Op registered for {op} with domain_version"),
    (About::Op, "Optype ({op}) bound to different types"),
    (About::Op, "of operator ({op})"),
    (About::Op, "Unrecognized attribute: {_} for operator {op}"),
    (About::OpNamed("MatMul"), "MatMul dimension mismatch"),
    (About::OpNamed("MatMul"), "operand cannot broadcast on dim"),
    (About::OpNamed("Gemm"), "Gemm: Invalid bias shape"),
    (About::OpNamed("Gemm"), "GEMM: Dimension mismatch"),
    (About::OpNamed("Conv"), "is not equal to kernel channels * group"),
    (About::OpNamed("Concat"), "Non concat axis dimensions must match"),
    (About::OpNamed("Expand"), "invalid expand shape"),
    (About::OpNamed("GatherElements"), "GatherElements op:"),
    (About::OpNamed("GatherND"), "invalid index found, index ="),
    (About::OpNamed("Reshape"), "input tensor cannot be reshaped to the requested shape"),
    (About::OpNamed("Split"), "Invalid value in 'split'"),
    (About::OpNamed("TopK"), "k argument [{_}] should not be greater than"),
    (About::LooseNode, "Name:'{name}'"),
    (About::LooseNode, "Name: '{name}'"),
    (About::LooseNode, "node '{name}'"),
    (About::LooseNode, "Node '{name}'"),
    (About::LooseNode, "node \"{name}\""),
    (About::LooseNode, "Node \"{name}\""),
    (About::LooseNode, "node `{name}`"),
    (About::LooseNode, "Node `{name}`"),
    (About::LooseNode, "node ({name})"),
    (About::LooseNode, "Node ({name})"),
    (About::LooseNode, "node: {name}"),
    (About::LooseNode, "Node: {name}"),
    // onnx: its checker and its shape inference.
    (About::Node, "node. Name: {name} OpType: {op}"),
    (About::Node, "of node: name: {name} OpType: {op}"),
    (About::Node, "(op_type:{op}, node name: {name}):"),
    // TensorRT.
    (About::Node, "--- Begin node ---{_}name: \"{name}\" op_type: \"{op}\""),
    (About::Value(Role::Made), "While parsing node number {_} -> \"{value}\"]"),
    (About::Node, "Invalid Node - {name}"),
    (About::Node, "Layer {name}: broadcast dimensions must be conformable"),
    (About::Node, "Internal Error ({name}: dimensions not compatible"),
    (About::Node, "Could not find any implementation for node {name}."),
    // OpenVINO.
    (About::Node, "with friendly_name '{name}'"),
    (About::Op, "not support the following ONNX operations: {op}"),
];

static TAKEN_APART: LazyLock<Vec<(About, Sentence)>> = LazyLock::new(|| {
    SENTENCES.iter().map(|&(about, sentence)| (about, Sentence::new(sentence))).collect()
});

/// The names in a message, in order, with their positions in the squeezed text.
#[derive(Debug, Default)]
pub(super) struct Clues {
    pub(super) found: Vec<(Range<usize>, Clue)>,
    /// True if the names count only if the model contains them.
    pub(super) is_loose: bool,
}

/// Returns the names in a message.
pub(super) fn clues(text: &Squeezed<'_>) -> Clues {
    let mut clues: Vec<(Range<usize>, Clue)> = Vec::new();
    let mut loose: Vec<(Range<usize>, Clue)> = Vec::new();
    for (about, sentence) in TAKEN_APART.iter() {
        for found in find(sentence, text) {
            let range = found.start..found.end;
            let overlaps = |(other, _): &(Range<usize>, Clue)| {
                other.start < range.end && range.start < other.end
            };
            if clues.iter().chain(&loose).any(overlaps) {
                continue;
            }
            let list = if matches!(about, About::LooseNode) { &mut loose } else { &mut clues };
            list.extend(clue(*about, found).map(|clue| (range, clue)));
        }
    }
    let is_loose = clues.is_empty() && !loose.is_empty();
    let mut found = if is_loose { loose } else { clues };
    found.sort_by_key(|(range, _)| range.start);
    // If a node has a name, its operator adds nothing.
    if found.iter().any(|(_, clue)| matches!(clue, Clue::Node { .. } | Clue::Value { .. })) {
        found.retain(|(_, clue)| !matches!(clue, Clue::Op { .. }));
    }
    Clues { found, is_loose }
}

fn clue(about: About, found: SentenceMatch) -> Option<Clue> {
    let mut holes = found.holes;
    // `ai.onnx.Erf` is `Erf`.
    holes.op = holes.op.map(|op| op.rsplit('.').next().unwrap_or_default().to_owned());
    let named = |name: Option<String>| name.filter(|name| !name.is_empty());
    match about {
        About::Node | About::LooseNode => match (named(holes.name), holes.op) {
            (Some(name), op) => Some(Clue::Node { name, op }),
            (None, Some(op)) => Some(Clue::Unnamed { op }),
            (None, None) => None,
        },
        About::Value(role) => named(holes.value).map(|name| Clue::Value { name, role }),
        About::OpNamed(op) => Some(Clue::Op { op: op.to_owned(), domain: None }),
        About::Op => holes.op.map(|op| Clue::Op { op, domain: named(holes.domain) }),
    }
}
