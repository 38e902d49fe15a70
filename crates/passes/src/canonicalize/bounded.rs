//! `drop-bounds`: drops clamps that change no number, and comparisons of integers whose result is known.

use algebra::rewrite::require;
use onnx::facts::floats::Floats;
use onnx::operator::properties::BROADCAST_OPS;
use onnx::{Edit, OpType, ValueId};

use super::Rule;
use super::broadcasts::without_leading_axes;

pub(crate) const RULE: Rule = Rule {
    name: "drop-bounds",
    does: "drops clamps of numbers that are always within bounds",
    apply: |patch| {
        let (operand, deciding) = decided(patch, patch.root())?;
        patch.done(&deciding, operand)
    },
};

/// Returns the operand that is always the result, and the nodes that decide this.
fn decided(edit: &Edit<'_>, index: usize) -> Option<(ValueId, Vec<usize>)> {
    let node = edit.node(index);
    let operand = |number: usize| edit.input(index, number);
    let is_int = |value: ValueId| edit.ty(value).is_some_and(|ty| ty.dtype.is_int());
    match node.op.onnx() {
        Some(OpType::Clip) if node.inputs.len() == 3 && is_int(operand(0)?) => {
            let x = edit.fact(operand(0)?).ints()?;
            let (low, high) = (edit.fact(operand(1)?).ints()?, edit.fact(operand(2)?).ints()?);
            (low.1 <= x.0 && x.1 <= high.0).then_some((operand(0)?, Vec::new()))
        }
        Some(OpType::Clip) if is_clamped(edit, index)? => Some((operand(0)?, Vec::new())),
        Some(OpType::Relu) if is_int(operand(0)?) => {
            (edit.fact(operand(0)?).ints()?.0 >= 0).then_some((operand(0)?, Vec::new()))
        }
        Some(OpType::Where) => {
            let mut deciding = Vec::new();
            let holds = condition(edit, operand(0)?, &mut deciding)?;
            Some((operand(if holds { 1 } else { 2 })?, deciding))
        }
        _ => None,
    }
}

/// True if every float is within the limits of a clamp, or NaN, which it keeps.
fn is_clamped(edit: &Edit<'_>, index: usize) -> Option<bool> {
    let x = edit.input(index, 0)?;
    require(edit.dtype(x)?.is_float() && edit.node(index).inputs.len() > 1)?;
    let numbers = edit.fact(x).floats();
    let limit = |operand: usize| Some(edit.fact(edit.input(index, operand)?).floats());
    // A clamp at zero may change the sign of a zero.
    let is_below = |limit: Floats| limit.high <= numbers.low && limit.high != 0.0 && !limit.nan;
    let is_above = |limit: Floats| numbers.high <= limit.low && limit.low != 0.0 && !limit.nan;
    Some(limit(1).is_none_or(is_below) && limit(2).is_none_or(is_above))
}

/// Returns the result of a comparison of integers, if it is the same for all elements.
fn condition(edit: &Edit<'_>, value: ValueId, deciding: &mut Vec<usize>) -> Option<bool> {
    let (value, passed) = edit.through(value, BROADCAST_OPS);
    let index = edit.producer(value)?;
    let node = edit.node(index);
    deciding.extend(passed);
    deciding.push(index);
    let (a, b) = edit.pair(index)?;
    require(edit.dtype(a)?.is_int())?;
    let ((same_a, passed_a), (same_b, passed_b)) =
        (without_leading_axes(edit, a), without_leading_axes(edit, b));
    if same_a == same_b {
        deciding.extend(passed_a.into_iter().chain(passed_b));
        return match node.op.onnx() {
            Some(OpType::Equal | OpType::GreaterOrEqual | OpType::LessOrEqual) => Some(true),
            Some(OpType::Greater | OpType::Less) => Some(false),
            _ => None,
        };
    }
    let (a, b) = (edit.fact(a).ints()?, edit.fact(b).ints()?);
    let (always, never) = match node.op.onnx() {
        Some(OpType::Greater) => (a.0 > b.1, a.1 <= b.0),
        Some(OpType::GreaterOrEqual) => (a.0 >= b.1, a.1 < b.0),
        Some(OpType::Less) => (a.1 < b.0, a.0 >= b.1),
        Some(OpType::LessOrEqual) => (a.1 <= b.0, a.0 > b.1),
        Some(OpType::Equal) => (a.0 == a.1 && a == b, a.1 < b.0 || b.1 < a.0),
        _ => return None,
    };
    (always || never).then_some(always)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check_lean, each};

    fn looked_up(rows: usize) -> String {
        format!(
            "graph g(x:f32[3,5], t:f32[{rows},2]) -> (y)
%0:i64[3] = ArgMax(x) {{axis=1, keepdims=0}}
%1:i32[3] = Cast(%0) {{to=6}}
%2:bool[3] = Greater(0:i32, %1)
%3:i32[3] = Add(%1, {rows}:i32)
%4:i32[3] = Where(%2, %3, %1)
%5:i32[3] = Clip(%4, 0:i32, {}:i32)
%6:f32[3,2] = Gather(t, %5) {{axis=0}}
%7:bool[3] = Equal(%5, %4)
%8:bool[3,1] = Unsqueeze(%7, [1]:i64)
y:f32[3,2] = Where(%8, %6, nan)",
            rows - 1
        )
    }

    #[test]
    fn a_second_clamp_of_floats_is_dropped_unless_it_is_tighter() {
        check_lean(
            each(super::RULE.apply),
            "graph g(x:f32[3]) -> (a, b, c, d)
%0:f32[3] = Clip(x, -128.0, 127.0)
%1:bool[3] = IsNaN(%0)
%2:f32[3] = Where(%1, 0.0, %0)
%3:f32[3] = Clip(%2, -128.0, 127.0)
a:i32[3] = Cast(%3) {to=6}
%4:f32[3] = Clip(%0, -127.0, 127.0)
b:f32[3] = Neg(%4)
%5:f32[3] = Clip(x, 0.0, 1.0)
%6:f32[3] = Clip(%5, 0.0, 1.0)
c:f32[3] = Neg(%6)
%7:f32[3] = Clip(%0, nan, 200.0)
d:f32[3] = Neg(%7)",
            expect![[r#"
                graph g(x:f32[3]) -> (a, b, c, d)
                %0 = Clip(x, -128.0, 127.0)  # 2
                %1 = IsNaN(%0)  # 3
                %2 = Where(%1, 0.0, %0)  # 4 5
                a:i32[3] = Cast(%2) {to=6}  # 6
                %3 = Clip(%0, -127.0, 127.0)  # 7
                b:f32[3] = Neg(%3)  # 8
                %4 = Clip(x, 0.0, 1.0)  # 9
                %5 = Clip(%4, 0.0, 1.0)  # 10
                c:f32[3] = Neg(%5)  # 11
                %6 = Clip(%0, nan, 200.0)  # 12
                d:f32[3] = Neg(%6)  # 13
            "#]],
        );
    }

    #[test]
    fn the_index_of_the_maximum_is_within_bounds() {
        check_lean(
            each(super::RULE.apply),
            &looked_up(5),
            expect![[r#"
            graph g(x:f32[3,5], t:f32[5,2]) -> (y)
            %0 = ArgMax(x) {axis=1, keepdims=0}  # 2
            %1 = Cast(%0) {to=6}  # 3 4 6 7
            y:f32[3,2] = Gather(t, %1) {axis=0}  # 8 9 10 11
        "#]],
        );
    }

    #[test]
    fn a_number_that_is_expanded_by_a_leading_axis_equals_itself() {
        check_lean(
            each(super::RULE.apply),
            "graph g(i:i32[3], t:f32[1,3]) -> (y)
%0:i32[1,3] = Expand(i, [1, 3]:i64)
%1:bool[1,3] = Equal(i, %0)
%2:f32[1,3] = Where(%1, t, nan)
y:f32[1,3] = Neg(%2)",
            expect![[r#"
            graph g(i:i32[3], t:f32[1,3]) -> (y)
            y:f32[1,3] = Neg(t)  # 5 2 3 4
        "#]],
        );
    }

    #[test]
    fn an_index_beyond_the_rows_keeps_its_clamp() {
        check_lean(
            each(super::RULE.apply),
            &looked_up(4),
            expect![[r#"
            graph g(x:f32[3,5], t:f32[4,2]) -> (y)
            %0 = ArgMax(x) {axis=1, keepdims=0}  # 2
            %1 = Cast(%0) {to=6}  # 3 4 6
            %2 = Clip(%1, 0:i32, 3:i32)  # 7
            %3 = Gather(t, %2) {axis=0}  # 8
            %4 = Equal(%2, %1)  # 9
            %5 = Unsqueeze(%4, [1]:i64)  # 10
            y:f32[3,2] = Where(%5, %3, nan)  # 11
        "#]],
        );
    }

    #[test]
    fn an_unsigned_integer_is_never_negative() {
        check_lean(
            each(super::RULE.apply),
            "graph g(n:u8[3], m:i8[3]) -> (y, z)
%0:i32[3] = Cast(n) {to=6}
y:i32[3] = Relu(%0)
%1:i32[3] = Cast(m) {to=6}
z:i32[3] = Relu(%1)",
            expect![[r#"
                graph g(n:u8[3], m:i8[3]) -> (y, z)
                y:i32[3] = Cast(n) {to=6}  # 2 3
                %0 = Cast(m) {to=6}  # 4
                z:i32[3] = Relu(%0)  # 5
            "#]],
        );
    }

    #[test]
    fn a_number_is_itself_behind_a_leading_axis_too() {
        check_lean(
            each(super::RULE.apply),
            "graph g(i:i32[3], x:f32[1,3]) -> (y)
%0:i32[1,3] = Unsqueeze(i, [0]:i64)
%1:bool[1,3] = Equal(i, %0)
%2:f32[1,3] = Where(%1, x, 0.0)
y:f32[1,3] = Tanh(%2)",
            expect![[r#"
                graph g(i:i32[3], x:f32[1,3]) -> (y)
                y:f32[1,3] = Tanh(x)  # 5 2 3 4
            "#]],
        );
    }
}
