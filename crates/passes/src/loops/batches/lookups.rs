//! Batches gathers and slices of an array that is the same in every step.

use algebra::axis_map::transpose;
use algebra::rewrite::require;
use onnx::infer::axes_from_front;
use onnx::{DType, Node, Op, OpType, Patch, Tensor, Type, ValueId, known_shape};

use super::{Batches, Operand};

impl Batches {
    /// Batches a slice whose start differs between steps along one axis.
    pub(super) fn moving_slice(
        &self,
        edit: &mut Patch<'_, '_>,
        node: &Node,
        operands: &[Option<Operand>],
        ty: &Type,
    ) -> Option<Op> {
        let steps = self.steps.known()?;
        let &[Some(Operand::Same(array)), Some(starts), _, Some(Operand::Same(axes)), ..] =
            operands
        else {
            return None;
        };
        let is_one = |strides: &Option<Operand>| {
            let strides = strides.as_ref().and_then(|strides| match strides {
                Operand::Same(strides) => edit.tensor(*strides)?.ints(),
                Operand::Batch(_) => None,
            });
            strides.is_some_and(|strides| strides.iter().all(|&stride| stride == 1))
        };
        require(operands.get(4).is_none_or(is_one))?;
        let sizes: Vec<i64> = known_shape(edit.shape(array)?)?;
        let taken: Vec<i64> = known_shape(&ty.shape)?;
        let axes = axes_from_front(&edit.tensor(axes)?.ints()?, sizes.len())?;
        let starts = match starts {
            Operand::Same(starts) => edit.tensor(starts)?.ints()?.repeat(steps as usize),
            Operand::Batch(starts) => edit.tensor(starts)?.ints()?,
        };
        let mut moving = None;
        let mut array = array;
        for (place, &axis) in axes.iter().enumerate() {
            let from = |start: &i64| {
                let start = if *start < 0 { start + sizes[axis] } else { *start };
                start.clamp(0, sizes[axis] - taken[axis])
            };
            let starts: Vec<i64> =
                starts.iter().skip(place).step_by(axes.len()).map(from).collect();
            let &first = starts.first()?;
            if starts.iter().any(|&start| start != first) {
                require(moving.replace((axis, starts)).is_none())?;
            } else if taken[axis] < sizes[axis] {
                let bounds = [first, first + taken[axis], axis as i64];
                let [start, end, along] = bounds.map(|bound| edit.integers(&[bound]));
                let op = Op::new(OpType::Slice, &[array, start?, end?, along?]);
                array = edit.lift(node, op);
            }
        }
        let (axis, starts) = moving?;
        let size = taken[axis];
        if size == 1 {
            let places = edit.integers(&starts)?;
            let op = steps_to_front(edit, node, [array, places], axis, ty.rank() - 1);
            let rows = edit.lift(node, op);
            let axes = edit.integers(&[axis as i64 + 1])?;
            return Some(Op::new(OpType::Unsqueeze, &[rows, axes]));
        }
        let places: Vec<i64> = starts.iter().flat_map(|&start| start..start + size).collect();
        let places = Tensor::of_ints(DType::I64, vec![steps, size], &places)?;
        let places = edit.constant(places, &[]);
        Some(steps_to_front(edit, node, [array, places], axis, ty.rank()))
    }
}

/// Gathers the entries of all steps along an axis, and moves the steps to the front.
pub(super) fn lookup(edit: &mut Patch<'_, '_>, node: &Node, made: &Op, ty: &Type) -> Option<Op> {
    let &[Some(array), Some(places)] = &made.inputs[..] else { return None };
    let axis = node.axis(edit.rank(array)?)?;
    Some(steps_to_front(edit, node, [array, places], axis, ty.rank()))
}

/// Returns a gather for all steps, with the steps as the leading axis. `rank` is that of the result of one step.
fn steps_to_front(
    edit: &mut Patch<'_, '_>,
    node: &Node,
    [array, places]: [ValueId; 2],
    axis: usize,
    rank: usize,
) -> Op {
    let op = Op::new(OpType::Gather, &[array, places]).attr("axis", axis as i64);
    if axis == 0 {
        return op;
    }
    let found = edit.lift(node, op);
    let others = (0..=rank).filter(|&other| other != axis);
    let perm: Vec<usize> = std::iter::once(axis).chain(others).collect();
    transpose(found, &perm)
}
