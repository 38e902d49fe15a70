//! Products, limits and extremes of `int32` with all digits, in runtimes that compute them in float32.

use onnx::operator::properties::{LAYOUT_OPS, POINTWISE};
use onnx::{DType, Expr, OpType, Outcome, Patch, ValueId, declined};

use super::integers::LARGEST;
use super::operators::{keeps_axes, reduced_axes, with_nan};

/// The most nodes between integers and the lookup that they are indices of.
const MAX_STEPS: usize = 4;

/// The factors below this one are written as sums.
const MAX_SUMMED: i64 = 1 << 6;

/// True if `op` rounds `int32` to the digits of float32, and the result may have more digits.
fn rounds(edit: &Patch<'_, '_>, op: OpType) -> bool {
    let result = edit.node(edit.root()).outputs[0];
    let is_int = edit.ty(result).is_some_and(|ty| ty.dtype == DType::I32);
    is_int
        && !edit.target().keeps_digits(op, DType::I32)
        && !is_small(edit, result)
        && !is_index(edit, result, MAX_STEPS)
}

fn is_small(edit: &Patch<'_, '_>, value: ValueId) -> bool {
    let range = edit.fact(value).ints();
    range.is_some_and(|(low, high)| -LARGEST <= low && high <= LARGEST)
}

/// True if integers are only indices of lookups.
fn is_index(edit: &Patch<'_, '_>, value: ValueId, steps: usize) -> bool {
    use OpType::{Gather, GatherElements, GatherND, ScatterElements, ScatterND};
    let is_output = edit.outputs().contains(&value);
    let mut readers = edit.readers(value).peekable();
    !is_output
        && readers.peek().is_some()
        && readers.all(|reader| {
            let node = edit.node(reader);
            let Some(op) = node.op.onnx() else { return false };
            let is_lookup =
                matches!(op, Gather | GatherElements | GatherND | ScatterElements | ScatterND);
            let passes = op.is(POINTWISE)
                || op.is(LAYOUT_OPS)
                || matches!(op, OpType::Cast | OpType::Concat | OpType::Expand);
            match steps {
                _ if is_lookup => {
                    let others = node.inputs.iter().enumerate().filter(|&(at, _)| at != 1);
                    others.into_iter().all(|(_, &input)| input != Some(value))
                }
                0 => false,
                _ => passes && node.outputs.iter().all(|&next| is_index(edit, next, steps - 1)),
            }
        })
}

/// Multiplies digits of 11 bits. Their products have 22 bits, and sums wrap.
pub(super) fn multiply(edit: &mut Patch<'_, '_>) -> Outcome {
    let (a, b) = edit.pair(edit.root())?;
    if !rounds(edit, OpType::Mul) || is_scaled(edit, a, b) || is_scaled(edit, b, a) {
        return None;
    }
    let needed = [OpType::Add, OpType::Sub, OpType::Div, OpType::Mod];
    if needed.iter().any(|&op| !edit.target().keeps_digits(op, DType::I32)) {
        return declined("the runtime adds in float32, too");
    }
    let product = match (factor(edit, a), factor(edit, b)) {
        (Some(by), _) if by.abs() < MAX_SUMMED => edit.formula([b], |[x]| multiple(x, by)),
        (_, Some(by)) if by.abs() < MAX_SUMMED => edit.formula([a], |[x]| multiple(x, by)),
        _ => edit.formula([a, b], |[a, b]| {
            let ([low, middle, high], [other_low, other_middle, other_high]) =
                (digits(a), digits(b));
            let top = low * other_high + middle * other_middle + high * other_low;
            let inner = low * other_middle + middle * other_low;
            shifted(shifted(top) + inner) + low * other_low
        }),
    };
    edit.settle(product)
}

/// True for a product with a power of two that only moves the digits of a small integer.
fn is_scaled(edit: &Patch<'_, '_>, x: ValueId, by: ValueId) -> bool {
    let (Some(by), Some((low, high))) = (factor(edit, by), edit.fact(x).ints()) else {
        return false;
    };
    let fits =
        |number: i64| number.checked_mul(by).is_some_and(|product| i32::try_from(product).is_ok());
    by.unsigned_abs().is_power_of_two() && is_small(edit, x) && fits(low) && fits(high)
}

/// Returns the number that all elements of a constant are.
fn factor(edit: &Patch<'_, '_>, value: ValueId) -> Option<i64> {
    let ints = edit.tensor(value)?.ints()?;
    let first = *ints.first()?;
    (ints.len() == 1 && edit.tensor(value)?.shape.is_empty()).then_some(first)
}

/// `x·by` as sums of doubled numbers
fn multiple(x: Expr<'_>, by: i64) -> Expr<'_> {
    let mut left = by.unsigned_abs();
    let (mut power, mut sum) = (x, None);
    while left > 0 {
        if left & 1 == 1 {
            sum = Some(sum.map_or(power, |sum: Expr<'_>| sum + power));
        }
        left >>= 1;
        if left > 0 {
            power = power + power;
        }
    }
    let zero = x.constant(0.0);
    let sum = sum.unwrap_or(zero);
    if by < 0 { zero - sum } else { sum }
}

/// Returns three digits with the sign of `x`, the lowest first.
fn digits(x: Expr<'_>) -> [Expr<'_>; 3] {
    let base = f64::from(1 << 11);
    [x.fmod(base), (x / base).fmod(base), x / (base * base)]
}

/// `x·2¹¹`. The first bits are dropped before, because a product in float32 does not wrap.
fn shifted(x: Expr<'_>) -> Expr<'_> {
    let half = x.fmod(f64::from(1 << 21)) * f64::from(1 << 10);
    half + half
}

/// Writes a limit, a magnitude, or an extreme of several arrays as comparisons and choices.
pub(super) fn choose(edit: &mut Patch<'_, '_>, op: OpType) -> Outcome {
    let first = edit.input(edit.root(), 0)?;
    // A runtime that clips in float32 computes both limits in float32.
    let rounding = if op == OpType::Clip { OpType::Max } else { op };
    if !rounds(edit, rounding) {
        return None;
    }
    let needed = [OpType::Less, OpType::Where, OpType::Sub];
    if needed.iter().any(|&op| !edit.target().keeps_digits(op, DType::I32)) {
        return declined("the runtime compares in float32, too");
    }
    let chosen = match op {
        OpType::Abs => edit.formula([first], |[x]| x.less(0.0).select(x.constant(0.0) - x, x)),
        OpType::Max | OpType::Min => {
            let [Some(a), Some(b)] = edit.inputs(edit.root())[..] else {
                return declined("there are more than two operands");
            };
            edit.formula([a, b], |[a, b]| match op {
                OpType::Max => a.less(b).select(b, a),
                _ => a.less(b).select(a, b),
            })
        }
        _ => with_nan(edit, op, first)?,
    };
    edit.settle(chosen)
}

/// Finds the extreme of the upper halves, and then that of the lower halves beside it.
pub(super) fn reduce(edit: &mut Patch<'_, '_>, op: OpType) -> Outcome {
    let first = edit.input(edit.root(), 0)?;
    if is_small(edit, first) || !rounds(edit, op) {
        return None;
    }
    let (target, opset) = (edit.target(), edit.opset());
    if !target.has(OpType::BitwiseAnd, opset) || !target.keeps_digits(OpType::Mul, DType::I32) {
        return declined("the runtime has no operators on bits");
    }
    let Some(axes) = reduced_axes(edit, first) else {
        return declined("the axes are not known");
    };
    let keeps = keeps_axes(edit);
    let extreme = edit.formula([first], |[x]| {
        let base = f64::from(1 << 16);
        let upper = x.bitwise_and(-base) / base;
        let found = upper.reduce(op, &axes, true);
        let none = if op == OpType::ReduceMax { -1.0 } else { base };
        let lower = upper.equal(found).select(x.bitwise_and(base - 1.0), x.constant(none));
        let both = found * base + lower.reduce(op, &axes, true);
        if keeps { both } else { both.squeeze(&axes) }
    });
    edit.settle(extreme)
}
