//! `carry-layouts`: carries the state of a loop in the shape that its body computes with.
//!
//! If a body reshapes a value at the start of an iteration and back at its end, the loop can carry the reshaped
//! value. Then only the initial value and the result are reshaped. If a body reshapes each entry of an array, the
//! whole array is reshaped before the loop.

use algebra::rewrite::require;
use algebra::sizes::adds_leading_axes;
use onnx::operator::properties::{BROADCASTING, RESHAPES};
use onnx::{Edit, Graph, Node, Op, OpType, Outcome, Patch, Type, ValueId, known_shape};

use super::{maker, node_reads};
use crate::drop_carries::Carries;

/// A carry that a body reshapes.
struct Reshaped {
    carry: usize,
    /// The value at the start of an iteration.
    before: ValueId,
    /// The node that reshapes it.
    first: Node,
    /// The node that reshapes it back at the end of an iteration.
    last: Node,
}

impl Reshaped {
    fn of(edit: &Edit<'_>, body: &Graph, carries: Carries, carry: usize) -> Option<Reshaped> {
        let before = body.inputs[carries.operands + carry];
        let after = body.outputs[carries.results + carry];
        let mut readers = body.nodes.iter().filter(|node| node_reads(node, before));
        let is_first = |node: &&Node| reshapes(edit, node) == Some(before);
        let first = body.nodes.iter().find(is_first)?;
        let ty = edit.ty(first.outputs[0])?;
        let may_read_it =
            |node: &Node| node.outputs == first.outputs || broadcasts(edit, node, before, ty);
        require(readers.all(may_read_it) && !body.outputs.contains(&before))?;
        let last = maker(&body.nodes, after)?;
        let computed = reshapes(edit, last)?;
        let fits = edit.ty(computed) == Some(ty) && maker(&body.nodes, computed).is_some();
        let is_free =
            !body.outputs.contains(&computed) && !body.outputs.contains(&first.outputs[0]);
        (fits && is_free).then(|| Reshaped {
            carry,
            before,
            first: first.clone(),
            last: last.clone(),
        })
    }
}

/// Returns the only reader of an input of a body, and its sizes, if it reshapes the input to known sizes.
fn sole_reshape<'b>(
    edit: &Edit<'_>,
    body: &'b Graph,
    input: ValueId,
) -> Option<(&'b Node, Vec<i64>)> {
    let mut readers = body.nodes.iter().filter(|node| node_reads(node, input));
    let reader = readers.next().filter(|node| reshapes(edit, node) == Some(input))?;
    let is_free = readers.next().is_none()
        && ![input, reader.outputs[0]].iter().any(|id| body.outputs.contains(id));
    let sizes = known_shape(edit.shape(reader.outputs[0])?)?;
    (is_free && !sizes.contains(&0)).then_some((reader, sizes))
}

/// Reshapes the arrays that a loop runs over if the body reshapes each entry. Returns whether there are any.
fn reshape_arrays(
    edit: &mut Patch<'_, '_>,
    body: &mut Graph,
    inputs: &mut [Option<ValueId>],
    first: usize,
) -> bool {
    let mut is_changed = false;
    for (place, whole) in inputs.iter_mut().enumerate().skip(first) {
        let Some((node, sizes)) = sole_reshape(edit, body, body.inputs[place]) else { continue };
        let (node, sizes) = (node.clone(), edit.integers(&[&[0], &sizes[..]].concat()));
        if let (Some(array), Some(sizes)) = (*whole, sizes) {
            *whole = Some(edit.lift(&node, Op::new(OpType::Reshape, &[array, sizes])));
            edit.note_same([(body.inputs[place], node.outputs[0])]);
            body.inputs[place] = node.outputs[0];
            body.nodes.retain(|other| other.outputs != node.outputs);
            is_changed = true;
        }
    }
    is_changed
}

/// Returns the operand that a node reshapes to a known shape.
fn reshapes(edit: &Edit<'_>, node: &Node) -> Option<ValueId> {
    let mut others = node.inputs.iter().skip(1).flatten();
    let is_known = node.op.is(RESHAPES) && others.all(|&id| edit.tensor(id).is_some());
    node.inputs.first().copied().flatten().filter(|_| is_known)
}

/// True if a node returns the same result for a value with more leading unit axes, as in the type `ty`.
fn broadcasts(edit: &Edit<'_>, node: &Node, value: ValueId, ty: &Type) -> bool {
    let is_widened = |own: &Type| adds_leading_axes(&own.shape, &ty.shape);
    let has_axes = |&output: &ValueId| edit.ty(output).is_some_and(|own| own.rank() >= ty.rank());
    node.op.is(BROADCASTING)
        && edit.ty(value).is_some_and(is_widened)
        && node.outputs.iter().all(has_axes)
}

pub fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let node = edit.node(index).clone();
    let carries = Carries::of(&node)?;
    let mut body = node.bodies().next()?.clone();
    let found = (0..carries.count).filter_map(|carry| Reshaped::of(edit, &body, carries, carry));
    let found: Vec<Reshaped> = found.collect();
    let mut inputs = edit.inputs(index);
    let arrays = carries.operands + carries.count;
    let runs_over_first = node.attr("scan_input_axes").is_none() && node.op == OpType::Scan;
    let has_arrays = runs_over_first && reshape_arrays(edit, &mut body, &mut inputs, arrays);
    require(!found.is_empty() || has_arrays)?;
    for Reshaped { carry, before, first, last } in &found {
        let initial = inputs[carries.operands + carry]?;
        let shaped = edit.lift(first, reading(first, initial));
        inputs[carries.operands + carry] = Some(shaped);
        edit.note_same([(*before, first.outputs[0])]);
        body.inputs[carries.operands + carry] = first.outputs[0];
        body.outputs[carries.results + carry] = last.inputs[0]?;
        body.nodes.retain(|node| node.outputs != first.outputs);
        for input in body.nodes.iter_mut().flat_map(|node| &mut node.inputs) {
            *input = if *input == Some(*before) { Some(first.outputs[0]) } else { *input };
        }
        let is_read = |value: ValueId| {
            body.outputs.contains(&value) || body.nodes.iter().any(|node| node_reads(node, value))
        };
        if !is_read(last.outputs[0]) {
            body.nodes.retain(|node| node.outputs != last.outputs);
        }
    }
    let is_kept = |place: &usize| !found.iter().any(|reshaped| reshaped.carry == *place);
    let replaced: Vec<Option<ValueId>> = (0..node.outputs.len())
        .map(|place| Some(place).filter(is_kept).map(|place| node.outputs[place]))
        .collect();
    let op = Op::of(&node, inputs).attr("body", body);
    let made = edit.insert_instead(op, &replaced);
    let mut results = Vec::with_capacity(made.len());
    for (place, made) in made.into_iter().enumerate() {
        let last = found.iter().find(|reshaped| reshaped.carry == place);
        let result = match last {
            Some(Reshaped { last, .. }) => edit.lift(last, reading(last, made)),
            None => made,
        };
        results.push((place, result));
    }
    edit.done(&[], results)
}

/// Returns the operator of a node with another first operand.
fn reading(node: &Node, value: ValueId) -> Op {
    let mut inputs = node.inputs.to_vec();
    inputs[0] = Some(value);
    Op::of(node, inputs)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check_lean, each};

    #[test]
    fn state_that_a_body_reshapes_is_reshaped_outside() {
        check_lean(
            each(super::run),
            "graph g(x:f32[3], z:f32[3], n:i64[]) -> (y, s, u)
y:f32[3], s:f32[3], u:f32[5,3] = Loop(n, true, x, z) {body={
  graph b(i:i64[], c:bool[], v:f32[3], k:f32[3]) -> (d, m, l, o)
  d:bool[] = Identity(c)
  %0:f32[1,3] = Unsqueeze(v, [0]:i64)
  %1:f32[1,3] = Tanh(%0)
  m:f32[3] = Squeeze(%1, [0]:i64)
  o:f32[3] = Neg(m)
  l:f32[3] = Add(k, o)
}}",
            expect![[r#"
                graph g(x:f32[3], z:f32[3], n:i64[]) -> (y, s, u)
                %0 = Unsqueeze(x, [0]:i64)  # 5
                %1, s:f32[3], u:f32[5,3] = Loop(n, true, %0, z) {body={  # 2
                  graph b(i:i64[], c:bool[], %2:f32[1,3], k:f32[3]) -> (d, %3, l, o)
                  d:bool[] = Identity(c)  # 4
                  %3:f32[1,3] = Tanh(%2)  # 6
                  m = Squeeze(%3, [0]:i64)  # 7
                  o:f32[3] = Neg(m)  # 8
                  l:f32[3] = Add(k, o)  # 9
                }}
                y:f32[3] = Squeeze(%1, [0]:i64)  # 7
            "#]],
        );
    }

    #[test]
    fn arrays_whose_elements_are_reshaped_are_reshaped_before() {
        check_lean(
            each(super::run),
            "graph g(x:f32[1,3], a:f32[N,3], b:f32[N,3]) -> (y, s)
y:f32[1,3], s:f32[N,3] = Scan(x, a, b) {body={
  graph b(v:f32[1,3], e:f32[3], f:f32[3]) -> (m, o)
  %0:f32[1,3] = Unsqueeze(e, [0]:i64)
  m:f32[1,3] = Add(v, %0)
  %1:f32[1,3] = Unsqueeze(f, [0]:i64)
  %2:f32[3] = Squeeze(%1, [0]:i64)
  o:f32[3] = Add(%2, f)
}, num_scan_inputs=2}",
            expect![[r#"
                graph g(x:f32[1,3], a:f32[N,3], b:f32[N,3]) -> (y, s)
                %0 = Reshape(a, [0, 1, 3]:i64)  # 4
                y:f32[1,3], s:f32[N,3] = Scan(x, %0, b) {body={  # 2
                  graph b(v:f32[1,3], %1:f32[1,3], f:f32[3]) -> (m, o)
                  m:f32[1,3] = Add(v, %1)  # 5
                  %2 = Unsqueeze(f, [0]:i64)  # 6
                  %3 = Squeeze(%2, [0]:i64)  # 7
                  o:f32[3] = Add(%3, f)  # 8
                }, num_scan_inputs=2}
            "#]],
        );
    }

    #[test]
    fn state_that_is_read_in_both_shapes_stays_unless_it_broadcasts() {
        check_lean(
            each(super::run),
            "graph g(x:f32[3], n:i64[]) -> (y, s)
y:f32[3], s:f32[3] = Loop(n, true, x, x) {body={
  graph b(i:i64[], c:bool[], v:f32[3], k:f32[3]) -> (d, m, l)
  d:bool[] = Identity(c)
  %0:f32[1,3] = Unsqueeze(v, [0]:i64)
  %1:f32[1,3] = Add(%0, v)
  m:f32[3] = Squeeze(%1, [0]:i64)
  %2:f32[1,3] = Unsqueeze(k, [0]:i64)
  %3:f32[1,3] = Tanh(%2)
  %4:f32[3] = Squeeze(%3, [0]:i64)
  %5:f32[3] = Mul(k, 2.0)
  l:f32[3] = Add(%4, %5)
}}",
            expect![[r#"
                graph g(x:f32[3], n:i64[]) -> (y, s)
                %0 = Unsqueeze(x, [0]:i64)  # 5
                %1, s:f32[3] = Loop(n, true, %0, x) {body={  # 2
                  graph b(i:i64[], c:bool[], %2:f32[1,3], k:f32[3]) -> (d, %3, l)
                  d:bool[] = Identity(c)  # 4
                  %3:f32[1,3] = Add(%2, %2)  # 6
                  %4 = Unsqueeze(k, [0]:i64)  # 8
                  %5 = Tanh(%4)  # 9
                  %6 = Squeeze(%5, [0]:i64)  # 10
                  %7 = Mul(k, 2.0)  # 11
                  l:f32[3] = Add(%6, %7)  # 12
                }}
                y:f32[3] = Squeeze(%1, [0]:i64)  # 7
            "#]],
        );
    }
}
