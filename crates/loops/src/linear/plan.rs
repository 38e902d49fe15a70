//! Reads the update of a state as the operands of `LinearAttention`.

use algebra::rewrite::{Declined, Result, ensure};
use onnx::ValueId;

use super::forms::{Factor, Forms, Of, Term, When};
use crate::Counted;

/// The operands of the operator, or of the computation in chunks, as factors.
pub(super) struct Plan<'l> {
    pub forms: Forms<'l>,
    /// The axes of the state: heads, keys, values.
    pub heads: Vec<usize>,
    pub key_axis: usize,
    pub value_axis: usize,
    pub decay: Vec<Factor>,
    pub key: Vec<Factor>,
    pub value: Vec<Factor>,
    pub is_negative: bool,
    /// The rate of a delta rule.
    pub rate: Option<Vec<Factor>>,
    pub query: Option<(When, Vec<Factor>)>,
    /// The values that are computed after the loop from reads of the state.
    pub results: Vec<ValueId>,
}

impl<'l> Plan<'l> {
    pub(super) fn of(scan: &Counted, forms: Forms<'l>) -> Result<Plan<'l>> {
        ensure(!forms.is_chosen(), "a condition chooses the update")?;
        let results = results(scan, &forms)?;
        let read = |value: &ValueId| {
            forms.of[value].terms.iter().filter_map(|term| match term.of {
                Of::Read(read) => Some(read),
                _ => None,
            })
        };
        let mut queries: Vec<usize> = results.iter().flat_map(read).collect();
        queries.sort_unstable();
        queries.dedup_by(|a, b| {
            let (a, b) = (&forms.reads[*a], &forms.reads[*b]);
            a.when == b.when && a.axis == b.axis && a.key == b.key
        });
        ensure(queries.len() <= 1, "a step reads the state more than once")?;
        let query = queries.first().map(|&read| forms.reads[read].clone());

        let of = |kind: fn(Of) -> bool| -> Vec<&Term> {
            forms.update.terms.iter().filter(|term| kind(term.of)).collect()
        };
        let states = of(|of| of == Of::State(When::Before));
        let adds = of(|of| of == Of::One);
        let corrections = of(|of| matches!(of, Of::Read(_)));
        let [kept] = states[..] else { return Err("the state is not kept by one decay".into()) };
        let [added] = adds[..] else { return Err("the update is not one outer product".into()) };
        let (kept, added) = (kept.clone(), added.clone());
        ensure(corrections.len() <= 1, "the update reads the state more than once")?;
        ensure(!kept.is_negative, "the decay may be negative")?;
        let correction = corrections.first().and_then(|term| match term.of {
            Of::Read(read) => Some((Term::clone(term), forms.reads[read].clone())),
            _ => None,
        });
        let read_axes = query.iter().map(|read| read.axis);
        let read_axes = read_axes.chain(correction.iter().map(|(_, read)| read.axis));
        let axes: Vec<usize> =
            (0..forms.shape.len()).filter(|&axis| !forms.shape[axis].is(1)).collect();
        let key_axis = read_axes.clone().next().or_else(|| axes.iter().rev().nth(1).copied());
        let key_axis = key_axis.ok_or("the state is not a matrix")?;
        ensure(
            read_axes.clone().all(|axis| axis == key_axis),
            "a step reads both axes of the state",
        )?;
        let is_key = |factor: &Factor| factor.spans(key_axis);
        let (key, value): (Vec<Factor>, Vec<Factor>) =
            added.factors.iter().cloned().partition(|factor| is_key(factor));
        let is_value = |&&axis: &&usize| axis != key_axis && !key.iter().any(|k| k.spans(axis));
        let value_axis =
            *axes.iter().rev().find(is_value).ok_or("the update is not an outer product")?;
        ensure_apart(&kept.factors, [key_axis, value_axis])?;
        let decays_values = kept.factors.iter().any(|factor| factor.spans(value_axis));
        ensure(!decays_values, "the decay differs between the values")?;
        ensure(!key.is_empty(), "the update has no key")?;

        let mut plan = Plan {
            heads: axes
                .iter()
                .copied()
                .filter(|&axis| axis != key_axis && axis != value_axis)
                .collect(),
            key_axis,
            value_axis,
            decay: kept.factors,
            is_negative: added.is_negative,
            rate: None,
            query: query.map(|read| (read.when, read.key)),
            results,
            key,
            value,
            forms,
        };
        if let Some((term, read)) = correction {
            plan.take_delta(&term, read.when, &read.key)?;
        }
        Ok(plan)
    }

    /// Reads the correction of a delta rule: `−β k (kᵀ S)`, where `S` has decayed.
    fn take_delta(&mut self, term: &Term, when: When, key: &[Factor]) -> Result<()> {
        ensure(term.is_negative && !self.is_negative, "the update is not a delta rule")?;
        ensure(when == When::Before, "the update is not a delta rule")?;
        let is_key = |factor: &Factor| factor.spans(self.key_axis);
        let (decay_of_keys, decay_of_heads): (Vec<Factor>, Vec<Factor>) =
            self.decay.iter().cloned().partition(|factor| is_key(factor));
        let not_a_delta = "the update reads the state before it decays";
        let retrieved = without(key, &decay_of_keys).map_err(|_| Declined(not_a_delta.into()))?;
        let outer =
            without(&term.factors, &decay_of_heads).map_err(|_| Declined(not_a_delta.into()))?;
        let is_same = |a: &[Factor], b: &[Factor]| {
            a.len() == b.len() && without(a, b).is_ok_and(|rest| rest.is_empty())
        };
        let (keys, rate): (Vec<Factor>, Vec<Factor>) =
            outer.into_iter().partition(|factor| is_key(factor));
        ensure(
            is_same(&retrieved, &self.key) && is_same(&keys, &self.key),
            "the update reads the state with another key",
        )?;
        ensure(
            !rate.iter().any(|factor| factor.spans(self.value_axis)),
            "the rate of the delta rule differs between the values",
        )?;
        self.value = without(&self.value, &rate)?;
        self.rate = Some(rate);
        Ok(())
    }

    /// True if the decay differs between keys.
    pub(super) fn decays_keys(&self) -> bool {
        self.decay.iter().any(|factor| factor.spans(self.key_axis))
    }

    /// True if results read the state before the update of their step.
    pub(super) fn reads_before(&self) -> bool {
        matches!(self.query, Some((When::Before, _)))
    }

    pub(super) fn with_heads(&self, axis: usize) -> Vec<usize> {
        self.heads.iter().copied().chain([axis]).collect()
    }
}

/// Returns the values, computed from the state, that results of the loop need.
fn results(scan: &Counted, forms: &Forms<'_>) -> Result<Vec<ValueId>> {
    let mut found = Vec::new();
    let later =
        scan.nodes.iter().filter(|node| node.outputs.iter().any(|id| forms.later.contains(id)));
    let read = later.flat_map(|node| node.inputs.iter().flatten().copied());
    let stacked = scan.stacks.iter().map(|stack| stack.element);
    for value in read.chain(stacked) {
        let Some(form) = forms.of.get(&value) else { continue };
        if form.terms.iter().any(|term| matches!(term.of, Of::State(_))) {
            let reader = forms.other_reader.map(|node| node.op.name());
            let why = reader.map_or_else(
                || "the state of each step is a result".to_owned(),
                |name| format!("`{name}` reads the state"),
            );
            return Err(Declined(why));
        }
        if !found.contains(&value) {
            found.push(value);
        }
    }
    Ok(found)
}

/// Returns the factors of a product that are not factors of another product. Declines if a factor of the other one is
/// missing.
fn without(product: &[Factor], divisor: &[Factor]) -> Result<Vec<Factor>> {
    let mut rest = product.to_vec();
    for factor in divisor {
        let place = rest.iter().position(|other| other == factor);
        let place = place.ok_or("the update is not a delta rule")?;
        rest.swap_remove(place);
    }
    Ok(rest)
}

/// Declines a factor that has two axes.
fn ensure_apart(factors: &[Factor], [a, b]: [usize; 2]) -> Result<()> {
    let spans_both = |factor: &Factor| factor.spans(a) && factor.spans(b);
    ensure(!factors.iter().any(spans_both), "a factor of the update is a whole matrix")
}
