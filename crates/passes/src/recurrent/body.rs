//! The body of a scan, read backwards from its results.

use onnx::{Edit, Graph, Node, OpType, Tensor, Type, ValueId};
use rustc_hash::FxHashMap;

/// A body with the nodes that make its values.
pub(super) struct Body<'b> {
    pub edit: &'b Edit<'b>,
    graph: &'b Graph,
    makers: FxHashMap<ValueId, &'b Node>,
}

impl<'b> Body<'b> {
    /// The body of a scan over one array.
    pub(super) fn of(edit: &'b Edit<'b>, node: &'b Node) -> Option<Body<'b>> {
        let is_over_one = node.attr("num_scan_inputs") == Some(&onnx::Attr::Int(1));
        let graph = node.bodies().next().filter(|_| is_over_one)?;
        let makers = graph.nodes.iter();
        let makers = makers.flat_map(|node| node.outputs.iter().map(move |&output| (output, node)));
        Some(Body { edit, graph, makers: makers.collect() })
    }

    /// How many values are carried from step to step.
    pub(super) fn carries(&self) -> usize {
        self.graph.inputs.len() - 1
    }

    /// A value that is carried, as it is when a step begins.
    pub(super) fn carry(&self, number: usize) -> ValueId {
        self.graph.inputs[number]
    }

    /// What a step is given.
    pub(super) fn input(&self) -> Option<ValueId> {
        self.graph.inputs.last().copied()
    }

    /// A result, without copies.
    pub(super) fn output(&self, number: usize) -> Option<ValueId> {
        self.graph.outputs.get(number).map(|&output| self.original(output))
    }

    fn original(&self, mut value: ValueId) -> ValueId {
        while let Some(node) = self.makers.get(&value)
            && node.op == OpType::Identity
            && let Some(Some(source)) = node.inputs.first()
        {
            value = *source;
        }
        value
    }

    pub(super) fn maker(&self, value: ValueId) -> Option<&'b Node> {
        let node = self.makers.get(&self.original(value)).copied();
        node.filter(|node| node.op.is_onnx())
    }

    pub(super) fn ty(&self, value: ValueId) -> Option<&Type> {
        self.edit.ty(value)
    }

    pub(super) fn tensor(&self, value: ValueId) -> Option<&Tensor> {
        self.edit.tensor(value)
    }

    /// The operand of an operator of one.
    pub(super) fn unary(&self, op: OpType, value: ValueId) -> Option<ValueId> {
        let node = self.maker(value).filter(|node| node.op == op)?;
        node.inputs.first().copied()?.map(|operand| self.original(operand))
    }

    /// The operands of an operator of two.
    pub(super) fn binary(&self, op: OpType, value: ValueId) -> Option<[ValueId; 2]> {
        let node = self.maker(value).filter(|node| node.op == op)?;
        match node.inputs[..] {
            [Some(a), Some(b)] => Some([self.original(a), self.original(b)]),
            _ => None,
        }
    }

    /// The operands of an operator of two whose order does not matter, where the first is as asked
    /// for: what that gave, and the other.
    pub(super) fn either<T>(
        &self,
        op: OpType,
        value: ValueId,
        first: impl Fn(ValueId) -> Option<T>,
    ) -> Option<(T, ValueId)> {
        let [a, b] = self.binary(op, value)?;
        first(a).map(|found| (found, b)).or_else(|| first(b).map(|found| (found, a)))
    }
}
