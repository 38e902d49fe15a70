//! Typed accessors for the axes of a node, normalized and checked in one place.
//!
//! Axes are counted from the front. If an attribute or operand is missing, malformed or not constant, an
//! accessor returns `None`, and the pass leaves the node alone. No other file of this crate reads `perm`,
//! counts axes from the end, or walks back through layout ops on its own.

use onnx::infer::axis_from_front;
use onnx::kernels::Support;
use onnx::operator::properties::{NORMALIZES, Properties};
use onnx::{Attr, DType, Dim, Edit, Node, OpType, Tensor, Type, ValueId};

use super::pattern::uniform;
use crate::rewrite::require;

/// Since this opset, softmax works along one axis. Before, it works along all axes from that one
/// on.
const SOFTMAX_IS_ALONG_ONE_AXIS_SINCE: i64 = 13;

/// Reads the axes of nodes.
pub(crate) trait Access {
    /// Returns the permutation of a `Transpose`: axis `i` of the result is axis `perm[i]` of the operand.
    fn perm(&self, index: usize) -> Option<Vec<usize>>;

    /// Returns the axis that a node works along, such as that of `Softmax`, `Concat` or `Gather`.
    fn axis(&self, index: usize) -> Option<usize>;

    /// True if a node works along the last axis of its first operand.
    fn is_along_last_axis(&self, index: usize) -> bool;

    /// Returns the sorted axes from the attribute or operand `axes`. They are axes of the result for `Unsqueeze`, and of
    /// the first operand for other operators.
    fn axes(&self, index: usize) -> Option<Vec<usize>> {
        let mut axes = self.axes_in_order(index)?;
        axes.sort_unstable();
        Some(axes)
    }

    /// Like [`Access::axes`], in the order of the node, which is also the order of the other operands of `Slice` and
    /// `Pad`.
    fn axes_in_order(&self, index: usize) -> Option<Vec<usize>>;

    /// Returns the integers of a constant operand.
    fn ints(&self, index: usize, operand: usize) -> Option<Vec<i64>>;

    /// Returns the first result of a node.
    fn result(&self, index: usize) -> ValueId;

    /// Returns the type of the first result of a node.
    fn result_ty(&self, index: usize) -> Option<&Type>;

    /// Returns the operands of a node, without missing ones.
    fn operands(&self, index: usize) -> impl Iterator<Item = ValueId>;

    /// Returns the node that computes a value, if it has this operator.
    fn made_by(&self, value: ValueId, op: OpType) -> Option<usize>;

    /// Returns the number that all elements of a constant are equal to.
    fn number(&self, value: ValueId) -> Option<f64>;

    /// True if ONNX Runtime has a kernel of an operator for a type in the opset of the model.
    fn has_kernel(&self, op: OpType, dtype: DType) -> bool;

    /// Walks back from a value through nodes of a family of operators, the nearest first. Yields each node with the
    /// value that it reads.
    fn walk(&self, value: ValueId, family: Properties) -> impl Iterator<Item = (usize, ValueId)>;

    /// Returns the nodes of a family of operators that lead from a source to a value, the last one first.
    fn chain_to(&self, value: ValueId, source: ValueId, family: Properties) -> Option<Vec<usize>> {
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
    fn through(&self, value: ValueId, family: Properties) -> (ValueId, Vec<usize>) {
        let (nodes, sources): (Vec<usize>, Vec<ValueId>) = self.walk(value, family).unzip();
        (sources.last().copied().unwrap_or(value), nodes)
    }
}

impl Access for Edit<'_> {
    fn perm(&self, index: usize) -> Option<Vec<usize>> {
        perm_of(self.node(index), self.ty(self.input(index, 0)?)?.rank())
    }

    fn axis(&self, index: usize) -> Option<usize> {
        let node = self.node(index);
        require(!node.op.is(NORMALIZES) || self.opset() >= SOFTMAX_IS_ALONG_ONE_AXIS_SINCE)?;
        axis_of(node, self.ty(self.input(index, 0)?)?.rank())
    }

    fn is_along_last_axis(&self, index: usize) -> bool {
        let rank = self.input(index, 0).and_then(|x| self.ty(x)).map(Type::rank);
        self.axis(index).is_some_and(|axis| Some(axis + 1) == rank)
    }

    fn axes_in_order(&self, index: usize) -> Option<Vec<usize>> {
        let node = self.node(index);
        let of = if node.op == OpType::Unsqueeze { node.outputs[0] } else { self.input(index, 0)? };
        let rank = self.ty(of)?.rank();
        let given = match node.attr("axes") {
            Some(Attr::Ints(axes)) => axes.to_vec(),
            Some(_) => return None,
            None => self.ints(index, node.op.onnx()?.axes_operand()?)?,
        };
        axes_from_front(&given, rank)
    }

    fn ints(&self, index: usize, operand: usize) -> Option<Vec<i64>> {
        self.tensor(self.input(index, operand)?).and_then(Tensor::ints)
    }

    fn result(&self, index: usize) -> ValueId {
        self.node(index).outputs[0]
    }

    fn result_ty(&self, index: usize) -> Option<&Type> {
        self.ty(self.result(index))
    }

    fn operands(&self, index: usize) -> impl Iterator<Item = ValueId> {
        (0..self.node(index).inputs.len()).filter_map(move |operand| self.input(index, operand))
    }

    fn made_by(&self, value: ValueId, op: OpType) -> Option<usize> {
        self.producer(value).filter(|&index| self.node(index).op == op)
    }

    fn number(&self, value: ValueId) -> Option<f64> {
        self.tensor(value).and_then(uniform)
    }

    fn has_kernel(&self, op: OpType, dtype: DType) -> bool {
        self.runs(op, dtype) == Support::Yes
    }

    fn walk(&self, value: ValueId, family: Properties) -> impl Iterator<Item = (usize, ValueId)> {
        let step = move |value: ValueId| {
            let index = self.producer(value)?;
            let is_of_family = self.node(index).op.is(family);
            Some((index, self.input(index, 0).filter(|_| is_of_family)?))
        };
        std::iter::successors(step(value), move |&(_, source)| step(source))
    }
}

/// Like [`Access::perm`], for an operand of the given rank.
pub(crate) fn perm_of(node: &Node, rank: usize) -> Option<Vec<usize>> {
    require(node.op == OpType::Transpose)?;
    let perm: Vec<usize> = match node.attr("perm") {
        Some(Attr::Ints(perm)) => {
            perm.iter().map(|&axis| usize::try_from(axis).ok()).collect::<Option<_>>()?
        }
        Some(_) => return None,
        None => (0..rank).rev().collect(),
    };
    let is_permutation = perm.len() == rank && (0..rank).all(|axis| perm.contains(&axis));
    is_permutation.then_some(perm)
}

/// Like [`Access::axis`], for an operand of the given rank.
pub(crate) fn axis_of(node: &Node, rank: usize) -> Option<usize> {
    let axis = match node.attr("axis") {
        Some(&Attr::Int(axis)) => axis,
        Some(_) => return None,
        None => node.op.onnx()?.default_axis()?,
    };
    axis_from_front(axis, rank)
}

/// Returns the sizes of a shape, if all are known.
pub(crate) fn known(shape: &[Dim]) -> Option<Vec<i64>> {
    shape.iter().map(Dim::known).collect()
}

/// Counts axes from the front. `None` if an axis is out of range or a duplicate.
pub(crate) fn axes_from_front(axes: &[i64], rank: usize) -> Option<Vec<usize>> {
    let axes: Vec<usize> =
        axes.iter().map(|&axis| axis_from_front(axis, rank)).collect::<Option<_>>()?;
    let is_new = |(position, axis): (usize, &usize)| !axes[..position].contains(axis);
    axes.iter().enumerate().all(is_new).then_some(axes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls a function with every node of a graph, and returns the results.
    fn read<T>(graph: &str, read: impl Fn(&Edit<'_>, usize) -> T) -> Vec<T> {
        let mut model = onnx::text::parse_graph(graph).expect("the graph of a test can be parsed");
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
            let (source, nodes) =
                edit.through(edit.node(index).outputs[0], onnx::operator::properties::LAYOUT_OPS);
            (edit.producer(source), nodes)
        });
        assert_eq!(passed[3], (Some(0), vec![3, 2, 1]));
        assert_eq!(passed[0], (Some(0), vec![]));
    }
}
