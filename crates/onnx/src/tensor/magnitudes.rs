//! Bounds of the numbers of a tensor.

use super::lazy::Lazy;
use super::{Contents, Tensor};
use crate::dtype::DType;

/// Bounds of the magnitudes of numbers that are not zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Magnitudes {
    least: f64,
    most: f64,
}

impl Magnitudes {
    /// Returns the bounds of products.
    pub(super) fn times(self, other: Magnitudes) -> Magnitudes {
        Magnitudes { least: self.least * other.least, most: self.most * other.most }
    }

    /// True if all numbers are between these two, and not as close to them as a rounding error.
    pub(super) fn are_within(self, least: f64, most: f64) -> bool {
        self.least >= 2.0 * least && self.most <= most / 2.0
    }

    fn and(self, other: Magnitudes) -> Magnitudes {
        Magnitudes { least: self.least.min(other.least), most: self.most.max(other.most) }
    }
}

/// No number at all.
const NOTHING: Magnitudes = Magnitudes { least: f64::INFINITY, most: 0.0 };

/// Numbers about which nothing is known.
const ANYTHING: Magnitudes = Magnitudes { least: 0.0, most: f64::INFINITY };

impl Tensor {
    /// Returns bounds of the magnitudes of floats. Numbers that a view leaves out count too.
    pub(super) fn magnitudes(&self) -> Magnitudes {
        match &self.contents {
            Contents::Bytes(bytes) => of_bytes(self.dtype, &bytes.0),
            Contents::Lazy(lazy) => match &**lazy {
                Lazy::View(view) => of_bytes(self.dtype, view.source()),
                Lazy::Product(x, factors) => x.magnitudes().times(factors.magnitudes()),
                Lazy::Cast(_) => ANYTHING,
                Lazy::Joined(parts, _) => {
                    parts.iter().map(Tensor::magnitudes).fold(NOTHING, Magnitudes::and)
                }
            },
        }
    }
}

/// The bits of magnitudes have the order of the magnitudes. One less than those of zero would be the least;
/// without its sign bit it is the largest of all.
fn of_bytes(dtype: DType, bytes: &[u8]) -> Magnitudes {
    match dtype {
        DType::F32 => {
            let bits =
                bytes.as_chunks().0.iter().map(|&bytes| i32::from_le_bytes(bytes) & i32::MAX);
            let (least, most) = bits.fold((i32::MAX, 0), |(least, most), bits| {
                (least.min(bits.wrapping_sub(1) & i32::MAX), most.max(bits))
            });
            let number = |bits: i32| f64::from(f32::from_bits(bits as u32));
            let least = if least == i32::MAX { f64::INFINITY } else { number(least + 1) };
            Magnitudes { least, most: number(most) }
        }
        DType::F64 => {
            let bits =
                bytes.as_chunks().0.iter().map(|&bytes| i64::from_le_bytes(bytes) & i64::MAX);
            let (least, most) = bits.fold((i64::MAX, 0), |(least, most), bits| {
                (least.min(bits.wrapping_sub(1) & i64::MAX), most.max(bits))
            });
            let number = |bits: i64| f64::from_bits(bits as u64);
            let least = if least == i64::MAX { f64::INFINITY } else { number(least + 1) };
            Magnitudes { least, most: number(most) }
        }
        _ => ANYTHING,
    }
}
