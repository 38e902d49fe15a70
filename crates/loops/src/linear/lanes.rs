//! Computes states in chunks of steps, each step for all chunks at once.
//!
//! The steps of a chunk are first reduced to one: the product of their factors, and what they make of a state without
//! influence. These are a shorter series of the same kind, whose states are those before each chunk. From there, the steps
//! of all chunks run as in the loop.

use std::collections::hash_map::Entry;

use algebra::rewrite::Result;
use onnx::{Op, OpType, Patch, ValueId, known_shape};
use rustc_hash::FxHashMap;

use super::body::{filled, shaped, sliced};
use super::chunks::shifted;
use super::series::{self, Join, Series};
use crate::Counted;

/// The numbers of steps of a chunk, the best one first.
const CHUNKS: [i64; 13] = [8, 16, 12, 10, 9, 7, 6, 14, 15, 5, 4, 13, 11];

const MIN_CHUNK: i64 = 4;

/// No more steps run one after the other.
const MAX_STEPS: i64 = 16;

/// A number by which a step multiplies a state.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Factor {
    Zero,
    One,
    /// The same in all steps, `[1, size]`.
    Same(ValueId),
    /// `[steps, size]`
    Steps(ValueId),
}

impl Factor {
    pub(super) fn value(self) -> Option<ValueId> {
        match self {
            Factor::Zero | Factor::One => None,
            Factor::Same(id) | Factor::Steps(id) => Some(id),
        }
    }
}

/// The factors of the states in each next state.
pub(super) type Matrix = Vec<Vec<Factor>>;

/// Series with the same factors. Each of them has one or several states that depend on each other.
pub(super) struct Lanes<'s> {
    pub scan: &'s Counted,
    pub all: &'s [&'s Series],
    pub join: Join,
    /// The states of each series before the first step, `[1, size]`.
    pub initial: Vec<Vec<ValueId>>,
    /// The maximum number of steps whose factors are multiplied. A loop runs over more chunks.
    pub limit: i64,
}

/// A step of all chunks.
pub(super) struct Step {
    matrix: Matrix,
    /// The sum that a step adds to the states of each series, `[chunks, 1, size]`.
    added: Vec<Vec<ValueId>>,
}

impl Lanes<'_> {
    /// Returns the states after all steps, `[steps, size]`. `added` is what the steps add, `[steps, size]`. Each of them
    /// stands for `stride` steps of the loop. Adds the products of factors.
    pub(super) fn states(
        &self,
        edit: &mut Patch<'_, '_>,
        matrix: &Matrix,
        added: &[Vec<ValueId>],
        [steps, stride]: [i64; 2],
        products: &mut Vec<ValueId>,
    ) -> Result<Vec<Vec<ValueId>>> {
        let chunk = chunk_of(steps, self.limit / stride);
        let count = (steps + chunk - 1) / chunk;
        let padding = count * chunk - steps;
        let inside = self.steps(edit, matrix, added, chunk, &mut |edit, id| {
            let rest = sizes_after(edit, id, 1)?;
            let mut id = id;
            if padding > 0 {
                let mut pads = vec![0; 2 * (rest.len() + 1)];
                pads[if self.scan.is_reverse { 0 } else { rest.len() + 1 }] = padding;
                let pads = edit.integers(&pads).ok_or("no padding")?;
                id = edit.insert(Op::new(OpType::Pad, &[id, pads]));
            }
            shaped(edit, id, &[&[count, chunk], &rest[..]].concat())
        })?;
        let starts = if count == 1 {
            self.initial.clone()
        } else {
            let (matrix, ends) = self.reduced(edit, &inside, count)?;
            products.extend(matrix.iter().flatten().filter_map(|factor| factor.value()));
            let stride = stride * chunk;
            if count > MAX_STEPS && stride * MIN_CHUNK > self.limit {
                self.by_loop(edit, &matrix, &ends)?
            } else {
                let after = self.states(edit, &matrix, &ends, [count, stride], products)?;
                self.before(edit, &after)?
            }
        };
        let mut states = self.run(edit, &inside, &starts, count)?;
        for state in states.iter_mut().flatten() {
            let rest = sizes_after(edit, *state, 2)?;
            *state = shaped(edit, *state, &[&[count * chunk], &rest[..]].concat())?;
            *state = match (padding, self.scan.is_reverse) {
                (0, _) => *state,
                (_, false) => sliced(edit, *state, 0, 0, steps)?,
                (_, true) => sliced(edit, *state, 0, padding, i64::MAX)?,
            };
        }
        Ok(states)
    }

    /// Returns the steps of the chunks, in the order in which they run. `whole` returns an array as
    /// `[chunks, chunk, size]`.
    pub(super) fn steps<'e, 'm>(
        &self,
        edit: &mut Patch<'e, 'm>,
        matrix: &Matrix,
        added: &[Vec<ValueId>],
        chunk: i64,
        whole: &mut dyn FnMut(&mut Patch<'e, 'm>, ValueId) -> Result<ValueId>,
    ) -> Result<Vec<Step>> {
        let mut known: FxHashMap<ValueId, Vec<ValueId>> = FxHashMap::default();
        let arrays = matrix.iter().flatten().filter_map(|factor| match factor {
            Factor::Steps(id) => Some(id),
            _ => None,
        });
        for &id in added.iter().flatten().chain(arrays) {
            if let Entry::Vacant(entry) = known.entry(id) {
                let array = whole(edit, id)?;
                let sizes = edit.integers(&vec![1; chunk as usize]).ok_or("no sizes")?;
                let op = Op::new(OpType::Split, &[array, sizes]).attr("axis", 1);
                entry.insert(edit.insert_instead(op, &vec![None; chunk as usize]));
            }
        }
        let step = |place: usize| {
            let factor = |one: &Factor| match one {
                Factor::Steps(id) => Factor::Steps(known[id][place]),
                other => *other,
            };
            Step {
                matrix: matrix.iter().map(|row| row.iter().map(factor).collect()).collect(),
                added: added
                    .iter()
                    .map(|all| all.iter().map(|id| known[id][place]).collect())
                    .collect(),
            }
        };
        let mut steps: Vec<Step> = (0..chunk as usize).map(step).collect();
        if self.scan.is_reverse {
            steps.reverse();
        }
        Ok(steps)
    }

    /// Returns each chunk as one step: its factors, and what it adds, `[chunks, size]`.
    pub(super) fn reduced(
        &self,
        edit: &mut Patch<'_, '_>,
        steps: &[Step],
        count: i64,
    ) -> Result<(Matrix, Vec<Vec<ValueId>>)> {
        let (first, rest) = steps.split_first().ok_or("no steps")?;
        let (mut matrix, mut added) = (first.matrix.clone(), first.added.clone());
        for step in rest {
            added = self.next(edit, step, &added);
            matrix = self.product(edit, &step.matrix, &matrix)?;
        }
        let flat = |edit: &mut Patch<'_, '_>, id: ValueId| {
            let rest = sizes_after(edit, id, 2)?;
            shaped(edit, id, &[&[count], &rest[..]].concat())
        };
        for factor in matrix.iter_mut().flatten() {
            if let Factor::Steps(id) = factor {
                *id = flat(edit, *id)?;
            }
        }
        for end in added.iter_mut().flatten() {
            *end = flat(edit, *end)?;
        }
        Ok((matrix, added))
    }

    /// Returns the states after all steps of the chunks, `[chunks, chunk, size]`, from those before the first ones,
    /// `[chunks, size]`.
    pub(super) fn run(
        &self,
        edit: &mut Patch<'_, '_>,
        steps: &[Step],
        starts: &[Vec<ValueId>],
        count: i64,
    ) -> Result<Vec<Vec<ValueId>>> {
        let mut states = starts.to_vec();
        for state in states.iter_mut().flatten() {
            let rest = sizes_after(edit, *state, 1)?;
            *state = shaped(edit, *state, &[&[count, 1], &rest[..]].concat())?;
        }
        let mut all: Vec<Vec<Vec<ValueId>>> =
            states.iter().map(|series| vec![Vec::new(); series.len()]).collect();
        for step in steps {
            states = self.next(edit, step, &states);
            let places = all.iter_mut().flatten().zip(states.iter().flatten());
            places.for_each(|(all, &state)| all.push(state));
        }
        let mut joined = |mut parts: Vec<ValueId>| {
            if self.scan.is_reverse {
                parts.reverse();
            }
            edit.insert(Op::new(OpType::Concat, &parts).attr("axis", 1))
        };
        Ok(all.into_iter().map(|series| series.into_iter().map(&mut joined).collect()).collect())
    }

    /// Returns the states before each chunk, by a loop over the chunks.
    pub(super) fn by_loop(
        &self,
        edit: &mut Patch<'_, '_>,
        matrix: &Matrix,
        ends: &[Vec<ValueId>],
    ) -> Result<Vec<Vec<ValueId>>> {
        let factor = match matrix[0][0] {
            Factor::Same(id) => series::Factor::Same(shaped(edit, id, &[-1])?),
            Factor::Steps(id) => series::Factor::Array(id, sizes_after(edit, id, 1)?[0]),
            Factor::Zero | Factor::One => series::Factor::None,
        };
        let ends: Vec<ValueId> = ends.iter().flatten().copied().collect();
        let starts = series::starts_by_loop(edit, self.scan, self.all, factor, &ends)?;
        Ok(starts.into_iter().map(|start| vec![start]).collect())
    }

    /// Returns the states before each step, from those after each step.
    fn before(
        &self,
        edit: &mut Patch<'_, '_>,
        after: &[Vec<ValueId>],
    ) -> Result<Vec<Vec<ValueId>>> {
        let mut before = after.to_vec();
        let initial = self.initial.iter().flatten();
        for (state, &initial) in before.iter_mut().flatten().zip(initial) {
            let rest = sizes_after(edit, initial, 1)?;
            let initial = shaped(edit, initial, &rest)?;
            *state = shifted(edit, self.scan, initial, *state)?;
        }
        Ok(before)
    }

    /// Returns the states after a step.
    fn next(
        &self,
        edit: &mut Patch<'_, '_>,
        step: &Step,
        states: &[Vec<ValueId>],
    ) -> Vec<Vec<ValueId>> {
        let series = states.iter().zip(&step.added);
        let mut next = Vec::new();
        for (states, added) in series {
            let rows = step.matrix.iter().zip(added);
            next.push(
                rows.map(|(row, &added)| {
                    let mut sum = None;
                    for (&factor, &state) in row.iter().zip(states) {
                        let term = match factor {
                            Factor::Zero => continue,
                            Factor::One => state,
                            Factor::Same(id) | Factor::Steps(id) => self.decayed(edit, id, state),
                        };
                        sum = Some(self.joined(edit, sum, term));
                    }
                    self.joined(edit, sum, added)
                })
                .collect(),
            );
        }
        next
    }

    /// Returns the product of a factor and of a state or of a factor of an earlier step.
    fn decayed(&self, edit: &mut Patch<'_, '_>, factor: ValueId, state: ValueId) -> ValueId {
        let operands = match self.join {
            Join::Matrix => [state, factor],
            _ => [factor, state],
        };
        edit.insert(Op::new(self.join.with_decay(), &operands))
    }

    fn joined(&self, edit: &mut Patch<'_, '_>, sum: Option<ValueId>, term: ValueId) -> ValueId {
        match sum {
            Some(sum) => edit.insert(Op::new(self.join.with_added(), &[sum, term])),
            None => term,
        }
    }

    /// Returns the factors of two steps.
    fn product(&self, edit: &mut Patch<'_, '_>, second: &Matrix, first: &Matrix) -> Result<Matrix> {
        let mut product = Matrix::new();
        for factors in second {
            let mut row = Vec::new();
            for column in 0..second.len() {
                let mut sum = None;
                for (&a, b) in factors.iter().zip(first) {
                    let (is_same, operands) = match (a, b[column]) {
                        (Factor::Zero, _) | (_, Factor::Zero) => continue,
                        (Factor::One, one) | (one, Factor::One) => {
                            sum = Some(self.sum(edit, sum, one)?);
                            continue;
                        }
                        (Factor::Same(a), Factor::Same(b)) => (true, [a, b]),
                        (Factor::Same(a), Factor::Steps(b))
                        | (Factor::Steps(a), Factor::Same(b) | Factor::Steps(b)) => (false, [a, b]),
                    };
                    let term = self.decayed(edit, operands[0], operands[1]);
                    let term = if is_same { Factor::Same(term) } else { Factor::Steps(term) };
                    sum = Some(self.sum(edit, sum, term)?);
                }
                row.push(sum.unwrap_or(Factor::Zero));
            }
            product.push(row);
        }
        Ok(product)
    }

    fn sum(&self, edit: &mut Patch<'_, '_>, sum: Option<Factor>, term: Factor) -> Result<Factor> {
        let Some(sum) = sum else { return Ok(term) };
        let mut is_same = true;
        let mut terms = Vec::new();
        for factor in [sum, term] {
            is_same &= !matches!(factor, Factor::Steps(_));
            terms.push(match factor {
                Factor::Same(id) | Factor::Steps(id) => id,
                Factor::One => filled(edit, &[1, 1], self.join.kept())?,
                Factor::Zero => filled(edit, &[1, 1], self.join.empty())?,
            });
        }
        let sum = edit.insert(Op::new(self.join.with_added(), &terms));
        Ok(if is_same { Factor::Same(sum) } else { Factor::Steps(sum) })
    }
}

/// Returns the number of steps of a chunk, at most a limit. It divides the number of steps if possible.
fn chunk_of(steps: i64, limit: i64) -> i64 {
    if steps <= MAX_STEPS {
        return steps;
    }
    let fits = |chunk: &i64| *chunk <= limit;
    let divisor = CHUNKS.into_iter().filter(fits).find(|chunk| steps % chunk == 0);
    divisor.or_else(|| CHUNKS.into_iter().find(fits)).unwrap_or(MIN_CHUNK)
}

/// Returns the sizes of the axes after some leading ones.
pub(super) fn sizes_after(edit: &Patch<'_, '_>, id: ValueId, leading: usize) -> Result<Vec<i64>> {
    let sizes = edit.shape(id).and_then(|shape| known_shape(shape.get(leading..)?));
    sizes.ok_or_else(|| "a size is not known".into())
}
