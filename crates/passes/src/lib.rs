//! Rewrites that make a model smaller and faster without changing its results.
//!
//! [`PHASES`] lists all rewrites, their order, and the reasons for the order. A pass sees nodes and
//! values, never origins: [`onnx::Edit`] carries those.

mod access;
mod axis_map;
mod axis_order;
mod bound_counters;
mod canonicalize;
mod drop_carries;
mod drop_dead;
mod drop_unread_inputs;
mod eval;
#[cfg(test)]
mod facts;
pub mod faults;
mod fold_layout_ops;
mod fold_products;
mod fuse;
mod gemm;
mod hoist_invariants;
mod inline_composites;
mod keep_axes;
mod keep_entries;
mod keep_zero_signs;
mod layout;
mod layout_ops;
mod lift_weights;
mod loops;
mod merge_affine;
mod pattern;
mod phases;
mod recurrent;
mod rewrite;
#[cfg(test)]
mod same_numbers;
mod shape_constants;
mod share_constants;
mod share_functions;
mod simplify_sizes;
mod sizes;
mod split_means;
mod split_products;
mod store_once;
mod stored;
#[cfg(test)]
mod testing;

use onnx::tensor::Assumptions;
use onnx::{Edit, Model};

pub use canonicalize::{RULES, Rule};
pub use phases::{PHASES, Pass, Phase};
use phases::{Run, When};
pub use rewrite::Rewrite;

/// The options of the passes.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether anything is rewritten that does not have to be. Without, nodes are as plugins made them.
    pub optimize: bool,
    /// Whether a norm may become one operator, such as `LayerNormalization`.
    pub norms: bool,
    /// The most nodes that the rounds of a loop may become; 0 keeps all loops.
    pub unroll: usize,
    /// Whether large weights are read at once. Otherwise writing the model fails if what is assumed of them is wrong.
    pub checks_weights: bool,
}

/// The default of [`Options::unroll`].
pub const UNROLL: usize = 32;

impl Default for Options {
    fn default() -> Options {
        Options { optimize: true, norms: true, unroll: UNROLL, checks_weights: true }
    }
}

impl Options {
    fn want(self, pass: &Pass) -> bool {
        match pass.when {
            When::Always => true,
            When::Optimizing => self.optimize,
            When::FusingNorms => self.optimize && self.norms,
        }
    }
}

/// Runs every phase, and calls `begin` with each one before it runs.
pub fn optimize(model: &mut Model, options: &Options, begin: &mut dyn FnMut(&'static Phase)) {
    model.assumptions = (!options.checks_weights).then(Assumptions::default);
    for phase in PHASES {
        begin(phase);
        phase.run(model, *options);
    }
}

impl Phase {
    /// Runs the rewrites that are wanted, in order, until a round changes nothing. After each change, what no
    /// output needs is dropped and the graph is made canonical where it changed.
    fn run(&self, model: &mut Model, options: Options) {
        let is_canonical = self.is_canonical && options.optimize;
        let notes = model.notes.len();
        for _ in 0..self.max_rounds {
            let mut changed = false;
            // A round finds again what the round before declined.
            let mut earlier = model.notes.split_off(notes);
            earlier.retain(|note| note.declined.is_none());
            model.notes.append(&mut earlier);
            for pass in self.rewrites.iter().filter(|pass| options.want(pass)) {
                let run: &mut dyn FnMut(&mut Edit<'_>) = match pass.run {
                    Run::Graph(run) => &mut { run },
                    Run::Unroll(run) => &mut move |edit| run(edit, options.unroll),
                    Run::Formulas(stages) => &mut |edit| rewrite::run_stages(edit, stages),
                    Run::Model(run) => {
                        run(model);
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
