//! Rewrites that make a model smaller and faster without changing its results.
//!
//! [`PHASES`] lists all rewrites, their order, and the reasons for the order. A pass sees nodes and
//! values, never origins: [`onnx::Edit`] carries those.

pub mod canonicalize;
mod formulas;
mod guard;
mod indices;
mod layout;
mod layout_ops;
mod operators;
mod phases;
#[cfg(test)]
mod same_numbers;
mod share;
mod worth;

pub use algebra::rewrite::{Formulas, Rewrite};
use onnx::tensor::Assumptions;
use onnx::{Edit, Model};
use options::{NormalizationMode, Options};

pub use canonicalize::{RULES, Rule};
pub use guard::faults;
pub use phases::{PHASES, Pass, Phase};
use phases::{Run, When};
pub use worth::{Worth, names, worth};

/// Runs every phase, and calls `begin` with each one before it runs.
///
/// If `checks_weights` is true, rewrites read large weights. Otherwise, rewrites assume that the weights are ordinary
/// numbers, and writing the model fails if that is wrong.
pub fn optimize(
    model: &mut Model,
    options: &Options,
    checks_weights: bool,
    begin: &mut dyn FnMut(&'static Phase),
) {
    model.assumptions = (!checks_weights).then(Assumptions::default);
    for phase in PHASES {
        begin(phase);
        phase.run(model, options);
    }
}

impl Pass {
    fn is_wanted(&self, options: &Options) -> bool {
        match self.when {
            When::Always => true,
            When::Optimizing => options.optimize,
            When::FusingNorms => {
                options.optimize && options.normalization_mode != NormalizationMode::ForceDecomposed
            }
        }
    }
}

impl Phase {
    /// Runs the rewrites that the options ask for, in order, until an iteration changes nothing. After each change,
    /// drops unread nodes and canonicalizes the changed part of the graph.
    fn run(&self, model: &mut Model, options: &Options) {
        let is_canonical = self.is_canonical && options.optimize;
        let notes = model.notes.len();
        for _ in 0..self.max_iterations {
            let mut changed = false;
            // Each iteration notes its own declines.
            let mut earlier = model.notes.split_off(notes);
            earlier.retain(|note| note.declined.is_none());
            model.notes.append(&mut earlier);
            let without = model.trial.as_ref().and_then(|trial| trial.without);
            let is_wanted = |pass: &&Pass| pass.is_wanted(options) && without != Some(pass.name);
            for pass in self.rewrites.iter().filter(is_wanted) {
                model.rewrite = Some(pass.label());
                let run: &mut dyn FnMut(&mut Edit<'_>) = match pass.run {
                    Run::Nodes(run) => &mut move |edit| algebra::rewrite::run_each(edit, run),
                    Run::Graph(run) => &mut { run },
                    Run::Configured(run) => &mut move |edit| run(edit, options),
                    Run::Formulas(all) => {
                        &mut |edit| all.iter().for_each(|formulas| formulas.run(edit))
                    }
                    Run::Model(run) => {
                        let before = model.trial.as_ref().map(|_| model.graph.clone());
                        run(model);
                        if let Some(trial) = &mut model.trial
                            && before.is_some_and(|before| before != model.graph)
                        {
                            trial.of_model.push(pass.name);
                        }
                        continue;
                    }
                    Run::Between(run) => {
                        if run(model) {
                            model.edit(&mut canonicalize::everything);
                        }
                        continue;
                    }
                };
                changed |= model.edit(&mut |edit| {
                    run(edit);
                    if options.optimize && edit.is_changed() {
                        edit.drop_unread();
                        if is_canonical {
                            canonicalize::changed(edit);
                        }
                    }
                });
            }
            if !changed {
                return;
            }
        }
    }
}
