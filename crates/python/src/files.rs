//! Writes files for Python, through the gate that all files pass.

use std::path::PathBuf;

use inspect::{ModelFile, Sources, Weights};
use jax2onnx::Files;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::error;

/// The description of a file in messages, and its path.
pub(crate) type Named = (String, PathBuf);

/// Refuses outputs that would replace each other, an input, or the weights of a model.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "Python passes values")]
pub(crate) fn check_outputs(outputs: Vec<Named>, inputs: Vec<Named>) -> PyResult<()> {
    let mut files = read(&inputs);
    for (what, path) in outputs {
        let checked = files.write(what, &path);
        checked.map_err(|error| error::raise_for_file(error.into(), &path))?;
    }
    Ok(())
}

/// Writes files, none of which may be an input. Either all of them are replaced with complete files, or none is.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "Python passes values")]
pub(crate) fn write_files(
    py: Python<'_>,
    outputs: Vec<(String, PathBuf, PyBackedBytes)>,
    inputs: Vec<Named>,
) -> PyResult<()> {
    let mut files = read(&inputs);
    let write = || {
        let mut staged = Vec::new();
        for (what, path, contents) in &outputs {
            let file = files.write(what, path).map_err(|error| (error, path))?;
            let file = file.stage(|out| out.write_all(contents)).map_err(|error| (error, path))?;
            staged.push((file, path));
        }
        staged.into_iter().try_for_each(|(file, path)| file.commit().map_err(|error| (error, path)))
    };
    let written = py.detach(write);
    written.map_err(|(error, path)| error::raise_for_file(error.into(), path))
}

/// Returns the files that answers about a model come from: its weights, its source map and its source files.
#[pyfunction]
#[pyo3(signature = (model, *, what, source_map = None, source_roots = Vec::new()))]
#[expect(clippy::needless_pass_by_value, reason = "Python passes values")]
pub(crate) fn model_inputs(
    py: Python<'_>,
    model: PathBuf,
    what: &str,
    source_map: Option<PathBuf>,
    source_roots: Vec<PathBuf>,
) -> PyResult<Vec<Named>> {
    let answer = || {
        let file = ModelFile::open(&model, Weights::Skipped)?;
        let document = file.read(source_map.as_deref())?;
        let mut files = Files::default();
        document.note_inputs(what, &Sources::new(source_roots, &document), &mut files);
        Ok(inputs(&files))
    };
    error::without_panic(|| {
        py.detach(answer).map_err(|error: inspect::OpenError| error::source_map(&error))
    })
}

/// Returns the path of external weights, which must be below the folder of their model.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "Python passes values")]
pub(crate) fn locate_weights(folder: PathBuf, location: &str) -> PyResult<PathBuf> {
    let located = jax2onnx::locate(&folder, location);
    located.map_err(|why| error::config(&format!("cannot read the weights of the model: {why}")))
}

/// Returns the inputs that a gate contains.
pub(crate) fn inputs(files: &Files) -> Vec<Named> {
    files.inputs().map(|(what, path)| (what.to_owned(), path)).collect()
}

/// Returns a gate for a command that reads these files.
pub(crate) fn read(inputs: &[Named]) -> Files {
    let mut files = Files::default();
    for (what, path) in inputs {
        files.read(what, path);
    }
    files
}
