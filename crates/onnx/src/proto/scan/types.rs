//! Reads types, values, and the header of a tensor without its contents.

use std::fmt;

use bytes::Bytes;
use prost::Message as _;

use super::super::generated::TensorProto;
use super::super::generated::tensor_proto::DataLocation;
use super::super::read::contents;
use super::super::schema::{Field, Message};
use super::super::wire::{FieldBytes, FormatError, MessageBytes};
use super::{Memory, Pair, meta};
use crate::dtype::DType;

/// A value with its type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ValueInfo<'a> {
    pub name: &'a str,
    pub ty: Option<ValueType<'a>>,
    pub doc: &'a str,
    pub metadata: Vec<Pair<'a>>,
}

impl<'a> ValueInfo<'a> {
    /// Returns a value with a name and no type.
    pub fn named(name: &'a str) -> ValueInfo<'a> {
        ValueInfo { name, ..ValueInfo::default() }
    }
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueType<'a> {
    Tensor {
        /// The number in `TensorProto.DataType`.
        element: i32,
        shape: Option<Vec<Dim<'a>>>,
    },
    SparseTensor {
        element: i32,
        shape: Option<Vec<Dim<'a>>>,
    },
    Sequence(Option<Box<ValueType<'a>>>),
    Optional(Option<Box<ValueType<'a>>>),
    Map {
        key: i32,
        value: Option<Box<ValueType<'a>>>,
    },
    /// An unknown or opaque type, by the number of its field.
    Other(u64),
}

/// The size of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dim<'a> {
    Known(i64),
    Named(&'a str),
    Unknown,
}

/// Returns the short name of an element type: `f32`.
pub(super) fn element_name(code: i32) -> String {
    DType::from_code(code).map_or_else(|| format!("type {code}"), |dtype| dtype.to_string())
}

impl fmt::Display for Dim<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Known(size) => size.fmt(f),
            Dim::Named(name) => f.write_str(name),
            Dim::Unknown => f.write_str("?"),
        }
    }
}

impl fmt::Display for ValueType<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = |ty: &Option<Box<ValueType<'_>>>| {
            ty.as_ref().map_or_else(|| "?".to_owned(), ToString::to_string)
        };
        match self {
            ValueType::Tensor { element, shape } => write_tensor(f, *element, shape.as_deref()),
            ValueType::SparseTensor { element, shape } => {
                f.write_str("sparse ")?;
                write_tensor(f, *element, shape.as_deref())
            }
            ValueType::Sequence(ty) => write!(f, "sequence({})", inner(ty)),
            ValueType::Optional(ty) => write!(f, "optional({})", inner(ty)),
            ValueType::Map { key, value } => {
                write!(f, "map({}, {})", element_name(*key), inner(value))
            }
            ValueType::Other(field) => write!(f, "type of field {field}"),
        }
    }
}

/// Writes `f32[B,10]`, or `f32` if the shape is unknown.
fn write_tensor(
    f: &mut fmt::Formatter<'_>,
    element: i32,
    shape: Option<&[Dim<'_>]>,
) -> fmt::Result {
    f.write_str(&element_name(element))?;
    let Some(shape) = shape else { return Ok(()) };
    let sizes: Vec<String> = shape.iter().map(ToString::to_string).collect();
    write!(f, "[{}]", sizes.join(","))
}

/// A tensor without its contents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tensor<'a> {
    pub name: &'a str,
    pub dims: Vec<i64>,
    /// The number in `TensorProto.DataType`.
    pub element: i32,
    /// The contents, if they are raw bytes.
    pub raw: Option<&'a [u8]>,
    /// The number of bytes of the contents, if they are not raw bytes.
    pub typed: usize,
    /// The location of contents in another file.
    pub external: Vec<Pair<'a>>,
    pub is_external: bool,
    pub is_sparse: bool,
    pub doc: &'a str,
    pub metadata: Vec<Pair<'a>>,
    /// The whole message.
    pub message: &'a [u8],
}

impl<'a> Tensor<'a> {
    /// Returns the number of elements; `None` if the shape is invalid or too large.
    pub fn elements(&self) -> Option<u64> {
        self.dims.iter().try_fold(1u64, |all, &dim| all.checked_mul(u64::try_from(dim).ok()?))
    }

    /// Returns the number of bytes that the type and the shape need; `None` for strings and unknown types.
    pub fn bytes(&self) -> Option<u64> {
        let bits = DType::from_code(self.element)?.bits();
        if bits == 0 || self.is_sparse {
            return None;
        }
        Some(self.elements()?.checked_mul(bits as u64)?.div_ceil(8))
    }

    /// Returns the external file with the contents, as the model names it.
    pub fn location(&self) -> Option<&'a str> {
        if self.is_external { meta(&self.external, "location") } else { None }
    }

    /// Returns the contents as little-endian bytes, if the model stores them as a list of numbers, such as
    /// `float_data`.
    pub fn listed(&self) -> Option<Bytes> {
        if self.typed == 0 || self.raw.is_some() || self.is_external || self.is_sparse {
            return None;
        }
        let proto = TensorProto::decode(self.message).ok()?;
        Some(contents(DType::from_code(self.element)?, proto))
    }

    /// Compares the contents of two tensors; `None` if they are external or encoded in different ways.
    pub fn has_contents_of(&self, other: &Tensor<'_>) -> Option<bool> {
        let is_different =
            self.is_sparse != other.is_sparse || self.raw.is_some() != other.raw.is_some();
        if self.is_external || other.is_external || is_different {
            return None;
        }
        if !self.is_sparse
            && let (Some(raw), Some(other)) = (self.raw, other.raw)
        {
            return Some(raw == other);
        }
        Some(self.contents().eq(other.contents()))
    }

    /// Returns the encoded fields without those that only describe the tensor.
    fn contents(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let kind = if self.is_sparse { Message::SparseTensor } else { Message::Tensor };
        let fields = MessageBytes::new(kind, self.message).walk(|field| !field.is_metadata());
        let fields = fields.map_while(Result::ok).filter(|field| {
            let is_described = matches!(field.id(), Field::TensorName | Field::TensorDocString);
            !is_described && !field.id().is_metadata() && !field.is_message()
        });
        fields.map(|field| field.encoded())
    }

    /// `f32[2,3]`
    pub fn type_text(&self) -> String {
        let sizes: Vec<String> = self.dims.iter().map(ToString::to_string).collect();
        format!("{}[{}]", element_name(self.element), sizes.join(","))
    }
}

pub(super) fn value_info<'a>(
    memory: &mut Memory,
    field: &FieldBytes<'a>,
) -> Result<ValueInfo<'a>, FormatError> {
    let mut value = ValueInfo::default();
    for field in field.message()? {
        let field = field?;
        match field.id() {
            Field::ValueInfoName => value.name = field.text()?,
            Field::ValueInfoType => value.ty = value_type(memory, &field)?,
            Field::ValueInfoDocString => value.doc = field.text()?,
            Field::ValueInfoMetadataProps => memory.push(&mut value.metadata, field.pair()?)?,
            _ => {}
        }
    }
    Ok(value)
}

/// Returns a type. If there are several, the last one wins, as in protobuf.
fn value_type<'a>(
    memory: &mut Memory,
    field: &FieldBytes<'a>,
) -> Result<Option<ValueType<'a>>, FormatError> {
    let mut ty = None;
    for field in field.message()? {
        let field = field?;
        let parts = TypeParts::read(memory, &field)?;
        let TypeParts { element, shape, inner } = parts;
        ty = Some(match field.id() {
            Field::TypeTensorType => ValueType::Tensor { element, shape },
            Field::TypeSparseTensorType => ValueType::SparseTensor { element, shape },
            Field::TypeSequenceType => ValueType::Sequence(inner),
            Field::TypeMapType => ValueType::Map { key: element, value: inner },
            Field::TypeOptionalType => ValueType::Optional(inner),
            Field::TypeDenotation => continue,
            _ => ValueType::Other(field.number()),
        });
    }
    Ok(ty)
}

/// The parts of any type.
#[derive(Default)]
struct TypeParts<'a> {
    /// The type of the elements, or of the keys.
    element: i32,
    shape: Option<Vec<Dim<'a>>>,
    /// The type of the elements of a sequence or an optional, or of the values of a map.
    inner: Option<Box<ValueType<'a>>>,
}

impl<'a> TypeParts<'a> {
    fn read(memory: &mut Memory, field: &FieldBytes<'a>) -> Result<TypeParts<'a>, FormatError> {
        let mut parts = TypeParts::default();
        for field in field.message()? {
            let field = field?;
            match field.id() {
                Field::TypeTensorElemType
                | Field::TypeSparseTensorElemType
                | Field::TypeMapKeyType => parts.element = field.int() as i32,
                Field::TypeTensorShape | Field::TypeSparseTensorShape => {
                    parts.shape = Some(shape(memory, &field)?);
                }
                Field::TypeSequenceElemType
                | Field::TypeOptionalElemType
                | Field::TypeMapValueType => {
                    parts.inner = value_type(memory, &field)?.map(Box::new);
                }
                _ => field.check()?,
            }
        }
        Ok(parts)
    }
}

fn shape<'a>(memory: &mut Memory, field: &FieldBytes<'a>) -> Result<Vec<Dim<'a>>, FormatError> {
    let mut dims = Vec::new();
    for field in field.message()? {
        let field = field?;
        if field.id() == Field::TensorShapeDim {
            memory.push(&mut dims, dim(&field)?)?;
        }
    }
    Ok(dims)
}

fn dim<'a>(field: &FieldBytes<'a>) -> Result<Dim<'a>, FormatError> {
    let mut dim = Dim::Unknown;
    for field in field.message()? {
        let field = field?;
        match field.id() {
            Field::TensorShapeDimensionDimValue => dim = Dim::Known(field.int()),
            Field::TensorShapeDimensionDimParam => dim = Dim::Named(field.text()?),
            _ => {}
        }
    }
    Ok(match dim {
        Dim::Named("") => Dim::Unknown,
        dim => dim,
    })
}

pub(super) fn tensor<'a>(
    memory: &mut Memory,
    field: &FieldBytes<'a>,
) -> Result<Tensor<'a>, FormatError> {
    let mut tensor = Tensor { message: field.bytes(), ..Tensor::default() };
    for field in field.message()? {
        let field = field?;
        match field.id() {
            Field::TensorDims => push_ints(memory, &mut tensor.dims, &field)?,
            Field::TensorDataType => tensor.element = field.int() as i32,
            Field::TensorFloatData
            | Field::TensorInt32Data
            | Field::TensorStringData
            | Field::TensorInt64Data
            | Field::TensorDoubleData
            | Field::TensorUint64Data => tensor.typed += field.bytes().len(),
            Field::TensorName => tensor.name = field.text()?,
            Field::TensorRawData => tensor.raw = Some(field.bytes()),
            Field::TensorDocString => tensor.doc = field.text()?,
            Field::TensorExternalData => memory.push(&mut tensor.external, field.pair()?)?,
            Field::TensorDataLocation => {
                tensor.is_external = field.int() == DataLocation::External as i64;
            }
            Field::TensorMetadataProps => memory.push(&mut tensor.metadata, field.pair()?)?,
            _ => field.check()?,
        }
    }
    Ok(tensor)
}

/// Returns a sparse tensor as the tensor of its values, but with the shape of the whole tensor.
pub(super) fn sparse<'a>(
    memory: &mut Memory,
    field: &FieldBytes<'a>,
) -> Result<Tensor<'a>, FormatError> {
    let message = field.bytes();
    let mut sparse = Tensor::default();
    let mut dims = Vec::new();
    for field in field.message()? {
        let field = field?;
        match field.id() {
            Field::SparseTensorValues => sparse = tensor(memory, &field)?,
            Field::SparseTensorDims => push_ints(memory, &mut dims, &field)?,
            _ => field.check()?,
        }
    }
    Ok(Tensor { dims, is_sparse: true, message, ..sparse })
}

fn push_ints(
    memory: &mut Memory,
    list: &mut Vec<i64>,
    field: &FieldBytes<'_>,
) -> Result<(), FormatError> {
    field.ints().try_for_each(|int| memory.push(list, int?))
}
