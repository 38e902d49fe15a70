//! Locates weights in other files and finds the sizes of the files, without reading their contents.

use std::fs;
use std::path::Path;

use onnx::locate::locate;
use onnx::scan::Tensor;

pub use onnx::locate::Outside;

/// Returns the size of the file at `location`, below the folder of the model.
pub fn size(folder: &Path, location: &str) -> Result<u64, Outside> {
    let file = locate(folder, location)?;
    let metadata = fs::metadata(file).map_err(|_| Outside::Missing(location.to_owned()))?;
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
    fn files_outside_the_folder_are_refused() {
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
