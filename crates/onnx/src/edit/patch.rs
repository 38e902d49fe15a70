//! Applies a change completely or not at all.

use std::ops::Deref;

use rustc_hash::FxHashMap;

use super::{Edit, Op};
use crate::model::{Node, Note};
use crate::tensor::Tensor;
use crate::value::ValueId;

/// The replacement of a node.
#[derive(Clone, Debug)]
pub enum Replacement<'r> {
    /// Another operator with the same results.
    Op(Op<'r>),
    /// For each result that is read, by its position, a value of the same type.
    Results(Vec<(usize, ValueId)>),
}

impl<'r> From<Op<'r>> for Replacement<'r> {
    fn from(op: Op<'r>) -> Replacement<'r> {
        Replacement::Op(op)
    }
}

impl From<Vec<(usize, ValueId)>> for Replacement<'_> {
    fn from(results: Vec<(usize, ValueId)>) -> Self {
        Replacement::Results(results)
    }
}

/// Why a node is left as it is, although a rewrite almost applies to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declined(pub String);

impl From<&str> for Declined {
    fn from(why: &str) -> Declined {
        Declined(why.into())
    }
}

/// The replacement of a node and of the nodes that are fused with it. It reads the edit without
/// changing it.
pub struct Patch<'p, 'm> {
    edit: &'p mut Edit<'m>,
    root: usize,
    fused: Vec<usize>,
}

impl<'m> Edit<'m> {
    /// Replaces a node by what `make` returns. If it declines, the graph stays as it is.
    pub fn patch<'r, R: Into<Replacement<'r>>>(
        &mut self,
        root: usize,
        make: impl FnOnce(&mut Patch<'_, 'm>) -> Result<R, Declined>,
    ) -> Result<(), Declined> {
        let (nodes, values, was_changed) = (self.len(), self.values.len(), self.changed);
        let touched = self.touched.counts();
        let pairs = self.pairs.as_ref().map_or(0, |pairs| pairs.changes());
        let mut patch = Patch { edit: self, root, fused: Vec::new() };
        let made = make(&mut patch);
        let fused = std::mem::take(&mut patch.fused);
        let done = made.and_then(|made| self.put(root, &fused, made.into()));
        if done.is_err() {
            self.take_nodes_from(nodes);
            self.values.truncate(values);
            self.forget_computable();
            self.facts.get_mut().truncate(values);
            self.touched.truncate(touched);
            if let Some(known) = &mut self.pairs {
                known.forget(pairs);
            }
            self.changed = was_changed;
        }
        done
    }

    fn put(
        &mut self,
        root: usize,
        fused: &[usize],
        replacement: Replacement<'_>,
    ) -> Result<(), Declined> {
        match replacement {
            Replacement::Op(op) => {
                let outputs = self.node(root).outputs.iter();
                let results: Vec<_> = outputs.map(|&id| Some(self.ty(id)?.dtype)).collect();
                self.expect_kernel(root, fused, &op, &results)?;
                self.debug_assert_results(root, &op);
                self.write(root, fused, op);
            }
            Replacement::Results(results) => {
                self.expect_computable_values(results.iter().map(|&(_, by)| by))?;
                for (position, by) in results {
                    self.replace_output(root, position, by);
                }
            }
        }
        Ok(())
    }

    /// Patches a node and notes what `rewrite` did, or why it declined. Returns whether it was replaced.
    pub fn noted_patch<'r, R: Into<Replacement<'r>>>(
        &mut self,
        rewrite: &'static str,
        root: usize,
        make: impl FnOnce(&mut Patch<'_, 'm>) -> Result<R, Declined>,
    ) -> bool {
        let site = self.site(root);
        let declined = self.patch(root, make).err().map(|Declined(why)| why);
        let is_replaced = declined.is_none();
        self.notes.push(Note { pass: rewrite, site, declined });
        is_replaced
    }
}

impl<'m> Deref for Patch<'_, 'm> {
    type Target = Edit<'m>;

    fn deref(&self) -> &Edit<'m> {
        self.edit
    }
}

impl Patch<'_, '_> {
    /// The node that is replaced.
    pub fn root(&self) -> usize {
        self.root
    }

    /// The nodes that the replacement answers for, besides the one that it replaces.
    pub fn fused(&self) -> &[usize] {
        &self.fused
    }

    /// Makes the replacement answer for more nodes.
    pub fn take(&mut self, nodes: &[usize]) {
        self.fused.extend(nodes.iter().filter(|&&node| node != self.root));
        self.fused.sort_unstable();
        self.fused.dedup();
    }

    /// Adds a node in front of the replacement, which answers for the same nodes. Returns its result.
    pub fn insert(&mut self, op: Op<'_>) -> ValueId {
        self.edit.insert(self.root, &self.fused, op)
    }

    /// Adds a node in front of the replacement, which answers for other nodes. Returns its result.
    pub fn insert_for(&mut self, nodes: &[usize], op: Op<'_>) -> ValueId {
        self.edit.insert(self.root, nodes, op)
    }

    /// Adds a node of several results in front of the replacement, which answers for other nodes. Returns them.
    pub fn insert_all_for(&mut self, nodes: &[usize], op: Op<'_>, results: usize) -> Vec<ValueId> {
        self.edit.insert_all(self.root, nodes, op, results)
    }

    /// Adds a constant that was computed from others. Returns it.
    pub fn constant(&mut self, tensor: Tensor, from: &[ValueId]) -> ValueId {
        self.edit.constant(self.root, &self.fused, tensor, from)
    }

    /// Adds a constant that was computed from others and answers for other nodes. Returns it.
    pub fn constant_for(&mut self, nodes: &[usize], tensor: Tensor, from: &[ValueId]) -> ValueId {
        self.edit.constant(self.root, nodes, tensor, from)
    }

    /// Adds the nodes of a round of the loop that is replaced. See [`Edit::insert_round`].
    pub fn insert_round(
        &mut self,
        round: usize,
        nodes: &[Node],
        values: &mut FxHashMap<ValueId, ValueId>,
    ) {
        self.edit.insert_round(self.root, round, nodes, values);
    }
}
