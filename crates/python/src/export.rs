//! What Python calls.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use jax2onnx::{File, Options, PassOptions, Rendering};
use jaxpr::Program;
use provenance::render::ExportFrame;
use provenance::{Level, PathPolicy, Paths, Tiers};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::error;
use crate::read::{Plugins, Reader};
use crate::sources;

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
/// `export_stack` holds (file, line, function) of each frame, outermost first, `prefixes` the folders that
/// are written as something else, and `definition` file, line and name of the function that is exported; `names` gives the name of an array by its identity, as
/// `_weights.identity` says; `plugins` has the `primitives` that plugins were registered for, and the
/// function `record` that calls them; `optimize` says whether to rewrite what plugins made, `norms` whether a
/// norm may become one operator, `exact_nan` whether nodes are spent on NaN, and `explain` is called with what the passes did. `source_map` is where
/// to write the source map, with the text of the source files where `embed_sources` says so.
#[pyfunction]
#[pyo3(signature = (
    closed_jaxpr, *, model_name, opset, level, path_policy, export_stack, tiers,
    prefixes = Vec::new(), definition = None, input_names = Vec::new(), output_names = Vec::new(), input_paths = Vec::new(),
    output_paths = Vec::new(), output_path = None, external_threshold = 1 << 30, names = None,
    plugins = None, optimize = true, norms = true, exact_nan = true, explain = None, source_map = None,
    embed_sources = false,
))]
#[expect(
    clippy::too_many_arguments,
    clippy::fn_params_excessive_bools,
    reason = "each is a keyword on the Python side"
)]
pub(crate) fn export<'py>(
    closed_jaxpr: &Bound<'py, PyAny>,
    model_name: String,
    opset: i64,
    level: &str,
    path_policy: &str,
    export_stack: Vec<(String, u32, String)>,
    tiers: TierRules,
    prefixes: Vec<(String, String)>,
    definition: Option<(String, u32, String)>,
    input_names: Vec<String>,
    output_names: Vec<String>,
    input_paths: Vec<String>,
    output_paths: Vec<String>,
    output_path: Option<PathBuf>,
    external_threshold: usize,
    names: Option<Bound<'py, PyDict>>,
    plugins: Option<Plugins<'py>>,
    optimize: bool,
    norms: bool,
    exact_nan: bool,
    explain: Option<Bound<'py, PyAny>>,
    source_map: Option<PathBuf>,
    embed_sources: bool,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let py = closed_jaxpr.py();
    let rendering = Rendering {
        level: level.parse::<Level>().map_err(|error| error::unknown_word(&error))?,
        paths: path_policy.parse::<PathPolicy>().map_err(|error| error::unknown_word(&error))?,
        export_stack: export_stack.into_iter().map(export_frame).collect(),
        packages: tiers.internal.clone(),
        prefixes,
    };
    let options = Options {
        model_name,
        opset,
        input_names,
        output_names,
        input_paths,
        output_paths,
        exact_nan,
    };
    error::without_panic(|| {
        let (program, failures) = read(closed_jaxpr, tiers, names, definition, plugins)?;
        let passes = PassOptions { optimize, norms };
        let model = jax2onnx::convert(program, &options, &passes, &|file| sources::text(py, file))
            .map_err(|error| error::raise_from(py, error, failures))?;
        if let Some(explain) = explain {
            let text = jax2onnx::explain(&model, rendering.paths, &rendering.packages);
            explain.call1((text,))?;
        }
        let sources = |file: &File| sources::about(py, file, embed_sources);
        let sources = source_map.is_some().then_some(&sources as &jax2onnx::Sources<'_>);
        let annotated = jax2onnx::annotate(&model, &rendering, sources);
        let staged_map = match source_map.zip(annotated.source_map()) {
            Some((path, text)) => Some((stage_text(&path, text)?, path)),
            None => None,
        };
        let bytes = if let Some(path) = output_path {
            let written = annotated.to_file(&path, external_threshold);
            written.map_err(|error| error::raise_for_file(error, &path))?;
            None
        } else {
            let message = annotated.to_message().map_err(error::raise)?;
            Some(PyBytes::new_with(py, message.size(), |buffer| {
                message.write_into(buffer);
                Ok(())
            })?)
        };
        if let Some((staged, path)) = staged_map {
            let moved = staged.commit();
            moved.map_err(|error| error::raise_for_file(error.into(), &path))?;
        }
        Ok(bytes)
    })
}

fn stage_text(path: &Path, text: &str) -> PyResult<jax2onnx::Staged> {
    jax2onnx::stage_text(path, text).map_err(|error| error::raise_for_file(error, path))
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
