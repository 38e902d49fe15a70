//! `take-branches`: replaces an `If` with a constant condition by the branch that it takes.

use algebra::rewrite::require;
use onnx::edit::for_each_read;
use onnx::{
    DType, Function, Graph, Model, Node, Op, OpType, Outcome, Patch, Tensor, Type, ValueId,
};
use rustc_hash::FxHashSet;

use super::{Rule, folding};

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

/// Takes the branches whose conditions are constant, if ONNX Runtime would take them and crash.
///
/// ONNX Runtime inlines an `If` with a constant condition. If the `If` is in a branch that ONNX Runtime inlines too, and a
/// body in its own branch reads a value from outside, ONNX Runtime reads memory that it has freed.
pub(crate) fn take_deep_branches(model: &mut Model) {
    if deep_branches(model).is_empty() {
        return;
    }
    // Each rule removes nodes, so the loop ends.
    while model.edit(&mut |edit| {
        for index in 0..edit.len() {
            let is_onnx = edit.is_live(index) && edit.node(index).op.is_onnx();
            let rules = [folding::RULE, RULE];
            let _ = is_onnx && rules.iter().any(|rule| edit.patch(index, rule.apply));
        }
        if edit.is_changed() {
            edit.drop_unread();
        }
    }) {}
}

/// Keeps ONNX Runtime from taking the branches that remain: those whose condition depends on a function with rounding.
/// ONNX Runtime does not compute a loop when it loads a model.
pub(crate) fn hide_conditions(model: &mut Model) {
    let deep = deep_branches(model);
    if deep.is_empty() {
        return;
    }
    model.edit(&mut |edit| {
        for index in edit.nodes() {
            let is_deep = edit.node(index).outputs.first().is_some_and(|one| deep.contains(one));
            let _ = is_deep && edit.patch(index, hide_condition);
        }
    });
}

/// Passes a condition through a loop of one iteration.
fn hide_condition(patch: &mut Patch<'_, '_>) -> Outcome {
    let index = patch.root();
    let condition = patch.input(index, 0)?;
    let [number, goes_on, flag] =
        [DType::I64, DType::Bool, DType::Bool].map(|dtype| patch.body_input(Type::new(dtype, [])));
    let mut body = patch.branch("hide-condition", |patch| {
        [goes_on, flag].map(|value| patch.insert(Op::new(OpType::Identity, &[value]))).to_vec()
    });
    body.inputs = vec![number, goes_on, flag];
    let one = patch.integer(1)?;
    let always = patch.constant(Tensor::of_ints(DType::Bool, Vec::new(), &[1])?, &[]);
    let op = Op::new(OpType::Loop, &[one, always, condition]).attr("body", body);
    let hidden = patch.insert_all_for(&[], op, 1)[0];
    patch.read_instead(index, &[(condition, hidden)].into_iter().collect());
    patch.finish()
}

/// Returns the first results of each `If` in the branch of another one that contains a body, if only constants determine
/// both conditions. A call may put a function into a branch.
fn deep_branches(model: &Model) -> FxHashSet<ValueId> {
    let mut search = Search { model, known: FxHashSet::default(), deep: FxHashSet::default() };
    if !model.target.includes_onnxruntime() {
        return search.deep;
    }
    loop {
        let before = search.known.len();
        search.graph(&model.graph, false);
        for function in &model.functions {
            search.graph(&function.body, true);
        }
        if search.known.len() == before {
            return search.deep;
        }
    }
}

struct Search<'m> {
    model: &'m Model,
    /// The values that ONNX Runtime computes when it loads the model.
    known: FxHashSet<ValueId>,
    deep: FxHashSet<ValueId>,
}

impl Search<'_> {
    fn is_known(&self, id: ValueId) -> bool {
        self.known.contains(&id) || self.model.values[id].tensor.is_some()
    }

    fn graph(&mut self, graph: &Graph, is_inside: bool) {
        for node in &graph.nodes {
            let is_if = node.op == OpType::If;
            let is_taken = is_if && node.inputs.iter().flatten().all(|&id| self.is_known(id));
            let mut inner = node.bodies().flat_map(|body| &body.nodes);
            let is_deep = inner.any(|inner| inner.bodies().next().is_some() || !inner.op.is_onnx());
            if is_inside && is_taken && is_deep {
                self.deep.extend(node.outputs.first());
            }
            for body in node.bodies() {
                self.graph(body, is_inside || is_taken);
            }
            let mut is_settled = is_if || node.bodies().next().is_none();
            for_each_read(node, &mut |id| is_settled &= self.is_known(id));
            if is_settled || self.is_size(node) {
                self.known.extend(&node.outputs);
            }
            self.call(node);
        }
    }

    /// True for a size that is known when the model is loaded.
    fn is_size(&self, node: &Node) -> bool {
        let ty = |id: &ValueId| self.model.values[*id].ty.as_ref();
        let shape = node.inputs.iter().flatten().next().and_then(ty).map(|ty| &ty.shape);
        node.op.is_one_of(&[OpType::Shape, OpType::Size])
            && shape.is_some_and(|shape| shape.iter().all(|size| size.known().is_some()))
    }

    /// Adds the results of a call that are the same for all operands, and the inputs of a function that are constants in
    /// one of its calls.
    fn call(&mut self, node: &Node) {
        let is_called = |function: &&Function| !node.op.is_onnx() && function.operator() == node.op;
        let Some(function) = self.model.functions.iter().find(is_called) else { return };
        let Graph { inputs, outputs, .. } = &function.body;
        let operands = node.inputs.iter().zip(inputs);
        let operands = operands.filter_map(|(operand, &input)| Some(((*operand)?, input)));
        for (from, to) in operands.chain(outputs.iter().copied().zip(node.outputs.iter().copied()))
        {
            if self.is_known(from) {
                self.known.insert(to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::canonicalize::everything;
    use testing::{check, check_lean, check_model, each};

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
            each(super::RULE.apply),
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

    const DEEP: &str = "graph g(x:f32[], p:bool[]) -> (y)
%0:bool[] = Not(true)
y:f32[] = If(%0) {else_branch={
  graph e() -> (a)
  a:f32[] = If(%0) {else_branch={
    graph e2() -> (b)
    b:f32[] = Loop(2:i64, true, x) {body={
      graph l(i:i64[], c:bool[], v:f32[]) -> (d, w)
      d:bool[] = Identity(c)
      w:f32[] = Sin(v)
    }}
  }, then_branch={
    graph t2() -> (f)
    f:f32[] = Cos(x)
  }}
}, then_branch={
  graph t() -> (h)
  h:f32[] = Exp(x)
}}";

    #[test]
    fn a_deep_branch_of_constants_is_taken_without_optimization() {
        check_model(
            super::take_deep_branches,
            DEEP,
            expect![[r#"
                graph g(x:f32[], p:bool[]) -> (y)
                b = Loop(2:i64, true, x) {body={  # 7
                  graph l(i:i64[], c:bool[], v:f32[]) -> (d, w)
                  d:bool[] = Identity(c)  # 9
                  w:f32[] = Sin(v)  # 10
                }}
                a = Identity(b)  # 5 2
                y:f32[] = Identity(a)  # 3 2
            "#]],
        );
    }

    #[test]
    fn branches_without_bodies_stay_without_optimization() {
        let text = "graph g(x:f32[], p:bool[]) -> (y)
%0:bool[] = Not(true)
y:f32[] = If(%0) {else_branch={
  graph e() -> (a)
  a:f32[] = If(%0) {else_branch={
    graph e2() -> (b)
    b:f32[] = Sin(x)
  }, then_branch={
    graph t2() -> (f)
    f:f32[] = Cos(x)
  }}
}, then_branch={
  graph t() -> (h)
  h:f32[] = Exp(x)
}}";
        check_model(
            super::take_deep_branches,
            text,
            expect![[r#"
            graph g(x:f32[], p:bool[]) -> (y)
            %0 = Not(true)  # 2
            y:f32[] = If(%0) {else_branch={  # 3
              graph e() -> (a)
              a:f32[] = If(%0) {else_branch={  # 5
                graph e2() -> (b)
                b:f32[] = Sin(x)  # 7
              }, then_branch={
                graph t2() -> (f)
                f:f32[] = Cos(x)  # 10
              }}
            }, then_branch={
              graph t() -> (h)
              h:f32[] = Exp(x)  # 14
            }}
        "#]],
        );
    }

    #[test]
    fn a_deep_branch_of_a_dynamic_condition_changes_nothing() {
        let text = DEEP.replace("y:f32[] = If(%0)", "y:f32[] = If(p)");
        check_model(
            super::take_deep_branches,
            &text,
            expect![[r#"
            graph g(x:f32[], p:bool[]) -> (y)
            %0 = Not(true)  # 2
            y:f32[] = If(p) {else_branch={  # 3
              graph e() -> (a)
              a:f32[] = If(%0) {else_branch={  # 5
                graph e2() -> (b)
                b:f32[] = Loop(2:i64, true, x) {body={  # 7
                  graph l(i:i64[], c:bool[], v:f32[]) -> (d, w)
                  d:bool[] = Identity(c)  # 9
                  w:f32[] = Sin(v)  # 10
                }}
              }, then_branch={
                graph t2() -> (f)
                f:f32[] = Cos(x)  # 14
              }}
            }, then_branch={
              graph t() -> (h)
              h:f32[] = Exp(x)  # 18
            }}
        "#]],
        );
    }

    #[test]
    fn a_condition_that_depends_on_rounding_is_hidden_in_a_deep_branch() {
        let text =
            DEEP.replace("%0:bool[] = Not(true)", "%1:f32[] = Exp(0.3)\n%0:bool[] = Less(%1, 1.3)");
        check_model(
            super::hide_conditions,
            &text,
            expect![[r#"
            graph g(x:f32[], p:bool[]) -> (y)
            %0 = Exp(0.3)  # 2
            %1 = Less(%0, 1.3)  # 3
            y:f32[] = If(%1) {else_branch={  # 4
              graph e() -> (a)
              %2 = Loop(1:i64, true, %1) {body={  # 6
                graph `hide-condition`(%3:i64[], %4:bool[], %5:bool[]) -> (%6, %7)
                %6:bool[] = Identity(%4)  # 6
                %7:bool[] = Identity(%5)  # 6
              }}
              a:f32[] = If(%2) {else_branch={  # 6
                graph e2() -> (b)
                b:f32[] = Loop(2:i64, true, x) {body={  # 8
                  graph l(i:i64[], c:bool[], v:f32[]) -> (d, w)
                  d:bool[] = Identity(c)  # 10
                  w:f32[] = Sin(v)  # 11
                }}
              }, then_branch={
                graph t2() -> (f)
                f:f32[] = Cos(x)  # 15
              }}
            }, then_branch={
              graph t() -> (h)
              h:f32[] = Exp(x)  # 19
            }}
        "#]],
        );
    }
}
