//! Adds nodes of the bodies of loops and branches to the graph around them.

use rustc_hash::FxHashMap;

use super::{Edit, Op, rename};
use crate::attr::Attr;
use crate::model::{Graph, Node};
use crate::value::ValueId;

impl Edit<'_> {
    /// Inserts `op` before the node at `index`, for a `node` of one of its bodies, whose origin it gets.
    pub(super) fn lift_all(
        &mut self,
        index: usize,
        node: &Node,
        op: Op,
        results: usize,
    ) -> Vec<ValueId> {
        let outputs = self.add_results(&op, &vec![None; results], |edit, dtypes| {
            edit.expect_computable(&op, dtypes, [node])
        });
        let lifted = op.into_node(&outputs, node.origin, node.is_fused);
        self.insert_before(index, lifted);
        outputs
    }

    /// Inserts a copy of the node at `index` before it, and returns the results of the copy. The caller must drop
    /// the original, because both share the values in their bodies.
    pub(super) fn insert_copy(&mut self, index: usize) -> Vec<ValueId> {
        let mut copy = self.graph.nodes[index].clone();
        copy.origin = self.whole_origin(index);
        for output in &mut copy.outputs {
            *output = self.values.add(self.values[*output].like());
        }
        let outputs = copy.outputs.to_vec();
        self.insert_before(index, copy);
        outputs
    }

    /// Inserts copies of the nodes of a branch of the node at `index` before it, and returns the results of the branch.
    /// The caller must drop the node, because both share the values of the branch. Each copy keeps the origin of its
    /// node.
    pub(super) fn insert_branch(&mut self, index: usize, branch: &str) -> Option<Vec<ValueId>> {
        let Some(Attr::Graph(body)) = self.graph.nodes[index].attr(branch) else { return None };
        let Graph { nodes, outputs, .. } = (**body).clone();
        let outer = self.graph.nodes[index].iteration.clone();
        for mut node in nodes {
            rename(&mut node, &self.renamed);
            let path: Vec<&str> =
                [outer.as_deref(), node.iteration.as_deref()].into_iter().flatten().collect();
            node.iteration = (!path.is_empty()).then(|| path.join("/").into());
            self.with_new_bodies.extend(node.outputs.first());
            self.insert_before(index, node);
        }
        Some(outputs.into_iter().map(|output| self.current(output)).collect())
    }

    /// Inserts copies of nodes of a loop body before the loop at `index`, for the iteration `round`. The nodes have
    /// no bodies. `values` maps the values of the body to those that the copies read; the results of the copies are
    /// added to it. Each copy keeps the origin of its node.
    pub(super) fn insert_round(
        &mut self,
        index: usize,
        round: usize,
        nodes: &[Node],
        values: &mut FxHashMap<ValueId, ValueId>,
    ) {
        self.note_round(round, values.iter().map(|(&from, &to)| (from, to)).collect());
        let outer = self.graph.nodes[index].iteration.clone();
        let own = (round > 0).then(|| format!("iteration_{round}"));
        for node in nodes {
            let mut copy = node.clone();
            rename(&mut copy, values);
            let all = [outer.as_deref(), own.as_deref(), node.iteration.as_deref()];
            let path: Vec<&str> = all.into_iter().flatten().collect();
            copy.iteration = (!path.is_empty()).then(|| path.join("/").into());
            for output in &mut copy.outputs {
                let made = self.values.add(self.values[*output].like());
                values.insert(std::mem::replace(output, made), made);
            }
            let made = node.outputs.iter().copied().zip(copy.outputs.iter().copied()).collect();
            self.note_round(round, made);
            self.insert_before(index, copy);
        }
    }

    /// Records which values represent the values of a body in an iteration.
    fn note_round(&mut self, round: usize, mut values: Vec<(ValueId, ValueId)>) {
        let Some(pairs) = &mut self.pairs else { return };
        values.sort_unstable();
        for (from, to) in values {
            pairs.note_unrolled(from, to, round, self.place);
        }
    }
}
