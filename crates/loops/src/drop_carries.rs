//! `drop-carries`: drops loop state that no result needs.
//!
//! JAX counts the iterations of a `fori_loop` in an additional value, which many bodies do not read.

use onnx::edit::for_each_read;
use onnx::{Attr, Graph, Model, Node, OpType, ValueId};
use rustc_hash::FxHashSet;

pub fn run(model: &mut Model) {
    let mut read = FxHashSet::default();
    note_reads(&model.graph, &mut read);
    for function in &model.functions {
        note_reads(&function.body, &mut read);
    }
    drop_in(&mut model.graph, &read);
    for function in &mut model.functions {
        drop_in(&mut function.body, &read);
    }
}

/// Collects the values that nodes read, and the outputs of graphs.
fn note_reads(graph: &Graph, read: &mut FxHashSet<ValueId>) {
    read.extend(&graph.outputs);
    for node in &graph.nodes {
        for_each_read(node, &mut |id| _ = read.insert(id));
    }
}

fn drop_in(graph: &mut Graph, read: &FxHashSet<ValueId>) {
    for node in &mut graph.nodes {
        if let Some(carries) = Carries::of(node) {
            let needed = node.bodies().next().map(|body| carries.needed(node, body, read));
            carries.keep(node, &needed.unwrap_or_default());
        }
        node.bodies_mut().for_each(|body| drop_in(body, read));
    }
}

/// The positions of the values that a loop carries.
#[derive(Clone, Copy)]
pub struct Carries {
    pub count: usize,
    /// The number of operands of the node, and of inputs of the body, before them.
    pub operands: usize,
    /// The number of outputs of the body before them.
    pub results: usize,
}

impl Carries {
    pub fn of(node: &Node) -> Option<Carries> {
        let inputs = node.bodies().next()?.inputs.len();
        // The first operands of a `Loop` are the number of iterations and the condition.
        let (operands, results, scanned) = match node.op.onnx() {
            Some(OpType::Loop) => (2, 1, 0),
            Some(OpType::Scan) => match node.attr("num_scan_inputs") {
                Some(&Attr::Int(scanned)) => (0, 0, usize::try_from(scanned).ok()?),
                _ => return None,
            },
            _ => return None,
        };
        Some(Carries { count: inputs.checked_sub(operands + scanned)?, operands, results })
    }

    /// Returns the values of the body that results of the loop depend on.
    fn needed(self, node: &Node, body: &Graph, read: &FxHashSet<ValueId>) -> FxHashSet<ValueId> {
        let (condition, results) = body.outputs.split_at(self.results);
        let (next, stacks) = results.split_at(self.count);
        let mut needed: FxHashSet<ValueId> = condition.iter().chain(stacks).copied().collect();
        loop {
            let before = needed.len();
            let inputs = &body.inputs[self.operands..];
            for ((input, output), result) in inputs.iter().zip(next).zip(&node.outputs) {
                if read.contains(result) || needed.contains(input) {
                    needed.insert(*output);
                }
            }
            for node in body.nodes.iter().rev() {
                if node.outputs.iter().any(|output| needed.contains(output)) {
                    for_each_read(node, &mut |id| _ = needed.insert(id));
                }
            }
            if needed.len() == before {
                return needed;
            }
        }
    }

    /// Drops the carries and the nodes of the body that are not needed.
    fn keep(self, node: &mut Node, needed: &FxHashSet<ValueId>) {
        let Some(body) = node.bodies().next() else { return };
        let next = body.outputs[self.results..][..self.count].iter();
        let is_needed: Vec<bool> = next.map(|output| needed.contains(output)).collect();
        let is_kept = |first: usize| {
            let carries = is_needed.iter().copied();
            let mut kept = std::iter::repeat_n(true, first).chain(carries);
            move || kept.next().unwrap_or(true)
        };
        let mut operand = is_kept(self.operands);
        node.inputs.retain(|_| operand());
        let mut output = is_kept(0);
        node.outputs.retain(|_| output());
        for body in node.bodies_mut() {
            let (mut input, mut result) = (is_kept(self.operands), is_kept(self.results));
            body.inputs.retain(|_| input());
            body.outputs.retain(|_| result());
            body.nodes.retain(|node| node.outputs.iter().any(|output| needed.contains(output)));
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::check_model;

    #[test]
    fn an_unread_counter_is_not_carried() {
        check_model(
            super::run,
            "graph g(x:f32[3], n:i64[]) -> (y)
%0:i32[], y:f32[3], %1:f32[] = Loop(n, true, 0:i32, x, 1.0) {body={
  graph b(i:i64[], c:bool[], k:i32[], v:f32[3], s:f32[]) -> (d, l, w, t)
  d:bool[] = Identity(c)
  l:i32[] = Add(k, 1:i32)
  w:f32[3] = Mul(v, s)
  t:f32[] = Neg(s)
}}",
            expect![[r#"
                graph g(x:f32[3], n:i64[]) -> (y)
                y:f32[3], %0 = Loop(n, true, x, 1.0) {body={  # 2
                  graph b(i:i64[], c:bool[], v:f32[3], s:f32[]) -> (d, w, t)
                  d:bool[] = Identity(c)  # 4
                  w:f32[3] = Mul(v, s)  # 6
                  t:f32[] = Neg(s)  # 7
                }}
            "#]],
        );
    }

    #[test]
    fn state_that_other_state_or_a_result_needs_is_kept() {
        check_model(
            super::run,
            "graph g(x:f32[3], r:f32[4,3], p:bool[]) -> (y, z)
%0:f32[3], y:f32[3], z:f32[4,3] = Scan(x, x, r) {body={
  graph b(a:f32[3], v:f32[3], t:f32[3]) -> (e, w, o)
  e:f32[3] = Add(a, t)
  w:f32[3] = If(p) {else_branch={
    graph e() -> (q)
    q:f32[3] = Add(v, a)
  }, then_branch={
    graph s() -> (u)
    u:f32[3] = Neg(v)
  }}
  o:f32[3] = Neg(v)
}, num_scan_inputs=1}",
            expect![[r#"
                graph g(x:f32[3], r:f32[4,3], p:bool[]) -> (y, z)
                %0, y:f32[3], z:f32[4,3] = Scan(x, x, r) {body={  # 2
                  graph b(a:f32[3], v:f32[3], t:f32[3]) -> (e, w, o)
                  e:f32[3] = Add(a, t)  # 4
                  w:f32[3] = If(p) {else_branch={  # 5
                    graph e() -> (q)
                    q:f32[3] = Add(v, a)  # 7
                  }, then_branch={
                    graph s() -> (u)
                    u:f32[3] = Neg(v)  # 10
                  }}
                  o:f32[3] = Neg(v)  # 12
                }, num_scan_inputs=1}
            "#]],
        );
    }
}
