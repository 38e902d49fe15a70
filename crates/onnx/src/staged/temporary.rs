//! Creates temporary files. The process keeps them locked, so a temporary file without a lock is a leftover.

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

const PREFIX: &str = ".jax2onnx-";
const SUFFIX: &str = ".tmp";

/// The number of random names to try.
const MAX_ATTEMPTS: usize = 100;

/// The permissions of a new file.
#[derive(Clone, Debug)]
pub(crate) enum Permissions {
    /// The default of the system.
    New,
    /// The permissions of the file that it replaces.
    Kept(Metadata),
    /// The permissions of the file that it is a copy of, as far as the system allows.
    Copied(Metadata),
}

/// A file under a temporary name. Dropping it removes the file, unless it was left behind.
pub(crate) struct Temporary {
    path: PathBuf,
    file: File,
    is_removed: bool,
}

impl Temporary {
    /// Writes and syncs a file under a temporary name.
    pub(crate) fn write(
        folder: &Path,
        permissions: &Permissions,
        contents: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<Temporary> {
        let mut temporary = Temporary::create(folder, permissions)?;
        contents(&mut temporary.file)?;
        temporary.file.sync_all()?;
        Ok(temporary)
    }

    /// Creates a second, temporary name for a file.
    pub(crate) fn link(folder: &Path, path: &Path) -> io::Result<Temporary> {
        let file = File::open(path)?;
        file.try_lock()?;
        let temporary = Temporary { path: temporary_path(folder), file, is_removed: true };
        fs::hard_link(path, &temporary.path)?;
        Ok(temporary)
    }

    fn create(folder: &Path, permissions: &Permissions) -> io::Result<Temporary> {
        for _ in 0..MAX_ATTEMPTS {
            let path = temporary_path(folder);
            let file = match options(permissions).open(&path) {
                Ok(file) => file,
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(why) => return Err(why),
            };
            let temporary = Temporary { path, file, is_removed: true };
            // Before the file was locked, another process may have removed it as a leftover.
            let is_taken = matches!(temporary.file.try_lock(), Err(TryLockError::WouldBlock));
            if is_taken || !temporary.path.exists() {
                continue;
            }
            if let Permissions::Kept(replaced) = permissions {
                keep_permissions(&temporary.file, replaced)?;
            }
            return Ok(temporary);
        }
        Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "no name for a temporary file is available",
        ))
    }

    /// Renames the file to its final name, and replaces an existing file.
    pub(crate) fn rename(self, path: &Path) -> io::Result<()> {
        fs::rename(&self.path, path)
    }

    /// Keeps the file, so that the next export finds it.
    pub(crate) fn leave_behind(mut self) {
        self.is_removed = false;
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if self.is_removed {
            // An error cannot be reported here, and after a rename there is nothing to remove.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns a random path. A name with only the process id could collide with a leftover.
fn temporary_path(folder: &Path) -> PathBuf {
    let number = RandomState::new().hash_one(std::process::id());
    folder.join(format!("{PREFIX}{number:016x}{SUFFIX}"))
}

/// True if this is the name of a temporary file.
pub(super) fn is_temporary(name: &str) -> bool {
    name.starts_with(PREFIX) && name.ends_with(SUFFIX)
}

/// Returns the temporary files in a folder whose process has ended. They stay locked while they are open.
pub(crate) fn leftovers(folder: &Path) -> Vec<(PathBuf, File)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_temporary));
    let regular = named.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let unlocked = regular.filter_map(|entry| {
        let file = File::options().read(true).write(true).open(entry.path()).ok()?;
        file.try_lock().ok()?;
        Some((entry.path(), file))
    });
    unlocked.collect()
}

/// Returns how to open a temporary file, with the permissions of the final file.
fn options(permissions: &Permissions) -> OpenOptions {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if let Permissions::Kept(metadata) | Permissions::Copied(metadata) = permissions {
        use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
        // Even if the original is read-only, the owner must be able to write the copy.
        options.mode(metadata.mode() & 0o777 | 0o200);
    }
    options
}

fn keep_permissions(file: &File, replaced: &Metadata) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        let current = file.metadata()?;
        if (current.uid(), current.gid()) != (replaced.uid(), replaced.gid()) {
            // Most users may not change the owner; then they own the new file.
            let _ = fchown(file, Some(replaced.uid()), Some(replaced.gid()));
        }
    }
    file.set_permissions(replaced.permissions())
}
