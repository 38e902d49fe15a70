//! Runs work without the interpreter lock, on a stack that is large enough for the program.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use jaxpr::Program;
use pyo3::prelude::*;

use crate::error;

/// The stack sizes to try. The system allocates memory only for the part that is used.
const STACKS: [usize; 3] = [1 << 30, 1 << 28, 1 << 26];

/// The maximum stack size for one level of nested functions, also with debug assertions.
const LEVEL: usize = 1 << 16;

/// The maximum stack size for a program without much nesting.
const SHALLOW: usize = 1 << 22;

/// The interval between checks for Ctrl-C.
const INTERVAL: Duration = Duration::from_millis(50);

/// The maximum depth of a program that runs on the caller's stack.
const MAX_DEPTH: usize = 8;

/// The maximum number of equations of a program that runs on the caller's stack.
const MAX_EQUATIONS: usize = 4096;

/// The payload of the panic that ends interrupted work.
struct Interrupted;

/// Records whether the user interrupted the work.
#[derive(Default)]
pub(crate) struct Interrupt {
    /// True if the caller's thread does the work, and so checks for signals.
    is_caller: bool,
    is_set: AtomicBool,
    /// The maximum depth of functions on the stack of the working thread.
    max_depth: AtomicUsize,
    /// The exception that Python raised for the signal.
    raised: Mutex<Option<PyErr>>,
}

impl Interrupt {
    /// Ends the work if the user interrupted it. Everything that belongs to the work is dropped.
    pub(crate) fn check(&self) {
        if self.is_caller {
            self.look();
        }
        if self.is_set.load(Ordering::Relaxed) {
            resume_unwind(Box::new(Interrupted));
        }
    }

    /// Returns the maximum depth of functions on the stack of the working thread.
    pub(crate) fn max_depth(&self) -> usize {
        self.max_depth.load(Ordering::Relaxed)
    }

    /// Ends the work with an exception.
    pub(crate) fn end(&self, error: PyErr) {
        self.set(error);
        self.check();
    }

    fn set(&self, error: PyErr) {
        if let Ok(mut raised) = self.raised.lock() {
            raised.get_or_insert(error);
            self.is_set.store(true, Ordering::Relaxed);
        }
    }

    /// Checks for a signal, if this is the main thread.
    fn look(&self) {
        if !self.is_set.load(Ordering::Relaxed)
            && let Err(error) = Python::attach(|py| py.check_signals())
        {
            self.set(error);
        }
    }

    fn into_raised(self) -> Option<PyErr> {
        self.raised.into_inner().ok().flatten()
    }
}

/// True if a program is so deep or so long that traversing its functions or its values needs a large stack.
pub(crate) fn needs_stack(program: &Program) -> bool {
    program.main.depth > MAX_DEPTH || program.main.equations > MAX_EQUATIONS
}

/// Runs `work` while other threads of Python run. Uses a new thread if the work needs a large stack, or if the
/// caller has used up its stack. If the user presses Ctrl-C, the work ends at its next check, and the exception is
/// returned.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    needs_stack: bool,
    work: impl FnOnce(&Interrupt) -> T + Send,
) -> PyResult<T> {
    if needs_stack || stacker::remaining_stack().is_none_or(|left| left < SHALLOW) {
        return run_on_thread(py, work);
    }
    // A new thread would also have to allocate its memory again.
    let max_depth = AtomicUsize::new(MAX_DEPTH);
    let interrupt = Interrupt { is_caller: true, max_depth, ..Interrupt::default() };
    let ended = py.detach(|| catch_unwind(AssertUnwindSafe(|| work(&interrupt))));
    match (ended, interrupt.into_raised()) {
        (_, Some(raised)) => Err(raised),
        (Ok(result), None) => Ok(result),
        (Err(payload), None) => resume_unwind(payload),
    }
}

fn run_on_thread<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Interrupt) -> T + Send,
) -> PyResult<T> {
    let interrupt = Interrupt::default();
    let work = Mutex::new(Some(work));
    let ended = py.detach(|| {
        thread::scope(|scope| {
            let (sender, receiver) = channel::<()>();
            let mut spawned = Err(std::io::ErrorKind::OutOfMemory.into());
            for size in STACKS {
                let (work, interrupt, sender) = (&work, &interrupt, sender.clone());
                spawned = thread::Builder::new().stack_size(size).spawn_scoped(scope, move || {
                    let _ended = sender;
                    interrupt.max_depth.store((size - SHALLOW) / LEVEL, Ordering::Relaxed);
                    let work = work.lock().ok().and_then(|mut work| work.take());
                    work.map(|work| work(interrupt))
                });
                if spawned.is_ok() {
                    break;
                }
            }
            drop(sender);
            let spawned = spawned?;
            while receiver.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                interrupt.look();
            }
            Ok(spawned.join())
        })
    });
    let ended = ended.map_err(|error: std::io::Error| error::thread(&error))?;
    match (ended, interrupt.into_raised()) {
        (_, Some(raised)) => Err(raised),
        (Ok(Some(result)), None) => Ok(result),
        (Ok(None), None) => Err(error::thread(&std::io::ErrorKind::Other.into())),
        (Err(payload), None) => resume_unwind(payload),
    }
}
