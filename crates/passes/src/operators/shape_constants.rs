//! `shape-constants`: gives constants that broadcast the rank for which ONNX Runtime is fastest.
//!
//! ONNX Runtime fuses a bias with the nodes around it only if the bias has no leading unit axes. A scalar, however,
//! needs all axes from the last axis of the other operand that is larger than 1. With fewer axes, ONNX Runtime
//! computes a column element by element, which takes up to 70 times as long.

use algebra::rewrite::require;
use onnx::operator::properties::BROADCASTING;
use onnx::{Dim, Edit, Op, OpType, Outcome, Patch, Type, ValueId};

/// With fewer elements, the node that reshapes a computed scalar costs as much as it saves.
const MIN_ELEMENTS: i64 = 128;

/// From this opset on, ONNX has operators for all norms that ONNX Runtime recognizes by their formulas.
const OPSET_OF_NORMS: i64 = 23;

pub(crate) fn run(patch: &mut Patch<'_, '_>) -> Outcome {
    let index = patch.root();
    require(patch.node(index).op.is(BROADCASTING))?;
    let mut inputs = patch.inputs(index);
    for (operand, input) in inputs.iter_mut().enumerate() {
        *input = reshaped(patch, index, operand).or(*input);
    }
    let op = Op::of(patch.node(index), inputs);
    (op.inputs != patch.inputs(index)).then(|| patch.done(&[], op))?
}

/// Gives an operand the rank that it should have, if another operand has the rank of the result.
fn reshaped(edit: &mut Patch<'_, '_>, index: usize, operand: usize) -> Option<ValueId> {
    let value = edit.input(index, operand)?;
    let ty = edit.ty(value)?.clone();
    let whole = whole_operand(edit, index, operand)?;
    let leading = ty.shape.iter().take_while(|dim| dim.is(1)).count();
    let is_number = leading == ty.rank();
    let needed = if is_number { axes_of_number(&whole) } else { ty.rank() - leading };
    let Some(tensor) = edit.tensor(value) else {
        let elements = whole.shape.iter().filter_map(Dim::known).product::<i64>();
        let is_worth = is_number && ty.rank() < needed && elements >= MIN_ELEMENTS;
        require(is_worth)?;
        let shape = edit.integers(&vec![1; needed])?;
        return Some(edit.insert(Op::new(OpType::Reshape, &[value, shape])));
    };
    require(needed != ty.rank() && (needed <= ty.rank() || !is_in_norm(edit, index)))?;
    let shape = if is_number { vec![1; needed] } else { tensor.shape[leading..].to_vec() };
    let shaped = tensor.with_shape(shape);
    Some(edit.constant(shaped, &[value]))
}

/// Returns the type of another computed operand with the rank of the result.
fn whole_operand(edit: &Edit<'_>, index: usize, operand: usize) -> Option<Type> {
    let rank = edit.result_ty(index)?.rank();
    let others = (0..edit.node(index).inputs.len()).filter(|&other| other != operand);
    let mut values = others.filter_map(|other| edit.input(index, other));
    let whole =
        values.find(|&value| edit.tensor(value).is_none() && edit.rank(value) == Some(rank));
    edit.ty(whole?).cloned()
}

/// Returns the number of axes that a scalar needs next to an array.
fn axes_of_number(array: &Type) -> usize {
    let trailing = array.shape.iter().rev().take_while(|dim| dim.is(1)).count();
    if trailing == 0 || trailing == array.rank() { 0 } else { trailing + 1 }
}

/// True if a node adds the epsilon of a norm. ONNX Runtime recognizes the norm only if the epsilon is a scalar
/// without axes.
fn is_in_norm(edit: &Edit<'_>, index: usize) -> bool {
    let node = edit.node(index);
    let is_root = |reader: usize| edit.node(reader).op == OpType::Sqrt;
    edit.opset() < OPSET_OF_NORMS
        && node.op == OpType::Add
        && edit.readers(node.outputs[0]).any(is_root)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check, check_at, each};

    #[test]
    fn a_bias_is_a_vector() {
        check(
            each(super::run),
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

    #[test]
    fn a_number_beside_a_column_has_axes() {
        check(
            each(super::run),
            "graph g(x:f32[B,200,1,1], s:f32[], t:f32[3,1]) -> (y, z)
%0:f32[B,200,1,1] = Add(x, 1.0)
%1:f32[B,200,1,1] = Max(%0, [2.0])
y:f32[B,200,1,1] = Mul(s, %1)
%2:f32[3,1] = Mul(t, s)
z:f32[3,1] = Sub([[[1.0]]], %2)",
            expect![[r#"
                graph g(x:f32[B,200,1,1], s:f32[], t:f32[3,1]) -> (y, z)
                %0 = Add(x, [[[1.0]]])  # 2
                %1 = Max(%0, [[[2.0]]])  # 3
                %2 = Reshape(s, [1, 1, 1]:i64)  # 4
                y:f32[B,200,1,1] = Mul(%2, %1)  # 4
                %3 = Mul(t, s)  # 5
                z:f32[3,1] = Sub([[1.0]], %3)  # 6
            "#]],
        );
    }

    #[test]
    fn the_epsilon_of_a_norm_has_none_if_the_runtime_must_find_the_norm() {
        let graph = "graph g(x:f32[20,1]) -> (y)
%0:f32[20,1] = Add(x, 1.0)
y:f32[20,1] = Sqrt(%0)";
        let without_axes = expect![[r#"
            graph g(x:f32[20,1]) -> (y)
            %0 = Add(x, 1.0)  # 2
            y:f32[20,1] = Sqrt(%0)  # 3
        "#]];
        check_at(22, each(super::run), graph, without_axes);
        let with_axes = expect![[r#"
            graph g(x:f32[20,1]) -> (y)
            %0 = Add(x, [[1.0]])  # 2
            y:f32[20,1] = Sqrt(%0)  # 3
        "#]];
        check_at(23, each(super::run), graph, with_axes);
    }
}
