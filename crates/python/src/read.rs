//! Reads a jaxpr from Python into [`jaxpr::Program`].
//!
//! Each Python object is read once. It is identified by its address, and kept alive.

mod arrays;
mod avals;
mod body;
mod definition;
mod eqn;
mod frames;
mod held;
mod params;
mod recipe;

use std::sync::Arc;

use jaxpr::{Aval, Constant, DType, Jaxpr, Program, SourceInfo, Var, VarId};
use provenance::{Location, StackId, Table, Tier, Tiers};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use rustc_hash::FxHashMap;

use crate::compat::{self, Jax};
use definition::Definitions;
use frames::{Frames, Scoped};
use held::{Held, HeldByModule, address};
use params::ParamKind;
pub(crate) use recipe::Plugins;

/// The text that `_tracing/scopes.py` writes for a module without a calling module.
const NO_MODULE: &str = "0";

/// Reads one program.
pub(crate) struct Reader<'py> {
    jax: Jax<'py>,
    table: Table,
    frames: Frames<'py>,
    /// The names of arrays in the user's model, by identity.
    names: Option<Bound<'py, PyDict>>,
    avals: Held<'py, Aval>,
    dtypes: Held<'py, DType>,
    arrays: Held<'py, Constant>,
    texts: Held<'py, Arc<str>>,
    primitives: Held<'py, Arc<str>>,
    kinds: Held<'py, ParamKind<'py>>,
    scopes: HeldByModule<'py, Scoped>,
    bodies: HeldByModule<'py, Arc<Jaxpr>>,
    /// The module whose method is being read, as `_tracing/scopes.py` identifies it.
    module: Arc<str>,
    /// The jaxprs that must be read before the parameters of the equation that is being read.
    unread: Vec<Bound<'py, PyAny>>,
    /// The depth of the current value in a parameter.
    nested: usize,
    /// The number of nested jaxprs being read that Python traced for the reader.
    traced: usize,
    /// True if the current jaxpr contains the name of a module, so that the result depends on the enclosing module.
    names_modules: bool,
    plugins: Option<Plugins<'py>>,
    definitions: Definitions<'py>,
    /// The exceptions that plugins raised.
    failures: Vec<PyErr>,
    /// The calls of ONNX functions, by their numbers in Python.
    calls: FxHashMap<i64, i64>,
}

/// The variables of the jaxpr that is being read.
#[derive(Default)]
struct Vars {
    ids: FxHashMap<usize, VarId>,
    vars: Vec<Var>,
}

impl<'py> Reader<'py> {
    pub(crate) fn new(
        py: Python<'py>,
        tiers: Tiers,
        names: Option<Bound<'py, PyDict>>,
        plugins: Option<Plugins<'py>>,
        define: Option<Bound<'py, PyAny>>,
        cells: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Reader<'py>> {
        Ok(Reader {
            jax: Jax::new(py)?,
            table: Table::default(),
            frames: Frames::new(py, tiers, cells),
            names,
            avals: Held::default(),
            dtypes: Held::default(),
            arrays: Held::default(),
            texts: Held::default(),
            primitives: Held::default(),
            kinds: Held::default(),
            scopes: HeldByModule::default(),
            bodies: HeldByModule::default(),
            unread: Vec::new(),
            nested: 0,
            traced: 0,
            module: NO_MODULE.into(),
            names_modules: false,
            plugins,
            definitions: Definitions::new(define),
            failures: Vec::new(),
            calls: FxHashMap::default(),
        })
    }

    /// Reads a whole program. `definition` is the file, the line and the qualified name of its function. Also
    /// returns the exceptions that plugins raised.
    pub(crate) fn program(
        mut self,
        closed_jaxpr: &Bound<'py, PyAny>,
        definition: Option<(String, u32, String)>,
    ) -> PyResult<(Program, Vec<PyErr>)> {
        let mut main = self.jaxpr(closed_jaxpr)?;
        // Nothing else refers to the jaxpr anymore, so its equations are not copied.
        self.bodies = HeldByModule::default();
        if let Some((file, line, function)) = definition {
            let stack = Some(self.definition(&file, line, &function)?);
            Arc::make_mut(&mut main).place = SourceInfo { stack, scope: None };
        }
        Ok((Program { table: self.table, main }, self.failures))
    }

    /// Assigns the next id to a variable. A dropped variable may be used for several outputs.
    fn define(&mut self, vars: &mut Vars, var: &Bound<'py, PyAny>) -> PyResult<VarId> {
        let aval = self.aval(&var.getattr(intern!(var.py(), "aval"))?)?;
        let id = VarId(vars.vars.len() as u32);
        vars.vars.push(Var { aval });
        vars.ids.insert(address(var), id);
        Ok(id)
    }

    /// Returns the name of the function that a jaxpr was traced from, and the location of its definition.
    fn function(&mut self, debug_info: &Bound<'py, PyAny>) -> PyResult<(Arc<str>, SourceInfo)> {
        let source = debug_info.getattr_opt(intern!(debug_info.py(), "func_src_info"))?;
        let Some(Ok(source)) = source.map(Bound::cast_into::<PyString>) else {
            return Ok(("".into(), SourceInfo::default()));
        };
        let (name, definition) = compat::function_source(&source)?;
        let stack =
            definition.map(|(file, line)| self.definition(&file, line, &name)).transpose()?;
        Ok((name.into(), SourceInfo { stack, scope: None }))
    }

    /// True if the call path of an equation in a function of `jnp` does not pass through that function.
    ///
    /// While JAX transforms an equation, everything that it traces has the traceback of that equation. From 0.12
    /// on, this includes functions such as `_where`, whose jaxpr JAX then uses in other programs too. Other
    /// functions of JAX run code of the user, whose tracebacks may end there.
    fn is_of_another_trace(&self, function: &SourceInfo, eqn: &SourceInfo) -> bool {
        let (Some(definition), Some(stack)) = (function.stack, eqn.stack) else {
            return false;
        };
        let file_of = |location| self.table.get_location(location).file;
        let is_internal = |file| self.table.get_file(file).tier == Tier::Internal;
        let Some(own) = self.table.frames(definition).map(file_of).next() else {
            return false;
        };
        let is_of_arrays = || {
            let path = self.table.get_file(own).path.replace('\\', "/");
            ["/_src/numpy/", "/_src/nn/"].iter().any(|folder| path.contains(folder))
        };
        let files = || self.table.frames(stack).map(file_of);
        is_internal(own)
            && is_of_arrays()
            && files().all(|file| file != own)
            && files().any(|file| !is_internal(file))
    }

    /// Returns a call path that consists of the line of a function's definition.
    fn definition(&mut self, file: &str, line: u32, function: &str) -> PyResult<StackId> {
        let (file, lines_before) =
            self.frames.file(&mut self.table, file, (function, line), None)?;
        let location = Location {
            file,
            function: self.table.function(function),
            line: line.saturating_add(lines_before),
            span: None,
        };
        let location = self.table.location(location);
        Ok(self.table.push(None, location))
    }

    /// Returns a text. Equal Python objects share it.
    fn text(&mut self, text: &Bound<'py, PyAny>) -> PyResult<Arc<str>> {
        if let Some(known) = self.texts.get(text) {
            return Ok(known);
        }
        let read = text.cast::<PyString>()?.to_str()?.into();
        Ok(self.texts.keep(text, read))
    }
}

/// Returns the names of the arguments, one per input; empty if JAX does not know all of them.
fn input_names(
    debug_info: &Bound<'_, PyAny>,
    unnamed: usize,
    wanted: usize,
) -> PyResult<Vec<Arc<str>>> {
    let names = debug_info.getattr_opt(intern!(debug_info.py(), "arg_names"))?;
    let Some(names) = names.filter(|names| !names.is_none()) else {
        return Ok(Vec::new());
    };
    let mut read: Vec<Arc<str>> = vec!["".into(); unnamed];
    for name in names.try_iter()? {
        read.push(name?.str()?.to_str()?.into());
    }
    Ok(if read.len() == wanted { read } else { Vec::new() })
}
