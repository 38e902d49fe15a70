//! Placement: the execution provider that runs each node, and the copies between devices, by line.
//!
//! ONNX Runtime says where it runs each node: a session states its assignment, and a profile names the provider of
//! each kernel. The lines come from the provenance of the model, as in a profile.

mod advice;
mod show;

use std::sync::Arc;

use provenance::outline::GraphPlace;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::profile::{CPU, Copied, Direction, Profile, attribute, copies};
use crate::{Document, Frame};

pub use show::{describe_copy, json, report, sentence, text};

/// The facts about a session that ONNX Runtime states.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence<'p> {
    /// The assignment of a session, as [`Profile::of_assignment`] reads it.
    pub assigned: Option<&'p Profile>,
    pub profile: Option<&'p Profile>,
    /// True if the document is the model as the runtime optimized it, so that it contains all copies.
    pub is_optimized: bool,
}

/// The source of a placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Assignment,
    Profile,
}

impl Source {
    fn word(self) -> &'static str {
        match self {
            Source::Assignment => "assignment",
            Source::Profile => "profile",
        }
    }
}

/// The execution providers that run the nodes of a model.
#[derive(Clone, Debug)]
pub struct Placement<'d> {
    pub source: Source,
    /// The providers and the numbers of their nodes, the most nodes first. `None` if a provider is unknown.
    pub providers: Vec<(Option<Arc<str>>, usize)>,
    /// The lines, those with the most copies first, then those with the most nodes on other providers.
    pub lines: Vec<PlacedLine<'d>>,
    /// True if the lines contain all copies. A session alone may not state them.
    pub knows_copies: bool,
}

/// A line, or the nodes without a line.
#[derive(Clone, Debug)]
pub struct PlacedLine<'d> {
    pub frame: Option<Frame<'d>>,
    pub nodes: Vec<PlacedNode>,
    /// The copies that nodes of this line on the CPU need.
    pub copies: Vec<Copy<'d>>,
    /// An edit that would remove a copy.
    pub advice: Option<String>,
}

/// A node as it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedNode {
    pub name: Arc<str>,
    pub op: Arc<str>,
    /// `None` if it is unknown.
    pub provider: Option<Arc<str>>,
}

/// A copy of a value between devices.
#[derive(Clone, Debug, PartialEq)]
pub struct Copy<'d> {
    pub node: String,
    pub direction: Direction,
    pub value: Option<String>,
    /// `f32[8,8]`
    pub ty: Option<String>,
    pub bytes: Option<u64>,
    /// The number of times that the last run of a profile made the copy.
    pub calls: Option<u64>,
    /// The line that computes the value.
    pub from: Option<Frame<'d>>,
    /// The lines that read the copy.
    pub to: Vec<Frame<'d>>,
}

impl<'d> Placement<'d> {
    /// Finds where the nodes of a model run. The profile is the source if the assignment lacks nodes that ran.
    pub fn new(document: &'d Document<'_>, evidence: Evidence<'_>) -> Placement<'d> {
        let Evidence { assigned, profile, is_optimized } = evidence;
        let ran = profile.map_or(&[][..], |profile| &profile.kernels);
        let is_complete = |assigned: &&Profile| {
            let names = ran.iter().map(|kernel| &*kernel.node);
            missing(document, assigned, names).is_empty()
        };
        let assigned = assigned.filter(|assigned| profile.is_none() || is_complete(assigned));
        let empty = Profile::default();
        let nodes = assigned.or(profile).unwrap_or(&empty);
        let mut lines = Lines::default();
        for (kernel, attribution) in nodes.kernels.iter().zip(attribute(document, nodes)) {
            if Direction::of_op(&kernel.op).is_some() {
                continue;
            }
            let frame = attribution.origin.and_then(|origin| origin.callsite);
            let provider = Some(kernel.provider.clone()).filter(|it| !it.is_empty());
            let (name, op) = (kernel.node.clone(), kernel.op.clone());
            lines.of(frame).nodes.push(PlacedNode { name, op, provider });
        }
        if let Some(assigned) = assigned {
            let all = document.scan.nodes.iter();
            let names = all.filter(|node| Direction::of_op(node.op).is_none());
            let compiled = compiled(document, assigned);
            for number in missing(document, assigned, names.map(|node| node.name)) {
                let provider = compiled.get(&number).copied().cloned();
                // Without the runtime's form of the model, it may have removed the node.
                if provider.is_none() && (!is_optimized || profile.is_some()) {
                    continue;
                }
                let node = &document.scan.nodes[number];
                let frame = document.provenance(number).and_then(|it| it.callsite);
                let (name, op) = (node.name.into(), node.op.into());
                lines.of(frame).nodes.push(PlacedNode { name, op, provider });
            }
        }
        let frame = |node: usize| document.provenance(node).and_then(|it| it.callsite);
        let copied = copies(document, profile);
        let knows_copies = profile.is_some() || is_optimized || !copied.is_empty();
        for copied in copied {
            let line = copied.cause.and_then(frame);
            lines.of(line).copies.push(Copy::of(copied, profile, &frame));
        }
        let mut placement = Placement {
            source: if assigned.is_some() { Source::Assignment } else { Source::Profile },
            providers: lines.providers(),
            lines: lines.list,
            knows_copies,
        };
        // Copies are between two devices.
        placement.knows_copies |= placement.providers.len() == 1 && placement.main() == Some(CPU);
        let main = placement.main().map(str::to_owned);
        let is_elsewhere = |node: &&PlacedNode| node.provider.as_deref() != main.as_deref();
        placement.lines.sort_by_key(|line| {
            let elsewhere = line.nodes.iter().filter(is_elsewhere).count();
            std::cmp::Reverse((line.copies.len(), elsewhere))
        });
        advice::advise(document, &mut placement);
        placement
    }

    /// Returns the provider with the most nodes. The CPU counts only if there is no other one.
    pub fn main(&self) -> Option<&str> {
        let mut known = self.providers.iter().filter_map(|(provider, _)| provider.as_deref());
        known.clone().find(|provider| *provider != CPU).or_else(|| known.next())
    }

    /// True if all nodes run on one known provider, without copies.
    pub fn is_whole(&self) -> bool {
        self.knows_copies && self.providers.len() <= 1 && self.copies().next().is_none()
    }

    pub fn copies(&self) -> impl Iterator<Item = &Copy<'d>> {
        self.lines.iter().flat_map(|line| &line.copies)
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.providers.iter().map(|(_, nodes)| nodes).sum()
    }
}

impl PlacedLine<'_> {
    /// Returns the nodes that do not run on a provider.
    pub fn elsewhere<'s>(&'s self, main: Option<&'s str>) -> impl Iterator<Item = &'s PlacedNode> {
        self.nodes.iter().filter(move |node| node.provider.as_deref() != main)
    }
}

impl<'d> Copy<'d> {
    fn of(
        copied: Copied,
        profile: Option<&Profile>,
        frame: &dyn Fn(usize) -> Option<Frame<'d>>,
    ) -> Copy<'d> {
        let kernel = copied.kernel.and_then(|kernel| profile?.kernels.get(kernel));
        let mut to: Vec<Frame<'d>> = Vec::new();
        for line in copied.readers.iter().filter_map(|&reader| frame(reader)) {
            if !to.contains(&line) {
                to.push(line);
            }
        }
        Copy {
            node: copied.name,
            direction: copied.direction,
            value: copied.value,
            ty: copied.ty,
            bytes: copied.bytes,
            calls: kernel.and_then(|kernel| kernel.calls.last().copied()),
            from: copied.maker.and_then(frame),
            to,
        }
    }
}

/// The lines in the order in which they were found.
#[derive(Default)]
struct Lines<'d> {
    list: Vec<PlacedLine<'d>>,
    numbers: FxHashMap<Option<(&'d str, u32, &'d str)>, usize>,
}

impl<'d> Lines<'d> {
    fn of(&mut self, frame: Option<Frame<'d>>) -> &mut PlacedLine<'d> {
        let key = frame.map(|frame| (frame.file, frame.line, frame.function));
        let number = *self.numbers.entry(key).or_insert(self.list.len());
        if number == self.list.len() {
            let (nodes, copies) = (Vec::new(), Vec::new());
            self.list.push(PlacedLine { frame, nodes, copies, advice: None });
        }
        &mut self.list[number]
    }

    fn providers(&self) -> Vec<(Option<Arc<str>>, usize)> {
        let mut counts: FxHashMap<Option<&Arc<str>>, usize> = FxHashMap::default();
        for node in self.list.iter().flat_map(|line| &line.nodes) {
            *counts.entry(node.provider.as_ref()).or_default() += 1;
        }
        let mut counts: Vec<(Option<Arc<str>>, usize)> =
            counts.into_iter().map(|(provider, nodes)| (provider.cloned(), nodes)).collect();
        counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        counts
    }
}

/// Returns the providers of the nodes in bodies that a provider other than the CPU compiled as a whole. The
/// assignment contains only the node around such a body.
fn compiled<'p>(document: &Document<'_>, assigned: &'p Profile) -> FxHashMap<usize, &'p Arc<str>> {
    let known = assigned.kernels.iter().map(|kernel| (&*kernel.node, &kernel.provider));
    let known: FxHashMap<&str, &'p Arc<str>> = known.collect();
    let mut found: FxHashMap<usize, &'p Arc<str>> = FxHashMap::default();
    // A body comes after the graph that contains it.
    for graph in &document.scan.graphs {
        let GraphPlace::Body { node, .. } = &graph.place else { continue };
        let Some(around) = document.scan.nodes.get(*node as usize) else { continue };
        let provider = known.get(around.name).or_else(|| found.get(&(*node as usize))).copied();
        let Some(provider) = provider.filter(|provider| ***provider != *CPU) else { continue };
        let names = document.scan.nodes.get(graph.nodes.clone()).unwrap_or_default().iter();
        if !names.clone().any(|node| known.contains_key(node.name)) {
            found.extend(graph.nodes.clone().map(|number| (number, provider)));
        }
    }
    found
}

/// Returns the nodes of the document, among those with these names, that an assignment does not mention. Nodes that
/// the runtime created do not count, because it may have created them after the assignment.
fn missing<'n>(
    document: &Document<'_>,
    assigned: &Profile,
    names: impl Iterator<Item = &'n str>,
) -> Vec<usize> {
    let known: FxHashSet<&str> = assigned.kernels.iter().map(|kernel| &*kernel.node).collect();
    let exported = document.resolver().map().outline.nodes.iter();
    let exported: FxHashSet<&str> = exported.map(|node| &*node.name).collect();
    let nodes = document.scan.nodes.iter().enumerate();
    let numbers: FxHashMap<&str, usize> = nodes.map(|(number, node)| (node.name, number)).collect();
    let is_missing =
        |name: &&str| !name.is_empty() && exported.contains(name) && !known.contains(name);
    names.filter(is_missing).filter_map(|name| numbers.get(name).copied()).collect()
}
