//! Reads types, values, and the header of a tensor without its contents.

use std::fmt;

use super::super::wire::Fields;
use super::message::{self, Reader};
use super::{MAX_NESTED, Pair, ScanError, meta, numbers};
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
    /// One that is not known here, by the number of its field.
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

/// `f32[B,10]`; without brackets if there is no shape.
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
    /// The number of bytes of contents in another form.
    pub typed: usize,
    /// The place of contents in another file.
    pub external: Vec<Pair<'a>>,
    pub is_external: bool,
    pub is_sparse: bool,
    pub doc: &'a str,
    pub metadata: Vec<Pair<'a>>,
    /// The whole message.
    pub message: &'a [u8],
}

impl<'a> Tensor<'a> {
    /// Returns the number of elements of the shape; nothing if it is not known.
    pub fn elements(&self) -> Option<u64> {
        self.dims.iter().try_fold(1u64, |all, &dim| all.checked_mul(u64::try_from(dim).ok()?))
    }

    /// Returns the number of bytes of contents of this type; nothing for strings and unknown types.
    pub fn bytes(&self) -> Option<u64> {
        let bits = DType::from_code(self.element)?.bits();
        if bits == 0 || self.is_sparse {
            return None;
        }
        Some(self.elements()?.checked_mul(bits as u64)?.div_ceil(8))
    }

    /// Returns the file that the contents are in, as it is named in the model.
    pub fn location(&self) -> Option<&'a str> {
        if self.is_external { meta(&self.external, "location") } else { None }
    }

    /// True if another tensor has the same contents, which are read for this; nothing if they are in
    /// another file, or written in another form.
    pub fn has_contents_of(&self, other: &Tensor<'_>) -> Option<bool> {
        if self.is_external || other.is_external || self.raw.is_some() != other.raw.is_some() {
            return None;
        }
        if let (Some(raw), Some(other)) = (self.raw, other.raw) {
            return Some(raw == other);
        }
        let contents = |message| {
            let fields = Fields(message).map_while(Result::ok);
            fields.filter(|field| !matches!(field.number, 8 | 12 | 16)).map(|field| field.whole)
        };
        Some(contents(self.message).eq(contents(other.message)))
    }

    /// `f32[2,3]`
    pub fn type_text(&self) -> String {
        let sizes: Vec<String> = self.dims.iter().map(ToString::to_string).collect();
        format!("{}[{}]", element_name(self.element), sizes.join(","))
    }
}

pub(super) fn value_info<'a>(
    reader: &mut Reader<'a>,
    content: &'a [u8],
) -> Result<ValueInfo<'a>, ScanError> {
    let mut value = ValueInfo::default();
    for field in reader.fields("ValueInfoProto", content) {
        let field = field?;
        match field.number {
            1 => value.name = field.text()?,
            2 => value.ty = value_type(reader, field.message()?, 0)?,
            3 => value.doc = field.text()?,
            4 => {
                let pair = message::pair(reader, field.message()?)?;
                reader.push(&mut value.metadata, pair)?;
            }
            _ => {}
        }
    }
    Ok(value)
}

/// Returns a `TypeProto`.
fn value_type<'a>(
    reader: &mut Reader<'a>,
    content: &'a [u8],
    depth: usize,
) -> Result<Option<ValueType<'a>>, ScanError> {
    if depth > MAX_NESTED {
        return Err(ScanError::Nested);
    }
    let mut ty = None;
    for field in reader.fields("TypeProto", content) {
        let field = field?;
        ty = Some(match field.number {
            1 | 8 => {
                let (element, shape) = tensor_type(reader, field.message()?)?;
                match field.number {
                    1 => ValueType::Tensor { element, shape },
                    _ => ValueType::SparseTensor { element, shape },
                }
            }
            4 => ValueType::Sequence(inner(reader, field.message()?, 1, depth)?.1),
            5 => {
                let (key, value) = inner(reader, field.message()?, 2, depth)?;
                ValueType::Map { key, value }
            }
            9 => ValueType::Optional(inner(reader, field.message()?, 1, depth)?.1),
            // The denotation.
            6 => continue,
            other => ValueType::Other(other),
        });
    }
    Ok(ty)
}

/// Returns the number in field 1, and the type in field `at`.
fn inner<'a>(
    reader: &mut Reader<'a>,
    content: &'a [u8],
    at: u64,
    depth: usize,
) -> Result<(i32, Option<Box<ValueType<'a>>>), ScanError> {
    let (mut key, mut ty) = (0, None);
    for field in reader.fields("TypeProto", content) {
        let field = field?;
        if field.number == at {
            ty = value_type(reader, field.message()?, depth + 1)?.map(Box::new);
        } else if field.number == 1 {
            key = field.int()? as i32;
        }
    }
    Ok((key, ty))
}

type ElementAndShape<'a> = (i32, Option<Vec<Dim<'a>>>);

fn tensor_type<'a>(
    reader: &mut Reader<'a>,
    content: &'a [u8],
) -> Result<ElementAndShape<'a>, ScanError> {
    let (mut element, mut shape) = (0, None);
    for field in reader.fields("TypeProto.Tensor", content) {
        let field = field?;
        match field.number {
            1 => element = field.int()? as i32,
            2 => {
                let mut dims = Vec::new();
                for dim in reader.fields("TensorShapeProto", field.message()?) {
                    let dim = dim?;
                    if dim.number == 1 {
                        let dim = self::dim(reader, dim.message()?)?;
                        reader.push(&mut dims, dim)?;
                    }
                }
                shape = Some(dims);
            }
            _ => {}
        }
    }
    Ok((element, shape))
}

fn dim<'a>(reader: &Reader<'a>, content: &'a [u8]) -> Result<Dim<'a>, ScanError> {
    let mut dim = Dim::Unknown;
    for field in reader.fields("TensorShapeProto.Dimension", content) {
        let field = field?;
        match field.number {
            1 => dim = Dim::Known(field.int()?),
            2 => dim = Dim::Named(field.text()?),
            _ => {}
        }
    }
    Ok(match dim {
        Dim::Named("") => Dim::Unknown,
        dim => dim,
    })
}

pub(super) fn tensor<'a>(
    reader: &mut Reader<'a>,
    content: &'a [u8],
) -> Result<Tensor<'a>, ScanError> {
    let mut tensor = Tensor { message: content, ..Tensor::default() };
    for field in reader.fields("TensorProto", content) {
        let field = field?;
        match field.number {
            1 => {
                for size in numbers(field.content) {
                    let size = size.map_err(|why| field.wire(why))? as i64;
                    reader.push(&mut tensor.dims, size)?;
                }
            }
            2 => tensor.element = field.int()? as i32,
            // Numbers one by one have a tag each.
            4..=7 | 10 | 11 => tensor.typed += field.message().map_or(1, <[u8]>::len),
            8 => tensor.name = field.text()?,
            9 => tensor.raw = Some(field.message()?),
            12 => tensor.doc = field.text()?,
            13 => {
                let pair = message::pair(reader, field.message()?)?;
                reader.push(&mut tensor.external, pair)?;
            }
            14 => tensor.is_external = field.int()? == 1,
            16 => {
                let pair = message::pair(reader, field.message()?)?;
                reader.push(&mut tensor.metadata, pair)?;
            }
            _ => {}
        }
    }
    Ok(tensor)
}

/// Returns a `SparseTensorProto`, as the tensor of its values with the shape of the whole.
pub(super) fn sparse<'a>(
    reader: &mut Reader<'a>,
    content: &'a [u8],
) -> Result<Tensor<'a>, ScanError> {
    let mut sparse = Tensor::default();
    let mut dims = Vec::new();
    for field in reader.fields("SparseTensorProto", content) {
        let field = field?;
        match field.number {
            1 => sparse = tensor(reader, field.message()?)?,
            3 => {
                for size in numbers(field.content) {
                    let size = size.map_err(|why| field.wire(why))? as i64;
                    reader.push(&mut dims, size)?;
                }
            }
            _ => {}
        }
    }
    Ok(Tensor { dims, is_sparse: true, message: content, ..sparse })
}
