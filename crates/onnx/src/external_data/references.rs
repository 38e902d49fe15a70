//! Finds the weight files that a model refers to, without reading the weights.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use super::locate::locate;

/// Messages nested more deeply are not read. A body of a node takes three of them.
const MAX_DEPTH: usize = 400;

/// The longest name of a file.
const MAX_NAME_BYTES: u64 = 4096;

/// Returns the locations of external data in a model, each once. A tensor that names a file counts, whether or
/// not its contents are there.
pub fn locations(model: impl Read + Seek) -> io::Result<Vec<String>> {
    let mut walk = Walk { input: BufReader::new(model), position: 0, found: BTreeSet::new() };
    let end = walk.input.seek(io::SeekFrom::End(0))?;
    walk.input.rewind()?;
    walk.message(Kind::Model, end, 0)?;
    Ok(walk.found.into_iter().collect())
}

/// Returns the files of weights that the model at `path` refers to and that exist.
pub(crate) fn files_of(path: &Path) -> io::Result<Vec<PathBuf>> {
    let folder = crate::staged::folder_of(path);
    let locations = locations(File::open(path)?)?;
    Ok(locations.iter().filter_map(|location| locate(&folder, location).ok()).collect())
}

/// The models in a folder.
pub(crate) struct References {
    /// Each with the files of weights that it refers to.
    pub(crate) models: Vec<(PathBuf, Vec<PathBuf>)>,
    /// False if a file named `*.onnx` cannot be read.
    pub(crate) is_complete: bool,
}

/// Reads the models in a folder.
pub(crate) fn references(folder: &Path) -> References {
    let mut found = References { models: Vec::new(), is_complete: true };
    let Ok(entries) = fs::read_dir(folder) else {
        return References { is_complete: false, ..found };
    };
    for entry in entries {
        let Ok(entry) = entry else {
            found.is_complete = false;
            continue;
        };
        let path = entry.path();
        // A link to a model counts. Opening what is not a regular file might not end.
        if !path.is_file() {
            continue;
        }
        match files_of(&path) {
            Ok(files) => found.models.push((path, files)),
            // A file with another name is not a model.
            Err(_) => found.is_complete &= path.extension() != Some(OsStr::new("onnx")),
        }
    }
    found
}

/// The messages on the way to a file of weights.
#[derive(Clone, Copy)]
enum Kind {
    Model,
    Graph,
    Function,
    Node,
    Attribute,
    SparseTensor,
    Tensor,
    /// A key and a value.
    Entry,
}

impl Kind {
    fn child(self, field: u64) -> Option<Kind> {
        match (self, field) {
            (Kind::Model, 7) | (Kind::Attribute, 6 | 11) => Some(Kind::Graph),
            (Kind::Model, 25) => Some(Kind::Function),
            (Kind::Graph, 1) | (Kind::Function, 7) => Some(Kind::Node),
            (Kind::Node, 5) | (Kind::Function, 11) => Some(Kind::Attribute),
            (Kind::Graph, 5) | (Kind::Attribute, 5 | 10) | (Kind::SparseTensor, 1 | 2) => {
                Some(Kind::Tensor)
            }
            (Kind::Graph, 15) | (Kind::Attribute, 22 | 23) => Some(Kind::SparseTensor),
            (Kind::Tensor, 13) => Some(Kind::Entry),
            _ => None,
        }
    }
}

struct Walk<R> {
    input: BufReader<R>,
    position: u64,
    found: BTreeSet<String>,
}

impl<R: Read + Seek> Walk<R> {
    /// Reads the message that ends at `end`.
    fn message(&mut self, kind: Kind, end: u64, depth: usize) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let (mut key, mut value) = (Vec::new(), Vec::new());
        while self.position < end {
            let tag = self.varint()?;
            if tag >> 3 == 0 {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let length = match tag & 7 {
                0 => {
                    self.varint()?;
                    continue;
                }
                1 => 8,
                2 => self.varint()?,
                5 => 4,
                _ => return Err(io::ErrorKind::InvalidData.into()),
            };
            let field_end = self.position.checked_add(length).filter(|&field_end| field_end <= end);
            let field_end = field_end.ok_or(io::ErrorKind::InvalidData)?;
            match (kind, tag >> 3) {
                (Kind::Entry, 1) => key = self.text(length)?,
                (Kind::Entry, 2) => value = self.text(length)?,
                (_, field) => match kind.child(field).filter(|_| tag & 7 == 2) {
                    Some(child) => self.message(child, field_end, depth + 1)?,
                    None => self.skip(length)?,
                },
            }
        }
        if key == b"location" {
            let location = String::from_utf8(value).map_err(|_| io::ErrorKind::InvalidData)?;
            self.found.insert(location);
        }
        if self.position == end { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    fn varint(&mut self) -> io::Result<u64> {
        let mut number = 0;
        for place in 0..10 {
            let &[byte, ..] = self.input.fill_buf()? else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            self.input.consume(1);
            self.position += 1;
            number |= u64::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(io::ErrorKind::InvalidData.into())
    }

    fn text(&mut self, length: u64) -> io::Result<Vec<u8>> {
        if length > MAX_NAME_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut text = vec![0; length as usize];
        self.input.read_exact(&mut text)?;
        self.position += length;
        Ok(text)
    }

    fn skip(&mut self, length: u64) -> io::Result<()> {
        self.position += length;
        let length = i64::try_from(length).map_err(|_| io::ErrorKind::InvalidData)?;
        self.input.seek_relative(length)
    }
}
