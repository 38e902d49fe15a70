//! Computes states that each step multiplies by constant matrices, by products with tables of powers.
//!
//! The steps are computed in chunks, all chunks at once. What the chunks add to the state is a shorter series of the
//! same kind, for a power of the matrix, so that the same is repeated until one chunk is left. If the number of steps
//! is symbolic, a loop runs over the chunks of the second level.

use algebra::axis_map::transpose;
use algebra::rewrite::{Result, ensure};
use onnx::{DType, Dim, Op, OpType, Patch, Tensor, Type, ValueId};

use super::body::{Body, dims, filled, shaped, sliced};
use super::components::{Blocks, Matrices, Matrix, powers_of};
use super::powers::{Base, Powers};
use super::series::normal;
use crate::{Carry, Counted};

/// The numbers of steps of a chunk.
const CHUNKS: [i64; 5] = [2, 4, 8, 16, 32];

/// The maximum number of entries of a table.
pub(super) const MAX_TABLE: i64 = 1 << 17;

/// The number of products that take as long as it takes to start the nodes of a level.
const LEVEL: i64 = 1 << 18;

/// The same if the model computes the tables.
const COMPUTED_LEVEL: i64 = 1 << 21;

/// The number of products that take as long as it takes to gather an entry of a table that the model computes.
const ENTRY: i64 = 1 << 7;

/// If the number of steps is symbolic, the maximum number of steps to which shorter inputs are padded.
const MAX_PADDED: i64 = 256;

/// The number of steps, as a power of two, for which the powers of a matrix are checked if the number is symbolic.
const CHECKED: usize = 20;

/// The states of blocks with the arrays of all steps that their update reads.
pub(super) struct Levels<'s> {
    pub scan: &'s Counted,
    /// The state whose lines the loop has.
    pub carry: Carry,
    pub blocks: &'s Blocks,
    /// `[blocks, steps, size]`. `None` if the steps only multiply.
    pub added: Option<ValueId>,
    /// `[blocks, 1, size]`
    pub initial: ValueId,
    pub base: &'s Base,
    pub plan: Option<&'s Plan>,
}

/// How the states of a known number of steps are computed.
pub(super) struct Plan {
    /// The powers of each level, from the first one on.
    levels: Vec<Powers>,
    chunk: i64,
}

impl Plan {
    /// Chooses the levels, and computes their powers. `is_added` if a step adds something to the states. Returns `None`
    /// if there are no levels.
    pub(super) fn of(
        edit: &mut Patch<'_, '_>,
        steps: &Dim,
        blocks: &Blocks,
        base: &Base,
        is_added: bool,
        guards: &mut Vec<ValueId>,
    ) -> Result<Option<Plan>> {
        let Some(steps) = steps.known().filter(|_| is_added) else {
            let is_known = matches!(base, Base::Known(_));
            ensure(is_known, "the number of steps is not known, or a step adds nothing")?;
            return Ok(None);
        };
        let chunk = chunk_of(steps, blocks)?;
        let (mut length, mut stride, mut levels) = (steps, 1, Vec::new());
        let mut next = None;
        loop {
            let last = chunk.min(length);
            let base = next.as_ref().unwrap_or(base);
            let (powers, top) = base.powers(edit, last, stride * last, guards)?;
            levels.push(powers);
            if length <= chunk {
                return Ok(Some(Plan { levels, chunk }));
            }
            next = Some(top);
            length = rounded_up((length + last - 1) / last, chunk);
            stride *= last;
        }
    }
}

/// Returns the number of chunks, padded to a multiple of the chunks of the next level.
fn rounded_up(count: i64, chunk: i64) -> i64 {
    let next = chunk.min(count);
    (count + next - 1) / next * next
}

/// Returns the number of steps of a chunk with which the levels are fastest.
fn chunk_of(steps: i64, blocks: &Blocks) -> Result<i64> {
    let [count, size] = [blocks.count as i64, blocks.size as i64];
    let [level, entry] = match blocks.matrices {
        Matrices::Known(_) => [LEVEL, 0],
        Matrices::Computed { .. } => [COMPUTED_LEVEL, ENTRY * blocks.tables() as i64],
    };
    let cost = |chunk: i64| {
        let (mut length, mut cost) = (steps, 0);
        while length > chunk {
            length = (length + chunk - 1) / chunk;
            cost += level + count * length * chunk * (chunk + 1) * size * size;
            cost += entry * (chunk * size).pow(2);
        }
        cost
    };
    let fits = |chunk: &i64| 2 * chunk <= steps && fits(blocks, *chunk);
    let chunk = CHUNKS.into_iter().filter(fits).min_by_key(|&chunk| cost(chunk));
    chunk.ok_or_else(|| "the powers of the matrix would be large constants".into())
}

fn fits(blocks: &Blocks, chunk: i64) -> bool {
    (chunk * blocks.size as i64).pow(2) * (blocks.tables() as i64) <= MAX_TABLE
}

impl Levels<'_> {
    /// Returns the states after all steps, as `[blocks, steps, size]`.
    pub(super) fn states(&self, edit: &mut Patch<'_, '_>) -> Result<ValueId> {
        match (self.added, self.plan, self.scan.iterations.known()) {
            (None, _, Some(steps)) => self.by_powers(edit, steps),
            (Some(added), Some(_), Some(steps)) => self.level(edit, added, [steps, 0]),
            (Some(added), _, None) => self.of_symbolic(edit, added),
            _ => Err("the number of steps is symbolic".into()),
        }
    }

    fn sizes(&self) -> [i64; 2] {
        [self.blocks.count as i64, self.blocks.size as i64]
    }

    /// Returns the states of a series that starts with zeros, or with the initial state if it is on the first level.
    fn level(
        &self,
        edit: &mut Patch<'_, '_>,
        added: ValueId,
        [length, level]: [i64; 2],
    ) -> Result<ValueId> {
        let [_, size] = self.sizes();
        let plan = self.plan.ok_or("no levels")?;
        let powers = plan.levels.get(level as usize).ok_or("no level")?;
        let is_last = length <= plan.chunk;
        let chunk = plan.chunk.min(length);
        let count = (length + chunk - 1) / chunk;
        let padded = count * chunk;
        // Later levels are padded where they begin.
        let whole = if level == 0 && padded > length {
            self.padded(edit, added, padded - length)?
        } else {
            added
        };
        let rows = self.reshaped(edit, whole, [count, chunk * size])?;
        let local = self.local(edit, rows, powers, chunk)?;
        if is_last {
            return self.reshaped(edit, local, [length, size]);
        }
        let next_length = rounded_up(count, chunk);
        let ends = self.ends(edit, local, chunk)?;
        let initial = (level == 0).then_some(self.initial);
        let shifted = self.shifted(edit, ends, initial, next_length - count)?;
        let starts = self.level(edit, shifted, [next_length, level + 1])?;
        let starts = self.cut(edit, starts, next_length, count)?;
        let states = self.continued(edit, local, starts, powers, chunk)?;
        let states = self.reshaped(edit, states, [padded, size])?;
        self.cut(edit, states, padded, length)
    }

    /// Computes states that steps only multiply.
    fn by_powers(&self, edit: &mut Patch<'_, '_>, steps: i64) -> Result<ValueId> {
        let [_, size] = self.sizes();
        let matrices = self.known()?;
        let chunk = (steps as f64).sqrt().ceil() as i64;
        let count = (steps + chunk - 1) / chunk;
        let entries = size * size * (chunk + count) * matrices.len() as i64;
        ensure(entries <= MAX_TABLE, "the powers of the matrix would be large constants")?;
        let (powers, next) = powers_of(matrices, chunk as usize, chunk as usize)?;
        let (starts, _) = powers_of(&next, count as usize, steps as usize)?;
        let [powers, starts] = [powers, starts].map(Powers::Known);
        let starts = self.table(edit, [1, count], |_, to| Some(to), &starts)?;
        let starts = edit.insert(Op::new(OpType::MatMul, &[self.initial, starts]));
        let starts = self.reshaped(edit, starts, [count, size])?;
        let powers = self.table(edit, [1, chunk], |_, to| Some(to + 1), &powers)?;
        let states = edit.insert(Op::new(OpType::MatMul, &[starts, powers]));
        let states = self.reshaped(edit, states, [count * chunk, size])?;
        self.cut(edit, states, count * chunk, steps)
    }

    /// Computes two levels, and a loop over the chunks of the second one.
    fn of_symbolic(&self, edit: &mut Patch<'_, '_>, added: ValueId) -> Result<ValueId> {
        let [_, size] = self.sizes();
        let fits = |chunk: &&i64| chunk.pow(2) <= MAX_PADDED && fits(self.blocks, **chunk);
        let chunk = CHUNKS.iter().rev().find(fits);
        let &chunk = chunk.ok_or("the powers of the matrix would be large constants")?;
        let (powers, next) = powers_of(self.known()?, chunk as usize, chunk as usize)?;
        let (outer, top) = powers_of(&next, chunk as usize, chunk.pow(2) as usize)?;
        let [powers, outer] = [powers, outer].map(Powers::Known);
        let mut square = top.clone();
        for exponent in 2 * chunk.ilog2() as usize..CHECKED {
            square = powers_of(&square, 2, 1 << exponent)?.1;
        }
        let (whole, length) = self.padded_to(edit, added, chunk * chunk)?;
        let rows = self.reshaped(edit, whole, [-1, chunk * size])?;
        let local = self.local(edit, rows, &powers, chunk)?;
        let ends = self.ends(edit, local, chunk)?;
        let rows = self.reshaped(edit, ends, [-1, chunk * size])?;
        // The sums that the chunks of a chunk add to the state at the start of each.
        let inner = self.local(edit, rows, &outer, chunk)?;
        let ends = self.ends(edit, inner, chunk)?;
        let [firsts, _] = self.by_loop(edit, ends, &top)?;
        let zeros = self.zeros_like(edit, firsts)?;
        let axis = self.axis(1);
        let keep = (chunk - 1) * size;
        let (rest, parts) = match self.scan.is_reverse {
            false => (sliced(edit, inner, axis, 0, keep)?, [true, false]),
            true => (sliced(edit, inner, axis, size, i64::MAX)?, [false, true]),
        };
        let shifted = parts.map(|is_zero| if is_zero { zeros } else { rest });
        let shifted = edit.insert(Op::new(OpType::Concat, &shifted).attr("axis", axis));
        let place = |_, to| Some(to);
        let table = self.table(edit, [1, chunk], place, &outer)?;
        let decayed = edit.insert(Op::new(OpType::MatMul, &[firsts, table]));
        let starts = edit.insert(Op::new(OpType::Add, &[shifted, decayed]));
        let starts = self.reshaped(edit, starts, [-1, size])?;
        let states = self.continued(edit, local, starts, &powers, chunk)?;
        let states = self.reshaped(edit, states, [-1, size])?;
        self.cut_to(edit, states, length)
    }

    /// Returns the state before each chunk and the state after the last one, by a loop.
    pub(super) fn by_loop(
        &self,
        edit: &mut Patch<'_, '_>,
        ends: ValueId,
        top: &[Matrix],
    ) -> Result<[ValueId; 2]> {
        let [count, size] = self.sizes();
        let table = self.table(
            edit,
            [1, 1],
            |_, _| Some(0),
            &Powers::Known(top.iter().map(|one| vec![one.clone()]).collect()),
        )?;
        // The loop runs over the leading axis.
        let (arrays, shape) = if count == 1 {
            (shaped(edit, ends, &[-1, 1, size])?, vec![1, size])
        } else {
            let moved = edit.insert(transpose(ends, &[1, 0, 2]));
            (shaped(edit, moved, &[-1, count, 1, size])?, vec![count, 1, size])
        };
        let mut body = Body::new(self.scan, self.carry)?;
        let whole = dims(&shape);
        let state = body.input(edit, &whole);
        let added = body.input(edit, &whole);
        let kept = body.node(edit, OpType::MatMul, &[state, table], &whole);
        let next = body.node(edit, OpType::Add, &[kept, added], &whole);
        let start = body.node(edit, OpType::Identity, &[state], &whole);
        let made = body.insert(edit, &[(self.initial, next)], &[arrays], &[start])?;
        if count == 1 {
            return Ok([shaped(edit, made[1], &[-1, size])?, made[0]]);
        }
        let whole = shaped(edit, made[1], &[-1, count, size])?;
        Ok([edit.insert(transpose(whole, &[1, 0, 2])), made[0]])
    }

    /// Returns the states of each chunk if it starts with zeros.
    fn local(
        &self,
        edit: &mut Patch<'_, '_>,
        rows: ValueId,
        powers: &Powers,
        chunk: i64,
    ) -> Result<ValueId> {
        let table = self.table(edit, [chunk, chunk], |from, to| to.checked_sub(from), powers)?;
        Ok(edit.insert(Op::new(OpType::MatMul, &[rows, table])))
    }

    /// Returns the states of each chunk from the state before it.
    fn continued(
        &self,
        edit: &mut Patch<'_, '_>,
        local: ValueId,
        starts: ValueId,
        powers: &Powers,
        chunk: i64,
    ) -> Result<ValueId> {
        let table = self.table(edit, [1, chunk], |_, to| Some(to + 1), powers)?;
        let decayed = edit.insert(Op::new(OpType::MatMul, &[starts, table]));
        Ok(edit.insert(Op::new(OpType::Add, &[local, decayed])))
    }

    /// Returns a table of powers that multiplies rows from the right. `exponent` returns the power that leads from one
    /// step to another. If the loop runs backwards, so do the steps of the table.
    fn table(
        &self,
        edit: &mut Patch<'_, '_>,
        [from, to]: [i64; 2],
        exponent: impl Fn(usize, usize) -> Option<usize>,
        powers: &Powers,
    ) -> Result<ValueId> {
        let powers = match powers {
            Powers::Known(powers) => powers,
            Powers::Computed(powers) => return self.gathered(edit, [from, to], exponent, *powers),
        };
        let size = self.blocks.size;
        let [from, to] = [from, to].map(|count| count as usize);
        let flip = |place, count| if self.scan.is_reverse { count - 1 - place } else { place };
        let (rows, columns) = (from * size, to * size);
        let mut entries = vec![0.0; powers.len() * rows * columns];
        for (block, powers) in powers.iter().enumerate() {
            for (row, column) in (0..from).flat_map(|row| (0..to).map(move |column| (row, column)))
            {
                let Some(power) = exponent(flip(row, from), flip(column, to)) else { continue };
                let start = block * rows * columns + row * size * columns + column * size;
                for a in 0..size {
                    for b in 0..size {
                        entries[start + a * columns + b] = normal(powers[power].at(b, a));
                    }
                }
            }
        }
        let mut shape = vec![rows as i64, columns as i64];
        if powers.len() > 1 {
            shape.insert(0, powers.len() as i64);
        }
        let tensor = Tensor::of_floats(DType::F32, shape, &entries).ok_or("no table")?;
        Ok(edit.constant(tensor, &[]))
    }

    /// Returns a table of powers that the model computes.
    fn gathered(
        &self,
        edit: &mut Patch<'_, '_>,
        [from, to]: [i64; 2],
        exponent: impl Fn(usize, usize) -> Option<usize>,
        powers: ValueId,
    ) -> Result<ValueId> {
        let flip = |place, count| if self.scan.is_reverse { count - 1 - place } else { place };
        let [_, size] = self.sizes();
        let tables = self.blocks.tables() as i64;
        let mut places = Vec::new();
        for table in 0..tables {
            for row in 0..from * size {
                for column in 0..to * size {
                    let [a, b] = [flip(row / size, from), flip(column / size, to)];
                    // The first entry contains zeros.
                    let power = exponent(a as usize, b as usize).map_or(0, |one| one as i64 + 1);
                    let matrix = power * tables + table;
                    places.push((matrix * size + row % size) * size + column % size);
                }
            }
        }
        let mut sizes = vec![from * size, to * size];
        if tables > 1 {
            sizes.insert(0, tables);
        }
        let places = Tensor::of_ints(DType::I32, sizes, &places).ok_or("no table")?;
        let places = edit.constant(places, &[]);
        let flat = shaped(edit, powers, &[-1])?;
        Ok(edit.insert(Op::new(OpType::Gather, &[flat, places]).attr("axis", 0)))
    }

    /// Returns the matrices, if they are constants.
    fn known(&self) -> Result<&[Matrix]> {
        match self.base {
            Base::Known(all) => Ok(all),
            Base::Computed(_) => Err("the matrix is not constant".into()),
        }
    }

    /// Returns an axis after the one of the blocks.
    fn axis(&self, axis: i64) -> i64 {
        if self.blocks.count == 1 { axis } else { axis + 1 }
    }

    /// Reshapes an array, with an axis for the blocks if there are several.
    fn reshaped(&self, edit: &mut Patch<'_, '_>, id: ValueId, sizes: [i64; 2]) -> Result<ValueId> {
        match self.blocks.count {
            1 => shaped(edit, id, &sizes),
            count => shaped(edit, id, &[count as i64, sizes[0], sizes[1]]),
        }
    }

    /// Returns the last state of each chunk.
    fn ends(&self, edit: &mut Patch<'_, '_>, local: ValueId, chunk: i64) -> Result<ValueId> {
        let [_, size] = self.sizes();
        let start = if self.scan.is_reverse { 0 } else { (chunk - 1) * size };
        sliced(edit, local, self.axis(1), start, start + size)
    }

    /// Returns what is added to the state at the start of each chunk: the initial state before the first one, and the
    /// ends of the others. Adds zeros at the end.
    fn shifted(
        &self,
        edit: &mut Patch<'_, '_>,
        ends: ValueId,
        initial: Option<ValueId>,
        padding: i64,
    ) -> Result<ValueId> {
        let axis = self.axis(0);
        let (start, end) = if self.scan.is_reverse { (1, i64::MAX) } else { (0, -1) };
        let rest = sliced(edit, ends, axis, start, end)?;
        let first = match initial {
            Some(initial) => initial,
            None => self.zeros(edit, 1)?,
        };
        let mut parts = vec![first, rest];
        if padding > 0 {
            parts.push(self.zeros(edit, padding)?);
        }
        if self.scan.is_reverse {
            parts.reverse();
        }
        Ok(edit.insert(Op::new(OpType::Concat, &parts).attr("axis", axis)))
    }

    fn zeros(&self, edit: &mut Patch<'_, '_>, rows: i64) -> Result<ValueId> {
        let [count, size] = self.sizes();
        if count == 1 {
            filled(edit, &[rows, size], 0.0)
        } else {
            filled(edit, &[count, rows, size], 0.0)
        }
    }

    /// Returns zeros of the shape of an array whose number of rows is symbolic.
    fn zeros_like(&self, edit: &mut Patch<'_, '_>, id: ValueId) -> Result<ValueId> {
        let shape = edit.insert(Op::new(OpType::Shape, &[id]));
        let zero = self.zeros(edit, 1)?;
        Ok(edit.insert(Op::new(OpType::Expand, &[zero, shape])))
    }

    /// Adds zeros after the last step.
    fn padded(&self, edit: &mut Patch<'_, '_>, id: ValueId, rows: i64) -> Result<ValueId> {
        let zeros = self.zeros(edit, rows)?;
        let mut parts = [id, zeros];
        if self.scan.is_reverse {
            parts.reverse();
        }
        Ok(edit.insert(Op::new(OpType::Concat, &parts).attr("axis", self.axis(0))))
    }

    /// Drops the rows after the last step.
    fn cut(&self, edit: &mut Patch<'_, '_>, id: ValueId, from: i64, to: i64) -> Result<ValueId> {
        match (from == to, self.scan.is_reverse) {
            (true, _) => Ok(id),
            (_, false) => sliced(edit, id, self.axis(0), 0, to),
            (_, true) => sliced(edit, id, self.axis(0), from - to, i64::MAX),
        }
    }

    /// Adds zeros after the last step, so that the number of steps is a multiple. Returns the start and the end of the
    /// steps, too.
    fn padded_to(
        &self,
        edit: &mut Patch<'_, '_>,
        id: ValueId,
        multiple: i64,
    ) -> Result<(ValueId, [ValueId; 2])> {
        let axis = self.axis(0);
        let shape = Op::new(OpType::Shape, &[id]).attr("start", axis).attr("end", axis + 1);
        let length = edit.insert(shape);
        let sizes = [0, multiple - 1, multiple, i64::MAX].map(|size| edit.integers(&[size]));
        let [Some(zero), Some(rest), Some(multiple), Some(most)] = sizes else {
            return Err("no sizes".into());
        };
        let longer = edit.insert(Op::new(OpType::Add, &[length, rest]));
        let count = edit.insert(Op::new(OpType::Div, &[longer, multiple]));
        let whole = edit.insert(Op::new(OpType::Mul, &[count, multiple]));
        let padding = edit.insert(Op::new(OpType::Sub, &[whole, length]));
        let mut pads = vec![zero; if axis == 0 { 4 } else { 6 }];
        let half = pads.len() / 2;
        let ends = if self.scan.is_reverse {
            pads[axis as usize] = padding;
            [padding, most]
        } else {
            pads[half + axis as usize] = padding;
            [zero, length]
        };
        let pads = edit.insert(Op::new(OpType::Concat, &pads).attr("axis", 0));
        Ok((edit.insert(Op::new(OpType::Pad, &[id, pads])), ends))
    }

    fn cut_to(
        &self,
        edit: &mut Patch<'_, '_>,
        id: ValueId,
        [start, end]: [ValueId; 2],
    ) -> Result<ValueId> {
        let [count, size] = self.sizes();
        let axis = edit.integers(&[self.axis(0)]).ok_or("no axes")?;
        let op = Op::new(OpType::Slice, &[id, start, end, axis]);
        let mut shape = vec![self.scan.iterations.clone(), Dim::Known(size)];
        if count > 1 {
            shape.insert(0, Dim::Known(count));
        }
        let result = edit.body_input(Type::new(DType::F32, shape));
        Ok(edit.insert_instead(op, &[Some(result)])[0])
    }
}
