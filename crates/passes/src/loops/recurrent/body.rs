//! Reads the body of a scan backward from its results.

use algebra::rewrite::require;
use onnx::infer::axes_from_front;
use onnx::{Edit, Graph, Node, OpType, ValueId};
use rustc_hash::FxHashMap;

/// A body, with the producers of its values.
pub(super) struct Body<'b> {
    pub edit: &'b Edit<'b>,
    graph: &'b Graph,
    makers: FxHashMap<ValueId, &'b Node>,
}

impl<'b> Body<'b> {
    /// Reads the body of a scan over one array.
    pub(super) fn of(edit: &'b Edit<'b>, node: &'b Node) -> Option<Body<'b>> {
        let is_over_one = node.attr("num_scan_inputs") == Some(&onnx::Attr::Int(1));
        let graph = node.bodies().next().filter(|_| is_over_one)?;
        let makers = graph.nodes.iter();
        let makers = makers.flat_map(|node| node.outputs.iter().map(move |&output| (output, node)));
        Some(Body { edit, graph, makers: makers.collect() })
    }

    /// Returns the number of carries.
    pub(super) fn carries(&self) -> usize {
        self.graph.inputs.len() - 1
    }

    /// Returns a carry at the start of a step.
    pub(super) fn carry(&self, number: usize) -> ValueId {
        self.graph.inputs[number]
    }

    /// Returns the entry of the array in a step.
    pub(super) fn input(&self) -> Option<ValueId> {
        self.graph.inputs.last().copied()
    }

    /// Returns a result, looking through copies.
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

    /// Returns the operand of a unary operator.
    pub(super) fn unary(&self, op: OpType, value: ValueId) -> Option<ValueId> {
        let node = self.maker(value).filter(|node| node.op == op)?;
        node.inputs.first().copied()?.map(|operand| self.original(operand))
    }

    /// Returns the operands of a binary operator.
    pub(super) fn binary(&self, op: OpType, value: ValueId) -> Option<[ValueId; 2]> {
        let node = self.maker(value).filter(|node| node.op == op)?;
        match node.inputs[..] {
            [Some(a), Some(b)] => Some([self.original(a), self.original(b)]),
            _ => None,
        }
    }

    /// Matches one operand of a commutative operator with `first`. Returns the match and the other operand.
    pub(super) fn either<T>(
        &self,
        op: OpType,
        value: ValueId,
        first: impl Fn(ValueId) -> Option<T>,
    ) -> Option<(T, ValueId)> {
        let [a, b] = self.binary(op, value)?;
        first(a).map(|found| (found, b)).or_else(|| first(b).map(|found| (found, a)))
    }

    /// Returns the operand of the transpose that computes a matrix.
    pub(super) fn transposed(&self, value: ValueId) -> Option<ValueId> {
        let node = self.maker(value).filter(|node| node.op == OpType::Transpose)?;
        let is_matrix = self.edit.ty(value)?.rank() == 2 && node.perm(2)? == [1, 0];
        node.inputs.first().copied()?.filter(|_| is_matrix).map(|source| self.original(source))
    }

    /// Returns the start of a part of an array along its last axis, or along its first if it is transposed.
    pub(super) fn start_of_part(
        &self,
        node: &Node,
        value: ValueId,
        is_transposed: bool,
    ) -> Option<usize> {
        let rank = self.edit.ty(value)?.rank();
        let along = if is_transposed { 0 } else { rank.checked_sub(1)? };
        let ints = |operand: usize| self.edit.tensor(node.inputs.get(operand).copied()??)?.ints();
        let start = if node.op == OpType::Split {
            require(node.axis(rank)? == along)?;
            let before = node.outputs.iter().take_while(|&&output| output != value);
            let widths = before.map(|&output| self.edit.ty(output)?.shape[along].known());
            widths.sum::<Option<i64>>()?
        } else {
            let (starts, axes) = (ints(1)?, axes_from_front(&ints(3)?, rank)?);
            let is_stepped = node.inputs.len() > 4 && ints(4)? != [1];
            match (&starts[..], &axes[..]) {
                (&[start], &[axis]) if axis == along && start >= 0 && !is_stepped => start,
                _ => return None,
            }
        };
        usize::try_from(start).ok()
    }

    /// Returns the input of a gate, and the index of its first number: the gate may be a part of a larger one.
    pub(super) fn gate(&self, value: ValueId) -> Option<(ValueId, usize)> {
        if let Some(inner) = self.unary(OpType::Sigmoid, value) {
            return Some((inner, 0));
        }
        let node = self.maker(value)?;
        let is_part = matches!(node.op.onnx(), Some(OpType::Split | OpType::Slice));
        let whole = node.inputs.first().copied()?.filter(|_| is_part)?;
        let start = self.start_of_part(node, value, false)?;
        Some((self.unary(OpType::Sigmoid, whole)?, start))
    }

    /// Returns the results of all nodes of an operator.
    pub(super) fn results(&self, op: OpType) -> impl Iterator<Item = ValueId> {
        let nodes = self.graph.nodes.iter().filter(move |node| node.op == op);
        nodes.flat_map(|node| node.outputs.iter().copied())
    }
}
