//! Work without the interpreter's lock, on a stack that is large enough for deeply nested programs.

use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

use crate::error;

/// The sizes of stacks to try. The system only gives memory for the part that is used.
const STACKS: [usize; 3] = [1 << 30, 1 << 28, 1 << 26];

/// The time between two looks at whether the user pressed Ctrl-C.
const INTERVAL: Duration = Duration::from_millis(50);

/// The payload of the panic that ends work that the user interrupted.
struct Interrupted;

/// Says whether the user interrupted the work.
#[derive(Default)]
pub(crate) struct Interrupt(AtomicBool);

impl Interrupt {
    /// Ends the work if the user interrupted it. Everything that the work holds is dropped.
    pub(crate) fn check(&self) {
        if self.0.load(Ordering::Relaxed) {
            resume_unwind(Box::new(Interrupted));
        }
    }
}

/// Runs `work` on a thread of its own, while other threads of Python run. If the user presses Ctrl-C, the
/// work ends at its next look at the interrupt, and the exception is returned.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Interrupt) -> T + Send,
) -> PyResult<T> {
    let interrupt = Interrupt::default();
    let work = Mutex::new(Some(work));
    let mut raised = None;
    let ended = py.detach(|| {
        thread::scope(|scope| {
            let (sender, receiver) = channel::<()>();
            let mut spawned = Err(std::io::ErrorKind::OutOfMemory.into());
            for size in STACKS {
                let (work, interrupt, sender) = (&work, &interrupt, sender.clone());
                spawned = thread::Builder::new().stack_size(size).spawn_scoped(scope, move || {
                    let _ended = sender;
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
                if raised.is_none()
                    && let Err(error) = Python::attach(|py| py.check_signals())
                {
                    raised = Some(error);
                    interrupt.0.store(true, Ordering::Relaxed);
                }
            }
            Ok(spawned.join())
        })
    });
    let ended = ended.map_err(|error: std::io::Error| error::thread(&error))?;
    match (ended, raised) {
        (_, Some(raised)) => Err(raised),
        (Ok(Some(result)), None) => Ok(result),
        (Ok(None), None) => Err(error::thread(&std::io::ErrorKind::Other.into())),
        (Err(payload), None) => resume_unwind(payload),
    }
}
