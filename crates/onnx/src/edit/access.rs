//! Typed accessors for nodes and values, normalized and checked in one place.
//!
//! Axes are counted from the front. If an attribute or operand is missing, malformed or not constant, an
//! accessor returns `None`, and the pass leaves the node alone. No pass reads `perm`, counts axes from the end, or
//! walks back through layout ops on its own.

use super::{Edit, Op};
use crate::attr::Attr;
use crate::dtype::DType;
use crate::infer::{axes_from_front, axis_from_front};
use crate::kernels::Support;
use crate::model::{Node, Trial};
use crate::operator::OpType;
use crate::operator::properties::Properties;
use crate::tensor::Tensor;
use crate::value::{Dim, Type, ValueId};

impl<'m> Edit<'m> {
    /// Returns the bounds of the integers in an input of a body, if they are known.
    pub fn bounds_of_input(&self, value: ValueId) -> Option<(i64, i64)> {
        self.values[value].bounds
    }

    /// Notes the bounds of the integers in an input of a body.
    pub fn note_bounds(&mut self, value: ValueId, bounds: (i64, i64)) {
        self.values[value].bounds = Some(bounds);
    }

    /// Returns the settings of a run that measures what a rewrite is worth.
    pub fn trial(&self) -> Option<&'m Trial> {
        self.trial
    }

    /// Returns the operator of a node, if it is one of ONNX.
    pub fn op(&self, index: usize) -> Option<OpType> {
        self.node(index).op.onnx()
    }

    /// Returns the operator of a node with another value as one of its operands.
    pub fn op_with(&self, index: usize, operand: usize, value: ValueId) -> Op {
        let mut inputs = self.inputs(index);
        inputs[operand] = Some(value);
        Op::of(self.node(index), inputs)
    }

    /// Returns the permutation of a `Transpose`: axis `i` of the result is axis `perm[i]` of the operand.
    pub fn perm(&self, index: usize) -> Option<Vec<usize>> {
        self.node(index).perm(self.rank(self.input(index, 0)?)?)
    }

    /// Returns the axis that a node works along, such as that of `Softmax`, `Concat` or `Gather`.
    pub fn axis(&self, index: usize) -> Option<usize> {
        self.node(index).axis(self.rank(self.input(index, 0)?)?)
    }

    /// True if a node works along the last axis of its first operand.
    pub fn is_along_last_axis(&self, index: usize) -> bool {
        let rank = self.input(index, 0).and_then(|x| self.rank(x));
        self.axis(index).is_some_and(|axis| Some(axis + 1) == rank)
    }

    /// Returns the sorted axes from the attribute or operand `axes`. They are axes of the result for `Unsqueeze`, and of
    /// the first operand for other operators.
    pub fn axes(&self, index: usize) -> Option<Vec<usize>> {
        let mut axes = self.axes_in_order(index)?;
        axes.sort_unstable();
        Some(axes)
    }

    /// Like [`Edit::axes`], in the order of the node, which is also the order of the other operands of `Slice` and
    /// `Pad`.
    pub fn axes_in_order(&self, index: usize) -> Option<Vec<usize>> {
        let node = self.node(index);
        let of = if node.op == OpType::Unsqueeze { node.outputs[0] } else { self.input(index, 0)? };
        let given = match node.attr("axes") {
            Some(Attr::Ints(axes)) => axes.to_vec(),
            Some(_) => return None,
            None => self.ints(index, node.op.onnx()?.axes_operand()?)?,
        };
        axes_from_front(&given, self.rank(of)?)
    }

    /// Returns the integers of a constant operand.
    pub fn ints(&self, index: usize, operand: usize) -> Option<Vec<i64>> {
        self.tensor(self.input(index, operand)?).and_then(Tensor::ints)
    }

    /// Returns the first result of a node.
    pub fn result(&self, index: usize) -> ValueId {
        self.node(index).outputs[0]
    }

    /// Returns the type of the first result of a node.
    pub fn result_ty(&self, index: usize) -> Option<&Type> {
        self.ty(self.result(index))
    }

    pub fn shape(&self, value: ValueId) -> Option<&[Dim]> {
        self.ty(value).map(|ty| &ty.shape[..])
    }

    pub fn rank(&self, value: ValueId) -> Option<usize> {
        self.ty(value).map(Type::rank)
    }

    pub fn dtype(&self, value: ValueId) -> Option<DType> {
        self.ty(self.current(value)).map(|ty| ty.dtype)
    }

    /// Returns the operands of a node, without missing ones.
    pub fn operands(&self, index: usize) -> impl Iterator<Item = ValueId> {
        (0..self.node(index).inputs.len()).filter_map(move |operand| self.input(index, operand))
    }

    /// Returns the first two operands of a node.
    pub fn pair(&self, index: usize) -> Option<(ValueId, ValueId)> {
        Some((self.input(index, 0)?, self.input(index, 1)?))
    }

    /// Returns the axis and the index of the entry, if a node takes one entry of an axis.
    pub fn entry(&self, index: usize) -> Option<(usize, i64)> {
        let place = self.tensor(self.input(index, 1)?).filter(|place| place.shape.is_empty())?;
        let place = *place.ints()?.first()?;
        (self.node(index).op == OpType::Gather).then(|| Some((self.axis(index)?, place)))?
    }

    /// Returns the computed operand of a node, the constant one, and whether the constant comes first.
    pub fn beside_constant(&self, index: usize) -> Option<(ValueId, ValueId, bool)> {
        let (a, b) = self.pair(index)?;
        match (self.tensor(a), self.tensor(b)) {
            (None, Some(_)) => Some((a, b, false)),
            (Some(_), None) => Some((b, a, true)),
            _ => None,
        }
    }

    /// Returns the node that computes a value, if it has this operator.
    pub fn made_by(&self, value: ValueId, op: OpType) -> Option<usize> {
        self.producer(value).filter(|&index| self.node(index).op == op)
    }

    /// Returns the number that all elements of a constant are equal to.
    pub fn number(&self, value: ValueId) -> Option<f64> {
        self.tensor(value).and_then(Tensor::number)
    }

    /// True if ONNX Runtime has a kernel of an operator for a type in the opset of the model.
    pub fn has_kernel(&self, op: OpType, dtype: DType) -> bool {
        self.runs(op, dtype) == Support::Yes
    }

    /// Walks back from a value through nodes of a family of operators, the nearest first. Yields each node with the
    /// value that it reads.
    pub fn walk(
        &self,
        value: ValueId,
        family: Properties,
    ) -> impl Iterator<Item = (usize, ValueId)> {
        let step = move |value: ValueId| {
            let index = self.producer(value)?;
            let is_of_family = self.node(index).op.is(family);
            Some((index, self.input(index, 0).filter(|_| is_of_family)?))
        };
        std::iter::successors(step(value), move |&(_, source)| step(source))
    }

    /// Returns the nodes of a family of operators that lead from a source to a value, the last one first.
    pub fn chain_to(
        &self,
        value: ValueId,
        source: ValueId,
        family: Properties,
    ) -> Option<Vec<usize>> {
        let mut chain = Vec::new();
        let mut nodes = self.walk(value, family);
        let mut reached = value;
        while reached != source {
            let (node, before) = nodes.next()?;
            chain.push(node);
            reached = before;
        }
        Some(chain)
    }

    /// Walks back through all nodes of a family of operators. Returns the value before them, and the nodes, the nearest
    /// first.
    pub fn through(&self, value: ValueId, family: Properties) -> (ValueId, Vec<usize>) {
        let (nodes, sources): (Vec<usize>, Vec<ValueId>) = self.walk(value, family).unzip();
        (sources.last().copied().unwrap_or(value), nodes)
    }
}

impl Node {
    /// Like [`Edit::perm`], for an operand of the given rank.
    pub fn perm(&self, rank: usize) -> Option<Vec<usize>> {
        let perm: Vec<usize> = match self.attr("perm") {
            _ if self.op != OpType::Transpose => return None,
            Some(Attr::Ints(perm)) => {
                perm.iter().map(|&axis| usize::try_from(axis).ok()).collect::<Option<_>>()?
            }
            Some(_) => return None,
            None => (0..rank).rev().collect(),
        };
        let is_permutation = perm.len() == rank && (0..rank).all(|axis| perm.contains(&axis));
        is_permutation.then_some(perm)
    }

    /// True if a reduction keeps its axes, with size one.
    pub fn keeps_axes(&self) -> bool {
        self.attr("keepdims").is_none_or(|keeps| *keeps == Attr::Int(1))
    }

    /// Like [`Edit::axis`], for an operand of the given rank.
    pub fn axis(&self, rank: usize) -> Option<usize> {
        let axis = match self.attr("axis") {
            Some(&Attr::Int(axis)) => axis,
            Some(_) => return None,
            None => self.op.onnx()?.default_axis()?,
        };
        axis_from_front(axis, rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::properties::LAYOUT_OPS;

    /// Calls a function with every node of a graph, and returns the results.
    fn read<T>(graph: &str, read: impl Fn(&Edit<'_>, usize) -> T) -> Vec<T> {
        let mut model = crate::text::parse_graph(graph).expect("the graph of a test can be parsed");
        let mut found = Vec::new();
        model.edit(&mut |edit| found.extend((0..edit.len()).map(|index| read(edit, index))));
        found
    }

    #[test]
    fn a_malformed_permutation_is_ignored() {
        let graph = "graph g(x:f32[2,3,4]) -> (a, b, c, d, e)
a:f32[3,4,2] = Transpose(x) {perm=[1, 2, 0]}
b:f32[4,3,2] = Transpose(x)
c:f32[2,3,4] = Transpose(x) {perm=[0, 1]}
d:f32[2,3,4] = Transpose(x) {perm=[0, 1, 1]}
e:f32[2,3,4] = Transpose(x) {perm=[0, 1, -1]}";
        let perms = [Some(vec![1, 2, 0]), Some(vec![2, 1, 0]), None, None, None];
        assert_eq!(read(graph, |edit, index| edit.perm(index)), perms);
    }

    #[test]
    fn an_axis_is_counted_from_the_front_and_within_the_rank() {
        let graph = "graph g(x:f32[2,3,4]) -> (a, b, c, d)
a:f32[2,3,4] = Softmax(x)
b:f32[2,3,4] = Softmax(x) {axis=-3}
c:f32[2,3,4] = Softmax(x) {axis=3}
d:f32[2,3,8] = Concat(x, x)";
        assert_eq!(read(graph, |edit, index| edit.axis(index)), [Some(2), Some(0), None, None]);
    }

    #[test]
    fn axes_are_those_of_the_result_if_the_node_adds_them() {
        let graph = "graph g(x:f32[2,1,3], i:i64[1]) -> (a, b, c, d, e)
a:f32[2,1,3,1] = Unsqueeze(x, [-1]:i64)
b:f32[2,3] = Squeeze(x, [-2]:i64)
c:f32[2] = ReduceSum(x, [2, -2]:i64) {keepdims=0}
d:f32[2] = ReduceSum(x, [2, -1]:i64) {keepdims=0}
e:f32[2,3] = Squeeze(x, i)";
        let axes = [Some(vec![3]), Some(vec![1]), Some(vec![1, 2]), None, None];
        assert_eq!(read(graph, |edit, index| edit.axes(index)), axes);
    }

    #[test]
    fn a_chain_is_looked_through_up_to_another_operator() {
        let graph = "graph g(x:f32[2,3]) -> (y)
%0:f32[2,3] = Tanh(x)
%1:f32[3,2] = Transpose(%0) {perm=[1, 0]}
%2:f32[1,3,2] = Unsqueeze(%1, [0]:i64)
y:f32[6] = Reshape(%2, [6]:i64)";
        let passed = read(graph, |edit, index| {
            let (source, nodes) = edit.through(edit.result(index), LAYOUT_OPS);
            (edit.producer(source), nodes)
        });
        assert_eq!(passed[3], (Some(0), vec![3, 2, 1]));
        assert_eq!(passed[0], (Some(0), vec![]));
    }
}
