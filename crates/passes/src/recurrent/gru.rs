//! `GRU`, with the reset gate on the product with the state.

use onnx::{Attr, OpType, ValueId};

use super::Cell;
use super::body::Body;
use super::linear::Linear;
use crate::pattern::uniform;

/// `h′ = (1 − z)·n + z·h` with `n = tanh(x·W + b + r·(h·R + c))`, `r = σ(…)`, `z = σ(…)`
///
/// `n + z·(h − n)` is the same sum, and within its rounding.
pub(super) fn find(body: &Body<'_>) -> Option<Cell> {
    if body.carries() != 1 {
        return None;
    }
    let state = body.carry(0);
    let (update, new) = mixed(body, body.output(0)?, state)?;
    let size = usize::try_from(body.ty(state)?.shape.last()?.known()?).ok()?;
    let sigmoid = |value: ValueId| body.unary(OpType::Sigmoid, value);
    let reset_product = |value: ValueId| body.either(OpType::Mul, value, sigmoid);
    let ((reset, of_state), of_input) =
        body.either(OpType::Add, body.unary(OpType::Tanh, new)?, reset_product)?;
    let linear = |value: ValueId| Linear::of(body, value, 0, size);
    let candidate = Linear::of_both(linear(of_input)?, linear(of_state)?)?;
    // The order of ONNX: update, reset, hidden.
    let gates = vec![linear(update)?, linear(reset)?, candidate];
    let attrs = vec![("linear_before_reset", Attr::Int(1))];
    Some(Cell { op: OpType::GRU, gates, size, hidden: 0, memory: None, attrs })
}

/// What goes into the update gate, and the new state before it is mixed with the old.
fn mixed(body: &Body<'_>, result: ValueId, state: ValueId) -> Option<(ValueId, ValueId)> {
    let kept = |value: ValueId| {
        let (update, old) = body.either(OpType::Mul, value, |gate| {
            body.unary(OpType::Sigmoid, gate).map(|inner| (gate, inner))
        })?;
        (old == state).then_some(update)
    };
    if let Some(((gate, update), added)) = body.either(OpType::Add, result, kept) {
        let ((), new) = body.either(OpType::Mul, added, |value| {
            let [one, other] = body.binary(OpType::Sub, value)?;
            let is_one = body.tensor(one).and_then(uniform) == Some(1.0);
            (is_one && other == gate).then_some(())
        })?;
        return Some((update, new));
    }
    let moved = |value: ValueId| {
        let (update, difference) =
            body.either(OpType::Mul, value, |gate| body.unary(OpType::Sigmoid, gate))?;
        let [old, new] = body.binary(OpType::Sub, difference)?;
        (old == state).then_some((update, new))
    };
    let ((update, new), added) = body.either(OpType::Add, result, moved)?;
    (added == new).then_some((update, new))
}
