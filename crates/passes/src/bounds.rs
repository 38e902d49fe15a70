//! Between which numbers the integers of a value are.

use onnx::{Attr, DType, Edit, Tensor, ValueId};

/// How many nodes the numbers are followed through.
const MOST_NODES: usize = 12;

/// The smallest and the largest that an integer of the value can be.
pub(crate) fn bounds(edit: &Edit<'_>, value: ValueId) -> Option<(i64, i64)> {
    let mut left = MOST_NODES;
    of_value(edit, value, &mut left)
}

fn of_value(edit: &Edit<'_>, value: ValueId, left: &mut usize) -> Option<(i64, i64)> {
    let dtype = edit.ty(value)?.dtype;
    let of_type = || of_type(dtype);
    if let Some(tensor) = edit.tensor(value) {
        return of_tensor(tensor).or_else(of_type);
    }
    let Some(index) = edit.producer(value).filter(|_| *left > 0) else {
        return of_type();
    };
    *left -= 1;
    of_node(edit, index, value, left).or_else(of_type)
}

fn of_node(edit: &Edit<'_>, index: usize, value: ValueId, left: &mut usize) -> Option<(i64, i64)> {
    let node = edit.node(index);
    if !node.domain.is_empty() {
        return None;
    }
    let dtype = edit.ty(value)?.dtype;
    let mut operand = |number: usize| of_value(edit, edit.input(index, number)?, left);
    let size = |axis: &Attr| {
        let Attr::Int(axis) = axis else {
            return None;
        };
        edit.ty(edit.input(index, 0)?)?.shape.get(usize::try_from(*axis).ok()?)?.known()
    };
    match &*node.op {
        // No axis is longer than 32 bits can count.
        "Range" => {
            let (start, step) = (operand(0)?, operand(2)?);
            (step.0 > 0).then_some((start.0, start.1.max(i32::MAX.into())))
        }
        "ArgMax" | "ArgMin" => Some((0, size(node.attr("axis")?)? - 1)),
        "TopK" if node.outputs.get(1) == Some(&value) => Some((0, size(node.attr("axis")?)? - 1)),
        "Cast" => {
            let (low, high) = operand(0)?;
            let (least, most) = of_type(dtype).unwrap_or((i64::MIN, i64::MAX));
            let is_int = dtype.is_int() || dtype == DType::Bool;
            (is_int && least <= low && high <= most).then_some((low, high))
        }
        "Expand" | "Gather" | "Identity" | "Reshape" | "Slice" | "Squeeze" | "Transpose"
        | "Unsqueeze" => operand(0),
        "Where" => {
            let (a, b) = (operand(1)?, operand(2)?);
            Some((a.0.min(b.0), a.1.max(b.1)))
        }
        "Concat" => {
            let parts: Option<Vec<_>> = (0..node.inputs.len()).map(operand).collect();
            let parts = parts?;
            let low = parts.iter().map(|part| part.0).min()?;
            Some((low, parts.iter().map(|part| part.1).max()?))
        }
        "Clip" => {
            let (low, high) = (operand(1)?, operand(2)?);
            let of_operand = operand(0).unwrap_or((i64::MIN, i64::MAX));
            let clip = |number: i64| number.max(low.0).min(high.1);
            Some((clip(of_operand.0), clip(of_operand.1)))
        }
        "Relu" => {
            let (low, high) = operand(0)?;
            Some((low.max(0), high.max(0)))
        }
        "Max" if node.inputs.len() == 2 => {
            let (a, b) = (operand(0)?, operand(1)?);
            Some((a.0.max(b.0), a.1.max(b.1)))
        }
        "Min" if node.inputs.len() == 2 => {
            let (a, b) = (operand(0)?, operand(1)?);
            Some((a.0.min(b.0), a.1.min(b.1)))
        }
        _ => None,
    }
}

fn of_tensor(tensor: &Tensor) -> Option<(i64, i64)> {
    if tensor.dtype == DType::U64 {
        return None;
    }
    let ints = tensor.ints()?;
    Some((*ints.iter().min()?, *ints.iter().max()?))
}

/// What the type holds, where 64 bits hold that.
fn of_type(dtype: DType) -> Option<(i64, i64)> {
    let bits = dtype.bits();
    match dtype {
        DType::Bool => Some((0, 1)),
        _ if dtype.is_signed_int() => Some((-1 << (bits - 1), !(-1 << (bits - 1)))),
        _ if dtype.is_unsigned_int() && bits < 64 => Some((0, (1 << bits) - 1)),
        _ => None,
    }
}
