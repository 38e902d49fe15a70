//! Finds primitives without a plugin that are defined by JAX code.

use std::sync::Arc;

use jax2onnx::PLUGINS;
use jaxpr::{Param, Params};
use pyo3::prelude::*;
use pyo3::types::PyString;
use rustc_hash::FxHashSet;

use super::Reader;

/// The maximum number of nested definitions of one primitive.
const MAX_DEPTH: usize = 8;

/// Finds the definitions of primitives.
pub(super) struct Definitions<'py> {
    /// Takes an equation, as `_tracing/definitions.py` describes.
    define: Option<Bound<'py, PyAny>>,
    /// The primitives of the table.
    with_plugin: FxHashSet<&'static str>,
    /// The primitives whose definitions are being read, the innermost last.
    open: Vec<Arc<str>>,
}

impl<'py> Definitions<'py> {
    pub(super) fn new(define: Option<Bound<'py, PyAny>>) -> Definitions<'py> {
        let with_plugin = PLUGINS.iter().map(|plugin| plugin.primitive).collect();
        Definitions { define, with_plugin, open: Vec::new() }
    }
}

impl<'py> Reader<'py> {
    /// Returns the primitive and the parameters of a call of the definition, if the primitive has no plugin and is
    /// defined by JAX code. If the definition cannot be used, the parameters contain the reason.
    pub(super) fn defined(
        &mut self,
        primitive: &Arc<str>,
        eqn: &Bound<'py, PyAny>,
    ) -> PyResult<Option<(Arc<str>, Params)>> {
        let Definitions { define: Some(define), with_plugin, open } = &self.definitions else {
            return Ok(None);
        };
        if with_plugin.contains(&**primitive) {
            return Ok(None);
        }
        if open.iter().filter(|name| *name == primitive).count() == MAX_DEPTH {
            return Ok(Some(undefined(primitive, "it calls itself")));
        }
        let definition = define.call1((eqn,))?;
        if definition.is_none() {
            return Ok(None);
        }
        if let Ok(why) = definition.cast::<PyString>() {
            return Ok(Some(undefined(primitive, &why.to_string_lossy())));
        }
        self.definitions.open.push(primitive.clone());
        let body = self.jaxpr(&definition)?;
        self.definitions.open.pop();
        let name = ("name".into(), Param::Str(primitive.clone()));
        let params = Params::new(vec![name, ("call_jaxpr".into(), Param::Jaxpr(body))]);
        Ok(Some(("closed_call".into(), params)))
    }
}

fn undefined(primitive: &Arc<str>, why: &str) -> (Arc<str>, Params) {
    let why = (jaxpr::NO_DEFINITION.into(), Param::Str(why.into()));
    (primitive.clone(), Params::new(vec![why]))
}
