//! `share-constants`: initializers of equal contents are one.

use std::hash::{Hash, Hasher};

use onnx::{Edit, Tensor, ValueId};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};

pub(crate) fn run(edit: &mut Edit<'_>) {
    let mut known: FxHashMap<u64, Vec<ValueId>> = FxHashMap::default();
    let mut seen: FxHashSet<ValueId> = FxHashSet::default();
    for index in 0..edit.len() {
        for operand in 0..edit.node(index).inputs.len() {
            let Some(id) = edit.input(index, operand) else {
                continue;
            };
            let Some(tensor) = edit.tensor(id).filter(|_| seen.insert(id)) else {
                continue;
            };
            let candidates = known.entry(fingerprint(tensor)).or_default();
            match candidates.iter().find(|&&other| edit.tensor(other) == Some(tensor)) {
                Some(&kept) => edit.share_constant(kept, id),
                None => candidates.push(id),
            }
        }
    }
}

/// Equal tensors have equal ones. Of a large tensor only a part is looked at; whoever finds an equal
/// one compares the whole.
fn fingerprint(tensor: &Tensor) -> u64 {
    const PART: usize = 1024;
    let mut hasher = FxHasher::default();
    (tensor.dtype, &tensor.shape, tensor.data.len()).hash(&mut hasher);
    let data = &tensor.data;
    data[..data.len().min(PART)].hash(&mut hasher);
    data[data.len().saturating_sub(PART)..].hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn equal_contents_are_one_initializer() {
        check(
            super::run,
            "graph g(x:f32[4,4]) -> (y)
a = const f32[4,4]
b = const f32[4,4]
%0:f32[4,4] = MatMul(x, a)
y:f32[4,4] = MatMul(%0, b)",
            expect![[r#"
                graph g(x:f32[4,4]) -> (y)
                a = const f32[4,4]
                %0 = MatMul(x, a)  # 4
                y:f32[4,4] = MatMul(%0, a)  # 5
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
