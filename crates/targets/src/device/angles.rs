//! Inverse trigonometric functions, for a device that has none.

use onnx::{Expr, OpType};

/// The coefficients of `atan(x) / x − 1` as a polynomial in `x²`, from the highest power to the first, for `x` up to
/// `tan(π / 8)`. Its error is below that of float32.
const POLYNOMIAL: [f64; 4] =
    [8.053_744_495_38e-2, -1.387_768_560_32e-1, 1.997_771_064_78e-1, -3.333_294_915_39e-1];

/// Returns a formula for an operator on float32.
pub(super) fn inverse(op: OpType, x: Expr<'_>) -> Option<Expr<'_>> {
    match op {
        OpType::Atan => Some(atan(x)),
        OpType::Asin => Some(atan(x / ((1.0 - x) * (x + 1.0)).sqrt())),
        OpType::Acos => Some(atan(((1.0 - x) / (x + 1.0)).sqrt()) * 2.0),
        _ => None,
    }
}

/// `atan(x)`: for larger numbers, `atan(x) = π/4 + atan((x − 1) / (x + 1)) = π/2 − atan(1 / x)`.
fn atan(x: Expr<'_>) -> Expr<'_> {
    use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, SQRT_2};
    let size = x.abs();
    let is_large = size.greater(SQRT_2 + 1.0);
    let is_medium = size.greater(SQRT_2 - 1.0);
    let near = is_medium.select((size - 1.0) / (size + 1.0), size);
    let near = is_large.select(size.constant(-1.0) / size, near);
    let base = is_medium.select(size.constant(FRAC_PI_4), size.constant(0.0));
    let base = is_large.select(size.constant(FRAC_PI_2), base);
    let square = near * near;
    let [first, rest @ ..] = POLYNOMIAL;
    let sum = rest.iter().fold(square.constant(first), |sum, &next| sum * square + next);
    let angle = base + (sum * square * near + near);
    let signed = x.less(0.0).select(-angle, angle);
    x.equal(0.0).select(x, signed)
}
