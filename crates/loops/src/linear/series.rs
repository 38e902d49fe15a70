//! Computes the states of all steps in chunks, from what each step adds and from the decays.

use algebra::rewrite::Result;
use onnx::{DType, Dim, Op, OpType, Patch, Tensor, Type, ValueId};

use super::body::{Body, dims, filled, shaped};
use super::lanes::{self, Lanes};
use crate::{Carry, Counted};

/// The number of steps of a chunk if the number of all steps is symbolic.
const CHUNK: i64 = 32;

/// The maximum number of decays above one that are multiplied.
pub(super) const MAX_PRODUCT: i64 = 32;

/// The same for decays that are at most a little above one.
const MAX_DECAYS: i64 = 4096;

/// The number of steps of a chunk that run one after the other, if the number of all steps is symbolic.
const SHORT_CHUNK: i64 = 16;

/// The largest number of chunks whose starts are computed by one product.
const MAX_CHUNKS: i64 = 256;

/// A state with the arrays of all steps that its update reads.
pub(super) struct Series {
    pub carry: Carry,
    /// The number of elements of the state.
    pub size: i64,
    pub shape: Vec<i64>,
    pub decay: Decay,
    pub join: Join,
    /// `[steps, size]`
    pub added: ValueId,
    /// True if the steps add nothing, and decays may be above one.
    pub is_product: bool,
    /// A constant factor of what the steps add, if the decay is one number.
    pub scale: f64,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Decay {
    /// The same number in all steps.
    Number(f64),
    /// `[steps, size]` or `[steps, 1]`
    Array(ValueId),
    /// The state is kept.
    None,
}

impl Decay {
    pub(super) fn array(self) -> Option<ValueId> {
        if let Decay::Array(array) = self { Some(array) } else { None }
    }
}

/// How a step updates a state. The second operation distributes over the first one, so that the decays of several steps
/// can be joined before the state is known.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Join {
    /// `decay * state + added`
    Sum,
    /// `max(decay + state, added)`
    Max,
    /// `min(decay + state, added)`
    Min,
    /// `state @ decay + added`, where states are rows
    Matrix,
}

impl Join {
    pub(super) fn with_decay(self) -> OpType {
        match self {
            Join::Sum => OpType::Mul,
            Join::Max | Join::Min => OpType::Add,
            Join::Matrix => OpType::MatMul,
        }
    }

    pub(super) fn with_added(self) -> OpType {
        match self {
            Join::Sum | Join::Matrix => OpType::Add,
            Join::Max => OpType::Max,
            Join::Min => OpType::Min,
        }
    }

    /// Returns the state without influence on the next one.
    pub(super) fn empty(self) -> f64 {
        match self {
            Join::Sum | Join::Matrix => 0.0,
            Join::Max => f64::NEG_INFINITY,
            Join::Min => f64::INFINITY,
        }
    }

    /// Returns the decay that keeps a state.
    pub(super) fn kept(self) -> f64 {
        if self == Join::Sum { 1.0 } else { 0.0 }
    }
}

/// Returns the states after all steps, each as `[steps, size]`. All of the series have the same decay.
pub(super) fn states(
    edit: &mut Patch<'_, '_>,
    scan: &Counted,
    all: &[&Series],
) -> Result<Vec<ValueId>> {
    let matrix = |decay: Option<ValueId>| match decay {
        Some(decay) if edit.shape(decay).is_some_and(|shape| shape[0].is(1)) => {
            lanes::Factor::Same(decay)
        }
        Some(decay) => lanes::Factor::Steps(decay),
        None => lanes::Factor::One,
    };
    if let Decay::Number(decay) = all[0].decay {
        let chunk = chunk_of_powers(&scan.iterations);
        let sizes = &Sizes::of(edit, scan, all[0].added, chunk)?;
        return all.iter().map(|one| by_powers(edit, scan, one, decay, sizes)).collect();
    }
    let matrix = vec![vec![matrix(all[0].decay.array())]];
    let mut initial = Vec::new();
    for one in all {
        initial.push(vec![shaped(edit, one.carry.initial, &[1, one.size])?]);
    }
    let limit = if all.iter().any(|one| one.is_product) { MAX_PRODUCT } else { MAX_DECAYS };
    let lanes = Lanes { scan, all, join: all[0].join, initial, limit };
    let added: Vec<Vec<ValueId>> = all.iter().map(|one| vec![one.added]).collect();
    let states = match scan.iterations.known() {
        Some(steps) => lanes.states(edit, &matrix, &added, [steps, 1], &mut Vec::new())?,
        None => of_symbolic(edit, scan, all, &lanes, &matrix, &added)?,
    };
    Ok(states.into_iter().flatten().collect())
}

/// The sizes of chunks.
struct Sizes {
    steps: Dim,
    /// The number of steps of a chunk.
    chunk: i64,
    /// The number of chunks, if it is known.
    count: Option<i64>,
    /// The padding, if a chunk is shorter.
    pads: Option<Pads>,
}

#[derive(Clone, Copy)]
struct Pads {
    /// The operand of `Pad`.
    operand: ValueId,
    /// The start and the end of the steps among the padded ones.
    start: ValueId,
    end: ValueId,
}

impl Sizes {
    fn of(edit: &mut Patch<'_, '_>, scan: &Counted, array: ValueId, chunk: i64) -> Result<Sizes> {
        let unknown = "no sizes";
        let steps = scan.iterations.clone();
        let most = i64::MAX;
        if let Some(known) = steps.known() {
            let count = (known + chunk - 1) / chunk;
            let padding = chunk * count - known;
            let mut pads = [0; 4];
            pads[if scan.is_reverse { 0 } else { 2 }] = padding;
            let ends = if scan.is_reverse { [padding, most] } else { [0, known] };
            let pads = match padding {
                0 => None,
                _ => Some(Pads {
                    operand: edit.integers(&pads).ok_or(unknown)?,
                    start: edit.integers(&ends[..1]).ok_or(unknown)?,
                    end: edit.integers(&ends[1..]).ok_or(unknown)?,
                }),
            };
            return Ok(Sizes { steps, chunk, count: Some(count), pads });
        }
        let shape = Op::new(OpType::Shape, &[array]).attr("start", 0).attr("end", 1);
        let length = edit.insert(shape);
        let sizes = [0, chunk - 1, chunk, most].map(|size| edit.integers(&[size]));
        let [Some(zero), Some(rest), Some(length_of_chunk), Some(most)] = sizes else {
            return Err(unknown.into());
        };
        let longer = edit.insert(Op::new(OpType::Add, &[length, rest]));
        let count = edit.insert(Op::new(OpType::Div, &[longer, length_of_chunk]));
        let whole = edit.insert(Op::new(OpType::Mul, &[count, length_of_chunk]));
        let padding = edit.insert(Op::new(OpType::Sub, &[whole, length]));
        let (pads, ends) = match scan.is_reverse {
            true => ([padding, zero, zero, zero], [padding, most]),
            false => ([zero, zero, padding, zero], [zero, length]),
        };
        let pads = edit.insert(Op::new(OpType::Concat, &pads).attr("axis", 0));
        let pads = Some(Pads { operand: pads, start: ends[0], end: ends[1] });
        Ok(Sizes { steps, chunk, count: None, pads })
    }
}

/// Returns the number of steps of a chunk for which both products with powers together have the fewest multiplications.
fn chunk_of_powers(steps: &Dim) -> i64 {
    let Some(steps) = steps.known() else { return CHUNK };
    let root = (2.0 * (steps as f64).cbrt()).ceil() as i64;
    let count = |chunk: i64| steps / chunk;
    let least = (steps + MAX_CHUNKS - 1) / MAX_CHUNKS;
    divisor_near(steps, root.max(least), |chunk| steps * chunk + count(chunk) * count(chunk))
}

/// Returns the cheapest of the divisors between half a number and twice this number. The number itself if there is none.
fn divisor_near(steps: i64, number: i64, cost: impl Fn(i64) -> i64) -> i64 {
    let divides = |chunk: &i64| steps % chunk == 0;
    let exact = (number / 2 + 1..=2 * number).filter(divides).min_by_key(|&chunk| cost(chunk));
    exact.unwrap_or(number)
}

/// Returns an array over steps as an array over chunks and their steps.
fn in_chunks(edit: &mut Patch<'_, '_>, id: ValueId, last: i64, sizes: &Sizes) -> Result<ValueId> {
    let id = match sizes.pads {
        Some(pads) => edit.insert(Op::new(OpType::Pad, &[id, pads.operand])),
        None => id,
    };
    shaped(edit, id, &[sizes.count.unwrap_or(-1), sizes.chunk, last])
}

/// Returns an array over chunks and their steps as an array over steps.
fn in_steps(edit: &mut Patch<'_, '_>, id: ValueId, size: i64, sizes: &Sizes) -> Result<ValueId> {
    let rows = sizes.count.map_or(-1, |count| count * sizes.chunk);
    let whole = shaped(edit, id, &[rows, size])?;
    let Some(Pads { start, end, .. }) = sizes.pads else { return Ok(whole) };
    let axis = edit.integers(&[0]).ok_or("no axes")?;
    let op = Op::new(OpType::Slice, &[whole, start, end, axis]);
    let ty = Type::new(DType::F32, vec![sizes.steps.clone(), Dim::Known(size)]);
    let result = edit.body_input(ty);
    Ok(edit.insert_instead(op, &[Some(result)])[0])
}

/// Returns a table, in which the order of each axis is reversed if the loop runs backwards.
fn table(
    edit: &mut Patch<'_, '_>,
    scan: &Counted,
    sizes: &[i64],
    entry: impl Fn(&[i64]) -> f64,
) -> Result<ValueId> {
    let count = sizes.iter().product();
    let place = |mut index: i64| {
        let mut place = sizes.to_vec();
        for axis in place.iter_mut().rev() {
            let size = *axis;
            *axis = if scan.is_reverse { size - 1 - index % size } else { index % size };
            index /= size;
        }
        place
    };
    let entries: Vec<f64> = (0..count).map(|index| normal(entry(&place(index)))).collect();
    let tensor = Tensor::of_floats(DType::F32, sizes.to_vec(), &entries).ok_or("no table")?;
    Ok(edit.constant(tensor, &[]))
}

/// Returns zero for numbers that XLA replaces by zero.
pub(super) fn normal(number: f64) -> f64 {
    if number.abs() < f64::from(f32::MIN_POSITIVE) { 0.0 } else { number }
}

/// Computes the states by products with powers of the decay.
fn by_powers(
    edit: &mut Patch<'_, '_>,
    scan: &Counted,
    series: &Series,
    decay: f64,
    sizes: &Sizes,
) -> Result<ValueId> {
    let chunk = sizes.chunk;
    let power = |exponent: i64| if exponent < 0 { 0.0 } else { decay.powf(exponent as f64) };
    let added = in_chunks(edit, series.added, series.size, sizes)?;
    // The sum that each chunk adds determines the state before each chunk.
    let last = table(edit, scan, &[chunk], |column| series.scale * power(chunk - 1 - column[0]))?;
    let ends = edit.insert(Op::new(OpType::MatMul, &[last, added]));
    let starts = if let Some(count) = sizes.count {
        starts_by_powers(edit, scan, series, ends, [count, chunk], power)?
    } else {
        let decay = filled(edit, &[1], normal(power(chunk)))?;
        starts_by_loop(edit, scan, &[series], Factor::Same(decay), &[ends])?[0]
    };
    let mut parts = [edit.unsqueeze(starts, &[1]).ok_or("no axes")?, added];
    if scan.is_reverse {
        parts.reverse();
    }
    let parts = edit.insert(Op::new(OpType::Concat, &parts).attr("axis", 1));
    let powers = table(edit, scan, &[chunk, chunk + 1], |place| match place[1] {
        0 => power(place[0] + 1),
        column => series.scale * power(place[0] + 1 - column),
    })?;
    let states = edit.insert(Op::new(OpType::MatMul, &[powers, parts]));
    in_steps(edit, states, series.size, sizes)
}

/// Returns the state before each chunk, from what the steps of each chunk add, by products with powers of the decay.
fn starts_by_powers(
    edit: &mut Patch<'_, '_>,
    scan: &Counted,
    series: &Series,
    ends: ValueId,
    [count, chunk]: [i64; 2],
    power: impl Fn(i64) -> f64,
) -> Result<ValueId> {
    let between = |place: &[i64]| match place[0] - 1 - place[1] {
        chunks if chunks < 0 => 0.0,
        chunks => power(chunks * chunk),
    };
    let between = table(edit, scan, &[count, count], between)?;
    let starts = edit.insert(Op::new(OpType::MatMul, &[between, ends]));
    let is_zero = |tensor: &Tensor| tensor.all_floats(|number| number == 0.0);
    if edit.tensor(series.carry.initial).is_some_and(is_zero) {
        return Ok(starts);
    }
    let initial = shaped(edit, series.carry.initial, &[1, series.size])?;
    let powers = table(edit, scan, &[count, 1], |place| power(place[0] * chunk))?;
    let initial = edit.insert(Op::new(OpType::Mul, &[powers, initial]));
    Ok(edit.insert(Op::new(OpType::Add, &[starts, initial])))
}

/// The decay of the chunks.
#[derive(Clone, Copy)]
pub(super) enum Factor {
    /// One number for all chunks.
    Same(ValueId),
    /// An array over chunks, and the size of its entries.
    Array(ValueId, i64),
    None,
}

/// Returns the states before each chunk, by a loop over the chunks.
pub(super) fn starts_by_loop(
    edit: &mut Patch<'_, '_>,
    scan: &Counted,
    all: &[&Series],
    factor: Factor,
    ends: &[ValueId],
) -> Result<Vec<ValueId>> {
    let join = all[0].join;
    let mut body = Body::new(scan, all[0].carry)?;
    let shapes: Vec<Vec<Dim>> = all.iter().map(|one| dims(&[one.size])).collect();
    let states: Vec<ValueId> = shapes.iter().map(|shape| body.input(edit, shape)).collect();
    let (factor, mut arrays) = match factor {
        Factor::Same(factor) => (Some(factor), Vec::new()),
        Factor::Array(whole, size) => (Some(body.input(edit, &dims(&[size]))), vec![whole]),
        Factor::None => (None, Vec::new()),
    };
    arrays.extend(ends);
    let (mut updates, mut starts) = (Vec::new(), Vec::new());
    for ((&state, shape), one) in states.iter().zip(&shapes).zip(all) {
        let added = body.input(edit, shape);
        let kept = match factor {
            Some(factor) => body.node(edit, join.with_decay(), &[factor, state], shape),
            None => state,
        };
        let next = body.node(edit, join.with_added(), &[kept, added], shape);
        updates.push((shaped(edit, one.carry.initial, &[one.size])?, next));
        starts.push(body.node(edit, OpType::Identity, &[state], shape));
    }
    Ok(body.insert(edit, &updates, &arrays, &starts)?.split_off(all.len()))
}

/// Computes the states of a symbolic number of steps, with a loop over the chunks.
fn of_symbolic(
    edit: &mut Patch<'_, '_>,
    scan: &Counted,
    all: &[&Series],
    lanes: &Lanes<'_>,
    matrix: &lanes::Matrix,
    added: &[Vec<ValueId>],
) -> Result<Vec<Vec<ValueId>>> {
    let sizes = &Sizes::of(edit, scan, all[0].added, SHORT_CHUNK)?;
    let inside = lanes.steps(edit, matrix, added, SHORT_CHUNK, &mut |edit, id| {
        let width = lanes::sizes_after(edit, id, 1)?[0];
        in_chunks(edit, id, width, sizes)
    })?;
    let (matrix, ends) = lanes.reduced(edit, &inside, -1)?;
    let starts = lanes.by_loop(edit, &matrix, &ends)?;
    let states = lanes.run(edit, &inside, &starts, -1)?;
    let mut found = Vec::new();
    for (state, one) in states.into_iter().flatten().zip(all) {
        found.push(vec![in_steps(edit, state, one.size, sizes)?]);
    }
    Ok(found)
}
