//! Products, limits and extremes of `int32` with all digits, in runtimes that compute them in float32.

use onnx::{DType, Expr, OpType, Outcome, Patch, ValueId, declined};

use super::operators::{keeps_axes, reduced_axes, with_nan};

/// The factors below this one are written as sums.
const MAX_SUMMED: i64 = 1 << 6;

/// Multiplies digits of 11 bits. Their products have 22 bits, and sums wrap.
pub(super) fn multiply(edit: &mut Patch<'_, '_>) -> Outcome {
    let (a, b) = edit.pair(edit.root())?;
    let needed = [OpType::Add, OpType::Sub, OpType::Div, OpType::Mod];
    if needed.iter().any(|&op| !edit.target().keeps_digits(op, DType::I32)) {
        return declined("the runtime adds in float32, too");
    }
    let product = match (factor(edit, a), factor(edit, b)) {
        (Some(by), _) => edit.formula([b], |[x]| multiple(x, by)),
        (_, Some(by)) => edit.formula([a], |[x]| multiple(x, by)),
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

/// Returns a small constant.
fn factor(edit: &Patch<'_, '_>, value: ValueId) -> Option<i64> {
    match edit.tensor(value)?.ints()?[..] {
        [by] if edit.tensor(value)?.shape.is_empty() => {
            Some(by).filter(|by| (1..MAX_SUMMED).contains(&by.abs()))
        }
        _ => None,
    }
}

/// `x·by` as sums of doubled numbers
fn multiple(x: Expr<'_>, by: i64) -> Expr<'_> {
    let bits = (0..i64::BITS - by.unsigned_abs().leading_zeros()).rev().skip(1);
    let product = bits.fold(x, |sum, bit| {
        let doubled = sum + sum;
        if by.unsigned_abs() >> bit & 1 == 1 { doubled + x } else { doubled }
    });
    if by < 0 { x.constant(0.0) - product } else { product }
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
