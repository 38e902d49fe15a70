//! Finds sizes that the graph computes, and adds nodes that read them.

use onnx::operator::properties::RESHAPES;
use onnx::{Attr, DType, Dim, Edit, Op, OpType, Patch, Tensor, ValueId, known_shape};

use crate::rewrite::{Result, require};

/// The maximum number of nodes that compute a size.
const MAX_NODES: usize = 16;

/// Returns the size that a scalar is equal to, and the nodes that compute it. `None` if it does not depend only on
/// shapes and numbers.
pub fn computed_size(edit: &Edit<'_>, value: ValueId) -> Option<(Dim, Vec<usize>)> {
    let mut nodes = Vec::new();
    let size = collect(edit, value, &mut nodes)?;
    Some((size, nodes))
}

fn collect(edit: &Edit<'_>, value: ValueId, nodes: &mut Vec<usize>) -> Option<Dim> {
    if let Some(tensor) = edit.tensor(value) {
        let number = edit.number(value).filter(|_| tensor.len() == 1)?;
        let is_whole = number >= 0.0 && number.fract() == 0.0 && number < 9e15;
        return is_whole.then_some(Dim::Known(number as i64));
    }
    let index = edit.producer(value).filter(|_| nodes.len() < MAX_NODES)?;
    nodes.push(index);
    let node = edit.node(index);
    let operand = edit.input(index, 0)?;
    match node.op.onnx() {
        Some(OpType::Cast | OpType::Identity) => collect(edit, operand, nodes),
        Some(op) if op.is(RESHAPES) => collect(edit, operand, nodes),
        Some(OpType::Mul) => {
            let first = collect(edit, operand, nodes)?;
            first.checked_mul(&collect(edit, edit.input(index, 1)?, nodes)?)
        }
        Some(OpType::Shape) => {
            let Sizes { of, start, end } = shape_of(edit, value)?;
            edit.shape(of)?.get(start).filter(|_| end == start + 1).cloned()
        }
        _ => None,
    }
}

/// A range of the sizes of an array.
struct Sizes {
    pub of: ValueId,
    pub start: usize,
    pub end: usize,
}

/// Returns the array and the range of its sizes that a value contains.
fn shape_of(edit: &Edit<'_>, value: ValueId) -> Option<Sizes> {
    let index = edit.producer(value)?;
    let (node, of) = (edit.node(index), edit.input(index, 0)?);
    require(node.op == OpType::Shape)?;
    let rank = edit.rank(of)?;
    let at = |name: &str, default: usize| match node.attr(name) {
        Some(&Attr::Int(at)) => usize::try_from(at).ok().filter(|&at| at <= rank),
        _ => Some(default),
    };
    let (start, end) = (at("start", 0)?, at("end", rank)?);
    (start <= end).then_some(Sizes { of, start, end })
}

/// Inserts the nodes that compute a list of sizes, with the origins of `fused`. Returns the list.
///
/// An unknown size is read from the first array that has it, so that later reads of the same size can share the node.
pub(crate) fn emit_sizes(
    patch: &mut Patch<'_, '_>,
    fused: &[usize],
    sizes: &[Dim],
) -> Result<ValueId> {
    let mut parts = Vec::new();
    for part in sizes.chunk_by(|a, b| a.known().is_some() && b.known().is_some()) {
        parts.push(match part {
            [size] if size.known().is_none() => {
                let found = array_with(patch, patch.root(), size);
                let (array, axis) = found.ok_or("no array has a size that is needed")?;
                let axis = axis as i64;
                let op = Op::new(OpType::Shape, &[array]).attr("start", axis).attr("end", axis + 1);
                patch.insert_for(fused, op)
            }
            known => emit_known(patch, fused, known)?,
        });
    }
    match parts[..] {
        [] => emit_known(patch, fused, &[]),
        [whole] => Ok(whole),
        _ => {
            let joined = Op::new(OpType::Concat, &parts).attr("axis", 0);
            Ok(patch.insert_for(fused, joined))
        }
    }
}

fn emit_known(patch: &mut Patch<'_, '_>, fused: &[usize], sizes: &[Dim]) -> Result<ValueId> {
    let numbers = known_shape(sizes);
    let tensor =
        numbers.and_then(|numbers| Tensor::of_ints(DType::I64, vec![sizes.len() as i64], &numbers));
    Ok(patch.constant_for(fused, tensor.ok_or("a shape cannot be computed")?, &[]))
}

/// Returns the first array that has a size and that nodes up to `root` read, and the axis with that size.
fn array_with(edit: &Edit<'_>, root: usize, size: &Dim) -> Option<(ValueId, usize)> {
    let nodes = edit.nodes();
    let last = nodes.iter().position(|&node| node == root)?;
    nodes[..=last].iter().find_map(|&node| {
        edit.operands(node)
            .find_map(|array| Some((array, edit.shape(array)?.iter().position(|dim| dim == size)?)))
    })
}

/// True if `wide` is `narrow` with additional leading unit axes.
pub fn adds_leading_axes(narrow: &[Dim], wide: &[Dim]) -> bool {
    wide.strip_suffix(narrow).is_some_and(|lead| lead.iter().all(|axis| axis.is(1)))
}
