//! Rewrites that make a model lean and leave what it computes as it is.
//!
//! A pass sees nodes and values, never origins: [`onnx::Edit`] carries those.

mod access;
mod axis_map;
mod bounds;
mod bypass_expand;
mod change;
mod drop_bounds;
mod drop_carries;
mod drop_dead;
mod drop_identity;
mod eval;
pub mod faults;
mod fold_constants;
mod fold_moves;
mod fold_products;
mod fuse;
mod gemm;
mod hoist_invariants;
mod inline_composites;
mod keep_axes;
mod keep_zero_signs;
mod layout;
mod layout_ops;
mod lift_weights;
mod merge_affine;
mod merge_chains;
mod operators;
mod pattern;
mod recurrent;
mod rewrite;
mod share_constants;
mod share_functions;
mod share_nodes;
mod simplify_flags;
mod simplify_sizes;
mod sizes;
mod split_means;
#[cfg(test)]
mod testing;
mod trim_constants;

use onnx::{Edit, Model};
use rustc_hash::FxHashMap;

/// A rewrite.
pub struct Pass {
    pub name: &'static str,
    run: Run,
}

enum Run {
    /// Of each graph by itself, bodies and functions included.
    Graph(fn(&mut Edit<'_>)),
    /// Of the model as a whole.
    Model(fn(&mut Model)),
}

const fn graph(name: &'static str, run: fn(&mut Edit<'_>)) -> Pass {
    Pass { name, run: Run::Graph(run) }
}

const fn model(name: &'static str, run: fn(&mut Model)) -> Pass {
    Pass { name, run: Run::Model(run) }
}

const FUSE_NORMS: &str = "fuse-norms";
const KEEP_ZERO_SIGNS: &str = "keep-zero-signs";
const INLINE_COMPOSITES: &str = "inline-composites";
const AVOID_FAULTS: &str = "avoid-faults";
const LIFT_WEIGHTS: &str = "lift-weights";
const CONSTANTS_TO_NODES: &str = "constants-to-nodes";

/// The passes in the order they run.
///
/// The dead go first, so that no line is answered for that asks for nothing, with what loops carry for
/// nothing; then with every pass that changes a graph, and at the end, for what a body no longer reads.
/// Which line captures which weight is noted while each line has nodes of its own. No-ops go before
/// broadcasts are looked through, so that one between an `Expand` and its reader does not hide it, and
/// once more after folding, which decides choices. Broadcasts come
/// before folding, because a folded broadcast is a larger constant. Bounds that hold go before broadcasts
/// too, while both sides of a choice have its shape, and again when types are as they stay. Reductions
/// keep their axes before formulas are looked for; norms take up squares and roots before other
/// formulas of those, and means that are part of no norm are split after, if an axis may be empty; chains of constants are merged when no formula needs their parts any more.
/// Chains of shapes are merged before indices, which are often behind them, and at the end, when what
/// was between two is gone. The order of axes is chosen when composites are nodes, so that nothing hides
/// a transpose, and sums over windows become means while they are composites. What scales and shifts
/// goes into weights before the order is chosen, because a transpose may come between, and after, when a
/// transpose no longer does. What is the same in each round leaves a loop when it is as small as it gets,
/// and before sharing, for it may stand before the loop already. Weights of functions become inputs
/// after folding, which needs their contents, and before sharing, which would otherwise tell functions
/// apart by which of their weights happen to be equal. Sharing comes when equal nodes read equal
/// operands, and functions are shared when their bodies are finished. What is left of constants in
/// functions becomes nodes at the very end, because only initializers are looked into.
///
/// Moves are joined before softmaxes are looked for, which they may stand in, and again when all formulas
/// have become operators that they can sink through. Each round of sinking brings those further that
/// the round before has joined. Products are oriented by the moves that are left around them, and
/// attention is what is found around two products then. Where it needs no transposes it is found before,
/// so that the projections are oriented for what reads them. Conditions choose before formulas are looked
/// for that have a choice in them; triangles are written when nothing is left to be moved through a
/// choice, and sizes read at once when no pass looks into how they are computed any more.
pub const PIPELINE: &[Pass] = &[
    graph("drop-dead", drop_dead::run),
    model("drop-carries", drop_carries::run),
    graph("drop-dead", drop_dead::run),
    model("note-captures", Model::note_captures),
    graph("drop-identity", drop_identity::run),
    graph("drop-bounds", drop_bounds::run),
    graph("bypass-expand", bypass_expand::run),
    graph("fold-constants", fold_constants::run),
    graph("drop-identity", drop_identity::run),
    graph("share-nodes", share_nodes::run),
    graph("fuse-choices", fuse::choices),
    graph("fuse-recurrent", recurrent::run),
    graph("fuse-pools", fuse::pools),
    graph("merge-moves", layout_ops::merge::run),
    graph("keep-axes", keep_axes::run),
    graph("fuse-activations", fuse::activations),
    graph("fuse-softmax", fuse::softmax),
    graph("fuse-means", fuse::means),
    graph(FUSE_NORMS, fuse::norms),
    graph("split-means", split_means::run),
    graph("fuse-reductions", fuse::reductions),
    graph("fuse-weighted-sums", fuse::weighted_sums),
    graph("merge-affine", merge_affine::run),
    graph(INLINE_COMPOSITES, inline_composites::run),
    graph("merge-chains", merge_chains::run),
    graph("merge-moves", layout_ops::merge::run),
    graph("drop-identity", drop_identity::run),
    graph("drop-bounds", drop_bounds::run),
    graph("simplify-flags", simplify_flags::run),
    graph("fuse-indices", fuse::indices),
    graph("fuse-entries", fuse::entries),
    graph("drop-identity", drop_identity::run),
    graph("bypass-expand", bypass_expand::run),
    graph("fold-constants", fold_constants::run),
    graph("fuse-places", fuse::places),
    graph("drop-identity", drop_identity::run),
    graph("merge-chains", merge_chains::run),
    graph("merge-moves", layout_ops::merge::run),
    graph("drop-identity", drop_identity::run),
    graph("fuse-rotary-embeddings", fuse::rotary),
    graph("fuse-plain-attention", fuse::plain_attention),
    graph("fold-products", fold_products::run),
    graph("merge-moves", layout_ops::merge::run),
    graph("fold-moves", fold_moves::run),
    graph("move-transposes", layout::run),
    graph("merge-moves", layout_ops::merge::run),
    graph("fold-moves", fold_moves::run),
    graph("fold-products", fold_products::run),
    graph("fuse-resize", fuse::resizes),
    graph("merge-moves", layout_ops::merge::run),
    graph("sink-moves", layout_ops::sink::run),
    graph("merge-moves", layout_ops::merge::run),
    graph("orient-products", layout_ops::products::run),
    graph("merge-moves", layout_ops::merge::run),
    graph("sink-moves", layout_ops::sink::run),
    graph("orient-products", layout_ops::products::run),
    graph("fuse-picks", fuse::picks),
    graph("fuse-attention", fuse::attention),
    graph("merge-moves", layout_ops::merge::run),
    graph("sink-moves", layout_ops::sink::run),
    graph("merge-moves", layout_ops::merge::run),
    graph("fuse-blocks", layout_ops::blocks::run),
    graph("drop-batches", layout_ops::batches::run),
    graph("make-columns", layout_ops::columns::run),
    graph("fuse-triangles", fuse::triangles),
    graph("make-gemm", gemm::run),
    graph("fold-constants", fold_constants::run),
    graph("simplify-sizes", simplify_sizes::run),
    model(KEEP_ZERO_SIGNS, keep_zero_signs::run),
    graph("trim-constants", trim_constants::run),
    model("hoist-invariants", hoist_invariants::run),
    model(AVOID_FAULTS, faults::run),
    model(LIFT_WEIGHTS, lift_weights::run),
    graph("share-constants", share_constants::run),
    graph("share-nodes", share_nodes::run),
    graph("drop-dead", drop_dead::run),
    model("share-functions", share_functions::run),
    model(CONSTANTS_TO_NODES, Model::constants_to_nodes),
];

/// What is needed for there to be a right file at all: it has no composites, no form that a runtime gets wrong,
/// the zeros of JAX, and its functions have no initializers.
const NEEDED: &[&str] =
    &[INLINE_COMPOSITES, KEEP_ZERO_SIGNS, AVOID_FAULTS, LIFT_WEIGHTS, CONSTANTS_TO_NODES];

/// What passes are wanted for.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether anything is rewritten that does not have to be. Without, nodes are as plugins made them.
    pub optimize: bool,
    /// Whether a norm may become one operator, such as `LayerNormalization`.
    pub norms: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { optimize: true, norms: true }
    }
}

impl Options {
    fn want(self, pass: &Pass) -> bool {
        if !self.optimize {
            return NEEDED.contains(&pass.name);
        }
        self.norms || pass.name != FUSE_NORMS
    }
}

/// Runs every pass that is wanted where it stands, unless nothing has changed since it last found
/// nothing to do.
pub fn optimize(model: &mut Model, options: &Options) {
    let mut changes = 0;
    let mut idle_at: FxHashMap<&str, u32> = FxHashMap::default();
    for pass in PIPELINE.iter().filter(|pass| options.want(pass)) {
        if idle_at.get(pass.name) == Some(&changes) {
            continue;
        }
        match pass.run {
            Run::Graph(run) => {
                let changed = model.edit(&mut |edit| {
                    run(edit);
                    if options.optimize && edit.is_changed() {
                        edit.drop_unread();
                    }
                });
                if changed {
                    changes += 1;
                } else {
                    idle_at.insert(pass.name, changes);
                }
            }
            Run::Model(run) => {
                run(model);
                changes += 1;
            }
        }
    }
}
