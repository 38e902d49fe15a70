//! `keep-axes`: keeps the axes of a reduction if a later node restores them.

use algebra::rewrite::require;
use onnx::expr::reduced_shape;
use onnx::operator::properties::{BROADCAST_OPS, REDUCTIONS};
use onnx::{Op, Outcome, Patch, declined};

/// Replaces a node that restores the axes of a reduction by the same reduction with `keepdims`. JAX reduces and then
/// broadcasts, even for `keepdims=True`.
pub(crate) fn run(patch: &mut Patch<'_, '_>) -> Outcome {
    let index = patch.root();
    require(patch.node(index).op.is(BROADCAST_OPS))?;
    let reduced = patch.input(index, 0)?;
    let reduction = patch.producer(reduced)?;
    let node = patch.node(reduction);
    require(node.op.is(REDUCTIONS) && !node.keeps_axes())?;
    let operand = patch.shape(patch.input(reduction, 0)?)?;
    let wanted = &patch.result_ty(index)?.shape;
    require(reduced_shape(operand, &patch.axes(reduction)?, true)[..] == wanted[..])?;
    if patch.reads(reduced) != 1 {
        return declined("another node reads the reduction");
    }
    let mut op = Op::of(node, patch.inputs(reduction));
    op.attrs.retain(|(name, _)| **name == *"axes");
    patch.done(&[reduction], op.attr("keepdims", 1i64))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check, each};

    #[test]
    fn a_sum_whose_axis_is_restored_keeps_the_axis() {
        check(
            each(super::run),
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
    fn a_sum_over_all_axes_that_is_reshaped_keeps_its_axes() {
        check(
            each(super::run),
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
    fn an_axis_at_another_position_is_not_kept() {
        check(
            each(super::run),
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
    fn a_reduction_with_another_reader_is_kept() {
        check(
            each(super::run),
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
