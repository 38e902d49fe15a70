//! What is known about Python objects, by identity.

use pyo3::prelude::*;
use rustc_hash::FxHashMap;

/// Values by the address of a Python object, which is held so that its address stays its own.
pub(super) struct Held<'py, T> {
    known: FxHashMap<usize, (Bound<'py, PyAny>, T)>,
}

impl<T> Default for Held<'_, T> {
    fn default() -> Self {
        Held { known: FxHashMap::default() }
    }
}

impl<'py, T: Clone> Held<'py, T> {
    pub(super) fn get(&self, object: &Bound<'py, PyAny>) -> Option<T> {
        self.known.get(&address(object)).map(|(_, value)| value.clone())
    }

    /// Remembers a value, and gives it back.
    pub(super) fn keep(&mut self, object: &Bound<'py, PyAny>, value: T) -> T {
        self.known.insert(address(object), (object.clone(), value.clone()));
        value
    }
}

/// The identity of an object, as Python's `id`.
pub(super) fn address(object: &Bound<'_, PyAny>) -> usize {
    object.as_ptr() as usize
}
