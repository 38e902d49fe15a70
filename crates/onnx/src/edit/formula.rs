//! Lets a patch write a formula with [`Expr`], as the lowering does.

use super::{Declined, Edit, Op, Patch, Replacement};
use crate::build::{Builder, Built, Problem};
use crate::expr::Expr;
use crate::model::{Graph, Node};
use crate::value::ValueId;

impl Patch<'_, '_> {
    /// Inserts the nodes of a formula before the replacement, with the same origins. Returns the last one as the
    /// replacement.
    ///
    /// As in the lowering, the builder adds casts if the runtime has no kernel for a type.
    pub fn formula<const N: usize>(
        &mut self,
        operands: [ValueId; N],
        formula: impl for<'g> FnOnce([Expr<'g>; N]) -> Expr<'g>,
    ) -> Result<Replacement, Declined> {
        let first = self.values.len();
        let values = std::mem::take(self.edit.values);
        let builder = Builder::over(self.opset(), self.exact_nan(), self.target(), values);
        let operands = operands.map(|id| Expr { builder: &builder, id });
        let result = formula(operands).id;
        let problem = builder.take_problem();
        let Built { graph: Graph { mut nodes, .. }, values, .. } =
            builder.finish("", Vec::new(), vec![result]);
        *self.edit.values = values;
        if let Some(problem) = problem {
            return Err(why(problem));
        }
        self.edit.own_constants(self.place, &self.fused, first);
        let last = nodes.pop_if(|node| node.outputs[..] == [result]);
        for node in nodes {
            self.edit.insert_built(self.place, &self.fused, node);
        }
        Ok(match last {
            Some(last) => Replacement::Op(Op::of(&last, last.inputs.to_vec())),
            None => Replacement::Value(result),
        })
    }
}

impl Edit<'_> {
    /// Sets the origins of the constants from index `first` on to those of the node at `index` and of `fused`.
    fn own_constants(&mut self, index: usize, fused: &[usize], first: usize) {
        let origin = self.joined_origin(index, fused);
        for id in (first..self.values.len()).map(|index| ValueId(index as u32)) {
            let value = &mut self.values[id];
            value.origin = value.tensor.is_some().then_some(origin);
        }
    }

    /// Inserts a node of a formula before `index`.
    fn insert_built(&mut self, index: usize, fused: &[usize], mut node: Node) {
        let op = Op::of(&node, node.inputs.to_vec());
        node.origin = self.origin_of_op(index, fused, &op);
        node.is_fused = self.is_fusion(index, fused, &op);
        node.iteration.clone_from(&self.graph.nodes[index].iteration);
        self.note_bodies(&op, node.outputs[0]);
        self.insert_before(index, node);
    }
}

fn why(problem: Problem) -> Declined {
    match problem {
        Problem::NoKernel { op, dtype } => {
            Declined(format!("the runtime has no `{op}` of {dtype}"))
        }
        Problem::NeedsOpset { op, needed } => Declined(format!("`{op}` needs opset {needed}")),
        Problem::Internal(mistake) => Declined(mistake),
    }
}
