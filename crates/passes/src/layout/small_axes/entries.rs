//! Computes the entries of a small axis as separate arrays, if all readers take single entries.
//!
//! The sides of all pairs of boxes have a width and a height on their last axis, and the area is their product.
//! Taking the two entries from one array would copy it.

use onnx::{Edit, Op, OpType, Outcome, Patch, ValueId};
use rustc_hash::FxHashMap;

use super::{Region, elements, without_unit_axes};
use crate::layout_ops::arrays;

/// With more entries, there would be too many nodes.
const MAX_ENTRIES: i64 = 3;

/// For smaller arrays, the additional nodes take longer than the copies.
const MIN_ELEMENTS: i64 = 4096;

impl Region {
    /// True if each reader of the arrays takes an entry of the small axis, and the axis has few entries.
    pub(super) fn is_read_by_entry(&self, edit: &Edit<'_>) -> bool {
        let Some((small, others)) = self.shape.split_last() else { return false };
        let is_entry = |&sink: &usize| edit.node(sink).op == OpType::Gather;
        small.known().is_some_and(|size| size <= MAX_ENTRIES)
            && elements(others) >= MIN_ELEMENTS
            && self.sinks.iter().all(is_entry)
    }

    /// Replaces each array by one array per entry.
    pub(super) fn split(&self, edit: &mut Patch<'_, '_>) -> Outcome {
        let size = self.shape.last()?.known()?;
        let mut entries: Vec<FxHashMap<ValueId, ValueId>> =
            vec![FxHashMap::default(); size as usize];
        for &index in &self.members {
            edit.move_to(index);
            let node = edit.node(index).clone();
            let result = node.outputs[0];
            for (place, entries) in entries.iter_mut().enumerate() {
                let mut inputs = edit.inputs(index);
                for input in inputs.iter_mut().take(arrays(&node)).flatten() {
                    let entry = match entries.get(input) {
                        Some(&entry) => entry,
                        None => entry_of(edit, *input, place as i64)?,
                    };
                    entries.insert(*input, entry);
                    *input = entry;
                }
                let made = edit.insert(Op::of(&node, inputs));
                entries.insert(result, made);
            }
        }
        for &index in &self.sinks {
            let (_, place) = edit.entry(index)?;
            let place = if place < 0 { place + size } else { place };
            let entry = *entries.get(place as usize)?.get(&edit.input(index, 0)?)?;
            edit.replace(index, [], entry).ok()?;
        }
        edit.finish()
    }
}

/// Inserts an entry of the last axis of an operand. It broadcasts along the other axes as the operand does.
fn entry_of(edit: &mut Patch<'_, '_>, value: ValueId, place: i64) -> Option<ValueId> {
    let ty = edit.ty(value)?.clone();
    let Some((last, others)) = ty.shape.split_last() else { return Some(value) };
    if last.is(1) {
        let axes = edit.integers(&[others.len() as i64])?;
        let op = Op::new(OpType::Squeeze, &[value, axes]);
        return Some(edit.insert(op));
    }
    // Often, two `Unsqueeze` nodes read the same array. If the gather comes before them, both share it.
    let unsqueezed = without_unit_axes(edit, value, &ty);
    let array = unsqueezed.as_ref().map_or(value, |(_, array, _)| *array);
    let sizes = &edit.ty(array)?.shape;
    let axis = sizes.len() - 1;
    let place = edit.integer(place)?;
    let op = Op::new(OpType::Gather, &[array, place]).attr("axis", axis as i64);
    let entry = edit.insert(op);
    let Some((maker, _, axes)) = unsqueezed else { return Some(entry) };
    let axes: Vec<i64> = axes.into_iter().map(|axis| axis as i64).collect();
    let axes = edit.integers(&axes)?;
    Some(edit.insert_for(&[maker], Op::new(OpType::Unsqueeze, &[entry, axes])))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::check_lean;

    #[test]
    fn each_entry_of_pairs_is_an_array_of_its_own() {
        check_lean(
            super::super::run,
            "graph g(x:f32[70,2], m:f32[70,1,1]) -> (z)
%0:f32[70,1,2] = Unsqueeze(x, [1]:i64)
%1:f32[70,70,2] = Sub(%0, x)
%2:f32[70,70,2] = Mul(%1, [1.0, 2.0])
%3:f32[70,70,2] = Add(%2, m)
%4:f32[70,70] = Gather(%3, 0:i64) {axis=2}
%5:f32[70,70] = Gather(%3, -1:i64) {axis=2}
z:f32[70,70] = Mul(%4, %5)",
            expect![[r#"
                graph g(x:f32[70,2], m:f32[70,1,1]) -> (z)
                %0 = Gather(x, 0:i64) {axis=1}  # 3
                %1 = Unsqueeze(%0, [1]:i64)  # 2 3
                %2 = Gather(x, 0:i64) {axis=1}  # 3
                %3 = Sub(%1, %2)  # 3
                %4 = Gather(x, 1:i64) {axis=1}  # 3
                %5 = Unsqueeze(%4, [1]:i64)  # 2 3
                %6 = Gather(x, 1:i64) {axis=1}  # 3
                %7 = Sub(%5, %6)  # 3
                %8 = Gather([1.0, 2.0], 0:i64) {axis=0}  # 4
                %9 = Mul(%3, %8)  # 4
                %10 = Gather([1.0, 2.0], 1:i64) {axis=0}  # 4
                %11 = Mul(%7, %10)  # 4
                %12 = Squeeze(m, [2]:i64)  # 5
                %13 = Add(%9, %12)  # 5 6
                %14 = Squeeze(m, [2]:i64)  # 5
                %15 = Add(%11, %14)  # 5 7
                z:f32[70,70] = Mul(%13, %15)  # 8
            "#]],
        );
    }

    #[test]
    fn arrays_of_which_more_is_read_and_small_ones_stay_whole() {
        check_lean(
            super::super::run,
            "graph g(x:f32[70,2], y:f32[40,2]) -> (a, b, c)
%0:f32[70,1,2] = Unsqueeze(x, [1]:i64)
%1:f32[70,70,2] = Sub(%0, x)
a:f32[70,70] = Gather(%1, 0:i64) {axis=2}
b:f32[70,70] = ReduceMax(%1, [2]:i64) {keepdims=0}
%2:f32[40,1,2] = Unsqueeze(y, [1]:i64)
%3:f32[40,40,2] = Sub(%2, y)
c:f32[40,40] = Gather(%3, 0:i64) {axis=2}",
            expect![[r#"
                graph g(x:f32[70,2], y:f32[40,2]) -> (a, b, c)
                %0 = Transpose(x) {perm=[1, 0]}  # 3
                %1 = Unsqueeze(%0, [2]:i64)  # 2 3
                %2 = Transpose(x) {perm=[1, 0]}  # 3
                %3 = Unsqueeze(%2, [1]:i64)  # 3
                %4 = Sub(%1, %3)  # 3
                a:f32[70,70] = Gather(%4, 0:i64) {axis=0}  # 4
                b:f32[70,70] = ReduceMax(%4, [0]:i64) {keepdims=0}  # 5
                %5 = Transpose(y) {perm=[1, 0]}  # 7
                %6 = Unsqueeze(%5, [2]:i64)  # 6 7
                %7 = Transpose(y) {perm=[1, 0]}  # 7
                %8 = Unsqueeze(%7, [1]:i64)  # 7
                %9 = Sub(%6, %8)  # 7
                c:f32[40,40] = Gather(%9, 0:i64) {axis=0}  # 8
            "#]],
        );
    }
}
