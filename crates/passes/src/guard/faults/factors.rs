//! Faults of products and quotients with constants: see [`FAULTS`](super::FAULTS).

use algebra::axis_map::{Step, emit_after};
use algebra::rewrite::require;
use onnx::{DType, Edit, Op, OpType, Outcome, Patch, ValueId};

use super::{Present, is_read_by_another, number, separate};

pub(super) fn number_of_high_rank(edit: &mut Patch<'_, '_>, index: usize, _: Present) -> Outcome {
    require(edit.node(index).op == OpType::Mul || edit.node(index).op == OpType::Div)?;
    let operands = [edit.input(index, 0)?, edit.input(index, 1)?];
    let place = operands.iter().position(|&value| number(edit, value).is_some())?;
    let (tensor, x) = (number(edit, operands[place])?, operands[1 - place]);
    let before = edit.ty(x)?.clone();
    require(tensor.shape.len() > before.rank())?;
    let scalar = tensor.with_shape(Vec::new());
    let result = edit.result_ty(index)?.clone();
    let back = [Step::Reshape(result.shape.to_vec())];
    let scalar = edit.constant(scalar, &[operands[place]]);
    let op = emit_after(edit, edit.op_with(index, place, scalar), &back);
    edit.settle(op)
}

pub(super) fn infinite_factor(edit: &mut Patch<'_, '_>, index: usize, present: Present) -> Outcome {
    let is_quotient = edit.node(index).op == OpType::Div;
    let is_finite = |factor: &f64| if is_quotient { 1.0 / factor } else { *factor }.is_finite();
    require(present.products && !factors(edit, index).iter().all(is_finite))?;
    if !is_read_by_another(edit, index, &[OpType::MatMul]) {
        return separate(edit, index);
    }
    let may_be_product = |value: ValueId| match edit.producer(value) {
        Some(producer) => {
            let op = &edit.node(producer).op;
            *op == OpType::MatMul || !op.is_onnx()
        }
        None => present.calls && edit.tensor(value).is_none(),
    };
    let operands = [edit.input(index, 0)?, edit.input(index, 1)?];
    let place = operands.iter().position(|&value| may_be_product(value))?;
    let product = operands[place];
    let apart = edit.insert(Op::new(OpType::Max, &[product]));
    let op = edit.op_with(index, place, apart);
    edit.done(&[], op)
}

pub(super) fn rounded_factor(edit: &mut Patch<'_, '_>, index: usize, present: Present) -> Outcome {
    let is_product = edit.node(index).op == OpType::MatMul;
    let is_double = edit.dtype(*edit.node(index).outputs.first()?)? == DType::F64;
    require(present.products && is_double && (is_product || has_rounded_factor(edit, index)))?;
    let completes_form = |producer: usize| match is_product {
        true => has_rounded_factor(edit, producer),
        false => edit.node(producer).op == OpType::MatMul,
    };
    // ONNX Runtime inlines calls, so an operand or a result of a function may complete the pattern.
    let is_apart = |value: ValueId| match edit.producer(value) {
        Some(producer) if edit.node(producer).op.is_onnx() => !completes_form(producer),
        Some(_) => false,
        None => !present.calls,
    };
    let operands = [edit.input(index, 0)?, edit.input(index, 1)?];
    let place = operands.iter().position(|&x| edit.tensor(x).is_none() && !is_apart(x))?;
    let apart = edit.insert(Op::new(OpType::Max, &[operands[place]]));
    let op = edit.op_with(index, place, apart);
    edit.done(&[], op)
}

/// Returns the numbers by which a node multiplies or divides.
fn factors(edit: &Edit<'_>, index: usize) -> Vec<f64> {
    let operands = match edit.op(index) {
        Some(OpType::Mul) => 0..2,
        Some(OpType::Div) => 1..2,
        _ => 0..0,
    };
    let factor = |operand| number(edit, edit.input(index, operand)?)?.floats()?.first().copied();
    operands.filter_map(factor).collect()
}

/// True if a node multiplies or divides by a number that float32 does not represent exactly.
fn has_rounded_factor(edit: &Edit<'_>, index: usize) -> bool {
    let is_quotient = edit.node(index).op == OpType::Div;
    let is_exact = |number: f64| f64::from(number as f32) == number;
    let is_rounded = |&factor: &f64| !is_exact(factor) || is_quotient && !is_exact(1.0 / factor);
    factors(edit, index).iter().any(is_rounded)
}
