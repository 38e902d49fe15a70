//! `lead-small-axes`: moves a small last axis to the front if operands broadcast along the other axes.
//!
//! The differences of all pairs of points, `x[:, None, :] - x[None, :, :]`, have few coordinates on their last axis.
//! ONNX Runtime broadcasts run by run, and a run is as long as that axis. With the coordinates first, a run is as
//! long as the list of points. The operands must be transposed, but they are small. If all readers take single
//! entries of the axis, each entry becomes a separate array.

mod entries;

use algebra::axis_map::transpose;
use algebra::axis_order::AxisOrder;
use algebra::rewrite::{Result, ensure, require};
use onnx::operator::properties::{BROADCASTING, POINTWISE, REDUCTIONS};
use onnx::{Dim, Edit, Op, OpType, Outcome, Patch, Type, ValueId, declined};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{carry, transposed_constant};
use crate::layout_ops::{arrays, readers};

/// With longer runs, the rewrite saves little, and reductions over the first axis take longer.
const MAX_SMALL: i64 = 8;

/// With fewer runs, the transposes cost as much as the rewrite saves.
const MIN_RUNS: i64 = 512;

/// The assumed size of an axis of unknown size.
const UNKNOWN_SIZE: i64 = 32;

/// A transposed operand must be at least this many times smaller than the results.
const MAX_OPERANDS: i64 = 8;

pub(crate) fn run(edit: &mut Edit<'_>) {
    let mut seen: FxHashSet<usize> = FxHashSet::default();
    for index in edit.nodes() {
        if !seen.contains(&index)
            && let Some(shape) = broadcast_around_small_axis(edit, index)
        {
            let region = Region::around(edit, index, shape);
            seen.extend(&region.members);
            edit.patch(index, |patch| match region.check(patch) {
                Err(why) => declined(why),
                Ok(()) if region.is_read_by_entry(patch) => region.split(patch),
                Ok(()) => region.lead(patch),
            });
        }
    }
}

/// Returns the shape of the result of a node if its operands broadcast in many short runs.
fn broadcast_around_small_axis(edit: &Edit<'_>, index: usize) -> Option<Vec<Dim>> {
    let node = edit.node(index);
    require(edit.is_live(index) && node.op.is(BROADCASTING))?;
    let shape = &edit.ty(node.outputs[0])?.shape;
    let (small, others) = shape.split_last()?;
    let has_small_axis = small.known().is_some_and(|size| (2..=MAX_SMALL).contains(&size));
    require(has_small_axis && others.len() >= 2 && elements(others) >= MIN_RUNS)?;
    // A run ends when an operand with the small axis repeats along another axis.
    let ends_runs = |ty: &Type| {
        let has_small_axis = ty.shape.last().is_some_and(|last| last == small);
        ty.shape[..] != shape[..] && has_small_axis
    };
    let mut operands = edit.operands(index);
    let ends_runs = operands.any(|id| edit.ty(id).is_some_and(ends_runs));
    ends_runs.then(|| shape.to_vec())
}

fn elements(shape: &[Dim]) -> i64 {
    let size = |dim: &Dim| dim.known().unwrap_or(UNKNOWN_SIZE);
    shape.iter().map(size).fold(1, i64::saturating_mul)
}

/// Arrays of one shape, connected by elementwise operators.
struct Region {
    shape: Vec<Dim>,
    /// The elementwise operators, in topological order.
    members: Vec<usize>,
    /// The nodes that reduce the arrays or take entries of them, in topological order.
    sinks: Vec<usize>,
    /// True if another node reads or computes one of the arrays.
    has_border: bool,
}

impl Region {
    fn around(edit: &Edit<'_>, index: usize, shape: Vec<Dim>) -> Region {
        let (mut members, mut sinks) = (FxHashSet::default(), FxHashSet::default());
        let mut has_border = false;
        let mut values: FxHashSet<ValueId> = FxHashSet::default();
        let mut open = vec![edit.result(index)];
        while let Some(value) = open.pop() {
            if !values.insert(value) {
                continue;
            }
            match edit.producer(value).filter(|&maker| is_member(edit, maker, &shape)) {
                Some(maker) => {
                    members.insert(maker);
                    open.extend(edit.operands(maker).filter(|&id| is_whole(edit, id, &shape)));
                }
                None => has_border = true,
            }
            let mut reads = 0;
            for (reader, times) in readers(edit, value) {
                reads += times;
                if is_member(edit, reader, &shape) {
                    open.push(edit.result(reader));
                } else if dropped_axes(edit, reader).is_some() {
                    sinks.insert(reader);
                } else {
                    has_border |= times > 0;
                }
            }
            has_border |= edit.reads(value) > reads;
        }
        let in_order = |nodes: FxHashSet<usize>| {
            edit.nodes().into_iter().filter(|node| nodes.contains(node)).collect()
        };
        Region { shape, members: in_order(members), sinks: in_order(sinks), has_border }
    }

    fn check(&self, edit: &Edit<'_>) -> Result<()> {
        ensure(!self.has_border, "another node needs the current order of axes")?;
        ensure(!self.sinks.is_empty(), "nothing reduces the results or takes entries")?;
        let max_elements = elements(&self.shape) / MAX_OPERANDS;
        let is_small = |id: ValueId| {
            let is_constant = edit.tensor(id).is_some();
            // Moving a unit axis to the front needs no transpose.
            let is_cheap = |ty: &Type| {
                ty.shape.last().is_none_or(|last| last.is(1)) || elements(&ty.shape) <= max_elements
            };
            is_constant || is_whole(edit, id, &self.shape) || edit.ty(id).is_some_and(is_cheap)
        };
        let mut operands = self.members.iter().flat_map(|&member| edit.operands(member));
        let why = "an operand that would be transposed is about as large as the results";
        ensure(operands.all(is_small), why)
    }

    /// Moves the last axis of all arrays to the front.
    fn lead(&self, edit: &mut Patch<'_, '_>) -> Outcome {
        let order = AxisOrder::last_first(self.shape.len());
        let back = order.inverse();
        let mut stored: FxHashMap<ValueId, ValueId> = FxHashMap::default();
        for &index in &self.members {
            edit.move_to(index);
            let node = edit.node(index).clone();
            let result = node.outputs[0];
            let mut inputs = edit.inputs(index);
            for input in inputs.iter_mut().take(arrays(&node)).flatten() {
                let moved = match stored.get(input) {
                    Some(&moved) => moved,
                    None => operand(edit, *input, &order)?,
                };
                stored.insert(*input, moved);
                *input = moved;
            }
            let op = Op::of(&node, inputs);
            let restore = |value| transpose(value, back.perm());
            let made = edit.retype(index, &[], op, &restore).ok()?;
            stored.insert(result, made[0]);
        }
        for &index in &self.sinks {
            edit.move_to(index);
            let keeps_small = !dropped_axes(edit, index)?.contains(&order.perm()[0]);
            let rank = edit.result_ty(index)?.rank();
            let moved = &mut |_: &mut Patch<'_, '_>, value| stored.get(&value).copied();
            let op = carry::carried(edit, index, &order, moved)?;
            if keeps_small {
                let back = AxisOrder::last_first(rank).inverse();
                let restore = |value| transpose(value, back.perm());
                edit.retype(index, &[], op, &restore).ok()?;
            } else {
                edit.replace(index, [], op).ok()?;
            }
        }
        edit.finish()
    }
}

/// True if a value has the shape of the region and is not a constant.
fn is_whole(edit: &Edit<'_>, id: ValueId, shape: &[Dim]) -> bool {
    edit.tensor(id).is_none() && edit.ty(id).is_some_and(|ty| ty.shape[..] == *shape)
}

/// True if a node is an elementwise operator that computes an array of the region.
fn is_member(edit: &Edit<'_>, index: usize, shape: &[Dim]) -> bool {
    let node = edit.node(index);
    let is_number =
        |id: ValueId| edit.ty(id).is_some_and(|ty| ty.shape.iter().all(|dim| dim.is(1)));
    let mut numbers = (arrays(node)..node.inputs.len()).filter_map(|at| edit.input(index, at));
    node.op.is(POINTWISE) && numbers.all(is_number) && is_whole(edit, node.outputs[0], shape)
}

/// Returns the axes that a node drops: those that it reduces, or the last axis if it takes one entry of it.
fn dropped_axes(edit: &Edit<'_>, index: usize) -> Option<Vec<usize>> {
    let node = edit.node(index);
    if node.op == OpType::Gather {
        let (axis, _) = edit.entry(index).filter(|_| edit.is_along_last_axis(index))?;
        return Some(vec![axis]);
    }
    let is_reduction = node.op.is(REDUCTIONS) && !node.keeps_axes();
    edit.axes(index).filter(|axes| is_reduction && !axes.is_empty())
}

/// Moves the last axis of an operand to the front, so that it broadcasts with the moved arrays as before.
fn operand(edit: &mut Patch<'_, '_>, value: ValueId, order: &AxisOrder) -> Option<ValueId> {
    let ty = edit.ty(value)?.clone();
    if ty.rank() == 0 {
        return Some(value);
    }
    if let Some(tensor) = edit.tensor(value) {
        let moved = transposed_constant(tensor, order)?;
        return Some(edit.constant(moved, &[value]));
    }
    // Often, two `Unsqueeze` nodes read the same array. If the transpose comes before them, both share it.
    let unsqueezed = without_unit_axes(edit, value, &ty);
    let also: Vec<usize> = unsqueezed.iter().map(|&(maker, ..)| maker).collect();
    let (array, added) = unsqueezed.map_or((value, Vec::new()), |(_, array, added)| (array, added));
    let missing = order.rank().checked_sub(ty.rank())?;
    let lead = AxisOrder::last_first(edit.ty(array)?.rank());
    let array = edit.insert(transpose(array, lead.perm()));
    let axes: Vec<i64> = (1..=missing)
        .chain(added.iter().map(|axis| axis + missing + 1))
        .map(|axis| axis as i64)
        .collect();
    if axes.is_empty() {
        return Some(array);
    }
    let axes = edit.integers(&axes)?;
    Some(edit.insert_for(&also, Op::new(OpType::Unsqueeze, &[array, axes])))
}

/// Returns the `Unsqueeze` that computes a value, its operand and the axes that it adds. `None` if it adds the last
/// axis.
fn without_unit_axes(
    edit: &Edit<'_>,
    value: ValueId,
    ty: &Type,
) -> Option<(usize, ValueId, Vec<usize>)> {
    let maker = edit.made_by(value, OpType::Unsqueeze)?;
    let axes = edit.axes(maker).filter(|axes| !axes.contains(&(ty.rank() - 1)))?;
    Some((maker, edit.input(maker, 0)?, axes))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::check_lean;

    #[test]
    fn coordinates_of_pairs_come_first() {
        check_lean(
            super::run,
            "graph g(x:f32[40,2]) -> (z)
%4:f32[40,1,2] = Unsqueeze(x, [1]:i64)
%0:f32[40,40,2] = Sub(%4, x)
%1:f32[40,40,2] = Mul(%0, [1.0, 2.0])
%2:bool[40,40,2] = Less(%1, 0.5)
%3:f32[40,40,2] = Where(%2, %0, %1)
z:f32[40,40] = ReduceSum(%3, [2]:i64) {keepdims=0}",
            expect![[r#"
                graph g(x:f32[40,2]) -> (z)
                %0 = Transpose(x) {perm=[1, 0]}  # 3
                %1 = Unsqueeze(%0, [2]:i64)  # 2 3
                %2 = Transpose(x) {perm=[1, 0]}  # 3
                %3 = Unsqueeze(%2, [1]:i64)  # 3
                %4 = Sub(%1, %3)  # 3
                %5 = Mul(%4, [[[1.0]], [[2.0]]])  # 4
                %6 = Less(%5, 0.5)  # 5
                %7 = Where(%6, %4, %5)  # 6
                z:f32[40,40] = ReduceSum(%7, [0]:i64) {keepdims=0}  # 7
            "#]],
        );
    }

    #[test]
    fn entries_of_the_small_axis_are_rows() {
        check_lean(
            super::run,
            "graph g(x:f32[40,1,2], y:f32[40,2]) -> (z)
%0:f32[40,40,2] = Sub(x, y)
%1:f32[40,40] = Gather(%0, 0:i64) {axis=2}
%2:f32[40,40] = Gather(%0, 1:i64) {axis=-1}
z:f32[40,40] = Mul(%1, %2)",
            expect![[r#"
                graph g(x:f32[40,1,2], y:f32[40,2]) -> (z)
                %0 = Transpose(x) {perm=[2, 0, 1]}  # 2
                %1 = Transpose(y) {perm=[1, 0]}  # 2
                %2 = Unsqueeze(%1, [1]:i64)  # 2
                %3 = Sub(%0, %2)  # 2
                %4 = Gather(%3, 0:i64) {axis=0}  # 3
                %5 = Gather(%3, 1:i64) {axis=0}  # 4
                z:f32[40,40] = Mul(%4, %5)  # 5
            "#]],
        );
    }

    #[test]
    fn a_reduction_that_keeps_the_small_axis_is_transposed_back() {
        check_lean(
            super::run,
            "graph g(x:f32[40,1,3], y:f32[40,3], m:f32[40,40,1]) -> (z, w)
%0:f32[40,40,3] = Sub(x, y)
%1:f32[40,40,3] = Mul(%0, m)
z:f32[40,3] = ReduceSum(%1, [1]:i64) {keepdims=0}
w:f32[40,40] = ReduceSumSquare(%0, [-1]:i64) {keepdims=0}",
            expect![[r#"
                graph g(x:f32[40,1,3], y:f32[40,3], m:f32[40,40,1]) -> (z, w)
                %0 = Transpose(x) {perm=[2, 0, 1]}  # 2
                %1 = Transpose(y) {perm=[1, 0]}  # 2
                %2 = Unsqueeze(%1, [1]:i64)  # 2
                %3 = Sub(%0, %2)  # 2
                %4 = Transpose(m) {perm=[2, 0, 1]}  # 3
                %5 = Mul(%3, %4)  # 3
                %6 = ReduceSum(%5, [2]:i64) {keepdims=0}  # 4
                z:f32[40,3] = Transpose(%6) {perm=[1, 0]}  # 4
                w:f32[40,40] = ReduceSumSquare(%3, [0]:i64) {keepdims=0}  # 5
            "#]],
        );
    }

    #[test]
    fn axes_that_others_need_few_runs_and_long_runs_stay() {
        check_lean(
            super::run,
            "graph g(x:f32[40,1,2], y:f32[40,2], a:f32[4,1,2], b:f32[4,2], c:f32[40,1,16], d:f32[40,16], e:f32[40,40,2]) -> (u, v, w, r, s)
u:f32[40,40,2] = Sub(x, y)
v:f32[40,40] = ReduceSum(u, [2]:i64) {keepdims=0}
%0:f32[4,4,2] = Sub(a, b)
w:f32[4,4] = ReduceSum(%0, [2]:i64) {keepdims=0}
%1:f32[40,40,16] = Sub(c, d)
r:f32[40,40] = ReduceSum(%1, [2]:i64) {keepdims=0}
%2:f32[40,40,2] = Add(e, y)
s:f32[40,40] = ReduceSum(%2, [2]:i64) {keepdims=0}",
            expect![[r#"
                graph g(x:f32[40,1,2], y:f32[40,2], a:f32[4,1,2], b:f32[4,2], c:f32[40,1,16], d:f32[40,16], e:f32[40,40,2]) -> (u, v, w, r, s)
                u:f32[40,40,2] = Sub(x, y)  # 2
                v:f32[40,40] = ReduceSum(u, [2]:i64) {keepdims=0}  # 3
                %0 = Sub(a, b)  # 4
                w:f32[4,4] = ReduceSum(%0, [2]:i64) {keepdims=0}  # 5
                %1 = Sub(c, d)  # 6
                r:f32[40,40] = ReduceSum(%1, [2]:i64) {keepdims=0}  # 7
                %2 = Add(e, y)  # 8
                s:f32[40,40] = ReduceSum(%2, [2]:i64) {keepdims=0}  # 9
            "#]],
        );
    }
}
