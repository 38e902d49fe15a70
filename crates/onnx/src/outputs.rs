//! Decides which files may be written. Every file that jax2onnx writes passes this gate.
//!
//! A command registers its inputs and then each of its outputs. Only an [`Output`] can be written, so no write can
//! replace an input, another output, or the weights of a model.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::proto::{WriteError, locations};
use crate::staged::{Staged, Target, folder_of, follow_links};
use crate::weight_files::{files_of, references, remove_leftovers};

/// The files that a command reads and writes.
#[derive(Clone, Debug, Default)]
pub struct Files {
    inputs: Vec<Named>,
    outputs: Vec<Named>,
}

/// A file, and its description in messages.
#[derive(Clone, Debug)]
struct Named {
    what: String,
    path: PathBuf,
}

impl Files {
    /// Registers a file that the command reads.
    pub fn read(&mut self, what: impl Into<String>, path: &Path) {
        self.inputs.push(Named { what: what.into(), path: path.to_owned() });
    }

    /// Registers a model that the command reads, and its weight files.
    pub fn read_model(&mut self, what: impl Into<String>, path: &Path) {
        self.read(what, path);
        // If the model is damaged, the code that reads it reports that.
        let files = if path.is_file() { files_of(path).unwrap_or_default() } else { Vec::new() };
        for file in files {
            self.read(format!("a file with weights of `{}`", path.display()), &file);
        }
    }

    /// Returns all inputs, with absolute paths.
    pub fn inputs(&self) -> impl Iterator<Item = (&str, PathBuf)> {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        self.inputs.iter().map(move |input| (&*input.what, absolute(&input.path)))
    }

    /// Returns a file to write. Refuses an input, another output, and the weights of a model.
    pub fn write(&mut self, what: impl Into<String>, path: &Path) -> Result<Output, WriteError> {
        self.write_in_place(what, path, None)
    }

    /// Returns a file to write, which may be the given input.
    pub fn write_in_place(
        &mut self,
        what: impl Into<String>,
        path: &Path,
        input: Option<&Path>,
    ) -> Result<Output, WriteError> {
        let output = Named { what: what.into(), path: path.to_owned() };
        let target = Target::of(path)?;
        self.refuse(&output, input)?;
        if let Some(model) = owner(path) {
            return Err(WriteError::Used { path: path.to_owned(), model });
        }
        let others = self.clone();
        self.outputs.push(output);
        Ok(Output { target, others })
    }

    /// Refuses an output that is also another output or an input other than `except`.
    fn refuse(
        &self,
        Named { what, path }: &Named,
        except: Option<&Path>,
    ) -> Result<(), WriteError> {
        let identity = Identity::of(path);
        let is_same = |other: &&Named| Identity::of(&other.path) == identity;
        let shown = |other: &Named| match other.path == *path {
            true => String::new(),
            false => format!(" (`{}`)", other.path.display()),
        };
        // A file that does not exist yet is not read.
        let inputs = self.inputs.iter().filter(|_| identity.exists());
        let read = inputs.filter(|input| except != Some(&*input.path)).find(is_same);
        if let Some(other) = read {
            let other = format!("it is {}{}", other.what, shown(other));
            return Err(WriteError::Taken { what: what.clone(), path: path.clone(), other });
        }
        if let Some(other) = self.outputs.iter().find(is_same) {
            let other = format!("{} goes to the same file{}", other.what, shown(other));
            return Err(WriteError::Taken { what: what.clone(), path: path.clone(), other });
        }
        Ok(())
    }
}

/// A file that may be written.
#[derive(Debug)]
pub struct Output {
    target: Target,
    /// The other files of the command.
    others: Files,
}

impl Output {
    /// Writes and syncs the contents under a temporary name. The file stays as it is until [`Staged::commit`].
    pub fn stage(
        self,
        contents: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<Staged, WriteError> {
        remove_leftovers(&self.target.folder);
        self.target.stage(contents)
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Refuses a weight file beside the output that is also another file of the command.
    pub(crate) fn refuse_weights(&self, name: &str) -> Result<(), WriteError> {
        let path = self.target.folder.join(name);
        self.others.refuse(&Named { what: "the weights".to_owned(), path }, None)
    }
}

/// Creates a folder for outputs, with its parents.
pub fn create_folder(path: &Path) -> Result<(), WriteError> {
    let created = match fs::metadata(path) {
        Ok(found) if !found.is_dir() => {
            Err(io::Error::new(io::ErrorKind::NotADirectory, "it is not a folder"))
        }
        _ => fs::create_dir_all(path),
    };
    created.map_err(|why| WriteError::File { path: path.to_owned(), why })
}

/// The identity of a file, which is the same for all paths to it.
#[derive(PartialEq, Eq)]
enum Identity {
    /// An existing file, by the numbers of its device and inode.
    Numbers(u64, u64),
    /// An existing file, on a system without such numbers.
    Existing(PathBuf),
    /// A file that does not exist yet, by its folder and its name.
    New(PathBuf),
}

impl Identity {
    fn of(path: &Path) -> Identity {
        if let Ok(found) = fs::metadata(path) {
            let canonical =
                || Identity::Existing(fs::canonicalize(path).unwrap_or_else(|_| path.into()));
            return numbers(&found)
                .map_or_else(canonical, |(one, two)| Identity::Numbers(one, two));
        }
        let path = follow_links(path).unwrap_or_else(|| path.to_owned());
        let folder = folder_of(&path);
        let folder = fs::canonicalize(&folder).unwrap_or(folder);
        let name = path.file_name().unwrap_or_default();
        // The default file systems of Windows and macOS ignore case.
        let name = match cfg!(any(windows, target_os = "macos")) {
            true => name.to_string_lossy().to_lowercase().into(),
            false => name.to_owned(),
        };
        Identity::New(folder.join(name))
    }

    fn exists(&self) -> bool {
        !matches!(self, Identity::New(_))
    }
}

/// Returns the numbers of the device and the inode.
#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "only Unix has these numbers")]
fn numbers(found: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn numbers(_: &Metadata) -> Option<(u64, u64)> {
    None
}

/// Returns the model whose weights are in the file at `path`, if there is one in its folder.
fn owner(path: &Path) -> Option<PathBuf> {
    let file = fs::canonicalize(path).ok().filter(|file| file.is_file())?;
    let is_model = locations(File::open(&file).ok()?).is_ok();
    if is_model {
        return None;
    }
    let models = references(&folder_of(&file)).models.into_iter();
    models.filter(|(_, files)| files.contains(&file)).map(|(model, _)| model).next()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::staged::testing::Folder;

    /// Registers an output of a command that reads `a` and writes `b`.
    fn asked(folder: &Folder, path: &str) -> String {
        let mut files = Files::default();
        files.read("the model", &folder.0.join("a"));
        files.read("the profile", &folder.0.join("missing"));
        files.write("the map", &folder.0.join("b")).unwrap();
        let found = files.write("the page", &folder.0.join(path));
        let found = found.err().map_or("is written".to_owned(), |error| error.to_string());
        found.replace(folder.0.to_str().unwrap(), "…")
    }

    #[test]
    fn an_output_that_is_an_input_is_refused_however_it_is_spelled() {
        let folder = Folder::new("gate");
        fs::create_dir(folder.0.join("sub")).unwrap();
        fs::write(folder.0.join("a"), "old").unwrap();
        expect!["cannot write the page to `…/a`: it is the model: use another path"]
            .assert_eq(&asked(&folder, "a"));
        let by_way = expect![
            "cannot write the page to `…/./sub/../a`: it is the model (`…/a`): use another path"
        ];
        by_way.assert_eq(&asked(&folder, "./sub/../a"));
        fs::hard_link(folder.0.join("a"), folder.0.join("hard")).unwrap();
        assert!(asked(&folder, "hard").ends_with("it is the model (`…/a`): use another path"));
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("sub/../a", folder.0.join("soft")).unwrap();
            assert!(asked(&folder, "soft").ends_with("it is the model (`…/a`): use another path"));
            std::os::unix::fs::symlink("new", folder.0.join("dangling")).unwrap();
            assert_eq!(asked(&folder, "dangling"), "is written");
        }
        assert_eq!(fs::read(folder.0.join("a")).unwrap(), b"old");
        // A file that does not exist is not an input.
        assert_eq!(asked(&folder, "missing"), "is written");
        assert_eq!(asked(&folder, "c"), "is written");
    }

    #[test]
    fn two_outputs_are_two_files() {
        let folder = Folder::new("outputs");
        let same = expect![
            "cannot write the page to `…/b`: the map goes to the same file: use another path"
        ];
        same.assert_eq(&asked(&folder, "b"));
        fs::write(folder.0.join("b"), "old").unwrap();
        same.assert_eq(&asked(&folder, "b"));
        #[cfg(unix)]
        {
            fs::remove_file(folder.0.join("b")).unwrap();
            std::os::unix::fs::symlink("b", folder.0.join("soft")).unwrap();
            assert!(asked(&folder, "soft").contains("the map goes to the same file (`…/b`)"));
        }
    }

    #[test]
    fn a_model_may_be_written_in_place_but_not_over_another_input() {
        let folder = Folder::new("in-place");
        for name in ["model", "map"] {
            fs::write(folder.0.join(name), "old").unwrap();
        }
        let mut files = Files::default();
        let [model, map] = ["model", "map"].map(|name| folder.0.join(name));
        files.read("the model", &model);
        files.read("the map", &map);
        assert!(files.write_in_place("the result", &map, Some(&model)).is_err());
        assert!(files.write_in_place("the result", &model, Some(&model)).is_ok());
        assert!(files.write("the page", &model).is_err());
    }

    #[test]
    fn names_that_exports_remove_are_refused() {
        let folder = Folder::new("own-names");
        for name in [".jax2onnx.lock", ".jax2onnx-0123456789abcdef.tmp"] {
            assert!(asked(&folder, name).ends_with("jax2onnx removes files with such a name"));
        }
    }
}
