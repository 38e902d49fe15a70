//! Integers of 32 bits in runtimes that compute them in float32, which has 24 bits.

use super::Target;
use crate::dtype::DType;
use crate::edit::Edit;
use crate::operator::OpType;
use crate::operator::properties::{COMPARISONS, LAYOUT_OPS};
use crate::value::ValueId;

/// The integers up to this size have as many digits as a float32.
pub const LARGEST_EXACT: i64 = 1 << 24;

/// The most nodes between integers and the lookup that they are indices of.
const MAX_STEPS: usize = 4;

/// True if a runtime of the target computes the `int32` of a node in float32, and they may have more digits.
///
/// Indices have few digits.
pub fn rounds(edit: &Edit<'_>, index: usize, target: Target) -> bool {
    use OpType::{Abs, Clip, Div, MatMul, Max, Min, Mul, ReduceMax, ReduceMin, ReduceSum};
    let node = edit.node(index);
    let (Some(op), Some(&result)) = (node.op.onnx(), node.outputs.first()) else { return false };
    let first = edit.input(index, 0);
    let numbers = match op {
        Mul if scales(edit, index) => None,
        Abs | Clip | MatMul | Max | Min | Mul | ReduceSum => Some(result),
        Div | ReduceMax | ReduceMin => first,
        _ => None,
    };
    let Some(dtype) = edit.ty(result).map(|ty| ty.dtype) else { return false };
    // A sum may be widened. Other integers of 64 bits are sizes and counts.
    let is_widened = || first.is_some_and(|first| edit.made_by(first, OpType::Cast).is_some());
    (dtype == DType::I32 || dtype == DType::I64 && op == ReduceSum && is_widened())
        && !keeps_digits(target, op, dtype)
        && numbers.is_some_and(|numbers| !is_small(edit, numbers))
        && (op == Div || !is_index(edit, result, MAX_STEPS))
}

/// True if no runtime of the target computes large numbers of a type with fewer digits. One that clips in float32 also
/// computes a limit in float32.
pub(super) fn keeps_digits(target: Target, op: OpType, dtype: DType) -> bool {
    target.keeps_digits(if op == OpType::Clip { OpType::Max } else { op }, dtype)
}

fn is_small(edit: &Edit<'_>, value: ValueId) -> bool {
    let range = edit.fact(value).ints();
    range.is_some_and(|(low, high)| -LARGEST_EXACT <= low && high <= LARGEST_EXACT)
}

/// True if integers are only indices of lookups. The remainder or quotient of a hash is no such index, because the hash
/// itself may be large.
fn is_index(edit: &Edit<'_>, value: ValueId, steps: usize) -> bool {
    use OpType::{Add, Cast, Clip, Concat, Expand, Max, Min, Mul, Sub, Where};
    use OpType::{Gather, GatherElements, GatherND, ScatterElements, ScatterND};
    let is_read_as_index = |reader: usize| {
        let node = edit.node(reader);
        match node.op.onnx() {
            Some(Gather | GatherElements | GatherND | ScatterElements | ScatterND) => {
                let mut inputs = node.inputs.iter().enumerate();
                inputs.all(|(at, &input)| at == 1 || input != Some(value))
            }
            Some(op) => {
                let keeps = matches!(op, Add | Cast | Clip | Concat | Expand | Max | Min | Mul)
                    || matches!(op, Sub | Where)
                    || op.is(LAYOUT_OPS)
                    || op.is(COMPARISONS);
                let mut results = node.outputs.iter();
                steps > 0 && keeps && results.all(|&next| is_index(edit, next, steps - 1))
            }
            None => false,
        }
    };
    let mut readers = edit.readers(value).peekable();
    !edit.outputs().contains(&value) && readers.peek().is_some() && readers.all(is_read_as_index)
}

/// True for a product with a power of two that only moves the digits of a small integer.
fn scales(edit: &Edit<'_>, index: usize) -> bool {
    let scales = |(x, by): (ValueId, ValueId)| {
        let by = edit.tensor(by).filter(|by| by.shape.is_empty()).and_then(|by| by.ints());
        let (Some(&[by]), Some((low, high))) = (by.as_deref(), edit.fact(x).ints()) else {
            return false;
        };
        let fits = |number: i64| {
            number.checked_mul(by).is_some_and(|product| i32::try_from(product).is_ok())
        };
        by.unsigned_abs().is_power_of_two() && is_small(edit, x) && fits(low) && fits(high)
    };
    edit.pair(index).is_some_and(|(a, b)| scales((a, b)) || scales((b, a)))
}
