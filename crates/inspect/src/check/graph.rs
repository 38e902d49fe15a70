//! Checks the structure: values and their definitions, names, opsets and functions.

use onnx::scan::{Graph, Scan};
use onnx::{OpType, kernels};
use provenance::outline::GraphPlace;
use rustc_hash::{FxHashMap, FxHashSet};

use super::Findings;
use crate::Document;

pub(super) fn check(document: &Document<'_>, findings: &mut Findings) {
    let scan = &document.scan;
    opsets(scan, findings);
    let mut scopes: Vec<FxHashSet<&str>> = Vec::new();
    let mut done: Vec<FxHashMap<&str, usize>> = Vec::new();
    for (number, graph) in scan.graphs.iter().enumerate() {
        let (defined, order) = values(document, number, graph, findings);
        scopes.push(defined);
        done.push(order);
    }
    for (number, graph) in scan.graphs.iter().enumerate() {
        reads(document, number, graph, &scopes, &done, findings);
    }
    names(document, findings);
    calls(scan, findings);
    ends(scan, findings);
}

/// The newest supported opset of ONNX.
const NEWEST: i64 = 26;

fn opsets(scan: &Scan<'_>, findings: &mut Findings) {
    if scan.ir_version < 1 {
        findings.error("ir-version", None, format_args!("the model has no IR version"));
    }
    let mut seen = FxHashSet::default();
    for &(domain, version) in &scan.opsets {
        let domain = if domain == "ai.onnx" { "" } else { domain };
        if !seen.insert(domain) {
            findings.error("opset", None, format_args!("the domain `{domain}` has two opsets"));
        }
        if version < 1 {
            findings.error("opset", None, format_args!("the opset of `{domain}` is {version}"));
        }
        if domain.is_empty() && version > NEWEST {
            let message = format_args!(
                "opset {version} is newer than {NEWEST}, the newest that jax2onnx knows"
            );
            findings.warning("opset", None, message);
        }
    }
    let mut missing = FxHashSet::default();
    for (number, node) in scan.nodes.iter().enumerate() {
        let domain = node.domain();
        let in_function =
            scan.graphs.get(node.graph as usize).is_some_and(|g| !g.opsets.is_empty());
        if !in_function && !seen.contains(domain) && missing.insert(domain) {
            let shown = if domain.is_empty() { "ai.onnx" } else { domain };
            let op = node.op;
            let message = format_args!(
                "`{op}` belongs to the domain `{shown}`, for which the model declares no opset"
            );
            findings.error("opset", Some(number), message);
        }
    }
    let version = scan.opsets.iter().find(|(domain, _)| matches!(*domain, "" | "ai.onnx"));
    if let Some(&(_, version)) = version {
        later_operators(scan, version, findings);
        if version <= NEWEST {
            unknown_operators(scan, findings);
        }
    }
}

/// Reports operators that no opset of ONNX has.
fn unknown_operators(scan: &Scan<'_>, findings: &mut Findings) {
    /// Operators that ONNX Runtime registers besides those of ONNX, for models of opset 9 and older.
    const EXPERIMENTAL: [&str; 7] = [
        "Affine",
        "Crop",
        "DynamicSlice",
        "ImageScaler",
        "ParametricSoftplus",
        "Scale",
        "ScaledTanh",
    ];
    let functions: FxHashSet<&str> = scan
        .graphs
        .iter()
        .filter_map(|graph| match &graph.place {
            GraphPlace::Function(name) => Some(name.trim_start_matches("::")),
            _ => None,
        })
        .collect();
    for (number, node) in scan.nodes.iter().enumerate().filter(|(_, n)| n.domain().is_empty()) {
        let op = node.op;
        let is_known = op.is_empty()
            || OpType::from_name(op).is_some()
            || EXPERIMENTAL.contains(&op)
            || functions.contains(op);
        if !is_known {
            let message = format_args!("ONNX has no operator `{op}`");
            findings.error("unknown-operator", Some(number), message);
        }
    }
}

/// Reports operators from a later opset than that of the model. Some may be functions of ONNX.
fn later_operators(scan: &Scan<'_>, version: i64, findings: &mut Findings) {
    let mut asked: FxHashMap<&str, Option<i64>> = FxHashMap::default();
    for (number, node) in scan.nodes.iter().enumerate().filter(|(_, n)| n.domain().is_empty()) {
        let since = *asked.entry(node.op).or_insert_with(|| {
            OpType::from_name(node.op).and_then(|op| kernels::comes_with(op, version))
        });
        if let Some(since) = since {
            let op = node.op;
            let message = format_args!(
                "ONNX Runtime supports `{op}` since opset {since}, but the model uses opset {version}"
            );
            findings.warning("opset", Some(number), message);
        }
    }
}

/// Returns the values that a graph defines, each with the number of nodes before it.
fn values<'a>(
    document: &Document<'a>,
    number: usize,
    graph: &Graph<'a>,
    findings: &mut Findings,
) -> (FxHashSet<&'a str>, FxHashMap<&'a str, usize>) {
    let mut defined: FxHashSet<&str> = FxHashSet::default();
    let mut order = FxHashMap::default();
    let given = graph.initializers.iter().map(|tensor| tensor.name);
    for name in graph.inputs.iter().map(|value| value.name) {
        if !defined.insert(name) {
            let place = place(document, number);
            findings.error(
                "defined-twice",
                None,
                format_args!("the input `{name}` is listed twice in {place}"),
            );
        }
    }
    // An initializer with the name of an input is its default value.
    defined.extend(given);
    for node in graph.nodes.clone() {
        let Some(entry) = document.scan.nodes.get(node) else { continue };
        if entry.op.is_empty() {
            findings.error("no-operator", Some(node), format_args!("the node has no operator"));
        }
        for &output in entry.outputs.iter().filter(|output| !output.is_empty()) {
            if !defined.insert(output) {
                let place = place(document, number);
                let message = format_args!("`{output}` is defined twice in {place}");
                findings.error("defined-twice", Some(node), message);
            }
            order.entry(output).or_insert(node);
        }
    }
    (defined, order)
}

/// Reports values that are read but not defined before.
fn reads(
    document: &Document<'_>,
    number: usize,
    graph: &Graph<'_>,
    scopes: &[FxHashSet<&str>],
    done: &[FxHashMap<&str, usize>],
    findings: &mut Findings,
) {
    let around = |&graph: &usize| document.graph(graph).and_then(|graph| graph.around);
    let is_seen = |name: &str| {
        std::iter::successors(Some(number), around)
            .any(|graph| scopes.get(graph).is_some_and(|scope| scope.contains(name)))
    };
    for node in graph.nodes.clone() {
        let Some(entry) = document.scan.nodes.get(node) else { continue };
        for &input in entry.inputs.iter().filter(|input| !input.is_empty()) {
            let made = done.get(number).and_then(|order| order.get(input));
            if made.is_some_and(|&made| made >= node) {
                let message = format_args!(
                    "`{input}` is read before it is computed: the nodes are not in topological order"
                );
                findings.error("order", Some(node), message);
            } else if !is_seen(input) {
                let message = format_args!("`{input}` is read, but nothing defines it");
                findings.error("undefined-value", Some(node), message);
            }
        }
    }
    for output in &graph.outputs {
        if !is_seen(output.name) {
            let place = place(document, number);
            let message = format_args!("the output `{}` of {place} is not defined", output.name);
            findings.error("undefined-value", None, message);
        }
    }
}

/// Reports nodes without a name or with the name of another node, because runtimes report names.
fn names(document: &Document<'_>, findings: &mut Findings) {
    let mut seen: FxHashSet<&str> = FxHashSet::default();
    let mut nameless = 0;
    for (number, node) in document.scan.nodes.iter().enumerate() {
        if node.name.is_empty() {
            nameless += 1;
        } else if !seen.insert(node.name) {
            let message = format_args!("several nodes have the name `{}`", node.name);
            findings.warning("node-name", Some(number), message);
        }
    }
    if nameless > 0 {
        let nodes = if nameless == 1 { "node has" } else { "nodes have" };
        findings.warning("node-name", None, format_args!("{nameless} {nodes} no name"));
    }
}

/// Reports functions that call themselves, directly or indirectly.
fn calls(scan: &Scan<'_>, findings: &mut Findings) {
    let mut functions: Vec<&str> = Vec::new();
    // The function that contains each graph. A body comes after the enclosing graph.
    let mut owner: Vec<Option<usize>> = Vec::with_capacity(scan.graphs.len());
    for graph in &scan.graphs {
        let around = graph.around.and_then(|around| owner.get(around).copied().flatten());
        owner.push(match &graph.place {
            GraphPlace::Function(name) => {
                functions.push(name);
                Some(functions.len() - 1)
            }
            _ => around,
        });
    }
    let mut by_name: FxHashMap<(&str, &str), usize> = FxHashMap::default();
    for (index, &name) in functions.iter().enumerate() {
        let key = name.rsplit_once("::").unwrap_or(("", name));
        if by_name.insert(key, index).is_some() {
            findings.error(
                "function",
                None,
                format_args!("the function `{name}` is defined twice"),
            );
        }
    }
    let mut callees: Vec<Vec<usize>> = vec![Vec::new(); functions.len()];
    for node in &scan.nodes {
        let caller = owner.get(node.graph as usize).copied().flatten();
        if let (Some(caller), Some(&callee)) = (caller, by_name.get(&(node.domain, node.op))) {
            callees[caller].push(callee);
        }
    }
    for index in cyclic(&callees) {
        let name = functions[index];
        findings.error("function", None, format_args!("the function `{name}` calls itself"));
    }
}

/// Returns the functions on or before a cycle of calls, by repeatedly removing functions without
/// remaining callees.
fn cyclic(callees: &[Vec<usize>]) -> Vec<usize> {
    let mut open: Vec<usize> = callees.iter().map(Vec::len).collect();
    let mut callers: Vec<Vec<usize>> = vec![Vec::new(); callees.len()];
    for (caller, list) in callees.iter().enumerate() {
        for &callee in list {
            callers[callee].push(caller);
        }
    }
    let mut done: Vec<usize> = (0..callees.len()).filter(|&index| open[index] == 0).collect();
    let mut next = 0;
    while let Some(&index) = done.get(next) {
        for &caller in &callers[index] {
            open[caller] -= 1;
            if open[caller] == 0 {
                done.push(caller);
            }
        }
        next += 1;
    }
    (0..callees.len()).filter(|&index| open[index] > 0).collect()
}

/// Reports inputs and outputs of the model without a type.
fn ends(scan: &Scan<'_>, findings: &mut Findings) {
    let main = scan.main();
    for (what, list) in [("input", &main.inputs), ("output", &main.outputs)] {
        for value in list.iter().filter(|value| value.ty.is_none()) {
            findings.error("type", None, format_args!("the {what} `{}` has no type", value.name));
        }
    }
    if main.name.is_empty() {
        findings.error("graph-name", None, format_args!("the graph has no name"));
    }
}

fn place(document: &Document<'_>, graph: usize) -> String {
    match document.graph(graph).map(|graph| &graph.place) {
        Some(GraphPlace::Function(name)) => format!("the function `{name}`"),
        Some(GraphPlace::Body { node, attribute }) => {
            format!("`{attribute}` of `{}`", document.node_name(*node as usize))
        }
        _ => "the graph".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recursive_functions_and_their_callers_are_found() {
        assert_eq!(cyclic(&[vec![1], vec![2], vec![]]), Vec::<usize>::new());
        assert_eq!(cyclic(&[vec![0]]), [0]);
        assert_eq!(cyclic(&[vec![1], vec![0, 2], vec![], vec![2]]), [0, 1]);
    }
}
