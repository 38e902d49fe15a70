//! Evaluates operators along axes: reductions, cumulative sums, and the largest elements.

use std::cmp::Ordering;

use onnx::infer::axes_from_front;
use onnx::{Attr, DType, OpType, Tensor};

use super::Call;
use crate::rewrite::require;

/// The elements of an array, in lanes along some axes.
pub(super) struct Lanes {
    starts: Vec<usize>,
    steps: Vec<usize>,
}

impl Lanes {
    /// Returns the lanes along axes of an array.
    pub(super) fn of(shape: &[i64], axes: &[usize]) -> Lanes {
        let stride = |axis: usize| -> i64 { shape[axis + 1..].iter().product() };
        let part = |is_along: bool| {
            let chosen = (0..shape.len()).filter(|axis| axes.contains(axis) == is_along);
            strided_indices(chosen.map(|axis| (shape[axis], stride(axis))))
        };
        Lanes { starts: part(false), steps: part(true) }
    }

    /// Returns the index of the first element of each lane, in row-major order.
    pub(super) fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// Returns the distances of the elements of a lane from its start.
    pub(super) fn steps(&self) -> &[usize] {
        &self.steps
    }

    /// Returns the number of elements of a lane.
    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }
}

/// Returns the offsets of elements in row-major order, from the sizes and strides of their axes.
fn strided_indices(axes: impl Iterator<Item = (i64, i64)>) -> Vec<usize> {
    let mut offsets: Vec<i64> = vec![0];
    for (size, stride) in axes {
        let along = |&offset: &i64| (0..size).map(move |i| offset + i * stride);
        offsets = offsets.iter().flat_map(along).collect();
    }
    offsets.into_iter().map(|offset| offset as usize).collect()
}

/// The elements of an array, in an order that all runtimes agree on.
enum Ordered {
    Ints(Vec<i64>),
    Floats(Vec<f64>),
}

impl Ordered {
    /// `None` if an element is NaN, and for uint64, which `ints` returns as signed.
    fn of(x: &Tensor) -> Option<Ordered> {
        if let Some(ints) = x.ints() {
            return (x.dtype != DType::U64).then_some(Ordered::Ints(ints));
        }
        let floats = x.floats()?;
        (!floats.iter().any(|float| float.is_nan())).then_some(Ordered::Floats(floats))
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        match self {
            Ordered::Ints(ints) => ints[a].cmp(&ints[b]),
            Ordered::Floats(floats) => floats[a].partial_cmp(&floats[b]).unwrap_or(Ordering::Equal),
        }
    }

    /// True if the array contains both zeros, which are equal and have different bits.
    fn has_both_zeros(&self) -> bool {
        let Ordered::Floats(floats) = self else { return false };
        let has = |bits: u64| floats.iter().any(|float| float.to_bits() == bits);
        has(0.0f64.to_bits()) && has((-0.0f64).to_bits())
    }
}

impl Call<'_> {
    /// Returns the lanes that a reduction reduces.
    pub(super) fn reduced_lanes(&self, x: &Tensor) -> Option<Lanes> {
        let axes: Vec<i64> = match (self.operands, self.node.attr("axes")) {
            ([_, axes], None) => axes.ints()?,
            ([_], Some(Attr::Ints(axes))) => axes.to_vec(),
            _ => return None,
        };
        let axes = axes_from_front(&axes, x.shape.len())?;
        let is_noop = self.node.attr("noop_with_empty_axes") == Some(&Attr::Int(1));
        require(!axes.is_empty() && !is_noop)?;
        Some(Lanes::of(&x.shape, &axes))
    }

    /// Returns the lanes along which a `CumSum` adds all elements up to each one, the first element first.
    pub(super) fn cumulated_lanes(&self, x: &Tensor, axis: &Tensor) -> Option<Lanes> {
        let is_plain = |name| matches!(self.node.attr(name), None | Some(Attr::Int(0)));
        require(is_plain("exclusive"))?;
        let mut lanes = Lanes::of(&x.shape, &axes_from_front(&axis.ints()?, x.shape.len())?);
        if !is_plain("reverse") {
            lanes.steps.reverse();
        }
        Some(lanes)
    }

    /// Returns the sum or the product of the integers of each lane, which wrap.
    pub(super) fn reduced_ints(&self, x: &Tensor) -> Option<Tensor> {
        let (ints, lanes) = (x.ints()?, self.reduced_lanes(x)?);
        let of_lane = |&start: &usize| {
            let lane = lanes.steps().iter().map(|&step| ints[start + step]);
            match self.op {
                OpType::ReduceProd => lane.fold(1, i64::wrapping_mul),
                _ => lane.fold(0, i64::wrapping_add),
            }
        };
        self.ints(lanes.starts().iter().map(of_lane))
    }

    /// Returns the cumulative sums of integers, which wrap.
    pub(super) fn cumulated_ints(&self, x: &Tensor, axis: &Tensor) -> Option<Tensor> {
        let (mut ints, lanes) = (x.ints()?, self.cumulated_lanes(x, axis)?);
        for &start in lanes.starts() {
            let mut sum = 0i64;
            for &step in lanes.steps() {
                sum = sum.wrapping_add(ints[start + step]);
                ints[start + step] = sum;
            }
        }
        self.ints(ints.into_iter())
    }

    /// Returns the largest or the smallest element of each lane.
    pub(super) fn extreme_of_lanes(&self, x: &Tensor) -> Option<Tensor> {
        let (ordered, lanes) = (Ordered::of(x)?, self.reduced_lanes(x)?);
        require(lanes.len() > 0 && !ordered.has_both_zeros())?;
        let is_min = self.op == OpType::ReduceMin;
        let places: Option<Vec<usize>> = lanes
            .starts()
            .iter()
            .map(|&start| first_extreme(&ordered, &lanes, start, is_min).map(|(_, place)| place))
            .collect();
        self.picked(x, &places?)
    }

    /// Returns the index of the first largest or smallest element along an axis.
    pub(super) fn index_of_extreme(&self, x: &Tensor) -> Option<Tensor> {
        let is_first = matches!(self.node.attr("select_last_index"), None | Some(Attr::Int(0)));
        require(is_first)?;
        let (ordered, axis) = (Ordered::of(x)?, self.node.axis(x.shape.len())?);
        let lanes = Lanes::of(&x.shape, &[axis]);
        let is_min = self.op == OpType::ArgMin;
        let indices: Option<Vec<i64>> = lanes
            .starts()
            .iter()
            .map(|&start| {
                first_extreme(&ordered, &lanes, start, is_min).map(|(index, _)| index as i64)
            })
            .collect();
        self.ints(indices?.into_iter())
    }
}

/// Returns the index in its lane and the place of the first largest or smallest element of a lane.
fn first_extreme(
    ordered: &Ordered,
    lanes: &Lanes,
    start: usize,
    is_min: bool,
) -> Option<(usize, usize)> {
    let places = lanes.steps().iter().map(|step| start + step).enumerate();
    places.reduce(|best, next| {
        let order = ordered.compare(next.1, best.1);
        let is_better = if is_min { order.is_lt() } else { order.is_gt() };
        if is_better { next } else { best }
    })
}
