//! Computes sums of products for all steps.

use algebra::rewrite::Result;
use onnx::{Op, OpType, Patch, ValueId};

use super::body::filled;
use super::forms::{Axes, Factor, Term};
use super::split::Split;

/// Inserts a sum of products as an array over steps and axes.
pub(super) fn sum(
    edit: &mut Patch<'_, '_>,
    split: &mut Split<'_>,
    terms: &[&Term],
    axes: &[usize],
) -> Result<ValueId> {
    let mut factors = terms.iter().flat_map(|term| &term.factors);
    if let Some(Factor::Mask { id, axes: own, .. }) =
        factors.find(|factor| matches!(factor, Factor::Mask { .. }))
    {
        return selected(edit, split, terms, axes, (*id, own));
    }
    let mut sum: Option<ValueId> = None;
    for term in terms {
        let product = match split.product(edit, &term.factors, axes)? {
            Some(product) => Ok(product),
            None => filled(edit, &vec![1; axes.len() + 1], 1.0),
        }?;
        sum = Some(match (sum, term.is_negative) {
            (None, false) => product,
            (None, true) => edit.insert(Op::new(OpType::Neg, &[product])),
            (Some(sum), false) => edit.insert(Op::new(OpType::Add, &[sum, product])),
            (Some(sum), true) => edit.insert(Op::new(OpType::Sub, &[sum, product])),
        });
    }
    match sum {
        Some(sum) => Ok(sum),
        None => filled(edit, &vec![1; axes.len() + 1], 0.0),
    }
}

/// Inserts a sum of products, some of which a condition selects.
fn selected(
    edit: &mut Patch<'_, '_>,
    split: &mut Split<'_>,
    terms: &[&Term],
    axes: &[usize],
    (id, own): (ValueId, &Axes),
) -> Result<ValueId> {
    let mut rest = terms.to_vec();
    let mut operands = vec![split.all_steps(edit, id, own, axes)?];
    for is_negated in [false, true] {
        let mask = Factor::Mask { id, axes: own.clone(), is_negated };
        let (chosen, others): (Vec<&Term>, Vec<&Term>) =
            rest.into_iter().partition(|term| term.factors.contains(&mask));
        let unmasked = |term: &Term| Term {
            factors: term.factors.iter().filter(|factor| **factor != mask).cloned().collect(),
            ..term.clone()
        };
        let chosen: Vec<Term> = chosen.into_iter().map(unmasked).collect();
        operands.push(sum(edit, split, &chosen.iter().collect::<Vec<_>>(), axes)?);
        rest = others;
    }
    let selected = edit.insert(Op::new(OpType::Where, &operands));
    if rest.is_empty() {
        return Ok(selected);
    }
    let rest = sum(edit, split, &rest, axes)?;
    Ok(edit.insert(Op::new(OpType::Add, &[selected, rest])))
}
