//! Kernels of ONNX Runtime that exist but do not compute what ONNX and JAX specify.
//!
//! The generated table contains the types that a kernel takes; this one contains the types for which its numbers
//! are wrong. [`Expr`] checks this table before it emits a node, and passes check it through
//! [`super::Target::runs`], so that no plugin has to know. All rows were measured with ONNX Runtime 1.31; the tests of
//! edge values compare every row with JAX.
//!
//! [`Expr`]: crate::Expr

use crate::dtype::DType;
use crate::operator::OpType;

/// An operator, and the types that its kernel computes wrongly.
#[derive(Debug)]
pub(super) struct Wrong {
    pub op: OpType,
    pub types: &'static [DType],
    /// The first version without the fault, if there is one.
    pub right_since: Option<(u32, u32)>,
    #[allow(dead_code, reason = "not yet in a target")]
    pub when: &'static [When],
}

/// The numbers that a kernel computes wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Nearly all numbers.
    Any,
    Zero,
    Negative,
    /// Numbers that occur twice, and halves between two integers.
    Ties,
    /// Integers from 2^24 on, and floats from 1000 on.
    Large,
    /// Integers that do not fit into 32 bits with a sign.
    High,
    /// The ends of the type, and sums and products that wrap.
    Ends,
    Infinite,
    Nan,
    /// The sign of a zero.
    NegativeZero,
    Subnormal,
    /// Numbers of 64 bits that 32 bits would round.
    Precise,
}

impl When {
    /// True if ordinary programs have such numbers of the type.
    ///
    /// Programs compute with floats of any size, wrap bytes, and use all 32 bits of random numbers. Other integers are
    /// mostly indices, sizes and counts.
    pub fn is_ordinary(self, dtype: DType) -> bool {
        match self {
            When::Any | When::Zero | When::Negative | When::Ties => true,
            When::Large => dtype.is_float(),
            When::High | When::Ends => dtype.is_int() && dtype.bits() < 32 || dtype == DType::U32,
            When::Precise => dtype == DType::F64,
            When::Infinite | When::Nan | When::NegativeZero | When::Subnormal => false,
        }
    }
}

impl Wrong {
    /// True if the kernel is wrong for numbers of ordinary programs.
    pub fn is_ordinary(&self, dtype: DType) -> bool {
        let is_met = |when: &When| match (self.op, when) {
            // The remainder of a large quotient has few digits in any case, and an exponential that is cut off is as good
            // as zero or infinity. The order of equal elements, such as several zeros, is a form of its own.
            (OpType::Mod | OpType::Exp, When::Large) | (OpType::TopK, When::Ties | When::Zero) => {
                false
            }
            _ => true,
        };
        self.when.iter().any(|when| is_met(when) && when.is_ordinary(dtype))
    }
}

pub(super) const WRONG: &[Wrong] = &[
    // The kernel compares the halves of a number one by one: 2^31 to 2^32 counts as negative.
    Wrong { op: OpType::Clip, types: &[DType::I64], right_since: None, when: &[When::High] },
    Wrong { op: OpType::Max, types: &[DType::I64], right_since: None, when: &[When::High] },
    Wrong { op: OpType::Min, types: &[DType::I64], right_since: None, when: &[When::High] },
    Wrong { op: OpType::ReduceMax, types: &[DType::I64], right_since: None, when: &[When::High] },
    Wrong { op: OpType::ReduceMin, types: &[DType::I64], right_since: None, when: &[When::High] },
    Wrong { op: OpType::Sign, types: &[DType::I64], right_since: None, when: &[When::High] },
    // If a window contains only -inf, the result is -3.4e38.
    Wrong { op: OpType::MaxPool, types: &[DType::F32], right_since: None, when: &[When::Infinite] },
    // If a row contains a NaN or an infinity, some of its numbers stay finite.
    Wrong { op: OpType::LogSoftmax, types: &[DType::F64], right_since: None, when: &[When::Nan] },
];

/// Returns the type to cast to before `to`, if a cast in one step is wrong.
///
/// `Cast` rounds floats to integers of 4 bits, but JAX truncates. `Cast` also treats an 8-bit `-0` as nonzero.
pub(crate) fn cast_through(from: DType, to: DType) -> Option<DType> {
    match to {
        // Before ONNX Runtime 1.31, every number of less than a byte becomes 0.
        DType::Bool | DType::I8 | DType::U8 if from.bits() < 8 => Some(DType::I32),
        DType::I4 if from.is_float() => Some(DType::I8),
        DType::U4 if from.is_float() => Some(DType::U8),
        DType::Bool if from.is_float() && from.bits() == 8 => Some(DType::F32),
        _ => None,
    }
}

/// Returns the smallest magnitude for which `Cast` without saturation is wrong: it must return infinity, or NaN if
/// the type has no infinity.
pub(crate) fn overflow(to: DType) -> Option<f64> {
    match to {
        // `Cast` returns 448 up to 496.
        DType::F8E4M3Fn => Some(480.0),
        // `Cast` returns NaN up to 65536.
        DType::F8E5M2 => Some(61440.0),
        _ => None,
    }
}

/// True if `AveragePool` with `count_include_pad` counts this padding correctly in all supported versions. The starts of
/// all axes come first, then the ends.
///
/// Before ONNX Runtime 1.25, the kernel reads the padding at the end of axis `i` from entry `2 * i + 1`, and divides by too
/// small a number if that entry is smaller.
pub fn counts_padding(pads: &[i64]) -> bool {
    let ends = &pads[pads.len() / 2..];
    let read = pads.iter().skip(1).step_by(2);
    read.zip(ends).all(|(read, end)| read >= end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_counted_by_the_entries_that_the_kernel_reads() {
        assert!(counts_padding(&[]));
        assert!(counts_padding(&[0, 1]));
        assert!(counts_padding(&[1, 1, 0, 0]));
        assert!(counts_padding(&[1, 1, 1, 1]));
        assert!(!counts_padding(&[0, 0, 1, 1]));
        assert!(!counts_padding(&[1, 0, 1, 0]));
        assert!(counts_padding(&[1, 1, 1, 1, 1, 1]));
        assert!(!counts_padding(&[1, 1, 1, 0, 1, 1]));
    }

    #[test]
    fn only_the_listed_types_of_an_operator_are_wrong() {
        let target = crate::kernels::Target::default();
        assert!(!target.is_right(OpType::Sign, DType::I64));
        assert!(target.is_right(OpType::Sign, DType::I32));
        assert!(target.is_right(OpType::Add, DType::I64));
    }

    #[test]
    fn a_float_is_cast_to_four_bits_through_eight() {
        assert_eq!(cast_through(DType::F16, DType::I4), Some(DType::I8));
        assert_eq!(cast_through(DType::I32, DType::I4), None);
    }

    #[test]
    fn four_bits_are_cast_to_eight_through_more() {
        assert_eq!(cast_through(DType::U4, DType::U8), Some(DType::I32));
        assert_eq!(cast_through(DType::I4, DType::Bool), Some(DType::I32));
        assert_eq!(cast_through(DType::I4, DType::F32), None);
        assert_eq!(cast_through(DType::U8, DType::U4), None);
    }
}
