//! Refuses outputs that would overwrite each other, an input, or the weights of a model.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::references::{locations, references};
use crate::proto::WriteError;
use crate::staged::{folder_of, follow_links};

/// A file that a command reads or writes, and what it is called in messages.
pub type Named<'a> = (&'a str, &'a Path);

/// Refuses outputs that are one file, that are an input, or that have the weights of a model in their folder.
pub fn check_outputs(outputs: &[Named<'_>], inputs: &[Named<'_>]) -> Result<(), WriteError> {
    for (place, &(what, path)) in outputs.iter().enumerate() {
        let mut others = outputs[..place].iter().chain(inputs);
        if let Some((other, _)) = others.find(|(_, other)| identity(other) == identity(path)) {
            let (one, other) = (other.to_string(), what.to_owned());
            return Err(WriteError::Same { path: path.to_owned(), one, other });
        }
        if let Some(model) = owner(path) {
            return Err(WriteError::Used { path: path.to_owned(), model });
        }
    }
    Ok(())
}

/// Returns a path that two paths have in common if they lead to the same file, which need not exist.
fn identity(path: &Path) -> PathBuf {
    let path = follow_links(path).unwrap_or_else(|| path.to_owned());
    let folder = folder_of(&path);
    let name = path.file_name().unwrap_or_default();
    fs::canonicalize(&path)
        .unwrap_or_else(|_| fs::canonicalize(&folder).unwrap_or(folder).join(name))
}

/// Returns the model whose weights are in the file at `path`, if there is one in its folder.
fn owner(path: &Path) -> Option<PathBuf> {
    let file = fs::canonicalize(path).ok().filter(|file| file.is_file())?;
    let is_model = locations(File::open(&file).ok()?).is_ok();
    if is_model {
        return None;
    }
    let models = references(&folder_of(&file)).models.into_iter();
    models.filter(|(_, files)| files.contains(&file)).map(|(model, _)| model).next()
}
