//! Reads the recipes that plugins written in Python return for equations.

use std::sync::Arc;

use jaxpr::{Action, Recipe, RecipeAttr, RecipeFrame, Slot, Step};
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use rustc_hash::FxHashSet;

use super::Reader;

/// The primitives with registered plugins, and the function that is called with their equations.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Plugins<'py> {
    primitives: FxHashSet<String>,
    /// Takes an equation. Returns `None`, a recipe, or the text of an error with its exception.
    record: Bound<'py, PyAny>,
}

type Frames = Vec<(String, u32, String)>;
type Block<'py> =
    (Vec<(u32, Bound<'py, PyAny>)>, Vec<(String, Bound<'py, PyAny>, Vec<u32>, Frames)>, Vec<u32>);
type Node<'py> = (String, i64, String, Vec<Option<u32>>, Vec<(String, String, Bound<'py, PyAny>)>);

impl<'py> Reader<'py> {
    /// Returns the recipe of an equation, if a plugin has one.
    pub(super) fn recipe(
        &mut self,
        primitive: &str,
        eqn: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Arc<Recipe>>> {
        let Some(plugins) = &self.plugins else {
            return Ok(None);
        };
        if !plugins.primitives.contains(primitive) {
            return Ok(None);
        }
        let recorded = plugins.record.call1((eqn,))?;
        if recorded.is_none() {
            return Ok(None);
        }
        if let Ok((message, exception)) = recorded.extract::<(String, Bound<'py, PyException>)>() {
            self.failures.push(PyErr::from_value(exception.into_any()));
            let failure = self.failures.len() - 1;
            let action = Action::Fail { message: message.into(), failure };
            let step = Step { action, outputs: Vec::new(), frames: Vec::new() };
            return Ok(Some(Arc::new(Recipe { steps: vec![step], ..Recipe::default() })));
        }
        Ok(Some(Arc::new(self.block(&recorded)?)))
    }

    fn block(&mut self, recorded: &Bound<'py, PyAny>) -> PyResult<Recipe> {
        let (inputs, steps, results): Block<'py> = recorded.extract()?;
        let inputs = inputs.into_iter().map(|(slot, aval)| Ok((Slot(slot), self.aval(&aval)?)));
        let inputs = inputs.collect::<PyResult<_>>()?;
        let steps = steps.into_iter().map(|(kind, action, outputs, frames)| {
            Ok(Step {
                action: self.action(&kind, &action)?,
                outputs: outputs.into_iter().map(Slot).collect(),
                frames: frames.into_iter().map(frame).collect(),
            })
        });
        let steps = steps.collect::<PyResult<_>>()?;
        Ok(Recipe { inputs, steps, results: results.into_iter().map(Slot).collect() })
    }

    fn action(&mut self, kind: &str, action: &Bound<'py, PyAny>) -> PyResult<Action> {
        match kind {
            "constant" => Ok(Action::Constant(self.constant(action)?)),
            "inline" => {
                let (jaxpr, inputs): (Bound<'py, PyAny>, Vec<u32>) = action.extract()?;
                let inputs = inputs.into_iter().map(Slot).collect();
                Ok(Action::Inline { jaxpr: self.jaxpr(&jaxpr)?, inputs })
            }
            "node" => {
                let (domain, version, op, inputs, attrs): Node<'py> = action.extract()?;
                let attrs = attrs
                    .into_iter()
                    .map(|(name, kind, value)| Ok((name.into(), self.attr(&kind, &value)?)));
                Ok(Action::Node {
                    domain: domain.into(),
                    version,
                    op: op.into(),
                    inputs: inputs.into_iter().map(|slot| slot.map(Slot)).collect(),
                    attrs: attrs.collect::<PyResult<_>>()?,
                })
            }
            other => Err(PyValueError::new_err(format!("`{other}` is not a step of a recipe"))),
        }
    }

    fn attr(&mut self, kind: &str, value: &Bound<'py, PyAny>) -> PyResult<RecipeAttr> {
        Ok(match kind {
            "int" => RecipeAttr::Int(value.extract()?),
            "float" => RecipeAttr::Float(value.extract()?),
            "str" => RecipeAttr::Str(value.extract::<String>()?.into()),
            "ints" => RecipeAttr::Ints(value.extract::<Vec<i64>>()?.into()),
            "floats" => RecipeAttr::Floats(value.extract::<Vec<f32>>()?.into()),
            "strs" => {
                let texts = value.extract::<Vec<String>>()?;
                RecipeAttr::Strs(texts.into_iter().map(Arc::from).collect())
            }
            "tensor" => RecipeAttr::Tensor(self.constant(value)?),
            "body" => RecipeAttr::Body(self.block(value)?),
            other => return Err(PyValueError::new_err(format!("`{other}` is not an attribute"))),
        })
    }
}

fn frame((file, line, function): (String, u32, String)) -> RecipeFrame {
    RecipeFrame { file: file.into(), line, function: function.into() }
}
