//! `share-nodes`: replaces a node by an earlier node that computes the same.

use algebra::rewrite::require;
use onnx::operator::properties::RANDOM;
use onnx::{Edit, Outcome, Patch, Replacement, Tensor, ValueId};

use super::Rule;

pub(crate) const RULE: Rule = Rule {
    name: "share-nodes",
    does: "drops a node that computes the same as an earlier node",
    apply: share_node,
};

/// Values with more readers are skipped, so that the cost stays linear.
const MAX_READERS: usize = 64;

/// Constants with more elements are not compared.
const MAX_ELEMENTS: usize = 16;

/// Looks for an equal node among the readers of one operand, because equal nodes read the same values. Chooses the
/// operand with the fewest readers.
fn share_node(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let node = edit.node(index);
    require(node.op.is_onnx() && !node.op.is(RANDOM) && node.bodies().next().is_none())?;
    let operands = edit.operands(index);
    // Equal constants may be different values. Each one has only some of the readers.
    let fewest =
        operands.min_by_key(|&operand| (is_small_constant(edit, operand), edit.reads(operand)))?;
    require((2..=MAX_READERS).contains(&edit.reads(fewest)))?;
    let same = edit.readers(fewest).filter(|&other| other != index && is_same(edit, index, other));
    // The worklist shares the other equal nodes later.
    let first = same.reduce(|a, b| if edit.is_before(a, b) { a } else { b })?;
    let (kept, dropped) =
        if edit.is_before(first, index) { (first, index) } else { (index, first) };
    Some(edit.replace(dropped, [], Replacement::SameAs(kept)))
}

fn is_same(edit: &Edit<'_>, index: usize, other: usize) -> bool {
    let (a, b) = (edit.node(index), edit.node(other));
    let is_same_operand =
        |operand: usize| match (edit.input(index, operand), edit.input(other, operand)) {
            (Some(a), Some(b)) => {
                let are_constants = is_small_constant(edit, a) && is_small_constant(edit, b);
                a == b || (are_constants && edit.tensor(a) == edit.tensor(b))
            }
            (a, b) => a == b,
        };
    a.op == b.op
        && (a.inputs.len(), a.outputs.len()) == (b.inputs.len(), b.outputs.len())
        && a.attrs == b.attrs
        && (0..a.inputs.len()).all(is_same_operand)
}

/// True if the value is a small constant without a name.
fn is_small_constant(edit: &Edit<'_>, value: ValueId) -> bool {
    let is_small = |tensor: &Tensor| tensor.len() <= MAX_ELEMENTS;
    edit.tensor(value).is_some_and(is_small) && edit.name(value).is_none()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check, each};

    #[test]
    fn the_first_of_equal_nodes_inherits_all_origins() {
        check(
            each(super::RULE.apply),
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
            each(super::RULE.apply),
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
    fn random_nodes_are_not_shared() {
        check(
            each(super::RULE.apply),
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
