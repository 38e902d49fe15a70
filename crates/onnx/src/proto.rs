//! Reads and writes models as protobuf. The modules that know the format are private to this one.
//!
//! `tools/generate-proto` derives two descriptions from the `onnx.proto` of onnx 1.23: `generated` has prost's
//! messages, which models are written with, and `schema` has the table of fields, by which `wire` reads the bytes
//! of a file in place. `scan`, `load`, `locations` and `annotations` only say what to do at which field.

use bytes::Bytes;

mod annotate;
pub(crate) mod annotations;
#[allow(clippy::all, clippy::pedantic, dead_code, unused_qualifications)]
mod generated;
pub mod load;
mod locations;
mod message;
mod read;
pub mod scan;
#[allow(dead_code)]
mod schema;
mod skim;
#[cfg(test)]
pub(crate) mod testing;
mod wire;
mod write;

pub(crate) use annotate::annotate;
pub use locations::locations;
pub use message::Message;
pub(crate) use read::read_types;
#[cfg(test)]
pub(crate) use read::{DecodeError, External, read, read_with};
pub use skim::{Skim, skim};
pub use wire::{EncodingError, FormatError};
pub(crate) use write::{Layout, Placed, model_proto};
pub use write::{Render, WriteError};
#[cfg(test)]
pub(crate) use write::{no_metadata, to_bytes};

/// The reason why a model cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    #[error("this is not an ONNX model: {0}")]
    Protobuf(#[from] prost::DecodeError),
    #[error(transparent)]
    Format(#[from] FormatError),
}

/// The name of an omitted output.
pub const OMITTED: &str = "";

/// Packs strings as the contents of a tensor: the length of each as four little-endian bytes, then its bytes.
pub fn pack_strings<'a>(strings: impl IntoIterator<Item = &'a [u8]>) -> Bytes {
    let mut data = Vec::new();
    for string in strings {
        data.extend_from_slice(&(string.len() as u32).to_le_bytes());
        data.extend_from_slice(string);
    }
    data.into()
}

/// Returns the strings in the contents of a tensor; `None` if the contents end too early.
pub fn unpack_strings(mut data: &[u8]) -> Option<Vec<&[u8]>> {
    let mut strings = Vec::new();
    while !data.is_empty() {
        let (length, rest) = data.split_first_chunk::<4>()?;
        let (string, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        strings.push(string);
        data = rest;
    }
    Some(strings)
}

#[cfg(test)]
mod tests;
