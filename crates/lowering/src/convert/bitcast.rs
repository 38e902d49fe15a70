//! Reinterprets the bits of an array as another type.

use onnx::{Attr, DType, Expr, OpType};

use crate::convert::{bits_of, float_of_bits};
use crate::ctx::{Ctx, Eqn};
use crate::error::{Refused, Result};

/// Reinterprets the bits of an array as another type.
///
/// A wide element corresponds to several narrow elements along a new last axis, the lowest bits
/// first. Since opset 26, ONNX has [`BitCast`](https://onnx.ai/onnx/operators/onnx__BitCast.html)
/// for types of the same width. Before, integers are cast, and floats are computed from their bits
/// by arithmetic.
pub(crate) fn bitcast<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    eqn.ignore(&["new_dtype"]);
    let [x] = eqn.operands()?;
    let result = eqn.output()?;
    let (from, to) = (x.dtype(), result.dtype);
    if ![from, to].into_iter().all(has_bits) {
        let what = format!("bitcast_convert_type from {from} to {to}");
        return Err(Refused::NoCounterpart { what }.into());
    }
    if from == to {
        return Ok(x);
    }
    if from.bits() == to.bits() && ctx.builder.opset() >= 26 {
        let attrs = vec![("to", Attr::Int(to.code().into()))];
        return Ok(ctx.builder.node(OpType::BitCast, &[x], attrs));
    }
    let bits = unsigned(if from.is_float() { bits_of(x) } else { x });
    let bits = if from.bits() > to.bits() { split(bits, to) } else { join(bits, to) };
    if !to.is_float() {
        return Ok(bits.cast(to));
    }
    Ok(ctx.builder.composite("float_of_bits", [bits], Vec::new(), |[bits]| float_of_bits(bits, to)))
}

/// True for types of whole bytes in which every bit pattern is a valid element.
fn has_bits(dtype: DType) -> bool {
    let is_common_float = matches!(dtype, DType::F16 | DType::Bf16 | DType::F32 | DType::F64);
    is_common_float || (dtype.is_int() && dtype.bits() >= 8)
}

/// `x >> 0, x >> w, x >> 2w, …`; the cast keeps the lowest `w` bits of each
fn split(x: Expr<'_>, to: DType) -> Expr<'_> {
    let parts = distances(x.dtype(), to.bits());
    let shifted = x.unsqueeze(&[x.rank()]).shift_right(x.builder.constant(
        x.dtype(),
        &[parts.len() as i64],
        &parts,
    ));
    shifted.cast(unsigned_of(to))
}

/// `Σ xᵢ << i w` along the last axis
fn join(x: Expr<'_>, to: DType) -> Expr<'_> {
    let width = x.dtype().bits();
    let wide = x.cast(unsigned_of(to));
    if width == to.bits() {
        return wide;
    }
    let parts = distances(wide.dtype(), width);
    let by = x.builder.constant(wide.dtype(), &[parts.len() as i64], &parts);
    wide.shift_left(by).reduce_sum(&[x.rank() - 1], false)
}

/// Returns the shift distance of each part of `width` bits.
fn distances(wide: DType, width: usize) -> Vec<f64> {
    (0..wide.bits() / width).map(|part| (part * width) as f64).collect()
}

/// Returns the same bits as an unsigned integer.
pub(crate) fn unsigned(x: Expr<'_>) -> Expr<'_> {
    x.cast(unsigned_of(x.dtype()))
}

fn unsigned_of(dtype: DType) -> DType {
    match dtype.bits() {
        2 => DType::U2,
        4 => DType::U4,
        8 => DType::U8,
        16 => DType::U16,
        32 => DType::U32,
        _ => DType::U64,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn integers_of_the_same_width_are_cast() {
        check(
            "x:i32[3] -> y:u32[3] = bitcast_convert_type{new_dtype=uint32} x",
            expect![[r#"
                graph test(in_0:i32[3]) -> (out_0)
                out_0:u32[3] = Cast(in_0) {to=12}
            "#]],
        );
    }

    #[test]
    fn narrow_parts_are_shifted_out() {
        check(
            "x:u32[3] -> y:u8[3,4] = bitcast_convert_type{new_dtype=uint8} x",
            expect![[r#"
                graph test(in_0:u32[3]) -> (out_0)
                %0 = Unsqueeze(in_0, [1]:i64)
                %1 = BitShift(%0, [0, 8, 16, 24]:u32) {direction="RIGHT"}
                out_0:u8[3,4] = Cast(%1) {to=2}
            "#]],
        );
    }

    #[test]
    fn narrow_parts_are_shifted_in() {
        check(
            "x:u8[3,4] -> y:u32[3] = bitcast_convert_type{new_dtype=uint32} x",
            expect![[r#"
                graph test(in_0:u8[3,4]) -> (out_0)
                %0 = Cast(in_0) {to=12}
                %1 = BitShift(%0, [0, 8, 16, 24]:u32) {direction="LEFT"}
                %2 = Cast(%1) {to=7}
                %3 = ReduceSum(%2, [1]:i64) {keepdims=0}
                out_0:u32[3] = Cast(%3) {to=12}
            "#]],
        );
    }

    #[test]
    fn a_bitcast_of_booleans_is_refused() {
        check(
            "x:bool[3] -> y:u8[3] = bitcast_convert_type{new_dtype=uint8} x",
            expect![[r#"
                refused: `bitcast_convert_type from bool to u8` has no ONNX counterpart
            "#]],
        );
    }
}
