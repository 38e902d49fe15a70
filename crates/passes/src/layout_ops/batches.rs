//! `drop-batches`: drops a reshape that only adds or removes a unit batch axis of a product.

use onnx::expr::broadcast_shapes;
use onnx::operator::properties::RESHAPES;
use onnx::{Dim, Op, OpType, Outcome, Patch, ValueId, declined};

use crate::algebra::access::Access;

pub(crate) fn run(patch: &mut Patch<'_, '_>) -> Outcome {
    let index = patch.root();
    if patch.node(index).op != OpType::MatMul {
        return None;
    }
    let (mut inputs, mut fused, mut is_declined) = (patch.inputs(index), Vec::new(), false);
    for operand in 0..2 {
        let Some(reshape) = inputs[operand].and_then(|value| patch.producer(value)) else {
            continue;
        };
        match is_superfluous(patch, &inputs, operand, reshape) {
            Some(true) => {
                fused.push(reshape);
                inputs[operand] = patch.input(reshape, 0);
            }
            Some(false) => is_declined = true,
            None => {}
        }
    }
    if fused.is_empty() {
        let why = "without the reshape, the product has another shape";
        return is_declined.then(|| declined(why))?;
    }
    let op = Op::of(patch.node(index), inputs);
    patch.done(&fused, op)
}

/// True if the product with these operands is the same with what an operand is before its reshape.
fn is_superfluous(
    patch: &Patch<'_, '_>,
    inputs: &[Option<ValueId>],
    operand: usize,
    reshape: usize,
) -> Option<bool> {
    if !patch.node(reshape).op.is(RESHAPES) {
        return None;
    }
    let before = &patch.ty(patch.input(reshape, 0)?)?.shape;
    let (batch, matrix) = before.split_at(before.len().checked_sub(2)?);
    let after = &patch.ty(inputs[operand]?)?.shape;
    let (batch_after, matrix_after) = after.split_at(after.len().checked_sub(2)?);
    let other = &patch.ty(inputs[1 - operand]?)?.shape;
    let other = &other[..other.len().checked_sub(2)?];
    let result = &patch.result_ty(patch.root())?.shape;
    let is_same = matrix == matrix_after && without_ones(batch) == without_ones(batch_after);
    is_same.then(|| broadcast_shapes(batch, other).as_deref() == Some(&result[..result.len() - 2]))
}

fn without_ones(batch: &[Dim]) -> &[Dim] {
    let ones = batch.iter().take_while(|dim| dim.is(1)).count();
    &batch[ones..]
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::{check, each};

    #[test]
    fn a_unit_batch_axis_need_not_be_dropped() {
        check(
            each(super::run),
            "graph g(x:f32[1,4,3], w:f32[8,3,5]) -> (y)
%0:f32[4,3] = Reshape(x, [4, 3]:i64)
y:f32[8,4,5] = MatMul(%0, w)",
            expect![[r#"
                graph g(x:f32[1,4,3], w:f32[8,3,5]) -> (y)
                %0 = Reshape(x, [4, 3]:i64)  # 2
                y:f32[8,4,5] = MatMul(x, w)  # 3 2
            "#]],
        );
    }

    #[test]
    fn a_reshape_that_the_shape_of_the_result_needs_stays() {
        check(
            each(super::run),
            "graph g(x:f32[1,4,3], w:f32[3,5]) -> (y)
%0:f32[4,3] = Reshape(x, [4, 3]:i64)
y:f32[4,5] = MatMul(%0, w)",
            expect![[r#"
                graph g(x:f32[1,4,3], w:f32[3,5]) -> (y)
                %0 = Reshape(x, [4, 3]:i64)  # 2
                y:f32[4,5] = MatMul(%0, w)  # 3
            "#]],
        );
    }
}
