//! `bypass-expand`: an operator that broadcasts need not be given what is already broadcast.

use onnx::expr::broadcast_shapes;
use onnx::{Dim, Edit, ValueId};

/// Operators whose operands all broadcast to the shape of the result.
pub(crate) const BROADCASTING: &[&str] = &[
    "Add",
    "And",
    "BitShift",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "Div",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "Or",
    "Pow",
    "Sub",
    "Where",
    "Xor",
];

pub(crate) fn run(edit: &mut Edit<'_>) {
    for index in 0..edit.len() {
        let node = edit.node(index);
        if !node.domain.is_empty() || !BROADCASTING.contains(&&*node.op) {
            continue;
        }
        for operand in 0..node.inputs.len() {
            while broadcasts_without_expand(edit, index, operand) {
                edit.bypass(index, operand);
            }
        }
    }
}

/// Whether the operand is an `Expand` that the result's shape does not need.
fn broadcasts_without_expand(edit: &Edit<'_>, index: usize, operand: usize) -> bool {
    let shape_of = |id: ValueId| edit.ty(id).map(|ty| ty.shape.clone());
    let narrow = || {
        let producer = edit.producer(edit.input(index, operand)?)?;
        let is_expand = edit.node(producer).op.as_ref() == "Expand";
        edit.input(producer, 0).filter(|_| is_expand)
    };
    let Some(narrow) = narrow() else {
        return false;
    };
    let operands = (0..edit.node(index).inputs.len()).map(|other| {
        if other == operand { shape_of(narrow) } else { shape_of(edit.input(index, other)?) }
    });
    let joined = operands
        .into_iter()
        .try_fold(Vec::<Dim>::new(), |joined, shape| broadcast_shapes(&joined, &shape?));
    let result = shape_of(edit.node(index).outputs[0]);
    joined.is_some() && joined.as_deref() == result.as_deref()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn the_reader_broadcasts_and_remembers_the_line() {
        check(
            super::run,
            "graph g(x:f32[2,3], b:f32[3]) -> (y)
%0:f32[2,3] = Expand(b, [2, 3]:i64)
y:f32[2,3] = Add(x, %0)",
            expect![[r#"
                graph g(x:f32[2,3], b:f32[3]) -> (y)
                %0 = Expand(b, [2, 3]:i64)  # 2
                y:f32[2,3] = Add(x, b)  # 3 2
            "#]],
        );
    }

    #[test]
    fn an_expand_that_makes_the_shape_stays() {
        check(
            super::run,
            "graph g(x:f32[1,3], b:f32[3]) -> (y)
%0:f32[2,3] = Expand(b, [2, 3]:i64)
y:f32[2,3] = Add(x, %0)",
            expect![[r#"
                graph g(x:f32[1,3], b:f32[3]) -> (y)
                %0 = Expand(b, [2, 3]:i64)  # 2
                y:f32[2,3] = Add(x, %0)  # 3
            "#]],
        );
    }

    #[test]
    fn of_two_that_make_the_shape_one_stays() {
        check(
            super::run,
            "graph g(a:f32[3], b:f32[3]) -> (y)
%0:f32[2,3] = Expand(a, [2, 3]:i64)
%1:f32[2,3] = Expand(b, [2, 3]:i64)
y:f32[2,3] = Mul(%0, %1)",
            expect![[r#"
                graph g(a:f32[3], b:f32[3]) -> (y)
                %0 = Expand(a, [2, 3]:i64)  # 2
                %1 = Expand(b, [2, 3]:i64)  # 3
                y:f32[2,3] = Mul(a, %1)  # 4 2
            "#]],
        );
    }
}
