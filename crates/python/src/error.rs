//! Converts errors of the core to Python exceptions.

use std::any::Any;
use std::error::Error;
use std::io;
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use jax2onnx::{Refusal, Refused};
use provenance::clean::clean;
use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::prelude::*;

// An error: the name of a class in `_errors.py`, and its arguments. The package may be imported under any name, so
// the core only names the class, and Python raises it.
pyo3::create_exception!(_core, CoreError, PyException);

// The conversion must be repeated with `checks_weights`.
pyo3::create_exception!(_core, AssumptionError, PyException);

/// The classes in `_errors.py` that the core uses.
#[derive(Clone, Copy)]
enum ErrorClass {
    Config,
    Internal,
    Plugin,
    SourceMap,
    Unsupported,
    Write,
}

impl ErrorClass {
    fn error(self, message: String) -> PyErr {
        CoreError::new_err((self.class(), message))
    }

    fn class(self) -> &'static str {
        match self {
            ErrorClass::Config => "ConfigError",
            ErrorClass::Internal => "InternalError",
            ErrorClass::Plugin => "PluginError",
            ErrorClass::SourceMap => "SourceMapError",
            ErrorClass::Unsupported => "UnsupportedError",
            ErrorClass::Write => "WriteError",
        }
    }
}

/// The hint for a broken invariant.
const REPORT: &str = "this is a bug in jax2onnx: please report it with the lines above";

/// Returns the exception for an error of the façade.
pub(crate) fn raise(error: jax2onnx::Error) -> PyErr {
    match error {
        jax2onnx::Error::Lowering { errors, report, refusals } => {
            match errors.last().map(|last| &last.why) {
                Some(Refused::Recipe { .. }) => ErrorClass::Plugin.error(report),
                Some(why) if !why.is_limit() => ErrorClass::Internal.error(report),
                _ => unsupported(report, refusals),
            }
        }
        jax2onnx::Error::Write(
            error @ (jax2onnx::WriteError::Unnamed(_) | jax2onnx::WriteError::Contents { .. }),
        ) => ErrorClass::Internal.error(format!("{error}\n\n{REPORT}")),
        jax2onnx::Error::Write(jax2onnx::WriteError::TooLarge { bytes }) => too_large(
            bytes,
            "use `return_mode='file'`, which writes the weights to a file beside the model",
        ),
        jax2onnx::Error::Write(jax2onnx::WriteError::WrongAssumption) => {
            AssumptionError::new_err(())
        }
        jax2onnx::Error::Write(
            error @ (jax2onnx::WriteError::Taken { .. } | jax2onnx::WriteError::Used { .. }),
        ) => config(&error.to_string()),
        jax2onnx::Error::Write(error) => ErrorClass::Write.error(error.to_string()),
        other => ErrorClass::Internal.error(format!("{other}\n\n{REPORT}")),
    }
}

/// Returns the exception for operations that cannot be exported: the message, and each operation as data.
fn unsupported(report: String, refusals: Vec<Refusal>) -> PyErr {
    let operations: Vec<_> = refusals
        .into_iter()
        .map(|it| (it.message, it.count, it.hint, it.file, it.line, it.function))
        .collect();
    CoreError::new_err((ErrorClass::Unsupported.class(), report, operations))
}

/// Returns the exception for an error of the façade. If a plugin raised an exception, that is its cause.
pub(crate) fn raise_from(py: Python<'_>, error: jax2onnx::Error, failures: Vec<PyErr>) -> PyErr {
    let failure = match &error {
        jax2onnx::Error::Lowering { errors, .. } => match errors.last().map(|last| &last.why) {
            Some(Refused::Recipe { failure, .. }) => *failure,
            _ => None,
        },
        _ => None,
    };
    let raised = raise(error);
    if let Some(cause) = failure.and_then(|number| failures.into_iter().nth(number)) {
        raised.set_cause(py, Some(cause));
    }
    raised
}

/// Returns the exception for an error while `path` was written, with the error of the system as separate arguments.
pub(crate) fn raise_for_file(error: jax2onnx::Error, path: &Path) -> PyErr {
    if let jax2onnx::Error::Write(jax2onnx::WriteError::TooLarge { bytes }) = error {
        return too_large(
            bytes,
            "use `weights='external'` or 'auto', and `export_mode='standard'`",
        );
    }
    let number = system_error(&error).and_then(io::Error::raw_os_error);
    match (number, system_error(&error)) {
        (Some(number), Some(reason)) => {
            let path = path.as_os_str().to_os_string();
            CoreError::new_err((ErrorClass::Write.class(), number, description(reason), path))
        }
        _ => raise(error),
    }
}

/// Returns the exception for a model that is too large for one protobuf message.
fn too_large(bytes: usize, advice: &str) -> PyErr {
    ErrorClass::Config.error(format!(
        "the model with its weights has {bytes} bytes, but one file can hold only 2 GiB: {advice}"
    ))
}

/// Returns the system error that caused an error of jax2onnx.
fn system_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    iter::successors(Some(error), |&error| error.source()).find_map(|error| error.downcast_ref())
}

/// Returns the exception for a source map that cannot be used.
pub(crate) fn source_map(error: &dyn Error) -> PyErr {
    ErrorClass::SourceMap.error(clean(&error.to_string()))
}

/// Returns the exception for an invalid option.
pub(crate) fn config(message: &str) -> PyErr {
    ErrorClass::Config.error(clean(message))
}

/// Returns the exception for a word that is not one of the allowed ones.
pub(crate) fn unknown_word(error: &provenance::level::UnknownWord) -> PyErr {
    ErrorClass::Config.error(error.to_string())
}

/// Returns the exception for a thread that cannot be started.
pub(crate) fn thread(error: &io::Error) -> PyErr {
    PyRuntimeError::new_err(format!(
        "the export needs a thread, but the system cannot start one: {error}"
    ))
}

/// Returns the exception for plugins and definitions of primitives that contain each other endlessly.
pub(crate) fn endless() -> PyErr {
    let why = "plugins and definitions of primitives are nested too deeply";
    let hint = "does the jaxpr that a plugin lowers contain the primitive of the plugin?";
    ErrorClass::Plugin.error(format!("{why}\n\nhint: {hint}"))
}

/// Runs `body`, and turns a panic into an `InternalError`.
pub(crate) fn without_panic<T>(body: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        let what = panic_message(&*payload);
        Err(ErrorClass::Internal
            .error(format!("the export failed with an internal error: {what}\n\n{REPORT}")))
    })
}

/// Returns the exception for an error while a jaxpr was read. Exceptions of jax2onnx stay unchanged. Any other
/// exception means that the reader did not understand JAX.
pub(crate) fn reading(py: Python<'_>, error: PyErr) -> PyErr {
    let is_ours = error.is_instance_of::<CoreError>(py);
    if is_ours || !error.is_instance_of::<PyException>(py) {
        return error;
    }
    let raised =
        ErrorClass::Internal.error(format!("jax2onnx cannot read the jaxpr: {error}\n\n{REPORT}"));
    raised.set_cause(py, Some(error));
    raised
}

/// Adds a note to an exception that says what was being done.
pub(crate) fn during(py: Python<'_>, error: PyErr, what: &str) -> PyErr {
    // A note is optional, so errors are ignored here.
    let _ = error.value(py).call_method1("add_note", (what,));
    error
}

fn panic_message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Returns the system's description of an error, without the number that Python shows itself.
fn description(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
