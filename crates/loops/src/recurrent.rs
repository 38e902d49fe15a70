//! `fuse-recurrent`: replaces a `Scan` that computes exactly an ONNX `LSTM` or `GRU`.
//!
//! The rewrite reads the body as formulas. The input of a gate is a sum of biases and of products of the input and of
//! the state with columns of weights. The gates must be those of `LSTM` or `GRU`, including the activations and the
//! order of operations. ONNX Runtime computes the products with the inputs of all steps at once.
//!
//! Its `RNN` takes up to three times as long as the scan, so a plain cell stays a scan.
//!
//! Its operators are wrong for some values: see [`guard`]. So the scan stays as the other branch of an `If`.

mod body;
mod form;
mod gru;
mod guard;
mod lstm;
mod mask;
mod moves;
mod polynomial;
#[cfg(test)]
mod tests;
mod weights;

use algebra::axis_map::transpose;
use algebra::rewrite::{Declined, Result, ensure, require};
use onnx::edit::FALLBACK;
use onnx::kernels::Limit;
use onnx::{Attr, DType, Edit, Node, Op, OpType, Outcome, Patch, Tensor, Type, ValueId};

use body::Body;
use mask::{Kept, Mask};
use weights::{Gate, Weights};

pub fn run(patch: &mut Patch<'_, '_>) -> Outcome {
    require(!patch.is_fallback())?;
    let found = find(patch, patch.root())?;
    let results = fuse(patch, found);
    patch.settle(results)
}

/// A cell in the body of a scan.
struct Cell {
    op: OpType,
    /// The input of each gate, in ONNX's order.
    gates: Vec<Gate>,
    /// The state that the gates read. For a `GRU`, it may be the one that the reset gate scaled.
    state: ValueId,
    /// The indices of the carries with the hidden state and, for an `LSTM`, the memory.
    hidden: usize,
    memory: Option<usize>,
    /// The memories that the first three gates read, if there are peepholes.
    peepholes: Option<[ValueId; 3]>,
    mask: Option<Mask>,
    /// The results of the steps.
    kept: Vec<Kept>,
    attrs: Vec<(&'static str, Attr)>,
}

/// A scan over a cell. It may be the whole branch of an `If`.
struct CellScan {
    cell: Cell,
    /// The states before the first step, with the hidden one first.
    states: Vec<ValueId>,
    /// The arrays that the cell reads, and whether their first axis is the batch.
    inputs: Vec<(ValueId, bool)>,
    /// The indices of the nodes outside of the loop that the operator replaces.
    outside: Vec<usize>,
    direction: Result<Vec<(&'static str, Attr)>>,
    /// The condition of the `If`.
    condition: Option<ValueId>,
}

/// Returns the scan at an index. For an `If` whose branch is a scan, returns its condition too.
fn scan_of<'e>(edit: &'e Edit<'_>, index: usize) -> Option<(&'e Node, Option<ValueId>)> {
    let node = edit.node(index);
    if node.op == OpType::Scan {
        return Some((node, None));
    }
    let Some(Attr::Graph(branch)) = node.attr("then_branch").filter(|_| node.op == OpType::If)
    else {
        return None;
    };
    let [scan] = &branch.nodes[..] else { return None };
    let is_whole = scan.op == OpType::Scan && branch.outputs[..] == scan.outputs[..];
    is_whole.then_some((scan, Some(edit.input(index, 0)?)))
}

/// True if the node at an index is a scan over a cell.
pub fn is_cell(edit: &Edit<'_>, index: usize) -> bool {
    find(edit, index).is_some()
}

fn find(edit: &Edit<'_>, index: usize) -> Option<CellScan> {
    let (scan, condition) = scan_of(edit, index)?;
    let body = Body::of(edit, scan, &edit.node(index).outputs)?;
    let cell = lstm::find(&body).or_else(|| gru::find(&body))?;
    let states = std::iter::once(cell.hidden).chain(cell.memory);
    let states = states.map(|carry| scan.inputs.get(carry).copied()?).collect::<Option<_>>()?;
    let inputs = cell.inputs()?;
    let outside = body.nodes_outside(&inputs);
    let inputs = inputs.into_iter().map(|input| (input, body.is_batch_first(input))).collect();
    let direction = direction(scan, body.carries());
    Some(CellScan { cell, states, inputs, outside, direction, condition })
}

fn fuse(edit: &mut Patch<'_, '_>, found: CellScan) -> Result<Vec<(usize, ValueId)>> {
    let index = edit.root();
    let CellScan { cell, inputs, outside, states, direction, condition } = found;
    let cell = &cell;
    let unknown = || Declined::from("the type of a value is unknown");
    let sources: Vec<ValueId> = inputs.iter().map(|&(input, _)| input).collect();
    let steps_first = inputs.into_iter().map(|(input, is_batch_first)| {
        if is_batch_first { edit.insert(transpose(input, &[1, 0, 2])) } else { input }
    });
    let inputs: Vec<ValueId> = steps_first.collect();
    let &first = inputs.first().ok_or("no gate reads an input")?;
    let ty = edit.ty(first).cloned().ok_or_else(unknown)?;
    // ONNX Runtime has kernels for doubles, but they fail.
    if ty.dtype != DType::F32 {
        return Err(Declined(format!("the runtime has no {} of {}", cell.op, ty.dtype)));
    }
    ensure(edit.target().has(cell.op, edit.opset()), "a runtime of the target lacks the operator")?;
    let state = edit.ty(states[0]).ok_or_else(unknown)?;
    let size = state.shape.last().and_then(onnx::Dim::known).ok_or_else(unknown)?;
    let is_batched = is_batched(edit, size, &ty, &states)?;
    let direction = direction?;
    let has = |limit| edit.target().has_limit(limit);
    let is_linear = cell.attrs.contains(&("linear_before_reset", Attr::Int(1)));
    let is_limited = is_linear && has(Limit::GruLinear)
        || !direction.is_empty() && has(Limit::RecurrentReversed);
    ensure(!is_limited, "a runtime of the target does not take this form of the operator")?;
    let is_plain = cell.mask.is_none() && cell.peepholes.is_none();
    // The kernels of CUDA have no peepholes, and reverse each sequence with its padding.
    let is_for_device = cell.peepholes.is_none() && direction.is_empty();
    ensure(
        is_plain || edit.target().is_default() && (is_for_device || !edit.target().has_device()),
        "a runtime of the target may not take lengths or peepholes",
    )?;
    // The zeros of the identity matrix turn infinity into NaN. The guard excludes infinity.
    let has_identity = cell.gates.iter().any(|gate| gate.form.has_identity());
    ensure(
        edit.exact_nan() || !has_identity,
        "an infinity among the inputs would spread, and nothing looks for it",
    )?;
    let weights = Weights::of(edit, cell, &sources, size).ok_or("the weights are not all known")?;
    ensure(weights.are_small(), "a weight is not finite, or so large that a gate may overflow")?;
    let x = match inputs[..] {
        [x] => x,
        _ => edit.insert(Op::new(OpType::Concat, &inputs).attr("axis", ty.rank() as i64 - 1)),
    };
    let lengths = match cell.mask {
        Some(mask) => Some(mask::lengths(edit, mask, ty.rank() - 2)?),
        None => None,
    };
    let conditions = condition.into_iter().chain(lengths.as_ref().map(|found| found.are_prefixes));
    let fits = guard::fits(edit, cell.op, x, &states, conditions.collect());
    let is_second = || edit.nodes().into_iter().any(|node| edit.op(node) == Some(OpType::If));
    let takes_branches = edit.target().has(OpType::Scan, edit.opset())
        && !(edit.target().has_limit(Limit::IfTwice) && is_second());
    ensure(
        fits.is_none() || takes_branches,
        "a runtime of the target may not take the condition or the loop in its branch",
    )?;

    let x = if is_batched { x } else { unsqueeze(edit, x, &[1])? };
    let state_axes: &[i64] = if is_batched { &[0] } else { &[0, 1] };
    let step_axes: &[i64] = if is_batched { &[1] } else { &[1, 2] };
    // The operator starts with zeros if a state is missing. A parameter stays an operand, even if it is zero now.
    let states = states.into_iter().map(|state| match edit.tensor(state) {
        Some(tensor) if is_zero(tensor) && edit.name(state).is_none() => Ok(None),
        _ => unsqueeze(edit, state, state_axes).map(Some),
    });
    let states: Vec<Option<ValueId>> = states.collect::<Result<_>>()?;
    let carries = states.len();
    let is_reverse = !direction.is_empty();
    // In reverse, masked steps keep the initial state, which may be zero.
    let keeps_state = lengths.is_some() && !(is_reverse && states[0].is_none());
    // The results of the operator: all hidden states, the last one, and the last memory. With a mask, the hidden states
    // follow in which masked steps keep the last one.
    let slots: Vec<Slot<'_>> = (0..edit.node(index).outputs.len())
        .map(|output| match output {
            _ if output == cell.hidden => (1, state_axes),
            _ if Some(output) == cell.memory => (2, state_axes),
            _ if keeps_state && cell.kept.get(output - carries) == Some(&Kept::State) => {
                (1 + carries, step_axes)
            }
            _ => (0, step_axes),
        })
        .collect();
    let run = |edit: &mut Patch<'_, '_>| {
        let from = &weights.from;
        let constant =
            |edit: &mut Patch<'_, '_>, tensor: &Tensor| edit.constant(tensor.clone(), from);
        let [w, r, b] =
            [&weights.input, &weights.state, &weights.bias].map(|tensor| constant(edit, tensor));
        let given = lengths.as_ref().map(|found| found.counts);
        let mut inputs = vec![Some(x), Some(w), Some(r), Some(b), given];
        inputs.extend(&states);
        if let Some(peepholes) = &weights.peepholes {
            inputs.push(Some(constant(edit, peepholes)));
        }
        let given = inputs.iter().rposition(Option::is_some);
        inputs.truncate(given.map_or(0, |last| last + 1));
        let op = Op { op: cell.op.into(), inputs, attrs: Vec::new() };
        let size = ("hidden_size", Attr::Int(size));
        let attrs = direction.iter().chain([&size]).chain(&cell.attrs);
        let op = attrs.fold(op, |op, (name, attr)| op.attr(name, attr.clone()));
        let mut made = edit.insert_all_for(&outside, op, 1 + carries);
        if let Some(found) = &lengths
            && slots.iter().any(|&(slot, _)| slot > carries)
        {
            // Masked steps come last, or first if the loop runs in reverse.
            let kept = states[0].filter(|_| is_reverse).unwrap_or(made[1]);
            made.push(edit.insert(Op::new(OpType::Where, &[found.flags, made[0], kept])));
        }
        made
    };
    let made: Vec<(usize, ValueId)> = match fits {
        None => {
            edit.fuse_bodies();
            run(edit).into_iter().enumerate().collect()
        }
        Some(fits) => choose(edit, fits, &slots, run)?,
    };
    let outputs = edit.node(index).outputs.to_vec();
    let mut results = Vec::with_capacity(outputs.len());
    for (output, (slot, axes)) in slots.into_iter().enumerate() {
        let Some(&(_, made)) = made.iter().find(|&&(other, _)| other == slot) else { continue };
        let axes = edit.integers(axes).ok_or("no axes")?;
        let result = edit.insert(Op::new(OpType::Squeeze, &[made, axes]));
        results.push((output, result));
    }
    Ok(results)
}

/// The result of the operator that corresponds to a result of the scan, and the axes that only the operator's has.
type Slot<'a> = (usize, &'a [i64]);

/// Inserts an `If` that runs the operator if it `fits`, and otherwise a copy of the scan. Returns the results of the
/// operator that are read, with their indices.
fn choose(
    edit: &mut Patch<'_, '_>,
    fits: ValueId,
    slots: &[Slot<'_>],
    run: impl FnOnce(&mut Patch<'_, '_>) -> Vec<ValueId>,
) -> Result<Vec<(usize, ValueId)>> {
    // One output of the scan per result that is read.
    let mut read: Vec<(usize, usize)> = Vec::new();
    for (output, &(slot, _)) in slots.iter().enumerate() {
        let is_read = edit.reads(edit.node(edit.root()).outputs[output]) > 0;
        if is_read && read.iter().all(|&(other, _)| other != slot) {
            read.push((slot, output));
        }
    }
    ensure(!read.is_empty(), "nothing reads it")?;
    let otherwise = edit.branch(FALLBACK, |edit| {
        let scanned = edit.insert_copy();
        let shaped = read
            .iter()
            .filter_map(|&(_, output)| unsqueeze(edit, scanned[output], slots[output].1).ok());
        shaped.collect()
    });
    edit.fuse_bodies();
    let fused = edit.branch("recurrent/fused", |edit| {
        let made = run(edit);
        read.iter().map(|&(slot, _)| made[slot]).collect()
    });
    let made = edit.insert_if(fits, fused, otherwise);
    Ok(read.iter().map(|&(slot, _)| slot).zip(made).collect())
}

/// Returns whether there is a batch axis. The states must have the batch of the input.
fn is_batched(edit: &Edit<'_>, hidden: i64, input: &Type, states: &[ValueId]) -> Result<bool> {
    let [steps, batch @ .., depth] = &input.shape[..] else {
        return Err("the input has no axis of features".into());
    };
    for &state in states {
        let state = edit.ty(state).ok_or("the type of a value is unknown")?;
        match state.shape.split_last() {
            Some((size, leading)) if size.is(hidden) && leading == batch => {}
            _ => return Err("the batch of the input is not that of the state".into()),
        }
    }
    if hidden == 0 || [steps, depth].into_iter().chain(batch).any(|dim| dim.is(0)) {
        return Err("an axis is empty".into());
    }
    match batch {
        [] => Ok(false),
        [_] => Ok(true),
        _ => Err("the input has several batch axes".into()),
    }
}

/// Returns the attributes for the direction of the scan. Inputs and outputs must have the same direction.
fn direction(node: &Node, carries: usize) -> Result<Vec<(&'static str, Attr)>> {
    let steps = node.outputs.len() - carries;
    let runs = |name: &str, count: usize| match node.attr(name) {
        Some(Attr::Ints(ways)) => ways.to_vec(),
        _ => vec![0; count],
    };
    let arrays = node.inputs.len() - carries;
    let mut ways = runs("scan_input_directions", arrays);
    ways.extend(runs("scan_output_directions", steps));
    let is_axis = |name: &str| node.attr(name).is_some();
    ensure(
        !is_axis("scan_input_axes") && !is_axis("scan_output_axes"),
        "it runs over another axis than the first",
    )?;
    match &ways[..] {
        ways if ways.iter().all(|&way| way == 0) => Ok(Vec::new()),
        ways if ways.iter().all(|&way| way == 1) => Ok(vec![("direction", "reverse".into())]),
        _ => Err("its inputs and outputs run in different directions".into()),
    }
}

/// True if all numbers are `+0`.
fn is_zero(tensor: &Tensor) -> bool {
    tensor.all_floats(|number| number == 0.0 && number.is_sign_positive())
}

fn unsqueeze(edit: &mut Patch<'_, '_>, value: ValueId, axes: &[i64]) -> Result<ValueId> {
    edit.unsqueeze(value, axes).ok_or_else(|| "no axes".into())
}
