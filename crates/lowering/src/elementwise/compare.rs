//! Comparisons. Flags compare as numbers do: `false < true`.

use onnx::{DType, Expr};

pub(crate) fn ge<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    if x.dtype() == DType::Bool { x.or(y.not()) } else { x.greater_equal(y) }
}

pub(crate) fn gt<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    if x.dtype() == DType::Bool { x.and(y.not()) } else { x.greater(y) }
}

pub(crate) fn le<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    ge(y, x)
}

pub(crate) fn lt<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    gt(y, x)
}

/// Neither infinite nor NaN: `x − x = 0`
pub(crate) fn is_finite(x: Expr<'_>) -> Expr<'_> {
    (x - x).equal(0.0)
}

/// `x ≤ y` in the total order, where `−NaN < −∞ < … < −0 < 0 < … < ∞ < NaN`
pub(crate) fn le_to<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    lt_to(y, x).not()
}

/// `x < y` in the total order
///
/// Every NaN counts as positive: JAX sorts with this order only after it made them so. The sign of
/// a zero is that of its reciprocal.
pub(crate) fn lt_to<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    if !x.dtype().is_float() {
        return lt(x, y);
    }
    let zeros = x.equal(0.0).and(y.equal(0.0)).and(x.recip().less(y.recip()));
    let nans = y.is_nan().and(x.is_nan().not());
    x.less(y).or(zeros).or(nans)
}
