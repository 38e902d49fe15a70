//! `simplify-flags`: flags that are compared with flags, turned over twice, or made numbers in between.

use onnx::{Attr, DType, Edit, Op, ValueId};

use crate::change::{Change, each};
use crate::pattern::uniform;

pub(crate) fn run(edit: &mut Edit<'_>) {
    each(edit, change);
}

fn change(edit: &Edit<'_>, index: usize) -> Option<Change> {
    let operand = |number: usize| edit.input(index, number);
    match &*edit.node(index).op {
        "Not" => {
            let inner = negation(edit, operand(0)?)?;
            Some(Change::Value(edit.input(inner, 0)?, vec![inner]))
        }
        "Equal" => {
            let (flag, is_set) = beside_a_flag(edit, index)?;
            Some(match is_set {
                true => Change::Value(flag, Vec::new()),
                false if edit.ty(flag) == edit.ty(edit.node(index).outputs[0]) => {
                    Change::Op(Op::new("Not", &[flag]), Vec::new())
                }
                false => return None,
            })
        }
        "And" => {
            let (flag, is_set) = beside_a_flag(edit, index)?;
            is_set.then_some(Change::Value(flag, Vec::new()))
        }
        "Or" | "Xor" => {
            let (flag, is_set) = beside_a_flag(edit, index)?;
            (!is_set).then_some(Change::Value(flag, Vec::new()))
        }
        "Where" => {
            let inner = negation(edit, operand(0)?)?;
            let (flag, x, y) = (edit.input(inner, 0)?, operand(1)?, operand(2)?);
            Some(Change::Op(Op::new("Where", &[flag, y, x]), vec![inner]))
        }
        "Cast" => chosen_flag(edit, index),
        _ => None,
    }
}

/// The `Not` that makes a value.
fn negation(edit: &Edit<'_>, value: ValueId) -> Option<usize> {
    let index = edit.producer(value)?;
    let node = edit.node(index);
    (node.domain.is_empty() && &*node.op == "Not").then_some(index)
}

/// The operand of an operator on flags whose other operand is one constant flag, and that.
fn beside_a_flag(edit: &Edit<'_>, index: usize) -> Option<(ValueId, bool)> {
    let (a, b) = (edit.input(index, 0)?, edit.input(index, 1)?);
    if edit.ty(a)?.dtype != DType::Bool {
        return None;
    }
    let flag = |value: ValueId| Some(uniform(edit.tensor(value)?)? != 0.0);
    match (flag(a), flag(b)) {
        (None, Some(is_set)) => Some((a, is_set)),
        (Some(is_set), None) => Some((b, is_set)),
        _ => None,
    }
}

/// `c ? 1 : 0` as a flag is `c`, and `c ? 0 : 1` is its opposite.
fn chosen_flag(edit: &Edit<'_>, index: usize) -> Option<Change> {
    if edit.node(index).attr("to") != Some(&Attr::Int(DType::Bool.code().into())) {
        return None;
    }
    let choice = edit.producer(edit.input(index, 0)?)?;
    let node = edit.node(choice);
    if !node.domain.is_empty() || &*node.op != "Where" {
        return None;
    }
    let mut passed = vec![choice];
    let condition = edit.input(choice, 0)?;
    let on_true = number_behind(edit, edit.input(choice, 1)?, &mut passed)?;
    let on_false = number_behind(edit, edit.input(choice, 2)?, &mut passed)?;
    if edit.ty(condition) != edit.ty(edit.node(index).outputs[0]) {
        return None;
    }
    match (on_true != 0.0, on_false != 0.0) {
        (true, false) => Some(Change::Value(condition, passed)),
        (false, true) => Some(Change::Op(Op::new("Not", &[condition]), passed)),
        _ => None,
    }
}

/// The number that a constant is, also where it was cast or repeated.
fn number_behind(edit: &Edit<'_>, mut value: ValueId, passed: &mut Vec<usize>) -> Option<f64> {
    loop {
        if let Some(tensor) = edit.tensor(value) {
            return uniform(tensor);
        }
        let index = edit.producer(value)?;
        let node = edit.node(index);
        if !node.domain.is_empty() || !matches!(&*node.op, "Cast" | "Expand" | "Reshape") {
            return None;
        }
        passed.push(index);
        value = edit.input(index, 0)?;
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use onnx::Edit;

    use crate::testing::check;

    fn run(edit: &mut Edit<'_>) {
        super::run(edit);
        edit.drop_unread();
    }

    #[test]
    fn two_negations_are_none() {
        check(
            run,
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
    fn a_choice_by_a_negation_is_the_other_choice() {
        check(
            run,
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
    fn a_choice_between_flags_is_the_condition() {
        check(
            run,
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
    fn numbers_are_not_flags() {
        check(
            run,
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
}
