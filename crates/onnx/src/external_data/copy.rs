//! Copies weights to the folder of another model.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use crate::locate::{Outside, below, locate};
use crate::proto::WriteError;
use crate::staged::{Permissions, Target, Temporary, folder_of, sync_folder};

/// A copy of a weight file under a temporary name.
pub(super) struct Copy {
    temporary: Temporary,
    location: String,
}

/// Copies the weights at `location` under a temporary name. Returns `None` if the target has them already.
pub(super) fn stage(
    source: &Path,
    target: &Target,
    location: &str,
) -> Result<Option<Copy>, WriteError> {
    let outside = |why| WriteError::Outside { path: target.given.clone(), why };
    let found = locate(source, location).map_err(outside)?;
    if is_there(&found, target, location)? {
        return Ok(None);
    }
    let copied = || {
        let mut data = File::open(&found)?;
        let permissions = Permissions::Copied(data.metadata()?);
        Temporary::write(&target.folder, &permissions, |out| io::copy(&mut data, out).map(drop))
    };
    let temporary = copied().map_err(|why| target.failed_weights(why))?;
    Ok(Some(Copy { temporary, location: location.to_owned() }))
}

impl Copy {
    /// Renames the copy to its final name, and adds it to `placed`. Does nothing if another process wrote the
    /// same contents.
    pub(super) fn place(
        self,
        target: &Target,
        placed: &mut Vec<PathBuf>,
    ) -> Result<(), WriteError> {
        if is_there(self.temporary.path(), target, &self.location)? {
            return Ok(());
        }
        let path = target.folder.join(&self.location);
        let folder = folder_of(&path);
        let created = fs::create_dir_all(&folder).and_then(|()| self.temporary.rename(&path));
        placed.push(path);
        created.and_then(|()| sync_folder(&folder)).map_err(|why| target.failed_weights(why))
    }
}

/// True if the target has a file with these contents at `location`. Refuses a file with other contents, and a link
/// out of the folder.
fn is_there(file: &Path, target: &Target, location: &str) -> Result<bool, WriteError> {
    let outside = |why| WriteError::Outside { path: target.given.clone(), why };
    let path = target.folder.join(below(location).map_err(outside)?);
    if fs::symlink_metadata(&path).is_err() {
        return refuse_link_out(&path, target, location).map(|()| false);
    }
    let found = locate(&target.folder, location).map_err(outside)?;
    match is_equal(file, &found) {
        Ok(true) => Ok(true),
        Ok(false) => Err(WriteError::Occupied { path, model: target.given.clone() }),
        Err(why) => Err(target.failed_weights(why)),
    }
}

/// Refuses a path whose nearest existing folder is outside the folder of the target.
fn refuse_link_out(path: &Path, target: &Target, location: &str) -> Result<(), WriteError> {
    let nearest = path.ancestors().skip(1).find_map(|folder| fs::canonicalize(folder).ok());
    match (nearest, fs::canonicalize(&target.folder)) {
        (Some(nearest), Ok(folder)) if !nearest.starts_with(&folder) => {
            let why = Outside::Link(location.to_owned());
            Err(WriteError::Outside { path: target.given.clone(), why })
        }
        _ => Ok(()),
    }
}

fn is_equal(one: &Path, other: &Path) -> io::Result<bool> {
    let [mut one, mut other] = [File::open(one)?, File::open(other)?];
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let mut one = BufReader::with_capacity(1 << 16, &mut one);
    let mut other = BufReader::with_capacity(1 << 16, &mut other);
    loop {
        let [left, right] = [one.fill_buf()?, other.fill_buf()?];
        let length = left.len().min(right.len());
        if left[..length] != right[..length] {
            return Ok(false);
        }
        if length == 0 {
            return Ok(left.len() == right.len());
        }
        one.consume(length);
        other.consume(length);
    }
}
