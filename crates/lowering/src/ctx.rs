//! The context of a lowering: what a plugin needs to read an equation and to build nodes.

mod equation;
mod run;
mod sizes;
mod walk;

use std::cell::RefCell;
use std::sync::Arc;

use jaxpr::Aval;
use onnx::{Builder, Dim, Expr, Type};
use provenance::StackId;
use rustc_hash::FxHashMap;

pub(crate) use self::equation::Eqn;
use crate::element::{self, Element};
use crate::error::Refused;
use crate::plugin::Plugin;

/// Lowers one program.
pub(crate) struct Ctx<'g> {
    pub builder: &'g Builder,
    plugins: FxHashMap<&'static str, &'static Plugin>,
    /// The place where the exported function is defined.
    definition: Option<StackId>,
    /// The shape of the arrays when a body of scalars is lowered on each of their elements.
    on_each: RefCell<Option<Arc<[Dim]>>>,
}

impl<'g> Ctx<'g> {
    pub(crate) fn new(
        builder: &'g Builder,
        plugins: &'static [Plugin],
        definition: Option<StackId>,
    ) -> Ctx<'g> {
        Ctx {
            builder,
            definition,
            plugins: plugins.iter().map(|plugin| (plugin.primitive, plugin)).collect(),
            on_each: RefCell::default(),
        }
    }

    /// Returns the ONNX type of a value, if the model can compute its sizes.
    pub fn ty(&self, aval: &Aval) -> Result<Type, Refused> {
        match aval {
            Aval::Array { dtype, shape } => {
                let Element { dtype, parts } = Element::in_opset(dtype, self.builder.opset())?;
                let each = self.on_each.borrow().as_ref().filter(|_| shape.is_empty()).cloned();
                let mut shape = match each {
                    Some(each) => each.to_vec(),
                    None => self.dims(shape)?,
                };
                shape.extend(parts.map(Dim::Known));
                Ok(Type::new(dtype, shape))
            }
            Aval::Other(text) => Err(Refused::NoType { dtype: text.to_string() }),
        }
    }

    /// Adds a constant of the jaxpr as an initializer.
    pub fn constant(&self, constant: &jaxpr::Constant) -> Result<Expr<'g>, Refused> {
        let tensor = element::tensor(constant)?;
        let is_array = tensor.dtype.is_float() && !tensor.shape.is_empty();
        Ok(match constant.name.is_some() || is_array {
            true => self.builder.weight(tensor, constant.name.clone()),
            false => self.builder.tensor(tensor, None),
        })
    }
}
