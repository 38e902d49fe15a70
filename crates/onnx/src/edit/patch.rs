//! A change that is made whole or not at all.

use std::ops::Deref;

use super::{Edit, Op};
use crate::tensor::Tensor;
use crate::value::{Type, ValueId};

/// What stands in the place of a node.
#[derive(Clone, Debug)]
pub enum Replacement {
    /// Another operator with the same results.
    Op(Op<'static>),
    /// A value of the same type.
    Value(ValueId),
}

impl From<Op<'static>> for Replacement {
    fn from(op: Op<'static>) -> Replacement {
        Replacement::Op(op)
    }
}

impl From<ValueId> for Replacement {
    fn from(value: ValueId) -> Replacement {
        Replacement::Value(value)
    }
}

/// What is to stand in the place of one node, and of others that it fuses. Reads the edit as it is.
pub struct Patch<'p, 'm> {
    edit: &'p mut Edit<'m>,
    root: usize,
    fused: Vec<usize>,
}

impl<'m> Edit<'m> {
    /// Replaces a node by what `make` returns. If it returns an error, the graph stays as it is.
    pub fn patch<E>(
        &mut self,
        root: usize,
        make: impl FnOnce(&mut Patch<'_, 'm>) -> Result<Replacement, E>,
    ) -> Result<bool, E> {
        let (nodes, values, was_changed) = (self.len(), self.values.len(), self.changed);
        let touched = self.touched.len();
        let mut patch = Patch { edit: self, root, fused: Vec::new() };
        let made = make(&mut patch);
        let fused = std::mem::take(&mut patch.fused);
        let undo = |edit: &mut Edit<'m>| {
            edit.take_nodes_from(nodes);
            edit.values.truncate(values);
            edit.touched.truncate(touched);
            edit.changed = was_changed;
        };
        match made {
            Ok(Replacement::Op(op)) => {
                self.rewrite(root, &fused, op);
                Ok(true)
            }
            Ok(Replacement::Value(value)) => {
                let is_replaced = self.replace(root, &fused, value);
                if !is_replaced {
                    undo(self);
                }
                Ok(is_replaced)
            }
            Err(error) => {
                undo(self);
                Err(error)
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
    /// The node that is replaced.
    pub fn root(&self) -> usize {
        self.root
    }

    /// Makes the replacement answer for more nodes.
    pub fn take(&mut self, nodes: &[usize]) {
        self.fused.extend(nodes.iter().filter(|&&node| node != self.root));
        self.fused.sort_unstable();
        self.fused.dedup();
    }

    /// Adds a node in front of the replacement. Returns its result.
    pub fn insert(&mut self, op: Op<'_>, ty: Type) -> ValueId {
        self.edit.insert(self.root, &self.fused, op, ty)
    }

    /// Adds a constant that was computed from others. Returns it.
    pub fn constant(&mut self, tensor: Tensor, from: &[ValueId]) -> ValueId {
        self.edit.constant(self.root, &self.fused, tensor, from)
    }
}
