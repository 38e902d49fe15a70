//! `GRU`, with the reset gate on the state or on its product.

use algebra::rewrite::require;
use onnx::{Attr, OpType, ValueId};

use super::body::{Body, View};
use super::form::Form;
use super::polynomial::{self, Atoms, Function, constant, plus, split_at};
use super::{Cell, Gate, Kept, Mask};

/// The most operands of a sum.
const MAX_OPERANDS: usize = 32;

/// `h′ = (1 − z)·n + z·h` with `n = tanh(x·W + b + r·(h·R + c))`, `r = σ(…)`, `z = σ(…)`
///
/// The reset gate may also scale the state before its product: `n = tanh(x·W + b + (r·h)·R)`. If the new and the old
/// state are swapped, the update gate is `1 − σ(v) = σ(−v)`.
pub(super) fn find(body: &Body<'_>) -> Option<Cell> {
    require(body.carries() == 1)?;
    let state = body.carry(0);
    let masked = Mask::of(body, body.output(0)?, state)?;
    let mut atoms = Atoms::new(body);
    let sum = atoms.read(&body.view(masked.new))?;
    let candidate = atoms.only(&sum, Function::Tanh)?;
    let (share, rest) = split_at(&sum, candidate);
    let (update, rest) = split_at(&rest, atoms.state(state));
    require(rest.is_empty() && plus(share, &update) == constant(1.0))?;
    let update = atoms.gate(&update)?;

    let (view, factor) = (atoms.all[candidate].view.clone(), atoms.all[candidate].factor);
    let after = reset_after_product(body, &mut atoms, &view, state);
    let (reset, candidate, state, is_after) = if let Some((reset, gate)) = after {
        (reset, gate.scaled(factor), state, 1)
    } else {
        let (reset, gate, scaled) = reset_before_product(body, &mut atoms, &view, state)?;
        (reset, gate.scaled(factor), scaled, 0)
    };
    // The order of ONNX: update, reset, hidden.
    let [update, reset] = [update, reset].map(|gate| Gate::of(body, &atoms, gate, None));
    let (mut update, mut reset) = (update?, reset?);
    // The state of the candidate may be the scaled one.
    for gate in [&mut update, &mut reset] {
        gate.form.rename(body.carry(0), state);
    }
    Some(Cell {
        op: OpType::GRU,
        gates: vec![update, reset, candidate],
        state,
        hidden: 0,
        memory: None,
        peepholes: None,
        kept: Kept::of(body, 0, 1, &masked)?,
        mask: masked.mask,
        attrs: vec![("linear_before_reset", Attr::Int(is_after))],
    })
}

/// `x·W + b + r·(h·R + c)`
fn reset_after_product(
    body: &Body<'_>,
    atoms: &mut Atoms<'_, '_>,
    sum: &View,
    state: ValueId,
) -> Option<(polynomial::Gate, Gate)> {
    let (mut reset, mut of_input, mut of_state) = (None, Vec::new(), Vec::new());
    for (view, sign) in operands(body, sum)? {
        match scaled_by_gate(body, atoms, &view) {
            Some((gate, other)) => {
                require(*reset.get_or_insert(gate) == gate)?;
                of_state.push((other, sign));
            }
            None => of_input.push((view, sign)),
        }
    }
    let form = total(body, of_input)?;
    let of_state = total(body, of_state)?;
    let is_apart = !form.reads(state) && of_state.is_of(state);
    is_apart.then_some((reset?, Gate { form, of_state: Some(of_state) }))
}

/// Returns the operands of a sum, with their signs.
fn operands(body: &Body<'_>, sum: &View) -> Option<Vec<(View, f64)>> {
    let (mut open, mut found) = (vec![(sum.clone(), 1.0)], Vec::new());
    while let Some((view, sign)) = open.pop() {
        require(open.len() + found.len() < MAX_OPERANDS)?;
        let parts = match body.formula(view.value) {
            Some((op @ (OpType::Add | OpType::Sub), operands)) => {
                let second = if op == OpType::Sub { -sign } else { sign };
                let signs = operands.into_iter().zip([sign, second]);
                let parts =
                    signs.map(|(operand, sign)| Some((body.operand(&view, operand)?, sign)));
                parts.collect::<Option<Vec<_>>>()
            }
            _ => None,
        };
        match parts {
            Some(parts) => open.extend(parts),
            None => found.push((view, sign)),
        }
    }
    Some(found)
}

/// Reads a product of a gate with something else.
fn scaled_by_gate(
    body: &Body<'_>,
    atoms: &mut Atoms<'_, '_>,
    view: &View,
) -> Option<(polynomial::Gate, View)> {
    let Some((OpType::Mul, operands)) = body.formula(view.value) else { return None };
    let &[a, b] = &operands[..] else { return None };
    [(a, b), (b, a)].into_iter().find_map(|(gate, other)| {
        let sum = atoms.read(&body.operand(view, gate)?)?;
        Some((atoms.gate(&sum)?, body.operand(view, other)?))
    })
}

fn total(body: &Body<'_>, operands: Vec<(View, f64)>) -> Option<Form> {
    let mut total: Option<Form> = None;
    for (view, sign) in operands {
        let form = body.form_of(&view, None)?.scaled(sign);
        total = Some(match total {
            Some(sum) => body.sum(sum, form)?,
            None => form,
        });
    }
    total
}

/// `x·W + b + (r·h)·R`
fn reset_before_product(
    body: &Body<'_>,
    atoms: &mut Atoms<'_, '_>,
    sum: &View,
    state: ValueId,
) -> Option<(polynomial::Gate, Gate, ValueId)> {
    let of_state = View { value: state, moves: Vec::new() };
    let products: Vec<ValueId> = body.results(OpType::Mul).collect();
    products.into_iter().find_map(|scaled| {
        let whole = View { value: scaled, moves: Vec::new() };
        let (reset, other) = scaled_by_gate(body, atoms, &whole)?;
        require(other == of_state)?;
        let form = body.form_of(sum, Some(scaled)).filter(|form| form.reads(scaled))?;
        require(!form.reads(state))?;
        Some((reset, Gate { form, of_state: None }, scaled))
    })
}
