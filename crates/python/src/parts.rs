//! Finds the attributes of Python objects that may contain weights or modules. A network has thousands of
//! attributes, and most of them are numbers, names and sizes.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};
use rustc_hash::FxHashMap;

/// The maximum depth at which a list of lists is searched. A list may contain itself.
const MAX_DEPTH: usize = 3;

/// Filters out attributes that contain neither weights nor modules.
#[pyclass(frozen, module = "jax2onnx._core")]
pub(crate) struct Parts {
    /// Returns true if objects of a class contain neither weights nor modules.
    is_plain: Py<PyAny>,
    /// The prefixes of the names of attributes to skip.
    hidden: Vec<String>,
    /// The results by the address of the class. Each entry keeps its class alive, so that the address stays valid.
    known: Mutex<FxHashMap<usize, (Py<PyType>, bool)>>,
}

#[pymethods]
impl Parts {
    #[new]
    fn new(is_plain: Py<PyAny>, hidden: Vec<String>) -> Parts {
        Parts { is_plain, hidden, known: Mutex::default() }
    }

    /// Returns the names and values that may contain weights or modules.
    fn of<'py>(
        &self,
        attributes: &Bound<'py, PyDict>,
    ) -> PyResult<Vec<(Bound<'py, PyString>, Bound<'py, PyAny>)>> {
        // Other threads may change the dictionary while Python code runs.
        let attributes: Vec<_> = attributes.iter().collect();
        let mut parts = Vec::new();
        for (name, value) in attributes {
            if self.holds_nothing(&value, MAX_DEPTH)? {
                continue;
            }
            let name = name.str()?;
            if !self.is_hidden(&name.to_string_lossy()) {
                parts.push((name, value));
            }
        }
        Ok(parts)
    }
}

impl Parts {
    fn is_hidden(&self, name: &str) -> bool {
        self.hidden.iter().any(|start| name.starts_with(start))
    }

    fn holds_nothing(&self, value: &Bound<'_, PyAny>, depth: usize) -> PyResult<bool> {
        if depth == 0 {
            return Ok(false);
        }
        let items: Box<dyn Iterator<Item = _>> = if value.is_exact_instance_of::<PyTuple>() {
            Box::new(value.cast::<PyTuple>()?.iter())
        } else if value.is_exact_instance_of::<PyList>() {
            Box::new(value.cast::<PyList>()?.iter())
        } else {
            return self.is_plain(&value.get_type());
        };
        for item in items {
            if !self.holds_nothing(&item, depth - 1)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_plain(&self, kind: &Bound<'_, PyType>) -> PyResult<bool> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let address = kind.as_ptr() as usize;
        if let Some((_, is_plain)) = known().get(&address) {
            return Ok(*is_plain);
        }
        let is_plain = self.is_plain.bind(kind.py()).call1((kind,))?.is_truthy()?;
        known().insert(address, (kind.clone().unbind(), is_plain));
        Ok(is_plain)
    }
}
