//! `Attention`: `softmax(scale · q·kᵀ, masked) · v`, with an optional limit of the scores by a hyperbolic tangent.
//!
//! ONNX Runtime's kernel takes `q`, `k` and `v` with the heads side by side, as the projections compute them, and
//! needs no transposes around the two products. If the heads are on an axis of their own, it takes them that way too.
//!
//! The kernel treats masks differently from JAX, so not every mask can be fused:
//! * The kernel adds a number that absorbs the score. A choice in JAX replaces the score instead. Both are the same
//!   if all kept scores are far above the number that replaces masked scores. A limit of the scores follows from
//!   norms, the weights of projections and soft caps. Numbers below −10³⁸ are below every score. The kernel does not
//!   absorb NaN and infinity: they spread over their row, while a choice in JAX removes them. So a choice is fused
//!   only if NaN need not be exact, or if NaN reaches the result anyway ([`spread`]).
//! * The kernel returns zeros for a row that contains only −∞ or the lowest number. For a row of another finite
//!   number, both JAX and the kernel return the mean of `v`. For −∞, JAX returns NaN, so such a mask is fused only if
//!   it leaves a score in each row. If the program sets the weights of masked scores to zero, as Keras does, flags or
//!   −∞ have the same result.
//! * The kernel computes each head in one thread, so a single head is not fused.

mod choice;
mod mask;
mod spread;
mod stack;

use algebra::axis_map::{AxisMap, emit_after};
use algebra::rewrite::{self, Result, ensure, require};
use algebra::sizes::adds_leading_axes;
use onnx::kernels::Limit;
use onnx::{Attr, DType, Dim, Edit, Op, OpType, Patch, ValueId};

use crate::layout_ops::is_layout_op;
use crate::layout_ops::products::{Side, following, side};
use choice::Choice;
use mask::Prepared;
use stack::Stack;

/// If a row contains no larger number than this, the kernel treats the whole row as masked.
const LOWEST: f64 = -3e38;

/// The maximum number of nodes between the first product and the softmax.
const MAX_LINKS: usize = 8;

/// The maximum number of masks in a sum.
const MAX_TERMS: usize = 4;

/// The stages of the fusion.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Before products are oriented: fuses only if no transposes are needed, or if a product can absorb them.
    Plain,
    /// After layout ops are merged: fuses if that needs no more layout ops than the separate nodes.
    Any,
}

pub(crate) fn run(edit: &mut Edit<'_>, stage: Stage) {
    for index in 0..edit.len() {
        let node = edit.node(index);
        if node.op != OpType::MatMul {
            continue;
        }
        let Some(found) =
            [false, true].into_iter().find_map(|is_transposed| find(edit, index, is_transposed))
        else {
            continue;
        };
        let end = found.after.last().copied().unwrap_or(index);
        edit.patch(end, |patch| {
            let made = fuse(patch, &found, stage);
            // A later stage tries the declined cases again.
            (stage == Stage::Any || made.is_ok()).then(|| patch.settle(made))?
        });
    }
}

/// The parts of an attention in the graph.
struct Attention {
    /// Each with the batch axes, a row and a depth axis. `k` and `v` may have a unit axis that all heads share.
    q: Side,
    k: Side,
    v: Side,
    scale: f64,
    /// The limit of scores: `cap · tanh(score / cap)`.
    cap: Option<f64>,
    /// The masks in the order in which they are applied, each with the map from the scores to the mask's position in
    /// the chain.
    masks: Vec<(Mask, AxisMap)>,
    /// True if the weights of masked scores are zero, even in a row that is masked completely.
    is_zeroed: bool,
    /// The shape of the scores: the batch, row and column.
    shape: Vec<Dim>,
    /// The map from the result, with the batch, row and depth axes, to the end of the chain.
    result: AxisMap,
    value_depth: Dim,
    /// The array that `q`, `k` and `v` are picked from.
    stack: Option<Stack>,
    /// The second product, and the layout ops after it.
    index: usize,
    after: Vec<usize>,
    /// All other nodes.
    fused: Vec<usize>,
}

#[derive(Clone, Copy)]
enum Mask {
    /// Adds a bias to the scores, or subtracts it.
    Added { bias: ValueId, is_subtracted: bool },
    /// Keeps the scores whose flag equals `keeps`. Replaces the others by `otherwise`, or adds it to them if
    /// `is_bias`.
    Chosen { flags: ValueId, keeps: bool, otherwise: f64, is_bias: bool },
}

/// Finds the attention whose second product is this node. If `is_transposed`, the node computes the transposed
/// product.
fn find(edit: &Edit<'_>, index: usize, is_transposed: bool) -> Option<Attention> {
    let [weights, v] = sides(edit, index, is_transposed)?;
    let zeroed = Selected::of(edit, weights.source);
    let softmax = read_once(edit, zeroed.as_ref().map_or(weights.source, |zeroed| zeroed.array))?;
    let axis = softmax_axis(edit, softmax)?;
    let scores = Scores::of(edit, edit.input(softmax, 0)?, MAX_LINKS)?;
    let mut shape = edit.result_ty(scores.first)?.shape.to_vec();
    let (row, column) = (shape.len().checked_sub(2)?, shape.len() - 1);
    let to_softmax = scores.map(edit, AxisMap::identity(&shape), scores.links.len())?;
    let first_is_transposed = to_softmax.keeps_axis(row, axis);
    require(first_is_transposed || to_softmax.keeps_axis(column, axis))?;
    let [q, k] = sides(edit, scores.first, first_is_transposed)?;
    let k = k.transposed()?;
    let mut start = AxisMap::identity(&shape);
    if first_is_transposed {
        shape.swap(row, column);
        start = AxisMap::identity(&shape).with_last_axes_swapped()?;
    }
    let to_softmax = scores.map(edit, start.clone(), scores.links.len())?;
    let mut masks = Vec::with_capacity(scores.masks.len());
    for (mask, before) in &scores.masks {
        masks.push((*mask, scores.map(edit, start.clone(), *before + 1)?));
    }
    require(zeroed.as_ref().is_none_or(|zeroed| zeroed.is_by_mask(&masks, &to_softmax)))?;
    let whole = to_softmax.then(&weights.map)?;
    let second_rank = weights.map.shape_after()?.len();
    require(whole.keeps_axis(column, second_rank - 1))?;

    let value_depth = v.map.shape_after()?.last()?.clone();
    let after = following(edit, index);
    let mut result =
        whole.clone().without_axis(column, second_rank - 1)?.with_last_axis(&value_depth);
    if is_transposed {
        result = result.with_last_axes_swapped()?;
    }
    let result = after.iter().try_fold(result, |map, &link| map.then_node(edit, link))?;
    let batch = &shape[..row];
    let (q, k) = (padded(q, batch)?, padded(k, batch)?);
    let v = value_like_scores(v, whole, &value_depth)?;

    let mut fused = [&weights.links[..], &scores.links, &[softmax, scores.first]].concat();
    let mut scale = scores.scale;
    let q = unscaled(edit, q, &mut scale);
    let k = unscaled(edit, k, &mut scale);
    fused.extend(&scores.passed);
    fused.extend(zeroed.iter().map(|zeroed| zeroed.node));
    let stack = Stack::of(edit, [&q, &k, &v]);
    Some(Attention {
        q,
        k,
        v,
        scale,
        cap: scores.cap,
        masks,
        is_zeroed: zeroed.is_some(),
        shape,
        result,
        value_depth,
        stack,
        index,
        after,
        fused,
    })
}

/// Returns the sides of a product, or of its transpose.
fn sides(edit: &Edit<'_>, index: usize, is_transposed: bool) -> Option<[Side; 2]> {
    let (left, right) = (side(edit, index, 0)?, side(edit, index, 1)?);
    if is_transposed {
        return Some([right.transposed()?, left.transposed()?]);
    }
    Some([left, right])
}

/// Adds leading unit axes to a side, so that it has the rank of the product.
fn padded(mut side: Side, batch: &[Dim]) -> Option<Side> {
    let own = side.map.shape_after()?;
    let missing = (batch.len() + 2).checked_sub(own.len())?;
    if missing > 0 {
        let shape = [&vec![Dim::Known(1); missing][..], &own].concat();
        side.map = side.map.reshaped(&shape)?;
    }
    Some(side)
}

/// Returns `v` with its batch axes in the order of the scores. `whole` maps the scores to the left side of the second
/// product.
fn value_like_scores(v: Side, whole: AxisMap, depth: &Dim) -> Option<Side> {
    let (product, scores) = (whole.shape_after()?, whole.rank_before());
    let batch = &product[..product.len() - 2];
    let mut v = padded(v, batch)?;
    let own = v.map.shape_after()?;
    let mut back = whole.inverse().without_axis(product.len() - 2, scores - 2)?;
    for (axis, (own, all)) in own.iter().zip(batch).enumerate() {
        if own.is(1) && !all.is(1) {
            back = back.with_unit_axis(axis)?;
        }
    }
    v.map = v.map.then(&back.with_last_axis(depth))?;
    Some(v)
}

/// Returns the producer of a value, if the value has one reader.
fn read_once(edit: &Edit<'_>, value: ValueId) -> Option<usize> {
    edit.producer(value).filter(|&node| edit.reads(value) == 1 && edit.node(node).op.is_onnx())
}

fn softmax_axis(edit: &Edit<'_>, node: usize) -> Option<usize> {
    edit.axis(node).filter(|_| edit.node(node).op == OpType::Softmax)
}

/// A `Where` that keeps the numbers of an array whose flag equals `keeps`, and replaces the others by a number.
struct Selected {
    node: usize,
    array: ValueId,
    flags: ValueId,
    keeps: bool,
    otherwise: f64,
}

impl Selected {
    fn at(edit: &Edit<'_>, node: usize) -> Option<Selected> {
        require(edit.node(node).op == OpType::Where)?;
        let [flags, a, b] = [0, 1, 2].map(|operand| edit.input(node, operand));
        let (flags, a, b) = (flags?, a?, b?);
        let (array, keeps, otherwise) = match (edit.number(a), edit.number(b)) {
            (None, Some(otherwise)) => (a, true, otherwise),
            (Some(otherwise), None) => (b, false, otherwise),
            _ => return None,
        };
        Some(Selected { node, array, flags, keeps, otherwise })
    }

    /// Returns the choice that computes weights, if it sets the others to zero.
    fn of(edit: &Edit<'_>, value: ValueId) -> Option<Selected> {
        let zeroed = Selected::at(edit, read_once(edit, value)?)?;
        let has_shape = edit.ty(zeroed.array)? == edit.ty(value)?;
        (has_shape && zeroed.otherwise == 0.0).then_some(zeroed)
    }

    /// True if exactly the masked scores get zero weights. `to_softmax` maps the scores to the softmax.
    fn is_by_mask(&self, masks: &[(Mask, AxisMap)], to_softmax: &AxisMap) -> bool {
        let is_added = |(mask, _): &(Mask, AxisMap)| matches!(mask, Mask::Added { .. });
        let [before @ .., (Mask::Chosen { flags, keeps, .. }, map)] = masks else { return false };
        let is_last = before.iter().all(is_added) && map == to_softmax;
        is_last && (*flags, *keeps) == (self.flags, self.keeps)
    }
}

/// The chain of nodes between the first product and the softmax.
struct Scores {
    first: usize,
    scale: f64,
    cap: Option<f64>,
    /// Each mask with the number of links before it.
    masks: Vec<(Mask, usize)>,
    /// The nodes of the chain in topological order.
    links: Vec<usize>,
    /// The nodes that compute the masks from flags.
    passed: Vec<usize>,
}

impl Scores {
    fn of(edit: &Edit<'_>, value: ValueId, most: usize) -> Option<Scores> {
        let node = read_once(edit, value).filter(|_| most > 0)?;
        if edit.node(node).op == OpType::MatMul {
            let (masks, links, passed) = (Vec::new(), Vec::new(), Vec::new());
            return Some(Scores { first: node, scale: 1.0, cap: None, masks, links, passed });
        }
        let mut scores = if is_layout_op(edit, node) {
            Scores::of(edit, edit.input(node, 0)?, most - 1)?
        } else if let Some(scaled) = scaled(edit, value) {
            let tanh = read_once(edit, scaled.source)
                .filter(|&node| edit.node(node).op == OpType::Tanh && scaled.factor > 0.0);
            let source = tanh.map_or(Some(scaled.source), |tanh| edit.input(tanh, 0))?;
            let mut scores = Scores::of(edit, source, most - 1)?;
            // The kernel scales before it limits, and limits before it masks.
            require(scores.cap.is_none() && scores.masks.is_empty())?;
            scores.scale *= scaled.factor;
            scores.cap = tanh.map(|_| scaled.factor);
            scores.links.extend(tanh);
            scores
        } else {
            masked(edit, node).into_iter().find_map(|(source, bias)| {
                let mut scores = Scores::of(edit, source, most - 1)?;
                let before = scores.links.len();
                scores.masks.extend(bias.masks.into_iter().map(|mask| (mask, before)));
                scores.passed.extend(bias.nodes);
                Some(scores)
            })?
        };
        scores.links.push(node);
        Some(scores)
    }

    /// Returns the map of the first `count` links.
    fn map(&self, edit: &Edit<'_>, start: AxisMap, count: usize) -> Option<AxisMap> {
        self.links[..count].iter().try_fold(start, |map, &link| {
            if is_layout_op(edit, link) {
                return map.then_node(edit, link);
            }
            // A mask may have more axes than the scores.
            let shape = &edit.result_ty(link)?.shape;
            if shape.len() > map.rank_after() { map.reshaped(shape) } else { Some(map) }
        })
    }
}

/// Returns the operands that may be the scores that a node masks, each with its mask.
fn masked(edit: &Edit<'_>, node: usize) -> Vec<(ValueId, Bias)> {
    // Leading unit axes make no difference.
    let has_shape = |other: &ValueId| {
        let shapes = edit.shape(*other).zip(edit.shape(edit.result(node)));
        shapes.is_some_and(|(narrow, wide)| adds_leading_axes(narrow, wide))
    };
    let operands: Vec<ValueId> = (0..3).map_while(|operand| edit.input(node, operand)).collect();
    let found = match (edit.op(node), &operands[..]) {
        (Some(OpType::Where), _) => {
            let chosen = |Selected { array, flags, keeps, otherwise, .. }| {
                let mask = Mask::Chosen { flags, keeps, otherwise, is_bias: false };
                (array, Bias { masks: vec![mask], nodes: Vec::new() })
            };
            Selected::at(edit, node).map(chosen).into_iter().collect()
        }
        (Some(OpType::Add), &[a, b]) => {
            vec![(a, Bias::of(edit, b, MAX_TERMS)), (b, Bias::of(edit, a, MAX_TERMS))]
        }
        (Some(OpType::Sub), &[a, b]) => vec![(a, Bias::added(b, true))],
        _ => Vec::new(),
    };
    found.into_iter().filter(|(scores, _)| has_shape(scores)).collect()
}

/// The masks of an array that is added to the scores, and the nodes that compute the array from them.
struct Bias {
    masks: Vec<Mask>,
    nodes: Vec<usize>,
}

impl Bias {
    fn added(bias: ValueId, is_subtracted: bool) -> Bias {
        Bias { masks: vec![Mask::Added { bias, is_subtracted }], nodes: Vec::new() }
    }

    /// Splits a sum if one of its terms is a mask by flags.
    fn of(edit: &Edit<'_>, value: ValueId, most: usize) -> Bias {
        if let Some(mask) = chosen_bias(edit, value) {
            return Bias { masks: vec![mask], nodes: edit.producer(value).into_iter().collect() };
        }
        let sum = edit.made_by(value, OpType::Add);
        let terms = sum.filter(|_| most > 1).and_then(|sum| {
            let term = |operand| Some(Bias::of(edit, edit.input(sum, operand)?, most - 1));
            let (a, b) = (term(0)?, term(1)?);
            let (masks, nodes) = ([a.masks, b.masks].concat(), [a.nodes, b.nodes].concat());
            let has_flags = masks.iter().any(|mask| matches!(mask, Mask::Chosen { .. }));
            has_flags.then(|| Bias { masks, nodes: [&nodes[..], &[sum]].concat() })
        });
        terms.unwrap_or_else(|| Bias::added(value, false))
    }
}

/// Returns a bias as a mask by flags, if each of its numbers is either zero or the lowest number.
fn chosen_bias(edit: &Edit<'_>, bias: ValueId) -> Option<Mask> {
    let node = edit.made_by(bias, OpType::Where)?;
    let number = |operand| edit.number(edit.input(node, operand)?);
    let (keeps, otherwise) = match (number(1)?, number(2)?) {
        (0.0, otherwise) => (true, otherwise),
        (otherwise, 0.0) => (false, otherwise),
        _ => return None,
    };
    let flags = edit.input(node, 0)?;
    let has_all_axes = edit.ty(flags)?.shape == edit.ty(bias)?.shape;
    let mask = Mask::Chosen { flags, keeps, otherwise, is_bias: true };
    (otherwise <= LOWEST && has_all_axes).then_some(mask)
}

/// `x · number` or `x / number`.
struct Scaled {
    node: usize,
    factor: f64,
    /// The other operand, and its position.
    source: ValueId,
    operand: usize,
}

/// Reads a value as another one times a number. `None` if the value has several readers, or if the product
/// broadcasts.
fn scaled(edit: &Edit<'_>, value: ValueId) -> Option<Scaled> {
    let node = read_once(edit, value)?;
    let number = |operand| edit.number(edit.input(node, operand)?);
    let (operand, factor) = match (edit.op(node), number(0), number(1)) {
        (Some(OpType::Mul), None, Some(number)) => (0, number),
        (Some(OpType::Mul), Some(number), None) => (1, number),
        (Some(OpType::Div), None, Some(number)) => (0, 1.0 / number),
        _ => return None,
    };
    let source = edit.input(node, operand)?;
    (edit.ty(source)? == edit.ty(value)?).then_some(Scaled { node, factor, source, operand })
}

/// Removes a scale from a side and multiplies `scale` by it.
fn unscaled(edit: &Edit<'_>, side_of_product: Side, scale: &mut f64) -> Side {
    let bare = || {
        let scaled = scaled(edit, side_of_product.source)?;
        let mut inner = side(edit, scaled.node, scaled.operand)?;
        inner.map = inner.map.then(&side_of_product.map)?;
        inner.links = [&side_of_product.links[..], &[scaled.node], &inner.links].concat();
        Some((inner, scaled.factor))
    };
    let Some((inner, factor)) = bare() else { return side_of_product };
    *scale *= factor;
    inner
}

/// Returns the cheapest layout for which the mask can be prepared too.
fn chosen(edit: &Edit<'_>, found: &Attention, stage: Stage) -> Result<(Choice, Prepared)> {
    let mut first = None;
    for choice in Choice::all(edit, found, stage)? {
        match Prepared::of(edit, found, &choice.view) {
            Ok(mask) => return Ok((choice, mask)),
            Err(why) => first = first.or(Some(why)),
        }
    }
    Err(first.unwrap_or_else(|| "no layout of the operands is supported".into()))
}

fn fuse(patch: &mut Patch<'_, '_>, found: &Attention, stage: Stage) -> Result<Op> {
    expect_kernel(patch, found)?;
    mask::expect_same(patch, found)?;
    let (choice, mask) = chosen(patch, found, stage)?;
    let is_masked = !matches!(mask, Prepared::None);
    ensure(
        found.cap.is_none() || !is_masked || !patch.target().has_limit(Limit::SoftcapMask),
        "a release of the runtime adds the mask before it caps the scores",
    )?;
    let Choice { q, k, v, heads, after, is_stacked, .. } = choice;

    for nodes in [&found.fused, &found.after, &vec![found.index], &q.links, &k.links, &v.links] {
        patch.take(nodes);
    }
    let parts = match found.stack.as_ref().filter(|_| is_stacked) {
        Some(stack) => stack.emit(patch)?,
        None => Vec::new(),
    };
    let [q, k, v] = [q.emit(patch, &parts)?, k.emit(patch, &parts)?, v.emit(patch, &parts)?];
    let mut op =
        Op::new(OpType::Attention, &[q, k, v]).attr("scale", Attr::Float(found.scale as f32));
    if let Some(cap) = found.cap {
        op = op.attr("softcap", Attr::Float(cap as f32));
    }
    if let Some([of_q, of_k]) = heads {
        op = op.attr("q_num_heads", of_q).attr("kv_num_heads", of_k);
    }
    match mask {
        Prepared::None => {}
        Prepared::Causal => op = op.attr("is_causal", 1),
        Prepared::Flags(tensor, from) => {
            op.inputs.push(Some(patch.constant_for(&found.fused, tensor, &[from])));
        }
        Prepared::Added(steps) => {
            op.inputs.push(Some(steps.emit(patch, &found.fused)?));
        }
    }
    emit_after(patch, op, &after)
}

fn expect_kernel(edit: &Edit<'_>, found: &Attention) -> Result<()> {
    let dtype = edit.dtype(found.q.source);
    ensure(dtype == Some(DType::F32), "the type is not float32")?;
    rewrite::expect_kernel(edit, OpType::Attention, DType::F32)?;
    // The kernel rejects a scale that is not positive.
    let is_scale = found.scale.is_finite() && found.scale as f32 > 0.0;
    ensure(is_scale, "the scale is not positive")
}

#[cfg(test)]
mod tests;
