//! Computes a state that outer products update in chunks of steps, by products of matrices.
//!
//! Within a chunk, step `t` reads `Σ_s (q_t · D_ts k_s) v_s` of what the steps `s` of the chunk added, where `D_ts` is the
//! product of the decays between both steps. A loop over the chunks adds what is left of the state before each. A delta
//! rule adds `u` instead of `v`, which solves `(I + N) u = β (v − D k S)` with `N_ts = β_t (k_t · D_ts k_s)` below the
//! diagonal.
//!
//! Decays are multiplied, and never divided. If they differ between keys, two blocks of steps become one again and again:
//! the queries of the second block are multiplied by the decays up to its start, and the keys of the first block by the
//! decays up to its end.

use algebra::axis_map::transpose;
use algebra::rewrite::Result;
use onnx::{DType, Dim, Op, OpType, Patch, Tensor, ValueId};

use super::body::{Body, dims, filled, shaped, sliced};
use crate::{Carry, Counted};

/// The number of steps of a chunk.
pub(super) const CHUNK: i64 = 32;

/// The arrays of all steps that the update and the results read.
pub(super) struct Arrays {
    /// `[steps, heads, keys]`
    pub query: Option<ValueId>,
    pub key: ValueId,
    /// `[steps, heads, values]`
    pub value: ValueId,
    /// `[steps, heads]` or `[steps, heads, keys]`
    pub decay: Option<ValueId>,
    /// `[steps, heads]`
    pub rate: Option<ValueId>,
    /// `[1, heads, keys, values]`
    pub past: Option<ValueId>,
}

/// The sizes of a state, and when a step reads it.
pub(super) struct Sizes {
    pub steps: Dim,
    pub heads: i64,
    pub keys: i64,
    pub values: i64,
    /// True if a step reads the state before its update.
    pub is_before: bool,
    pub decays_keys: bool,
}

/// The decays within a chunk.
struct Decays {
    /// The decay of what an earlier step of the chunk added, `[chunks, heads, steps, steps]`.
    between: ValueId,
    /// From the start of the chunk to a step, `[chunks, heads, steps, 1]`.
    before: ValueId,
    /// From a step to the end of the chunk, `[chunks, heads, 1, steps]`.
    after: ValueId,
    /// The decay of the whole chunk, `[chunks, heads, 1, 1]`.
    total: ValueId,
}

/// Returns what each step reads, `[steps, heads, values]`, and the state after the last step, `[heads, keys, values]`.
pub(super) fn computed(
    edit: &mut Patch<'_, '_>,
    scan: &Counted,
    state: Carry,
    arrays: &Arrays,
    sizes: &Sizes,
) -> Result<(Option<ValueId>, ValueId)> {
    let &Sizes { heads, keys, values, .. } = sizes;
    let pads = Pads::of(edit, arrays.key, sizes)?;
    let chunks = Chunks { heads, pads };
    let query = match arrays.query {
        Some(query) => Some(chunks.of(edit, query, keys, 0.0)?),
        None => None,
    };
    let key = chunks.of(edit, arrays.key, keys, 0.0)?;
    let value = chunks.of(edit, arrays.value, values, 0.0)?;
    let rate = match arrays.rate {
        Some(rate) => Some(chunks.of(edit, rate, 1, 0.0)?),
        None => None,
    };

    // A delta rule reads the state with its key, after the decay of the step.
    let queries = [query.map(|query| (query, sizes.is_before)), rate.map(|_| (key, false))];
    let mut step = Step { reads: [None, None], key, total: None };
    match arrays.decay {
        Some(decay) if sizes.decays_keys => {
            let decay = chunks.of(edit, decay, keys, 1.0)?;
            step = by_blocks(edit, queries, key, decay, sizes)?;
            step.key = transposed(edit, step.key)?;
        }
        Some(decay) => {
            let decays = decays_of(edit, scan, state, &chunks, decay, sizes)?;
            for (place, query) in queries.into_iter().enumerate() {
                let Some((query, _)) = query else { continue };
                let scores = product(edit, query, key)?;
                let scores = mul(edit, scores, decays.between);
                let query = mul(edit, query, decays.before);
                step.reads[place] = Some(Read { scores, query });
            }
            let keys = transposed(edit, key)?;
            step.key = mul(edit, keys, decays.after);
            step.total = Some(decays.total);
        }
        None => {
            for (place, query) in queries.into_iter().enumerate() {
                let Some((query, is_before)) = query else { continue };
                let mut scores = product(edit, query, key)?;
                // The correction masks its own scores.
                if place == 0 {
                    let mask = table(edit, |row, column| column + i64::from(is_before) <= row)?;
                    scores = mul(edit, scores, mask);
                }
                step.reads[place] = Some(Read { scores, query });
            }
            step.key = transposed(edit, key)?;
        }
    }
    let [read, retrieved] = step.reads;
    let correction = match (rate, retrieved) {
        (Some(rate), Some(retrieved)) => Some(correction(edit, retrieved, value, rate)?),
        _ => None,
    };

    let whole = dims(&[heads, keys, values]);
    let rows = dims(&[heads, CHUNK, values]);
    let mut body = Body::new(scan, state)?.forwards();
    let mut operands = Vec::new();
    let mut input = |body: &mut Body<'_>, edit: &mut Patch<'_, '_>, id: ValueId| {
        let shape = edit.shape(id).ok_or("a type is unknown")?[1..].to_vec();
        operands.push(id);
        Ok::<_, algebra::rewrite::Declined>(body.input(edit, &shape))
    };
    let before = body.input(edit, &whole);
    let total = match step.total {
        Some(total) if edit.shape(total).is_some_and(|shape| shape[0].is(1)) => {
            Some(shaped(edit, total, &[heads, -1, 1])?)
        }
        Some(total) => Some(input(&mut body, edit, total)?),
        None => None,
    };
    let keys_of_chunk = input(&mut body, edit, step.key)?;
    let mut added = None;
    let first = correction.map_or(value, |(solved, _)| solved);
    let mut change = input(&mut body, edit, first)?;
    if let Some((_, weights)) = correction {
        let weights = input(&mut body, edit, weights)?;
        let known = body.node(edit, OpType::MatMul, &[weights, before], &rows);
        change = body.node(edit, OpType::Sub, &[change, known], &rows);
        added = Some(change);
    }
    let queries = match read {
        Some(read) => Some(input(&mut body, edit, read.query)?),
        None => None,
    };
    let kept = match total {
        Some(total) => body.node(edit, OpType::Mul, &[total, before], &whole),
        None => before,
    };
    let sum = body.node(edit, OpType::MatMul, &[keys_of_chunk, change], &whole);
    let next = body.node(edit, OpType::Add, &[kept, sum], &whole);
    let mut stacks = Vec::new();
    if let Some(queries) = queries {
        stacks.push(body.node(edit, OpType::MatMul, &[queries, before], &rows));
        stacks.extend(added);
    }
    let initial = match arrays.past {
        Some(past) => shaped(edit, past, &[heads, keys, values])?,
        None => filled(edit, &[heads, keys, values], 0.0)?,
    };
    let made = body.insert(edit, &[(initial, next)], &operands, &stacks)?;
    let Some(read) = read else { return Ok((None, made[0])) };
    let change = if added.is_some() { made[2] } else { value };
    let inside = edit.insert(Op::new(OpType::MatMul, &[read.scores, change]));
    let read = edit.insert(Op::new(OpType::Add, &[inside, made[1]]));
    Ok((Some(chunks.in_steps(edit, read, values, sizes)?), made[0]))
}

/// A read of the state in each step of a chunk.
#[derive(Clone, Copy)]
struct Read {
    /// The part of what another step adds, `[chunks, heads, steps, steps]`.
    scores: ValueId,
    /// The part of the state before the chunk, `[chunks, heads, steps, keys]`.
    query: ValueId,
}

/// The effects of the steps of a chunk.
struct Step {
    /// The reads of the results and of a delta rule.
    reads: [Option<Read>; 2],
    /// The part that a step adds to the state after the chunk, `[chunks, heads, steps, keys]`.
    key: ValueId,
    /// The decay of the whole chunk, `[chunks, heads, keys, 1]`.
    total: Option<ValueId>,
}

fn mul(edit: &mut Patch<'_, '_>, a: ValueId, b: ValueId) -> ValueId {
    edit.insert(Op::new(OpType::Mul, &[a, b]))
}

/// Swaps the last two axes.
fn transposed(edit: &mut Patch<'_, '_>, id: ValueId) -> Result<ValueId> {
    let rank = edit.rank(id).ok_or("a type is unknown")?;
    let mut perm: Vec<usize> = (0..rank).collect();
    perm.swap(rank - 2, rank - 1);
    Ok(edit.insert(transpose(id, &perm)))
}

/// Returns `a bᵀ`.
fn product(edit: &mut Patch<'_, '_>, a: ValueId, b: ValueId) -> Result<ValueId> {
    let b = transposed(edit, b)?;
    Ok(edit.insert(Op::new(OpType::MatMul, &[a, b])))
}

/// Returns a matrix over pairs of steps of a chunk with the entries 0 and 1.
fn table(edit: &mut Patch<'_, '_>, is_one: impl Fn(i64, i64) -> bool) -> Result<ValueId> {
    let pairs = (0..CHUNK).flat_map(|row| (0..CHUNK).map(move |column| (row, column)));
    let entries: Vec<f64> =
        pairs.map(|(row, column)| f64::from(u8::from(is_one(row, column)))).collect();
    let tensor = Tensor::of_floats(DType::F32, vec![CHUNK, CHUNK], &entries).ok_or("no table")?;
    Ok(edit.constant(tensor, &[]))
}

/// The steps that are added so that the last chunk is as long as the others.
enum Pads {
    None,
    /// After a known number of steps.
    Known(i64),
    /// The number of steps and of added steps, which the model computes.
    Computed {
        steps: ValueId,
        added: ValueId,
    },
}

impl Pads {
    fn of(edit: &mut Patch<'_, '_>, array: ValueId, sizes: &Sizes) -> Result<Pads> {
        if let Some(steps) = sizes.steps.known() {
            let added = (CHUNK - steps % CHUNK) % CHUNK;
            return Ok(if added == 0 { Pads::None } else { Pads::Known(added) });
        }
        let shape = Op::new(OpType::Shape, &[array]).attr("start", 0).attr("end", 1);
        let steps = edit.insert(shape);
        let [most, chunk] = [CHUNK - 1, CHUNK].map(|size| edit.integers(&[size]));
        let (Some(most), Some(chunk)) = (most, chunk) else { return Err("no sizes".into()) };
        let longer = edit.insert(Op::new(OpType::Add, &[steps, most]));
        let count = edit.insert(Op::new(OpType::Div, &[longer, chunk]));
        let padded = mul(edit, count, chunk);
        Ok(Pads::Computed { steps, added: edit.insert(Op::new(OpType::Sub, &[padded, steps])) })
    }
}

/// The shape of arrays over chunks.
struct Chunks {
    heads: i64,
    pads: Pads,
}

impl Chunks {
    /// Returns an array over steps as `[chunks, heads, steps, width]`. The steps that are added contain a number.
    fn of(
        &self,
        edit: &mut Patch<'_, '_>,
        id: ValueId,
        width: i64,
        number: f64,
    ) -> Result<ValueId> {
        let parts = self.apart(edit, id, width, number)?;
        Ok(edit.insert(transpose(parts, &[0, 2, 1, 3])))
    }

    /// Returns an array over steps as `[chunks, steps, heads, width]`.
    fn apart(
        &self,
        edit: &mut Patch<'_, '_>,
        id: ValueId,
        width: i64,
        number: f64,
    ) -> Result<ValueId> {
        let shape = edit.shape(id).ok_or("a type is unknown")?;
        if shape[0].is(1) {
            // The same in all steps: all chunks are equal.
            let sizes = edit.integers(&[CHUNK, 1, 1]).ok_or("no shape")?;
            let one = shaped(edit, id, &[1, self.heads, width])?;
            let repeated = edit.insert(Op::new(OpType::Expand, &[one, sizes]));
            return shaped(edit, repeated, &[1, CHUNK, self.heads, width]);
        }
        let lead = shape[0].known().unwrap_or(-1);
        let pads = match &self.pads {
            Pads::None => return shaped(edit, id, &[-1, CHUNK, self.heads, width]),
            Pads::Known(added) => edit.integers(&[0, 0, *added, 0]).ok_or("no padding")?,
            Pads::Computed { added, .. } => {
                let parts = [edit.integers(&[0, 0]), Some(*added), edit.integers(&[0])];
                let op =
                    Op { op: OpType::Concat.into(), inputs: parts.to_vec(), attrs: Vec::new() };
                edit.insert(op.attr("axis", 0))
            }
        };
        let flat = shaped(edit, id, &[lead, self.heads * width])?;
        let number = Tensor::of_floats(DType::F32, Vec::new(), &[number]).ok_or("no number")?;
        let number = edit.constant(number, &[]);
        let padded = edit.insert(Op::new(OpType::Pad, &[flat, pads, number]));
        shaped(edit, padded, &[-1, CHUNK, self.heads, width])
    }

    /// Returns an array over chunks as an array over steps.
    fn in_steps(
        &self,
        edit: &mut Patch<'_, '_>,
        id: ValueId,
        width: i64,
        sizes: &Sizes,
    ) -> Result<ValueId> {
        let ordered = edit.insert(transpose(id, &[0, 2, 1, 3]));
        let whole = shaped(edit, ordered, &[-1, self.heads, width])?;
        match &self.pads {
            Pads::None => Ok(whole),
            Pads::Known(_) => sliced(edit, whole, 0, 0, sizes.steps.known().ok_or("no steps")?),
            Pads::Computed { steps, .. } => {
                let [Some(start), Some(axis)] = [(); 2].map(|()| edit.integers(&[0])) else {
                    return Err("no axes".into());
                };
                let op = Op::new(OpType::Slice, &[whole, start, *steps, axis]);
                let shape = [sizes.steps.clone(), Dim::Known(self.heads), Dim::Known(width)];
                let ty = onnx::Type::new(DType::F32, shape.to_vec());
                let result = edit.body_input(ty);
                Ok(edit.insert_instead(op, &[Some(result)])[0])
            }
        }
    }
}

/// Computes the decays between the steps of a chunk, which are the same for all keys, by a loop over the steps.
fn decays_of(
    edit: &mut Patch<'_, '_>,
    scan: &Counted,
    state: Carry,
    chunks: &Chunks,
    decay: ValueId,
    sizes: &Sizes,
) -> Result<Decays> {
    let heads = sizes.heads;
    let decay = chunks.apart(edit, decay, 1, 1.0)?;
    let decay = edit.insert(transpose(decay, &[1, 0, 2, 3]));
    let shape = edit.shape(decay).ok_or("a type is unknown")?.to_vec();
    let row = [&shape[1..3], &dims(&[CHUNK + 1])].concat();
    // Each row has the decay since the start of the chunk, and since each of its steps.
    let unit = |place: i64| (0..=CHUNK).map(move |at| f64::from(u8::from(at == place)));
    let entries: Vec<f64> = (1..=CHUNK).flat_map(unit).collect();
    let starts = Tensor::of_floats(DType::F32, vec![CHUNK, 1, 1, CHUNK + 1], &entries);
    let starts = edit.constant(starts.ok_or("no table")?, &[]);
    let entries: Vec<f64> = unit(0).collect();
    let first = Tensor::of_floats(DType::F32, vec![1, 1, CHUNK + 1], &entries).ok_or("no table")?;
    let first = edit.constant(first, &[]);
    let size = edit.insert(Op::new(OpType::Shape, &[decay]).attr("start", 1).attr("end", 3));
    let last = edit.integers(&[1]).ok_or("no sizes")?;
    let size = edit.insert(Op::new(OpType::Concat, &[size, last]).attr("axis", 0));
    let initial = edit.insert(Op::new(OpType::Expand, &[first, size]));

    let mut body = Body::new(scan, state)?.forwards();
    let before = body.input(edit, &row);
    let factor = body.input(edit, &shape[1..]);
    let start = body.input(edit, &dims(&[1, 1, CHUNK + 1]));
    let kept = body.node(edit, OpType::Mul, &[factor, before], &row);
    let next = body.node(edit, OpType::Add, &[kept, start], &row);
    let read = if sizes.is_before { before } else { next };
    let stack = body.node(edit, OpType::Identity, &[read], &row);
    let made = body.insert(edit, &[(initial, next)], &[decay, starts], &[stack])?;

    let rows = edit.insert(transpose(made[1], &[1, 2, 0, 3]));
    let [before, between] = split(edit, rows, 3, [1, CHUNK])?;
    let last = shaped(edit, made[0], &[-1, heads, 1, CHUNK + 1])?;
    let [total, after] = split(edit, last, 3, [1, CHUNK])?;
    Ok(Decays { between, before, after, total })
}

/// Splits an array in two along an axis.
fn split(
    edit: &mut Patch<'_, '_>,
    id: ValueId,
    axis: i64,
    sizes: [i64; 2],
) -> Result<[ValueId; 2]> {
    let sizes = edit.integers(&sizes).ok_or("no sizes")?;
    let op = Op::new(OpType::Split, &[id, sizes]).attr("axis", axis);
    let made = edit.insert_instead(op, &[None, None]);
    Ok([made[0], made[1]])
}

fn joined(edit: &mut Patch<'_, '_>, parts: [ValueId; 2], axis: i64) -> ValueId {
    edit.insert(Op::new(OpType::Concat, &parts).attr("axis", axis))
}

/// Computes what the steps of a chunk read and add, if decays differ between keys. Blocks of one step become blocks of
/// two, of four, and so on. Each query has a flag that it reads the state before the update of its step.
fn by_blocks(
    edit: &mut Patch<'_, '_>,
    queries: [Option<(ValueId, bool)>; 2],
    key: ValueId,
    decay: ValueId,
    sizes: &Sizes,
) -> Result<Step> {
    let &Sizes { heads, keys, .. } = sizes;
    // For each block: the queries with the decays since its start, the keys with the decays until its end, the decay of
    // the whole block, and the scores of its pairs.
    let (mut reads, mut key, mut total) = ([None, None], key, decay);
    for (read, query) in reads.iter_mut().zip(queries) {
        let Some((query, is_before)) = query else { continue };
        let own = mul(edit, query, key);
        let last = edit.integers(&[3]).ok_or("no axes")?;
        let own = edit.insert(Op::new(OpType::ReduceSum, &[own, last]).attr("keepdims", 1));
        *read = Some(if is_before {
            let zero = Tensor::of_floats(DType::F32, Vec::new(), &[0.0]).ok_or("no number")?;
            let zero = edit.constant(zero, &[]);
            Read { scores: mul(edit, own, zero), query }
        } else {
            Read { scores: own, query: mul(edit, query, decay) }
        });
    }
    let mut size = 1;
    while size < CHUNK {
        let pairs = CHUNK / (2 * size);
        let halves = |edit: &mut Patch<'_, '_>, id: ValueId, rows: i64, width: i64| {
            let shape = [-1, pairs, 2 * rows, width];
            let blocks = shaped(edit, id, &shape)?;
            split(edit, blocks, 2, [rows, rows])
        };
        let [total_of_first, total_of_second] = halves(edit, total, 1, keys)?;
        let [first_key, second_key] = halves(edit, key, size, keys)?;
        for read in reads.iter_mut().flatten() {
            let [first, second] = halves(edit, read.query, size, keys)?;
            let across = if size == 1 {
                let terms = mul(edit, second, first_key);
                let last = edit.integers(&[3]).ok_or("no axes")?;
                edit.insert(Op::new(OpType::ReduceSum, &[terms, last]).attr("keepdims", 1))
            } else {
                product(edit, second, first_key)?
            };
            let [upper, lower] = halves(edit, read.scores, size, size)?;
            let pads = edit.integers(&[0, 0, 0, 0, 0, 0, 0, size]).ok_or("no padding")?;
            let upper = edit.insert(Op::new(OpType::Pad, &[upper, pads]));
            let lower = joined(edit, [across, lower], 3);
            read.scores = joined(edit, [upper, lower], 2);
            let second = mul(edit, second, total_of_first);
            read.query = joined(edit, [first, second], 2);
        }
        let first_key = mul(edit, first_key, total_of_second);
        key = joined(edit, [first_key, second_key], 2);
        total = mul(edit, total_of_first, total_of_second);
        size *= 2;
    }
    let chunks = |edit: &mut Patch<'_, '_>, id: ValueId, rows: i64, columns: i64| {
        shaped(edit, id, &[-1, heads, rows, columns])
    };
    for read in reads.iter_mut().flatten() {
        read.scores = chunks(edit, read.scores, CHUNK, CHUNK)?;
        read.query = chunks(edit, read.query, CHUNK, keys)?;
    }
    let key = chunks(edit, key, CHUNK, keys)?;
    Ok(Step { reads, key, total: Some(chunks(edit, total, keys, 1)?) })
}

/// Solves the delta rule of a chunk. Returns what its steps would add to a state of zeros, and how it depends on the state
/// before the chunk.
fn correction(
    edit: &mut Patch<'_, '_>,
    retrieved: Read,
    value: ValueId,
    rate: ValueId,
) -> Result<(ValueId, ValueId)> {
    let matrix = mul(edit, retrieved.scores, rate);
    // The inverse of the blocks on the diagonal, which become twice as large each time.
    let mut inverse = None;
    let mut size = 1;
    while size < CHUNK {
        let mask = table(edit, |row, column| {
            row / (2 * size) == column / (2 * size) && row / size > column / size
        })?;
        let below = mul(edit, matrix, mask);
        inverse = Some(match inverse {
            None => {
                let one = table(edit, |row, column| row == column)?;
                edit.insert(Op::new(OpType::Sub, &[one, below]))
            }
            Some(inverse) => {
                let left = edit.insert(Op::new(OpType::MatMul, &[inverse, below]));
                let both = edit.insert(Op::new(OpType::MatMul, &[left, inverse]));
                edit.insert(Op::new(OpType::Sub, &[inverse, both]))
            }
        });
        size *= 2;
    }
    let inverse = inverse.ok_or("a chunk has one step")?;
    let values = mul(edit, value, rate);
    let keys = mul(edit, retrieved.query, rate);
    let solve = |edit: &mut Patch<'_, '_>, id| edit.insert(Op::new(OpType::MatMul, &[inverse, id]));
    Ok((solve(edit, values), solve(edit, keys)))
}
