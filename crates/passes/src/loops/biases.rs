//! Adds the biases of products to the inputs of the steps, before the loop.
//!
//! In `h·U + x·W + b`, the sum `x·W + b` is computed for all steps at once. What stays in a step is a product and one sum,
//! which ONNX Runtime computes as one node together with the activation that follows.

use onnx::edit::for_each_read;
use onnx::{Node, OpType, Patch, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::batches::Batches;

/// A bias of at most this magnitude does not change which sums overflow: it is far below the rounding of the largest
/// number.
const MAX_BIAS: f64 = (1u64 << 60) as f64;

/// Moves each bias that is added to a product and to an input of the step. The sum has another order, so its rounding
/// may differ by as much as that of the product.
pub(super) fn move_out(
    edit: &mut Patch<'_, '_>,
    batches: &mut Batches,
    kept: &mut Vec<Node>,
    results: &FxHashSet<ValueId>,
) {
    let mut reads: FxHashMap<ValueId, usize> = results.iter().map(|&id| (id, 1)).collect();
    for node in kept.iter() {
        for_each_read(node, &mut |id| *reads.entry(id).or_default() += 1);
    }
    let mut dropped = FxHashSet::default();
    for place in 0..kept.len() {
        let Some(sum) = find(edit, batches, kept, place) else { continue };
        let inner = kept[sum.inner].outputs[0];
        if dropped.contains(&sum.inner) || reads.get(&inner) != Some(&1) {
            continue;
        }
        let Some(ty) = edit.ty(sum.element).cloned() else { continue };
        let element = edit.body_input(ty);
        let mut outside = kept[place].clone();
        outside.inputs = [Some(sum.element), Some(sum.bias)].into_iter().collect();
        outside.outputs = [element].into_iter().collect();
        if batches.take(edit, &outside).is_none() {
            continue;
        }
        let outputs = kept[place].outputs.clone();
        let mut inside = kept[sum.inner].clone();
        inside.inputs = [Some(sum.product), Some(element)].into_iter().collect();
        inside.outputs = outputs;
        kept[place] = inside;
        dropped.insert(sum.inner);
    }
    let mut place = 0;
    kept.retain(|_| {
        place += 1;
        !dropped.contains(&(place - 1))
    });
}

/// The sum of a product, an input of the step and a bias.
struct Sum {
    product: ValueId,
    element: ValueId,
    bias: ValueId,
    /// The index of the sum of two of them.
    inner: usize,
}

fn find(edit: &Patch<'_, '_>, batches: &Batches, kept: &[Node], place: usize) -> Option<Sum> {
    let maker = |value: ValueId| kept[..place].iter().rposition(|node| node.outputs[..] == [value]);
    let operands = |node: &Node| match node.inputs[..] {
        [Some(a), Some(b)] if node.op == OpType::Add => Some([(a, b), (b, a)]),
        _ => None,
    };
    let ty = edit.ty(*kept[place].outputs.first()?)?;
    let is_element = |value: ValueId| batches.of.contains_key(&value) && edit.ty(value) == Some(ty);
    let is_bias =
        |value: ValueId| edit.tensor(value).is_some_and(|bias| bias.max_magnitude() <= MAX_BIAS);
    let is_product =
        |value: ValueId| maker(value).is_some_and(|place| kept[place].op == OpType::MatMul);
    let pairs = operands(&kept[place])?.into_iter().filter_map(|(sum, other)| {
        let inner = maker(sum).filter(|_| edit.ty(sum) == Some(ty))?;
        Some((inner, other, operands(&kept[inner])?))
    });
    pairs.into_iter().find_map(|(inner, other, operands)| {
        operands.into_iter().find_map(|(product, own)| {
            let (element, bias) = match () {
                () if is_element(other) && is_bias(own) => (other, own),
                () if is_element(own) && is_bias(other) => (own, other),
                () => return None,
            };
            is_product(product).then_some(Sum { product, element, bias, inner })
        })
    })
}
