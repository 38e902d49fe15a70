//! Replaces nodes with other nodes.

use std::sync::Arc;

use provenance::{EmitterId, OriginId, ScopeId, StackId};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{Declined, Edit, add_paths, rename, resolve};
use crate::attr::Attr;
use crate::dtype::DType;
use crate::kernels::{Limit, Support, Target, View, captured, sorted_size};
use crate::model::{Graph, Model, Node};
use crate::operator::properties::PRODUCTS;
use crate::operator::{OpType, Operator};
use crate::tensor::{Assumptions, Tensor};
use crate::value::{Dim, Type, Value, ValueId};

/// The choices of an export that rewrites ask for.
#[derive(Clone, Copy)]
pub(super) struct Modes {
    pub exact_nan: bool,
    pub dequantizes: bool,
    pub widened: Option<DType>,
}

impl Modes {
    pub(super) fn of(model: &Model) -> Modes {
        let &Model { exact_nan, dequantizes, widened, .. } = model;
        Modes { exact_nan, dequantizes, widened }
    }
}

/// An operator with its operands and attributes.
#[derive(Clone, Debug)]
pub struct Op {
    pub op: Operator,
    pub inputs: Vec<Option<ValueId>>,
    pub attrs: Vec<(Arc<str>, Attr)>,
}

impl Op {
    pub fn new(op: impl Into<Operator>, inputs: &[ValueId]) -> Op {
        let inputs = inputs.iter().copied().map(Some).collect();
        Op { op: op.into(), inputs, attrs: Vec::new() }
    }

    /// Returns the operator of a node with its attributes, on other operands.
    pub fn of(node: &Node, inputs: Vec<Option<ValueId>>) -> Op {
        Op { op: node.op.clone(), inputs, attrs: node.attrs.clone() }
    }

    /// Sets an attribute.
    #[must_use]
    pub fn attr(mut self, name: &str, value: impl Into<Attr>) -> Op {
        match self.attrs.iter_mut().find(|(other, _)| **other == *name) {
            Some((_, attr)) => *attr = value.into(),
            None => self.attrs.push((name.into(), value.into())),
        }
        self
    }

    pub(super) fn into_node(self, outputs: &[ValueId], origin: OriginId, is_fused: bool) -> Node {
        Node {
            name: None,
            op: self.op,
            inputs: self.inputs.into(),
            outputs: SmallVec::from_slice(outputs),
            attrs: self.attrs,
            origin,
            is_fused,
            iteration: None,
            metadata: Vec::new(),
        }
    }
}

fn is_same(before: &Operator, after: &Operator) -> bool {
    before == after || (before.is(PRODUCTS) && after.is(PRODUCTS))
}

/// Names a constant that was computed from a named one. It keeps the name if only the shape differs; otherwise a
/// suffix says what happened.
fn name_of_computed(tensor: &Tensor, source: &Value) -> Option<Arc<str>> {
    let name = source.name.as_ref()?;
    let before = source.tensor.as_ref()?;
    if before.is_same_array(tensor) {
        return Some(name.clone());
    }
    let sorted = |tensor: &Tensor| {
        let mut sizes = tensor.shape.clone();
        sizes.sort_unstable();
        sizes
    };
    let is_turned = before.shape != tensor.shape && sorted(before) == sorted(tensor);
    Some(format!("{name}/{}", if is_turned { "Transpose" } else { "folded" }).into())
}

impl Edit<'_> {
    /// Declines an operator that the runtime cannot compute as the replacement of a node and of those that are
    /// fused with it.
    pub(super) fn expect_kernel(
        &self,
        index: usize,
        fused: &[usize],
        op: &Op,
        results: &[Option<DType>],
    ) -> Result<(), Declined> {
        let before = std::iter::once(&index).chain(fused).map(|&node| &self.graph.nodes[node]);
        self.expect_computable(op, results, before)
    }

    /// Turns a node into another operator.
    pub(super) fn write(&mut self, index: usize, fused: &[usize], op: Op) {
        let origin = self.origin_of_op(index, fused, &op);
        let is_fused = self.is_fusion(index, fused, &op);
        self.note_view(index, true);
        self.changed = true;
        self.note_bodies(&op, self.graph.nodes[index].outputs[0]);
        self.change_reads(index, |node| {
            node.origin = origin;
            node.is_fused = is_fused;
            node.op = op.op;
            node.inputs = op.inputs.into();
            node.attrs = op.attrs;
        });
    }

    /// Joins the origins of a node and of those that are fused into it. If only fused nodes have the new operator,
    /// the result shows the line of the last of them; otherwise it shows the line of the node itself. All products
    /// count as one operator.
    pub(super) fn origin_of_op(&mut self, index: usize, fused: &[usize], op: &Op) -> OriginId {
        let is_still = |&node: &usize| {
            let node = &self.graph.nodes[node];
            let contains_product = op.op == OpType::Attention && node.op.is(PRODUCTS);
            contains_product || is_same(&node.op, &op.op)
        };
        let shown = fused.iter().copied().filter(is_still).max().filter(|_| !is_still(&index));
        let origin = self.joined_origin(index, fused);
        match shown {
            Some(shown) => {
                let first = self.graph.nodes[shown].origin;
                self.table.absorb(first, origin)
            }
            None => origin,
        }
    }

    /// True if a new operator represents several equations, including those of folded constants. If one of the
    /// nodes already has the operator, returns whether that node is a fusion, because the result shows its line.
    pub(super) fn is_fusion(&self, index: usize, fused: &[usize], op: &Op) -> bool {
        let nodes = || std::iter::once(index).chain(fused.iter().copied());
        let node = |index: usize| &self.graph.nodes[index];
        let has_op = |&index: &usize| is_same(&node(index).op, &op.op);
        let last = || fused.iter().copied().filter(has_op).max();
        if let Some(same) = Some(index).filter(has_op).or_else(last) {
            return node(same).is_fused;
        }
        let own = self.equation(node(index).origin);
        let constants = nodes().flat_map(|index| self.constant_origins(index));
        let mut origins = nodes().map(|index| node(index).origin).chain(constants);
        node(index).is_fused || origins.any(|origin| self.equation(origin) != own)
    }

    /// Returns the properties that distinguish the equations of nodes: call path, name scope and plugin.
    fn equation(&self, origin: OriginId) -> (Option<StackId>, Option<ScopeId>, Option<EmitterId>) {
        let site = self.table.get_site(self.table.get_origin(origin).primary);
        let plugin = site.emitter.and_then(|emitter| self.table.plugin_of(emitter));
        (site.stack, site.scope, plugin)
    }

    pub(super) fn joined_origin(&mut self, index: usize, fused: &[usize]) -> OriginId {
        let mut origin = self.whole_origin(index);
        for &node in std::iter::once(&index).chain(fused) {
            let also = self.whole_origin(node);
            origin = std::iter::once(also)
                .chain(self.constant_origins(node))
                .fold(origin, |all, other| self.table.absorb(all, other));
        }
        origin
    }

    /// Makes a node inherit the origins of all nodes in its bodies.
    pub(super) fn fuse_bodies(&mut self, index: usize) {
        fn collect(node: &Node, origins: &mut Vec<OriginId>) {
            for inner in node.bodies().flat_map(|body| &body.nodes) {
                origins.push(inner.origin);
                collect(inner, origins);
            }
        }
        let mut origins = Vec::new();
        collect(&self.graph.nodes[index], &mut origins);
        self.graph.nodes[index].is_fused = true;
        for origin in origins {
            self.absorb(index, origin);
        }
    }

    /// Inserts a node before `index`, with the origins of `fused` and of the node there. Returns its results. Their
    /// types follow from the operands, or are those of the values that they replace.
    pub(super) fn insert_all(
        &mut self,
        index: usize,
        fused: &[usize],
        op: Op,
        replaced: &[Option<ValueId>],
    ) -> Vec<ValueId> {
        let origin = self.origin_of_op(index, fused, &op);
        let is_fused = self.is_fusion(index, fused, &op);
        let outputs = self.add_results(&op, replaced, |edit, dtypes| {
            edit.expect_kernel(index, fused, &op, dtypes)
        });
        self.note_bodies(&op, outputs[0]);
        if let Operator::Foreign(_) = op.op {
            self.domains.insert(op.op.domain().into());
        }
        let mut node = op.into_node(&outputs, origin, is_fused);
        node.iteration.clone_from(&self.graph.nodes[index].iteration);
        self.insert_before(index, node);
        outputs
    }

    /// Records that the bodies of the operator with this first result are new.
    pub(super) fn note_bodies(&mut self, op: &Op, first: ValueId) {
        if op.attrs.iter().any(|(_, attr)| matches!(attr, Attr::Graph(_))) {
            self.with_new_bodies.insert(first);
        }
    }

    /// Replaces a result of a node with a value that was inserted before it. The first call removes the node, so
    /// all of its results must be replaced.
    pub(super) fn replace_output(&mut self, index: usize, output: usize, by: ValueId) {
        let replaced = self.graph.nodes[index].outputs[output];
        let by = if self.graph.outputs.contains(&replaced) && !self.can_be_output(by) {
            let origin = self.whole_origin(index);
            let (copy, identity) = self.copied(by, replaced, origin);
            self.insert_before(index, identity);
            copy
        } else {
            by
        };
        self.replace_value(replaced, by);
        self.keep_output(replaced, by);
        self.drop_node(index);
    }

    /// Turns a node into another operator with other results, and inserts nodes after it that compute the old ones.
    pub(super) fn write_results(
        &mut self,
        index: usize,
        fused: &[usize],
        op: Op,
        results: Vec<ValueId>,
        restored: Vec<Op>,
    ) {
        self.write(index, fused, op);
        let Node { origin, is_fused, .. } = self.graph.nodes[index];
        let mut last = index;
        for (position, (new, restore)) in results.into_iter().zip(restored).enumerate() {
            let old = std::mem::replace(&mut self.graph.nodes[index].outputs[position], new);
            self.uses.make(new, Some(index));
            last = self.insert_after(last, restore.into_node(&[old], origin, is_fused));
            self.note_view(last, false);
        }
    }

    /// Adds a constant that a pass computed for the node at `index`, with the origins of that node and of `fused`.
    /// It is a weight if it was computed `from` a weight. Its name derives from the first of them that has one.
    pub(super) fn constant(
        &mut self,
        index: usize,
        fused: &[usize],
        tensor: Tensor,
        from: &[ValueId],
    ) -> ValueId {
        let origin = self.joined_origin(index, fused);
        let sources = from.iter().map(|&id| &self.values[id]);
        let mut paths = SmallVec::new();
        sources.clone().for_each(|source| add_paths(&mut paths, &source.paths));
        let is_weight = sources.clone().any(|source| source.is_weight);
        let name = sources.clone().find_map(|source| name_of_computed(&tensor, source));
        let shape: Vec<Dim> = tensor.shape.iter().map(|&size| Dim::Known(size)).collect();
        self.values.add(Value {
            ty: Some(Type::new(tensor.dtype, shape)),
            tensor: Some(tensor.into()),
            origin: Some(origin),
            name,
            is_weight,
            paths,
            ..Value::default()
        })
    }

    /// True if the model must match JAX for NaN inputs too.
    pub fn exact_nan(&self) -> bool {
        self.modes.exact_nan
    }

    /// True if weights in few bits become floats in each run.
    pub fn dequantizes(&self) -> bool {
        self.modes.dequantizes
    }

    /// Returns the type of half precision that the model computes in float32, if any.
    pub fn widened(&self) -> Option<DType> {
        self.modes.widened
    }

    /// Returns the runtimes that the model is for.
    pub fn target(&self) -> Target {
        self.target
    }

    /// Returns whether every runtime of the target computes `op` on operands of a type correctly and without a cast.
    pub fn runs(&self, op: OpType, dtype: DType) -> Support {
        self.target.runs(op, self.opset, dtype)
    }

    /// True if some runtime of the target does not take a node because of a limit.
    pub fn has_limit(&self, index: usize, limit: Limit) -> bool {
        self.target.has_limit(limit) && self.viewed(index, |view| self.target.limits(limit, view))
    }

    /// Returns the operands of a loop that are initial states, that nodes compute, and that other nodes read, too.
    pub fn shared_states(&self, index: usize) -> Vec<usize> {
        self.viewed(index, |view| view.shared_states().collect())
    }

    /// Returns the operands of a `Scan` with an axis of one element that a runtime takes for an axis of the results.
    pub fn widened_arrays(&self, index: usize) -> Vec<usize> {
        self.viewed(index, |view| view.widened_arrays().collect())
    }

    /// Returns the number of an operand of a product or quotient of integers that is one constant, and the constant.
    pub fn constant_factor(&self, index: usize) -> Option<(usize, i64)> {
        self.viewed(index, |view| view.factor())
    }

    fn viewed<R>(&self, index: usize, look: impl FnOnce(&View<'_>) -> R) -> R {
        let is_read = |value| self.reads(value) > 0;
        let (node, values) = (self.node(index), &*self.values);
        let earlier = |is_it: &dyn Fn(&Node) -> bool| {
            let before = self.nodes().into_iter().take_while(|&other| other != index);
            before.into_iter().any(|other| is_it(self.node(other)))
        };
        let readers = |value: ValueId, visit: &mut dyn FnMut(&Node)| {
            self.readers(value).for_each(|reader| visit(self.node(reader)));
        };
        let (is_read, earlier, readers) = (&is_read, &earlier, &readers);
        look(&View { node, values, is_read, shows_order: is_read, earlier, readers })
    }

    /// Returns the number of elements that a `TopK` sorts, and how often it sorts as many.
    pub fn sorted_size(&self, index: usize) -> Option<(i64, i64)> {
        sorted_size(self.node(index), self.values)
    }

    /// True if a node stays on the CPU although the model is for a device.
    pub fn falls_back(&self, index: usize) -> bool {
        self.target.falls_back(self.node(index), self.values, self.opset)
    }

    /// Returns the types of the operands and of the results of a node.
    pub fn dtypes_of(&self, index: usize) -> (Vec<Option<DType>>, Vec<Option<DType>>) {
        let node = self.node(index);
        let operands = node.inputs.iter().map(|input| self.dtype((*input)?));
        let results = node.outputs.iter().map(|&output| self.dtype(output));
        (operands.collect(), results.collect())
    }

    /// Returns the computed values from outside that the bodies of a node read.
    pub fn captured(&self, index: usize) -> Vec<ValueId> {
        self.node(index).bodies().flat_map(|body| captured(body, self.values)).collect()
    }

    /// Returns the assumptions about large weights; `None` if passes read the weights instead.
    pub fn assumptions(&self) -> Option<&Assumptions> {
        self.assumptions
    }

    /// True if the graph is inside the body of a loop.
    pub fn is_in_loop(&self) -> bool {
        self.place.depth > 0
    }

    /// True inside of a branch that runs where a fused operator is not right.
    pub fn is_fallback(&self) -> bool {
        self.is_fallback
    }

    /// Returns the opset of the model.
    pub fn opset(&self) -> i64 {
        self.opset
    }

    /// Replaces each composite with its nodes.
    pub fn inline_composites(&mut self) {
        for index in 0..self.len() {
            if self.graph.nodes[index].op.is_composite() {
                self.inline_composite(index);
            }
        }
    }

    /// Replaces a composite with its nodes. They have the origin of the same equation already. The nodes that
    /// compute its results inherit the origins that the composite absorbed since.
    fn inline_composite(&mut self, index: usize) {
        let origin = self.whole_origin(index);
        let outputs = self.graph.nodes[index].outputs.clone();
        let mut nodes = Vec::new();
        let results = open(&mut self.graph.nodes[index], &mut nodes);
        for (&output, mut result) in outputs.iter().zip(results) {
            let is_output = self.graph.outputs.contains(&output);
            let is_made = nodes.iter().any(|node| node.outputs.contains(&result));
            if is_output && (!is_made || self.graph.outputs.contains(&result)) {
                let identity;
                (result, identity) = self.copied(result, output, origin);
                nodes.push(identity);
            }
            match nodes.iter_mut().find(|node| node.outputs.contains(&result)) {
                Some(maker) => maker.origin = self.table.absorb(maker.origin, origin),
                None => self.wait(output, origin),
            }
            self.replace_value(output, result);
            self.keep_output(output, result);
        }
        for node in nodes {
            self.insert_before(index, node);
        }
        self.drop_node(index);
    }

    /// Copies a value that cannot be an output: an operand of the graph, or another output.
    fn copied(&mut self, value: ValueId, output: ValueId, origin: OriginId) -> (ValueId, Node) {
        let ty = self.values[output].ty.clone();
        let copy = self.values.add(Value { ty, ..Value::default() });
        (copy, Op::new(OpType::Identity, &[value]).into_node(&[copy], origin, false))
    }

    /// If `before` is an output of the graph, `after` becomes the output and gets its name.
    fn keep_output(&mut self, before: ValueId, after: ValueId) {
        if let Some(output) = self.graph.outputs.iter_mut().find(|output| **output == before) {
            *output = after;
        }
        let name = self.values[before].name.take();
        if name.is_some() {
            self.values[after].name = name;
        }
    }
}

/// Expands a composite, and composites inside it, to nodes on the actual operands. Returns the values of its
/// results.
fn open(node: &mut Node, nodes: &mut Vec<Node>) -> Vec<ValueId> {
    let body = node.attrs.iter_mut().find_map(|(_, attr)| match attr {
        Attr::Graph(body) => Some(std::mem::take(&mut **body)),
        _ => None,
    });
    let Graph { inputs, outputs, nodes: inner, .. } = body.unwrap_or_default();
    let operands = node.inputs.iter().copied();
    let mut renamed: FxHashMap<ValueId, ValueId> = FxHashMap::default();
    for (formal, actual) in inputs.into_iter().zip(operands) {
        renamed.extend(actual.map(|actual| (formal, actual)));
    }
    for mut node in inner {
        rename(&mut node, &renamed);
        if node.op.is_composite() {
            let outputs = node.outputs.clone();
            let results = open(&mut node, nodes);
            renamed.extend(outputs.into_iter().zip(results));
        } else {
            nodes.push(node);
        }
    }
    outputs.into_iter().map(|output| resolve(&renamed, output)).collect()
}
