//! An operator on transposed operands.

use onnx::{Attr, DType, Edit, Op, OpType, Tensor, Type, ValueId};

use super::order::Order;
use super::role::data_operands;
use crate::access::{Access, axes_operand};

/// The operator of the node at `index` where arrays are in another order. `stored` gives what stands
/// for an array.
pub(super) fn carried<'n>(
    edit: &mut Edit<'_>,
    node: &'n onnx::Node,
    index: usize,
    order: &Order,
    stored: &mut dyn FnMut(&mut Edit<'_>, ValueId) -> ValueId,
) -> Op<'n> {
    let mut inputs: Vec<Option<ValueId>> =
        (0..node.inputs.len()).map(|operand| edit.input(index, operand)).collect();
    for input in inputs.iter_mut().take(data_operands(node)).flatten() {
        *input = stored(edit, *input);
    }
    let mut attrs: Vec<(&'n str, Attr)> =
        node.attrs.iter().map(|(name, attr)| (&**name, attr.clone())).collect();
    let mut set = |name: &'n str, value: Attr| match attrs.iter_mut().find(|attr| attr.0 == name) {
        Some((_, attr)) => *attr = value,
        None => attrs.push((name, value)),
    };
    if let Some(axis) = edit.axis(index) {
        set("axis", Attr::Int(order.position(axis) as i64));
    }
    let axes = edit.axes_in_order(index);
    let axes = axes.map(|axes| axes.iter().map(|&axis| order.position(axis) as i64).collect());
    let axes: Vec<i64> = axes.unwrap_or_default();
    if node.attr("axes").is_some() {
        set("axes", axes[..].into());
    } else if let Some(operand) = axes_operand(node)
        && let Some((operand, axes)) = replaced(edit, index, operand, &axes)
    {
        inputs[operand] = Some(axes);
    }
    for (operand, moved) in moved_operands(edit, node, index, order) {
        inputs[operand] = Some(moved);
    }
    Op { op: node.op.clone(), inputs, attrs }
}

/// The operands with one entry per axis.
fn moved_operands(
    edit: &mut Edit<'_>,
    node: &onnx::Node,
    index: usize,
    order: &Order,
) -> Vec<(usize, ValueId)> {
    let mut moved = Vec::new();
    match node.op.onnx() {
        Some(OpType::Expand) => {
            let sizes = edit.ints(index, 1).unwrap_or_default();
            moved.extend(replaced(edit, index, 1, &order.apply(&sizes)));
        }
        Some(OpType::Pad) if edit.input(index, 3).is_none() => {
            let pads = edit.ints(index, 1).unwrap_or_default();
            let (low, high) = pads.split_at(pads.len() / 2);
            let pads = [order.apply(low), order.apply(high)].concat();
            moved.extend(replaced(edit, index, 1, &pads));
        }
        Some(OpType::Resize) => {
            for operand in [2, 3] {
                let Some(id) = edit.input(index, operand) else {
                    continue;
                };
                let tensor = edit.tensor(id).cloned();
                let reordered = tensor.and_then(|tensor| reordered(&tensor, order));
                if let Some(tensor) = reordered {
                    moved.push((operand, edit.constant(index, &[], tensor, &[id])));
                }
            }
        }
        _ => {}
    }
    moved
}

/// A list with one element an axis.
fn reordered(list: &Tensor, order: &Order) -> Option<Tensor> {
    match (list.ints(), list.floats()) {
        (Some(ints), _) => Tensor::of_ints(list.dtype, list.shape.clone(), &order.apply(&ints)),
        (_, Some(floats)) => {
            Tensor::of_floats(list.dtype, list.shape.clone(), &order.apply(&floats))
        }
        _ => None,
    }
}

/// A constant operand with other integers in it.
fn replaced(
    edit: &mut Edit<'_>,
    index: usize,
    operand: usize,
    ints: &[i64],
) -> Option<(usize, ValueId)> {
    let old = edit.input(index, operand)?;
    let tensor = edit.tensor(old)?;
    let tensor = Tensor::of_ints(tensor.dtype, tensor.shape.clone(), ints)?;
    Some((operand, edit.constant(index, &[], tensor, &[old])))
}

/// What a source makes in another order, in front of a reader.
pub(super) fn made_in_order(
    edit: &mut Edit<'_>,
    source: usize,
    reader: usize,
    order: &Order,
) -> Option<ValueId> {
    let node = edit.node(source).clone();
    let ty = edit.ty(node.outputs[0])?.clone();
    let x = edit.input(source, 0)?;
    let list = if node.op == OpType::Reshape {
        order.apply(&edit.ints(source, 1)?)
    } else {
        let added = edit.axes(source)?;
        let mut moved: Vec<i64> = added.iter().map(|&axis| order.position(axis) as i64).collect();
        moved.sort_unstable();
        moved
    };
    let tensor = Tensor::of_ints(DType::I64, vec![list.len() as i64], &list)?;
    let given_as_attr = node.inputs.len() < 2;
    let op = if given_as_attr {
        Op::new(node.op.clone(), &[x]).attr("axes", &list[..])
    } else {
        let list = edit.constant(reader, &[source], tensor, &[]);
        Op::new(node.op.clone(), &[x, list])
    };
    Some(edit.insert(reader, &[source], op, order.apply_to(&ty)))
}

/// The axes to add to an array of a lower rank, so that it broadcasts with transposed arrays as it
/// does with these. `None` where its own axes would be in another order.
pub(super) fn axes_to_add(order: &Order, rank: usize) -> Option<Vec<i64>> {
    let lead = order.rank().checked_sub(rank)?;
    let own: Vec<usize> = (lead..order.rank()).collect();
    if !order.keeps(&own) {
        return None;
    }
    let positions: Vec<usize> = own.iter().map(|&axis| order.position(axis)).collect();
    let &first = positions.first()?;
    let added = (first..order.rank()).filter(|position| !positions.contains(position));
    Some(added.map(|position| (position - first) as i64).collect())
}

/// An array of a lower rank with the axes that it needs, in front of a reader.
pub(super) fn widened(
    edit: &mut Edit<'_>,
    value: ValueId,
    reader: usize,
    order: &Order,
) -> Option<ValueId> {
    let ty = edit.ty(value)?.clone();
    let added = axes_to_add(order, ty.rank())?;
    if added.is_empty() {
        return Some(value);
    }
    let mut shape = ty.shape.to_vec();
    for &axis in &added {
        shape.insert(axis as usize, 1.into());
    }
    let ty = Type::new(ty.dtype, shape);
    if edit.opset() < 13 {
        let op = Op::new(OpType::Unsqueeze, &[value]).attr("axes", &added[..]);
        return Some(edit.insert(reader, &[], op, ty));
    }
    let axes = Tensor::of_ints(DType::I64, vec![added.len() as i64], &added)?;
    let axes = edit.constant(reader, &[], axes, &[]);
    Some(edit.insert(reader, &[], Op::new(OpType::Unsqueeze, &[value, axes]), ty))
}
