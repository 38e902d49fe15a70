//! Steps in which a mask keeps the state.

use algebra::rewrite::{Result, ensure, require};
use onnx::{DType, Op, OpType, Patch, Tensor, ValueId};

use super::body::Body;
use super::moves::Move;

/// An array with a flag for each step and each example, which is false (or true, if it is negated) where the step keeps
/// the state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mask {
    pub array: ValueId,
    pub is_negated: bool,
}

/// The next state, where a mask does not keep the old one.
pub(super) struct Masked {
    pub new: ValueId,
    pub mask: Option<Mask>,
}

impl Mask {
    /// Reads the next state.
    pub(super) fn of(body: &Body<'_>, next: ValueId, state: ValueId) -> Option<Masked> {
        let Some((mask, on_true, on_false)) = chosen(body, next) else {
            return Some(Masked { new: next, mask: None });
        };
        let other = Mask { is_negated: !mask.is_negated, ..mask };
        match () {
            () if on_false == state => Some(Masked { new: on_true, mask: Some(mask) }),
            () if on_true == state => Some(Masked { new: on_false, mask: Some(other) }),
            () => None,
        }
    }
}

/// Reads a choice between two values by the flags of a step.
fn chosen(body: &Body<'_>, value: ValueId) -> Option<(Mask, ValueId, ValueId)> {
    let Some((OpType::Where, operands)) = body.formula(value) else { return None };
    let &[condition, on_true, on_false] = &operands[..] else { return None };
    let (mut flags, mut is_negated) = (body.view(condition), false);
    if let Some((OpType::Not, negated)) = body.formula(flags.value) {
        flags = body.peel(super::body::View { value: negated[0], ..flags });
        is_negated = true;
    }
    let is_reshape = |step: &Move| matches!(step, Move::Reshape { .. });
    require(flags.moves.iter().all(is_reshape) && body.is_per_example(condition, flags.value))?;
    let array = body.array(flags.value)?;
    Some((Mask { array, is_negated }, on_true, on_false))
}

/// What a step of the loop returns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kept {
    /// The state, which is the old one in masked steps.
    State,
    /// The new state, and zeros in masked steps.
    Zeroed,
}

impl Kept {
    /// Reads the results of the steps.
    pub(super) fn of(
        body: &Body<'_>,
        hidden: usize,
        carries: usize,
        masked: &Masked,
    ) -> Option<Vec<Kept>> {
        let state = body.output(hidden)?;
        let stacks = carries..body.outputs();
        let kept = stacks.map(|number| {
            let output = body.output(number)?;
            if output == state || !body.is_read(number) {
                return Some(Kept::State);
            }
            let (mask, on_true, on_false) = chosen(body, output)?;
            let is_same = masked.mask.is_some_and(|own| own.array == mask.array);
            let is_opposite = masked.mask != Some(mask);
            let (new, zero) = if is_opposite { (on_false, on_true) } else { (on_true, on_false) };
            let is_zero = body.edit.tensor(zero).is_some_and(super::is_zero);
            let is_new = new == masked.new || new == state;
            (is_same && is_zero && is_new).then_some(Kept::Zeroed)
        });
        kept.collect()
    }
}

/// The mask as operands of the operator.
pub(super) struct Lengths {
    /// The numbers of steps, for `sequence_lens`.
    pub lengths: ValueId,
    /// The flags of the steps that are not masked, in the shape of the operator's result, with one feature.
    pub flags: ValueId,
    /// True if the masked steps are the last ones, and each example has a step.
    pub are_lengths: ValueId,
}

/// Inserts the nodes that compute the lengths of the examples.
///
/// With `s` the number of flags from a step on, a step with `s > 0` is not masked or comes before one that is not. If
/// there are as many of them as flags, no step in between is masked. ONNX Runtime returns zeros, and not the initial
/// state, for an example without steps.
pub(super) fn lengths(edit: &mut Patch<'_, '_>, mask: Mask, batch: usize) -> Result<Lengths> {
    let rank = edit.rank(mask.array).ok_or("the type of a value is unknown")?;
    let axes: &[i64] = match (batch, rank) {
        (0, 1) => &[1, 2, 3],
        (0, 2) => &[1, 2],
        (_, 2) => &[1, 3],
        _ => &[1],
    };
    let mut flags = edit.unsqueeze(mask.array, axes).ok_or("no axes")?;
    if mask.is_negated {
        flags = edit.insert(Op::new(OpType::Not, &[flags]));
    }
    let count =
        edit.insert(Op::new(OpType::Cast, &[flags]).attr("to", i64::from(DType::I32.code())));
    let none = edit.integers(&[]).ok_or("no axes")?;
    let total = |edit: &mut Patch<'_, '_>, value: ValueId| {
        edit.insert(Op::new(OpType::ReduceSum, &[value, none]).attr("keepdims", 0))
    };
    let others = edit.integers(&[0, 1, 3]).ok_or("no axes")?;
    let lengths = edit.insert(Op::new(OpType::ReduceSum, &[count, others]).attr("keepdims", 0));
    let one = Tensor::of_ints(DType::I32, Vec::new(), &[1]).ok_or("no number")?;
    let one = edit.constant(one, &[]);
    let first = edit.integer(0).ok_or("no axis")?;
    let left = edit.insert(Op::new(OpType::CumSum, &[count, first]).attr("reverse", 1));
    let is_before = edit.insert(Op::new(OpType::Min, &[left, one]));
    let gaps = edit.insert(Op::new(OpType::Sub, &[is_before, count]));
    let gaps = total(edit, gaps);
    let has_steps = edit.insert(Op::new(OpType::Min, &[lengths, one]));
    let empty = edit.insert(Op::new(OpType::Sub, &[one, has_steps]));
    let empty = total(edit, empty);
    let wrong = edit.insert(Op::new(OpType::Add, &[gaps, empty]));
    let are_lengths = edit.insert(Op::new(OpType::Less, &[wrong, one]));
    ensure(edit.dtype(are_lengths).is_some(), "the lengths have no type")?;
    Ok(Lengths { lengths, flags, are_lengths })
}
