//! One graph as a runtime plans it: functions are inlined, nodes that only read constants are gone, and nodes that the
//! runtime fuses are one.

use onnx::operator::properties::RANDOM;
use onnx::scan::Scan;
use onnx::sized::{Inner, InnerKind, SizedModel, Step};
use onnx::{DType, OpType, Operator, Type, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

/// The maximum number of nodes after functions are inlined.
const MAX_NODES: usize = 1 << 20;

/// The source of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A weight, or computed from weights when the model is loaded.
    Constant,
    /// An input of the graph, or a value of a graph around it.
    Given,
    /// A node of the graph.
    Made,
}

#[derive(Clone, Debug)]
pub(super) struct Value {
    pub ty: Option<Type>,
    /// The type with which the runtime computes it, if it reshapes the result.
    pub computed: Option<Type>,
    pub source: Source,
}

/// A node that runs.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Its number in the model.
    pub number: usize,
    /// Its place among the nodes that a runtime created.
    pub rank: usize,
    pub op: Option<OpType>,
    /// The values that it reads, in the order of its operands; omitted ones are missing.
    pub reads: Vec<u32>,
    /// The values that its bodies read.
    pub captures: Vec<u32>,
    pub writes: Vec<Option<u32>>,
    /// The types of the operands, with omitted ones.
    pub operands: Vec<Option<u32>>,
    pub bodies: Vec<Inner>,
}

/// A graph without functions.
#[derive(Clone, Debug, Default)]
pub(super) struct Flat {
    pub nodes: Vec<Node>,
    pub values: Vec<Value>,
    pub inputs: Vec<u32>,
    pub outputs: Vec<u32>,
}

impl Flat {
    /// Returns the node that makes each value.
    pub(super) fn makers(&self) -> Vec<Option<usize>> {
        let mut makers = vec![None; self.values.len()];
        for (number, node) in self.nodes.iter().enumerate() {
            node.writes.iter().flatten().for_each(|&value| makers[value as usize] = Some(number));
        }
        makers
    }

    /// Returns the number of operands that each value is.
    pub(super) fn readers(&self) -> Vec<usize> {
        let mut readers = vec![0; self.values.len()];
        let reads = self.nodes.iter().flat_map(|node| node.reads.iter().chain(&node.captures));
        reads.chain(&self.outputs).for_each(|&value| readers[value as usize] += 1);
        readers
    }

    pub(super) fn ty(&self, value: u32) -> Option<&Type> {
        self.values[value as usize].ty.as_ref()
    }

    /// True if ONNX Runtime computes a part of the graph in its blocked layout of images.
    pub(super) fn is_blocked(&self) -> bool {
        self.nodes.iter().any(|node| {
            let weight = node.reads.get(1).filter(|_| node.op == Some(OpType::Conv));
            weight.is_some_and(|&weight| {
                let ty = self.ty(weight);
                let is_image = |ty: &Type| ty.dtype == DType::F32 && ty.rank() == 4;
                self.is_constant(weight) && ty.is_some_and(is_image)
            })
        })
    }

    /// Returns the type with which the runtime computes a value.
    pub(super) fn computed(&self, value: u32) -> Option<&Type> {
        let value = &self.values[value as usize];
        value.computed.as_ref().or(value.ty.as_ref())
    }

    pub(super) fn is_constant(&self, value: u32) -> bool {
        self.values[value as usize].source == Source::Constant
    }
}

/// Flattens the graphs of a model, from the outside in.
pub(super) struct Flattener<'m, 'a> {
    pub sized: &'m SizedModel,
    pub scan: &'m Scan<'a>,
    /// The values that each instance reads from around it.
    captures: Vec<Vec<ValueId>>,
    /// The values that are computed when the model is loaded.
    constants: FxHashSet<ValueId>,
}

/// The number of each value in the flat graph.
type Numbers = FxHashMap<ValueId, u32>;

impl<'m, 'a> Flattener<'m, 'a> {
    pub(super) fn new(sized: &'m SizedModel, scan: &'m Scan<'a>) -> Flattener<'m, 'a> {
        let captures = captures(sized);
        Flattener { sized, scan, captures, constants: FxHashSet::default() }
    }

    /// Flattens an instance. `None` if it is too large. Those around it must be flattened before.
    pub(super) fn flatten(&mut self, instance: usize) -> Option<Flat> {
        let mut flat = Flat::default();
        let mut numbers = Numbers::default();
        let this = self.sized.instances.get(instance)?;
        flat.inputs =
            this.inputs.iter().map(|&id| self.number(id, &mut flat, &mut numbers)).collect();
        self.steps(&this.steps, &mut flat, &mut numbers)?;
        flat.outputs =
            this.outputs.iter().map(|&id| self.number(id, &mut flat, &mut numbers)).collect();
        let constants = numbers.into_iter().filter(|(_, value)| flat.is_constant(*value));
        self.constants.extend(constants.map(|(id, _)| id));
        Some(flat)
    }

    /// Returns the number of a value. A value that no node of the graph makes is from outside.
    fn number(&self, id: ValueId, flat: &mut Flat, numbers: &mut Numbers) -> u32 {
        *numbers.entry(id).or_insert_with(|| {
            let value = &self.sized.values[id];
            let is_constant = value.is_weight || self.constants.contains(&id);
            let source = if is_constant { Source::Constant } else { Source::Given };
            flat.values.push(Value { ty: value.ty.clone(), computed: None, source });
            flat.values.len() as u32 - 1
        })
    }

    fn steps(&self, steps: &[Step], flat: &mut Flat, numbers: &mut Numbers) -> Option<()> {
        steps.iter().try_for_each(|step| self.step(step, flat, numbers))
    }

    fn step(&self, step: &Step, flat: &mut Flat, numbers: &mut Numbers) -> Option<()> {
        let operands: Vec<Option<u32>> =
            step.inputs.iter().map(|id| id.map(|id| self.number(id, flat, numbers))).collect();
        if let Some(call) = step.inner.iter().find(|inner| inner.kind == InnerKind::Call) {
            return self.call(call, &operands, step, flat, numbers);
        }
        let captured = step.inner.iter().flat_map(|inner| &self.captures[inner.instance]);
        let captures: Vec<u32> = captured.map(|&id| self.number(id, flat, numbers)).collect();
        let node = self.scan.nodes.get(step.node)?;
        let op = Operator::new(node.domain(), node.op).onnx();
        let reads: Vec<u32> = operands.iter().flatten().copied().collect();
        let source = match is_folded(op, step, &reads, flat) {
            true => Source::Constant,
            false => Source::Made,
        };
        let mut write = |id: &ValueId| {
            let ty = self.sized.values[*id].ty.clone();
            // The number of a value that is made several times is the last one.
            flat.values.push(Value { ty, computed: None, source });
            numbers.insert(*id, flat.values.len() as u32 - 1);
            flat.values.len() as u32 - 1
        };
        let writes: Vec<Option<u32>> =
            step.outputs.iter().map(|id| id.as_ref().map(&mut write)).collect();
        if source == Source::Constant {
            return Some(());
        }
        let rank = flat.nodes.len();
        let is_room = rank < MAX_NODES;
        let bodies = step.inner.to_vec();
        flat.nodes.push(Node {
            number: step.node,
            rank,
            op,
            reads,
            captures,
            writes,
            operands,
            bodies,
        });
        is_room.then_some(())
    }

    /// Adds the nodes of a function instead of the node that calls it.
    fn call(
        &self,
        call: &Inner,
        operands: &[Option<u32>],
        step: &Step,
        flat: &mut Flat,
        numbers: &mut Numbers,
    ) -> Option<()> {
        let function = self.sized.instances.get(call.instance)?;
        let mut inside = Numbers::default();
        for (place, &id) in function.inputs.iter().enumerate() {
            if let Some(value) = operands.get(place).copied().flatten() {
                inside.insert(id, value);
            }
        }
        self.steps(&function.steps, flat, &mut inside)?;
        for (place, id) in step.outputs.iter().enumerate() {
            let result = function.outputs.get(place);
            if let (Some(id), Some(&result)) = (id, result) {
                let value = self.number(result, flat, &mut inside);
                numbers.insert(*id, value);
            }
        }
        Some(())
    }
}

/// True if ONNX Runtime computes a node when it loads the model.
fn is_folded(op: Option<OpType>, step: &Step, reads: &[u32], flat: &Flat) -> bool {
    let Some(op) = op else { return false };
    if !step.inner.is_empty() || op.is(RANDOM) {
        return false;
    }
    if matches!(op, OpType::Shape | OpType::Size) {
        let ty = reads.first().and_then(|&value| flat.ty(value));
        return ty.is_some_and(|ty| onnx::known_shape(&ty.shape).is_some());
    }
    op == OpType::Constant
        || (!reads.is_empty() && reads.iter().all(|&value| flat.is_constant(value)))
}

/// Returns the values that each instance reads from around it, each once.
fn captures(sized: &SizedModel) -> Vec<Vec<ValueId>> {
    let mut captures: Vec<Vec<ValueId>> = Vec::with_capacity(sized.instances.len());
    for instance in &sized.instances {
        let made = instance.steps.iter().flat_map(|step| step.outputs.iter().flatten());
        let mut own: FxHashSet<ValueId> =
            instance.inputs.iter().chain(&instance.weights).chain(made).copied().collect();
        let mut found = Vec::new();
        let mut add = |id: ValueId| {
            if own.insert(id) {
                found.push(id);
            }
        };
        for step in &instance.steps {
            step.inputs.iter().flatten().for_each(|&id| add(id));
            let bodies = step.inner.iter().filter(|inner| inner.kind != InnerKind::Call);
            let inside = bodies.filter_map(|inner| captures.get(inner.instance));
            inside.flatten().for_each(|&id| add(id));
        }
        instance.outputs.iter().for_each(|&id| add(id));
        captures.push(found);
    }
    captures
}
