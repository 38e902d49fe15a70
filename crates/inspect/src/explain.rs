//! Finds the user's line behind an error of a runtime.
//!
//! An answer states how it was found and how certain it is. It never guesses: if a message does not
//! determine a line, the answer contains no line, or all possible lines.

mod advice;
mod derived;
mod described;
mod json;
mod lines;
mod resolve;
mod text;

use crate::log::{self, Class, Message};
use crate::{Document, Frame, Provenance};

pub use json::json;
pub use text::text;

/// The certainty of an answer, the most certain first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    /// The message names a node or a value of this model, which has one line.
    Certain,
    /// The known behavior of runtimes leads from the message to one line.
    Likely,
    /// It is one of several lines.
    OneOf,
    Unknown,
}

impl Certainty {
    pub fn word(self) -> &'static str {
        match self {
            Certainty::Certain => "certain",
            Certainty::Likely => "likely",
            Certainty::OneOf => "one-of",
            Certainty::Unknown => "unknown",
        }
    }
}

/// A value of the model, with its declared type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueType {
    pub name: String,
    pub role: &'static str,
    pub ty: Option<String>,
}

/// The explanation of one message.
#[derive(Clone, Debug)]
pub struct Finding<'d> {
    pub message: Message,
    pub certainty: Certainty,
    /// A sentence on how the lines were found.
    pub how: String,
    /// The number of the node that it concerns.
    pub node: Option<usize>,
    /// The enclosing nodes, outermost first.
    pub within: Vec<usize>,
    /// The possible lines, each once, the best first.
    pub lines: Vec<Frame<'d>>,
    /// The call path and the scopes of the first line.
    pub origin: Option<Provenance<'d>>,
    /// The operands and the results of the node.
    pub values: Vec<ValueType>,
    /// Advice that usually helps.
    pub advice: Option<String>,
}

/// The explanation of a log.
#[derive(Clone, Debug)]
pub struct Explanation<'d> {
    /// The findings in the order of the log, without repetition.
    pub findings: Vec<Finding<'d>>,
    /// True if a part of the log was not read.
    pub is_cut: bool,
}

impl Explanation<'_> {
    /// True if at least one message leads to a line.
    pub fn has_lines(&self) -> bool {
        self.findings.iter().any(|finding| !finding.lines.is_empty())
    }
}

/// Explains every message of a log. If the text is only the name of a node or a value, explains that.
pub fn explain<'d>(document: &'d Document<'_>, log: &[u8]) -> Explanation<'d> {
    let name = std::str::from_utf8(log).map(str::trim).unwrap_or_default();
    let log = log::parse(log);
    let mut findings: Vec<Finding<'d>> = Vec::new();
    if log.messages.is_empty() && !document.answer_of_name(name).1.is_empty() {
        findings.push(finding(document, Message::of_name(name)));
    }
    for message in log.messages {
        let finding = finding(document, message);
        if finding.message.is_loose && finding.lines.is_empty() && finding.node.is_none() {
            continue;
        }
        match findings.iter_mut().find(|known| is_same(known, &finding)) {
            Some(known) if finding.certainty < known.certainty => *known = finding,
            Some(_) => {}
            None => findings.push(finding),
        }
    }
    Explanation { findings, is_cut: log.is_cut }
}

/// True if two messages concern the same node or value.
fn is_same(a: &Finding<'_>, b: &Finding<'_>) -> bool {
    let is_one = a.node.is_some() && a.node == b.node;
    let is_silent = |finding: &Finding<'_>| finding.lines.is_empty() && finding.node.is_none();
    is_one || (is_silent(a) && is_silent(b) && a.message.class == b.message.class)
}

fn finding<'d>(document: &'d Document<'_>, message: Message) -> Finding<'d> {
    let found = resolve::resolve(document, &message);
    let lines = lines::lines(document, &found, &message);
    // The node that detects a buffer of the wrong size is not the node that caused it.
    let is_certain = found.is_certain && message.class != Some(Class::Buffer);
    let certainty = match (lines.frames.len(), is_certain) {
        (0, _) => Certainty::Unknown,
        (1, true) => Certainty::Certain,
        (1, false) => Certainty::Likely,
        _ if lines.is_chosen => Certainty::Likely,
        _ => Certainty::OneOf,
    };
    let mut how = found.how;
    if lines.frames.is_empty() && !(found.nodes.is_empty() && found.origins.is_empty()) {
        how += "; ";
        how += document.missing().unwrap_or("these nodes have no line");
    }
    let node = found.nodes.first().copied().filter(|_| found.nodes.len() == 1);
    let values = node.map(|node| values(document, node)).unwrap_or_default();
    Finding {
        certainty,
        how,
        node,
        within: found.within,
        origin: lines.origin,
        lines: lines.frames,
        values,
        advice: advice::advice(document, &message, node),
        message,
    }
}

/// Returns the operands and the results of a node.
fn values(document: &Document<'_>, node: usize) -> Vec<ValueType> {
    /// The maximum number of values to show.
    const MAX: usize = 12;
    let Some(node) = document.scan.nodes.get(node) else {
        return Vec::new();
    };
    let inputs = node.inputs.iter().map(|&name| ("reads", name));
    let outputs = node.outputs.iter().map(|&name| ("makes", name));
    let named = inputs.chain(outputs).filter(|(_, name)| !name.is_empty()).take(MAX);
    named
        .map(|(role, name)| {
            let ty = document.value_type(node.graph as usize, name);
            ValueType { name: name.to_owned(), role, ty }
        })
        .collect()
}
