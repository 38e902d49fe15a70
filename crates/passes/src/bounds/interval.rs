//! Arithmetic of intervals of integers, by element type.
//!
//! Integers wrap: a sum, a product, a shift or a cast that leaves the range of the type comes back at its other end. So a
//! result has the interval that exact arithmetic computes only if the type holds all of it. Otherwise the result may be
//! any number of the type, and the functions return `None`.

use onnx::DType;

/// The smallest and the largest that an integer can be.
pub(crate) type Interval = (i64, i64);

/// Returns the numbers that a type of integers or flags holds, if 64 signed bits hold them.
pub(crate) fn of_type(dtype: DType) -> Option<Interval> {
    let bits = dtype.bits();
    match dtype {
        DType::Bool => Some((0, 1)),
        _ if dtype.is_signed_int() => Some((-1 << (bits - 1), !(-1 << (bits - 1)))),
        _ if dtype.is_unsigned_int() && bits < 64 => Some((0, (1 << bits) - 1)),
        _ => None,
    }
}

/// Returns an interval if a type holds all of it.
pub(super) fn within(dtype: DType, (low, high): (i128, i128)) -> Option<Interval> {
    let unsigned = (dtype == DType::U64).then_some((0, i64::MAX));
    let (least, most) = of_type(dtype).or(unsigned)?;
    let is_held = i128::from(least) <= low && high <= i128::from(most) && low <= high;
    is_held.then_some((low as i64, high as i64))
}

/// Returns the interval of what is one or the other.
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
    within(dtype, (i128::from(a.0) + i128::from(b.0), i128::from(a.1) + i128::from(b.1)))
}

pub(super) fn sub(dtype: DType, a: Interval, b: Interval) -> Option<Interval> {
    within(dtype, (i128::from(a.0) - i128::from(b.1), i128::from(a.1) - i128::from(b.0)))
}

pub(super) fn mul(dtype: DType, a: Interval, b: Interval) -> Option<Interval> {
    let product = |a: i64, b: i64| i128::from(a) * i128::from(b);
    hull(dtype, [product(a.0, b.0), product(a.0, b.1), product(a.1, b.0), product(a.1, b.1)])
}

/// The product of a number with itself.
pub(super) fn square(dtype: DType, (low, high): Interval) -> Option<Interval> {
    let least = i128::from(if low > 0 { low } else { high.min(0) });
    let most = i128::from(low).abs().max(i128::from(high).abs());
    within(dtype, (least * least, most * most))
}

pub(super) fn neg(dtype: DType, x: Interval) -> Option<Interval> {
    sub(dtype, (0, 0), x)
}

/// The magnitude. That of the lowest number of a type is not in the type.
pub(super) fn abs(dtype: DType, (low, high): Interval) -> Option<Interval> {
    let (low, high) = (i128::from(low), i128::from(high));
    within(dtype, (low.max(-high).max(0), high.max(-low)))
}

/// A quotient by positive numbers, rounded toward zero.
pub(super) fn div(dtype: DType, x: Interval, by: Interval) -> Option<Interval> {
    if by.0 < 1 {
        return None;
    }
    let quotient = |x: i64, by: i64| i128::from(x / by);
    hull(
        dtype,
        [quotient(x.0, by.0), quotient(x.0, by.1), quotient(x.1, by.0), quotient(x.1, by.1)],
    )
}

/// The rest of a division by positive numbers, with the sign of the dividend.
pub(super) fn rest((low, high): Interval, by: Interval) -> Option<Interval> {
    let most = by.1.checked_sub(1).filter(|_| by.0 > 0)?;
    Some(((-most).max(low).min(0), most.min(high).max(0)))
}

/// The bits that both have.
pub(super) fn bits_of_both(a: Interval, b: Interval) -> Option<Interval> {
    match (a.0 >= 0, b.0 >= 0) {
        (true, true) => Some((0, a.1.min(b.1))),
        (true, false) => Some((0, a.1)),
        (false, true) => Some((0, b.1)),
        (false, false) => None,
    }
}

/// The bits that one of two has, or exactly one of them.
pub(super) fn bits_of_one(a: Interval, b: Interval) -> Option<Interval> {
    // All bits below the highest one.
    let filled = |number: i64| (1..64).fold(number, |filled, by| filled | number >> by);
    (a.0 >= 0 && b.0 >= 0).then(|| (0, filled(a.1 | b.1)))
}

/// Numbers that are not negative, moved up by bits. By as many bits as the type has, anything may come out.
pub(super) fn shifted_up(dtype: DType, x: Interval, by: Interval) -> Option<Interval> {
    let is_inside = x.0 >= 0 && by.0 >= 0 && (by.1 as usize) < dtype.bits();
    is_inside.then(|| within(dtype, (i128::from(x.0) << by.0, i128::from(x.1) << by.1)))?
}

/// The sum of `count` numbers, in any order and of any part of them that is begun with the first.
pub(super) fn sum(dtype: DType, (low, high): Interval, count: i64) -> Option<Interval> {
    let whole = |bound: i64| i128::from(bound) * i128::from(count);
    within(dtype, (whole(low).min(0), whole(high).max(0)))
}

fn hull(dtype: DType, corners: [i128; 4]) -> Option<Interval> {
    let [a, b, c, d] = corners;
    within(dtype, (a.min(b).min(c).min(d), a.max(b).max(c).max(d)))
}

#[cfg(test)]
mod tests {
    use onnx::DType::{I8, I32, I64, U8, U64};

    use super::*;

    #[test]
    fn a_result_that_leaves_the_type_may_be_anything() {
        assert_eq!(add(I8, (0, 100), (0, 27)), Some((0, 127)));
        assert_eq!(add(I8, (0, 100), (0, 28)), None);
        assert_eq!(sub(U8, (3, 9), (0, 3)), Some((0, 9)));
        assert_eq!(sub(U8, (3, 9), (0, 4)), None);
        assert_eq!(mul(I8, (-4, 11), (-3, 11)), Some((-44, 121)));
        assert_eq!(mul(I8, (-4, 12), (-3, 11)), None);
        assert_eq!(mul(I64, (i64::MIN, 0), (1, 2)), None);
        assert_eq!(add(U64, (0, i64::MAX), (0, 1)), None);
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
        assert_eq!(square(I64, (i64::MIN, 3)), None);
    }

    #[test]
    fn bits_are_moved_up_inside_the_type() {
        assert_eq!(shifted_up(U8, (1, 3), (0, 6)), Some((1, 192)));
        assert_eq!(shifted_up(U8, (1, 3), (0, 7)), None);
        assert_eq!(shifted_up(U8, (0, 0), (0, 8)), None);
        assert_eq!(bits_of_one((0, 5), (0, 8)), Some((0, 15)));
        assert_eq!(bits_of_one((0, 0), (0, 0)), Some((0, 0)));
        assert_eq!(bits_of_one((-1, 5), (0, 8)), None);
        assert_eq!(bits_of_one((0, i64::MAX), (0, 0)), Some((0, i64::MAX)));
    }
}
