//! `sink-layout-ops`: moves a layout op behind an elementwise operator or a softmax, if it meets another layout op
//! there.
//!
//! `f(map(x), y) = map(f(x, map⁻¹(y)))` if the inverse is free for `y`: `y` is a constant, or the inverse only
//! reshapes it. The bias after a product is added before its columns are split, so that ONNX Runtime finds the
//! product and the sum next to each other.

use algebra::axis_map::{AxisMap, Step, emit, plan};
use algebra::rewrite::require;
use onnx::operator::properties::POINTWISE;
use onnx::{Edit, Op, OpType, Outcome, Patch, ValueId, declined};

use super::{arrays, is_layout_op};

/// The maximum number of nodes up to the other layout op.
const MAX_DISTANCE: usize = 8;

pub(crate) fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    require(lets_through(edit, index))?;
    let mut outcome = None;
    // Tries the condition of a choice last: the inverse is often free for it.
    for operand in (0..arrays(edit.node(index))).rev() {
        if link_of(edit, index, operand).is_some() && is_worth_it(edit, index, operand) {
            outcome = sink(edit, operand).or(outcome);
        }
        if let Some(Ok(_)) = outcome {
            break;
        }
    }
    outcome
}

fn lets_through(edit: &Edit<'_>, index: usize) -> bool {
    let node = edit.node(index);
    let is_known = node.op.is(POINTWISE) || node.op == OpType::Softmax;
    is_known && node.outputs.len() == 1
}

/// Returns the layout op that computes an operand, if nothing else reads the operand.
fn link_of(edit: &Edit<'_>, index: usize, operand: usize) -> Option<usize> {
    let value = edit.input(index, operand)?;
    edit.producer(value).filter(|&link| is_layout_op(edit, link) && edit.reads(value) == 1)
}

/// True if the layout op would meet another one, or a product that can absorb a transpose, or if it is between a
/// product and its bias.
fn is_worth_it(edit: &Edit<'_>, index: usize, operand: usize) -> bool {
    let is_bias = || {
        let source = edit.input(link_of(edit, index, operand)?, 0)?;
        let product = edit.made_by(source, OpType::MatMul)?;
        let other = edit.input(index, 1 - operand.min(1))?;
        (edit.tensor(other).is_some() && edit.node(index).op == OpType::Add).then_some(product)
    };
    let link = link_of(edit, index, operand);
    let is_transpose = link.is_some_and(|link| edit.node(link).op == OpType::Transpose);
    is_bias().is_some() || meets_a_layout_op(edit, index, is_transpose)
}

fn meets_a_layout_op(edit: &Edit<'_>, mut index: usize, or_product: bool) -> bool {
    for _ in 0..MAX_DISTANCE {
        let Some(reader) = edit.sole_reader(edit.result(index)) else { return false };
        if is_layout_op(edit, reader) || (or_product && edit.node(reader).op == OpType::MatMul) {
            return true;
        }
        if !lets_through(edit, reader) {
            return false;
        }
        index = reader;
    }
    false
}

fn sink(edit: &mut Patch<'_, '_>, operand: usize) -> Outcome {
    let index = edit.root();
    let link = link_of(edit, index, operand)?;
    let result = edit.result_ty(index)?.clone();
    if edit.ty(edit.input(index, operand)?)?.shape != result.shape {
        return declined("another operand determines the shape of the result");
    }
    let source = edit.input(link, 0)?;
    let map = AxisMap::of_chain(edit, source, &[link])?;
    let node = edit.node(index).clone();
    let mut op = Op::of(&node, Vec::new());
    if node.op == OpType::Softmax {
        op = op.attr("axis", map.axis_before(edit.axis(index)?)? as i64);
    }
    let inverse = map.inverse();
    let arrays = arrays(&node);
    for (other, value) in edit.inputs(index).into_iter().enumerate() {
        op.inputs.push(match value {
            Some(_) if other == operand => Some(source),
            Some(value) if other < arrays => {
                let Some(steps) = plan_if_free(edit, &inverse, value) else {
                    return declined("another operand would need the layout op instead");
                };
                let value = emit(edit, &[link], value, &steps).ok()?;
                Some(without_leading_ones(edit, value))
            }
            _ => value,
        });
    }
    let before = edit.insert_for(&[link], op);
    let op = edit.op_with(link, 0, before);
    edit.done(&[link], op)
}

/// Returns the nodes that apply a map to an operand. `None` if they would move elements at run time.
fn plan_if_free(edit: &Edit<'_>, map: &AxisMap, operand: ValueId) -> Option<Vec<Step>> {
    let shape = edit.shape(operand)?;
    let steps = map.on_operand(shape)?.steps()?;
    let is_free = matches!(&steps[..], [] | [Step::Reshape(_)]) || edit.tensor(operand).is_some();
    plan(shape, steps).filter(|_| is_free)
}

/// Drops the leading unit axes of a constant.
fn without_leading_ones(patch: &mut Patch<'_, '_>, value: ValueId) -> ValueId {
    let Some(tensor) = patch.tensor(value) else { return value };
    let ones = tensor.shape.iter().take_while(|&&size| size == 1).count();
    if ones == 0 {
        return value;
    }
    let lower = tensor.with_shape(tensor.shape[ones..].to_vec());
    patch.constant_for(&[], lower, &[value])
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check, each};

    #[test]
    fn a_bias_is_added_before_the_columns_are_taken_apart() {
        check(
            each(super::run),
            "graph g(x:f32[B,2], w:f32[2,4]) -> (y)
%0:f32[B,4] = MatMul(x, w)
%1:f32[B,2,2] = Reshape(%0, [-1, 2, 2]:i64)
y:f32[B,2,2] = Add(%1, [[[1.0, 2.0], [3.0, 4.0]]])",
            expect![[r#"
                graph g(x:f32[B,2], w:f32[2,4]) -> (y)
                %0 = MatMul(x, w)  # 2
                %1 = Reshape(%0, [-1, 2, 2]:i64)  # 3
                %2 = Add(%0, [1.0, 2.0, 3.0, 4.0])  # 4 3
                y:f32[B,2,2] = Reshape(%2, [-1, 2, 2]:i64)  # 3 4
            "#]],
        );
    }

    #[test]
    fn a_transpose_sinks_through_a_softmax_to_its_inverse() {
        check(
            each(super::run),
            "graph g(x:f32[2,3,4], m:bool[4,1,3]) -> (y)
%0:f32[2,3,4] = Tanh(x)
%1:f32[4,2,3] = Transpose(%0) {perm=[2, 0, 1]}
%2:f32[4,2,3] = Mul(%1, 0.5)
%3:f32[4,2,3] = Where([[[true, false, true]]], %2, -1.0)
%4:f32[4,2,3] = Softmax(%3) {axis=2}
y:f32[2,3,4] = Transpose(%4) {perm=[1, 2, 0]}",
            expect![[r#"
                graph g(x:f32[2,3,4], m:bool[4,1,3]) -> (y)
                %0 = Tanh(x)  # 2
                %1 = Transpose(%0) {perm=[2, 0, 1]}  # 3
                %2 = Mul(%0, 0.5)  # 4 3
                %3 = Transpose(%2) {perm=[2, 0, 1]}  # 3 4
                %4 = Where([[true], [false], [true]], %2, -1.0)  # 5 3 4
                %5 = Transpose(%4) {perm=[2, 0, 1]}  # 3 4 5
                %6 = Softmax(%4) {axis=1}  # 6 3 4 5
                %7 = Transpose(%6) {perm=[2, 0, 1]}  # 3 4 5 6
                y:f32[2,3,4] = Transpose(%7) {perm=[1, 2, 0]}  # 7
            "#]],
        );
    }

    #[test]
    fn a_softmax_over_joined_axes_is_not_passed() {
        check(
            each(super::run),
            "graph g(x:f32[2,3,4]) -> (y)
%0:f32[2,12] = Reshape(x, [2, 12]:i64)
%1:f32[2,12] = Softmax(%0) {axis=1}
y:f32[12,2] = Transpose(%1) {perm=[1, 0]}",
            expect![[r#"
                graph g(x:f32[2,3,4]) -> (y)
                %0 = Reshape(x, [2, 12]:i64)  # 2
                %1 = Softmax(%0) {axis=1}  # 3
                y:f32[12,2] = Transpose(%1) {perm=[1, 0]}  # 4
            "#]],
        );
    }

    #[test]
    fn limits_of_a_clip_stay_single_numbers() {
        check(
            each(super::run),
            "graph g(n:i32[1], high:i32[1], x:f32[2,3], low:f32[]) -> (y, z)
%0:i32[] = Squeeze(high, [0]:i64)
%1:i32[] = Clip(3:i32, 0:i32, %0)
y:i32[1] = Unsqueeze(%1, [0]:i64)
%2:f32[3,2] = Transpose(x) {perm=[1, 0]}
%3:f32[3,2] = Clip(%2, low, 1.0)
z:f32[2,3] = Transpose(%3) {perm=[1, 0]}",
            expect![[r#"
                graph g(n:i32[1], high:i32[1], x:f32[2,3], low:f32[]) -> (y, z)
                %0 = Squeeze(high, [0]:i64)  # 2
                %1 = Clip(3:i32, 0:i32, %0)  # 3
                y:i32[1] = Unsqueeze(%1, [0]:i64)  # 4
                %2 = Transpose(x) {perm=[1, 0]}  # 5
                %3 = Clip(x, low, 1.0)  # 6 5
                %4 = Transpose(%3) {perm=[1, 0]}  # 5 6
                z:f32[2,3] = Transpose(%4) {perm=[1, 0]}  # 7
            "#]],
        );
    }

    #[test]
    fn a_transpose_that_meets_no_layout_op_stays() {
        check(
            each(super::run),
            "graph g(x:f32[2,3]) -> (y)
%0:f32[3,2] = Transpose(x) {perm=[1, 0]}
y:f32[3,2] = Mul(%0, 2.0)",
            expect![[r#"
                graph g(x:f32[2,3]) -> (y)
                %0 = Transpose(x) {perm=[1, 0]}  # 2
                y:f32[3,2] = Mul(%0, 2.0)  # 3
            "#]],
        );
    }
}
