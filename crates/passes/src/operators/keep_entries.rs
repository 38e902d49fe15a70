//! `keep-entries`: keeps the last axis of vector entries that are stacked again.
//!
//! For `a, b = y` and `jnp.stack([f(a, b), g(a, b)])`, the values in between are scalars, and each needs an
//! `Unsqueeze` before the `Concat`. Vectors of one element need none. The same applies to `y[..., 0]` and a stack
//! along the last axis.

use algebra::rewrite::{Result, ensure, require};
use onnx::operator::properties::{BROADCASTING, ELEMENTWISE, POINTWISE};
use onnx::{Dim, Edit, Op, OpType, Outcome, Patch, ValueId, declined};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;

pub(crate) fn run(edit: &mut Edit<'_>) {
    let mut seen: FxHashSet<usize> = FxHashSet::default();
    for index in edit.nodes() {
        if let Some(source) = stacked(edit, index)
            && !seen.contains(&source)
        {
            let region = Region::around(edit, source);
            seen.extend(&region.nodes);
            if region.keeps.is_empty() {
                continue;
            }
            edit.patch(index, |patch| match region.check(patch) {
                Ok(()) => region.rewrite(patch),
                Err(why) => declined(why),
            });
        }
    }
}

/// Returns the node that computes a value to which the node at an index adds a last axis, if that node is a
/// candidate.
fn stacked(edit: &Edit<'_>, index: usize) -> Option<usize> {
    require(edit.is_live(index) && edit.node(index).op == OpType::Unsqueeze)?;
    let value = edit.input(index, 0)?;
    let ty = edit.ty(value)?;
    let is_last = edit.axes(index)? == [ty.rank()];
    edit.producer(value).filter(|&source| is_last && is_candidate(edit, source, &ty.shape))
}

/// True if a node takes an entry of this shape, or computes a value of this shape elementwise.
fn is_candidate(edit: &Edit<'_>, index: usize, shape: &[Dim]) -> bool {
    let node = edit.node(index);
    let &[output] = &node.outputs[..] else { return false };
    edit.ty(output).is_some_and(|ty| ty.shape[..] == *shape)
        && (is_entry(edit, index) || node.op.is(POINTWISE))
}

/// True if a node takes an entry of the last axis at a known index.
fn is_entry(edit: &Edit<'_>, index: usize) -> bool {
    edit.entry(index).is_some() && edit.is_along_last_axis(index)
}

/// Entries, and values of their shape that depend on them.
struct Region {
    shape: Vec<Dim>,
    nodes: FxHashSet<usize>,
    /// The nodes whose results depend on an entry, in topological order.
    keeps: Vec<usize>,
}

impl Region {
    fn around(edit: &Edit<'_>, source: usize) -> Region {
        let shape = edit.result_ty(source).map_or_else(Vec::new, |ty| ty.shape.to_vec());
        let mut nodes: FxHashSet<usize> = FxHashSet::default();
        let mut open = vec![source];
        while let Some(node) = open.pop() {
            if !nodes.insert(node) {
                continue;
            }
            let makers = edit.operands(node).filter_map(|operand| edit.producer(operand));
            let readers = edit.readers(edit.result(node));
            let is_new =
                |other: &usize| !nodes.contains(other) && is_candidate(edit, *other, &shape);
            // The array that an entry is taken from does not belong to the region.
            let makers = makers.filter(|_| !is_entry(edit, node));
            open.extend(makers.chain(readers).filter(is_new));
        }
        let mut ordered: Vec<usize> = nodes.iter().copied().collect();
        ordered.sort_by(|&a, &b| edit.is_before(b, a).cmp(&edit.is_before(a, b)));
        let mut kept: FxHashSet<ValueId> = FxHashSet::default();
        ordered.retain(|&node| {
            let mut operands = edit.operands(node);
            let keeps = is_entry(edit, node) || operands.any(|operand| kept.contains(&operand));
            if keeps {
                kept.insert(edit.result(node));
            }
            keeps
        });
        Region { shape, nodes, keeps: ordered }
    }

    /// Declines if a node cannot read a value with one more axis.
    fn check(&self, edit: &Edit<'_>) -> Result<()> {
        let mut stacks = 0;
        let kept: FxHashSet<ValueId> = self.keeps.iter().map(|&node| edit.result(node)).collect();
        for &node in &self.keeps {
            let value = edit.result(node);
            ensure(!edit.outputs().contains(&value), "a value is a result")?;
            // With one more axis, only scalars broadcast with the values as before.
            let is_number = |id: ValueId| edit.ty(id).is_some_and(|ty| ty.rank() == 0);
            let mut operands = edit.operands(node);
            if !self.shape.is_empty()
                && !is_entry(edit, node)
                && !operands.all(|id| kept.contains(&id) || is_number(id))
            {
                return Err("an array that is not an entry is an operand".into());
            }
            for reader in edit.readers(value) {
                let last = (0..edit.node(reader).inputs.len())
                    .rfind(|&operand| edit.input(reader, operand) == Some(value));
                let op = &edit.node(reader).op;
                let is_first_alone = last == Some(0);
                let reads_numbers = self.shape.is_empty()
                    && (op.is(BROADCASTING) || (op.is(ELEMENTWISE) && is_first_alone));
                if stacked(edit, reader).is_some() {
                    stacks += 1;
                } else if last.is_none() || !(reads_numbers || self.keeps.contains(&reader)) {
                    return Err("another operator reads a value".into());
                }
            }
        }
        ensure(stacks > 0, "no value that depends on an entry is stacked")
    }

    fn rewrite(&self, edit: &mut Patch<'_, '_>) -> Outcome {
        let mut lists: FxHashMap<ValueId, ValueId> = FxHashMap::default();
        for &index in &self.keeps {
            edit.move_to(index);
            let mut inputs = edit.inputs(index);
            if is_entry(edit, index) {
                inputs[1] = Some(edit.integers(&edit.ints(index, 1)?)?);
            }
            let input = |id: ValueId| lists.get(&id).copied().unwrap_or(id);
            let inputs = inputs.into_iter().map(|id| id.map(input)).collect();
            let op = Op::of(edit.node(index), inputs);
            lists.insert(edit.result(index), edit.insert(op));
        }
        let is_kept = |reader: &usize| self.nodes.contains(reader);
        let values = self.keeps.iter().map(|&index| edit.result(index));
        let readers: BTreeSet<usize> = values.flat_map(|value| edit.readers(value)).collect();
        for reader in readers.into_iter().filter(|reader| !is_kept(reader)) {
            let read = edit.inputs(reader);
            let input = |id: ValueId| lists.get(&id).copied().unwrap_or(id);
            let inputs: Vec<_> = read.iter().map(|id| id.map(input)).collect();
            if stacked(edit, reader).is_some() {
                edit.replace(reader, [], inputs[0]?).ok()?;
            } else if inputs != read {
                let op = Op::of(edit.node(reader), inputs);
                edit.replace(reader, [], op).ok()?;
            }
        }
        edit.finish()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::check_lean;

    #[test]
    fn entries_that_are_stacked_again_keep_their_axis() {
        check_lean(
            super::run,
            "graph g(y:f32[2], t:f32[]) -> (z)
%0:f32[] = Gather(y, 0:i64) {axis=0}
%1:f32[] = Gather(y, 1:i64) {axis=0}
%2:f32[] = Sin(%0)
%3:f32[] = Add(%2, t)
%4:f32[] = Mul(%3, %1)
%5:f32[1] = Unsqueeze(%1, [0]:i64)
%6:f32[1] = Unsqueeze(%4, [0]:i64)
%7:f32[2] = Concat(%5, %6) {axis=0}
z:f32[2] = Mul(%7, %2)",
            expect![[r#"
                graph g(y:f32[2], t:f32[]) -> (z)
                %0 = Gather(y, [0]:i64) {axis=0}  # 2
                %1 = Gather(y, [1]:i64) {axis=0}  # 3 7
                %2 = Sin(%0)  # 4
                %3 = Add(%2, t)  # 5
                %4 = Mul(%3, %1)  # 6 8
                %5 = Concat(%1, %4) {axis=0}  # 9
                z:f32[2] = Mul(%5, %2)  # 10
            "#]],
        );
    }

    #[test]
    fn entries_of_the_last_axis_keep_it_too() {
        check_lean(
            super::run,
            "graph g(y:f32[B,2], t:f32[], u:f32[B]) -> (z, w)
%0:f32[B] = Gather(y, 0:i64) {axis=1}
%1:f32[B] = Gather(y, 1:i64) {axis=1}
%2:f32[B] = Mul(%0, t)
%3:f32[B] = Mul(%2, %1)
%4:f32[B,1] = Unsqueeze(%1, [1]:i64)
%5:f32[B,1] = Unsqueeze(%3, [1]:i64)
z:f32[B,2] = Concat(%4, %5) {axis=1}
%6:f32[B] = Gather(z, 0:i64) {axis=1}
%7:f32[B] = Mul(%6, u)
%8:f32[B,1] = Unsqueeze(%6, [1]:i64)
%9:f32[B,1] = Unsqueeze(%7, [1]:i64)
w:f32[B,2] = Concat(%8, %9) {axis=1}",
            expect![[r#"
                graph g(y:f32[B,2], t:f32[], u:f32[B]) -> (z, w)
                %0 = Gather(y, [0]:i64) {axis=1}  # 2
                %1 = Gather(y, [1]:i64) {axis=1}  # 3 6
                %2 = Mul(%0, t)  # 4
                %3 = Mul(%2, %1)  # 5 7
                z:f32[B,2] = Concat(%1, %3) {axis=1}  # 8
                %4 = Gather(z, 0:i64) {axis=1}  # 9
                %5 = Mul(%4, u)  # 10
                %6 = Unsqueeze(%4, [1]:i64)  # 11
                %7 = Unsqueeze(%5, [1]:i64)  # 12
                w:f32[B,2] = Concat(%6, %7) {axis=1}  # 13
            "#]],
        );
    }

    #[test]
    fn scalars_that_something_else_reads_stay() {
        check_lean(
            super::run,
            "graph g(y:f32[2], x:f32[3]) -> (z, s)
%0:f32[] = Gather(y, 0:i64) {axis=0}
%1:f32[] = Gather(y, 1:i64) {axis=0}
%2:f32[] = Sin(%0)
%3:f32[1] = Unsqueeze(%1, [0]:i64)
%4:f32[1] = Unsqueeze(%2, [0]:i64)
z:f32[2] = Concat(%3, %4) {axis=0}
%5:f32[] = Mul(%0, %1)
s:f32[3] = Expand(%5, [3]:i64)",
            expect![[r#"
                graph g(y:f32[2], x:f32[3]) -> (z, s)
                %0 = Gather(y, 0:i64) {axis=0}  # 2
                %1 = Gather(y, 1:i64) {axis=0}  # 3
                %2 = Sin(%0)  # 4
                %3 = Unsqueeze(%1, [0]:i64)  # 5
                %4 = Unsqueeze(%2, [0]:i64)  # 6
                z:f32[2] = Concat(%3, %4) {axis=0}  # 7
                %5 = Mul(%0, %1)  # 8
                s:f32[3] = Expand(%5, [3]:i64)  # 9
            "#]],
        );
    }

    #[test]
    fn scalars_that_are_not_entries_stay() {
        check_lean(
            super::run,
            "graph g(a:f32[], b:f32[]) -> (z)
%0:f32[] = Sin(a)
%1:f32[1] = Unsqueeze(%0, [0]:i64)
%2:f32[1] = Unsqueeze(b, [0]:i64)
z:f32[2] = Concat(%1, %2) {axis=0}",
            expect![[r#"
                graph g(a:f32[], b:f32[]) -> (z)
                %0 = Sin(a)  # 2
                %1 = Unsqueeze(%0, [0]:i64)  # 3
                %2 = Unsqueeze(b, [0]:i64)  # 4
                z:f32[2] = Concat(%1, %2) {axis=0}  # 5
            "#]],
        );
    }
}
