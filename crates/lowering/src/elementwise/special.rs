//! Placeholder.
use onnx::Expr;
pub(crate) fn erf(x: Expr<'_>) -> Expr<'_> {
    x.unary("erf")
}
pub(crate) fn erf_inv(x: Expr<'_>) -> Expr<'_> {
    x.unary("erf_inv")
}
pub(crate) fn erfc(x: Expr<'_>) -> Expr<'_> {
    x.unary("erfc")
}
