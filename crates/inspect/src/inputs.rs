//! Registers the files that answers about a model come from, so that no output replaces them.

use std::path::PathBuf;

use onnx::outputs::Files;
use provenance::FileId;

use crate::{Document, Sources};

impl Document<'_> {
    /// Registers the model as an input: its file, its weights, its source map, and its source files.
    pub fn note_inputs(&self, what: &str, sources: &Sources<'_, '_>, files: &mut Files) {
        if let Some(path) = &self.path {
            files.read_model(what, path);
        }
        if let Some(map) = &self.map_path {
            files.read_model(format!("the source map of {what}"), map);
        }
        for path in self.source_paths(sources) {
            files.read(format!("a source file of {what}"), &path);
        }
    }

    /// Returns the existing source files, even if they have changed.
    fn source_paths(&self, sources: &Sources<'_, '_>) -> Vec<PathBuf> {
        let table = self.table();
        let ids = (0..table.file_count() as u32).map(FileId);
        ids.flat_map(|id| sources.paths(&table.get_file(id).path)).collect()
    }
}
