//! Contents of a tensor.
//!
//! The contents of a large tensor are bytes that belong to somebody else, or an expression over such bytes. Passes
//! compose expressions, and the elements are computed block by block when the tensor is written.

mod assumptions;
mod blocks;
mod derive;
mod known;
mod lazy;
mod magnitudes;
mod strided;
#[cfg(test)]
mod tests;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use half::{bf16, f16};

use crate::dtype::DType;
pub use assumptions::Assumptions;
pub(crate) use blocks::{Part, write_parts};
pub use derive::{Memory, Step};
use known::Known;
pub(crate) use known::Range;
use lazy::Lazy;

/// An array of known contents. Clones share the contents.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tensor {
    pub dtype: DType,
    pub shape: Vec<i64>,
    contents: Contents,
    known: Known,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Contents {
    /// Little-endian, row-major; types narrower than a byte are packed as ONNX packs them.
    Bytes(Buffer),
    Lazy(Arc<Lazy>),
}

/// Bytes whose comparison and hash read as few of them as possible.
#[derive(Clone, Eq)]
struct Buffer(Bytes);

impl PartialEq for Buffer {
    fn eq(&self, other: &Buffer) -> bool {
        self.is_same_memory(other) || self.0 == other.0
    }
}

impl Buffer {
    fn is_same_memory(&self, other: &Buffer) -> bool {
        (self.0.as_ptr(), self.0.len()) == (other.0.as_ptr(), other.0.len())
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// Hashes only the beginning and the end.
impl Hash for Buffer {
    fn hash<H: Hasher>(&self, state: &mut H) {
        const PART: usize = 1024;
        let length = self.0.len();
        length.hash(state);
        self.0[..length.min(PART)].hash(state);
        self.0[length.saturating_sub(PART)..].hash(state);
    }
}

impl Tensor {
    /// Returns a tensor of little-endian, row-major bytes, packed as ONNX specifies.
    pub fn new(dtype: DType, shape: Vec<i64>, bytes: impl Into<Bytes>) -> Tensor {
        Tensor::of_contents(dtype, shape, Contents::Bytes(Buffer(bytes.into())))
    }

    fn of_contents(dtype: DType, shape: Vec<i64>, contents: Contents) -> Tensor {
        Tensor { dtype, shape, contents, known: Known::default() }
    }

    /// Returns a tensor whose elements are these numbers, rounded to the nearest number of `dtype`; integers wrap.
    ///
    /// Returns `None` for types without constants in plugins: strings, complex numbers, and types narrower than a
    /// byte.
    pub fn of_floats(dtype: DType, shape: Vec<i64>, values: &[f64]) -> Option<Tensor> {
        let mut data = Vec::with_capacity(values.len() * dtype.bits() / 8);
        let numbers = values.iter().copied();
        let half = |value| f16::from_f32(to_odd_single(value)).to_le_bytes();
        let brain = |value| bf16::from_f32(to_odd_single(value)).to_le_bytes();
        match dtype {
            DType::F64 => data.extend(numbers.flat_map(f64::to_le_bytes)),
            DType::F32 => data.extend(numbers.flat_map(|value| (value as f32).to_le_bytes())),
            DType::F16 => data.extend(numbers.flat_map(half)),
            DType::Bf16 => data.extend(numbers.flat_map(brain)),
            _ => numbers
                .map(|value| push_int(&mut data, dtype, value as i64))
                .collect::<Option<_>>()?,
        }
        Some(Tensor::new(dtype, shape, data))
    }

    /// Returns a tensor of these integers; they wrap to the width of `dtype`.
    pub fn of_ints(dtype: DType, shape: Vec<i64>, values: &[i64]) -> Option<Tensor> {
        if dtype.is_float() {
            let values: Vec<f64> = values.iter().map(|&value| value as f64).collect();
            return Tensor::of_floats(dtype, shape, &values);
        }
        let mut data = Vec::with_capacity(values.len() * dtype.bits() / 8);
        match dtype {
            DType::Bool => data.extend(values.iter().map(|&value| u8::from(value != 0))),
            DType::I64 => data.extend(values.iter().flat_map(|value| value.to_le_bytes())),
            _ => values.iter().try_for_each(|&value| push_int(&mut data, dtype, value))?,
        }
        Some(Tensor::new(dtype, shape, data))
    }

    /// Returns the elements as integers, if the type is an integer or boolean type.
    pub fn ints(&self) -> Option<Vec<i64>> {
        let bytes = self.bytes();
        Some(match self.dtype {
            DType::Bool | DType::U8 => bytes.iter().map(|&byte| byte.into()).collect(),
            DType::I8 => each(&bytes, |bytes| i8::from_le_bytes(bytes).into()),
            DType::U16 => each(&bytes, |bytes| u16::from_le_bytes(bytes).into()),
            DType::I16 => each(&bytes, |bytes| i16::from_le_bytes(bytes).into()),
            DType::U32 => each(&bytes, |bytes| u32::from_le_bytes(bytes).into()),
            DType::I32 => each(&bytes, |bytes| i32::from_le_bytes(bytes).into()),
            DType::U64 | DType::I64 => each(&bytes, i64::from_le_bytes),
            _ => return None,
        })
    }

    /// Returns the elements as numbers, if the type is one of the four common floating-point types.
    pub fn floats(&self) -> Option<Vec<f64>> {
        floats_of(self.dtype, &self.bytes())
    }

    /// Returns the contents. For a large tensor, this may compute all of them; [`Tensor::write_into`] and
    /// [`Tensor::all_floats`] need less memory.
    pub fn bytes(&self) -> Bytes {
        match &self.contents {
            Contents::Bytes(bytes) => bytes.0.clone(),
            Contents::Lazy(_) => {
                let mut bytes = vec![0; self.byte_len()];
                self.write_into(&mut bytes);
                bytes.into()
            }
        }
    }

    /// Returns the size of the contents in bytes.
    pub fn byte_len(&self) -> usize {
        match &self.contents {
            Contents::Bytes(bytes) => bytes.0.len(),
            Contents::Lazy(_) => self.expected_bytes(),
        }
    }

    /// True if the elements of both tensors are in the same memory and in the same order.
    pub fn is_same_array(&self, other: &Tensor) -> bool {
        match (&self.contents, &other.contents) {
            (Contents::Bytes(a), Contents::Bytes(b)) => a.is_same_memory(b),
            (Contents::Lazy(a), Contents::Lazy(b)) => Arc::ptr_eq(a, b) || a == b,
            _ => false,
        }
    }

    pub fn len(&self) -> usize {
        self.shape.iter().product::<i64>().max(0) as usize
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of bytes that the shape and the type need.
    pub fn expected_bytes(&self) -> usize {
        (self.len() * self.dtype.bits()).div_ceil(8)
    }
}

/// Returns a single-precision number that rounds to the same half-precision number as a double. If the double is
/// between two singles, it returns the one with an odd last bit, which is never a tie. `half` converts doubles
/// through rounded singles on some CPUs, and drops their last bits for `bf16`.
fn to_odd_single(value: f64) -> f32 {
    let nearest = value as f32;
    if value.is_nan() || f64::from(nearest) == value {
        return nearest;
    }
    let is_beyond = f64::from(nearest).abs() > value.abs();
    f32::from_bits((nearest.to_bits() - u32::from(is_beyond)) | 1)
}

/// Returns floats of one of the four common types.
fn floats_of(dtype: DType, bytes: &[u8]) -> Option<Vec<f64>> {
    Some(match dtype {
        DType::F64 => each(bytes, f64::from_le_bytes),
        DType::F32 => each(bytes, |bytes| f32::from_le_bytes(bytes).into()),
        DType::F16 => each(bytes, |bytes| f16::from_le_bytes(bytes).into()),
        DType::Bf16 => each(bytes, |bytes| bf16::from_le_bytes(bytes).into()),
        _ => return None,
    })
}

/// Reads elements of `N` bytes each.
fn each<const N: usize, T>(bytes: &[u8], element: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|&bytes| element(bytes)).collect()
}

fn push_int(data: &mut Vec<u8>, dtype: DType, value: i64) -> Option<()> {
    match dtype {
        DType::Bool => data.push(u8::from(value != 0)),
        _ if dtype.is_int() && dtype.bits() >= 8 => {
            data.extend(&value.to_le_bytes()[..dtype.bits() / 8]);
        }
        _ => return None,
    }
    Some(())
}
