//! Opens untrusted files, and reads models from them.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use onnx::proto::load::without_weights;
use onnx::scan::FormatError;
use onnx::source_map::NoMap;
use provenance::source_map::{MapError, WrongPair};

use crate::Document;

/// The reason why a model cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error("cannot read `{}`: {why}", .path.display())]
    File { path: PathBuf, why: io::Error },
    #[error("`{}` is not a file", .path.display())]
    NoFile { path: PathBuf },
    #[error("{name}: {why}")]
    Scan { name: String, why: FormatError },
    #[error("{name}: this is not an ONNX model: {what}")]
    Other { name: String, what: &'static str },
    #[error("{name}: {why}")]
    Model { name: String, why: NoMap },
    #[error("{}: this is neither a source map nor a model with provenance: {why}", .path.display())]
    NoMap { path: PathBuf, why: NoMap },
    #[error("`{}` has {found} bytes, but a source map has at most {most}", .path.display())]
    MapSize { path: PathBuf, found: u64, most: u64 },
    #[error("`{}` has {found} bytes, but an ONNX model has at most {most}", .path.display())]
    ModelSize { path: PathBuf, found: u64, most: u64 },
    #[error("`{}` was truncated while jax2onnx read it", .path.display())]
    Shrunk { path: PathBuf },
    #[error("{}: this is not a source map: it is not UTF-8", .path.display())]
    MapUtf8 { path: PathBuf },
    #[error("{}: {why}", .path.display())]
    Map { path: PathBuf, why: MapError },
    #[error("{}: {why}", .path.display())]
    Pair { path: PathBuf, why: WrongPair },
}

/// Determines whether to read the contents of large weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    Read,
    Skipped,
}

/// The bytes of a model.
#[derive(Debug)]
pub struct ModelFile {
    path: Option<PathBuf>,
    bytes: Vec<u8>,
    weights: Weights,
}

impl ModelFile {
    /// Reads a model. If large weights are skipped, zeros replace their contents.
    pub fn open(path: &Path, weights: Weights) -> Result<ModelFile, OpenError> {
        /// The size of the largest protobuf message.
        const MAX: u64 = i32::MAX as u64;
        let (mut file, found) = open_regular(path)?;
        if found > MAX {
            return Err(OpenError::ModelSize { path: path.to_owned(), found, most: MAX });
        }
        let bytes = match weights {
            Weights::Read => read_exactly(&mut file, found),
            Weights::Skipped => without_weights(&mut file, found as usize),
        };
        let bytes = bytes.map_err(|why| failed(path, why))?;
        Ok(ModelFile { path: Some(path.to_owned()), bytes, weights })
    }

    /// Returns a model that is not in a file.
    pub fn from_bytes(bytes: Vec<u8>) -> ModelFile {
        ModelFile { path: None, bytes, weights: Weights::Read }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the text of a source map.
    pub fn text(&self) -> Result<&str, OpenError> {
        let path = || self.path.clone().unwrap_or_default();
        std::str::from_utf8(&self.bytes).map_err(|_| OpenError::MapUtf8 { path: path() })
    }

    /// True if the contents of all weights were read.
    pub(crate) fn has_weights(&self) -> bool {
        self.weights == Weights::Read
    }

    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the name of the model in messages.
    pub fn name(&self) -> String {
        self.path.as_ref().map_or_else(|| "the model".to_owned(), |path| path.display().to_string())
    }

    /// Reads the model and its source map: `map`, or the one beside the model.
    pub fn read(&self, map: Option<&Path>) -> Result<Document<'_>, OpenError> {
        Document::read(self, map)
    }

    /// Reads the model, which was derived from another one. The origins are in the other one if it has any.
    pub fn read_derived(&self, exported: &Path) -> Result<Document<'_>, OpenError> {
        match self.read(Some(exported)) {
            Err(OpenError::NoMap { why: NoMap::Nothing, .. }) => self.read(None),
            read => read,
        }
    }
}

/// Opens a file and returns its size. Every input of every command is opened here, because reading anything but a
/// regular file might never end.
pub fn open_regular(path: &Path) -> Result<(File, u64), OpenError> {
    let failed = |why| failed(path, why);
    let refuse = |is_file: bool| match is_file {
        true => Ok(()),
        false => Err(OpenError::NoFile { path: path.to_owned() }),
    };
    // Opening a FIFO might never end either.
    refuse(std::fs::metadata(path).map_err(failed)?.is_file())?;
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    refuse(metadata.is_file())?;
    Ok((file, metadata.len()))
}

/// Says what kind of file a user took for a model, by its first bytes.
pub(crate) fn other_kind(bytes: &[u8]) -> Option<&'static str> {
    const KINDS: &[(&[u8], &str)] = &[
        (b"version https://git-lfs", "it is a pointer of Git LFS; `git lfs pull` fetches the file"),
        (b"<!DOCTYPE", "it is a web page"),
        (b"<!doctype", "it is a web page"),
        (b"<html", "it is a web page"),
        (b"PK\x03\x04", "it is a ZIP archive"),
        (b"\x1f\x8b", "it is compressed with gzip"),
        (b"\x89HDF", "it is an HDF5 file"),
    ];
    if bytes.is_empty() {
        return Some("the file is empty");
    }
    KINDS.iter().find(|(start, _)| bytes.starts_with(start)).map(|(_, what)| *what)
}

fn read_exactly(file: &mut File, size: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size as usize)?;
    file.take(size).read_to_end(&mut bytes)?;
    if (bytes.len() as u64) < size { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(bytes) }
}

fn failed(path: &Path, why: io::Error) -> OpenError {
    let path = path.to_owned();
    match why.kind() {
        io::ErrorKind::UnexpectedEof => OpenError::Shrunk { path },
        _ => OpenError::File { path, why },
    }
}

/// Reads a source map, or a model that serves as one.
pub fn read_map(path: &Path) -> Result<ModelFile, OpenError> {
    /// The maximum size of a map, with sources. jax2onnx writes smaller ones.
    const MAX: u64 = 1 << 29;
    let file = ModelFile::open(path, Weights::Skipped)?;
    let found = file.bytes().len() as u64;
    let is_text = file.bytes().first() == Some(&b'{');
    if is_text && found > MAX {
        return Err(OpenError::MapSize { path: path.to_owned(), found, most: MAX });
    }
    Ok(file)
}
