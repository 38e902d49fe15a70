//! Models as protobuf. Nothing outside this module knows the format.
//!
//! `proto/generated.rs` is prost-build's output for `onnx.proto` as onnx 1.23 ships it, without
//! the comments and with `raw_data` as [`Bytes`].

use bytes::Bytes;

mod annotate;
pub(crate) mod annotations;
#[allow(clippy::all, clippy::pedantic, dead_code, unused_qualifications)]
pub(crate) mod generated;
pub mod load;
mod message;
#[cfg(test)]
mod read;
pub mod scan;
mod skim;
pub(crate) mod wire;
mod write;

pub(crate) use annotate::annotate;
pub use message::Message;
#[cfg(test)]
pub(crate) use read::{DecodeError, External, read, read_with};
pub use skim::{Skim, skim};
pub use wire::WireError;
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
    Scan(#[from] scan::ScanError),
    #[error("this is not an ONNX model: it is truncated")]
    Damaged,
}

/// The name of an output that its node leaves out.
pub const OMITTED: &str = "";

/// Packs strings as contents of a tensor: each is its length, as four little-endian bytes, and its
/// bytes.
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

/// Changes the message in a file.
#[cfg(test)]
pub(crate) fn edit_file(path: &std::path::Path, edit: impl FnOnce(&mut generated::ModelProto)) {
    let bytes = std::fs::read(path).unwrap();
    let mut proto = <generated::ModelProto as prost::Message>::decode(&bytes[..]).unwrap();
    edit(&mut proto);
    std::fs::write(path, prost::Message::encode_to_vec(&proto)).unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_packed_with_their_lengths() {
        let data = pack_strings([&b"ab"[..], b"", b"c"]);
        assert_eq!(unpack_strings(&data), Some(vec![&b"ab"[..], b"", b"c"]));
        assert_eq!(unpack_strings(&data[..data.len() - 1]), None);
    }
}
