//! Placeholder.
use onnx::Expr;
pub(crate) fn acosh(x: Expr<'_>) -> Expr<'_> {
    x.unary("acosh")
}
pub(crate) fn asinh(x: Expr<'_>) -> Expr<'_> {
    x.unary("asinh")
}
pub(crate) fn atanh(x: Expr<'_>) -> Expr<'_> {
    x.unary("atanh")
}
pub(crate) fn cosh(x: Expr<'_>) -> Expr<'_> {
    x.unary("cosh")
}
pub(crate) fn sinh(x: Expr<'_>) -> Expr<'_> {
    x.unary("sinh")
}
