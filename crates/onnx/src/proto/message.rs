//! Encodes a model as one protobuf message, whose large contents are computed while it is written.

use std::io;
use std::sync::Arc;

use super::generated::{GraphProto, ModelProto, TensorProto};
use super::schema::Field;
use super::wire::begin_field;
use super::write::{WriteError, property};
use crate::tensor::{Assumptions, Part, Tensor, write_parts};

/// An initializer. If `contents` is set, `proto` does not contain them.
pub(crate) struct Initializer {
    pub proto: TensorProto,
    pub contents: Option<Arc<Tensor>>,
}

impl Initializer {
    /// Sets the name of the external file, if the contents are external.
    pub(crate) fn set_location(&mut self, location: &str) {
        if !self.proto.external_data.is_empty() {
            self.proto.external_data.insert(0, property("location", location));
        }
    }
}

/// A model as one protobuf message. It shares its large weights with the model.
#[derive(Default)]
pub struct Message {
    /// Large contents, each with the bytes before it.
    parts: Vec<(Vec<u8>, Arc<Tensor>)>,
    end: Vec<u8>,
    pub(super) assumptions: Option<Assumptions>,
}

impl Message {
    /// Returns the number of bytes.
    pub fn size(&self) -> usize {
        let sizes = self.parts.iter().map(|(bytes, contents)| bytes.len() + contents.byte_len());
        sizes.sum::<usize>() + self.end.len()
    }

    /// Writes the message into a buffer of exactly its size.
    pub fn write_into(&self, mut buffer: &mut [u8]) -> Result<(), WriteError> {
        for (bytes, contents) in &self.parts {
            let (of_bytes, rest) = buffer.split_at_mut(bytes.len());
            let (of_contents, rest) = rest.split_at_mut(contents.byte_len());
            of_bytes.copy_from_slice(bytes);
            contents.write_into(of_contents);
            buffer = rest;
        }
        buffer.copy_from_slice(&self.end);
        match self.assumptions.as_ref().is_some_and(Assumptions::are_wrong) {
            true => Err(WriteError::WrongAssumption),
            false => Ok(()),
        }
    }

    /// Writes the message, and computes contents block by block.
    pub(crate) fn write(&self, out: &mut (impl io::Write + ?Sized)) -> io::Result<()> {
        let parts = self
            .parts
            .iter()
            .flat_map(|(bytes, contents)| [Part::Bytes(bytes), Part::Contents(contents)]);
        let parts: Vec<Part<'_>> = parts.chain([Part::Bytes(&self.end)]).collect();
        write_parts(&parts, out)
    }

    /// Encodes a model whose graph has these initializers. Fields are in the order of their numbers.
    pub(super) fn joined(mut model: ModelProto, initializers: Vec<Initializer>) -> Message {
        let mut after = model.graph.take().unwrap_or_default();
        let before = GraphProto {
            node: std::mem::take(&mut after.node),
            name: after.name.take(),
            ..GraphProto::default()
        };
        let mut graph = Message::default();
        graph.encode(&before);
        for initializer in initializers {
            graph.initializer(initializer);
        }
        graph.encode(&after);

        let after = ModelProto {
            opset_import: std::mem::take(&mut model.opset_import),
            metadata_props: std::mem::take(&mut model.metadata_props),
            functions: std::mem::take(&mut model.functions),
            ..ModelProto::default()
        };
        let mut message = Message::default();
        message.encode(&model);
        message.field(Field::ModelGraph, graph);
        message.encode(&after);
        message
    }

    fn initializer(&mut self, Initializer { mut proto, contents }: Initializer) {
        let mut field = Message::default();
        let metadata_props = std::mem::take(&mut proto.metadata_props);
        let after = TensorProto { metadata_props, ..TensorProto::default() };
        field.encode(&proto);
        if let Some(contents) = contents {
            begin_field(&mut field.end, Field::TensorRawData, contents.byte_len());
            field.contents(contents);
        }
        field.encode(&after);
        self.field(Field::GraphInitializer, field);
    }

    fn encode(&mut self, proto: &impl prost::Message) {
        self.end.reserve(proto.encoded_len());
        proto.encode_raw(&mut self.end);
    }

    fn contents(&mut self, contents: Arc<Tensor>) {
        self.parts.push((std::mem::take(&mut self.end), contents));
    }

    /// Appends a field that is a message.
    fn field(&mut self, field: Field, message: Message) {
        begin_field(&mut self.end, field, message.size());
        for (bytes, contents) in message.parts {
            self.end.extend(bytes);
            self.contents(contents);
        }
        self.end.extend(message.end);
    }
}
