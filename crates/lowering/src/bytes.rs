//! Products of bytes, which quantized layers compute.

use onnx::kernels::Support;
use onnx::{DType, Expr, OpType};

use crate::ctx::Ctx;

/// True if an operator for products of bytes can compute a result. Operands with fewer bits become bytes.
pub(crate) fn multiplies(
    ctx: &Ctx<'_>,
    op: OpType,
    lhs: Expr<'_>,
    rhs: Expr<'_>,
    result: DType,
) -> bool {
    let fits = |x: Expr<'_>| x.dtype().is_int() && x.dtype().bits() <= 8;
    let (target, opset) = (ctx.builder.target(), ctx.builder.opset());
    let runs = |op| target.runs(op, opset, DType::U8) == Support::Yes;
    let is_signed = lhs.dtype().is_signed_int() || rhs.dtype().is_signed_int();
    // Other runtimes were not tried with zero points.
    target.is_default()
        && result == DType::I32
        && fits(lhs)
        && fits(rhs)
        && runs(op)
        && (runs(OpType::BitwiseXor) || !is_signed)
}

/// Returns numbers as unsigned bytes, with their zero point.
///
/// On a CPU without VNNI, ONNX Runtime adds the products of signed bytes with saturation, and is wrong. The product of
/// unsigned bytes is exact, and on other CPUs it is as fast.
pub(crate) fn unsigned(x: Expr<'_>) -> (Expr<'_>, Expr<'_>) {
    let is_signed = x.dtype().is_signed_int();
    let zero = x.builder.constant_ints(DType::U8, &[], &[if is_signed { 128 } else { 0 }]);
    if !is_signed {
        return (x.cast(DType::U8), zero);
    }
    // `x + 128` as an unsigned byte: the sign bit flipped. A wider type extends the sign of fewer bits.
    let bytes = if x.dtype().bits() < 8 { x.cast(DType::I32) } else { x };
    (bytes.cast(DType::U8).bitwise_xor(zero), zero)
}
