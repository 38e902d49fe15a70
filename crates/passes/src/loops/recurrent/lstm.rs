//! `LSTM`.

use algebra::rewrite::require;
use onnx::{OpType, ValueId};

use super::Cell;
use super::body::Body;
use super::linear::Linear;

/// `c′ = σ(f)·c + σ(i)·tanh(g)`, `h′ = σ(o)·tanh(c′)`
pub(super) fn find(body: &Body<'_>) -> Option<Cell> {
    require(body.carries() == 2)?;
    [0, 1].into_iter().find_map(|hidden| {
        let cell = 1 - hidden;
        let state = body.carry(cell);
        let [new_hidden, new_cell] = [body.output(hidden)?, body.output(cell)?];
        let sigmoid = |value: ValueId| body.gate(value);
        let (output, squashed) = body.either(OpType::Mul, new_hidden, sigmoid)?;
        require(body.unary(OpType::Tanh, squashed)? == new_cell)?;
        let forgotten = |value: ValueId| {
            let (forget, old) = body.either(OpType::Mul, value, sigmoid)?;
            (old == state).then_some(forget)
        };
        let (forget, added) = body.either(OpType::Add, new_cell, forgotten)?;
        let (input, candidate) = body.either(OpType::Mul, added, sigmoid)?;
        let candidate = (body.unary(OpType::Tanh, candidate)?, 0);
        let size = usize::try_from(body.edit.ty(state)?.shape.last()?.known()?).ok()?;
        // The order of ONNX: input, output, forget, cell.
        let gates = [input, output, forget, candidate]
            .into_iter()
            .map(|gate| Linear::of(body, gate, body.carry(hidden), size))
            .collect::<Option<_>>()?;
        Some(Cell { op: OpType::LSTM, gates, size, hidden, memory: Some(cell), attrs: Vec::new() })
    })
}
