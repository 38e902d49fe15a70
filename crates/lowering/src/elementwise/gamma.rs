//! Placeholder.
use onnx::Expr;
pub(crate) fn digamma(x: Expr<'_>) -> Expr<'_> {
    x.unary("digamma")
}
pub(crate) fn lgamma(x: Expr<'_>) -> Expr<'_> {
    x.unary("lgamma")
}
