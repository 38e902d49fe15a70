//! Reports the calls of some Python functions, and costs little for all others.
//!
//! Python 3.11 calls a function of PEP 523 to run a frame. This one looks up the frame's code and then lets Python
//! run the frame. Newer versions have `sys.monitoring` for that.
//!
//! With such a function, Python takes longer for every call. So Python runs all frames by itself during a call that
//! leads to no call to report.

use std::cell::Cell;
use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};
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

/// The flags of code that takes `*args` and `**kwargs`.
const CO_VARARGS: usize = 4;
const CO_VARKEYWORDS: usize = 8;

type RunFrame =
    unsafe extern "C" fn(*mut ffi::PyThreadState, *mut Frame, c_int) -> *mut ffi::PyObject;

type GetRunFrame = unsafe extern "C" fn(*mut ffi::PyInterpreterState) -> RunFrame;
type SetRunFrame = unsafe extern "C" fn(*mut ffi::PyInterpreterState, RunFrame);

/// Functions of Python 3.11 that its stable ABI does not have.
#[derive(Clone, Copy)]
struct Functions {
    /// Runs a frame.
    run: RunFrame,
    /// Return and set the function that runs frames.
    get: GetRunFrame,
    set: SetRunFrame,
}

static FUNCTIONS: OnceLock<Functions> = OnceLock::new();

/// How many exports want reports, in all threads.
static WANTED: AtomicUsize = AtomicUsize::new(0);

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
    quiet: Vec<String>,
    /// The other code that ran, by its address.
    others: Mutex<FxHashMap<usize, Other>>,
}

#[derive(Clone, Copy)]
enum Place {
    Variable(usize),
    /// The first of `*args`.
    Rest(usize),
}

/// Code whose calls are not reported.
struct Other {
    /// How many arguments it takes, if it is quiet.
    arguments: Option<usize>,
    _code: Py<PyAny>,
}

#[pymethods]
impl Calls {
    /// `enter` is called with a number for the call, the function and its first argument. It returns whether the call
    /// leads to no other call to report. `leave` is called with the number when the call ends, whether it returns or
    /// fails.
    ///
    /// Code in a file whose path starts with one of `quiet` calls none of `codes`, unless its arguments or free variables
    /// lead to them.
    #[new]
    fn new(
        py: Python<'_>,
        codes: Vec<Py<PyAny>>,
        enter: Py<PyAny>,
        leave: Py<PyAny>,
        quiet: Vec<String>,
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
        let others = Mutex::default();
        Ok(Calls { first_arguments, _codes: codes, enter, leave, quiet, others })
    }

    /// Reports the calls of this thread to this object from now on. Takes the addresses of `_PyEval_EvalFrameDefault`
    /// and of the functions that return and set the function that runs frames. Returns the number to give to `stop`.
    #[expect(unsafe_code, reason = "the stable ABI does not have these functions")]
    fn start(slf: &Bound<'_, Calls>, run: usize, get: usize, set: usize) -> usize {
        // SAFETY: the caller has found the addresses by the names of the functions, in Python 3.11.
        let functions = FUNCTIONS.get_or_init(|| unsafe {
            Functions {
                run: std::mem::transmute::<usize, RunFrame>(run),
                get: std::mem::transmute::<usize, GetRunFrame>(get),
                set: std::mem::transmute::<usize, SetRunFrame>(set),
            }
        });
        WANTED.fetch_add(1, Ordering::AcqRel);
        functions.replace(functions.run, run_frame);
        CURRENT.replace(ptr::from_ref(slf.get())) as usize
    }

    /// Reports the calls of this thread to whom they were reported before.
    #[expect(clippy::unused_self, reason = "the object lives until here")]
    fn stop(&self, before: usize) {
        CURRENT.set(before as *const Calls);
        let is_last = WANTED.fetch_sub(1, Ordering::AcqRel) == 1;
        if let Some(functions) = FUNCTIONS.get().filter(|_| is_last) {
            functions.replace(run_frame, functions.run);
        }
    }
}

impl Functions {
    /// Replaces the function that runs frames, unless another tool has replaced it.
    #[expect(unsafe_code, reason = "Python has no safe form of this")]
    #[expect(
        unpredictable_function_pointer_comparisons,
        reason = "one library defines each function"
    )]
    fn replace(&self, before: RunFrame, after: RunFrame) {
        // SAFETY: this thread holds the lock of Python, so the interpreter lives and nobody else changes it.
        unsafe {
            let interpreter = ffi::PyInterpreterState_Get();
            if (self.get)(interpreter) == before {
                (self.set)(interpreter, after);
            }
        }
    }

    /// Lets Python run a frame and all frames inside it, unless another export needs the reports.
    #[expect(unsafe_code, reason = "the frame of Python has no safe form")]
    unsafe fn run_quietly(
        &self,
        state: *mut ffi::PyThreadState,
        frame: *mut Frame,
        is_thrown: c_int,
    ) -> *mut ffi::PyObject {
        let is_alone = WANTED.load(Ordering::Acquire) == 1;
        if is_alone {
            self.replace(run_frame, self.run);
        }
        // SAFETY: the caller was given the frame to run.
        let result = unsafe { (self.run)(state, frame, is_thrown) };
        if is_alone {
            self.replace(self.run, run_frame);
        }
        result
    }
}

impl Calls {
    /// Returns the first argument of a call to report.
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
            let (Place::Variable(index) | Place::Rest(index)) = *place;
            let variable = argument(py, frame, index)?;
            match place {
                Place::Variable(_) => Some(variable),
                Place::Rest(_) => variable.cast::<PyTuple>().ok()?.get_item(0).ok(),
            }
        }
    }

    /// Returns whether a call, which is not reported itself, leads to no call to report.
    #[expect(unsafe_code, reason = "the frame of Python has no safe form")]
    unsafe fn is_quiet(&self, py: Python<'_>, frame: *mut Frame) -> bool {
        // SAFETY: the caller has a frame of Python 3.11 that has not run yet, and holds its code. Its variables begin
        // with the arguments.
        unsafe {
            let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
            let other = others.entry((*frame).code as usize).or_insert_with(|| {
                let code = Bound::from_borrowed_ptr(py, (*frame).code);
                let arguments = self.quiet_arguments(&code).unwrap_or(None);
                Other { arguments, _code: code.unbind() }
            });
            other.arguments.is_some_and(|count| {
                (0..count).all(|index| argument(py, frame, index).is_none_or(|it| !calls(&it)))
            })
        }
    }

    /// Returns how many arguments quiet code takes; `None` for other code.
    fn quiet_arguments(&self, code: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
        let file: String = code.getattr("co_filename")?.extract()?;
        let is_in = self.quiet.iter().any(|path| file.starts_with(path));
        if !is_in || !code.getattr("co_freevars")?.is_empty()? {
            return Ok(None);
        }
        let number = |name: &str| code.getattr(name)?.extract::<usize>();
        let flags = number("co_flags")?;
        let rest = [CO_VARARGS, CO_VARKEYWORDS].iter().filter(|&&flag| flags & flag != 0).count();
        Ok(Some(number("co_argcount")? + number("co_kwonlyargcount")? + rest))
    }
}

/// Returns a variable of a frame that has not run yet, of which the arguments come first.
#[expect(unsafe_code, reason = "the frame of Python has no safe form")]
unsafe fn argument(py: Python<'_>, frame: *mut Frame, index: usize) -> Option<Bound<'_, PyAny>> {
    // SAFETY: the caller knows that the frame has so many variables.
    unsafe {
        let variables = (&raw const (*frame).variables).cast::<*mut ffi::PyObject>();
        Bound::from_borrowed_ptr_or_opt(py, *variables.add(index))
    }
}

/// Returns whether an argument may lead to a function: it is one, or a container of some.
fn calls(value: &Bound<'_, PyAny>) -> bool {
    if let Ok(values) = value.cast::<PyTuple>() {
        values.iter().any(|each| calls(&each))
    } else if let Ok(values) = value.cast::<PyList>() {
        values.iter().any(|each| calls(&each))
    } else if let Ok(values) = value.cast::<PyDict>() {
        values.values().iter().any(|each| calls(&each))
    } else {
        value.is_callable() && !value.is_instance_of::<PyType>()
    }
}

/// Runs a frame. Reports the call before its first instruction, and its end.
#[expect(unsafe_code, reason = "Python calls this with borrowed pointers")]
unsafe extern "C" fn run_frame(
    state: *mut ffi::PyThreadState,
    frame: *mut Frame,
    is_thrown: c_int,
) -> *mut ffi::PyObject {
    // SAFETY: `Calls::start` stores the functions before Python is told to call this. Python holds its lock and
    // the frame during the call. `CURRENT` is null or an object that lives until `stop`.
    unsafe {
        let Some(functions) = FUNCTIONS.get() else { return ptr::null_mut() };
        let Some(calls) = CURRENT.get().as_ref() else {
            return (functions.run)(state, frame, is_thrown);
        };
        let py = Python::assume_attached();
        let Some(argument) = calls.first_argument(py, frame) else {
            return if calls.is_quiet(py, frame) {
                functions.run_quietly(state, frame, is_thrown)
            } else {
                (functions.run)(state, frame, is_thrown)
            };
        };
        let function = Bound::from_borrowed_ptr(py, (*frame).function);
        let entered = calls.enter.call1(py, (frame as usize, function, argument));
        let result = match entered.and_then(|is_last| is_last.extract::<bool>(py)) {
            Ok(true) => functions.run_quietly(state, frame, is_thrown),
            Ok(false) => (functions.run)(state, frame, is_thrown),
            Err(error) => {
                error.restore(py);
                return ptr::null_mut();
            }
        };
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
