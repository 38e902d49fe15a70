//! Hides a constant that the first branch of an `If` returns, for runtimes that then drop the other branch.

use loops::{replacing, results_in_place};
use onnx::kernels::{Limit, constants};
use onnx::{Attr, Op, OpType, Outcome, Patch, declined};

use super::endings::body_node;
use super::loops::zero;

/// Chooses between the constant and zero by the condition, which is true in the branch, but only a run of the model knows
/// it.
pub(super) fn hidden_constants(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    if !edit.has_limit(index, Limit::BranchConstant) {
        return None;
    }
    let condition = edit.input(index, 0)?;
    if edit.ty(condition)?.rank() > 0 {
        return declined("the condition has an axis");
    }
    let Some(Attr::Graph(branch)) = edit.node(index).attr("then_branch") else { return None };
    let mut branch = (**branch).clone();
    let known = constants(&branch, |value| edit.tensor(value).is_some());
    for at in 0..branch.outputs.len() {
        let result = branch.outputs[at];
        if known.contains(&result) || edit.tensor(result).is_some() {
            let ty = edit.ty(result)?.clone();
            let nothing = zero(edit, ty.dtype)?;
            let hidden = edit.body_input(ty);
            let choose = Op::new(OpType::Where, &[condition, result, nothing]);
            branch.nodes.extend(body_node(edit, choose, hidden));
            branch.outputs[at] = hidden;
        }
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
                  %0:f32[2] = Where(p, a, a)  # 2
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
