//! Finds the lines of all nodes of a model at once.

use onnx::scan::{self, Graph};
use provenance::keys;
use provenance::outline::GraphPlace;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use crate::show::excerpt;
use crate::{Document, Frame, Provenance, Sources, Style, json as values};

/// Returns the lines of each node and of each weight, by graph.
///
/// `frames` contains each line once. A node consists of its operator, its name, how its lines were found, and the
/// numbers of its frames, the one to show first at the front.
pub fn lines(document: &Document<'_>, sources: &Sources<'_, '_>) -> Value {
    let mut frames = Frames { known: FxHashMap::default(), shown: Vec::new(), sources };
    let graphs: Vec<Value> = document
        .scan
        .graphs
        .iter()
        .map(|graph| graph_lines(document, graph, &mut frames))
        .collect();
    // Nodes that another tool added have no line, whatever the model records.
    let missing = document.missing();
    json!({ "graphs": graphs, "frames": frames.shown, "missing": missing })
}

fn graph_lines<'d>(
    document: &'d Document<'_>,
    graph: &'d Graph<'_>,
    frames: &mut Frames<'d, '_, '_, '_>,
) -> Value {
    let (node, attribute, function) = match &graph.place {
        GraphPlace::Main => (None, None, None),
        GraphPlace::Function(name) => (None, None, Some(name.to_string())),
        GraphPlace::Body { node, attribute } => (Some(*node), Some(attribute.to_string()), None),
    };
    let nodes: Vec<Value> = graph
        .nodes
        .clone()
        .map(|number| {
            let found = document.provenance(number);
            let sure = found.as_ref().map(|found| found.sure.word());
            json!([sure, frames.of(found.as_ref())])
        })
        .collect();
    let weights: Vec<Value> = graph
        .initializers
        .iter()
        .filter_map(|tensor| {
            let number = scan::meta(&tensor.metadata, keys::ORIGIN)?.parse().ok()?;
            let found = document.provenance_of_origin(number)?;
            Some(json!([tensor.name, frames.of(Some(&found))]))
        })
        .collect();
    json!({
        "node": node,
        "attribute": attribute,
        "function": function,
        "first": graph.nodes.start,
        "nodes": nodes,
        "weights": weights,
    })
}

/// The lines in the result, each once.
struct Frames<'d, 's, 'a, 'b> {
    known: FxHashMap<Frame<'d>, usize>,
    shown: Vec<Value>,
    sources: &'s Sources<'a, 'b>,
}

impl<'d> Frames<'d, '_, '_, '_> {
    /// Returns the numbers of the lines of an origin.
    fn of(&mut self, found: Option<&Provenance<'d>>) -> Vec<usize> {
        let Some(found) = found else { return Vec::new() };
        let frames = found.callsite.iter().copied().chain(found.fused_lines());
        frames.map(|frame| self.number(frame)).collect()
    }

    fn number(&mut self, frame: Frame<'d>) -> usize {
        if let Some(&number) = self.known.get(&frame) {
            return number;
        }
        let mut shown = values::frame_with_source(&frame, self.sources);
        shown["excerpt"] = json!(excerpt(&frame, self.sources, Style::plain()));
        self.shown.push(shown);
        let number = self.shown.len() - 1;
        self.known.insert(frame, number);
        number
    }
}
