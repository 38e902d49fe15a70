//! Infers sizes node by node.

use std::sync::Arc;

use provenance::outline::GraphPlace;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::bodies::{Estimate, estimate};
use super::contents::{Attributes, attributes, short, type_of};
use super::counters::positive_if;
use super::names::{Names, Sizes, SymbolOf};
use super::{Instance, SizedModel, Step};
use crate::attr::Attr;
use crate::cost::{Cost, NotCounted, cost};
use crate::dtype::DType;
use crate::infer::{Call, Types};
use crate::operator::properties::{CONTROL_FLOW, RANDOM};
use crate::operator::{OpType, Operator};
use crate::scan::{self, Node, Scan, ValueInfo, ValueType};
use crate::tensor::Tensor;
use crate::value::{Dim, Type, Value, ValueId, Values};

/// The maximum number of nodes, operands and values of all instances.
const MAX_ENTRIES: usize = 1 << 23;

/// The maximum weight of all polynomials that are looked at.
const MAX_WORK: usize = 1 << 23;

/// The maximum depth of bodies and calls.
const MAX_DEPTH: usize = 48;

/// The known properties of the operand of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Operand {
    pub ty: Option<Type>,
    /// The integers, if they are known as sizes.
    pub sizes: Option<Arc<[Dim]>>,
}

/// A function with the types of its operands.
type Signature = (usize, Vec<Operand>);

/// The attributes of a node.
pub(super) type Attrs = Vec<(Arc<str>, Attr)>;

/// The names of the values of a graph.
#[derive(Default)]
struct Scope<'a> {
    values: FxHashMap<&'a str, ValueId>,
}

pub(super) struct Sizer<'s, 'a> {
    pub scan: &'s Scan<'a>,
    pub values: Values,
    pub instances: Vec<Instance>,
    pub names: Names<'s>,
    /// The functions, by `domain::name`.
    functions: FxHashMap<&'s str, usize>,
    /// The nodes of loops, in the order of the file.
    loops: Vec<usize>,
    /// The bodies of each node, with the names of their attributes.
    bodies: FxHashMap<u32, Vec<(Arc<str>, usize)>>,
    /// The scopes that a node sees, outermost first.
    scopes: Vec<Scope<'a>>,
    /// The first scope that belongs to the function around a node.
    bottom: usize,
    /// The attributes of the call of the function around a node.
    call_attrs: Arc<Attrs>,
    called: FxHashMap<Signature, usize>,
    /// The results of nodes that read only weights.
    folded: FxHashSet<ValueId>,
    /// For each comparison of sizes that may hold, the number that is positive if it does.
    pub tests: FxHashMap<ValueId, Dim>,
    opset: i64,
    /// The rough cost of each instance, if the model has branches to compare.
    pub estimates: Option<Vec<Estimate>>,
    entries_left: usize,
    work_left: usize,
    depth: usize,
}

impl<'s, 'a> Sizer<'s, 'a> {
    pub(super) fn new(scan: &'s Scan<'a>, sizes: &'s Sizes) -> Sizer<'s, 'a> {
        let mut functions = FxHashMap::default();
        let mut bodies: FxHashMap<u32, Vec<(Arc<str>, usize)>> = FxHashMap::default();
        for (number, graph) in scan.graphs.iter().enumerate() {
            match &graph.place {
                GraphPlace::Main => {}
                GraphPlace::Function(name) => {
                    functions.entry(&**name).or_insert(number);
                }
                GraphPlace::Body { node, attribute } => {
                    bodies.entry(*node).or_default().push((attribute.as_ref().into(), number));
                }
            }
        }
        Sizer {
            scan,
            values: Values::default(),
            instances: Vec::new(),
            names: Names::new(sizes),
            loops: positions(scan, OpType::Loop),
            functions,
            bodies,
            scopes: Vec::new(),
            bottom: 0,
            call_attrs: Arc::default(),
            called: FxHashMap::default(),
            folded: FxHashSet::default(),
            tests: FxHashMap::default(),
            opset: opset(&scan.opsets).unwrap_or(1),
            estimates: scan.nodes.iter().any(|node| node.op == OpType::If.name()).then(Vec::new),
            entries_left: MAX_ENTRIES,
            work_left: MAX_WORK,
            depth: 0,
        }
    }

    pub(super) fn model(mut self) -> SizedModel {
        // A model without a graph is refused before.
        if self.graph(0, None).is_none() {
            self.instances.push(Instance::default());
        }
        SizedModel { values: self.values, instances: self.instances, symbols: self.names.uses }
    }

    /// Infers the sizes of a graph, and returns its instance. Without operands, its inputs have the types in the
    /// file. `None` if a bound is exceeded.
    pub(super) fn graph(&mut self, number: usize, operands: Option<&[Operand]>) -> Option<usize> {
        let graph = self.scan.graphs.get(number)?;
        self.entries_left = self.entries_left.checked_sub(entries(self.scan, graph))?;
        if self.depth >= MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        self.scopes.push(Scope::default());
        let mut instance = Instance { graph: number, ..Instance::default() };
        for tensor in &graph.initializers {
            instance.weights.push(self.weight(tensor));
        }
        for (place, input) in graph.inputs.iter().enumerate() {
            if operands.is_none() && self.own(input.name).is_some() {
                // Before IR version 4, weights were inputs.
                continue;
            }
            let operand = operands.and_then(|operands| operands.get(place)).cloned();
            let Operand { ty, sizes } = operand.unwrap_or_default();
            let ty = ty.or_else(|| {
                let of = |axis| SymbolOf::Input { value: input.name.into(), axis };
                self.declared(input, &of)
            });
            let id = self.define(input.name, ty);
            self.values[id].sizes = sizes;
            instance.inputs.push(id);
        }
        let declared: FxHashMap<&str, &'s ValueInfo<'a>> =
            graph.outputs.iter().chain(&graph.values).map(|info| (info.name, info)).collect();
        for node in graph.nodes.clone() {
            let step = self.step(node, &declared);
            instance.steps.push(step);
        }
        for output in &graph.outputs {
            let id = self.find(output.name).unwrap_or_else(|| self.values.add(Value::default()));
            instance.outputs.push(id);
        }
        self.scopes.pop();
        self.depth -= 1;
        if let Some(mut estimates) = self.estimates.take() {
            estimates.push(estimate(&instance, &estimates));
            self.estimates = Some(estimates);
        }
        self.instances.push(instance);
        Some(self.instances.len() - 1)
    }

    fn weight(&mut self, tensor: &scan::Tensor<'a>) -> ValueId {
        let id = self.define(tensor.name, type_of(tensor));
        let contents = short(tensor);
        let value = &mut self.values[id];
        value.is_weight = true;
        value.sizes = contents.as_ref().and_then(flags);
        value.tensor = contents.map(Arc::new);
        id
    }

    fn step(&mut self, number: usize, declared: &FxHashMap<&str, &'s ValueInfo<'a>>) -> Step {
        let scan = self.scan;
        let node = &scan.nodes[number];
        let inputs: SmallVec<[Option<ValueId>; 3]> =
            node.inputs.iter().map(|name| self.operand(name)).collect();
        let Attributes { values: mut attrs, references } = attributes(node);
        let mut is_open = false;
        for (name, of) in references {
            let found = self.call_attrs.iter().find(|(key, _)| **key == *of);
            match found.map(|(_, value)| value.clone()) {
                Some(value) => attrs.push((name, value)),
                None => is_open = true,
            }
        }
        let op = Operator::new(node.domain(), node.op);
        let work: usize = inputs.iter().flatten().map(|&id| self.weight_of(id)).sum();
        let can_work = self.take(work);
        let control = if can_work { self.run(number, node, &op, &inputs, &attrs) } else { None };
        let (inner, types_of_inner) = control.unwrap_or_default();
        let (mut types, mut sizes) = (Types::new(), None);
        if let Some(operands) = types_of_inner {
            types = operands.iter().map(|operand| operand.ty.clone()).collect();
            sizes = Some(operands);
        } else if can_work && !is_open {
            types = self.types(&op, &inputs, node.outputs.len(), &attrs);
        }
        let mut outputs: SmallVec<[Option<ValueId>; 1]> = SmallVec::new();
        for (place, name) in node.outputs.iter().enumerate() {
            if name.is_empty() {
                outputs.push(None);
                continue;
            }
            let inferred = types.get(place).cloned().flatten();
            let ty = inferred.or_else(|| {
                let of = |axis| SymbolOf::Value { node: number, axis };
                self.declared(declared.get(name)?, &of)
            });
            let id = self.define(name, ty);
            if let Some(found) = sizes.as_ref().and_then(|sizes| sizes.get(place)) {
                self.values[id].sizes.clone_from(&found.sizes);
            }
            outputs.push(Some(id));
        }
        let call_results: Vec<Option<Type>> =
            outputs.iter().map(|id| self.values[(*id)?].ty.clone()).collect();
        let work = outputs.iter().flatten().map(|&id| self.weight_of(id)).sum();
        let runs = !inner.is_empty();
        let cost = match self.take(work) {
            false => Err(NotCounted::TooLarge),
            true if is_open => Err(NotCounted::NoRule),
            true if runs => Ok(Cost::NOTHING),
            true if op.is(CONTROL_FLOW) => Err(NotCounted::NoRule),
            true if self.is_folded(&op, &inputs) => {
                self.folded.extend(outputs.iter().flatten());
                Ok(Cost::NOTHING)
            }
            true => {
                let call = self.call(&op, &inputs, node.outputs.len(), &attrs);
                let is_missing = |(result, ty): (&Option<ValueId>, &Option<Type>)| {
                    result.is_some() && ty.is_none()
                };
                let lacks_types = outputs.iter().zip(&call_results).any(is_missing);
                match cost(&call, &call_results) {
                    Ok(_) if lacks_types => nothing_or_unknown(&op),
                    other => other,
                }
            }
        };
        let work = cost.as_ref().map_or(0, weight_of_cost);
        let cost = if self.take(work) { cost } else { Err(NotCounted::TooLarge) };
        self.contents(&op, &inputs, &attrs, &outputs);
        Step { node: number, inputs, outputs, cost, inner }
    }

    /// True if a runtime computes a node when it loads the model. Kernels dequantize their weights themselves.
    fn is_folded(&self, op: &Operator, inputs: &[Option<ValueId>]) -> bool {
        let is_constant = |id: &ValueId| self.values[*id].is_weight || self.folded.contains(id);
        let computes = op.onnx().is_some_and(|op| op != OpType::DequantizeLinear);
        let mut operands = inputs.iter().flatten().peekable();
        computes && !op.is(RANDOM) && operands.peek().is_some() && operands.all(is_constant)
    }

    /// Notes the contents of a short constant or list, and what a comparison of two sizes asks.
    fn contents(
        &mut self,
        op: &Operator,
        inputs: &[Option<ValueId>],
        attrs: &Attrs,
        outputs: &[Option<ValueId>],
    ) {
        let &[Some(output)] = outputs else { return };
        if *op == OpType::Constant {
            let tensor = attrs.iter().find_map(|(name, attr)| match attr {
                Attr::Tensor(tensor) if **name == *"value" => Some(tensor.clone()),
                _ => None,
            });
            let value = &mut self.values[output];
            value.is_weight = true;
            value.sizes = tensor.as_deref().and_then(flags);
            value.tensor = tensor.filter(|tensor| tensor.byte_len() > 0);
        }
        if let Some(ty) = self.values[output].ty.clone() {
            if let (Some(op), &[Some(a), Some(b)]) = (op.onnx(), inputs)
                && let (Some([a]), Some([b])) =
                    (self.known(a).sizes.as_deref(), self.known(b).sizes.as_deref())
                && let Some(number) = positive_if(op, a, b)
                && self.take(number.weight())
            {
                self.tests.insert(output, number);
            }
            let found = super::lists::computed(&self.call(op, inputs, 1, attrs), &ty);
            let weight: usize = found.iter().flatten().map(Dim::weight).sum();
            if let Some(found) = found
                && self.take(weight)
            {
                self.values[output].sizes = Some(found.into());
            }
        }
    }

    pub(super) fn call<'c>(
        &'c self,
        op: &'c Operator,
        inputs: &'c [Option<ValueId>],
        results: usize,
        attrs: &'c Attrs,
    ) -> Call<'c> {
        Call { op, inputs, results, values: &self.values, opset: self.opset, attrs }
    }

    fn types(
        &mut self,
        op: &Operator,
        inputs: &[Option<ValueId>],
        results: usize,
        attrs: &Attrs,
    ) -> Types {
        self.call(op, inputs, results, attrs).types().unwrap_or_default()
    }

    /// Returns the declared type of a value. `of` describes axes without a size.
    fn declared(&mut self, info: &ValueInfo<'a>, of: &dyn Fn(usize) -> SymbolOf) -> Option<Type> {
        let Some(ValueType::Tensor { element, shape: Some(shape) }) = &info.ty else { return None };
        let dtype = DType::from_code(*element)?;
        let size = |(axis, dim): (usize, &scan::Dim<'_>)| match dim {
            scan::Dim::Known(size) if *size >= 0 => Some(Dim::Known(*size)),
            scan::Dim::Named(text) => self.names.size(text),
            scan::Dim::Known(_) | scan::Dim::Unknown => {
                Some(self.names.add(&format!("{}_{axis}", info.name), of(axis)))
            }
        };
        let shape: Option<Vec<Dim>> = shape.iter().enumerate().map(size).collect();
        Some(Type::new(dtype, shape?))
    }

    /// Adds a value to the graph that is being read.
    pub(super) fn define(&mut self, name: &'a str, ty: Option<Type>) -> ValueId {
        let id = self.values.add(Value { name: Some(name.into()), ty, ..Value::default() });
        if let Some(scope) = self.scopes.last_mut() {
            scope.values.insert(name, id);
        }
        id
    }

    fn own(&self, name: &str) -> Option<ValueId> {
        self.scopes.last().and_then(|scope| scope.values.get(name).copied())
    }

    fn find(&self, name: &str) -> Option<ValueId> {
        let seen = self.scopes.get(self.bottom..).unwrap_or_default();
        seen.iter().rev().find_map(|scope| scope.values.get(name).copied())
    }

    /// Returns the value of an operand; one without a type if nothing defines it.
    fn operand(&mut self, name: &str) -> Option<ValueId> {
        match name {
            "" => None,
            name => Some(self.find(name).unwrap_or_else(|| self.values.add(Value::default()))),
        }
    }

    /// Returns what is known about a value.
    pub(super) fn known(&self, id: ValueId) -> Operand {
        let sizes = crate::infer::sizes(&self.values, id).map(Into::into);
        Operand { ty: self.values[id].ty.clone(), sizes }
    }

    fn weight_of(&self, id: ValueId) -> usize {
        let value = &self.values[id];
        let shape = value.ty.iter().flat_map(|ty| ty.shape.iter()).map(Dim::weight);
        let sizes = value.sizes.iter().flat_map(|sizes| sizes.iter()).map(Dim::weight);
        shape.chain(sizes).sum()
    }

    fn take(&mut self, work: usize) -> bool {
        match self.work_left.checked_sub(work) {
            Some(left) => {
                self.work_left = left;
                true
            }
            None => false,
        }
    }

    /// Returns a symbol for the number of iterations of a loop.
    ///
    /// Its name depends on the place of the loop alone, and not on the sizes that are known.
    pub(super) fn steps(&mut self, node: usize, most: Option<Dim>) -> Dim {
        let name = match (self.loops.len(), self.loops.binary_search(&node)) {
            (2.., Ok(place)) => format!("steps_{}", place + 1),
            _ => "steps".to_owned(),
        };
        self.names.add(&name, SymbolOf::Steps { node, most })
    }

    pub(super) fn bodies_of(&self, node: usize) -> Vec<(Arc<str>, usize)> {
        let number = u32::try_from(node).unwrap_or(u32::MAX);
        self.bodies.get(&number).cloned().unwrap_or_default()
    }

    pub(super) fn function_of(&self, node: &Node<'_>) -> Option<usize> {
        if self.functions.is_empty() || !node.overload.is_empty() {
            return None;
        }
        self.functions.get(&*format!("{}::{}", node.domain, node.op)).copied()
    }

    /// Returns the instance of a function for a call.
    pub(super) fn called(
        &mut self,
        function: usize,
        operands: Vec<Operand>,
        attrs: &Attrs,
    ) -> Option<usize> {
        let graph = self.scan.graphs.get(function)?;
        let is_shared = graph.attributes.is_empty();
        let signature = (function, operands);
        if is_shared && let Some(&known) = self.called.get(&signature) {
            return Some(known);
        }
        let opset = opset(&graph.opsets).unwrap_or(self.opset);
        let outer_opset = std::mem::replace(&mut self.opset, opset);
        let outer_attrs = std::mem::replace(&mut self.call_attrs, Arc::new(attrs.clone()));
        let outer_bottom = std::mem::replace(&mut self.bottom, self.scopes.len());
        let found = self.graph(function, Some(&signature.1));
        (self.opset, self.call_attrs, self.bottom) = (outer_opset, outer_attrs, outer_bottom);
        if let Some(found) = found.filter(|_| is_shared) {
            self.called.insert(signature, found);
        }
        found
    }
}

/// Returns the number of nodes, operands and values of a graph. A long attribute counts as several.
fn entries(scan: &Scan<'_>, graph: &scan::Graph<'_>) -> usize {
    let of_node = |node: &Node<'_>| {
        let bytes: usize = node.attributes.iter().map(|attribute| attribute.message.len()).sum();
        1 + node.inputs.len() + node.outputs.len() + bytes / 64
    };
    let nodes: usize = scan.nodes[graph.nodes.clone()].iter().map(of_node).sum();
    1 + nodes + graph.initializers.len() + graph.typed_values().count()
}

/// Returns the nodes with an operator.
fn positions(scan: &Scan<'_>, op: OpType) -> Vec<usize> {
    (0..scan.nodes.len()).filter(|&node| scan.nodes[node].op == op.name()).collect()
}

fn weight_of_cost(cost: &Cost) -> usize {
    let Cost { flops, transcendentals, operations, bytes_read, bytes_written } = cost;
    let dims = [flops, transcendentals, operations, bytes_read, bytes_written];
    dims.into_iter().map(Dim::weight).sum()
}

/// A node whose results have no type costs nothing if it never does.
fn nothing_or_unknown(op: &Operator) -> Result<Cost, NotCounted> {
    let is_free = op.onnx().is_some_and(|op| op.row().cost.is_nothing());
    if is_free { Ok(Cost::NOTHING) } else { Err(NotCounted::Shapes) }
}

/// Returns booleans as integers.
fn flags(tensor: &Tensor) -> Option<Arc<[Dim]>> {
    let numbers = tensor.ints().filter(|_| tensor.dtype == DType::Bool && tensor.len() <= 64)?;
    Some(numbers.into_iter().map(Dim::Known).collect())
}

/// Returns the opset of ONNX's own domain.
fn opset(opsets: &[(&str, i64)]) -> Option<i64> {
    opsets.iter().find(|(domain, _)| matches!(*domain, "" | "ai.onnx")).map(|(_, version)| *version)
}
