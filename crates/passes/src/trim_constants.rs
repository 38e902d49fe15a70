//! `trim-constants`: drops leading unit axes of constants that broadcast.
//!
//! The runtime joins a bias with what is around it where it is a vector.

use onnx::{Edit, Op, Tensor, ValueId};

use crate::operators::BROADCASTING;

pub(crate) fn run(edit: &mut Edit<'_>) {
    for index in 0..edit.len() {
        let node = edit.node(index);
        if !node.op.is_one_of(BROADCASTING) {
            continue;
        }
        for operand in 0..node.inputs.len() {
            if let Some((constant, trimmed)) = trimmed(edit, index, operand) {
                read_instead(edit, index, operand, constant, trimmed);
            }
        }
    }
}

/// A constant operand with fewer axes, where another operand has as many as the result.
fn trimmed(edit: &Edit<'_>, index: usize, operand: usize) -> Option<(ValueId, Tensor)> {
    let constant = edit.input(index, operand)?;
    let tensor = edit.tensor(constant)?;
    let leading = tensor.shape.iter().take_while(|&&size| size == 1).count();
    let rank = edit.ty(edit.node(index).outputs[0])?.rank();
    let has_all_axes = |other: usize| {
        let value = edit.input(index, other)?;
        Some(other != operand && edit.tensor(value).is_none() && edit.ty(value)?.rank() == rank)
    };
    let others = 0..edit.node(index).inputs.len();
    let may = leading > 0 && others.filter_map(has_all_axes).any(|has_all| has_all);
    let shape = tensor.shape[leading..].to_vec();
    may.then(|| (constant, tensor.with_shape(shape)))
}

fn read_instead(
    edit: &mut Edit<'_>,
    index: usize,
    operand: usize,
    constant: ValueId,
    trimmed: Tensor,
) {
    let node = edit.node(index).clone();
    let mut inputs: Vec<Option<ValueId>> =
        (0..node.inputs.len()).map(|operand| edit.input(index, operand)).collect();
    inputs[operand] = Some(edit.constant(index, &[], trimmed, &[constant]));
    edit.rewrite(index, &[], Op::of(&node, inputs));
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn a_bias_is_a_vector() {
        check(
            super::run,
            "graph g(x:f32[2,3,2], s:f32[2]) -> (y, z)
%0:f32[2,3,2] = Add(x, [[[1.0, 2.0]]])
y:f32[2,3,2] = Mul([[[2.0]]], %0)
z:f32[1,2] = Add(s, [[1.0, 2.0]])",
            expect![[r#"
                graph g(x:f32[2,3,2], s:f32[2]) -> (y, z)
                %0 = Add(x, [1.0, 2.0])  # 2
                y:f32[2,3,2] = Mul(2.0, %0)  # 3
                z:f32[1,2] = Add(s, [[1.0, 2.0]])  # 4
            "#]],
        );
    }
}
