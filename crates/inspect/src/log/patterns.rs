//! The sentences in which runtimes name what they complain of.

use std::ops::Range;
use std::sync::LazyLock;

use super::clean::Squeezed;
use super::pattern::{Found, Sentence, find};

/// A node, value or operator that a message names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clue {
    /// A node, and its operator if that is said.
    Node { name: String, op: Option<String> },
    /// A value: a tensor, a weight, an input.
    Value { name: String, role: Role },
    /// An operator, by the node of which no name is said.
    Op { op: String, domain: Option<String> },
    /// An operator of a node that is said to have no name.
    Unnamed { op: String },
}

/// The role of a value that a message names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Something that nodes read, and nobody makes.
    Read,
    /// Something that a node makes.
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
}

/// The sentences, those that say most first.
const SENTENCES: &[(About, &str)] = &[
    // ONNX Runtime, when a model runs.
    (About::Node, "running {op} node. Name:'{name}'"),
    // ONNX Runtime, when a model is loaded.
    (About::Node, "Could not find an implementation for {op}({_}) node with name '{name}'"),
    (About::Node, "Node ({name}) Op ({op})"),
    (About::Node, "of operator ({op}) in node ({name}) is"),
    (About::Node, "of Optype ({op}) bound to different types ({_} in node ({name})."),
    (About::Node, "of node ({name}) does not match expected type"),
    (About::Node, "of node ({name}) of operator ({op})"),
    (About::Node, "In Node, (\"{name}\", {op}, \""),
    (About::Node, "Node({name}) with schema("),
    (About::Node, "Node: {name} Output:"),
    (About::Node, "Node:{name} Output:"),
    (About::Op, "Fatal error: {domain}:{op}({_}) is not a registered function/op"),
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

/// Returns the names in a message, in order, with their places in the squeezed text.
pub(super) fn clues(text: &Squeezed<'_>) -> Vec<(Range<usize>, Clue)> {
    let mut clues: Vec<(Range<usize>, Clue)> = Vec::new();
    for (about, sentence) in TAKEN_APART.iter() {
        for found in find(sentence, text) {
            let range = found.start..found.end;
            let overlaps = |(other, _): &(Range<usize>, Clue)| {
                other.start < range.end && range.start < other.end
            };
            if clues.iter().any(overlaps) {
                continue;
            }
            clues.extend(clue(*about, found).map(|clue| (range, clue)));
        }
    }
    clues.sort_by_key(|(range, _)| range.start);
    clues
}

fn clue(about: About, found: Found) -> Option<Clue> {
    let holes = found.holes;
    let named = |name: Option<String>| name.filter(|name| !name.is_empty());
    match about {
        About::Node => match (named(holes.name), holes.op) {
            (Some(name), op) => Some(Clue::Node { name, op }),
            (None, Some(op)) => Some(Clue::Unnamed { op }),
            (None, None) => None,
        },
        About::Value(role) => named(holes.value).map(|name| Clue::Value { name, role }),
        About::Op => holes.op.map(|op| Clue::Op { op, domain: named(holes.domain) }),
    }
}
