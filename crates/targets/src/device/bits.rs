//! Bitwise operators as arithmetic, for a device that has none.

use onnx::{Attr, DType, Dim, Expr, OpType, Patch, Tensor, ValueId};

use super::Formula;

/// The most elements of a small array.
const MAX_SMALL: i64 = 1 << 15;

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

/// Writes an operator on bits: as a sum if no bit is in both operands, otherwise bit by bit. A large array takes less memory
/// with a table for each four bits.
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
    let unsigned = match bits {
        8 => DType::U8,
        16 => DType::U16,
        _ => DType::U32,
    };
    let result = edit.ty(edit.node(edit.root()).outputs[0])?;
    let size = result.shape.iter().map(Dim::known).product::<Option<i64>>();
    let (rank, is_small) = (result.rank(), size.is_some_and(|size| size <= MAX_SMALL));
    Some(edit.formula([a, b], |[a, b]| {
        let [x, y] = [a, b].map(|x| x.cast(unsigned));
        let joined =
            if is_small { by_bits(op, x, y, bits, rank) } else { by_table(op, x, y, bits / 4) };
        joined.cast(unsigned).cast(dtype)
    }))
}

/// Combines the bits of numbers: bit `k` is odd or even like `⌊x / 2ᵏ⌋`, and so are sums and products.
fn by_bits<'g>(op: OpType, x: Expr<'g>, y: Expr<'g>, bits: i64, rank: usize) -> Expr<'g> {
    let mut shape = vec![1; rank + 1];
    shape[0] = bits;
    let powers: Vec<i64> = (0..bits).map(|bit| 1 << bit).collect();
    let powers = |dtype| x.builder.constant_ints(dtype, &shape, &powers);
    let [x, y] = [x, y].map(|x| x.cast(DType::U32) / powers(DType::U32));
    let odd = match op {
        OpType::BitwiseAnd => x * y,
        OpType::BitwiseOr => x * y + (x + y),
        _ => x + y,
    };
    // The device sums no unsigned integers.
    let bits = odd.modulo(2.0).cast(DType::F64) * powers(DType::F64);
    bits.reduce_sum(&[0], false)
}

/// Combines digits to the base 16 by looking up each pair.
fn by_table<'g>(op: OpType, x: Expr<'g>, y: Expr<'g>, count: i64) -> Expr<'g> {
    let apply = |a: i64, b: i64| match op {
        OpType::BitwiseAnd => a & b,
        OpType::BitwiseOr => a | b,
        _ => a ^ b,
    };
    let table: Vec<i64> = (0..256).map(|pair| apply(pair >> 4, pair & 15)).collect();
    let places: Vec<i64> = (0..count).map(|place| 1 << (4 * place)).collect();
    let [digits, others] = [x, y].map(|x| digits(x, &places));
    let table = x.builder.constant_ints(DType::I64, &[256], &table);
    let places = x.builder.constant_ints(DType::I64, &[count], &places);
    let digits = table.gather(digits * 16.0 + others, 0) * places;
    digits.reduce_sum(&[digits.rank() - 1], false)
}

/// Returns the digits of numbers to the base 16 along a new last axis, the last digit first.
fn digits<'g>(x: Expr<'g>, places: &[i64]) -> Expr<'g> {
    let x = x.cast(DType::I64).unsqueeze(&[x.rank()]);
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
