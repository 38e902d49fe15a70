//! Powers of the matrices of blocks.
//!
//! If the model computes the matrices, it computes the powers in double precision, as those of constants are. A step is
//! read as a function of the states that is linear; the matrix has what it returns for one state that is one.

use algebra::axis_map::transpose;
use algebra::rewrite::Result;
use onnx::{DType, Dim, Op, OpType, Patch, Tensor, Type, ValueId, known_shape};
use rustc_hash::{FxHashMap, FxHashSet};

use super::affine::{System, elements};
use super::body::{shaped, sliced};
use super::coefficients::Row;
use super::components::{Blocks, Matrices, Matrix, max_power, powers_of};
use super::lanes::{self, Factor};
use super::mixed::numbers_of;
use super::split::Split;
use crate::Counted;
use crate::batches::Batches;

/// The powers of the matrices from 0 to a number.
pub(super) enum Powers {
    Known(Vec<Vec<Matrix>>),
    /// Zeros and all powers as `[powers, size, size]`, or as `[powers, blocks, size, size]`. They multiply rows from the
    /// right.
    Computed(ValueId),
}

/// The matrices of blocks.
pub(super) enum Base {
    Known(Vec<Matrix>),
    /// `[size, size]` or `[blocks, size, size]` in double precision.
    Computed(ValueId),
}

impl Base {
    /// Inserts the matrices that the model computes. Adds the values that they are computed from.
    pub(super) fn of(
        edit: &mut Patch<'_, '_>,
        split: &mut Split<'_>,
        scan: &Counted,
        system: &System,
        blocks: &Blocks,
        factors: &mut Vec<ValueId>,
    ) -> Result<Base> {
        Ok(match &blocks.matrices {
            Matrices::Known(all) => Base::Known(all.clone()),
            Matrices::Computed { is_shared } => {
                let cast = FxHashMap::default();
                let dtype = DType::F64;
                let mut probe = Probe { edit, split, scan, system, dtype, cast, factors };
                Base::Computed(probe.matrices(blocks, *is_shared)?)
            }
        })
    }

    /// Returns the powers from 0 to `last`, and the matrices to the power `last`. Adds the condition that they are not
    /// larger than the rounding of `steps` steps of the loop permits.
    pub(super) fn powers(
        &self,
        edit: &mut Patch<'_, '_>,
        last: i64,
        steps: i64,
        guards: &mut Vec<ValueId>,
    ) -> Result<(Powers, Base)> {
        let matrices = match self {
            Base::Known(all) => {
                let (powers, next) = powers_of(all, last as usize, steps as usize)?;
                return Ok((Powers::Known(powers), Base::Known(next)));
            }
            Base::Computed(matrices) => *matrices,
        };
        let power = |edit: &mut Patch<'_, '_>, all: ValueId, place: i64| {
            let place = edit.integer(place).ok_or("no index")?;
            Ok::<_, algebra::rewrite::Declined>(
                edit.insert(Op::new(OpType::Gather, &[all, place]).attr("axis", 0)),
            )
        };
        let mut all = edit.unsqueeze(matrices, &[0]).ok_or("no axes")?;
        let mut count = 1;
        while count < last {
            let more = count.min(last - count);
            let top = if count == 1 { matrices } else { power(edit, all, count - 1)? };
            let part = if more == count { all } else { sliced(edit, all, 0, 0, more)? };
            let product = edit.insert(Op::new(OpType::MatMul, &[part, top]));
            all = edit.insert(Op::new(OpType::Concat, &[all, product]).attr("axis", 0));
            count += more;
        }
        let squares = edit.insert(Op::new(OpType::ReduceSumSquare, &[all]).attr("keepdims", 0));
        let mut shape = edit.shape(matrices).and_then(known_shape).ok_or("a size is not known")?;
        let size = shape[shape.len() - 1];
        let limit = max_power(steps as usize, size as usize).powi(2);
        let limit = Tensor::of_floats(DType::F64, vec![], &[limit]).ok_or("no number")?;
        let limit = edit.constant(limit, &[]);
        guards.push(edit.insert(Op::new(OpType::Less, &[squares, limit])));
        let next = power(edit, all, last - 1)?;
        let rounded = edit.insert(cast(all, DType::F32));
        let count: i64 = shape.iter().product();
        let entry = |place: i64| match place - count {
            place if place >= 0 && place % (size * size) % (size + 1) == 0 => 1.0,
            _ => 0.0,
        };
        let entries: Vec<f64> = (0..2 * count).map(entry).collect();
        shape.insert(0, 2);
        let first = Tensor::of_floats(DType::F32, shape, &entries).ok_or("no table")?;
        let first = edit.constant(first, &[]);
        let whole = edit.insert(Op::new(OpType::Concat, &[first, rounded]).attr("axis", 0));
        Ok((Powers::Computed(whole), Base::Computed(next)))
    }
}

/// Returns the matrices of all steps, `[steps, blocks, size, size]`.
pub(super) fn of_steps(
    edit: &mut Patch<'_, '_>,
    split: &mut Split<'_>,
    scan: &Counted,
    system: &System,
    blocks: &Blocks,
) -> Result<ValueId> {
    let steps = scan.iterations.known().ok_or("the number of steps is not known")?;
    let (size, states) = (blocks.size, system.rows.len());
    let cast = FxHashMap::default();
    let factors = &mut Vec::new();
    let mut probe = Probe { edit, split, scan, system, dtype: DType::F32, cast, factors };
    let mut rows = Vec::new();
    for place in 0..size {
        let mut units = vec![0.0; states];
        let ones = blocks.order.iter().skip(place).step_by(size);
        ones.for_each(|&state| units[state] = 1.0);
        let made = probe.step(1, states, &units)?;
        let mut columns = Vec::new();
        for carry in &system.members {
            let shape = known_shape(probe.edit.shape(carry.before).ok_or("no type")?);
            let shape = shape.ok_or("a size is not known")?;
            columns.push(match made.get(&carry.after) {
                Some(&after) => probe.split.rows(probe.edit, after, &shape)?,
                None => probe.zeros(&[steps, elements(&shape) as i64])?,
            });
        }
        let mut whole = match columns[..] {
            [one] => one,
            _ => probe.edit.insert(Op::new(OpType::Concat, &columns).attr("axis", 1)),
        };
        if blocks.order.len() < states || !blocks.order.is_sorted() {
            let order: Vec<i64> = blocks.order.iter().map(|&state| state as i64).collect();
            let order = probe.edit.integers(&order).ok_or("no indices")?;
            whole = probe.edit.insert(Op::new(OpType::Gather, &[whole, order]).attr("axis", 1));
        }
        let sizes = [steps, blocks.count as i64, 1, size as i64];
        rows.push(shaped(probe.edit, whole, &sizes)?);
    }
    Ok(edit.insert(Op::new(OpType::Concat, &rows).attr("axis", 2)))
}

/// Returns the factors of the numbers of blocks in each next number.
pub(super) fn lanes(
    edit: &mut Patch<'_, '_>,
    split: &mut Split<'_>,
    scan: &Counted,
    system: &System,
    blocks: &Blocks,
) -> Result<lanes::Matrix> {
    let steps = scan.iterations.known().ok_or("the number of steps is not known")?;
    let size = blocks.size;
    let (cast, factors) = (FxHashMap::default(), &mut Vec::new());
    let mut probe = Probe { edit, split, scan, system, dtype: DType::F32, cast, factors };
    let mut columns = Vec::new();
    for from in 0..size {
        let mut units = vec![0.0; system.rows.len()];
        let ones = || blocks.order.iter().skip(from).step_by(size);
        ones().for_each(|&state| units[state] = 1.0);
        let made = probe.step(1, units.len(), &units)?;
        let mut members = Vec::new();
        for carry in &system.members {
            let shape = known_shape(probe.edit.shape(carry.before).ok_or("no type")?);
            let shape = shape.ok_or("a size is not known")?;
            let count = elements(&shape) as i64;
            let after = made.get(&carry.after);
            let same = after.and_then(|after| probe.split.batches.lifted.get(after).copied());
            members.push(match (after, same) {
                (_, Some(same)) => shaped(probe.edit, same, &[1, count])?,
                (Some(&after), None) => probe.split.rows(probe.edit, after, &shape)?,
                (None, None) => probe.zeros(&[1, count])?,
            });
        }
        let numbers = numbers_of(probe.edit, &members, blocks)?;
        let mut column = Vec::new();
        for (to, number) in numbers.into_iter().enumerate() {
            let reads = |row: &Row| row.iter().any(|(state, _)| units[*state as usize] == 1.0);
            let mut rows = blocks.order.iter().skip(to).step_by(size);
            let is_read = rows.any(|&state| reads(&system.rows[state]));
            let is_same = probe.edit.shape(number).is_some_and(|shape| shape[0].is(1));
            column.push(match (is_read, is_same && steps > 1) {
                (false, _) => Factor::Zero,
                (_, true) => Factor::Same(number),
                _ => Factor::Steps(number),
            });
        }
        columns.push(column);
    }
    Ok((0..size).map(|to| columns.iter().map(|column| column[to]).collect()).collect())
}

fn cast(value: ValueId, dtype: DType) -> Op {
    Op::new(OpType::Cast, &[value]).attr("to", i64::from(dtype.code()))
}

/// Computes what a step makes of some states, if it adds nothing.
struct Probe<'p, 'e, 'm, 'l> {
    edit: &'p mut Patch<'e, 'm>,
    split: &'p mut Split<'l>,
    scan: &'p Counted,
    system: &'p System,
    /// Double precision, if all steps are the same.
    dtype: DType,
    /// The factors in double precision.
    cast: FxHashMap<ValueId, ValueId>,
    factors: &'p mut Vec<ValueId>,
}

impl Probe<'_, '_, '_, '_> {
    /// Returns the matrices of blocks, or the one of all.
    fn matrices(&mut self, blocks: &Blocks, is_shared: bool) -> Result<ValueId> {
        let (size, states) = (blocks.size, self.system.rows.len());
        let order = if is_shared { &blocks.order[..size] } else { &blocks.order[..] };
        // In each row, one state of each block is one.
        let mut units = vec![0.0; size * states];
        for (place, &state) in order.iter().enumerate() {
            units[place % size * states + state] = 1.0;
        }
        let made = self.step(size, states, &units)?;
        let mut columns = Vec::new();
        for [before, after] in self.system.places() {
            let value = before.or(after).ok_or("no value")?;
            let count = known_shape(self.edit.shape(value).ok_or("no type")?);
            let count = elements(&count.ok_or("a size is not known")?) as i64;
            columns.push(match after.and_then(|after| made.get(&after)) {
                Some(&after) => shaped(self.edit, after, &[size as i64, count])?,
                None => self.zeros(&[size as i64, count])?,
            });
        }
        let mut whole = match columns[..] {
            [one] => one,
            _ => self.edit.insert(Op::new(OpType::Concat, &columns).attr("axis", 1)),
        };
        if order.len() < states || !order.is_sorted() {
            let order: Vec<i64> = order.iter().map(|&state| state as i64).collect();
            let order = self.edit.integers(&order).ok_or("no indices")?;
            whole = self.edit.insert(Op::new(OpType::Gather, &[whole, order]).attr("axis", 1));
        }
        if is_shared {
            return Ok(whole);
        }
        let [size, count] = [size as i64, blocks.count as i64];
        let whole = shaped(self.edit, whole, &[size, count, size])?;
        Ok(self.edit.insert(transpose(whole, &[1, 0, 2])))
    }

    /// Computes a step for rows of states. Returns the states after the step; if steps differ, as values of the body.
    fn step(
        &mut self,
        rows: usize,
        states: usize,
        units: &[f64],
    ) -> Result<FxHashMap<ValueId, ValueId>> {
        let unknown = "a size is not known";
        let mut batches = Batches::new(Dim::Known(rows as i64), []);
        // The values of the body in double precision.
        let mut wide: FxHashMap<ValueId, ValueId> = FxHashMap::default();
        let mut start = 0;
        let places = self.system.places();
        for before in places.iter().filter_map(|[before, _]| *before) {
            let shape = self.edit.shape(before).and_then(known_shape).ok_or(unknown)?;
            let count = elements(&shape);
            let entries = units.chunks(states).flat_map(|row| &row[start..start + count]);
            let entries: Vec<f64> = entries.copied().collect();
            start += count;
            let own = self.wide(before)?;
            let whole = [&[rows as i64], &shape[..]].concat();
            let shape = if self.is_varying() { shape } else { whole };
            let tensor = Tensor::of_floats(self.dtype, shape, &entries).ok_or("no table")?;
            let tensor = self.edit.constant(tensor, &[]);
            match self.is_varying() {
                true => self.split.batches.lifted.insert(own, tensor),
                false => batches.of.insert(own, tensor),
            };
            wide.insert(before, own);
        }
        let after: Vec<ValueId> = places.iter().filter_map(|[_, after]| *after).collect();
        let needed = self.scan.sources(&after);
        let affine: &FxHashSet<ValueId> = &self.system.affine;
        for node in &self.scan.nodes {
            let is_input = |id: &ValueId| self.system.inputs.contains(id);
            let is_read =
                |id: &ValueId| affine.contains(id) && needed.contains(id) && !is_input(id);
            if !node.outputs.iter().any(is_read) {
                continue;
            }
            let is_sum = node.op == OpType::Add || node.op == OpType::Sub;
            let mut copy = node.clone();
            for input in copy.inputs.iter_mut().flatten() {
                *input = match wide.get(input) {
                    Some(&wide) => wide,
                    None if is_sum || node.op == OpType::Concat => {
                        let shape = self.edit.shape(*input).and_then(known_shape);
                        self.zeros(&shape.ok_or(unknown)?)?
                    }
                    None if self.edit.dtype(*input) == Some(DType::F32) => self.factor(*input)?,
                    None => *input,
                };
            }
            for output in &mut copy.outputs {
                let own = self.wide(*output)?;
                wide.insert(*output, own);
                *output = own;
            }
            let made = match self.is_varying() {
                true => self.split.batches.take(self.edit, &copy),
                false => batches.take(self.edit, &copy),
            };
            made.ok_or("a step cannot be computed for rows of states")?;
        }
        if self.is_varying() {
            let own = |id: ValueId| Some((id, *wide.get(&id)?));
            return Ok(after.into_iter().filter_map(own).collect());
        }
        Ok(after
            .into_iter()
            .filter_map(|id| Some((id, *batches.of.get(wide.get(&id)?)?)))
            .collect())
    }

    fn wide(&mut self, value: ValueId) -> Result<ValueId> {
        let shape = self.edit.shape(value).ok_or("a type is unknown")?.to_vec();
        Ok(self.edit.body_input(Type::new(self.dtype, shape)))
    }

    fn zeros(&mut self, shape: &[i64]) -> Result<ValueId> {
        let zero = Tensor::of_floats(self.dtype, vec![1; shape.len()], &[0.0]);
        let zero = zero.and_then(|zero| zero.broadcast(shape)).ok_or("no constant")?;
        Ok(self.edit.constant(zero, &[]))
    }

    fn is_varying(&self) -> bool {
        self.dtype == DType::F32
    }

    /// Returns a factor. If it is the same in all steps, it is returned in double precision.
    fn factor(&mut self, value: ValueId) -> Result<ValueId> {
        if self.is_varying() {
            self.split.take(self.edit, [value])?;
            return Ok(value);
        }
        if let Some(tensor) = self.edit.tensor(value) {
            let numbers = tensor.floats().ok_or("a type is unknown")?;
            let wide = Tensor::of_floats(DType::F64, tensor.shape.clone(), &numbers);
            return Ok(self.edit.constant(wide.ok_or("no constant")?, &[value]));
        }
        if let Some(&found) = self.cast.get(&value) {
            return Ok(found);
        }
        self.split.take(self.edit, [value])?;
        let same = self.split.batches.lifted.get(&value).copied().unwrap_or(value);
        let made = self.edit.insert(cast(same, DType::F64));
        self.cast.insert(value, made);
        self.factors.push(same);
        Ok(made)
    }
}
