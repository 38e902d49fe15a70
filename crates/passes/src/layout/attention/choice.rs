//! Chooses the batch, head and row axes of an attention, and the layout of its operands.
//!
//! Batch axes of the scores can serve as heads, and so can a part of their rows: each is an independent attention
//! with the same `k` and `v`. So every choice is correct, and the cheapest one needs the fewest transposes.

use algebra::axis_map::{AxisMap, Step, cost, emit, plan, transposes};
use algebra::rewrite::{Result, require};
use onnx::operator::properties::EXPANDS;
use onnx::{Dim, Edit, OpType, Patch, ValueId, known_shape};

use super::stack::Stack;
use super::{Attention, Stage};
use crate::layout_ops::is_layout_op;
use crate::layout_ops::products::Side;

/// A layout for the operands and the result of an attention.
pub(super) struct Choice {
    pub q: Operand,
    pub k: Operand,
    pub v: Operand,
    /// The numbers of heads of `q` and `k`, if the heads are side by side.
    pub heads: Option<[i64; 2]>,
    pub after: Vec<Step>,
    pub view: View,
    /// True if operands are parts of a stack.
    pub is_stacked: bool,
}

/// The scores with the axes batch, head, row and column.
pub(super) struct View {
    /// The map from this view to the position of each mask.
    pub to_masks: Vec<AxisMap>,
    pub rows: Dim,
    pub columns: Dim,
}

/// `q`, `k` or `v` as the kernel takes it: a source and the layout ops on it.
pub(super) struct Operand {
    pub source: ValueId,
    pub links: Vec<usize>,
    /// The index of its part of the stack.
    part: Option<usize>,
    steps: Vec<Step>,
    cost: usize,
    transposes: usize,
}

impl Operand {
    fn of(
        edit: &Edit<'_>,
        side: &Side,
        arranged: &AxisMap,
        stack: Option<&Stack>,
        number: usize,
    ) -> Option<Operand> {
        let mut links = side.links.clone();
        let mut map = side.map.clone();
        let mut shape = edit.shape(side.source)?.to_vec();
        let stack = stack.filter(|stack| stack.places[number].is_some());
        if let Some(stack) = stack {
            map = stack.map.then(&map)?;
            shape.clone_from(&stack.part);
            links.extend(&stack.nodes);
        }
        let part = stack.and_then(|stack| stack.places[number]);
        let steps = plan(&shape, map.then(arranged)?.steps()?)?;
        let is_constant = edit.tensor(side.source).is_some();
        let (cost, transposes) =
            if is_constant { (0, 0) } else { (cost(&steps), transposes(&steps)) };
        Some(Operand { source: side.source, links, part, steps, cost, transposes })
    }

    pub(super) fn emit(&self, patch: &mut Patch<'_, '_>, parts: &[ValueId]) -> Result<ValueId> {
        let source = self.part.map_or(self.source, |part| parts[part]);
        emit(patch, &self.links, source, &self.steps)
    }
}

/// The roles of the axes.
struct Roles {
    /// The batch axis that serves as heads.
    heads: Option<usize>,
    /// The factors of the row axis, and the one that serves as heads.
    rows: Vec<Dim>,
    group: Option<usize>,
    /// True if the heads have an axis of their own, false if they are side by side on the last axis.
    is_apart: bool,
}

impl Roles {
    fn all(found: &Attention) -> Vec<Roles> {
        let batch = found.shape.len() - 2;
        let mut parts = found.q.map.parts_after(batch);
        if let Some((_, to_mask)) = found.masks.first().filter(|_| parts.len() < 2) {
            parts = to_mask.parts_before(batch);
        }
        let whole = (vec![found.shape[batch].clone()], None);
        let last = parts.len().saturating_sub(1);
        // The kernel is fast for heads with many rows.
        let is_smaller = |group: usize| {
            let sizes = known_shape(&parts);
            sizes.is_none_or(|sizes| sizes[group].pow(2) <= sizes.iter().product())
        };
        let in_groups = [last, 0].into_iter().filter(|&group| last > 0 && is_smaller(group));
        let rows: Vec<_> = std::iter::once(whole)
            .chain(in_groups.map(|group| (parts.clone(), Some(group))))
            .collect();
        let mut all = Vec::new();
        for is_apart in [false, true] {
            for heads in (0..batch).rev().map(Some).chain([None]) {
                for (rows, group) in &rows {
                    let (rows, group) = (rows.clone(), *group);
                    all.push(Roles { heads, rows, group, is_apart });
                }
            }
        }
        all
    }

    /// Returns the map from the axes of the scores, with `last` instead of the columns, to those of the kernel.
    /// `is_apart` says whether the heads have an axis of their own.
    fn of_rows(&self, batch: &[Dim], last: &Dim, is_apart: bool) -> Option<AxisMap> {
        self.arranged(batch, &self.rows, self.group, last, is_apart)
    }

    /// Like [`Roles::of_rows`], for `k` and `v`.
    fn of_columns(&self, batch: &[Dim], columns: &Dim, last: &Dim) -> Option<AxisMap> {
        self.arranged(batch, std::slice::from_ref(columns), None, last, self.is_apart)
    }

    fn arranged(
        &self,
        batch: &[Dim],
        rows: &[Dim],
        group: Option<usize>,
        last: &Dim,
        is_apart: bool,
    ) -> Option<AxisMap> {
        let row = batch.len();
        let mut parts: Vec<Vec<Dim>> = batch.iter().map(|dim| vec![dim.clone()]).collect();
        parts.extend([rows.to_vec(), vec![last.clone()]]);
        let is_head = |axis: &usize| Some(*axis) == self.heads;
        let axes = (0..row).filter(|axis| !is_head(axis)).map(|axis| (axis, 0)).collect();
        let rows = (0..rows.len()).filter(|&part| Some(part) != group);
        let rows = rows.map(|part| (row, part)).collect();
        let heads = self.heads.map(|axis| (axis, 0)).into_iter();
        let heads = heads.chain(group.map(|part| (row, part)));
        let end = (row + 1, 0);
        let to = if is_apart {
            vec![axes, heads.collect(), rows, vec![end]]
        } else {
            vec![axes, rows, heads.chain([end]).collect()]
        };
        AxisMap::rearrange(&parts, &to)
    }

    /// Returns the number of heads, if it is known.
    fn count(&self, batch: &[Dim]) -> Option<i64> {
        let size = |dim: Option<&Dim>| dim.map_or(Some(1), Dim::known);
        let group = self.group.and_then(|part| self.rows.get(part));
        Some(size(self.heads.map(|axis| &batch[axis]))? * size(group)?)
    }
}

impl Choice {
    /// Returns all choices, the cheapest one first.
    pub(super) fn all(edit: &Edit<'_>, found: &Attention, stage: Stage) -> Result<Vec<Choice>> {
        let shared = one_for_each_group(edit, found);
        let mut all: Vec<(usize, Choice)> = Vec::new();
        let mut why = "for a single head, separate nodes are faster";
        for roles in Roles::all(found) {
            let heads = roles.count(&found.shape[..found.shape.len() - 2]);
            if heads.is_none_or(|heads| heads < 2) {
                continue;
            }
            let of_shared =
                shared.as_ref().and_then(|[k, v]| plan_for(edit, found, &roles, [k, v], None));
            let sides = [&found.k, &found.v];
            let planned = of_shared.or_else(|| plan_for(edit, found, &roles, sides, None));
            let stack = found.stack.as_ref();
            let stacked = stack.and_then(|_| plan_for(edit, found, &roles, sides, stack));
            let before = all.len();
            let is_better = |choice: &(usize, Choice)| choice.1.is_better(edit, found, stage);
            all.extend(planned.into_iter().chain(stacked).filter(is_better));
            if all.len() == before {
                why = "the operator would need more layout ops than it saves";
            }
        }
        all.sort_by_key(|(cost, _)| *cost);
        let all: Vec<Choice> = all.into_iter().map(|(_, choice)| choice).collect();
        if all.is_empty() { Err(why.into()) } else { Ok(all) }
    }

    /// True if this layout needs fewer layout ops than the separate nodes.
    fn is_better(&self, edit: &Edit<'_>, found: &Attention, stage: Stage) -> bool {
        let operands = [&self.q, &self.k, &self.v];
        let moved = transposes(&self.after);
        if stage == Stage::Plain {
            let is_free = |source| self.heads.is_some() && is_product(edit, source, 4);
            let is_plain = |operand: &&Operand| operand.transposes == 0 || is_free(operand.source);
            return (moved == 0 || is_for_product(edit, found)) && operands.iter().all(is_plain);
        }
        let sides = [&found.q, &found.k, &found.v].map(|side| &side.links);
        let parts: Vec<usize> =
            sides.into_iter().chain([&found.fused, &found.after]).flatten().copied().collect();
        let is_moved = |&&link: &&usize| edit.node(link).op == OpType::Transpose;
        let steps = operands.iter().map(|operand| operand.steps.len()).sum::<usize>();
        let transposes = operands.iter().map(|operand| operand.transposes).sum::<usize>();
        moved + transposes <= parts.iter().filter(is_moved).count()
            && steps + self.after.len() < parts.len()
    }
}

/// True if a product reads the result: it can absorb a transpose.
fn is_for_product(edit: &Edit<'_>, found: &Attention) -> bool {
    let end = found.after.last().copied().unwrap_or(found.index);
    let reader = edit.sole_reader(edit.result(end));
    reader.is_some_and(|reader| edit.node(reader).op == OpType::MatMul)
}

/// True if a value is a product, apart from scales and biases. A product can return its axes in any order.
fn is_product(edit: &Edit<'_>, value: ValueId, depth: usize) -> bool {
    let Some(node) = edit.producer(value).filter(|_| depth > 0) else { return false };
    let inner = |operand| edit.input(node, operand);
    let is_inner =
        |value: Option<ValueId>| value.is_some_and(|value| is_product(edit, value, depth - 1));
    match edit.op(node) {
        Some(OpType::MatMul) => true,
        Some(OpType::Add | OpType::Mul | OpType::Div) => is_inner(inner(0)) || is_inner(inner(1)),
        _ => is_layout_op(edit, node) && is_inner(inner(0)),
    }
}

fn plan_for(
    edit: &Edit<'_>,
    found: &Attention,
    roles: &Roles,
    [k, v]: [&Side; 2],
    stack: Option<&Stack>,
) -> Option<(usize, Choice)> {
    let (batch, own) = found.shape.split_at(found.shape.len() - 2);
    let columns = &own[1];
    let depth = found.q.map.shape_after()?.last()?.clone();
    let of_batch = |side: &Side| {
        let shape = side.map.shape_after()?;
        Some(shape[..batch.len()].to_vec())
    };
    let (of_k, of_v) = (of_batch(k)?, of_batch(v)?);
    let is_whole = |axis: usize| of_k[axis] == batch[axis] || Some(axis) == roles.heads;
    require(of_batch(&found.q)? == batch && of_k == of_v && (0..batch.len()).all(is_whole))?;
    let heads = (!roles.is_apart)
        .then(|| {
            let of_k = roles.heads.map_or(Some(1), |axis| of_k[axis].known())?;
            Some([roles.count(batch)?, of_k])
        })
        .map_or(Some(None), |heads| heads.map(Some))?;
    let of_q = roles.of_rows(batch, &depth, roles.is_apart)?;
    let q = Operand::of(edit, &found.q, &of_q, stack, 0)?;
    let k = Operand::of(edit, k, &roles.of_columns(&of_k, columns, &depth)?, stack, 1)?;
    let of_v = roles.of_columns(&of_v, columns, &found.value_depth)?;
    let v = Operand::of(edit, v, &of_v, stack, 2)?;
    let arranged = roles.of_rows(batch, &found.value_depth, roles.is_apart)?;
    let joined = arranged.shape_after()?;
    let after = plan(&joined, arranged.inverse().then(&found.result)?.steps()?)?;
    let view = roles.of_rows(batch, columns, true)?;
    let rows = view.shape_after()?.get(2)?.clone();
    let from_view = view.inverse();
    let to_masks = found.masks.iter().map(|(_, to_mask)| from_view.clone().then(to_mask));
    let view = View { to_masks: to_masks.collect::<Option<_>>()?, rows, columns: columns.clone() };
    let picks = found.stack.as_ref().map_or(0, Stack::picks);
    let cost = q.cost + k.cost + v.cost + cost(&after) + stack.map_or(picks, Stack::cost);
    let is_stacked = stack.is_some();
    Some((cost, Choice { q, k, v, heads, after, view, is_stacked }))
}

/// Returns `k` and `v` before they are repeated for the heads of `q` that share them.
fn one_for_each_group(edit: &Edit<'_>, found: &Attention) -> Option<[Side; 2]> {
    let batch = found.shape.len() - 2;
    (0..batch).rev().find_map(|heads| {
        let (k, times) = before_repeating(edit, &found.k, heads)?;
        let (v, also) = before_repeating(edit, &found.v, heads)?;
        (times == also).then_some([k, v])
    })
}

/// Removes a broadcast that repeats each head in place. Returns the side before it, and the number of repeats.
fn before_repeating(edit: &Edit<'_>, side: &Side, heads: usize) -> Option<(Side, i64)> {
    let (source, chain) = edit.through(side.source, EXPANDS);
    let broadcast = AxisMap::of_chain(edit, source, &chain)?;
    let (map, times) = broadcast.then(&side.map)?.without_repeats(heads)?;
    require(!map.is_broadcast())?;
    let mut once = side.clone();
    (once.source, once.map) = (source, map);
    once.links.extend(chain);
    Some((once, times))
}
