//! Reads the dimension numbers of `gather` and `scatter`, which describe the indexed axes and the
//! windows.

use jaxpr::Param;
use onnx::Dim;

use crate::ctx::Eqn;
use crate::error::{Refused, Result};

/// The treatment of an index that is out of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The index becomes the nearest index in bounds.
    Clamp,
    /// Reads return a fill value, and writes are dropped.
    Fill,
}

/// Windows of an array. A vector of indices is the start of each window.
///
/// The result of a `gather` and the updates of a `scatter` have the axes of the indices, except the
/// last, and between them the axes of the windows.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    /// The axis of the operand for each entry of an index vector.
    pub mapped: Vec<usize>,
    /// The axes of the operand along which a window has one entry, and that are missing in the
    /// window.
    pub collapsed: Vec<usize>,
    /// The batching axes of the operand, each with its axis of the indices.
    pub batching: Vec<(usize, usize)>,
    /// The axes of the result that belong to the windows.
    pub offsets: Vec<usize>,
    /// The size of a window along each axis of the operand.
    pub sizes: Vec<Dim>,
}

/// An axis of a result: an axis of the indices, or an axis of the operand in the windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Axis {
    Index(usize),
    Window(usize),
}

impl Windows {
    /// Reads the dimension numbers of a `gather` from an array of shape `shape`.
    ///
    /// An axis of parts is the last axis, and every window contains all of it.
    pub fn of_gather(
        eqn: &Eqn<'_, '_>,
        mut sizes: Vec<Dim>,
        shape: &[Dim],
        rank: usize,
    ) -> Result<Windows> {
        let numbers: Param = eqn.param("dimension_numbers")?;
        let axes = |name| axes(eqn, &numbers, name);
        let batching = axes("operand_batching_dims")?;
        let mut offsets = axes("offset_dims")?;
        if eqn.part_axes() > 0 {
            sizes.extend(shape.last().cloned());
            offsets.push(rank - 1);
        }
        Ok(Windows {
            mapped: axes("start_index_map")?,
            collapsed: axes("collapsed_slice_dims")?,
            batching: batching.into_iter().zip(axes("start_indices_batching_dims")?).collect(),
            offsets,
            sizes,
        })
    }

    /// Reads the dimension numbers of a `scatter` with updates of shape `updates`.
    pub fn of_scatter(eqn: &Eqn<'_, '_>, rank: usize, updates: &[Dim]) -> Result<Windows> {
        let numbers: Param = eqn.param("dimension_numbers")?;
        let axes = |name| axes(eqn, &numbers, name);
        let batching = axes("operand_batching_dims")?;
        let mut windows = Windows {
            mapped: axes("scatter_dims_to_operand_dims")?,
            collapsed: axes("inserted_window_dims")?,
            batching: batching.into_iter().zip(axes("scatter_indices_batching_dims")?).collect(),
            offsets: axes("update_window_dims")?,
            sizes: vec![Dim::Known(1); rank],
        };
        if eqn.part_axes() > 0 {
            windows.offsets.push(updates.len() - 1);
        }
        for (axis, &offset) in windows.window_axes().into_iter().zip(&windows.offsets) {
            windows.sizes[axis] = updates[offset].clone();
        }
        Ok(windows)
    }

    /// Returns the axes of the operand that are axes of a window, in order.
    pub fn window_axes(&self) -> Vec<usize> {
        let has_axis = |axis: &usize| !self.collapsed.contains(axis) && !self.is_batching(*axis);
        (0..self.sizes.len()).filter(has_axis).collect()
    }

    /// True if an axis of the operand is a batching axis.
    pub fn is_batching(&self, axis: usize) -> bool {
        self.batching.iter().any(|&(own, _)| own == axis)
    }

    /// Returns the axes of the operand that need an index, because a window contains only a part of
    /// them.
    pub fn indexed(&self, shape: &[Dim]) -> Vec<usize> {
        let is_part =
            |axis: &usize| self.collapsed.contains(axis) || self.sizes[*axis] != shape[*axis];
        (0..shape.len()).filter(|axis| !self.is_batching(*axis) && is_part(axis)).collect()
    }

    /// Returns the axes of a result of rank `rank`, in order.
    pub fn result_axes(&self, rank: usize) -> Vec<Axis> {
        let (mut indices, mut windows) = (0.., self.window_axes().into_iter());
        let axis = |place: usize| {
            if self.offsets.contains(&place) {
                windows.next().map(Axis::Window)
            } else {
                indices.next().map(Axis::Index)
            }
        };
        (0..rank).filter_map(axis).collect()
    }

    /// True if no two windows can overlap: there is one window, or one for each entry of the
    /// batching axes.
    pub fn never_overlap(&self, indices: &[Dim]) -> bool {
        let is_batch = |axis: usize| self.batching.iter().any(|&(_, along)| along == axis);
        let batch = &indices[..indices.len() - 1];
        batch.iter().enumerate().all(|(axis, dim)| dim.is(1) || is_batch(axis))
    }
}

/// Returns a field of the dimension numbers. Before JAX 0.4.31, there are no batching axes.
fn axes(eqn: &Eqn<'_, '_>, numbers: &Param, name: &str) -> Result<Vec<usize>> {
    match numbers.field(name) {
        None if name.contains("batching") => Ok(Vec::new()),
        found => found
            .and_then(jaxpr::FromParam::from_param)
            .ok_or_else(|| eqn.broken(&format!("it has no list of axes `{name}`")).into()),
    }
}

/// Returns the mode of a `gather`. Indices that are promised to be in bounds are clamped.
pub(super) fn gather_mode(eqn: &Eqn<'_, '_>) -> Result<Mode> {
    mode(eqn, Mode::Clamp)
}

/// Returns the mode of a `scatter`. Updates that break the promise to be in bounds are dropped.
pub(super) fn scatter_mode(eqn: &Eqn<'_, '_>) -> Result<Mode> {
    mode(eqn, Mode::Fill)
}

fn mode(eqn: &Eqn<'_, '_>, promised: Mode) -> Result<Mode> {
    let mode: Param = eqn.param("mode")?;
    match &mode {
        Param::Enum(_, name) if &**name == "CLIP" => Ok(Mode::Clamp),
        Param::Enum(_, name) if &**name == "FILL_OR_DROP" => Ok(Mode::Fill),
        Param::Enum(_, name) if &**name == "PROMISE_IN_BOUNDS" => Ok(promised),
        other => Err(Refused::NoCounterpart { what: format!("mode={other}") }.into()),
    }
}
