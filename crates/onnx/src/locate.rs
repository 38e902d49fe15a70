//! Locates external data. It must be a regular file below the folder of the model, after links are resolved.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// The reason why a location is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Outside {
    #[error("`{0}` is an absolute path")]
    Absolute(String),
    #[error("`{0}` is outside the folder of the model")]
    Parent(String),
    #[error("`{0}` is a link to a file outside the folder of the model")]
    Link(String),
    #[error("`{0}` does not exist")]
    Missing(String),
    #[error("`{0}` is not a file")]
    NoFile(String),
    #[error("the tensor `{0}` is stored in another file, but its entry does not name the file")]
    NoLocation(String),
}

/// Returns the path of the file at `location`, if it exists below the folder of the model.
pub fn locate(folder: &Path, location: &str) -> Result<PathBuf, Outside> {
    let path = below(location)?;
    let missing = |_| Outside::Missing(location.to_owned());
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let folder = fs::canonicalize(folder).map_err(missing)?;
    // Any part of the path may be a symbolic link.
    let real = fs::canonicalize(folder.join(path)).map_err(missing)?;
    if !real.starts_with(&folder) {
        return Err(Outside::Link(location.to_owned()));
    }
    if !fs::metadata(&real).map_err(missing)?.is_file() {
        return Err(Outside::NoFile(location.to_owned()));
    }
    Ok(real)
}

/// Returns a location as a path, and refuses one that leads out of the folder. Does not look at links.
pub(crate) fn below(location: &str) -> Result<&Path, Outside> {
    let path = Path::new(location);
    let is_absolute = path.is_absolute() || location.starts_with(['/', '\\']);
    let has_drive = location.as_bytes().get(1) == Some(&b':');
    if is_absolute || has_drive {
        return Err(Outside::Absolute(location.to_owned()));
    }
    let leads_out = location.split(['/', '\\']).any(|part| part == "..");
    let is_inside = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if leads_out || !path.components().all(is_inside) {
        return Err(Outside::Parent(location.to_owned()));
    }
    Ok(path)
}
