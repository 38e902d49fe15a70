//! `fold-choices`: computes on the two numbers of a choice, instead of on an array of them.
//!
//! Masks are made in that way: `where(i >= j, 1, 0)` is compared with zero, or subtracted from one and scaled.

use onnx::{DType, Edit, Op, OpType, Tensor, Type, ValueId};

use super::Rule;
use super::booleans::element_behind;
use crate::eval::eval;
use crate::operators::{BROADCASTING, ELEMENTWISE};

pub(crate) const RULE: Rule = Rule {
    name: "fold-choices",
    does: "computes on the two numbers of a choice, instead of on an array of them",
    apply: fold_choice,
};

/// `f(c ? a : b)` is `c ? f(a) : f(b)`, and `c` where that is true or false.
fn fold_choice(edit: &mut Edit<'_>, index: usize) -> Option<()> {
    let found = Folded::of(edit, index)?;
    let flag = |number: &Tensor| Some(number.ints()?.first()? != &0);
    let condition = |edit: &mut Edit<'_>| found.with_axes(edit, index);
    if found.ty.dtype == DType::Bool {
        match found.numbers.each_ref().map(flag) {
            [Some(true), Some(false)] => {
                let condition = condition(edit)?;
                return edit.replace(index, &found.passed, condition).then_some(());
            }
            [Some(false), Some(true)] => {
                let not = Op::new(OpType::Not, &[condition(edit)?]);
                edit.rewrite(index, &found.passed, not);
                return Some(());
            }
            _ => return None,
        }
    }
    let before = edit.node(found.choice).outputs[0];
    // Of some types, the runtime has no `Where`.
    let has_type = edit.ty(before)?.dtype == found.ty.dtype || found.ty.dtype == DType::F32;
    (has_type && edit.reads(before) == 1).then_some(())?;
    let rank = if found.lead == 0 { 0 } else { found.ty.rank() };
    let [a, b] = found
        .numbers
        .map(|number| edit.constant(index, &found.passed, number.with_shape(vec![1; rank]), &[]));
    edit.rewrite(index, &found.passed, Op::new(OpType::Where, &[found.condition, a, b]));
    Some(())
}

/// An operator on a choice between two numbers.
struct Folded {
    choice: usize,
    condition: ValueId,
    /// What the operator makes of each of the numbers.
    numbers: [Tensor; 2],
    ty: Type,
    /// How many axes of size one the result has in front of those of the condition.
    lead: usize,
    passed: Vec<usize>,
}

impl Folded {
    fn of(edit: &Edit<'_>, index: usize) -> Option<Folded> {
        let node = edit.node(index);
        let op = node.op.onnx()?;
        let is_computed = ELEMENTWISE.contains(&op) || BROADCASTING.contains(&op);
        if !is_computed || matches!(op, OpType::Identity | OpType::Where) {
            return None;
        }
        let operands: Vec<ValueId> = (0..node.inputs.len())
            .map(|operand| edit.input(index, operand))
            .collect::<Option<_>>()?;
        let (place, choice) = operands.iter().enumerate().find_map(|(place, &operand)| {
            let choice = edit.producer(operand)?;
            (edit.node(choice).op == OpType::Where).then_some((place, choice))
        })?;
        let ty = edit.ty(node.outputs[0])?.clone();
        let condition = edit.input(choice, 0)?;
        let lead = ty.shape.strip_suffix(&*edit.ty(condition)?.shape)?;
        lead.iter().all(|dim| dim.is(1)).then_some(())?;
        let mut passed = vec![choice];
        let mut of_side = |side: usize| {
            let mut elements = Vec::with_capacity(operands.len());
            for (other, &operand) in operands.iter().enumerate() {
                let operand = if other == place { edit.input(choice, side)? } else { operand };
                elements.push(element_behind(edit, operand, &mut passed)?);
            }
            let elements: Vec<&Tensor> = elements.iter().collect();
            eval(op, node, &elements, ty.dtype, Vec::new())
        };
        let numbers = [of_side(1)?, of_side(2)?];
        Some(Folded { choice, condition, numbers, lead: lead.len(), ty, passed })
    }

    /// Returns the condition with all axes of the result.
    fn with_axes(&self, edit: &mut Edit<'_>, index: usize) -> Option<ValueId> {
        if self.lead == 0 {
            return Some(self.condition);
        }
        let axes: Vec<i64> = (0..self.lead as i64).collect();
        let axes = Tensor::of_ints(DType::I64, vec![axes.len() as i64], &axes)?;
        let axes = edit.constant(index, &self.passed, axes, &[]);
        let op = Op::new(OpType::Unsqueeze, &[self.condition, axes]);
        Some(edit.insert(index, &self.passed, op, self.ty.clone()))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::{check_lean, rule};

    #[test]
    fn what_is_computed_of_a_mask_is_a_mask_again() {
        check_lean(
            rule(&super::RULE),
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
            rule(&super::RULE),
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
    fn a_choice_that_is_read_elsewhere_or_between_arrays_is_left() {
        check_lean(
            rule(&super::RULE),
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
            rule(&super::RULE),
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
            rule(&super::RULE),
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
}
