//! Contents of a tensor.

use bytes::Bytes;
use half::{bf16, f16};

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
    /// Returns a tensor whose elements are the nearest of `dtype` to these numbers; integers wrap.
    ///
    /// `None` for types that no plugin writes constants of (strings, complex, below a byte).
    pub fn of_floats(dtype: DType, shape: Vec<i64>, values: &[f64]) -> Option<Tensor> {
        let mut data = Vec::with_capacity(values.len() * dtype.bits() / 8);
        for &value in values {
            match dtype {
                DType::F64 => data.extend(value.to_le_bytes()),
                DType::F32 => data.extend((value as f32).to_le_bytes()),
                DType::F16 => data.extend(f16::from_f32(to_odd_single(value)).to_le_bytes()),
                DType::Bf16 => data.extend(bf16::from_f32(to_odd_single(value)).to_le_bytes()),
                _ => push_int(&mut data, dtype, value as i64)?,
            }
        }
        let data = data.into();
        Some(Tensor { dtype, shape, data })
    }

    /// Returns a tensor of these integers; they wrap to the width of `dtype`.
    pub fn of_ints(dtype: DType, shape: Vec<i64>, values: &[i64]) -> Option<Tensor> {
        if dtype.is_float() {
            let values: Vec<f64> = values.iter().map(|&value| value as f64).collect();
            return Tensor::of_floats(dtype, shape, &values);
        }
        let mut data = Vec::with_capacity(values.len() * dtype.bits() / 8);
        for &value in values {
            push_int(&mut data, dtype, value)?;
        }
        let data = data.into();
        Some(Tensor { dtype, shape, data })
    }

    /// Returns the elements as integers, if the type is an integer or boolean type.
    pub fn ints(&self) -> Option<Vec<i64>> {
        if !(self.dtype.is_int() || self.dtype == DType::Bool) || self.dtype.bits() < 8 {
            return None;
        }
        let signed = self.dtype.is_signed_int();
        let width = self.dtype.bits() / 8;
        let element = |bytes: &[u8]| {
            let negative = signed && bytes.last().is_some_and(|&top| top >= 0x80);
            let mut wide = [if negative { 0xff } else { 0 }; 8];
            wide[..bytes.len()].copy_from_slice(bytes);
            i64::from_le_bytes(wide)
        };
        Some(self.data.chunks_exact(width).map(element).collect())
    }

    /// Returns the elements as numbers, if the type is one of the four common floating-point types.
    pub fn floats(&self) -> Option<Vec<f64>> {
        fn each<const N: usize>(data: &[u8], element: impl Fn([u8; N]) -> f64) -> Vec<f64> {
            data.as_chunks().0.iter().map(|&bytes| element(bytes)).collect()
        }
        Some(match self.dtype {
            DType::F64 => each(&self.data, f64::from_le_bytes),
            DType::F32 => each(&self.data, |bytes| f32::from_le_bytes(bytes).into()),
            DType::F16 => each(&self.data, |bytes| f16::from_le_bytes(bytes).into()),
            DType::Bf16 => each(&self.data, |bytes| bf16::from_le_bytes(bytes).into()),
            _ => return None,
        })
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

/// Returns a single-precision number that rounds to the same half as a double: the last digit of what is between
/// two numbers is odd, so it is never a tie. `half` converts doubles through rounded singles on some CPUs, and to
/// `bf16` without the last digits.
fn to_odd_single(value: f64) -> f32 {
    let nearest = value as f32;
    if value.is_nan() || f64::from(nearest) == value {
        return nearest;
    }
    let is_beyond = f64::from(nearest).abs() > value.abs();
    f32::from_bits((nearest.to_bits() - u32::from(is_beyond)) | 1)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_and_keep_their_sign() {
        let tensor = Tensor::of_ints(DType::I16, vec![2], &[-1, 40_000]).unwrap();
        assert_eq!(tensor.ints(), Some(vec![-1, 40_000 - 65_536]));
        let tensor = Tensor::of_ints(DType::U16, vec![2], &[-1, 40_000]).unwrap();
        assert_eq!(tensor.ints(), Some(vec![65_535, 40_000]));
    }

    #[test]
    fn floats_are_rounded_to_their_type() {
        let tensor = Tensor::of_floats(DType::Bf16, vec![1], &[1.0 / 3.0]).unwrap();
        assert_eq!(tensor.floats(), Some(vec![0.333_984_375]));
        assert_eq!(tensor.expected_bytes(), tensor.data.len());
    }
    #[test]
    fn a_double_just_beyond_a_tie_is_rounded_once() {
        let bf16_tie = 1.0 + 2f64.powi(-8);
        let f16_tie = 1.0 + 2f64.powi(-11);
        for (dtype, tie, up) in [(DType::Bf16, bf16_tie, -7), (DType::F16, f16_tie, -10)] {
            for away in [2f64.powi(-23), 2f64.powi(-52)] {
                let values = [tie, tie + away, -tie - away, tie - away];
                let tensor = Tensor::of_floats(dtype, vec![4], &values).unwrap();
                let next = 1.0 + 2f64.powi(up);
                assert_eq!(tensor.floats(), Some(vec![1.0, next, -next, 1.0]));
            }
            let extremes = [1e-300, -1e-300, f64::from(f32::MAX), -1e300, f64::INFINITY];
            let tensor = Tensor::of_floats(dtype, vec![5], &extremes).unwrap();
            let rounded = vec![0.0, -0.0, f64::INFINITY, -f64::INFINITY, f64::INFINITY];
            assert_eq!(tensor.floats(), Some(rounded));
        }
    }
}
