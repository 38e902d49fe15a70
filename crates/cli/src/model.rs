//! The arguments of every command that asks a model.

use std::io::Write;
use std::path::PathBuf;

use inspect::{Document, Sources};

#[derive(Debug, clap::Args)]
pub(crate) struct ModelArgs {
    /// The source map of the model, or the model that it was made of; MODEL.map is found by itself
    #[arg(long, value_name = "PATH")]
    pub(crate) map: Option<PathBuf>,
    /// A folder to look for source files in, beside the current one; may be repeated
    #[arg(long, value_name = "DIR")]
    pub(crate) source_root: Vec<PathBuf>,
}

impl ModelArgs {
    /// The source files of a document.
    pub(crate) fn sources<'d, 'a>(&self, document: &'d Document<'a>) -> Sources<'d, 'a> {
        Sources::new(self.source_root.clone(), document)
    }
}

/// Says what the user should know beside the answer.
pub(crate) fn print_notes(document: &Document<'_>, err: &mut dyn Write) -> std::io::Result<()> {
    document.notes.iter().try_for_each(|note| writeln!(err, "note: {note}"))
}
