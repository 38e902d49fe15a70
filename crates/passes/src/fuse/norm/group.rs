//! Norms over the places of each channel, or of each group of channels.
//!
//! The runtime takes `GroupNormalization` apart into more than the formula has, and slower ones, so a
//! group is an instance of its own. Its `InstanceNormalization` sums in single precision one after the
//! other, so results are within 10⁻⁶ · (1 + |mean| / σ) · √n of JAX's for `n` elements.

use onnx::{Dim, Op, OpType, Tensor, Type, ValueId};

use super::{Quotient, epsilon, expect_whole, fast_variance, last_axes_of, renamed, root};
use crate::axis_map::transpose;
use crate::pattern::{either, hole, node, reduce_mean, relu, spread};
use crate::rewrite::{Declined, Found};

/// Groups of fewer elements than these often happen to be of one number. What JAX makes of their variance,
/// where it is the mean square less the squared mean, is then rounding alone, and not the operator's.
const FEWEST_FOR_FAST_VARIANCE: i64 = 8;

/// Channels last: the mean is over all but the first and last axis.
pub(super) fn to_instance_norm(
    found: &mut Found<'_, '_, '_>,
    x: ValueId,
) -> Result<Op<'static>, Declined> {
    found.expect_kernel(OpType::InstanceNormalization, x)?;
    let Type { shape, dtype } = found.ty(x)?;
    let epsilon = epsilon(found, dtype)?;
    let last = shape.len() - 1;
    expect_elements(&shape[1..last])?;
    let scale = last_axes_of(found, "scale", x, last)?;
    let bias = last_axes_of(found, "bias", x, last)?;
    let (first, back) = channel_orders(shape.len());
    let first = transposed(found, x, &first)?;
    let op = Op::new(OpType::InstanceNormalization, &[first, scale, bias]).attr("epsilon", epsilon);
    let ty = found.ty(first)?;
    let normalized = found.emit(op, ty);
    Ok(transpose(normalized, &back))
}

/// Declines if an instance may be empty: the runtime's operator ends the process there.
fn expect_elements(instance: &[Dim]) -> Result<(), Declined> {
    if instance.iter().all(Dim::is_positive) {
        return Ok(());
    }
    Err("an axis that is normalized may be empty".into())
}

/// Over the last axes, without scale: each of what is before them is an instance.
pub(super) fn to_unscaled_norm(
    found: &mut Found<'_, '_, '_>,
    x: ValueId,
    axis: usize,
) -> Result<Op<'static>, Declined> {
    found.expect_kernel(OpType::InstanceNormalization, x)?;
    let Type { shape, dtype } = found.ty(x)?;
    let epsilon = epsilon(found, dtype)?;
    let Some(channels) = axis.checked_sub(1).and_then(|channel| shape[channel].known()) else {
        return Err("the number of instances is not known".into());
    };
    expect_elements(&shape[axis..])?;
    let (scale, bias) = neutral(found, &found.ty(x)?, channels)?;
    let norm = |x: ValueId| {
        Op::new(OpType::InstanceNormalization, &[x, scale, bias]).attr("epsilon", epsilon.clone())
    };
    match axis {
        1 => {
            let axes = found.ints(&[0])?;
            let ty = Type::new(dtype, [&[Dim::Known(1)], &shape[..]].concat());
            let batch = found.emit(Op::new(OpType::Unsqueeze, &[x, axes]), ty.clone());
            let normalized = found.emit(norm(batch), ty);
            Ok(Op::new(OpType::Squeeze, &[normalized, axes]))
        }
        2 => Ok(norm(x)),
        _ => Err("the instances are over several axes".into()),
    }
}

/// `(x − mean) / √(variance + ε)` where mean and variance are of groups of channels, the last axis
pub(super) fn norm() -> Quotient {
    let x = hole("x");
    let groups = node(OpType::Reshape, &[&x]).named("groups");
    let mean = reduce_mean(&groups).named("mean");
    let centered = &groups - spread(&mean).named("mean in groups");
    let two_pass = reduce_mean(&(&centered * &centered)).named("square mean");
    let variance = either(&[&two_pass, &fast_variance(&groups, &mean)]);
    let variance = either(&[&variance, &relu(&variance)]).named("variance");
    Quotient { numerator: &x - spread(&mean).named("spread mean"), root: root(&variance) }
}

pub(super) fn to_group_norm(found: &mut Found<'_, '_, '_>) -> Result<Op<'static>, Declined> {
    let x = found.value("x")?;
    let axes = found.axes("mean")?;
    if found.axes("square mean")? != axes {
        return Err("the variance is over other axes than the mean".into());
    }
    let Type { shape, dtype } = found.ty(x)?;
    let grouped = found.ty(found.value("groups")?)?.shape;
    let count: Option<i64> = axes.iter().map(|&axis| grouped[axis].known()).product();
    let are_few = count.is_some_and(|count| count < FEWEST_FOR_FAST_VARIANCE);
    if are_few && found.maybe("fast variance").is_some() {
        return Err("the variance of so few elements is a matter of rounding".into());
    }
    let rank = shape.len();
    let is_split =
        rank > 1 && grouped.len() == rank + 1 && grouped[..rank - 1] == shape[..rank - 1];
    if !is_split || axes.iter().copied().ne((1..rank - 1).chain([rank])) {
        return Err("it is not over groups of the last axis".into());
    }
    let sizes = |dims: &[Dim]| dims.iter().map(Dim::known).collect::<Option<Vec<i64>>>();
    let (Some(places), Some(split)) = (sizes(&shape[1..rank - 1]), sizes(&grouped[rank - 1..]))
    else {
        return Err("the sizes are not known".into());
    };
    let (groups, width) = (split[0], split[1]);
    if found.maybe("mean in groups").is_some() {
        found.expect_reduced(found.value("mean in groups")?, found.value("groups")?, &axes)?;
    }
    expect_group_spread(found, "spread mean", "mean", &shape, width)?;
    expect_group_spread(found, "factor", "variance", &shape, width)?;
    expect_whole(found, x)?;
    if width == 1 && rank > 2 {
        return to_instance_norm(found, x);
    }
    found.expect_kernel(OpType::InstanceNormalization, x)?;
    let epsilon = epsilon(found, dtype)?;
    let channels = groups * width;

    let (order, back) = channel_orders(rank);
    let first = transposed(found, x, &order)?;
    let first_ty = found.ty(first)?;
    // A zero stands for the size that the operand has there.
    let area = places.iter().product::<i64>() * width;
    let instances = found.ints(&[0, groups, area])?;
    let ty = Type::new(dtype, vec![shape[0].clone(), groups.into(), area.into()]);
    let reshaped = found.emit(Op::new(OpType::Reshape, &[first, instances]), ty.clone());
    let (one, zero) = neutral(found, &ty, groups)?;
    let op =
        Op::new(OpType::InstanceNormalization, &[reshaped, one, zero]).attr("epsilon", epsilon);
    let normalized = found.emit(op, ty);
    let whole = found.ints(&[&[0, channels], &places[..]].concat())?;
    let mut result = found.emit(Op::new(OpType::Reshape, &[normalized, whole]), first_ty.clone());
    for (name, op) in [("scale", OpType::Mul), ("bias", OpType::Add)] {
        if found.maybe(name).is_some() {
            let vector = last_axes_of(found, name, x, rank - 1)?;
            let column = [&[channels][..], &vec![1; places.len()]].concat();
            let vector = renamed(found, vector, column)?;
            result = found.emit(Op::new(op, &[result, vector]), first_ty.clone());
        }
    }
    Ok(transpose(result, &back))
}

/// Declines unless what is named gives each channel the number of its group: the numbers of groups,
/// each repeated `width` times, and otherwise only renamed, in the shape that `x` has along the first
/// and last axis. The root and its operand may stand between.
fn expect_group_spread(
    found: &Found<'_, '_, '_>,
    name: &str,
    origin: &str,
    x: &[Dim],
    width: i64,
) -> Result<(), Declined> {
    let (mut value, end) = (found.value(name)?, found.value(origin)?);
    let last = x.len() - 1;
    let is_kept = |axis: usize| axis == 0 || axis == last;
    let kept: Vec<Dim> = x
        .iter()
        .enumerate()
        .map(|(axis, dim)| if is_kept(axis) { dim.clone() } else { 1.into() })
        .collect();
    let mut is_repeated = false;
    let mut fits = found.ty(value)?.shape[..] == kept[..];
    while value != end && fits {
        let index = found.edit.producer(value).ok_or("a mean is no node")?;
        let operand = found.edit.input(index, 0).ok_or("a mean of nothing")?;
        let (from, to) = (found.ty(operand)?.shape, found.ty(value)?.shape);
        let is_renamed = |from: &[Dim], to: &[Dim]| {
            let size = Dim::checked_product(from);
            size.is_some() && size == Dim::checked_product(to)
        };
        match found.edit.node(index).op.onnx() {
            Some(OpType::Expand) => {
                let lead = from.len().wrapping_sub(1);
                fits = !is_repeated
                    && from.len() == to.len()
                    && from.last().is_some_and(|dim| dim.is(1))
                    && to.last().is_some_and(|dim| dim.is(width))
                    && from[..lead] == to[..lead];
                is_repeated = true;
            }
            _ => fits = is_renamed(&from, &to),
        }
        value = operand;
    }
    // Groups of one channel need no repetition.
    if fits && (is_repeated || width == 1) {
        return Ok(());
    }
    Err("the groups are spread over other channels".into())
}

/// Channels first, and back.
fn channel_orders(rank: usize) -> (Vec<usize>, Vec<usize>) {
    let last = rank - 1;
    (
        [0, last].into_iter().chain(1..last).collect(),
        [0].into_iter().chain(2..=last).chain([1]).collect(),
    )
}

fn transposed(
    found: &mut Found<'_, '_, '_>,
    x: ValueId,
    order: &[usize],
) -> Result<ValueId, Declined> {
    let Type { shape, dtype } = found.ty(x)?;
    let shape: Vec<Dim> = order.iter().map(|&axis| shape[axis].clone()).collect();
    Ok(found.emit(transpose(x, order), Type::new(dtype, shape)))
}

/// Ones and zeros for this many channels.
fn neutral(
    found: &mut Found<'_, '_, '_>,
    ty: &Type,
    channels: i64,
) -> Result<(ValueId, ValueId), Declined> {
    let mut vector = |number: f64| {
        let tensor = Tensor::of_floats(ty.dtype, vec![channels], &vec![number; channels as usize]);
        tensor.map(|tensor| found.constant(tensor)).ok_or("no such number of the type")
    };
    Ok((vector(1.0)?, vector(0.0)?))
}
