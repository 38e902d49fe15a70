//! Computes the states of all steps in chunks, from what each step adds and from the decays.

use algebra::axis_map::transpose;
use algebra::rewrite::Result;
use onnx::{DType, Dim, Op, OpType, Patch, Tensor, Type, ValueId};

use super::body::{Body, dims, filled, shaped};
use crate::{Carry, Counted};

/// The number of steps of a chunk if the number of all steps is symbolic.
const CHUNK: i64 = 32;

/// A state with the arrays of all steps that its update reads.
pub(super) struct Series {
    pub carry: Carry,
    /// The number of elements of the state.
    pub size: i64,
    pub shape: Vec<i64>,
    pub decay: Decay,
    /// `[steps, size]`
    pub added: ValueId,
}

pub(super) enum Decay {
    /// The same number in all steps.
    Number(f64),
    /// `[steps, size]` or `[steps, 1]`
    Array(ValueId),
}

/// Returns the states after all steps, as `[steps, size]`.
pub(super) fn states(edit: &mut Patch<'_, '_>, scan: &Counted, series: &Series) -> Result<ValueId> {
    let sizes = &Sizes::of(edit, scan, series.added)?;
    match series.decay {
        Decay::Number(decay) => by_powers(edit, scan, series, decay, sizes),
        Decay::Array(decays) => by_loops(edit, scan, series, decays, sizes),
    }
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
    fn of(edit: &mut Patch<'_, '_>, scan: &Counted, array: ValueId) -> Result<Sizes> {
        let unknown = "no sizes";
        let steps = scan.iterations.clone();
        let most = i64::MAX;
        if let Some(known) = steps.known() {
            let chunk = Sizes::chunk_of(known);
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
        let sizes = [0, CHUNK - 1, CHUNK, most].map(|size| edit.integers(&[size]));
        let [Some(zero), Some(rest), Some(chunk), Some(most)] = sizes else {
            return Err(unknown.into());
        };
        let longer = edit.insert(Op::new(OpType::Add, &[length, rest]));
        let count = edit.insert(Op::new(OpType::Div, &[longer, chunk]));
        let whole = edit.insert(Op::new(OpType::Mul, &[count, chunk]));
        let padding = edit.insert(Op::new(OpType::Sub, &[whole, length]));
        let (pads, ends) = match scan.is_reverse {
            true => ([padding, zero, zero, zero], [padding, most]),
            false => ([zero, zero, padding, zero], [zero, length]),
        };
        let pads = edit.insert(Op::new(OpType::Concat, &pads).attr("axis", 0));
        let pads = Some(Pads { operand: pads, start: ends[0], end: ends[1] });
        Ok(Sizes { steps, chunk: CHUNK, count: None, pads })
    }

    /// Returns the size of the chunks with the fewest iterations of both loops, preferably without padding.
    fn chunk_of(steps: i64) -> i64 {
        let root = (steps as f64).sqrt().ceil() as i64;
        let divides = |chunk: &i64| steps % chunk == 0;
        let exact =
            (root / 2 + 1..=2 * root).filter(divides).min_by_key(|chunk| chunk + steps / chunk);
        exact.unwrap_or(root)
    }
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

/// Returns an array over chunks that contains one number. `like` is another array over chunks.
fn repeated(
    edit: &mut Patch<'_, '_>,
    number: f64,
    size: i64,
    sizes: &Sizes,
    like: ValueId,
) -> Result<ValueId> {
    if let Some(count) = sizes.count {
        return filled(edit, &[count, size], number);
    }
    let row = filled(edit, &[1, size], number)?;
    let count = edit.insert(Op::new(OpType::Shape, &[like]).attr("start", 0).attr("end", 1));
    let rest = edit.integers(&[1]).ok_or("no shape")?;
    let shape = edit.insert(Op::new(OpType::Concat, &[count, rest]).attr("axis", 0));
    Ok(edit.insert(Op::new(OpType::Expand, &[row, shape])))
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
        .map(normal)
        .collect();
    let tensor = Tensor::of_floats(DType::F32, vec![rows, columns], &entries).ok_or("no table")?;
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
    let within = table(edit, scan, [chunk, chunk], |row, column| power(row - column))?;
    let local = edit.insert(Op::new(OpType::MatMul, &[within, added]));
    // The state before each chunk, from what the earlier chunks add and from the first state.
    let place = edit.integer(if scan.is_reverse { 0 } else { chunk - 1 }).ok_or("no index")?;
    let ends = edit.insert(Op::new(OpType::Gather, &[local, place]).attr("axis", 1));
    let starts = if let Some(count) = sizes.count {
        starts_by_powers(edit, scan, series, ends, [count, chunk], power)?
    } else {
        let decay = filled(edit, &[1], normal(power(chunk)))?;
        starts_by_loop(edit, scan, series, None, Some(decay), ends)?
    };
    let starts = edit.unsqueeze(starts, &[1]).ok_or("no axes")?;
    let powers = table(edit, scan, [chunk, 1], |row, _| power(row + 1))?;
    let decayed = edit.insert(Op::new(OpType::Mul, &[powers, starts]));
    let states = edit.insert(Op::new(OpType::Add, &[local, decayed]));
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
    let between = |row: i64, column: i64| match row - 1 - column {
        chunks if chunks < 0 => 0.0,
        chunks => power(chunks * chunk),
    };
    let between = table(edit, scan, [count, count], between)?;
    let starts = edit.insert(Op::new(OpType::MatMul, &[between, ends]));
    let is_zero = |tensor: &Tensor| tensor.all_floats(|number| number == 0.0);
    if edit.tensor(series.carry.initial).is_some_and(is_zero) {
        return Ok(starts);
    }
    let initial = shaped(edit, series.carry.initial, &[1, series.size])?;
    let powers = table(edit, scan, [count, 1], |row, _| power(row * chunk))?;
    let initial = edit.insert(Op::new(OpType::Mul, &[powers, initial]));
    Ok(edit.insert(Op::new(OpType::Add, &[starts, initial])))
}

/// Returns the state before each chunk, by a loop over the chunks. The decay of a chunk is in an array, or the same for
/// all.
fn starts_by_loop(
    edit: &mut Patch<'_, '_>,
    scan: &Counted,
    series: &Series,
    decays: Option<(ValueId, i64)>,
    decay: Option<ValueId>,
    ends: ValueId,
) -> Result<ValueId> {
    let size = series.size;
    let mut body = Body::new(scan, series.carry)?;
    let whole = dims(&[size]);
    let state = body.input(edit, &whole);
    let factor = decays.map(|(_, width)| body.input(edit, &dims(&[width])));
    let added = body.input(edit, &whole);
    let factor = factor.or(decay).ok_or("no decay")?;
    let kept = body.node(edit, OpType::Mul, &[factor, state], &whole);
    let next = body.node(edit, OpType::Add, &[kept, added], &whole);
    let start = body.node(edit, OpType::Identity, &[state], &whole);
    let initial = shaped(edit, series.carry.initial, &[size])?;
    let arrays: Vec<ValueId> = decays.map(|(decays, _)| decays).into_iter().chain([ends]).collect();
    Ok(body.insert(edit, &[(initial, next)], &arrays, &[start])?[1])
}

/// Computes the states by a loop over the steps of all chunks, and a loop over the chunks.
fn by_loops(
    edit: &mut Patch<'_, '_>,
    scan: &Counted,
    series: &Series,
    decays: ValueId,
    sizes: &Sizes,
) -> Result<ValueId> {
    let size = series.size;
    let width =
        edit.shape(decays).and_then(|shape| shape.last()?.known()).ok_or("a size is not known")?;
    let chunks = in_chunks(edit, series.added, size, sizes)?;
    let decays = in_chunks(edit, decays, width, sizes)?;
    let by_step = |edit: &mut Patch<'_, '_>, id: ValueId| edit.insert(transpose(id, &[1, 0, 2]));
    let (added, decays) = (by_step(edit, chunks), by_step(edit, decays));

    let count = edit.shape(added).and_then(|shape| shape.get(1).cloned());
    let count = count.ok_or("a type is unknown")?;
    let [states, powers] = [size, width].map(|size| vec![count.clone(), Dim::Known(size)]);
    let mut body = Body::new(scan, series.carry)?;
    let [total, product, a, b] =
        [&states, &powers, &powers, &states].map(|shape| body.input(edit, shape));
    let kept = body.node(edit, OpType::Mul, &[a, total], &states);
    let sum = body.node(edit, OpType::Add, &[kept, b], &states);
    let power = body.node(edit, OpType::Mul, &[a, product], &powers);
    let stacks = [(sum, &states), (power, &powers)]
        .map(|(value, shape)| body.node(edit, OpType::Identity, &[value], shape));
    let zeros = repeated(edit, 0.0, size, sizes, chunks)?;
    let ones = repeated(edit, 1.0, width, sizes, chunks)?;
    let made = body.insert(edit, &[(zeros, sum), (ones, power)], &[decays, added], &stacks)?;

    let starts = starts_by_loop(edit, scan, series, Some((made[1], width)), None, made[0])?;
    let decayed = edit.insert(Op::new(OpType::Mul, &[made[3], starts]));
    let states = edit.insert(Op::new(OpType::Add, &[made[2], decayed]));
    let states = by_step(edit, states);
    in_steps(edit, states, size, sizes)
}
