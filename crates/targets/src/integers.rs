//! Whole numbers in runtimes that divide them in float32, or that keep bytes within their range.

use onnx::kernels::{LARGEST_EXACT, Limit, rounds};
use onnx::{DType, Dim, Op, OpType, Outcome, Patch, Tensor, ValueId, declined};

use super::digits;
use super::operators::{Formula, text};

/// Computes `int32` with all digits if a runtime does so in float32.
pub fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    let (index, target) = (edit.root(), edit.target());
    match edit.node(index).op.onnx()? {
        _ if target.is_default() => None,
        OpType::ReduceSum => add(edit),
        _ if !rounds(edit, index, target) => None,
        OpType::Div => divide(edit),
        OpType::Mul => digits::multiply(edit),
        op @ (OpType::ReduceMax | OpType::ReduceMin) => digits::reduce(edit, op),
        op @ (OpType::Abs | OpType::Clip | OpType::Max | OpType::Min) => digits::choose(edit, op),
        _ => None,
    }
}

/// Divides `int32` in float32 twice: the second time what the first quotient leaves.
///
/// The first quotient is off by at most a few hundreds, and the second one by at most one. Then the rest has another
/// sign than the dividend. Products and differences wrap, so that it does not matter if the first ones are too large.
fn divide(edit: &mut Patch<'_, '_>) -> Outcome {
    let (index, dtype, target) = (edit.root(), DType::I32, edit.target());
    let (a, b) = (edit.input(index, 0)?, edit.input(index, 1)?);
    if [OpType::Add, OpType::Mul, OpType::Sub].iter().any(|&op| !target.keeps_digits(op, dtype)) {
        return declined("the runtime multiplies in float32, too");
    }
    let quotient = edit.formula([a, b], |[a, b]| {
        let divisor = b.cast(DType::F32);
        // Half of the quotient fits into the type.
        let near = (a.cast(DType::F32) * 0.5 / divisor).cast_exactly(dtype) * 2.0;
        let rest = a - near * b;
        let more = (rest.cast(DType::F32) / divisor).cast_exactly(dtype);
        let (rest, whole) = (rest - more * b, near + more);
        let is_negative = a.less(0.0);
        let is_below = is_negative.xor(b.less(0.0));
        let is_beyond = rest.less(0.0).xor(is_negative).and(rest.not_equal(0.0));
        let back = is_below.select(whole + 1.0, whole - 1.0);
        is_beyond.select(back, whole)
    });
    edit.settle(quotient)
}

/// Adds `int32` as digits of 16 or 11 bits, whose sums in float32 are exact. The sum of their multiples wraps, and so
/// does that of `int64`, which the runtime stores in 32 bits.
fn add(edit: &mut Patch<'_, '_>) -> Outcome {
    let (index, dtype, target) = (edit.root(), DType::I32, edit.target());
    let summed = edit.ty(edit.input(index, 0)?)?.dtype;
    let x = match summed {
        DType::I64 => edit.input(edit.made_by(edit.input(index, 0)?, OpType::Cast)?, 0)?,
        _ => edit.input(index, 0)?,
    };
    if edit.ty(x)?.dtype != dtype || target.keeps_digits(OpType::ReduceSum, summed) {
        return None;
    }
    let size = |value| edit.ty(value)?.shape.iter().map(Dim::known).product::<Option<i64>>();
    let sizes = size(x).zip(size(edit.node(index).outputs[0]));
    let Some(count) = sizes.map(|(all, sums)| all / sums.max(1)) else {
        return declined("the number of elements is not known");
    };
    let is_below = |most: i64| most.checked_mul(count).is_some_and(|sum| sum <= LARGEST_EXACT);
    if edit.fact(x).ints().is_some_and(|(low, high)| is_below(high.max(-low))) {
        return None;
    }
    let digits: &[i64] = match count {
        ..=256 => &[16, 0],
        257..=8192 => &[22, 11, 0],
        _ => return declined("the number of elements is large"),
    };
    let is_exact = |op| target.keeps_digits(op, dtype);
    if !target.has(OpType::BitwiseAnd, edit.opset())
        || !is_exact(OpType::Mul)
        || !is_exact(OpType::Add)
    {
        return declined("the runtime multiplies in float32, too");
    }
    let cast = |x, to: DType| Op::new(OpType::Cast, &[x]).attr("to", i64::from(to.code()));
    let (mut above, mut total) = (32, None);
    for &place in digits {
        let mask = if above == 32 { -1 << place } else { (1 << above) - (1 << place) };
        let mask = edit.constant(Tensor::of_ints(dtype, Vec::new(), &[mask])?, &[]);
        let digit = edit.insert(Op::new(OpType::BitwiseAnd, &[x, mask]));
        let digit = edit.insert(cast(digit, DType::F32));
        let factor = 2f64.powi(-(place as i32));
        let factor = edit.constant(Tensor::of_floats(DType::F32, Vec::new(), &[factor])?, &[]);
        let mut operands = edit.inputs(index);
        operands[0] = Some(match place {
            0 => digit,
            _ => edit.insert(Op::new(OpType::Mul, &[digit, factor])),
        });
        let sum = Op::of(edit.node(index), operands);
        let sum = edit.insert(sum);
        let sum = edit.insert(cast(sum, dtype));
        let unit = edit.constant(Tensor::of_ints(dtype, Vec::new(), &[1 << place])?, &[]);
        let sum = match place {
            0 => sum,
            _ => edit.insert(Op::new(OpType::Mul, &[sum, unit])),
        };
        total = Some(match total {
            None => sum,
            Some(total) => edit.insert(Op::new(OpType::Add, &[total, sum])),
        });
        above = place;
    }
    match summed {
        DType::I64 => edit.done(&[], cast(total?, summed)),
        _ => edit.done(&[], total?),
    }
}

/// `0 − x`, for runtimes whose `Neg` has the digits of float32
pub(super) fn negative(edit: &mut Patch<'_, '_>, x: ValueId) -> Outcome {
    if !edit.target().keeps_digits(OpType::Sub, edit.ty(x)?.dtype) {
        return declined("the runtime subtracts in float32, too");
    }
    let difference = edit.formula([x], |[x]| x.constant(0.0) - x);
    edit.settle(difference)
}

/// Casts floats to `uint8` by way of `int32`.
pub(super) fn cast_to_byte(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    if !edit.has_limit(index, Limit::CastToByte) {
        return None;
    }
    let x = edit.input(index, 0)?;
    let cast = |x, to: DType| Op::new(OpType::Cast, &[x]).attr("to", i64::from(to.code()));
    let whole = edit.insert(cast(x, DType::I32));
    edit.done(&[], cast(whole, DType::U8))
}

/// Drops the bits above 16 before a cast, for runtimes that store 16 bits in 32.
pub(super) fn cast_to_short(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    if !edit.has_limit(index, Limit::CastToShort) {
        return None;
    }
    let (x, dtype) = (edit.input(index, 0)?, edit.ty(edit.node(index).outputs[0])?.dtype);
    let (count, half) = (f64::from(1 << 16), f64::from(1 << 15));
    let rest = edit.formula([x], |[x]| {
        let x = x.cast(DType::I32);
        let rest = match dtype {
            DType::I16 => (x + half).modulo(count) - half,
            _ => x.modulo(count),
        };
        rest.cast_exactly(dtype)
    });
    edit.settle(rest)
}

/// Combines `int8` as `int32`, for runtimes that store the `int8` of inputs in another way than others.
pub(super) fn wide_bytes(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let cast = |x, to: DType| Op::new(OpType::Cast, &[x]).attr("to", i64::from(to.code()));
    let mut operands = edit.inputs(index);
    for operand in operands.iter_mut().flatten() {
        if edit.ty(*operand)?.dtype == DType::I8 {
            *operand = edit.insert(cast(*operand, DType::I32));
        }
    }
    let wide = Op::of(edit.node(index), operands);
    let wide = edit.insert(wide);
    edit.done(&[], cast(wide, DType::I8))
}

/// Shifts bytes to the left as a product of `int32`, for runtimes that keep products of bytes within their range.
pub(super) fn shifted_bytes(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    if !edit.has_limit(index, Limit::ShiftedBytes) {
        return None;
    }
    let (x, by) = (edit.input(index, 0)?, edit.input(index, 1)?);
    let (dtype, wide) = (edit.ty(x)?.dtype, DType::I32);
    let product = if let Some(&[by]) = edit.tensor(by).and_then(|by| by.ints()).as_deref() {
        let factor = f64::from(2u32.checked_pow(u32::try_from(by).ok()?)?);
        edit.formula([x], |[x]| (x.cast(wide) * factor).cast(dtype))
    } else {
        let powers = table(edit, 16, |distance| 1 << distance)?;
        edit.formula([x, by, powers], |[x, by, powers]| {
            let factor = powers.gather(by.cast(DType::I64), 0);
            (x.cast(wide) * factor).cast(dtype)
        })
    };
    edit.settle(product)
}

/// Returns a constant with the number for each distance.
fn table(edit: &mut Patch<'_, '_>, size: i64, number: fn(i64) -> i64) -> Option<ValueId> {
    let numbers: Vec<i64> = (0..size).map(number).collect();
    Some(edit.constant(Tensor::of_ints(DType::I32, vec![size], &numbers)?, &[]))
}

/// Shifts `uint32` to the right by computed distances, the upper and the lower half separately.
fn shift_right(edit: &mut Patch<'_, '_>, first: ValueId, by: ValueId) -> Formula {
    let lower = table(edit, 32, |distance| 1 << distance.min(16))?;
    let upper = table(edit, 32, |distance| 1 << (distance - 16).max(0))?;
    let factor = table(edit, 32, |distance| 1 << (16 - distance).max(0))?;
    Some(edit.formula([first, by, lower, upper, factor], |[x, by, lower, upper, factor]| {
        let (x, by) = (x.cast(DType::I32), by.cast(DType::I64));
        let high = (x.bitwise_and(-65536.0) / 65536.0).bitwise_and(65535.0);
        let high = high / upper.gather(by, 0) * factor.gather(by, 0);
        let low = x.bitwise_and(65535.0) / lower.gather(by, 0);
        high.bitwise_or(low).cast(DType::U32)
    }))
}

/// Writes a shift of `uint32` by a constant with products and quotients of `int32`.
///
/// A runtime that divides in float32 is exact for 24 bits, so the upper and the lower half are divided separately.
pub(super) fn shift(edit: &mut Patch<'_, '_>, first: ValueId, by: ValueId) -> Formula {
    let is_left = text(edit, "direction") == Some("LEFT");
    if edit.tensor(by).is_none() && edit.ty(first)?.dtype == DType::U32 && !is_left {
        return shift_right(edit, first, by);
    }
    let &[by] = &edit.tensor(by)?.ints()?[..] else { return None };
    let is_small = (1..32).contains(&by) && edit.ty(first)?.dtype == DType::U32;
    let by = u32::try_from(by).ok().filter(|_| is_small)?;
    let factor = f64::from(1u32 << by.min(31));
    Some(edit.formula([first], |[x]| {
        if is_left {
            return x * factor;
        }
        let x = x.cast(DType::I32);
        let cut = by.max(16);
        let upper = x.bitwise_and(-f64::from(2u32.pow(cut - 1)) * 2.0) / factor;
        let upper = upper.bitwise_and(f64::from(u32::MAX >> by));
        let both = match by {
            16.. => upper,
            _ => upper.bitwise_or(x.bitwise_and(65535.0) / factor),
        };
        both.cast(DType::U32)
    }))
}

/// Divides `uint32` by constants of up to 16 bits, from the upper digits to the lower ones.
///
/// No number that is divided has more than 24 bits, because a runtime may divide in float32.
pub(super) fn quotient(edit: &mut Patch<'_, '_>, first: ValueId, by: ValueId) -> Formula {
    let divisors = edit.tensor(by)?.ints()?;
    let fits = |most: i64| divisors.iter().all(|divisor| (2..=most).contains(divisor));
    if edit.ty(first)?.dtype != DType::U32 || !fits(1 << 16) {
        return None;
    }
    let is_short = fits(1 << 8);
    let shape = edit.tensor(by)?.shape.clone();
    let by = edit.constant(Tensor::of_ints(DType::I32, shape, &divisors)?, &[]);
    Some(edit.formula([first, by], |[x, by]| {
        let x = x.cast(DType::I32);
        let upper = (x.bitwise_and(-65536.0) / 65536.0).bitwise_and(65535.0);
        let lower = x.bitwise_and(65535.0);
        let digits = match is_short {
            true => vec![(lower, 65536.0)],
            false => vec![(lower / 256.0, 256.0), (lower.bitwise_and(255.0), 256.0)],
        };
        let mut whole = upper / by;
        let mut rest = upper - whole * by;
        for (digit, base) in digits {
            let left = rest * base + digit;
            let part = left / by;
            rest = left - part * by;
            whole = whole * base + part;
        }
        whole.cast(DType::U32)
    }))
}
