//! Changes a graph. A pass decides what replaces which node, and the edit keeps track of origins.
//!
//! An edit never exposes an origin, so a pass cannot lose or invent one.

mod access;
mod body;
mod computable;
mod formula;
mod patch;
mod reads;
mod rewrite;
mod sequence;
mod share;
#[cfg(test)]
mod tests;
mod types;
mod uses;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use provenance::{OriginId, Table};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::facts::{Fact, Facts};
use crate::kernels::Target;
use crate::model::{Graph, Label, Model, Node, Note, Trial};
use crate::operator::properties::LOOPS;
use crate::pairs::{LoopPlace, Pairs};
use crate::tensor::{Assumptions, Tensor};
use crate::value::{Type, Value, ValueId, Values};

pub use patch::{Declined, Done, Outcome, Patch, Replacement, declined};
pub use rewrite::Op;
use sequence::Sequence;
use uses::Uses;

/// The values and nodes that an edit changed.
#[derive(Clone, Debug, Default)]
pub struct Touched {
    /// The values whose producers changed, and those with at most one reader left.
    pub values: Vec<ValueId>,
    /// The nodes with other operands, and the producers of these operands.
    pub nodes: Vec<usize>,
}

/// Constants of more bytes than this are stored once, even if that takes another node.
pub const LARGE_BYTES: usize = 4096;

/// An edit of one graph. Nodes keep their indices until it is finished; a new node gets the next index.
pub struct Edit<'m> {
    graph: &'m mut Graph,
    values: &'m mut Values,
    table: &'m mut Table,
    /// The producer and the readers of each value, always up to date.
    uses: &'m mut Uses,
    /// The order in which the nodes run.
    sequence: Sequence,
    state: Vec<State>,
    /// The values that replace the results of dropped nodes.
    renamed: FxHashMap<ValueId, ValueId>,
    /// The origins of dropped nodes that no node of this graph has inherited yet. The next node that reads the
    /// value inherits them.
    waiting: FxHashMap<ValueId, OriginId>,
    /// The changes since the last call of [`Edit::take_touched`].
    touched: Touched,
    /// The results of inserted nodes for which the runtime has no kernel. No node that stays reads them.
    without_kernel: FxHashMap<ValueId, Declined>,
    /// The facts about values, as far as they were computed.
    facts: RefCell<Facts>,
    /// The first result of each inserted `If`.
    chosen: FxHashSet<ValueId>,
    /// The first result of each node whose bodies changed.
    with_new_bodies: FxHashSet<ValueId>,
    notes: &'m mut Vec<Note>,
    /// The running rewrite, if its outcomes are recorded.
    label: Option<Label>,
    /// The values that hold the variables of the program, if a listener wants to know.
    pairs: Option<&'m mut Pairs>,
    /// The position of this graph inside loops.
    place: LoopPlace,
    /// The large constants that other graphs read, if this graph is a body.
    outside: Rc<FxHashSet<ValueId>>,
    is_fallback: bool,
    opset: i64,
    modes: rewrite::Modes,
    target: Target,
    assumptions: Option<&'m Assumptions>,
    trial: Option<&'m Trial>,
    /// The domains of the operators that were inserted, apart from that of ONNX.
    domains: &'m mut BTreeSet<Arc<str>>,
    /// True if a node changed.
    changed: bool,
}

/// The state of a node during an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Live,
    /// Nothing reads it. [`Edit::drop_unread`] drops it, unless another node reads it by then.
    Unread,
    Dropped,
}

impl Model {
    /// Runs `pass` on every graph of the model; a body comes after the graph that contains it. Returns true if
    /// anything changed.
    pub fn edit(&mut self, pass: &mut dyn FnMut(&mut Edit<'_>)) -> bool {
        let own = self.opsets.iter().find(|(domain, _)| domain.is_empty());
        let opset = own.map_or(0, |(_, version)| *version);
        let modes = rewrite::Modes::of(self);
        let functions = self.functions.iter_mut().map(|function| &mut function.body);
        let mut around = Around {
            uses: Uses::of_values(self.values.len()),
            values: &mut self.values,
            table: &mut self.provenance,
            notes: &mut self.notes,
            label: self.rewrite,
            pairs: self.pairs.as_deref_mut(),
            place: LoopPlace::default(),
            outside: Rc::default(),
            is_fallback: false,
            reads_large: true,
            opset,
            modes,
            target: self.target,
            assumptions: self.assumptions.as_ref(),
            trial: self.trial.as_ref(),
            domains: BTreeSet::new(),
        };
        let mut changed = false;
        for graph in std::iter::once(&mut self.graph).chain(functions) {
            changed |= edit_graph(graph, false, &mut around, pass);
            around.place.is_in_function = true;
        }
        for domain in std::mem::take(&mut around.domains) {
            if !self.opsets.iter().any(|(known, _)| *known == domain) {
                self.opsets.push((domain, 1));
            }
        }
        changed
    }
}

/// The name of a branch that runs where a fused operator is not right.
pub const FALLBACK: &str = "recurrent/scan";

/// The state that all graphs of a model share.
struct Around<'m> {
    values: &'m mut Values,
    table: &'m mut Table,
    notes: &'m mut Vec<Note>,
    label: Option<Label>,
    pairs: Option<&'m mut Pairs>,
    place: LoopPlace,
    outside: Rc<FxHashSet<ValueId>>,
    is_fallback: bool,
    /// False in the bodies of a graph that reads no large constant: there is nothing to count in them.
    reads_large: bool,
    uses: Uses,
    opset: i64,
    modes: rewrite::Modes,
    target: Target,
    assumptions: Option<&'m Assumptions>,
    trial: Option<&'m Trial>,
    domains: BTreeSet<Arc<str>>,
}

fn edit_graph(
    graph: &mut Graph,
    is_new: bool,
    around: &mut Around<'_>,
    pass: &mut dyn FnMut(&mut Edit<'_>),
) -> bool {
    let mut edit = Edit::new(graph, around);
    if is_new {
        edit.touch_all();
    }
    pass(&mut edit);
    let chosen = std::mem::take(&mut edit.chosen);
    let with_new_bodies = std::mem::take(&mut edit.with_new_bodies);
    let mut changed = edit.finish();
    around.uses.forget();
    let is_one = |node: &Node, of: &FxHashSet<ValueId>| {
        node.outputs.first().is_some_and(|id| of.contains(id))
    };
    if graph.nodes.iter().all(|node| node.bodies().next().is_none()) {
        return changed;
    }
    let reads_large = around.reads_large;
    let read =
        if reads_large { large_constants(graph, around.values) } else { FxHashMap::default() };
    around.reads_large = !read.is_empty();
    let outside = Rc::clone(&around.outside);
    let with = |read: &mut dyn Iterator<Item = ValueId>| -> Rc<FxHashSet<ValueId>> {
        Rc::new(outside.iter().copied().chain(read).collect())
    };
    let all =
        if around.reads_large { with(&mut read.keys().copied()) } else { Rc::clone(&outside) };
    for node in graph.nodes.iter_mut().filter(|node| !is_one(node, &chosen)) {
        let is_new = is_new || is_one(node, &with_new_bodies);
        let (depth, is_fallback) = (around.place.depth, around.is_fallback);
        around.place.depth += usize::from(node.op.is(LOOPS));
        for body in node.bodies_mut() {
            let own = if around.reads_large {
                large_constants(body, around.values)
            } else {
                FxHashMap::default()
            };
            around.outside = if own.is_empty() {
                Rc::clone(&all)
            } else {
                let is_outside = |id: &ValueId| read.get(id) > own.get(id);
                with(&mut read.keys().copied().filter(is_outside))
            };
            around.is_fallback = is_fallback || &*body.name == FALLBACK;
            changed |= edit_graph(body, is_new, around, pass);
        }
        (around.place.depth, around.is_fallback) = (depth, is_fallback);
    }
    around.outside = outside;
    around.reads_large = reads_large;
    changed
}

/// Counts how often each large constant is read in a graph and its bodies.
fn large_constants(graph: &Graph, values: &Values) -> FxHashMap<ValueId, usize> {
    let is_large = |id: ValueId| {
        values[id].tensor.as_ref().is_some_and(|tensor| tensor.byte_len() > LARGE_BYTES)
    };
    let mut reads = FxHashMap::default();
    let mut graphs = vec![graph];
    while let Some(graph) = graphs.pop() {
        for node in &graph.nodes {
            graphs.extend(node.bodies());
            for &id in node.inputs.iter().flatten().filter(|&&id| is_large(id)) {
                *reads.entry(id).or_default() += 1;
            }
        }
    }
    reads
}

impl<'m> Edit<'m> {
    fn new(graph: &'m mut Graph, around: &'m mut Around<'_>) -> Edit<'m> {
        around.uses.note_producers(graph);
        Edit {
            state: vec![State::Live; graph.nodes.len()],
            sequence: Sequence::of_length(graph.nodes.len()),
            graph,
            values: around.values,
            table: around.table,
            uses: &mut around.uses,
            renamed: FxHashMap::default(),
            waiting: FxHashMap::default(),
            touched: Touched::default(),
            without_kernel: FxHashMap::default(),
            facts: RefCell::default(),
            chosen: FxHashSet::default(),
            with_new_bodies: FxHashSet::default(),
            notes: around.notes,
            label: around.label,
            pairs: around.pairs.as_deref_mut(),
            place: around.place,
            outside: Rc::clone(&around.outside),
            is_fallback: around.is_fallback,
            opset: around.opset,
            modes: around.modes,
            target: around.target,
            assumptions: around.assumptions,
            trial: around.trial,
            domains: &mut around.domains,
            changed: false,
        }
    }

    /// Marks every value as changed, for a body that a pass on the outer graph created.
    fn touch_all(&mut self) {
        self.changed = true;
        let made = self.graph.nodes.iter().flat_map(|node| node.outputs.iter().copied());
        self.touched.values.extend(made);
    }

    /// Returns the number of nodes, including dropped ones.
    pub fn len(&self) -> usize {
        self.graph.nodes.len()
    }

    /// Returns the remaining nodes in the order in which they run.
    pub fn nodes(&self) -> Vec<usize> {
        self.sequence.indices().filter(|&index| self.is_live(index)).collect()
    }

    /// False if the node was dropped or nothing reads it.
    pub fn is_live(&self, index: usize) -> bool {
        self.state.get(index) == Some(&State::Live)
    }

    /// True if one node runs before another.
    pub fn is_before(&self, first: usize, second: usize) -> bool {
        self.sequence.is_before(first, second)
    }

    pub fn is_empty(&self) -> bool {
        self.graph.nodes.is_empty()
    }

    /// Returns the node at an index. Its inputs may have been replaced; [`Edit::input`] returns the current ones.
    pub fn node(&self, index: usize) -> &Node {
        &self.graph.nodes[index]
    }

    pub fn outputs(&self) -> &[ValueId] {
        &self.graph.outputs
    }

    /// Returns a current input of a node.
    pub fn input(&self, index: usize, operand: usize) -> Option<ValueId> {
        let id = (*self.graph.nodes[index].inputs.get(operand)?)?;
        Some(self.current(id))
    }

    /// Returns all current inputs of a node.
    pub fn inputs(&self, index: usize) -> Vec<Option<ValueId>> {
        let inputs = &self.graph.nodes[index].inputs;
        inputs.iter().map(|&id| id.map(|id| self.current(id))).collect()
    }

    /// Returns the node that produces a value, if it is in this graph.
    pub fn producer(&self, value: ValueId) -> Option<usize> {
        self.uses.producer(value).filter(|&index| self.state[index] != State::Dropped)
    }

    pub fn ty(&self, value: ValueId) -> Option<&Type> {
        self.values[value].ty.as_ref()
    }

    /// True if a value is an array that the user's function captured, such as a weight.
    pub fn is_captured(&self, value: ValueId) -> bool {
        self.values[value].is_captured()
    }

    pub fn tensor(&self, value: ValueId) -> Option<&Tensor> {
        self.values[value].tensor.as_deref()
    }

    /// Returns the large constants that other graphs read, if this graph is a body.
    pub fn constants_outside(&self) -> &FxHashSet<ValueId> {
        &self.outside
    }

    /// Returns the fact about the numbers of a value.
    pub fn fact(&self, value: ValueId) -> Fact {
        self.facts.borrow_mut().of(self, self.current(value))
    }

    /// Drops a node and lets `to` replace its result, with the origins of `fused` too. Returns false and changes
    /// nothing if the result is an output of the graph and `to` cannot be one.
    fn forward(&mut self, index: usize, fused: &[usize], to: ValueId) -> bool {
        let result = self.graph.nodes[index].outputs[0];
        if !self.take_over_output(result, to) {
            return false;
        }
        let origin = self.joined_origin(index, fused);
        match self.producer(to) {
            Some(producer) => self.absorb(producer, origin),
            None => self.wait(result, origin),
        }
        self.replace_value(result, to);
        self.drop_node(index);
        true
    }

    /// Drops a node that computes the same as an earlier one.
    fn share(&mut self, kept: usize, dropped: usize) {
        let origin = self.whole_origin(dropped);
        self.absorb(kept, origin);
        let nodes = &self.graph.nodes;
        let results =
            nodes[dropped].outputs.iter().copied().zip(nodes[kept].outputs.iter().copied());
        for (result, same) in results.collect::<SmallVec<[_; 2]>>() {
            self.replace_value(result, same);
        }
        self.drop_node(dropped);
    }

    /// Replaces a node with the constant that it computes.
    fn fold(&mut self, index: usize, tensor: Tensor) {
        let result = self.graph.nodes[index].outputs[0];
        let operands = self.graph.nodes[index].inputs.iter().flatten();
        let operands: Vec<&Value> = operands.map(|&id| &self.values[self.current(id)]).collect();
        let is_weight = operands.iter().any(|operand| operand.is_weight);
        let origin = self.whole_origin(index);
        let origin =
            self.constant_origins(index).into_iter().fold(origin, |a, b| self.table.absorb(a, b));
        let value = Value {
            ty: self.values[result].ty.clone(),
            tensor: Some(tensor.into()),
            is_weight,
            origin: Some(origin),
            paths: self.paths_of_operands(index),
            name: self.derived_name(index),
            ..Value::default()
        };
        let constant = self.values.add(value);
        self.replace_value(result, constant);
        self.drop_node(index);
    }

    /// Names a constant that a node computes from weights after the first weight: `conv.kernel/Transpose`. The
    /// constant is no longer the parameter itself.
    fn derived_name(&self, index: usize) -> Option<Arc<str>> {
        let node = &self.graph.nodes[index];
        let operands = node.inputs.iter().flatten().map(|&id| &self.values[self.current(id)]);
        let mut constants = operands.filter(|value| value.tensor.is_some());
        let name = constants.find_map(|value| value.name.as_ref())?;
        Some(format!("{name}/{}", node.op.name()).into())
    }

    /// Returns the parameters from which a constant is computed.
    fn paths_of_operands(&self, index: usize) -> SmallVec<[Arc<str>; 1]> {
        let mut paths = SmallVec::new();
        for &id in self.graph.nodes[index].inputs.iter().flatten() {
            add_paths(&mut paths, &self.values[self.current(id)].paths);
        }
        paths
    }

    /// Returns the name of a value, if it has one.
    pub fn name(&self, value: ValueId) -> Option<&str> {
        self.values[value].name.as_deref()
    }

    /// True if anything has changed since the edit began.
    pub fn is_changed(&self) -> bool {
        self.changed || !self.renamed.is_empty()
    }

    /// Drops every node that nothing reads.
    pub fn drop_unread(&mut self) {
        let Edit { graph, uses, renamed, .. } = self;
        uses.unmark();
        graph.outputs.iter().for_each(|&id| uses.mark(resolve(renamed, id)));
        let order: Vec<usize> = self.sequence.indices().collect();
        for index in order.into_iter().rev() {
            if self.state[index] == State::Dropped {
                continue;
            }
            let node = &self.graph.nodes[index];
            if node.outputs.iter().any(|&id| self.uses.is_marked(id)) {
                for_each_read(node, &mut |id| self.uses.mark(resolve(&self.renamed, id)));
            } else {
                self.drop_node(index);
            }
        }
    }

    /// Returns the value that replaces `id`, or `id` if nothing does.
    pub fn current(&self, id: ValueId) -> ValueId {
        resolve(&self.renamed, id)
    }

    /// Returns the origin of a node together with the waiting origins of its operands.
    fn whole_origin(&mut self, index: usize) -> OriginId {
        let node = &self.graph.nodes[index];
        let mut inherited = Vec::new();
        for_each_read(node, &mut |id| inherit(&self.renamed, &self.waiting, id, &mut inherited));
        inherited.into_iter().fold(node.origin, |a, b| self.table.absorb(a, b))
    }

    /// Returns the origins of the folded constants that a node reads. Inputs of the model have origins too, but
    /// nodes do not inherit them.
    fn constant_origins(&self, index: usize) -> Vec<OriginId> {
        let operands = self.graph.nodes[index].inputs.iter().flatten();
        let values = operands.map(|&id| &self.values[self.current(id)]);
        values.filter(|value| value.tensor.is_some()).filter_map(|value| value.origin).collect()
    }

    fn absorb(&mut self, index: usize, origin: OriginId) {
        let node = &mut self.graph.nodes[index];
        node.origin = self.table.absorb(node.origin, origin);
        self.changed = true;
    }

    fn wait(&mut self, value: ValueId, origin: OriginId) {
        let joined = match self.waiting.get(&value) {
            Some(&waiting) => self.table.absorb(waiting, origin),
            None => origin,
        };
        self.waiting.insert(value, joined);
    }

    /// True if another value can replace the first result of a node: the result is not an output of the graph, or
    /// the other value can be an output.
    fn can_forward(&self, index: usize, to: ValueId) -> bool {
        let result = self.graph.nodes[index].outputs[0];
        !self.graph.outputs.contains(&result) || self.can_be_output(to)
    }

    fn can_be_output(&self, value: ValueId) -> bool {
        self.producer(value).is_some() && !self.graph.outputs.contains(&value)
    }

    /// If `result` is an output of the graph, `to` becomes the output and gets its name. Returns false if `to`
    /// cannot be one.
    fn take_over_output(&mut self, result: ValueId, to: ValueId) -> bool {
        let Some(position) = self.graph.outputs.iter().position(|&output| output == result) else {
            return true;
        };
        if !self.can_be_output(to) {
            return false;
        }
        self.graph.outputs[position] = to;
        self.values[to].name = self.values[result].name.take();
        self.values[to].paths = std::mem::take(&mut self.values[result].paths);
        true
    }

    /// Removes dropped nodes and renames the inputs of the others. Returns true if anything changed.
    fn finish(mut self) -> bool {
        self.drop_what_no_kernel_computes();
        if !self.is_changed() && !self.state.contains(&State::Dropped) {
            return false;
        }
        let Edit { graph, table, sequence, state, renamed, waiting, .. } = self;
        let mut nodes: Vec<Option<Node>> =
            std::mem::take(&mut graph.nodes).into_iter().map(Some).collect();
        let kept = sequence.indices().filter(|&index| state[index] != State::Dropped);
        graph.nodes = kept.filter_map(|index| nodes[index].take()).collect();
        if renamed.is_empty() {
            return true;
        }
        for node in &mut graph.nodes {
            let mut inherited = Vec::new();
            for_each_read(node, &mut |id| inherit(&renamed, &waiting, id, &mut inherited));
            for origin in inherited {
                node.origin = table.absorb(node.origin, origin);
            }
            rename(node, &renamed);
        }
        for output in &mut graph.outputs {
            *output = resolve(&renamed, *output);
        }
        true
    }
}

/// Follows replacements to the last value.
fn resolve(renamed: &FxHashMap<ValueId, ValueId>, mut id: ValueId) -> ValueId {
    while let Some(&next) = renamed.get(&id) {
        id = next;
    }
    id
}

fn inherit(
    renamed: &FxHashMap<ValueId, ValueId>,
    waiting: &FxHashMap<ValueId, OriginId>,
    id: ValueId,
    inherited: &mut Vec<OriginId>,
) {
    let path = std::iter::successors(Some(id), |id| renamed.get(id).copied());
    inherited.extend(path.filter_map(|id| waiting.get(&id).copied()));
}

/// Calls `f` with every value that a node or its bodies read.
pub fn for_each_read(node: &Node, f: &mut dyn FnMut(ValueId)) {
    node.inputs.iter().flatten().for_each(|&id| f(id));
    for body in node.bodies() {
        body.nodes.iter().for_each(|node| for_each_read(node, f));
        body.outputs.iter().for_each(|&id| f(id));
    }
}

/// Renames the values that a node and its bodies read.
#[expect(clippy::implicit_hasher, reason = "all maps of values have this hasher")]
pub fn rename(node: &mut Node, renamed: &FxHashMap<ValueId, ValueId>) {
    for id in node.inputs.iter_mut().flatten() {
        *id = resolve(renamed, *id);
    }
    for body in node.bodies_mut() {
        body.nodes.iter_mut().for_each(|node| rename(node, renamed));
        for id in &mut body.outputs {
            *id = resolve(renamed, *id);
        }
    }
}

/// Appends the paths that are missing.
fn add_paths(paths: &mut SmallVec<[Arc<str>; 1]>, others: &[Arc<str>]) {
    for path in others {
        if !paths.contains(path) {
            paths.push(path.clone());
        }
    }
}
