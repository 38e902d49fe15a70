//! `fold-layout-ops`: folds layout ops and slices of constants into the constants.

use algebra::eval::eval;
use algebra::rewrite::require;
use onnx::{OpType, Outcome, Patch, Tensor, known_shape};

/// Evaluates a transpose or a slice of a constant. The result has no more elements than the constant, so its size
/// does not matter.
pub(crate) fn run(patch: &mut Patch<'_, '_>) -> Outcome {
    let node = patch.node(patch.root());
    require(node.op.is_one_of(&[OpType::Transpose, OpType::Slice]))?;
    let operand = |operand| patch.tensor(patch.input(patch.root(), operand)?);
    let operands: Vec<&Tensor> = (0..node.inputs.len()).map(operand).collect::<Option<_>>()?;
    let ty = patch.ty(node.outputs[0])?;
    let tensor = eval(node, &operands, ty.dtype, known_shape(&ty.shape)?)?;
    patch.done(&[], tensor)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check, each};

    #[test]
    fn a_weight_is_transposed_whatever_its_size() {
        check(
            each(super::run),
            "graph g(x:f32[2,64]) -> (y)
w = const f32[64,64]
%0:f32[64,64] = Transpose(w) {perm=[1, 0]}
y:f32[2,64] = MatMul(x, %0)",
            expect![[r#"
                graph g(x:f32[2,64]) -> (y)
                w/Transpose = const f32[64,64]
                y:f32[2,64] = MatMul(x, w/Transpose)  # 4
            "#]],
        );
    }
}
