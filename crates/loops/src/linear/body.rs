//! Builds the bodies of new loops.

use algebra::rewrite::Result;
use onnx::{DType, Dim, Graph, Node, Op, OpType, Patch, Tensor, Type, ValueId};

use crate::{Carry, Counted};

/// The body of a new `Scan`. Its nodes have the origin of the update of a state.
pub(super) struct Body<'l> {
    graph: Graph,
    template: &'l Node,
    is_reverse: bool,
}

impl<'l> Body<'l> {
    pub(super) fn new(scan: &'l Counted, state: Carry) -> Result<Body<'l>> {
        let template = scan.nodes.iter().find(|node| node.outputs.contains(&state.after));
        let template = template.ok_or("the state is not computed")?;
        let graph = Graph { name: scan.name.clone(), ..Graph::default() };
        Ok(Body { graph, template, is_reverse: scan.is_reverse })
    }

    /// Makes the loop run forwards, whatever the direction of the original loop is.
    pub(super) fn forwards(self) -> Body<'l> {
        Body { is_reverse: false, ..self }
    }

    /// Adds an input.
    pub(super) fn input(&mut self, edit: &mut Patch<'_, '_>, shape: &[Dim]) -> ValueId {
        let input = value(edit, shape);
        self.graph.inputs.push(input);
        input
    }

    /// Adds a node, and returns its result.
    pub(super) fn node(
        &mut self,
        edit: &mut Patch<'_, '_>,
        op: OpType,
        inputs: &[ValueId],
        shape: &[Dim],
    ) -> ValueId {
        let output = value(edit, shape);
        let mut node = self.template.clone();
        node.op = op.into();
        node.inputs = inputs.iter().copied().map(Some).collect();
        node.outputs = [output].into_iter().collect();
        node.attrs.clear();
        self.graph.nodes.push(node);
        output
    }

    /// Inserts the loop, and returns its results. `states` are the initial and the next states, `arrays` are what the loop
    /// runs over, and `stacks` are values of each step.
    pub(super) fn insert(
        mut self,
        edit: &mut Patch<'_, '_>,
        states: &[(ValueId, ValueId)],
        arrays: &[ValueId],
        stacks: &[ValueId],
    ) -> Result<Vec<ValueId>> {
        let unknown = "a type is unknown";
        let steps = edit.shape(arrays[0]).and_then(|shape| shape.first()).ok_or(unknown)?.clone();
        let mut results = Vec::new();
        for &(_, next) in states {
            let ty = edit.ty(next).ok_or(unknown)?.clone();
            results.push(Some(edit.body_input(ty)));
        }
        for &stack in stacks {
            let shape = edit.shape(stack).ok_or(unknown)?;
            let shape: Vec<Dim> = std::iter::once(&steps).chain(shape).cloned().collect();
            results.push(Some(value(edit, &shape)));
        }
        let next = states.iter().map(|&(_, next)| next);
        self.graph.outputs = next.chain(stacks.iter().copied()).collect();
        let initial = states.iter().map(|&(initial, _)| initial);
        let operands: Vec<ValueId> = initial.chain(arrays.iter().copied()).collect();
        let op = Op::new(OpType::Scan, &operands).attr("body", self.graph);
        let mut op = op.attr("num_scan_inputs", arrays.len() as i64);
        if self.is_reverse {
            let backwards = |count: usize| vec![1; count];
            op = op.attr("scan_input_directions", &backwards(arrays.len())[..]);
            op = op.attr("scan_output_directions", &backwards(stacks.len())[..]);
        }
        Ok(edit.insert_instead(op, &results))
    }
}

/// Adds a value that can become an input or a result of a body.
fn value(edit: &mut Patch<'_, '_>, shape: &[Dim]) -> ValueId {
    edit.body_input(Type::new(DType::F32, shape.to_vec()))
}

pub(super) fn dims(sizes: &[i64]) -> Vec<Dim> {
    sizes.iter().map(|&size| Dim::Known(size)).collect()
}

pub(super) fn number(edit: &mut Patch<'_, '_>, number: f64) -> Result<ValueId> {
    let tensor = Tensor::of_floats(DType::F32, Vec::new(), &[number]).ok_or("no number")?;
    Ok(edit.constant(tensor, &[]))
}

pub(super) fn filled(edit: &mut Patch<'_, '_>, shape: &[i64], number: f64) -> Result<ValueId> {
    let tensor = Tensor::of_floats(DType::F32, vec![1; shape.len()], &[number]);
    let tensor = tensor.and_then(|tensor| tensor.broadcast(shape)).ok_or("no constant")?;
    Ok(edit.constant(tensor, &[]))
}

pub(super) fn shaped(edit: &mut Patch<'_, '_>, id: ValueId, sizes: &[i64]) -> Result<ValueId> {
    let sizes = edit.integers(sizes).ok_or("no shape")?;
    Ok(edit.insert(Op::new(OpType::Reshape, &[id, sizes])))
}

pub(super) fn sliced(
    edit: &mut Patch<'_, '_>,
    id: ValueId,
    axis: i64,
    start: i64,
    end: i64,
) -> Result<ValueId> {
    let operands = [start, end, axis].map(|int| edit.integers(&[int]));
    let [Some(start), Some(end), Some(axis)] = operands else { return Err("no axes".into()) };
    Ok(edit.insert(Op::new(OpType::Slice, &[id, start, end, axis])))
}
