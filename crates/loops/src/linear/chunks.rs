//! `chunk-recurrences`: computes a state that each step multiplies by a decay, in chunks of steps.
//!
//! A loop over the steps of a chunk runs for all chunks at once, from a state of zeros, and also multiplies the decays. A
//! second loop over the chunks has the state at the start of each. `S = P S₀ + L` is then the state of each step. If the
//! decay is one number, products with tables of its powers replace both loops.
//!
//! Other states that a constant matrix mixes are computed by products with powers of the matrix. States that keep the
//! largest number so far are computed in chunks like sums, with sums of decays instead of products.
//!
//! A product of decays may underflow, and `0 · ∞` is NaN where the loop has ∞. The model therefore checks that all
//! numbers are finite and that no decay is above one, and runs the loop otherwise.

use algebra::rewrite::{Declined, Result, ensure, require};
use onnx::edit::FALLBACK;
use onnx::{DType, Dim, Edit, Op, OpType, Outcome, Patch, ValueId, declined};

use super::affine::System;
use super::attention::{is_long, leaves};
use super::blocks;
use super::body::{filled, number, sliced};
use super::forms::{Factor, Forms, Of, Term, When};
use super::kernels::{self, Kernels, Operands};
use super::mixed::{self, Mixed};
use super::peaks::Peak;
use super::registers::{self, Delay};
use super::series::{self, Decay, Join, Series};
use super::split::{Parts, Split};
use super::sums::sum;
use crate::{Carry, Counted, results_in_place};

/// A shorter loop stays.
const MIN_STEPS: i64 = 32;

/// The same if another state stays in a loop.
const MIN_STEPS_BESIDE: i64 = 128;

/// A larger state is computed in blocks: each node of its loop takes longer than it takes to start.
const MAX_STATE: i64 = 1024;

/// The largest decay.
pub(super) const MAX_DECAY: f64 = 1.01;

/// If the magnitudes of all numbers add up to less than this, no state overflows.
const MAX_SUM: f64 = (1u64 << 60) as f64;

/// The same for factors of the states, whose products with states do not overflow then.
const MAX_FACTOR: f64 = (1u64 << 40) as f64;

/// A constant decay that is computed as a difference must be further from one: its rounding adds up.
const MIN_DISTANCE: f64 = 1.0 / 64.0;

/// The states that leave a loop.
#[derive(Default)]
struct Leaving<'l> {
    /// The states that depend only on the arrays of the loop and on each other.
    delays: Vec<Delay>,
    plain: Vec<(Carry, Forms<'l>)>,
    /// Other states, which a constant matrix mixes.
    system: Option<System>,
    /// All states of the loop, if each keeps the largest or the smallest number so far.
    peaks: Vec<Peak>,
    /// All states of the loop, if few numbers are read from them.
    kernels: Option<Kernels>,
}

impl<'l> Leaving<'l> {
    fn of(edit: &mut Patch<'_, '_>, scan: &'l Counted) -> Option<Result<Leaving<'l>>> {
        let kernels = Kernels::of(edit, scan);
        if kernels.is_some() {
            return Some(Ok(Leaving { kernels, ..Leaving::default() }));
        }
        let (mut plain, mut problem) = (Vec::new(), None);
        for &carry in &scan.carries {
            match self::plain(edit, scan, carry) {
                Some(Ok(forms)) => plain.push((carry, forms)),
                Some(Err(why)) => problem = Some(why),
                None => {}
            }
        }
        let delays = registers::delays(edit, scan);
        let mut leaving = Leaving { delays, plain, ..Leaving::default() };
        let has_same = leaving.plain.iter().any(|(_, forms)| has_computed_decay(edit, scan, forms));
        if leaving.count() < scan.carries.len() || has_same {
            let system = mixed::system(edit, scan, &leaving.delays);
            let least = leaving.plain.len() + usize::from(!has_same);
            let is_more = |system: &System| system.members.len() >= least;
            if let Some(system) = system.filter(is_more) {
                leaving.plain.clear();
                leaving.system = Some(system);
            }
        }
        leaving.keep_read_delays(scan);
        let has_states = leaving.count() > leaving.delays.len();
        if has_states || leaving.count() == scan.carries.len() {
            return Some(Ok(leaving));
        }
        Some(Err(problem?))
    }

    /// Keeps the delays that a state that stays depends on.
    fn keep_read_delays(&mut self, scan: &Counted) {
        loop {
            let stays = scan.carries.iter().filter(|carry| !self.has(carry));
            let read = scan.sources(&stays.map(|carry| carry.after).collect::<Vec<_>>());
            let before = self.delays.len();
            self.delays.retain(|delay| !read.contains(&delay.carry.before));
            if self.delays.len() == before {
                return;
            }
        }
    }

    fn states(&self) -> Vec<Carry> {
        let system = self.system.iter().flat_map(|system| &system.members);
        let peaks = self.peaks.iter().map(|peak| &peak.carry);
        let kernels = self.kernels.iter().flat_map(|kernels| kernels.members());
        let plain = self.plain.iter().map(|(carry, _)| carry);
        plain.chain(system).chain(peaks).chain(kernels).copied().collect()
    }

    fn count(&self) -> usize {
        self.delays.len() + self.states().len()
    }

    fn has(&self, carry: &Carry) -> bool {
        let states = self.states();
        let delays = self.delays.iter().map(|delay| &delay.carry);
        delays.chain(&states).any(|one| one.before == carry.before)
    }
}

pub fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    let scan = counted(edit, edit.root())?;
    let leaving = match Leaving::of(edit, &scan)? {
        Ok(leaving) => leaving,
        Err(why) => return declined(why),
    };
    if !scan.keeps_order() {
        return declined(OTHER_DIRECTIONS);
    }
    let made = match &leaving.plain[..] {
        [(carry, forms)] if scan.carries.len() == 1 && is_large(forms) => {
            blocks::write(edit, &scan, *carry, forms)
        }
        _ => write(edit, &scan, leaving),
    };
    edit.settle(made)
}

/// `chunk-peaks`: computes states that keep the largest or the smallest number so far in chunks of steps. They are often
/// what other recurrences leave in a loop.
pub fn run_peaks(edit: &mut Patch<'_, '_>) -> Outcome {
    let scan = counted(edit, edit.root())?;
    let peaks = Peak::all(edit, &scan)?;
    if !scan.keeps_order() {
        return declined(OTHER_DIRECTIONS);
    }
    let leaving = Leaving { peaks, ..Leaving::default() };
    let made = write(edit, &scan, leaving);
    edit.settle(made)
}

/// True for a scan with a recurrence that stays in it, because another state depends on it.
pub fn keeps_recurrence(edit: &mut Patch<'_, '_>, index: usize) -> bool {
    let Some(scan) = counted(edit, index) else { return false };
    let is_kept = |carry: &Carry| matches!(plain(edit, &scan, *carry), Some(Err(_)));
    let leaves = |leaving: Leaving<'_>| leaving.count() == scan.carries.len();
    scan.carries.iter().any(is_kept)
        && !Leaving::of(edit, &scan).is_some_and(|one| one.is_ok_and(leaves))
}

/// True for a long scan of which nothing is left when its states are computed in chunks.
pub fn leaves_loop(edit: &mut Patch<'_, '_>, index: usize) -> bool {
    let Some(scan) = counted(edit, index) else { return false };
    if scan.iterations.known().is_some_and(|steps| steps < MIN_STEPS_BESIDE) {
        return false;
    }
    if let Some(peaks) = Peak::all(edit, &scan) {
        return !peaks.iter().any(|peak| has_many(&peak.shape));
    }
    let Some(Ok(leaving)) = Leaving::of(edit, &scan) else { return false };
    let is_exact = |(_, forms): &(Carry, Forms<'_>)| constant_decay(edit, &decays(forms)).is_ok();
    leaving.count() == scan.carries.len()
        && leaving.plain.iter().all(is_exact)
        && (scan.carries.len() == 1 || !leaving.plain.iter().any(|(_, forms)| is_large(forms)))
}

fn counted(edit: &Edit<'_>, index: usize) -> Option<Counted> {
    require(edit.op(index) == Some(OpType::Scan) && edit.target().is_default())?;
    require(!edit.is_fallback())?;
    Counted::at(edit, index).filter(|scan| !scan.carries.is_empty())
}

const OTHER_DIRECTIONS: &str = "its inputs and outputs run in different directions";

/// Reads the update of a state that is a product and a sum. `None` for another update. Declines if another state depends
/// on it.
fn plain<'l>(edit: &Edit<'_>, scan: &'l Counted, carry: Carry) -> Option<Result<Forms<'l>>> {
    require(edit.ty(carry.before)?.dtype == DType::F32)?;
    let forms = match Forms::of(edit, scan, carry)? {
        Ok(forms) => forms,
        Err(why) => return Some(Err(why)),
    };
    let is_plain = |term: &Term| matches!(term.of, Of::One | Of::State(When::Before));
    require(forms.update.terms.iter().all(is_plain))?;
    require(forms.update.terms.iter().any(|term| term.of != Of::One))?;
    Some(Ok(forms))
}

/// True if all steps multiply the state by the same decay, which the model computes.
fn has_computed_decay(edit: &Edit<'_>, scan: &Counted, forms: &Forms<'_>) -> bool {
    let inputs = scan.arrays.iter().map(|array| array.element);
    let inputs = inputs.chain(scan.carries.iter().map(|carry| carry.before));
    let varying = scan.dependents(inputs.collect());
    let mut read = Vec::new();
    let factors = decays(forms).into_iter().flat_map(|term| &term.factors);
    factors.for_each(|factor| leaves(factor, &mut read));
    scan.iterations.known().is_some()
        && read.iter().any(|&id| edit.tensor(id).is_none())
        && !read.iter().any(|id| varying.contains(id))
}

fn is_large(forms: &Forms<'_>) -> bool {
    onnx::known_shape(&forms.shape).is_some_and(|shape| has_many(&shape))
}

fn has_many(shape: &[i64]) -> bool {
    shape.iter().product::<i64>() > MAX_STATE
}

fn write(
    edit: &mut Patch<'_, '_>,
    scan: &Counted,
    leaving: Leaving<'_>,
) -> Result<Vec<(usize, ValueId)>> {
    let has_rest = leaving.count() < scan.carries.len();
    let least = if has_rest { MIN_STEPS_BESIDE } else { MIN_STEPS };
    let has_states = leaving.count() > leaving.delays.len();
    let is_long = if has_states { is_long(edit, scan, least)? } else { None };
    ensure(
        !leaving.plain.iter().any(|(_, forms)| is_large(forms))
            && !leaving.peaks.iter().any(|peak| has_many(&peak.shape)),
        "the state is so large that its loop is fast",
    )?;
    ensure(
        leaving.system.is_none() || !edit.target().has_device(),
        "a GPU may multiply matrices with reduced precision",
    )?;
    let split = &mut apart(edit, scan, &leaving)?;
    let mut known = Vec::new();
    for delay in &leaving.delays {
        let last = delay.take(edit, scan, split)?;
        known.push((delay.carry.result, last));
    }
    let (mut series, mut guards) = (Vec::<Series>::new(), is_long.into_iter().collect::<Vec<_>>());
    for (place, (carry, forms)) in leaving.plain.iter().enumerate() {
        let mut earlier = leaving.plain[..place].iter().zip(&series);
        let same = earlier.find(|((_, other), _)| has_same_decay(other, forms));
        let same = same.map(|(_, series)| series.decay);
        series.push(series_of(edit, split, *carry, forms, same, &mut guards)?);
    }
    for peak in &leaving.peaks {
        series.push(peak.series(edit, split)?);
    }
    let kernels = match leaving.kernels {
        Some(kernels) => {
            let operands = kernels.operands(edit, scan, split, &mut guards)?;
            Some((kernels, operands))
        }
        None => None,
    };
    let mixed = match leaving.system {
        Some(system) => Some(Mixed::of(edit, scan, split, system, &mut guards)?),
        None => None,
    };
    let numbers = series.iter().flat_map(|one| match (one.join, one.decay) {
        (Join::Sum, _) => [Some(one.added), Some(one.carry.initial)],
        (_, Decay::Array(decay)) => [Some(one.added), Some(decay)],
        _ => [Some(one.added), None],
    });
    let chosen = leaving.plain.iter().zip(&series).filter(|((_, forms), _)| forms.is_chosen());
    let chosen = chosen.filter_map(|(_, one)| one.decay.array());
    let numbers = numbers.flatten().chain(chosen);
    let numbers: Vec<ValueId> =
        numbers.chain(mixed.iter().flat_map(|mixed| mixed.numbers())).collect();
    let of_kernels = kernels.iter().flat_map(|(kernels, operands)| kernels.numbers(operands));
    let numbers: Vec<ValueId> = numbers.into_iter().chain(of_kernels).collect();
    guards.extend(are_below(edit, &numbers, MAX_SUM)?);
    if let Some(mixed) = &mixed {
        guards.extend(are_below(edit, &mixed.factors, MAX_FACTOR)?);
    }
    if let Some((_, operands)) = &kernels {
        guards.extend(are_below(edit, &operands.factors, kernels::MAX_FACTOR)?);
    }
    let outputs = edit.node(edit.root()).outputs.to_vec();
    let is_read = |&place: &usize| edit.reads(outputs[place]) > 0 || edit.is_result(outputs[place]);
    let kept = results_in_place(edit, split.kept.iter().copied().chain(known));
    let is_kept = |place: &usize| kept.iter().any(|(kept, _)| kept == place);
    let read: Vec<usize> =
        (0..outputs.len()).filter(|place| !is_kept(place) && is_read(place)).collect();
    let guard = guards.into_iter().reduce(|a, b| edit.insert(Op::new(OpType::And, &[a, b])));
    let Some(guard) = guard else {
        edit.fuse_bodies();
        let made = chunked(edit, scan, split, &series, mixed.as_ref(), kernels.as_ref())?;
        return Ok(results_in_place(edit, made).into_iter().chain(kept).collect());
    };
    let otherwise = edit.branch(FALLBACK, |edit| {
        let copied = edit.insert_copy();
        read.iter().map(|&place| copied[place]).collect()
    });
    edit.fuse_bodies();
    let mut problem = None;
    let fused = edit.branch("recurrence/chunks", |edit| {
        match chunked(edit, scan, split, &series, mixed.as_ref(), kernels.as_ref()) {
            Ok(made) => {
                let by = |place: &usize| made.iter().find(|(result, _)| *result == outputs[*place]);
                read.iter().filter_map(|place| Some(by(place)?.1)).collect()
            }
            Err(why) => {
                problem = Some(why);
                Vec::new()
            }
        }
    });
    if let Some(why) = problem {
        return Err(why);
    }
    ensure(fused.outputs.len() == read.len(), "a result is not computed")?;
    let made = edit.insert_if(guard, fused, otherwise);
    Ok(read.into_iter().zip(made).chain(kept).collect())
}

/// Separates the states from the loop.
fn apart<'l>(
    edit: &mut Patch<'_, '_>,
    scan: &'l Counted,
    leaving: &Leaving<'_>,
) -> Result<Split<'l>> {
    let Leaving { delays, plain, system, peaks, kernels } = leaving;
    let delays: Vec<Carry> = delays.iter().map(|delay| delay.carry).collect();
    let moved = delays.iter().chain(peaks.iter().map(|peak| &peak.carry));
    let moved = scan.dependents(moved.map(|carry| carry.before).collect());
    let is_reached = |value| {
        plain.iter().any(|(_, forms)| forms.reaches(value))
            || system.iter().any(|system| system.reached.contains(&value))
            || moved.contains(&value)
    };
    let states = leaving.states();
    let is_state = |value| states.iter().any(|carry| value == carry.before || value == carry.after);
    let mut needs = Vec::new();
    let terms = plain.iter().flat_map(|(_, forms)| &forms.update.terms);
    terms.flat_map(|term| &term.factors).for_each(|factor| leaves(factor, &mut needs));
    if let Some(system) = system {
        needs.extend(system.nodes.iter().flat_map(|node| node.inputs.iter().flatten()));
        needs.extend(system.added.iter().flatten());
        needs.extend(&system.factors);
    }
    needs.extend(kernels.iter().flat_map(|kernels| kernels.needs()));
    let elements = scan.stacks.iter().map(|stack| stack.element);
    needs.extend(elements.filter(|&element| is_reached(element)));
    let parts = Parts {
        states: &states,
        delays: &delays,
        is_reached: &is_reached,
        is_followed: &|value| is_reached(value) && !is_state(value),
        is_known: &is_state,
    };
    Split::of(edit, scan, &parts, &needs)
}

/// Inserts the condition that all numbers are finite, and that their magnitudes add up to less than a limit. `None` if
/// that is known, or if NaN need not be exact.
pub(super) fn are_below(
    edit: &mut Patch<'_, '_>,
    values: &[ValueId],
    limit: f64,
) -> Result<Option<ValueId>> {
    if !edit.exact_nan() {
        return Ok(None);
    }
    let sum = |edit: &mut Patch<'_, '_>, value: &ValueId| {
        edit.insert(Op::new(OpType::ReduceL1, &[*value]).attr("keepdims", 0))
    };
    let values: Vec<&ValueId> =
        values.iter().filter(|value| !is_below(edit, **value, limit)).collect();
    let sums: Vec<ValueId> = values.into_iter().map(|value| sum(edit, value)).collect();
    let total = sums.into_iter().reduce(|a, b| edit.insert(Op::new(OpType::Add, &[a, b])));
    let Some(total) = total else { return Ok(None) };
    let limit = number(edit, limit)?;
    Ok(Some(edit.insert(Op::new(OpType::Less, &[total, limit]))))
}

/// True if the magnitudes of the numbers are known to add up to a small part of a limit.
fn is_below(edit: &Patch<'_, '_>, value: ValueId, limit: f64) -> bool {
    let fact = edit.fact(value).floats();
    let count = edit.shape(value).and_then(Dim::checked_product).and_then(|size| size.known());
    let most = fact.low.abs().max(fact.high.abs());
    !fact.nan && count.is_some_and(|count| most * (count as f64) < limit / 16.0)
}

/// True if each step multiplies two states by the same decay.
fn has_same_decay(one: &Forms<'_>, other: &Forms<'_>) -> bool {
    one.shape == other.shape && decays(one) == decays(other)
}

/// Returns the terms of an update that are multiples of the state.
fn decays<'f>(forms: &'f Forms<'_>) -> Vec<&'f Term> {
    forms.update.terms.iter().filter(|term| term.of != Of::One).collect()
}

/// Computes what the update of a state reads, for all steps. Adds conditions that no decay is above one, unless the
/// decay is known.
fn series_of(
    edit: &mut Patch<'_, '_>,
    split: &mut Split<'_>,
    carry: Carry,
    forms: &Forms<'_>,
    decay: Option<Decay>,
    guards: &mut Vec<ValueId>,
) -> Result<Series> {
    let shape = onnx::known_shape(&forms.shape).ok_or("a size of the state is not known")?;
    let size: i64 = shape.iter().product();
    ensure(size > 0, "the state is empty")?;
    split.set_shape(shape.clone());
    let axes: Vec<usize> = (0..shape.len()).collect();
    let (decays, adds): (Vec<&Term>, Vec<&Term>) =
        forms.update.terms.iter().partition(|term| term.of != Of::One);
    let decay = if let Some(decay) = decay {
        decay
    } else if let Some(decay) = constant_decay(edit, &decays)? {
        // A GPU may multiply matrices with reduced precision.
        if edit.target().has_device() {
            let steps = split.batches.steps.known().ok_or("the number of steps is not known")?;
            Decay::Array(filled(edit, &[steps, 1], decay)?)
        } else {
            Decay::Number(decay)
        }
    } else {
        let sizes = if adds.is_empty() { bounds_of_product() } else { (0.0, MAX_DECAY) };
        Decay::Array(decay_of_steps(edit, split, &decays, &axes, sizes, guards)?)
    };
    let is_product = adds.is_empty();
    let scaled = match (decay, &adds[..]) {
        (Decay::Number(_), &[term]) => term.scaled(edit),
        _ => None,
    };
    let (scale, adds) = scaled.as_ref().map_or((1.0, adds), |(scale, term)| (*scale, vec![term]));
    let added = sum(edit, split, &adds, &axes)?;
    let added = split.full(edit, added, &axes)?;
    let added = split.reshape(edit, added, None, &[size])?;
    Ok(Series { carry, size, shape, decay, join: Join::Sum, added, is_product, scale })
}

/// Returns the smallest and the largest factor whose product over the steps of a chunk is a normal number.
fn bounds_of_product() -> (f64, f64) {
    let most = (120.0 / series::MAX_PRODUCT as f64).exp2();
    (1.0 / most, most)
}

/// Returns the decay of each step as `[steps, size]`, or `[steps, 1]` if it is the same for the whole state.
fn decay_of_steps(
    edit: &mut Patch<'_, '_>,
    split: &mut Split<'_>,
    decays: &[&Term],
    axes: &[usize],
    (least, most): (f64, f64),
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
    let mut limit = |edit: &mut Patch<'_, '_>, reduce: OpType, compare: OpType, limit: f64| {
        let size = edit.insert(Op::new(OpType::Abs, &[sum]));
        let extreme = edit.insert(Op::new(reduce, &[size]).attr("keepdims", 0));
        let limit = number(edit, limit)?;
        guards.push(edit.insert(Op::new(compare, &[extreme, limit])));
        Ok::<(), Declined>(())
    };
    if fact.low < -most || fact.high > most {
        limit(edit, OpType::ReduceMax, OpType::LessOrEqual, most)?;
    }
    if least > 0.0 && fact.low < least {
        limit(edit, OpType::ReduceMin, OpType::GreaterOrEqual, least)?;
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

/// Returns the decay of a state if it is a constant number.
fn constant_decay(edit: &Patch<'_, '_>, decays: &[&Term]) -> Result<Option<f64>> {
    let Some(decay) = constant(edit, decays) else { return Ok(None) };
    ensure(
        decays.len() == 1 || (1.0 - decay.abs()).abs() >= MIN_DISTANCE,
        "the decay is a difference close to one, and its rounding would add up",
    )?;
    ensure(decay.abs() <= MAX_DECAY, "the decay is above one")?;
    Ok(Some(decay))
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

/// Computes all results of the loop.
fn chunked(
    edit: &mut Patch<'_, '_>,
    scan: &Counted,
    split: &mut Split<'_>,
    all: &[Series],
    mixed: Option<&Mixed>,
    kernels: Option<&(Kernels, Operands)>,
) -> Result<Vec<(ValueId, ValueId)>> {
    let before: Vec<ValueId> = split.batches.of.values().copied().collect();
    let (mut results, mut known) = (Vec::new(), Vec::new());
    if let Some((kernels, operands)) = kernels {
        let [reads, last] = kernels.results(edit, scan, operands)?;
        split.batches.of.extend(reads);
        results.extend(last);
    }
    let mut groups: Vec<Vec<&Series>> = Vec::new();
    for one in all {
        let is_like = |other: &Series| other.decay == one.decay && other.join == one.join;
        match groups.iter_mut().find(|group| is_like(group[0])) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    for group in groups {
        for (one, states) in group.iter().zip(series::states(edit, scan, &group)?) {
            known.push((one.carry, split.reshape(edit, states, None, &one.shape)?));
        }
    }
    if let Some(mixed) = mixed {
        for (&carry, states) in mixed.members().iter().zip(mixed.states(edit, scan)?) {
            let shape = edit.shape(carry.before).and_then(onnx::known_shape);
            let shape = shape.ok_or("a size of the state is not known")?;
            known.push((carry, split.reshape(edit, states, None, &shape)?));
        }
    }
    for (carry, states) in known {
        let place = if scan.is_reverse { 0 } else { -1 };
        let place = edit.integer(place).ok_or("no index")?;
        let last = edit.insert(Op::new(OpType::Gather, &[states, place]).attr("axis", 0));
        results.push((carry.result, last));
        split.take_parts(edit, carry.after, states)?;
        let earlier = shifted(edit, scan, carry.initial, states)?;
        split.batches.of.insert(carry.before, earlier);
    }
    let is_kept = |result: ValueId| split.kept.iter().any(|&(kept, _)| kept == result);
    let stacks: Vec<_> = scan.stacks.iter().filter(|stack| !is_kept(stack.result)).collect();
    split.take(edit, stacks.iter().map(|stack| stack.element))?;
    for stack in stacks {
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
