//! Applies a rewrite completely or not at all.

use std::ops::Deref;

use provenance::OriginId;
use rustc_hash::FxHashMap;

use super::types::dtypes;
use super::{Edit, Op, Touched, resolve};
use crate::dtype::DType;
use crate::model::{Graph, Label, Node, Note};
use crate::operator::OpType;
use crate::tensor::Tensor;
use crate::value::{Type, Value, ValueId};

/// The replacement of a node.
#[derive(Clone, Debug)]
pub enum Replacement {
    /// Another operator with the same results.
    Op(Op),
    /// A value of the same type as the only result with readers.
    Value(ValueId),
    /// A value of the same type for each result with readers, by the position of the result.
    Results(Vec<(usize, ValueId)>),
    /// The constant that the node computes.
    Constant(Tensor),
    /// An earlier node that computes the same values.
    SameAs(usize),
}

impl From<Op> for Replacement {
    fn from(op: Op) -> Replacement {
        Replacement::Op(op)
    }
}

impl From<ValueId> for Replacement {
    fn from(value: ValueId) -> Replacement {
        Replacement::Value(value)
    }
}

impl From<Vec<(usize, ValueId)>> for Replacement {
    fn from(results: Vec<(usize, ValueId)>) -> Self {
        Replacement::Results(results)
    }
}

impl From<Tensor> for Replacement {
    fn from(tensor: Tensor) -> Replacement {
        Replacement::Constant(tensor)
    }
}

/// The reason why a rewrite leaves a node unchanged although it almost applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declined(pub String);

impl From<&str> for Declined {
    fn from(why: &str) -> Declined {
        Declined(why.into())
    }
}

/// Proves that a patch replaces something. Only [`Patch`] creates it.
#[derive(Clone, Copy, Debug)]
pub struct Done(());

/// The outcome of a rewrite at a node: `None` if the rewrite does not match; otherwise that it is done, or why it
/// declines.
pub type Outcome = Option<Result<Done, Declined>>;

/// Returns the outcome of a rewrite that declines.
pub fn declined(why: impl Into<Declined>) -> Outcome {
    Some(Err(why.into()))
}

/// The replacement of one or more nodes. It reads the edit, adds nodes and values to it, and collects replacements.
/// If the rewrite is done, the edit makes all of them. If not, it removes the added nodes and values.
pub struct Patch<'p, 'm> {
    pub(super) edit: &'p mut Edit<'m>,
    root: usize,
    /// New nodes are inserted before this node.
    pub(super) place: usize,
    pub(super) fused: Vec<usize>,
    changes: Vec<Change>,
}

/// A node, the nodes whose origins its replacement inherits, and the replacement.
struct Change {
    index: usize,
    fused: Vec<usize>,
    by: By,
}

enum By {
    Replacement(Replacement),
    /// The node itself: it inherits the origins of the others.
    Lines,
    /// The node with bodies that read other values.
    Node(Node),
    /// An operator with results of other types, and the operators that compute the old results from them.
    Retyped {
        op: Op,
        results: Vec<ValueId>,
        restored: Vec<Op>,
    },
}

/// The state of an edit before a patch.
struct Before {
    nodes: usize,
    values: usize,
    was_changed: bool,
    touched: (usize, usize),
    pairs: usize,
    /// The origin of the root, and whether the root is a fusion.
    root: (OriginId, bool),
}

impl<'m> Edit<'m> {
    /// Rewrites a node, and records that the rewrite was done or why it declined. Returns true if it was done. If
    /// not, the graph is unchanged.
    pub fn patch(
        &mut self,
        root: usize,
        rewrite: impl FnOnce(&mut Patch<'_, 'm>) -> Outcome,
    ) -> bool {
        let before = self.before_patch(root);
        let mut patch =
            Patch { edit: self, root, place: root, fused: Vec::new(), changes: Vec::new() };
        let outcome = rewrite(&mut patch);
        let changes = std::mem::take(&mut patch.changes);
        self.finish_patch(root, &before, outcome, changes)
    }

    /// Records the outcomes of rewrites under this name from now on. Without a name, they are not recorded.
    pub fn note_as(&mut self, label: Option<Label>) {
        self.label = label;
    }

    fn before_patch(&self, root: usize) -> Before {
        let Node { origin, is_fused, .. } = self.graph.nodes[root];
        Before {
            nodes: self.len(),
            values: self.values.len(),
            was_changed: self.changed,
            touched: self.touched.counts(),
            pairs: self.pairs.as_ref().map_or(0, |pairs| pairs.changes()),
            root: (origin, is_fused),
        }
    }

    fn finish_patch(
        &mut self,
        root: usize,
        before: &Before,
        outcome: Outcome,
        changes: Vec<Change>,
    ) -> bool {
        let is_done = matches!(outcome, Some(Ok(_)));
        if is_done {
            for change in changes {
                self.apply(change);
            }
        } else {
            self.undo(root, before);
        }
        if let (Some(label), Some(outcome)) = (self.label, outcome) {
            let site = self.table.get_origin(before.root.0).primary;
            let declined = outcome.err().map(|Declined(why)| why);
            self.notes.push(Note { label, site, declined });
        }
        is_done
    }

    /// Removes the nodes and values that a patch added.
    fn undo(&mut self, root: usize, before: &Before) {
        (self.graph.nodes[root].origin, self.graph.nodes[root].is_fused) = before.root;
        if self.len() > before.nodes {
            self.take_nodes_from(before.nodes);
        }
        if self.values.len() > before.values {
            self.values.truncate(before.values);
            self.forget_values();
        }
        self.touched.truncate(before.touched);
        if let Some(known) = &mut self.pairs {
            known.forget(before.pairs);
        }
        self.changed = before.was_changed;
    }

    /// Forgets everything about removed values.
    fn forget_values(&mut self) {
        let count = self.values.len();
        let is_there = |id: &ValueId| id.index() < count;
        self.without_kernel.retain(|id, _| is_there(id));
        self.chosen.retain(is_there);
        self.with_new_bodies.retain(is_there);
        self.facts.get_mut().truncate(count);
    }

    fn rename_reads(&mut self, node: &mut Node, renamed: &FxHashMap<ValueId, ValueId>) {
        for id in node.inputs.iter_mut().flatten() {
            let before = resolve(&self.renamed, *id);
            let Some(&after) = renamed.get(&before) else { continue };
            *id = after;
            if let Value { origin: Some(origin), tensor: Some(_), .. } = self.values[before] {
                node.origin = self.table.absorb(node.origin, origin);
            }
        }
        for body in node.bodies_mut() {
            body.nodes.iter_mut().for_each(|node| self.rename_reads(node, renamed));
            for id in &mut body.outputs {
                *id = renamed.get(&resolve(&self.renamed, *id)).copied().unwrap_or(*id);
            }
        }
    }

    /// Declines a replacement that the edit cannot make.
    fn expect_possible(
        &self,
        index: usize,
        fused: &[usize],
        by: &Replacement,
    ) -> Result<(), Declined> {
        let outputs = &self.graph.nodes[index].outputs;
        let are_read_here = || !outputs.iter().any(|output| self.graph.outputs.contains(output));
        let is_possible = match by {
            Replacement::Op(op) => {
                let results: Vec<_> = outputs.iter().map(|&id| Some(self.ty(id)?.dtype)).collect();
                self.expect_kernel(index, fused, op, &results)?;
                self.expect_results(index, op)?;
                true
            }
            &Replacement::Value(by) => {
                self.expect_computable_values([by])?;
                let is_same_type = self.ty(by).is_some() && self.ty(by) == self.ty(outputs[0]);
                is_same_type && self.can_forward(index, by)
            }
            Replacement::Results(results) => {
                self.expect_computable_values(results.iter().map(|&(_, by)| by))?;
                true
            }
            Replacement::Constant(_) | Replacement::SameAs(_) => are_read_here(),
        };
        if is_possible { Ok(()) } else { Err("another value cannot replace the result".into()) }
    }

    fn apply(&mut self, Change { index, fused, by }: Change) {
        match by {
            By::Replacement(Replacement::Op(op)) => self.write(index, &fused, op),
            By::Replacement(Replacement::Value(by)) => {
                // Another change may have turned the value into an output.
                if !self.forward(index, &fused, by) {
                    self.write(index, &fused, Op::new(OpType::Identity, &[by]));
                }
            }
            By::Replacement(Replacement::Results(results)) => {
                for (position, by) in results {
                    self.replace_output(index, position, by);
                }
            }
            By::Replacement(Replacement::Constant(tensor)) => self.fold(index, tensor),
            By::Replacement(Replacement::SameAs(kept)) => self.share(kept, index),
            By::Lines => {
                self.graph.nodes[index].origin = self.joined_origin(index, &fused);
            }
            By::Node(node) => {
                self.changed = true;
                self.change_reads(index, |before| *before = node);
            }
            By::Retyped { op, results, restored } => {
                self.write_results(index, &fused, op, results, restored);
            }
        }
    }
}

impl<'m> Deref for Patch<'_, 'm> {
    type Target = Edit<'m>;

    fn deref(&self) -> &Edit<'m> {
        self.edit
    }
}

impl Patch<'_, '_> {
    /// Returns the node to replace.
    pub fn root(&self) -> usize {
        self.root
    }

    /// Returns the nodes whose origins the replacement inherits, besides the root.
    pub fn fused(&self) -> &[usize] {
        &self.fused
    }

    /// Makes the replacement inherit the origins of more nodes.
    pub fn take(&mut self, nodes: &[usize]) {
        self.fused.extend(nodes.iter().filter(|&&node| node != self.root));
        self.fused.sort_unstable();
        self.fused.dedup();
    }

    /// Replaces the root with an operator or a value, which also inherits the origins of `nodes`.
    pub fn done(&mut self, nodes: &[usize], by: impl Into<Replacement>) -> Outcome {
        let mut fused: Vec<usize> = self.fused.iter().chain(nodes).copied().collect();
        fused.retain(|&node| node != self.root);
        fused.sort_unstable();
        fused.dedup();
        Some(self.replace(self.root, fused, by))
    }

    /// Replaces the root with a result, or declines.
    pub fn settle(&mut self, made: Result<impl Into<Replacement>, Declined>) -> Outcome {
        match made {
            Ok(by) => self.done(&[], by),
            Err(why) => declined(why),
        }
    }

    /// Replaces any node with an operator or a value, which inherits the origins of more nodes.
    pub fn replace(
        &mut self,
        index: usize,
        fused: impl Into<Vec<usize>>,
        by: impl Into<Replacement>,
    ) -> Result<Done, Declined> {
        let (fused, by) = (fused.into(), by.into());
        self.edit.expect_possible(index, &fused, &by)?;
        self.changes.push(Change { index, fused, by: By::Replacement(by) });
        Ok(Done(()))
    }

    /// Makes a node and the nodes of its bodies read other values. A node inherits the origins of the constants
    /// that it no longer reads.
    pub fn read_instead(&mut self, index: usize, renamed: &FxHashMap<ValueId, ValueId>) {
        let mut node = self.node(index).clone();
        self.edit.rename_reads(&mut node, renamed);
        self.changes.push(Change { index, fused: Vec::new(), by: By::Node(node) });
    }

    /// Turns a node into another operator, whose results have other types, in the same order. Readers of an old
    /// result read the result of `restore` instead, which is inserted right after the node. Returns the new
    /// results.
    pub fn retype(
        &mut self,
        index: usize,
        nodes: &[usize],
        op: Op,
        restore: &dyn Fn(ValueId) -> Op,
    ) -> Result<Vec<ValueId>, Declined> {
        let results = self.results_of(&op, &vec![None; self.node(index).outputs.len()])?;
        self.expect_kernel(index, nodes, &op, &dtypes(&results))?;
        let results: Vec<ValueId> =
            results.into_iter().map(|result| self.edit.values.add(result)).collect();
        let restored = results.iter().map(|&result| restore(result)).collect();
        let by = By::Retyped { op, results: results.clone(), restored };
        self.changes.push(Change { index, fused: nodes.to_vec(), by });
        Ok(results)
    }

    /// Returns that the rewrite is done, if it replaces anything.
    pub fn finish(&self) -> Outcome {
        (!self.changes.is_empty()).then_some(Ok(Done(())))
    }

    /// Inserts nodes before another node from now on.
    pub fn move_to(&mut self, place: usize) {
        self.place = place;
    }

    /// Inserts a node before the replacement, with the same origins, and returns its result. Its type follows from
    /// the operands. If it does not follow, or if the runtime has no kernel, no node that reads the result can
    /// stay.
    pub fn insert(&mut self, op: Op) -> ValueId {
        self.edit.insert_all(self.place, &self.fused, op, &[None])[0]
    }

    /// Inserts a node before the replacement, with the origins of other nodes. Returns its result.
    pub fn insert_for(&mut self, nodes: &[usize], op: Op) -> ValueId {
        self.edit.insert_all(self.place, nodes, op, &[None])[0]
    }

    /// Inserts a node with several results before the replacement, with the origins of other nodes. Returns the
    /// results.
    pub fn insert_all_for(&mut self, nodes: &[usize], op: Op, results: usize) -> Vec<ValueId> {
        self.edit.insert_all(self.place, nodes, op, &vec![None; results])
    }

    /// Inserts a node whose results replace others. If a type does not follow from the operands, the result has the
    /// type of the replaced value. The stack of a loop that may end early is an example.
    pub fn insert_instead(&mut self, op: Op, replaced: &[Option<ValueId>]) -> Vec<ValueId> {
        self.edit.insert_all(self.place, &self.fused, op, replaced)
    }

    /// Adds a constant that was computed from others.
    pub fn constant(&mut self, tensor: Tensor, from: &[ValueId]) -> ValueId {
        self.edit.constant(self.place, &self.fused, tensor, from)
    }

    /// Adds a list of integers, such as a shape or axes.
    pub fn integers(&mut self, ints: &[i64]) -> Option<ValueId> {
        let tensor = Tensor::of_ints(DType::I64, vec![ints.len() as i64], ints)?;
        Some(self.constant(tensor, &[]))
    }

    /// Inserts a node that adds unit axes to a value, which are axes of the result. Returns its result.
    pub fn unsqueeze(&mut self, value: ValueId, axes: &[i64]) -> Option<ValueId> {
        let axes = self.integers(axes)?;
        Some(self.insert(Op::new(OpType::Unsqueeze, &[value, axes])))
    }

    /// Adds a scalar integer, such as an index.
    pub fn integer(&mut self, int: i64) -> Option<ValueId> {
        Some(self.constant(Tensor::of_ints(DType::I64, Vec::new(), &[int])?, &[]))
    }

    /// Adds a constant that was computed from others, with the origins of other nodes.
    pub fn constant_for(&mut self, nodes: &[usize], tensor: Tensor, from: &[ValueId]) -> ValueId {
        self.edit.constant(self.place, nodes, tensor, from)
    }

    /// Inserts copies of nodes of the root's body, for the iteration `round` of the root, which is a loop. `values`
    /// maps the values of the body to those that the copies read; the results of the copies are added to it.
    pub fn insert_round(
        &mut self,
        round: usize,
        nodes: &[Node],
        values: &mut FxHashMap<ValueId, ValueId>,
    ) {
        self.edit.insert_round(self.root, round, nodes, values);
    }

    /// Adds a value that can become an input of a body.
    pub fn body_input(&mut self, ty: Type) -> ValueId {
        self.edit.values.add(Value { ty: Some(ty), ..Value::default() })
    }

    /// Inserts a node for a `node` of one of the root's bodies. It gets the origin of that node: moving a node does
    /// not change which line created it.
    pub fn lift(&mut self, node: &Node, op: Op) -> ValueId {
        self.lift_all(node, op, 1)[0]
    }

    /// Like [`Patch::lift`], for an operator with several results.
    pub fn lift_all(&mut self, node: &Node, op: Op, results: usize) -> Vec<ValueId> {
        self.edit.lift_all(self.place, node, op, results)
    }

    /// Makes the root inherit the origin of a `node` of one of its bodies that will be removed.
    pub fn take_lines(&mut self, node: &Node) {
        self.edit.absorb(self.root, node.origin);
    }

    /// Makes the root inherit the origins of all nodes in its bodies.
    pub fn fuse_bodies(&mut self) {
        self.edit.fuse_bodies(self.root);
    }

    /// Makes the nodes that compute these values inherit the origin of the root.
    pub fn pass_origin_to(&mut self, values: &[ValueId]) {
        let makers = values.iter().filter_map(|&value| self.edit.producer(value));
        let change = |index| Change { index, fused: vec![self.root], by: By::Lines };
        self.changes.extend(makers.map(change));
    }

    /// Records that each second value has the contents of the first, perhaps in another shape, so that it holds the
    /// same variables of the program.
    pub fn note_same(&mut self, values: impl IntoIterator<Item = (ValueId, ValueId)>) {
        self.edit.note_same(values);
    }

    /// Inserts a copy of the root before it, and returns the results of the copy. The patch must replace the root,
    /// because both share the values in their bodies.
    pub fn insert_copy(&mut self) -> Vec<ValueId> {
        self.edit.insert_copy(self.root)
    }

    /// Inserts copies of the nodes of a branch of the root before it, and returns the results of the branch. The patch
    /// must replace the root, because both share the values of the branch.
    pub fn insert_branch(&mut self, branch: &str) -> Option<Vec<ValueId>> {
        self.edit.insert_branch(self.root, branch)
    }

    /// Collects the nodes that `f` inserts into a separate graph, the branch of an `If`. That graph computes the
    /// results that `f` returns.
    pub fn branch(&mut self, name: &str, f: impl FnOnce(&mut Self) -> Vec<ValueId>) -> Graph {
        let first = self.len();
        let outputs = f(self);
        let nodes = self.edit.take_nodes_from(first);
        Graph { name: name.into(), inputs: Vec::new(), outputs, nodes }
    }

    /// Inserts an `If`. The running pass does not enter its branches.
    pub fn insert_if(
        &mut self,
        condition: ValueId,
        on_true: Graph,
        on_false: Graph,
    ) -> Vec<ValueId> {
        let results = on_true.outputs.len();
        let op = Op::new(OpType::If, &[condition]).attr("else_branch", on_false);
        let op = op.attr("then_branch", on_true);
        let made = self.insert_instead(op, &vec![None; results]);
        self.edit.chosen.extend(made.first());
        made
    }
}

impl Touched {
    /// Returns the numbers of values and nodes.
    fn counts(&self) -> (usize, usize) {
        (self.values.len(), self.nodes.len())
    }

    fn truncate(&mut self, (values, nodes): (usize, usize)) {
        self.values.truncate(values);
        self.nodes.truncate(nodes);
    }
}
