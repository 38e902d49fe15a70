use std::io::{Read, Seek, SeekFrom};

use bytes::Bytes;
use expect_test::expect;

use super::*;
use crate::locate::locate;
use crate::names::assign_names;
use crate::outputs::Files;
use crate::proto::testing::with_location;
use crate::proto::{DecodeError, External, no_metadata, read_with};
use crate::staged::testing::Folder;
use crate::text::parse_graph;

impl Folder {
    /// Returns the names of the weight files.
    fn data(&self) -> Vec<String> {
        let is_data = |name: &String| Path::new(name).extension() == Some("data".as_ref());
        self.files().into_iter().filter(is_data).collect()
    }

    /// Writes a model with its weights in a file beside it.
    fn save(&self, name: &str, weights: u8) {
        save_to(&model_with(weights), &self.0.join(name), 0).unwrap();
    }

    /// Writes a changed copy of a model.
    fn copy(&self, from: &str, to: &str) -> Result<(), String> {
        let bytes = fs::read(self.0.join(from)).unwrap();
        let output = Files::default().write("the model", &self.0.join(to));
        let saved = output.and_then(|output| save_bytes(&bytes, &self.0.join(from), output));
        saved.map_err(|error| error.to_string().replace(self.0.to_str().unwrap(), "…"))
    }

    /// Returns the byte that the weights of a model consist of.
    fn weights(&self, name: &str) -> u8 {
        let model = load(&self.0.join(name)).unwrap();
        let text = crate::proto::to_bytes(&model, &mut no_metadata).unwrap();
        let is_weights = |weights: &u8| {
            text == crate::proto::to_bytes(&model_with(*weights), &mut no_metadata).unwrap()
        };
        (0..=9).find(is_weights).unwrap()
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
    let mut file = File::open(locate(folder, &external.location).map_err(io::Error::other)?)?;
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

/// Returns the model whose large weights consist of one byte.
fn model_with(weights: u8) -> Model {
    let mut model = model();
    for id in model.values.ids() {
        if let Some(tensor) = &mut model.values[id].tensor {
            let contents = vec![weights; tensor.byte_len()];
            *tensor = Tensor::new(tensor.dtype, tensor.shape.clone(), contents).into();
        }
    }
    model
}

/// Registers a file that no other part of a command uses.
fn output(path: &Path) -> Output {
    Files::default().write("the model", path).unwrap()
}

fn save_to(model: &Model, path: &Path, threshold: usize) -> Result<(), WriteError> {
    save(model, &mut no_metadata, Files::default().write("the model", path)?, threshold)
}

/// Returns the message of the error, without the folder.
fn refused(folder: &Folder, path: &Path, threshold: usize) -> String {
    let error = save_to(&model(), path, threshold).unwrap_err();
    error.to_string().replace(folder.0.to_str().unwrap(), "…")
}

#[test]
fn weights_up_to_the_threshold_are_in_the_model() {
    let folder = Folder::new("inline");
    let path = folder.0.join("m.onnx");
    save_to(&model(), &path, 1 << 20).unwrap();
    assert_eq!(folder.files(), ["m.onnx"]);
    assert_eq!(load(&path).unwrap().typed_text().to_string(), model().typed_text().to_string());
}

#[test]
fn larger_weights_are_in_one_file_at_whole_pages() {
    let folder = Folder::new("external");
    let path = folder.0.join("m.onnx");
    save_to(&model(), &path, 4096).unwrap();
    let [location] = &folder.data()[..] else { panic!("{:?}", folder.files()) };
    assert_eq!(folder.files(), ["m.onnx", location]);
    assert!(
        location.starts_with("m.onnx.") && location.len() == "m.onnx.0123456789abcdef.data".len()
    );
    assert_eq!(fs::metadata(folder.0.join(location)).unwrap().len(), 3 * 4096);
    let bytes = Bytes::from(fs::read(&path).unwrap());
    let mut places = Vec::new();
    read_with(bytes.clone(), &mut |place| {
        places.push((place.location.clone(), place.offset, place.length));
        Ok(Bytes::new())
    })
    .unwrap();
    assert_eq!(places, [(location.clone(), 0, Some(4096)), (location.clone(), 4096, Some(8192))]);
    let bytes = |model: &Model| crate::proto::to_bytes(model, &mut no_metadata).unwrap();
    assert_eq!(bytes(&load(&path).unwrap()), bytes(&model()));
    let bare = load_without_external_data(&path).unwrap();
    assert_eq!(bare.text().to_string(), model().text().to_string());
    let error = crate::proto::read(fs::read(&path).unwrap().into()).unwrap_err().to_string();
    let wanted = "the contents of `large` are in the file `…`: pass the path of the model instead of its bytes";
    assert_eq!(error.replace(location, "…"), wanted);
}

#[test]
fn a_missing_folder_is_named() {
    let folder = Folder::new("missing");
    for threshold in [0, 1 << 20] {
        let found = refused(&folder, &folder.0.join("no/m.onnx"), threshold);
        assert!(found.starts_with("cannot write ") && found.contains("`…/no/m.onnx`"), "{found}");
        assert!(found.ends_with("No such file or directory (os error 2)"), "{found}");
    }
    assert!(folder.files().is_empty());
}

#[test]
#[cfg(target_os = "linux")]
fn a_folder_that_cannot_be_written_to_is_named() {
    // Nobody can create files here, whatever their permissions.
    let found = refused(&Folder::new("unwritable"), Path::new("/proc/self/m.onnx"), 1 << 20);
    assert!(found.starts_with("cannot write `/proc/self/m.onnx`: "), "{found}");
}

#[test]
fn a_directory_is_not_replaced() {
    let folder = Folder::new("directory");
    fs::create_dir(folder.0.join("m.onnx")).unwrap();
    let found = refused(&folder, &folder.0.join("m.onnx"), 0);
    expect!["cannot write `…/m.onnx`: it is a directory"].assert_eq(&found);
    assert_eq!(folder.files(), ["m.onnx"]);
}

#[test]
fn a_device_is_not_replaced() {
    let folder = Folder::new("device");
    let found = refused(&folder, Path::new("/dev/null"), 1 << 20);
    expect!["cannot write `/dev/null`: it is not a regular file"].assert_eq(&found);
}

#[test]
fn a_failure_midway_leaves_the_old_files() {
    let folder = Folder::new("midway");
    let path = folder.0.join("m.onnx");
    fs::write(&path, "old").unwrap();
    let result = output(&path).stage(|file| {
        file.write_all(b"half")?;
        Err(io::Error::other("the disk is full"))
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
    let error = message.write(&mut full).unwrap_err();
    expect!["No space left on device (os error 28)"].assert_eq(&error.to_string());
    let target = Target::of(Path::new("m.onnx")).unwrap();
    expect!["cannot write the weights of `m.onnx`: No space left on device (os error 28)"]
        .assert_eq(&target.failed_weights(error).to_string());
}

#[test]
fn a_model_cannot_reach_out_of_its_folder() {
    for location in ["/etc/passwd", "../secret", "a/../../secret", ""] {
        let external = External { location: location.into(), ..External::default() };
        assert!(fetch(Path::new("/tmp"), &external).is_err(), "{location}");
    }
}

#[test]
fn equal_weights_have_one_name_and_others_another_one() {
    let folder = Folder::new("names");
    folder.save("m.onnx", 1);
    let first = folder.data();
    folder.save("m.onnx", 1);
    assert_eq!(folder.data(), first);
    folder.save("m.onnx", 2);
    assert_ne!(folder.data(), first);
    assert_eq!((folder.data().len(), folder.weights("m.onnx")), (1, 2));
}

#[test]
fn the_hash_depends_only_on_the_bytes_that_are_written() {
    let bytes: Vec<u8> = (0..3 * HASHED_BYTES + 5).map(|place| (place % 251) as u8).collect();
    let hash = |block: usize| {
        let mut written = Vec::new();
        let mut out = Hashing::new(&mut written);
        for block in bytes.chunks(block) {
            out.write_all(block).unwrap();
            out.flush().unwrap();
        }
        let hash = out.finish().unwrap();
        assert_eq!(written, bytes);
        hash
    };
    let hashes = [1, 7, HASHED_BYTES, HASHED_BYTES + 1, bytes.len()].map(hash);
    assert_eq!(hashes, [hashes[0]; 5]);
}

#[test]
fn weights_that_change_meanwhile_have_the_hash_of_what_is_written() {
    let mut written = Vec::new();
    let mut out = Hashing::new(&mut written);
    let mut memory = vec![0; HASHED_BYTES + 3];
    for round in 0..3 {
        memory.fill(round);
        out.write_all(&memory).unwrap();
        // Changes of the memory from here on affect neither the file nor its hash.
        memory.fill(99);
    }
    let hash = out.finish().unwrap();
    let mut again = Vec::new();
    let mut out = Hashing::new(&mut again);
    out.write_all(&written).unwrap();
    assert_eq!((out.finish().unwrap(), written.contains(&99)), (hash, false));
}

#[test]
fn weights_do_not_replace_another_file_of_the_command() {
    let folder = Folder::new("weights-and-map");
    folder.save("m.onnx", 1);
    let data = folder.data().remove(0);
    for name in folder.files() {
        fs::remove_file(folder.0.join(name)).unwrap();
    }
    let mut files = Files::default();
    let _map = files.write("the map", &folder.0.join(&data)).unwrap();
    let model = files.write("the model", &folder.0.join("m.onnx")).unwrap();
    let refused = save(&model_with(1), &mut no_metadata, model, 0).unwrap_err().to_string();
    assert!(refused.contains("the map goes to the same file"), "{refused}");
    assert_eq!(folder.files(), [""; 0]);
}

#[test]
fn weights_stay_while_another_model_refers_to_them() {
    let folder = Folder::new("shared");
    folder.save("m.onnx", 1);
    folder.copy("m.onnx", "release.onnx").unwrap();
    folder.save("m.onnx", 2);
    assert_eq!((folder.weights("m.onnx"), folder.weights("release.onnx")), (2, 1));
    assert_eq!(folder.data().len(), 2);
    folder.copy("m.onnx", "release.onnx").unwrap();
    assert_eq!((folder.data().len(), folder.weights("release.onnx")), (1, 2));
}

#[test]
fn a_model_without_a_suffix_keeps_its_weights() {
    let folder = Folder::new("suffix");
    folder.save("m.onnx", 1);
    fs::copy(folder.0.join("m.onnx"), folder.0.join("backup")).unwrap();
    folder.save("m.onnx", 2);
    assert_eq!(folder.weights("backup"), 1);
}

#[test]
fn weights_stay_if_a_model_cannot_be_read() {
    let folder = Folder::new("unreadable");
    folder.save("m.onnx", 1);
    fs::write(folder.0.join("n.onnx"), "damaged").unwrap();
    folder.save("m.onnx", 2);
    assert_eq!(folder.data().len(), 2);
}

#[test]
fn a_model_with_its_weights_inside_leaves_no_file_behind() {
    let folder = Folder::new("inside");
    folder.save("m.onnx", 1);
    save_to(&model(), &folder.0.join("m.onnx"), 1 << 20).unwrap();
    assert_eq!(folder.files(), ["m.onnx"]);
    // Earlier versions wrote this name.
    folder.save("m.onnx", 1);
    rename_data(&folder, "m.onnx.data");
    folder.save("m.onnx", 2);
    assert_eq!((folder.data().len(), folder.weights("m.onnx")), (1, 2));
}

/// Renames the weight file of `m.onnx`.
fn rename_data(folder: &Folder, name: &str) {
    let [data] = &folder.data()[..] else { panic!("{:?}", folder.files()) };
    let path = folder.0.join("m.onnx");
    fs::rename(folder.0.join(data), folder.0.join(name)).unwrap();
    let model = with_location(&fs::read(&path).unwrap(), name);
    fs::write(path, model).unwrap();
}

#[test]
fn a_file_that_an_export_did_not_write_is_not_removed() {
    let folder = Folder::new("foreign");
    for name in [".bashrc", "n.onnx.data", "m.onnx.0123.data", "0123456789abcdef"] {
        folder.save("m.onnx", 1);
        rename_data(&folder, name);
        folder.save("m.onnx", 2);
        assert!(folder.0.join(name).exists(), "{name}");
        fs::remove_file(folder.0.join(name)).unwrap();
    }
}

#[test]
fn leftovers_are_removed_with_their_weights_and_files_in_use_are_not() {
    let folder = Folder::new("leftovers");
    folder.save("m.onnx", 1);
    // The export of these weights was interrupted before the model was renamed.
    folder.save("n.onnx", 2);
    fs::rename(folder.0.join("n.onnx"), folder.0.join(".jax2onnx-0123.tmp")).unwrap();
    fs::write(folder.0.join(".jax2onnx-4567.tmp"), "half").unwrap();
    let in_use = output(&folder.0.join("other")).stage(|file| file.write_all(b"whole")).unwrap();
    folder.save("m.onnx", 3);
    assert_eq!((folder.data().len(), folder.files().len()), (1, 3));
    in_use.commit().unwrap();
    assert_eq!((folder.data().len(), folder.files().len()), (1, 3));
    assert!(folder.0.join("other").exists());
}

#[test]
fn weights_are_copied_to_another_folder_and_below_it() {
    let folder = Folder::new("copied");
    fs::create_dir(folder.0.join("b")).unwrap();
    folder.save("m.onnx", 1);
    folder.copy("m.onnx", "b/m.onnx").unwrap();
    folder.copy("m.onnx", "b/n.onnx").unwrap();
    assert_eq!((folder.weights("b/m.onnx"), folder.weights("b/n.onnx")), (1, 1));
    fs::create_dir(folder.0.join("sub")).unwrap();
    rename_data(&folder, "sub/weights");
    folder.copy("m.onnx", "b/m.onnx").unwrap();
    assert_eq!((folder.weights("b/m.onnx"), folder.weights("b/n.onnx")), (1, 1));
}

#[test]
fn a_file_with_other_contents_is_not_overwritten() {
    let folder = Folder::new("occupied");
    fs::create_dir(folder.0.join("b")).unwrap();
    folder.save("m.onnx", 1);
    rename_data(&folder, "weights");
    fs::write(folder.0.join("b/weights"), "mine").unwrap();
    expect!["cannot write the weights of `…/b/m.onnx`: `…/b/weights` has other contents and may belong to another model: use another folder"]
        .assert_eq(&folder.copy("m.onnx", "b/m.onnx").unwrap_err());
    assert_eq!(fs::read_dir(folder.0.join("b")).unwrap().count(), 1);
    assert_eq!(fs::read(folder.0.join("b/weights")).unwrap(), b"mine");
}

#[test]
#[cfg(unix)]
fn links_out_of_the_folder_and_sockets_are_not_weights() {
    use std::os::unix::fs::symlink;
    let folder = Folder::new("links");
    fs::create_dir(folder.0.join("b")).unwrap();
    fs::create_dir(folder.0.join("a")).unwrap();
    folder.save("m.onnx", 1);
    rename_data(&folder, "secret");
    fs::rename(folder.0.join("m.onnx"), folder.0.join("a/m.onnx")).unwrap();
    symlink("../secret", folder.0.join("a/secret")).unwrap();
    expect!["cannot write the weights of `…/b/m.onnx`: `secret` is a link to a file outside the folder of the model"]
        .assert_eq(&folder.copy("a/m.onnx", "b/m.onnx").unwrap_err());
    fs::remove_file(folder.0.join("a/secret")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(folder.0.join("a/secret")).unwrap();
    expect!["cannot write the weights of `…/b/m.onnx`: `secret` is not a file"]
        .assert_eq(&folder.copy("a/m.onnx", "b/m.onnx").unwrap_err());
    assert_eq!(fs::read_dir(folder.0.join("b")).unwrap().count(), 0);
    // A link in the other folder leads out of it.
    fs::create_dir(folder.0.join("a/sub")).unwrap();
    fs::rename(folder.0.join("secret"), folder.0.join("a/sub/w")).unwrap();
    fs::rename(folder.0.join("a/m.onnx"), folder.0.join("m.onnx")).unwrap();
    folder.save("m.onnx", 1);
    fs::create_dir(folder.0.join("sub")).unwrap();
    rename_data(&folder, "sub/w");
    symlink("..", folder.0.join("b/sub")).unwrap();
    expect!["cannot write the weights of `…/b/m.onnx`: `sub/w` is a link to a file outside the folder of the model"]
        .assert_eq(&folder.copy("m.onnx", "b/m.onnx").unwrap_err());
}

#[test]
#[cfg(unix)]
fn a_replaced_file_keeps_its_permissions_and_a_link_stays() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = Folder::new("permissions");
    let mode = |name: &str| fs::metadata(folder.0.join(name)).unwrap().permissions().mode() & 0o777;
    folder.save("m.onnx", 1);
    let new = mode("m.onnx");
    fs::set_permissions(folder.0.join("m.onnx"), PermissionsExt::from_mode(0o664)).unwrap();
    fs::set_permissions(folder.0.join(&folder.data()[0]), PermissionsExt::from_mode(0o600))
        .unwrap();
    symlink("m.onnx", folder.0.join("l.onnx")).unwrap();
    folder.save("l.onnx", 2);
    assert!(fs::symlink_metadata(folder.0.join("l.onnx")).unwrap().is_symlink());
    assert_eq!(
        (folder.weights("m.onnx"), folder.weights("l.onnx"), folder.data().len()),
        (2, 2, 1)
    );
    assert_eq!((mode("m.onnx"), mode(&folder.data()[0])), (0o664, 0o600));
    folder.save("n.onnx", 1);
    assert_eq!(mode("n.onnx"), new);
    // The target of this link does not exist yet.
    fs::create_dir(folder.0.join("b")).unwrap();
    symlink("b/m.onnx", folder.0.join("far.onnx")).unwrap();
    let far = folder.0.join("far.onnx");
    expect!["cannot write `…/far.onnx`: it is a link to another folder, and readers look for the weights beside the link: write to `…/b/m.onnx`"]
        .assert_eq(&refused(&folder, &far, 0));
    save_to(&model(), &far, 1 << 20).unwrap();
    assert!(folder.0.join("b/m.onnx").is_file());
}
