//! Computes a large state that each step multiplies by a decay, in blocks of steps.
//!
//! A loop over the blocks computes for all steps of a block at once what does not depend on the state, and what the
//! results read from it. Only `h = a h + b` is left in a loop over the steps of the block. The numbers are those of the
//! original loop. The longest axis of the state becomes the last one, because operands broadcast faster along it.

use algebra::axis_map::transpose;
use algebra::rewrite::{Result, ensure};
use onnx::edit::for_each_read;
use onnx::{DType, Dim, Graph, Op, OpType, Patch, Type, ValueId};

use super::body::{Body, dims, shaped, sliced};
use super::forms::{Factor, Form, Forms, Of, Term, When};
use super::split::Split;
use crate::{Array, Carry, Counted, results_in_place};

/// The number of elements of the states of a block.
const MAX_ELEMENTS: i64 = 1 << 16;

/// A loop over a larger state stays.
const MAX_STATE: i64 = 1 << 18;

/// The number of steps of a block.
const STEPS: std::ops::RangeInclusive<i64> = 8..=64;

/// The axes of the state in the order in which the blocks compute.
struct Layout {
    /// The axes that are longer than one.
    axes: Vec<usize>,
    sizes: Vec<i64>,
    /// The position of each axis in the order of the loop.
    order: Vec<usize>,
    /// All sizes, in the order of the loop.
    shape: Vec<i64>,
}

impl Layout {
    fn of(shape: Vec<i64>) -> Layout {
        let own: Vec<usize> = (0..shape.len()).filter(|&axis| shape[axis] != 1).collect();
        let longest = (0..own.len()).max_by_key(|&place| shape[own[place]]);
        let others = (0..own.len()).filter(|&place| Some(place) != longest);
        let order: Vec<usize> = others.chain(longest).collect();
        let axes: Vec<usize> = order.iter().map(|&place| own[place]).collect();
        let sizes = axes.iter().map(|&axis| shape[axis]).collect();
        Layout { axes, sizes, order, shape }
    }

    /// Returns a state in the order of the blocks.
    fn ordered(&self, edit: &mut Patch<'_, '_>, state: ValueId) -> Result<ValueId> {
        let own: Vec<i64> = self.shape.iter().copied().filter(|&size| size != 1).collect();
        let state = if own == self.shape { state } else { shaped(edit, state, &own)? };
        if self.order.is_sorted() {
            return Ok(state);
        }
        Ok(edit.insert(transpose(state, &self.order)))
    }

    /// Returns a state, or the states of all steps if there is a leading axis, in the order of the loop.
    fn restored(
        &self,
        edit: &mut Patch<'_, '_>,
        state: ValueId,
        steps: Option<i64>,
    ) -> Result<ValueId> {
        let lead = usize::from(steps.is_some());
        let mut state = state;
        if !self.order.is_sorted() {
            let mut perm: Vec<usize> = (0..lead + self.order.len()).collect();
            for (place, &own) in self.order.iter().enumerate() {
                perm[lead + own] = lead + place;
            }
            state = edit.insert(transpose(state, &perm));
        }
        let shape: Vec<i64> = steps.into_iter().chain(self.shape.iter().copied()).collect();
        let is_same = edit.shape(state) == Some(&dims(&shape)[..]);
        if is_same { Ok(state) } else { shaped(edit, state, &shape) }
    }
}

/// Replaces the results of the loop.
pub(super) fn write(
    edit: &mut Patch<'_, '_>,
    scan: &Counted,
    carry: Carry,
    forms: &Forms<'_>,
) -> Result<Vec<(usize, ValueId)>> {
    let steps = scan.iterations.known().ok_or("the number of steps is not known")?;
    let shape = onnx::known_shape(&forms.shape).ok_or("a size of the state is not known")?;
    let size: i64 = shape.iter().product();
    ensure(size <= MAX_STATE, "the state is so large that its loop is fast")?;
    ensure(!forms.is_chosen(), "a condition chooses the update")?;
    let [decay, added] = terms(forms)?;
    ensure(
        is_computed(forms, decay) || is_computed(forms, added),
        "a step only adds to the state and multiplies it",
    )?;
    edit.fuse_bodies();
    let layout = Layout::of(shape);
    let block = block_size(steps, size);
    let (count, rest) = (steps / block, steps % block);
    let mut state = layout.ordered(edit, carry.initial)?;
    // The parts of each result, in the order in which the loop computes them.
    let mut parts: Vec<Vec<ValueId>> = vec![Vec::new(); scan.stacks.len()];
    let starts = if scan.is_reverse { [rest, 0] } else { [0, steps - rest] };
    for (length, count, start) in [(block, count, starts[0]), (rest, 1, starts[1])] {
        if length == 0 {
            continue;
        }
        let mut arrays = Vec::new();
        for array in &scan.arrays {
            arrays.push(match rest {
                0 => array.whole,
                _ => sliced(edit, array.whole, 0, start, start + length * count)?,
            });
        }
        let made = if count == 1 {
            let part = part_of(scan, carry, &arrays, state, length);
            computed(edit, &part, forms, &layout)?
        } else {
            looped(edit, scan, carry, forms, &layout, &arrays, state, [count, length])?
        };
        state = made.0;
        parts.iter_mut().zip(made.1).for_each(|(parts, part)| parts.push(part));
    }
    let mut results = vec![(carry.result, layout.restored(edit, state, None)?)];
    for (stack, mut parts) in scan.stacks.iter().zip(parts) {
        if scan.is_reverse {
            parts.reverse();
        }
        results.push((
            stack.result,
            match parts[..] {
                [part] => part,
                _ => edit.insert(Op::new(OpType::Concat, &parts).attr("axis", 0)),
            },
        ));
    }
    Ok(results_in_place(edit, results))
}

/// Returns the number of steps of a block, which divides the number of steps if possible.
fn block_size(steps: i64, size: i64) -> i64 {
    let best = (MAX_ELEMENTS / size).clamp(*STEPS.start(), *STEPS.end()).min(steps);
    let divides = |block: &i64| steps % block == 0;
    (best / 2 + 1..=best).rev().find(divides).unwrap_or(best)
}

/// Returns the decay and what a step adds.
fn terms<'f>(forms: &'f Forms<'_>) -> Result<[&'f Term; 2]> {
    let (decays, adds): (Vec<&Term>, Vec<&Term>) =
        forms.update.terms.iter().partition(|term| term.of != Of::One);
    let (&[decay], &[added]) = (&decays[..], &adds[..]) else {
        return Err("the update is not one product and one sum".into());
    };
    Ok([decay, added])
}

/// True if a step computes a factor of the state.
fn is_computed(forms: &Forms<'_>, term: &Term) -> bool {
    term.factors.len() > 1 || term.factors.iter().any(|factor| forms.exponent(factor).is_some())
}

/// Returns the loop over a part of the steps.
fn part_of(
    scan: &Counted,
    carry: Carry,
    arrays: &[ValueId],
    initial: ValueId,
    steps: i64,
) -> Counted {
    let mut part = scan.clone();
    let elements = scan.arrays.iter().map(|array| array.element);
    let arrays = arrays.iter().zip(elements);
    part.arrays = arrays.map(|(&whole, element)| Array { whole, element }).collect();
    part.carries = vec![Carry { initial, ..carry }];
    part.iterations = Dim::Known(steps);
    part
}

/// Computes several blocks by a loop.
#[expect(clippy::too_many_arguments, reason = "the loop and its parts")]
fn looped(
    edit: &mut Patch<'_, '_>,
    scan: &Counted,
    carry: Carry,
    forms: &Forms<'_>,
    layout: &Layout,
    arrays: &[ValueId],
    state: ValueId,
    [count, length]: [i64; 2],
) -> Result<(ValueId, Vec<ValueId>)> {
    let unknown = "a type is unknown";
    let (mut wholes, mut elements) = (Vec::new(), Vec::new());
    for &array in arrays {
        let ty = edit.ty(array).ok_or(unknown)?.clone();
        let rest = onnx::known_shape(&ty.shape[1..]).ok_or("a size is not known")?;
        let sizes = [&[count, length], &rest[..]].concat();
        wholes.push(shaped(edit, array, &sizes)?);
        elements.push(edit.body_input(Type::new(ty.dtype, dims(&sizes[1..]))));
    }
    let before = edit.body_input(Type::new(DType::F32, dims(&layout.sizes)));
    let part = part_of(scan, carry, &elements, before, length);
    let mut problem = None;
    let body = edit.branch(&scan.name, |edit| match computed(edit, &part, forms, layout) {
        Ok((next, stacks)) => std::iter::once(next).chain(stacks).collect(),
        Err(why) => {
            problem = Some(why);
            Vec::new()
        }
    });
    if let Some(why) = problem {
        return Err(why);
    }
    let mut results = vec![Some(edit.body_input(Type::new(DType::F32, dims(&layout.sizes))))];
    for &stack in &body.outputs[1..] {
        let ty = edit.ty(stack).ok_or(unknown)?.clone();
        let shape: Vec<Dim> =
            std::iter::once(&Dim::Known(count)).chain(&*ty.shape).cloned().collect();
        results.push(Some(edit.body_input(Type::new(ty.dtype, shape))));
    }
    let inputs = std::iter::once(before).chain(elements.iter().copied()).collect();
    let stacks = body.outputs.len() - 1;
    let operands: Vec<ValueId> = std::iter::once(state).chain(wholes.iter().copied()).collect();
    let op = Op::new(OpType::Scan, &operands).attr("body", Graph { inputs, ..body });
    let mut op = op.attr("num_scan_inputs", wholes.len() as i64);
    if scan.is_reverse {
        op = op.attr("scan_input_directions", &vec![1; wholes.len()][..]);
        op = op.attr("scan_output_directions", &vec![1; stacks][..]);
    }
    let made = edit.insert_instead(op, &results);
    let mut joined = Vec::new();
    for &stack in &made[1..] {
        let shape = edit.shape(stack).and_then(onnx::known_shape).ok_or("a size is not known")?;
        joined.push(shaped(edit, stack, &[&[count * length], &shape[2..]].concat())?);
    }
    Ok((made[0], joined))
}

/// Computes a block. Returns the state after it, and the results of its steps.
fn computed(
    edit: &mut Patch<'_, '_>,
    part: &Counted,
    forms: &Forms<'_>,
    layout: &Layout,
) -> Result<(ValueId, Vec<ValueId>)> {
    let split = &mut Split::without_rest(part);
    split.set_shape(layout.shape.clone());
    let arrays: Vec<ValueId> = part.arrays.iter().map(|array| array.whole).collect();
    let carry = part.carries[0];
    let [decay, added] = terms(forms)?;
    let decay = factor(edit, split, forms, decay, layout)?;
    let added = factor(edit, split, forms, added, layout)?;

    let mut body = Body::new(part, carry)?;
    let whole = dims(&layout.sizes);
    let [decay_shape, added_shape] =
        [decay, added].map(|id| edit.shape(id).map(|shape| shape[1..].to_vec()));
    let (Some(decay_shape), Some(added_shape)) = (decay_shape, added_shape) else {
        return Err("a type is unknown".into());
    };
    let before = body.input(edit, &whole);
    let a = body.input(edit, &decay_shape);
    let b = body.input(edit, &added_shape);
    let kept = body.node(edit, OpType::Mul, &[a, before], &whole);
    let next = body.node(edit, OpType::Add, &[kept, b], &whole);
    let needed = needed(part, forms);
    let stacks = match needed.is_empty() {
        true => Vec::new(),
        false => vec![body.node(edit, OpType::Identity, &[next], &whole)],
    };
    let made = body.insert(edit, &[(carry.initial, next)], &[decay, added], &stacks)?;
    if let Some(&states) = made.get(1) {
        let states = States { part, after: states, before: None };
        results(edit, split, forms, layout, &needed, states)?;
    }
    split.take(edit, part.stacks.iter().map(|stack| stack.element))?;
    let mut stacked = Vec::new();
    for stack in &part.stacks {
        let array = split.array(stack.element).ok_or("a result is the same in all steps")?;
        let is_used = arrays.contains(&array) || stacked.contains(&array);
        let copy = is_used.then(|| edit.insert(Op::new(OpType::Identity, &[array])));
        stacked.push(copy.unwrap_or(array));
    }
    Ok((made[0], stacked))
}

/// Returns the product of factors for all steps, in the order of the blocks.
fn factor(
    edit: &mut Patch<'_, '_>,
    split: &mut Split<'_>,
    forms: &Forms<'_>,
    term: &Term,
    layout: &Layout,
) -> Result<ValueId> {
    let mut product: Option<ValueId> = None;
    let mut plain = Vec::new();
    for factor in &term.factors {
        let Some((is_negative, factors)) = forms.factors_of_exponent(edit, factor) else {
            plain.push(factor.clone());
            continue;
        };
        let mut power = split.product(edit, &factors, &layout.axes)?.ok_or("an empty product")?;
        if is_negative {
            power = edit.insert(Op::new(OpType::Neg, &[power]));
        }
        let power = edit.insert(Op::new(OpType::Exp, &[power]));
        product = Some(match product {
            None => power,
            Some(product) => edit.insert(Op::new(OpType::Mul, &[product, power])),
        });
    }
    if let Some(plain) = split.product(edit, &plain, &layout.axes)? {
        product = Some(match product {
            None => plain,
            Some(product) => edit.insert(Op::new(OpType::Mul, &[product, plain])),
        });
    }
    let mut product = product.ok_or("the state is multiplied by one")?;
    if term.is_negative {
        product = edit.insert(Op::new(OpType::Neg, &[product]));
    }
    let steps = split.batches.steps.clone();
    match edit.shape(product).is_some_and(|shape| shape[0] == steps) {
        true => Ok(product),
        // The loop over the steps needs an array.
        false => split.full(edit, product, &layout.axes),
    }
}

/// Returns the values of the body that are linear in the state, and that results need.
fn needed(part: &Counted, forms: &Forms<'_>) -> Vec<ValueId> {
    let mut found = Vec::new();
    let mut note = |value: ValueId| {
        if forms.of.contains_key(&value) && !found.contains(&value) {
            found.push(value);
        }
    };
    for node in &part.nodes {
        if node.outputs.iter().any(|output| forms.later.contains(output)) {
            for_each_read(node, &mut note);
        }
    }
    part.stacks.iter().for_each(|stack| note(stack.element));
    found
}

/// The states of all steps of a block.
struct States<'p> {
    part: &'p Counted,
    after: ValueId,
    before: Option<ValueId>,
}

impl States<'_> {
    fn at(&mut self, edit: &mut Patch<'_, '_>, when: When) -> Result<ValueId> {
        if when == When::After {
            return Ok(self.after);
        }
        if let Some(before) = self.before {
            return Ok(before);
        }
        let initial = self.part.carries[0].initial;
        let before = super::chunks::shifted(edit, self.part, initial, self.after)?;
        self.before = Some(before);
        Ok(before)
    }
}

/// Computes the values that results need.
fn results(
    edit: &mut Patch<'_, '_>,
    split: &mut Split<'_>,
    forms: &Forms<'_>,
    layout: &Layout,
    needed: &[ValueId],
    mut states: States<'_>,
) -> Result<()> {
    let steps = states.part.iterations.known();
    for value in needed {
        let form = &forms.of[value];
        let reads = form.terms.iter().any(|term| matches!(term.of, Of::State(_)));
        if !reads {
            let array = evaluated(edit, split, forms, layout, form, &mut states)?;
            let shape = edit.shape(*value).and_then(onnx::known_shape);
            let array = split.reshape(edit, array, None, &shape.ok_or("a size is not known")?)?;
            split.batches.of.insert(*value, array);
            continue;
        }
        let carry = states.part.carries[0];
        for (value, when) in [(carry.after, When::After), (carry.before, When::Before)] {
            let is_read = form.terms.iter().any(|term| term.of == Of::State(when));
            if is_read && !split.batches.of.contains_key(&value) {
                let whole = states.at(edit, when)?;
                let whole = layout.restored(edit, whole, steps)?;
                split.batches.of.insert(value, whole);
            }
        }
    }
    Ok(())
}

/// Computes a sum of terms that read the state, for all steps.
fn evaluated(
    edit: &mut Patch<'_, '_>,
    split: &mut Split<'_>,
    forms: &Forms<'_>,
    layout: &Layout,
    form: &Form,
    states: &mut States<'_>,
) -> Result<ValueId> {
    let own: Vec<usize> = form.axes.iter().flatten().copied().collect();
    let axes: Vec<usize> = layout.axes.iter().copied().filter(|axis| own.contains(axis)).collect();
    let mut sum: Option<ValueId> = None;
    for term in &form.terms {
        let factors = split.product(edit, &term.factors, &axes)?;
        let read = match term.of {
            Of::Read(read) => {
                let read = &forms.reads[read];
                let states = states.at(edit, read.when)?;
                let read = contracted(edit, split, layout, &read.key, read.axis, states)?;
                Some(split.reshape(edit, read, None, &split.sizes(&axes))?)
            }
            _ => None,
        };
        let product = match (read, factors) {
            (Some(read), None) => read,
            (Some(read), Some(factors)) => edit.insert(Op::new(OpType::Mul, &[factors, read])),
            (None, Some(factors)) => factors,
            (None, None) => return Err("a result adds one to the state".into()),
        };
        sum = Some(match (sum, term.is_negative) {
            (None, false) => product,
            (None, true) => edit.insert(Op::new(OpType::Neg, &[product])),
            (Some(sum), false) => edit.insert(Op::new(OpType::Add, &[sum, product])),
            (Some(sum), true) => edit.insert(Op::new(OpType::Sub, &[sum, product])),
        });
    }
    let sum = sum.ok_or("an empty sum")?;
    let places = own.iter().map(|axis| axes.iter().position(|other| other == axis));
    let places: Vec<usize> = places.collect::<Option<_>>().ok_or("a result has another axis")?;
    if places.is_sorted() {
        return Ok(sum);
    }
    let perm: Vec<usize> = std::iter::once(0).chain(places.iter().map(|place| place + 1)).collect();
    Ok(edit.insert(transpose(sum, &perm)))
}

/// Returns the sum of the product of the states and a key over an axis.
fn contracted(
    edit: &mut Patch<'_, '_>,
    split: &mut Split<'_>,
    layout: &Layout,
    key: &[Factor],
    axis: usize,
    states: ValueId,
) -> Result<ValueId> {
    let place = layout.axes.iter().position(|&other| other == axis).ok_or("another axis")?;
    let rank = layout.axes.len();
    let key = split.product(edit, key, &layout.axes)?;
    if let Some(key) = key {
        let shape = edit.shape(key).ok_or("a type is unknown")?.to_vec();
        let lead = &shape[..rank - 1];
        let is_row = rank >= 2 && place + 2 == rank && shape[rank].is(1);
        let is_column = rank >= 2 && place + 1 == rank && shape[rank - 1].is(1);
        if is_row || is_column {
            let lead = onnx::known_shape(lead).ok_or("a size is not known")?;
            let size = layout.sizes[place];
            let sizes = if is_row { [1, size] } else { [size, 1] };
            let key = shaped(edit, key, &[&lead[..], &sizes].concat())?;
            let operands = if is_row { [key, states] } else { [states, key] };
            return Ok(edit.insert(Op::new(OpType::MatMul, &operands)));
        }
    }
    let product = match key {
        Some(key) => edit.insert(Op::new(OpType::Mul, &[key, states])),
        None => states,
    };
    let axes = edit.integers(&[place as i64 + 1]).ok_or("no axes")?;
    Ok(edit.insert(Op::new(OpType::ReduceSum, &[product, axes]).attr("keepdims", 0)))
}
