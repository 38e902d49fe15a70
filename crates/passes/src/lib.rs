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
mod pattern;
mod rewrite;
mod share_constants;
mod share_nodes;
#[cfg(test)]
mod testing;

use onnx::{Edit, Model};

/// A rewrite of one graph.
pub struct Pass {
    pub name: &'static str,
    run: fn(&mut Edit<'_>),
}

/// The passes in the order they run.
///
/// The dead go first, so that no line is answered for that asks for nothing, and last, for every pass
/// leaves some behind. No-ops go before broadcasts are looked through, so that one between an `Expand`
/// and its reader does not hide it, and once more after folding, which decides choices. Broadcasts come
/// before folding, because a folded broadcast is a larger constant. Sharing comes when equal nodes read
/// equal operands.
pub const PIPELINE: &[Pass] = &[
    Pass { name: "drop-dead", run: drop_dead::run },
    Pass { name: "drop-identity", run: drop_identity::run },
    Pass { name: "bypass-expand", run: bypass_expand::run },
    Pass { name: "fold-constants", run: fold_constants::run },
    Pass { name: "drop-identity", run: drop_identity::run },
    Pass { name: "share-constants", run: share_constants::run },
    Pass { name: "share-nodes", run: share_nodes::run },
    Pass { name: "fuse-activations", run: fuse::activations },
    Pass { name: "fuse-softmax", run: fuse::softmax },
    Pass { name: "fuse-means", run: fuse::means },
    Pass { name: "fuse-norms", run: fuse::norms },
    Pass { name: "drop-dead", run: drop_dead::run },
    Pass { name: "inline-composites", run: inline_composites::run },
    Pass { name: "drop-identity", run: drop_identity::run },
    Pass { name: "bypass-expand", run: bypass_expand::run },
    Pass { name: "fold-constants", run: fold_constants::run },
    Pass { name: "drop-identity", run: drop_identity::run },
    Pass { name: "share-constants", run: share_constants::run },
    Pass { name: "share-nodes", run: share_nodes::run },
    Pass { name: "drop-dead", run: drop_dead::run },
];

/// Runs every pass once.
pub fn optimize(model: &mut Model) {
    for pass in PIPELINE {
        model.edit(&mut |edit| (pass.run)(edit));
    }
}
