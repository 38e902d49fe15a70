//! Reports the calls of some Python functions, and costs little for all others.
//!
//! Python 3.11 calls a function of PEP 523 to run a frame. This one looks up the frame's code and then lets Python
//! run the frame. Newer versions have `sys.monitoring` for that.

use std::cell::Cell;
use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rustc_hash::FxHashMap;

/// The start of `_PyInterpreterFrame` in Python 3.11, the only version that [`run_frame`] runs in.
#[repr(C)]
struct Frame {
    function: *mut ffi::PyObject,
    globals: *mut ffi::PyObject,
    builtins: *mut ffi::PyObject,
    locals: *mut ffi::PyObject,
    code: *mut ffi::PyObject,
    object: *mut ffi::PyObject,
    previous: *mut Frame,
    instruction: *const u16,
    stack_top: c_int,
    is_entry: bool,
    owner: u8,
    /// The arguments come first.
    variables: [*mut ffi::PyObject; 1],
}

/// The flag of code that takes `*args`.
const CO_VARARGS: usize = 4;

type RunFrame =
    unsafe extern "C" fn(*mut ffi::PyThreadState, *mut Frame, c_int) -> *mut ffi::PyObject;

/// The address of Python's own function that runs a frame.
static PYTHONS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The calls that are reported in this thread.
    static CURRENT: Cell<*const Calls> = const { Cell::new(ptr::null()) };
}

/// The code objects to report, and the functions to call.
#[pyclass(frozen, module = "jax2onnx._core")]
pub(crate) struct Calls {
    /// Where the first argument is among the variables, by the address of the code.
    first_arguments: FxHashMap<usize, Place>,
    /// Held so that their addresses stay their own.
    _codes: Vec<Py<PyAny>>,
    enter: Py<PyAny>,
    leave: Py<PyAny>,
}

#[derive(Clone, Copy)]
enum Place {
    Variable(usize),
    /// The first of `*args`.
    Rest(usize),
}

#[pymethods]
impl Calls {
    /// `enter` is called with a number for the call, the function and its first argument, and `leave` with the
    /// number when the call ends, whether it returns or fails.
    #[new]
    fn new(
        py: Python<'_>,
        codes: Vec<Py<PyAny>>,
        enter: Py<PyAny>,
        leave: Py<PyAny>,
    ) -> PyResult<Calls> {
        let mut first_arguments = FxHashMap::default();
        for code in &codes {
            let number = |name: &str| code.getattr(py, name)?.extract::<usize>(py);
            let takes_rest = number("co_flags")? & CO_VARARGS != 0;
            if number("co_argcount")? > 0 {
                first_arguments.insert(code.as_ptr() as usize, Place::Variable(0));
            } else if takes_rest {
                let place = Place::Rest(number("co_kwonlyargcount")?);
                first_arguments.insert(code.as_ptr() as usize, place);
            }
        }
        Ok(Calls { first_arguments, _codes: codes, enter, leave })
    }

    /// Reports the calls of this thread to this object from now on. `pythons` is the address of
    /// `_PyEval_EvalFrameDefault`. Returns the address of the function that runs frames, and the number to give
    /// to `stop`.
    fn start(slf: &Bound<'_, Calls>, pythons: usize) -> (usize, usize) {
        PYTHONS.store(pythons, Ordering::Release);
        let before = CURRENT.replace(ptr::from_ref(slf.get()));
        (run_frame as *const () as usize, before as usize)
    }

    /// Reports the calls of this thread to whom they were reported before.
    #[expect(clippy::unused_self, reason = "the object lives until here")]
    fn stop(&self, before: usize) {
        CURRENT.set(before as *const Calls);
    }
}

impl Calls {
    /// Returns the first argument of a call that matters.
    #[expect(unsafe_code, reason = "the frame of Python has no safe form")]
    unsafe fn first_argument<'py>(
        &self,
        py: Python<'py>,
        frame: *mut Frame,
    ) -> Option<Bound<'py, PyAny>> {
        // SAFETY: the caller has a frame of Python 3.11 that has not run yet. Its variables begin with the
        // arguments, and the code says how many there are.
        unsafe {
            let place = self.first_arguments.get(&((*frame).code as usize))?;
            let variables = (&raw const (*frame).variables).cast::<*mut ffi::PyObject>();
            let (Place::Variable(index) | Place::Rest(index)) = *place;
            let variable = Bound::from_borrowed_ptr_or_opt(py, *variables.add(index))?;
            match place {
                Place::Variable(_) => Some(variable),
                Place::Rest(_) => variable.cast::<PyTuple>().ok()?.get_item(0).ok(),
            }
        }
    }
}

/// Runs a frame. Reports the call before its first instruction, and its end.
#[expect(unsafe_code, reason = "Python calls this with borrowed pointers")]
unsafe extern "C" fn run_frame(
    state: *mut ffi::PyThreadState,
    frame: *mut Frame,
    is_thrown: c_int,
) -> *mut ffi::PyObject {
    // SAFETY: `Calls::start` stores the address before Python is told to call this. Python holds its lock and
    // the frame during the call. `CURRENT` is null or an object that lives until `stop`.
    unsafe {
        let pythons: RunFrame = std::mem::transmute(PYTHONS.load(Ordering::Acquire));
        let Some(calls) = CURRENT.get().as_ref() else {
            return pythons(state, frame, is_thrown);
        };
        let py = Python::assume_attached();
        let Some(argument) = calls.first_argument(py, frame) else {
            return pythons(state, frame, is_thrown);
        };
        let function = Bound::from_borrowed_ptr(py, (*frame).function);
        if let Err(error) = calls.enter.call1(py, (frame as usize, function, argument)) {
            error.restore(py);
            return ptr::null_mut();
        }
        let result = pythons(state, frame, is_thrown);
        let raised = if result.is_null() { PyErr::take(py) } else { None };
        match calls.leave.call1(py, (frame as usize,)) {
            Ok(_) => {
                if let Some(error) = raised {
                    error.restore(py);
                }
                result
            }
            Err(error) => {
                ffi::Py_XDECREF(result);
                error.restore(py);
                ptr::null_mut()
            }
        }
    }
}
