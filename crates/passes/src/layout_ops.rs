//! Rewrites of layout ops: `Transpose`, `Reshape`, `Squeeze` and `Unsqueeze`.
//!
//! Each one reads chains of them as an [`AxisMap`](algebra::axis_map::AxisMap) and writes the fewest nodes.

pub(crate) mod columns;
pub(crate) mod interleave;
pub(crate) mod merge;
pub(crate) mod products;
pub(crate) mod rows;
pub(crate) mod sink;
pub(crate) mod stacks;

use std::collections::BTreeMap;

use onnx::operator::properties::{BROADCASTING, LAYOUT_OPS};
use onnx::{Edit, Node, ValueId};

/// Counts the operands of an elementwise operator that determine the shape of the result. Limits and axes come after them;
/// they are scalars, which layout ops do not change.
pub(crate) fn arrays(node: &Node) -> usize {
    if node.op.is(BROADCASTING) { node.inputs.len() } else { 1 }
}

pub(crate) fn is_layout_op(edit: &Edit<'_>, index: usize) -> bool {
    edit.node(index).op.is(LAYOUT_OPS)
}

/// Returns the nodes that read a value, each with the number of its operands that are the value.
pub(crate) fn readers(edit: &Edit<'_>, value: ValueId) -> BTreeMap<usize, usize> {
    let times = |reader| edit.operands(reader).filter(|&id| id == value).count();
    edit.readers(value).map(|reader| (reader, times(reader))).collect()
}
