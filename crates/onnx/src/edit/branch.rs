//! Inserts a branch that chooses at run time between two ways to compute a value.

use super::{Edit, Op};
use crate::model::Graph;
use crate::operator::OpType;
use crate::value::ValueId;

impl<'m> Edit<'m> {
    /// Inserts a copy of the node at `index` before it, and returns the results of the copy. The node itself
    /// has to go: both have the same values in their bodies.
    pub fn insert_copy(&mut self, index: usize) -> Vec<ValueId> {
        let mut copy = self.graph.nodes[index].clone();
        copy.origin = self.whole_origin(index);
        for output in &mut copy.outputs {
            *output = self.values.add(self.values[*output].like());
        }
        let outputs = copy.outputs.to_vec();
        self.insert_before(index, copy);
        outputs
    }

    /// Gathers what `f` inserts into a graph of its own, the branch of an `If`. The results that `f` returns
    /// are made in it.
    pub fn branch(&mut self, name: &str, f: impl FnOnce(&mut Edit<'m>) -> Vec<ValueId>) -> Graph {
        let first = self.len();
        let outputs = f(self);
        let nodes = self.take_nodes_from(first);
        Graph { name: name.into(), inputs: Vec::new(), outputs, nodes }
    }

    /// Inserts an `If` before the node at `index`, which answers for `fused` too. The pass that runs does not enter
    /// its branches.
    pub fn insert_if(
        &mut self,
        index: usize,
        fused: &[usize],
        condition: ValueId,
        on_true: Graph,
        on_false: Graph,
    ) -> Vec<ValueId> {
        let results = on_true.outputs.len();
        let op = Op::new(OpType::If, &[condition]).attr("else_branch", on_false);
        let made = self.insert_all(index, fused, op.attr("then_branch", on_true), results);
        self.chosen.extend(made.first());
        made
    }
}
