//! `run-all-iterations`: lets a loop run to its largest number of iterations if a runtime does not end it earlier.
//!
//! Each iteration computes whether the loop goes on, and keeps all states if it does not.

use loops::{copy_of, number, replacing, results_in_place};
use onnx::kernels::Limit;
use onnx::{
    Attr, DType, Edit, Graph, Node, Op, OpType, Outcome, Patch, Tensor, Type, ValueId, declined,
};

/// The most iterations of a loop that no longer ends earlier.
const MAX_ITERATIONS: i64 = 1 << 10;

pub fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    if edit.op(index) != Some(OpType::Loop) || !edit.has_limit(index, Limit::LoopEnds) {
        return None;
    }
    if edit.input(index, 0).is_none() {
        return counted(edit);
    }
    let iterations = edit.input(index, 0).and_then(|count| number(edit, count));
    if !iterations.is_some_and(|count| (1..=MAX_ITERATIONS).contains(&count)) {
        return declined("the largest number of iterations is unknown or large");
    }
    let mut body = edit.node(index).bodies().next()?.clone();
    let carries = body.inputs.len() - 2;
    if body.outputs.len() != carries + 1 {
        return declined("the loop stacks results");
    }
    if body.nodes.iter().any(|node| traps(edit, node)) {
        return declined("the body divides integers, which may trap after the end");
    }
    let model = body.nodes.first()?.clone();
    let flag = Type::new(DType::Bool, []);
    let [goes, and] = [(); 2].map(|()| edit.body_input(flag.clone()));
    let ends = body.outputs[0];
    for carry in 0..carries {
        let (before, after) = (body.inputs[2 + carry], body.outputs[1 + carry]);
        let kept = edit.body_input(edit.ty(after)?.clone());
        let choose = Op::new(OpType::Where, &[goes, after, before]);
        body.nodes.extend(body_node(edit, choose, kept));
        body.outputs[1 + carry] = kept;
    }
    body.nodes.extend(body_node(edit, Op::new(OpType::And, &[goes, ends]), and));
    let next = edit.body_input(flag);
    body.nodes.push(copy_of(body.inputs[1], next, &model));
    body.outputs[0] = next;
    body.inputs.push(goes);
    body.outputs.push(and);
    let yes = Tensor::of_ints(DType::Bool, Vec::new(), &[1])?;
    let yes = edit.constant(yes, &[]);
    let mut inputs = edit.inputs(index);
    let first = inputs[1].replace(yes).unwrap_or(yes);
    inputs.push(Some(first));
    let op = Op { op: OpType::Loop.into(), inputs, attrs: Vec::new() }.attr("body", body);
    let results = edit.node(index).outputs.to_vec();
    let mut replaced = replacing(&results);
    replaced.push(None);
    let made = edit.insert_instead(op, &replaced);
    let results = results_in_place(edit, results.into_iter().zip(made));
    edit.done(&[], results)
}

/// Gives a loop its number of iterations if a counter that grows by one ends it at a number from outside.
fn counted(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let mut body = edit.node(index).bodies().next()?.clone();
    let (&ends, after) = body.outputs.split_first()?;
    let maker = |id: ValueId| body.nodes.iter().position(|node| node.outputs[..] == [id]);
    let place = maker(ends)?;
    let unknown = || declined("the largest number of iterations is unknown");
    let (OpType::Less, &[Some(next), Some(limit)]) =
        (body.nodes[place].op.onnx()?, &body.nodes[place].inputs[..])
    else {
        return unknown();
    };
    let is_read =
        after.contains(&ends) || body.nodes.iter().any(|node| node.inputs.contains(&Some(ends)));
    let Some(sum) = maker(next).map(|at| &body.nodes[at]).filter(|it| it.op == OpType::Add) else {
        return unknown();
    };
    let carry = after.iter().position(|&it| it == next)?;
    let before = body.inputs[2 + carry];
    let is_one = |value: &ValueId| *value != before && number(edit, *value) == Some(1);
    let counts = sum.inputs.contains(&Some(before)) && sum.inputs.iter().flatten().any(is_one);
    let is_signed = edit.ty(next)?.dtype.is_signed_int() && edit.ty(next)?.rank() == 0;
    // The limit is a value from outside, or a state that stays as it is.
    let copies = |value: ValueId| {
        let source = maker(value).map(|at| &body.nodes[at]);
        source.filter(|node| node.op == OpType::Identity).map_or(Some(value), |it| it.inputs[0])
    };
    let limit = match body.inputs[2..].iter().position(|&input| input == limit) {
        Some(state) if copies(after[state]) == Some(limit) => edit.input(index, 2 + state)?,
        Some(_) => return unknown(),
        None if maker(limit).is_some() => return unknown(),
        None => limit,
    };
    // The first condition must be that of the counter.
    let start = edit.input(index, 2 + carry)?;
    let first = edit.input(index, 1).and_then(|first| edit.made_by(first, OpType::Less));
    let is_same = first.is_some_and(|it| edit.inputs(it) == [Some(start), Some(limit)]);
    if is_read || !counts || !is_signed || !is_same {
        return unknown();
    }
    let made = edit.formula([start, limit], |[start, limit]| {
        (limit.cast(DType::I64) - start.cast(DType::I64)).max(0.0)
    });
    let count = match made.ok()? {
        onnx::Replacement::Op(op) => edit.insert(op),
        onnx::Replacement::Value(value) => value,
        _ => return None,
    };
    let again = &mut body.nodes[place];
    again.op = OpType::Identity.into();
    again.inputs = [Some(body.inputs[1])].into_iter().collect();
    let yes = Tensor::of_ints(DType::Bool, Vec::new(), &[1])?;
    let yes = edit.constant(yes, &[]);
    let mut inputs = edit.inputs(index);
    (inputs[0], inputs[1]) = (Some(count), Some(yes));
    let op = Op { op: OpType::Loop.into(), inputs, attrs: Vec::new() }.attr("body", body);
    edit.done(&[], op)
}

/// True for a division of integers by computed ones.
fn traps(edit: &Edit<'_>, node: &Node) -> bool {
    let divides = matches!(node.op.onnx(), Some(OpType::Div | OpType::Mod))
        && node.inputs.get(1).copied().flatten().is_some_and(|by| {
            edit.tensor(by).is_none() && !edit.ty(by).is_some_and(|ty| ty.dtype.is_float())
        });
    let inner = |graph: &Graph| graph.nodes.iter().any(|node| traps(edit, node));
    divides || node.attrs.iter().any(|(_, attr)| matches!(attr, Attr::Graph(body) if inner(body)))
}

/// Returns the nodes of a body that compute a value.
pub(super) fn body_node(edit: &mut Patch<'_, '_>, op: Op, result: ValueId) -> Vec<Node> {
    let Graph { mut nodes, .. } = edit.branch("", |edit| vec![edit.insert(op)]);
    if let Some(last) = nodes.last_mut() {
        last.outputs[0] = result;
    }
    nodes
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::check_for;

    #[test]
    fn a_loop_keeps_its_states_after_its_end() {
        check_for(
            "iree",
            super::run,
            "graph g(x:f32[], p:bool[]) -> (n, y)
n:i32[], y:f32[] = Loop(10:i64, p, 0:i32, x) {body={
  graph b(i:i64[], c:bool[], m:i32[], v:f32[]) -> (d, k, w)
  k:i32[] = Add(m, 1:i32)
  w:f32[] = Sin(v)
  d:bool[] = Less(w, 0.5)
}}",
            expect![[r#"
                graph g(x:f32[], p:bool[]) -> (n, y)
                n:i32[], y:f32[], %0 = Loop(10:i64, true, 0:i32, x, p) {body={  # 2
                  graph b(i:i64[], c:bool[], m:i32[], v:f32[], %1:bool[]) -> (%5, %2, %3, %4)
                  k = Add(m, 1:i32)  # 4
                  w = Sin(v)  # 5
                  d = Less(w, 0.5)  # 6
                  %2:i32[] = Where(%1, k, m)  # 2
                  %3:f32[] = Where(%1, w, v)  # 2
                  %4:bool[] = And(%1, d)  # 2
                  %5:bool[] = Identity(c)  # 4
                }}
            "#]],
        );
    }

    #[test]
    fn a_loop_that_may_trap_after_its_end_or_has_no_limit_stays() {
        check_for(
            "iree",
            super::run,
            "graph g(a:i32[], b:i32[], x:f32[]) -> (p, q, y)
p:i32[], q:i32[] = Loop(10:i64, true, a, b) {body={
  graph b(i:i64[], c:bool[], m:i32[], n:i32[]) -> (d, n, r)
  r:i32[] = Mod(m, n)
  d:bool[] = Greater(r, 0:i32)
}}
y:f32[] = Loop(_, true, x) {body={
  graph b2(i2:i64[], c2:bool[], v:f32[]) -> (d2, w)
  w:f32[] = Sin(v)
  d2:bool[] = Less(w, 0.5)
}}",
            expect![[r#"
                graph g(a:i32[], b:i32[], x:f32[]) -> (p, q, y)
                p:i32[], q:i32[] = Loop(10:i64, true, a, b) {body={  # 2
                  graph b(i:i64[], c:bool[], m:i32[], n:i32[]) -> (d, n, r)
                  r:i32[] = Mod(m, n)  # 4
                  d:bool[] = Greater(r, 0:i32)  # 5
                }}
                y:f32[] = Loop(_, true, x) {body={  # 7
                  graph b2(i2:i64[], c2:bool[], v:f32[]) -> (d2, w)
                  w:f32[] = Sin(v)  # 9
                  d2:bool[] = Less(w, 0.5)  # 10
                }}
            "#]],
        );
    }

    #[test]
    fn a_counter_up_to_a_number_from_outside_counts_the_iterations() {
        check_for(
            "iree",
            super::run,
            "graph g(x:f32[], n:i32[]) -> (y, z)
%0:bool[] = Less(2:i32, n)
%1:i32[], y:f32[] = Loop(_, %0, 2:i32, x) {body={
  graph b(i:i64[], c:bool[], k:i32[], v:f32[]) -> (d, m, w)
  m:i32[] = Add(k, 1:i32)
  w:f32[] = Sin(v)
  d:bool[] = Less(m, n)
}}
%2:i32[], z:f32[] = Loop(_, %0, 2:i32, x) {body={
  graph b2(i2:i64[], c2:bool[], k2:i32[], v2:f32[]) -> (d2, m2, w2)
  m2:i32[] = Add(k2, 2:i32)
  w2:f32[] = Sin(v2)
  d2:bool[] = Less(m2, n)
}}",
            expect![[r#"
                graph g(x:f32[], n:i32[]) -> (y, z)
                %0 = Less(2:i32, n)  # 2
                %1, y:f32[] = Loop(_, %0, 2:i32, x) {body={  # 3
                  graph b(i:i64[], c:bool[], k:i32[], v:f32[]) -> (d, m, w)
                  m:i32[] = Add(k, 1:i32)  # 5
                  w:f32[] = Sin(v)  # 6
                  d:bool[] = Less(m, n)  # 7
                }}
                %2, z:f32[] = Loop(_, %0, 2:i32, x) {body={  # 9
                  graph b2(i2:i64[], c2:bool[], k2:i32[], v2:f32[]) -> (d2, m2, w2)
                  m2:i32[] = Add(k2, 2:i32)  # 11
                  w2:f32[] = Sin(v2)  # 12
                  d2:bool[] = Less(m2, n)  # 13
                }}
            "#]],
        );
    }
}
