//! Rewrites that make a model lean and leave what it computes as it is.
//!
//! A pass sees nodes and values, never origins: [`onnx::Edit`] carries those.

mod bypass_expand;
mod drop_dead;
mod drop_identity;
mod eval;
mod fold_constants;
mod fuse;
mod inline_composites;
mod lift_weights;
mod moves;
mod pattern;
mod recurrent;
mod rewrite;
mod share_constants;
mod share_functions;
mod share_nodes;
#[cfg(test)]
mod testing;

use onnx::{Edit, Model};

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

/// The passes in the order they run.
///
/// The dead go first, so that no line is answered for that asks for nothing, and last, for every pass
/// leaves some behind. No-ops go before broadcasts are looked through, so that one between an `Expand`
/// and its reader does not hide it, and once more after folding, which decides choices. Broadcasts come
/// before folding, because a folded broadcast is a larger constant. Weights of functions become inputs
/// after folding, which needs their contents, and before sharing, which would otherwise tell functions
/// apart by which of their weights happen to be equal. Sharing comes when equal nodes read equal
/// operands, and functions are shared when their bodies are finished. What is left of constants in
/// functions becomes nodes at the very end, because only initializers are looked into.
///
/// Moves are joined before softmaxes are looked for, which they may stand in, and again when all formulas
/// have become operators that they can sink through. Each round of sinking brings those further that
/// the round before has joined. Products are oriented by the moves that are left around them, and
/// attention is what is found around two products then.
pub const PIPELINE: &[Pass] = &[
    graph("drop-dead", drop_dead::run),
    graph("drop-identity", drop_identity::run),
    graph("bypass-expand", bypass_expand::run),
    graph("fold-constants", fold_constants::run),
    graph("drop-identity", drop_identity::run),
    graph("share-nodes", share_nodes::run),
    graph("fuse-recurrent", recurrent::run),
    graph("merge-moves", moves::merge::run),
    graph("fuse-activations", fuse::activations),
    graph("fuse-softmax", fuse::softmax),
    graph("fuse-means", fuse::means),
    graph("fuse-norms", fuse::norms),
    graph("drop-dead", drop_dead::run),
    graph("inline-composites", inline_composites::run),
    graph("drop-identity", drop_identity::run),
    graph("bypass-expand", bypass_expand::run),
    graph("fold-constants", fold_constants::run),
    graph("drop-identity", drop_identity::run),
    graph("fuse-rotary-embeddings", fuse::rotary),
    graph("drop-dead", drop_dead::run),
    graph("merge-moves", moves::merge::run),
    graph("drop-dead", drop_dead::run),
    graph("sink-moves", moves::sink::run),
    graph("drop-dead", drop_dead::run),
    graph("merge-moves", moves::merge::run),
    graph("drop-dead", drop_dead::run),
    graph("sink-moves", moves::sink::run),
    graph("drop-dead", drop_dead::run),
    graph("merge-moves", moves::merge::run),
    graph("drop-dead", drop_dead::run),
    graph("orient-products", moves::products::run),
    graph("drop-dead", drop_dead::run),
    graph("merge-moves", moves::merge::run),
    graph("sink-moves", moves::sink::run),
    graph("drop-dead", drop_dead::run),
    graph("orient-products", moves::products::run),
    graph("drop-dead", drop_dead::run),
    graph("fuse-picks", fuse::picks),
    graph("fuse-attention", fuse::attention),
    graph("drop-dead", drop_dead::run),
    graph("merge-moves", moves::merge::run),
    graph("fold-constants", fold_constants::run),
    model("lift-weights", lift_weights::run),
    graph("share-constants", share_constants::run),
    graph("share-nodes", share_nodes::run),
    graph("drop-dead", drop_dead::run),
    model("share-functions", share_functions::run),
    model("constants-to-nodes", Model::constants_to_nodes),
];

/// Runs every pass once.
pub fn optimize(model: &mut Model) {
    for pass in PIPELINE {
        match pass.run {
            Run::Graph(run) => {
                model.edit(&mut |edit| run(edit));
            }
            Run::Model(run) => run(model),
        }
    }
}
