//! `sink-moves`: a move before an elementwise operator or a softmax, where it meets another after it.
//!
//! `f(move(x), y) = move(f(x, move⁻¹(y)))` where `y` can be moved back: a constant, or one that only
//! changes its shape. The bias that follows a product is added before its columns are taken apart, so
//! that the runtime finds the two side by side.

use onnx::{Attr, Edit, Op, OpType, Tensor, Type, ValueId};

use super::{Move, Step, emit, is_move, plan};
use crate::access::Access;
use crate::operators::{BROADCASTING, ELEMENTWISE};

/// How far it is looked for a move to meet.
const FARTHEST: usize = 8;

pub(crate) fn run(edit: &mut Edit<'_>) {
    for index in 0..edit.len() {
        if !lets_through(edit, index) {
            continue;
        }
        // The condition of a choice comes last: it is what can be moved back.
        for operand in (0..arrays(edit, index)).rev() {
            let may = moved_by(edit, index, operand).is_some() && is_worth_it(edit, index, operand);
            if may && sink(edit, index, operand).is_some() {
                break;
            }
        }
    }
}

fn lets_through(edit: &Edit<'_>, index: usize) -> bool {
    let node = edit.node(index);
    let is_known = node.op.is_one_of(ELEMENTWISE)
        || node.op.is_one_of(BROADCASTING)
        || node.op == OpType::Softmax;
    is_known && node.outputs.len() == 1
}

/// How many operands are arrays that give the result its shape. Limits and axes behind them are single
/// numbers, which no move changes.
fn arrays(edit: &Edit<'_>, index: usize) -> usize {
    let node = edit.node(index);
    if node.op.is_one_of(BROADCASTING) { node.inputs.len() } else { 1 }
}

/// The move that makes an operand, and nothing else reads.
fn moved_by(edit: &Edit<'_>, index: usize, operand: usize) -> Option<usize> {
    let value = edit.input(index, operand)?;
    edit.producer(value).filter(|&link| is_move(edit, link) && edit.reads(value) == 1)
}

/// Whether the move meets another further on, or a product that may be written for what is transposed,
/// or stands between a product and its bias.
fn is_worth_it(edit: &Edit<'_>, index: usize, operand: usize) -> bool {
    let is_bias = || {
        let source = edit.input(moved_by(edit, index, operand)?, 0)?;
        let product = edit.producer(source).filter(|&node| edit.node(node).op == OpType::MatMul)?;
        let other = edit.input(index, 1 - operand.min(1))?;
        (edit.tensor(other).is_some() && edit.node(index).op == OpType::Add).then_some(product)
    };
    let link = moved_by(edit, index, operand);
    let is_transpose = link.is_some_and(|link| edit.node(link).op == OpType::Transpose);
    is_bias().is_some() || meets_a_move(edit, index, is_transpose)
}

fn meets_a_move(edit: &Edit<'_>, mut index: usize, or_product: bool) -> bool {
    for _ in 0..FARTHEST {
        let Some(reader) = edit.sole_reader(edit.node(index).outputs[0]) else {
            return false;
        };
        if is_move(edit, reader) || (or_product && edit.node(reader).op == OpType::MatMul) {
            return true;
        }
        if !lets_through(edit, reader) {
            return false;
        }
        index = reader;
    }
    false
}

fn sink(edit: &mut Edit<'_>, index: usize, operand: usize) -> Option<()> {
    let link = moved_by(edit, index, operand)?;
    let moved = edit.ty(edit.input(index, operand)?)?.clone();
    let result = edit.ty(edit.node(index).outputs[0])?.clone();
    if moved.shape != result.shape {
        return None;
    }
    let source = edit.input(link, 0)?;
    let shape = edit.ty(source)?.shape.clone();
    let chain = Move::none(&shape).then(edit, link)?;
    let node = edit.node(index).clone();
    let mut attrs: Vec<(&str, Attr)> =
        node.attrs.iter().map(|(name, attr)| (&**name, attr.clone())).collect();
    if node.op == OpType::Softmax {
        attrs = vec![("axis", Attr::Int(chain.axis_before(edit.axis(index)?)? as i64))];
    }
    let mut back = Vec::with_capacity(node.inputs.len());
    for other in 0..node.inputs.len() {
        let Some(value) = edit.input(index, other) else {
            back.push(None);
            continue;
        };
        if other == operand || other >= arrays(edit, index) {
            back.push(Some((value, Vec::new())));
            continue;
        }
        let shape = &edit.ty(value)?.shape;
        let steps = chain.undone_on(shape)?.steps()?;
        let is_free = match &steps[..] {
            [] | [Step::Reshape(_)] => true,
            _ => edit.tensor(value).is_some(),
        };
        let planned = plan(shape, &steps).filter(|_| is_free)?;
        back.push(Some((value, planned)));
    }
    let mut inputs = Vec::with_capacity(back.len());
    for (position, value) in back.into_iter().enumerate() {
        inputs.push(match value {
            _ if position == operand => Some(source),
            Some((value, _)) if position >= arrays(edit, index) => Some(value),
            Some((value, planned)) => {
                let moved = emit(edit, index, &[link], value, &planned)?;
                Some(without_leading_ones(edit, index, moved))
            }
            None => None,
        });
    }
    let op = Op { op: node.op.clone(), inputs, attrs };
    let before = edit.insert(index, &[link], op, Type::new(result.dtype, shape));
    let spelled = edit.node(link).clone();
    let mut inputs = spelled.inputs.to_vec();
    inputs[0] = Some(before);
    edit.rewrite(index, &[link], Op::of(&spelled, inputs));
    Some(())
}

/// A constant in the lowest rank that broadcasts the same way.
fn without_leading_ones(edit: &mut Edit<'_>, index: usize, value: ValueId) -> ValueId {
    let Some(tensor) = edit.tensor(value) else {
        return value;
    };
    let ones = tensor.shape.iter().take_while(|&&size| size == 1).count();
    if ones == 0 {
        return value;
    }
    let lower = Tensor { shape: tensor.shape[ones..].to_vec(), ..tensor.clone() };
    edit.constant(index, &[], lower, &[value])
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn a_bias_is_added_before_the_columns_are_taken_apart() {
        check(
            super::run,
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
    fn a_move_sinks_through_a_softmax_to_the_move_that_undoes_it() {
        check(
            super::run,
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
    fn a_softmax_over_what_was_joined_is_not_passed() {
        check(
            super::run,
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
            super::run,
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
    fn a_move_that_meets_none_stays() {
        check(
            super::run,
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
