//! Locks a folder, so that one export at a time replaces and removes files in it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

const NAME: &str = ".jax2onnx.lock";

/// True if this is the name of the lock of a folder.
pub(super) fn is_lock(name: &str) -> bool {
    name == NAME
}

/// A folder in which no other export replaces or removes files, if its file system has locks.
pub(crate) struct Lock {
    folder: PathBuf,
    /// The locked file.
    held: Option<(PathBuf, File)>,
}

impl Lock {
    /// Waits for the lock of a folder.
    pub(crate) fn take(folder: &Path) -> Lock {
        let path = folder.join(NAME);
        let held = hold(&path).ok().map(|file| (path, file));
        Lock { folder: folder.to_owned(), held }
    }

    /// True if no other export can replace or remove files.
    pub(crate) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes the names of the files in the folder to the disk.
    pub(crate) fn sync_folder(&self) -> io::Result<()> {
        sync_folder(&self.folder)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some((path, _)) = &self.held {
            // If the file stays, the next export removes it.
            let _ = fs::remove_file(path);
        }
    }
}

/// Locks a file. Creates it if it does not exist.
fn hold(path: &Path) -> io::Result<File> {
    loop {
        let file = File::options().write(true).create(true).truncate(false).open(path)?;
        file.lock()?;
        // The previous owner of the lock removed the file.
        if is_same(&file, path)? {
            return Ok(file);
        }
    }
}

#[cfg(unix)]
fn is_same(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let opened = file.metadata()?;
    let found = fs::metadata(path);
    Ok(found.is_ok_and(|found| (found.dev(), found.ino()) == (opened.dev(), opened.ino())))
}

#[cfg(not(unix))]
fn is_same(_: &File, _: &Path) -> io::Result<bool> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Writes the names of the files in a folder to the disk, if the system supports it.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    let Ok(opened) = File::open(folder) else { return Ok(()) };
    match opened.sync_all() {
        Err(why)
            if !matches!(why.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
        {
            Err(why)
        }
        _ => Ok(()),
    }
}
