//! Encoded fields, for tests.

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

/// Returns a model with another name of its weight file.
pub(crate) fn with_location(model: &[u8], name: &str) -> Vec<u8> {
    let mut proto = ModelProto::decode(model).unwrap();
    for tensor in &mut proto.graph.as_mut().unwrap().initializer {
        for entry in tensor.external_data.iter_mut().filter(|entry| entry.key() == "location") {
            entry.value = Some(name.into());
        }
    }
    proto.encode_to_vec()
}
