//! Summarizes a model: inputs, outputs, operators, weights, and provenance.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use onnx::scan::{Scan, ValueInfo};
use provenance::outline::GraphPlace;
use provenance::resolve::Sure;
use provenance::{LocationId, ScopeId, Tier, keys};

use crate::external::{self, Outside};
use crate::positive::{Positive, positive};
use crate::{Document, Recorded};

/// The answer of `jax2onnx inspect`.
#[derive(Clone, Debug)]
pub struct Summary<'d> {
    pub inputs: Vec<End<'d>>,
    pub outputs: Vec<End<'d>>,
    pub positive_sizes: Vec<Positive<'d>>,
    pub weights: Weights<'d>,
    pub nodes: usize,
    pub bodies: usize,
    pub functions: Vec<Function<'d>>,
    /// Operators and their counts, the most frequent first.
    pub ops: Vec<(String, usize)>,
    pub origins: Origins<'d>,
}

/// An input or an output.
#[derive(Clone, Debug)]
pub struct End<'d> {
    pub name: &'d str,
    pub ty: Option<String>,
    /// The path in the arguments or in the result.
    pub path: Option<&'d str>,
}

/// The initializers of all graphs.
#[derive(Clone, Debug, Default)]
pub struct Weights<'d> {
    pub count: usize,
    pub elements: u64,
    /// The size of all weights in bytes, in this file and others.
    pub bytes: u64,
    pub external_bytes: u64,
    /// The weight files, each with its size, or with the reason why the size is unknown.
    pub files: Vec<(&'d str, Result<u64, Outside>)>,
}

/// A function of the model.
#[derive(Clone, Debug)]
pub struct Function<'d> {
    /// `domain::name`
    pub name: &'d str,
    pub nodes: usize,
    pub calls: usize,
}

/// A summary of the origins.
#[derive(Clone, Debug)]
pub struct Origins<'d> {
    pub level: Recorded,
    pub debug_id: Option<&'d str>,
    /// The number of nodes with a source line.
    pub with_line: usize,
    /// The number of nodes with a line of the user.
    pub with_user_line: usize,
    /// The number of nodes with several lines.
    pub fused: usize,
    /// The number of nodes for each way of finding origins, if a source map was used.
    pub sure: Vec<(Sure, usize)>,
    /// Files with the number of their nodes, the most first.
    pub files: Vec<(&'d str, Tier, usize)>,
    /// Files and functions with the number of their nodes, the most first.
    pub functions: Vec<(&'d str, &'d str, usize)>,
    /// The user's scopes with the number of their nodes, by name.
    pub scopes: Vec<(String, usize)>,
}

/// Summarizes a model.
pub fn summary<'d>(document: &'d Document<'_>) -> Summary<'d> {
    let scan = &document.scan;
    let main = scan.main();
    let given: BTreeSet<&str> = main.initializers.iter().map(|tensor| tensor.name).collect();
    // Before IR version 4, an initializer was an input as well.
    let is_input = |value: &&ValueInfo<'_>| !given.contains(value.name);
    let bodies = scan.graphs.iter().filter(|graph| matches!(graph.place, GraphPlace::Body { .. }));
    Summary {
        inputs: main.inputs.iter().filter(is_input).map(end).collect(),
        outputs: main.outputs.iter().map(end).collect(),
        positive_sizes: positive(document),
        weights: weights(document),
        nodes: scan.nodes.len(),
        bodies: bodies.count(),
        functions: functions(scan),
        ops: most_first(scan.nodes.iter().map(|node| node.op_with_domain().into_owned())),
        origins: origins(document),
    }
}

fn end<'d>(value: &'d ValueInfo<'_>) -> End<'d> {
    let path = onnx::scan::meta(&value.metadata, keys::PATH);
    End { name: value.name, ty: value.ty.as_ref().map(ToString::to_string), path }
}

fn weights<'d>(document: &'d Document<'_>) -> Weights<'d> {
    let mut weights = Weights::default();
    let mut files: BTreeSet<&str> = BTreeSet::new();
    for tensor in document.scan.graphs.iter().flat_map(|graph| &graph.initializers) {
        let bytes = tensor.bytes().unwrap_or(tensor.typed as u64);
        weights.count += 1;
        weights.elements = weights.elements.saturating_add(tensor.elements().unwrap_or(0));
        weights.bytes = weights.bytes.saturating_add(bytes);
        if tensor.is_external {
            weights.external_bytes = weights.external_bytes.saturating_add(bytes);
        }
    }
    let external = document.scan.graphs.iter().flat_map(|graph| &graph.initializers);
    files.extend(external.filter_map(|tensor| tensor.location()));
    let folder = document.path.as_deref().and_then(Path::parent);
    if let Some(folder) = folder {
        let size = |location| (location, external::size(folder, location));
        weights.files = files.into_iter().map(size).collect();
    }
    weights
}

fn functions<'d>(scan: &'d Scan<'_>) -> Vec<Function<'d>> {
    let mut calls: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    if scan.functions().next().is_some() {
        for node in &scan.nodes {
            *calls.entry((node.domain, node.op)).or_default() += 1;
        }
    }
    let function = |graph: &'d onnx::scan::Graph<'_>| match &graph.place {
        GraphPlace::Function(name) => {
            let key = name.rsplit_once("::").unwrap_or(("", name));
            let calls = calls.get(&key).copied().unwrap_or(0);
            Some(Function { name, nodes: graph.nodes.len(), calls })
        }
        _ => None,
    };
    scan.graphs.iter().filter_map(function).collect()
}

fn origins<'d>(document: &'d Document<'_>) -> Origins<'d> {
    let mut lines: BTreeMap<LocationId, usize> = BTreeMap::new();
    let mut scopes: BTreeMap<ScopeId, usize> = BTreeMap::new();
    let mut sure: BTreeMap<Sure, usize> = BTreeMap::new();
    let (mut with_line, mut with_user_line, mut fused) = (0, 0, 0);
    for node in 0..document.scan.nodes.len() {
        let callsites = document.callsites(node);
        fused += usize::from(has_several_lines(document, &callsites));
        if let Some(&first) = callsites.first() {
            with_line += 1;
            with_user_line += usize::from(document.frame(first).tier == Tier::User);
            *lines.entry(first).or_default() += 1;
        }
        if let Some(scope) = document.scope(node) {
            *scopes.entry(scope).or_default() += 1;
        }
        *sure.entry(document.answer(node).0).or_default() += 1;
    }
    let mut files: BTreeMap<(&str, Tier), usize> = BTreeMap::new();
    let mut functions: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (location, nodes) in lines {
        let frame = document.frame(location);
        *files.entry((frame.file, frame.tier)).or_default() += nodes;
        *functions.entry((frame.file, frame.function)).or_default() += nodes;
    }
    let mut files: Vec<_> = files.into_iter().map(|((file, tier), n)| (file, tier, n)).collect();
    files.sort_by_key(|&(.., nodes)| std::cmp::Reverse(nodes));
    let mut functions: Vec<_> = functions.into_iter().map(|((f, g), n)| (f, g, n)).collect();
    functions.sort_by_key(|&(.., nodes)| std::cmp::Reverse(nodes));
    let mut by_name: BTreeMap<String, usize> = BTreeMap::new();
    for (scope, nodes) in scopes {
        *by_name.entry(document.scope_name(scope)).or_default() += nodes;
    }
    by_name.remove("");
    Origins {
        level: document.level,
        debug_id: document.scan.meta(keys::DEBUG_ID),
        with_line,
        with_user_line,
        fused,
        sure: sure.into_iter().filter(|_| document.map_path.is_some()).collect(),
        files,
        functions,
        scopes: by_name.into_iter().collect(),
    }
}

/// True if the call sites are on several lines.
fn has_several_lines(document: &Document<'_>, callsites: &[LocationId]) -> bool {
    let line = |&id: &LocationId| {
        let frame = document.frame(id);
        (frame.file, frame.line)
    };
    callsites.windows(2).any(|pair| line(&pair[0]) != line(&pair[1]))
}

/// Counts equal entries, the most frequent first, then by name.
fn most_first(entries: impl Iterator<Item = String>) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for entry in entries {
        *counts.entry(entry).or_default() += 1;
    }
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    counts
}
