//! An equation as a plugin sees it: operands, parameters and the types of the results.

use std::rc::Rc;
use std::sync::Arc;

use jaxpr::{FromParam, ParamError, Reading};
use onnx::{Expr, Type};

use crate::element::{Element, part_type};
use crate::error::Refused;

/// The parameters for the placement of arrays on devices. A model runs on one device, so plugins do
/// not read them.
pub(super) const SHARDINGS: &[&str] = &[
    "concrete_mesh",
    "context_mesh",
    "ctx_mesh",
    "dst_sharding",
    "in_shardings",
    "out_sharding",
    "out_shardings",
    "sharding",
];

/// An equation with its operands already lowered.
pub(crate) struct Eqn<'g, 'a> {
    pub primitive: &'a Arc<str>,
    pub inputs: Vec<Expr<'g>>,
    /// The types of the results, as JAX states them.
    pub outputs: Vec<Type>,
    /// The element types of the operands in JAX.
    pub input_dtypes: Vec<jaxpr::DType>,
    /// The element types of the results in JAX.
    pub output_dtypes: Vec<jaxpr::DType>,
    pub(super) params: Rc<Reading<'a>>,
}

impl<'g> Eqn<'g, '_> {
    /// Returns the operands of a primitive that takes `N` of them.
    pub fn operands<const N: usize>(&self) -> Result<[Expr<'g>; N], Refused> {
        self.inputs.as_slice().try_into().map_err(|_| Refused::Internal {
            primitive: self.primitive.clone(),
            what: format!("{} operands instead of {N}", self.inputs.len()),
        })
    }

    /// Returns the parameter `name`, which is required.
    pub fn param<T: FromParam>(&self, name: &str) -> Result<T, ParamError> {
        self.optional(name)?.ok_or_else(|| ParamError::Missing {
            primitive: self.primitive.clone(),
            name: name.into(),
        })
    }

    /// Returns the parameter `name`, or `None` if this version of JAX does not write it.
    pub fn optional<T: FromParam>(&self, name: &str) -> Result<Option<T>, ParamError> {
        let Some(param) = self.params.get(name) else {
            return Ok(None);
        };
        let value = T::from_param(param).ok_or_else(|| {
            let (primitive, name) = (self.primitive.clone(), name.into());
            let found = param.to_string();
            if param.is_symbolic() {
                ParamError::Symbolic { primitive, name, found }
            } else {
                ParamError::Kind { primitive, name, found, wanted: T::WANTED }
            }
        })?;
        Ok(Some(value))
    }

    /// Marks parameters that do not change the numbers as read.
    pub fn ignore(&self, names: &[&str]) {
        for name in names {
            let _ = self.params.get(name);
        }
    }

    /// Marks all parameters as read.
    pub fn ignore_all(&self) {
        self.params.ignore_all();
    }

    /// Refuses parameters that are set to anything but `None` or `False`.
    pub fn refuse(&self, names: &[&str]) -> Result<(), Refused> {
        for name in names {
            match self.params.get(name) {
                None | Some(jaxpr::Param::None | jaxpr::Param::Bool(false)) => {}
                Some(given) => {
                    return Err(Refused::NoCounterpart { what: format!("{name}={given}") });
                }
            }
        }
        Ok(())
    }

    /// Reads the parameters of an elementwise formula: ignores the hint `accuracy`, and refuses
    /// `out_dtype`, which would change the result.
    pub fn ignore_hints(&self) -> Result<(), Refused> {
        self.ignore(&["accuracy"]);
        self.refuse(&["out_dtype"])
    }

    /// True if the operand at `index` is complex.
    pub fn is_complex_operand(&self, index: usize) -> bool {
        matches!(self.input_dtypes.get(index), Some(jaxpr::DType::C64 | jaxpr::DType::C128))
    }

    /// Returns the refusal of an equation that does not have the form that its primitive requires.
    pub fn broken(&self, what: &str) -> Refused {
        Refused::Internal { primitive: self.primitive.clone(), what: what.into() }
    }

    /// Returns the type of the first result.
    pub fn output(&self) -> Result<&Type, Refused> {
        self.outputs.first().ok_or_else(|| self.broken("no result"))
    }

    /// Returns the number of axes of parts in the first result: 1 if its elements have parts,
    /// otherwise 0.
    pub fn part_axes(&self) -> usize {
        usize::from(self.output_dtypes.first().is_some_and(Element::has_parts))
    }
}

impl<'g, 'a> Eqn<'g, 'a> {
    /// Returns the first element type of the operands and results that has parts.
    pub fn dtype_with_parts(&self) -> Option<&jaxpr::DType> {
        self.input_dtypes.iter().chain(&self.output_dtypes).find(|dtype| Element::has_parts(dtype))
    }

    /// Returns the equation with real operands, and with real types in place of complex ones.
    pub fn with_real_operands(&self, inputs: Vec<Expr<'g>>) -> Eqn<'g, 'a> {
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
    pub fn refused_of(&self, dtype: &jaxpr::DType) -> Refused {
        let what = format!("{} of {dtype}", self.primitive);
        match dtype {
            jaxpr::DType::C64 | jaxpr::DType::C128 => Refused::OfComplex { what },
            _ => Refused::OfKeys { what },
        }
    }
}
