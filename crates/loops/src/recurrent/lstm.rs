//! `LSTM`.

use algebra::rewrite::require;
use onnx::{OpType, ValueId};

use super::body::{Body, View};
use super::polynomial::{Atoms, Function, split_at};
use super::{Cell, Gate, Kept, Mask};

/// `c′ = σ(f)·c + σ(i)·tanh(g)`, `h′ = σ(o)·tanh(c′)`
///
/// The gates may read the memory through peepholes: `i` and `f` the old one, `o` the new one. If `i` is what `f` leaves,
/// it is `1 − σ(f) = σ(−f)`.
pub(super) fn find(body: &Body<'_>) -> Option<Cell> {
    require(body.carries() == 2)?;
    [0, 1].into_iter().find_map(|hidden| of_carries(body, hidden, 1 - hidden))
}

fn of_carries(body: &Body<'_>, hidden: usize, memory: usize) -> Option<Cell> {
    let new_hidden = Mask::of(body, body.output(hidden)?, body.carry(hidden))?;
    let new_memory = Mask::of(body, body.output(memory)?, body.carry(memory))?;
    require(new_hidden.mask == new_memory.mask)?;
    let mut atoms = Atoms::new(body);

    let exposed = atoms.read(&body.view(new_hidden.new))?;
    let squashed = atoms.only(&exposed, Function::Tanh)?;
    let of_memory = &atoms.all[squashed];
    let is_memory = |value: ValueId| of_memory.view == View { value, moves: Vec::new() };
    // The hidden state may read the memory before or after the mask, which is the same where it counts.
    let read =
        [new_memory.new, body.output(memory)?].into_iter().find(|&value| is_memory(value))?;
    require(of_memory.factor == 1.0)?;
    let (output, rest) = split_at(&exposed, squashed);
    let output = atoms.gate(&output).filter(|_| rest.is_empty())?;

    let sum = atoms.read(&body.view(new_memory.new))?;
    let place = atoms.state(body.carry(memory));
    let (forget, added) = split_at(&sum, place);
    let candidate = atoms.only(&added, Function::Tanh)?;
    let (input, rest) = split_at(&added, candidate);
    let forget = atoms.gate(&forget).filter(|_| rest.is_empty())?;
    let input = atoms.gate(&input)?;

    // The order of ONNX: input, output, forget, cell.
    let mut gates = vec![
        Gate::of(body, &atoms, input, None)?,
        Gate::of(body, &atoms, output, Some(read))?,
        Gate::of(body, &atoms, forget, None)?,
        Gate::of_atom(body, &atoms, candidate, None)?,
    ];
    let state = body.carry(hidden);
    let memories = [body.carry(memory), read, body.carry(memory)];
    for (gate, memory) in gates.iter_mut().zip(memories) {
        gate.form.find_diagonals(memory)?;
    }
    let reads_own = |gate: &Gate, own: Option<ValueId>| {
        let others = [body.carry(memory), read].into_iter().filter(|&other| Some(other) != own);
        !others.into_iter().any(|other| gate.form.reads(other))
    };
    require(reads_own(&gates[3], None))?;
    require(gates.iter().zip(memories).all(|(gate, own)| reads_own(gate, Some(own))))?;
    let has_peepholes = gates.iter().zip(memories).any(|(gate, own)| gate.form.reads(own));
    Some(Cell {
        op: OpType::LSTM,
        gates,
        state,
        hidden,
        memory: Some(memory),
        peepholes: has_peepholes.then_some(memories),
        kept: Kept::of(body, hidden, 2, &new_hidden)?,
        mask: new_hidden.mask,
        attrs: Vec::new(),
    })
}
