//! Contents of a tensor.

use bytes::Bytes;

use crate::dtype::DType;

/// An array of known contents, shared and never copied.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tensor {
    pub dtype: DType,
    pub shape: Vec<i64>,
    /// Little-endian, row-major; types narrower than a byte are packed as ONNX packs them.
    pub data: Bytes,
}

impl Tensor {
    pub fn len(&self) -> usize {
        self.shape.iter().product::<i64>().max(0) as usize
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that the shape and the type ask for.
    pub fn expected_bytes(&self) -> usize {
        (self.len() * self.dtype.bits()).div_ceil(8)
    }
}
