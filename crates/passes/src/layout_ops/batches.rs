//! `drop-batches`: drops a reshape that only adds or removes a unit batch axis of a product.

use onnx::expr::broadcast_shapes;
use onnx::operator::properties::RESHAPES;
use onnx::{Dim, Edit, OpType};

use crate::rewrite::decline;

const NAME: &str = "drop-batches";

pub(crate) fn run(edit: &mut Edit<'_>) {
    for index in 0..edit.len() {
        let node = edit.node(index);
        if node.op != OpType::MatMul {
            continue;
        }
        for operand in 0..2 {
            match is_superfluous(edit, index, operand) {
                Some(true) => {
                    edit.note(NAME, index, None);
                    edit.bypass(index, operand);
                }
                Some(false) => {
                    decline(
                        edit,
                        NAME,
                        index,
                        "without the reshape, the product has another shape",
                    );
                }
                None => {}
            }
        }
    }
}

/// True if the product of the operand before its reshape is the same.
fn is_superfluous(edit: &Edit<'_>, index: usize, operand: usize) -> Option<bool> {
    let value = edit.input(index, operand)?;
    let renaming = edit.producer(value)?;
    let node = edit.node(renaming);
    if !node.op.is(RESHAPES) {
        return None;
    }
    let before = &edit.ty(edit.input(renaming, 0)?)?.shape;
    let (batch, matrix) = before.split_at(before.len().checked_sub(2)?);
    let after = &edit.ty(value)?.shape;
    let (batch_after, matrix_after) = after.split_at(after.len().checked_sub(2)?);
    let other = &edit.ty(edit.input(index, 1 - operand)?)?.shape;
    let other = &other[..other.len().checked_sub(2)?];
    let result = &edit.ty(edit.node(index).outputs[0])?.shape;
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

    use crate::testing::check;

    #[test]
    fn a_unit_batch_axis_need_not_be_dropped() {
        check(
            super::run,
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
            super::run,
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
