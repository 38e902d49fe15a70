//! Finds weights that differ.

use std::collections::BTreeMap;

use onnx::scan::Tensor;

use crate::literals::is_literal;
use crate::{Document, Frame};

/// A weight that differs between the models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightChange<'d> {
    pub name: &'d str,
    pub kind: WeightKind,
    /// `f32[2,3]`
    pub before: Option<String>,
    pub after: Option<String>,
    /// The lines that read it in the second model, if it is in both.
    pub read_at: Vec<Frame<'d>>,
}

/// The kind of difference of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightKind {
    New,
    Gone,
    /// The type or the shape differs.
    Type,
    Contents,
    /// The contents are external, or encoded in different ways.
    NotCompared,
}

impl WeightKind {
    pub fn word(self) -> &'static str {
        match self {
            WeightKind::New => "new",
            WeightKind::Gone => "gone",
            WeightKind::Type => "type",
            WeightKind::Contents => "contents",
            WeightKind::NotCompared => "not compared",
        }
    }
}

/// Compares the weights of two models by name. Literals of formulas belong to their lines instead.
pub(super) fn compare<'d>(
    before: &'d Document<'_>,
    after: &'d Document<'_>,
) -> Vec<WeightChange<'d>> {
    let (old, new, in_after) = (by_name(before), by_name(after), after);
    let has_contents = before.has_weights && after.has_weights;
    let mut changes = Vec::new();
    for (&name, tensor) in &old {
        let types = |other: &Tensor<'_>| (Some(tensor.type_text()), Some(other.type_text()));
        let (kind, (before, after)) = match new.get(name) {
            None => (WeightKind::Gone, (Some(tensor.type_text()), None)),
            Some(other) if tensor.type_text() != other.type_text() => {
                (WeightKind::Type, types(other))
            }
            Some(other) => match has_contents.then(|| tensor.has_contents_of(other)).flatten() {
                Some(true) => continue,
                Some(false) => (WeightKind::Contents, types(other)),
                None => (WeightKind::NotCompared, types(other)),
            },
        };
        let read_at = match kind {
            WeightKind::Contents | WeightKind::Type => lines(in_after, name),
            _ => Vec::new(),
        };
        changes.push(WeightChange { name, kind, before, after, read_at });
    }
    for (&name, tensor) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
        let after = Some(tensor.type_text());
        let (kind, read_at) = (WeightKind::New, Vec::new());
        changes.push(WeightChange { name, kind, before: None, after, read_at });
    }
    changes.sort_by_key(|change| change.name);
    changes
}

fn by_name<'d, 'a>(document: &'d Document<'a>) -> BTreeMap<&'d str, &'d Tensor<'a>> {
    let tensors = document.scan.graphs.iter().flat_map(|graph| &graph.initializers);
    let weights = tensors.filter(|tensor| !is_literal(tensor));
    weights.map(|tensor| (tensor.name, tensor)).collect()
}

/// Returns the lines of the nodes that read a weight, each once.
fn lines<'d>(document: &'d Document<'_>, name: &str) -> Vec<Frame<'d>> {
    let nodes = document.scan.nodes.iter().enumerate();
    let readers = nodes.filter(|(_, node)| node.inputs.contains(&name));
    let mut lines: Vec<Frame<'d>> = Vec::new();
    for (reader, _) in readers {
        for id in document.callsites(reader) {
            let frame = document.frame(id);
            if !lines.iter().any(|known| (known.file, known.line) == (frame.file, frame.line)) {
                lines.push(frame);
            }
        }
    }
    lines
}
