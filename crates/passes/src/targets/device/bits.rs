//! Bitwise operators as arithmetic, for a device that has none.

use onnx::{Attr, DType, Dim, Expr, OpType, Patch, Tensor, ValueId};

use super::Formula;

/// The most operators on bits that are written as arithmetic if the arrays are small.
const MAX_OPERATORS: usize = 12;
/// The most elements of a small array.
const MAX_SMALL: i64 = 1 << 15;

/// True for operators on bits.
pub(super) fn is_bitwise(op: OpType) -> bool {
    matches!(
        op,
        OpType::BitShift
            | OpType::BitwiseAnd
            | OpType::BitwiseNot
            | OpType::BitwiseOr
            | OpType::BitwiseXor
    )
}

/// True if operators on bits are faster on the CPU, although their operands are copied: a generator of random numbers
/// has about a hundred of them, and each takes up to 14 nodes on the device.
pub(super) fn stay(edit: &Patch<'_, '_>, x: ValueId) -> bool {
    let sizes = edit.ty(x).map(|ty| ty.shape.iter().map(Dim::known).product::<Option<i64>>());
    let is_small = sizes.flatten().is_some_and(|size| size <= MAX_SMALL);
    let all = edit.nodes().into_iter().filter(|&node| edit.op(node).is_some_and(is_bitwise));
    is_small && all.take(MAX_OPERATORS + 1).count() > MAX_OPERATORS
}

/// Writes a shift of unsigned numbers as a product or a quotient.
pub(super) fn shift(edit: &mut Patch<'_, '_>, x: ValueId) -> Formula {
    let index = edit.root();
    let by = edit.input(index, 1)?;
    let dtype = edit.ty(x)?.dtype;
    let bits = i64::try_from(dtype.bits()).ok().filter(|&bits| bits <= 32)?;
    let is_left =
        matches!(edit.node(index).attr("direction"), Some(Attr::Str(way)) if &**way == "LEFT");
    let known = edit.tensor(by).filter(|by| by.len() == 1).and_then(Tensor::ints);
    if let Some([by]) = known.as_deref() {
        let factor =
            u32::try_from(*by).ok().filter(|&by| i64::from(by) < bits).map(|by| 1u64 << by);
        return Some(edit.formula([x], |[x]| match factor {
            None => x * 0.0,
            Some(factor) if is_left => x * factor as f64,
            Some(factor) => x / factor as f64,
        }));
    }
    let powers: Vec<i64> = (0..bits).map(|bit| 1 << bit).collect();
    Some(edit.formula([x, by], |[x, by]| {
        let powers = x.builder.constant_ints(dtype, &[bits], &powers);
        let last = by.constant((bits - 1) as f64);
        let factor = powers.gather(by.min(last).cast(DType::I64), 0);
        if is_left { x * factor } else { x / factor }
    }))
}

/// Writes an operator on bits: as a sum if no bit is in both operands, otherwise with a table for each four bits.
pub(super) fn combine(edit: &mut Patch<'_, '_>, op: OpType, a: ValueId) -> Formula {
    let b = edit.input(edit.root(), 1)?;
    let dtype = edit.ty(a)?.dtype;
    let bits = i64::try_from(dtype.bits()).ok().filter(|&bits| bits <= 32)?;
    let (used_by_a, used_by_b) = (used(edit, a, bits)?, used(edit, b, bits)?);
    if used_by_a & used_by_b == 0 {
        return Some(edit.formula([a, b], |[a, b]| match op {
            OpType::BitwiseAnd => a * b * 0.0,
            _ => a + b,
        }));
    }
    let is_unsigned = dtype.is_int() && !dtype.is_signed_int();
    if op == OpType::BitwiseAnd && is_unsigned {
        for (value, other) in [(a, b), (b, a)] {
            if let Some(mask) = number(edit, other)
                && (mask + 1).is_power_of_two()
                && mask + 1 < 1 << bits
            {
                return Some(edit.formula([value], |[x]| x.modulo((mask + 1) as f64)));
            }
        }
    }
    let (count, unsigned) = (bits / 4, if bits == 8 { DType::U8 } else { DType::U32 });
    (bits == 8 || bits == 32).then_some(())?;
    let apply = |a: i64, b: i64| match op {
        OpType::BitwiseAnd => a & b,
        OpType::BitwiseOr => a | b,
        _ => a ^ b,
    };
    let table: Vec<i64> = (0..256).map(|pair| apply(pair >> 4, pair & 15)).collect();
    let places: Vec<i64> = (0..count).map(|place| 1 << (4 * place)).collect();
    Some(edit.formula([a, b], |[a, b]| {
        let [digits, others] = [a, b].map(|x| digits(x, unsigned, &places));
        let table = a.builder.constant_ints(DType::I64, &[256], &table);
        let places = a.builder.constant_ints(DType::I64, &[count], &places);
        let digits = table.gather(digits * 16.0 + others, 0) * places;
        digits.reduce_sum(&[digits.rank() - 1], false).cast(unsigned).cast(dtype)
    }))
}

/// Returns the digits of numbers to the base 16 along a new last axis, the last digit first.
fn digits<'g>(x: Expr<'g>, unsigned: DType, places: &[i64]) -> Expr<'g> {
    let x = x.cast(unsigned).cast(DType::I64).unsqueeze(&[x.rank()]);
    let places = x.builder.constant_ints(DType::I64, &[places.len() as i64], places);
    (x / places).modulo(16.0)
}

/// Returns the bits that numbers may have, as far as shifts by constants show it.
fn used(edit: &Patch<'_, '_>, value: ValueId, bits: i64) -> Option<u64> {
    let all = (1u64 << bits) - 1;
    let dtype = edit.ty(value)?.dtype;
    if dtype.is_signed_int() {
        return Some(all);
    }
    if let Some(number) = number(edit, value) {
        return Some(number);
    }
    let shifted = || {
        let node = edit.producer(value)?;
        let by = number(edit, edit.input(node, 1)?)?;
        let power = || by.is_power_of_two().then(|| by.trailing_zeros());
        let is_left =
            matches!(edit.node(node).attr("direction"), Some(Attr::Str(way)) if &**way == "LEFT");
        match edit.op(node)? {
            OpType::Mul => Some((all << power()?) & all),
            OpType::Div => Some(all >> power()?),
            OpType::BitShift if is_left && by < 64 => Some((all << by) & all),
            OpType::BitShift if by < 64 => Some(all >> by),
            _ => None,
        }
    };
    Some(shifted().unwrap_or(all))
}

/// Returns the one number of a constant.
fn number(edit: &Patch<'_, '_>, value: ValueId) -> Option<u64> {
    let tensor = edit.tensor(value).filter(|tensor| tensor.len() == 1)?;
    u64::try_from(*tensor.ints()?.first()?).ok()
}
