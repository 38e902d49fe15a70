//! `keep-zero-signs`: the zero that JAX chooses of two, where something tells them apart.
//!
//! In JAX `max(−0, 0)` is `0` and `min(−0, 0)` is `−0`. ONNX Runtime's `Max` and `Min` return either, its
//! `Relu` and `Clip` return the operand. Its `Where` returns `0` for a `−0` that is chosen where the condition
//! holds. JAX begins running sums with `0`, and ONNX Runtime begins them with the first element. Most readers do not
//! tell the zeros apart; a quotient does.

use onnx::operator::properties::BLIND_TO_ZERO_SIGNS;
use onnx::{
    DType, Dim, Edit, Function, Graph, Model, Node, Op, OpType, Outcome, Patch, Tensor, Type,
    ValueId,
};
use rustc_hash::FxHashSet;

use crate::algebra::access::Access;
use crate::algebra::pattern::uniform;
use crate::rewrite::require;

pub(crate) fn run(model: &mut Model) {
    let observed = observed(model);
    if observed.is_empty() {
        return;
    }
    model.edit(&mut |edit| {
        for index in 0..edit.len() {
            let result = edit.node(index).outputs.first();
            if result.is_some_and(|result| observed.contains(result)) {
                edit.patch(index, keep);
            }
        }
        for index in edit.nodes() {
            edit.patch(index, size_once);
        }
        edit.drop_unread();
    });
}

/// The values of which something may tell a zero from the other. Results of the model are compared as
/// numbers, and not by their bits.
fn observed(model: &Model) -> FxHashSet<ValueId> {
    let graphs = model.graphs();
    let mut observed = FxHashSet::default();
    loop {
        let before = observed.len();
        for graph in &graphs {
            for node in graph.nodes.iter().rev() {
                observe(model, node, &mut observed);
            }
        }
        if observed.len() == before {
            return observed;
        }
    }
}

/// Adds the operands of a node in which the sign of a zero matters.
fn observe(model: &Model, node: &Node, observed: &mut FxHashSet<ValueId>) {
    let is_read = node.outputs.iter().any(|output| observed.contains(output));
    let is_float =
        |value: &ValueId| model.values[*value].ty.as_ref().is_none_or(|ty| ty.dtype.is_float());
    let mut add = |values: &[ValueId]| observed.extend(values.iter().filter(|id| is_float(id)));
    let inputs: Vec<ValueId> = node.inputs.iter().flatten().copied().collect();
    let is_called = |function: &&Function| !node.op.is_onnx() && function.operator() == node.op;
    let function = model.functions.iter().find(is_called);
    let bodies: Vec<&Graph> =
        node.bodies().chain(function.map(|function| &function.body)).collect();
    if !bodies.is_empty() {
        if is_read {
            for body in &bodies {
                add(&body.outputs);
            }
        }
        let enters = |body: &&Graph| body.inputs.iter().any(|input| observed.contains(input));
        if bodies.iter().any(enters) {
            // What a loop carries out of a round enters the next.
            observed.extend(bodies.iter().flat_map(|body| &body.outputs).filter(|id| is_float(id)));
            observed.extend(inputs.iter().filter(|id| is_float(id)));
        }
        return;
    }
    let number = |operand: usize| model.values[*inputs.get(operand)?].tensor.as_ref()?.floats();
    let has_no_zero = |operand| {
        number(operand).is_some_and(|numbers| numbers.iter().all(|&number| number != 0.0))
    };
    let has_floor = |operand| {
        number(operand).is_some_and(|numbers| numbers.iter().all(|x| x.is_sign_positive()))
    };
    let Some(op) = node.op.onnx() else {
        add(&inputs);
        return;
    };
    match op {
        OpType::Reciprocal | OpType::BitCast => add(&inputs),
        OpType::Div => add(&inputs[usize::from(!is_read)..]),
        OpType::Pow => {
            let is_positive = |numbers: Vec<f64>| numbers.iter().all(|&number| number > 0.0);
            if is_read || !number(1).is_some_and(is_positive) {
                add(&inputs[..1]);
            }
        }
        _ if !is_read || op.is(BLIND_TO_ZERO_SIGNS) => {}
        // The larger of a number and 0 is 0 for both zeros.
        OpType::Relu => {}
        OpType::Max if has_floor(0) || has_floor(1) => {}
        OpType::Clip if has_floor(1) => {}
        OpType::Add | OpType::Sub if has_no_zero(0) || has_no_zero(1) => {}
        _ => add(&inputs),
    }
}

fn keep(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let (kind, count) = (edit.node(index).op.onnx()?, edit.node(index).inputs.len());
    let result = edit.result_ty(index)?.clone();
    let operands = (0..count).map(|operand| edit.input(index, operand));
    let operands: Vec<ValueId> = operands.collect::<Option<_>>()?;
    let mut has_zeros = operands.iter().map(|&operand| !has_no_zero(edit, operand));
    if kind == OpType::Where && result.dtype.is_float() {
        return keep_choice(edit, operands[..].try_into().ok()?, &result);
    }
    if kind == OpType::Selu {
        return keep_zero_of_selu(edit, operands[0], &result);
    }
    if kind == OpType::CumSum && result.dtype.is_float() {
        return keep_zero_of_sums(edit, operands[0], operands[1], &result);
    }
    let may_differ = match (kind, count) {
        (OpType::Relu, 1) => true,
        (OpType::Max | OpType::Min, 2) => has_zeros.all(|may| may),
        (OpType::Clip, 3) => has_zeros.skip(1).any(|may| may),
        _ => false,
    };
    require(may_differ && result.dtype.is_float())?;
    // The runtime has no `Where` of narrower floats.
    let dtype = if result.dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let ty = Type::new(dtype, result.shape.clone());
    let wide = operands.iter().map(|&operand| widened(edit, operand, dtype));
    let wide: Vec<ValueId> = wide.collect::<Option<_>>()?;
    let op = match wide[..] {
        [x] => {
            let zero = number(edit, dtype, 0.0)?;
            exact(edit, OpType::Max, [x, zero], &ty)?
        }
        [x, low, high] => {
            let raised = exact(edit, OpType::Max, [x, low], &ty)
                .unwrap_or_else(|| Op::new(OpType::Max, &[x, low]));
            let raised = edit.insert(raised);
            exact(edit, OpType::Min, [raised, high], &ty)
                .unwrap_or_else(|| Op::new(OpType::Min, &[raised, high]))
        }
        [x, y] => exact(edit, kind, [x, y], &ty)?,
        _ => return None,
    };
    if dtype == result.dtype {
        edit.done(&[], op)
    } else {
        let chosen = edit.insert(op);
        let to = i64::from(result.dtype.code());
        edit.done(&[], Op::new(OpType::Cast, &[chosen]).attr("to", to))
    }
}

/// Writes a choice so that no `−0` is chosen where a condition holds.
fn keep_choice(
    edit: &mut Patch<'_, '_>,
    [condition, x, y]: [ValueId; 3],
    result: &Type,
) -> Outcome {
    require(edit.fact(x).may_be_negative_zero() && !excludes_zero(edit, condition, x))?;
    // ONNX Runtime would drop a `Not`, and exchange the operands again.
    let unset = Tensor::of_ints(DType::Bool, Vec::new(), &[0])?;
    let unset = edit.constant(unset, &[]);
    let fails = edit.insert(Op::new(OpType::Equal, &[condition, unset]));
    if !edit.fact(y).may_be_negative_zero() {
        return edit.done(&[], Op::new(OpType::Where, &[fails, y, x]));
    }
    let one = number(edit, result.dtype, 1.0)?;
    let x_or_one = Op::new(OpType::Where, &[fails, one, x]);
    let x_or_one = edit.insert(x_or_one);
    let y_or_one = Op::new(OpType::Where, &[condition, one, y]);
    let y_or_one = edit.insert(y_or_one);
    edit.done(&[], Op::new(OpType::Mul, &[x_or_one, y_or_one]))
}

/// Chooses the operand where it is a zero. ONNX Runtime's `Selu` makes both zeros `0`.
fn keep_zero_of_selu(edit: &mut Patch<'_, '_>, x: ValueId, ty: &Type) -> Outcome {
    let selu = Op::of(edit.node(edit.root()), vec![Some(x)]);
    let selu = edit.insert(selu);
    let zero = number(edit, ty.dtype, 0.0)?;
    let size = edit.insert(Op::new(OpType::Abs, &[x]));
    let is_other = edit.insert(Op::new(OpType::Greater, &[size, zero]));
    edit.done(&[], Op::new(OpType::Where, &[is_other, selu, x]))
}

/// Begins running sums with `0`, as JAX does for more than one element: `0 − Σ −x`. ONNX Runtime would drop `0 + x`.
fn keep_zero_of_sums(edit: &mut Patch<'_, '_>, x: ValueId, axis: ValueId, ty: &Type) -> Outcome {
    let summed = edit.tensor(axis)?.ints()?.first().copied();
    let size = summed.and_then(|axis| ty.shape.get(usize::try_from(axis).ok()?));
    require(size != Some(&Dim::Known(1)) && edit.fact(x).may_be_negative_zero())?;
    let negative = edit.insert(Op::new(OpType::Neg, &[x]));
    let sums = Op::of(edit.node(edit.root()), vec![Some(negative), Some(axis)]);
    let sums = edit.insert(sums);
    let zero = number(edit, ty.dtype, 0.0)?;
    edit.done(&[], Op::new(OpType::Sub, &[zero, sums]))
}

/// True if a condition holds for no zero: `x > 0` or `x < 0`.
fn excludes_zero(edit: &Edit<'_>, condition: ValueId, x: ValueId) -> bool {
    let Some(index) = edit.producer(condition) else { return false };
    let is_strict = edit.node(index).op.is_one_of(&[OpType::Greater, OpType::Less]);
    let is_zero = |number: usize| {
        let zero = edit.input(index, number).and_then(|zero| edit.tensor(zero)).and_then(uniform);
        zero == Some(0.0)
    };
    let is_x = |number: usize| edit.input(index, number) == Some(x);
    is_strict && ((is_x(0) && is_zero(1)) || (is_zero(0) && is_x(1)))
}

/// Casts a value to a type that has all its numbers; of a constant, returns another constant.
fn widened(edit: &mut Patch<'_, '_>, value: ValueId, dtype: DType) -> Option<ValueId> {
    let ty = edit.ty(value)?.clone();
    if ty.dtype == dtype {
        return Some(value);
    }
    if let Some(tensor) = edit.tensor(value) {
        let wide = Tensor::of_floats(dtype, tensor.shape.clone(), &tensor.floats()?)?;
        return Some(edit.constant(wide, &[value]));
    }
    let cast = Op::new(OpType::Cast, &[value]).attr("to", i64::from(dtype.code()));
    Some(edit.insert(cast))
}

fn number(edit: &mut Patch<'_, '_>, dtype: DType, value: f64) -> Option<ValueId> {
    let number = Tensor::of_floats(dtype, Vec::new(), &[value])?;
    Some(edit.constant(number, &[]))
}

/// True if the value is a constant without zeros, or a choice between such constants.
fn has_no_zero(edit: &Edit<'_>, value: ValueId) -> bool {
    let choice = edit.made_by(value, OpType::Where);
    if let Some(choice) = choice {
        let is_constant = |id: &ValueId| edit.tensor(*id).is_some();
        let chosen = [1, 2].map(|operand| edit.input(choice, operand).filter(is_constant));
        return chosen.into_iter().all(|id| id.is_some_and(|id| has_no_zero(edit, id)));
    }
    edit.tensor(value).is_some_and(|tensor| tensor.all_floats(|number| number != 0.0))
}

/// The larger or the smaller with the zero of JAX. `None` where the operator alone has that.
fn exact(edit: &mut Patch<'_, '_>, op: OpType, operands: [ValueId; 2], ty: &Type) -> Option<Op> {
    require(!operands.iter().any(|&operand| has_no_zero(edit, operand)))?;
    let [a, b] = operands;
    for (x, constant) in [(a, b), (b, a)] {
        let zero = edit.number(constant);
        if zero.is_none_or(f64::is_sign_negative) {
            continue;
        }
        if op == OpType::Max {
            // No result is below 0, so `Abs` changes only `−0`.
            let plain = edit.insert(Op::new(op, &[x, constant]));
            return Some(Op::new(OpType::Abs, &[plain]));
        }
        // Of what is chosen where the flag is set, `Where` loses the sign of a zero.
        let is_beyond = edit.insert(Op::new(OpType::Greater, &[x, constant]));
        return Some(Op::new(OpType::Where, &[is_beyond, constant, x]));
    }
    let (a, b) = (is_negative(edit, a)?, is_negative(edit, b)?);
    let joined = Op::new(if op == OpType::Max { OpType::And } else { OpType::Or }, &[a, b]);
    let is_below = edit.insert(joined);
    let [minus_one, one] = [-1.0, 1.0].map(|value| number(edit, ty.dtype, value));
    let sign = Op::new(OpType::Where, &[is_below, minus_one?, one?]);
    let sign = edit.insert(sign);
    let plain = edit.insert(Op::new(op, &operands));
    let size = edit.insert(Op::new(OpType::Abs, &[plain]));
    Some(Op::new(OpType::Mul, &[size, sign]))
}

/// Writes the product or the quotient of two absolute values as the absolute value of one: `|x| · |y| = |x · y|`.
fn size_once(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let node = edit.node(index);
    let (op, ty) = (node.op.onnx()?, edit.ty(*node.outputs.first()?)?.clone());
    require(matches!(op, OpType::Mul | OpType::Div) && ty.dtype.is_float())?;
    let size_of = |operand: usize| {
        let value = edit.input(index, operand).filter(|&value| edit.reads(value) == 1)?;
        edit.made_by(value, OpType::Abs)
    };
    let sizes = [size_of(0)?, size_of(1)?];
    let [x, y] = sizes.map(|size| edit.input(size, 0));
    let whole = edit.insert(Op::new(op, &[x?, y?]));
    edit.done(&sizes, Op::new(OpType::Abs, &[whole]))
}

/// Whether a number is below zero, or the zero that is: `1 / max(x, −1) < 0`
fn is_negative(edit: &mut Patch<'_, '_>, x: ValueId) -> Option<ValueId> {
    let ty = edit.ty(x)?.clone();
    let [minus_one, zero] = [-1.0, 0.0].map(|value| number(edit, ty.dtype, value));
    let near = edit.insert(Op::new(OpType::Max, &[x, minus_one?]));
    let inverse = edit.insert(Op::new(OpType::Reciprocal, &[near]));
    Some(edit.insert(Op::new(OpType::Less, &[inverse, zero?])))
}

#[cfg(test)]
mod tests;
