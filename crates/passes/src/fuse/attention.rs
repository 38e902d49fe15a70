//! `Attention`: `softmax(scale · q·kᵀ, masked) · v`.
//!
//! The runtime's kernel takes `q`, `k` and `v` with the heads side by side, as the projections make
//! them, and needs none of the transposes around the two products.
//!
//! What it does with a mask is known, and decides what is fused:
//! * It adds the mask. A score that a choice would have replaced is absorbed by a number below −10³⁰;
//!   a NaN is not, and spreads over its row, while in JAX it does so only through `v`.
//! * A row of nothing but −∞ or the lowest number becomes zeros. In JAX a finite number gives the mean of
//!   `v` there, which the kernel does too with a number that is not the lowest; −∞ gives NaN, so that
//!   it is fused only where the mask is known to leave something in each row.
//! * Each head is computed by one thread, so that a single head is left as it is.

mod mask;

use onnx::kernels::{Support, support};
use onnx::{Attr, DType, Dim, Edit, Op, Type, ValueId};

use crate::moves::products::{Side, following, side};
use crate::moves::{Move, Planned, Step, emit, is_move, plan};
use crate::pattern::uniform;
use crate::rewrite::Declined;
use mask::Prepared;

/// Numbers from here down are what the kernel takes for masked, should there be nothing else in a row.
const LOWEST: f64 = -3e38;

/// How many nodes there may be between a product and the softmax.
const MOST_LINKS: usize = 8;

pub(super) fn run(edit: &mut Edit<'_>) {
    for index in 0..edit.len() {
        let node = edit.node(index);
        if !node.domain.is_empty() || &*node.op != "MatMul" {
            continue;
        }
        let Some(found) = find(edit, index) else {
            continue;
        };
        match fuse(edit, &found) {
            Ok(()) => edit.note("fuse-attention", index, None),
            Err(Declined(why)) => edit.note("fuse-attention", index, Some(why)),
        }
    }
}

/// An attention that was found, part by part.
struct Attention {
    q: Side,
    k: Side,
    v: Side,
    scale: f64,
    mask: Option<Mask>,
    /// The shape of the scores as a product, and as the softmax sees them.
    product: Vec<Dim>,
    scores: Vec<Dim>,
    /// The second product, and the moves after it.
    index: usize,
    after: Vec<usize>,
    /// All other nodes.
    fused: Vec<usize>,
}

enum Mask {
    /// Added to the scores.
    Added(ValueId),
    /// Scores are kept where the flag is `keeps`, and are `otherwise` elsewhere.
    Chosen { flags: ValueId, keeps: bool, otherwise: f64 },
}

/// Looks for an attention whose second product is the node.
fn find(edit: &Edit<'_>, index: usize) -> Option<Attention> {
    let weights = side(edit, index, 0)?;
    let softmax = read_once(edit, weights.source)?;
    let scores = edit.ty(weights.source)?.shape.to_vec();
    let node = edit.node(softmax);
    let axis = node.attr("axis").cloned().unwrap_or(Attr::Int(-1));
    let is_last = axis == Attr::Int(-1) || axis == Attr::Int(scores.len() as i64 - 1);
    if &*node.op != "Softmax" || !is_last {
        return None;
    }
    let mut fused = weights.links.clone();
    fused.push(softmax);
    let (mask, masked) = match masked(edit, edit.input(softmax, 0)?) {
        Some((node, mask, masked)) => {
            fused.push(node);
            (Some(mask), masked)
        }
        None => (None, edit.input(softmax, 0)?),
    };
    let (first, scale, links) = scaled_product(edit, masked)?;
    fused.extend(&links);
    let product = edit.ty(edit.node(first).outputs[0])?.shape.to_vec();
    let moves = links.iter().rev().filter(|&&link| is_move(edit, link));
    let before =
        moves.copied().try_fold(Move::none(&product), |moves, link| moves.then(edit, link));
    if !renames_only(&before?) || !renames_only(&weights.moves) {
        return None;
    }
    let (mut q, k, v) = (side(edit, first, 0)?, side(edit, first, 1)?, side(edit, index, 1)?);
    let mut scale = scale;
    if let Some((node, number, source)) = scaled(edit, q.source) {
        scale *= number;
        q.source = source;
        q.links.push(node);
    }
    fused.push(first);
    let after = following(edit, index);
    Some(Attention { q, k, v, scale, mask, product, scores, index, after, fused })
}

/// The node that makes a value which is read once.
fn read_once(edit: &Edit<'_>, value: ValueId) -> Option<usize> {
    edit.producer(value).filter(|&node| edit.reads(value) == 1 && edit.node(node).domain.is_empty())
}

fn renames_only(moves: &Move) -> bool {
    matches!(moves.steps().as_deref(), Some([] | [Step::Reshape(_)]))
}

/// The mask, and the scores that it is put on.
fn masked(edit: &Edit<'_>, value: ValueId) -> Option<(usize, Mask, ValueId)> {
    let node = read_once(edit, value)?;
    let operand = |operand| edit.input(node, operand);
    let number = |value: ValueId| edit.tensor(value).and_then(uniform);
    let same_shape = |other: ValueId| Some(edit.ty(other)?.shape == edit.ty(value)?.shape);
    match &*edit.node(node).op {
        "Where" => {
            let (flags, a, b) = (operand(0)?, operand(1)?, operand(2)?);
            let (scores, keeps, otherwise) = match (number(a), number(b)) {
                (None, Some(number)) => (a, true, number),
                (Some(number), None) => (b, false, number),
                _ => return None,
            };
            let mask = Mask::Chosen { flags, keeps, otherwise };
            same_shape(scores)?.then_some((node, mask, scores))
        }
        "Add" => {
            let (a, b) = (operand(0)?, operand(1)?);
            let is_product = |value: ValueId| scaled_product(edit, value).is_some();
            let (scores, bias) = if is_product(a) { (a, b) } else { (b, a) };
            let mask = chosen_bias(edit, bias).unwrap_or(Mask::Added(bias));
            same_shape(scores)?.then_some((node, mask, scores))
        }
        _ => None,
    }
}

/// A bias that is zero or the lowest number is a mask by flags.
fn chosen_bias(edit: &Edit<'_>, bias: ValueId) -> Option<Mask> {
    let node = edit.producer(bias).filter(|&node| &*edit.node(node).op == "Where")?;
    let number = |operand| edit.tensor(edit.input(node, operand)?).and_then(uniform);
    let (keeps, otherwise) = match (number(1)?, number(2)?) {
        (0.0, otherwise) => (true, otherwise),
        (otherwise, 0.0) => (false, otherwise),
        _ => return None,
    };
    let flags = edit.input(node, 0)?;
    let has_all_axes = edit.ty(flags)?.shape == edit.ty(bias)?.shape;
    (otherwise <= LOWEST && has_all_axes).then_some(Mask::Chosen { flags, keeps, otherwise })
}

/// The product that a value is, up to moves and a scale, and the nodes between.
fn scaled_product(edit: &Edit<'_>, mut value: ValueId) -> Option<(usize, f64, Vec<usize>)> {
    let mut links = Vec::new();
    let mut scale = 1.0;
    for _ in 0..MOST_LINKS {
        let node = read_once(edit, value)?;
        if &*edit.node(node).op == "MatMul" {
            return Some((node, scale, links));
        }
        value = if is_move(edit, node) {
            edit.input(node, 0)?
        } else {
            let (_, number, source) = scaled(edit, value)?;
            scale *= number;
            source
        };
        links.push(node);
    }
    None
}

/// `x · number` or `x / number`, of the shape of `x`, that nothing else reads.
fn scaled(edit: &Edit<'_>, value: ValueId) -> Option<(usize, f64, ValueId)> {
    let node = read_once(edit, value)?;
    let (a, b) = (edit.input(node, 0), edit.input(node, 1));
    let number = |value: Option<ValueId>| edit.tensor(value?).and_then(uniform);
    let (source, factor) = match (&*edit.node(node).op, number(a), number(b)) {
        ("Mul", None, Some(number)) => (a?, number),
        ("Mul", Some(number), None) => (b?, number),
        ("Div", None, Some(number)) => (a?, 1.0 / number),
        _ => return None,
    };
    (edit.ty(source)? == edit.ty(value)?).then_some((node, factor, source))
}

/// The sizes of an attention.
struct Sizes {
    batch: Dim,
    rows: Dim,
    columns: Dim,
    /// Heads of `k` and `v`, and how many of `q` share one.
    heads: i64,
    group: i64,
    depth: i64,
    value_depth: i64,
}

impl Sizes {
    fn of(edit: &Edit<'_>, found: &Attention) -> Result<Sizes, Declined> {
        let [batch, heads, joined, columns] = &found.product[..] else {
            return Err("it has other axes than batch, head, row and column".into());
        };
        let (rows, group) = match &found.scores[..] {
            scores if *scores == found.product[..] => (joined, 1),
            [b, h, rows, group, c] if [b, h, c] == [batch, heads, columns] => {
                (rows, group.known().ok_or("the number of heads is not known")?)
            }
            _ => return Err("the scores have other axes than batch, head, row and column".into()),
        };
        let value = edit.ty(edit.node(found.index).outputs[0]).ok_or("a type is not known")?;
        let last = |side: &Side| side.moves.shape_after().and_then(|shape| shape.last()?.known());
        let sizes = (heads.known(), last(&found.q), value.shape.last().and_then(Dim::known));
        let (Some(heads), Some(depth), Some(value_depth)) = sizes else {
            return Err("the number or size of heads is not known".into());
        };
        let (batch, rows, columns) = (batch.clone(), rows.clone(), columns.clone());
        Ok(Sizes { batch, rows, columns, heads, group, depth, value_depth })
    }

    /// The shape of `q`, or of the result, with the heads side by side.
    fn of_rows(&self, depth: i64) -> Vec<Dim> {
        let width = self.heads * self.group * depth;
        vec![self.batch.clone(), self.rows.clone(), width.into()]
    }

    /// The shape of `k` or `v` with the heads side by side.
    fn of_columns(&self, depth: i64) -> Vec<Dim> {
        vec![self.batch.clone(), self.columns.clone(), (self.heads * depth).into()]
    }

    /// The shape of `q`, or of the result, with all axes apart.
    fn apart(&self, depth: i64, is_by_head: bool) -> Vec<Dim> {
        let (rows, heads) = (self.rows.clone(), Dim::Known(self.heads));
        let [first, second] = if is_by_head { [heads, rows] } else { [rows, heads] };
        vec![self.batch.clone(), first, second, self.group.into(), depth.into()]
    }
}

fn fuse(edit: &mut Edit<'_>, found: &Attention) -> Result<(), Declined> {
    let sizes = Sizes::of(edit, found)?;
    expect_kernel(edit, found, &sizes)?;
    let far = || Declined::from("the heads cannot be put side by side");
    let by_head = |side: &Side, order: &[usize], shape: &[Dim]| {
        side.moves.clone().ordered(order)?.reshaped(shape)
    };
    let q = || {
        let apart = found.q.moves.clone().reshaped(&sizes.apart(sizes.depth, true))?;
        apart.ordered(&[0, 2, 1, 3, 4])?.reshaped(&sizes.of_rows(sizes.depth))
    };
    let q = Operand::of(edit, &found.q, &q().ok_or_else(far)?)?;
    let k = by_head(&found.k, &[0, 3, 1, 2], &sizes.of_columns(sizes.depth));
    let mut k = Operand::of(edit, &found.k, &k.ok_or_else(far)?)?;
    let v = by_head(&found.v, &[0, 2, 1, 3], &sizes.of_columns(sizes.value_depth));
    let mut v = Operand::of(edit, &found.v, &v.ok_or_else(far)?)?;
    let mut heads = sizes.heads;
    let shared = (k.before_repeating(edit), v.before_repeating(edit));
    if let (Some((few, one_k)), Some((also_few, one_v))) = shared
        && few == also_few
        && sizes.group == 1
    {
        (heads, k, v) = (few, one_k, one_v);
    }
    let joined = sizes.of_rows(sizes.value_depth);
    let result = || {
        let apart = Move::none(&joined).reshaped(&sizes.apart(sizes.value_depth, false))?;
        let by_head = apart.ordered(&[0, 2, 1, 3, 4])?;
        let result = by_head.reshaped(&edit.ty(edit.node(found.index).outputs[0])?.shape)?;
        found.after.iter().try_fold(result, |moves, &link| moves.then(edit, link))
    };
    let steps = result().and_then(|moves| moves.steps()).ok_or_else(far)?;
    let after = plan(&joined, &steps).ok_or_else(far)?;
    let mask = Prepared::of(edit, found, &sizes)?;

    let end = found.after.last().copied().unwrap_or(found.index);
    let mut fused = [&found.fused[..], &found.after, &[found.index]].concat();
    for operand in [&q, &k, &v] {
        fused.extend(&operand.links);
    }
    fused.retain(|&node| node != end);
    let lost = || Declined::from("a constant cannot be moved");
    let q = q.emit(edit, end).ok_or_else(lost)?;
    let k = k.emit(edit, end).ok_or_else(lost)?;
    let v = v.emit(edit, end).ok_or_else(lost)?;
    let mut op = Op::new("Attention", &[q, k, v])
        .attr("scale", Attr::Float(found.scale as f32))
        .attr("q_num_heads", sizes.heads * sizes.group)
        .attr("kv_num_heads", heads);
    match mask {
        Prepared::None => {}
        Prepared::Causal => op = op.attr("is_causal", 1),
        Prepared::Flags(tensor, from) => {
            op.inputs.push(Some(edit.constant(end, &found.fused, tensor, &[from])));
        }
        Prepared::Added(steps) => {
            op.inputs.push(Some(steps.emit(edit, end, &found.fused).ok_or_else(lost)?));
        }
    }
    let Some((last, before)) = after.split_last() else {
        edit.rewrite(end, &fused, op);
        return Ok(());
    };
    let result = edit.insert(end, &fused, op, Type::new(DType::F32, joined));
    let result = emit(edit, end, &fused, result, before).ok_or_else(lost)?;
    let op = last.op(edit, end, &fused, result).ok_or_else(lost)?;
    edit.rewrite(end, &fused, op);
    Ok(())
}

/// `q`, `k` or `v` with the heads side by side: what it is made of, and by which change of the shape.
struct Operand {
    source: ValueId,
    steps: Vec<Planned>,
    links: Vec<usize>,
}

impl Operand {
    fn of(edit: &Edit<'_>, side: &Side, moves: &Move) -> Result<Operand, Declined> {
        let steps = moves.steps().ok_or("a size is not known")?;
        if steps.iter().any(|step| matches!(step, Step::Transpose(_))) {
            return Err("the heads are not made side by side".into());
        }
        let ty = edit.ty(side.source).ok_or("a type is not known")?;
        let steps = plan(&ty.shape, &steps).ok_or("too many sizes are not known")?;
        Ok(Operand { source: side.source, steps, links: side.links.clone() })
    }

    /// The heads before each was repeated for those of `q` that share it, and how many there are.
    fn before_repeating(&self, edit: &Edit<'_>) -> Option<(i64, Operand)> {
        let expand = edit.producer(self.source).filter(|&node| &*edit.node(node).op == "Expand")?;
        let source = edit.input(expand, 0)?;
        let (few, many) = (&edit.ty(source)?.shape, &edit.ty(self.source)?.shape);
        let ([b, s, n, one, d], [batch, rows, heads, _, depth]) = (&few[..], &many[..]) else {
            return None;
        };
        if [b, s, n, d] != [batch, rows, heads, depth] || !one.is(1) {
            return None;
        }
        let heads = heads.known()?;
        let joined = vec![b.clone(), s.clone(), Dim::Known(heads * depth.known()?)];
        let steps = plan(few, &[Step::Reshape(joined)])?;
        let links = [&self.links[..], &[expand]].concat();
        Some((heads, Operand { source, steps, links }))
    }

    fn emit(&self, edit: &mut Edit<'_>, index: usize) -> Option<ValueId> {
        emit(edit, index, &self.links, self.source, &self.steps)
    }
}

fn expect_kernel(edit: &Edit<'_>, found: &Attention, sizes: &Sizes) -> Result<(), Declined> {
    let dtype = edit.ty(found.q.source).map(|ty| ty.dtype);
    if dtype != Some(DType::F32) {
        return Err("it is not of single precision".into());
    }
    match support("Attention", edit.opset(), DType::F32) {
        Support::Yes => {}
        Support::From(since) => return Err(Declined(format!("Attention needs opset {since}"))),
        Support::No => return Err("the runtime has no Attention".into()),
    }
    if sizes.heads * sizes.group == 1 {
        return Err("a single head is faster in parts".into());
    }
    // A scale of zero or below is refused by the kernel.
    let is_scale = found.scale.is_finite() && found.scale as f32 > 0.0;
    if is_scale { Ok(()) } else { Err("the scale is not above zero".into()) }
}

#[cfg(test)]
mod tests;
