//! Files that are written beside their target, and renamed when they are whole.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::proto::WriteError;

/// A file that is written under another name beside its target; gone unless it is committed.
pub struct Staged {
    temporary: Temporary,
    target: PathBuf,
}

impl Staged {
    /// Writes the contents; the target is as it was until [`Staged::commit`].
    pub fn write(
        target: &Path,
        contents: impl FnOnce(&mut File) -> Result<(), WriteError>,
    ) -> Result<Staged, WriteError> {
        target_name(target)?;
        let temporary = Temporary(neighbour(target, "tmp"));
        let failed = |why| WriteError::File { path: target.into(), why };
        let mut file = File::create_new(&temporary.0).map_err(failed)?;
        contents(&mut file).map_err(|error| match error {
            WriteError::Io(why) => failed(why),
            other => other,
        })?;
        Ok(Staged { temporary, target: target.into() })
    }

    /// Puts the file in the place of its target.
    pub fn commit(self) -> Result<(), WriteError> {
        let moved = fs::rename(&self.temporary.0, &self.target);
        moved.map_err(|why| WriteError::File { path: self.target, why })
    }
}

/// Removed when it is dropped, if it is still there.
pub(crate) struct Temporary(pub(crate) PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // There is nobody left to tell, and after a rename there is nothing to remove.
        let _ = fs::remove_file(&self.0);
    }
}

/// Returns the name of the file at `path`, which does not exist or can be replaced.
pub(crate) fn target_name(path: &Path) -> Result<String, WriteError> {
    let refuse =
        |kind, what: &str| WriteError::File { path: path.into(), why: io::Error::new(kind, what) };
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => {
            return Err(refuse(io::ErrorKind::IsADirectory, "it is a directory"));
        }
        Ok(found) if !found.is_file() => {
            return Err(refuse(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        _ => {}
    }
    let name = path.file_name().and_then(OsStr::to_str);
    name.map(str::to_owned)
        .ok_or_else(|| refuse(io::ErrorKind::InvalidInput, "it has no file name in UTF-8"))
}

/// Returns a name beside `path` that nothing else uses.
pub(crate) fn neighbour(path: &Path, kind: &str) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}-{number}.{kind}", std::process::id()));
    path.with_file_name(name)
}
