//! `take-branches`: replaces an `If` with a constant condition by the branch that it takes.

use algebra::rewrite::require;
use onnx::{Op, OpType, Outcome, Patch, ValueId};

use super::Rule;

pub(crate) const RULE: Rule = Rule {
    name: "take-branches",
    does: "replaces an `If` with a constant condition by the nodes of the branch that it takes",
    apply: take_branch,
};

fn take_branch(patch: &mut Patch<'_, '_>) -> Outcome {
    let index = patch.root();
    require(patch.node(index).op == OpType::If)?;
    let condition = patch.tensor(patch.input(index, 0)?)?.ints()?;
    let branch = if condition.first()? == &0 { "else_branch" } else { "then_branch" };
    let results = patch.insert_branch(branch)?;
    // A result may be an operand of the branch, and two results may be one value. An output needs its own value.
    let copy = |result: ValueId| patch.insert(Op::new(OpType::Identity, &[result]));
    let results: Vec<(usize, ValueId)> = results.into_iter().map(copy).enumerate().collect();
    patch.done(&[], results)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::canonicalize::everything;
    use crate::testing::{check, check_lean, rule};

    #[test]
    fn nested_branches_of_constants_become_their_nodes_and_are_folded() {
        check(
            everything,
            "graph g(x:f32[3], p:bool[]) -> (y, z)
%0:bool[] = Less(3.0, 2.0)
y:f32[3], z:f32[3] = If(%0) {else_branch={
  graph e() -> (a, x)
  %1:bool[] = Not(%0)
  %2:f32[] = Add(1.0, 2.0)
  a:f32[3] = If(%1) {else_branch={
    graph e2() -> (b)
    b:f32[3] = Sin(x)
  }, then_branch={
    graph t2() -> (c)
    %3:f32[3] = Cos(x)
    c:f32[3] = Mul(%3, %2)
  }}
}, then_branch={
  graph t() -> (d, x)
  d:f32[3] = Exp(x)
}}",
            expect![[r#"
                graph g(x:f32[3], p:bool[]) -> (y, z)
                %0 = Cos(x)  # 12
                y:f32[3] = Mul(%0, 3.0)  # 13 2 3 5 7
                z:f32[3] = Identity(x)  # 3 2
            "#]],
        );
    }

    #[test]
    fn a_branch_of_a_dynamic_choice_takes_its_own_branch() {
        check(
            everything,
            "graph g(x:f32[3], p:bool[]) -> (y)
y:f32[3] = If(p) {else_branch={
  graph e() -> (a)
  a:f32[3] = If(true) {else_branch={
    graph e2() -> (b)
    b:f32[3] = Sin(x)
  }, then_branch={
    graph t2() -> (c)
    c:f32[3] = Cos(x)
  }}
}, then_branch={
  graph t() -> (d)
  d:f32[3] = Exp(x)
}}",
            expect![[r#"
                graph g(x:f32[3], p:bool[]) -> (y)
                y:f32[3] = If(p) {else_branch={  # 2
                  graph e() -> (a)
                  a:f32[3] = Cos(x)  # 9 4
                }, then_branch={
                  graph t() -> (d)
                  d:f32[3] = Exp(x)  # 13
                }}
            "#]],
        );
    }

    #[test]
    fn one_value_can_become_two_outputs_and_a_constant_one() {
        check_lean(
            rule(&super::RULE),
            "graph g(x:f32[3]) -> (y, z, w)
y:f32[3], z:f32[3], w:f32[] = If(true) {else_branch={
  graph e() -> (a, a, 1.0)
  a:f32[3] = Sin(x)
}, then_branch={
  graph t() -> (b, b, 2.0)
  b:f32[3] = Exp(x)
}}",
            expect![[r#"
                graph g(x:f32[3]) -> (y, z, w)
                b = Exp(x)  # 7
                y:f32[3] = Identity(b)  # 2
                z:f32[3] = Identity(b)  # 2
                w:f32[] = Identity(2.0)  # 2
            "#]],
        );
    }
}
