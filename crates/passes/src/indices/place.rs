//! Simplifies the order of zeros in `argmax`, and fuses one-hot encodings.

use onnx::facts::floats::NegativeZero;
use onnx::operator::properties::RESHAPES;
use onnx::{DType, Dim, Edit, Op, OpType, Tensor, ValueId};

use crate::algebra::pattern::{Pattern, either_order, hole, node, number, one_of, reciprocal};
use crate::rewrite::{Declined, Formulas, Found, Rewrite};

pub(crate) static REWRITES: Formulas = Formulas::new(&[&[
    Rewrite { name: "drop-zero-order", pattern: zeros_apart, replacement: to_zeros_alike },
    Rewrite { name: "fuse-one-hot", pattern: one_hot, replacement: to_one_hot },
]]);

/// `1/x = −∞ ? −ε : x`, which puts `−0` below `0`
fn zeros_apart() -> Pattern {
    let x = hole("x");
    let is_negative_zero = node(OpType::Equal, &[&reciprocal(&x), &number("infinite")]);
    node(OpType::Where, &[&is_negative_zero, &number("near zero"), &x])
}

fn to_zeros_alike(found: &mut Found<'_, '_, '_>) -> Result<Op, Declined> {
    let x = found.value("x")?;
    let least = found.number("near zero")?;
    if found.number("infinite")? != f64::NEG_INFINITY || !(-1e-250..0.0).contains(&least) {
        return Err("the constants do not distinguish zeros by their sign".into());
    }
    // Numbers that are too small for their type may become either zero.
    if found.edit.fact(x).floats().negative_zero == NegativeZero::Possible {
        return Err("zeros of both signs may occur".into());
    }
    Ok(Op::new(OpType::Identity, &[x]))
}

/// `i = (0, 1, …, n − 1)` as numbers
fn one_hot() -> Pattern {
    let column = one_of(RESHAPES, &hole("i"));
    let is_there = either_order(OpType::Equal, &column.named("column"), &hole("places"));
    node(OpType::Cast, &[&is_there.named("is there")])
}

/// How many elements are written faster by `OneHot` than by its parts.
const MOST_ELEMENTS: i64 = 1024;

/// `OneHot` counts what is below zero from the end, so nothing may be.
fn to_one_hot(found: &mut Found<'_, '_, '_>) -> Result<Op, Declined> {
    let mut i = found.value("i")?;
    let (ty, result) = (found.ty(i)?, found.ty(found.result())?);
    if !ty.dtype.is_int() || result.dtype != DType::F32 {
        return Err("ONNX Runtime has no OneHot for these types".into());
    }
    let places =
        found.edit.tensor(found.value("places")?).ok_or("the positions are not constant")?;
    let count = places.shape.last().copied().unwrap_or_default();
    let in_order = places.ints().is_some_and(|places| places.into_iter().eq(0..count));
    let is = |shape: &[Dim], last: i64| {
        let (head, tail) = shape.split_at(shape.len().min(ty.rank()));
        head == &ty.shape[..] && matches!(tail, [dim] if dim.is(last))
    };
    let column = found.ty(found.value("column")?)?;
    if !in_order || !is(&column.shape, 1) || !is(&result.shape, count) {
        return Err("the positions do not count up along the last axis".into());
    }
    let elements: Option<i64> = result.shape.iter().map(Dim::known).product();
    if elements.is_none_or(|elements| elements > MOST_ELEMENTS) {
        return Err("at this size, OneHot is slower in ONNX Runtime".into());
    }
    if found.edit.fact(i).ints().is_none_or(|(low, _)| low < 0) {
        return Err("an index may be negative".into());
    }
    if let Some((cast, wide)) = uncast(found.edit, i) {
        found.take_up(&[cast]);
        i = wide;
    } else if ty.dtype != DType::I64 {
        return Err("ONNX Runtime has no OneHot for these types".into());
    }
    let depth = Tensor::of_ints(DType::I64, Vec::new(), &[count]).ok_or("no depth")?;
    let values = Tensor::of_floats(DType::F32, vec![2], &[0.0, 1.0]).ok_or("no values")?;
    let (depth, values) = (found.constant(depth), found.constant(values));
    Ok(Op::new(OpType::OneHot, &[i, depth, values]))
}

/// The cast that makes a value of 64-bit integers and changes none of them, and those.
fn uncast(edit: &Edit<'_>, value: ValueId) -> Option<(usize, ValueId)> {
    let cast = edit.producer(value)?;
    let node = edit.node(cast);
    let source = edit.input(cast, 0).filter(|_| node.op == OpType::Cast)?;
    let is_whole = edit.ty(source)?.dtype == DType::I64;
    let same = edit.fact(source).ints()? == edit.fact(value).ints()?;
    (is_whole && same).then_some((cast, source))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::{check, formulas};

    #[test]
    fn the_signs_of_zeros_from_a_product_do_not_matter() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[4,3], w:f32[3,5]) -> (y)
%0:f32[4,5] = MatMul(x, w)
%1:f64[4,5] = Cast(%0) {to=11}
%2:f64[4,5] = Reciprocal(%1)
%3:bool[4,5] = Equal(%2, -inf:f64)
y:f64[4,5] = Where(%3, -1e-300:f64, %1)",
            expect![[r#"
                graph g(x:f32[4,3], w:f32[3,5]) -> (y)
                %0 = MatMul(x, w)  # 2
                %1 = Cast(%0) {to=11}  # 3
                y:f64[4,5] = Identity(%1)  # 6 4 5
            "#]],
        );
    }

    #[test]
    fn zeros_of_an_input_are_not() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[4]) -> (y)
%0:f64[4] = Cast(x) {to=11}
%1:f64[4] = Reciprocal(%0)
%2:bool[4] = Equal(%1, -inf:f64)
y:f64[4] = Where(%2, -1e-300:f64, %0)",
            expect![[r#"
                graph g(x:f32[4]) -> (y)
                %0 = Cast(x) {to=11}  # 2
                %1 = Reciprocal(%0)  # 3
                %2 = Equal(%1, -inf:f64)  # 4
                y:f64[4] = Where(%2, -1e-300:f64, %0)  # 5
            "#]],
        );
    }

    #[test]
    fn a_code_of_a_place_is_one_operator() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[2,3]) -> (y)
%0:i64[2] = ArgMax(x) {axis=1, keepdims=0}
%1:i32[2] = Cast(%0) {to=6}
%2:i32[2,1] = Unsqueeze(%1, [1]:i64)
%3:bool[2,3] = Equal(%2, [0, 1, 2]:i32)
y:f32[2,3] = Cast(%3) {to=1}",
            expect![[r#"
                graph g(x:f32[2,3]) -> (y)
                %0 = ArgMax(x) {axis=1, keepdims=0}  # 2
                y:f32[2,3] = OneHot(%0, 3:i64, [0.0, 1.0])  # 6 3 4 5
            "#]],
        );
    }

    #[test]
    fn a_code_of_other_places_is_not() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[2,3]) -> (y)
%0:i64[2] = ArgMax(x) {axis=1, keepdims=0}
%1:i64[2,1] = Unsqueeze(%0, [1]:i64)
%2:bool[2,3] = Equal(%1, [0, 2, 1]:i64)
y:f32[2,3] = Cast(%2) {to=1}",
            expect![[r#"
                graph g(x:f32[2,3]) -> (y)
                %0 = ArgMax(x) {axis=1, keepdims=0}  # 2
                %1 = Unsqueeze(%0, [1]:i64)  # 3
                %2 = Equal(%1, [0, 2, 1]:i64)  # 4
                y:f32[2,3] = Cast(%2) {to=1}  # 5
            "#]],
        );
    }
}
