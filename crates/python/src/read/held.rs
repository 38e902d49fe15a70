//! Caches values of Python objects, by identity.

use std::sync::Arc;

use pyo3::prelude::*;
use rustc_hash::FxHashMap;

/// Values by the address of a Python object, which is kept alive so that its address stays unique.
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

    /// Caches a value, and returns it.
    pub(super) fn keep(&mut self, object: &Bound<'py, PyAny>, value: T) -> T {
        self.known.insert(address(object), (object.clone(), value.clone()));
        value
    }
}

/// Values of Python objects, some of which depend on the module that the object is read in.
pub(super) struct HeldByModule<'py, T> {
    /// `None` for an object whose value depends on the module.
    known: Held<'py, Option<T>>,
    by_module: FxHashMap<(usize, Arc<str>), T>,
}

impl<T> Default for HeldByModule<'_, T> {
    fn default() -> Self {
        HeldByModule { known: Held::default(), by_module: FxHashMap::default() }
    }
}

impl<'py, T: Clone> HeldByModule<'py, T> {
    /// Returns the value, and whether it depends on the module.
    pub(super) fn get(&self, object: &Bound<'py, PyAny>, module: &Arc<str>) -> Option<(T, bool)> {
        if let Some(value) = self.known.get(object)? {
            return Some((value, false));
        }
        let value = self.by_module.get(&(address(object), module.clone()))?;
        Some((value.clone(), true))
    }

    /// Caches a value for all modules, or only for this one if it depends on the module.
    pub(super) fn keep(
        &mut self,
        object: &Bound<'py, PyAny>,
        module: &Arc<str>,
        value: T,
        depends: bool,
    ) {
        if depends {
            self.by_module.insert((address(object), module.clone()), value);
            self.known.keep(object, None);
        } else {
            self.known.keep(object, Some(value));
        }
    }
}

/// Returns the identity of an object, like Python's `id`.
pub(super) fn address(object: &Bound<'_, PyAny>) -> usize {
    object.as_ptr() as usize
}
