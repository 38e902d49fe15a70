//! Reads equations and their operands.

use std::sync::Arc;

use jaxpr::{Atom, Eqn, Param, Params, Recipe, SourceInfo};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::frames::Scoped;
use super::held::address;
use super::{Reader, Vars};
use crate::compat::Jax;
use crate::error;

/// An equation without its parameters and its results.
pub(super) struct Header {
    primitive: Arc<str>,
    inputs: Vec<Atom>,
    place: SourceInfo,
    /// The module that contains the equation.
    pub(super) module: Arc<str>,
    recipe: Option<Arc<Recipe>>,
    /// The primitive and the parameters of the call that replaces the equation, if JAX code defines its primitive.
    defined: Option<(Arc<str>, Params)>,
}

impl<'py> Reader<'py> {
    /// Reads everything that does not depend on the jaxprs inside the equation.
    pub(super) fn header(&mut self, vars: &Vars, eqn: &Bound<'py, PyAny>) -> PyResult<Header> {
        let py = eqn.py();
        let primitive = self.primitive(&eqn.getattr(intern!(py, "primitive"))?)?;
        let mut inputs = Vec::new();
        for atom in eqn.getattr(intern!(py, "invars"))?.try_iter()? {
            inputs.push(self.atom(vars, &atom?)?);
        }
        let (place, module) = self.place(&eqn.getattr(intern!(py, "source_info"))?)?;
        self.module.clone_from(&module);
        let recipe = self.recipe(&primitive, eqn)?;
        let defined = match recipe {
            Some(_) => None,
            None => self.defined(&primitive, eqn)?,
        };
        Ok(Header { primitive, inputs, place, module, recipe, defined })
    }

    /// Reads the parameters. If some of them are jaxprs that are not read yet, adds these to `unread`, and the
    /// parameters must be read again after them.
    pub(super) fn parameters(
        &mut self,
        eqn: &Bound<'py, PyAny>,
        header: &Header,
    ) -> PyResult<Params> {
        if let Some((_, params)) = &header.defined {
            return Ok(params.clone());
        }
        let primitive = &header.primitive;
        self.params(eqn, primitive).map_err(|error| {
            let what = format!("while reading the parameters of `{primitive}`");
            error::during(eqn.py(), error, &what)
        })
    }

    /// Reads the results of an equation.
    pub(super) fn eqn(
        &mut self,
        vars: &mut Vars,
        eqn: &Bound<'py, PyAny>,
        header: Header,
        params: Params,
    ) -> PyResult<Eqn> {
        let Header { primitive, inputs, place, recipe, defined, .. } = header;
        let primitive = defined.map_or(primitive, |(primitive, _)| primitive);
        let mut outputs = Vec::new();
        for var in eqn.getattr(intern!(eqn.py(), "outvars"))?.try_iter()? {
            outputs.push(self.define(vars, &var?)?);
        }
        Ok(Eqn { primitive, inputs, outputs, params, place, recipe })
    }

    /// Returns the name of a primitive.
    fn primitive(&mut self, primitive: &Bound<'py, PyAny>) -> PyResult<Arc<str>> {
        if let Some(known) = self.primitives.get(primitive) {
            return Ok(known);
        }
        let name = self.text(&primitive.getattr(intern!(primitive.py(), "name"))?)?;
        Ok(self.primitives.keep(primitive, name))
    }

    pub(super) fn atom(&mut self, vars: &Vars, atom: &Bound<'py, PyAny>) -> PyResult<Atom> {
        if let Some(&var) = vars.ids.get(&address(atom)) {
            return Ok(Atom::Var(var));
        }
        let py = atom.py();
        if !atom.is_instance(&self.jax.literal)? {
            return Err(PyValueError::new_err(format!("{atom} is read before it is computed")));
        }
        let value = atom.getattr(intern!(py, "val"))?;
        let aval = atom.getattr(intern!(py, "aval"))?;
        Ok(Atom::Literal(self.literal(&value, &aval)?))
    }

    /// Returns the parameters, with the settings of JAX that the primitive depends on.
    fn params(&mut self, eqn: &Bound<'py, PyAny>, primitive: &str) -> PyResult<Params> {
        let params = eqn.getattr(intern!(eqn.py(), "params"))?;
        let params = params.cast::<PyDict>()?;
        let mut entries = Vec::with_capacity(params.len());
        for (key, value) in params {
            let name = self.text(&key)?;
            match Jax::renamed(primitive, &name, &value)? {
                Some(renamed) => {
                    entries.extend(renamed.into_iter().map(|(name, value)| (name.into(), value)));
                }
                None => entries.push((name, self.counted(primitive, &value)?)),
            }
        }
        if let Some((name, value)) = self.jax.settings_of(primitive) {
            entries.push((name.into(), value));
        }
        Ok(Params::new(entries))
    }

    /// Reads a parameter. Markers of ONNX functions contain the number of a call in the process, which is replaced
    /// with the number in this program, so that equal programs are read equally.
    fn counted(&mut self, primitive: &str, value: &Bound<'py, PyAny>) -> PyResult<Param> {
        let mut param = self.param(value)?;
        if let ("onnx_function", Param::Int(count)) = (primitive, &mut param) {
            let next = self.calls.len() as i64;
            *count = *self.calls.entry(*count).or_insert(next);
        }
        Ok(param)
    }

    /// Returns the source location of an equation, and the module that contains it.
    fn place(&mut self, source_info: &Bound<'py, PyAny>) -> PyResult<(SourceInfo, Arc<str>)> {
        let py = source_info.py();
        let traceback = source_info.getattr(intern!(py, "traceback"))?;
        let stack = self.frames.stack(&mut self.table, &traceback)?;
        let name_stack = source_info.getattr(intern!(py, "name_stack"))?;
        let Scoped { scope, module } = self.scope(&name_stack)?;
        Ok((SourceInfo { stack, scope }, module))
    }
}
