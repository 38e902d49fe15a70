//! `split-carries`: carries the entries of a stacked state apart.
//!
//! If a body only reads single entries of a state along an axis, and stacks the next ones, the loop can carry each entry.
//! Examples are complex numbers, and the position and the velocity of a system.

use algebra::rewrite::require;
use onnx::edit::rename;
use onnx::infer::axes_from_front;
use onnx::{Edit, Graph, Node, Op, OpType, Outcome, Patch, Type, ValueId, known_shape};
use rustc_hash::FxHashMap;

use super::{copy_of, maker, node_reads, number};
use crate::drop_carries::Carries;

/// A state with more entries stays whole.
const MAX_ENTRIES: i64 = 8;

/// A state that is stacked along an axis.
struct Stacked {
    carry: usize,
    axis: usize,
    /// The nodes that read an entry, with its index.
    reads: Vec<(Node, usize)>,
    /// The node that stacks the next entries.
    join: Node,
    next: Vec<Entry>,
}

/// The next entry of a state.
enum Entry {
    Without(ValueId),
    /// With an axis of one element.
    With(ValueId),
}

impl Stacked {
    fn of(edit: &Edit<'_>, body: &Graph, carries: Carries, carry: usize) -> Option<Stacked> {
        let before = body.inputs[carries.operands + carry];
        let after = body.outputs[carries.results + carry];
        let shape = known_shape(edit.shape(before)?)?;
        require(!body.outputs.contains(&before))?;
        let made = |value: ValueId| maker(&body.nodes, value);
        let join = made(after).filter(|node| node.op == OpType::Concat)?;
        let axis = join.axis(shape.len())?;
        let count = shape[axis];
        require(count <= MAX_ENTRIES && join.inputs.len() as i64 == count)?;
        let next = join.inputs.iter().map(|part| {
            let part = (*part)?;
            let unsqueezed = made(part).filter(|node| node.op == OpType::Unsqueeze);
            let is_axis = |node: &&Node| axis_of(edit, node, 1, shape.len()) == Some(axis);
            let entry = unsqueezed.filter(is_axis).and_then(|node| node.inputs[0]);
            Some(entry.map_or(Entry::With(part), Entry::Without))
        });
        let next = next.collect::<Option<_>>()?;
        let read = |node: &Node| {
            let &[Some(whole), Some(first), ..] = &node.inputs[..] else { return None };
            let is_entry = match node.op.onnx()? {
                OpType::Gather => edit.rank(first)? == 0 && node.axis(shape.len())? == axis,
                OpType::Slice => {
                    axis_of(edit, node, 3, shape.len())? == axis
                        && edit.shape(node.outputs[0])?[axis].is(1)
                }
                _ => false,
            };
            require(is_entry && whole == before)?;
            let index = number(edit, first)?;
            let index = if index < 0 { index + count } else { index };
            Some((node.clone(), usize::try_from(index).ok().filter(|&one| (one as i64) < count)?))
        };
        let readers = body.nodes.iter().filter(|node| node_reads(node, before));
        let reads = readers.map(read).collect::<Option<_>>()?;
        Some(Stacked { carry, axis, reads, join: join.clone(), next })
    }

    /// Replaces the nodes of a body that read entries and that stack them. Returns the entries at the start and at the
    /// end of an iteration.
    fn replace(
        &self,
        edit: &mut Patch<'_, '_>,
        body: &mut Graph,
        ty: &Type,
        renamed: &mut FxHashMap<ValueId, ValueId>,
    ) -> Option<(Vec<ValueId>, Vec<ValueId>)> {
        let axes = edit.integers(&[self.axis as i64])?;
        let before: Vec<ValueId> = self.next.iter().map(|_| edit.body_input(ty.clone())).collect();
        for (read, index) in &self.reads {
            edit.take_lines(read);
            let place = body.nodes.iter().position(|node| node.outputs == read.outputs)?;
            if read.op == OpType::Gather {
                edit.note_same([(read.outputs[0], before[*index])]);
                renamed.insert(read.outputs[0], before[*index]);
                body.nodes.remove(place);
            } else {
                let entry = [before[*index], axes];
                body.nodes[place] = reshape_of(read, OpType::Unsqueeze, entry, read.outputs[0]);
            }
        }
        let mut after = Vec::new();
        for entry in &self.next {
            after.push(match entry {
                Entry::Without(value) => *value,
                Entry::With(value) => {
                    let squeezed = edit.body_input(ty.clone());
                    let operands = [*value, axes];
                    body.nodes.push(reshape_of(&self.join, OpType::Squeeze, operands, squeezed));
                    squeezed
                }
            });
        }
        Some((before, after))
    }

    /// Returns the entries of an array outside of the loop.
    fn entries(&self, edit: &mut Patch<'_, '_>, whole: ValueId) -> Option<Vec<ValueId>> {
        (0..self.next.len())
            .map(|index| {
                let place = edit.integer(index as i64)?;
                let op = Op::new(OpType::Gather, &[whole, place]).attr("axis", self.axis as i64);
                Some(edit.lift(&self.join, op))
            })
            .collect()
    }

    /// Stacks results of the loop.
    fn stack(&self, edit: &mut Patch<'_, '_>, entries: &[ValueId]) -> Option<ValueId> {
        let axes = edit.integers(&[self.axis as i64])?;
        let unsqueezed = |&entry| edit.lift(&self.join, Op::new(OpType::Unsqueeze, &[entry, axes]));
        let parts: Vec<ValueId> = entries.iter().map(unsqueezed).collect();
        let op = Op::new(OpType::Concat, &parts).attr("axis", self.axis as i64);
        Some(edit.lift(&self.join, op))
    }
}

pub fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let node = edit.node(index).clone();
    let carries = Carries::of(&node)?;
    let mut body = node.bodies().next()?.clone();
    let found = (0..carries.count).filter_map(|carry| Stacked::of(edit, &body, carries, carry));
    let found: Vec<Stacked> = found.collect();
    require(!found.is_empty())?;
    let mut inputs = edit.inputs(index);
    let mut replaced: Vec<Option<ValueId>> = node.outputs.iter().copied().map(Some).collect();
    let mut renamed = FxHashMap::default();
    // From the last carry to the first, so that the places of the others stay.
    for stacked in found.iter().rev() {
        let place = carries.operands + stacked.carry;
        let initial = stacked.entries(edit, inputs[place]?)?;
        let ty = edit.ty(initial[0])?.clone();
        let (before, after) = stacked.replace(edit, &mut body, &ty, &mut renamed)?;
        inputs.splice(place..=place, initial.into_iter().map(Some));
        body.inputs.splice(place..=place, before);
        let result = carries.results + stacked.carry;
        body.outputs.splice(result..=result, after);
        replaced.splice(stacked.carry..=stacked.carry, stacked.next.iter().map(|_| None));
    }
    body.nodes.iter_mut().for_each(|node| rename(node, &renamed));
    for output in &mut body.outputs {
        *output = renamed.get(output).copied().unwrap_or(*output);
    }
    copy_shared_outputs(edit, &mut body, &found[0].join)?;
    let op = Op::of(&node, inputs).attr("body", body);
    let made = &mut edit.insert_instead(op, &replaced).into_iter();
    let mut results = Vec::new();
    for place in 0..node.outputs.len() {
        let result = match found.iter().find(|stacked| stacked.carry == place) {
            Some(stacked) => {
                let entries: Vec<ValueId> = made.take(stacked.next.len()).collect();
                stacked.stack(edit, &entries)?
            }
            None => made.next()?,
        };
        results.push((place, result));
    }
    edit.done(&[], results)
}

/// Returns the only axis that an operand of a node lists.
fn axis_of(edit: &Edit<'_>, node: &Node, operand: usize, rank: usize) -> Option<usize> {
    let axes = edit.tensor((*node.inputs.get(operand)?)?)?.ints()?;
    match axes_from_front(&axes, rank)?[..] {
        [axis] => Some(axis),
        _ => None,
    }
}

/// Returns a node with the origin of another one.
fn reshape_of(node: &Node, op: OpType, operands: [ValueId; 2], output: ValueId) -> Node {
    let mut made = copy_of(operands[0], output, node);
    made.op = op.into();
    made.inputs = operands.into_iter().map(Some).collect();
    made
}

/// Copies outputs of a body that are also another output, or that none of its nodes computes.
fn copy_shared_outputs(edit: &mut Patch<'_, '_>, body: &mut Graph, join: &Node) -> Option<()> {
    for place in 0..body.outputs.len() {
        let output = body.outputs[place];
        let is_made = maker(&body.nodes, output).is_some();
        if !is_made || body.outputs[..place].contains(&output) {
            let ty = edit.ty(output)?.clone();
            let copy = edit.body_input(ty);
            body.nodes.push(copy_of(output, copy, join));
            body.outputs[place] = copy;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check_lean, each};

    #[test]
    fn entries_of_a_stacked_state_are_carried_apart() {
        check_lean(
            each(super::run),
            "graph g(x:f32[3,2], a:f32[5,3]) -> (y, s)
y:f32[3,2], s:f32[5,3] = Scan(x, a) {body={
  graph b(v:f32[3,2], e:f32[3]) -> (m, o)
  %0:f32[3] = Gather(v, 0:i64) {axis=1}
  %1:f32[3] = Gather(v, -1:i64) {axis=1}
  %2:f32[3] = Mul(%0, e)
  o:f32[3] = Add(%1, %2)
  %3:f32[3,1] = Unsqueeze(%1, [1]:i64)
  %4:f32[3,1] = Unsqueeze(o, [1]:i64)
  m:f32[3,2] = Concat(%3, %4) {axis=1}
}, num_scan_inputs=1}",
            expect![[r#"
                graph g(x:f32[3,2], a:f32[5,3]) -> (y, s)
                %0 = Gather(x, 0:i64) {axis=1}  # 10
                %1 = Gather(x, 1:i64) {axis=1}  # 10
                %2, %3, s:f32[5,3] = Scan(%0, %1, a) {body={  # 2 4 5
                  graph b(%6:f32[3], %7:f32[3], e:f32[3]) -> (%9, o, %10)
                  %8 = Mul(%6, e)  # 6
                  o:f32[3] = Add(%7, %8)  # 7
                  %9:f32[3] = Identity(%7)  # 10
                  %10:f32[3] = Identity(o)  # 10
                }, num_scan_inputs=1}
                %4 = Unsqueeze(%2, [1]:i64)  # 10
                %5 = Unsqueeze(%3, [1]:i64)  # 10
                y:f32[3,2] = Concat(%4, %5) {axis=1}  # 10
            "#]],
        );
    }

    #[test]
    fn a_state_that_is_read_whole_stays() {
        check_lean(
            each(super::run),
            "graph g(x:f32[3,2], n:i64[]) -> (y)
y:f32[3,2] = Loop(n, true, x) {body={
  graph b(i:i64[], c:bool[], v:f32[3,2]) -> (d, m)
  d:bool[] = Identity(c)
  %0:f32[3] = Gather(v, 0:i64) {axis=1}
  %1:f32[3] = ReduceSum(v, [1]:i64) {keepdims=0}
  %2:f32[3,1] = Unsqueeze(%0, [1]:i64)
  %3:f32[3,1] = Unsqueeze(%1, [1]:i64)
  m:f32[3,2] = Concat(%3, %2) {axis=1}
}}",
            expect![[r#"
                graph g(x:f32[3,2], n:i64[]) -> (y)
                y:f32[3,2] = Loop(n, true, x) {body={  # 2
                  graph b(i:i64[], c:bool[], v:f32[3,2]) -> (d, m)
                  d:bool[] = Identity(c)  # 4
                  %0 = Gather(v, 0:i64) {axis=1}  # 5
                  %1 = ReduceSum(v, [1]:i64) {keepdims=0}  # 6
                  %2 = Unsqueeze(%0, [1]:i64)  # 7
                  %3 = Unsqueeze(%1, [1]:i64)  # 8
                  m:f32[3,2] = Concat(%3, %2) {axis=1}  # 9
                }}
            "#]],
        );
    }
}
