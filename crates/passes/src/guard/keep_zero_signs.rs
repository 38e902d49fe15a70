//! `keep-zero-signs`: restores the sign of zero if a reader depends on it.
//!
//! In JAX, `max(−0, 0)` is `0` and `min(−0, 0)` is `−0`. In ONNX Runtime, `Max` and `Min` return either zero, and `Relu` and
//! `Clip` return the operand. `Where` returns `0` for a `−0` whose condition is true. JAX begins sums with `0`, and ONNX
//! Runtime begins them with the first element. Most readers do not depend on the sign of zero, but a quotient does.

use algebra::rewrite::require;
use onnx::operator::properties::BLIND_TO_ZERO_SIGNS;
use onnx::{
    DType, Dim, Edit, Expr, Function, Graph, Model, Node, Op, OpType, Outcome, Patch, Type, ValueId,
};
use rustc_hash::FxHashSet;

pub(crate) fn run(model: &mut Model) {
    if !model.target.includes_onnxruntime() {
        return;
    }
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
            edit.patch(index, merge_abs);
        }
        edit.drop_unread();
    });
}

/// Returns the values with readers that may depend on the sign of zero. Outputs of the model do not count, because users
/// compare them as numbers.
pub(crate) fn observed(model: &Model) -> FxHashSet<ValueId> {
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

/// Adds the operands of a node for which the sign of zero matters.
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
            // The outputs of an iteration are inputs of the next one.
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
        if is_read || node.op.name() != "LinearAttention" {
            add(&inputs);
        }
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
        OpType::ReduceSum | OpType::ReduceMean if starts_at_zero(model, node) => {}
        // The maximum of 0 and either zero is 0.
        OpType::Relu => {}
        OpType::Max if has_floor(0) || has_floor(1) => {}
        OpType::Clip if has_floor(1) => {}
        OpType::Add | OpType::Sub if has_no_zero(0) || has_no_zero(1) => {}
        _ => add(&inputs),
    }
}

/// True if `keep_zero_of_sum` makes sure that a sum is never `−0`.
fn starts_at_zero(model: &Model, node: &Node) -> bool {
    let ty = |value: ValueId| model.values[value].ty.as_ref();
    let x = node.inputs.first().copied().flatten().and_then(ty);
    let result = node.outputs.first().copied().and_then(ty);
    x.zip(result).is_some_and(|(x, result)| adds_elements(x, result))
}

/// True if a sum over elements of `x` has more than one term, in a type with kernels. XLA copies a single term.
fn adds_elements(x: &Type, result: &Type) -> bool {
    let long = |ty: &Type| -> Vec<Dim> {
        ty.shape.iter().filter(|size| **size != Dim::Known(1)).cloned().collect()
    };
    matches!(x.dtype, DType::F32 | DType::F64) && long(x) != long(result)
}

fn keep(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let op = edit.op(index)?;
    let result = edit.ty(*edit.node(index).outputs.first()?)?.clone();
    if !result.dtype.is_float() {
        return None;
    }
    let operands = (0..edit.node(index).inputs.len()).map(|operand| edit.input(index, operand));
    let operands: Vec<ValueId> = operands.collect::<Option<_>>()?;
    match (op, &operands[..]) {
        (OpType::Where, &[condition, x, y]) => keep_choice(edit, [condition, x, y]),
        (OpType::Selu, &[x]) => keep_zero_of_selu(edit, x),
        (OpType::Add, &[x, y]) => keep_added_zero(edit, [x, y]),
        (OpType::CumSum, &[x, axis]) => {
            let summed = edit.tensor(axis)?.ints()?.first().copied();
            let size = summed.and_then(|axis| result.shape.get(usize::try_from(axis).ok()?));
            require(size != Some(&Dim::Known(1)))?;
            keep_zero_of_sum(edit, x)
        }
        (OpType::ReduceSum | OpType::ReduceMean, &[x, ..]) => {
            require(adds_elements(edit.ty(x)?, &result))?;
            keep_zero_of_sum(edit, x)
        }
        (OpType::Relu, &[x]) => {
            let made = edit.formula([x], |[x]| within(x, |x| x.binary(OpType::Max, 0.0).abs()));
            edit.settle(made)
        }
        (OpType::Max | OpType::Min, &[x, y]) => keep_extreme(edit, op, [x, y]),
        (OpType::Clip, &[x, low, high]) => keep_clipped(edit, [x, low, high]),
        _ => None,
    }
}

fn keep_extreme(edit: &mut Patch<'_, '_>, op: OpType, operands: [ValueId; 2]) -> Outcome {
    let [of_x, of_y] = operands.map(|operand| Zeros::of(edit, operand));
    let may_be_negative = operands.iter().any(|&operand| edit.fact(operand).may_be_negative_zero());
    if of_x == Zeros::None || of_y == Zeros::None || !may_be_negative {
        return None;
    }
    let made = edit.formula(operands, |[x, y]| {
        within(x, |x| extreme(op, (x, of_x), (y.cast(x.dtype()), of_y)))
    });
    edit.settle(made)
}

fn keep_clipped(edit: &mut Patch<'_, '_>, operands: [ValueId; 3]) -> Outcome {
    let [of_x, of_low, of_high] = operands.map(|operand| Zeros::of(edit, operand));
    if of_low == Zeros::None && of_high == Zeros::None {
        return None;
    }
    let made = edit.formula(operands, |[x, low, high]| {
        within(x, |x| {
            let [low, high] = [low, high].map(|limit| limit.cast(x.dtype()));
            let raised = extreme(OpType::Max, (x, of_x), (low, of_low));
            extreme(OpType::Min, (raised, Zeros::Any), (high, of_high))
        })
    });
    edit.settle(made)
}

/// Computes a formula in a type for which ONNX Runtime has all kernels, and casts the result back.
fn within<'g>(x: Expr<'g>, formula: impl FnOnce(Expr<'g>) -> Expr<'g>) -> Expr<'g> {
    let wide = if x.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
    formula(x.cast(wide)).cast_exactly(x.dtype())
}

/// Rewrites a choice so that no `−0` has a true condition.
fn keep_choice(edit: &mut Patch<'_, '_>, [condition, x, y]: [ValueId; 3]) -> Outcome {
    if !edit.fact(x).may_be_negative_zero() || excludes_zero(edit, condition, x) {
        return None;
    }
    let y_may_be_negative_zero = edit.fact(y).may_be_negative_zero();
    let made = edit.formula([condition, x, y], |[condition, x, y]| {
        // ONNX Runtime would drop a `Not`, and swap the operands again.
        let fails = condition.equal(0.0);
        if !y_may_be_negative_zero {
            return fails.select(y, x);
        }
        fails.select(x.constant(1.0), x) * condition.select(y.constant(1.0), y)
    });
    edit.settle(made)
}

/// Adds a zero as `0 − (−x)`. ONNX Runtime would drop `x + 0`, which is `0` if `x` is `−0`.
fn keep_added_zero(edit: &mut Patch<'_, '_>, operands: [ValueId; 2]) -> Outcome {
    let is_zero = |value: &ValueId| Zeros::of(edit, *value) == Zeros::All;
    let place = operands.iter().position(is_zero)?;
    let (x, zero) = (operands[1 - place], operands[place]);
    require(edit.fact(x).may_be_negative_zero())?;
    let made = edit.formula([x, zero], |[x, zero]| zero - -x);
    edit.settle(made)
}

/// Returns the operand if it is a zero. `Selu` of ONNX Runtime returns `0` for both zeros.
fn keep_zero_of_selu(edit: &mut Patch<'_, '_>, x: ValueId) -> Outcome {
    let selu = Op::of(edit.node(edit.root()), vec![Some(x)]);
    let selu = edit.insert(selu);
    let made = edit.formula([x, selu], |[x, selu]| x.abs().greater(0.0).select(selu, x));
    edit.settle(made)
}

/// Returns `0` for a sum or a mean whose terms are all `−0`, as JAX does: `0 − (−s)`. ONNX Runtime would drop `0 + s`.
fn keep_zero_of_sum(edit: &mut Patch<'_, '_>, x: ValueId) -> Outcome {
    require(edit.fact(x).may_be_negative_zero())?;
    let node = edit.node(edit.root());
    let sum = Op::of(node, node.inputs.to_vec());
    let sum = edit.insert(sum);
    let made = edit.formula([sum], |[sum]| 0.0 - -sum);
    edit.settle(made)
}

/// True if a condition is false for zeros: `x > 0` or `x < 0`.
fn excludes_zero(edit: &Edit<'_>, condition: ValueId, x: ValueId) -> bool {
    let Some(index) = edit.producer(condition) else { return false };
    let is_strict = edit.node(index).op.is_one_of(&[OpType::Greater, OpType::Less]);
    let operand = |number: usize| edit.input(index, number);
    let is_zero = |number| operand(number).and_then(|zero| edit.number(zero)) == Some(0.0);
    let is_x = |number| operand(number) == Some(x);
    is_strict && ((is_x(0) && is_zero(1)) || (is_zero(0) && is_x(1)))
}

/// True if the value is a constant without zeros, or a choice between such constants.
fn has_no_zero(edit: &Edit<'_>, value: ValueId) -> bool {
    let is_without_zero = |value: ValueId| {
        edit.tensor(value).is_some_and(|tensor| tensor.all_floats(|number| number != 0.0))
    };
    match edit.made_by(value, OpType::Where) {
        Some(choice) => [1, 2]
            .map(|side| edit.input(choice, side))
            .into_iter()
            .all(|side| side.is_some_and(is_without_zero)),
        None => is_without_zero(value),
    }
}

/// Rewrites `|x| · |y|` to `|x · y|`, and `|x| / |y|` to `|x / y|`.
fn merge_abs(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let node = edit.node(index);
    let (op, ty) = (node.op.onnx()?, edit.ty(*node.outputs.first()?)?);
    require(matches!(op, OpType::Mul | OpType::Div) && ty.dtype.is_float())?;
    let abs_of = |operand: usize| {
        let value = edit.input(index, operand).filter(|&value| edit.reads(value) == 1)?;
        edit.made_by(value, OpType::Abs)
    };
    let both = [abs_of(0)?, abs_of(1)?];
    let [x, y] = both.map(|abs| edit.input(abs, 0));
    let signed = edit.insert(Op::new(op, &[x?, y?]));
    edit.done(&both, Op::new(OpType::Abs, &[signed]))
}

/// The zeros among the elements of a value.
#[derive(Clone, Copy, PartialEq)]
enum Zeros {
    None,
    /// Every element is `0`.
    All,
    Any,
}

impl Zeros {
    fn of(edit: &Edit<'_>, value: ValueId) -> Zeros {
        if has_no_zero(edit, value) {
            return Zeros::None;
        }
        if edit.number(value).is_some_and(f64::is_sign_positive) { Zeros::All } else { Zeros::Any }
    }
}

/// Returns the larger or the smaller operand, with the zero that JAX chooses.
fn extreme<'g>(op: OpType, x: (Expr<'g>, Zeros), y: (Expr<'g>, Zeros)) -> Expr<'g> {
    let plain = || x.0.binary(op, y.0);
    match (x, y) {
        ((_, Zeros::None), _) | (_, (_, Zeros::None)) => plain(),
        // No result is negative, so `Abs` changes only `−0`.
        ((_, Zeros::All), _) | (_, (_, Zeros::All)) if op == OpType::Max => plain().abs(),
        // `Where` returns `0` for a `−0` whose condition is true.
        ((x, _), (zero, Zeros::All)) | ((zero, Zeros::All), (x, _)) => {
            x.greater(zero).select(zero, x)
        }
        ((x, _), (y, _)) => {
            let joins = if op == OpType::Max { OpType::And } else { OpType::Or };
            let is_below = has_sign(x).binary(joins, has_sign(y));
            plain().abs() * is_below.select(x.constant(-1.0), 1.0)
        }
    }
}

/// Tests the sign bit: true for negative numbers and `−0`.
fn has_sign(x: Expr<'_>) -> Expr<'_> {
    x.binary(OpType::Max, -1.0).recip().less(0.0)
}

#[cfg(test)]
mod tests;
