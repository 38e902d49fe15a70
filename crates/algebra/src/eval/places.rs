//! Evaluates operators that copy elements to other places: gathers, scatters, repeats and pads.

use onnx::infer::axes_from_front;
use onnx::{Attr, DType, OpType, Tensor};
use rustc_hash::FxHashSet;

use super::Call;
use crate::rewrite::require;

impl Call<'_> {
    /// Returns the elements of an array at these places.
    pub(super) fn picked(&self, x: &Tensor, places: &[usize]) -> Option<Tensor> {
        require(x.dtype.bits() >= 8 && x.dtype == self.dtype)?;
        let (width, bytes) = (x.dtype.bits() / 8, x.bytes());
        let elements = places.iter().map(|place| bytes.get(place * width..(place + 1) * width));
        let data: Vec<u8> = elements.collect::<Option<Vec<_>>>()?.concat();
        Some(Tensor::new(self.dtype, self.shape.clone(), data))
    }

    /// Returns the integers from a start, at equal distances.
    pub(super) fn range(&self, start: &Tensor, delta: &Tensor) -> Option<Tensor> {
        let (&[start], &[delta]) = (&start.ints()?[..], &delta.ints()?[..]) else { return None };
        let count = *self.shape.first()?;
        self.ints((0..count).map(|at| start.wrapping_add(at.wrapping_mul(delta))))
    }

    /// Returns an array, repeated along its axes.
    pub(super) fn tiled(&self, x: &Tensor) -> Option<Tensor> {
        require(x.shape.len() == self.shape.len() && !x.is_empty())?;
        let places = indices(&self.shape)
            .map(|index| {
                let wrapped = index.iter().zip(&x.shape).map(|(at, size)| at % size);
                offset(wrapped, &x.shape)
            })
            .collect::<Vec<usize>>();
        self.picked(x, &places)
    }

    /// Returns an array with a number around it.
    pub(super) fn padded(&self, x: &Tensor, pads: &Tensor, rest: &[&Tensor]) -> Option<Tensor> {
        let is_constant = self.node.attr("mode").is_none_or(|mode| *mode == Attr::from("constant"));
        let (number, axes) = match rest {
            [] => (None, None),
            [number] => (Some(number), None),
            [number, axes] => (Some(number), Some(axes.ints()?)),
            _ => return None,
        };
        let rank = x.shape.len();
        let axes = axes.unwrap_or_else(|| (0..rank as i64).collect());
        let (axes, pads) = (axes_from_front(&axes, rank)?, pads.ints()?);
        require(is_constant && pads.len() == 2 * axes.len())?;
        let mut before = vec![0; rank];
        for (&axis, &pad) in axes.iter().zip(&pads) {
            before[axis] = pad;
        }
        let zero = Tensor::of_ints(self.dtype, Vec::new(), &[0])?;
        let with_number = Tensor::joined(
            &[&flat(x), &flat(number.map_or(&zero, |number| *number))],
            0,
            vec![x.len() as i64 + 1],
        )?;
        let places = indices(&self.shape).map(|index| {
            let moved: Vec<i64> = index.iter().zip(&before).map(|(at, pad)| at - pad).collect();
            let is_inside = moved.iter().zip(&x.shape).all(|(at, size)| (0..*size).contains(at));
            if is_inside { offset(moved.into_iter(), &x.shape) } else { x.len() }
        });
        self.picked(&with_number, &places.collect::<Vec<_>>())
    }

    /// Returns the elements at indices along an axis.
    pub(super) fn gathered_elements(&self, x: &Tensor, at: &Tensor) -> Option<Tensor> {
        let places = places_along(x, at, self.node.axis(x.shape.len())?)?;
        self.picked(x, &places)
    }

    /// Returns an array into which elements are written at indices along an axis.
    pub(super) fn scattered_elements(&self, x: &Tensor, at: &Tensor, y: &Tensor) -> Option<Tensor> {
        let places = places_along(x, at, self.node.axis(x.shape.len())?)?;
        self.scattered(x, &places, y)
    }

    /// Returns an array into which slices are written.
    pub(super) fn scattered_slices(&self, x: &Tensor, at: &Tensor, y: &Tensor) -> Option<Tensor> {
        self.scattered(x, &places_of_slices(x, at)?, y)
    }

    /// Returns the slices of an array at indices.
    pub(super) fn gathered_slices(&self, x: &Tensor, at: &Tensor) -> Option<Tensor> {
        require(matches!(self.node.attr("batch_dims"), None | Some(Attr::Int(0))))?;
        self.picked(x, &places_of_slices(x, at)?)
    }

    /// Writes elements to places, or combines them with the elements there. `None` if the order matters.
    fn scattered(&self, x: &Tensor, places: &[usize], y: &Tensor) -> Option<Tensor> {
        require(places.len() == y.len())?;
        let are_different = places.iter().collect::<FxHashSet<_>>().len() == places.len();
        let op = match self.node.attr("reduction") {
            None => None,
            Some(reduction) if *reduction == Attr::from("none") => None,
            Some(reduction) if *reduction == Attr::from("add") => Some(OpType::Add),
            Some(reduction) if *reduction == Attr::from("mul") => Some(OpType::Mul),
            Some(reduction) if *reduction == Attr::from("max") => Some(OpType::Max),
            Some(reduction) if *reduction == Attr::from("min") => Some(OpType::Min),
            _ => return None,
        };
        let Some(op) = op else {
            require(are_different && self.dtype.bits() >= 8)?;
            let width = self.dtype.bits() / 8;
            let (mut data, from) = (x.bytes().to_vec(), y.bytes());
            for (place, element) in places.iter().zip(from.chunks_exact(width)) {
                data.get_mut(place * width..(place + 1) * width)?.copy_from_slice(element);
            }
            return Some(Tensor::new(self.dtype, self.shape.clone(), data));
        };
        if let (Some(mut ints), Some(from)) = (x.ints(), y.ints()) {
            // `ints` returns uint64 as signed, which has another order.
            let is_ordered = matches!(op, OpType::Max | OpType::Min);
            require(self.dtype != DType::Bool && !(is_ordered && self.dtype == DType::U64))?;
            for (&place, by) in places.iter().zip(from) {
                let int = ints.get_mut(place)?;
                *int = match op {
                    OpType::Add => int.wrapping_add(by),
                    OpType::Mul => int.wrapping_mul(by),
                    OpType::Max => by.max(*int),
                    _ => by.min(*int),
                };
            }
            return self.ints(ints.into_iter());
        }
        let (mut floats, from) = (x.floats()?, y.floats()?);
        // If two floats are added to one, the order decides how the sum is rounded. Runtimes differ in NaN, and in the
        // larger of two zeros.
        let is_open = |float: &f64| float.is_nan() || float.to_bits() == (-0.0f64).to_bits();
        require(match op {
            OpType::Add | OpType::Mul => are_different,
            _ => !floats.iter().chain(&from).any(is_open),
        })?;
        for (&place, by) in places.iter().zip(from) {
            let float = floats.get_mut(place)?;
            *float = match op {
                OpType::Add => *float + by,
                OpType::Mul => *float * by,
                OpType::Max => by.max(*float),
                _ => by.min(*float),
            };
        }
        self.floats(floats.into_iter())
    }
}

/// Returns the place of each element at indices along an axis. `None` if an index is out of bounds.
fn places_along(x: &Tensor, at: &Tensor, axis: usize) -> Option<Vec<usize>> {
    require(at.shape.len() == x.shape.len())?;
    let size = x.shape[axis];
    let places = indices(&at.shape).zip(at.ints()?).map(|(mut index, along)| {
        index[axis] = if along < 0 { along + size } else { along };
        let is_inside = index.iter().zip(&x.shape).all(|(at, size)| (0..*size).contains(at));
        is_inside.then(|| offset(index.into_iter(), &x.shape))
    });
    places.collect()
}

/// Returns the places of the elements of slices, whose indices are the rows of an array. `None` if an index is out of
/// bounds.
fn places_of_slices(x: &Tensor, at: &Tensor) -> Option<Vec<usize>> {
    let depth = usize::try_from(*at.shape.last()?).ok()?;
    require(depth > 0 && depth <= x.shape.len())?;
    let row: usize = x.shape[depth..].iter().product::<i64>() as usize;
    let mut places = Vec::new();
    for index in at.ints()?.chunks_exact(depth) {
        let mut first = 0;
        for (&at, &size) in index.iter().zip(&x.shape) {
            let at = if at < 0 { at + size } else { at };
            require((0..size).contains(&at))?;
            first = first * size + at;
        }
        let first = first as usize * row;
        places.extend(first..first + row);
    }
    Some(places)
}

fn flat(x: &Tensor) -> Tensor {
    x.with_shape(vec![x.len() as i64])
}

/// Returns the place of an element in row-major order.
fn offset(index: impl Iterator<Item = i64>, shape: &[i64]) -> usize {
    index.zip(shape).fold(0, |place, (at, size)| place * size + at) as usize
}

/// Returns the indices of all elements in row-major order.
fn indices(shape: &[i64]) -> impl Iterator<Item = Vec<i64>> + '_ {
    let count = shape.iter().product::<i64>();
    (0..count).map(move |mut place| {
        let mut index = vec![0; shape.len()];
        for (at, size) in index.iter_mut().zip(shape).rev() {
            (*at, place) = (place % size, place / size);
        }
        index
    })
}
