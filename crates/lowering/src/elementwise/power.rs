//! Powers and roots.

use onnx::Expr;

use crate::ctx::{Ctx, Eqn};
use crate::elementwise::arithmetic::div;
use crate::error::Result;

/// `xⁿ` for a fixed integer `n`, by squaring; `1 / x⁻ⁿ` where `n` is negative
pub(crate) fn integer_pow<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let n: i64 = eqn.param("y")?;
    eqn.ignore(&["accuracy"]);
    let [x] = eqn.operands()?;

    let power = power_by_squaring(x, n.unsigned_abs());
    Ok(if n < 0 { x.constant(1.0) / power } else { power })
}

fn power_by_squaring(x: Expr<'_>, n: u64) -> Expr<'_> {
    let mut square = x;
    let mut product: Option<Expr<'_>> = None;
    let mut rest = n;
    while rest > 0 {
        if rest & 1 == 1 {
            product = Some(product.map_or(square, |product| product * square));
        }
        rest >>= 1;
        if rest > 0 {
            square = square * square;
        }
    }
    product.unwrap_or_else(|| x.constant(1.0).expand(&x.shape()))
}

/// `xʸ`; of integers by squaring, since `Pow` computes them in double precision
pub(crate) fn pow<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    if !x.dtype().is_int() {
        let fits = y.dtype().is_float() || y.dtype().bits() >= 32;
        let y = if fits { y } else { y.cast(onnx::DType::I32) };
        return x.pow(y);
    }
    // Bit by bit of the exponent. A negative one leaves 1 / x, which is 0 unless x is ±1.
    let mut square = x;
    let mut rest = y;
    let mut product = x.constant(1.0);
    for bit in 0..y.dtype().bits() {
        let half = div(rest, y.constant(2.0));
        let is_odd = rest.not_equal(half + half);
        product = is_odd.select(product * square, product);
        rest = half;
        if bit + 1 < y.dtype().bits() {
            square = square * square;
        }
    }
    if y.dtype().is_unsigned_int() {
        return product;
    }
    let is_unit = if x.dtype().is_signed_int() { x.abs().equal(1.0) } else { x.equal(1.0) };
    y.less(0.0).and(is_unit.not()).select(product.constant(0.0), product)
}

/// `∛x = sign(x) · |x|^⅓`, with one step of Newton for the error of ⅓
pub(crate) fn cbrt(x: Expr<'_>) -> Expr<'_> {
    let estimate = x.sign() * x.abs().pow(1.0 / 3.0);
    let square = estimate * estimate;
    let step = (estimate * square - x) / (square * 3.0);
    // Where the estimate is zero or infinite it is exact, and the step is not a number.
    step.is_nan().select(estimate, estimate - step)
}
