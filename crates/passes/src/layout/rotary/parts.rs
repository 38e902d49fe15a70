//! Writes the rotation of halves without `RotaryEmbedding`: `x·cos + [b, a]·[−sin, sin]`.

use onnx::{DType, Dim, Edit, Op, OpType, Outcome, Patch, Tensor, ValueId};

use super::Rotation;
use super::layout::transposed_before;
use super::table::{UNARY, doubled_by_node};
use crate::algebra::axis_map::transpose;

/// Writes the rotation of swapped halves in the fewest nodes, with the same result to the bit. Its tables have
/// to be known: the sign goes into them.
pub(super) fn write(edit: &mut Patch<'_, '_>, index: usize, found: &Rotation) -> Outcome {
    if !found.is_doubled || found.is_interleaved {
        return None;
    }
    let mut fused = found.fused.clone();
    let result = edit.ty(edit.node(index).outputs[0])?.clone();
    let rank = result.rank();
    (edit.ty(found.x)? == &result).then_some(())?;
    let mut tables = [found.cos, found.sin].map(|table| whole(edit, table, rank, &mut fused));
    let mut x = found.x;
    let before = transposed_before(edit, x);
    if let Some((node, base, order)) = &before {
        let back = order.inverse();
        tables = tables.map(|table| table?.transposed(back.perm()));
        fused.push(*node);
        x = *base;
    }
    let [Some(cos), Some(sin)] = tables else {
        return None;
    };
    let shape = edit.ty(x)?.shape.to_vec();
    let size = shape.last()?.known().filter(|size| size % 2 == 0 && *size > 0)?;
    let half = size / 2;
    let sin = with_first_half_negated(&sin).filter(|_| sin.shape.last() == Some(&size))?;
    let axis = rank as i64 - 1;
    let sizes = Tensor::of_ints(DType::I64, vec![2], &[half, half])?;

    let sizes = edit.constant_for(&fused, sizes, &[]);
    let cos = edit.constant_for(&fused, cos, &[found.cos]);
    let sin = edit.constant_for(&fused, sin, &[found.sin]);
    let split = Op::new(OpType::Split, &[x, sizes]).attr("axis", axis);
    let halves = edit.insert_all_for(&fused, split, 2);
    let swapped = Op::new(OpType::Concat, &[halves[1], halves[0]]).attr("axis", axis);
    let swapped = edit.insert_for(&fused, swapped);
    let plain = edit.insert_for(&fused, Op::new(OpType::Mul, &[x, cos]));
    let rotated = edit.insert_for(&fused, Op::new(OpType::Mul, &[swapped, sin]));
    let sum = Op::new(OpType::Add, &[plain, rotated]);
    let Some((_, _, order)) = before else {
        return edit.done(&fused, sum);
    };
    let sum = edit.insert_for(&fused, sum);
    edit.done(&fused, transpose(sum, order.perm()))
}

/// Returns a table that is known, with a number for each element, of this rank.
fn whole(edit: &Edit<'_>, table: ValueId, rank: usize, fused: &mut Vec<usize>) -> Option<Tensor> {
    let shape = &edit.ty(table)?.shape;
    let mut sizes: Vec<i64> = shape.iter().map(Dim::known).collect::<Option<_>>()?;
    let missing = rank.checked_sub(sizes.len())?;
    sizes.splice(0..0, vec![1; missing]);
    if let Some(tensor) = edit.tensor(table) {
        return Some(tensor.with_shape(sizes));
    }
    let (source, passed) = doubled_by_node(edit, table, false)?;
    let once = edit.tensor(source)?;
    let is_computed = |&node: &usize| edit.node(node).op.is_one_of(UNARY);
    if passed.iter().any(is_computed) {
        return None;
    }
    fused.extend(passed);
    let row = *sizes.last()? as usize / 2 * once.dtype.bits() / 8;
    let data: Vec<u8> =
        once.bytes().chunks_exact(row.max(1)).flat_map(|row| [row, row].concat()).collect();
    let tensor = Tensor::new(once.dtype, sizes, data);
    (tensor.byte_len() == tensor.expected_bytes()).then_some(tensor)
}

fn with_first_half_negated(table: &Tensor) -> Option<Tensor> {
    let size = table.shape.last().map(|&size| size as usize).filter(|&size| size > 0)?;
    let mut numbers = table.floats()?;
    for row in numbers.chunks_exact_mut(size) {
        row[..size / 2].iter_mut().for_each(|number| *number = -*number);
    }
    Tensor::of_floats(table.dtype, table.shape.clone(), &numbers)
}
