//! Reads jaxprs and nested jaxprs.
//!
//! A program may nest jaxprs more deeply than the stack of the caller allows, so the reader keeps open bodies in a
//! list instead of using recursion.

use std::sync::Arc;

use jaxpr::{Atom, Constant, Eqn, Jaxpr, SourceInfo, VarId};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyIterator;

use super::eqn::Header;
use super::{Reader, Vars, input_names};
use crate::compat::Body;
use crate::error;

/// The maximum number of nested jaxprs that Python traces for the reader.
const MAX_TRACED: usize = 24;

/// The maximum stack size for one of them, including Python's part.
const TRACED_STACK: usize = 96 << 10;

/// A jaxpr whose equations are being read.
struct Open<'py> {
    /// The objects that represent this jaxpr. Each of them leads to it.
    objects: Vec<Bound<'py, PyAny>>,
    jaxpr: Bound<'py, PyAny>,
    /// The module whose method contains it.
    module: Arc<str>,
    /// True if the enclosing jaxpr contains the name of a module.
    names_modules_around: bool,
    name: Arc<str>,
    place: SourceInfo,
    vars: Vars,
    constants: Vec<(VarId, Constant)>,
    inputs: Vec<VarId>,
    input_names: Vec<Arc<str>>,
    equations: Bound<'py, PyIterator>,
    eqns: Vec<Eqn>,
    /// The equation whose jaxprs are read before its parameters, and the jaxprs that are left.
    current: Option<(Bound<'py, PyAny>, Header)>,
    unread: Vec<Bound<'py, PyAny>>,
}

impl<'py> Reader<'py> {
    /// Reads an open or closed jaxpr. A body that many equations share is read once.
    pub(super) fn jaxpr(&mut self, jaxpr: &Bound<'py, PyAny>) -> PyResult<Arc<Jaxpr>> {
        if let Some(known) = self.known(jaxpr)? {
            return Ok(known);
        }
        let has_stack = || stacker::remaining_stack().is_none_or(|left| left > TRACED_STACK);
        if self.traced == MAX_TRACED || (self.traced > 0 && !has_stack()) {
            return Err(error::endless());
        }
        self.traced += 1;
        let module = self.module.clone();
        let opened = self.open(jaxpr, module.clone())?;
        let read = self.read(opened);
        self.module = module;
        self.traced -= 1;
        read
    }

    /// Returns a jaxpr that was read before.
    pub(super) fn known(&mut self, jaxpr: &Bound<'py, PyAny>) -> PyResult<Option<Arc<Jaxpr>>> {
        if let Some((known, names_modules)) = self.bodies.get(jaxpr, &self.module) {
            self.names_modules |= names_modules;
            return Ok(Some(known));
        }
        let Some(shared) = shared(jaxpr, &Body::of(jaxpr)?)? else { return Ok(None) };
        let Some((known, names_modules)) = self.bodies.get(&shared, &self.module) else {
            return Ok(None);
        };
        self.names_modules |= names_modules;
        self.bodies.keep(jaxpr, &self.module, known.clone(), names_modules);
        Ok(Some(known))
    }

    /// Reads an open jaxpr and all nested ones.
    fn read(&mut self, outermost: Open<'py>) -> PyResult<Arc<Jaxpr>> {
        let mut around = Vec::new();
        let mut current = outermost;
        loop {
            let next = self.advance(&mut current)?;
            if let Some((inner, module)) = next {
                let inner = self.open(&inner, module)?;
                around.push(std::mem::replace(&mut current, inner));
                continue;
            }
            let read = self.close(current)?;
            match around.pop() {
                Some(outer) => current = outer,
                None => return Ok(read),
            }
        }
    }

    /// Reads equations until all are read, or until a jaxpr must be read before the next one. Returns that jaxpr,
    /// with the module whose method contains it.
    fn advance(&mut self, open: &mut Open<'py>) -> PyResult<Option<(Bound<'py, PyAny>, Arc<str>)>> {
        loop {
            let (eqn, header) = match open.current.take() {
                Some(current) => current,
                None => match open.equations.next() {
                    Some(eqn) => {
                        let eqn = eqn?;
                        self.module.clone_from(&open.module);
                        let header = self.header(&open.vars, &eqn)?;
                        (eqn, header)
                    }
                    None => return Ok(None),
                },
            };
            self.module.clone_from(&header.module);
            while let Some(inner) = open.unread.pop() {
                // Two parameters may be the same jaxpr.
                if self.known(&inner)?.is_none() {
                    let module = header.module.clone();
                    open.current = Some((eqn, header));
                    return Ok(Some((inner, module)));
                }
            }
            let params = self.parameters(&eqn, &header)?;
            if !self.unread.is_empty() {
                open.unread = std::mem::take(&mut self.unread);
                open.current = Some((eqn, header));
                continue;
            }
            let mut eqn = self.eqn(&mut open.vars, &eqn, header, params)?;
            if self.is_of_another_trace(&open.place, &eqn.place) {
                eqn.place.stack = None;
            }
            open.eqns.push(eqn);
        }
    }

    fn open(&mut self, jaxpr: &Bound<'py, PyAny>, module: Arc<str>) -> PyResult<Open<'py>> {
        let body = Body::of(jaxpr)?;
        let objects = shared(jaxpr, &body)?.into_iter().chain([jaxpr.clone()]).collect();
        let names_modules_around = std::mem::replace(&mut self.names_modules, false);
        let Body { jaxpr, consts } = body;
        let py = jaxpr.py();
        let mut vars = Vars::default();
        let mut constants = Vec::new();
        let mut inputs = Vec::new();
        for var in jaxpr.getattr(intern!(py, "constvars"))?.try_iter()? {
            inputs.push(self.define(&mut vars, &var?)?);
        }
        let captured = inputs.len();
        if let Some(consts) = &consts {
            for (var, value) in std::mem::take(&mut inputs).into_iter().zip(consts.try_iter()?) {
                constants.push((var, self.constant(&value?)?));
            }
        }
        for var in jaxpr.getattr(intern!(py, "invars"))?.try_iter()? {
            inputs.push(self.define(&mut vars, &var?)?);
        }
        let unnamed = if consts.is_some() { 0 } else { captured };
        let debug_info = jaxpr.getattr(intern!(py, "debug_info"))?;
        let (name, place) = self.function(&debug_info)?;
        Ok(Open {
            objects,
            module,
            names_modules_around,
            name,
            place,
            vars,
            constants,
            input_names: input_names(&debug_info, unnamed, inputs.len())?,
            inputs,
            equations: jaxpr.getattr(intern!(py, "eqns"))?.try_iter()?,
            jaxpr,
            eqns: Vec::new(),
            current: None,
            unread: Vec::new(),
        })
    }

    fn close(&mut self, open: Open<'py>) -> PyResult<Arc<Jaxpr>> {
        let Open { objects, jaxpr, module, names_modules_around, vars, eqns, .. } = open;
        let py = jaxpr.py();
        let mut outputs: Vec<Atom> = Vec::new();
        for atom in jaxpr.getattr(intern!(py, "outvars"))?.try_iter()? {
            outputs.push(self.atom(&vars, &atom?)?);
        }
        let depth = eqns.iter().map(Eqn::depth).max().unwrap_or(0);
        let equations = eqns.iter().map(Eqn::equations).fold(0, usize::saturating_add);
        let read = Arc::new(Jaxpr {
            name: open.name,
            vars: vars.vars,
            constants: open.constants,
            inputs: open.inputs,
            input_names: open.input_names,
            eqns,
            outputs,
            place: open.place,
            depth,
            equations,
        });
        for object in &objects {
            self.bodies.keep(object, &module, read.clone(), self.names_modules);
        }
        self.names_modules |= names_modules_around;
        Ok(read)
    }
}

/// Returns the jaxpr inside a closed one, if it has no constants. Closed jaxprs around the same jaxpr are then
/// equal.
fn shared<'py>(jaxpr: &Bound<'py, PyAny>, body: &Body<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let has_constants = match &body.consts {
        Some(consts) => consts.len()? > 0,
        None => false,
    };
    Ok((!has_constants && !body.jaxpr.is(jaxpr)).then(|| body.jaxpr.clone()))
}
