//! The primitives of complex numbers.

mod arithmetic;
mod fft;
mod functions;
mod inverse;

use onnx::Expr;

pub(crate) use arithmetic::{larger, product, smaller};
pub(crate) use fft::fft;

use crate::ctx::{Ctx, Eqn};
use crate::element::part_type;
use crate::elementwise::power::by_squaring;
use crate::error::Result;
use crate::parts::Complex;

/// `a + ib`
pub(crate) fn complex<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let [re, im] = eqn.operands()?;
    Ok(Complex { re, im }.pairs())
}

/// The real part `a` of `a + ib`.
pub(crate) fn real<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let [z] = eqn.operands()?;
    Ok(Complex::of(z).re)
}

/// The imaginary part `b` of `a + ib`.
pub(crate) fn imag<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let [z] = eqn.operands()?;
    Ok(Complex::of(z).im)
}

/// The conjugate `a − ib` of `a + ib`; a real number becomes complex.
pub(crate) fn conj<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    eqn.ignore(&["input_dtype"]);
    let [z] = eqn.operands()?;
    let z = if eqn.is_complex_operand(0) { Complex::of(z) } else { Complex::of_real(z) };
    Ok(Complex { re: z.re, im: -z.im }.pairs())
}

/// `|z|`
pub(crate) fn abs<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let [z] = eqn.operands()?;
    Ok(Complex::of(z).abs())
}

/// True if both parts are equal.
pub(crate) fn eq<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let [z, w] = eqn.operands()?.map(Complex::of);
    Ok(z.re.equal(w.re).and(z.im.equal(w.im)))
}

/// True if a part differs.
pub(crate) fn ne<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    Ok(eq(ctx, eqn)?.logical_not())
}

/// `zⁿ` by squaring
pub(crate) fn integer_pow<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let n: i64 = eqn.param("y")?;
    eqn.ignore(&["accuracy"]);
    let [z] = eqn.operands()?.map(Complex::of);
    let power = by_squaring(z, n.unsigned_abs(), Complex::mul).unwrap_or_else(|| {
        let one = z.re.constant(1.0).expand(&z.re.shape());
        Complex { re: one, im: z.re.constant(0.0) }
    });
    Ok(if n < 0 { power.recip() } else { power }.pairs())
}

/// `0, 1, 2, …` along one axis, repeated along the others
pub(crate) fn iota<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axis: usize = eqn.param("dimension")?;
    eqn.ignore(&["dtype", "shape"]);
    Ok(Complex::of_real(crate::shape::numbered(ctx, &part_type(eqn.output()?), axis)).pairs())
}

/// Converts a complex number to another precision, a real number to a complex number, or a complex
/// number to its real part.
pub(crate) fn convert<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    eqn.ignore(&["new_dtype", "weak_type"]);
    let [x] = eqn.operands()?;
    let result = eqn.output()?;
    match (eqn.is_complex_operand(0), eqn.part_axes()) {
        (true, 1) => Ok(x.cast(result.dtype)),
        (false, 1) => Ok(Complex::of_real(x.cast(result.dtype)).pairs()),
        _ => Ok(crate::convert::convert(Complex::of(x).re, result.dtype)),
    }
}
