//! Rewrites of layout ops: `Transpose`, `Reshape`, `Squeeze` and `Unsqueeze`.
//!
//! Each one reads chains of them as an [`AxisMap`](crate::algebra::axis_map::AxisMap) and writes the fewest nodes.

pub(crate) mod blocks;
pub(crate) mod columns;
pub(crate) mod merge;
pub(crate) mod products;
pub(crate) mod rows;
pub(crate) mod sink;
pub(crate) mod stacks;

use onnx::Edit;
use onnx::operator::properties::LAYOUT_OPS;

pub(crate) fn is_layout_op(edit: &Edit<'_>, index: usize) -> bool {
    edit.node(index).op.is(LAYOUT_OPS)
}
