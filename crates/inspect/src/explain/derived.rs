//! Finds the nodes from which a runtime derived the name of a node of its own.

use super::resolve::{Culprits, MAX_LISTED, is_inside, makers, nodes_named};
use crate::Document;

/// The name that tract inserts between the name of a loop and the name of a node that it moved out of the body.
const EXTRACTED: &str = ".extracted.";

/// Returns the nodes that the name of a node of a runtime consists of.
pub(super) fn of_name(document: &Document<'_>, name: &str) -> Culprits {
    if let Some((outer, inner)) = name.rsplit_once(EXTRACTED) {
        return of_body(document, outer, inner);
    }
    if let Some(region) = region(name) {
        return of_region(document, region, name);
    }
    let mut nodes: Vec<usize> = Vec::new();
    for part in name.split(" + ") {
        for node in of_layer(document, part.trim()) {
            if !nodes.contains(&node) {
                nodes.push(node);
            }
        }
    }
    let how = match nodes.len() {
        1 => format!("the runtime derived the name `{name}` from a node of the model"),
        _ => format!("the runtime fused {} nodes of the model into `{name}`", nodes.len()),
    };
    Culprits { nodes, how, ..Culprits::default() }
}

/// Returns the nodes with a name or a result of that name. If there are none, removes the parts of the name behind
/// its last dots, which tract adds.
fn of_layer(document: &Document<'_>, name: &str) -> Vec<usize> {
    let shorter = std::iter::successors(Some(name), |name| Some(name.rsplit_once('.')?.0));
    for name in shorter.filter(|name| !name.is_empty()) {
        let mut nodes = nodes_named(document, name);
        nodes.extend(makers(document, name));
        nodes.dedup();
        if !nodes.is_empty() {
            return nodes;
        }
    }
    Vec::new()
}

fn of_body(document: &Document<'_>, outer: &str, inner: &str) -> Culprits {
    let mut nodes = of_layer(document, inner);
    if let [outer] = nodes_named(document, outer)[..] {
        let is_within = |&node: &usize| is_inside(document, node, outer);
        if nodes.iter().any(is_within) {
            nodes.retain(is_within);
        }
    }
    let how = format!("the runtime moved `{inner}` out of the body of `{outer}`");
    Culprits { nodes, how, ..Culprits::default() }
}

/// Returns the first and the last name in `{ForeignNode[first...last]}` of TensorRT.
fn region(name: &str) -> Option<(&str, &str)> {
    let inner = name.trim().strip_prefix("{ForeignNode[")?.trim_end_matches(['}', '.']);
    inner.strip_suffix(']').unwrap_or(inner).split_once("...")
}

/// Returns all nodes between the first and the last node of a region.
fn of_region(document: &Document<'_>, (first, last): (&str, &str), name: &str) -> Culprits {
    // A name of several fused nodes refers to one after the other.
    let ends = |name: &str| -> Vec<usize> {
        name.split(" + ").flat_map(|part| of_layer(document, part.trim())).collect()
    };
    let (first, last) = (ends(first), ends(last));
    let (Some(&first), Some(&last)) = (first.iter().min(), last.iter().max()) else {
        let nodes = if first.is_empty() { last } else { first };
        let how = format!("the runtime fused several nodes of the model into `{name}`");
        // Without one of the ends, the region is not known.
        let nodes = if nodes.len() > 1 { nodes } else { Vec::new() };
        return Culprits { nodes, how, ..Culprits::default() };
    };
    let graph = |node: usize| document.scan.nodes.get(node).map(|node| node.graph);
    let nodes: Vec<usize> =
        (first..=last).filter(|&node| graph(node) == graph(first)).take(MAX_LISTED + 1).collect();
    let how = format!("the runtime fused the nodes between the two names into `{name}`");
    let nodes = if nodes.len() > MAX_LISTED { Vec::new() } else { nodes };
    Culprits { nodes, how, ..Culprits::default() }
}
