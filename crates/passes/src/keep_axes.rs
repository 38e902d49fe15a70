//! `keep-axes`: keeps the axes of a reduction if a later node restores them.

use onnx::expr::reduced_shape;
use onnx::operator::properties::{BROADCAST_OPS, REDUCTIONS};
use onnx::{Attr, Edit, Op};

use crate::access::Access;

/// JAX reduces and then broadcasts, also where the program says `keepdims=True`.
pub(crate) fn run(edit: &mut Edit<'_>) {
    for index in 0..edit.len() {
        if let Some((reduction, op)) = kept(edit, index) {
            edit.noted_patch("keep-axes", index, |patch| {
                patch.take(&[reduction]);
                let reduced = patch.node(reduction).outputs[0];
                if patch.reads(reduced) == 1 {
                    Ok(op)
                } else {
                    Err("another node reads the reduction".into())
                }
            });
        }
    }
}

/// Returns the reduction whose axes this node puts back, and the same one with its axes kept.
fn kept(edit: &Edit<'_>, index: usize) -> Option<(usize, Op<'static>)> {
    let node = edit.node(index);
    if !node.op.is(BROADCAST_OPS) {
        return None;
    }
    let reduced = edit.input(index, 0)?;
    let reduction = edit.producer(reduced)?;
    let made_by = edit.node(reduction);
    if !made_by.op.is(REDUCTIONS) || made_by.attr("keepdims") != Some(&Attr::Int(0)) {
        return None;
    }
    let axes = edit.axes(reduction)?;
    let operand = edit.ty(edit.input(reduction, 0)?)?;
    let wanted = &edit.ty(node.outputs[0])?.shape;
    if reduced_shape(&operand.shape, &axes, true)[..] != wanted[..] {
        return None;
    }
    let inputs = (0..made_by.inputs.len()).map(|operand| edit.input(reduction, operand)).collect();
    let axes = match made_by.attr("axes") {
        Some(axes) => vec![("axes", axes.clone())],
        None => Vec::new(),
    };
    let op = Op { op: made_by.op.clone(), inputs, attrs: axes };
    Some((reduction, op.attr("keepdims", 1i64)))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn a_sum_whose_axis_is_put_back_keeps_it() {
        check(
            super::run,
            "graph g(x:f32[2,3]) -> (y)
%0:f32[2] = ReduceSum(x, [1]:i64) {keepdims=0}
%1:f32[2,1] = Unsqueeze(%0, [1]:i64)
y:f32[2,3] = Div(x, %1)",
            expect![[r#"
                graph g(x:f32[2,3]) -> (y)
                %0 = ReduceSum(x, [1]:i64) {keepdims=0}  # 2
                %1 = ReduceSum(x, [1]:i64) {keepdims=1}  # 2 3
                y:f32[2,3] = Div(x, %1)  # 4
            "#]],
        );
    }

    #[test]
    fn a_sum_of_all_that_becomes_an_array_keeps_its_axes() {
        check(
            super::run,
            "graph g(x:f32[3]) -> (y)
%0:f32[] = ReduceSum(x, [0]:i64) {keepdims=0}
%1:f32[1] = Expand(%0, [1]:i64)
y:f32[3] = Div(x, %1)",
            expect![[r#"
                graph g(x:f32[3]) -> (y)
                %0 = ReduceSum(x, [0]:i64) {keepdims=0}  # 2
                %1 = ReduceSum(x, [0]:i64) {keepdims=1}  # 2 3
                y:f32[3] = Div(x, %1)  # 4
            "#]],
        );
    }

    #[test]
    fn an_axis_elsewhere_is_another_shape() {
        check(
            super::run,
            "graph g(x:f32[2,3]) -> (y)
%0:f32[2] = ReduceSum(x, [1]:i64) {keepdims=0}
%1:f32[1,2] = Unsqueeze(%0, [0]:i64)
y:f32[1,2] = Exp(%1)",
            expect![[r#"
                graph g(x:f32[2,3]) -> (y)
                %0 = ReduceSum(x, [1]:i64) {keepdims=0}  # 2
                %1 = Unsqueeze(%0, [0]:i64)  # 3
                y:f32[1,2] = Exp(%1)  # 4
            "#]],
        );
    }

    #[test]
    fn a_sum_that_is_read_without_its_axis_too_stays() {
        check(
            super::run,
            "graph g(x:f32[2,3]) -> (y, z)
%0:f32[2] = ReduceSum(x, [1]:i64) {keepdims=0}
%1:f32[2,1] = Unsqueeze(%0, [1]:i64)
y:f32[2,3] = Div(x, %1)
z:f32[2] = Exp(%0)",
            expect![[r#"
                graph g(x:f32[2,3]) -> (y, z)
                %0 = ReduceSum(x, [1]:i64) {keepdims=0}  # 2
                %1 = Unsqueeze(%0, [1]:i64)  # 3
                y:f32[2,3] = Div(x, %1)  # 4
                z:f32[2] = Exp(%0)  # 5
            "#]],
        );
    }
}
