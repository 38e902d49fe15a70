//! Finds tables of cosines and sines with one number per pair.

use algebra::rewrite::require;
use onnx::operator::properties::{ARITHMETIC, BROADCAST_OPS, ELEMENTWISE, RESHAPES};
use onnx::{Dim, Edit, Node, Op, OpType, Patch, ValueId};

use super::{Rotation, halves_of};

/// The maximum number of nodes to follow from a table.
const DEEPEST: usize = 8;

/// A table with one number per pair.
pub(super) struct Single {
    source: ValueId,
    /// The shape that broadcasts to the rotated array, and the shape of the table itself.
    pub axes: Vec<Dim>,
    pub shape: Vec<Dim>,
    /// The nodes that repeat the table.
    pub passed: Vec<usize>,
    /// The end and the step of the slice to take, if the source has one number per element.
    cut: Option<[i64; 2]>,
}

impl Single {
    /// Returns the table of a rotation. `None` if the numbers of a pair may differ.
    pub(super) fn of(edit: &Edit<'_>, rotation: &Rotation, table: ValueId) -> Option<Single> {
        let axes = edit.shape(table)?.to_vec();
        let shape = axes.clone();
        let mut single = Single { source: table, axes, shape, passed: Vec::new(), cut: None };
        if !rotation.is_doubled {
            return Some(single);
        }
        let size = single.shape.last()?.known()?;
        *single.axes.last_mut()? = Dim::Known(size / 2);
        let (repeated, mut passed) = edit.through(table, RESHAPES);
        if let Some(node) = edit.producer(repeated).filter(|&node| repeats_halves(edit, node))
            && !rotation.is_interleaved
            && edit.shape(repeated)?.last()?.is(size)
        {
            passed.push(node);
            single.source = edit.input(node, 0)?;
            single.shape = edit.shape(single.source)?.to_vec();
            return Some(Single { passed, ..single });
        }
        require(has_equal_pairs(edit, table, rotation.is_interleaved, DEEPEST))?;
        single.shape.clone_from(&single.axes);
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
        Some(value)
    }
}

/// True if a node computes each element from one element of its only operand.
fn is_elementwise(node: &Node) -> bool {
    node.op.is(ELEMENTWISE) && node.inputs.len() == 1
}

/// True if the numbers of each pair along the last axis are equal: in a constant, in an array that is repeated, and in the
/// result of elementwise nodes on such arrays.
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
        Some(_) if !is_interleaved && repeats_halves(edit, node) => true,
        Some(OpType::Reshape) if is_repeated(edit, node, is_interleaved) == Some(true) => true,
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

/// True if a node repeats an array once along the last axis.
fn repeats_halves(edit: &Edit<'_>, node: usize) -> bool {
    match edit.op(node) {
        Some(OpType::Concat) => halves_of(edit, node).is_some_and(|[a, b]| a == b),
        Some(OpType::Tile) => edit.ints(node, 1).is_some_and(|repeats| {
            repeats
                .split_last()
                .is_some_and(|(last, rest)| *last == 2 && rest.iter().all(|&n| n == 1))
        }),
        _ => false,
    }
}

/// True if a reshape merges the last axes of an array that is broadcast along one of them, as in `jnp.repeat`, and in
/// `jnp.tile` before JAX 0.8.
fn is_repeated(edit: &Edit<'_>, reshape: usize, is_interleaved: bool) -> Option<bool> {
    let array = edit.input(reshape, 0)?;
    let expand = edit.made_by(array, OpType::Expand)?;
    let (few, many) = (edit.shape(edit.input(expand, 0)?)?, edit.shape(array)?);
    let [_, ref last] = *many.get(many.len().checked_sub(2)?..)? else { return None };
    let axis = many.len() - if is_interleaved { 1 } else { 2 };
    let size = if is_interleaved { &many[axis - 1] } else { last };
    let is_twice = many[axis].is(2) && few.len() == many.len() && few[axis].is(1);
    let whole = edit.result_ty(reshape)?.shape.last()?.known()?;
    Some(is_twice && whole == 2 * size.known()?)
}
