//! Makes text safe to print, for Python.

use pyo3::prelude::*;
use pyo3::types::PyString;

/// Returns a text from a file as one line of printable characters.
#[pyfunction]
pub(crate) fn clean(text: &Bound<'_, PyString>) -> String {
    provenance::clean::clean(&text.to_string_lossy())
}

/// Returns a text of several lines without unprintable characters.
#[pyfunction]
pub(crate) fn clean_lines(text: &Bound<'_, PyString>) -> String {
    provenance::clean::clean_lines(&text.to_string_lossy())
}
