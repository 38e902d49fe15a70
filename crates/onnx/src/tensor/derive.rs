//! Computes a tensor from another tensor with the same elements.

use super::lazy::Lazy;
use super::strided::{Axis, grouped};
use super::{Contents, Tensor};

/// A step from one array to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Takes `shape` elements along each axis, from `starts` on.
    Slice {
        starts: Vec<i64>,
        shape: Vec<i64>,
    },
    Reshape(Vec<i64>),
    /// Axis `i` of the result is axis `perm[i]` of the operand.
    Transpose(Vec<usize>),
}

/// The address and the length of an array in memory.
pub type Memory = (usize, usize);

impl Tensor {
    /// Returns the memory of the elements, if they are in one array and not computed.
    pub fn memory(&self) -> Option<Memory> {
        let bytes = match &self.contents {
            Contents::Bytes(bytes) => &bytes.0[..],
            Contents::Lazy(lazy) => match &**lazy {
                Lazy::View(view) => view.source(),
                _ => return None,
            },
        };
        Some((bytes.as_ptr().addr(), bytes.len()))
    }

    /// Returns the arrays that contain the elements or from which they are computed, and how many bytes of each are
    /// read.
    pub fn sources(&self) -> Vec<(Memory, usize)> {
        let own = || self.memory().map(|memory| (memory, self.byte_len())).into_iter().collect();
        let Contents::Lazy(lazy) = &self.contents else { return own() };
        match &**lazy {
            Lazy::View(_) => own(),
            Lazy::Product(x, ..) | Lazy::Cast(x) => x.sources(),
            Lazy::Joined(parts, _) => parts.iter().flat_map(Tensor::sources).collect(),
        }
    }

    /// Returns the size in bytes of the arrays that contain the elements or from which they are computed.
    pub fn source_bytes(&self) -> usize {
        self.sources().iter().map(|&((_, length), bytes)| bytes.min(length)).sum()
    }

    /// True if the elements are in memory, in their order.
    pub fn is_contiguous(&self) -> bool {
        matches!(self.contents, Contents::Bytes(_))
    }

    /// Returns the parts that are concatenated in this tensor, their axis, and the shape before a reshape. `None`
    /// if it is not a concatenation.
    pub fn parts(&self) -> Option<(&[Tensor], usize, Vec<i64>)> {
        let Contents::Lazy(lazy) = &self.contents else {
            return None;
        };
        let Lazy::Joined(parts, rows) = &**lazy else {
            return None;
        };
        let first = parts.first()?;
        let size = |axis: usize| first.shape[..axis].iter().product::<i64>() as usize;
        let axis = (0..first.shape.len()).find(|&axis| {
            let is_alike = |part: &Tensor| {
                part.shape.len() == first.shape.len()
                    && part.shape[..axis] == first.shape[..axis]
                    && part.shape[axis + 1..] == first.shape[axis + 1..]
            };
            size(axis) == *rows && parts.iter().all(is_alike)
        })?;
        let mut shape = first.shape.clone();
        shape[axis] = parts.iter().map(|part| part.shape[axis]).sum();
        Some((parts, axis, shape))
    }

    /// Returns the steps that compute this tensor from `stored`, if its elements are in the same memory.
    pub fn steps_from(&self, stored: &Tensor) -> Option<Vec<Step>> {
        if !stored.is_contiguous()
            || self.memory()? != stored.memory()?
            || self.dtype != stored.dtype
        {
            return None;
        }
        let (offset, axes) = match &self.contents {
            Contents::Lazy(lazy) => match &**lazy {
                Lazy::View(view) => view.axes(),
                _ => return None,
            },
            Contents::Bytes(_) => (0, &[Axis { size: self.len(), stride: 1 }][..]),
        };
        let split = grouped(axes.to_vec(), &self.shape).map(|groups| groups.concat());
        let axes = split.unwrap_or_else(|| axes.to_vec());
        let found = along_axes(&stored.shape, offset, &axes);
        let (mut steps, shape) = found.or_else(|| of_whole(stored, offset, &axes))?;
        if shape != self.shape {
            steps.push(Step::Reshape(self.shape.clone()));
        }
        Some(steps)
    }
}

/// Returns the steps to a view, each of whose axes is a part of one axis of the array, and the shape after these
/// steps.
fn along_axes(shape: &[i64], offset: isize, axes: &[Axis]) -> Option<(Vec<Step>, Vec<i64>)> {
    let stride = |axis: usize| shape[axis + 1..].iter().product::<i64>() as isize;
    let mut rest = offset;
    let mut starts = Vec::new();
    for axis in 0..shape.len() {
        starts.push((rest / stride(axis)) as i64);
        rest %= stride(axis);
    }
    let (mut sizes, mut order) = (vec![1; shape.len()], Vec::new());
    for axis in axes {
        let is_it = |&own: &usize| shape[own] > 1 && stride(own) == axis.stride;
        let own = (0..shape.len()).find(is_it).filter(|own| !order.contains(own))?;
        sizes[own] = axis.size as i64;
        order.push(own);
    }
    let fits = |axis: usize| starts[axis] >= 0 && starts[axis] + sizes[axis] <= shape[axis];
    if !(0..shape.len()).all(fits) {
        return None;
    }
    let mut steps = Vec::new();
    if sizes != shape {
        steps.push(Step::Slice { starts, shape: sizes.clone() });
    }
    if order.is_sorted() {
        return Some((steps, sizes));
    }
    let units = (0..shape.len()).filter(|axis| !order.contains(axis));
    let perm: Vec<usize> = units.chain(order.iter().copied()).collect();
    let after = perm.iter().map(|&axis| sizes[axis]).collect();
    steps.push(Step::Transpose(perm));
    Some((steps, after))
}

/// Returns the steps to a view of all elements, and the shape after these steps.
fn of_whole(stored: &Tensor, offset: isize, axes: &[Axis]) -> Option<(Vec<Step>, Vec<i64>)> {
    let mut order: Vec<usize> = (0..axes.len()).collect();
    order.sort_by_key(|&axis| -axes[axis].stride);
    let mut distance = 1;
    for &axis in order.iter().rev() {
        if axes[axis].stride != distance as isize {
            return None;
        }
        distance *= axes[axis].size;
    }
    if offset != 0 || distance != stored.len() {
        return None;
    }
    let sizes = |order: &[usize]| order.iter().map(|&axis| axes[axis].size as i64).collect();
    let in_memory: Vec<i64> = sizes(&order);
    let mut steps = Vec::new();
    if in_memory != stored.shape {
        steps.push(Step::Reshape(in_memory));
    }
    if !order.is_sorted() {
        let place = |axis: usize| order.iter().position(|&other| other == axis);
        steps.push(Step::Transpose((0..axes.len()).map(place).collect::<Option<_>>()?));
    }
    Some((steps, sizes(&(0..axes.len()).collect::<Vec<_>>())))
}
