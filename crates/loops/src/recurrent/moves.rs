//! Parts and orders of an array, which commute with everything that is computed element by element.

use algebra::rewrite::require;
use onnx::infer::axes_from_front;
use onnx::operator::properties::RESHAPES;
use onnx::{Dim, Edit, Node, OpType, ValueId};

/// A node that takes elements of an array and computes nothing.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Move {
    /// Every `step`-th of `size` entries along an axis.
    Slice { axis: usize, start: i64, step: i64, size: i64 },
    /// The same elements in another shape.
    Reshape { from: Vec<Dim>, to: Vec<Dim> },
    /// Axis `i` of the result is axis `perm[i]`.
    Transpose(Vec<usize>),
}

impl Move {
    /// Reads the node that computes a value.
    pub(super) fn of(edit: &Edit<'_>, node: &Node, value: ValueId) -> Option<Vec<Move>> {
        let operand = node.inputs.first().copied()??;
        let (from, to) = (edit.shape(operand)?, edit.shape(value)?);
        let rank = from.len();
        let ints = |place: usize| edit.tensor(node.inputs.get(place).copied()??)?.ints();
        let slice = |axis: usize, start: i64, step: i64| {
            let size = to.get(axis)?.known()?;
            Some(Move::Slice { axis, start, step, size })
        };
        if node.op.is(RESHAPES) {
            return Some(vec![Move::Reshape { from: from.to_vec(), to: to.to_vec() }]);
        }
        match node.op.onnx()? {
            OpType::Identity => Some(Vec::new()),
            OpType::Transpose => Some(vec![Move::Transpose(node.perm(rank)?)]),
            OpType::Split => {
                let axis = node.axis(rank)?;
                let before = node.outputs.iter().take_while(|&&output| output != value);
                let widths = before.map(|&output| edit.shape(output)?.get(axis)?.known());
                Some(vec![slice(axis, widths.sum::<Option<i64>>()?, 1)?])
            }
            OpType::Slice => {
                let starts = ints(1)?;
                let axes = match node.inputs.get(3) {
                    Some(Some(_)) => axes_from_front(&ints(3)?, rank)?,
                    _ => (0..starts.len()).collect(),
                };
                let steps = match node.inputs.get(4) {
                    Some(Some(_)) => ints(4)?,
                    _ => vec![1; starts.len()],
                };
                require(axes.len() == starts.len() && steps.len() == starts.len())?;
                let each = axes.iter().zip(&starts).zip(&steps).map(|((&axis, &start), &step)| {
                    let size = from.get(axis)?.known()?;
                    let start = if start < 0 { start + size } else { start };
                    slice(axis, start, step).filter(|_| step > 0 && (0..size).contains(&start))
                });
                each.collect()
            }
            OpType::Gather => {
                let axis = node.axis(rank)?;
                let place = edit.tensor(node.inputs.get(1).copied()??)?;
                let &[index] = &place.ints()?[..] else { return None };
                let size = from.get(axis)?.known()?;
                let start = if index < 0 { index + size } else { index };
                require((0..size).contains(&start))?;
                let part = Move::Slice { axis, start, step: 1, size: 1 };
                let mut sliced = from.to_vec();
                sliced[axis] = Dim::Known(1);
                Some(vec![part, Move::Reshape { from: sliced, to: to.to_vec() }])
            }
            _ => None,
        }
    }
}
