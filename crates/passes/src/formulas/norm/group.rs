//! Fuses norms of each channel, or of each group of channels.
//!
//! ONNX Runtime expands `GroupNormalization` into more and slower nodes than the formula has, so this file writes each
//! group as an instance of `InstanceNormalization`. ONNX Runtime sums its elements one by one in single precision, so
//! results differ from JAX by up to 10⁻⁶ · (1 + |mean| / σ) · √n for `n` elements.

use algebra::axis_map::{AxisMap, Step, emit, plan, transpose};
use algebra::pattern::{either, hole, node, reduce_mean, relu, spread, square};
use algebra::rewrite::{Match, Result, ensure};
use onnx::operator::properties::VIEW_OPS;
use onnx::{Dim, Op, OpType, Type, ValueId};

use super::affine::{Affine, Vector};
use super::{Quotient, epsilon, expect_whole, fast_variance, normalized_axes, radicand};

/// Smaller groups often have equal elements. The fast variance, the mean square minus the squared mean, then consists of
/// rounding errors, which the operator does not reproduce.
const MIN_FOR_FAST_VARIANCE: i64 = 8;

/// Returns the norm for channels on the last axis: the mean is over all axes except the first and the last one.
pub(super) fn to_instance_norm(
    found: &mut Match<'_, '_, '_>,
    x: ValueId,
    affine: Affine,
) -> Result<Op> {
    let (first, back) = channel_orders(found.ty(x)?.rank(), 1);
    let first = found.insert(transpose(x, &first));
    let op = instance_norm(found, first, affine)?;
    let normalized = found.insert(op);
    Ok(transpose(normalized, &back))
}

/// Returns the norm for channels on the second axis: the mean is over all axes except the first two.
pub(super) fn instance_norm(
    found: &mut Match<'_, '_, '_>,
    x: ValueId,
    affine: Affine,
) -> Result<Op> {
    found.expect_kernel(OpType::InstanceNormalization, x)?;
    let Type { shape, dtype } = found.ty(x)?;
    let epsilon = epsilon(found, dtype)?;
    let vector = |given: Option<Vector>, number: f64| match given {
        Some(vector) => Ok(vector),
        None => Vector::filled(&shape, &[1], number, i64::MAX, Vec::new()),
    };
    let scale = vector(affine.scale, 1.0)?.emit(found, dtype)?;
    let bias = vector(affine.bias, 0.0)?.emit(found, dtype)?;
    Ok(Op::new(OpType::InstanceNormalization, &[x, scale, bias]).attr("epsilon", epsilon))
}

/// Returns the norm over the last axes, without scale. Each index of the axes before them is an instance.
pub(super) fn to_unscaled_norm(
    found: &mut Match<'_, '_, '_>,
    x: ValueId,
    axis: usize,
) -> Result<Op> {
    match axis {
        1 => {
            let axes = found.ints(&[0])?;
            let batch = found.insert(Op::new(OpType::Unsqueeze, &[x, axes]));
            let op = instance_norm(found, batch, Affine::default())?;
            let normalized = found.insert(op);
            Ok(Op::new(OpType::Squeeze, &[normalized, axes]))
        }
        2 => instance_norm(found, x, Affine::default()),
        _ => Err("the instances span several axes".into()),
    }
}

/// `(x − mean) / √(variance + ε)` with the mean and the variance of groups of channels, which are the last axis.
pub(super) fn norm() -> Quotient {
    let x = hole("x");
    let groups = node(OpType::Reshape, &[&x]).named("groups");
    let mean = reduce_mean(&groups).named("mean");
    let centered = &groups - spread(&mean).named("mean in groups");
    let two_pass = reduce_mean(&square(&centered)).named("square mean");
    let variance = either(&[&two_pass, &fast_variance(&groups, &mean)]);
    let variance = either(&[&variance, &relu(&variance)]).named("variance");
    Quotient { numerator: &x - spread(&mean).named("spread mean"), radicand: radicand(&variance) }
}

/// Groups of channels, the last axis of an array. Each group is normalized over all elements of its channels.
pub(super) struct Groups {
    /// The number of axes before the normalized ones.
    leading: usize,
    count: i64,
    width: i64,
}

impl Groups {
    /// Returns the operand of the reshape that computes `x`, if the reshape splits the last axis into groups, and `axes`
    /// are the axes of one group.
    pub(super) fn behind(
        found: &Match<'_, '_, '_>,
        x: ValueId,
        axes: &[usize],
    ) -> Option<(ValueId, Groups)> {
        let edit = &found.edit;
        let reshape = edit.made_by(x, OpType::Reshape)?;
        let source = edit.input(reshape, 0)?;
        let groups = Groups::of(found, source, x, axes).ok()?;
        (axes.len() > 1).then_some((source, groups))
    }

    /// Returns the groups of `x`. The array `groups` has the groups as its second to last axis, and is normalized over
    /// `axes`.
    fn of(
        found: &Match<'_, '_, '_>,
        x: ValueId,
        groups: ValueId,
        axes: &[usize],
    ) -> Result<Groups> {
        let shape = found.ty(x)?.shape;
        let grouped = found.ty(groups)?.shape;
        let rank = shape.len();
        let is_split =
            rank > 1 && grouped.len() == rank + 1 && grouped[..rank - 1] == shape[..rank - 1];
        let leading = axes.first().map_or(rank, |&first| first.min(rank - 1));
        ensure(
            is_split && leading != 0 && !axes.iter().copied().ne((leading..rank - 1).chain([rank])),
            "the groups are not on the last axis",
        )?;
        let count: Option<i64> = axes.iter().map(|&axis| grouped[axis].known()).product();
        let are_few = count.is_some_and(|count| count < MIN_FOR_FAST_VARIANCE);
        ensure(
            !are_few || found.maybe("fast variance").is_none(),
            "with so few elements, the variance depends on rounding",
        )?;
        let (Some(count), Some(width), Some(_)) =
            (grouped[rank - 1].known(), grouped[rank].known(), count)
        else {
            return Err("the sizes are unknown".into());
        };
        Ok(Groups { leading, count, width })
    }

    /// Returns the norm of `x`, with one scale and one bias per channel.
    fn normalized(&self, found: &mut Match<'_, '_, '_>, x: ValueId, affine: Affine) -> Result<Op> {
        let Type { shape, dtype } = found.ty(x)?;
        let rank = shape.len();
        let (leading, places) = (&shape[..self.leading], &shape[self.leading..rank - 1]);
        let channels = self.count * self.width;
        if self.width == 1 && self.leading == 1 && !places.is_empty() {
            let vector = |vector: Vector| vector.reshaped(&[channels]);
            let affine = Affine { scale: affine.scale.map(vector), bias: affine.bias.map(vector) };
            return to_instance_norm(found, x, affine);
        }
        let (order, back) = channel_orders(rank, self.leading);
        let first = found.insert(transpose(x, &order));
        let first_ty = found.ty(first)?;
        let batch = Dim::checked_product(leading).ok_or("the batch is too large")?;
        let width = [Dim::Known(self.width)];
        let area = Dim::checked_product(places.iter().chain(&width));
        let area = area.ok_or("a group is too large")?;
        let instances = reshaped(found, first, &[batch.clone(), self.count.into(), area])?;
        let op = instance_norm(found, instances, Affine::default())?;
        let normalized = found.insert(op);
        let shape = [&[batch, channels.into()], places].concat();
        let mut result = reshaped(found, normalized, &shape)?;
        let column = [&[channels][..], &vec![1; places.len()]].concat();
        for (vector, op) in [(affine.scale, OpType::Mul), (affine.bias, OpType::Add)] {
            if let Some(vector) = vector {
                let vector = vector.reshaped(&column).emit(found, dtype)?;
                result = found.insert(Op::new(op, &[result, vector]));
            }
        }
        let result = reshaped(found, result, &first_ty.shape)?;
        Ok(transpose(result, &back))
    }
}

/// Returns the norm of groups that a reshape splits from `source`, in the shape of the groups.
pub(super) fn to_split_groups(
    found: &mut Match<'_, '_, '_>,
    source: ValueId,
    groups: &Groups,
    affine: Affine,
) -> Result<Op> {
    let x = found.value("x")?;
    let reshape = found.producer(x).ok_or("the groups are not the result of a node")?;
    let shape = found.input(reshape, 1).ok_or("the shape of the reshape is unknown")?;
    found.take(&[reshape]);
    let op = groups.normalized(found, source, affine)?;
    let normalized = found.insert(op);
    Ok(Op::new(OpType::Reshape, &[normalized, shape]))
}

pub(super) fn to_group_norm(found: &mut Match<'_, '_, '_>) -> Result<Op> {
    let x = found.value("x")?;
    let axes = normalized_axes(found)?;
    let of_groups = found.value("groups")?;
    let groups = Groups::of(found, x, of_groups, &axes)?;
    let shape = found.ty(x)?.shape;
    ensure(shape[groups.leading..].iter().all(Dim::is_positive), "a normalized axis may be empty")?;
    if let Some(mean) = found.maybe("mean in groups") {
        found.expect_reduced(mean, of_groups, &axes)?;
    }
    expect_group_spread(found, "spread mean", "mean", &shape, &groups)?;
    expect_group_spread(found, "factor", "variance", &shape, &groups)?;
    expect_whole(found, x)?;
    let affine = Affine::over(found, x, &[shape.len() - 1])?;
    groups.normalized(found, x, affine)
}

/// Declines unless each channel has the number of its group in the value of `name`: the numbers of `origin` are repeated
/// once per channel of a group. Elementwise operators such as the square root may be in between.
fn expect_group_spread(
    found: &Match<'_, '_, '_>,
    name: &str,
    origin: &str,
    x: &[Dim],
    groups: &Groups,
) -> Result<()> {
    let (value, origin) = (found.value(name)?, found.value(origin)?);
    let is_spread = || {
        let (mut nodes, mut reached) = (Vec::new(), value);
        while reached != origin {
            let node = found.producer(reached)?;
            nodes.push(node);
            reached = found.input(node, 0)?;
        }
        let start = AxisMap::identity(found.shape(origin)?);
        let map = nodes.iter().rev().try_fold(start.clone(), |map, &node| {
            match found.edit.node(node).op.is(VIEW_OPS) {
                true => map.then_node(found.edit, node),
                false => map.reshaped(&found.result_ty(node)?.shape),
            }
        })?;
        let lead: Vec<Dim> = (0..x.len() - 1)
            .map(|axis| if axis < groups.leading { x[axis].clone() } else { 1.into() })
            .collect();
        let shape = |last: &[i64]| {
            let last = last.iter().map(|&size| Dim::Known(size));
            lead.iter().cloned().chain(last).collect::<Vec<_>>()
        };
        let repeated = start.clone().reshaped(&shape(&[groups.count, 1]))?;
        let repeated = repeated.broadcast(&shape(&[groups.count, groups.width]))?;
        let is_repeated = map == repeated.reshaped(&shape(&[groups.count * groups.width]))?;
        // If there is one group, the reader broadcasts it to all channels.
        let is_one = || Some(map == start.reshaped(&shape(&[1]))?);
        Some(is_repeated || (groups.count == 1 && is_one()?))
    };
    ensure(is_spread() == Some(true), "the groups are broadcast to other channels")
}

/// Returns the order of axes that moves the channels before the normalized axes, and its inverse.
fn channel_orders(rank: usize, leading: usize) -> (Vec<usize>, Vec<usize>) {
    let last = rank - 1;
    (
        (0..leading).chain([last]).chain(leading..last).collect(),
        (0..leading).chain(leading + 1..=last).chain([leading]).collect(),
    )
}

/// Reshapes a value.
fn reshaped(found: &mut Match<'_, '_, '_>, x: ValueId, shape: &[Dim]) -> Result<ValueId> {
    let before = found.ty(x)?.shape;
    let steps = plan(&before, Step::reshape(&before, shape).as_slice());
    let steps = steps.ok_or("too many sizes are unknown")?;
    let fused = found.fused().to_vec();
    emit(found.edit, &fused, x, &steps)
}
