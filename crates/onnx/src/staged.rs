//! Writes files under a temporary name, syncs them, and renames them when they are complete. Other modules write
//! files through an [`Output`](crate::outputs::Output).

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::proto::WriteError;

mod lock;
mod temporary;
#[cfg(test)]
pub(crate) mod testing;
mod written_back;

pub(crate) use lock::{Lock, sync_folder};
pub(crate) use temporary::{Permissions, Temporary, leftovers};
pub(crate) use written_back::write_back;

/// The maximum length of a chain of symbolic links.
const MAX_LINKS: usize = 40;

/// A file under a temporary name in the folder of its target. It is removed unless it is committed.
pub struct Staged {
    pub(crate) temporary: Temporary,
    pub(crate) target: Target,
}

impl Staged {
    /// Replaces the target.
    pub fn commit(self) -> Result<(), WriteError> {
        let lock = Lock::take(&self.target.folder);
        self.rename(&lock)
    }

    /// Replaces the target in a folder that is locked.
    pub(crate) fn rename(self, lock: &Lock) -> Result<(), WriteError> {
        let Staged { temporary, target } = self;
        let renamed = temporary.rename(&target.path).and_then(|()| lock.sync_folder());
        renamed.map_err(|why| target.failed(why))
    }
}

/// The file to write: a regular file, or one that does not exist yet.
#[derive(Debug)]
pub(crate) struct Target {
    /// The path that the user gave, for messages.
    pub(crate) given: PathBuf,
    /// The path after following symbolic links.
    pub(crate) path: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) name: String,
    replaced: Option<Metadata>,
}

impl Target {
    pub(crate) fn of(given: &Path) -> Result<Target, WriteError> {
        let refuse = |kind, what: &str| {
            Err(WriteError::File { path: given.into(), why: io::Error::new(kind, what) })
        };
        let Some(path) = follow_links(given) else {
            return refuse(io::ErrorKind::InvalidInput, "it is a chain of too many links");
        };
        let replaced = fs::metadata(&path).ok();
        match &replaced {
            Some(found) if found.is_dir() => {
                return refuse(io::ErrorKind::IsADirectory, "it is a directory");
            }
            Some(found) if !found.is_file() => {
                return refuse(io::ErrorKind::InvalidInput, "it is not a regular file");
            }
            _ => {}
        }
        let Some(name) = path.file_name().and_then(OsStr::to_str).map(str::to_owned) else {
            return refuse(io::ErrorKind::InvalidInput, "it has no file name in UTF-8");
        };
        if lock::is_lock(&name) || temporary::is_temporary(&name) {
            return refuse(io::ErrorKind::InvalidInput, "jax2onnx removes files with such a name");
        }
        Ok(Target { given: given.into(), folder: folder_of(&path), path, name, replaced })
    }

    /// Writes and syncs the contents under a temporary name.
    pub(crate) fn stage(
        self,
        contents: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<Staged, WriteError> {
        let write = |file: &mut File| write_back(file, |out| contents(out));
        match Temporary::write(&self.folder, &self.permissions(), write) {
            Ok(temporary) => Ok(Staged { temporary, target: self }),
            Err(why) => Err(self.failed(why)),
        }
    }

    /// Returns the permissions of a file that replaces the target.
    pub(crate) fn permissions(&self) -> Permissions {
        self.replaced.clone().map_or(Permissions::New, Permissions::Kept)
    }

    pub(crate) fn failed(&self, why: io::Error) -> WriteError {
        WriteError::File { path: self.given.clone(), why }
    }

    pub(crate) fn failed_weights(&self, why: io::Error) -> WriteError {
        WriteError::Weights { path: self.given.clone(), why }
    }
}

/// Follows a chain of symbolic links. The file at its end need not exist.
pub(crate) fn follow_links(path: &Path) -> Option<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            Ok(next) => path = folder_of(&path).join(next),
            Err(_) => return Some(path),
        }
    }
    None
}

/// Returns the folder of a file.
pub(crate) fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
