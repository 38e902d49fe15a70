//! `share-nodes`: a node that computes what an earlier one does is that one.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use onnx::{Attr, Edit, OpType, ValueId};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Operators that give something else each time.
const DRAWS_AT_RANDOM: &[OpType] = &[
    OpType::Bernoulli,
    OpType::Dropout,
    OpType::Multinomial,
    OpType::RandomNormal,
    OpType::RandomNormalLike,
    OpType::RandomUniform,
    OpType::RandomUniformLike,
];

/// What decides the result of a node.
#[derive(PartialEq)]
struct Key {
    op: OpType,
    inputs: SmallVec<[Option<ValueId>; 4]>,
    outputs: usize,
    attrs: Vec<(Arc<str>, Attr)>,
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Attributes are compared, not hashed: nodes that differ in nothing else are few.
        (&self.op, &self.inputs, self.outputs, self.attrs.len()).hash(state);
    }
}

pub(crate) fn run(edit: &mut Edit<'_>) {
    let mut known: FxHashMap<Key, usize> = FxHashMap::default();
    for index in 0..edit.len() {
        let node = edit.node(index);
        let Some(op) = node.op.onnx() else {
            continue;
        };
        if node.bodies().next().is_some() || DRAWS_AT_RANDOM.contains(&op) {
            continue;
        }
        let key = Key {
            op,
            inputs: (0..node.inputs.len()).map(|operand| edit.input(index, operand)).collect(),
            outputs: node.outputs.len(),
            attrs: node.attrs.clone(),
        };
        match known.get(&key) {
            Some(&kept) => {
                edit.share(kept, index);
            }
            None => {
                known.insert(key, index);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn the_first_of_equal_nodes_answers_for_all_lines() {
        check(
            super::run,
            "graph g(x:f32[3]) -> (y)
%0:f32[3] = Sin(x)
%1:f32[3] = Sin(x)
%2:f32[3] = Cos(%0)
%3:f32[3] = Cos(%1)
y:f32[3] = Mul(%2, %3)",
            expect![[r#"
                graph g(x:f32[3]) -> (y)
                %0 = Sin(x)  # 2 3
                %1 = Cos(%0)  # 4 5
                y:f32[3] = Mul(%1, %1)  # 6
            "#]],
        );
    }

    #[test]
    fn another_attribute_makes_another_node() {
        check(
            super::run,
            "graph g(x:f32[3]) -> (y)
%0:f16[3] = Cast(x) {to=10}
%1:bf16[3] = Cast(x) {to=16}
%2:f32[3] = Cast(%0) {to=1}
%3:f32[3] = Cast(%1) {to=1}
y:f32[3] = Mul(%2, %3)",
            expect![[r#"
                graph g(x:f32[3]) -> (y)
                %0 = Cast(x) {to=10}  # 2
                %1 = Cast(x) {to=16}  # 3
                %2 = Cast(%0) {to=1}  # 4
                %3 = Cast(%1) {to=1}  # 5
                y:f32[3] = Mul(%2, %3)  # 6
            "#]],
        );
    }

    #[test]
    fn what_is_drawn_at_random_is_drawn_twice() {
        check(
            super::run,
            "graph g(x:f32[3]) -> (y)
%0:f32[3] = RandomNormalLike(x)
%1:f32[3] = RandomNormalLike(x)
y:f32[3] = Sub(%0, %1)",
            expect![[r#"
                graph g(x:f32[3]) -> (y)
                %0 = RandomNormalLike(x)  # 2
                %1 = RandomNormalLike(x)  # 3
                y:f32[3] = Sub(%0, %1)  # 4
            "#]],
        );
    }
}
