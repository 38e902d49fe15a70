//! `drop-ranges`: replaces a lookup in the range from 0 with the index.
//!
//! `jnp.argsort` sorts the indices `0, 1, 2, …` together with the keys, and looks up the sorted indices.

use algebra::rewrite::require;
use onnx::{Edit, Op, OpType, Tensor, ValueId};

use super::Rule;

pub(crate) const RULE: Rule = Rule {
    name: "drop-ranges",
    does: "replaces a lookup in the range from 0 with the index",
    apply: |patch| {
        let (looked_up, maker) = index_of_range(patch, patch.root())?;
        let dtype = patch.result_ty(patch.root())?.dtype;
        let op = Op::new(OpType::Cast, &[looked_up]).attr("to", i64::from(dtype.code()));
        patch.done(maker.as_slice(), op)
    },
};

const LOOKUPS: &[OpType] = &[OpType::Gather, OpType::GatherElements];

/// Returns the index that a node looks up in a range, and the node that computes the range.
fn index_of_range(edit: &Edit<'_>, index: usize) -> Option<(ValueId, Option<usize>)> {
    let node = edit.node(index);
    require(node.op.is_one_of(LOOKUPS))?;
    let (table, looked_up) = edit.pair(index)?;
    let ty = edit.ty(table).filter(|ty| ty.dtype.is_int())?;
    let is_alone = node.op == OpType::GatherElements || ty.rank() == 1;
    // `fuse-gather` drops the nodes that normalize a clamped index, which saves more than dropping the lookup.
    let is_clamped = edit.made_by(looked_up, OpType::Clip).is_some();
    require(is_alone && !is_clamped && edit.tensor(looked_up).is_none())?;
    let (_, last) = edit.fact(looked_up).ints().filter(|&(low, _)| low >= 0)?;
    if let Some(tensor) = edit.tensor(table) {
        // Readers depend on the bounds of the entries, so the index must have the same bounds.
        let axis = edit.axis(index).filter(|&axis| last < tensor.shape[axis])?;
        return counts_along(tensor, axis).then_some((looked_up, None));
    }
    let maker = edit.made_by(table, OpType::Range)?;
    let number = |operand| edit.ints(maker, operand);
    let counts = ty.rank() == 1 && number(0)? == [0] && number(2)? == [1];
    counts.then_some((looked_up, Some(maker)))
}

/// True if each entry is its own index along an axis.
fn counts_along(tensor: &Tensor, axis: usize) -> bool {
    let after: i64 = tensor.shape[axis + 1..].iter().product();
    let size = tensor.shape[axis];
    let place = |number: usize| (number as i64 / after.max(1)) % size.max(1);
    tensor
        .ints()
        .is_some_and(|ints| ints.iter().enumerate().all(|(number, &entry)| entry == place(number)))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check_lean, each};

    #[test]
    fn a_lookup_in_a_range_is_the_index() {
        check_lean(
            each(super::RULE.apply),
            "graph g(x:f32[4], y:f32[3,2], s:i64[]) -> (a, b, c)
%0:f32[4], %1:i64[4] = TopK(x, [4]:i64) {axis=0}
a:i32[4] = Gather([0, 1, 2, 3]:i32, %1) {axis=0}
%2:f32[3,2], %3:i64[3,2] = TopK(y, [3]:i64) {axis=0}
b:i32[3,2] = GatherElements([[0, 0], [1, 1], [2, 2]]:i32, %3) {axis=0}
%4:i64[4] = Range(0:i64, s, 1:i64)
c:i64[4] = Gather(%4, %1) {axis=0}",
            expect![[r#"
                graph g(x:f32[4], y:f32[3,2], s:i64[]) -> (a, b, c)
                %0, %1 = TopK(x, [4]:i64) {axis=0}  # 2
                a:i32[4] = Cast(%1) {to=6}  # 3
                %2, %3 = TopK(y, [3]:i64) {axis=0}  # 4
                b:i32[3,2] = Cast(%3) {to=6}  # 5
                c:i64[4] = Cast(%1) {to=7}  # 7 6
            "#]],
        );
    }

    #[test]
    fn lookups_in_other_tables_or_with_unknown_indices_are_kept() {
        check_lean(
            each(super::RULE.apply),
            "graph g(x:f32[4], y:f32[3,2], i:i64[4], j:i32[4], s:i64[]) -> (a, b, c, d, e, f)
%0:f32[4], %1:i64[4] = TopK(x, [4]:i64) {axis=0}
a:i32[4] = Gather([0, 1, 2, 4]:i32, %1) {axis=0}
b:i32[4] = Gather([0, 1, 2, 3]:i32, i) {axis=0}
%2:f32[3,2], %3:i64[3,2] = TopK(y, [3]:i64) {axis=0}
c:i32[3,2] = GatherElements([[0, 1], [0, 1], [0, 1]]:i32, %3) {axis=0}
%4:i64[4] = Range(1:i64, s, 1:i64)
d:i64[4] = Gather(%4, %1) {axis=0}
e:i32[4,2] = Gather([[0, 1], [0, 1], [0, 1], [0, 1]]:i32, %1) {axis=0}
%5:i32[4] = Clip(j, 0:i32, 3:i32)
f:i32[4] = Gather([0, 1, 2, 3]:i32, %5) {axis=0}",
            expect![[r#"
                graph g(x:f32[4], y:f32[3,2], i:i64[4], j:i32[4], s:i64[]) -> (a, b, c, d, e, f)
                %0, %1 = TopK(x, [4]:i64) {axis=0}  # 2
                a:i32[4] = Gather([0, 1, 2, 4]:i32, %1) {axis=0}  # 3
                b:i32[4] = Gather([0, 1, 2, 3]:i32, i) {axis=0}  # 4
                %2, %3 = TopK(y, [3]:i64) {axis=0}  # 5
                c:i32[3,2] = GatherElements([[0, 1], [0, 1], [0, 1]]:i32, %3) {axis=0}  # 6
                %4 = Range(1:i64, s, 1:i64)  # 7
                d:i64[4] = Gather(%4, %1) {axis=0}  # 8
                e:i32[4,2] = Gather([[0, 1], [0, 1], [0, 1], [0, 1]]:i32, %1) {axis=0}  # 9
                %5 = Clip(j, 0:i32, 3:i32)  # 10
                f:i32[4] = Gather([0, 1, 2, 3]:i32, %5) {axis=0}  # 11
            "#]],
        );
    }
}
