//! Compares two models, aligned by the lines that nodes came from, then by name.

mod align;
mod literals;
mod renames;
mod weights;

use std::collections::BTreeMap;

use onnx::scan::{Attribute, AttributeValue, ValueInfo};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::show::attribute_text;
use crate::{Document, Frame};
pub use weights::{WeightChange, WeightKind};

/// The maximum length of the text of an attribute.
const MAX_TEXT: usize = 60;

/// The answer of `jax2onnx diff`.
#[derive(Clone, Debug, Default)]
pub struct Diff<'d> {
    /// Differences in opsets, inputs and outputs.
    pub ends: Vec<EndChange>,
    /// Lines whose nodes differ, by file and function, in the order of the source.
    pub lines: Vec<LineChange<'d>>,
    /// Differences in nodes without a line, by name.
    pub unplaced: Vec<NodeChange>,
    pub weights: Vec<WeightChange<'d>>,
    pub nodes: (usize, usize),
    /// The number of lines that moved but have the same nodes.
    pub moved: usize,
    /// Files that were renamed: before, after.
    pub renamed: Vec<(&'d str, &'d str)>,
    /// The nodes that correspond to each other.
    pub pairs: Vec<Pair>,
}

/// A node of the first model and the node of the second model that stands for it, by their indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    pub before: usize,
    pub after: usize,
    /// True if the operators, the attributes, the literals or the types differ.
    pub is_different: bool,
}

/// A difference of the model as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndChange {
    /// `opset`, `in x`
    pub what: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

/// A line that gained, lost or changed nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineChange<'d> {
    pub file: &'d str,
    /// The name of the file in the first model.
    pub file_before: &'d str,
    pub function: &'d str,
    /// The line in the first model; `None` if it is new.
    pub before: Option<u32>,
    /// The line in the second model; `None` if it was removed.
    pub after: Option<u32>,
    /// Operators and their counts.
    pub lost: Vec<(String, usize)>,
    pub gained: Vec<(String, usize)>,
    pub changed: Vec<NodeChange>,
}

/// A node that changed, or that is in only one of the models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeChange {
    pub op: String,
    pub before: Option<String>,
    pub after: Option<String>,
    /// `axis: 1 → -1`
    pub what: Vec<String>,
}

impl Diff<'_> {
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
            && self.lines.is_empty()
            && self.unplaced.is_empty()
            && self.weights.iter().all(|weight| weight.kind == WeightKind::NotCompared)
    }
}

/// Compares two models.
pub fn diff<'d>(before: &'d Document<'_>, after: &'d Document<'_>) -> Diff<'d> {
    // If one model has no file names, lines are matched by function only.
    let has_files = before.has_files() && after.has_files();
    let (mut a, b) = (Side::of(before, has_files), Side::of(after, has_files));
    let renamed = renames::renames(&a, &b);
    a.rename(&renamed);
    let mut diff = Diff {
        ends: ends(before, after),
        weights: weights::compare(before, after),
        nodes: (before.scan.nodes.len(), after.scan.nodes.len()),
        renamed: renamed.into_iter().collect(),
        ..Diff::default()
    };
    let mut functions: Vec<&(&str, &str)> = a.lines.keys().chain(b.lines.keys()).collect();
    functions.sort_unstable();
    functions.dedup();
    let none = BTreeMap::new();
    for &(file, function) in functions {
        let old_name = diff.renamed.iter().find(|(_, after)| *after == file);
        let file_before = old_name.map_or(file, |(before, _)| before);
        let of = |side: &Side<'d, '_>| side.lines.get(&(file, function)).unwrap_or(&none).clone();
        for (old, new) in align::align(&a, &of(&a), &b, &of(&b)) {
            let change = line_change(&a, old.as_ref(), &b, new.as_ref(), &mut diff.pairs);
            let change = LineChange { file, file_before, function, ..change };
            if change.lost.is_empty() && change.gained.is_empty() && change.changed.is_empty() {
                diff.moved += usize::from(change.before != change.after);
            } else {
                diff.lines.push(change);
            }
        }
    }
    diff.lines.sort_by_key(|line| (line.file, line.after.or(line.before)));
    diff.unplaced = by_name(&a, &b, &mut diff.pairs);
    diff
}

/// A line with its nodes.
type Placed = (u32, Vec<usize>);

/// A model with its nodes by line.
struct Side<'d, 'a> {
    document: &'d Document<'a>,
    /// The nodes of each line, by file and function.
    lines: BTreeMap<(&'d str, &'d str), BTreeMap<u32, Vec<usize>>>,
    unplaced: Vec<usize>,
    ops: Vec<String>,
    types: Vec<FxHashMap<&'d str, &'d ValueInfo<'a>>>,
}

impl<'d, 'a> Side<'d, 'a> {
    fn of(document: &'d Document<'a>, has_files: bool) -> Side<'d, 'a> {
        let mut side = Side {
            document,
            lines: BTreeMap::new(),
            unplaced: Vec::new(),
            ops: document.scan.nodes.iter().map(|n| n.op_with_domain().into_owned()).collect(),
            types: Vec::new(),
        };
        for graph in &document.scan.graphs {
            let values = graph.values.iter().chain(&graph.inputs).chain(&graph.outputs);
            side.types.push(values.map(|value| (value.name, value)).collect());
        }
        for node in 0..document.scan.nodes.len() {
            match document.callsites(node).first() {
                Some(&location) => {
                    let frame = document.frame(location);
                    let file = if has_files { frame.file } else { Frame::UNKNOWN };
                    let function = side.lines.entry((file, frame.function)).or_default();
                    function.entry(frame.line).or_default().push(node);
                }
                None => side.unplaced.push(node),
            }
        }
        side
    }

    /// Renames files.
    fn rename(&mut self, renamed: &BTreeMap<&'d str, &'d str>) {
        let lines = std::mem::take(&mut self.lines).into_iter();
        let name = |file| renamed.get(file).copied().unwrap_or(file);
        self.lines =
            lines.map(|((file, function), lines)| ((name(file), function), lines)).collect();
    }

    fn type_of(&self, node: usize) -> Option<String> {
        let node = self.document.scan.nodes.get(node)?;
        let types = self.types.get(node.graph as usize)?;
        let types: Vec<String> = node
            .outputs
            .iter()
            .map(|output| types.get(output).and_then(|value| value.ty.as_ref()))
            .map(|ty| ty.map_or_else(|| "?".to_owned(), ToString::to_string))
            .collect();
        Some(types.join(", "))
    }

    /// Returns the nodes of a line by operator, in order.
    fn by_op(&self, nodes: &[usize]) -> BTreeMap<&str, Vec<usize>> {
        let mut ops: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for &node in nodes {
            ops.entry(&self.ops[node]).or_default().push(node);
        }
        ops
    }
}

fn line_change<'d>(
    a: &Side<'_, '_>,
    before: Option<&Placed>,
    b: &Side<'_, '_>,
    after: Option<&Placed>,
    pairs: &mut Vec<Pair>,
) -> LineChange<'d> {
    let of = |side: Option<&Placed>| side.map(|(_, nodes)| nodes.clone()).unwrap_or_default();
    let (old, new) = (of(before), of(after));
    let (old, new) = (a.by_op(&old), b.by_op(&new));
    let mut change = LineChange {
        file: "",
        file_before: "",
        function: "",
        before: before.map(|(line, _)| *line),
        after: after.map(|(line, _)| *line),
        lost: Vec::new(),
        gained: Vec::new(),
        changed: Vec::new(),
    };
    let mut ops: Vec<&&str> = old.keys().chain(new.keys()).collect();
    ops.sort_unstable();
    ops.dedup();
    for &op in ops {
        let none = Vec::new();
        let (old, new) = (old.get(op).unwrap_or(&none), new.get(op).unwrap_or(&none));
        let (lost, gained) =
            (old.len().saturating_sub(new.len()), new.len().saturating_sub(old.len()));
        change.lost.extend((lost > 0).then(|| (op.to_owned(), lost)));
        change.gained.extend((gained > 0).then(|| (op.to_owned(), gained)));
        if lost + gained > 0 {
            // The nodes with the same position need not be the same.
            let same = same_names(a, old, b, new).into_iter();
            pairs.extend(same.map(|(before, after)| Pair { before, after, is_different: false }));
            continue;
        }
        for (&before, &after) in old.iter().zip(new) {
            let changed = node_change(a, before, b, after);
            pairs.push(Pair { before, after, is_different: changed.is_some() });
            change.changed.extend(changed);
        }
    }
    change
}

/// Pairs nodes with the same name, and the others in order.
fn same_names(
    a: &Side<'_, '_>,
    old: &[usize],
    b: &Side<'_, '_>,
    new: &[usize],
) -> Vec<(usize, usize)> {
    let mut named: BTreeMap<String, usize> =
        new.iter().map(|&node| (b.document.node_name(node), node)).collect();
    let (mut pairs, mut rest) = (Vec::new(), Vec::new());
    for &node in old {
        match named.remove(&a.document.node_name(node)) {
            Some(other) => pairs.push((node, other)),
            None => rest.push(node),
        }
    }
    let taken: FxHashSet<usize> = pairs.iter().map(|&(_, other)| other).collect();
    pairs.extend(rest.into_iter().zip(new.iter().copied().filter(|node| !taken.contains(node))));
    pairs
}

/// Compares two nodes with the same operator.
fn node_change(a: &Side<'_, '_>, old: usize, b: &Side<'_, '_>, new: usize) -> Option<NodeChange> {
    let (before, after) = (a.document.scan.nodes.get(old)?, b.document.scan.nodes.get(new)?);
    let mut what = Vec::new();
    let mut names: Vec<&str> =
        before.attributes.iter().chain(&after.attributes).map(|attribute| attribute.name).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let (old, new) = (before.attribute(name), after.attribute(name));
        if let (Some(old), Some(new)) = (old, new)
            && is_same(old, new)
        {
            continue;
        }
        let shown = |attribute: Option<&Attribute<'_>>| {
            attribute.map_or("nothing".to_owned(), |attribute| attribute_text(attribute, MAX_TEXT))
        };
        what.push(format!("{name}: {} → {}", shown(old), shown(new)));
    }
    what.extend(literals::changes(a, before, b, after));
    let (old_type, new_type) = (a.type_of(old)?, b.type_of(new)?);
    if old_type != new_type {
        what.push(format!("result {old_type} → {new_type}"));
    }
    let name = |side: &Side<'_, '_>, node| Some(side.document.node_name(node));
    let op = b.ops.get(new)?.clone();
    (!what.is_empty()).then(|| NodeChange { op, before: name(a, old), after: name(b, new), what })
}

/// True if two attributes are equal. Bodies are compared by their own nodes.
fn is_same(old: &Attribute<'_>, new: &Attribute<'_>) -> bool {
    let is_body = |attribute: &Attribute<'_>| attribute.value() == AttributeValue::Graphs;
    old.message == new.message || (is_body(old) && is_body(new)) || old.value() == new.value()
}

/// Compares nodes without a line, by name.
fn by_name(a: &Side<'_, '_>, b: &Side<'_, '_>, pairs: &mut Vec<Pair>) -> Vec<NodeChange> {
    let named = |side: &Side<'_, '_>| -> BTreeMap<String, usize> {
        side.unplaced.iter().map(|&node| (side.document.node_name(node), node)).collect()
    };
    let (old, new) = (named(a), named(b));
    let mut changes = Vec::new();
    for (name, &node) in &old {
        match new.get(name) {
            Some(&other) => {
                let change = if a.ops[node] == b.ops[other] {
                    node_change(a, node, b, other)
                } else {
                    Some(NodeChange {
                        op: b.ops[other].clone(),
                        before: Some(name.clone()),
                        after: Some(name.clone()),
                        what: vec![format!("{} → {}", a.ops[node], b.ops[other])],
                    })
                };
                pairs.push(Pair { before: node, after: other, is_different: change.is_some() });
                changes.extend(change);
            }
            None => changes.push(NodeChange {
                op: a.ops[node].clone(),
                before: Some(name.clone()),
                after: None,
                what: Vec::new(),
            }),
        }
    }
    for (name, &node) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
        let (op, after) = (b.ops[node].clone(), Some(name.clone()));
        changes.push(NodeChange { op, before: None, after, what: Vec::new() });
    }
    changes
}

/// Compares opsets, inputs and outputs.
fn ends(before: &Document<'_>, after: &Document<'_>) -> Vec<EndChange> {
    let facts = |document: &Document<'_>| -> BTreeMap<(u8, String), String> {
        let scan = &document.scan;
        let mut facts: BTreeMap<(u8, String), String> = BTreeMap::new();
        for (domain, version) in &scan.opsets {
            let what =
                if domain.is_empty() { "opset".to_owned() } else { format!("opset {domain}") };
            facts.insert((0, what), version.to_string());
        }
        facts.insert((0, "IR version".to_owned()), scan.ir_version.to_string());
        for (order, what, list) in
            [(1, "in", &scan.main().inputs), (2, "out", &scan.main().outputs)]
        {
            for value in list {
                let ty = value.ty.as_ref().map_or_else(|| "?".to_owned(), ToString::to_string);
                facts.insert((order, format!("{what} {}", value.name)), ty);
            }
        }
        facts
    };
    let (old, new) = (facts(before), facts(after));
    let mut names: Vec<&(u8, String)> = old.keys().chain(new.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let change = |name: &&(u8, String)| {
        let (before, after) = (old.get(*name).cloned(), new.get(*name).cloned());
        (before != after).then(|| EndChange { what: name.1.clone(), before, after })
    };
    names.iter().filter_map(change).collect()
}
