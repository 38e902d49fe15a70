//! Applies an operator to transposed operands.

use algebra::axis_order::AxisOrder;
use algebra::rewrite::require;
use onnx::{DType, Dim, Op, OpType, Patch, Tensor, ValueId};

use super::role::data_operands;

/// Returns the operator of the node at `index` for arrays in another order. `stored` returns the replacement of an
/// array. `None` if an axis or a list is unknown, which [`role`](super::role::role) rules out.
pub(super) fn carried(
    edit: &mut Patch<'_, '_>,
    index: usize,
    order: &AxisOrder,
    stored: &mut dyn FnMut(&mut Patch<'_, '_>, ValueId) -> Option<ValueId>,
) -> Option<Op> {
    let node = &edit.node(index).clone();
    let mut op = Op::of(node, edit.inputs(index));
    let axis_after = |&axis: &usize| Some(order.axis_after(axis)? as i64);
    if let Some(axis) = edit.axis(index) {
        op = op.attr("axis", axis_after(&axis)?);
    }
    if let Some(axes) = edit.axes_in_order(index) {
        let axes: Vec<i64> = axes.iter().map(axis_after).collect::<Option<_>>()?;
        if node.attr("axes").is_some() {
            op = op.attr("axes", &axes[..]);
        } else {
            let operand = node.op.onnx()?.axes_operand()?;
            let old = edit.input(index, operand)?;
            let tensor = edit.tensor(old)?;
            let tensor = Tensor::of_ints(tensor.dtype, tensor.shape.clone(), &axes)?;
            op.inputs[operand] = Some(edit.constant(tensor, &[old]));
        }
    }
    // The sizes of an `Expand`, and the sizes of a `Pad` along all axes.
    if node.op == OpType::Expand || node.op == OpType::Pad && edit.input(index, 3).is_none() {
        op.inputs[1] = Some(permuted_list(edit, index, order)?);
    }
    for input in op.inputs.iter_mut().take(data_operands(node)).flatten() {
        *input = stored(edit, *input)?;
    }
    Some(op)
}

/// Permutes the constant list that is the second operand. If it has two entries per axis, as `Pad` has, permutes each
/// half.
fn permuted_list(edit: &mut Patch<'_, '_>, index: usize, order: &AxisOrder) -> Option<ValueId> {
    let id = edit.input(index, 1)?;
    let list = edit.tensor(id)?;
    let ints = list.ints()?;
    let parts = ints.chunks(order.rank().max(1)).map(|part| order.permuted(part));
    let parts: Vec<Vec<i64>> = parts.collect::<Option<_>>()?;
    let permuted = Tensor::of_ints(list.dtype, list.shape.clone(), &parts.concat())?;
    Some(edit.constant(permuted, &[id]))
}

/// Inserts a copy of a source that computes its result in another order.
pub(super) fn made_in_order(
    edit: &mut Patch<'_, '_>,
    source: usize,
    order: &AxisOrder,
) -> Option<ValueId> {
    let node = edit.node(source).clone();
    let x = edit.input(source, 0)?;
    let list = if node.op == OpType::Reshape {
        order.permuted(&edit.ints(source, 1)?)?
    } else {
        let added = edit.axes(source)?;
        let axis_after = |&axis: &usize| Some(order.axis_after(axis)? as i64);
        let mut axes: Vec<i64> = added.iter().map(axis_after).collect::<Option<_>>()?;
        axes.sort_unstable();
        axes
    };
    let tensor = Tensor::of_ints(DType::I64, vec![list.len() as i64], &list)?;
    let list = edit.constant_for(&[source], tensor, &[]);
    Some(edit.insert_for(&[source], Op::new(node.op.clone(), &[x, list])))
}

/// Returns the unit axes to add to an array of a lower rank, so that it broadcasts with the transposed arrays as
/// before. `None` if its own axes would be in another order.
pub(super) fn axes_to_add(order: &AxisOrder, shape: &[Dim]) -> Option<Vec<i64>> {
    let (all, last) = (order.rank(), shape.len().checked_sub(1)?);
    // Leading unit axes may stay where they are.
    let units = shape[..last].iter().take_while(|dim| dim.is(1)).count();
    let own: Vec<usize> = (all.checked_sub(shape.len() - units)?..all).collect();
    require(order.keeps_order(&own))?;
    let places: Vec<usize> =
        own.iter().map(|&axis| order.axis_after(axis)).collect::<Option<_>>()?;
    let &first = places.first()?;
    let added = (first..all).filter(|place| !places.contains(place));
    let added: Vec<i64> = added.map(|place| (place - first + units) as i64).collect();
    (shape.len() + added.len() <= all).then_some(added)
}

/// Adds the unit axes that an array of a lower rank needs.
pub(super) fn widened(
    edit: &mut Patch<'_, '_>,
    value: ValueId,
    order: &AxisOrder,
) -> Option<ValueId> {
    let added = axes_to_add(order, edit.shape(value)?)?;
    if added.is_empty() {
        return Some(value);
    }
    edit.unsqueeze(value, &added)
}
