//! Finds tables of cosines and sines with one number per pair.

use algebra::rewrite::require;
use onnx::operator::properties::{ARITHMETIC, BROADCAST_OPS, ELEMENTWISE, RESHAPES};
use onnx::{Dim, Edit, Node, Op, OpType, Patch, ValueId};

use super::{Rotation, halves_of};

/// The maximum number of nodes to follow from a table.
const DEEPEST: usize = 8;

/// A table with one number per pair, from which the program computes one with a number per element.
pub(super) struct Single {
    source: ValueId,
    /// The shape that broadcasts to the rotated array, and the shape of the table itself.
    pub axes: Vec<Dim>,
    pub shape: Vec<Dim>,
    /// The elementwise nodes after the source, the last one first.
    chain: Vec<usize>,
    /// The nodes that repeat each number.
    pub passed: Vec<usize>,
    /// The end and the step of the slice to take, if the source has one number per element.
    cut: Option<[i64; 2]>,
}

impl Single {
    /// Returns the table of a rotation. `None` if the numbers of a pair may differ.
    pub(super) fn of(edit: &Edit<'_>, rotation: &Rotation, table: ValueId) -> Option<Single> {
        let mut axes = edit.shape(table)?.to_vec();
        let (chain, passed) = (Vec::new(), Vec::new());
        if !rotation.is_doubled {
            let shape = axes.clone();
            return Some(Single { source: table, shape, axes, chain, passed, cut: None });
        }
        let size = axes.last()?.known()?;
        *axes.last_mut()? = Dim::Known(size / 2);
        let mut single =
            Single { source: table, shape: axes.clone(), axes, chain, passed, cut: None };
        if let Some((source, passed)) = doubled_by_node(edit, table, rotation.is_interleaved) {
            single.shape = edit.shape(source)?.to_vec();
            single.source = source;
            (single.chain, single.passed) =
                passed.into_iter().partition(|&node| is_elementwise(edit.node(node)));
            return Some(single);
        }
        require(has_equal_pairs(edit, table, rotation.is_interleaved, DEEPEST))?;
        single.cut = Some(if rotation.is_interleaved { [size, 2] } else { [size / 2, 1] });
        Some(single)
    }

    /// Inserts the table before the replacement.
    pub(super) fn emit(&self, patch: &mut Patch<'_, '_>, fused: &[usize]) -> Option<ValueId> {
        let mut value = self.source;
        if let Some([end, step]) = self.cut {
            let axis = self.shape.len() as i64 - 1;
            let mut inputs = vec![value];
            for bound in [0, end, axis, step] {
                inputs.push(patch.integers(&[bound])?);
            }
            let op = Op::new(OpType::Slice, &inputs[..if step == 1 { 4 } else { 5 }]);
            value = patch.insert_for(fused, op);
        }
        for &link in self.chain.iter().rev() {
            let node = patch.node(link).clone();
            let op = Op::of(&node, vec![Some(value)]);
            value = patch.insert_for(&[fused, &[link]].concat(), op);
        }
        Some(value)
    }
}

/// True if a node computes each element from one element of its only operand.
fn is_elementwise(node: &Node) -> bool {
    node.op.is(ELEMENTWISE) && node.inputs.len() == 1
}

/// Finds the node that repeats each number of a table. Returns its operand, and the nodes from the table back to it.
/// The last axis stays the last.
fn doubled_by_node(
    edit: &Edit<'_>,
    table: ValueId,
    is_interleaved: bool,
) -> Option<(ValueId, Vec<usize>)> {
    let (mut value, mut passed) = (table, Vec::new());
    let last = |value: ValueId| edit.shape(value)?.last()?.known();
    for _ in 0..DEEPEST {
        let node = edit.producer(value).filter(|&node| edit.node(node).op.is_onnx())?;
        let source = edit.input(node, 0)?;
        passed.push(node);
        match edit.op(node) {
            Some(_) if is_elementwise(edit.node(node)) => {}
            Some(OpType::Tile) if !is_interleaved => {
                let repeats = edit.tensor(edit.input(node, 1)?)?.ints()?;
                let (times, rest) = repeats.split_last()?;
                let is_twice = *times == 2 && rest.iter().all(|&times| times == 1);
                return is_twice.then_some((source, passed));
            }
            Some(OpType::Concat) if !is_interleaved => {
                let [a, b] = halves_of(edit, node)?;
                return (a == b).then_some((a, passed));
            }
            Some(OpType::Reshape) if last(value) != last(source) => {
                let (single, nodes) = if is_interleaved {
                    repeated_in_place(edit, source)?
                } else {
                    repeated_in_rows(edit, source)?
                };
                passed.extend(nodes);
                let is_joined = last(value)? == 2 * last(single)?;
                return is_joined.then_some((single, passed));
            }
            Some(op) if op.is(RESHAPES) && last(value) == last(source) => {}
            _ => return None,
        }
        value = source;
    }
    None
}

/// Reads an `Expand` that repeats each number along a new last axis. Returns the array without that axis, and the
/// nodes.
fn repeated_in_place(edit: &Edit<'_>, value: ValueId) -> Option<(ValueId, Vec<usize>)> {
    let expand = edit.made_by(value, OpType::Expand)?;
    let single = edit.input(expand, 0)?;
    let (few, many) = (edit.shape(single)?, edit.shape(value)?);
    let ((one, own), (two, all)) = (few.split_last()?, many.split_last()?);
    let (unsqueeze, source) = edit.walk(single, RESHAPES).next()?;
    let is_twice = one.is(1) && two.is(2) && own == all && edit.ty(source)?.shape[..] == *own;
    is_twice.then_some((source, vec![expand, unsqueeze]))
}

/// Reads an `Expand` that repeats each row along a new axis before the last one, as `jnp.tile` does before JAX 0.8.
fn repeated_in_rows(edit: &Edit<'_>, value: ValueId) -> Option<(ValueId, Vec<usize>)> {
    let expand = edit.made_by(value, OpType::Expand)?;
    let single = edit.input(expand, 0)?;
    let (few, many) = (edit.shape(single)?, edit.shape(value)?);
    let ([own @ .., one, width], [all @ .., two, same]) = (few, many) else { return None };
    let is_twice = one.is(1) && two.is(2) && own == all && width == same;
    is_twice.then_some((single, vec![expand]))
}

/// True if the numbers of each pair along the last axis are equal: in a constant, in a `Concat` of one array with
/// itself, and in the result of elementwise nodes on such arrays.
fn has_equal_pairs(edit: &Edit<'_>, value: ValueId, is_interleaved: bool, depth: usize) -> bool {
    if let Some(tensor) = edit.tensor(value) {
        let width = tensor.dtype.bits() / 8;
        let row = tensor.shape.last().map_or(0, |&size| size as usize) * width;
        let run = if is_interleaved { 2 * width } else { row };
        let is_twice = |run: &[u8]| run[..run.len() / 2] == run[run.len() / 2..];
        return row > 0 && row % run == 0 && tensor.bytes().chunks_exact(run).all(is_twice);
    }
    let Some(node) = edit.producer(value).filter(|_| depth > 0) else { return false };
    let last = |value| edit.ty(value).and_then(|ty| ty.shape.last().cloned());
    let is_one = |value| last(value).is_none_or(|dim| dim.is(1));
    let is_twice = |operand| {
        let is_paired = |source| has_equal_pairs(edit, source, is_interleaved, depth - 1);
        edit.input(node, operand).is_some_and(|source| is_one(source) || is_paired(source))
    };
    match edit.op(node) {
        Some(OpType::Concat) if !is_interleaved => {
            halves_of(edit, node).is_some_and(|[a, b]| a == b)
        }
        Some(_) if is_elementwise(edit.node(node)) => is_twice(0),
        Some(op) if op.is(ARITHMETIC) => is_twice(0) && is_twice(1),
        Some(op) if op.is(BROADCAST_OPS) => {
            let keeps_last = edit.input(node, 0).and_then(last) == last(value);
            keeps_last && is_twice(0)
        }
        Some(OpType::Transpose) => {
            let keeps_last = |perm: Vec<usize>| perm.last().copied() == perm.len().checked_sub(1);
            edit.perm(node).is_some_and(keeps_last) && is_twice(0)
        }
        _ => false,
    }
}
