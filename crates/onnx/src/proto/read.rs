//! Decodes a whole model, so that tests can compare it with the model that was written.

use std::io;
#[cfg(test)]
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use provenance::{Origin, OriginId, Site, Table, keys};
use rustc_hash::{FxHashMap, FxHashSet};

use super::generated::attribute_proto::AttributeType;
use super::generated::tensor_proto::DataLocation;
use super::generated::tensor_shape_proto::dimension;
use super::generated::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, StringStringEntryProto,
    TensorProto, TypeProto, ValueInfoProto, type_proto,
};
use super::{OMITTED, pack_strings};
use crate::attr::Attr;
use crate::check::{holds_its_contents, type_of};
use crate::dtype::DType;
use crate::kernels::Target;
use crate::model::{Function, Graph, Model, Node};
use crate::operator::Operator;
use crate::tensor::Tensor;
use crate::value::{Dim, Symbol, Type, Value, ValueId, Values};

/// The reason why a model cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecodeError {
    #[error("this is not an ONNX model: {0}")]
    Protobuf(#[from] prost::DecodeError),
    #[error("this is not an ONNX model: it has no graph")]
    NoGraph,
    #[error("`{node}` reads `{value}`, which nothing before it defines")]
    Undefined { node: String, value: String },
    #[error("`{graph}` has the output `{value}`, which nothing defines")]
    UndefinedOutput { graph: String, value: String },
    #[error("`{value}` is defined twice in `{graph}`")]
    DefinedTwice { graph: String, value: String },
    #[error("`{tensor}` has the unknown element type {code}")]
    ElementType { tensor: String, code: i32 },
    #[error("the size of the contents of `{tensor}` does not match its type and shape")]
    Contents { tensor: String },
    #[error(
        "the contents of `{tensor}` are in the file `{location}`: pass the path of the model instead of its bytes"
    )]
    External { tensor: String, location: String },
    #[error("cannot read the contents of `{tensor}` from `{location}`: {why}")]
    Data {
        tensor: String,
        location: String,
        #[source]
        why: io::Error,
    },
    #[error("jax2onnx cannot read {what} in `{place}`")]
    Unsupported { place: String, what: &'static str },
    #[cfg(test)]
    #[error("cannot read `{}`: {why}", .path.display())]
    File {
        path: PathBuf,
        #[source]
        why: io::Error,
    },
}

/// The location of contents in another file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct External {
    pub location: String,
    pub offset: u64,
    /// `None` means the rest of the file.
    pub length: Option<u64>,
}

type Fetch<'a> = dyn FnMut(&External) -> io::Result<Bytes> + 'a;

/// Reads a model with internal weights, which share memory with `bytes`.
#[cfg(test)]
pub(crate) fn read(bytes: Bytes) -> Result<Model, DecodeError> {
    Reader::model(bytes, None, false)
}

/// Reads a model. `fetch` returns the contents that are in another file, or no bytes if the caller does not need
/// them.
#[cfg(test)]
pub(crate) fn read_with(bytes: Bytes, fetch: &mut Fetch<'_>) -> Result<Model, DecodeError> {
    Reader::model(bytes, Some(fetch), false)
}

/// Reads the nodes and types of a model. The contents of weights may be missing.
pub(crate) fn read_types(bytes: Bytes) -> Result<Model, DecodeError> {
    Reader::model(bytes, Some(&mut |_| Ok(Bytes::new())), true)
}

struct Reader<'a, 'f> {
    values: Values,
    fetch: Option<&'a mut Fetch<'f>>,
    /// True if the contents of weights in the file may be missing.
    lacks_contents: bool,
    /// The names in each enclosing graph, outermost first.
    scopes: Vec<Names>,
    /// The origin of all nodes, which is unknown.
    origin: OriginId,
    unknown_dims: u32,
}

#[derive(Default)]
struct Names {
    values: FxHashMap<String, ValueId>,
    types: FxHashMap<String, Type>,
    metadata: FxHashMap<String, Vec<(String, String)>>,
}

impl<'a, 'f> Reader<'a, 'f> {
    fn model(
        bytes: Bytes,
        fetch: Option<&'a mut Fetch<'f>>,
        lacks_contents: bool,
    ) -> Result<Model, DecodeError> {
        let proto = ModelProto::decode(bytes)?;
        let mut provenance = Table::default();
        let nowhere = Site { stack: None, scope: None, emitter: None };
        let nowhere = provenance.site(nowhere);
        let mut reader = Reader {
            values: Values::default(),
            fetch,
            lacks_contents,
            scopes: Vec::new(),
            origin: provenance.origin(Origin::of(nowhere)),
            unknown_dims: 0,
        };
        let mut graph = proto.graph.ok_or(DecodeError::NoGraph)?;
        let ir_version = proto.ir_version.unwrap_or_default();
        if ir_version < 4 {
            drop_weights_from_inputs(&mut graph);
        }
        let graph = reader.graph(graph)?;
        let functions = proto.functions.into_iter().map(|function| reader.function(function));
        let functions = functions.collect::<Result<_, _>>()?;
        let opset = |import: super::generated::OperatorSetIdProto| {
            (domain(import.domain), import.version.unwrap_or_default())
        };
        let metadata = pairs(proto.metadata_props);
        let ignores_nan =
            |(key, value): &(String, String)| key == keys::NAN && value == keys::IGNORE;
        let exact_nan = !metadata.iter().any(ignores_nan);
        let dequantizes = metadata.iter().any(|(key, _)| key == keys::DEQUANTIZE);
        let half = metadata.iter().find(|(key, _)| key == keys::HALF);
        let widened = half.and_then(|(_, name)| DType::from_short(name));
        Ok(Model {
            graph,
            functions,
            values: reader.values,
            provenance,
            ir_version,
            opsets: proto.opset_import.into_iter().map(opset).collect(),
            producer_name: proto.producer_name.unwrap_or_default(),
            producer_version: proto.producer_version.unwrap_or_default(),
            metadata,
            exact_nan,
            dequantizes,
            widened,
            target: Target::default(),
            notes: Vec::new(),
            rewrite: None,
            pairs: None,
            assumptions: None,
            trial: None,
        })
    }

    fn graph(&mut self, proto: GraphProto) -> Result<Graph, DecodeError> {
        let name = proto.name.unwrap_or_default();
        if !proto.sparse_initializer.is_empty() {
            let what = "a sparse initializer";
            return Err(DecodeError::Unsupported { place: name, what });
        }
        let mut names = Names::default();
        self.types(&mut names, &proto.value_info)?;
        self.types(&mut names, &proto.output)?;
        self.types(&mut names, &proto.input)?;
        self.scopes.push(names);
        let mut inputs = Vec::with_capacity(proto.input.len());
        for input in proto.input {
            inputs.push(self.define(&name, input.name.unwrap_or_default())?);
        }
        for initializer in proto.initializer {
            self.initializer(&name, initializer)?;
        }
        let nodes = self.nodes(&name, proto.node)?;
        let outputs = proto.output.into_iter().map(|output| output.name.unwrap_or_default());
        self.close(name, inputs, nodes, outputs.collect())
    }

    fn function(&mut self, proto: FunctionProto) -> Result<Function, DecodeError> {
        let name = proto.name.unwrap_or_default();
        let has_attributes = !(proto.attribute.is_empty() && proto.attribute_proto.is_empty());
        if has_attributes || proto.overload.is_some_and(|overload| !overload.is_empty()) {
            let what = "a function with attributes or overloads";
            return Err(DecodeError::Unsupported { place: name, what });
        }
        let mut names = Names::default();
        self.types(&mut names, &proto.value_info)?;
        self.scopes.push(names);
        let mut inputs = Vec::with_capacity(proto.input.len());
        for input in proto.input {
            inputs.push(self.define(&name, input)?);
        }
        let mut nodes = proto.node.into_iter().peekable();
        while let Some(node) = nodes.next_if(is_constant_of_function) {
            let tensor = node.attribute.into_iter().next().and_then(|attribute| attribute.t);
            if let (Some(mut tensor), Some(output)) = (tensor, node.output.into_iter().next()) {
                tensor.name = Some(output);
                self.initializer(&name, tensor)?;
            }
        }
        let nodes = self.nodes(&name, nodes.collect())?;
        Ok(Function {
            domain: domain(proto.domain),
            name: name.as_str().into(),
            title: name.as_str().into(),
            body: self.close(name, inputs, nodes, proto.output)?,
        })
    }

    /// Leaves the scope of a graph, and returns the graph.
    fn close(
        &mut self,
        name: String,
        inputs: Vec<ValueId>,
        nodes: Vec<Node>,
        output_names: Vec<String>,
    ) -> Result<Graph, DecodeError> {
        let mut outputs = Vec::with_capacity(output_names.len());
        for value in output_names {
            let Some(id) = self.find(&value) else {
                return Err(DecodeError::UndefinedOutput { graph: name, value });
            };
            outputs.push(id);
        }
        self.scopes.pop();
        Ok(Graph { name: name.into(), inputs, outputs, nodes })
    }

    fn initializer(&mut self, graph: &str, proto: TensorProto) -> Result<(), DecodeError> {
        let name = proto.name.clone().unwrap_or_default();
        let metadata = pairs(proto.metadata_props.clone());
        let tensor = self.tensor(proto)?;
        let scope = self.scopes.last().and_then(|names| names.values.get(&name));
        let id = match scope {
            // It is the default of an input.
            Some(&id) => id,
            None => self.define(graph, name)?,
        };
        let value = &mut self.values[id];
        value.ty.get_or_insert_with(|| type_of(&tensor));
        value.tensor = Some(tensor.into());
        if !metadata.is_empty() {
            value.metadata = metadata;
        }
        Ok(())
    }

    fn nodes(&mut self, graph: &str, protos: Vec<NodeProto>) -> Result<Vec<Node>, DecodeError> {
        protos.into_iter().map(|proto| self.node(graph, proto)).collect()
    }

    fn node(&mut self, graph: &str, proto: NodeProto) -> Result<Node, DecodeError> {
        let op = proto.op_type.unwrap_or_default();
        let name = proto.name.filter(|name| !name.is_empty());
        let place = name.as_ref().unwrap_or(&op);
        if proto.overload.is_some_and(|overload| !overload.is_empty()) {
            let what = "an overloaded operator";
            return Err(DecodeError::Unsupported { place: place.clone(), what });
        }
        let mut inputs = smallvec::SmallVec::new();
        for value in proto.input {
            if value.is_empty() {
                inputs.push(None);
                continue;
            }
            let Some(id) = self.find(&value) else {
                let node = place.clone();
                return Err(DecodeError::Undefined { node, value });
            };
            inputs.push(Some(id));
        }
        let mut attrs = Vec::with_capacity(proto.attribute.len());
        for attribute in proto.attribute {
            let key: Arc<str> = attribute.name.as_deref().unwrap_or_default().into();
            attrs.push((key, self.attribute(place, attribute)?));
        }
        let outputs = proto.output.into_iter().map(|output| self.define(graph, output));
        Ok(Node {
            outputs: outputs.collect::<Result<_, _>>()?,
            name: name.map(Into::into),
            op: Operator::new(&domain(proto.domain), &op),
            inputs,
            attrs,
            origin: self.origin,
            is_fused: false,
            iteration: None,
            metadata: pairs(proto.metadata_props),
        })
    }

    fn attribute(&mut self, place: &str, proto: AttributeProto) -> Result<Attr, DecodeError> {
        let unsupported = |what| DecodeError::Unsupported { place: place.into(), what };
        if proto.ref_attr_name.is_some_and(|name| !name.is_empty()) {
            return Err(unsupported("a reference to an attribute of a function"));
        }
        let text = |bytes: Vec<u8>| {
            String::from_utf8(bytes).map_err(|_| unsupported("an attribute that is not UTF-8"))
        };
        let missing = || unsupported("an attribute without a value");
        let kind = proto.r#type.and_then(|code| AttributeType::try_from(code).ok());
        Ok(match kind.unwrap_or(AttributeType::Undefined) {
            AttributeType::Int => Attr::Int(proto.i.unwrap_or_default()),
            AttributeType::Float => Attr::Float(proto.f.unwrap_or_default()),
            AttributeType::String => Attr::Str(text(proto.s.unwrap_or_default())?.into()),
            AttributeType::Ints => Attr::Ints(proto.ints.into()),
            AttributeType::Floats => Attr::Floats(proto.floats.into()),
            AttributeType::Strings => {
                let texts = proto.strings.into_iter().map(|bytes| text(bytes).map(Arc::from));
                Attr::Strs(texts.collect::<Result<_, _>>()?)
            }
            AttributeType::Tensor => {
                Attr::Tensor(self.tensor(proto.t.ok_or_else(missing)?)?.into())
            }
            AttributeType::Graph => self.graph(proto.g.ok_or_else(missing)?)?.into(),
            AttributeType::Undefined => return Err(missing()),
            AttributeType::SparseTensor | AttributeType::SparseTensors => {
                return Err(unsupported("a sparse tensor"));
            }
            AttributeType::TypeProto | AttributeType::TypeProtos => {
                return Err(unsupported("a type as an attribute"));
            }
            AttributeType::Tensors => return Err(unsupported("a list of tensors")),
            AttributeType::Graphs => return Err(unsupported("a list of graphs")),
        })
    }

    fn tensor(&mut self, proto: TensorProto) -> Result<Tensor, DecodeError> {
        let name = proto.name.clone().unwrap_or_default();
        let code = proto.data_type.unwrap_or_default();
        let Some(dtype) = DType::from_code(code) else {
            return Err(DecodeError::ElementType { tensor: name, code });
        };
        if proto.segment.is_some() {
            let what = "a tensor in segments";
            return Err(DecodeError::Unsupported { place: name, what });
        }
        let shape = proto.dims.clone();
        let is_external = proto.data_location == Some(DataLocation::External as i32);
        let data = if is_external {
            self.external(&name, proto.external_data)?
        } else {
            contents(dtype, proto)
        };
        let tensor = Tensor::new(dtype, shape, data);
        let is_absent = (is_external || self.lacks_contents) && tensor.byte_len() == 0;
        if !holds_its_contents(&tensor) && !is_absent {
            return Err(DecodeError::Contents { tensor: name });
        }
        Ok(tensor)
    }

    fn external(
        &mut self,
        tensor: &str,
        entries: Vec<StringStringEntryProto>,
    ) -> Result<Bytes, DecodeError> {
        let mut external = External::default();
        let malformed = || DecodeError::Contents { tensor: tensor.into() };
        for (key, value) in pairs(entries) {
            match key.as_str() {
                "offset" => external.offset = value.parse().map_err(|_| malformed())?,
                "length" => external.length = Some(value.parse().map_err(|_| malformed())?),
                "location" => external.location = value,
                _ => {}
            }
        }
        let tensor = tensor.to_owned();
        let Some(fetch) = &mut self.fetch else {
            let location = external.location;
            return Err(DecodeError::External { tensor, location });
        };
        fetch(&external).map_err(|why| {
            let location = external.location;
            DecodeError::Data { tensor, location, why }
        })
    }

    fn types(&mut self, names: &mut Names, infos: &[ValueInfoProto]) -> Result<(), DecodeError> {
        for info in infos {
            if let Some(name) = &info.name
                && !info.metadata_props.is_empty()
            {
                names.metadata.insert(name.clone(), pairs(info.metadata_props.clone()));
            }
            if let (Some(name), Some(ty)) = (&info.name, &info.r#type)
                && let Some(ty) = self.ty(name, ty)?
            {
                names.types.insert(name.clone(), ty);
            }
        }
        Ok(())
    }

    /// Returns the type of a tensor of known rank; nothing for other types.
    fn ty(&mut self, name: &str, proto: &TypeProto) -> Result<Option<Type>, DecodeError> {
        let Some(type_proto::Value::TensorType(tensor)) = &proto.value else {
            return Ok(None);
        };
        let code = tensor.elem_type.unwrap_or_default();
        let Some(dtype) = DType::from_code(code) else {
            return Err(DecodeError::ElementType { tensor: name.into(), code });
        };
        let Some(shape) = &tensor.shape else {
            return Ok(None);
        };
        let mut dims = Vec::with_capacity(shape.dim.len());
        for dim in &shape.dim {
            dims.push(match &dim.value {
                Some(dimension::Value::DimValue(size)) if *size >= 0 => Dim::Known(*size),
                Some(dimension::Value::DimParam(name)) if !name.is_empty() => Dim::from_param(name),
                _ => {
                    self.unknown_dims += 1;
                    Dim::from(Symbol::Unknown(self.unknown_dims - 1))
                }
            });
        }
        Ok(Some(Type::new(dtype, dims)))
    }

    /// Adds a value to the graph that is being read.
    fn define(&mut self, graph: &str, name: String) -> Result<ValueId, DecodeError> {
        let scope = self.scopes.last_mut();
        let ty = scope.as_ref().and_then(|names| names.types.get(&name).cloned());
        let metadata = scope.as_ref().and_then(|names| names.metadata.get(&name).cloned());
        let id = self.values.add(Value {
            name: Some(name.as_str().into()),
            ty,
            metadata: metadata.unwrap_or_default(),
            ..Value::default()
        });
        if name != OMITTED
            && let Some(names) = scope
            && let Some(_) = names.values.insert(name.clone(), id)
        {
            return Err(DecodeError::DefinedTwice { graph: graph.into(), value: name });
        }
        Ok(id)
    }

    fn find(&self, name: &str) -> Option<ValueId> {
        self.scopes.iter().rev().find_map(|names| names.values.get(name).copied())
    }
}

/// Returns the contents of a tensor that are in the model, as bytes.
pub(super) fn contents(dtype: DType, proto: TensorProto) -> Bytes {
    fn each<T: Copy, const N: usize>(values: &[T], bytes: impl Fn(T) -> [u8; N]) -> Bytes {
        values.iter().flat_map(|&value| bytes(value)).collect()
    }
    if dtype == DType::String {
        return pack_strings(proto.string_data.iter().map(Vec::as_slice));
    }
    if let Some(raw) = proto.raw_data {
        return raw;
    }
    match dtype {
        DType::F32 | DType::C64 => each(&proto.float_data, f32::to_le_bytes),
        DType::F64 | DType::C128 => each(&proto.double_data, f64::to_le_bytes),
        DType::I64 => each(&proto.int64_data, i64::to_le_bytes),
        DType::U64 => each(&proto.uint64_data, u64::to_le_bytes),
        DType::U32 => each(&proto.uint64_data, |value| (value as u32).to_le_bytes()),
        DType::I32 => each(&proto.int32_data, i32::to_le_bytes),
        _ if dtype.bits() == 16 => each(&proto.int32_data, |value| (value as u16).to_le_bytes()),
        // Each number is a byte, which may contain several narrower elements.
        _ => each(&proto.int32_data, |value| [value as u8]),
    }
}

/// Drops weights from the inputs. Before IR version 4, every weight had to be an input.
fn drop_weights_from_inputs(graph: &mut GraphProto) {
    let weights: FxHashSet<&Option<String>> =
        graph.initializer.iter().map(|initializer| &initializer.name).collect();
    graph.input.retain(|input| !weights.contains(&input.name));
}

/// True if a node is a constant of a function.
fn is_constant_of_function(node: &NodeProto) -> bool {
    node.op_type.as_deref() == Some("Constant")
        && node.domain.is_none()
        && node.name.is_none()
        && node.metadata_props.is_empty()
        && node.output.len() == 1
        && matches!(node.attribute.as_slice(), [value] if value.t.is_some())
}

fn domain(domain: Option<String>) -> Arc<str> {
    let domain = domain.unwrap_or_default();
    if domain == "ai.onnx" { "".into() } else { domain.into() }
}

fn pairs(entries: Vec<StringStringEntryProto>) -> Vec<(String, String)> {
    let pair = |entry: StringStringEntryProto| {
        (entry.key.unwrap_or_default(), entry.value.unwrap_or_default())
    };
    entries.into_iter().map(pair).collect()
}

#[cfg(test)]
mod tests;
