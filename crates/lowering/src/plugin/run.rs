//! Runs a plugin on an equation of numbers, or of elements with parts.

use onnx::Expr;

use super::{Lower, Parts, Plugin};
use crate::ctx::{Ctx, Eqn, Primitive};
use crate::error::Result;
use crate::parts::Complex;

impl Primitive for Plugin {
    fn lower<'g>(&self, ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
        eqn.ignore(self.ignored);
        match eqn.dtype_with_parts() {
            Some(dtype) => self.run_on_parts(ctx, eqn, dtype),
            None => self.run(ctx, eqn),
        }
    }

    fn is_formula(&self) -> bool {
        matches!(self.lower, Lower::Unary(_) | Lower::Binary(_))
    }

    fn is_ambiguous(&self) -> bool {
        self.is_ambiguous
    }
}

impl Plugin {
    /// Lowers an equation whose elements are numbers.
    fn run<'g>(&self, ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
        if self.is_formula() {
            eqn.ignore_hints()?;
        }
        match self.lower {
            Lower::Unary(formula) => {
                let [x] = eqn.operands()?;
                if self.composite && x.tensor().is_none() {
                    let (name, attrs) = (self.primitive, Vec::new());
                    return Ok(vec![ctx.builder.composite(name, [x], attrs, |[x]| formula(x))]);
                }
                Ok(vec![formula(x)])
            }
            Lower::Binary(formula) => {
                let [x, y] = eqn.operands()?;
                Ok(vec![formula(x, y)])
            }
            Lower::One(lower) => Ok(vec![lower(ctx, eqn)?]),
            Lower::Many(lower) => lower(ctx, eqn),
        }
    }

    /// Lowers an equation whose elements have parts, in the way that the table declares.
    fn run_on_parts<'g>(
        &self,
        ctx: &Ctx<'g>,
        eqn: &Eqn<'g, '_>,
        dtype: &jaxpr::DType,
    ) -> Result<Vec<Expr<'g>>> {
        let is_complex = matches!(dtype, jaxpr::DType::C64 | jaxpr::DType::C128);
        match self.parts {
            Parts::Unchanged => self.run(ctx, eqn),
            Parts::Apart if !(is_complex && are_apart(eqn)) => self.run(ctx, eqn),
            _ if !is_complex => Err(eqn.refused_of(dtype).into()),
            Parts::Refused => Err(eqn.refused_of(dtype).into()),
            Parts::Linear | Parts::Apart => {
                let re = self.run(ctx, &with_part(eqn, |z| z.re))?;
                let im = self.run(ctx, &with_part(eqn, |z| z.im))?;
                Ok(re.into_iter().zip(im).map(|(re, im)| Complex { re, im }.pairs()).collect())
            }
            Parts::Bilinear => {
                let [x, y] = eqn.operands()?;
                let run = |x: Expr<'g>, y: Expr<'g>| -> Result<Expr<'g>> {
                    let results = self.run(ctx, &eqn.with_real_operands(vec![x, y]))?;
                    Ok(results.first().copied().ok_or_else(|| eqn.broken("no result"))?)
                };
                let (re, im) = match [0, 1].map(|index| eqn.is_complex_operand(index)) {
                    [true, false] => (run(Complex::of(x).re, y)?, run(Complex::of(x).im, y)?),
                    [false, true] => (run(x, Complex::of(y).re)?, run(x, Complex::of(y).im)?),
                    _ => {
                        let (z, w) = (Complex::of(x), Complex::of(y));
                        let re = run(z.re, w.re)? - run(z.im, w.im)?;
                        (re, run(z.re, w.im)? + run(z.im, w.re)?)
                    }
                };
                Ok(vec![Complex { re, im }.pairs()])
            }
            Parts::Unary(formula) => {
                eqn.ignore_hints()?;
                let [z] = eqn.operands()?.map(Complex::of);
                Ok(vec![formula(z).pairs()])
            }
            Parts::Binary(formula) => {
                eqn.ignore_hints()?;
                let [x, y] = eqn.operands()?;
                // The power of a complex number may be an integer.
                let number = |index: usize, x: Expr<'g>| match eqn.is_complex_operand(index) {
                    true => Complex::of(x),
                    false => Complex { re: x, im: x.constant(0.0) },
                };
                Ok(vec![formula(number(0, x), number(1, y)).pairs()])
            }
            Parts::Eqn(lower) => Ok(vec![lower(ctx, eqn)?]),
        }
    }
}

/// True if each complex operand is made of parts, or is a constant.
fn are_apart(eqn: &Eqn<'_, '_>) -> bool {
    let complex = eqn.inputs.iter().enumerate().filter(|(index, _)| eqn.is_complex_operand(*index));
    let complex: Vec<Expr<'_>> = complex.map(|(_, &input)| input).collect();
    let is_apart = |input: &Expr<'_>| Complex::is_apart(*input);
    complex.iter().any(is_apart)
        && complex.iter().all(|input| is_apart(input) || input.tensor().is_some())
}

/// Replaces each complex operand by one of its parts.
fn with_part<'g, 'a>(eqn: &Eqn<'g, 'a>, part: impl Fn(Complex<'g>) -> Expr<'g>) -> Eqn<'g, 'a> {
    let operands = eqn.inputs.iter().enumerate().map(|(index, &input)| {
        if eqn.is_complex_operand(index) { part(Complex::of(input)) } else { input }
    });
    eqn.with_real_operands(operands.collect())
}
