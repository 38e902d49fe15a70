//! Finds the original nodes behind the nodes of a changed model.
//!
//! Optimizers, converters and quantizers drop metadata but keep names: nearly always those of values, and usually
//! those of nodes. They name fused nodes after the original nodes. Each answer states how it was found.

mod model;
mod names;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::outline::{GraphPlace, Outline};
use crate::source_map::{MapValue, SourceMap};

/// The way in which an answer was found, the most certain first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sure {
    /// The same node: the same operator with the same result.
    Exact,
    /// A node with the same name and operator, but another name of the result.
    Name,
    /// A node that replaces several nodes.
    Fused,
    /// A new node beside known ones.
    Neighbour,
    Unknown,
}

impl Sure {
    pub fn word(self) -> &'static str {
        match self {
            Sure::Exact => "exact",
            Sure::Name => "name",
            Sure::Fused => "fused",
            Sure::Neighbour => "neighbour",
            Sure::Unknown => "unknown",
        }
    }
}

/// The origin of a node of a changed model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub sure: Sure,
    /// Numbers of origins in the table, each once, the one to show first at the front.
    pub origins: Vec<u32>,
}

/// A source map with indices by name.
#[derive(Debug)]
pub struct Resolver {
    map: SourceMap,
    /// `None` for a name that several nodes have.
    nodes: FxHashMap<Arc<str>, Option<u32>>,
    outputs: FxHashMap<Arc<str>, Option<u32>>,
    values: FxHashMap<Arc<str>, u32>,
    /// The names of functions, without their domains.
    functions: Vec<Arc<str>>,
    /// For each node, true if it is in a function, or in a body in one.
    is_of_function: Vec<bool>,
}

impl Resolver {
    pub fn new(map: SourceMap) -> Resolver {
        let mut nodes = FxHashMap::default();
        let mut outputs = FxHashMap::default();
        for (number, node) in (0..).zip(&map.outline.nodes) {
            if !node.name.is_empty() {
                add(&mut nodes, &node.name, number);
            }
            node.outputs.iter().for_each(|output| add(&mut outputs, output, number));
        }
        let of_value = |value: &MapValue| Some((value.name.clone(), value.origin?));
        let values = map.values.iter().filter_map(of_value).collect();
        let (functions, is_of_function) = functions(&map.outline);
        Resolver { map, nodes, outputs, values, functions, is_of_function }
    }

    pub fn map(&self) -> &SourceMap {
        &self.map
    }

    /// Finds the origin of a node or a value by its name.
    pub fn resolve(&self, name: &str) -> Answer {
        self.resolve_run(name, &|_| false)
    }

    /// Finds the origin of a node that a runtime ran. `has_run` returns true for nodes of the map that ran under
    /// their own names, so that no other node replaces them.
    pub fn resolve_run(&self, name: &str, has_run: &dyn Fn(u32) -> bool) -> Answer {
        let found = |nodes: Vec<u32>, sure| {
            let origins = self.origins(nodes);
            if origins.is_empty() { None } else { Some(Answer { sure, origins }) }
        };
        let by_name: Vec<u32> = self.node(name).into_iter().chain(self.output(name)).collect();
        let value = self.values.get(name);
        let is_one = by_name.windows(2).all(|pair| pair[0] == pair[1]);
        let sure = if is_one { Sure::Exact } else { Sure::Fused };
        let inlined = || found(self.inlined(name).into_iter().collect(), Sure::Name);
        found(by_name, sure)
            .or_else(inlined)
            .or_else(|| value.map(|&origin| Answer { sure: Sure::Exact, origins: vec![origin] }))
            .or_else(|| found(self.made_of(name, has_run), Sure::Fused))
            .unwrap_or(Answer { sure: Sure::Unknown, origins: Vec::new() })
    }

    /// Finds the origin of each node of a changed model.
    pub fn resolve_model(&self, later: &Outline) -> Vec<Answer> {
        let found = model::resolve(self, later).into_iter();
        let answer = |(sure, nodes): (Sure, Vec<u32>)| {
            let origins = self.origins(nodes);
            Answer { sure: if origins.is_empty() { Sure::Unknown } else { sure }, origins }
        };
        found.map(answer).collect()
    }

    fn node(&self, name: &str) -> Option<u32> {
        self.nodes.get(name).copied().flatten()
    }

    fn output(&self, name: &str) -> Option<u32> {
        self.outputs.get(name).copied().flatten()
    }

    /// Returns the node with that name, or the one with a result of that name.
    fn known(&self, name: &str) -> Option<u32> {
        self.node(name).or_else(|| self.output(name))
    }

    /// Returns the node that a name refers to, if there is one.
    pub fn node_of(&self, name: &str) -> Option<u32> {
        self.known(name).or_else(|| self.inlined(name)).or_else(|| self.undecorated(name))
    }

    /// Returns the nodes that a name is derived from: the node of [`Resolver::undecorated`], preceded by the
    /// convolution that the runtime named after that node's result.
    fn made_of(&self, name: &str, has_run: &dyn Fn(u32) -> bool) -> Vec<u32> {
        let Some(node) = self.undecorated(name) else { return Vec::new() };
        let convolution = match names::is_blocked(name) {
            true => self.convolution_before(node, has_run),
            false => None,
        };
        convolution.into_iter().chain([node]).collect()
    }

    /// Returns the convolution that a runtime fuses with a later node, if nothing else reads its result.
    fn convolution_before(&self, node: u32, has_run: &dyn Fn(u32) -> bool) -> Option<u32> {
        /// The maximum number of fused nodes: a bias, a norm and an activation.
        const MAX_FUSED: usize = 3;
        let nodes = &self.map.outline.nodes;
        let is_fused = |&input: &u32| {
            !has_run(input) && nodes.iter().filter(|node| node.inputs.contains(&input)).count() == 1
        };
        let is_convolution = |&node: &u32| &*nodes[node as usize].op == "Conv";
        let mut at = node;
        for _ in 0..MAX_FUSED {
            if is_convolution(&at) || STAND_ALONE.contains(&&*nodes[at as usize].op) {
                return None;
            }
            let inputs: Vec<u32> =
                nodes[at as usize].inputs.iter().copied().filter(is_fused).collect();
            let convolutions: Vec<u32> = inputs.iter().copied().filter(is_convolution).collect();
            match (convolutions.as_slice(), inputs.as_slice()) {
                ([convolution], _) => return Some(*convolution),
                ([], [input]) => at = *input,
                _ => return None,
            }
        }
        None
    }

    /// Returns the node that a name is derived from, by the conventions of tools.
    fn undecorated(&self, name: &str) -> Option<u32> {
        names::within(name).find_map(|inner| self.known(inner).or_else(|| self.inlined(inner)))
    }

    /// Returns the node of a function that was inlined and renamed.
    fn inlined(&self, name: &str) -> Option<u32> {
        let is_of_function = |&node: &u32| self.is_of_function[node as usize];
        let mut inner = names::within_calls(name, &self.functions);
        inner.find_map(|inner| self.known(inner)).filter(is_of_function)
    }

    fn origins(&self, nodes: Vec<u32>) -> Vec<u32> {
        let mut origins = Vec::new();
        let of_node = |node: u32| self.map.origins.get(node as usize).copied().flatten();
        for origin in nodes.into_iter().filter_map(of_node) {
            if !origins.contains(&origin) {
                origins.push(origin);
            }
        }
        origins
    }
}

/// Operators with a separate blocked form.
const STAND_ALONE: &[&str] =
    &["AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "Resize", "Upsample"];

fn add(names: &mut FxHashMap<Arc<str>, Option<u32>>, name: &Arc<str>, node: u32) {
    names
        .entry(name.clone())
        .and_modify(|known| *known = known.filter(|&known| known == node))
        .or_insert(Some(node));
}

/// Returns the names of the functions, and which nodes are in one.
fn functions(outline: &Outline) -> (Vec<Arc<str>>, Vec<bool>) {
    let mut names = Vec::new();
    let mut is_of_function: Vec<bool> = Vec::with_capacity(outline.nodes.len());
    for (number, graph) in outline.graphs.iter().enumerate() {
        let is_function = match &graph.place {
            GraphPlace::Main => false,
            GraphPlace::Function(name) => {
                names.push(name.rsplit("::").next().unwrap_or(name).into());
                true
            }
            GraphPlace::Body { node, .. } => is_of_function.get(*node as usize) == Some(&true),
        };
        is_of_function.extend(outline.nodes_of(number).iter().map(|_| is_function));
    }
    // A name that starts with `block_2` also starts with `block`.
    names.sort_by_key(|name: &Arc<str>| std::cmp::Reverse(name.len()));
    (names, is_of_function)
}

#[cfg(test)]
mod tests;
