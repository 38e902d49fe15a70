//! Converts a model to protobuf.

use std::io;
use std::path::PathBuf;

use provenance::OriginId;

use super::generated::attribute_proto::AttributeType;
use super::generated::tensor_proto::DataLocation;
use super::generated::tensor_shape_proto::{Dimension, dimension};
use super::generated::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    StringStringEntryProto, TensorProto, TensorShapeProto, TypeProto, ValueInfoProto, type_proto,
};
use super::message::{Initializer, Message};
use super::unpack_strings;
use crate::attr::Attr;
use crate::check::{constants_of, holds_its_contents, type_of};
use crate::dtype::DType;
use crate::locate::Outside;
use crate::model::{Function, Graph, Model, Node};
use crate::tensor::Tensor;
use crate::value::{Dim, Symbol, Type, ValueId};

/// Returns the metadata to write for an origin.
pub type Render<'a> = dyn FnMut(OriginId) -> Vec<(&'static str, String)> + 'a;

/// Renders nothing.
#[cfg(test)]
pub(crate) fn no_metadata(_: OriginId) -> Vec<(&'static str, String)> {
    Vec::new()
}

/// Contents up to this size are a part of the encoded message. Larger ones are computed while it is written.
const MAX_ENCODED_BYTES: usize = 4096;

/// The maximum size of a protobuf message.
const MAX_BYTES: usize = i32::MAX as usize;

/// The reason why a model cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    #[error(
        "the model needs {bytes} bytes and a protobuf file holds {MAX_BYTES}: \
         put the weights into an external data file"
    )]
    TooLarge { bytes: usize },
    /// The caller converts the model again, without assumptions.
    #[error("what was assumed of large weights is wrong")]
    WrongAssumption,
    #[error("value {} has no name", .0.0)]
    Unnamed(ValueId),
    #[error("`{tensor}` has {found} bytes, but its type is `{ty}`")]
    Contents { tensor: String, ty: String, found: usize },
    #[error("cannot write `{}`: {why}", .path.display())]
    File {
        path: PathBuf,
        #[source]
        why: io::Error,
    },
    #[error("cannot write the weights of `{}`: {why}", .path.display())]
    Weights {
        path: PathBuf,
        #[source]
        why: io::Error,
    },
    #[error("cannot write the weights of `{}`: {why}", .path.display())]
    Outside {
        path: PathBuf,
        #[source]
        why: Outside,
    },
    #[error(
        "cannot write the weights of `{}`: `{}` has other contents and may belong to another model: \
         use another folder",
        .model.display(),
        .path.display()
    )]
    Occupied { path: PathBuf, model: PathBuf },
    #[error(
        "cannot write `{}`: it is a link to another folder, and readers look for the weights beside the link: \
         write to `{}`",
        .path.display(),
        .target.display()
    )]
    DistantLink { path: PathBuf, target: PathBuf },
    #[error("cannot write {what} to `{}`: {other}: use another path", .path.display())]
    Taken { what: String, path: PathBuf, other: String },
    #[error("`{}` contains the weights of `{}`: use another path", .path.display(), .model.display())]
    Used { path: PathBuf, model: PathBuf },
}

impl Message {
    pub fn new(model: &Model, render: &mut Render<'_>) -> Result<Message, WriteError> {
        let (proto, initializers) = model_proto(model, render, None)?;
        let mut message = Message::of(proto, initializers)?;
        message.assumptions.clone_from(&model.assumptions);
        Ok(message)
    }

    /// Returns the message of a model whose graph has these initializers.
    pub(crate) fn of(
        proto: ModelProto,
        initializers: Vec<Initializer>,
    ) -> Result<Message, WriteError> {
        let message = Message::joined(proto, initializers);
        let bytes = message.size();
        if bytes > MAX_BYTES { Err(WriteError::TooLarge { bytes }) } else { Ok(message) }
    }
}

/// Returns the model as one protobuf message in memory.
#[cfg(test)]
pub(crate) fn to_bytes(model: &Model, render: &mut Render<'_>) -> Result<Vec<u8>, WriteError> {
    let message = Message::new(model, render)?;
    let mut bytes = vec![0; message.size()];
    message.write_into(&mut bytes)?;
    Ok(bytes)
}

/// The position of an initializer in the external data file.
pub(crate) struct Placed {
    pub offset: u64,
    pub length: u64,
}

/// Decides which initializers are stored in the external data file.
pub(crate) trait Layout {
    fn place(&mut self, tensor: &Tensor) -> Option<Placed>;
}

/// Returns the model as protobuf, and the initializers of its graph separately. They share their contents with
/// `model`.
pub(crate) fn model_proto(
    model: &Model,
    render: &mut Render<'_>,
    layout: Option<&mut dyn Layout>,
) -> Result<(ModelProto, Vec<Initializer>), WriteError> {
    let mut writer = Writer { model, render };
    let mut graph = writer.graph(&model.graph)?;
    let ends = model.graph.inputs.iter().chain(&model.graph.outputs);
    for (proto, &id) in graph.input.iter_mut().chain(&mut graph.output).zip(ends) {
        let value = &model.values[id];
        proto.metadata_props = writer.metadata(&value.metadata, value.origin);
    }
    let initializers = writer.initializers(layout)?;
    let functions = model.functions.iter().map(|function| writer.function(function));
    let proto = ModelProto {
        ir_version: Some(model.ir_version),
        opset_import: opset_imports(model),
        producer_name: non_empty(&model.producer_name),
        producer_version: non_empty(&model.producer_version),
        functions: functions.collect::<Result<_, _>>()?,
        graph: Some(graph),
        metadata_props: properties(&model.metadata),
        ..ModelProto::default()
    };
    Ok((proto, initializers))
}

struct Writer<'a, 'r> {
    model: &'a Model,
    render: &'a mut Render<'r>,
}

impl Writer<'_, '_> {
    /// Returns the weights of the main graph and of all its bodies, in the order of first use.
    fn initializers(
        &mut self,
        mut layout: Option<&mut dyn Layout>,
    ) -> Result<Vec<Initializer>, WriteError> {
        let mut initializers = Vec::new();
        for id in constants_of(self.model, &self.model.graph) {
            let value = &self.model.values[id];
            let Some(tensor) = &value.tensor else {
                continue;
            };
            let name = self.name(id)?;
            let placed = layout.as_mut().and_then(|layout| layout.place(tensor));
            let is_deferred = placed.is_none()
                && tensor.dtype != DType::String
                && tensor.byte_len() > MAX_ENCODED_BYTES;
            let mut proto = match is_deferred {
                true => typed_proto(tensor, &name)?,
                false => tensor_proto(tensor, &name, placed)?,
            };
            proto.name = Some(name);
            proto.metadata_props = self.metadata(&value.metadata, value.origin);
            initializers.push(Initializer { proto, contents: is_deferred.then(|| tensor.clone()) });
        }
        Ok(initializers)
    }

    fn graph(&mut self, graph: &Graph) -> Result<GraphProto, WriteError> {
        let inputs = graph.inputs.iter().map(|&id| self.value_info(id));
        let outputs = graph.outputs.iter().map(|&id| self.value_info(id));
        Ok(GraphProto {
            name: Some(graph.name.to_string()),
            input: inputs.collect::<Result<_, _>>()?,
            output: outputs.collect::<Result<_, _>>()?,
            value_info: self.typed(results(graph).filter(|id| !graph.outputs.contains(id)))?,
            node: self.nodes(graph)?,
            ..GraphProto::default()
        })
    }

    /// Returns a function, with its constants as nodes, because a function has no initializers.
    fn function(&mut self, function: &Function) -> Result<FunctionProto, WriteError> {
        let body = &function.body;
        let mut node = Vec::new();
        for id in constants_of(self.model, body) {
            if let Some(tensor) = &self.model.values[id].tensor {
                let name = self.name(id)?;
                let value = AttributeProto {
                    name: Some("value".into()),
                    r#type: Some(AttributeType::Tensor as i32),
                    t: Some(tensor_proto(tensor, &name, None)?),
                    ..AttributeProto::default()
                };
                node.push(NodeProto {
                    op_type: Some("Constant".into()),
                    output: vec![name],
                    attribute: vec![value],
                    ..NodeProto::default()
                });
            }
        }
        node.extend(self.nodes(body)?);
        let names =
            |ids: &[ValueId]| -> Result<_, _> { ids.iter().map(|&id| self.name(id)).collect() };
        Ok(FunctionProto {
            name: Some(function.name.to_string()),
            domain: Some(function.domain.to_string()),
            input: names(&body.inputs)?,
            output: names(&body.outputs)?,
            value_info: self.typed(body.inputs.iter().copied().chain(results(body)))?,
            opset_import: opset_imports(self.model),
            node,
            ..FunctionProto::default()
        })
    }

    fn nodes(&mut self, graph: &Graph) -> Result<Vec<NodeProto>, WriteError> {
        graph.nodes.iter().map(|node| self.node(node)).collect()
    }

    fn node(&mut self, node: &Node) -> Result<NodeProto, WriteError> {
        let inputs = node.inputs.iter().map(|&id| id.map_or(Ok(String::new()), |id| self.name(id)));
        let outputs = node.outputs.iter().map(|&id| self.name(id));
        let mut proto = NodeProto {
            input: inputs.collect::<Result<_, _>>()?,
            output: outputs.collect::<Result<_, _>>()?,
            name: node.name.as_ref().map(ToString::to_string),
            op_type: Some(node.op.name().to_owned()),
            domain: non_empty(node.op.domain()),
            ..NodeProto::default()
        };
        for (name, attr) in &node.attrs {
            proto.attribute.push(self.attribute(name, attr)?);
        }
        proto.metadata_props = self.metadata(&node.metadata, Some(node.origin));
        Ok(proto)
    }

    /// Returns the existing metadata, with the rendered origin instead of the old one.
    fn metadata(
        &mut self,
        old: &[(String, String)],
        origin: Option<OriginId>,
    ) -> Vec<StringStringEntryProto> {
        let fresh = rendered(origin.map_or_else(Vec::new, &mut *self.render));
        let mut entries = properties(old);
        entries.retain(|old| !fresh.iter().any(|new| new.key == old.key));
        entries.extend(fresh);
        entries
    }

    fn attribute(&mut self, name: &str, attr: &Attr) -> Result<AttributeProto, WriteError> {
        let mut proto = AttributeProto { name: Some(name.into()), ..AttributeProto::default() };
        let kind = match attr {
            Attr::Int(value) => {
                proto.i = Some(*value);
                AttributeType::Int
            }
            Attr::Float(value) => {
                proto.f = Some(*value);
                AttributeType::Float
            }
            Attr::Str(value) => {
                proto.s = Some(value.as_bytes().to_vec());
                AttributeType::String
            }
            Attr::Ints(values) => {
                proto.ints = values.to_vec();
                AttributeType::Ints
            }
            Attr::Floats(values) => {
                proto.floats = values.to_vec();
                AttributeType::Floats
            }
            Attr::Strs(values) => {
                proto.strings = values.iter().map(|value| value.as_bytes().to_vec()).collect();
                AttributeType::Strings
            }
            Attr::Tensor(tensor) => {
                proto.t = Some(tensor_proto(tensor, name, None)?);
                AttributeType::Tensor
            }
            Attr::Graph(graph) => {
                proto.g = Some(self.graph(graph)?);
                AttributeType::Graph
            }
        };
        proto.r#type = Some(kind as i32);
        Ok(proto)
    }

    /// Returns the values with a known type.
    fn typed(&self, ids: impl Iterator<Item = ValueId>) -> Result<Vec<ValueInfoProto>, WriteError> {
        ids.filter(|&id| self.model.values[id].ty.is_some()).map(|id| self.value_info(id)).collect()
    }

    fn value_info(&self, id: ValueId) -> Result<ValueInfoProto, WriteError> {
        let value = &self.model.values[id];
        let of_contents = || value.tensor.as_ref().map(|tensor| type_of(tensor));
        Ok(ValueInfoProto {
            name: Some(self.name(id)?),
            r#type: value.ty.clone().or_else(of_contents).map(|ty| type_proto(&ty)),
            metadata_props: properties(&value.metadata),
            ..ValueInfoProto::default()
        })
    }

    fn name(&self, id: ValueId) -> Result<String, WriteError> {
        let name = self.model.values[id].name.as_ref();
        name.map(ToString::to_string).ok_or(WriteError::Unnamed(id))
    }
}

fn results(graph: &Graph) -> impl Iterator<Item = ValueId> {
    graph.nodes.iter().flat_map(|node| node.outputs.iter().copied())
}

/// Returns a tensor without its contents.
fn typed_proto(tensor: &Tensor, name: &str) -> Result<TensorProto, WriteError> {
    if !holds_its_contents(tensor) {
        return Err(WriteError::Contents {
            tensor: name.into(),
            ty: type_of(tensor).to_string(),
            found: tensor.byte_len(),
        });
    }
    Ok(TensorProto {
        dims: tensor.shape.clone(),
        data_type: Some(tensor.dtype.code()),
        ..TensorProto::default()
    })
}

fn tensor_proto(
    tensor: &Tensor,
    name: &str,
    placed: Option<Placed>,
) -> Result<TensorProto, WriteError> {
    let mut proto = typed_proto(tensor, name)?;
    if tensor.dtype == DType::String {
        let bytes = tensor.bytes();
        let strings = unpack_strings(&bytes).unwrap_or_default();
        proto.string_data = strings.into_iter().map(<[u8]>::to_vec).collect();
    } else if let Some(placed) = placed {
        proto.data_location = Some(DataLocation::External as i32);
        proto.external_data = vec![
            property("offset", &placed.offset.to_string()),
            property("length", &placed.length.to_string()),
        ];
    } else {
        proto.raw_data = Some(tensor.bytes());
    }
    Ok(proto)
}

/// True if the file omits the size. Such a symbol only says that the size is unknown.
fn is_unknown(dim: &Dim) -> bool {
    matches!(dim.as_symbol(), Some(Symbol::Unknown(_)))
}

fn type_proto(ty: &Type) -> TypeProto {
    let dim = ty.shape.iter().map(|dim| Dimension {
        value: match dim {
            Dim::Known(size) => Some(dimension::Value::DimValue(*size)),
            Dim::Symbolic(_) if is_unknown(dim) => None,
            Dim::Symbolic(size) => Some(dimension::Value::DimParam(size.to_string())),
        },
        ..Dimension::default()
    });
    let tensor = type_proto::Tensor {
        elem_type: Some(ty.dtype.code()),
        shape: Some(TensorShapeProto { dim: dim.collect() }),
    };
    TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..TypeProto::default() }
}

fn opset_imports(model: &Model) -> Vec<OperatorSetIdProto> {
    let import = |(domain, version): &(std::sync::Arc<str>, i64)| OperatorSetIdProto {
        domain: Some(domain.to_string()),
        version: Some(*version),
    };
    model.opsets.iter().map(import).collect()
}

fn properties(pairs: &[(String, String)]) -> Vec<StringStringEntryProto> {
    pairs.iter().map(|(key, value)| property(key, value)).collect()
}

fn rendered(pairs: Vec<(&'static str, String)>) -> Vec<StringStringEntryProto> {
    let entry = |(key, value): (&str, String)| StringStringEntryProto {
        key: Some(key.into()),
        value: Some(value),
    };
    pairs.into_iter().map(entry).collect()
}

pub(super) fn property(key: &str, value: &str) -> StringStringEntryProto {
    StringStringEntryProto { key: Some(key.into()), value: Some(value.into()) }
}

fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests;
