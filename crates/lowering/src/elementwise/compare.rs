//! Comparisons. Booleans compare as numbers: `false < true`.

use onnx::{DType, Expr};

use crate::element::guards_nan;

pub(crate) fn ge<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    if x.dtype() == DType::Bool { x.or(y.logical_not()) } else { x.greater_equal(y) }
}

pub(crate) fn gt<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    if x.dtype() == DType::Bool { x.and(y.logical_not()) } else { x.greater(y) }
}

pub(crate) fn le<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    if x.dtype() == DType::Bool { ge(y, x) } else { x.less_equal(y) }
}

pub(crate) fn lt<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    if x.dtype() == DType::Bool { gt(y, x) } else { x.less(y) }
}

/// True if `x` is neither infinite nor NaN: `|x| < ∞`.
///
/// Compares 8-bit types in single precision, because most of them have no infinity.
pub(crate) fn is_finite(x: Expr<'_>) -> Expr<'_> {
    let x = if x.dtype().bits() == 8 { x.cast(DType::F32) } else { x };
    x.abs().less(f64::INFINITY)
}

/// `x ≤ y` in the total order, where `−NaN < −∞ < … < −0 < 0 < … < ∞ < NaN`
pub(crate) fn le_to<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    lt_to(y, x).logical_not()
}

/// `x < y` in the total order
///
/// Every NaN counts as positive, because no operator can test its sign. JAX makes every NaN
/// positive before it sorts with this order. The sign of a zero is the sign of its reciprocal.
pub(crate) fn lt_to<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    if !x.dtype().is_float() {
        return lt(x, y);
    }
    let zeros = x.equal(0.0).and(y.equal(0.0)).and(x.recip().less(y.recip()));
    if !guards_nan(x) {
        return x.less(y).or(zeros);
    }
    let nans = y.is_nan().and(x.is_nan().logical_not());
    x.less(y).or(zeros).or(nans)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn booleans_compare_as_numbers() {
        check(
            "x:bool[3] y:bool[3] -> z:bool[3] = lt x y",
            expect![[r#"
                graph test(in_0:bool[3], in_1:bool[3]) -> (out_0)
                %0 = Not(in_0)
                out_0:bool[3] = And(in_1, %0)
            "#]],
        );
    }

    #[test]
    fn half_precision_is_compared_in_single() {
        check(
            "x:f16[3] y:f16[3] -> z:bool[3] = ge x y",
            expect![[r#"
                graph test(in_0:f16[3], in_1:f16[3]) -> (out_0)
                %0 = Cast(in_0) {to=1}
                %1 = Cast(in_1) {to=1}
                out_0:bool[3] = GreaterOrEqual(%0, %1)
            "#]],
        );
    }

    #[test]
    fn the_total_order_tells_zeros_apart() {
        check(
            "x:f32[3] y:f32[3] -> z:bool[3] = lt_to x y",
            expect![[r#"
                graph test(in_0:f32[3], in_1:f32[3]) -> (out_0)
                %0 = Equal(in_0, 0.0)
                %1 = Equal(in_1, 0.0)
                %2 = And(%0, %1)
                %3 = Reciprocal(in_0)
                %4 = Reciprocal(in_1)
                %5 = Less(%3, %4)
                %6 = And(%2, %5)
                %7 = IsNaN(in_1)
                %8 = IsNaN(in_0)
                %9 = Not(%8)
                %10 = And(%7, %9)
                %11 = Less(in_0, in_1)
                %12 = Or(%11, %6)
                out_0:bool[3] = Or(%12, %10)
            "#]],
        );
    }

    #[test]
    fn the_total_order_of_integers_is_the_usual_order() {
        check(
            "x:i32[3] y:i32[3] -> z:bool[3] = le_to x y",
            expect![[r#"
                graph test(in_0:i32[3], in_1:i32[3]) -> (out_0)
                %0 = Less(in_1, in_0)
                out_0:bool[3] = Not(%0)
            "#]],
        );
    }
}
