//! Maximum and minimum, and their indices.

use onnx::expr::reduced_shape;
use onnx::{Attr, DType, Expr, OpType};

use super::{axes, joined_last, may_be_empty, of_flags};
use crate::ctx::{Ctx, Eqn};
use crate::element::guards_nan;
use crate::error::Result;

/// The two ends of an order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Largest,
    Smallest,
}

/// Returns the maximum over the axes, or NaN if there is one.
pub(crate) fn reduce_max<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axes = axes(eqn)?;
    let [x] = eqn.operands()?;
    Ok(extreme(x, End::Largest, &axes))
}

/// Returns the minimum over the axes, or NaN if there is one.
pub(crate) fn reduce_min<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axes = axes(eqn)?;
    let [x] = eqn.operands()?;
    Ok(extreme(x, End::Smallest, &axes))
}

/// Returns the first index of the maximum along an axis, or of the first NaN if there is one.
pub(crate) fn argmax<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    arg(eqn, End::Largest)
}

/// Returns the first index of the minimum along an axis, or of the first NaN if there is one.
pub(crate) fn argmin<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    arg(eqn, End::Smallest)
}

fn arg<'g>(eqn: &Eqn<'g, '_>, end: End) -> Result<Expr<'g>> {
    let axes: Vec<usize> = eqn.param("axes")?;
    // The type of the result contains the same information.
    eqn.ignore(&["index_dtype"]);
    let [x] = eqn.operands()?;
    let result = eqn.output()?;
    let &[axis] = &axes[..] else {
        return Err(eqn.broken("it does not have exactly one axis").into());
    };
    let comparable = if x.dtype() == DType::U64 { ordered_as_signed(x) } else { x };
    let index = index_of(comparable, end, axis, false);
    if !guards_nan(x) {
        return Ok(index.cast(result.dtype));
    }
    // ONNX Runtime does not find NaN.
    let nans = x.is_nan();
    let first_nan = index_of(nans.cast(DType::U8), End::Largest, axis, false);
    let any_nan = of_flags(nans, OpType::ReduceMax, &axes);
    Ok(any_nan.select(first_nan, index).cast(result.dtype))
}

pub(super) fn index_of(x: Expr<'_>, end: End, axis: usize, keep: bool) -> Expr<'_> {
    let op = match end {
        End::Largest => OpType::ArgMax,
        End::Smallest => OpType::ArgMin,
    };
    let attrs = vec![("axis", Attr::Int(axis as i64)), ("keepdims", Attr::Int(i64::from(keep)))];
    x.builder.node(op, &[x], attrs)
}

/// Returns the extreme over the axes; over an empty axis, the opposite end of the type.
pub(super) fn extreme<'g>(x: Expr<'g>, end: End, axes: &[usize]) -> Expr<'g> {
    if axes.is_empty() {
        return x;
    }
    let shape = x.shape();
    if axes.iter().any(|&axis| shape[axis].is(0)) {
        return of_empty(x, end).expand(&reduced_shape(&shape, axes, false));
    }
    let op = match end {
        End::Largest => OpType::ReduceMax,
        End::Smallest => OpType::ReduceMin,
    };
    match x.dtype() {
        DType::Bool => of_flags(x, op, axes),
        DType::U32 => flip_top_bit(ordered_as_signed(x).reduce(op, axes, false)).cast(DType::U32),
        DType::U64 => flip_top_bit(of_64_bits(ordered_as_signed(x), end, axes)).cast(DType::U64),
        DType::I64 => of_64_bits(x, end, axes),
        DType::I16 | DType::U16 if may_be_empty(x, axes) => {
            // For an empty axis, ONNX Runtime returns the limit of the wider type.
            let wide = x.cast(DType::I32).reduce(op, axes, false);
            let none = of_empty(x, end).cast(DType::I32);
            let wide = if end == End::Largest { wide.max(none) } else { wide.min(none) };
            wide.cast(x.dtype())
        }
        dtype if dtype.is_float() => {
            let name = if end == End::Largest { "reduce_max" } else { "reduce_min" };
            let attrs =
                vec![("axes", Attr::from(&axes.iter().map(|&a| a as i64).collect::<Vec<_>>()[..]))];
            x.builder.composite(name, [x], attrs, |[x]| {
                // ONNX Runtime may lose NaN, so the formula restores it.
                let extreme = x.reduce(op, axes, false);
                if !x.builder.exact_nan() {
                    return extreme;
                }
                let any_nan = of_flags(x.is_nan(), OpType::ReduceMax, axes);
                any_nan.select(x.constant(f64::NAN), extreme)
            })
        }
        _ => x.reduce(op, axes, false),
    }
}

/// Reduces 64-bit integers with `ArgMax` or `ArgMin`: in ONNX Runtime 1.31, `ReduceMax` and
/// `ReduceMin` compare their halves, which is wrong.
fn of_64_bits<'g>(x: Expr<'g>, end: End, axes: &[usize]) -> Expr<'g> {
    let x = joined_last(x, axes);
    let axis = x.rank() - 1;
    let index = index_of(x, end, axis, true);
    x.gather_elements(index, axis).squeeze(&[axis])
}

/// Returns the result for an empty axis: the opposite end of the type.
pub(super) fn of_empty(x: Expr<'_>, end: End) -> Expr<'_> {
    let dtype = x.dtype();
    if dtype.is_float() {
        return x.constant(if end == End::Largest { f64::NEG_INFINITY } else { f64::INFINITY });
    }
    if dtype == DType::Bool {
        return x.constant(if end == End::Largest { 0.0 } else { 1.0 });
    }
    let (least, greatest) = match (dtype.is_unsigned_int(), dtype.bits()) {
        (true, bits) => (0, (u64::MAX >> (64 - bits)).cast_signed()),
        (false, bits) => (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits)),
    };
    let value = if end == End::Largest { least } else { greatest };
    x.builder.constant_ints(dtype, &[], &[value])
}

/// Converts unsigned integers of 32 and 64 bits to signed integers in the same order, by flipping
/// the top bit.
pub(crate) fn ordered_as_signed(x: Expr<'_>) -> Expr<'_> {
    match x.dtype() {
        DType::U32 => flip_top_bit(x.cast(DType::I32)),
        DType::U64 => flip_top_bit(x.cast(DType::I64)),
        _ => x,
    }
}

fn flip_top_bit(x: Expr<'_>) -> Expr<'_> {
    let top = if x.dtype() == DType::I32 { i64::from(i32::MIN) } else { i64::MIN };
    x.bitwise_xor(x.builder.constant_ints(x.dtype(), &[], &[top]))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn a_maximum_restores_nan() {
        check(
            "x:f32[2,3] -> y:f32[2] = reduce_max{axes=[1]} x",
            expect![[r"
                graph test(in_0:f32[2,3]) -> (out_0)
                %0 = ReduceMax(in_0, [1]:i64) {keepdims=0}
                %1 = IsNaN(in_0)
                %2 = ReduceMax(%1, [1]:i64) {keepdims=0}
                out_0:f32[2] = Where(%2, nan, %0)
            "]],
        );
    }

    #[test]
    fn integers_have_no_nan() {
        check(
            "x:i32[2,3] -> y:i32[] = reduce_min{axes=[0, 1]} x",
            expect![[r"
                graph test(in_0:i32[2,3]) -> (out_0)
                out_0:i32[] = ReduceMin(in_0, [0, 1]:i64) {keepdims=0}
            "]],
        );
    }

    #[test]
    fn the_maximum_of_an_empty_axis_is_the_lowest_number() {
        check(
            "x:u8[2,0] -> y:u8[2] = reduce_max{axes=[1]} x",
            expect![[r"
                graph test(in_0:u8[2,0]) -> (out_0)
                out_0:u8[2] = Expand(0:u8, [2]:i64)
            "]],
        );
    }

    #[test]
    fn a_maximum_of_64_bit_integers_is_gathered() {
        check(
            "x:i64[2,3] -> y:i64[2] = reduce_max{axes=[1]} x",
            expect![[r"
                graph test(in_0:i64[2,3]) -> (out_0)
                %0 = ArgMax(in_0) {axis=1, keepdims=1}
                %1 = GatherElements(in_0, %0) {axis=1}
                out_0:i64[2] = Squeeze(%1, [1]:i64)
            "]],
        );
    }

    #[test]
    fn argmax_returns_the_index_of_the_first_nan() {
        check(
            "x:f32[2,3] -> y:i32[2] = argmax{axes=[1]; index_dtype=int32} x",
            expect![[r"
                graph test(in_0:f32[2,3]) -> (out_0)
                %0 = ArgMax(in_0) {axis=1, keepdims=0}
                %1 = IsNaN(in_0)
                %2 = Cast(%1) {to=2}
                %3 = ArgMax(%2) {axis=1, keepdims=0}
                %4 = ReduceMax(%1, [1]:i64) {keepdims=0}
                %5 = Where(%4, %3, %0)
                out_0:i32[2] = Cast(%5) {to=6}
            "]],
        );
    }

    #[test]
    fn an_index_among_integers_is_one_node() {
        check(
            "x:i32[2,3] -> y:i64[2] = argmin{axes=[1]; index_dtype=int64} x",
            expect![[r"
                graph test(in_0:i32[2,3]) -> (out_0)
                out_0:i64[2] = ArgMin(in_0) {axis=1, keepdims=0}
            "]],
        );
    }
}
