//! Refuses nodes that the runtime cannot compute.
//!
//! A model does not load if one of its nodes has a type without a kernel, and a rewrite can easily create such a
//! node: `Where` takes no 16-bit integers, for example. So the edit looks up every new node in the table of
//! kernels. A node without a kernel can be inserted, but no node that stays can read it: the edit refuses a rewrite
//! or a replacement that would read it, and the graph remains unchanged. The inserted node is then dropped with the
//! other unread nodes.

use super::{Declined, Edit, Op};
use crate::attr::Attr;
use crate::dtype::DType;
use crate::model::{Graph, Node};
use crate::operator::Operator;
use crate::value::ValueId;

impl Edit<'_> {
    /// Declines an operator that the runtime cannot compute, or that reads a value without a kernel. If a node in
    /// `before` has the same operator and types, the program itself contains it, so it is accepted. The states of a
    /// loop may differ.
    pub(super) fn expect_computable<'n>(
        &self,
        op: &Op,
        results: &[Option<DType>],
        before: impl IntoIterator<Item = &'n Node>,
    ) -> Result<(), Declined> {
        self.expect_computable_values(op.inputs.iter().flatten().copied())?;
        if !self.without_kernel.is_empty() {
            for (_, attr) in &op.attrs {
                if let Attr::Graph(body) = attr {
                    self.expect_computable_body(body)?;
                }
            }
        }
        let operands: Vec<Option<DType>> = op.inputs.iter().map(|&id| self.dtype(id?)).collect();
        let Some(why) = self.missing(&op.op, &operands, results) else {
            return Ok(());
        };
        let has_body = op.attrs.iter().any(|(_, attr)| matches!(attr, Attr::Graph(_)));
        let of_node = |node: &Node| {
            let types = node.inputs.iter().map(|&id| self.dtype(id?));
            node.op == op.op
                && (has_body || types.take(operands.len()).eq(operands.iter().copied()))
        };
        if before.into_iter().any(of_node) { Ok(()) } else { Err(why) }
    }

    /// Declines values that no kernel computes.
    pub(super) fn expect_computable_values(
        &self,
        values: impl IntoIterator<Item = ValueId>,
    ) -> Result<(), Declined> {
        if self.without_kernel.is_empty() {
            return Ok(());
        }
        let why = values.into_iter().find_map(|id| self.without_kernel.get(&self.current(id)));
        why.map_or(Ok(()), |why| Err(why.clone()))
    }

    fn expect_computable_body(&self, body: &Graph) -> Result<(), Declined> {
        self.expect_computable_values(body.outputs.iter().copied())?;
        for node in &body.nodes {
            self.expect_computable_values(node.outputs.iter().copied())?;
            self.expect_computable_values(node.inputs.iter().flatten().copied())?;
            node.bodies().try_for_each(|inner| self.expect_computable_body(inner))?;
        }
        Ok(())
    }

    /// Records that the runtime cannot compute the results of an inserted node.
    pub(super) fn note_computable(&mut self, results: &[ValueId], found: Result<(), Declined>) {
        if let Err(why) = found {
            self.without_kernel.extend(results.iter().map(|&id| (id, why.clone())));
        }
    }

    /// Drops the nodes that the runtime cannot compute. No node that stays reads them.
    pub(super) fn drop_what_no_kernel_computes(&mut self) {
        if self.without_kernel.is_empty() {
            return;
        }
        for index in 0..self.len() {
            let outputs = &self.graph.nodes[index].outputs;
            if outputs.iter().any(|output| self.without_kernel.contains_key(output)) {
                self.drop_node(index);
            }
        }
    }

    /// Returns why a runtime has no kernel for an operator with operands and results of these types.
    fn missing(
        &self,
        op: &Operator,
        operands: &[Option<DType>],
        results: &[Option<DType>],
    ) -> Option<Declined> {
        let op = op.onnx()?;
        let runtime = || self.target.spell();
        if !self.target.has(op, self.opset) {
            return Some(Declined(format!("{} has no {op}", runtime())));
        }
        let dtype = self.target.missing_type(op, self.opset, operands, results)?;
        Some(Declined(format!("{} has no {op} for {dtype}", runtime())))
    }
}
