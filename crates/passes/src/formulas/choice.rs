//! Fuses the choice by the first true condition, as in `jnp.select`.
//!
//! JAX computes the index of the first true condition, and compares the index with the number of each case. A chain of
//! `Where` with the conditions needs no index.

use algebra::pattern::{Pattern, hole, node, number, repeated};
use algebra::rewrite::{Formulas, Match, Result, ensure, require, rewrite};
use onnx::operator::properties::{CASTS, EXPANDS, Properties};
use onnx::{Attr, DType, Edit, Op, OpType, ValueId};

use crate::canonicalize::{broadcast_shape, number_behind};

/// Every type of at least 8 bits can represent this number.
const MAX_CONDITIONS: usize = 127;

pub(crate) static REWRITES: Formulas =
    Formulas::new(&[&[rewrite("fuse-choices", last_choice, to_choices)]]);

fn place() -> Pattern {
    repeated(&node(OpType::ArgMax, &[&hole("conditions")])).named("place")
}

/// `place = n ? x : others`
fn last_choice() -> Pattern {
    let is_last = node(OpType::Equal, &[&place(), &number("last")]);
    node(OpType::Where, &[&is_last, &hole("x"), &hole("others")])
}

fn to_choices(found: &mut Match<'_, '_, '_>) -> Result<Op> {
    let mut passed = Vec::new();
    let place = found.value("place")?;
    let conditions = conditions(found.edit, place, &mut passed);
    let conditions = conditions.ok_or("the number is not the index of the first true condition")?;
    ensure(found.number("last")? == conditions.len() as f64, "it is not the last case")?;
    let mut cases = vec![found.value("x")?];
    let mut chosen = found.value("others")?;
    for number in (1..conditions.len()).rev() {
        let choice = choice(found.edit, chosen, place, number, &mut passed);
        let (case, others) = choice.ok_or("a case is missing")?;
        cases.push(case);
        chosen = others;
    }

    let whole = found.ty(found.result())?.shape;
    let values = [&conditions[..], &cases, &[chosen]].concat();
    let shape = broadcast_shape(found.edit, &values).ok_or("the shapes of the cases differ")?;
    ensure(shape[..] == whole[..], "the number has more axes than the cases")?;
    found.take(&passed);
    let mut choices = conditions.into_iter().rev().zip(cases);
    let first = choices.next_back().ok_or("no condition was found")?;
    for (condition, case) in choices {
        chosen = found.insert(Op::new(OpType::Where, &[condition, case, chosen]));
    }
    Ok(Op::new(OpType::Where, &[first.0, first.1, chosen]))
}

/// Returns the conditions. `place` is the number of the first true condition, counted from 1, or 0 if none is true.
fn conditions(edit: &Edit<'_>, place: ValueId, passed: &mut Vec<usize>) -> Option<Vec<ValueId>> {
    let counted = behind(edit, place, CASTS | EXPANDS, passed);
    let first = edit.made_by(counted, OpType::ArgMax)?;
    let axis = edit.axis(first)?;
    let is_first =
        edit.node(first).attr("select_last_index").is_none_or(|last| *last == Attr::Int(0));
    require(is_first && !edit.node(first).keeps_axes())?;
    passed.push(first);
    let stacked = behind(edit, edit.input(first, 0)?, CASTS, passed);
    let stack = edit.made_by(stacked, OpType::Concat)?;
    require(edit.dtype(stacked)? == DType::Bool && edit.axis(stack)? == axis)?;
    passed.push(stack);
    let none = edit.input(stack, 0)?;
    require(number_behind(edit, none, passed)? == 0.0 && edit.shape(none)?.get(axis)?.is(1))?;
    let parts = 1..edit.node(stack).inputs.len();
    require(parts.len() <= MAX_CONDITIONS)?;
    let condition = |part| {
        let index = edit.made_by(edit.input(stack, part)?, OpType::Unsqueeze)?;
        passed.push(index);
        edit.input(index, 0).filter(|_| edit.axes(index).is_some_and(|axes| axes == [axis]))
    };
    parts.map(condition).collect()
}

/// Returns the operands of the `Where` that compares `place` with a number.
fn choice(
    edit: &Edit<'_>,
    value: ValueId,
    place: ValueId,
    number: usize,
    passed: &mut Vec<usize>,
) -> Option<(ValueId, ValueId)> {
    let index = edit.made_by(value, OpType::Where)?;
    let comparison = edit.made_by(edit.input(index, 0)?, OpType::Equal)?;
    let compared = edit.number(edit.input(comparison, 1)?)?;
    let is_next = edit.input(comparison, 0)? == place && compared == number as f64;
    passed.extend([index, comparison]);
    if is_next { Some((edit.input(index, 1)?, edit.input(index, 2)?)) } else { None }
}

/// Returns the value before nodes with these operators that keep the numbers of conditions.
fn behind(edit: &Edit<'_>, value: ValueId, ops: Properties, passed: &mut Vec<usize>) -> ValueId {
    let counts = |index: usize| {
        let ty = edit.result_ty(index);
        ty.is_some_and(|ty| match ty.dtype.is_float() {
            true => ty.dtype.bits() > 8,
            false => ty.dtype.bits() >= 8 && ty.dtype != DType::Bool,
        })
    };
    let nodes = edit.walk(value, ops).take_while(|&(index, _)| counts(index));
    nodes.fold(value, |_, (index, source)| {
        passed.push(index);
        source
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check_lean, formulas};

    fn select(none: &str, numbers: [u8; 2]) -> String {
        let [first, second] = numbers;
        format!(
            "graph g(c:bool[3], d:bool[3], x:f32[2,3], y:f32[3], z:f32[]) -> (r)
%0:bool[1,3] = Unsqueeze(c, [0]:i64)
%1:bool[1,3] = Unsqueeze(d, [0]:i64)
%2:bool[3,3] = Concat({none}, %0, %1) {{axis=0}}
%3:u8[3,3] = Cast(%2) {{to=2}}
%4:i64[3] = ArgMax(%3) {{axis=0, keepdims=0}}
%5:i32[3] = Cast(%4) {{to=6}}
%6:i32[2,3] = Expand(%5, [2, 3]:i64)
%7:bool[2,3] = Equal(%6, {first}:i32)
%8:f32[2,3] = Where(%7, x, z)
%9:bool[2,3] = Equal(%6, {second}:i32)
r:f32[2,3] = Where(%9, y, %8)"
        )
    }

    #[test]
    fn a_choice_by_the_first_true_condition_is_a_chain_of_where() {
        check_lean(
            formulas(&super::REWRITES),
            &select("[[false, false, false]]", [1, 2]),
            expect![[r#"
            graph g(c:bool[3], d:bool[3], x:f32[2,3], y:f32[3], z:f32[]) -> (r)
            %0 = Where(d, y, z)  # 12 2 3 4 5 6 7 8 9 10 11
            r:f32[2,3] = Where(c, x, %0)  # 12 2 3 4 5 6 7 8 9 10 11
        "#]],
        );
    }

    #[test]
    fn another_order_or_an_additional_condition_is_not_fused() {
        check_lean(
            formulas(&super::REWRITES),
            &select("[[false, false, false]]", [2, 1]),
            expect![[r#"
            graph g(c:bool[3], d:bool[3], x:f32[2,3], y:f32[3], z:f32[]) -> (r)
            %0 = Unsqueeze(c, [0]:i64)  # 2
            %1 = Unsqueeze(d, [0]:i64)  # 3
            %2 = Concat([[false, false, false]], %0, %1) {axis=0}  # 4
            %3 = Cast(%2) {to=2}  # 5
            %4 = ArgMax(%3) {axis=0, keepdims=0}  # 6
            %5 = Cast(%4) {to=6}  # 7
            %6 = Expand(%5, [2, 3]:i64)  # 8
            %7 = Equal(%6, 2:i32)  # 9
            %8 = Where(%7, x, z)  # 10
            %9 = Equal(%6, 1:i32)  # 11
            r:f32[2,3] = Where(%9, y, %8)  # 12
        "#]],
        );
        check_lean(
            formulas(&super::REWRITES),
            &select("[[false, true, false]]", [1, 2]),
            expect![[r#"
            graph g(c:bool[3], d:bool[3], x:f32[2,3], y:f32[3], z:f32[]) -> (r)
            %0 = Unsqueeze(c, [0]:i64)  # 2
            %1 = Unsqueeze(d, [0]:i64)  # 3
            %2 = Concat([[false, true, false]], %0, %1) {axis=0}  # 4
            %3 = Cast(%2) {to=2}  # 5
            %4 = ArgMax(%3) {axis=0, keepdims=0}  # 6
            %5 = Cast(%4) {to=6}  # 7
            %6 = Expand(%5, [2, 3]:i64)  # 8
            %7 = Equal(%6, 1:i32)  # 9
            %8 = Where(%7, x, z)  # 10
            %9 = Equal(%6, 2:i32)  # 11
            r:f32[2,3] = Where(%9, y, %8)  # 12
        "#]],
        );
    }

    #[test]
    fn a_comparison_with_a_number_of_no_condition_is_kept() {
        check_lean(
            formulas(&super::REWRITES),
            "graph g(c:bool[3]) -> (r)
%0:bool[1,3] = Unsqueeze(c, [0]:i64)
%1:bool[2,3] = Concat([[false, false, false]], %0) {axis=0}
%2:u8[2,3] = Cast(%1) {to=2}
%3:i64[3] = ArgMax(%2) {axis=0, keepdims=0}
r:bool[3] = Equal(%3, 2:i64)",
            expect![[r#"
                graph g(c:bool[3]) -> (r)
                %0 = Unsqueeze(c, [0]:i64)  # 2
                %1 = Concat([[false, false, false]], %0) {axis=0}  # 3
                %2 = Cast(%1) {to=2}  # 4
                %3 = ArgMax(%2) {axis=0, keepdims=0}  # 5
                r:bool[3] = Equal(%3, 2:i64)  # 6
            "#]],
        );
    }
}
