//! `hoist-invariants`: moves nodes with the same result in every iteration before the loop.

use onnx::operator::properties::TOTAL;
use onnx::{Model, Node, OpType, Values};

pub(crate) fn run(model: &mut Model) -> bool {
    model.hoist(is_safe)
}

/// True if a node cannot fail. Divisions of integers and lookups with unknown indices can fail.
fn is_safe(node: &Node, values: &Values) -> bool {
    let is_float = || {
        let ty = node.outputs.first().and_then(|&output| values[output].ty.as_ref());
        ty.is_some_and(|ty| ty.dtype.is_float())
    };
    node.op.is(TOTAL)
        || (node.op == OpType::Div && is_float())
        || (node.op == OpType::Gather && is_inside(node, values).is_some_and(|is| is))
}

/// True if all indices of a lookup are constants and within bounds.
fn is_inside(node: &Node, values: &Values) -> Option<bool> {
    let &[Some(array), Some(indices)] = &node.inputs[..] else { return None };
    let shape = &values[array].ty.as_ref()?.shape;
    let size = shape.get(node.axis(shape.len())?)?.known()?;
    let indices = values[indices].tensor.as_ref()?.ints()?;
    Some(indices.iter().all(|index| (-size..size).contains(index)))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::check_model;

    #[test]
    fn nodes_that_do_not_depend_on_the_body_move_out_of_the_loop() {
        check_model(
            |model| _ = super::run(model),
            "graph g(w:f32[2,2], x:f32[3,2], c:f32[2]) -> (y, z)
y:f32[2], z:f32[3,2] = Scan(c, x) {body={
  graph b(h:f32[2], t:f32[2]) -> (n, o)
  %0:f32[2,2] = Transpose(w) {perm=[1, 0]}
  %1:f32[2,2] = Sin(%0)
  %2:f32[2] = MatMul(h, %1)
  %3:f32[2] = Gather(x, -1:i64) {axis=0}
  %4:f32[2] = Add(%2, %3)
  %5:f32[2] = Gather(x, 3:i64) {axis=0}
  %6:f32[2] = Add(%4, %5)
  n:f32[2] = Add(%6, t)
  o:f32[2] = Neg(n)
}, num_scan_inputs=1}",
            expect![[r#"
                graph g(w:f32[2,2], x:f32[3,2], c:f32[2]) -> (y, z)
                %0 = Transpose(w) {perm=[1, 0]}  # 4
                %1 = Sin(%0)  # 5
                %2 = Gather(x, -1:i64) {axis=0}  # 7
                y:f32[2], z:f32[3,2] = Scan(c, x) {body={  # 2
                  graph b(h:f32[2], t:f32[2]) -> (n, o)
                  %3 = MatMul(h, %1)  # 6
                  %4 = Add(%3, %2)  # 8
                  %5 = Gather(x, 3:i64) {axis=0}  # 9
                  %6 = Add(%4, %5)  # 10
                  n:f32[2] = Add(%6, t)  # 11
                  o:f32[2] = Neg(n)  # 12
                }, num_scan_inputs=1}
            "#]],
        );
    }

    #[test]
    fn nodes_that_may_fail_or_not_run_or_are_outputs_are_not_hoisted() {
        check_model(
            |model| _ = super::run(model),
            "graph g(w:i32[2], d:i32[], x:f32[3,2], c:i32[2], p:bool[]) -> (y, z)
y:i32[2], z:i32[3,2] = Scan(c, x) {body={
  graph b(h:i32[2], t:f32[2]) -> (n, o)
  %0:i32[2] = Div(w, d)
  %1:i32[2] = Add(%0, h)
  n:i32[2] = If(p) {else_branch={
    graph e() -> (q)
    %2:i32[2] = Mul(w, d)
    q:i32[2] = Add(%2, h)
  }, then_branch={
    graph s() -> (r)
    r:i32[2] = Add(%1, h)
  }}
  o:i32[2] = Neg(w)
}, num_scan_inputs=1}",
            expect![[r#"
                graph g(w:i32[2], d:i32[], x:f32[3,2], c:i32[2], p:bool[]) -> (y, z)
                y:i32[2], z:i32[3,2] = Scan(c, x) {body={  # 2
                  graph b(h:i32[2], t:f32[2]) -> (n, o)
                  %0 = Div(w, d)  # 4
                  %1 = Add(%0, h)  # 5
                  n:i32[2] = If(p) {else_branch={  # 6
                    graph e() -> (q)
                    %2 = Mul(w, d)  # 8
                    q:i32[2] = Add(%2, h)  # 9
                  }, then_branch={
                    graph s() -> (r)
                    r:i32[2] = Add(%1, h)  # 12
                  }}
                  o:i32[2] = Neg(w)  # 14
                }, num_scan_inputs=1}
            "#]],
        );
    }
}
