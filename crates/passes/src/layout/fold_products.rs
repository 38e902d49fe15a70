//! `fold-products`: folds constants that scale or shift the operand or the result of a convolution or a matrix
//! product into its weights and bias.
//!
//! `(W ∗ x + b) · s + t = (W · s) ∗ x + (b · s + t)`, for constants with one number per channel. Each weight is
//! rounded once more, so the results are equal up to the rounding of the type.

use std::ops::RangeInclusive;

use algebra::rewrite::require;
use algebra::stored::Stored;
use onnx::operator::properties::ARITHMETIC;
use onnx::{Attr, DType, Dim, Edit, Op, OpType, Outcome, Patch, Tensor, ValueId, declined};

/// With a factor outside this range, a term may overflow or underflow although the sum does not.
const FACTORS: RangeInclusive<f64> = 1e-9..=1e9;

/// A larger bias may be meant to round, as in `(y + 2²³) − 2²³`.
const LARGEST_BIAS: f64 = 1e4;

/// A larger shift of the operand may cancel most digits, which a bias would not restore.
const LARGEST_SHIFT: f64 = 1e3;

pub(crate) fn run(edit: &mut Edit<'_>) {
    let stored = Stored::of(edit);
    for index in 0..edit.len() {
        match edit.op(index) {
            Some(op) if op.is(ARITHMETIC) => {
                let _ = edit.patch(index, |patch| fold_behind(patch, &stored))
                    || edit.patch(index, |patch| fold_behind_sum(patch, &stored));
            }
            Some(OpType::Conv | OpType::MatMul) => {
                while edit.patch(index, |patch| fold_before(patch, &stored)) {}
            }
            _ => {}
        }
    }
}

const LARGE: &str = "the weights are large, and another node reads them too";

const IMMODERATE: &str = "a scaled term may overflow or underflow although the sum does not";

/// A product with constant weights.
struct Product {
    index: usize,
    x: ValueId,
    weights: ValueId,
    bias: Option<ValueId>,
    /// The axis of the weights with the channels of the result.
    weight_axis: usize,
    /// The axis of the result with its channels.
    axis: usize,
    channels: usize,
}

impl Product {
    fn of(edit: &Edit<'_>, index: usize) -> Option<Product> {
        let node = edit.node(index);
        let (x, weights) = edit.pair(index)?;
        let result = edit.ty(node.outputs[0])?;
        require(matches!(result.dtype, DType::F32 | DType::F64))?;
        let tensor = edit.tensor(weights)?;
        let group = node.attr("group").map_or(1, |group| match group {
            Attr::Int(group) => *group,
            _ => 0,
        });
        let (weight_axis, axis) = match node.op.onnx() {
            Some(OpType::Conv) => (0, 1),
            Some(OpType::ConvTranspose) if group == 1 => (1, 1),
            Some(OpType::MatMul) if tensor.shape.len() == 2 => (1, result.rank().checked_sub(1)?),
            _ => return None,
        };
        let channels = usize::try_from(*tensor.shape.get(weight_axis)?).ok()?;
        require(result.shape.get(axis)?.is(channels as i64))?;
        let bias = edit.input(index, 2);
        require(bias.is_none_or(|bias| edit.tensor(bias).is_some()))?;
        Some(Product { index, x, weights, bias, weight_axis, axis, channels })
    }

    fn has_room_for_bias(&self, edit: &Edit<'_>) -> bool {
        edit.node(self.index).op != OpType::MatMul
    }

    /// Returns the product on other operands.
    fn on(&self, edit: &Edit<'_>, inputs: &[Option<ValueId>]) -> Op {
        let given = inputs.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        Op::of(edit.node(self.index), inputs[..given].to_vec())
    }

    /// Returns the bias, or zeros if there is none.
    fn bias(&self, edit: &Edit<'_>) -> Option<Vec<f64>> {
        match self.bias {
            Some(bias) => edit.tensor(bias)?.floats(),
            None => Some(vec![0.0; self.channels]),
        }
    }
}

/// Finds the product that computes a value, directly or before a transpose or a squeeze. Returns the product, that
/// layout op, and the axis of the channels after it.
fn product_behind(edit: &Edit<'_>, value: ValueId) -> Option<(Product, Option<usize>, usize)> {
    let index = edit.producer(value)?;
    if let Some(product) = Product::of(edit, index) {
        let axis = product.axis;
        return Some((product, None, axis));
    }
    let node = edit.node(index);
    let made = edit.input(index, 0).filter(|&made| edit.reads(made) == 1)?;
    let product = Product::of(edit, edit.producer(made)?)?;
    require(product.has_room_for_bias(edit))?;
    let axis = match node.op.onnx() {
        Some(OpType::Transpose) => {
            edit.perm(index)?.iter().position(|&axis| axis == product.axis)?
        }
        Some(OpType::Squeeze) => {
            let dropped = edit.axes(index).filter(|axes| !axes.contains(&product.axis))?;
            product.axis - dropped.iter().filter(|&&axis| axis < product.axis).count()
        }
        _ => return None,
    };
    Some((product, Some(index), axis))
}

/// Folds `y · s + t` into the product that computes `y`, if nothing else reads `y`.
fn fold_behind(edit: &mut Patch<'_, '_>, stored: &Stored) -> Outcome {
    let index = edit.root();
    let (value, constant, is_reversed) = edit.beside_constant(index)?;
    let (product, moved, axis) = product_behind(edit, value)?;
    let result = edit.result_ty(index)?;
    require(edit.ty(value)? == result)?;
    let dtype = result.dtype;
    let numbers = of_channels(edit.tensor(constant)?, &result.shape, axis);
    let Some(numbers) = numbers else {
        return declined("the constant differs within a channel");
    };
    if edit.reads(value) != 1 {
        return declined("another node reads the product");
    }
    let minus: Vec<f64> = numbers.iter().map(|number| -number).collect();
    let (scale, shift) = match (edit.op(index), is_reversed) {
        (Some(OpType::Add), _) => (None, Some(numbers)),
        (Some(OpType::Sub), false) => (None, Some(minus)),
        (Some(OpType::Sub), true) => (Some(vec![-1.0; product.channels]), Some(numbers)),
        (Some(OpType::Mul), _) => (Some(numbers), None),
        (Some(OpType::Div), false) => {
            (Some(numbers.iter().map(|number| 1.0 / number).collect()), None)
        }
        _ => return None,
    };
    require(shift.is_none() || product.has_room_for_bias(edit))?;

    if shift.as_ref().is_some_and(|shift| !are_within(shift, LARGEST_BIAS)) {
        return declined("the constant is so large that the code may use it for rounding");
    }
    if scale.as_ref().is_some_and(|scale| !are_moderate(scale)) {
        return declined(IMMODERATE);
    }

    let fused: Vec<usize> = [product.index].into_iter().chain(moved).collect();
    let mut weights = product.weights;
    let mut bias = product.bias(edit)?;
    if let Some(scale) = &scale {
        if !stored.may_change(edit, product.index, weights) {
            return declined(LARGE);
        }
        let scaled = scaled(edit, edit.tensor(weights)?, product.weight_axis, scale)?;
        weights = edit.constant_for(&fused, scaled, &[weights, constant]);
        bias.iter_mut().zip(scale).for_each(|(bias, scale)| *bias *= scale);
    }
    if let Some(shift) = &shift {
        bias.iter_mut().zip(shift).for_each(|(bias, shift)| *bias += shift);
    }
    let needs_bias = product.bias.is_some() || shift.is_some();
    let bias = if needs_bias {
        let from: Vec<ValueId> = product.bias.into_iter().chain([constant]).collect();
        let tensor = finite(dtype, vec![product.channels as i64], &bias)?;
        Some(edit.constant_for(&fused, tensor, &from))
    } else {
        None
    };
    let inputs = [Some(product.x), Some(weights), bias];
    let op = product.on(edit, &inputs);
    let Some(moved) = moved else {
        return edit.done(&fused, op);
    };
    let made = edit.insert_for(&fused, op);
    let op = edit.op_with(moved, 0, made);
    edit.done(&fused, op)
}

/// Rewrites `(x · W + b) · s` as `x · (W · s) + b · s`. A matrix product has no bias of its own.
fn fold_behind_sum(edit: &mut Patch<'_, '_>, stored: &Stored) -> Outcome {
    let index = edit.root();
    require(edit.node(index).op == OpType::Mul)?;
    let (value, scale, _) = edit.beside_constant(index)?;
    let sum = edit.producer(value)?;
    let is_sum = edit.node(sum).op == OpType::Add;
    let (made, bias, _) = edit.beside_constant(sum).filter(|_| is_sum)?;
    let product = Product::of(edit, edit.producer(made)?)?;
    require(!product.has_room_for_bias(edit))?;
    let ty = edit.result_ty(index)?.clone();
    let is_one_type = edit.ty(made)? == &ty && edit.ty(value)? == &ty;
    let is_read_once = edit.reads(made) == 1 && edit.reads(value) == 1;
    require(is_one_type && is_read_once)?;
    if !stored.may_change(edit, product.index, product.weights) {
        return declined(LARGE);
    }
    let factors = of_channels(edit.tensor(scale)?, &ty.shape, product.axis)?;
    if !are_moderate(&factors) {
        return declined(IMMODERATE);
    }
    let shift = of_channels(edit.tensor(bias)?, &ty.shape, product.axis)?;
    let shift: Vec<f64> =
        shift.iter().zip(&factors).map(|(shift, factor)| shift * factor).collect();
    let weights = scaled(edit, edit.tensor(product.weights)?, product.weight_axis, &factors)?;
    let shift = finite(ty.dtype, vec![product.channels as i64], &shift)?;
    let fused = [product.index, sum];
    let weights = edit.constant_for(&fused, weights, &[product.weights, scale]);
    let shift = edit.constant_for(&fused, shift, &[bias, scale]);
    let op = Op::new(OpType::MatMul, &[product.x, weights]);
    let made = edit.insert_for(&fused, op);
    edit.done(&fused, Op::new(OpType::Add, &[made, shift]))
}

/// Folds `x · s + t` into the product that reads it, if nothing else does. A shift is folded only without padding,
/// because padding adds zeros after the shift.
fn fold_before(edit: &mut Patch<'_, '_>, stored: &Stored) -> Outcome {
    let index = edit.root();
    let product = Product::of(edit, index)?;
    let before = edit.producer(product.x)?;
    let node = edit.node(before);
    require(edit.reads(product.x) == 1)?;
    let (value, constant, is_reversed) = edit.beside_constant(before)?;
    let ty = edit.ty(product.x)?.clone();
    let is_convolution = edit.node(index).op == OpType::Conv;
    let axis = if is_convolution { 1 } else { ty.rank().checked_sub(1)? };
    require(edit.ty(value)? == &ty && stored.may_change(edit, product.index, product.weights))?;
    let numbers = of_channels(edit.tensor(constant)?, &ty.shape, axis)?;
    let tensor = edit.tensor(product.weights)?;
    match (node.op.onnx(), is_reversed) {
        (Some(OpType::Mul), _) | (Some(OpType::Div), false) => {
            let factors: Vec<f64> = match node.op.onnx() {
                Some(OpType::Mul) => numbers,
                _ => numbers.iter().map(|number| 1.0 / number).collect(),
            };
            if !are_moderate(&factors) {
                return declined(IMMODERATE);
            }
            let scaled = if is_convolution {
                scaled_of_groups(edit, tensor, &factors)?
            } else {
                scaled(edit, tensor, 0, &factors)?
            };
            let from = [product.weights, constant];
            let weights = edit.constant_for(&[before], scaled, &from);
            let op = product.on(edit, &[Some(value), Some(weights), product.bias]);
            edit.done(&[before], op)
        }
        (Some(OpType::Add), _) | (Some(OpType::Sub), false)
            if is_convolution && !is_padded(edit, index) =>
        {
            if !are_within(&numbers, LARGEST_SHIFT) {
                return declined("the constant is so large that the sum would lose precision");
            }
            let sign = if node.op == OpType::Sub { -1.0 } else { 1.0 };
            let shift: Vec<f64> = numbers.iter().map(|number| sign * number).collect();
            let mut bias = product.bias(edit)?;
            add_weighted(&mut bias, tensor, &shift)?;
            let from: Vec<ValueId> =
                product.bias.into_iter().chain([product.weights, constant]).collect();
            let bias = finite(ty.dtype, vec![product.channels as i64], &bias)?;
            let bias = edit.constant_for(&[before], bias, &from);
            let op = product.on(edit, &[Some(value), Some(product.weights), Some(bias)]);
            edit.done(&[before], op)
        }
        _ => None,
    }
}

/// Returns one number per channel, if the constant broadcasts along all other axes.
fn of_channels(constant: &Tensor, shape: &[Dim], axis: usize) -> Option<Vec<f64>> {
    let lead = shape.len().checked_sub(constant.shape.len())?;
    let channels = usize::try_from(shape.get(axis)?.known()?).ok()?;
    let is_spread = |(own, &size): (usize, &i64)| size == 1 || own + lead == axis;
    require(constant.shape.iter().enumerate().all(is_spread))?;
    let numbers = constant.floats()?;
    require(numbers.iter().all(|number| number.is_finite()))?;
    match numbers[..] {
        [number] => Some(vec![number; channels]),
        _ => (numbers.len() == channels).then_some(numbers),
    }
}

fn are_moderate(factors: &[f64]) -> bool {
    factors.iter().all(|factor| *factor == 0.0 || FACTORS.contains(&factor.abs()))
}

fn are_within(numbers: &[f64], bound: f64) -> bool {
    numbers.iter().all(|number| number.abs() <= bound)
}

/// Multiplies the slices of a tensor along an axis by factors.
fn scaled(edit: &Edit<'_>, tensor: &Tensor, axis: usize, factors: &[f64]) -> Option<Tensor> {
    let mut shape = vec![1; tensor.shape.len()];
    *shape.get_mut(axis)? = factors.len() as i64;
    let factors = Tensor::of_floats(DType::F64, shape, factors)?;
    tensor.scaled(&factors.broadcast(&tensor.shape)?, edit.assumptions())
}

/// Multiplies the weights of a convolution by factors for the channels of `x`. In a grouped convolution, each group
/// reads its own channels.
fn scaled_of_groups(edit: &Edit<'_>, weights: &Tensor, factors: &[f64]) -> Option<Tensor> {
    let KernelLayout { of_pair, of_group, results_of_group, .. } =
        KernelLayout::of(weights, factors.len())?;
    let groups = factors.len() / of_group;
    let shape = |sizes: [usize; 4]| sizes.map(|size| size as i64).to_vec();
    let factors = Tensor::of_floats(DType::F64, shape([groups, 1, of_group, 1]), factors)?;
    let factors = factors.broadcast(&shape([groups, results_of_group, of_group, of_pair]))?;
    weights.scaled(&factors.with_shape(weights.shape.clone()), edit.assumptions())
}

/// Adds the effect of shifted channels of `x` to the bias of each channel of the result.
fn add_weighted(bias: &mut [f64], weights: &Tensor, shift: &[f64]) -> Option<()> {
    let layout = KernelLayout::of(weights, shift.len())?;
    let mut index = 0;
    let is_added = weights.all_floats(|weight| {
        let channel = shift.get(layout.channel(index));
        let sum = bias.get_mut(index / layout.of_result);
        index += 1;
        channel.zip(sum).map(|(shift, sum)| *sum += weight * shift).is_some()
    });
    is_added.then_some(())
}

/// The positions of the channels of `x` in the weights of a convolution.
struct KernelLayout {
    /// The number of weights per channel of the result.
    of_result: usize,
    /// The number of weights per pair of channels.
    of_pair: usize,
    of_group: usize,
    results_of_group: usize,
}

impl KernelLayout {
    fn of(weights: &Tensor, channels: usize) -> Option<KernelLayout> {
        let shape: Vec<usize> =
            weights.shape.iter().map(|&size| usize::try_from(size).ok()).collect::<Option<_>>()?;
        let [results, of_group, window @ ..] = &shape[..] else { return None };
        let groups = channels.checked_div(*of_group)?;
        let of_pair: usize = window.iter().product();
        let results_of_group = results.checked_div(groups)?;
        let fits = results_of_group > 0 && of_pair > 0;
        fits.then_some(KernelLayout {
            of_result: of_group * of_pair,
            of_pair,
            of_group: *of_group,
            results_of_group,
        })
    }

    /// Returns the channel of `x` that a weight multiplies.
    fn channel(&self, index: usize) -> usize {
        let group = index / self.of_result / self.results_of_group;
        group * self.of_group + index % self.of_result / self.of_pair
    }
}

/// Returns a tensor of these numbers, if each of them is zero or a normal number of the type.
fn finite(dtype: DType, shape: Vec<i64>, values: &[f64]) -> Option<Tensor> {
    let (least, most) = match dtype {
        DType::F32 => (f64::from(f32::MIN_POSITIVE), f64::from(f32::MAX)),
        _ => (f64::MIN_POSITIVE, f64::MAX),
    };
    let holds = |value: &f64| *value == 0.0 || (least..=most).contains(&value.abs());
    values.iter().all(holds).then(|| Tensor::of_floats(dtype, shape, values))?
}

fn is_padded(edit: &Edit<'_>, index: usize) -> bool {
    let node = edit.node(index);
    let pads = node.attr("pads");
    let has_pads = pads.is_some_and(|pads| match pads {
        Attr::Ints(pads) => pads.iter().any(|&pad| pad != 0),
        _ => true,
    });
    has_pads || node.attr("auto_pad").is_some()
}

#[cfg(test)]
mod tests;
