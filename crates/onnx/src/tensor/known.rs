//! Properties of the elements of a tensor that many rewrites ask for. Each is computed once.

use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

use super::Tensor;
use crate::dtype::DType;

/// The properties that were computed so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    number: OnceLock<Option<f64>>,
    range: OnceLock<Option<Range>>,
    column_length: OnceLock<Option<f64>>,
}

/// All are equal, so that tensors are equal if their elements are.
impl PartialEq for Known {
    fn eq(&self, _: &Known) -> bool {
        true
    }
}

impl Eq for Known {}

impl Hash for Known {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// The range of the elements of a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Range {
    /// If all elements are NaN, `low` is above `high`.
    Floats {
        low: f64,
        high: f64,
        has_nan: bool,
        has_negative_zero: bool,
    },
    Ints {
        low: i64,
        high: i64,
    },
}

impl Tensor {
    /// Returns the number that all elements are equal to, if a double represents it exactly.
    pub fn number(&self) -> Option<f64> {
        *self.known.number.get_or_init(|| {
            let one = self.uniform()?;
            if let Some(floats) = one.floats() {
                return floats.first().copied();
            }
            // `ints` returns unsigned integers of 64 bits as signed ones.
            let is_held = |&int: &i64| {
                (int as f64) as i128 == i128::from(int) && (int >= 0 || one.dtype != DType::U64)
            };
            one.ints()?.first().copied().filter(is_held).map(|int| int as f64)
        })
    }

    /// Returns the range of the elements. `None` if there are none, or if the type is neither one of the four
    /// common types of floats nor an integer type that fits into 64 signed bits.
    pub(crate) fn range(&self) -> Option<Range> {
        *self.known.range.get_or_init(|| match self.dtype {
            DType::U64 => None,
            dtype if dtype.is_float() => self.range_of_floats(),
            _ => {
                let numbers = self.ints()?;
                let (low, high) = (*numbers.iter().min()?, *numbers.iter().max()?);
                Some(Range::Ints { low, high })
            }
        })
    }

    fn range_of_floats(&self) -> Option<Range> {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        let (mut has_nan, mut has_negative_zero) = (false, false);
        let are_read = self.all_floats(|number| {
            has_nan |= number.is_nan();
            has_negative_zero |= number == 0.0 && number.is_sign_negative();
            (low, high) = (low.min(number), high.max(number));
            true
        });
        (are_read && !self.is_empty()).then_some(Range::Floats {
            low,
            high,
            has_nan,
            has_negative_zero,
        })
    }

    /// Returns the largest Euclidean length of a column of a matrix of floats.
    pub(crate) fn column_length(&self) -> Option<f64> {
        *self.known.column_length.get_or_init(|| {
            let &[_, columns] = &self.shape[..] else { return None };
            let mut squares = vec![0.0; usize::try_from(columns).ok()?];
            let (mut column, count) = (0, squares.len());
            let are_floats = self.all_floats(|number| {
                squares[column] += number * number;
                column = (column + 1) % count;
                true
            });
            are_floats.then(|| squares.into_iter().fold(0.0, f64::max).sqrt())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(values: &[f64]) -> Tensor {
        Tensor::of_floats(DType::F32, vec![values.len() as i64], values).unwrap()
    }

    #[test]
    fn a_range_says_whether_nan_and_negative_zero_are_among_the_floats() {
        let range = |values: &[f64]| match floats(values).range() {
            Some(Range::Floats { low, high, has_nan, has_negative_zero }) => {
                Some((low, high, has_nan, has_negative_zero))
            }
            _ => None,
        };
        assert_eq!(range(&[2.0, -1.5, 0.0]), Some((-1.5, 2.0, false, false)));
        assert_eq!(range(&[f64::NAN, 1.0, -0.0]), Some((0.0, 1.0, true, true)));
        assert_eq!(range(&[f64::NAN]), Some((f64::INFINITY, f64::NEG_INFINITY, true, false)));
        assert_eq!(range(&[]), None);
    }

    #[test]
    fn integers_have_a_range_unless_they_need_64_unsigned_bits() {
        let range = |dtype| Tensor::of_ints(dtype, vec![3], &[7, -2, 5]).unwrap().range();
        assert_eq!(range(DType::I32), Some(Range::Ints { low: -2, high: 7 }));
        assert_eq!(range(DType::U8), Some(Range::Ints { low: 5, high: 254 }));
        assert_eq!(range(DType::U64), None);
    }

    #[test]
    fn only_a_matrix_has_columns() {
        let matrix = floats(&[3.0, 1.0, 4.0, 1.0]).with_shape(vec![2, 2]);
        assert_eq!(matrix.column_length(), Some(5.0));
        assert_eq!(matrix.with_shape(vec![4]).column_length(), None);
    }

    #[test]
    fn a_property_is_computed_once_and_does_not_make_tensors_differ() {
        let (asked, other) = (floats(&[2.0, 2.0]), floats(&[2.0, 2.0]));
        assert_eq!(asked.number(), Some(2.0));
        assert!(asked.range().is_some());
        assert_eq!(asked.known.number.get(), Some(&Some(2.0)));
        assert!(asked.known.range.get().is_some());
        assert!(other.known.range.get().is_none());
        assert_eq!(asked, other);
        let shorter = asked.with_shape(vec![1, 2]);
        assert!(shorter.known.range.get().is_none());
    }
}
