//! `share-nodes`: replaces a node by an earlier node that computes the same.

use algebra::rewrite::require;
use onnx::operator::properties::{LAYOUT_OPS, RANDOM};
use onnx::{Edit, OpType, Outcome, Patch, Replacement, Tensor, ValueId};

use super::Rule;

pub(crate) const RULE: Rule = Rule {
    name: "share-nodes",
    does: "drops a node that computes the same as an earlier node",
    apply: share_node,
};

pub(crate) const CAST_RULE: Rule = Rule {
    name: "share-casts",
    does: "casts an array once if it is cast both before and after a layout op",
    apply: share_cast,
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

/// Moves a cast before a layout op, if another node already casts the operand of the layout op to the same type.
fn share_cast(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let moved = edit.input(index, 0).filter(|_| edit.node(index).op == OpType::Cast)?;
    let layout_op = edit.producer(moved).filter(|_| edit.reads(moved) == 1)?;
    require(edit.node(layout_op).op.is(LAYOUT_OPS))?;
    let source = edit.input(layout_op, 0)?;
    require((2..=MAX_READERS).contains(&edit.reads(source)))?;
    let is_same = |other: usize| {
        let (node, cast) = (edit.node(other), edit.node(index));
        node.op == OpType::Cast && node.attrs == cast.attrs
    };
    edit.readers(source).find(|&other| is_same(other))?;
    let cast = edit.op_with(index, 0, source);
    let cast = edit.insert(cast);
    let op = edit.op_with(layout_op, 0, cast);
    edit.done(&[layout_op], op)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check, check_all, each};

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

    #[test]
    fn an_array_that_is_cast_before_and_after_a_layout_op_is_cast_once() {
        let rules = [&super::CAST_RULE, &super::RULE].map(|rule| each(rule.apply));
        check_all(
            &[&rules[0], &rules[1], &testing::drop_dead],
            "graph g(x:f16[4,6]) -> (y, z)
%0:f16[4,2,3] = Reshape(x, [4, 2, 3]:i64)
%1:f32[4,2,3] = Cast(%0) {to=1}
z:f32[4,2,3] = Neg(%1)
%2:f32[4,6] = Cast(x) {to=1}
y:f32[4,6] = Neg(%2)",
            expect![[r#"
                graph g(x:f16[4,6]) -> (y, z)
                %0 = Cast(x) {to=1}  # 3 5
                %1 = Reshape(%0, [4, 2, 3]:i64)  # 2 3
                z:f32[4,2,3] = Neg(%1)  # 4
                y:f32[4,6] = Neg(%0)  # 6
            "#]],
        );
    }

    #[test]
    fn other_types_and_a_layout_op_that_others_read_keep_their_casts() {
        check(
            each(super::CAST_RULE.apply),
            "graph g(x:f16[4,6]) -> (y, z, u, v)
%0:f16[4,2,3] = Reshape(x, [4, 2, 3]:i64)
z:f32[4,2,3] = Cast(%0) {to=1}
u:f16[4,2,3] = Neg(%0)
%1:f16[6,4] = Transpose(x) {perm=[1, 0]}
v:f64[6,4] = Cast(%1) {to=11}
y:f32[4,6] = Cast(x) {to=1}",
            expect![[r#"
                graph g(x:f16[4,6]) -> (y, z, u, v)
                %0 = Reshape(x, [4, 2, 3]:i64)  # 2
                z:f32[4,2,3] = Cast(%0) {to=1}  # 3
                u:f16[4,2,3] = Neg(%0)  # 4
                %1 = Transpose(x) {perm=[1, 0]}  # 5
                v:f64[6,4] = Cast(%1) {to=11}  # 6
                y:f32[4,6] = Cast(x) {to=1}  # 7
            "#]],
        );
    }
}
