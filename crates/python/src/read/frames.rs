//! Reads tracebacks and name stacks.

use std::sync::Arc;

use provenance::{
    File, FileId, FunctionId, Location, LocationId, ScopeId, ScopeKind, Span, StackId, Table, Tier,
    Tiers,
};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use rustc_hash::FxHashMap;

use super::Reader;
use super::held::{Held, address};
use crate::compat::{self, Jax};
use crate::sources;

/// Functions of `_tracing/writes.py` that call a function of the user, or a method of a linen module.
const WATCHING: [&str; 2] = ["Writes.watching.<locals>.call", "_Linen._call"];

/// Functions through which linen calls [`WATCHING`], from the inside out.
const INTERCEPTING: [&str; 2] =
    ["run_interceptors.<locals>.wrap_interceptor.<locals>.wrapped", "run_interceptors"];

/// Converts tracebacks to call paths, each distinct one once.
pub(super) struct Frames<'py> {
    tiers: Tiers,
    /// `find` of `_cells.py`, if the program runs in a notebook.
    cells: Option<Bound<'py, PyAny>>,
    /// Maps a traceback, which compares by content, to the id of its stack, or to `None`.
    stacks: Bound<'py, PyDict>,
    codes: Held<'py, Code>,
    locations: FxHashMap<(usize, i64), LocationId>,
}

/// A name scope, and the module whose method runs in it, as `_tracing/scopes.py` identifies modules.
#[derive(Clone)]
pub(super) struct Scoped {
    pub(super) scope: Option<ScopeId>,
    pub(super) module: Arc<str>,
}

/// The facts about a code object.
#[derive(Clone, Copy)]
struct Code {
    file: FileId,
    /// The number of lines before the code, for a cell of a notebook that begins with `%%time`.
    lines_before: u32,
    function: FunctionId,
    /// True if JAX starts to trace another function here.
    is_boundary: bool,
    /// True for [`WATCHING`]. Call paths omit these functions.
    is_watching: bool,
    /// True for [`INTERCEPTING`]. Call paths contain these functions only if they call functions of the user.
    is_intercepting: bool,
}

impl<'py> Frames<'py> {
    pub(super) fn new(
        py: Python<'py>,
        tiers: Tiers,
        cells: Option<Bound<'py, PyAny>>,
    ) -> Frames<'py> {
        Frames {
            tiers,
            cells,
            stacks: PyDict::new(py),
            codes: Held::default(),
            locations: FxHashMap::default(),
        }
    }

    /// Returns the file with a name in Python, and the number to add to its lines. No other function names files,
    /// so that a cell of a notebook has the same name and the same lines everywhere.
    pub(super) fn file(
        &self,
        table: &mut Table,
        path: &str,
        function: (&str, u32),
        code: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(FileId, u32)> {
        let tier = self.tiers.of(path);
        let cells = self.cells.as_ref().filter(|_| tier == Tier::User);
        let found = cells.map(|cells| cells.call1((path, function, code))).transpose()?;
        let Some(cell) = found.filter(|cell| !cell.is_none()) else {
            return Ok((table.file(path, tier), 0));
        };
        let (name, text, lines_before): (String, String, u32) = cell.extract()?;
        let hash = sources::keep_cell(cell.py(), &name, &text)?;
        let file = File { path: name.into(), tier, cell: Some(hash.into()) };
        Ok((table.add_file(file), lines_before))
    }

    /// Returns the call path of a traceback, up to the function in which JAX began to trace the jaxpr.
    pub(super) fn stack(
        &mut self,
        table: &mut Table,
        traceback: &Bound<'py, PyAny>,
    ) -> PyResult<Option<StackId>> {
        if traceback.is_none() {
            return Ok(None);
        }
        if let Some(known) = self.stacks.get_item(traceback)? {
            return Ok(known.extract::<Option<u32>>()?.map(StackId));
        }
        let mut locations = Vec::new();
        let (codes, instructions) = compat::raw_frames(traceback)?;
        let mut is_hidden = false;
        for (code, instruction) in codes.try_iter()?.zip(instructions) {
            let code = code?;
            let known = self.code(table, &code)?;
            if known.is_boundary {
                break;
            }
            is_hidden = known.is_watching || (is_hidden && known.is_intercepting);
            if is_hidden {
                continue;
            }
            let key = (address(&code), instruction);
            if let Some(&location) = self.locations.get(&key) {
                locations.push(location);
                continue;
            }
            let location = table.location(locate(traceback, &code, instruction, known)?);
            self.locations.insert(key, location);
            locations.push(location);
        }
        let frames = locations.into_iter().rev();
        let stack = frames.fold(None, |caller, location| Some(table.push(caller, location)));
        self.stacks.set_item(traceback, stack.map(|stack| stack.0))?;
        Ok(stack)
    }

    fn code(&mut self, table: &mut Table, code: &Bound<'py, PyAny>) -> PyResult<Code> {
        if let Some(known) = self.codes.get(code) {
            return Ok(known);
        }
        let py = code.py();
        let path = code.getattr(intern!(py, "co_filename"))?.cast_into::<PyString>()?;
        let name = code.getattr(intern!(py, "co_qualname"))?.cast_into::<PyString>()?;
        let name = name.to_string_lossy();
        let line: u32 = code.getattr(intern!(py, "co_firstlineno"))?.extract().unwrap_or(0);
        let path = path.to_string_lossy();
        let (file, lines_before) = self.file(table, &path, (&name, line), Some(code))?;
        let is_internal = table.get_file(file).tier == Tier::Internal;
        let read = Code {
            file,
            lines_before,
            function: table.function(&name),
            is_boundary: is_internal && Jax::is_trace_boundary(&name),
            is_watching: is_internal && WATCHING.contains(&&*name),
            is_intercepting: INTERCEPTING.contains(&&*name),
        };
        Ok(self.codes.keep(code, read))
    }
}

/// Returns the location of an instruction.
fn locate(
    traceback: &Bound<'_, PyAny>,
    code: &Bound<'_, PyAny>,
    instruction: i64,
    Code { file, function, lines_before, .. }: Code,
) -> PyResult<Location> {
    let py = code.py();
    let place = traceback
        .get_type()
        .call_method1(intern!(py, "code_addr2location"), (code, instruction))?;
    let (line, column, end_line, end_column): (i64, i64, i64, i64) = place.extract()?;
    let known = |number: i64| u32::try_from(number).ok();
    let below = |line: i64| known(line)?.checked_add(lines_before);
    let span = || {
        Some(Span {
            column: known(column)?,
            end_line: below(end_line)?,
            end_column: known(end_column)?,
        })
    };
    Ok(Location { file, function, line: below(line).unwrap_or(0), span: span() })
}

/// Separates the parts that `_tracing/scopes.py` writes for a module: its name, its calling module and the module
/// itself.
const SEPARATOR: char = '\u{1f}';

impl<'py> Reader<'py> {
    /// Returns the name scope of a name stack, and the innermost module in it.
    ///
    /// JAX reuses traced code in other modules and in other exports. So the name of a module is valid only inside
    /// the module that called it during tracing, and is omitted elsewhere.
    pub(super) fn scope(&mut self, name_stack: &Bound<'py, PyAny>) -> PyResult<Scoped> {
        if let Some((known, names_modules)) = self.scopes.get(name_stack, &self.module) {
            self.names_modules |= names_modules;
            let module = if names_modules { known.module } else { self.module.clone() };
            return Ok(Scoped { module, ..known });
        }
        let py = name_stack.py();
        let mut read = Scoped { scope: None, module: self.module.clone() };
        let mut names_modules = false;
        for entry in name_stack.getattr(intern!(py, "stack"))?.try_iter()? {
            let entry = entry?;
            let is_transform = Jax::is_transform(&entry)?;
            let kind = if is_transform { ScopeKind::Transform } else { ScopeKind::Name };
            let text = self.text(&entry.getattr(intern!(py, "name"))?)?;
            let mut parts = text.split(SEPARATOR);
            let name = parts.next().unwrap_or_default();
            if let (Some(caller), Some(called)) = (parts.next(), parts.next()) {
                names_modules = true;
                if caller != &*read.module {
                    continue;
                }
                read.module = called.into();
            }
            read.scope = Some(self.table.scope(read.scope, kind, name));
        }
        self.names_modules |= names_modules;
        self.scopes.keep(name_stack, &self.module, read.clone(), names_modules);
        Ok(read)
    }
}
