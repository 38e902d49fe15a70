//! Computes bounds of the integers in a value.
//!
//! Integers wrap, so that bounds follow from those of the operands only if the type holds all results; see [`interval`].

pub(crate) mod counters;
mod interval;

use onnx::operator::properties::SELECTIONS;
use onnx::{Attr, DType, Edit, OpType, Tensor, ValueId};

use crate::access::Access;
pub(crate) use interval::of_type;
use interval::{Interval, within};

/// How many nodes the numbers are followed through.
const MOST_NODES: usize = 32;

/// The longest axis: JAX computes sizes in 32 bits.
const MAX_AXIS: i64 = i32::MAX as i64;

/// The smallest and the largest that an integer or a flag of the value can be. `None` if the value is neither, or if 64
/// signed bits may not hold it.
pub(crate) fn bounds(edit: &Edit<'_>, value: ValueId) -> Option<Interval> {
    let mut left = MOST_NODES;
    of_value(edit, value, &mut left)
}

fn of_value(edit: &Edit<'_>, value: ValueId, left: &mut usize) -> Option<Interval> {
    let dtype = edit.ty(value)?.dtype;
    if dtype.is_float() {
        return None;
    }
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

fn of_node(edit: &Edit<'_>, index: usize, value: ValueId, left: &mut usize) -> Option<Interval> {
    let node = edit.node(index);
    let dtype = edit.ty(value)?.dtype;
    if node.op == OpType::Sub
        && let Some((x, divisor)) = rest_of(edit, index)
    {
        return interval::rest(of_value(edit, x, left)?, (divisor, divisor));
    }
    let mut operand = |number: usize| of_value(edit, edit.input(index, number)?, left);
    let last_place = || {
        let dim = &edit.ty(edit.input(index, 0)?)?.shape[edit.axis(index)?];
        Some((dim.known().unwrap_or(MAX_AXIS) - 1).max(0))
    };
    match node.op.onnx()? {
        OpType::Range => of_range(dtype, operand(0)?, operand(1)?, operand(2)?),
        OpType::ArgMax | OpType::ArgMin => Some((0, last_place()?)),
        OpType::TopK if node.outputs.get(1) == Some(&value) => Some((0, last_place()?)),
        OpType::Shape | OpType::NonZero => Some((0, MAX_AXIS)),
        OpType::Cast => {
            let (low, high) = operand(0)?;
            within(dtype, (low.into(), high.into()))
        }
        op if op == OpType::Split || op.is(SELECTIONS) => operand(0),
        OpType::Where => Some(interval::either(operand(1)?, operand(2)?)),
        OpType::Concat => (1..node.inputs.len())
            .try_fold(operand(0)?, |joined, part| Some(interval::either(joined, operand(part)?))),
        // The upper limit wins where it is below the lower one.
        OpType::Clip => {
            let (x, low, high) = (operand(0)?, operand(1)?, operand(2)?);
            Some(interval::min(interval::max(x, low), high))
        }
        OpType::Relu => Some(interval::max(operand(0)?, (0, 0))),
        OpType::Max => (1..node.inputs.len())
            .try_fold(operand(0)?, |most, other| Some(interval::max(most, operand(other)?))),
        OpType::Min => (1..node.inputs.len())
            .try_fold(operand(0)?, |least, other| Some(interval::min(least, operand(other)?))),
        OpType::Add => interval::add(dtype, operand(0)?, operand(1)?),
        OpType::Sub => interval::sub(dtype, operand(0)?, operand(1)?),
        OpType::Mul if edit.input(index, 0) == edit.input(index, 1) => {
            interval::square(dtype, operand(0)?)
        }
        OpType::Mul => interval::mul(dtype, operand(0)?, operand(1)?),
        OpType::Div => interval::div(dtype, operand(0)?, operand(1)?),
        OpType::Mod => {
            let (x, by) = (operand(0)?, operand(1)?);
            let rest = interval::rest(x, by)?;
            let has_sign_of_divisor = !matches!(node.attr("fmod"), Some(Attr::Int(1)));
            Some(if has_sign_of_divisor && x.0 < 0 { (0, by.1 - 1) } else { rest })
        }
        OpType::Neg => interval::neg(dtype, operand(0)?),
        OpType::Abs => interval::abs(dtype, operand(0)?),
        OpType::Sign => {
            let (low, high) = operand(0)?;
            Some((low.signum(), high.signum()))
        }
        OpType::BitwiseAnd => interval::bits_of_both(operand(0)?, operand(1)?),
        OpType::BitwiseOr | OpType::BitwiseXor => interval::bits_of_one(operand(0)?, operand(1)?),
        OpType::BitShift if node.attr("direction") == Some(&Attr::from("LEFT")) => {
            interval::shifted_up(dtype, operand(0)?, operand(1)?)
        }
        OpType::BitShift => operand(0).filter(|x| x.0 >= 0).map(|(_, high)| (0, high)),
        OpType::ReduceMax | OpType::ReduceMin => {
            operand(0).filter(|_| reduced(edit, index).is_some_and(|count| count > 0))
        }
        OpType::ReduceSum => interval::sum(dtype, operand(0)?, reduced(edit, index)?),
        _ => None,
    }
}

/// Returns how many numbers a reduction makes one of.
fn reduced(edit: &Edit<'_>, index: usize) -> Option<i64> {
    let shape = &edit.ty(edit.input(index, 0)?)?.shape;
    // Without axes, all are reduced, or none.
    let axes = edit.axes(index).filter(|axes| !axes.is_empty())?;
    let mut sizes = axes.into_iter().map(|axis| shape.get(axis)?.known());
    sizes.try_fold(1, |count: i64, size| count.checked_mul(size?))
}

/// Returns `x` and `d` if a difference is the rest `x − x / d · d` of a division by a positive number.
fn rest_of(edit: &Edit<'_>, index: usize) -> Option<(ValueId, i64)> {
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
    (dividend == x).then_some((x, divisor))
}

/// The elements `start + k · step`, which are before `limit`.
///
/// The kernel subtracts `start` from `limit` in the type of the operands and divides as doubles. Where
/// that may wrap or round, `limit` says nothing, and `k` is less than the longest axis.
fn of_range(dtype: DType, start: Interval, limit: Interval, step: Interval) -> Option<Interval> {
    let fits = |number: i128| within(dtype, (number, number)).is_some();
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
    within(dtype, (low, high))
}

fn of_tensor(tensor: &Tensor) -> Option<Interval> {
    if tensor.dtype == DType::U64 {
        return None;
    }
    let ints = tensor.ints()?;
    Some((*ints.iter().min()?, *ints.iter().max()?))
}

#[cfg(test)]
mod tests;
