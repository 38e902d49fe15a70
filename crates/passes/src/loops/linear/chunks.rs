//! `chunk-recurrences`: computes a state that each step multiplies by a decay, in chunks of steps.
//!
//! A loop over the steps of a chunk runs for all chunks at once, from a state of zeros, and also multiplies the decays. A
//! second loop over the chunks has the state at the start of each. `S = P S₀ + L` is then the state of each step. If the
//! decay is one number, products with tables of its powers replace both loops.
//!
//! A product of decays may underflow, and `0 · ∞` is NaN where the loop has ∞. The model therefore checks that all
//! numbers are finite and that no decay is above one, and runs the loop otherwise.

use algebra::axis_map::transpose;
use algebra::rewrite::{Result, ensure, require};
use onnx::{DType, Op, OpType, Outcome, Patch, Tensor, ValueId, declined};

use super::blocks;
use super::body::{Body, dims, filled, shaped, sliced};
use super::forms::{Factor, Forms, Of, Term, When};
use super::split::Split;
use crate::loops::{Carry, Counted, results_in_place};

/// A shorter loop stays.
const MIN_STEPS: i64 = 32;

/// A larger state is computed in blocks: each node of its loop takes longer than it takes to start.
const MAX_STATE: i64 = 1024;

/// The largest decay.
pub(super) const MAX_DECAY: f64 = 1.01;

/// If the magnitudes of all numbers add up to less than this, no state overflows.
const MAX_SUM: f64 = (1u64 << 60) as f64;

/// A constant decay that is computed as a difference must be further from one: its rounding adds up.
const MIN_DISTANCE: f64 = 1.0 / 64.0;

pub(crate) fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    require(edit.op(index) == Some(OpType::Scan) && edit.target().is_default())?;
    let scan = Counted::at(edit, index)?;
    require(!scan.carries.is_empty())?;
    let mut states = Vec::new();
    for &carry in &scan.carries {
        require(edit.ty(carry.before)?.dtype == DType::F32)?;
        let forms = match Forms::of(edit, &scan, carry)? {
            Ok(forms) => forms,
            Err(why) => return declined(why),
        };
        let is_plain = |term: &Term| matches!(term.of, Of::One | Of::State(When::Before));
        require(forms.update.terms.iter().all(is_plain))?;
        require(forms.update.terms.iter().any(|term| term.of != Of::One))?;
        states.push((carry, forms));
    }
    let forwards =
        if scan.is_reverse { scan.directions.is_some() } else { scan.directions.is_none() };
    if !forwards {
        return declined("its inputs and outputs run in different directions");
    }
    let made = match &states[..] {
        [(carry, forms)] if is_large(forms) => blocks::write(edit, &scan, *carry, forms),
        _ => write(edit, &scan, &states),
    };
    edit.settle(made)
}

fn is_large(forms: &Forms<'_>) -> bool {
    let shape = onnx::known_shape(&forms.shape);
    shape.is_some_and(|shape| shape.iter().product::<i64>() > MAX_STATE)
}

/// A state with the arrays of all steps that its update reads.
struct Series {
    carry: Carry,
    /// The number of elements of the state.
    size: i64,
    shape: Vec<i64>,
    decay: Decay,
    /// `[steps, size]`
    added: ValueId,
}

enum Decay {
    /// The same number in all steps.
    Number(f64),
    /// `[steps, size]` or `[steps, 1]`
    Array(ValueId),
}

fn write(
    edit: &mut Patch<'_, '_>,
    scan: &Counted,
    states: &[(Carry, Forms<'_>)],
) -> Result<Vec<(usize, ValueId)>> {
    let steps = scan.iterations.known().ok_or("the number of steps is not known")?;
    ensure(steps >= MIN_STEPS, "the loop is short")?;
    let split = &mut Split::without_rest(scan);
    let (mut series, mut sums, mut guards) = (Vec::new(), Vec::new(), Vec::new());
    for (carry, forms) in states {
        series.push(series_of(edit, split, *carry, forms, &mut guards)?);
    }
    for one in &series {
        for value in [one.added, one.carry.initial] {
            let is_zero = |tensor: &Tensor| tensor.all_floats(|number| number == 0.0);
            if !edit.tensor(value).is_some_and(is_zero) {
                sums.push(edit.insert(Op::new(OpType::ReduceL1, &[value]).attr("keepdims", 0)));
            }
        }
    }
    guards.extend(are_below(edit, sums, MAX_SUM)?);
    let outputs = edit.node(edit.root()).outputs.to_vec();
    let is_read = |&place: &usize| edit.reads(outputs[place]) > 0 || edit.is_result(outputs[place]);
    let read: Vec<usize> = (0..outputs.len()).filter(is_read).collect();
    let guard = guards.into_iter().reduce(|a, b| edit.insert(Op::new(OpType::And, &[a, b])));
    let Some(guard) = guard else {
        edit.fuse_bodies();
        let made = chunked(edit, scan, split, &series)?;
        return Ok(results_in_place(edit, made));
    };
    let otherwise = edit.branch("recurrence/scan", |edit| {
        let copied = edit.insert_copy();
        read.iter().map(|&place| copied[place]).collect()
    });
    edit.fuse_bodies();
    let mut problem = None;
    let fused =
        edit.branch("recurrence/chunks", |edit| match chunked(edit, scan, split, &series) {
            Ok(made) => {
                let by = |place: &usize| made.iter().find(|(result, _)| *result == outputs[*place]);
                read.iter().filter_map(|place| Some(by(place)?.1)).collect()
            }
            Err(why) => {
                problem = Some(why);
                Vec::new()
            }
        });
    if let Some(why) = problem {
        return Err(why);
    }
    ensure(fused.outputs.len() == read.len(), "a result is not computed")?;
    let made = edit.insert_if(guard, fused, otherwise);
    Ok(read.into_iter().zip(made).collect())
}

/// Inserts the condition that sums of magnitudes are finite and small. `None` without sums.
pub(super) fn are_below(
    edit: &mut Patch<'_, '_>,
    sums: Vec<ValueId>,
    limit: f64,
) -> Result<Option<ValueId>> {
    let total = sums.into_iter().reduce(|a, b| edit.insert(Op::new(OpType::Add, &[a, b])));
    let Some(total) = total else { return Ok(None) };
    let limit = number(edit, limit)?;
    Ok(Some(edit.insert(Op::new(OpType::Less, &[total, limit]))))
}

pub(super) fn number(edit: &mut Patch<'_, '_>, number: f64) -> Result<ValueId> {
    let tensor = Tensor::of_floats(DType::F32, Vec::new(), &[number]).ok_or("no number")?;
    Ok(edit.constant(tensor, &[]))
}

/// Computes what the update of a state reads, for all steps. Adds conditions that no decay is above one.
fn series_of(
    edit: &mut Patch<'_, '_>,
    split: &mut Split<'_>,
    carry: Carry,
    forms: &Forms<'_>,
    guards: &mut Vec<ValueId>,
) -> Result<Series> {
    let shape = onnx::known_shape(&forms.shape).ok_or("a size of the state is not known")?;
    let size: i64 = shape.iter().product();
    ensure(size > 0, "the state is empty")?;
    ensure(size <= MAX_STATE, "the state is so large that its loop is fast")?;
    split.set_shape(shape.clone());
    let axes: Vec<usize> = (0..shape.len()).collect();
    let steps = split.batches.steps.known().ok_or("the number of steps is not known")?;
    let (decays, adds): (Vec<&Term>, Vec<&Term>) =
        forms.update.terms.iter().partition(|term| term.of != Of::One);
    let decay = if let Some(decay) = constant(edit, &decays) {
        ensure(
            decays.len() == 1 || (1.0 - decay.abs()).abs() >= MIN_DISTANCE,
            "the decay is a difference close to one, and its rounding would add up",
        )?;
        ensure(decay.abs() <= MAX_DECAY, "the decay is above one")?;
        match edit.target().has_device() {
            // A GPU may multiply matrices with reduced precision.
            true => Decay::Array(filled(edit, &[steps, 1], decay)?),
            false => Decay::Number(decay),
        }
    } else {
        Decay::Array(decay_of_steps(edit, split, &decays, &axes, guards)?)
    };
    ensure(!adds.is_empty(), "a step adds nothing to the state")?;
    let added = sum(edit, split, &adds, &axes)?;
    let added = split.full(edit, added, &axes)?;
    let added = split.reshape(edit, added, None, &[size])?;
    Ok(Series { carry, size, shape, decay, added })
}

/// Returns the decay of each step as `[steps, size]`, or `[steps, 1]` if it is the same for the whole state.
fn decay_of_steps(
    edit: &mut Patch<'_, '_>,
    split: &mut Split<'_>,
    decays: &[&Term],
    axes: &[usize],
    guards: &mut Vec<ValueId>,
) -> Result<ValueId> {
    let sum = sum(edit, split, decays, axes)?;
    let shape = edit.shape(sum).ok_or("a type is unknown")?.to_vec();
    let is_same = shape[0].is(1);
    ensure(
        decays.len() == 1 || !is_same,
        "the decay is a difference that is the same in all steps, and its rounding would add up",
    )?;
    let fact = edit.fact(sum).floats();
    if fact.low < -MAX_DECAY || fact.high > MAX_DECAY {
        let size = edit.insert(Op::new(OpType::Abs, &[sum]));
        let most = edit.insert(Op::new(OpType::ReduceMax, &[size]).attr("keepdims", 0));
        let limit = number(edit, MAX_DECAY)?;
        guards.push(edit.insert(Op::new(OpType::LessOrEqual, &[most, limit])));
    }
    if shape[1..].iter().all(|dim| dim.is(1)) {
        let one = split.reshape(edit, sum, is_same.then_some(1), &[])?;
        let whole = split.full(edit, one, &[])?;
        return split.reshape(edit, whole, None, &[1]);
    }
    let whole = split.full(edit, sum, axes)?;
    let size = split.sizes(axes).iter().product();
    split.reshape(edit, whole, None, &[size])
}

/// Returns a sum of products of constant numbers.
fn constant(edit: &Patch<'_, '_>, terms: &[&Term]) -> Option<f64> {
    let mut sum = 0.0;
    for term in terms {
        let mut product = if term.is_negative { -1.0 } else { 1.0 };
        for factor in &term.factors {
            let Factor::Value { id, .. } = factor else { return None };
            product *= edit.tensor(*id)?.number()?;
        }
        sum += product;
    }
    Some(sum)
}

fn sum(
    edit: &mut Patch<'_, '_>,
    split: &mut Split<'_>,
    terms: &[&Term],
    axes: &[usize],
) -> Result<ValueId> {
    let mut sum: Option<ValueId> = None;
    for term in terms {
        let product = match split.product(edit, &term.factors, axes)? {
            Some(product) => Ok(product),
            None => filled(edit, &vec![1; axes.len() + 1], 1.0),
        }?;
        sum = Some(match (sum, term.is_negative) {
            (None, false) => product,
            (None, true) => edit.insert(Op::new(OpType::Neg, &[product])),
            (Some(sum), false) => edit.insert(Op::new(OpType::Add, &[sum, product])),
            (Some(sum), true) => edit.insert(Op::new(OpType::Sub, &[sum, product])),
        });
    }
    sum.ok_or_else(|| "an empty sum".into())
}

/// The sizes of chunks.
#[derive(Clone, Copy)]
struct Sizes {
    steps: i64,
    /// The steps of a chunk, and the number of chunks.
    chunk: i64,
    count: i64,
}

impl Sizes {
    /// Returns chunks with the fewest iterations of both loops, preferably without padding.
    fn of(steps: i64) -> Sizes {
        let root = (steps as f64).sqrt().ceil() as i64;
        let divides = |chunk: &i64| steps % chunk == 0;
        let exact =
            (root / 2 + 1..=2 * root).filter(divides).min_by_key(|chunk| chunk + steps / chunk);
        let chunk = exact.unwrap_or(root);
        Sizes { steps, chunk, count: (steps + chunk - 1) / chunk }
    }

    fn padding(self) -> i64 {
        self.chunk * self.count - self.steps
    }
}

/// Computes all results of the loop.
fn chunked(
    edit: &mut Patch<'_, '_>,
    scan: &Counted,
    split: &mut Split<'_>,
    series: &[Series],
) -> Result<Vec<(ValueId, ValueId)>> {
    let sizes = Sizes::of(split.batches.steps.known().ok_or("the number of steps is not known")?);
    let before: Vec<ValueId> = split.batches.of.values().copied().collect();
    let mut results = Vec::new();
    for one in series {
        let states = match one.decay {
            Decay::Number(decay) => by_powers(edit, scan, one, decay, sizes)?,
            Decay::Array(decays) => by_loops(edit, scan, one, decays, sizes)?,
        };
        let states = split.reshape(edit, states, None, &one.shape)?;
        let place = if scan.is_reverse { 0 } else { sizes.steps - 1 };
        let place = edit.integer(place).ok_or("no index")?;
        let last = edit.insert(Op::new(OpType::Gather, &[states, place]).attr("axis", 0));
        results.push((one.carry.result, last));
        split.batches.of.insert(one.carry.after, states);
        let earlier = shifted(edit, scan, one.carry.initial, states)?;
        split.batches.of.insert(one.carry.before, earlier);
    }
    split.take(edit, scan.stacks.iter().map(|stack| stack.element))?;
    for stack in &scan.stacks {
        let array = split.array(stack.element).ok_or("a result is the same in all steps")?;
        let is_outside = before.contains(&array);
        let copy = is_outside.then(|| edit.insert(Op::new(OpType::Identity, &[array])));
        results.push((stack.result, copy.unwrap_or(array)));
    }
    Ok(results)
}

/// Returns the states before each step.
pub(super) fn shifted(
    edit: &mut Patch<'_, '_>,
    scan: &Counted,
    initial: ValueId,
    states: ValueId,
) -> Result<ValueId> {
    let initial = edit.unsqueeze(initial, &[0]).ok_or("no axes")?;
    let (start, end) = if scan.is_reverse { (1, i64::MAX) } else { (0, -1) };
    let rest = sliced(edit, states, 0, start, end)?;
    let parts = if scan.is_reverse { [rest, initial] } else { [initial, rest] };
    Ok(edit.insert(Op::new(OpType::Concat, &parts).attr("axis", 0)))
}

/// Returns an array over steps as an array over chunks and their steps.
fn in_chunks(
    edit: &mut Patch<'_, '_>,
    scan: &Counted,
    id: ValueId,
    last: i64,
    sizes: Sizes,
) -> Result<ValueId> {
    let mut id = id;
    if sizes.padding() > 0 {
        let mut pads = [0; 4];
        pads[if scan.is_reverse { 0 } else { 2 }] = sizes.padding();
        let pads = edit.integers(&pads).ok_or("no padding")?;
        id = edit.insert(Op::new(OpType::Pad, &[id, pads]));
    }
    shaped(edit, id, &[sizes.count, sizes.chunk, last])
}

/// Returns an array over chunks and their steps as an array over steps.
fn in_steps(
    edit: &mut Patch<'_, '_>,
    scan: &Counted,
    id: ValueId,
    size: i64,
    sizes: Sizes,
) -> Result<ValueId> {
    let whole = shaped(edit, id, &[sizes.count * sizes.chunk, size])?;
    match (sizes.padding(), scan.is_reverse) {
        (0, _) => Ok(whole),
        (_, false) => sliced(edit, whole, 0, 0, sizes.steps),
        (padding, true) => sliced(edit, whole, 0, padding, i64::MAX),
    }
}

/// Returns a table, in which the order of rows and columns is reversed if the loop runs backwards.
fn table(
    edit: &mut Patch<'_, '_>,
    scan: &Counted,
    [rows, columns]: [i64; 2],
    entry: impl Fn(i64, i64) -> f64,
) -> Result<ValueId> {
    let flip = |place: i64, size: i64| if scan.is_reverse { size - 1 - place } else { place };
    let entries: Vec<f64> = (0..rows)
        .flat_map(|row| (0..columns).map(move |column| (row, column)))
        .map(|(row, column)| entry(flip(row, rows), flip(column, columns)))
        .map(|entry| if entry.abs() < f64::from(f32::MIN_POSITIVE) { 0.0 } else { entry })
        .collect();
    let tensor = Tensor::of_floats(DType::F32, vec![rows, columns], &entries).ok_or("no table")?;
    Ok(edit.constant(tensor, &[]))
}

/// Computes the states by products with powers of the decay.
fn by_powers(
    edit: &mut Patch<'_, '_>,
    scan: &Counted,
    series: &Series,
    decay: f64,
    sizes: Sizes,
) -> Result<ValueId> {
    let Sizes { chunk, count, .. } = sizes;
    let power = |exponent: i64| if exponent < 0 { 0.0 } else { decay.powf(exponent as f64) };
    let added = in_chunks(edit, scan, series.added, series.size, sizes)?;
    let within = table(edit, scan, [chunk, chunk], |row, column| power(row - column))?;
    let local = edit.insert(Op::new(OpType::MatMul, &[within, added]));
    // The state before each chunk, from what the earlier chunks add and from the first state.
    let place = edit.integer(if scan.is_reverse { 0 } else { chunk - 1 }).ok_or("no index")?;
    let ends = edit.insert(Op::new(OpType::Gather, &[local, place]).attr("axis", 1));
    let between = |row: i64, column: i64| match row - 1 - column {
        chunks if chunks < 0 => 0.0,
        chunks => power(chunks * chunk),
    };
    let between = table(edit, scan, [count, count], between)?;
    let mut starts = edit.insert(Op::new(OpType::MatMul, &[between, ends]));
    let is_zero = |tensor: &Tensor| tensor.all_floats(|number| number == 0.0);
    if !edit.tensor(series.carry.initial).is_some_and(is_zero) {
        let initial = shaped(edit, series.carry.initial, &[1, series.size])?;
        let powers = table(edit, scan, [count, 1], |row, _| power(row * chunk))?;
        let initial = edit.insert(Op::new(OpType::Mul, &[powers, initial]));
        starts = edit.insert(Op::new(OpType::Add, &[starts, initial]));
    }
    let starts = edit.unsqueeze(starts, &[1]).ok_or("no axes")?;
    let powers = table(edit, scan, [chunk, 1], |row, _| power(row + 1))?;
    let decayed = edit.insert(Op::new(OpType::Mul, &[powers, starts]));
    let states = edit.insert(Op::new(OpType::Add, &[local, decayed]));
    in_steps(edit, scan, states, series.size, sizes)
}

/// Computes the states by a loop over the steps of all chunks, and a loop over the chunks.
fn by_loops(
    edit: &mut Patch<'_, '_>,
    scan: &Counted,
    series: &Series,
    decays: ValueId,
    sizes: Sizes,
) -> Result<ValueId> {
    let count = sizes.count;
    let size = series.size;
    let width =
        edit.shape(decays).and_then(|shape| shape.last()?.known()).ok_or("a size is not known")?;
    let added = in_chunks(edit, scan, series.added, size, sizes)?;
    let decays = in_chunks(edit, scan, decays, width, sizes)?;
    let by_step = |edit: &mut Patch<'_, '_>, id: ValueId| edit.insert(transpose(id, &[1, 0, 2]));
    let (added, decays) = (by_step(edit, added), by_step(edit, decays));

    let (states, powers) = (dims(&[count, size]), dims(&[count, width]));
    let mut body = Body::new(scan, series.carry)?;
    let [total, product, a, b] =
        [&states, &powers, &powers, &states].map(|shape| body.input(edit, shape));
    let kept = body.node(edit, OpType::Mul, &[a, total], &states);
    let sum = body.node(edit, OpType::Add, &[kept, b], &states);
    let power = body.node(edit, OpType::Mul, &[a, product], &powers);
    let stacks = [(sum, &states), (power, &powers)]
        .map(|(value, shape)| body.node(edit, OpType::Identity, &[value], shape));
    let zeros = filled(edit, &[count, size], 0.0)?;
    let ones = filled(edit, &[count, width], 1.0)?;
    let made = body.insert(edit, &[(zeros, sum), (ones, power)], &[decays, added], &stacks)?;

    let mut body = Body::new(scan, series.carry)?;
    let (whole, part) = (dims(&[size]), dims(&[width]));
    let [state, a, b] = [&whole, &part, &whole].map(|shape| body.input(edit, shape));
    let kept = body.node(edit, OpType::Mul, &[a, state], &whole);
    let next = body.node(edit, OpType::Add, &[kept, b], &whole);
    let start = body.node(edit, OpType::Identity, &[state], &whole);
    let initial = shaped(edit, series.carry.initial, &[size])?;
    let starts = body.insert(edit, &[(initial, next)], &[made[1], made[0]], &[start])?;

    let decayed = edit.insert(Op::new(OpType::Mul, &[made[3], starts[1]]));
    let states = edit.insert(Op::new(OpType::Add, &[made[2], decayed]));
    let states = by_step(edit, states);
    in_steps(edit, scan, states, size, sizes)
}
