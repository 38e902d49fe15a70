//! The sentences in which runtimes name nodes, operators and values.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use super::clean::Squeezed;
use super::operands::{self, Operands};
use super::pattern::{Sentence, SentenceMatch, find};

/// A node, value or operator that a message names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clue {
    /// A node, and its operator if the message contains it.
    Node { name: String, op: Option<String> },
    /// A node, or one in its bodies: the checker of onnx names only the outermost one.
    Context { name: String, op: String },
    /// A node by the name of one of its results, and its operator if the message contains it.
    Output { name: String, op: Option<String> },
    /// A part of the node before it. The name counts only if the model contains it, because runtimes also name parts
    /// that they created.
    Inner { name: String },
    /// A value: a tensor, a weight, an input.
    Value { name: String, role: Role },
    /// An input of the model, by its position.
    Argument { position: usize },
    /// A node by its position in its graph, and its operator.
    Numbered { position: usize, op: String },
    /// A node without an attribute that its operator requires.
    Lacking { attribute: String },
    /// A node whose attribute has another value than 0.
    Other { op: String, attribute: &'static str },
    /// Weights in a file beside the model, by the name of the file and their offset.
    External { file: Option<String>, offset: Option<u64> },
    /// A product whose operands do not fit.
    Product,
    /// The last of the nodes that a runtime fused, by the name of its result, and the operation in the runtime.
    Fused { name: String, operation: String },
    /// A node with operands of these sizes along an axis.
    Broadcast { sizes: [i64; 2] },
    /// A node by the types of its operands.
    Operands(Box<Operands>),
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
    Context,
    Output,
    Inner,
    Argument,
    Numbered,
    Lacking,
    Broadcast,
    Product,
    Fused,
    External,
    Value(Role),
    Op,
    /// An operator and an attribute that the sentence implies.
    Other(&'static str, &'static str),
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
    // onnx: its checker and its shape inference.
    (About::Context, "node. Name: {name} OpType: {op}"),
    (About::Node, "of node: name: {name} OpType: {op}"),
    (About::Node, "(op_type:{op}, node name: {name}):"),
    // TensorRT.
    (About::Node, "--- Begin node ---{_}name: \"{name}\" op_type: \"{op}\""),
    (About::Output, "While parsing node number {_} [{op} -> \"{value}\"]"),
    (About::Op, "While parsing node number {_} [{op}]"),
    (About::Node, "In node {_} with name: {name} and operator: {op} ("),
    (About::Node, "Invalid Node - {name}"),
    (About::Numbered, "In node {number} (import{op}):"),
    (About::Node, "Could not find any implementation for node {line}"),
    (About::Node, "computing output extent of node {name}"),
    (About::Node, "No supported formats for {name}"),
    (About::Op, "] No importer registered for op: {op}"),
    (About::Op, "UNSUPPORTED_NODE: No importer registered for op: {op}"),
    // OpenVINO.
    (About::Output, "While validating ONNX node '<Node({op}): {value}>'"),
    (About::Inner, "with friendly_name '{name}'"),
    (About::Fused, "Unsupported operation of type: {op} name: {value}"),
    (About::Value(Role::Read), "Input tensor isn't found for node \"{value}\""),
    (About::Value(Role::Weight), "implied by its shape for tensor '{value}' in the model"),
    (About::External, "externally stored data in file ({name}, offset: {number},"),
    (About::Argument, "Can't set the input tensor with index: {number},"),
    (About::Value(Role::Input), "Can't set the input tensor with name: {value},"),
    // tract. It computes constants in models of its own.
    (About::Inner, "Eager eval during inference{_}Evaluating #{number} \"{name}\""),
    (About::Node, "Evaluating #{number} \"{name}\""),
    (About::Node, "node #{number} \"{name}\""),
    (About::Node, "Building node {name} ({op})"),
    (About::Inner, "in output_facts invocation for {name}: "),
    (About::External, "ONNX external data path \"{name}\""),
    (About::External, "external data range {number}..{number2} is out of bounds"),
    (About::Value(Role::Read), "Could not resolve inputs at top-level: [\"{value}\""),
    // rten.
    (About::Value(Role::Weight), "in node \"{value}\": graph error:"),
    (About::Value(Role::Weight), "in node \"{value}\": external data error:"),
    (About::Node, "in node \"{name}\": operator error:"),
    (About::Node, "operator \"{name}\" failed:"),
    (About::Node, "operator \"{name}\" subgraph error:"),
    (About::Node, "operator \"{name}\" output mismatch:"),
    (About::Value(Role::Read), "Missing input \"{value}\" for op"),
    (About::Value(Role::Input), "input \"{value}\" is invalid:"),
    // rten, as a program prints an error that it returns from `main`.
    (About::Node, "OperatorError{_}name: \"{name}\", error"),
    (About::Node, "SubgraphError{_}name: \"{name}\", error"),
    (About::Node, "inner: OperatorInvalid({_}node: Some(\"{name}\")"),
    (About::Value(Role::Weight), "inner: GraphError({_}node: Some(\"{value}\")"),
    (About::Value(Role::Weight), "inner: ExternalDataError({_}node: Some(\"{value}\")"),
    (About::Value(Role::Read), "Missing input \\\"{value}\\\" for op"),
    (About::Value(Role::Input), "InvalidInput{_}name: \"{value}\", error"),
    // The stacks of panics of tract and rten.
    (About::Op, "<tract_core::ops::{op} as tract_core::ops::EvalOp>::eval"),
    (About::Op, "<tract_onnx::ops::{op} as tract_hir::ops::expandable::Expansion>::rules"),
    (About::Op, "<rten::ops::{op} as rten::operator::Operator>::run"),
    // MNN.
    (About::Output, "Compute Shape Error for {value}"),
    (About::External, "Can't open file:{name}"),
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
    (About::OpNamed("GatherElements"), "gather_elements.cc:"),
    (About::OpNamed("Attention"), "attention_helper.h:"),
    (About::Product, "Incompatible dimensions for matrix multiplication"),
    // The reference evaluator of onnx.
    (
        About::Other("Scan", "scan_input_directions"),
        "Scan is not implemented for other output input_direction than 0",
    ),
    (
        About::Other("Scan", "scan_output_directions"),
        "Scan is not implemented for other output output_direction than 0",
    ),
    (
        About::Other("Scan", "scan_input_axes"),
        "Scan is not implemented for other input axes than 0",
    ),
    (
        About::Other("Scan", "scan_output_axes"),
        "Scan is not implemented for other output axes than 0",
    ),
    (About::Lacking, "Required attribute '{value}' is missing"),
    (
        About::Broadcast,
        "Attempting to broadcast an axis by a dimension other than 1. {number} by {number2}",
    ),
    (About::OpNamed("Reshape"), "input tensor cannot be reshaped to the requested shape"),
    (About::OpNamed("Split"), "Invalid value in 'split'"),
    (About::OpNamed("TopK"), "k argument [{_}] should not be greater than"),
    // Words that also occur in other texts.
    (About::Inner, "Layer {name}: "),
    (About::Inner, "Error ({name}: "),
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

/// The parts of a text in which names were found: the end of each part, by its start.
#[derive(Default)]
struct Taken(BTreeMap<usize, usize>);

impl Taken {
    fn add(&mut self, range: &Range<usize>) {
        let end = self.0.entry(range.start).or_default();
        *end = range.end.max(*end);
    }

    fn overlaps(&self, range: &Range<usize>) -> bool {
        let before = self.0.range(..range.end).next_back();
        before.is_some_and(|(_, &end)| range.start < end)
    }
}

/// Returns the names in a message.
pub(super) fn clues(text: &Squeezed<'_>) -> Clues {
    let mut clues: Vec<(Range<usize>, Clue)> = Vec::new();
    let mut loose: Vec<(Range<usize>, Clue)> = Vec::new();
    clues.extend(operands::find(text));
    let mut taken = Taken::default();
    for (range, _) in &clues {
        taken.add(range);
    }
    for (about, sentence) in TAKEN_APART.iter() {
        for found in find(sentence, text) {
            let range = found.start..found.end;
            if taken.overlaps(&range) {
                continue;
            }
            let list = if matches!(about, About::LooseNode) { &mut loose } else { &mut clues };
            if let Some(clue) = clue(*about, found) {
                taken.add(&range);
                list.push((range, clue));
            }
        }
    }
    let is_inner = |(_, clue): &(Range<usize>, Clue)| matches!(clue, Clue::Inner { .. });
    if clues.iter().all(is_inner) {
        loose.append(&mut clues);
    }
    let is_loose = clues.is_empty() && !loose.is_empty();
    let mut found = if is_loose { loose } else { clues };
    found.sort_by_key(|(range, _)| range.start);
    // If a node has a name, its operator adds nothing.
    let is_vague = |clue: &Clue| {
        matches!(
            clue,
            Clue::Op { .. }
                | Clue::Lacking { .. }
                | Clue::Other { .. }
                | Clue::Broadcast { .. }
                | Clue::Product
        )
    };
    let is_exact = |clue: &Clue| !is_vague(clue) && !matches!(clue, Clue::Inner { .. });
    let is_context = |(_, clue): &(Range<usize>, Clue)| matches!(clue, Clue::Context { .. });
    if found.iter().any(is_context) {
        // The operator is that of a node inside.
        found.sort_by_key(|(_, clue)| is_vague(clue));
    } else if found.iter().any(|(_, clue)| is_exact(clue)) {
        found.retain(|(_, clue)| !is_vague(clue));
    }
    found.drain(..found.len().saturating_sub(MAX_CLUES));
    Clues { found, is_loose }
}

/// The maximum number of names in a message. A message with more of them concerns the last ones.
const MAX_CLUES: usize = 64;

fn clue(about: About, found: SentenceMatch) -> Option<Clue> {
    let mut holes = found.holes;
    // `ai.onnx.Erf` is `Erf`, and `array::squeeze::Squeeze13` is `Squeeze`.
    holes.op = holes.op.map(|op| match op.rsplit_once("::") {
        Some((_, op)) => op.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned(),
        None => op.rsplit('.').next().unwrap_or_default().to_owned(),
    });
    let named = |name: Option<String>| name.filter(|name| !name.is_empty());
    match about {
        // A line of a stack of Node.js.
        About::LooseNode if holes.name.as_ref().is_some_and(|it| it.starts_with("internal/")) => {
            None
        }
        About::Node | About::LooseNode => match (named(holes.name), holes.op) {
            (Some(name), op) => Some(Clue::Node { name, op }),
            (None, Some(op)) => Some(Clue::Unnamed { op }),
            (None, None) => None,
        },
        About::Output => {
            let op = holes.op.filter(|op| !op.is_empty());
            named(holes.value).map(|name| Clue::Output { name, op })
        }
        About::Inner => named(holes.name).map(|name| Clue::Inner { name }),
        About::Argument => holes.number?.parse().ok().map(|position| Clue::Argument { position }),
        About::Numbered => {
            let position = holes.number?.parse().ok()?;
            holes.op.map(|op| Clue::Numbered { position, op })
        }
        About::Context => {
            let op = holes.op.unwrap_or_default();
            named(holes.name).map(|name| Clue::Context { name, op })
        }
        About::Product => Some(Clue::Product),
        About::External => {
            let name = holes.name.as_deref().and_then(|path| path.rsplit(['/', '\\']).next());
            let file = named(name.map(str::to_owned));
            let offset = holes.number.and_then(|number| number.parse().ok());
            Some(Clue::External { file, offset })
        }
        About::Fused => {
            let operation = holes.op.unwrap_or_default();
            named(holes.value).map(|name| Clue::Fused { name, operation })
        }
        About::Lacking => named(holes.value).map(|attribute| Clue::Lacking { attribute }),
        About::Other(op, attribute) => Some(Clue::Other { op: op.to_owned(), attribute }),
        About::Broadcast => {
            let sizes = [holes.number?.parse().ok()?, holes.number2?.parse().ok()?];
            Some(Clue::Broadcast { sizes })
        }
        About::Value(role) => named(holes.value).map(|name| Clue::Value { name, role }),
        About::OpNamed(op) => Some(Clue::Op { op: op.to_owned(), domain: None }),
        About::Op => holes.op.map(|op| Clue::Op { op, domain: named(holes.domain) }),
    }
}
