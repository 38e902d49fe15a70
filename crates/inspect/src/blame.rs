//! Finds the nodes that each source line became, the opposite of `where`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use provenance::LocationId;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::Document;

/// The nodes that a line became.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The numbers of the nodes whose call site it is.
    pub nodes: Vec<usize>,
    /// The nodes that were fused from this line and another one.
    pub fused: Vec<usize>,
    /// The bytes of the weights that its nodes are the first to read.
    pub weight_bytes: u64,
}

/// Every line that nodes came from.
#[derive(Clone, Debug, Default)]
pub struct Blame<'d> {
    /// The lines, by file, then by line and function.
    pub files: BTreeMap<&'d str, BTreeMap<(u32, &'d str), Line>>,
    /// The number of nodes without a line.
    pub unknown: usize,
}

/// Assigns every node to its lines.
pub fn blame<'d>(document: &'d Document<'_>) -> Blame<'d> {
    let weights = weights(document);
    let mut lines: FxHashMap<LocationId, Line> = FxHashMap::default();
    let mut blame = Blame::default();
    for node in 0..document.scan.nodes.len() {
        let callsites = document.callsites(node);
        let Some((&first, others)) = callsites.split_first() else {
            blame.unknown += 1;
            continue;
        };
        let line = lines.entry(first).or_default();
        line.nodes.push(node);
        let bytes = weights.get(&node).copied().unwrap_or(0);
        line.weight_bytes = line.weight_bytes.saturating_add(bytes);
        for &other in others {
            lines.entry(other).or_default().fused.push(node);
        }
    }
    // Expressions on the same line count as one line.
    let mut locations: Vec<(LocationId, Line)> = lines.into_iter().collect();
    locations.sort_unstable_by_key(|&(location, _)| location);
    for (location, line) in locations {
        let frame = document.frame(location);
        let file = blame.files.entry(frame.file).or_default();
        let known = file.entry((frame.line, frame.function)).or_default();
        known.nodes.extend(line.nodes);
        known.fused.extend(line.fused);
        known.weight_bytes = known.weight_bytes.saturating_add(line.weight_bytes);
    }
    for line in blame.files.values_mut().flat_map(BTreeMap::values_mut) {
        line.nodes.sort_unstable();
        line.fused.sort_unstable();
        line.fused.dedup();
        line.fused.retain(|node| line.nodes.binary_search(node).is_err());
    }
    blame
}

/// Returns for each node the bytes of the weights that it is the first to read.
fn weights(document: &Document<'_>) -> FxHashMap<usize, u64> {
    let scan = &document.scan;
    let sizes: Vec<FxHashMap<&str, u64>> = scan
        .graphs
        .iter()
        .map(|graph| {
            let size = |t: &onnx::scan::Tensor<'_>| t.bytes().unwrap_or(t.typed as u64);
            graph.initializers.iter().map(|tensor| (tensor.name, size(tensor))).collect()
        })
        .collect();
    let mut seen: FxHashSet<(usize, &str)> = FxHashSet::default();
    let mut read: FxHashMap<usize, u64> = FxHashMap::default();
    for (number, node) in scan.nodes.iter().enumerate() {
        for &input in &node.inputs {
            let mut at = Some(node.graph as usize);
            while let Some(graph) = at {
                if let Some(size) = sizes.get(graph).and_then(|sizes| sizes.get(input)) {
                    if seen.insert((graph, input)) {
                        let read = read.entry(number).or_default();
                        *read = read.saturating_add(*size);
                    }
                    break;
                }
                at = scan.graphs.get(graph).and_then(|graph| graph.around);
            }
        }
    }
    read
}

impl<'d> Blame<'d> {
    /// Returns the files that match a name: the file with exactly that name, otherwise files whose path
    /// ends with it.
    pub fn matching(&self, wanted: &str) -> Vec<&'d str> {
        let wanted = wanted.trim_start_matches("./").replace('\\', "/");
        if let Some((&file, _)) = self.files.get_key_value(wanted.as_str()) {
            return vec![file];
        }
        let is_end = |whole: &str, end: &str| {
            whole.strip_suffix(end).is_some_and(|before| before.ends_with('/'))
        };
        let files = self.files.keys().copied();
        files.filter(|file| is_end(file, &wanted) || is_end(&wanted, file)).collect()
    }

    /// Returns the lines of a file.
    pub fn lines_of(&self, file: &str) -> impl Iterator<Item = (u32, &'d str, &Line)> {
        let lines = self.files.get(file).into_iter().flatten();
        lines.map(|(&(line, function), entry)| (line, function, entry))
    }
}

/// Counts the operators of nodes, in the order of the first of each.
pub fn ops(document: &Document<'_>, nodes: &[usize]) -> Vec<(String, usize)> {
    let mut ops: Vec<(String, usize)> = Vec::new();
    let mut places: FxHashMap<Cow<'_, str>, usize> = FxHashMap::default();
    for node in nodes.iter().filter_map(|&node| document.scan.nodes.get(node)) {
        let op = node.op_with_domain();
        let place = *places.entry(op.clone()).or_insert_with(|| {
            ops.push((op.into_owned(), 0));
            ops.len() - 1
        });
        ops[place].1 += 1;
    }
    ops
}
