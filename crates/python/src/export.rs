//! Converts a jaxpr, or prints it: the functions that Python calls.

use std::cell::RefCell;

use jax2onnx::{Annotated, Call, File, Trial};
use jaxpr::Program;
use provenance::PathPolicy;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::error;
use crate::files;
use crate::options::{ExportOptions, Frame, Output, Reading, TierRules};
use crate::pairs;
use crate::read::Reader;
use crate::sources;
use crate::worker;

/// Converts a closed jaxpr. Returns the model, or writes it to the `output_path` of the options.
///
/// Python can run other threads meanwhile, and the user can interrupt the export between two phases.
///
/// `without` names a rewrite to leave out, to measure what it is worth.
#[pyfunction]
#[pyo3(signature = (closed_jaxpr, options, *, without = None))]
pub(crate) fn export<'py>(
    closed_jaxpr: &Bound<'py, PyAny>,
    options: ExportOptions<'py>,
    without: Option<&str>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let py = closed_jaxpr.py();
    let ExportOptions {
        reading,
        options,
        call,
        checks_weights,
        on_phase,
        on_training,
        on_dropped,
        explain,
        on_pairs,
        summarize,
        rendering,
        output,
    } = options;
    error::without_panic(|| {
        let (program, failures) = read(closed_jaxpr, reading)?;
        if let Some(on_training) = on_training.filter(|_| !jaxpr::walk::is_plain(&program.main)) {
            on_training.call1((closed_jaxpr,))?;
        }
        // These listeners observe the conversion, so it must not be repeated.
        let checks_weights =
            checks_weights || explain.is_some() || on_pairs.is_some() || summarize.is_some();
        let (on_phase, explain) = (on_phase.map(Bound::unbind), explain.map(Bound::unbind));
        let on_pairs = on_pairs.map(Bound::unbind);
        let summarize = summarize.map(Bound::unbind);
        let needs_stack = worker::needs_stack(&program);
        let (message, dropped) = worker::run(py, needs_stack, |interrupt| {
            let mut begin = |phase: &'static str| {
                interrupt.check();
                if let Some(on_phase) = &on_phase
                    && let Err(error) = Python::attach(|py| on_phase.call1(py, (phase,)))
                {
                    interrupt.end(error);
                }
            };
            let source = |file: &str| Python::attach(|py| sources::text(py, file));
            let without = jax2onnx::rewrites().find(|&name| Some(name) == without);
            let trial = without.map(|name| Trial { without: Some(name), ..Trial::default() });
            let call = Call { max_depth: interrupt.max_depth(), trial, ..call };
            let converted =
                jax2onnx::convert(program, &options, &call, checks_weights, &source, &mut begin);
            let model = converted
                .map_err(|error| Python::attach(|py| error::raise_from(py, error, failures)))?;
            if let Some(explain) = explain {
                let text = jax2onnx::explain(&model, rendering.paths, &rendering.packages);
                Python::attach(|py| explain.call1(py, (text,)))?;
            }
            if let Some(on_pairs) = on_pairs {
                Python::attach(|py| on_pairs.call1(py, (pairs::records(py, model.pairs())?,)))?;
            }
            let dropped = jax2onnx::dropped_callbacks(&model, rendering.paths, &rendering.packages);
            if let Some(summarize) = summarize {
                let summary = jax2onnx::summary(&model);
                Python::attach(|py| summarize.call1(py, (described(py, summary)?,)))?;
                return Ok((None, dropped));
            }
            let sources =
                |file: &File| Python::attach(|py| sources::about(py, file, output.embed_sources));
            let has_map = output.source_map.is_some();
            let annotated = jax2onnx::annotate(&model, &rendering, &sources, has_map);
            begin("write");
            Ok::<_, PyErr>((write(&annotated, &output)?, dropped))
        })??;
        if let Some(on_dropped) = on_dropped.filter(|_| !dropped.is_empty()) {
            on_dropped.call1((dropped,))?;
        }
        // No other code has access to the new object yet.
        let filled = |message: jax2onnx::Message| {
            PyBytes::new_with(py, message.size(), |buffer| {
                py.detach(|| message.write_into(buffer)).map_err(|error| error::raise(error.into()))
            })
        };
        message.map(filled).transpose()
    })
}

/// The name of a rewrite, how many times it applied, and the number of additional nodes without it.
type Row = (&'static str, usize, isize);

/// Optimizes a closed jaxpr with all rewrites and without each of them. Returns the number of nodes with all of them, and
/// a row for each rewrite that applied.
#[pyfunction]
pub(crate) fn worth<'py>(
    closed_jaxpr: &Bound<'py, PyAny>,
    options: ExportOptions<'py>,
) -> PyResult<(usize, Vec<Row>)> {
    let py = closed_jaxpr.py();
    let ExportOptions { reading, options, call, checks_weights, .. } = options;
    error::without_panic(|| {
        let (program, failures) = read(closed_jaxpr, reading)?;
        worker::run(py, true, |interrupt| {
            let source = |file: &str| Python::attach(|py| sources::text(py, file));
            let call = Call { max_depth: interrupt.max_depth(), ..call };
            let (nodes, rewrites) =
                jax2onnx::worth(program, &options, &call, checks_weights, &source)
                    .map_err(|error| Python::attach(|py| error::raise_from(py, error, failures)))?;
            let row = |worth: jax2onnx::Worth| (worth.name, worth.applied, worth.saved);
            Ok((nodes, rewrites.into_iter().map(row).collect()))
        })?
    })
}

/// Returns the names of all rewrites.
#[pyfunction]
pub(crate) fn rewrites() -> Vec<&'static str> {
    jax2onnx::rewrites().collect()
}

/// Returns a summary for Python.
fn described(py: Python<'_>, summary: jax2onnx::Summary) -> PyResult<Bound<'_, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("opset", summary.opset)?;
    fields.set_item("weights", summary.weights)?;
    fields.set_item("weight_bytes", summary.weight_bytes)?;
    fields.set_item("inputs", summary.inputs)?;
    fields.set_item("outputs", summary.outputs)?;
    fields.set_item("nodes", summary.ops.values().sum::<usize>())?;
    fields.set_item("ops", summary.ops)?;
    Ok(fields)
}

/// Writes the files of an export, or returns the model if it has no file.
fn write(annotated: &Annotated<'_>, output: &Output) -> PyResult<Option<jax2onnx::Message>> {
    let mut files = files_of(annotated, output);
    let staged_map = match output.source_map.as_deref().zip(annotated.source_map()) {
        Some((path, text)) => {
            let staged = files.write("the source map", path).map_err(jax2onnx::Error::from);
            let staged = staged.and_then(|file| jax2onnx::stage_text(file, text));
            Some((staged.map_err(|error| error::raise_for_file(error, path))?, path))
        }
        None => None,
    };
    let message = if let Some(path) = &output.path {
        let written = files.write("the model", path).map_err(jax2onnx::Error::from);
        let written = written.and_then(|file| annotated.to_file(file, output.external_threshold));
        written.map_err(|error| error::raise_for_file(error, path))?;
        None
    } else {
        Some(annotated.to_message().map_err(error::raise)?)
    };
    if let Some((staged, path)) = staged_map {
        let moved = staged.commit();
        moved.map_err(|error| error::raise_for_file(error.into(), path))?;
    }
    Ok(message)
}

/// Returns the files of an export: the inputs of the program, and the files of its lines.
fn files_of(annotated: &Annotated<'_>, output: &Output) -> jax2onnx::Files {
    let mut files = files::read(&output.inputs);
    for source in annotated.source_files() {
        files.read("a source file of the program", source);
    }
    files
}

/// Prints a closed jaxpr in the text form that the tests of the core use.
#[pyfunction]
#[pyo3(signature = (closed_jaxpr, *, tiers, names = None))]
pub(crate) fn jaxpr_text<'py>(
    closed_jaxpr: &Bound<'py, PyAny>,
    tiers: TierRules,
    names: Option<Bound<'py, PyDict>>,
) -> PyResult<String> {
    error::without_panic(|| {
        let weight_names = names;
        let reading = Reading {
            tiers,
            definition: None,
            weight_names,
            plugins: None,
            define: None,
            cells: None,
        };
        let (program, _) = read(closed_jaxpr, reading)?;
        Ok(jaxpr::text::print(&program))
    })
}

/// Prints every equation of a closed jaxpr for people, with its call site.
#[pyfunction]
#[pyo3(signature = (closed_jaxpr, *, tiers, path_policy, definition = None, cells = None))]
pub(crate) fn recorded_calls<'py>(
    closed_jaxpr: &Bound<'py, PyAny>,
    tiers: TierRules,
    path_policy: &str,
    definition: Option<Frame>,
    cells: Option<Bound<'py, PyAny>>,
) -> PyResult<String> {
    let policy = path_policy.parse::<PathPolicy>().map_err(|error| error::unknown_word(&error))?;
    let packages = tiers.internal.clone();
    let paths = RefCell::new(jax2onnx::paths::on_this_machine(policy).with_packages(&packages));
    error::without_panic(|| {
        let reading =
            Reading { tiers, definition, weight_names: None, plugins: None, define: None, cells };
        let (program, _) = read(closed_jaxpr, reading)?;
        Ok(jaxpr::text::record(&program, &|file| paths.borrow_mut().shown(file)))
    })
}

fn read<'py>(
    closed_jaxpr: &Bound<'py, PyAny>,
    reading: Reading<'py>,
) -> PyResult<(Program, Vec<PyErr>)> {
    let py = closed_jaxpr.py();
    let Reading { tiers, definition, weight_names, plugins, define, cells } = reading;
    Reader::new(py, tiers.into(), weight_names, plugins, define, cells)
        .and_then(|reader| reader.program(closed_jaxpr, definition))
        .map_err(|error| error::reading(py, error))
}
