//! `GRU`, with the reset gate on the state or on its product.

use algebra::rewrite::require;
use onnx::{Attr, OpType, ValueId};

use super::Cell;
use super::body::Body;
use super::linear::Linear;

/// `h′ = (1 − z)·n + z·h` with `n = tanh(x·W + b + r·(h·R + c))`, `r = σ(…)`, `z = σ(…)`
///
/// The reset gate may also scale the state before its product: `n = tanh(x·W + b + (r·h)·R)`. If the new and the old
/// state are swapped, the update gate is `1 − σ(v) = σ(−v)`. `n + z·(h − n)` is the same sum, up to rounding.
pub(super) fn find(body: &Body<'_>) -> Option<Cell> {
    require(body.carries() == 1)?;
    let state = body.carry(0);
    let Mixed { update, new, is_swapped } = mixed(body, body.output(0)?, state)?;
    let size = usize::try_from(body.edit.ty(state)?.shape.last()?.known()?).ok()?;
    let linear = |gate| Linear::of(body, gate, state, size);
    let update = linear(update)?;
    let update = if is_swapped { update.negated() } else { update };
    let candidate = body.unary(OpType::Tanh, new)?;
    let (reset, candidate, is_before_reset) = reset_behind_product(body, candidate, &linear)
        .map(|(reset, candidate)| (reset, candidate, 1))
        .or_else(|| {
            let (reset, candidate) = reset_before_product(body, candidate, state, size)?;
            Some((reset, candidate, 0))
        })?;
    // The order of ONNX: update, reset, hidden.
    let gates = vec![update, linear(reset)?, candidate];
    let attrs = vec![("linear_before_reset", Attr::Int(is_before_reset))];
    Some(Cell { op: OpType::GRU, gates, size, hidden: 0, memory: None, attrs })
}

/// The input of a gate, and the index of its first number.
type Gate = (ValueId, usize);

/// `x·W + b + r·(h·R + c)`
fn reset_behind_product(
    body: &Body<'_>,
    candidate: ValueId,
    linear: &dyn Fn(Gate) -> Option<Linear>,
) -> Option<(Gate, Linear)> {
    let product = |value: ValueId| body.either(OpType::Mul, value, |gate| body.gate(gate));
    let ((reset, of_state), of_input) = body.either(OpType::Add, candidate, product)?;
    Some((reset, Linear::of_both(linear((of_input, 0))?, linear((of_state, 0))?)?))
}

/// `x·W + b + (r·h)·R`
fn reset_before_product(
    body: &Body<'_>,
    candidate: ValueId,
    state: ValueId,
    size: usize,
) -> Option<(Gate, Linear)> {
    body.results(OpType::Mul).find_map(|scaled| {
        let (reset, other) = body.either(OpType::Mul, scaled, |gate| body.gate(gate))?;
        let linear = Linear::of(body, (candidate, 0), scaled, size).filter(|_| other == state)?;
        linear.reads_state().then_some((reset, linear))
    })
}

/// A mixture of a new state and the old one.
struct Mixed {
    update: Gate,
    new: ValueId,
    /// True if the gate is the share of the new state, and not of the old one.
    is_swapped: bool,
}

fn mixed(body: &Body<'_>, result: ValueId, state: ValueId) -> Option<Mixed> {
    let sigmoid = |value: ValueId| Some((value, body.gate(value)?));
    let scaled = |value: ValueId| body.either(OpType::Mul, value, sigmoid);
    if let Some((((gate, update), kept), added)) = body.either(OpType::Add, result, scaled)
        && let Some(((), other)) = body.either(OpType::Mul, added, |value| {
            let [one, other] = body.binary(OpType::Sub, value)?;
            let is_one = body.edit.number(one) == Some(1.0);
            (is_one && other == gate).then_some(())
        })
    {
        if kept == state {
            return Some(Mixed { update, new: other, is_swapped: false });
        }
        return (other == state).then_some(Mixed { update, new: kept, is_swapped: true });
    }
    let moved = |value: ValueId| {
        let (update, difference) = body.either(OpType::Mul, value, |gate| body.gate(gate))?;
        let [old, new] = body.binary(OpType::Sub, difference)?;
        (old == state).then_some((update, new))
    };
    let ((update, new), added) = body.either(OpType::Add, result, moved)?;
    (added == new).then_some(Mixed { update, new, is_swapped: false })
}
