//! Taking nodes out of the bodies of loops and branches.

use super::{Edit, Op};
use crate::model::Node;
use crate::value::{Type, Value, ValueId};

impl Edit<'_> {
    /// Adds a value that can become an input of a body.
    pub fn body_input(&mut self, ty: Type) -> ValueId {
        self.values.add(Value { ty: Some(ty), ..Value::default() })
    }

    /// Inserts `op` before the node at `index`, for a `node` of one of its bodies. It answers for the lines of
    /// that node: where a node is has nothing to do with who asked for it.
    pub fn lift(
        &mut self,
        index: usize,
        node: &Node,
        op: Op<'_>,
        types: impl IntoIterator<Item = Type>,
    ) -> Vec<ValueId> {
        let outputs: Vec<ValueId> = types.into_iter().map(|ty| self.body_input(ty)).collect();
        let lifted = op.into_node(&outputs, node.origin, node.is_fused);
        self.insert_before(index, lifted);
        outputs
    }

    /// Makes the node at `index` answer for a `node` of one of its bodies that goes.
    pub fn take_lines(&mut self, index: usize, node: &Node) {
        self.absorb(index, node.origin);
    }
}
