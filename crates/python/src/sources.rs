//! Finds source files like Python does.

use std::collections::HashMap;
use std::fs;
use std::sync::Mutex;
use std::time::SystemTime;

use jax2onnx::{File, Source};
use provenance::Tier;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// Returns the entry of a file in the source map. A map never contains the text of JAX or of this package, because
/// their versions determine it.
pub(crate) fn about(py: Python<'_>, file: &File, embed: bool) -> Source {
    let cell = file.cell.as_deref().map(str::to_owned);
    let sha256 = cell
        .or_else(|| hash_of_file(py, &file.path))
        .or_else(|| text(py, &file.path).and_then(|text| sha256(py, text.as_bytes()).ok()));
    let is_wanted = embed && file.tier != Tier::Internal;
    Source { sha256, text: if is_wanted { text(py, &file.path) } else { None } }
}

/// The text of a cell of a notebook when a function in it was exported.
struct Cell {
    name: String,
    sha256: String,
    text: String,
}

/// The exported cells of this process, in the order of their exports. A cell that was changed and run again has
/// another hash.
static CELLS: Mutex<Vec<Cell>> = Mutex::new(Vec::new());

/// Keeps the text of a cell for the questions of this process, and returns its hash.
pub(crate) fn keep_cell(py: Python<'_>, name: &str, text: &str) -> PyResult<String> {
    let sha256 = sha256(py, text.as_bytes())?;
    if let Ok(mut cells) = CELLS.lock() {
        cells.retain(|cell| (cell.name.as_str(), &cell.sha256) != (name, &sha256));
        cells.push(Cell { name: name.to_owned(), sha256: sha256.clone(), text: text.to_owned() });
    }
    Ok(sha256)
}

/// Returns the text of the exported cell with a hash.
pub(crate) fn cell(sha256: &str) -> Option<String> {
    last_cell(|cell| cell.sha256 == sha256)
}

fn last_cell(is_wanted: impl Fn(&Cell) -> bool) -> Option<String> {
    let cells = CELLS.lock().ok()?;
    cells.iter().rev().find(|cell| is_wanted(cell)).map(|cell| cell.text.clone())
}

/// Returns the text of a source file like Python's own tracebacks: from the disk, from a zip, or from a notebook.
pub(crate) fn text(py: Python<'_>, file: &str) -> Option<String> {
    if let Some(text) = last_cell(|cell| cell.name == file) {
        return Some(text);
    }
    let linecache = py.import("linecache").ok()?;
    // Reads the file again if it was edited.
    linecache.call_method1("checkcache", (file,)).ok()?;
    let lines = linecache.call_method1("getlines", (file,)).ok()?;
    let text = PyString::new(py, "").call_method1("join", (lines,)).ok()?;
    text.extract::<String>().ok().filter(|text| !text.is_empty())
}

/// The time when a file was written, its size, and its hash.
type Known = (SystemTime, u64, String);

/// Returns the hash of a file on disk. The hash is cached until the file changes, because the files of JAX are
/// large and in every map.
fn hash_of_file(py: Python<'_>, path: &str) -> Option<String> {
    static KNOWN: Mutex<Option<HashMap<String, Known>>> = Mutex::new(None);
    let metadata = fs::metadata(path).ok()?;
    let (written, size) = (metadata.modified().ok()?, metadata.len());
    if let Ok(known) = KNOWN.lock()
        && let Some((time, length, hash)) = known.as_ref().and_then(|known| known.get(path))
        && (*time, *length) == (written, size)
    {
        return Some(hash.clone());
    }
    let hash = sha256(py, &fs::read(path).ok()?).ok()?;
    if let Ok(mut known) = KNOWN.lock() {
        let known = known.get_or_insert_with(HashMap::new);
        known.insert(path.to_owned(), (written, size, hash.clone()));
    }
    Some(hash)
}

fn sha256(py: Python<'_>, bytes: &[u8]) -> PyResult<String> {
    let hash = py.import("hashlib")?.call_method1("sha256", (PyBytes::new(py, bytes),))?;
    hash.call_method0("hexdigest")?.extract()
}
