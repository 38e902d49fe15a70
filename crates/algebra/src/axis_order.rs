//! Describes a transpose independently of sizes.

use onnx::Edit;
use smallvec::SmallVec;

/// The order of the axes after a transpose: axis `i` of the result is axis `order[i]` of the operand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AxisOrder(SmallVec<[usize; 6]>);

impl AxisOrder {
    pub fn new(axes: impl IntoIterator<Item = usize>) -> AxisOrder {
        AxisOrder(axes.into_iter().collect())
    }

    /// Returns the order that changes nothing.
    pub fn identity(rank: usize) -> AxisOrder {
        AxisOrder::new(0..rank)
    }

    /// Returns the order that moves the last axis to the front.
    pub fn last_first(rank: usize) -> AxisOrder {
        AxisOrder::new((rank - 1..rank).chain(0..rank - 1))
    }

    /// Returns the order of a `Transpose`. `None` for another node.
    pub fn of_node(edit: &Edit<'_>, index: usize) -> Option<AxisOrder> {
        edit.perm(index).map(AxisOrder::new)
    }

    pub fn rank(&self) -> usize {
        self.0.len()
    }

    pub fn perm(&self) -> &[usize] {
        &self.0
    }

    pub fn is_identity(&self) -> bool {
        self.0.iter().copied().eq(0..self.rank())
    }

    #[must_use]
    pub fn inverse(&self) -> AxisOrder {
        let mut inverse = self.clone();
        for (after, &before) in self.0.iter().enumerate() {
            inverse.0[before] = after;
        }
        inverse
    }

    /// Returns this order followed by another one. `None` if the ranks differ.
    pub fn then(&self, next: &AxisOrder) -> Option<AxisOrder> {
        let whole = || AxisOrder::new(next.0.iter().map(|&axis| self.0[axis]));
        (self.rank() == next.rank()).then(whole)
    }

    /// Returns the position of an axis of the operand in the result.
    pub fn axis_after(&self, axis: usize) -> Option<usize> {
        self.0.iter().position(|&before| before == axis)
    }

    /// True if the last axis stays the last one.
    pub fn keeps_last_axis(&self) -> bool {
        self.0.last().is_none_or(|&axis| axis + 1 == self.rank())
    }

    /// True if these axes of the operand, which are sorted, keep their order in the result.
    pub fn keeps_order(&self, axes: &[usize]) -> bool {
        axes.iter().map(|&axis| self.axis_after(axis)).is_sorted()
    }

    /// Reorders a list with one entry per axis of the operand.
    pub fn permuted<T: Clone>(&self, of_axes: &[T]) -> Option<Vec<T>> {
        self.0.iter().map(|&axis| of_axes.get(axis).cloned()).collect()
    }
}
