//! Calls Python functions and restores their changes, whatever happens.
//!
//! Between two instructions of Python, a signal handler or a trace function may raise an exception. This may happen
//! between the instruction that changes something and the start of the `try` that restores it, and even inside the
//! `finally`. The functions in this module contain no such instruction.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// The maximum number of failures of `restore`. Each time, a signal handler may have interrupted it.
const MAX_ATTEMPTS: usize = 100;

/// Calls `body`, and then `restore`, whether `body` returns or fails. Returns the result of `body`.
///
/// If `restore` is interrupted, it is called again, so it must be possible to call it several times. The interrupt
/// is raised afterwards.
#[pyfunction]
pub(crate) fn restoring<'py>(
    body: &Bound<'py, PyAny>,
    restore: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let result = body.call0();
    let mut interrupt = None;
    for _ in 0..MAX_ATTEMPTS {
        match restore.call0() {
            Ok(_) => break,
            Err(error) => interrupt = Some(error),
        }
    }
    match (result, interrupt) {
        (result, None) => result,
        (Ok(_), Some(interrupt)) => Err(interrupt),
        (Err(error), Some(interrupt)) => {
            interrupt.set_context(body.py(), Some(error));
            Err(interrupt)
        }
    }
}

/// Calls `body` inside context managers, like a `with` statement. Returns the result of `body`.
#[pyfunction]
pub(crate) fn inside<'py>(
    managers: Vec<Bound<'py, PyAny>>,
    body: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = body.py();
    let mut entered = Vec::new();
    let mut result = Ok(py.None().into_bound(py));
    for manager in managers {
        match manager.call_method0("__enter__") {
            Ok(_) => entered.push(manager),
            Err(error) => {
                result = Err(error);
                break;
            }
        }
    }
    if result.is_ok() {
        result = body.call0();
    }
    for manager in entered.iter().rev() {
        let raised = match &result {
            Ok(_) => (py.None(), py.None(), py.None()).into_pyobject(py)?,
            Err(error) => raised(py, error)?,
        };
        if let Err(error) = manager.call_method1("__exit__", raised) {
            result = Err(error);
        }
    }
    result
}

/// Returns the arguments of `__exit__` for an exception.
fn raised<'py>(py: Python<'py>, error: &PyErr) -> PyResult<Bound<'py, PyTuple>> {
    (error.get_type(py), error.value(py), error.traceback(py)).into_pyobject(py)
}
