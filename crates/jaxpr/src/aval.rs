//! The type of a value in a jaxpr.

use std::fmt;
use std::sync::Arc;

use crate::Dim;

/// The element types of JAX.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    Bool,
    I2,
    I4,
    I8,
    I16,
    I32,
    I64,
    U2,
    U4,
    U8,
    U16,
    U32,
    U64,
    F8E4M3Fn,
    F8E4M3FnUz,
    F8E5M2,
    F8E5M2FnUz,
    F8E8M0,
    F16,
    Bf16,
    F32,
    F64,
    C64,
    C128,
    /// A random key of the named implementation (`fry`, `rbg`).
    Key(Arc<str>),
    /// Another type, by its name in JAX: `float0`, `float8_e3m4`.
    Other(Arc<str>),
}

/// Each type with its short name in the text form and its name in NumPy and `ml_dtypes`.
const NAMES: &[(DType, &str, &str)] = &[
    (DType::Bool, "bool", "bool"),
    (DType::I2, "i2", "int2"),
    (DType::I4, "i4", "int4"),
    (DType::I8, "i8", "int8"),
    (DType::I16, "i16", "int16"),
    (DType::I32, "i32", "int32"),
    (DType::I64, "i64", "int64"),
    (DType::U2, "u2", "uint2"),
    (DType::U4, "u4", "uint4"),
    (DType::U8, "u8", "uint8"),
    (DType::U16, "u16", "uint16"),
    (DType::U32, "u32", "uint32"),
    (DType::U64, "u64", "uint64"),
    (DType::F8E4M3Fn, "f8_e4m3fn", "float8_e4m3fn"),
    (DType::F8E4M3FnUz, "f8_e4m3fnuz", "float8_e4m3fnuz"),
    (DType::F8E5M2, "f8_e5m2", "float8_e5m2"),
    (DType::F8E5M2FnUz, "f8_e5m2fnuz", "float8_e5m2fnuz"),
    (DType::F8E8M0, "f8_e8m0fnu", "float8_e8m0fnu"),
    (DType::F16, "f16", "float16"),
    (DType::Bf16, "bf16", "bfloat16"),
    (DType::F32, "f32", "float32"),
    (DType::F64, "f64", "float64"),
    (DType::C64, "c64", "complex64"),
    (DType::C128, "c128", "complex128"),
];

impl DType {
    /// Returns the type with this name in NumPy.
    pub fn from_numpy(name: &str) -> DType {
        if let Some(implementation) = name.strip_prefix("key<").and_then(|n| n.strip_suffix('>')) {
            return DType::Key(implementation.into());
        }
        let known = NAMES.iter().find(|(_, _, numpy)| *numpy == name);
        known.map_or_else(|| DType::Other(name.into()), |(dtype, ..)| dtype.clone())
    }

    /// Returns the type with this short name.
    pub fn from_short(name: &str) -> DType {
        let known = NAMES.iter().find(|(_, short, _)| *short == name);
        known.map_or_else(|| DType::from_numpy(name), |(dtype, ..)| dtype.clone())
    }

    /// Returns the number of bits of one element; `None` if the type has no fixed size.
    pub fn bits(&self) -> Option<usize> {
        Some(match self {
            DType::I2 | DType::U2 => 2,
            DType::I4 | DType::U4 => 4,
            DType::Bool
            | DType::I8
            | DType::U8
            | DType::F8E4M3Fn
            | DType::F8E4M3FnUz
            | DType::F8E5M2
            | DType::F8E5M2FnUz
            | DType::F8E8M0 => 8,
            DType::I16 | DType::U16 | DType::F16 | DType::Bf16 => 16,
            DType::I32 | DType::U32 | DType::F32 => 32,
            DType::I64 | DType::U64 | DType::F64 | DType::C64 => 64,
            DType::C128 => 128,
            DType::Key(_) | DType::Other(_) => return None,
        })
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DType::Key(implementation) => write!(f, "key<{implementation}>"),
            DType::Other(name) => f.write_str(name),
            known => {
                let name = NAMES.iter().find(|(dtype, ..)| dtype == known);
                f.write_str(name.map_or("?", |(_, short, _)| short))
            }
        }
    }
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Aval {
    Array {
        dtype: DType,
        shape: Arc<[Dim]>,
    },
    /// A value that is not an array, such as a token or a reference, by its text in JAX.
    Other(Arc<str>),
}

impl Aval {
    pub fn array(dtype: DType, shape: impl Into<Arc<[Dim]>>) -> Aval {
        Aval::Array { dtype, shape: shape.into() }
    }

    /// Returns the element type of an array.
    pub fn dtype(&self) -> Option<DType> {
        match self {
            Aval::Array { dtype, .. } => Some(dtype.clone()),
            Aval::Other(_) => None,
        }
    }
}

/// `f32[2,B]`
impl fmt::Display for Aval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Aval::Array { dtype, shape } => {
                write!(f, "{dtype}[")?;
                for (i, dim) in shape.iter().enumerate() {
                    let comma = if i == 0 { "" } else { "," };
                    write!(f, "{comma}{dim}")?;
                }
                f.write_str("]")
            }
            Aval::Other(text) => write!(f, "<{text}>"),
        }
    }
}
