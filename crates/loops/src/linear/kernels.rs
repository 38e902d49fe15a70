//! Computes what a loop reads from states that a constant matrix mixes, without the states of all steps.
//!
//! If few numbers enter the states in a step and few are read, as in a state space, the reads of a chunk of steps are
//! the product of its inputs with a table, plus what the state before the chunk contributes. A loop over the chunks has
//! these states. The tables follow from the matrix that maps states and inputs to states and reads. Its part between
//! states is constant; the model may compute the other parts.

use algebra::axis_map::transpose;
use algebra::rewrite::{Result, require};
use onnx::{DType, Dim, Op, OpType, Patch, Tensor, ValueId, known_shape};

use super::affine::{System, elements};
use super::body::{filled, number, shaped, sliced};
use super::coefficients::Coefficient;
use super::components::{Blocks, Matrices, Matrix, powers_of};
use super::levels::{Levels, MAX_TABLE};
use super::mixed::{from_blocks, joined, to_blocks};
use super::powers::Base;
use super::series::normal;
use super::split::Split;
use crate::{Carry, Counted};

/// The smallest number of states of a block, and of states for each input and for each read.
const MIN_STATES: usize = 8;
const MIN_RATIO: usize = 4;

/// The largest number of all states.
const MAX_STATES: usize = 1 << 13;

/// The numbers of steps of a chunk.
const MIN_CHUNK: usize = 8;
const MAX_CHUNK: usize = 64;

/// The largest sum of factors, and the inverse of the smallest factor. Their products neither overflow nor underflow.
pub(super) const MAX_FACTOR: f64 = (1u64 << 20) as f64;

/// States whose reads are computed by products with tables.
pub(super) struct Kernels {
    system: System,
    /// The states, inputs and reads of each block.
    blocks: Blocks,
    states: Blocks,
    inputs: Blocks,
    reads: Blocks,
    /// The powers of the matrices of the states, and those over a chunk.
    powers: Vec<Vec<Matrix>>,
    top: Vec<Matrix>,
    chunk: usize,
    steps: i64,
}

/// The arrays that the reads are computed from.
pub(super) struct Operands {
    /// The inputs of all steps, `[steps, inputs]`.
    inputs: ValueId,
    /// The tables that map the inputs of a chunk to its reads and to the state after it, and the state before it to its
    /// reads.
    tables: [ValueId; 3],
    /// The values from which the model computes the tables.
    pub factors: Vec<ValueId>,
}

impl Kernels {
    /// Reads the states of a loop, and what its results read from them. `None` if they are computed otherwise.
    pub(super) fn of(edit: &mut Patch<'_, '_>, scan: &Counted) -> Option<Kernels> {
        let steps = scan.iterations.known().filter(|_| !edit.target().has_device())?;
        let is_float = |carry: &Carry| edit.dtype(carry.before) == Some(DType::F32);
        require(scan.carries.iter().all(is_float) && !scan.arrays.is_empty())?;
        let states: Vec<ValueId> = scan.carries.iter().map(|carry| carry.before).collect();
        let size = sizes(edit, &states).ok()?.iter().sum::<i64>() as usize;
        require((MIN_STATES..=MAX_STATES).contains(&size))?;
        let system = System::with_reads(edit, scan, &scan.carries, size / MIN_RATIO)?;
        let columns = size + sizes(edit, &system.inputs).ok()?.iter().sum::<i64>() as usize;
        for (row, entries) in system.rows.iter().enumerate() {
            let fits = |&(column, one): &(u32, Coefficient)| {
                let is_decay = row < size && (column as usize) < size;
                is_decay || (1.0 / MAX_FACTOR..MAX_FACTOR).contains(&one.number.abs())
            };
            require(entries.iter().all(fits))?;
        }
        // States without a read are not computed.
        let mut all = Blocks::of(&system.rows).ok()?;
        all.retain(|blocks| blocks.order.iter().any(|&place| place >= columns));
        let [blocks] = <[Blocks; 1]>::try_from(all).ok()?;
        let ranges = [0..size, size..columns, columns..system.rows.len()];
        let [states, inputs, reads] = ranges.map(|range| {
            let has = |block: &[usize]| block.iter().filter(|one| range.contains(one)).count();
            let size = has(&blocks.order[..blocks.size]);
            require(size > 0 && blocks.order.chunks(blocks.size).all(|one| has(one) == size))?;
            let order = blocks.order.iter().filter(|state| range.contains(state));
            let order = order.map(|state| state - range.start).collect();
            Some(Blocks { count: blocks.count, size, order, matrices: Matrices::Known(Vec::new()) })
        });
        let (states, inputs, reads) = (states?, inputs?, reads?);
        let [n, m, p] = [&states, &inputs, &reads].map(|part| part.size);
        require(n >= MIN_STATES && n >= MIN_RATIO * m.max(p))?;
        let tables = blocks.tables();
        let fits = |chunk: &usize| {
            let entries = match blocks.matrices {
                Matrices::Known(_) => (chunk * m * p).max(n * m.max(p)),
                Matrices::Computed { .. } => (chunk * m * p).max(n * n),
            };
            (entries * chunk * tables) as i64 <= MAX_TABLE
        };
        let chunk = chunk_near(steps, fits)?;
        let is_read = |carry: &Carry| edit.reads(carry.result) > 0 || edit.is_result(carry.result);
        // The state after the last step is the one after the last chunk.
        let is_last = steps % chunk as i64 == 0 && states.order.len() == size;
        require(is_last || !system.members.iter().any(is_read))?;
        let matrix = |members: &[usize]| {
            let mut matrix = Matrix { size: n, entries: vec![0.0; n * n] };
            for (row, &state) in members.iter().enumerate() {
                for &(column, one) in &system.rows[state] {
                    if let Ok(column) = members.binary_search(&(column as usize)) {
                        matrix.entries[row * n + column] = one.constant()?;
                    }
                }
            }
            Some(matrix)
        };
        let matrices = states.order.chunks(n).take(tables).map(matrix);
        let matrices: Vec<Matrix> = matrices.collect::<Option<_>>()?;
        let (powers, top) = powers_of(&matrices, chunk, chunk).ok()?;
        Some(Kernels { system, blocks, states, inputs, reads, powers, top, chunk, steps })
    }

    pub(super) fn members(&self) -> &[Carry] {
        &self.system.members
    }

    /// Returns the values that determine the matrix of a step.
    pub(super) fn needs(&self) -> impl Iterator<Item = ValueId> {
        self.system.factors.iter().chain(&self.system.inputs).copied()
    }

    /// Returns the numbers that must be finite.
    pub(super) fn numbers(&self, operands: &Operands) -> Vec<ValueId> {
        let initial = self.system.members.iter().map(|carry| carry.initial);
        initial.chain([operands.inputs]).collect()
    }

    /// Returns the arrays of all steps and the tables. Adds conditions that no factor is so small that its product with
    /// others vanishes.
    pub(super) fn operands(
        &self,
        edit: &mut Patch<'_, '_>,
        scan: &Counted,
        split: &mut Split<'_>,
        guards: &mut Vec<ValueId>,
    ) -> Result<Operands> {
        let (system, blocks) = (&self.system, &self.blocks);
        let mut factors = Vec::new();
        let tables = match Base::of(edit, split, scan, system, blocks, &mut factors)? {
            Base::Known(known) => self.known_tables(edit, scan, &known)?,
            Base::Computed(matrix) => self.computed_tables(edit, scan, matrix)?,
        };
        for &factor in &factors {
            let [zero, one, least] = [0.0, 1.0, 1.0 / MAX_FACTOR].map(|limit| number(edit, limit));
            let is_zero = edit.insert(Op::new(OpType::Equal, &[factor, zero?]));
            let size = edit.insert(Op::new(OpType::Abs, &[factor]));
            let size = edit.insert(Op::new(OpType::Where, &[is_zero, one?, size]));
            let least_size = edit.insert(Op::new(OpType::ReduceMin, &[size]).attr("keepdims", 0));
            guards.push(edit.insert(Op::new(OpType::GreaterOrEqual, &[least_size, least?])));
        }
        let mut inputs = Vec::new();
        for &input in &system.inputs {
            let shape = edit.shape(input).and_then(known_shape).ok_or("a size is not known")?;
            inputs.push(split.rows(edit, input, &shape)?);
        }
        Ok(Operands { inputs: joined(edit, &inputs), tables, factors })
    }

    /// Returns what is read in all steps, and the states after the last one.
    pub(super) fn results(
        &self,
        edit: &mut Patch<'_, '_>,
        scan: &Counted,
        operands: &Operands,
    ) -> Result<[Vec<(ValueId, ValueId)>; 2]> {
        let [n, m, p] = [&self.states, &self.inputs, &self.reads].map(|part| part.size as i64);
        let chunk = self.chunk as i64;
        let chunks = (self.steps + chunk - 1) / chunk;
        let padding = chunks * chunk - self.steps;
        let mut inputs = operands.inputs;
        if padding > 0 {
            let ends = if scan.is_reverse { [padding, 0, 0, 0] } else { [0, 0, padding, 0] };
            let pads = edit.integers(&ends).ok_or("no padding")?;
            inputs = edit.insert(Op::new(OpType::Pad, &[inputs, pads]));
        }
        let states: Vec<ValueId> = self.members().iter().map(|carry| carry.before).collect();
        let [inputs_of, states_of, reads_of] =
            [&self.system.inputs, &states, &self.system.reads].map(|values| sizes(edit, values));
        let (inputs_of, states_of, reads_of) = (inputs_of?, states_of?, reads_of?);
        let is_whole =
            |part: &Blocks, sizes: &[i64]| part.order.len() as i64 == sizes.iter().sum::<i64>();
        let of_inputs = is_whole(&self.inputs, &inputs_of);
        let of_states = is_whole(&self.states, &states_of);
        let padded = Dim::Known(chunks * chunk);
        let rows = to_blocks(edit, inputs, &self.inputs, of_inputs, &padded)?;
        let rows = shaped(edit, rows, &self.with_blocks(&[chunks, chunk * m]))?;
        let [kernel, ends, reads] = operands.tables;

        let product = |edit: &mut Patch<'_, '_>, a: ValueId, b: ValueId| {
            edit.insert(Op::new(OpType::MatMul, &[a, b]))
        };
        let ends = product(edit, rows, ends);
        let mut initial = Vec::new();
        for (carry, &size) in self.members().iter().zip(&states_of) {
            initial.push(shaped(edit, carry.initial, &[1, size])?);
        }
        let initial = joined(edit, &initial);
        let initial = to_blocks(edit, initial, &self.states, of_states, &Dim::Known(1))?;
        let carry = self.system.members[0];
        let base = &Base::Known(Vec::new());
        let states = &self.states;
        let levels = Levels { scan, carry, blocks: states, added: None, initial, base, plan: None };
        let [starts, last] = levels.by_loop(edit, ends, &self.top)?;
        let starts = shaped(edit, starts, &self.with_blocks(&[chunks, n]))?;
        let local = product(edit, rows, kernel);
        let before = product(edit, starts, reads);
        let all = edit.insert(Op::new(OpType::Add, &[local, before]));
        let all = shaped(edit, all, &self.with_blocks(&[chunks * chunk, p]))?;
        let all = from_blocks(edit, all, &self.reads, true)?;
        let all = match (padding, scan.is_reverse) {
            (0, _) => all,
            (_, false) => sliced(edit, all, 0, 0, self.steps)?,
            (_, true) => sliced(edit, all, 0, padding, i64::MAX)?,
        };
        let mut found = Vec::new();
        for (&read, part) in self.system.reads.iter().zip(parts(edit, all, &reads_of)?) {
            let shape = edit.shape(read).and_then(known_shape).ok_or("a size is not known")?;
            found.push((read, shaped(edit, part, &[&[self.steps], &shape[..]].concat())?));
        }
        let mut states = Vec::new();
        if of_states {
            let last = shaped(edit, last, &self.with_blocks(&[1, n]))?;
            let last = from_blocks(edit, last, &self.states, true)?;
            for (carry, part) in self.members().iter().zip(parts(edit, last, &states_of)?) {
                let shape = edit.shape(carry.before).and_then(known_shape);
                let shape = shape.ok_or("a size is not known")?;
                states.push((carry.result, shaped(edit, part, &shape)?));
            }
        }
        Ok([found, states])
    }

    /// Returns the tables of constant matrices.
    fn known_tables(
        &self,
        edit: &mut Patch<'_, '_>,
        scan: &Counted,
        known: &[Matrix],
    ) -> Result<[ValueId; 3]> {
        let [n, m, p] = [&self.states, &self.inputs, &self.reads].map(|part| part.size);
        let chunk = self.chunk;
        let [mut kernel, mut ends, mut reads] = [const { Vec::new() }; 3];
        for (matrix, powers) in known.iter().zip(&self.powers) {
            // The contributions of an input to each state some steps later, and of a state to each read.
            let (mut added, mut read) = (Vec::new(), Vec::new());
            for power in &powers[..chunk] {
                let to_state = |to: usize, input: usize| -> f64 {
                    (0..n).map(|from| power.at(to, from) * matrix.at(from, n + input)).sum()
                };
                let to_read = |from: usize, read: usize| -> f64 {
                    (0..n).map(|to| matrix.at(n + m + read, to) * power.at(to, from)).sum()
                };
                added.push((0..m * n).map(|at| to_state(at % n, at / n)).collect::<Vec<_>>());
                read.push((0..n * p).map(|at| to_read(at / p, at % p)).collect::<Vec<_>>());
            }
            let between = |steps: usize, input: usize, read: usize| -> f64 {
                let row = n + m + read;
                let Some(power) = steps.checked_sub(1) else { return matrix.at(row, n + input) };
                (0..n).map(|state| matrix.at(row, state) * added[power][input * n + state]).sum()
            };
            let over: Vec<Vec<f64>> = (0..chunk)
                .map(|steps| (0..m * p).map(|at| between(steps, at / p, at % p)).collect())
                .collect();
            let flip = |place| if scan.is_reverse { chunk - 1 - place } else { place };
            for from in (0..chunk).map(flip) {
                for input in 0..m {
                    for to in (0..chunk).map(flip) {
                        let steps = to.checked_sub(from);
                        let entry = |read| steps.map_or(0.0, |steps| over[steps][input * p + read]);
                        kernel.extend((0..p).map(entry));
                    }
                    ends.extend(&added[chunk - 1 - from][input * n..(input + 1) * n]);
                }
            }
            for state in 0..n {
                for to in (0..chunk).map(flip) {
                    reads.extend(&read[to][state * p..(state + 1) * p]);
                }
            }
        }
        let [rows, columns] = [chunk * m, chunk * p];
        Ok([
            self.constant(edit, &[rows, columns], &kernel)?,
            self.constant(edit, &[rows, n], &ends)?,
            self.constant(edit, &[n, columns], &reads)?,
        ])
    }

    /// Computes the tables from the matrix of a step, which multiplies rows from the right: `[size, size]` or
    /// `[blocks, size, size]` in double precision.
    fn computed_tables(
        &self,
        edit: &mut Patch<'_, '_>,
        scan: &Counted,
        matrix: ValueId,
    ) -> Result<[ValueId; 3]> {
        let to = i64::from(DType::F32.code());
        let matrix = edit.insert(Op::new(OpType::Cast, &[matrix]).attr("to", to));
        let size = self.states.size;
        let powers = self.powers.iter().flat_map(|powers| &powers[..self.chunk]);
        let entry = |power: &Matrix, place: usize| power.at(place % size, place / size);
        let entries = powers.flat_map(|power| (0..size * size).map(move |at| entry(power, at)));
        let powers =
            self.constant(edit, &[self.chunk, size, size], &entries.collect::<Vec<_>>())?;
        let [n, m, p] = [&self.states, &self.inputs, &self.reads].map(|part| part.size as i64);
        let (chunk, tables) = (self.chunk as i64, self.powers.len());
        let lead = i64::from(tables > 1);
        let part = |edit: &mut Patch<'_, '_>, [from, to]: [[i64; 2]; 2]| {
            let rows = sliced(edit, matrix, lead, from[0], from[1])?;
            sliced(edit, rows, lead + 1, to[0], to[1])
        };
        let (of_states, of_inputs, of_reads) = ([0, n], [n, n + m], [n + m, n + m + p]);
        let entering = part(edit, [of_inputs, of_states])?;
        let direct = part(edit, [of_inputs, of_reads])?;
        let leaving = part(edit, [of_states, of_reads])?;
        // An axis for the steps of a chunk.
        let over_steps =
            |edit: &mut Patch<'_, '_>, id: ValueId| edit.unsqueeze(id, &[lead]).ok_or("no axes");
        let [entering, direct, leaving] =
            [over_steps(edit, entering)?, over_steps(edit, direct)?, over_steps(edit, leaving)?];
        let product = |edit: &mut Patch<'_, '_>, a: ValueId, b: ValueId| {
            edit.insert(Op::new(OpType::MatMul, &[a, b]))
        };
        let with_tables = |sizes: &[i64]| match tables {
            1 => sizes.to_vec(),
            count => [&[count as i64], sizes].concat(),
        };
        let moved = |edit: &mut Patch<'_, '_>, id: ValueId, order: &[usize]| {
            let lead = lead as usize;
            let order: Vec<usize> = (0..lead).chain(order.iter().map(|axis| axis + lead)).collect();
            edit.insert(transpose(id, &order))
        };
        let after = product(edit, entering, powers);
        let read = product(edit, powers, leaving);
        let later = product(edit, entering, read);
        let backwards: Vec<i64> = (0..chunk).rev().collect();
        let backwards = edit.integers(&backwards).ok_or("no indices")?;
        let flipped = |edit: &mut Patch<'_, '_>, id: ValueId| {
            edit.insert(Op::new(OpType::Gather, &[id, backwards]).attr("axis", lead))
        };
        let (ends, reads) = match scan.is_reverse {
            false => (flipped(edit, after), read),
            true => (after, flipped(edit, read)),
        };
        let ends = shaped(edit, ends, &with_tables(&[chunk * m, n]))?;
        let reads = moved(edit, reads, &[1, 0, 2]);
        let reads = shaped(edit, reads, &with_tables(&[n, chunk * p]))?;
        let zeros = filled(edit, &with_tables(&[1, m, p]), 0.0)?;
        let kernel = Op::new(OpType::Concat, &[zeros, direct, later]).attr("axis", lead);
        let kernel = edit.insert(kernel);
        let distance = |place: i64| {
            let (from, to) = (place / chunk, place % chunk);
            let distance = if scan.is_reverse { from - to } else { to - from };
            (distance + 1).max(0)
        };
        let places: Vec<i64> = (0..chunk * chunk).map(distance).collect();
        let places = Tensor::of_ints(DType::I64, vec![chunk, chunk], &places).ok_or("no table")?;
        let places = edit.constant(places, &[]);
        let kernel = edit.insert(Op::new(OpType::Gather, &[kernel, places]).attr("axis", lead));
        let kernel = moved(edit, kernel, &[0, 2, 1, 3]);
        let kernel = shaped(edit, kernel, &with_tables(&[chunk * m, chunk * p]))?;
        Ok([kernel, ends, reads])
    }

    fn with_blocks(&self, sizes: &[i64]) -> Vec<i64> {
        match self.blocks.count {
            1 => sizes.to_vec(),
            count => [&[count as i64], sizes].concat(),
        }
    }

    /// Returns a constant, with a leading axis if there are several tables.
    fn constant(
        &self,
        edit: &mut Patch<'_, '_>,
        sizes: &[usize],
        entries: &[f64],
    ) -> Result<ValueId> {
        let lead = Some(self.powers.len()).filter(|&tables| tables > 1);
        let sizes = lead.iter().chain(sizes).map(|&size| size as i64).collect();
        let entries: Vec<f64> = entries.iter().copied().map(normal).collect();
        let tensor = Tensor::of_floats(DType::F32, sizes, &entries).ok_or("no table")?;
        Ok(edit.constant(tensor, &[]))
    }
}

/// Returns the number of elements of each value.
fn sizes(edit: &Patch<'_, '_>, values: &[ValueId]) -> Result<Vec<i64>> {
    let size = |id: &ValueId| Some(elements(&known_shape(edit.shape(*id)?)?) as i64);
    values.iter().map(size).collect::<Option<_>>().ok_or_else(|| "a size is not known".into())
}

/// Splits an array along its second axis.
fn parts(edit: &mut Patch<'_, '_>, array: ValueId, sizes: &[i64]) -> Result<Vec<ValueId>> {
    if sizes.len() == 1 {
        return Ok(vec![array]);
    }
    let mut start = 0;
    let part = |&size: &i64| {
        start += size;
        sliced(edit, array, 1, start - size, start)
    };
    sizes.iter().map(part).collect()
}

/// Returns the permitted number of steps of a chunk that is nearest to the root of the number of steps. It divides this
/// number if possible.
fn chunk_near(steps: i64, fits: impl Fn(&usize) -> bool) -> Option<usize> {
    let root = ((steps as f64).sqrt() as usize).clamp(MIN_CHUNK, MAX_CHUNK);
    let all = (MIN_CHUNK..=MAX_CHUNK).filter(fits);
    all.min_by_key(|&chunk| {
        let padding = if steps % chunk as i64 == 0 { 0 } else { root / 2 };
        chunk.abs_diff(root) + padding
    })
}
