//! Computes bounds of the integers in a value.

pub(crate) mod counters;

use onnx::{DType, Edit, OpType, Tensor, ValueId};

use crate::access::Access;
use crate::operators::SELECTIONS;

/// How many nodes the numbers are followed through.
const MOST_NODES: usize = 12;

/// The longest axis: JAX computes sizes in 32 bits.
const MAX_AXIS: i64 = i32::MAX as i64;

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
        return edit.bounds_of_input(value).or_else(of_type);
    };
    *left -= 1;
    of_node(edit, index, value, left).or_else(of_type)
}

fn of_node(edit: &Edit<'_>, index: usize, value: ValueId, left: &mut usize) -> Option<(i64, i64)> {
    let node = edit.node(index);
    let dtype = edit.ty(value)?.dtype;
    let mut operand = |number: usize| of_value(edit, edit.input(index, number)?, left);
    let last_place = || {
        let dim = &edit.ty(edit.input(index, 0)?)?.shape[edit.axis(index)?];
        Some((dim.known().unwrap_or(MAX_AXIS) - 1).max(0))
    };
    match node.op.onnx() {
        Some(OpType::Range) => of_range(dtype, operand(0)?, operand(1)?, operand(2)?),
        Some(OpType::ArgMax | OpType::ArgMin) => Some((0, last_place()?)),
        Some(OpType::TopK) if node.outputs.get(1) == Some(&value) => Some((0, last_place()?)),
        Some(OpType::Cast) => {
            let (low, high) = operand(0)?;
            let (least, most) = of_type(dtype).or((dtype == DType::U64).then_some((0, i64::MAX)))?;
            (least <= low && high <= most).then_some((low, high))
        }
        Some(op) if SELECTIONS.contains(&op) => operand(0),
        Some(OpType::Where) => {
            let (a, b) = (operand(1)?, operand(2)?);
            Some((a.0.min(b.0), a.1.max(b.1)))
        }
        Some(OpType::Concat) => {
            let parts: Option<Vec<_>> = (0..node.inputs.len()).map(operand).collect();
            let parts = parts?;
            let low = parts.iter().map(|part| part.0).min()?;
            Some((low, parts.iter().map(|part| part.1).max()?))
        }
        // The upper limit wins where it is below the lower one.
        Some(OpType::Clip) => {
            let (x, low, high) = (operand(0)?, operand(1)?, operand(2)?);
            Some((x.0.max(low.0).min(high.0), x.1.max(low.1).min(high.1)))
        }
        Some(OpType::Relu) => {
            let (low, high) = operand(0)?;
            Some((low.max(0), high.max(0)))
        }
        Some(OpType::Div) => {
            let ((low, high), divisor) = (operand(0)?, operand(1)?);
            let is_one = divisor.0 == divisor.1 && divisor.0 > 0 && dtype.is_int();
            is_one.then(|| (low / divisor.0, high / divisor.0))
        }
        Some(OpType::Sub) => of_rest(edit, index),
        Some(OpType::Max) if node.inputs.len() == 2 => {
            let (a, b) = (operand(0)?, operand(1)?);
            Some((a.0.max(b.0), a.1.max(b.1)))
        }
        Some(OpType::Min) if node.inputs.len() == 2 => {
            let (a, b) = (operand(0)?, operand(1)?);
            Some((a.0.min(b.0), a.1.min(b.1)))
        }
        _ => None,
    }
}

/// The rest `x − x / d · d` of a division by a positive number, which has the sign of `x`.
fn of_rest(edit: &Edit<'_>, index: usize) -> Option<(i64, i64)> {
    let (x, product) = (edit.input(index, 0)?, edit.producer(edit.input(index, 1)?)?);
    let operands = |index: usize| Some((edit.input(index, 0)?, edit.input(index, 1)?));
    let number = |id: ValueId| match edit.tensor(id)?.ints()?[..] {
        [number] => Some(number),
        _ => None,
    };
    let (a, b) = operands(product).filter(|_| edit.node(product).op == OpType::Mul)?;
    let (quotient, factor) = if number(b).is_some() { (a, b) } else { (b, a) };
    let quotient = edit.producer(quotient)?;
    let (dividend, divisor) =
        operands(quotient).filter(|_| edit.node(quotient).op == OpType::Div)?;
    let divisor =
        number(divisor).filter(|&divisor| divisor > 0 && number(factor) == Some(divisor))?;
    let is_int = edit.ty(x)?.dtype.is_int();
    let (low, high) = bounds(edit, x).filter(|_| is_int && dividend == x)?;
    let most = divisor - 1;
    Some((if low < 0 { (-most).max(low) } else { 0 }, if high > 0 { most.min(high) } else { 0 }))
}

/// The elements `start + k · step`, which are before `limit`.
///
/// The kernel subtracts `start` from `limit` in the type of the operands and divides as doubles. Where
/// that may wrap or round, `limit` says nothing, and `k` is less than the longest axis.
fn of_range(
    dtype: DType,
    start: (i64, i64),
    limit: (i64, i64),
    step: (i64, i64),
) -> Option<(i64, i64)> {
    let (least, most) = of_type(dtype)?;
    let fits = |number: i128| (i128::from(least)..=i128::from(most)).contains(&number);
    let minus = |a: i64, b: i64| i128::from(a) - i128::from(b);
    let is_exact = |number: i128| fits(number) && number.abs() < 1 << 53;
    let has_length = is_exact(minus(limit.0, start.1)) && is_exact(minus(limit.1, start.0));
    let last_of =
        |start: i64, step: i64| i128::from(start) + i128::from(step) * i128::from(MAX_AXIS - 1);
    let (low, high) = if step.0 > 0 {
        let by_limit = minus(limit.1, 1).max(start.1.into());
        let by_length = last_of(start.1, step.1);
        (start.0.into(), if has_length { by_limit.min(by_length) } else { by_length })
    } else if step.1 < 0 {
        let by_limit = (i128::from(limit.0) + 1).min(start.0.into());
        let by_length = last_of(start.0, step.0);
        (if has_length { by_limit.max(by_length) } else { by_length }, start.1.into())
    } else {
        return None;
    };
    let narrow = |number: i128| i64::try_from(number).ok().filter(|_| fits(number));
    Some((narrow(low)?, narrow(high)?))
}

fn of_tensor(tensor: &Tensor) -> Option<(i64, i64)> {
    if tensor.dtype == DType::U64 {
        return None;
    }
    let ints = tensor.ints()?;
    Some((*ints.iter().min()?, *ints.iter().max()?))
}

/// What the type holds, where 64 bits hold that.
pub(crate) fn of_type(dtype: DType) -> Option<(i64, i64)> {
    let bits = dtype.bits();
    match dtype {
        DType::Bool => Some((0, 1)),
        _ if dtype.is_signed_int() => Some((-1 << (bits - 1), !(-1 << (bits - 1)))),
        _ if dtype.is_unsigned_int() && bits < 64 => Some((0, (1 << bits) - 1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
