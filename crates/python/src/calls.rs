//! A profile function of Python that reports the calls of some code and costs little for all other.

use std::ffi::c_int;

use pyo3::ffi;
use pyo3::prelude::*;
use rustc_hash::FxHashSet;

/// The events of a function for `PyEval_SetProfile`, of which these two matter.
const CALL: c_int = 0;
const RETURN: c_int = 3;

/// The object that Python hands to [`on_event`]: which code matters, and whom to tell.
#[pyclass(frozen, module = "jax2onnx._core")]
pub(crate) struct Calls {
    addresses: FxHashSet<usize>,
    /// Held so that their addresses stay their own.
    _codes: Vec<Py<PyAny>>,
    enter: Py<PyAny>,
    leave: Py<PyAny>,
}

#[pymethods]
impl Calls {
    #[new]
    fn new(codes: Vec<Py<PyAny>>, enter: Py<PyAny>, leave: Py<PyAny>) -> Calls {
        let addresses = codes.iter().map(|code| code.as_ptr() as usize).collect();
        Calls { addresses, _codes: codes, enter, leave }
    }

    /// Returns the function for `PyEval_SetProfile`, whose object is to be this one.
    #[getter]
    #[expect(clippy::unused_self, reason = "a property of the class")]
    fn address(&self) -> usize {
        on_event as *const () as usize
    }
}

/// Reports a call before its first instruction, and its end, whether it returns or fails.
#[expect(unsafe_code, reason = "Python calls this with borrowed pointers")]
unsafe extern "C" fn on_event(
    calls: *mut ffi::PyObject,
    frame: *mut ffi::PyFrameObject,
    event: c_int,
    _result: *mut ffi::PyObject,
) -> c_int {
    if event != CALL && event != RETURN {
        return 0;
    }
    // SAFETY: Python holds the lock, both objects and the frame's code during an event, and the
    // first object is the one that was handed over with `Calls::address`.
    unsafe {
        let code = ffi::PyFrame_GetCode(frame);
        ffi::Py_DECREF(code.cast());
        let py = Python::assume_attached();
        let calls = Bound::ref_from_ptr(py, &calls).cast_unchecked::<Calls>().get();
        if !calls.addresses.contains(&(code as usize)) {
            return 0;
        }
        let frame = Bound::from_borrowed_ptr(py, frame.cast());
        let told = if event == CALL { &calls.enter } else { &calls.leave };
        match told.call1(py, (frame,)) {
            Ok(_) => 0,
            Err(error) => {
                error.restore(py);
                -1
            }
        }
    }
}
