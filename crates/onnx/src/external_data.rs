//! Models as files: weights inside, or in a file beside the model.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use crate::check::constants_of;
use crate::dtype::DType;
use crate::model::Model;
use crate::proto::{Layout, Message, Placed, Render, WriteError, model_proto};
use crate::staged::{Staged, Temporary, neighbour, target_name};
use crate::tensor::Tensor;

/// The alignment of tensors in the data file, so that a runtime can map them.
const ALIGNMENT: u64 = 4096;

/// Tensors with fewer bytes stay in the model.
const MIN_EXTERNAL_BYTES: usize = 1024;

/// Writes the model to `path`. Once its weights have more than `threshold` bytes in all, they go
/// into one file beside it, `<path>.data`, unless none is large enough for that.
///
/// Both files are written under other names and renamed when they are whole; after an error,
/// what was there before is there unchanged.
pub fn save(
    model: &Model,
    render: &mut Render<'_>,
    path: &Path,
    threshold: usize,
) -> Result<(), WriteError> {
    let file_name = target_name(path)?;
    let mut data = DataFile { location: format!("{file_name}.data"), end: 0, tensors: Vec::new() };
    let is_external = weight_bytes(model) > threshold;
    let layout = is_external.then_some(&mut data as &mut dyn Layout);
    let (proto, initializers) = model_proto(model, render, layout)?;
    let message = Message::of(proto, initializers)?;
    if data.tensors.is_empty() {
        return Staged::write(path, |out| Ok(message.write(out)?))?.commit();
    }
    let data_path = with_suffix(path, ".data");
    let staged_data = Staged::write(&data_path, |out| Ok(data.write(out)?))?;
    let staged_model = Staged::write(path, |out| Ok(message.write(out)?))?;
    let backup = Backup::of(&data_path)?;
    staged_data.commit()?;
    staged_model.commit()?;
    backup.forget();
    Ok(())
}

/// Returns the path of a file of weights, which must be below the folder of the model.
fn located(folder: &Path, location: &str) -> io::Result<PathBuf> {
    let path = Path::new(location);
    let is_inside = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if location.is_empty() || !path.components().all(is_inside) {
        let what = "the location is not below the folder of the model";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    Ok(folder.join(path))
}

/// Writes a model that was read from `from` and whose weights are in the files `locations` beside it.
/// They are copied where `to` is in another folder.
pub fn save_bytes(
    bytes: &[u8],
    from: &Path,
    to: &Path,
    locations: &[String],
) -> Result<(), WriteError> {
    let folder = |path: &Path| match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let (from, target) = (folder(from), folder(to));
    let mut staged = Vec::new();
    let is_same = fs::canonicalize(&from).ok() == fs::canonicalize(&target).ok();
    for location in locations.iter().filter(|_| !is_same) {
        let failed = |why| WriteError::File { path: target.join(location), why };
        let source = located(&from, location).map_err(failed)?;
        let mut data = File::open(source).map_err(failed)?;
        let copy = |out: &mut File| Ok(io::copy(&mut data, out).map(drop)?);
        staged.push(Staged::write(&target.join(location), copy)?);
    }
    let model = Staged::write(to, |out| Ok(out.write_all(bytes)?))?;
    staged.into_iter().try_for_each(Staged::commit)?;
    model.commit()
}

fn weight_bytes(model: &Model) -> usize {
    let tensors = constants_of(model, &model.graph).into_iter();
    let sizes = tensors.filter_map(|id| Some(model.values[id].tensor.as_ref()?.byte_len()));
    sizes.sum()
}

/// The file that external tensors are laid out in.
struct DataFile {
    location: String,
    end: u64,
    tensors: Vec<(u64, Tensor)>,
}

impl Layout for DataFile {
    fn place(&mut self, tensor: &Tensor) -> Option<Placed> {
        if tensor.byte_len() < MIN_EXTERNAL_BYTES || tensor.dtype == DType::String {
            return None;
        }
        let offset = self.end.next_multiple_of(ALIGNMENT);
        let length = tensor.byte_len() as u64;
        self.end = offset + length;
        self.tensors.push((offset, tensor.clone()));
        let location = self.location.clone();
        Some(Placed { location, offset, length })
    }
}

impl DataFile {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        const PADDING: [u8; ALIGNMENT as usize] = [0; ALIGNMENT as usize];
        let mut end = 0;
        for (offset, tensor) in &self.tensors {
            out.write_all(&PADDING[..(offset - end) as usize])?;
            tensor.write(out)?;
            end = offset + tensor.byte_len() as u64;
        }
        out.flush()
    }
}

/// A second name for the old data file, which is restored unless it is forgotten: an old model
/// must not be left with new data.
struct Backup {
    target: PathBuf,
    saved: Option<Temporary>,
    is_restored: bool,
}

impl Backup {
    fn of(target: &Path) -> Result<Backup, WriteError> {
        let saved = Temporary(neighbour(target, "old"));
        let exists = match fs::rename(target, &saved.0) {
            Ok(()) => true,
            Err(why) if why.kind() == io::ErrorKind::NotFound => false,
            Err(why) => {
                return Err(WriteError::File { path: target.into(), why });
            }
        };
        Ok(Backup { target: target.into(), saved: exists.then_some(saved), is_restored: true })
    }

    fn forget(mut self) {
        self.is_restored = false;
    }
}

impl Drop for Backup {
    fn drop(&mut self) {
        if !self.is_restored {
            return;
        }
        // The error that led here is the one to report.
        let _ = match &self.saved {
            Some(saved) => fs::rename(&saved.0, &self.target),
            None => fs::remove_file(&self.target),
        };
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, SeekFrom};

    use bytes::Bytes;
    use expect_test::expect;

    use super::*;
    use crate::names::assign_names;
    use crate::proto::{DecodeError, External, no_metadata, read_with};
    use crate::text::parse_graph;

    /// A folder that is gone after the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("jax2onnx-{test}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn files(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap();
            let mut names: Vec<String> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// Reads a model from a file, and its weights from the files beside it.
    fn load(path: &Path) -> Result<Model, DecodeError> {
        let folder = path.parent().unwrap_or(Path::new(""));
        read_with(contents(path)?, &mut |external| fetch(folder, external))
    }

    /// Reads a model from a file, and leaves weights that are in other files empty.
    fn load_without_external_data(path: &Path) -> Result<Model, DecodeError> {
        read_with(contents(path)?, &mut |_| Ok(Bytes::new()))
    }

    fn contents(path: &Path) -> Result<Bytes, DecodeError> {
        let bytes = fs::read(path);
        bytes.map(Bytes::from).map_err(|why| DecodeError::File { path: path.into(), why })
    }

    /// Reads a part of a file in `folder`.
    fn fetch(folder: &Path, external: &External) -> io::Result<Bytes> {
        let mut file = File::open(located(folder, &external.location)?)?;
        let available = file.metadata()?.len().checked_sub(external.offset);
        let length = external.length.or(available);
        let (Some(length), Some(available)) = (length, available) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        if length > available {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        file.seek(SeekFrom::Start(external.offset))?;
        let mut data = vec![0; length as usize];
        file.read_exact(&mut data)?;
        Ok(data.into())
    }

    fn model() -> Model {
        let mut model = parse_graph(
            "graph f(x:f32[1024]) -> (y)
             small = const f32[255]
             large = const f32[1024]
             larger = const f32[2,1024]
             %0 = Add(x, large)
             %1 = Sum(%0, small)
             y:f32[2,1024] = Mul(%1, larger)",
        )
        .unwrap();
        assign_names(&mut model);
        model
    }

    /// Returns the message of the error, without the folder.
    fn refused(folder: &Folder, path: &Path, threshold: usize) -> String {
        let error = save(&model(), &mut no_metadata, path, threshold).unwrap_err();
        error.to_string().replace(folder.0.to_str().unwrap(), "…")
    }

    #[test]
    fn weights_up_to_the_threshold_are_in_the_model() {
        let folder = Folder::new("inline");
        let path = folder.0.join("m.onnx");
        save(&model(), &mut no_metadata, &path, 1 << 20).unwrap();
        assert_eq!(folder.files(), ["m.onnx"]);
        assert_eq!(load(&path).unwrap().typed_text().to_string(), model().typed_text().to_string());
    }

    #[test]
    fn larger_weights_are_in_one_file_at_whole_pages() {
        let folder = Folder::new("external");
        let path = folder.0.join("m.onnx");
        save(&model(), &mut no_metadata, &path, 4096).unwrap();
        assert_eq!(folder.files(), ["m.onnx", "m.onnx.data"]);
        assert_eq!(fs::metadata(folder.0.join("m.onnx.data")).unwrap().len(), 3 * 4096);
        let bytes = Bytes::from(fs::read(&path).unwrap());
        let mut places = Vec::new();
        read_with(bytes.clone(), &mut |place| {
            places.push((place.location.clone(), place.offset, place.length));
            Ok(Bytes::new())
        })
        .unwrap();
        let location = "m.onnx.data".to_owned();
        assert_eq!(places, [(location.clone(), 0, Some(4096)), (location, 4096, Some(8192))]);
        let bytes = |model: &Model| crate::proto::to_bytes(model, &mut no_metadata).unwrap();
        assert_eq!(bytes(&load(&path).unwrap()), bytes(&model()));
        let bare = load_without_external_data(&path).unwrap();
        assert_eq!(bare.text().to_string(), model().text().to_string());
        expect!["the contents of `large` are in another file, `m.onnx.data`: read the model from its path"]
            .assert_eq(&crate::proto::read(fs::read(&path).unwrap().into()).unwrap_err().to_string());
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let folder = Folder::new("missing");
        for threshold in [0, 1 << 20] {
            let found = refused(&folder, &folder.0.join("no/m.onnx"), threshold);
            assert!(found.starts_with("cannot write `…/no/m.onnx"), "{found}");
            assert!(found.ends_with("No such file or directory (os error 2)"), "{found}");
        }
        assert!(folder.files().is_empty());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_folder_that_cannot_be_written_to_is_named() {
        // Nobody can make files here, whatever their rights.
        let found = refused(&Folder::new("unwritable"), Path::new("/proc/self/m.onnx"), 1 << 20);
        assert!(found.starts_with("cannot write `/proc/self/m.onnx`: "), "{found}");
    }

    #[test]
    fn a_directory_is_not_replaced() {
        let folder = Folder::new("directory");
        fs::create_dir(folder.0.join("m.onnx")).unwrap();
        let found = refused(&folder, &folder.0.join("m.onnx"), 0);
        expect!["cannot write `…/m.onnx`: it is a directory"].assert_eq(&found);
        fs::create_dir(folder.0.join("n.onnx.data")).unwrap();
        let found = refused(&folder, &folder.0.join("n.onnx"), 0);
        expect!["cannot write `…/n.onnx.data`: it is a directory"].assert_eq(&found);
        assert_eq!(folder.files(), ["m.onnx", "n.onnx.data"]);
    }

    #[test]
    fn a_device_is_not_replaced() {
        let folder = Folder::new("device");
        let found = refused(&folder, Path::new("/dev/null"), 1 << 20);
        expect!["cannot write `/dev/null`: it is not a regular file"].assert_eq(&found);
    }

    #[test]
    fn a_failure_midway_leaves_what_was_there() {
        let folder = Folder::new("midway");
        let path = folder.0.join("m.onnx");
        fs::write(&path, "old").unwrap();
        let result = Staged::write(&path, |file| {
            file.write_all(b"half")?;
            Err(io::Error::other("the disk is full").into())
        });
        let error = result.err().unwrap().to_string();
        assert!(error.ends_with("m.onnx`: the disk is full"), "{error}");
        assert_eq!(folder.files(), ["m.onnx"]);
        assert_eq!(fs::read(&path).unwrap(), b"old");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_is_reported() {
        let mut full = File::options().write(true).open("/dev/full").unwrap();
        let message = Message::new(&model(), &mut no_metadata).unwrap();
        let error = WriteError::from(message.write(&mut full).unwrap_err());
        expect!["cannot write the model: No space left on device (os error 28)"]
            .assert_eq(&error.to_string());
    }

    #[test]
    fn old_data_comes_back_when_the_model_cannot_be_renamed() {
        let folder = Folder::new("backup");
        let data = folder.0.join("m.onnx.data");
        fs::write(&data, "old").unwrap();
        let backup = Backup::of(&data).unwrap();
        Staged::write(&data, |file| Ok(file.write_all(b"new")?)).unwrap().commit().unwrap();
        drop(backup);
        assert_eq!(folder.files(), ["m.onnx.data"]);
        assert_eq!(fs::read(&data).unwrap(), b"old");
    }

    #[test]
    fn a_model_cannot_reach_out_of_its_folder() {
        for location in ["/etc/passwd", "../secret", "a/../../secret", ""] {
            let external = External { location: location.into(), ..External::default() };
            let error = fetch(Path::new("/tmp"), &external).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{location}");
        }
    }
}
