//! Reads states that keep the largest or the smallest number so far: `max(decay + state, added)`.
//!
//! Examples are running maxima, and the logarithms to which the exponents of xLSTM and RWKV-4 are relative.

use algebra::rewrite::{Result, require};
use onnx::{DType, Node, Op, OpType, Patch, ValueId, known_shape};

use super::series::{Decay, Join, Series};
use super::split::Split;
use crate::{Carry, Counted};

/// A state and the operands of its update, which do not depend on a state.
pub(super) struct Peak {
    pub carry: Carry,
    pub shape: Vec<i64>,
    decay: Option<Shift>,
    added: ValueId,
    join: Join,
}

/// The number that a step adds to a state or subtracts from it.
struct Shift {
    number: ValueId,
    is_negative: bool,
}

impl Peak {
    /// Reads all states of a loop. `None` if one of them has another update.
    pub(super) fn all(edit: &Patch<'_, '_>, scan: &Counted) -> Option<Vec<Peak>> {
        scan.carries.iter().map(|&carry| Peak::of(edit, scan, carry)).collect()
    }

    fn of(edit: &Patch<'_, '_>, scan: &Counted, carry: Carry) -> Option<Peak> {
        require(edit.dtype(carry.before) == Some(DType::F32))?;
        let shape = known_shape(edit.shape(carry.before)?)?;
        let maker = |value| scan.nodes.iter().find(|node| node.outputs.contains(&value));
        let (update, join) = match maker(carry.after)? {
            node if node.op == OpType::Max => (node, Join::Max),
            node if node.op == OpType::Min => (node, Join::Min),
            _ => return None,
        };
        let (kept, added) = apart(scan, update)?;
        let decay = if kept == carry.before {
            None
        } else {
            let sum = maker(kept)?;
            let (state, decay) = apart(scan, sum)?;
            let is_negative = sum.op == OpType::Sub && sum.inputs.first() == Some(&Some(state));
            require(state == carry.before && (is_negative || sum.op == OpType::Add))?;
            Some(Shift { number: decay, is_negative })
        };
        Some(Peak { carry, shape, decay, added, join })
    }

    /// Computes what the update reads, for all steps.
    pub(super) fn series(&self, edit: &mut Patch<'_, '_>, split: &mut Split<'_>) -> Result<Series> {
        let added = split.rows(edit, self.added, &self.shape)?;
        let decay = match &self.decay {
            Some(shift) => {
                let rows = split.rows(edit, shift.number, &self.shape)?;
                let negative =
                    |edit: &mut Patch<'_, '_>| edit.insert(Op::new(OpType::Neg, &[rows]));
                Decay::Array(if shift.is_negative { negative(edit) } else { rows })
            }
            None => Decay::None,
        };
        let (shape, join) = (self.shape.clone(), self.join);
        let size = shape.iter().product();
        Ok(Series {
            carry: self.carry,
            size,
            shape,
            decay,
            join,
            added,
            is_product: false,
            scale: 1.0,
        })
    }
}

/// Returns the operand of a node that depends on a state, and the one that does not.
fn apart(scan: &Counted, node: &Node) -> Option<(ValueId, ValueId)> {
    let &[Some(a), Some(b)] = &node.inputs[..] else { return None };
    let depends = |value| {
        let sources = scan.sources(&[value]);
        scan.carries.iter().any(|carry| sources.contains(&carry.before))
    };
    match [depends(a), depends(b)] {
        [true, false] => Some((a, b)),
        [false, true] => Some((b, a)),
        _ => None,
    }
}
