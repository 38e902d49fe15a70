//! `merge-transposes`: a transpose of a transpose is one, or none; one of a constant is a constant.

use onnx::{Edit, Op, Tensor, ValueId};

use crate::eval::eval;
use crate::layout::Order;

pub(crate) fn run(edit: &mut Edit<'_>) {
    for index in 0..edit.len() {
        if !edit.node(index).domain.is_empty() {
            continue;
        }
        if let Some(tensor) = rearranged(edit, index) {
            edit.fold(index, tensor);
        } else if &*edit.node(index).op == "Transpose" {
            merge(edit, index);
        }
    }
}

/// The elements of a constant in another order, or some of them: no more than there were, so this is
/// done whatever the size.
fn rearranged(edit: &Edit<'_>, index: usize) -> Option<Tensor> {
    let node = edit.node(index);
    if !matches!(&*node.op, "Transpose" | "Slice") {
        return None;
    }
    let operand = |operand| edit.tensor(edit.input(index, operand)?);
    let operands: Vec<&Tensor> = (0..node.inputs.len()).map(operand).collect::<Option<_>>()?;
    let ty = edit.ty(node.outputs[0])?;
    let shape = ty.shape.iter().map(onnx::Dim::known).collect::<Option<_>>()?;
    eval(&node.op, node, &operands, ty.dtype, shape)
}

fn merge(edit: &mut Edit<'_>, index: usize) {
    let Some((operand, order)) = transpose(edit, index) else {
        return;
    };
    let inner = edit.producer(operand).filter(|&inner| &*edit.node(inner).op == "Transpose");
    let inner = inner.filter(|&inner| edit.node(inner).domain.is_empty());
    let before = inner.and_then(|inner| Some((inner, transpose(edit, inner)?)));
    let (operand, order, fused) = match before {
        Some((inner, (source, first))) => (source, first.then(&order), vec![inner]),
        None => (operand, order, Vec::new()),
    };
    if order.is_unchanged() {
        if !fused.is_empty() {
            edit.fuse(index, &fused);
        }
        if !edit.forward(index, operand) {
            edit.rewrite(index, &[], Op::new("Identity", &[operand]));
        }
    } else if !fused.is_empty() {
        edit.rewrite(index, &fused, order.transpose(operand));
    }
}

fn transpose(edit: &Edit<'_>, index: usize) -> Option<(ValueId, Order)> {
    let operand = edit.input(index, 0)?;
    let rank = edit.ty(operand)?.rank();
    Some((operand, Order::of(edit.node(index), rank)?))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn a_transpose_and_its_inverse_are_nothing() {
        check(
            super::run,
            "graph g(x:f32[2,3,4]) -> (y)
%0:f32[4,2,3] = Transpose(x) {perm=[2, 0, 1]}
%1:f32[2,3,4] = Transpose(%0) {perm=[1, 2, 0]}
y:f32[2,3,4] = Relu(%1)",
            expect![[r#"
                graph g(x:f32[2,3,4]) -> (y)
                %0 = Transpose(x) {perm=[2, 0, 1]}  # 2
                y:f32[2,3,4] = Relu(x)  # 4 2 3
            "#]],
        );
    }

    #[test]
    fn two_that_are_not_inverse_are_one() {
        check(
            super::run,
            "graph g(x:f32[2,3,4]) -> (y)
%0:f32[4,2,3] = Transpose(x) {perm=[2, 0, 1]}
y:f32[3,4,2] = Transpose(%0) {perm=[2, 0, 1]}",
            expect![[r#"
                graph g(x:f32[2,3,4]) -> (y)
                %0 = Transpose(x) {perm=[2, 0, 1]}  # 2
                y:f32[3,4,2] = Transpose(x) {perm=[1, 2, 0]}  # 3 2
            "#]],
        );
    }

    #[test]
    fn what_is_given_back_as_a_result_keeps_a_node() {
        check(
            super::run,
            "graph g(x:f32[2,3]) -> (y)
%0:f32[3,2] = Transpose(x)
y:f32[2,3] = Transpose(%0) {perm=[1, 0]}",
            expect![[r#"
                graph g(x:f32[2,3]) -> (y)
                %0 = Transpose(x)  # 2
                y:f32[2,3] = Identity(x)  # 3 2
            "#]],
        );
    }

    #[test]
    fn a_weight_is_transposed_whatever_its_size() {
        check(
            super::run,
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
