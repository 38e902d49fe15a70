//! Encoded fields, for tests.

use std::path::Path;

use prost::Message;

use super::generated::ModelProto;
use super::schema::Field;
use super::wire::write_field;

/// Returns a field that is a message, a text or bytes.
pub(super) fn field(id: Field, content: impl AsRef<[u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_field(&mut bytes, id, content.as_ref());
    bytes
}

/// Returns a model whose graph has these fields.
pub(super) fn model(graph: &[Vec<u8>]) -> Vec<u8> {
    field(Field::ModelGraph, graph.concat())
}

/// Changes the name of the weight file in the model at `path`.
pub(crate) fn rename_weights(path: &Path, name: &str) {
    let bytes = std::fs::read(path).unwrap();
    let mut proto = ModelProto::decode(&bytes[..]).unwrap();
    for tensor in &mut proto.graph.as_mut().unwrap().initializer {
        for entry in tensor.external_data.iter_mut().filter(|entry| entry.key() == "location") {
            entry.value = Some(name.into());
        }
    }
    std::fs::write(path, proto.encode_to_vec()).unwrap();
}
