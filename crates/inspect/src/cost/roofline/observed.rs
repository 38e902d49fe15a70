//! The sizes with which a profiled model ran.

use std::collections::BTreeMap;

use onnx::sized::{SizedModel, Sizes, SymbolOf};
use onnx::{Dim, Symbol, ValueId};
use provenance::outline::GraphPlace;
use rustc_hash::FxHashMap;

use crate::Document;
use crate::profile::{Kernel, Profile};

/// How many kernels show each size of a symbol.
type Votes = BTreeMap<String, BTreeMap<i64, usize>>;

/// Finds the sizes of symbols in the shapes of a profile, and the iterations of loops in its counts.
///
/// The runtime may have rewritten a node, so that its operand has other axes. A size counts if more than half of the
/// kernels with a symbol show it.
pub fn sizes_in(document: &Document<'_>, model: &SizedModel, profile: &Profile) -> Sizes {
    let kernels = kernels(document, profile);
    let mut votes = Votes::new();
    for step in model.instances.iter().flat_map(|instance| &instance.steps) {
        let Some(kernel) = kernels.get(&step.node) else { continue };
        let ends = [
            (step.inputs.first(), &kernel.shapes.read),
            (step.outputs.first(), &kernel.shapes.made),
        ];
        for (value, shape) in ends {
            if let (Some(Some(value)), Some(shape)) = (value, shape) {
                vote(model, *value, shape, &mut votes);
            }
        }
    }
    for symbol in &model.symbols {
        if let SymbolOf::Steps { node, .. } = symbol.of
            && let Some(steps) = iterations(document, node, &kernels)
        {
            votes.insert(symbol.name.to_string(), [(steps, 1)].into());
        }
    }
    let most = |(name, votes): (String, BTreeMap<i64, usize>)| {
        let all: usize = votes.values().sum();
        let (size, count) = votes.into_iter().max_by_key(|(_, count)| *count)?;
        (count * 2 > all && size > 0).then_some((name, size))
    };
    votes.into_iter().filter_map(most).collect()
}

/// Returns the kernel of each node that ran under its own name.
fn kernels<'p>(document: &Document<'_>, profile: &'p Profile) -> FxHashMap<usize, &'p Kernel> {
    let mut nodes: FxHashMap<&str, Option<usize>> = FxHashMap::default();
    for (number, node) in document.scan.nodes.iter().enumerate() {
        // A name that several nodes have identifies none of them.
        nodes.entry(node.name).and_modify(|known| *known = None).or_insert(Some(number));
    }
    let of = |kernel: &'p Kernel| Some(((*nodes.get(&*kernel.node)?)?, kernel));
    profile.kernels.iter().filter_map(of).collect()
}

/// Compares the shape of a value with that in a profile, such as `{"float":[8,128]}`.
fn vote(model: &SizedModel, value: ValueId, shape: &str, votes: &mut Votes) {
    let Some(ty) = &model.values[value].ty else { return };
    let inside = shape.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    let sizes: Option<Vec<i64>> = inside.and_then(|(inside, _)| {
        inside.split(',').filter(|size| !size.is_empty()).map(|size| size.parse().ok()).collect()
    });
    let Some(sizes) = sizes.filter(|sizes| sizes.len() == ty.rank()) else { return };
    let pairs = || ty.shape.iter().zip(&sizes);
    if !pairs().all(|(dim, size)| dim.known().is_none_or(|known| known == *size)) {
        return;
    }
    for (dim, size) in pairs() {
        if let (None, Some(Symbol::Named(name))) = (dim.known(), Dim::as_symbol(dim)) {
            *votes.entry(name.to_string()).or_default().entry(*size).or_default() += 1;
        }
    }
}

/// Returns the number of iterations of a loop, if each of its runs has as many.
fn iterations(
    document: &Document<'_>,
    node: usize,
    kernels: &FxHashMap<usize, &Kernel>,
) -> Option<i64> {
    let of_loop: u64 = kernels.get(&node)?.calls.iter().sum();
    let is_body = |graph: u32| {
        let place = document.scan.graphs.get(graph as usize).map(|graph| &graph.place);
        matches!(place, Some(GraphPlace::Body { node: of, .. }) if *of as usize == node)
    };
    let inside = document.scan.nodes.iter().enumerate().filter(|(_, node)| is_body(node.graph));
    let calls = inside.filter_map(|(number, _)| Some(kernels.get(&number)?.calls.iter().sum()));
    let calls: u64 = calls.max()?;
    (of_loop > 0 && calls.is_multiple_of(of_loop)).then(|| (calls / of_loop) as i64)
}
