//! `simplify-booleans`: simplifies booleans that are compared with constants, negated twice, or cast to numbers
//! and back.

use algebra::eval::eval;
use algebra::rewrite::require;
use onnx::expr::broadcast_shapes;
use onnx::operator::properties::{BROADCAST_OPS, CASTS};
use onnx::{Attr, DType, Edit, Op, OpType, Outcome, Patch, Tensor, ValueId};

use super::broadcasts::{broadcast_shape, expand_sizes};
use super::{Change, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "simplify-booleans",
    does: "drops comparisons, negations and casts of booleans that cancel out",
    apply: |patch| match simplified(patch, patch.root()) {
        Some((by, passed)) => patch.done(&passed, by),
        None => chosen_flag(patch),
    },
};

fn simplified(edit: &Edit<'_>, index: usize) -> Option<Change> {
    let operand = |number: usize| edit.input(index, number);
    match edit.op(index) {
        Some(OpType::Not) => {
            let inner = edit.made_by(operand(0)?, OpType::Not)?;
            Some((edit.input(inner, 0)?.into(), vec![inner]))
        }
        Some(OpType::Equal) => {
            let beside = beside_a_flag(edit, index)?;
            if beside.is_set {
                return beside.left_alone(edit, index);
            }
            let is_whole = edit.ty(beside.flag) == edit.result_ty(index);
            is_whole.then(|| (Op::new(OpType::Not, &[beside.flag]).into(), beside.passed))
        }
        Some(OpType::And) => {
            if let Some(beside) = beside_a_flag(edit, index) {
                return beside.is_set.then(|| beside.left_alone(edit, index))?;
            }
            let (a, b) = (operand(0)?, operand(1)?);
            beside_less(edit, a, b).or_else(|| beside_less(edit, b, a))
        }
        Some(OpType::Or | OpType::Xor) => {
            let beside = beside_a_flag(edit, index)?;
            (!beside.is_set).then(|| beside.left_alone(edit, index))?
        }
        Some(OpType::Where) => {
            let (flag, x, y) = (operand(0)?, operand(1)?, operand(2)?);
            if let Some(inner) = edit.made_by(flag, OpType::Not) {
                let op = Op::new(OpType::Where, &[edit.input(inner, 0)?, y, x]);
                return Some((op.into(), vec![inner]));
            }
            let (flag, passed) = without_all_set(edit, flag)?;
            let result = edit.result_ty(index)?;
            let is_whole = broadcast_shape(edit, &[flag, x, y])?[..] == result.shape[..];
            is_whole.then(|| (Op::new(OpType::Where, &[flag, x, y]).into(), passed))
        }
        _ => None,
    }
}

/// Returns the operand of an `And` whose other operand is true, and only broadcasts it.
fn without_all_set(edit: &Edit<'_>, flag: ValueId) -> Option<(ValueId, Vec<usize>)> {
    let node = edit.made_by(flag, OpType::And)?;
    let beside = beside_a_flag(edit, node).filter(|beside| beside.is_set)?;
    Some((beside.flag, [&[node][..], &beside.passed].concat()))
}

/// `r < c ∧ r ≠ c` is `r < c`, also for NaN. Remainders compute both.
fn beside_less(edit: &Edit<'_>, less: ValueId, different: ValueId) -> Option<Change> {
    let comparison = edit.producer(less)?;
    let negated = edit.made_by(different, OpType::Not)?;
    let equality = edit.made_by(edit.input(negated, 0)?, OpType::Equal)?;
    let is_strict = edit.node(comparison).op.is_one_of(&[OpType::Less, OpType::Greater]);
    let same = |a: ValueId, b: ValueId| {
        let element = |value: ValueId| edit.tensor(value).and_then(Tensor::uniform);
        a == b || (element(a).is_some() && element(a) == element(b))
    };
    let ((a, b), (c, d)) = (edit.pair(comparison)?, edit.pair(equality)?);
    let are_same = (same(a, c) && same(b, d)) || (same(a, d) && same(b, c));
    (is_strict && are_same).then(|| (less.into(), vec![negated, equality]))
}

/// An operand of an operator on booleans whose other operand is a constant boolean, possibly broadcast.
struct Beside {
    flag: ValueId,
    is_set: bool,
    /// The `Expand` that broadcasts the constant last.
    expand: Option<usize>,
    /// The nodes that broadcast the constant.
    passed: Vec<usize>,
}

impl Beside {
    /// Returns the operand, broadcast like the constant.
    fn left_alone(self, edit: &Edit<'_>, index: usize) -> Option<Change> {
        if edit.ty(self.flag) == edit.result_ty(index) {
            return Some((self.flag.into(), self.passed));
        }
        let expand = self.expand?;
        let sizes = edit.input(expand, 1)?;
        let expanded = broadcast_shapes(edit.shape(self.flag)?, &expand_sizes(edit, expand)?)?;
        require(expanded[..] == edit.result_ty(index)?.shape[..])?;
        Some((Op::new(OpType::Expand, &[self.flag, sizes]).into(), self.passed))
    }
}

fn beside_a_flag(edit: &Edit<'_>, index: usize) -> Option<Beside> {
    let (a, b) = edit.pair(index)?;
    require(edit.dtype(a)? == DType::Bool)?;
    let beside = |flag: ValueId, constant: ValueId| {
        let mut passed = Vec::new();
        let is_set = number_behind(edit, constant, &mut passed)? != 0.0;
        let expand = edit.made_by(constant, OpType::Expand);
        Some(Beside { flag, is_set, expand, passed })
    };
    beside(a, b).or_else(|| beside(b, a))
}

/// Returns the `Cast` that computes a value, and its operand, if that is a boolean.
fn flag_behind(edit: &Edit<'_>, value: ValueId) -> Option<(usize, ValueId)> {
    let cast = edit.made_by(value, OpType::Cast)?;
    let flag = edit.input(cast, 0)?;
    (edit.dtype(flag)? == DType::Bool).then_some((cast, flag))
}

/// Rewrites choices that are cast to booleans: `c ? a : 0` to `c ∧ a`, `c ? 1 : a` to `c ∨ a`, `c ? 0 : a` to `¬c ∧ a`, and
/// `c ? a : 1` to `¬c ∨ a`.
fn chosen_flag(patch: &mut Patch<'_, '_>) -> Outcome {
    let index = patch.root();
    let node = patch.node(index);
    let is_flag = node.attr("to") == Some(&Attr::Int(DType::Bool.code().into()));
    require(node.op == OpType::Cast && is_flag)?;
    let choice = patch.made_by(patch.input(index, 0)?, OpType::Where)?;
    let [condition, x, y] = [0, 1, 2].map(|operand| patch.input(choice, operand));
    let (condition, x, y) = (condition?, x?, y?);
    let number = |value: ValueId| {
        let mut passed = vec![choice];
        Some((number_behind(patch, value, &mut passed)? != 0.0, passed))
    };
    let (other, is_set, mut passed, is_negated) = match (number(x), number(y)) {
        (None, Some((is_set, passed))) => (x, is_set, passed, is_set),
        (Some((is_set, passed)), None) => (y, is_set, passed, !is_set),
        _ => return None,
    };
    let (cast, flag) = flag_behind(patch, other)?;
    let is_whole = |flag: ValueId| patch.ty(flag) == patch.result_ty(index);
    require(is_whole(flag) || is_whole(condition))?;
    passed.push(cast);
    let condition = match is_negated {
        true => patch.insert_for(&[choice], Op::new(OpType::Not, &[condition])),
        false => condition,
    };
    let op = if is_set { OpType::Or } else { OpType::And };
    patch.done(&passed, Op::new(op, &[condition, flag]))
}

/// Returns the number that all elements of a value are equal to, if it is a constant that was cast or broadcast.
pub(crate) fn number_behind(
    edit: &Edit<'_>,
    value: ValueId,
    passed: &mut Vec<usize>,
) -> Option<f64> {
    element_behind(edit, value, passed)?.number()
}

/// Like [`number_behind`], as a tensor of one element.
pub(super) fn element_behind(
    edit: &Edit<'_>,
    value: ValueId,
    passed: &mut Vec<usize>,
) -> Option<Tensor> {
    let (value, nodes) = edit.through(value, BROADCAST_OPS | CASTS);
    let mut element = edit.tensor(value)?.uniform()?;
    for &index in nodes.iter().rev().filter(|&&index| edit.node(index).op == OpType::Cast) {
        let dtype = edit.result_ty(index)?.dtype;
        element = eval(edit.node(index), &[&element], dtype, Vec::new())?;
    }
    passed.extend(nodes);
    Some(element)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check_lean, each};

    #[test]
    fn two_negations_cancel_out() {
        check_lean(
            each(super::RULE.apply),
            "graph g(a:bool[3]) -> (y)
%0:bool[3] = Equal(a, false)
%1:bool[3] = Not(%0)
%2:bool[3] = And(true, %1)
y:bool[3] = Xor(%2, a)",
            expect![[r#"
                graph g(a:bool[3]) -> (y)
                y:bool[3] = Xor(a, a)  # 5 2 3 4
            "#]],
        );
    }

    #[test]
    fn a_flag_is_not_expanded_to_sizes_that_lack_an_axis_of_the_constant() {
        check_lean(
            each(super::RULE.apply),
            "graph g(a:bool[1,1]) -> (y)
%0:bool[1,7] = Expand(true, [1, 7]:i64)
%1:bool[5,7] = Expand(%0, [5, 1]:i64)
y:bool[5,7] = And(a, %1)",
            expect![[r#"
                graph g(a:bool[1,1]) -> (y)
                %0 = Expand(true, [1, 7]:i64)  # 2
                %1 = Expand(%0, [5, 1]:i64)  # 3
                y:bool[5,7] = And(a, %1)  # 4
            "#]],
        );
    }

    #[test]
    fn a_neutral_boolean_only_broadcasts_the_other_operand() {
        check_lean(
            each(super::RULE.apply),
            "graph g(a:bool[N], s:i64[2]) -> (y)
%0:bool[M,N] = Expand(true, s)
%1:bool[M,N] = And(%0, a)
y:bool[M,N] = Not(%1)",
            expect![[r#"
                graph g(a:bool[N], s:i64[2]) -> (y)
                %0 = Expand(a, s)  # 2 3
                y:bool[M,N] = Not(%0)  # 4
            "#]],
        );
    }

    #[test]
    fn a_choice_with_a_negated_condition_swaps_its_operands() {
        check_lean(
            each(super::RULE.apply),
            "graph g(x:f32[3]) -> (y)
%0:bool[3] = Equal(x, x)
%1:bool[3] = Not(%0)
y:f32[3] = Where(%1, 0.0, x)",
            expect![[r#"
                graph g(x:f32[3]) -> (y)
                %0 = Equal(x, x)  # 2
                y:f32[3] = Where(%0, x, 0.0)  # 4 3
            "#]],
        );
    }

    #[test]
    fn a_choice_between_a_boolean_and_zero_is_an_and() {
        check_lean(
            each(super::RULE.apply),
            "graph g(c:bool[2,3], a:bool[3], b:bool[2,3]) -> (y, z, w)
%0:u8[3] = Cast(a) {to=2}
%1:u8[2,3] = Where(c, %0, 0:u8)
y:bool[2,3] = Cast(%1) {to=9}
%2:u8[2,3] = Cast(b) {to=2}
%3:u8[2,3] = Where(c, 1:u8, %2)
z:bool[2,3] = Cast(%3) {to=9}
%4:u8[2,3] = Where(c, 0:u8, %2)
w:bool[2,3] = Cast(%4) {to=9}",
            expect![[r#"
                graph g(c:bool[2,3], a:bool[3], b:bool[2,3]) -> (y, z, w)
                y:bool[2,3] = And(c, a)  # 4 2 3
                z:bool[2,3] = Or(c, b)  # 7 5 6
                %0 = Not(c)  # 9 8
                w:bool[2,3] = And(%0, b)  # 9 5 8
            "#]],
        );
    }

    #[test]
    fn a_strict_comparison_needs_no_inequality() {
        check_lean(
            each(super::RULE.apply),
            "graph g(r:f32[3], s:f32[3]) -> (y, z)
%0:bool[3] = Equal(r, 0.0)
%1:bool[3] = Not(%0)
%2:bool[3] = Greater(0.0, r)
%3:bool[3] = And(%2, %1)
y:f32[3] = Where(%3, s, r)
%4:bool[3] = Greater(0.0, s)
%5:bool[3] = And(%4, %1)
z:f32[3] = Where(%5, s, r)",
            expect![[r#"
                graph g(r:f32[3], s:f32[3]) -> (y, z)
                %0 = Equal(r, 0.0)  # 2
                %1 = Not(%0)  # 3
                %2 = Greater(0.0, r)  # 4 2 3 5
                y:f32[3] = Where(%2, s, r)  # 6
                %3 = Greater(0.0, s)  # 7
                %4 = And(%3, %1)  # 8
                z:f32[3] = Where(%4, s, r)  # 9
            "#]],
        );
    }

    #[test]
    fn numbers_that_a_double_does_not_tell_apart_are_different() {
        check_lean(
            each(super::RULE.apply),
            "graph g(r:i64[3]) -> (y)
%0:bool[3] = Equal(r, 9007199254740992:i64)
%1:bool[3] = Not(%0)
%2:bool[3] = Less(r, 9007199254740993:i64)
y:bool[3] = And(%2, %1)",
            expect![[r#"
                graph g(r:i64[3]) -> (y)
                %0 = Equal(r, 9007199254740992:i64)  # 2
                %1 = Not(%0)  # 3
                %2 = Less(r, 9007199254740993:i64)  # 4
                y:bool[3] = And(%2, %1)  # 5
            "#]],
        );
    }

    #[test]
    fn operands_that_are_not_constant_booleans_are_kept() {
        check_lean(
            each(super::RULE.apply),
            "graph g(a:i32[3], b:bool[3]) -> (y, z)
%0:bool[3] = Equal(a, 0:i32)
y:bool[3] = And(%0, b)
z:bool[3] = And(%0, false)",
            expect![[r#"
                graph g(a:i32[3], b:bool[3]) -> (y, z)
                %0 = Equal(a, 0:i32)  # 2
                y:bool[3] = And(%0, b)  # 3
                z:bool[3] = And(%0, false)  # 4
            "#]],
        );
    }

    #[test]
    fn a_choice_broadcasts_its_condition_itself() {
        check_lean(
            each(super::RULE.apply),
            "graph g(a:bool[1,3], x:f32[2,3]) -> (y)
%0:bool[2,3] = And([[true, true, true], [true, true, true]], a)
y:f32[2,3] = Where(%0, x, 0.0)",
            expect![[r#"
                graph g(a:bool[1,3], x:f32[2,3]) -> (y)
                y:f32[2,3] = Where(a, x, 0.0)  # 3 2
            "#]],
        );
    }

    #[test]
    fn a_condition_that_determines_the_shape_of_a_choice_is_kept() {
        check_lean(
            each(super::RULE.apply),
            "graph g(a:bool[1,3], x:f32[1,3]) -> (y)
%0:bool[2,3] = And([[true, true, true], [true, true, true]], a)
y:f32[2,3] = Where(%0, x, 0.0)",
            expect![[r#"
                graph g(a:bool[1,3], x:f32[1,3]) -> (y)
                %0 = And([[true, true, true], [true, true, true]], a)  # 2
                y:f32[2,3] = Where(%0, x, 0.0)  # 3
            "#]],
        );
    }

    #[test]
    fn a_number_that_a_cast_makes_zero_is_not_set() {
        check_lean(
            each(super::RULE.apply),
            "graph g(c:bool[3]) -> (y)
%0:f32[] = Cast(1e-300:f64) {to=1}
%1:bool[] = Cast(%0) {to=9}
y:bool[3] = And(c, %1)",
            expect![[r#"
                graph g(c:bool[3]) -> (y)
                %0 = Cast(1e-300:f64) {to=1}  # 2
                %1 = Cast(%0) {to=9}  # 3
                y:bool[3] = And(c, %1)  # 4
            "#]],
        );
    }
}
