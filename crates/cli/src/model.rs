//! The arguments of every command that reads a model.

use std::io;
use std::path::{Path, PathBuf};

use inspect::text::count;
use inspect::{Document, ModelFile, Sources, Weights};

use crate::command::Console;

#[derive(Debug, clap::Args)]
pub(crate) struct ModelArgs {
    /// The source map of MODEL, or the model that MODEL was made from [default: MODEL.map, if it exists]
    #[arg(long, value_name = "PATH")]
    pub(crate) map: Option<PathBuf>,
    /// Also show source files from this folder, in addition to the current one and that of MODEL; may be repeated
    #[arg(long, value_name = "DIR")]
    pub(crate) source_root: Vec<PathBuf>,
}

impl ModelArgs {
    /// Reads a model, and prints notes about it.
    pub(crate) fn open(
        &self,
        model: &Path,
        console: &mut Console<'_>,
    ) -> anyhow::Result<&'static Document<'static>> {
        open(model, Weights::Skipped, self.map.as_deref(), console)
    }

    /// Returns the source files of a document.
    pub(crate) fn sources<'d, 'a>(&self, document: &'d Document<'a>) -> Sources<'d, 'a> {
        Sources::new(self.source_root.clone(), document)
    }
}

/// Says how to show the lines of source files that were not found.
pub(crate) fn note_missing(files: &[String], console: &mut Console<'_>) -> io::Result<()> {
    // The answer comes first.
    console.out.flush()?;
    match files {
        [] => Ok(()),
        [file] => console
            .note(format_args!("`{file}` was not found here: pass its folder with --source-root")),
        [file, rest @ ..] => console.note(format_args!(
            "`{file}` and {} were not found here: pass their folder with --source-root",
            count(rest.len(), "other file")
        )),
    }
}

/// Reads a model with its map.
///
/// The document is never dropped: the program ends after the answer, and dropping a large model takes time.
pub(crate) fn open(
    model: &Path,
    weights: Weights,
    map: Option<&Path>,
    console: &mut Console<'_>,
) -> anyhow::Result<&'static Document<'static>> {
    let file: &'static ModelFile = Box::leak(Box::new(ModelFile::open(model, weights)?));
    let document: &'static Document<'static> = Box::leak(Box::new(file.read(map)?));
    document.notes.iter().try_for_each(|note| console.note(note))?;
    Ok(document)
}
