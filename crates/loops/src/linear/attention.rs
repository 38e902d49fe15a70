//! `fuse-linear-attention`: writes a state that outer products update as the operator `LinearAttention` of ONNX Runtime.
//!
//! The operator computes `S ← exp(g) S + k vᵀ` or `S ← exp(g) S + β k (v − kᵀ S)ᵀ`, and returns `qᵀ S` of each step. All
//! axes of the state apart from those of `k` and `v` are heads. Releases without the operator compute the same in chunks
//! of steps.

use algebra::axis_map::transpose;
use algebra::rewrite::{Result, ensure, require};
use onnx::edit::FALLBACK;
use onnx::operator::properties::RESHAPES;
use onnx::{Attr, DType, Dim, Edit, Op, OpType, Operator, Outcome, Patch, Tensor, Type, ValueId};

use rustc_hash::FxHashSet;

use super::body::number;
use super::chunks::{MAX_DECAY, are_below};
use super::forms::{Factor, Form, Forms, Of, When};
use super::matrices::{self, Arrays};
use super::plan::Plan;
use super::split::{Parts, Split};
use crate::{Carry, Counted, results_in_place};

const DOMAIN: &str = "com.microsoft";
const NAME: &str = "LinearAttention";

pub fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    require(edit.target().is_default() && !edit.target().has_device() && !edit.is_fallback())?;
    require(edit.op(index) == Some(OpType::Scan))?;
    let scan = Counted::at(edit, index)?;
    let candidates = (0..scan.carries.len()).filter(|&at| is_matrix(edit, scan.carries[at].before));
    for at in candidates.collect::<Vec<_>>() {
        let state = scan.carries[at];
        let Some(forms) = Forms::of(edit, &scan, state) else { continue };
        let plan = forms.and_then(|forms| Plan::of(&scan, forms));
        let made = plan.and_then(|plan| {
            ensure(scan.keeps_order(), "its inputs and outputs run in different directions")?;
            write(edit, &scan, state, &plan)
        });
        return edit.settle(made);
    }
    None
}

fn is_matrix(edit: &Edit<'_>, state: ValueId) -> bool {
    edit.ty(state).is_some_and(|ty| {
        ty.dtype == DType::F32 && ty.shape.iter().filter(|dim| !dim.is(1)).count() >= 2
    })
}

/// A shorter loop stays if the runtime has no operator.
const MIN_STEPS: i64 = 32;

/// If the magnitudes of all numbers add up to less than this, no product of three of them overflows.
const MAX_SUM: f64 = (1u64 << 40) as f64;

/// The rule that computes the state.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Operator,
    Chunks,
}

fn write(
    edit: &mut Patch<'_, '_>,
    scan: &Counted,
    state: Carry,
    plan: &Plan<'_>,
) -> Result<Vec<(usize, ValueId)>> {
    let mut needs: Vec<ValueId> = Vec::new();
    let logs =
        plan.decay.iter().map(|factor| plan.forms.exponent(factor).unwrap_or(factor.clone()));
    logs.for_each(|factor| leaves(&factor, &mut needs));
    let update = [&plan.key, &plan.value].into_iter().flatten();
    update.chain(plan.rate.iter().flatten()).for_each(|factor| leaves(factor, &mut needs));
    plan.query.iter().flat_map(|(_, key)| key).for_each(|factor| leaves(factor, &mut needs));
    for result in &plan.results {
        let factors = plan.forms.of[result].terms.iter().flat_map(|term| &term.factors);
        factors.for_each(|factor| leaves(factor, &mut needs));
    }
    let elements = scan.stacks.iter().map(|stack| stack.element);
    needs.extend(elements.filter(|&element| plan.forms.reaches(element)));
    let forms = &plan.forms;
    let parts = Parts {
        states: &[state],
        delays: &[],
        is_reached: &|value| forms.reaches(value),
        is_followed: &|value| forms.later.contains(&value),
        is_known: &|value| forms.of.contains_key(&value),
    };
    let split = &mut Split::of(edit, scan, &parts, &needs)?;
    split.set_shape(onnx::known_shape(&forms.shape).ok_or("a size of the state is not known")?);

    let way = if edit.target().has_state_operators() { Way::Operator } else { Way::Chunks };
    let mut guards = Vec::new();
    if way == Way::Chunks {
        guards.extend(is_long(edit, scan, MIN_STEPS)?);
    }
    let operands = operands(edit, scan, state, plan, split, way, &mut guards)?;
    let outputs = edit.node(edit.root()).outputs.to_vec();
    let Some(guard) = guards.into_iter().reduce(|a, b| edit.insert(Op::new(OpType::And, &[a, b])))
    else {
        edit.fuse_bodies();
        let mut made = fused(edit, scan, state, plan, split, way, &operands)?;
        made.extend(split.kept.iter().copied());
        return Ok(results_in_place(edit, made));
    };
    let kept = results_in_place(edit, split.kept.iter().copied());
    let is_kept = |place: &usize| kept.iter().any(|(kept, _)| kept == place);
    let is_read = |&place: &usize| edit.reads(outputs[place]) > 0 || edit.is_result(outputs[place]);
    let read = (0..outputs.len()).filter(|place| !is_kept(place) && is_read(place));
    let read: Vec<usize> = read.collect();
    let otherwise = edit.branch(FALLBACK, |edit| {
        let copied = edit.insert_copy();
        read.iter().map(|&place| copied[place]).collect()
    });
    edit.fuse_bodies();
    let mut problem = None;
    let fused = edit.branch("recurrence/fused", |edit| {
        match fused(edit, scan, state, plan, split, way, &operands) {
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

/// Returns a condition that the loop has at least a number of steps. `None` if that is known.
pub(super) fn is_long(
    edit: &mut Patch<'_, '_>,
    scan: &Counted,
    least: i64,
) -> Result<Option<ValueId>> {
    if let Some(steps) = scan.iterations.known() {
        ensure(steps >= least, "the loop is short")?;
        return Ok(None);
    }
    let whole = scan.arrays.first().ok_or("no array")?.whole;
    let shape = Op::new(OpType::Shape, &[whole]).attr("start", 0).attr("end", 1);
    let steps = edit.insert(shape);
    let axes = edit.integers(&[0]).ok_or("no axes")?;
    let steps = edit.insert(Op::new(OpType::Squeeze, &[steps, axes]));
    let least = edit.integer(least).ok_or("no number")?;
    Ok(Some(edit.insert(Op::new(OpType::GreaterOrEqual, &[steps, least]))))
}

/// Collects the values of factors.
pub(super) fn leaves(factor: &Factor, values: &mut Vec<ValueId>) {
    match factor {
        Factor::Value { id, .. } | Factor::Mask { id, .. } => values.push(*id),
        Factor::Dot { factors, .. } => factors.iter().for_each(|factor| leaves(factor, values)),
    }
}

fn operands(
    edit: &mut Patch<'_, '_>,
    scan: &Counted,
    state: Carry,
    plan: &Plan<'_>,
    split: &mut Split<'_>,
    way: Way,
    guards: &mut Vec<ValueId>,
) -> Result<Arrays> {
    let (keys, values) = (plan.with_heads(plan.key_axis), plan.with_heads(plan.value_axis));
    let shift = match &plan.query {
        Some((When::Before, _)) if way == Way::Operator => Some(!scan.is_reverse),
        _ => None,
    };
    let pack =
        |edit: &mut Patch<'_, '_>, split: &mut Split<'_>, factors: &[Factor], axes: &[usize]| {
            let id = match split.product(edit, factors, axes)? {
                Some(id) => id,
                None => ones(edit, axes.len() + 1)?,
            };
            split.full(edit, id, axes)
        };
    let key = pack(edit, split, &plan.key, &keys)?;
    let mut value = pack(edit, split, &plan.value, &values)?;
    if plan.is_negative {
        value = edit.insert(Op::new(OpType::Neg, &[value]));
    }
    let query = match &plan.query {
        Some((_, factors)) => Some(pack(edit, split, factors, &keys)?),
        None => (way == Way::Operator).then_some(key),
    };
    let decay = match way {
        Way::Operator => logarithm_of_decay(edit, plan, split, guards)?,
        Way::Chunks => decay(edit, plan, split, guards)?,
    };
    let rate = match &plan.rate {
        Some(factors) => Some(pack(edit, split, factors, &plan.heads)?),
        None => None,
    };
    if plan.forms.reflects || way == Way::Chunks {
        let operands = [query, Some(key), Some(value), rate, Some(state.initial)];
        let mut numbers: Vec<ValueId> = operands.into_iter().flatten().collect();
        numbers.dedup();
        guards.extend(are_below(edit, &numbers, MAX_SUM)?);
    }
    if let Some(rate) = rate.filter(|_| way == Way::Chunks) {
        guards.push(shrinks(edit, key, rate)?);
    }
    let pad = |is_first: bool| shift.map(|forward| forward == is_first);
    let order = |edit: &mut Patch<'_, '_>, id: ValueId, front: Option<bool>| -> Result<ValueId> {
        let id = match front {
            Some(front) => padded(edit, id, front)?,
            None => id,
        };
        let is_constant = edit.shape(id).is_some_and(|shape| shape[0].is(1));
        let id = if scan.is_reverse && !is_constant { reversed(edit, id)? } else { id };
        match way {
            Way::Operator => packed(edit, split, id, shift.is_some()),
            Way::Chunks => Ok(id),
        }
    };
    let past = past(edit, plan, split, state.initial)?;
    ensure(
        past.is_none() || rate.is_none() || shift.is_none(),
        "a step of a delta rule reads the state before it",
    )?;
    Ok(Arrays {
        query: query.map(|query| order(edit, query, pad(false))).transpose()?,
        key: order(edit, key, pad(true))?,
        value: order(edit, value, pad(true))?,
        decay: decay.map(|decay| order(edit, decay, pad(true))).transpose()?,
        rate: rate.map(|rate| order(edit, rate, pad(true))).transpose()?,
        past,
    })
}

/// Returns a condition that no correction of a delta rule makes the state larger: `0 ≤ β kᵀ k ≤ 2`.
fn shrinks(edit: &mut Patch<'_, '_>, key: ValueId, rate: ValueId) -> Result<ValueId> {
    let last = edit.integers(&[-1]).ok_or("no axes")?;
    let squares = edit.insert(Op::new(OpType::Mul, &[key, key]));
    let sum = edit.insert(Op::new(OpType::ReduceSum, &[squares, last]).attr("keepdims", 0));
    let size = edit.insert(Op::new(OpType::Mul, &[sum, rate]));
    let one = number(edit, 1.0)?;
    let kept = edit.insert(Op::new(OpType::Sub, &[one, size]));
    is_decay(edit, kept)
}

/// Returns a condition that no magnitude is above the largest decay.
fn is_decay(edit: &mut Patch<'_, '_>, id: ValueId) -> Result<ValueId> {
    let size = edit.insert(Op::new(OpType::Abs, &[id]));
    let most = edit.insert(Op::new(OpType::ReduceMax, &[size]).attr("keepdims", 0));
    let limit = number(edit, MAX_DECAY)?;
    Ok(edit.insert(Op::new(OpType::LessOrEqual, &[most, limit])))
}

fn ones(edit: &mut Patch<'_, '_>, rank: usize) -> Result<ValueId> {
    let one = Tensor::of_floats(DType::F32, vec![1; rank], &[1.0]).ok_or("no number")?;
    Ok(edit.constant(one, &[]))
}

/// Adds a row of zeros before the first or after the last step.
fn padded(edit: &mut Patch<'_, '_>, id: ValueId, front: bool) -> Result<ValueId> {
    let rank = edit.rank(id).ok_or("a type is unknown")?;
    let mut pads = vec![0; 2 * rank];
    pads[if front { 0 } else { rank }] = 1;
    let pads = edit.integers(&pads).ok_or("no padding")?;
    Ok(edit.insert(Op::new(OpType::Pad, &[id, pads])))
}

/// Reverses the order of the steps.
fn reversed(edit: &mut Patch<'_, '_>, id: ValueId) -> Result<ValueId> {
    let operands = [&[-1], &[i64::MIN], &[0], &[-1]].map(|ints: &[i64; 1]| edit.integers(ints));
    let [Some(start), Some(end), Some(axis), Some(step)] = operands else {
        return Err("no axes".into());
    };
    Ok(edit.insert(Op::new(OpType::Slice, &[id, start, end, axis, step])))
}

/// Returns an array over steps and axes as `[1, steps, rest]`.
fn packed(
    edit: &mut Patch<'_, '_>,
    split: &Split<'_>,
    id: ValueId,
    is_longer: bool,
) -> Result<ValueId> {
    let shape = edit.shape(id).ok_or("a type is unknown")?.to_vec();
    let rest: i64 = shape[1..].iter().filter_map(Dim::known).product();
    let steps = match split.batches.steps.known() {
        Some(steps) => steps + i64::from(is_longer),
        None => -1,
    };
    let sizes = edit.integers(&[1, steps, rest]).ok_or("no shape")?;
    Ok(edit.insert(Op::new(OpType::Reshape, &[id, sizes])))
}

/// Returns the decay as an array over steps, heads and perhaps keys. Adds a condition that it is not above one.
fn decay(
    edit: &mut Patch<'_, '_>,
    plan: &Plan<'_>,
    split: &mut Split<'_>,
    guards: &mut Vec<ValueId>,
) -> Result<Option<ValueId>> {
    let spans_keys = plan.decays_keys();
    let axes = if spans_keys { plan.with_heads(plan.key_axis) } else { plan.heads.clone() };
    let Some(decay) = split.product(edit, &plan.decay, &axes)? else { return Ok(None) };
    let fact = edit.fact(decay).floats();
    if fact.low < -MAX_DECAY || fact.high > MAX_DECAY {
        guards.push(is_decay(edit, decay)?);
    }
    let is_same = edit.shape(decay).is_some_and(|shape| shape[0].is(1));
    let is_whole = split.batches.steps.known().is_some_and(|steps| steps % matrices::CHUNK == 0);
    if is_same && is_whole && !spans_keys {
        let sizes = edit.integers(&[&[1], &split.sizes(&axes)[..]].concat()).ok_or("no shape")?;
        return Ok(Some(edit.insert(Op::new(OpType::Expand, &[decay, sizes]))));
    }
    Ok(Some(split.full(edit, decay, &axes)?))
}

/// Returns the logarithm of the decay, as an array over steps, heads and perhaps keys. Adds conditions under which the
/// decay has a logarithm.
fn logarithm_of_decay(
    edit: &mut Patch<'_, '_>,
    plan: &Plan<'_>,
    split: &mut Split<'_>,
    guards: &mut Vec<ValueId>,
) -> Result<Option<ValueId>> {
    let keys = plan.with_heads(plan.key_axis);
    let axes = if plan.decays_keys() { keys } else { plan.heads.clone() };
    let mut sum = None;
    for factor in &plan.decay {
        let exponent = plan.forms.exponent(factor);
        let value = split.product(
            edit,
            std::slice::from_ref(exponent.as_ref().unwrap_or(factor)),
            &axes,
        )?;
        let Some(value) = value else { continue };
        let log = match exponent {
            Some(_) => value,
            None => logarithm(edit, split, value, guards)?,
        };
        sum = Some(match sum {
            None => log,
            Some(sum) => edit.insert(Op::new(OpType::Add, &[sum, log])),
        });
    }
    sum.map(|sum| split.full(edit, sum, &axes)).transpose()
}

fn logarithm(
    edit: &mut Patch<'_, '_>,
    split: &Split<'_>,
    value: ValueId,
    guards: &mut Vec<ValueId>,
) -> Result<ValueId> {
    let (source, _) = edit.through(value, RESHAPES);
    let exp = edit.producer(source).filter(|&node| edit.op(node) == Some(OpType::Exp));
    if let Some(x) = exp.and_then(|node| edit.input(node, 0)) {
        let shape = edit.shape(value).ok_or("a type is unknown")?.to_vec();
        let lead = shape[0].known().filter(|_| shape[0] != split.batches.steps);
        let dims = onnx::known_shape(&shape[1..]).ok_or("a size is not known")?;
        return split.reshape(edit, x, lead, &dims);
    }
    if let Some(numbers) = edit.tensor(value).and_then(Tensor::floats) {
        ensure(numbers.iter().all(|&number| number >= 0.0), "the decay may be negative")?;
        let shape = edit.tensor(value).map(|tensor| tensor.shape.clone()).unwrap_or_default();
        let logs: Vec<f64> = numbers.iter().map(|number| number.ln()).collect();
        let logs = Tensor::of_floats(DType::F32, shape, &logs).ok_or("no numbers")?;
        return Ok(edit.constant(logs, &[value]));
    }
    if edit.fact(value).may_be_negative() {
        let least = edit.insert(Op::new(OpType::ReduceMin, &[value]).attr("keepdims", 0));
        let zero = Tensor::of_floats(DType::F32, Vec::new(), &[0.0]).ok_or("no number")?;
        let zero = edit.constant(zero, &[]);
        guards.push(edit.insert(Op::new(OpType::GreaterOrEqual, &[least, zero])));
    }
    Ok(edit.insert(Op::new(OpType::Log, &[value])))
}

/// Returns the axes of the state in the order of the operator, and whether it is another one.
fn order(plan: &Plan<'_>) -> (Vec<usize>, bool) {
    let own: Vec<usize> =
        plan.heads.iter().copied().chain([plan.key_axis, plan.value_axis]).collect();
    let units = (0..plan.forms.shape.len()).filter(|axis| !own.contains(axis));
    let order: Vec<usize> = units.chain(own.iter().copied()).collect();
    let is_other = !own.is_sorted();
    (order, is_other)
}

fn count(sizes: &[i64]) -> i64 {
    sizes.iter().product()
}

/// Returns the state before the first step. `None` for zeros.
fn past(
    edit: &mut Patch<'_, '_>,
    plan: &Plan<'_>,
    split: &Split<'_>,
    initial: ValueId,
) -> Result<Option<ValueId>> {
    let repeated = edit.made_by(initial, OpType::Expand).and_then(|node| edit.input(node, 0));
    let source = repeated.unwrap_or(initial);
    let is_zero = |tensor: &Tensor| tensor.all_floats(|x| x == 0.0);
    if edit.name(source).is_none() && edit.tensor(source).is_some_and(is_zero) {
        return Ok(None);
    }
    let (order, is_other) = order(plan);
    let id = if is_other { edit.insert(transpose(initial, &order)) } else { initial };
    let sizes = [
        count(&split.sizes(&plan.heads)),
        split.sizes(&[plan.key_axis])[0],
        split.sizes(&[plan.value_axis])[0],
    ];
    let sizes = edit.integers(&[&[1], &sizes[..]].concat()).ok_or("no shape")?;
    Ok(Some(edit.insert(Op::new(OpType::Reshape, &[id, sizes]))))
}

/// Computes all results of the loop apart from those of its other states.
fn fused(
    edit: &mut Patch<'_, '_>,
    scan: &Counted,
    state: Carry,
    plan: &Plan<'_>,
    split: &mut Split<'_>,
    way: Way,
    operands: &Arrays,
) -> Result<Vec<(ValueId, ValueId)>> {
    let before: FxHashSet<ValueId> = split.batches.of.values().copied().collect();
    let (read, left) = match way {
        Way::Operator => by_operator(edit, plan, split, operands)?,
        Way::Chunks => {
            let sizes = matrices::Sizes {
                steps: split.batches.steps.clone(),
                heads: count(&split.sizes(&plan.heads)),
                keys: split.sizes(&[plan.key_axis])[0],
                values: split.sizes(&[plan.value_axis])[0],
                is_before: plan.reads_before(),
                decays_keys: plan.decays_keys(),
            };
            matrices::computed(edit, scan, state, operands, &sizes)?
        }
    };
    let axes = plan.with_heads(plan.value_axis);
    let dims = split.sizes(&axes);
    let read = match read {
        Some(read) => {
            let read = split.reshape(edit, read, None, &dims)?;
            Some(if scan.is_reverse { reversed(edit, read)? } else { read })
        }
        None => None,
    };
    for &value in &plan.results {
        let form = &plan.forms.of[&value];
        let array = evaluated(edit, plan, split, form, read)?;
        let shape = edit.shape(value).and_then(onnx::known_shape).ok_or("a size is not known")?;
        let array = split.reshape(edit, array, None, &shape)?;
        split.batches.of.insert(value, array);
    }
    let reached = scan
        .stacks
        .iter()
        .filter(|stack| !split.kept.iter().any(|(kept, _)| *kept == stack.result));
    let reached: Vec<_> = reached.map(|stack| (stack.element, stack.result)).collect();
    split.take(edit, reached.iter().map(|&(element, _)| element))?;
    let mut results = Vec::new();
    for (element, result) in reached {
        let array = split.array(element).ok_or("a result is the same in all steps")?;
        let copy =
            before.contains(&array).then(|| edit.insert(Op::new(OpType::Identity, &[array])));
        results.push((result, copy.unwrap_or(array)));
    }
    results.push((state.result, last(edit, plan, split, left)?));
    Ok(results)
}

/// Inserts the operator. Returns what each step reads, and the state after the last step.
fn by_operator(
    edit: &mut Patch<'_, '_>,
    plan: &Plan<'_>,
    split: &Split<'_>,
    operands: &Arrays,
) -> Result<(Option<ValueId>, ValueId)> {
    let heads = count(&split.sizes(&plan.heads));
    let (keys, values) = (split.sizes(&[plan.key_axis])[0], split.sizes(&[plan.value_axis])[0]);
    let Arrays { query, key, value, decay, rate, past } = *operands;
    let rule = match (decay, rate) {
        (None, None) => "linear",
        (Some(_), None) => "gated",
        (None, Some(_)) => "delta",
        (Some(_), Some(_)) => "gated_delta",
    };
    let query = query.ok_or("no query")?;
    let mut inputs = vec![Some(query), Some(key), Some(value), past, decay, rate];
    inputs.truncate(inputs.iter().rposition(Option::is_some).map_or(0, |last| last + 1));
    let op = Op { op: Operator::new(DOMAIN, NAME), inputs, attrs: Vec::new() };
    let op = op.attr("q_num_heads", heads).attr("kv_num_heads", heads);
    let op = op.attr("update_rule", rule).attr("scale", Attr::Float(1.0));
    let steps =
        edit.shape(query).and_then(|shape| shape.get(1).cloned()).ok_or("a type is unknown")?;
    let read = Type::new(DType::F32, vec![Dim::Known(1), steps, Dim::Known(heads * values)]);
    let left = Type::new(DType::F32, [1, heads, keys, values].map(Dim::Known).to_vec());
    let types = [edit.body_input(read), edit.body_input(left)];
    let made = edit.insert_instead(op, &types.map(Some));
    let read = if plan.reads_before() { without_last(edit, made[0])? } else { made[0] };
    Ok((Some(read), made[1]))
}

/// Drops the last step, which only the padding of the query reads.
fn without_last(edit: &mut Patch<'_, '_>, id: ValueId) -> Result<ValueId> {
    let [start, end, axis] = [&[0], &[-1], &[1]].map(|ints: &[i64; 1]| edit.integers(ints));
    let (Some(start), Some(end), Some(axis)) = (start, end, axis) else {
        return Err("no axes".into());
    };
    Ok(edit.insert(Op::new(OpType::Slice, &[id, start, end, axis])))
}

/// Returns the state after the last step in the shape of the loop.
fn last(
    edit: &mut Patch<'_, '_>,
    plan: &Plan<'_>,
    split: &Split<'_>,
    state: ValueId,
) -> Result<ValueId> {
    let (order, is_other) = order(plan);
    let all: Vec<usize> = (0..plan.forms.shape.len()).collect();
    let sizes = if is_other { split.sizes(&order) } else { split.sizes(&all) };
    let sizes = edit.integers(&sizes).ok_or("no shape")?;
    let shaped = edit.insert(Op::new(OpType::Reshape, &[state, sizes]));
    if !is_other {
        return Ok(shaped);
    }
    let mut inverse = vec![0; order.len()];
    order.iter().enumerate().for_each(|(place, &axis)| inverse[axis] = place);
    Ok(edit.insert(transpose(shaped, &inverse)))
}

/// Computes a sum of terms for all steps. The axes are those of the form, in its order.
fn evaluated(
    edit: &mut Patch<'_, '_>,
    plan: &Plan<'_>,
    split: &mut Split<'_>,
    form: &Form,
    read: Option<ValueId>,
) -> Result<ValueId> {
    let axes = plan.with_heads(plan.value_axis);
    let mut sum: Option<ValueId> = None;
    for term in &form.terms {
        let factors = split.product(edit, &term.factors, &axes)?;
        let read = read.filter(|_| matches!(term.of, Of::Read(_)));
        let product = match (read, factors) {
            (Some(read), None) => read,
            (Some(read), Some(factors)) => edit.insert(Op::new(OpType::Mul, &[factors, read])),
            (_, Some(factors)) => factors,
            (_, None) => ones(edit, axes.len() + 1)?,
        };
        sum = Some(match (sum, term.is_negative) {
            (None, false) => product,
            (None, true) => edit.insert(Op::new(OpType::Neg, &[product])),
            (Some(sum), false) => edit.insert(Op::new(OpType::Add, &[sum, product])),
            (Some(sum), true) => edit.insert(Op::new(OpType::Sub, &[sum, product])),
        });
    }
    let whole = sum.ok_or("an empty sum")?;
    let own: Vec<usize> = form.axes.iter().flatten().copied().collect();
    let places: Vec<usize> = own
        .iter()
        .map(|axis| axes.iter().position(|other| other == axis))
        .collect::<Option<_>>()
        .ok_or("a result has another axis")?;
    if places.is_sorted() {
        return Ok(whole);
    }
    ensure(places.len() == axes.len(), "a result has other axes")?;
    let perm: Vec<usize> = std::iter::once(0).chain(places.iter().map(|place| place + 1)).collect();
    Ok(edit.insert(transpose(whole, &perm)))
}
