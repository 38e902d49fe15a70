//! The lines that hold memory at the peak.

use std::fmt::Write;

use onnx::Total;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::{Held, Memory, Order, Purpose, Values, memory};
use crate::cost::{Lines, Sizing, show};
use crate::json::frame_with_source;
use crate::show::clean;
use crate::text::bytes;
use crate::{Document, Frame, Sources, Style};

/// The peak of the memory of a model.
#[derive(Debug)]
pub struct Peak<'d> {
    pub memory: Memory,
    pub order: Order,
    /// The lines that hold memory at the peak, the one that holds most first.
    pub lines: Vec<PeakLine<'d>>,
    /// The line that runs at the peak.
    pub at: Option<Frame<'d>>,
    values: Values,
}

/// A line that holds memory at the peak. A model without lines has nodes instead.
#[derive(Debug)]
pub struct PeakLine<'d> {
    pub key: String,
    pub frame: Option<Frame<'d>>,
    pub size: Total,
    /// The parts of its size.
    pub parts: Vec<(Purpose, Total)>,
    pub nodes: Vec<String>,
}

/// The maximum number of nodes to list for a line.
const MAX_NODES: usize = 32;

impl<'d> Peak<'d> {
    /// Plans the memory of a model and finds the lines that hold it at the peak.
    pub fn of(sizing: &Sizing<'d, '_>, lines: &Lines<'d>, order: Order) -> Peak<'d> {
        let document = sizing.document;
        // ONNX Runtime plans before it knows the values of symbols.
        let (model, values) = match Values::of(sizing) {
            Some(values) => (&sizing.open, values),
            None => (sizing.formulas(), Values::default()),
        };
        let plan = |model, values: &Values| memory(&document.scan, model, order, values);
        let (mut memory, mut values) = (plan(model, &values), values);
        if let (None, Some(bound)) = (memory.bytes, &sizing.bound) {
            values = Values::default();
            memory = plan(bound, &values);
        }
        let frame = |node: usize| lines.origin(node).and_then(|origin| origin.callsite);
        let mut numbers: FxHashMap<String, usize> = FxHashMap::default();
        let mut found: Vec<PeakLine<'d>> = Vec::new();
        for Held { node, size, purpose } in &memory.peak {
            let frame = frame(*node);
            let key = frame.map_or_else(|| document.node_name(*node), |frame| frame.to_string());
            let number = *numbers.entry(key).or_insert_with_key(|key| {
                let (key, size) = (key.clone(), Total::default());
                found.push(PeakLine { key, frame, size, parts: Vec::new(), nodes: Vec::new() });
                found.len() - 1
            });
            found[number].add(*purpose, size, document.node_name(*node));
        }
        found.sort_by(|a, b| values.measure(&b.size).total_cmp(&values.measure(&a.size)));
        let at = memory.node.and_then(frame);
        Peak { memory, order, lines: found, at, values }
    }

    /// Returns a sum as a number, if all sizes are known.
    pub fn number(&self, total: &Total) -> Option<i128> {
        self.values.number(total)
    }

    fn shown(&self, total: &Total) -> String {
        match (self.number(total), total.formula()) {
            (Some(number), _) => bytes(u64::try_from(number).unwrap_or_default()),
            (None, Some(formula)) => format!("{formula} bytes"),
            (None, None) => "(a very long formula)".to_owned(),
        }
    }

    /// Formats the peak and at most `top` of its lines.
    pub fn text(
        &self,
        document: &Document<'_>,
        top: usize,
        sources: &Sources<'_, '_>,
        style: Style,
    ) -> String {
        let Memory { formula, total, node, notes, .. } = &self.memory;
        let size = match (self.memory.bytes, formula) {
            (None, Some(formula)) => format!("{formula} bytes"),
            _ => self.shown(total),
        };
        let mut text = style.bold("peak of memory");
        let place = node.map_or_else(String::new, |node| match self.at {
            Some(at) => format!(", at {at}"),
            None => format!(", at {}", document.node_name(node)),
        });
        let size = clean(&format!("{size}{place}"));
        let _ = writeln!(text, ": {}", style.hanging(&size, "peak of memory: ".len()));
        let (inputs, weights) = (&self.memory.inputs, &self.memory.weights);
        let (inputs, weights) = (self.shown(inputs), self.shown(weights));
        let without = clean(&format!("without the inputs ({inputs}) and the weights ({weights})"));
        let _ = writeln!(text, "{}", style.hanging(&without, 0));
        for line in self.lines.iter().take(top) {
            let parts: Vec<&str> = line.parts.iter().map(|(purpose, _)| purpose.word()).collect();
            let parts = match &parts[..] {
                ["value"] => String::new(),
                parts => format!("  [{}]", parts.join(", ")),
            };
            let row = clean(&format!("{:>12}  {}{parts}", self.shown(&line.size), line.key));
            let _ = writeln!(text, "{}", style.hanging(&row, 14));
            if let Some((_, Some(source))) = line.frame.as_ref().map(|frame| sources.line(frame)) {
                let room = style.width.saturating_sub(14);
                let source = style.fit(&clean(source.trim()), room);
                let _ = writeln!(text, "{:14}{}", "", style.dim(&source));
            }
        }
        if self.lines.len() > top {
            let _ = writeln!(text, "  … {} more", self.lines.len() - top);
        }
        for note in notes {
            let _ = writeln!(text, "note: {}", style.hanging(note, "note: ".len()));
        }
        text
    }

    /// Returns the peak as JSON, which `docs/json-formats.md` describes.
    pub fn json(&self, document: &Document<'_>, sources: &Sources<'d, '_>) -> Value {
        let Memory { formula, node, inputs, outputs, weights, notes, .. } = &self.memory;
        let number = |total: &Total| self.number(total).map_or(Value::Null, show::integer);
        let line = |line: &PeakLine<'d>| {
            let source = line.frame.as_ref().map(|frame| frame_with_source(frame, sources));
            let part = |name: &str| source.as_ref().map_or(Value::Null, |it| it[name].clone());
            let of = |purpose: Purpose| {
                let parts = line.parts.iter().filter(|(other, _)| *other == purpose);
                parts.map(|(_, total)| number(total)).next().unwrap_or(json!(0))
            };
            json!({
                "key": line.key,
                "file": part("file"), "line": part("line"), "function": part("function"),
                "text": part("text"),
                "bytes": number(&line.size), "formula": line.size.formula(),
                "value": of(Purpose::Value), "kept": of(Purpose::Kept),
                "working": of(Purpose::Working),
                "nodes": line.nodes,
            })
        };
        json!({
            "bytes": self.memory.bytes.map_or(Value::Null, show::integer),
            "formula": formula,
            "order": self.order.word(),
            "node": node.map(|node| document.node_name(node)),
            "place": self.at.map(|at| at.to_string()),
            "inputs": number(inputs), "outputs": number(outputs), "weights": number(weights),
            "lines": self.lines.iter().map(line).collect::<Vec<_>>(),
            "notes": notes,
        })
    }
}

impl PeakLine<'_> {
    fn add(&mut self, purpose: Purpose, size: &Total, node: String) {
        let _ = self.size.add_total(size);
        if let Some((_, total)) = self.parts.iter_mut().find(|(other, _)| *other == purpose) {
            let _ = total.add_total(size);
        } else {
            self.parts.push((purpose, size.clone()));
        }
        if self.nodes.len() < MAX_NODES && !self.nodes.contains(&node) {
            self.nodes.push(node);
        }
    }
}
