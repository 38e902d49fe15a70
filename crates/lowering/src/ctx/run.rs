//! Runs a plugin on an equation, whether its elements are numbers or carried as parts.

use onnx::Expr;

use super::{Ctx, Eqn};
use crate::complex::{Complex, part_type};
use crate::element::Element;
use crate::error::{Refused, Result};
use crate::plugin::{Lower, Parts, Plugin};

impl<'g> Ctx<'g> {
    /// Runs a plugin on an equation whose elements are numbers.
    pub(super) fn run(&self, plugin: &Plugin, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
        if let Lower::Unary(_) | Lower::Binary(_) = plugin.lower {
            eqn.ignore_hints()?;
        }
        match plugin.lower {
            Lower::Unary(formula) => {
                let [x] = eqn.operands()?;
                if plugin.composite && x.tensor().is_none() {
                    let name = plugin.primitive;
                    let attrs = Vec::new();
                    return Ok(vec![self.builder.composite(name, [x], attrs, |[x]| formula(x))]);
                }
                Ok(vec![formula(x)])
            }
            Lower::Binary(formula) => {
                let [x, y] = eqn.operands()?;
                Ok(vec![formula(x, y)])
            }
            Lower::One(lower) => Ok(vec![lower(self, eqn)?]),
            Lower::Many(lower) => lower(self, eqn),
        }
    }

    /// Runs a plugin on elements that are carried as parts, in the way that the table declares.
    pub(super) fn run_on_parts(
        &self,
        plugin: &Plugin,
        eqn: &Eqn<'g, '_>,
        dtype: &jaxpr::DType,
    ) -> Result<Vec<Expr<'g>>> {
        let is_complex = matches!(dtype, jaxpr::DType::C64 | jaxpr::DType::C128);
        match plugin.parts {
            Parts::AsTheyAre => self.run(plugin, eqn),
            _ if !is_complex => Err(eqn.refused_of(dtype).into()),
            Parts::Refused => Err(eqn.refused_of(dtype).into()),
            Parts::Linear => {
                let re = self.run(plugin, &eqn.part(&|z| z.re))?;
                let im = self.run(plugin, &eqn.part(&|z| z.im))?;
                Ok(re.into_iter().zip(im).map(|(re, im)| Complex { re, im }.pairs()).collect())
            }
            Parts::Bilinear => {
                let [x, y] = eqn.operands()?;
                let run = |x: Expr<'g>, y: Expr<'g>| -> Result<Expr<'g>> {
                    let results = self.run(plugin, &eqn.with_operands(vec![x, y]))?;
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
                let [z, w] = eqn.operands()?.map(Complex::of);
                Ok(vec![formula(z, w).pairs()])
            }
            Parts::Eqn(lower) => Ok(vec![lower(self, eqn)?]),
        }
    }
}

impl<'g, 'a> Eqn<'g, 'a> {
    /// Returns the first element type of the equation that is carried as parts.
    pub(super) fn dtype_with_parts(&self) -> Option<&jaxpr::DType> {
        self.input_dtypes.iter().chain(&self.output_dtypes).find(|dtype| Element::has_parts(dtype))
    }

    /// Replaces each complex operand by one of its parts.
    fn part(&self, part: &dyn Fn(Complex<'g>) -> Expr<'g>) -> Eqn<'g, 'a> {
        let operands = self.inputs.iter().enumerate().map(|(index, &input)| {
            if self.is_complex_operand(index) { part(Complex::of(input)) } else { input }
        });
        self.with_operands(operands.collect())
    }

    /// Replaces the operands by real ones, and the types of the equation with them.
    fn with_operands(&self, inputs: Vec<Expr<'g>>) -> Eqn<'g, 'a> {
        let real = |dtypes: &[jaxpr::DType]| -> Vec<jaxpr::DType> {
            let real = |dtype: &jaxpr::DType| match dtype {
                jaxpr::DType::C64 => jaxpr::DType::F32,
                jaxpr::DType::C128 => jaxpr::DType::F64,
                other => other.clone(),
            };
            dtypes.iter().map(real).collect()
        };
        let outputs = self.outputs.iter().zip(&self.output_dtypes);
        Eqn {
            primitive: self.primitive,
            inputs,
            outputs: outputs
                .map(
                    |(ty, dtype)| {
                        if Element::has_parts(dtype) { part_type(ty) } else { ty.clone() }
                    },
                )
                .collect(),
            input_dtypes: real(&self.input_dtypes),
            output_dtypes: real(&self.output_dtypes),
            params: self.params.clone(),
        }
    }

    /// Returns the refusal of a primitive that does not accept elements of this type.
    fn refused_of(&self, dtype: &jaxpr::DType) -> Refused {
        let what = format!("{} of {dtype}", self.primitive);
        match dtype {
            jaxpr::DType::C64 | jaxpr::DType::C128 => Refused::OfComplex { what },
            _ => Refused::OfKeys { what },
        }
    }
}
