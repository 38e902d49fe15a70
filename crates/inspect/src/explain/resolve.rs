//! Finds the nodes of the model that a message names.

use onnx::scan::{Node, Tensor};
use provenance::OriginId;
use provenance::outline::GraphPlace;
use provenance::resolve::Sure;
use rustc_hash::FxHashMap;

use super::{derived, described};
use crate::Document;
use crate::fusions::{bare_fusion, inner, is_bare};
use crate::log::{Clue, Message, Role};

/// The nodes or values that a message is about.
#[derive(Debug, Default)]
pub(super) struct Culprits {
    /// The possible nodes, each once.
    pub(super) nodes: Vec<usize>,
    /// Origins, if a runtime created the name and there are no nodes.
    pub(super) origins: Vec<OriginId>,
    pub(super) is_certain: bool,
    pub(super) how: String,
    pub(super) within: Vec<usize>,
}

/// Returns the nodes with a name. If there are none, ignores white space, because a terminal may have
/// wrapped the name.
pub(super) fn nodes_named(document: &Document<'_>, name: &str) -> Vec<usize> {
    let exact = nodes_where(document, |node| node.name == name);
    if !exact.is_empty() {
        return exact;
    }
    let squeezed = squeeze(name);
    nodes_where(document, |node| {
        node.name.contains(char::is_whitespace) && squeeze(node.name) == squeezed
    })
}

pub(super) fn makers(document: &Document<'_>, name: &str) -> Vec<usize> {
    nodes_where(document, |node| node.outputs.contains(&name))
}

fn readers(document: &Document<'_>, name: &str) -> Vec<usize> {
    nodes_where(document, |node| node.inputs.contains(&name))
}

/// Finds nodes by scanning all of them: usually there are one or two messages, so an index would cost more.
pub(super) fn nodes_where(
    document: &Document<'_>,
    is_it: impl Fn(&Node<'_>) -> bool,
) -> Vec<usize> {
    let nodes = document.scan.nodes.iter().enumerate();
    nodes.filter(|(_, node)| is_it(node)).map(|(number, _)| number).collect()
}

fn squeeze(name: &str) -> String {
    name.chars().filter(|c| !c.is_whitespace()).collect()
}

/// Phrases of runtimes about a graph with a cycle.
const CYCLES: &[&str] = &["not acyclic", "Encountered cycle", "Loop detected"];

/// Resolves the innermost node or value in a message. If that fails, tries the enclosing ones.
pub(super) fn resolve(document: &Document<'_>, message: &Message) -> Culprits {
    let has_cycle = CYCLES.iter().any(|phrase| message.words.contains(phrase));
    if has_cycle && message.clues.is_empty() {
        return circle(document);
    }
    let mut unknown: Option<Culprits> = None;
    let mut has_unknown_part = false;
    for (depth, clue) in message.clues.iter().enumerate().rev() {
        let outer = around(document, &message.clues[..depth]);
        let mut found = of_clue(document, clue, outer.last().copied());
        if let (Some(Clue::Context { .. }), Some(&outer)) =
            (message.clues.get(depth.wrapping_sub(1)), outer.last())
        {
            let is_within = |&node: &usize| node == outer || is_inside(document, node, outer);
            if !found.nodes.iter().any(is_within) {
                continue;
            }
            found.nodes.retain(is_within);
        }
        if found.nodes.is_empty() && found.origins.is_empty() {
            match clue {
                Clue::Inner { .. } => has_unknown_part = true,
                _ => unknown = unknown.or(Some(found)),
            }
            continue;
        }
        if let Some(unknown) = &unknown {
            let mut found = inside(document, &found, &unknown.how);
            found.within = around(document, &message.clues[..=depth]);
            return found;
        }
        if has_unknown_part {
            add_bodies(document, &mut found);
        }
        if let (Clue::Inner { .. }, Some(&outer)) = (clue, outer.last()) {
            add_enclosing(document, &mut found, outer);
        }
        found.within = outer;
        found.within.retain(|node| !found.nodes.contains(node));
        found.within.dedup();
        return found;
    }
    unknown.unwrap_or_else(|| Culprits {
        how: "the message names no node and no value".to_owned(),
        ..Culprits::default()
    })
}

/// Adds the nodes in the bodies of a node, for a message about a part that the runtime created from the node or from
/// one in its bodies.
fn add_bodies(document: &Document<'_>, found: &mut Culprits) {
    let [node] = found.nodes[..] else { return };
    let inner = (0..document.scan.nodes.len()).filter(|&inner| is_inside(document, inner, node));
    let inner: Vec<usize> = inner.collect();
    if !inner.is_empty() {
        found.nodes.extend(inner);
        found.is_certain = false;
        found.how = format!("{}; the message concerns it or a node in its bodies", found.how);
    }
}

/// Adds the enclosing node of a message, unless it contains the node that was found or is the same.
fn add_enclosing(document: &Document<'_>, found: &mut Culprits, outer: usize) {
    let is_within = |&node: &usize| node == outer || is_inside(document, node, outer);
    if !found.nodes.iter().all(is_within) {
        let name = document.node_name(outer);
        found.how = format!("{}; the message also names `{name}`", found.how);
        found.nodes.insert(0, outer);
        found.is_certain = false;
    }
}

/// Returns everything in the bodies of a node, for a message about an unknown part of them.
fn inside(document: &Document<'_>, outer: &Culprits, why: &str) -> Culprits {
    /// The maximum number of nodes. A longer list does not help.
    const MAX: usize = 24;
    let mut found = Culprits::default();
    let [node] = outer.nodes.as_slice() else {
        why.clone_into(&mut found.how);
        return found;
    };
    let nodes = (0..document.scan.nodes.len()).filter(|&inner| is_inside(document, inner, *node));
    found.nodes = nodes.take(MAX + 1).collect();
    let name = document.node_name(*node);
    found.how = match found.nodes.len() {
        0 => why.to_owned(),
        1..=MAX => format!("{why}; it is one of the nodes inside `{name}`"),
        _ => format!("{why}; it is inside `{name}`, which contains too many nodes to list"),
    };
    if found.nodes.len() > MAX {
        found.nodes.clear();
    }
    found
}

/// True if a node is in a body of another node, at any depth.
pub(super) fn is_inside(document: &Document<'_>, node: usize, outer: usize) -> bool {
    let mut at = document.scan.nodes.get(node);
    for _ in 0..document.scan.graphs.len() {
        let Some(GraphPlace::Body { node, .. }) =
            at.and_then(|node| document.graph(node.graph as usize)).map(|graph| &graph.place)
        else {
            return false;
        };
        if *node as usize == outer {
            return true;
        }
        at = document.scan.nodes.get(*node as usize);
    }
    false
}

/// Returns the nodes on a cycle.
fn circle(document: &Document<'_>) -> Culprits {
    let count = document.scan.nodes.len();
    let mut producers: Vec<Vec<usize>> = Vec::with_capacity(count);
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut makers: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
    for (number, node) in document.scan.nodes.iter().enumerate() {
        node.outputs.iter().for_each(|&name| makers.entry(name).or_default().push(number));
    }
    for (number, node) in document.scan.nodes.iter().enumerate() {
        let made = node.inputs.iter().filter_map(|name| makers.get(name)).flatten().copied();
        let made: Vec<usize> = made.collect();
        for &producer in &made {
            readers[producer].push(number);
        }
        producers.push(made);
    }
    // Removes nodes without remaining producers, then nodes without remaining readers.
    let mut is_left = vec![true; count];
    for (before, after) in [(&producers, &readers), (&readers, &producers)] {
        let left = |number: usize| before[number].iter().filter(|&&it| is_left[it]).count();
        let mut open: Vec<usize> = (0..count).map(left).collect();
        let mut ready: Vec<usize> = (0..count).filter(|&it| is_left[it] && open[it] == 0).collect();
        while let Some(number) = ready.pop() {
            is_left[number] = false;
            for &next in &after[number] {
                open[next] = open[next].saturating_sub(1);
                if open[next] == 0 && is_left[next] {
                    ready.push(next);
                }
            }
        }
    }
    let nodes: Vec<usize> = (0..count).filter(|&number| is_left[number]).collect();
    let how = match nodes.len() {
        0 => "the message names no node, and the model has no cycle".to_owned(),
        count => format!("{count} nodes of the model form a cycle"),
    };
    Culprits { nodes, is_certain: true, how, ..Culprits::default() }
}

/// Returns the nodes that enclose the one that a message concerns.
fn around(document: &Document<'_>, clues: &[Clue]) -> Vec<usize> {
    let node = |clue: &Clue| match clue {
        Clue::Node { name, .. } | Clue::Context { name, .. } => {
            nodes_named(document, name).first().copied()
        }
        Clue::Output { name, op } => {
            of_output(document, name, op.as_deref()).nodes.first().copied()
        }
        _ => None,
    };
    clues.iter().filter_map(node).collect()
}

/// Returns what a clue refers to. `outer` is the enclosing node, if the message names one.
fn of_clue(document: &Document<'_>, clue: &Clue, outer: Option<usize>) -> Culprits {
    let mut found = match clue {
        Clue::Node { name, op } => of_node(document, name, op.as_deref()),
        Clue::Context { name, op } => {
            let mut found = of_node(document, name, Some(op));
            add_bodies(document, &mut found);
            found
        }
        Clue::Output { name, op } => of_output(document, name, op.as_deref()),
        Clue::Inner { name } => of_part(document, name),
        Clue::Value { name, role } => of_value(document, name, *role),
        Clue::Argument { position } => of_argument(document, *position),
        Clue::Numbered { position, op } => described::of_position(document, *position, op),
        Clue::External { file, offset } => of_external(document, file.as_deref(), *offset),
        Clue::Product => described::of_product(document),
        Clue::Fused { name, operation } => {
            described::of_fused(document, of_output(document, name, None), operation)
        }
        Clue::Lacking { attribute } => described::of_attribute(document, attribute),
        Clue::Other { op, attribute } => described::of_other(document, op, attribute),
        Clue::Broadcast { sizes } => described::of_broadcast(document, *sizes),
        Clue::Operands(operands) => described::of_operands(document, operands, outer),
        Clue::Op { op, domain } => of_op(document, op, domain.as_deref(), false),
        Clue::Unnamed { op } => of_op(document, op, None, true),
    };
    // Several bodies may use the same name.
    if let (true, Some(outer)) = (found.nodes.len() > 1, outer) {
        let is_within = |&node: &usize| is_inside(document, node, outer);
        if found.nodes.iter().any(is_within) {
            found.nodes.retain(is_within);
        }
    }
    found
}

/// Returns the node that computes a value. If there is none, returns the node with that name.
fn of_output(document: &Document<'_>, name: &str, op: Option<&str>) -> Culprits {
    let is_it = |node: &Node<'_>| node.outputs.contains(&name) && op.is_none_or(|op| op == node.op);
    match nodes_where(document, is_it).as_slice() {
        [] => of_node(document, name, op),
        [node] => {
            let op = document.scan.nodes.get(*node).map_or("", |node| node.op);
            let is_certain = matches!(document.answer(*node).0, Sure::Exact | Sure::Name);
            let how = format!("`{name}` is the result of a {op} node of the model");
            Culprits { nodes: vec![*node], is_certain, how, ..Culprits::default() }
        }
        nodes => Culprits {
            nodes: nodes.to_vec(),
            how: format!("{} nodes of the model compute a value `{name}`", nodes.len()),
            ..Culprits::default()
        },
    }
}

/// Returns the node with a name or a result of that name.
fn of_part(document: &Document<'_>, name: &str) -> Culprits {
    match makers(document, name).is_empty() && nodes_named(document, name).is_empty() {
        true => Culprits::default(),
        false => of_output(document, name, None),
    }
}

/// Returns the nodes that read an input of the model.
fn of_argument(document: &Document<'_>, position: usize) -> Culprits {
    let name = document.graph(0).and_then(|graph| {
        let is_weight = |name: &str| graph.initializers.iter().any(|tensor| tensor.name == name);
        graph.inputs.iter().map(|input| input.name).filter(|name| !is_weight(name)).nth(position)
    });
    match name {
        Some(name) => of_value(document, name, Role::Input),
        None => Culprits {
            how: format!("the model has no input with index {position}"),
            ..Culprits::default()
        },
    }
}

fn of_node(document: &Document<'_>, name: &str, op: Option<&str>) -> Culprits {
    let nodes = nodes_named(document, name);
    if !nodes.is_empty() {
        return named(document, &nodes, name, op);
    }
    let (sure, origins) = document.answer_of_name(name);
    if !origins.is_empty() {
        let how = match sure {
            Sure::Exact => format!("`{name}` is a value of the model"),
            Sure::Name => format!("`{name}` is a node of a function that the runtime inlined"),
            _ => format!("the runtime derived the name `{name}` from a node of the model"),
        };
        let nodes = longest_within(document, name, &origins);
        return Culprits {
            nodes,
            origins,
            is_certain: sure == Sure::Exact,
            how,
            ..Culprits::default()
        };
    }
    let made = makers(document, name);
    if !made.is_empty() {
        let how = format!("`{name}` is a value of the model");
        return Culprits { nodes: made, how, ..Culprits::default() };
    }
    let parts = derived::of_name(document, name);
    if !parts.nodes.is_empty() {
        return parts;
    }
    match op.or_else(|| bare_fusion(name)) {
        Some(op) if is_bare(name, op) => of_joined(document, op),
        _ => Culprits {
            how: format!("the model has no node `{name}`: is this the model that ran?"),
            ..Culprits::default()
        },
    }
}

/// Returns the nodes with a name. If some of them have the operator, returns only those.
fn named(document: &Document<'_>, nodes: &[usize], name: &str, op: Option<&str>) -> Culprits {
    let op_of = |node: usize| document.scan.nodes.get(node).map_or("", |node| node.op);
    let same: Vec<usize> =
        nodes.iter().copied().filter(|&node| op.is_none_or(|op| op == op_of(node))).collect();
    if same.is_empty() {
        let first = nodes.first().map_or("", |&node| op_of(node));
        let op = op.unwrap_or_default();
        let how =
            format!("`{name}` is a {first} in the model, which the runtime replaced with a {op}");
        return Culprits { nodes: nodes.to_vec(), how, ..Culprits::default() };
    }
    let how = match same.len() {
        1 => format!("`{name}` is a node of the model"),
        count => format!("{count} nodes of the model have the name `{name}`"),
    };
    // A tool may have created this model from the model whose lines are known.
    let sure = document.answer(same[0]).0;
    let how = match sure {
        Sure::Fused => format!("{how}, which a tool fused from several nodes"),
        Sure::Neighbour => format!("{how}, which a tool inserted next to these lines"),
        _ => how,
    };
    let is_certain = same.len() == 1 && matches!(sure, Sure::Exact | Sure::Name);
    Culprits { is_certain, nodes: same, how, ..Culprits::default() }
}

/// Returns the node with these origins whose name is the longest one within another name.
fn longest_within(document: &Document<'_>, name: &str, origins: &[OriginId]) -> Vec<usize> {
    let nodes = document.scan.nodes.iter().enumerate();
    let is_of = |node: usize| document.answer(node).1.iter().any(|origin| origins.contains(origin));
    let within = nodes
        .filter(|(_, node)| !node.name.is_empty() && name.contains(node.name))
        .filter(|(number, _)| is_of(*number));
    within.max_by_key(|(_, node)| node.name.len()).map(|(number, _)| number).into_iter().collect()
}

/// True if a node is in a function, or in a body inside a function.
fn is_of_function(document: &Document<'_>, node: usize) -> bool {
    let mut at = document.scan.nodes.get(node).and_then(|node| document.graph(node.graph as usize));
    while let Some(graph) = at {
        if matches!(graph.place, GraphPlace::Function(_)) {
            return true;
        }
        at = graph.around.and_then(|around| document.graph(around));
    }
    false
}

fn of_value(document: &Document<'_>, name: &str, role: Role) -> Culprits {
    let (mut nodes, what) = match role {
        Role::Made => (makers(document, name), "makes"),
        Role::Read | Role::Weight | Role::Input => (readers(document, name), "reads"),
    };
    if matches!(role, Role::Weight | Role::Input) {
        // A function may use the same name for one of its own values.
        nodes.retain(|&node| !is_of_function(document, node));
    }
    // A line that only reads a shape does not cause the error.
    let reads_shape = |&node: &usize| {
        document.scan.nodes.get(node).is_some_and(|node| matches!(node.op, "Shape" | "Size"))
    };
    if role != Role::Made && !nodes.iter().all(reads_shape) {
        nodes.retain(|node| !reads_shape(node));
    }
    if nodes.is_empty() {
        let (sure, origins) = document.answer_of_name(name);
        let how = match origins.is_empty() {
            true => format!("no node of the model {what} `{name}`"),
            false => format!("`{name}` is a value of the model"),
        };
        return Culprits { origins, is_certain: sure == Sure::Exact, how, ..Culprits::default() };
    }
    let how = match nodes.len() {
        1 => format!("one node {what} `{name}`"),
        count => format!("{count} nodes {} `{name}`", what.trim_end_matches('s')),
    };
    Culprits { nodes, is_certain: true, how, ..Culprits::default() }
}

/// Returns the nodes that read weights in another file.
fn of_external(document: &Document<'_>, file: Option<&str>, offset: Option<u64>) -> Culprits {
    let is_it = |tensor: &Tensor<'_>| {
        let entry = |key: &str| {
            tensor.external.iter().find(|(known, _)| *known == key).map(|&(_, value)| value)
        };
        let location = entry("location").and_then(|path| path.rsplit(['/', '\\']).next());
        let start = entry("offset").map_or(Some(0), |offset| offset.parse::<u64>().ok());
        tensor.is_external
            && file.is_none_or(|file| location == Some(file))
            && offset.is_none_or(|offset| start == Some(offset))
    };
    let graphs = document.scan.graphs.iter();
    let weights: Vec<&str> = graphs
        .flat_map(|graph| &graph.initializers)
        .filter(|tensor| is_it(tensor))
        .map(|tensor| tensor.name)
        .collect();
    let nodes = nodes_where(document, |node| node.inputs.iter().any(|it| weights.contains(it)));
    let nodes = if nodes.len() > MAX_LISTED { Vec::new() } else { nodes };
    let how = match weights.as_slice() {
        [] => "the message names no node, and the model has no weights in that file".to_owned(),
        [weight] => format!("the weight `{weight}` is in that file"),
        weights => format!("{} weights of the model are in that file", weights.len()),
    };
    Culprits { nodes, is_certain: weights.len() == 1, how, ..Culprits::default() }
}

/// Returns the nodes with an operator, unless there are too many.
fn of_op(document: &Document<'_>, op: &str, domain: Option<&str>, is_unnamed: bool) -> Culprits {
    let is_it = |node: &Node<'_>| {
        // tract writes `GatherNd`.
        node.op.eq_ignore_ascii_case(op)
            && domain.is_none_or(|domain| domain == node.domain)
            // If a node has a name, messages contain it.
            && (!is_unnamed || node.name.is_empty())
    };
    let nodes = document.scan.nodes.iter().enumerate().filter(|(_, node)| is_it(node));
    let nodes: Vec<usize> = nodes.map(|(number, _)| number).collect();
    match is_unnamed {
        true => few(nodes, &format!("unnamed {op}"), 4),
        false => few(nodes, op, MAX_LISTED),
    }
}

/// The maximum number of nodes to list if a message concerns one of them.
pub(super) const MAX_LISTED: usize = 100;

/// Finds the nodes that the runtime fused under the name of its operator.
fn of_joined(document: &Document<'_>, op: &str) -> Culprits {
    match inner(document, op) {
        Some((inner, nodes)) => {
            let mut found = few(nodes, inner, 4);
            if !found.nodes.is_empty() {
                add_producers(document, &mut found.nodes);
                found.how = format!("{}, which the runtime fused into {op}", found.how);
            }
            found
        }
        None => Culprits {
            how: format!("the runtime created the `{op}` node and gave it a new name"),
            ..Culprits::default()
        },
    }
}

/// Returns the nodes if there are at most `max` of them.
pub(super) fn few(nodes: Vec<usize>, what: &str, max: usize) -> Culprits {
    let how = match nodes.len() {
        0 => format!("the message names no node, and the model has no {what} node"),
        1 => format!("the model has one {what} node"),
        count if count <= max => format!("the model has {count} {what} nodes"),
        count => format!("the message names no node, and the model has {count} {what} nodes"),
    };
    let nodes = if nodes.len() > max { Vec::new() } else { nodes };
    Culprits { nodes, how, ..Culprits::default() }
}

/// Puts the producers of the operands first, because they usually cause the failure of a fused node.
fn add_producers(document: &Document<'_>, nodes: &mut Vec<usize>) {
    let outline = document.outline();
    let mut producers = Vec::new();
    for &node in nodes.iter() {
        let inputs = outline.nodes.get(node).map_or(&[][..], |node| &node.inputs);
        for &input in inputs {
            let op = document.scan.nodes.get(input as usize).map_or("", |node| node.op);
            if op == "Add" && !nodes.contains(&(input as usize)) {
                producers.push(input as usize);
            }
        }
    }
    nodes.splice(0..0, producers);
}
