//! A model as a file that is mapped into memory.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use onnx::scan::ScanError;
use onnx::source_map::NoMap;
use provenance::source_map::{MapError, WrongPair};

use crate::Document;

/// Says why a model could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error("cannot read `{}`: {why}", .path.display())]
    File { path: PathBuf, why: io::Error },
    #[error("`{}` is not a file", .path.display())]
    NoFile { path: PathBuf },
    #[error("{name}: {why}")]
    Scan { name: String, why: ScanError },
    #[error("{name}: {why}")]
    Model { name: String, why: NoMap },
    #[error("{}: this is neither a source map nor a model that says where its nodes came from: {why}", .path.display())]
    NoMap { path: PathBuf, why: NoMap },
    #[error("`{}` has {found} bytes, and a source map has at most {most}", .path.display())]
    MapSize { path: PathBuf, found: u64, most: u64 },
    #[error("{}: this is not a source map: it is not UTF-8", .path.display())]
    MapUtf8 { path: PathBuf },
    #[error("{}: {why}", .path.display())]
    Map { path: PathBuf, why: MapError },
    #[error("{}: {why}", .path.display())]
    Pair { path: PathBuf, why: WrongPair },
}

/// The bytes of a model.
#[derive(Debug)]
pub struct ModelFile {
    path: Option<PathBuf>,
    contents: Contents,
}

#[derive(Debug)]
enum Contents {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

impl ModelFile {
    /// Maps a file into memory; nothing of it is read yet.
    pub fn open(path: &Path) -> Result<ModelFile, OpenError> {
        let contents = map(path)?;
        Ok(ModelFile { path: Some(path.to_owned()), contents })
    }

    /// Makes a model from bytes that are not in a file.
    pub fn from_bytes(bytes: Vec<u8>) -> ModelFile {
        ModelFile { path: None, contents: Contents::Owned(bytes) }
    }

    pub fn bytes(&self) -> &[u8] {
        match &self.contents {
            Contents::Mapped(bytes) => bytes,
            Contents::Owned(bytes) => bytes,
        }
    }

    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the name of the model in messages.
    pub fn name(&self) -> String {
        self.path.as_ref().map_or_else(|| "the model".to_owned(), |path| path.display().to_string())
    }

    /// Reads the model, and its source map: `map`, or the one beside the model.
    pub fn read(&self, map: Option<&Path>) -> Result<Document<'_>, OpenError> {
        Document::read(self, map)
    }
}

/// Reads a file. Only regular files are read: reading others might not end.
fn map(path: &Path) -> Result<Contents, OpenError> {
    let failed = |why| OpenError::File { path: path.to_owned(), why };
    let metadata = std::fs::metadata(path).map_err(failed)?;
    if !metadata.is_file() {
        return Err(OpenError::NoFile { path: path.to_owned() });
    }
    if metadata.len() == 0 {
        return Ok(Contents::Owned(Vec::new()));
    }
    let file = File::open(path).map_err(failed)?;
    // SAFETY: The bytes are only read. Who cuts the file off meanwhile ends the program, as with every
    // program that maps files; models are replaced by renaming.
    #[expect(unsafe_code, reason = "a file can be mapped in no other way")]
    let mapped = unsafe { Mmap::map(&file) };
    Ok(Contents::Mapped(mapped.map_err(failed)?))
}

/// Returns the text of a source map.
pub(crate) fn read_map_bytes(path: &Path) -> Result<ModelFile, OpenError> {
    /// The largest map that is read, with sources. jax2onnx writes smaller ones.
    const MAX: u64 = 1 << 29;
    let file = ModelFile::open(path)?;
    let found = file.bytes().len() as u64;
    let is_text = file.bytes().first() == Some(&b'{');
    if is_text && found > MAX {
        return Err(OpenError::MapSize { path: path.to_owned(), found, most: MAX });
    }
    Ok(file)
}
