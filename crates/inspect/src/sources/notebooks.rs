//! Reads the cells of Jupyter notebooks.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::read_bytes;

/// The maximum number of notebooks to read.
const MAX_NOTEBOOKS: usize = 100;

/// A code cell of a notebook.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) path: PathBuf,
    /// `In [3]`, if the cell was run.
    pub(super) name: Option<String>,
    pub(super) text: String,
}

/// Returns the code cells of all notebooks in these folders, but not in folders below them.
pub(super) fn cells(folders: &[PathBuf]) -> Vec<Cell> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for folder in folders {
        let entries = fs::read_dir(folder).into_iter().flatten();
        let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let notebooks = files.filter(|path| path.extension().is_some_and(|end| end == "ipynb"));
        let before = paths.len();
        paths.extend(notebooks);
        paths[before..].sort();
    }
    paths.dedup();
    paths.iter().take(MAX_NOTEBOOKS).flat_map(|path| read(path).unwrap_or_default()).collect()
}

fn read(path: &Path) -> Option<Vec<Cell>> {
    let notebook: Value = serde_json::from_slice(&read_bytes(path)?).ok()?;
    let cells = notebook.get("cells")?.as_array()?.iter();
    let is_code = |cell: &&Value| cell.get("cell_type").is_some_and(|kind| kind == "code");
    let read = |cell: &Value| {
        let number = cell.get("execution_count").and_then(Value::as_u64);
        let name = number.map(|number| format!("In [{number}]"));
        // IPython removes empty lines at the end of a cell before it runs the cell.
        let text = joined(cell.get("source")?)?.trim_end_matches('\n').to_owned();
        Some(Cell { path: path.to_owned(), name, text })
    };
    Some(cells.filter(is_code).filter_map(read).collect())
}

/// Returns a text that a notebook stores whole, or as a list of lines.
fn joined(source: &Value) -> Option<String> {
    match source {
        Value::String(text) => Some(text.clone()),
        Value::Array(lines) => lines.iter().map(Value::as_str).collect(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cells_of_a_notebook_have_their_names_and_their_whole_text() {
        let folder =
            std::env::temp_dir().join(format!("jax2onnx-notebooks-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let notebook = r##"{"cells": [
            {"cell_type": "markdown", "source": "# Title"},
            {"cell_type": "code", "execution_count": 3, "source": ["a = 1\n", "b = 2\n"]},
            {"cell_type": "code", "execution_count": null, "source": "c = 3"},
            {"cell_type": "code", "source": 4}
        ]}"##;
        fs::write(folder.join("b.ipynb"), notebook).unwrap();
        fs::write(folder.join("a.ipynb"), "not JSON").unwrap();
        fs::write(folder.join("c.json"), notebook).unwrap();
        let cells = cells(std::slice::from_ref(&folder));
        fs::remove_dir_all(&folder).unwrap();
        let shown: Vec<_> =
            cells.iter().map(|cell| (cell.name.as_deref(), cell.text.as_str())).collect();
        assert_eq!(shown, [(Some("In [3]"), "a = 1\nb = 2"), (None, "c = 3")]);
    }
}
