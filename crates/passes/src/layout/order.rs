//! Orders of axes: axis `i` of what is transposed is axis `order[i]` of what it was.

use onnx::{Dim, Node, Op, Tensor, Type, ValueId};

use crate::access::perm_of;
use crate::eval::transposed;
use crate::moves::transpose;

/// An order of axes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Order(Vec<usize>);

impl Order {
    pub(crate) fn unchanged(rank: usize) -> Order {
        Order((0..rank).collect())
    }

    /// The order of a `Transpose`.
    pub(crate) fn of(node: &Node, rank: usize) -> Option<Order> {
        perm_of(node, rank).map(Order)
    }

    pub(crate) fn rank(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_unchanged(&self) -> bool {
        self.0.iter().enumerate().all(|(position, &axis)| position == axis)
    }

    /// This order, and then the other.
    pub(crate) fn then(&self, other: &Order) -> Order {
        Order(other.0.iter().map(|&axis| self.0[axis]).collect())
    }

    pub(crate) fn inverse(&self) -> Order {
        let mut inverse = vec![0; self.0.len()];
        for (position, &axis) in self.0.iter().enumerate() {
            inverse[axis] = position;
        }
        Order(inverse)
    }

    /// Where an axis goes.
    pub(crate) fn position(&self, axis: usize) -> usize {
        self.0.iter().position(|&other| other == axis).unwrap_or(axis)
    }

    /// Whether these axes, which are sorted, stay in order.
    pub(crate) fn keeps(&self, axes: &[usize]) -> bool {
        axes.iter().map(|&axis| self.position(axis)).is_sorted()
    }

    pub(crate) fn apply<T: Clone>(&self, of_axes: &[T]) -> Vec<T> {
        self.0.iter().map(|&axis| of_axes[axis].clone()).collect()
    }

    pub(crate) fn apply_to(&self, ty: &Type) -> Type {
        Type::new(ty.dtype, self.apply(&ty.shape))
    }

    pub(crate) fn transpose(&self, value: ValueId) -> Op<'static> {
        transpose(value, &self.0)
    }

    /// A constant that broadcasts with arrays of this rank, as it broadcasts with transposed ones.
    pub(crate) fn apply_to_tensor(&self, tensor: &Tensor) -> Option<Tensor> {
        let lead = self.rank().checked_sub(tensor.shape.len())?;
        let whole = [&vec![1; lead][..], &tensor.shape].concat();
        let shape = self.apply(&whole);
        let filled: Vec<usize> = (0..whole.len()).filter(|&axis| whole[axis] != 1).collect();
        let mut moved = if self.keeps(&filled) {
            Tensor { dtype: tensor.dtype, shape, data: tensor.data.clone() }
        } else {
            let whole = Tensor { dtype: tensor.dtype, shape: whole, data: tensor.data.clone() };
            transposed(&whole, &self.0)?
        };
        let ones = moved.shape.iter().take_while(|&&size| size == 1).count();
        moved.shape.drain(..ones.min(lead));
        Some(moved)
    }
}

/// The axes whose size is not known to be one.
pub(crate) fn filled_axes(shape: &[Dim]) -> Vec<usize> {
    (0..shape.len()).filter(|&axis| !shape[axis].is(1)).collect()
}
