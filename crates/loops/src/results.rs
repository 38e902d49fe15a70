//! `batch-results`: computes the results of a step that no later step reads for all steps at once,
//! after the loop.
//!
//! In `h = cell(h, x); return h, h @ w + b`, the product is not part of the recurrence. The loop returns `h` of all
//! steps instead, and one product with more rows follows.

use std::collections::{BTreeSet, VecDeque};

use algebra::rewrite::require;
use onnx::edit::for_each_read;
use onnx::operator::properties::{BY_ROW, POINTWISE, REDUCTIONS, RESHAPES};
use onnx::{Edit, Node, Outcome, Patch, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::batches::{Batches, MAX_ELEMENTS, is_small_beside};
use super::{Counted, Stack, copy_of, maker, makers, replacing};

/// The maximum number of nodes to inspect before a result.
const MAX_NODES: usize = 256;

/// A stack whose elements are computed after the loop.
struct Plan {
    /// The index of the stack.
    stack: usize,
    /// The nodes that are computed after the loop.
    nodes: FxHashSet<usize>,
    /// The value that a step returns instead, if any.
    source: Option<ValueId>,
}

/// The nodes of a body, with the producers and readers of each value.
struct Body<'l> {
    counted: &'l Counted,
    makers: FxHashMap<ValueId, usize>,
    readers: FxHashMap<ValueId, Vec<usize>>,
    /// The entries of arrays in a step.
    elements: FxHashSet<ValueId>,
    /// The values that the next step or the loop reads.
    carried: FxHashSet<ValueId>,
    /// The values of the previous step, and the number of the step.
    state: FxHashSet<ValueId>,
}

impl<'l> Body<'l> {
    fn of(counted: &'l Counted) -> Body<'l> {
        let mut readers = FxHashMap::default();
        for (place, node) in counted.nodes.iter().enumerate() {
            for_each_read(node, &mut |id| {
                readers.entry(id).or_insert_with(Vec::new).push(place);
            });
        }
        let counter = counted.counter;
        let flags = counter.map(|counter| counter.next_flag);
        let inputs = counter.into_iter().flat_map(|counter| [counter.number, counter.flag]);
        let carries = counted.carries.iter();
        Body {
            makers: makers(&counted.nodes),
            readers,
            elements: counted.arrays.iter().map(|array| array.element).collect(),
            carried: carries.clone().map(|carry| carry.after).chain(flags).collect(),
            state: carries.map(|carry| carry.before).chain(inputs).collect(),
            counted,
        }
    }

    /// Finds the largest set of nodes that can be computed after the loop from one value per step.
    fn plan(&self, edit: &Edit<'_>, stack: usize) -> Option<Plan> {
        let Stack { element, .. } = self.counted.stacks[stack];
        let before = self.before(element);
        let made = before.iter().flat_map(|&place| &self.counted.nodes[place].outputs).copied();
        let others = self.counted.stacks.iter().enumerate().filter(|&(other, _)| other != stack);
        let stacked: FxHashSet<ValueId> = others.map(|(_, stack)| stack.element).collect();
        std::iter::once(None).chain(made.map(Some)).find_map(|source| {
            let nodes = self.nodes_between(source, element, &stacked)?;
            let needs_copy = source.is_some_and(|source| self.carried.contains(&source));
            let is_small = source.is_none_or(|source| {
                let types = [source, element].map(|id| edit.ty(id));
                let [Some(source), Some(element)] = types else { return false };
                is_small_beside(source, &[element], &self.counted.iterations, MAX_ELEMENTS)
            });
            let gain = nodes.len() > usize::from(needs_copy);
            (gain && is_small).then_some(Plan { stack, nodes, source })
        })
    }

    /// Returns the nearest nodes that a value depends on, in topological order.
    fn before(&self, value: ValueId) -> BTreeSet<usize> {
        let mut places = BTreeSet::new();
        let mut open = VecDeque::from([value]);
        while let Some(value) = open.pop_front() {
            if let Some(&place) = self.makers.get(&value)
                && places.len() < MAX_NODES
                && places.insert(place)
            {
                open.extend(self.counted.nodes[place].inputs.iter().flatten());
            }
        }
        places
    }

    /// Returns the nodes that compute one value from another and from the inputs of the step. `None` if they read
    /// another value of the step, or if another node reads their results.
    fn nodes_between(
        &self,
        source: Option<ValueId>,
        element: ValueId,
        stacked: &FxHashSet<ValueId>,
    ) -> Option<FxHashSet<usize>> {
        let mut nodes: FxHashSet<usize> = FxHashSet::default();
        let (mut open, mut reads_source, mut reads_element) = (vec![element], false, false);
        while let Some(value) = open.pop() {
            if Some(value) == source {
                reads_source = true;
                continue;
            }
            require(!self.state.contains(&value))?;
            reads_element |= self.elements.contains(&value);
            let Some(&place) = self.makers.get(&value) else { continue };
            let node = &self.counted.nodes[place];
            let is_own =
                |output: &ValueId| !self.carried.contains(output) && !stacked.contains(output);
            require(may_move(node) && node.outputs.iter().all(is_own))?;
            if nodes.insert(place) {
                open.extend(node.inputs.iter().flatten());
            }
        }
        let is_read_inside = |&place: &usize| {
            let outputs = self.counted.nodes[place].outputs.iter();
            let readers = outputs.filter_map(|output| self.readers.get(output)).flatten();
            readers.into_iter().all(|reader| nodes.contains(reader))
        };
        let is_closed = nodes.iter().all(is_read_inside);
        let reads = reads_source == source.is_some() && (reads_source || reads_element);
        (is_closed && reads && !nodes.is_empty()).then_some(nodes)
    }
}

fn may_move(node: &Node) -> bool {
    node.op.is(POINTWISE | REDUCTIONS | RESHAPES | BY_ROW)
}

pub fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let mut scan = Counted::at(edit, index)?;
    require(scan.keeps_order() && !scan.iterations.is(0))?;
    let body = Body::of(&scan);
    let plans = (0..scan.stacks.len()).filter_map(|stack| body.plan(edit, stack));
    let plans: Vec<Plan> = plans.collect();
    require(!plans.is_empty())?;
    let Body { carried, state, .. } = body;
    let is_moved = |place: usize| plans.iter().any(|plan| plan.nodes.contains(&place));
    let nodes = std::mem::take(&mut scan.nodes).into_iter().enumerate();
    let (moved, kept): (Vec<_>, Vec<_>) = nodes.partition(|&(place, _)| is_moved(place));
    scan.nodes = kept.into_iter().map(|(_, node)| node).collect();
    let made_inside = scan.nodes.iter().flat_map(|node| &node.outputs);
    let mut batches = Batches::beside(&scan);
    batches.inside.extend(made_inside.copied().chain(state));
    let goals: FxHashMap<ValueId, ValueId> =
        plans.iter().map(|plan| scan.stacks[plan.stack]).map(|s| (s.result, s.element)).collect();
    // Each source is stacked once.
    scan.stacks.retain(|stack| !goals.contains_key(&stack.result));
    let mut stacked: FxHashMap<ValueId, ValueId> =
        scan.stacks.iter().map(|stack| (stack.element, stack.result)).collect();
    for source in plans.iter().filter_map(|plan| plan.source) {
        if stacked.contains_key(&source) {
            continue;
        }
        let ty = edit.ty(source)?.clone();
        let result = edit.body_input(batches.batch(&ty));
        let element = if carried.contains(&source) {
            let copy = edit.body_input(ty);
            let copying = copy_of(source, copy, maker(&scan.nodes, source)?);
            scan.nodes.push(copying);
            copy
        } else {
            source
        };
        scan.stack(element, result);
        stacked.insert(source, result);
    }
    let (op, results) = scan.into_op(edit);
    // If all results depend on the inputs alone, the loop disappears.
    let made = match &results[..] {
        [] => Vec::new(),
        _ => edit.insert_instead(op, &replacing(&results)),
    };
    let made: FxHashMap<ValueId, ValueId> = results.into_iter().zip(made).collect();
    for source in plans.iter().filter_map(|plan| plan.source) {
        batches.of.insert(source, *made.get(stacked.get(&source)?)?);
    }
    for (_, node) in &moved {
        batches.take(edit, node)?;
    }
    let outputs = edit.node(index).outputs.to_vec();
    let replaced = outputs.iter().map(|output| match goals.get(output) {
        Some(element) => batches.of.get(element).copied(),
        None => made.get(output).copied(),
    });
    let replaced: Vec<ValueId> = replaced.collect::<Option<_>>()?;
    if made.is_empty() {
        edit.pass_origin_to(&replaced);
    }
    let replaced: Vec<(usize, ValueId)> = replaced.into_iter().enumerate().collect();
    edit.done(&[], replaced)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check_lean, each};

    #[test]
    fn a_head_is_computed_after_the_loop() {
        check_lean(
            each(super::run),
            "graph g(h:f32[2,4], xs:f32[5,2,4], w:f32[4,3]) -> (y, ys, zs)
y:f32[2,4], ys:f32[5,2,3], zs:f32[5,2] = Scan(h, xs) {body={
  graph b(a:f32[2,4], x:f32[2,4]) -> (c, o, z)
  %0:f32[2,4] = Add(a, x)
  c:f32[2,4] = Tanh(%0)
  %1:f32[2,3] = MatMul(c, w)
  %2:f32[2,3] = Add(%1, [1.0, 2.0, 3.0])
  o:f32[2,3] = Softmax(%2) {axis=1}
  %3:f32[2,4] = Mul(c, x)
  %4:f32[2,2] = Slice(%3, [1]:i64, [3]:i64, [-1]:i64)
  z:f32[2] = ReduceSum(%4, [1]:i64) {keepdims=0}
}, num_scan_inputs=1}",
            expect![[r#"
                graph g(h:f32[2,4], xs:f32[5,2,4], w:f32[4,3]) -> (y, ys, zs)
                y:f32[2,4], %0 = Scan(h, xs) {body={  # 2
                  graph b(a:f32[2,4], x:f32[2,4]) -> (c, %6)
                  %5 = Add(a, x)  # 4
                  c:f32[2,4] = Tanh(%5)  # 5
                  %6:f32[2,4] = Identity(c)  # 5
                }, num_scan_inputs=1}
                %1 = MatMul(%0, w)  # 6
                %2 = Add(%1, [1.0, 2.0, 3.0])  # 7
                ys:f32[5,2,3] = Softmax(%2) {axis=2}  # 8
                %3 = Mul(%0, xs)  # 9
                %4 = Slice(%3, [1]:i64, [3]:i64, [2]:i64)  # 10
                zs:f32[5,2] = ReduceSum(%4, [2]:i64) {keepdims=0}  # 11
            "#]],
        );
    }

    #[test]
    fn a_loop_without_state_is_no_loop() {
        check_lean(
            each(super::run),
            "graph g(xs:f32[N,2], w:f32[2,3]) -> (ys)
ys:f32[N,3] = Scan(xs) {body={
  graph b(x:f32[2]) -> (y)
  %0:f32[3] = MatMul(x, w)
  y:f32[3] = Tanh(%0)
}, num_scan_inputs=1}",
            expect![[r#"
                graph g(xs:f32[N,2], w:f32[2,3]) -> (ys)
                %0 = MatMul(xs, w)  # 4
                ys:f32[N,3] = Tanh(%0)  # 5 2
            "#]],
        );
    }

    #[test]
    fn results_that_later_steps_read_or_that_need_more_memory_stay() {
        check_lean(
            each(super::run),
            "graph g(h:f32[2,4], k:f32[900,900], xs:f32[5,2,4]) -> (y, l, ys, zs)
y:f32[2,4], l:f32[900,900], ys:f32[5,2,4], zs:f32[5] = Scan(h, k, xs) {body={
  graph b(a:f32[2,4], j:f32[900,900], x:f32[2,4]) -> (c, m, o, z)
  o:f32[2,4] = Add(a, x)
  c:f32[2,4] = Tanh(o)
  m:f32[900,900] = Sin(j)
  %0:f32[900,900] = Mul(m, m)
  z:f32[] = ReduceSum(%0, [0, 1]:i64) {keepdims=0}
}, num_scan_inputs=1}",
            expect![[r#"
                graph g(h:f32[2,4], k:f32[900,900], xs:f32[5,2,4]) -> (y, l, ys, zs)
                y:f32[2,4], l:f32[900,900], ys:f32[5,2,4], zs:f32[5] = Scan(h, k, xs) {body={  # 2
                  graph b(a:f32[2,4], j:f32[900,900], x:f32[2,4]) -> (c, m, o, z)
                  o:f32[2,4] = Add(a, x)  # 4
                  c:f32[2,4] = Tanh(o)  # 5
                  m:f32[900,900] = Sin(j)  # 6
                  %0 = Mul(m, m)  # 7
                  z:f32[] = ReduceSum(%0, [0, 1]:i64) {keepdims=0}  # 8
                }, num_scan_inputs=1}
            "#]],
        );
    }

    #[test]
    fn a_loop_that_counts_keeps_its_recurrence() {
        check_lean(
            each(super::run),
            "graph g(h:f32[4], w:f32[4,3]) -> (y, ys)
y:f32[4], ys:f32[7,3] = Loop(7:i64, true, h) {body={
  graph b(i:i64[], p:bool[], a:f32[4]) -> (q, c, o)
  q:bool[] = Identity(p)
  c:f32[4] = Tanh(a)
  %0:f32[3] = MatMul(c, w)
  o:f32[3] = Exp(%0)
}}",
            expect![[r#"
                graph g(h:f32[4], w:f32[4,3]) -> (y, ys)
                y:f32[4], %0 = Loop(7:i64, true, h) {body={  # 2
                  graph b(i:i64[], p:bool[], a:f32[4]) -> (q, c, %2)
                  q:bool[] = Identity(p)  # 4
                  c:f32[4] = Tanh(a)  # 5
                  %2:f32[4] = Identity(c)  # 5
                }}
                %1 = MatMul(%0, w)  # 6
                ys:f32[7,3] = Exp(%1)  # 7
            "#]],
        );
    }
}
