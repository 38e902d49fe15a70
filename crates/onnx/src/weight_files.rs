//! Finds the weight files of the models in a folder, and removes those that no model refers to anymore.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::locate::locate;
use crate::proto::locations;
use crate::staged::{Lock, folder_of, leftovers};

const SUFFIX: &str = ".data";

/// The number of digits of the hash in the name of a weight file.
const DIGITS: usize = 16;

/// Returns the existing weight files that the model at `path` refers to.
pub(crate) fn files_of(path: &Path) -> io::Result<Vec<PathBuf>> {
    let folder = folder_of(path);
    let locations = locations(File::open(path)?)?;
    Ok(locations.iter().filter_map(|location| locate(&folder, location).ok()).collect())
}

/// The models in a folder, and their weight files.
pub(crate) struct References {
    /// Each model with the weight files that it refers to.
    pub(crate) models: Vec<(PathBuf, Vec<PathBuf>)>,
    /// False if a file named `*.onnx` cannot be read.
    pub(crate) is_complete: bool,
}

/// Reads the models in a folder.
pub(crate) fn references(folder: &Path) -> References {
    let mut found = References { models: Vec::new(), is_complete: true };
    let Ok(entries) = fs::read_dir(folder) else {
        return References { is_complete: false, ..found };
    };
    for entry in entries {
        let Ok(entry) = entry else {
            found.is_complete = false;
            continue;
        };
        let path = entry.path();
        // Follow links to models, but do not open a pipe or a device, which might never end.
        if !path.is_file() {
            continue;
        }
        match files_of(&path) {
            Ok(files) => found.models.push((path, files)),
            // A file with another extension may simply not be a model.
            Err(_) => found.is_complete &= path.extension() != Some(OsStr::new("onnx")),
        }
    }
    found
}

/// Returns the name of the weight file of the model `name`.
pub(crate) fn data_name(name: &str, hash: u64) -> String {
    format!("{name}.{hash:0DIGITS$x}{SUFFIX}")
}

/// Returns the weight files of a model that an export wrote beside it. A model may refer to any file, so only the
/// name of a file shows that an export wrote it.
pub(crate) fn written_weights(model: &Path) -> Vec<PathBuf> {
    let folder = fs::canonicalize(folder_of(model)).ok();
    let is_beside = |file: &PathBuf| file.parent() == folder.as_deref();
    let files = files_of(model).unwrap_or_default().into_iter();
    files.filter(|file| is_beside(file) && is_written(file, model)).collect()
}

fn is_written(file: &Path, model: &Path) -> bool {
    let [file, model] = [file, model].map(|path| path.file_name().unwrap_or_default().to_str());
    let Some(name) = file.and_then(|file| file.strip_suffix(SUFFIX)) else { return false };
    let is_digit = |digit: char| matches!(digit, '0'..='9' | 'a'..='f');
    let has_hash = name
        .rsplit_once('.')
        .is_some_and(|(_, hash)| hash.len() == DIGITS && hash.chars().all(is_digit));
    // Earlier versions wrote no hash.
    has_hash || Some(name) == model
}

/// Removes the candidates that no model in the folder refers to, not counting the models in `except`. Returns false
/// if the next export should try again.
pub(crate) fn remove_unused(lock: &Lock, candidates: &[PathBuf], except: &[PathBuf]) -> bool {
    if candidates.is_empty() || !lock.is_held() {
        return candidates.is_empty();
    }
    let References { models, is_complete } = references(lock.folder());
    if !is_complete {
        return true;
    }
    let models = models.iter().filter(|(model, _)| !except.contains(model));
    let used: Vec<&PathBuf> = models.flat_map(|(_, files)| files).collect();
    let is_unused =
        |file: &&PathBuf| fs::canonicalize(file).is_ok_and(|file| !used.contains(&&file));
    // A file that stays does no harm.
    candidates.iter().filter(is_unused).filter(|file| fs::remove_file(file).is_err()).count() == 0
}

/// Removes the temporary files of processes that have ended, and the weights of their unfinished models.
pub(crate) fn remove_leftovers(folder: &Path) {
    let found = leftovers(folder);
    if found.is_empty() {
        return;
    }
    let lock = Lock::take(folder);
    let paths: Vec<PathBuf> = found.iter().map(|(path, _)| path.clone()).collect();
    let weights: Vec<PathBuf> = paths.iter().flat_map(|path| written_weights(path)).collect();
    if !remove_unused(&lock, &weights, &paths) {
        return;
    }
    for path in &paths {
        // A file that cannot be removed does no harm.
        let _ = fs::remove_file(path);
    }
}
