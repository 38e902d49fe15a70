//! Measures what each rewrite is worth: the number of additional nodes without it.

use std::collections::BTreeMap;

use onnx::{Model, Trial};
use options::Options;

use crate::phases::{INLINE_COMPOSITES, PHASES, Run};
use crate::{RULES, optimize};

/// The worth of a rewrite in a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worth {
    pub name: &'static str,
    /// How many times it was applied, if it notes that. A rewrite of the whole model is applied at most once.
    pub applied: usize,
    /// How many more nodes the model has without the rewrite. It is negative if the rewrite adds nodes to save time.
    pub saved: isize,
}

/// Returns the names of all rewrites and rules.
pub fn names() -> impl Iterator<Item = &'static str> {
    let passes = PHASES.iter().flat_map(|phase| phase.rewrites);
    let rules = RULES.iter().copied().flatten().map(|rule| rule.name);
    passes
        .flat_map(|pass| [pass.name].into_iter().chain(pass.formulas().map(|rewrite| rewrite.name)))
        .chain(rules)
}

/// Optimizes a model with all rewrites, and without each one that changed it. Returns the number of nodes with all of
/// them, and the rewrites that changed the model.
pub fn worth(model: &Model, options: &Options, checks_weights: bool) -> (usize, Vec<Worth>) {
    let run = |without| {
        let trial = Some(Trial { without, ..Trial::default() });
        let mut model = Model { trial, ..model.clone() };
        optimize(&mut model, options, checks_weights, &mut |_| ());
        let nodes: usize = model.graphs().iter().map(|graph| graph.nodes.len()).sum();
        (nodes, model)
    };
    let (nodes, optimized) = run(None);
    let notes = optimized.notes.iter().filter(|note| note.declined.is_none());
    let of_model = optimized.trial.iter().flat_map(|trial| &trial.of_model);
    let mut applied: BTreeMap<&'static str, usize> = BTreeMap::new();
    for name in notes.map(|note| note.label.name).chain(of_model.copied()) {
        *applied.entry(name).or_default() += 1;
    }
    for phase in PHASES {
        for pass in phase.rewrites {
            let formulas = pass.formulas().filter_map(|rewrite| applied.get(rewrite.name));
            let times: usize = formulas.sum();
            if times > 0 {
                applied.insert(pass.name, times);
            }
            // These do not note all that they do.
            let is_silent = match pass.run {
                Run::Graph(_) => !phase.is_canonical,
                Run::Between(_) => true,
                _ => false,
            };
            if is_silent {
                applied.entry(pass.name).or_insert(0);
            }
        }
    }
    applied.remove(INLINE_COMPOSITES);
    let without = |(name, applied)| {
        let saved = run(Some(name)).0 as isize - nodes as isize;
        Worth { name, applied, saved }
    };
    (nodes, applied.into_iter().map(without).collect())
}
