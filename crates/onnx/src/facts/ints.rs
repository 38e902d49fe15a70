//! Facts about integers: interval arithmetic, by element type.
//!
//! Integers wrap: if a sum, a product, a shift or a cast leaves the range of the type, the result is at the other
//! end of the range. So a result has the interval of exact arithmetic only if the type can represent all of it.
//! Otherwise the result may be any number of the type, and the functions return `None`.

use crate::dtype::DType;

/// The smallest and the largest possible integer.
pub type Interval = (i128, i128);

/// Returns the range of a type of integers or booleans.
pub fn of_type(dtype: DType) -> Option<Interval> {
    let bits = dtype.bits();
    match dtype {
        DType::Bool => Some((0, 1)),
        _ if dtype.is_signed_int() => Some((-1 << (bits - 1), !(-1 << (bits - 1)))),
        _ if dtype.is_unsigned_int() => Some((0, (1 << bits) - 1)),
        _ => None,
    }
}

/// Returns an interval if the type can represent all of it.
pub(super) fn within(dtype: DType, (low, high): Interval) -> Option<Interval> {
    let (least, most) = of_type(dtype)?;
    (least <= low && high <= most && low <= high).then_some((low, high))
}

/// Returns the smallest interval that contains both.
pub(super) fn either(a: Interval, b: Interval) -> Interval {
    (a.0.min(b.0), a.1.max(b.1))
}

pub(super) fn max(a: Interval, b: Interval) -> Interval {
    (a.0.max(b.0), a.1.max(b.1))
}

pub(super) fn min(a: Interval, b: Interval) -> Interval {
    (a.0.min(b.0), a.1.min(b.1))
}

pub(super) fn add(dtype: DType, a: Interval, b: Interval) -> Option<Interval> {
    within(dtype, (a.0 + b.0, a.1 + b.1))
}

pub(super) fn sub(dtype: DType, a: Interval, b: Interval) -> Option<Interval> {
    within(dtype, (a.0 - b.1, a.1 - b.0))
}

pub(super) fn mul(dtype: DType, a: Interval, b: Interval) -> Option<Interval> {
    hull(dtype, a, b, i128::checked_mul)
}

/// Returns the interval of the squares.
pub(super) fn square(dtype: DType, (low, high): Interval) -> Option<Interval> {
    let least = if low > 0 { low } else { high.min(0) };
    let most = low.abs().max(high.abs());
    within(dtype, (least.checked_mul(least)?, most.checked_mul(most)?))
}

pub(super) fn neg(dtype: DType, x: Interval) -> Option<Interval> {
    sub(dtype, (0, 0), x)
}

/// Returns the interval of the magnitudes. The type cannot represent the magnitude of its lowest number.
pub(super) fn abs(dtype: DType, (low, high): Interval) -> Option<Interval> {
    within(dtype, (low.max(-high).max(0), high.max(-low)))
}

/// Returns the interval of quotients by positive numbers, rounded toward zero.
pub(super) fn div(dtype: DType, x: Interval, by: Interval) -> Option<Interval> {
    if by.0 < 1 {
        return None;
    }
    hull(dtype, x, by, i128::checked_div)
}

/// Returns the interval of remainders of a division by positive numbers, with the sign of the dividend.
pub(super) fn rest((low, high): Interval, by: Interval) -> Option<Interval> {
    let most = (by.1 - 1).max(0);
    (by.0 > 0).then_some(((-most).max(low).min(0), most.min(high).max(0)))
}

/// Returns the interval of a bitwise and.
pub(super) fn bits_of_both(a: Interval, b: Interval) -> Option<Interval> {
    match (a.0 >= 0, b.0 >= 0) {
        (true, true) => Some((0, a.1.min(b.1))),
        (true, false) => Some((0, a.1)),
        (false, true) => Some((0, b.1)),
        (false, false) => None,
    }
}

/// Returns the interval of a bitwise or, or of an exclusive or.
pub(super) fn bits_of_one(a: Interval, b: Interval) -> Option<Interval> {
    // Sets all bits below the highest one.
    let filled = |number: i128| (1..64).fold(number, |filled, by| filled | number >> by);
    (a.0 >= 0 && b.0 >= 0).then(|| (0, filled(a.1 | b.1)))
}

/// Returns the interval of nonnegative numbers shifted left. A shift by the width of the type or more may return
/// anything.
pub(super) fn shifted_up(dtype: DType, x: Interval, by: Interval) -> Option<Interval> {
    let is_inside = x.0 >= 0 && by.0 >= 0 && by.1 < dtype.bits() as i128;
    is_inside.then(|| within(dtype, (x.0.checked_mul(1 << by.0)?, x.1.checked_mul(1 << by.1)?)))?
}

/// Returns the interval of sums of `count` numbers, including all partial sums.
pub(super) fn sum(dtype: DType, (low, high): Interval, count: i64) -> Option<Interval> {
    let whole = |bound: i128| bound.checked_mul(count.into());
    within(dtype, (whole(low)?.min(0), whole(high)?.max(0)))
}

fn hull(
    dtype: DType,
    a: Interval,
    b: Interval,
    operation: fn(i128, i128) -> Option<i128>,
) -> Option<Interval> {
    let all = [(a.0, b.0), (a.0, b.1), (a.1, b.0), (a.1, b.1)];
    let mut found: Option<Interval> = None;
    for (a, b) in all {
        let result = operation(a, b)?;
        found = Some(found.map_or((result, result), |found| either(found, (result, result))));
    }
    within(dtype, found?)
}

#[cfg(test)]
mod tests {
    use crate::dtype::DType::{I8, I32, I64, U8, U64};

    use super::*;

    #[test]
    fn a_result_that_leaves_the_type_may_be_anything() {
        assert_eq!(add(I8, (0, 100), (0, 27)), Some((0, 127)));
        assert_eq!(add(I8, (0, 100), (0, 28)), None);
        assert_eq!(sub(U8, (3, 9), (0, 3)), Some((0, 9)));
        assert_eq!(sub(U8, (3, 9), (0, 4)), None);
        assert_eq!(mul(I8, (-4, 11), (-3, 11)), Some((-44, 121)));
        assert_eq!(mul(I8, (-4, 12), (-3, 11)), None);
        assert_eq!(mul(I64, (i64::MIN.into(), 0), (1, 2)), None);
        assert_eq!(add(U64, (0, u64::MAX.into()), (0, 1)), None);
    }

    #[test]
    fn the_lowest_number_of_a_type_has_no_magnitude_in_it() {
        assert_eq!(abs(I8, (-128, 5)), None);
        assert_eq!(abs(I8, (-127, 5)), Some((0, 127)));
        assert_eq!(abs(I8, (-9, -5)), Some((5, 9)));
        assert_eq!(neg(I8, (-128, 5)), None);
        assert_eq!(neg(I32, (-128, 5)), Some((-5, 128)));
    }

    #[test]
    fn a_square_is_positive_if_it_fits() {
        assert_eq!(square(I8, (-11, 3)), Some((0, 121)));
        assert_eq!(square(I8, (-9, -3)), Some((9, 81)));
        assert_eq!(square(I8, (-12, 3)), None);
        assert_eq!(square(I64, (i64::MIN.into(), 3)), None);
    }

    #[test]
    fn bits_are_moved_up_inside_the_type() {
        assert_eq!(shifted_up(U8, (1, 3), (0, 6)), Some((1, 192)));
        assert_eq!(shifted_up(U8, (1, 3), (0, 7)), None);
        assert_eq!(shifted_up(U8, (0, 0), (0, 8)), None);
        assert_eq!(bits_of_one((0, 5), (0, 8)), Some((0, 15)));
        assert_eq!(bits_of_one((0, 0), (0, 0)), Some((0, 0)));
        assert_eq!(bits_of_one((-1, 5), (0, 8)), None);
        assert_eq!(bits_of_one((0, i64::MAX.into()), (0, 0)), Some((0, i64::MAX.into())));
    }
}
