//! `join-stacks`: rewrites a stack of arrays as one `Concat` along an existing axis and one `Reshape`.
//!
//! `jnp.stack` adds the new axis to each array first, which takes one `Unsqueeze` per array.

use algebra::axis_map::{Step, emit_after};
use algebra::rewrite::require;
use onnx::{Dim, Edit, Op, OpType, Outcome, Patch, ValueId, declined};

/// If a `Reshape` computes an output, ONNX Runtime copies the array. Copying up to this many elements takes less time
/// than the nodes.
const MAX_COPIED: i64 = 4096;

pub(crate) fn run(patch: &mut Patch<'_, '_>) -> Outcome {
    Stack::at(patch, patch.root())?.join(patch)
}

/// A `Concat` of arrays along a new axis, which an `Unsqueeze` adds to each of them.
pub(crate) struct Stack {
    index: usize,
    axis: usize,
    /// The arrays without the new axis, and the nodes that add it.
    arrays: Vec<ValueId>,
    unsqueezes: Vec<usize>,
}

impl Stack {
    pub(crate) fn at(edit: &Edit<'_>, index: usize) -> Option<Stack> {
        require(edit.node(index).op == OpType::Concat)?;
        let axis = edit.axis(index)?;
        let mut stack = Stack { index, axis, arrays: Vec::new(), unsqueezes: Vec::new() };
        for operand in 0..edit.node(index).inputs.len() {
            let unsqueeze = edit.producer(edit.input(index, operand)?)?;
            let is_new_axis =
                edit.node(unsqueeze).op == OpType::Unsqueeze && edit.axes(unsqueeze)? == [axis];
            require(is_new_axis)?;
            stack.arrays.push(edit.input(unsqueeze, 0)?);
            stack.unsqueezes.push(unsqueeze);
        }
        Some(stack)
    }

    fn join(self, edit: &mut Patch<'_, '_>) -> Outcome {
        let result = edit.result_ty(self.index)?.clone();
        require(self.axis + 1 != result.rank())?;
        if self.freed(edit) < 2 {
            return declined("other nodes read the arrays with the new axis");
        }
        let elements: Option<i64> = result.shape.iter().map(Dim::known).product();
        let is_output = edit.outputs().contains(&edit.result(self.index));
        if is_output && elements.is_none_or(|elements| elements > MAX_COPIED) {
            return declined("the reshape of an output is a copy");
        }
        edit.take(&self.distinct_unsqueezes());
        let split = [Step::Reshape(result.shape.to_vec())];
        let joined = emit_after(edit, self.joined(), &split);
        edit.settle(joined)
    }

    /// Returns the operator that joins the arrays along the axis after the new one.
    pub(crate) fn joined(&self) -> Op {
        Op::new(OpType::Concat, &self.arrays).attr("axis", self.axis as i64)
    }

    /// Returns the shape of [`Stack::joined`].
    pub(crate) fn joined_shape(&self, edit: &Edit<'_>) -> Option<Vec<Dim>> {
        let mut shape = edit.result_ty(self.index)?.shape.to_vec();
        let count = shape.remove(self.axis);
        let next = shape.get_mut(self.axis)?;
        *next = next.checked_mul(&count)?;
        Some(shape)
    }

    /// Counts the `Unsqueeze` nodes that only this stack reads.
    fn freed(&self, edit: &Edit<'_>) -> usize {
        let is_freed = |&&unsqueeze: &&usize| {
            let reads = self.unsqueezes.iter().filter(|&&other| other == unsqueeze).count();
            edit.reads(edit.result(unsqueeze)) == reads
        };
        self.distinct_unsqueezes().iter().filter(is_freed).count()
    }

    pub(crate) fn distinct_unsqueezes(&self) -> Vec<usize> {
        let mut distinct = self.unsqueezes.clone();
        distinct.sort_unstable();
        distinct.dedup();
        distinct
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check_lean, each};

    #[test]
    fn a_stack_along_a_leading_axis_is_joined_and_reshaped() {
        check_lean(
            each(super::run),
            "graph g(a:f32[B,2], b:f32[B,2]) -> (x, y)
%0:f32[1,B,2] = Unsqueeze(a, [0]:i64)
%1:f32[1,B,2] = Unsqueeze(b, [0]:i64)
%2:f32[3,B,2] = Concat(%0, %1, %0) {axis=0}
x:f32[3,B,2] = Neg(%2)
%3:f32[B,1,2] = Unsqueeze(a, [1]:i64)
%4:f32[B,1,2] = Unsqueeze(b, [1]:i64)
%5:f32[B,2,2] = Concat(%3, %4) {axis=1}
y:f32[B,2,2] = Neg(%5)",
            expect![[r#"
                graph g(a:f32[B,2], b:f32[B,2]) -> (x, y)
                %0 = Concat(a, b, a) {axis=0}  # 4 2 3
                %1 = Reshape(%0, [3, -1, 2]:i64)  # 4 2 3
                x:f32[3,B,2] = Neg(%1)  # 5
                %2 = Concat(a, b) {axis=1}  # 8 6 7
                %3 = Reshape(%2, [0, 2, 2]:i64)  # 8 6 7
                y:f32[B,2,2] = Neg(%3)  # 9
            "#]],
        );
    }

    #[test]
    fn a_large_output_is_not_copied() {
        check_lean(
            each(super::run),
            "graph g(a:f32[64,64], b:f32[64,64]) -> (x)
%0:f32[1,64,64] = Unsqueeze(a, [0]:i64)
%1:f32[1,64,64] = Unsqueeze(b, [0]:i64)
x:f32[2,64,64] = Concat(%0, %1) {axis=0}",
            expect![[r#"
                graph g(a:f32[64,64], b:f32[64,64]) -> (x)
                %0 = Unsqueeze(a, [0]:i64)  # 2
                %1 = Unsqueeze(b, [0]:i64)  # 3
                x:f32[2,64,64] = Concat(%0, %1) {axis=0}  # 4
            "#]],
        );
    }

    #[test]
    fn a_stack_of_scalars_or_along_the_last_axis_stays() {
        check_lean(
            each(super::run),
            "graph g(a:f32[3], b:f32[3], s:f32[], t:f32[]) -> (x, y)
%0:f32[3,1] = Unsqueeze(a, [1]:i64)
%1:f32[3,1] = Unsqueeze(b, [1]:i64)
x:f32[3,2] = Concat(%0, %1) {axis=1}
%2:f32[1] = Unsqueeze(s, [0]:i64)
%3:f32[1] = Unsqueeze(t, [0]:i64)
y:f32[2] = Concat(%2, %3) {axis=0}",
            expect![[r#"
                graph g(a:f32[3], b:f32[3], s:f32[], t:f32[]) -> (x, y)
                %0 = Unsqueeze(a, [1]:i64)  # 2
                %1 = Unsqueeze(b, [1]:i64)  # 3
                x:f32[3,2] = Concat(%0, %1) {axis=1}  # 4
                %2 = Unsqueeze(s, [0]:i64)  # 5
                %3 = Unsqueeze(t, [0]:i64)  # 6
                y:f32[2] = Concat(%2, %3) {axis=0}  # 7
            "#]],
        );
    }

    #[test]
    fn arrays_that_others_read_with_the_axis_are_not_joined() {
        check_lean(
            each(super::run),
            "graph g(a:f32[3], b:f32[3]) -> (x, y, z)
%0:f32[1,3] = Unsqueeze(a, [0]:i64)
%1:f32[1,3] = Unsqueeze(b, [0]:i64)
x:f32[2,3] = Concat(%0, %1) {axis=0}
y:f32[1,3] = Neg(%0)
%2:f32[1,3] = Unsqueeze(b, [0]:i64)
z:f32[3,3] = Concat(x, %2) {axis=0}",
            expect![[r#"
                graph g(a:f32[3], b:f32[3]) -> (x, y, z)
                %0 = Unsqueeze(a, [0]:i64)  # 2
                %1 = Unsqueeze(b, [0]:i64)  # 3
                x:f32[2,3] = Concat(%0, %1) {axis=0}  # 4
                y:f32[1,3] = Neg(%0)  # 5
                %2 = Unsqueeze(b, [0]:i64)  # 6
                z:f32[3,3] = Concat(x, %2) {axis=0}  # 7
            "#]],
        );
    }
}
