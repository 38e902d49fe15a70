//! `drop-identity`: nodes that give back their operand.

use onnx::Edit;

/// Operators that change nothing where the type of the result is that of the operand.
const NO_OPS: &[&str] = &["Identity", "Cast", "Reshape", "Expand", "Squeeze", "Unsqueeze"];

pub(crate) fn run(edit: &mut Edit<'_>) {
    for index in 0..edit.len() {
        let node = edit.node(index);
        if !node.domain.is_empty() || !NO_OPS.contains(&&*node.op) {
            continue;
        }
        let result = node.outputs[0];
        let Some(operand) = edit.input(index, 0) else {
            continue;
        };
        let is_same = edit.ty(operand).is_some() && edit.ty(operand) == edit.ty(result);
        if is_same {
            edit.forward(index, operand);
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn the_producer_takes_over_the_line_of_a_copy() {
        check(
            super::run,
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
    fn the_readers_take_over_the_line_of_a_copied_input() {
        check(
            super::run,
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
    fn an_output_keeps_its_name() {
        check(
            super::run,
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
            super::run,
            "graph g(x:f32[3]) -> (y)
y:f32[3] = Identity(x)",
            expect![[r#"
                graph g(x:f32[3]) -> (y)
                y:f32[3] = Identity(x)  # 2
            "#]],
        );
    }

    #[test]
    fn a_cast_to_another_type_and_a_reshape_to_another_shape_stay() {
        check(
            super::run,
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
