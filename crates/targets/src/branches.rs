//! Hides a constant that the first branch of an `If` returns, for runtimes that then drop the other branch.

use loops::{replacing, results_in_place};
use onnx::kernels::{Limit, constants};
use onnx::{Attr, Op, OpType, Outcome, Patch, ValueId, declined};

use super::endings::body_node;
use super::loops::zero;

/// Chooses between the constant and zero by the condition, which is true in the branch, but only a run of the model knows
/// it.
pub(super) fn hidden_constants(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let condition = edit.input(index, 0)?;
    if !edit.target().has_limit(Limit::BranchConstant) || edit.tensor(condition).is_some() {
        return None;
    }
    if edit.ty(condition)?.rank() > 0 {
        return declined("the condition has an axis");
    }
    let Some(Attr::Graph(branch)) = edit.node(index).attr("then_branch") else { return None };
    let mut branch = (**branch).clone();
    // A node before the `If` that only the branch reads moves there when the model is written.
    let is_repeated = |value: ValueId| {
        let made = edit.made_by(value, OpType::Expand).map(|node| edit.inputs(node));
        made.is_some_and(|inputs| inputs.iter().flatten().all(|&it| edit.tensor(it).is_some()))
    };
    let is_constant = |value: ValueId| edit.tensor(value).is_some() || is_repeated(value);
    let known = constants(&branch, is_constant);
    let follows = |result: ValueId| known.contains(&result) || is_constant(result);
    let shown: Vec<bool> = branch.outputs.iter().map(|&result| follows(result)).collect();
    if !shown.contains(&true) {
        return None;
    }
    for (result, _) in branch.outputs.iter_mut().zip(shown).filter(|(_, is_shown)| *is_shown) {
        let ty = edit.ty(*result)?.clone();
        let nothing = zero(edit, ty.dtype)?;
        let hidden = edit.body_input(ty);
        let choose = Op::new(OpType::Where, &[condition, *result, nothing]);
        branch.nodes.extend(body_node(edit, choose, hidden));
        *result = hidden;
    }
    let op = Op::of(edit.node(index), edit.inputs(index)).attr("then_branch", branch);
    let results = edit.node(index).outputs.to_vec();
    let made = edit.insert_instead(op, &replacing(&results));
    let results = results_in_place(edit, results.into_iter().zip(made));
    edit.done(&[], results)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::check_for;

    #[test]
    fn a_constant_of_the_first_branch_is_chosen_by_the_condition() {
        check_for(
            "tract",
            crate::forms::run,
            "graph g(p:bool[], x:f32[2]) -> (y)
y:f32[2] = If(p) {else_branch={
  graph e() -> (b)
  b:f32[2] = Neg(x)
}, then_branch={
  graph t() -> (a)
  a:f32[2] = Expand(0:f32, [2]:i64)
}}",
            expect![[r#"
                graph g(p:bool[], x:f32[2]) -> (y)
                y:f32[2] = If(p) {else_branch={  # 2
                  graph e() -> (b)
                  b:f32[2] = Neg(x)  # 4
                }, then_branch={
                  graph t() -> (%0)
                  a = Expand(0.0, [2]:i64)  # 7
                  %0:f32[2] = Where(p, a, 0.0)  # 2
                }}
            "#]],
        );
    }

    #[test]
    fn a_constant_that_only_the_first_branch_reads_is_chosen_by_the_condition() {
        check_for(
            "tract",
            crate::forms::run,
            "graph g(p:bool[], x:f32[2]) -> (y)
a:f32[2] = Expand(0:f32, [2]:i64)
y:f32[2] = If(p) {else_branch={
  graph e() -> (b)
  b:f32[2] = Neg(x)
}, then_branch={
  graph t() -> (a)
}}",
            expect![[r#"
                graph g(p:bool[], x:f32[2]) -> (y)
                a = Expand(0.0, [2]:i64)  # 2
                y:f32[2] = If(p) {else_branch={  # 3
                  graph e() -> (b)
                  b:f32[2] = Neg(x)  # 5
                }, then_branch={
                  graph t() -> (%0)
                  %0:f32[2] = Where(p, a, 0.0)  # 3
                }}
            "#]],
        );
    }

    #[test]
    fn a_constant_of_the_second_branch_stays() {
        check_for(
            "tract",
            crate::forms::run,
            "graph g(p:bool[], x:f32[2]) -> (y)
y:f32[2] = If(p) {else_branch={
  graph e() -> (b)
  b:f32[2] = Expand(0:f32, [2]:i64)
}, then_branch={
  graph t() -> (a)
  a:f32[2] = Neg(x)
}}",
            expect![[r#"
                graph g(p:bool[], x:f32[2]) -> (y)
                y:f32[2] = If(p) {else_branch={  # 2
                  graph e() -> (b)
                  b:f32[2] = Expand(0.0, [2]:i64)  # 4
                }, then_branch={
                  graph t() -> (a)
                  a:f32[2] = Neg(x)  # 7
                }}
            "#]],
        );
    }
}
