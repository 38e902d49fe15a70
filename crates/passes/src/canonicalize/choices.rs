//! `fold-choices`: applies an operator to the two numbers of a choice, instead of to an array of these numbers.
//!
//! Programs compute masks in that way: they compare `where(i >= j, 1, 0)` with 0, or subtract it from 1 and scale it.

use algebra::eval::eval;
use algebra::rewrite::require;
use onnx::operator::properties::POINTWISE;
use onnx::{DType, Edit, Op, OpType, Outcome, Patch, Tensor, Type, ValueId};

use super::Rule;
use super::booleans::element_behind;

pub(crate) const RULE: Rule = Rule {
    name: "fold-choices",
    does: "applies an operator to the two numbers of a choice, instead of to an array of these numbers",
    apply: fold_choice,
};

/// Rewrites `f(c ? a : b)` to `c ? f(a) : f(b)`. If `f` returns booleans, rewrites to `c` or `¬c`.
fn fold_choice(patch: &mut Patch<'_, '_>) -> Outcome {
    let folded = Folded::of(patch, patch.root())?;
    patch.take(&folded.passed);
    if folded.ty.dtype == DType::Bool {
        return fold_to_condition(patch, &folded);
    }
    require(patch.reads(patch.result(folded.choice)) == 1)?;
    let rank = if folded.lead == 0 { 0 } else { folded.ty.rank() };
    let [a, b] = folded.numbers.map(|number| patch.constant(number.with_shape(vec![1; rank]), &[]));
    patch.done(&[], Op::new(OpType::Where, &[folded.condition, a, b]))
}

fn fold_to_condition(patch: &mut Patch<'_, '_>, folded: &Folded) -> Outcome {
    let is_set = |number: &Tensor| Some(number.ints()?.first()? != &0);
    let [Some(of_true), Some(of_false)] = folded.numbers.each_ref().map(is_set) else {
        return None;
    };
    require(of_true != of_false)?;
    let axes: Vec<usize> = (0..folded.lead).collect();
    let replacement = patch.formula([folded.condition], |[condition]| {
        let flag = if of_false { condition.unary(OpType::Not) } else { condition };
        flag.unsqueeze(&axes)
    });
    patch.settle(replacement)
}

/// Returns the numbers that a node chooses if its condition is true and false. The cast of a boolean chooses between 1
/// and 0.
fn elements(edit: &Edit<'_>, choice: usize, passed: &mut Vec<usize>) -> Option<[Tensor; 2]> {
    match edit.op(choice)? {
        OpType::Where => {
            let mut number = |side| element_behind(edit, edit.input(choice, side)?, passed);
            Some([number(1)?, number(2)?])
        }
        OpType::Cast if edit.dtype(edit.input(choice, 0)?)? == DType::Bool => {
            let dtype = edit.result_ty(choice)?.dtype;
            let number = |number| Tensor::of_ints(dtype, Vec::new(), &[number]);
            Some([number(1)?, number(0)?])
        }
        _ => None,
    }
}

/// An operator on a choice between two numbers.
struct Folded {
    choice: usize,
    condition: ValueId,
    /// The results of the operator for each of the numbers.
    numbers: [Tensor; 2],
    ty: Type,
    /// The number of unit axes that the result has before the axes of the condition.
    lead: usize,
    passed: Vec<usize>,
}

impl Folded {
    fn of(edit: &Edit<'_>, index: usize) -> Option<Folded> {
        let node = edit.node(index);
        let op = node.op.onnx()?;
        require(op.is(POINTWISE) && !matches!(op, OpType::Identity | OpType::Where))?;
        let mut passed = Vec::new();
        let (operand, choice, of_choice) = (0..node.inputs.len()).find_map(|operand| {
            let choice = edit.producer(edit.input(index, operand)?)?;
            passed = vec![choice];
            Some((operand, choice, elements(edit, choice, &mut passed)?))
        })?;
        let ty = edit.ty(node.outputs[0])?.clone();
        let condition = edit.input(choice, 0)?;
        let lead = ty.shape.strip_suffix(&*edit.ty(condition)?.shape)?;
        require(lead.iter().all(|dim| dim.is(1)))?;
        let mut operands = vec![of_choice[0].clone(); node.inputs.len()];
        for other in (0..node.inputs.len()).filter(|&other| other != operand) {
            operands[other] = element_behind(edit, edit.input(index, other)?, &mut passed)?;
        }
        let mut of = |number: &Tensor| {
            operands[operand] = number.clone();
            let operands: Vec<&Tensor> = operands.iter().collect();
            eval(node, &operands, ty.dtype, Vec::new())
        };
        let numbers = [of(&of_choice[0])?, of(&of_choice[1])?];
        Some(Folded { choice, condition, numbers, lead: lead.len(), ty, passed })
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check_lean, each};

    #[test]
    fn a_function_of_a_mask_becomes_a_mask() {
        check_lean(
            each(super::RULE.apply),
            "graph g(c:bool[T,T]) -> (y, z)
%0:f32[T,T] = Where(c, 1.0, 0.0)
%1:f32[T,T] = Sub(1.0, %0)
y:f32[T,T] = Mul(%1, -1e9)
%2:f32[1,T,T] = Where(c, [[[2.0]]]:f32, 3.0)
z:f32[1,T,T] = Neg(%2)",
            expect![[r#"
                graph g(c:bool[T,T]) -> (y, z)
                y:f32[T,T] = Where(c, -0.0, -1000000000.0)  # 2 3 4
                z:f32[1,T,T] = Where(c, [[[-2.0]]], [[[-3.0]]])  # 5 6
            "#]],
        );
    }

    #[test]
    fn a_compared_mask_is_its_condition() {
        check_lean(
            each(super::RULE.apply),
            "graph g(c:bool[T,T]) -> (y, z, w)
%0:f32[T,T] = Where(c, 1.0, 0.0)
%1:bool[T,T] = Greater(%0, 0.5)
y:f32[T,T] = Where(%1, 3.0, 4.0)
z:bool[T,T] = Equal(%0, 0.0)
%2:i32[1,T,T] = Where(c, [[[2]]]:i32, 0:i32)
w:bool[1,T,T] = Cast(%2) {to=9}",
            expect![[r#"
                graph g(c:bool[T,T]) -> (y, z, w)
                y:f32[T,T] = Where(c, 3.0, 4.0)  # 4 2 3
                z:bool[T,T] = Not(c)  # 5 2
                w:bool[1,T,T] = Unsqueeze(c, [0]:i64)  # 7 6
            "#]],
        );
    }

    #[test]
    fn a_cast_of_a_boolean_to_a_type_without_a_kernel_is_kept() {
        check_lean(
            each(super::RULE.apply),
            "graph g(c:bool[3]) -> (y, z, w)
%0:i16[3] = Cast(c) {to=5}
%1:i16[3] = Add(%0, 3:i16)
y:bool[3] = Equal(%1, 4:i16)
%2:u64[3] = Cast(c) {to=13}
z:u64[3] = Mul(%2, 3:u64)
%3:i32[3] = Cast(c) {to=6}
w:i32[3] = Mul(%3, 3:i32)",
            expect![[r#"
                graph g(c:bool[3]) -> (y, z, w)
                %0 = Cast(c) {to=5}  # 2
                %1 = Add(%0, 3:i16)  # 3
                y:bool[3] = Equal(%1, 4:i16)  # 4
                %2 = Cast(c) {to=13}  # 5
                z:u64[3] = Mul(%2, 3:u64)  # 6
                w:i32[3] = Where(c, 3:i32, 0:i32)  # 8 7
            "#]],
        );
    }

    #[test]
    fn a_choice_with_other_readers_or_between_arrays_is_kept() {
        check_lean(
            each(super::RULE.apply),
            "graph g(c:bool[3], x:f32[3]) -> (y, z, w)
y:f32[3] = Where(c, 1.0, 0.0)
z:f32[3] = Neg(y)
%0:f32[3] = Where(c, x, 0.0)
w:f32[3] = Neg(%0)",
            expect![[r#"
                graph g(c:bool[3], x:f32[3]) -> (y, z, w)
                y:f32[3] = Where(c, 1.0, 0.0)  # 2
                z:f32[3] = Neg(y)  # 3
                %0 = Where(c, x, 0.0)  # 4
                w:f32[3] = Neg(%0)  # 5
            "#]],
        );
    }

    #[test]
    fn a_choice_between_flags_is_the_condition() {
        check_lean(
            each(super::RULE.apply),
            "graph g(c:bool[N], d:bool[], s:i64[1]) -> (y, z, w)
%0:bool[N] = Expand(true, s)
%1:u8[N] = Cast(%0) {to=2}
%2:u8[N] = Where(c, %1, 0:u8)
%3:bool[N] = Cast(%2) {to=9}
y:bool[N] = Not(%3)
%4:u8[N] = Where(c, 0:u8, %1)
z:bool[N] = Cast(%4) {to=9}
%5:u8[N] = Where(d, %1, 0:u8)
w:bool[N] = Cast(%5) {to=9}",
            expect![[r#"
                graph g(c:bool[N], d:bool[], s:i64[1]) -> (y, z, w)
                %0 = Expand(true, s)  # 2
                %1 = Cast(%0) {to=2}  # 3
                y:bool[N] = Not(c)  # 6 2 3 4 5
                z:bool[N] = Not(c)  # 8 2 3 7
                %2 = Where(d, %1, 0:u8)  # 9
                w:bool[N] = Cast(%2) {to=9}  # 10
            "#]],
        );
    }

    #[test]
    fn a_number_that_a_cast_makes_zero_is_zero() {
        check_lean(
            each(super::RULE.apply),
            "graph g(c:bool[3]) -> (y, z)
%0:u8[] = Cast(256:i32) {to=2}
%1:u8[3] = Where(c, %0, 0:u8)
y:bool[3] = Cast(%1) {to=9}
%2:i32[] = Cast(0.5) {to=6}
%3:i32[3] = Where(c, %2, 1:i32)
z:bool[3] = Cast(%3) {to=9}",
            expect![[r#"
                graph g(c:bool[3]) -> (y, z)
                %0 = Cast(256:i32) {to=2}  # 2
                %1 = Where(c, %0, 0:u8)  # 3
                y:bool[3] = Cast(%1) {to=9}  # 4
                z:bool[3] = Not(c)  # 7 5 6
            "#]],
        );
    }

    #[test]
    fn a_flag_that_is_compared_as_a_number_is_a_flag() {
        check_lean(
            each(super::RULE.apply),
            "graph g(a:bool[3], n:i32[3]) -> (x, y, z, w)
%0:i32[3] = Cast(a) {to=6}
x:bool[3] = Equal(%0, 0:i32)
%1:bool[3] = Equal(1:i32, %0)
y:bool[3] = Not(%1)
z:bool[3] = Equal(%0, 2:i32)
w:bool[3] = Equal(n, 1:i32)",
            expect![[r#"
                graph g(a:bool[3], n:i32[3]) -> (x, y, z, w)
                %0 = Cast(a) {to=6}  # 2
                x:bool[3] = Not(a)  # 3 2
                y:bool[3] = Not(a)  # 5 2 4
                z:bool[3] = Equal(%0, 2:i32)  # 6
                w:bool[3] = Equal(n, 1:i32)  # 7
            "#]],
        );
    }
}
