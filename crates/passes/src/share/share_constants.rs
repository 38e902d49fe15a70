//! `share-constants`: merges initializers with equal contents.

use std::hash::BuildHasher;

use onnx::{Edit, Tensor, ValueId};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

pub(crate) fn run(edit: &mut Edit<'_>) {
    let hasher = FxBuildHasher;
    let mut known: FxHashMap<u64, Vec<ValueId>> = FxHashMap::default();
    let mut seen: FxHashSet<ValueId> = FxHashSet::default();
    for index in 0..edit.len() {
        for operand in 0..edit.node(index).inputs.len() {
            let Some(id) = edit.input(index, operand) else { continue };
            let Some(tensor) = edit.tensor(id).filter(|_| seen.insert(id)) else { continue };
            let candidates = known.entry(hasher.hash_one(tensor)).or_default();
            let is_same = |&&other: &&ValueId| {
                edit.tensor(other) == Some(tensor) && may_be_one(edit, tensor, id, other)
            };
            match candidates.iter().find(is_same) {
                Some(&kept) => edit.share_constant(kept, id),
                None => candidates.push(id),
            }
        }
    }
}

/// Weights that happen to be equal keep their own names while they are small, and a number in the code
/// is not taken for a weight: sharing less than a page of the data file saves nothing.
fn may_be_one(edit: &Edit<'_>, tensor: &Tensor, one: ValueId, other: ValueId) -> bool {
    const PAGE: usize = 4096;
    tensor.byte_len() > PAGE || edit.name(one) == edit.name(other)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn equal_contents_are_one_initializer() {
        check(
            super::run,
            "graph g(x:f32[4,64]) -> (y)
a = const f32[64,64]
b = const f32[64,64]
%0:f32[4,64] = MatMul(x, a)
y:f32[4,64] = MatMul(%0, b)",
            expect![[r#"
                graph g(x:f32[4,64]) -> (y)
                a = const f32[64,64]
                %0 = MatMul(x, a)  # 4
                y:f32[4,64] = MatMul(%0, a)  # 5
            "#]],
        );
    }

    #[test]
    fn small_weights_keep_their_names_and_literals_have_none() {
        check(
            super::run,
            "graph g(x:f32[2]) -> (y)
scale = const f32[2]
other = const f32[2]
%0:f32[2] = Mul(x, [0.0, 1.0])
%1:f32[2] = Mul(%0, scale)
%2:f32[2] = Mul(%1, other)
y:f32[2] = Mul(%2, [0.0, 1.0])",
            expect![[r#"
                graph g(x:f32[2]) -> (y)
                scale = [0.0, 1.0]  # 4
                other = [0.0, 1.0]  # 5
                %0 = Mul(x, [0.0, 1.0])  # 6
                %1 = Mul(%0, scale)  # 7
                %2 = Mul(%1, other)
                y:f32[2] = Mul(%2, [0.0, 1.0])
            "#]],
        );
    }

    #[test]
    fn equal_bytes_of_another_type_are_not() {
        check(
            super::run,
            "graph g(x:f32[], n:i32[]) -> (y, m)
y:f32[] = Add(x, 0.0)
m:i32[] = Add(n, 0:i32)",
            expect![[r#"
                graph g(x:f32[], n:i32[]) -> (y, m)
                y:f32[] = Add(x, 0.0)  # 2
                m:i32[] = Add(n, 0:i32)  # 3
            "#]],
        );
    }
}
