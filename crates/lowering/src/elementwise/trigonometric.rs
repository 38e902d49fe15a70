//! Placeholder.
use onnx::Expr;
pub(crate) fn acos(x: Expr<'_>) -> Expr<'_> {
    x.unary("acos")
}
pub(crate) fn asin(x: Expr<'_>) -> Expr<'_> {
    x.unary("asin")
}
pub(crate) fn atan(x: Expr<'_>) -> Expr<'_> {
    x.unary("atan")
}
pub(crate) fn tan(x: Expr<'_>) -> Expr<'_> {
    x.unary("tan")
}
pub(crate) fn atan2<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    (x / y).atan()
}
