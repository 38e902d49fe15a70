//! `adapt-to-device`: writes nodes for which a device has no kernel in a form that runs there.
//!
//! The runtime runs every other node on the CPU, with copies of its operands and results. Arithmetic on sizes stays
//! there: the runtime keeps sizes on the CPU by itself.

mod angles;
mod bits;
mod pool;
#[cfg(test)]
mod tests;

use onnx::kernels::{Fault, Limit};
use onnx::operator::properties::{COMPARISONS, POINTWISE, RANDOM, REDUCTIONS};
use onnx::{
    Attr, DType, Declined, Dim, Graph, Op, OpType, Outcome, Patch, Replacement, Tensor, ValueId,
};
use rustc_hash::FxHashMap;

use super::operators::Formula;
use super::{forms, operators};

/// The most nodes of a branch that is computed although its results may not be chosen.
const MAX_BRANCH: usize = 8;
/// The same for a runtime that does not take the `If`.
const MAX_NEEDED_BRANCH: usize = 256;
/// The most elements of a result of such a branch.
const MAX_CHOSEN: i64 = 1 << 20;
/// The most products of elements that are stored before they are summed.
const MAX_PRODUCTS: i64 = 1 << 22;
/// The most ones that are stored. More of them are computed when the model is loaded.
const MAX_ONES: i64 = 1 << 8;
/// The most nodes between a value and the sizes that it is computed from.
const MAX_DEPTH: usize = 12;

pub fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    edit.target().device_name()?;
    let index = edit.root();
    let op = edit.node(index).op.onnx()?;
    if op == OpType::If {
        return choice(edit);
    }
    if !edit.falls_back(index) {
        return match op {
            OpType::Slice => dynamic_slice(edit),
            OpType::Sign => sign(edit),
            OpType::LogSoftmax => log_softmax(edit),
            _ => None,
        }
        .or_else(|| own_host_operands(edit, op));
    }
    let first = edit.input(index, 0)?;
    if is_of_sizes(edit, first, MAX_DEPTH) {
        return None;
    }
    let dtype = edit.ty(first)?.dtype;
    let formula = match op {
        OpType::Clip => Some(clip(edit, first)),
        OpType::Relu if dtype.is_int() => Some(edit.formula([first], |[x]| x.max(0.0))),
        OpType::Elu | OpType::Selu | OpType::Celu | OpType::ThresholdedRelu | OpType::Tan => {
            operators::instead(edit, op, first)
        }
        OpType::Sinh => Some(edit.formula([first], |[x]| x.tanh() * cosh(x))),
        OpType::Cosh => Some(edit.formula([first], |[x]| cosh(x))),
        OpType::Atan | OpType::Asin | OpType::Acos if dtype == DType::F32 => {
            Some(edit.formula([first], |[x]| angles::inverse(op, x).unwrap_or(x)))
        }
        OpType::MatMul => product(edit, first),
        OpType::BitShift => bits::shift(edit, first),
        OpType::BitwiseAnd | OpType::BitwiseOr | OpType::BitwiseXor => {
            bits::combine(edit, op, first)
        }
        OpType::BitwiseNot if dtype.bits() <= 32 => {
            let ones =
                if dtype.is_signed_int() { -1.0 } else { (dtype.bits() as f64).exp2() - 1.0 };
            Some(edit.formula([first], |[x]| x.constant(ones) - x))
        }
        OpType::ConvTranspose => return forms::cropped(edit),
        OpType::MaxPool => pool::max(edit, first),
        OpType::InstanceNormalization => instance_norm(edit, first),
        _ => None,
    };
    match formula {
        Some(formula) => edit.settle(formula),
        None => widened(edit, op),
    }
}

/// Computes in a wider type for which the device has a kernel, if the operator only moves, compares or chooses
/// numbers.
fn widened(edit: &mut Patch<'_, '_>, op: OpType) -> Outcome {
    let keeps_order = op.is(COMPARISONS)
        || matches!(
            op,
            OpType::ArgMax
                | OpType::ArgMin
                | OpType::Clip
                | OpType::DepthToSpace
                | OpType::GatherND
                | OpType::Max
                | OpType::Min
                | OpType::Mod
                | OpType::Pad
                | OpType::ReduceMax
                | OpType::ReduceMin
                | OpType::SpaceToDepth
                | OpType::Tile
                | OpType::Where
        );
    let index = edit.root();
    let (operands, results) = edit.dtypes_of(index);
    let found = keeps_order
        .then(|| edit.target().widened_for_device(op, edit.opset(), &operands, &results));
    let found = found??;
    let mut inputs = edit.inputs(index);
    for &at in &found.operands {
        let value = inputs.get(at).copied().flatten()?;
        inputs[at] = Some(cast(edit, value, found.dtype));
    }
    let op = Op::of(edit.node(index), inputs);
    if found.results.is_empty() {
        return edit.done(&[], op);
    }
    let dtype = results.first().copied().flatten()?;
    let made = edit.insert(op);
    edit.done(&[], Op::new(OpType::Cast, &[made]).attr("to", i64::from(dtype.code())))
}

/// Casts to a wider type. A value that was cast from flags is cast from the flags.
fn cast(edit: &mut Patch<'_, '_>, value: ValueId, dtype: DType) -> ValueId {
    let source = edit.made_by(value, OpType::Cast).and_then(|node| edit.input(node, 0));
    let is_flag = |id: &ValueId| edit.ty(*id).is_some_and(|ty| ty.dtype == DType::Bool);
    let value = source.filter(is_flag).unwrap_or(value);
    edit.insert(Op::new(OpType::Cast, &[value]).attr("to", i64::from(dtype.code())))
}

/// `cosh(x)`, which overflows only if the result does
fn cosh(x: onnx::Expr<'_>) -> onnx::Expr<'_> {
    let half = (x * 0.5).exp();
    half * 0.5 * half + half.recip() * 0.5 / half
}

fn clip(edit: &mut Patch<'_, '_>, first: ValueId) -> Result<Replacement, Declined> {
    let index = edit.root();
    match (edit.input(index, 1), edit.input(index, 2)) {
        (Some(low), Some(high)) => {
            edit.formula([first, low, high], |[x, low, high]| x.max(low).min(high))
        }
        (Some(low), None) => edit.formula([first, low], |[x, low]| x.max(low)),
        (None, Some(high)) => edit.formula([first, high], |[x, high]| x.min(high)),
        (None, None) => Ok(first.into()),
    }
}

/// Writes a product of small matrices of integers as a sum of products.
fn product(edit: &mut Patch<'_, '_>, first: ValueId) -> Formula {
    let index = edit.root();
    let second = edit.input(index, 1)?;
    let result = edit.ty(edit.node(index).outputs[0])?;
    let inner = edit.ty(first)?.shape.last()?.known()?;
    let size = result.shape.iter().map(Dim::known).product::<Option<i64>>()?;
    (size.checked_mul(inner)? <= MAX_PRODUCTS).then_some(())?;
    operators::integer_product(edit, first, second)
}

/// Writes an `InstanceNormalization` as a `LayerNormalization` of each channel.
fn instance_norm(edit: &mut Patch<'_, '_>, first: ValueId) -> Formula {
    let index = edit.root();
    let (scale, bias) = (edit.input(index, 1)?, edit.input(index, 2)?);
    let ty = edit.ty(first)?.clone();
    let sizes: Vec<i64> = ty.shape.get(2..)?.iter().map(Dim::known).collect::<Option<_>>()?;
    let count = sizes.iter().product::<i64>();
    (count > 0).then_some(())?;
    let epsilon = edit.node(index).attr("epsilon").cloned();
    let is = |edit: &Patch<'_, '_>, value, number: f64| {
        edit.tensor(value).is_some_and(|tensor| tensor.all_floats(|it| it == number))
    };
    let (is_scaled, is_shifted) = (!is(edit, scale, 1.0), !is(edit, bias, 0.0));
    let trailing: Vec<usize> = (1..=sizes.len()).collect();
    Some(edit.formula([first, scale, bias], |[x, scale, bias]| {
        let ones = match usize::try_from(count) {
            Ok(few) if count <= MAX_ONES => x.builder.constant(ty.dtype, &sizes, &vec![1.0; few]),
            _ => {
                let shape = x.builder.ints(&sizes);
                x.builder.node(OpType::Expand, &[x.constant(1.0), shape], Vec::new())
            }
        };
        let mut attrs = vec![("axis", Attr::Int(2))];
        attrs.extend(epsilon.map(|epsilon| ("epsilon", epsilon)));
        let mut y = x.builder.node(OpType::LayerNormalization, &[x, ones], attrs);
        if is_scaled {
            y = y * scale.unsqueeze(&trailing);
        }
        if is_shifted {
            y = y + bias.unsqueeze(&trailing);
        }
        y
    }))
}

/// Keeps NaN, if the device does not.
fn sign(edit: &mut Patch<'_, '_>) -> Outcome {
    let x = edit.input(edit.root(), 0)?;
    let dtype = edit.ty(x)?.dtype;
    let is_wrong = edit.target().device_fault(OpType::Sign, dtype) == Some(Fault::OfNan);
    let is_kept = edit.sole_reader(edit.node(edit.root()).outputs[0]).is_some_and(|reader| {
        edit.op(reader) == Some(OpType::Where) && edit.input(reader, 1) == Some(x)
    });
    if !is_wrong || is_kept || !edit.exact_nan() || !edit.fact(x).floats().nan {
        return None;
    }
    let kept = edit.formula([x], |[x]| x.is_nan().select(x, x.unary(OpType::Sign)));
    edit.settle(kept)
}

fn log_softmax(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let x = edit.input(index, 0)?;
    let dtype = edit.ty(x)?.dtype;
    if edit.target().device_fault(OpType::LogSoftmax, dtype) != Some(Fault::Wrong) {
        return None;
    }
    let axis = edit.axis(index)?;
    let formula = edit.formula([x], |[x]| {
        let shifted = x - x.reduce(OpType::ReduceMax, &[axis], true);
        shifted - shifted.exp().reduce_sum(&[axis], true).log()
    });
    edit.settle(formula)
}

/// Writes a slice of known size at a position that the device computes as a `Gather`, so that the position is not
/// copied to the CPU.
fn dynamic_slice(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let starts = edit.input(index, 1)?;
    if edit.tensor(starts).is_some() || is_of_sizes(edit, starts, MAX_DEPTH) {
        return None;
    }
    forms::slice_at(edit)
}

/// Writes an `If` with two short branches as `Where`, so that its condition is not copied to the CPU.
pub(super) fn choice(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let condition = edit.input(index, 0)?;
    if edit.tensor(condition).is_some() || is_of_sizes(edit, condition, MAX_DEPTH) {
        return None;
    }
    let branch = |name| match edit.node(index).attr(name) {
        Some(Attr::Graph(branch)) => Some((**branch).clone()),
        _ => None,
    };
    let (on_true, on_false) = (branch("then_branch")?, branch("else_branch")?);
    // A runtime that takes no second `If`, or not these branches, computes both of them, whatever they cost.
    let is_needed =
        edit.target().has_limit(Limit::IfTwice) || edit.has_limit(index, Limit::BranchProducts);
    let max_nodes = if is_needed { MAX_NEEDED_BRANCH } else { MAX_BRANCH };
    let is_short = |edit: &Patch<'_, '_>, branch: &Graph| {
        branch.nodes.len() <= max_nodes
            && branch.nodes.iter().all(|node| {
                let op = node.op.onnx();
                let divides = op.is_some_and(|op| matches!(op, OpType::Div | OpType::Mod));
                let is_float = |&id: &ValueId| edit.ty(id).is_some_and(|ty| ty.dtype.is_float());
                let is_free = node.bodies().next().is_none() && !op.is_some_and(|op| op.is(RANDOM));
                op.is_some_and(|op| {
                    op.is(POINTWISE) || op == OpType::Identity || is_needed && is_free
                }) && (!divides || node.outputs.iter().all(is_float))
            })
    };
    if !is_short(edit, &on_true) || !is_short(edit, &on_false) {
        return None;
    }
    for (&a, &b) in on_true.outputs.iter().zip(&on_false.outputs) {
        let (a, b) = (edit.ty(a)?, edit.ty(b)?);
        let size = a.shape.iter().map(Dim::known).product::<Option<i64>>()?;
        if a != b || size > MAX_CHOSEN {
            return None;
        }
    }
    let [on_true, on_false] = [on_true, on_false].map(|branch| lifted(edit, &branch));
    let mut results = Vec::new();
    for (at, (a, b)) in on_true.into_iter().zip(on_false).enumerate() {
        let made = edit.formula([condition, a, b], |[condition, a, b]| condition.select(a, b));
        let value = match made {
            Ok(Replacement::Op(op)) => edit.insert(op),
            Ok(Replacement::Value(value)) => value,
            _ => return None,
        };
        results.push((at, value));
    }
    edit.done(&[], results)
}

/// Inserts the nodes of a branch, and returns its results.
fn lifted(edit: &mut Patch<'_, '_>, branch: &Graph) -> Vec<ValueId> {
    let mut copies: FxHashMap<ValueId, ValueId> = FxHashMap::default();
    for node in &branch.nodes {
        let copy = |id: &ValueId| copies.get(id).copied().unwrap_or(*id);
        if let (OpType::Identity, &[Some(source)]) =
            (node.op.onnx().unwrap_or(OpType::If), &node.inputs[..])
        {
            let source = copy(&source);
            copies.insert(node.outputs[0], source);
            continue;
        }
        let inputs = node.inputs.iter().map(|input| input.as_ref().map(copy)).collect();
        let made = edit.lift_all(node, Op::of(node, inputs), node.outputs.len());
        copies.extend(node.outputs.iter().copied().zip(made));
    }
    branch.outputs.iter().map(|id| copies.get(id).copied().unwrap_or(*id)).collect()
}

/// Gives a node in a loop its own copy of a constant that it reads on the CPU and that another node reads on the
/// device. Otherwise each iteration copies the constant.
///
/// A `Loop` inside a branch that starts with the same constant as its condition and as a state would end the process: the
/// runtime reads the condition in the memory of the device.
fn own_host_operands(edit: &mut Patch<'_, '_>, op: OpType) -> Outcome {
    if !edit.is_in_loop() && op != OpType::Loop {
        return None;
    }
    let index = edit.root();
    let is_elsewhere = |value: ValueId| {
        edit.readers(value).any(|reader| {
            let read = edit.node(reader).inputs.iter().enumerate();
            let mut read = read.filter(|(_, input)| **input == Some(value));
            read.any(|(at, _)| edit.op(reader).is_none_or(|op| !is_on_host(op, at)))
        })
    };
    let mut inputs = edit.inputs(index);
    let mut copied: Vec<(usize, Tensor)> = Vec::new();
    for (at, input) in inputs.iter().enumerate().filter(|(at, _)| is_on_host(op, *at)) {
        if let Some(value) = *input
            && let Some(tensor) = edit.tensor(value)
            && is_elsewhere(value)
        {
            copied.push((at, tensor.clone()));
        }
    }
    if copied.is_empty() {
        return None;
    }
    for (at, tensor) in copied {
        inputs[at] = Some(edit.constant(tensor, &[]));
    }
    let op = Op::of(edit.node(index), inputs);
    edit.done(&[], op)
}

/// True if a device reads an operand of an operator on the CPU.
fn is_on_host(op: OpType, operand: usize) -> bool {
    match op {
        OpType::Slice | OpType::Clip | OpType::Resize => operand > 0,
        OpType::Reshape
        | OpType::Expand
        | OpType::Squeeze
        | OpType::Unsqueeze
        | OpType::Tile
        | OpType::TopK
        | OpType::Split
        | OpType::Trilu
        | OpType::CumSum
        | OpType::OneHot => operand == 1,
        OpType::Pad => operand == 1 || operand == 3,
        OpType::Range | OpType::ConstantOfShape => true,
        OpType::Loop => operand < 2,
        _ => op.is(REDUCTIONS) && operand == 1,
    }
}

/// True if a value is computed from sizes and constants, which the runtime keeps on the CPU.
fn is_of_sizes(edit: &Patch<'_, '_>, value: ValueId, depth: usize) -> bool {
    if edit.tensor(value).is_some() {
        return true;
    }
    let Some(node) = edit.producer(value) else { return false };
    match edit.op(node) {
        Some(OpType::Shape | OpType::Size) => true,
        Some(op) if depth > 0 && edit.node(node).bodies().next().is_none() => {
            let is_small = edit.ty(value).is_some_and(|ty| ty.rank() <= 1 && !ty.dtype.is_float());
            // The indices of a `Gather` may be computed.
            let count = if op == OpType::Gather { 1 } else { usize::MAX };
            let mut operands = edit.operands(node).take(count);
            is_small && operands.all(|operand| is_of_sizes(edit, operand, depth - 1))
        }
        _ => false,
    }
}
