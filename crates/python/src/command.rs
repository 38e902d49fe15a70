//! The command line, for Python.

use std::ffi::OsString;

use cli::{
    ArraySpec, CompareRequest, LowerRequest, ParamValue, Request, SensitivityRequest, Size, Task,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::options::written;

/// Runs the command line. The arguments include the name of the program. `python` is called with the name and the
/// arguments of a command that needs Python, and returns the exit code.
#[pyfunction]
#[pyo3(signature = (arguments, python = None))]
pub(crate) fn main(
    py: Python<'_>,
    arguments: Vec<OsString>,
    python: Option<Py<PyAny>>,
) -> PyResult<i32> {
    let mut raised = None;
    let failure = &mut raised;
    let code = py.detach(|| {
        let mut call = python.map(|python| {
            move |task: &Task<'_>| {
                Python::attach(|py| {
                    let answer = request(py, task)
                        .and_then(|(command, keywords)| {
                            python.call(py, (command,), Some(&keywords))
                        })
                        .and_then(|code| code.extract(py));
                    answer.unwrap_or_else(|error| {
                        *failure = Some(error);
                        2
                    })
                })
            }
        });
        let python = call.as_mut().map(|call| call as &mut cli::Python<'_>);
        let (mut out, mut err) = (std::io::stdout().lock(), std::io::stderr().lock());
        cli::run(arguments, &mut out, &mut err, cli::Screen::detect(), python)
    });
    raised.map_or(Ok(code), Err)
}

/// Returns the name of a command, and its arguments.
fn request<'py>(py: Python<'py>, task: &Task<'_>) -> PyResult<(&'static str, Bound<'py, PyDict>)> {
    match task {
        Task::Export(request) => Ok(("export", keywords(py, request)?)),
        Task::Compare(request) => Ok(("compare", comparison(py, request)?)),
        Task::Sensitivity(request) => Ok(("sensitivity", ranking(py, request)?)),
        Task::Lower(request) => Ok(("lower", lowering(py, request)?)),
        Task::Machine(request) => {
            let keywords = PyDict::new(py);
            keywords.set_item("threads", request.threads)?;
            Ok(("machine", keywords))
        }
        Task::Config { json } => Ok(("config", form(py, *json)?)),
        Task::Doctor { json } => Ok(("doctor", form(py, *json)?)),
    }
}

/// Returns the arguments of a command that has only an output format.
fn form(py: Python<'_>, json: bool) -> PyResult<Bound<'_, PyDict>> {
    let keywords = PyDict::new(py);
    keywords.set_item("json", json)?;
    Ok(keywords)
}

fn keywords<'py>(py: Python<'py>, request: &Request<'_>) -> PyResult<Bound<'py, PyDict>> {
    let keywords = PyDict::new(py);
    let inputs: PyResult<Vec<_>> =
        request.inputs.iter().map(|input| Ok((&input.name, array(py, &input.array)?))).collect();
    let params = PyDict::new(py);
    for (name, value) in request.input_params {
        match value {
            ParamValue::Flag(flag) => params.set_item(name, flag)?,
            ParamValue::Whole(number) => params.set_item(name, number)?,
            ParamValue::Number(number) => params.set_item(name, number)?,
            ParamValue::Array(spec) => params.set_item(name, array(py, spec)?)?,
        }
    }
    keywords.set_item("function", request.function)?;
    keywords.set_item("inputs", inputs?)?;
    keywords.set_item("input_params", params)?;
    keywords.set_item("output", request.output)?;
    keywords.set_item("data", request.data)?;
    keywords.set_item("budget", request.budget)?;
    keywords.set_item("dry_run", request.dry_run)?;
    keywords.set_item("quiet", request.quiet)?;
    keywords.set_item("json", request.json)?;
    let options = PyDict::new(py);
    for (name, value) in request.options {
        options.set_item(name, written(py, value)?)?;
    }
    keywords.set_item("options", options)?;
    Ok(keywords)
}

fn comparison<'py>(py: Python<'py>, request: &CompareRequest<'_>) -> PyResult<Bound<'py, PyDict>> {
    let keywords = PyDict::new(py);
    keywords.set_item("model", request.model)?;
    keywords.set_item("other", request.other)?;
    keywords.set_item("function", request.function)?;
    keywords.set_item("nan", request.nan)?;
    keywords.set_item("inputs", request.inputs)?;
    keywords.set_item("providers", request.providers)?;
    keywords.set_item("runtime", request.runtime)?;
    keywords.set_item("captured", request.captured)?;
    keywords.set_item("rtol", request.rtol)?;
    keywords.set_item("atol", request.atol)?;
    keywords.set_item("top", request.top)?;
    keywords.set_item("reproducer", request.reproducer)?;
    keywords.set_item("keep_float32", request.keep_float32)?;
    keywords.set_item("double", request.double)?;
    keywords.set_item("verbose", request.verbose)?;
    keywords.set_item("quiet", request.quiet)?;
    keywords.set_item("source_map", request.map)?;
    keywords.set_item("source_roots", request.source_roots)?;
    keywords.set_item("json", request.json)?;
    Ok(keywords)
}

fn ranking<'py>(py: Python<'py>, request: &SensitivityRequest<'_>) -> PyResult<Bound<'py, PyDict>> {
    let keywords = PyDict::new(py);
    keywords.set_item("model", request.model)?;
    keywords.set_item("inputs", request.inputs)?;
    keywords.set_item("to", request.to)?;
    keywords.set_item("top", request.top)?;
    keywords.set_item("quiet", request.quiet)?;
    keywords.set_item("source_map", request.map)?;
    keywords.set_item("source_roots", request.source_roots)?;
    keywords.set_item("json", request.json)?;
    Ok(keywords)
}

fn lowering<'py>(py: Python<'py>, request: &LowerRequest<'_>) -> PyResult<Bound<'py, PyDict>> {
    let keywords = PyDict::new(py);
    keywords.set_item("model", request.model)?;
    keywords.set_item("path", request.path)?;
    keywords.set_item("inputs", request.inputs)?;
    keywords.set_item("to", request.to)?;
    keywords.set_item("budget", request.budget)?;
    keywords.set_item("metric", request.metric)?;
    keywords.set_item("keep", request.keep)?;
    keywords.set_item("weights_only", request.weights_only)?;
    keywords.set_item("dynamic", request.dynamic)?;
    keywords.set_item("target", request.target)?;
    keywords.set_item("convert_inputs_and_outputs", request.convert_inputs_and_outputs)?;
    keywords.set_item("quiet", request.quiet)?;
    keywords.set_item("source_map", request.map)?;
    keywords.set_item("source_roots", request.source_roots)?;
    keywords.set_item("json", request.json)?;
    Ok(keywords)
}

/// A type and a shape.
type Array<'py> = (&'static str, Bound<'py, PyTuple>);

/// Reads an input spec: `x=f32[B,784]` becomes `("x", ("float32", ("B", 784)))`.
#[pyfunction]
pub(crate) fn read_input<'py>(
    py: Python<'py>,
    text: &str,
) -> PyResult<(Option<String>, Array<'py>)> {
    let input = cli::read_input(text).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((input.name, array(py, &input.array)?))
}

/// Returns a type and a shape: `("float32", ("B", 784))`.
fn array<'py>(py: Python<'py>, spec: &ArraySpec) -> PyResult<Array<'py>> {
    let sizes: PyResult<Vec<Bound<'py, PyAny>>> = spec
        .shape
        .iter()
        .map(|size| match size {
            Size::Known(size) => Ok(size.into_pyobject(py)?.into_any()),
            Size::Named(name) => Ok(name.into_pyobject(py)?.into_any()),
        })
        .collect();
    Ok((spec.dtype, PyTuple::new(py, sizes?)?))
}
