//! Moves nodes out of the bodies of loops.

use rustc_hash::FxHashSet;

use crate::edit::for_each_read;
use crate::model::{Graph, Model, Node};
use crate::operator::properties::LOOPS;
use crate::value::{ValueId, Values};

/// Returns true if a node may run once before a loop instead of once per iteration, even if the loop has no
/// iterations.
pub type MayHoist = fn(&Node, &Values) -> bool;

impl Model {
    /// Moves loop-invariant nodes of loop bodies in front of the loops. They keep their origins, because moving a
    /// node does not change which line created it. Returns true if anything moved.
    pub fn hoist(&mut self, may: MayHoist) -> bool {
        let functions = self.functions.iter_mut().map(|function| &mut function.body);
        let mut changed = false;
        for graph in std::iter::once(&mut self.graph).chain(functions) {
            changed |= hoist(graph, &self.values, may);
        }
        changed
    }
}

fn hoist(graph: &mut Graph, values: &Values, may: MayHoist) -> bool {
    let mut changed = false;
    let mut nodes = Vec::with_capacity(graph.nodes.len());
    for mut node in std::mem::take(&mut graph.nodes) {
        let repeats = node.op.is(LOOPS);
        for body in node.bodies_mut() {
            changed |= hoist(body, values, may);
            if repeats {
                let invariant = take_invariant(body, values, may);
                changed |= !invariant.is_empty();
                nodes.extend(invariant);
            }
        }
        nodes.push(node);
    }
    graph.nodes = nodes;
    changed
}

/// Removes and returns the nodes that are the same in every iteration. A node that computes a result of the body
/// stays, because the body must compute its results.
fn take_invariant(body: &mut Graph, values: &Values, may: MayHoist) -> Vec<Node> {
    let mut inside: FxHashSet<ValueId> = body.inputs.iter().copied().collect();
    let results: FxHashSet<ValueId> = body.outputs.iter().copied().collect();
    let (mut invariant, mut kept) = (Vec::new(), Vec::new());
    for node in std::mem::take(&mut body.nodes) {
        let mut depends = node.outputs.iter().any(|output| results.contains(output));
        for_each_read(&node, &mut |id| depends |= inside.contains(&id));
        if depends || !may(&node, values) {
            inside.extend(&node.outputs);
            kept.push(node);
        } else {
            invariant.push(node);
        }
    }
    body.nodes = kept;
    invariant
}
