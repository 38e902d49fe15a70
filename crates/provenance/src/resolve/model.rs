//! Resolves all nodes of a changed model at once, because the nodes around a node help to resolve it.

use rustc_hash::FxHashSet;

use super::{Resolver, Sure};
use crate::outline::{Node, Outline};

/// Finds the nodes of the map that each node of `later` came from, and how certain that is.
pub(super) fn resolve(resolver: &Resolver, later: &Outline) -> Vec<(Sure, Vec<u32>)> {
    let mut found: Vec<Option<(Sure, Vec<u32>)>> =
        later.nodes.iter().map(|node| by_names(resolver, node)).collect();
    add_vanished(resolver, later, &mut found);
    let readers = readers(later);
    (0..later.nodes.len())
        .map(|number| match &found[number] {
            Some(known) => known.clone(),
            None => next_to(later, &readers, &found, number),
        })
        .collect()
}

/// Finds the nodes that the names of a node and of its results refer to.
fn by_names(resolver: &Resolver, node: &Node) -> Option<(Sure, Vec<u32>)> {
    let named = resolver.node(&node.name);
    let mut nodes: Vec<u32> = Vec::new();
    nodes.extend(node.outputs.iter().filter_map(|output| resolver.output(output)));
    nodes.dedup();
    let has_op = |number: u32| resolver.map.outline.nodes[number as usize].op == node.op;
    if named.is_none()
        && let Some(inner) = resolver.inlined(&node.name)
    {
        // The result of an inlined function has the name of the call's result.
        let sure = if nodes.is_empty() && has_op(inner) { Sure::Name } else { Sure::Fused };
        nodes.insert(0, inner);
        return Some((sure, nodes));
    }
    let made_of = match named {
        Some(_) => Vec::new(),
        None => resolver.made_of(&node.name, &|_| false),
    };
    if let ([number], true) = (nodes.as_slice(), made_of.is_empty())
        && has_op(*number)
        && named.is_none_or(|named| named == *number)
    {
        return Some((Sure::Exact, nodes));
    }
    if let (true, Some(named)) = (nodes.is_empty(), named)
        && has_op(named)
    {
        return Some((Sure::Name, vec![named]));
    }
    nodes.extend(named);
    nodes.extend(made_of);
    let decorated = node.outputs.iter().filter(|output| resolver.output(output).is_none());
    nodes
        .extend(decorated.filter_map(|output| {
            resolver.inlined(output).or_else(|| resolver.undecorated(output))
        }));
    let mut seen = FxHashSet::default();
    nodes.retain(|&node| seen.insert(node));
    if nodes.is_empty() { None } else { Some((Sure::Fused, nodes)) }
}

/// Adds the nodes between those that a fused node replaces. No name in `later` refers to them, and they are on a
/// path from one of the replaced nodes back to another one, or to an operand of the fused node.
fn add_vanished(resolver: &Resolver, later: &Outline, found: &mut [Option<(Sure, Vec<u32>)>]) {
    let kept: FxHashSet<u32> =
        found.iter().flatten().flat_map(|(_, nodes)| nodes.iter().copied()).collect();
    let read = |node: &Node| -> Vec<u32> {
        let producers = node.inputs.iter().filter_map(|&input| found[input as usize].as_ref());
        producers.flat_map(|(_, nodes)| nodes.iter().copied()).collect()
    };
    let ends: Vec<Vec<u32>> = later.nodes.iter().map(read).collect();
    for (answer, mut ends) in found.iter_mut().zip(ends) {
        if let Some((Sure::Fused, nodes)) = answer {
            ends.extend(nodes.iter().copied());
            for node in nodes.clone() {
                for between in between(&resolver.map.outline, node, &kept, &ends) {
                    if !nodes.contains(&between) {
                        nodes.push(between);
                    }
                }
            }
        }
    }
}

/// Returns the nodes that are not kept, on paths from `node` back to one of `ends`.
fn between(outline: &Outline, node: u32, kept: &FxHashSet<u32>, ends: &[u32]) -> Vec<u32> {
    /// More nodes than any fusion replaces. It bounds the work for models that a constant folder changed.
    const MAX: usize = 256;
    let inputs = |node: u32| outline.nodes[node as usize].inputs.iter().copied();
    let mut reached: Vec<u32> = Vec::new();
    let mut open: Vec<u32> = inputs(node).filter(|input| !kept.contains(input)).collect();
    while let Some(next) = open.pop() {
        if reached.contains(&next) {
            continue;
        }
        if reached.len() == MAX {
            return Vec::new();
        }
        reached.push(next);
        open.extend(inputs(next).filter(|input| !kept.contains(input)));
    }
    // Nodes that do not lead to an end were folded, not fused.
    let mut leading: Vec<u32> = Vec::new();
    let mut grew = true;
    while grew {
        let leads = |&node: &u32| {
            !leading.contains(&node)
                && inputs(node).any(|input| ends.contains(&input) || leading.contains(&input))
        };
        let more: Vec<u32> = reached.iter().copied().filter(leads).collect();
        grew = !more.is_empty();
        leading.extend(more);
    }
    reached.retain(|node| leading.contains(node));
    reached
}

/// Returns the readers of each node.
fn readers(outline: &Outline) -> Vec<Vec<u32>> {
    let mut readers = vec![Vec::new(); outline.nodes.len()];
    for (number, node) in (0..).zip(&outline.nodes) {
        for &input in &node.inputs {
            readers[input as usize].push(number);
        }
    }
    readers
}

/// Returns the nearest known nodes on both sides of a new one: first those that read it, because it was inserted
/// for them, then those that it reads.
fn next_to(
    later: &Outline,
    readers: &[Vec<u32>],
    found: &[Option<(Sure, Vec<u32>)>],
    number: usize,
) -> (Sure, Vec<u32>) {
    let after = nearest(found, number, |node| &readers[node as usize]);
    let before = nearest(found, number, |node| &later.nodes[node as usize].inputs);
    let mut nodes = after;
    nodes.extend(before);
    let sure = if nodes.is_empty() { Sure::Unknown } else { Sure::Neighbour };
    (sure, nodes)
}

/// The maximum number of nodes to search for neighbors, because nodes further away are not related.
const MAX_VISITED: usize = 1000;

fn nearest<'a>(
    found: &[Option<(Sure, Vec<u32>)>],
    number: usize,
    next: impl Fn(u32) -> &'a Vec<u32>,
) -> Vec<u32> {
    let mut seen: FxHashSet<u32> = FxHashSet::default();
    let mut open = next(number as u32).clone();
    let mut nodes = Vec::new();
    while nodes.is_empty() && !open.is_empty() && seen.len() < MAX_VISITED {
        let mut further = Vec::new();
        for node in open.into_iter().filter(|&node| seen.insert(node)) {
            match &found[node as usize] {
                Some((_, known)) => nodes.extend(known.iter().copied()),
                None => further.extend(next(node).iter().copied()),
            }
        }
        open = further;
    }
    nodes
}
