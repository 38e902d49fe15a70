//! `drop-identity`: drops nodes that return their operand.

use algebra::rewrite::require;
use onnx::operator::properties::{BROADCAST_OPS, RESHAPES};
use onnx::{Edit, OpType, Outcome, Patch, ValueId};

use super::Rule;

pub(crate) const RULE: Rule = Rule {
    name: "drop-identity",
    does: "drops a node that returns its operand",
    apply: drop_identity,
};

fn drop_identity(patch: &mut Patch<'_, '_>) -> Outcome {
    let (operand, mut passed) = unchanged_operand(patch, patch.root())?;
    let (operand, first) = before_renaming(patch, patch.root(), operand);
    passed.extend(first);
    patch.done(&passed, operand)
}

/// If a node undoes the reshape that computes its operand, returns the operand of that reshape, and the reshape.
fn before_renaming(edit: &Edit<'_>, index: usize, operand: ValueId) -> (ValueId, Option<usize>) {
    let renames = |index: usize| edit.node(index).op.is(RESHAPES);
    let original = || {
        let first = edit.producer(operand).filter(|&first| renames(first) && renames(index))?;
        let original = edit.input(first, 0)?;
        let is_undone = edit.ty(original)? == edit.result_ty(index)?;
        is_undone.then_some((original, Some(first)))
    };
    original().unwrap_or((operand, None))
}

/// Returns the operand that is the result if the types are equal, and the nodes that decide this.
fn unchanged_operand(edit: &Edit<'_>, index: usize) -> Option<(ValueId, Vec<usize>)> {
    let node = edit.node(index);
    if let Some(found) = beside_a_neutral_number(edit, index) {
        return Some(found);
    }
    let x = edit.input(index, 0)?;
    let operand = match node.op.onnx()? {
        OpType::Cast => x,
        op if op.is(BROADCAST_OPS) => x,
        OpType::Relu => {
            require(edit.made_by(x, OpType::Relu).is_some() || is_positive(edit, x))?;
            x
        }
        OpType::Gather => whole_axis(edit, index)?,
        OpType::Split if node.outputs.len() == 1 => x,
        // The condition has other readers, which keep its origins.
        OpType::Where if edit.input(index, 1) == edit.input(index, 2) && edit.reads(x) > 1 => {
            edit.input(index, 1)?
        }
        // The condition is a constant whose elements are equal.
        OpType::Where => edit.input(index, if edit.number(x)? == 0.0 { 2 } else { 1 })?,
        _ => return None,
    };
    Some((operand, Vec::new()))
}

/// Returns the array of a `Gather` that takes all entries along an axis, in order.
fn whole_axis(edit: &Edit<'_>, index: usize) -> Option<ValueId> {
    let array = edit.input(index, 0)?;
    let size = edit.shape(array)?.get(edit.axis(index)?)?.known()?;
    let entries = edit.tensor(edit.input(index, 1)?)?;
    let is_whole = entries.shape[..] == [size] && entries.ints()?.into_iter().eq(0..size);
    is_whole.then_some(array)
}

/// Returns `x` for `x · 1`, `x / 1`, `x − 0`, `max(x, −∞)` and `min(x, ∞)`, which do not change NaN and the sign of zero
/// either. `x + 0` is `x` unless `x` is `−0`.
fn beside_a_neutral_number(edit: &Edit<'_>, index: usize) -> Option<(ValueId, Vec<usize>)> {
    let (neutral, either_side) = match edit.op(index) {
        Some(OpType::Mul) => (1.0, true),
        Some(OpType::Div) => (1.0, false),
        Some(OpType::Sub) => (0.0, false),
        Some(OpType::Add) => (0.0, true),
        Some(OpType::Max) => (f64::NEG_INFINITY, true),
        Some(OpType::Min) => (f64::INFINITY, true),
        _ => return None,
    };
    require(edit.node(index).inputs.len() == 2)?;
    let (a, b) = edit.pair(index)?;
    let may_be_constant = |id: ValueId| match edit.producer(id) {
        Some(node) => edit.node(node).op.is(BROADCAST_OPS),
        None => edit.tensor(id).is_some(),
    };
    require(may_be_constant(a) || may_be_constant(b))?;
    let passed_to_neutral = |id: ValueId| {
        let (constant, passed) = edit.through(id, BROADCAST_OPS);
        let number = edit.number(constant)?;
        // `x − (−0)` is `0` if `x` is `−0`.
        let is_neutral =
            number == neutral && number.is_sign_negative() == neutral.is_sign_negative();
        is_neutral.then_some(passed)
    };
    let (x, passed) = match passed_to_neutral(b) {
        Some(passed) => (a, passed),
        None => (b, passed_to_neutral(a).filter(|_| either_side)?),
    };
    let is_sum = edit.node(index).op == OpType::Add && edit.dtype(x)?.is_float();
    (!is_sum || !edit.fact(x).may_be_negative_zero()).then_some((x, passed))
}

/// True if no element has its sign bit set.
fn is_positive(edit: &Edit<'_>, x: ValueId) -> bool {
    let fact = edit.fact(x);
    !fact.may_be_negative() && !fact.may_be_negative_zero()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check, each};

    #[test]
    fn the_producer_inherits_the_origin_of_a_copy() {
        check(
            each(super::RULE.apply),
            "graph g(x:f32[3]) -> (y)
%0:f32[3] = Sin(x)
%1:f32[3] = Identity(%0)
y:f32[3] = Cos(%1)",
            expect![[r#"
                graph g(x:f32[3]) -> (y)
                %0 = Sin(x)  # 2 3
                y:f32[3] = Cos(%0)  # 4
            "#]],
        );
    }

    #[test]
    fn the_readers_inherit_the_origin_of_a_copied_input() {
        check(
            each(super::RULE.apply),
            "graph g(x:f32[3]) -> (y)
%0:f32[3] = Identity(x)
%1:f32[3] = Cos(%0)
y:f32[3] = Mul(%1, %0)",
            expect![[r#"
                graph g(x:f32[3]) -> (y)
                %0 = Cos(x)  # 3 2
                y:f32[3] = Mul(%0, x)  # 4 2
            "#]],
        );
    }

    #[test]
    fn an_axis_that_is_added_and_dropped_cancels_out() {
        check(
            each(super::RULE.apply),
            "graph g(x:f32[3]) -> (y)
%0:f32[3] = Sin(x)
%1:f32[3,1] = Unsqueeze(%0, [1]:i64)
%2:f32[3] = Squeeze(%1, [1]:i64)
y:f32[3] = Cos(%2)",
            expect![[r#"
                graph g(x:f32[3]) -> (y)
                %0 = Sin(x)  # 2 3 4
                %1 = Unsqueeze(%0, [1]:i64)  # 3
                y:f32[3] = Cos(%0)  # 5
            "#]],
        );
    }

    #[test]
    fn a_choice_with_a_constant_condition_is_replaced_by_its_operand() {
        check(
            each(super::RULE.apply),
            "graph g(x:f32[3], c:bool[]) -> (y)
%0:f32[3] = Where(true, x, 1.0)
%1:f32[3] = Where(false, 1.0, %0)
%2:f32[3] = Where(c, %1, 1.0)
y:f32[3] = Where(true, 1.0, %2)",
            expect![[r#"
                graph g(x:f32[3], c:bool[]) -> (y)
                %0 = Where(c, x, 1.0)  # 4 2 3
                y:f32[3] = Where(true, 1.0, %0)  # 5
            "#]],
        );
    }

    #[test]
    fn all_entries_in_order_are_the_array() {
        check(
            each(super::RULE.apply),
            "graph g(x:f32[3,2], s:f32[B,2]) -> (y, z)
%0:f32[3,2] = Sin(x)
%1:f32[3,2] = Gather(%0, [0, 1, 2]:i64)
%2:f32[3,2] = Gather(%1, [0, 2, 1]:i64)
%3:f32[2,2] = Gather(%2, [0, 1]:i64)
y:f32[2,2] = Gather(%3, [0, 1]:i64) {axis=1}
z:f32[3,2] = Gather(s, [0, 1, 2]:i64)",
            expect![[r#"
                graph g(x:f32[3,2], s:f32[B,2]) -> (y, z)
                %0 = Sin(x)  # 2 3
                %1 = Gather(%0, [0, 2, 1]:i64)  # 4
                y:f32[2,2] = Gather(%1, [0, 1]:i64)  # 5 6
                z:f32[3,2] = Gather(s, [0, 1, 2]:i64)  # 7
            "#]],
        );
    }

    #[test]
    fn a_split_into_one_part_and_a_choice_between_equal_operands_are_dropped() {
        check(
            each(super::RULE.apply),
            "graph g(x:f32[3], c:bool[3], d:bool[2,3]) -> (y, z)
%0:f32[3] = Sin(x)
%1:f32[3] = Split(%0, [3]:i64) {axis=0}
%2:f32[3] = Where(c, %1, %1)
%5:f32[3] = Where(c, %2, x)
%6:f32[2,3] = Where(d, %5, %5)
y:f32[2,3] = Where(d, %6, x)
%3:f32[2], %4:f32[1] = Split(%2, [2, 1]:i64) {axis=0}
z:f32[3] = Concat(%4, %3) {axis=0}",
            expect![[r#"
                graph g(x:f32[3], c:bool[3], d:bool[2,3]) -> (y, z)
                %0 = Sin(x)  # 2 3 4
                %1 = Where(c, %0, x)  # 5
                %2 = Where(d, %1, %1)  # 6
                y:f32[2,3] = Where(d, %2, x)  # 7
                %3, %4 = Split(%0, [2, 1]:i64) {axis=0}  # 8
                z:f32[3] = Concat(%4, %3) {axis=0}  # 9
            "#]],
        );
    }

    #[test]
    fn an_output_keeps_its_name() {
        check(
            each(super::RULE.apply),
            "graph g(x:f32[3]) -> (y)
%0:f32[3] = Sin(x)
y:f32[3] = Identity(%0)",
            expect![[r#"
                graph g(x:f32[3]) -> (y)
                y:f32[3] = Sin(x)  # 2 3
            "#]],
        );
    }

    #[test]
    fn an_input_that_is_an_output_stays_copied() {
        check(
            each(super::RULE.apply),
            "graph g(x:f32[3]) -> (y)
y:f32[3] = Identity(x)",
            expect![[r#"
                graph g(x:f32[3]) -> (y)
                y:f32[3] = Identity(x)  # 2
            "#]],
        );
    }

    #[test]
    fn a_cast_to_another_type_and_a_reshape_to_another_shape_are_kept() {
        check(
            each(super::RULE.apply),
            "graph g(x:f32[4]) -> (y)
%0:f32[2,2] = Reshape(x, [2, 2]:i64)
y:f16[2,2] = Cast(%0) {to=10}",
            expect![[r#"
                graph g(x:f32[4]) -> (y)
                %0 = Reshape(x, [2, 2]:i64)  # 2
                y:f16[2,2] = Cast(%0) {to=10}  # 3
            "#]],
        );
    }
}
