//! What Python calls.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use jax2onnx::{Options, Rendering};
use jaxpr::Program;
use provenance::render::ExportFrame;
use provenance::{Level, PathPolicy, Paths, Tiers};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::error;
use crate::read::{Plugins, Reader};

/// The rules of [`Tiers`], as a dictionary of lists.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct TierRules {
    added_user: Vec<String>,
    added_library: Vec<String>,
    internal: Vec<String>,
    library: Vec<String>,
    frozen_library: Vec<String>,
}

impl From<TierRules> for Tiers {
    fn from(rules: TierRules) -> Tiers {
        Tiers {
            added_user: rules.added_user,
            added_library: rules.added_library,
            internal: rules.internal,
            library: rules.library,
            frozen_library: rules.frozen_library,
        }
    }
}

/// Converts a closed jaxpr. Gives the model, or writes it to `output_path`.
///
/// `export_stack` holds (file, line, function) of each frame, outermost first, and `definition` those
/// of the function that is exported; `names` gives the name of an array by its identity, as
/// `_weights.identity` says; `plugins` has the `primitives` that plugins were registered for, and the
/// function `record` that calls them.
#[pyfunction]
#[pyo3(signature = (
    closed_jaxpr, *, model_name, opset, level, path_policy, export_stack, tiers,
    definition = None, input_names = Vec::new(), output_names = Vec::new(), input_paths = Vec::new(), output_paths = Vec::new(), output_path = None, external_threshold = 1 << 30, names = None,
    plugins = None,
))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword on the Python side")]
pub(crate) fn export<'py>(
    closed_jaxpr: &Bound<'py, PyAny>,
    model_name: String,
    opset: i64,
    level: &str,
    path_policy: &str,
    export_stack: Vec<(String, u32, String)>,
    tiers: TierRules,
    definition: Option<(String, u32, String)>,
    input_names: Vec<String>,
    output_names: Vec<String>,
    input_paths: Vec<String>,
    output_paths: Vec<String>,
    output_path: Option<PathBuf>,
    external_threshold: usize,
    names: Option<Bound<'py, PyDict>>,
    plugins: Option<Plugins<'py>>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let py = closed_jaxpr.py();
    let rendering = Rendering {
        level: level.parse::<Level>().map_err(|error| error::unknown_word(&error))?,
        paths: path_policy.parse::<PathPolicy>().map_err(|error| error::unknown_word(&error))?,
        export_stack: export_stack.into_iter().map(export_frame).collect(),
        packages: tiers.internal.clone(),
    };
    let options =
        Options { model_name, opset, input_names, output_names, input_paths, output_paths };
    error::without_panic(|| {
        let (program, failures) = read(closed_jaxpr, tiers, names, definition, plugins)?;
        let model = jax2onnx::convert(program, &options, &|file| source_text(py, file))
            .map_err(|error| error::raise_from(py, error, failures))?;
        if let Some(path) = output_path {
            jax2onnx::to_file(&model, &rendering, &path, external_threshold)
                .map_err(|error| error::raise_for_file(error, &path))?;
            return Ok(None);
        }
        let message = jax2onnx::to_message(&model, &rendering).map_err(error::raise)?;
        let bytes = PyBytes::new_with(py, message.size(), |buffer| {
            message.write_into(buffer);
            Ok(())
        })?;
        Ok(Some(bytes))
    })
}

/// The text form of a closed jaxpr, as the tests of the core write it.
#[pyfunction]
#[pyo3(signature = (closed_jaxpr, *, tiers, names = None))]
pub(crate) fn jaxpr_text<'py>(
    closed_jaxpr: &Bound<'py, PyAny>,
    tiers: TierRules,
    names: Option<Bound<'py, PyDict>>,
) -> PyResult<String> {
    error::without_panic(|| {
        let (program, _) = read(closed_jaxpr, tiers, names, None, None)?;
        Ok(jaxpr::text::print(&program))
    })
}

/// Every equation of a closed jaxpr as text for people, with its call site.
#[pyfunction]
#[pyo3(signature = (closed_jaxpr, *, tiers, path_policy, definition = None))]
pub(crate) fn recorded_calls(
    closed_jaxpr: &Bound<'_, PyAny>,
    tiers: TierRules,
    path_policy: &str,
    definition: Option<(String, u32, String)>,
) -> PyResult<String> {
    let policy = path_policy.parse::<PathPolicy>().map_err(|error| error::unknown_word(&error))?;
    let packages = tiers.internal.clone();
    let is_there = |path: &Path| path.exists();
    let paths = RefCell::new(Paths::new(policy, &is_there).with_packages(&packages));
    error::without_panic(|| {
        let (program, _) = read(closed_jaxpr, tiers, None, definition, None)?;
        Ok(jaxpr::text::record(&program, &|file| paths.borrow_mut().shown(file)))
    })
}

fn read<'py>(
    closed_jaxpr: &Bound<'py, PyAny>,
    tiers: TierRules,
    names: Option<Bound<'py, PyDict>>,
    definition: Option<(String, u32, String)>,
    plugins: Option<Plugins<'py>>,
) -> PyResult<(Program, Vec<PyErr>)> {
    let py = closed_jaxpr.py();
    Reader::new(py, tiers.into(), names, plugins)
        .and_then(|reader| reader.program(closed_jaxpr, definition))
        .map_err(|error| error::reading(py, error))
}

fn export_frame((file, line, function): (String, u32, String)) -> ExportFrame {
    ExportFrame { file, line, function }
}

/// The text of a source file as Python's own tracebacks find it: on disk, in a zip, in a notebook.
fn source_text(py: Python<'_>, file: &str) -> Option<String> {
    let lines = py.import("linecache").ok()?.call_method1("getlines", (file,)).ok()?;
    let text = PyString::new(py, "").call_method1("join", (lines,)).ok()?;
    text.extract::<String>().ok().filter(|text| !text.is_empty())
}
