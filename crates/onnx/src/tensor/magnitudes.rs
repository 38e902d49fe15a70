//! Computes bounds of the numbers in a tensor.

use super::lazy::Lazy;
use super::{Contents, Tensor};
use crate::dtype::DType;
use half::{bf16, f16};

/// Bounds of the magnitudes of nonzero numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Magnitudes {
    least: f64,
    most: f64,
}

impl Magnitudes {
    /// Returns the bounds of the products.
    pub(super) fn times(self, other: Magnitudes) -> Magnitudes {
        Magnitudes { least: self.least * other.least, most: self.most * other.most }
    }

    /// True if all numbers are within these bounds, with a margin for rounding errors.
    pub(super) fn are_within(self, least: f64, most: f64) -> bool {
        self.least >= 2.0 * least && self.most <= most / 2.0
    }

    fn and(self, other: Magnitudes) -> Magnitudes {
        // The maximum of NaN and a number is the number.
        let is_any_nan = self.most.is_nan() || other.most.is_nan();
        let most = if is_any_nan { f64::INFINITY } else { self.most.max(other.most) };
        Magnitudes { least: self.least.min(other.least), most }
    }
}

/// The bounds of an empty set.
const NOTHING: Magnitudes = Magnitudes { least: f64::INFINITY, most: 0.0 };

/// The number of bytes per pass. If a number among them needs all bits, they are read again while they are in the
/// cache.
const PART_BYTES: usize = 1 << 16;

/// The bounds of unknown numbers.
const ANYTHING: Magnitudes = Magnitudes { least: 0.0, most: f64::INFINITY };

impl Tensor {
    /// Returns an upper bound of the magnitudes of floats, or infinity. Numbers that a view omits count too.
    pub fn max_magnitude(&self) -> f64 {
        let most = self.magnitudes().most;
        if most.is_nan() { f64::INFINITY } else { most }
    }

    /// Returns bounds of the magnitudes of floats. Numbers that a view omits count too.
    pub(super) fn magnitudes(&self) -> Magnitudes {
        match &self.contents {
            Contents::Bytes(bytes) => of_bytes(self.dtype, &bytes.0),
            Contents::Lazy(lazy) => match &**lazy {
                Lazy::View(view) => of_bytes(self.dtype, view.source()),
                Lazy::Product(x, factors, _) => x.magnitudes().times(factors.magnitudes()),
                Lazy::Cast(x) => x.magnitudes(),
                Lazy::Joined(parts, _) => {
                    parts.iter().map(Tensor::magnitudes).fold(NOTHING, Magnitudes::and)
                }
            },
        }
    }
}

fn of_bytes(dtype: DType, bytes: &[u8]) -> Magnitudes {
    match dtype {
        DType::F32 => {
            let bounds = |part| of_upper_halves(part).unwrap_or_else(|| of_singles(part));
            bytes.chunks(PART_BYTES).map(bounds).fold(NOTHING, Magnitudes::and)
        }
        DType::F64 => of_doubles(bytes),
        DType::F16 => of_halves(bytes, |bits| f16::from_bits(bits).into()),
        DType::Bf16 => of_halves(bytes, |bits| bf16::from_bits(bits).into()),
        _ => ANYTHING,
    }
}

/// Returns bounds of singles by their upper halves, which takes half the time. `None` if the upper half of a number
/// is zero, because the number itself may be zero or not.
fn of_upper_halves(bytes: &[u8]) -> Option<Magnitudes> {
    const LANES: usize = 16;
    let (mut least, mut most) = ([i16::MAX; LANES], [0; LANES]);
    let (blocks, rest) = bytes.as_chunks::<{ 4 * LANES }>();
    for block in blocks {
        let mut halves = [0; LANES];
        for (half, &number) in halves.iter_mut().zip(block.as_chunks().0) {
            *half = (i32::from_le_bytes(number) >> 16) as i16 & i16::MAX;
        }
        for lane in 0..LANES {
            least[lane] = least[lane].min(halves[lane]);
            most[lane] = most[lane].max(halves[lane]);
        }
    }
    let (least, most) = (*least.iter().min()?, *most.iter().max()?);
    let number = |upper: i16, lower: u32| f32::from_bits((upper as u32) << 16 | lower).into();
    let magnitudes = Magnitudes { least: number(least, 0), most: number(most, 0xffff) };
    (least > 0 && !blocks.is_empty()).then(|| magnitudes.and(of_singles(rest)))
}

/// Compares magnitudes by their bits, which have the same order. Subtracting one and clearing the sign bit turns
/// zero into the largest number, so that the minimum ignores zeros.
fn of_singles(bytes: &[u8]) -> Magnitudes {
    let bits = bytes.as_chunks().0.iter().map(|&bytes| i32::from_le_bytes(bytes) & i32::MAX);
    let (least, most) = bits.fold((i32::MAX, 0), |(least, most), bits| {
        (least.min(bits.wrapping_sub(1) & i32::MAX), most.max(bits))
    });
    let number = |bits: i32| f64::from(f32::from_bits(bits as u32));
    let least = if least == i32::MAX { f64::INFINITY } else { number(least + 1) };
    Magnitudes { least, most: number(most) }
}

fn of_doubles(bytes: &[u8]) -> Magnitudes {
    let bits = bytes.as_chunks().0.iter().map(|&bytes| i64::from_le_bytes(bytes) & i64::MAX);
    let (least, most) = bits.fold((i64::MAX, 0), |(least, most), bits| {
        (least.min(bits.wrapping_sub(1) & i64::MAX), most.max(bits))
    });
    let number = |bits: i64| f64::from_bits(bits as u64);
    let least = if least == i64::MAX { f64::INFINITY } else { number(least + 1) };
    Magnitudes { least, most: number(most) }
}

fn of_halves(bytes: &[u8], number: impl Fn(u16) -> f64) -> Magnitudes {
    let bits = bytes.as_chunks().0.iter().map(|&bytes| i16::from_le_bytes(bytes) & i16::MAX);
    let (least, most) = bits.fold((i16::MAX, 0), |(least, most), bits| {
        (least.min(bits.wrapping_sub(1) & i16::MAX), most.max(bits))
    });
    let least = if least == i16::MAX { f64::INFINITY } else { number(least as u16 + 1) };
    Magnitudes { least, most: number(most as u16) }
}

#[cfg(test)]
mod tests {
    use super::{PART_BYTES, of_bytes, of_singles, of_upper_halves};
    use crate::dtype::DType;

    fn bytes(numbers: &[f32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    #[test]
    fn upper_halves_bound_what_whole_numbers_bound() {
        let numbers: Vec<f32> = (0..57).map(|place| (place as f32 - 20.3).powi(3) * 1e-3).collect();
        let numbers = bytes(&numbers);
        let (exact, rough) = (of_singles(&numbers), of_upper_halves(&numbers).unwrap());
        assert!(rough.least <= exact.least && rough.least >= exact.least * 0.99);
        assert!(rough.most >= exact.most && rough.most <= exact.most * 1.01);
    }

    #[test]
    fn one_zero_does_not_hide_the_numbers_around_it() {
        for place in [0, PART_BYTES / 4, 3 * PART_BYTES / 4 - 1] {
            let mut numbers = vec![1.0; 3 * PART_BYTES / 4];
            numbers[place] = 0.0;
            numbers[PART_BYTES / 4 - 1] = 3e-9;
            numbers[PART_BYTES / 4 + 1] = 5e9;
            let magnitudes = of_bytes(DType::F32, &bytes(&numbers));
            assert!(magnitudes.are_within(1e-9, 2e10), "{place}: {magnitudes:?}");
            assert!(!magnitudes.are_within(2e-9, 2e10), "{place}: {magnitudes:?}");
            assert!(!magnitudes.are_within(1e-9, 9e9), "{place}: {magnitudes:?}");
        }
    }

    #[test]
    fn numbers_that_are_not_finite_have_no_bound() {
        for number in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut numbers = [1.0; 16];
            numbers[5] = number;
            let magnitudes = of_upper_halves(&bytes(&numbers)).unwrap();
            assert!(!magnitudes.are_within(1e-9, f64::from(f32::MAX)), "{number}");
        }
    }

    #[test]
    fn zeros_and_the_smallest_numbers_need_all_bits() {
        for number in [0.0, -0.0, f32::from_bits(1)] {
            let mut numbers = [1.0; 16];
            numbers[5] = number;
            assert!(of_upper_halves(&bytes(&numbers)).is_none(), "{number}");
        }
        assert!(of_upper_halves(&bytes(&[1.0; 15])).is_none());
    }
}
