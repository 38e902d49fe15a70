//! Weights in other files: where they are, and how large the files are. Their contents are never read.

use std::fs;
use std::path::{Component, Path};

use onnx::scan::Tensor;

/// Says why a file of weights is not read.
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
    #[error("the tensor `{0}` is in another file but does not name it")]
    NoLocation(String),
}

/// Returns the size of the file at `location`, below the folder of the model.
pub fn size(folder: &Path, location: &str) -> Result<u64, Outside> {
    let path = Path::new(location);
    let is_absolute = path.is_absolute() || location.starts_with(['/', '\\']);
    let has_drive = location.as_bytes().get(1) == Some(&b':');
    if is_absolute || has_drive {
        return Err(Outside::Absolute(location.to_owned()));
    }
    let leads_out = location.split(['/', '\\']).any(|part| part == "..");
    if leads_out
        || !path.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir))
    {
        return Err(Outside::Parent(location.to_owned()));
    }
    let missing = |_| Outside::Missing(location.to_owned());
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let folder = fs::canonicalize(folder).map_err(missing)?;
    // A link may lead anywhere, as the last part or before it.
    let real = fs::canonicalize(folder.join(path)).map_err(missing)?;
    if !real.starts_with(&folder) {
        return Err(Outside::Link(location.to_owned()));
    }
    let metadata = fs::metadata(&real).map_err(missing)?;
    if !metadata.is_file() {
        return Err(Outside::NoFile(location.to_owned()));
    }
    Ok(metadata.len())
}

/// Returns the offset and the length of an external tensor, as the model states them.
pub fn extent(tensor: &Tensor<'_>) -> Option<(u64, Option<u64>)> {
    let number = |key: &str| {
        let found = onnx::scan::meta(&tensor.external, key);
        found.map(str::parse::<u64>).transpose().ok()
    };
    Some((number("offset")?.unwrap_or(0), number("length")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_outside_is_not_looked_at() {
        let folder = std::env::temp_dir().join(format!("jax2onnx-external-{}", std::process::id()));
        fs::create_dir_all(folder.join("in")).unwrap();
        fs::write(folder.join("secret"), "1234").unwrap();
        fs::write(folder.join("in/weights"), "12345").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("../secret", folder.join("in/link")).unwrap();
        let inside = folder.join("in");
        let refused = |location: &str| size(&inside, location).unwrap_err().to_string();
        assert_eq!(size(&inside, "weights"), Ok(5));
        assert_eq!(size(&inside, "./weights"), Ok(5));
        assert_eq!(refused("/etc/passwd"), "`/etc/passwd` is an absolute path");
        assert_eq!(refused("C:\\weights"), "`C:\\weights` is an absolute path");
        assert_eq!(refused("../secret"), "`../secret` is outside the folder of the model");
        assert_eq!(refused("a\\..\\..\\b"), "`a\\..\\..\\b` is outside the folder of the model");
        assert_eq!(refused("gone"), "`gone` does not exist");
        assert_eq!(refused("."), "`.` is not a file");
        #[cfg(unix)]
        assert_eq!(refused("link"), "`link` is a link to a file outside the folder of the model");
        fs::remove_dir_all(&folder).unwrap();
    }
}
