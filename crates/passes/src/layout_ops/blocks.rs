//! `fuse-blocks`: fuses layout ops that turn channels into blocks of pixels, or blocks of pixels into channels.

use algebra::axis_map::{AxisMap, transposes};
use algebra::rewrite::require;
use onnx::{Dim, Op, OpType, Outcome, Patch, ValueId, declined};

use super::is_layout_op;
use super::merge::links;

/// A mode of `DepthToSpace`: the order of the factors of the channel axis, which are the rows and columns of a block
/// and the remaining channels.
struct Mode {
    name: &'static str,
    /// The positions of the factors.
    row: usize,
    column: usize,
    left: usize,
}

const MODES: &[Mode] = &[
    Mode { name: "DCR", row: 0, column: 1, left: 2 },
    Mode { name: "CRD", row: 1, column: 2, left: 0 },
];

pub(crate) fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    require(is_layout_op(edit, index))?;
    let is_own = |link: &usize| *link == index || edit.reads(edit.result(*link)) == 1;
    let chain = links(edit, edit.result(index));
    let chain: Vec<usize> = chain.into_iter().take_while(is_own).collect();
    let (op, length) = (2..=chain.len()).rev().find_map(|length| {
        let links = &chain[..length];
        let x = edit.input(*links.last()?, 0)?;
        let map = AxisMap::of_chain(edit, x, links)?;
        require(transposes(&map.steps()?) > 0)?;
        let op = depth_to_space(&map, x).or_else(|| space_to_depth(map, x))?;
        Some((op, length))
    })?;
    let dtype = edit.result_ty(index)?.dtype;
    if !edit.has_kernel(op.op.onnx()?, dtype) {
        return declined("ONNX Runtime has no such operator for this type and opset");
    }
    edit.done(&chain[1..length], op)
}

fn depth_to_space(map: &AxisMap, x: ValueId) -> Option<Op> {
    let (size, mode) = MODES.iter().find_map(|mode| Some((mode.block_size(map)?, mode)))?;
    Some(Op::new(OpType::DepthToSpace, &[x]).attr("blocksize", size).attr("mode", mode.name))
}

/// `SpaceToDepth` is the inverse of the first mode. The other mode has no inverse operator.
fn space_to_depth(map: AxisMap, x: ValueId) -> Option<Op> {
    let size = MODES.first()?.block_size(&map.inverse())?;
    Some(Op::new(OpType::SpaceToDepth, &[x]).attr("blocksize", size))
}

impl Mode {
    /// Returns the size of the blocks, if the map turns channels into blocks.
    fn block_size(&self, map: &AxisMap) -> Option<i64> {
        let (deep, wide) = (map.shape_before()?, map.shape_after()?);
        let ([images, _, rows, columns], [_, left, all_rows, _]) = (&deep[..], &wide[..]) else {
            return None;
        };
        let size = all_rows.known()? / rows.known().filter(|&rows| rows > 0)?;
        let mut channels = vec![Dim::from(size); 3];
        channels[self.left].clone_from(left);
        let axes = [vec![images.clone()], channels, vec![rows.clone()], vec![columns.clone()]];
        let [left, row, column] = [self.left, self.row, self.column].map(|part| (1, part));
        let to = [vec![(0, 0)], vec![left], vec![(2, 0), row], vec![(3, 0), column]];
        let blocks = AxisMap::rearrange(&axes, &to)?;
        (size > 1 && blocks == *map).then_some(size)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::{check_lean, each};

    #[test]
    fn channels_become_blocks_of_pixels() {
        check_lean(
            each(super::run),
            "graph g(x:f32[B,8,3,5], z:f32[1,8,3,5]) -> (y, u)
%0:f32[B,2,2,2,3,5] = Reshape(x, [0, 2, 2, 2, 3, 5]:i64)
%1:f32[B,2,3,2,5,2] = Transpose(%0) {perm=[0, 3, 4, 1, 5, 2]}
y:f32[B,2,6,10] = Reshape(%1, [0, 2, 6, 10]:i64)
%2:f32[2,2,2,3,5] = Reshape(z, [2, 2, 2, 3, 5]:i64)
%3:f32[2,3,2,5,2] = Transpose(%2) {perm=[2, 3, 0, 4, 1]}
u:f32[1,2,6,10] = Reshape(%3, [1, 2, 6, 10]:i64)",
            expect![[r#"
                graph g(x:f32[B,8,3,5], z:f32[1,8,3,5]) -> (y, u)
                y:f32[B,2,6,10] = DepthToSpace(x) {blocksize=2, mode="DCR"}  # 4 2 3
                u:f32[1,2,6,10] = DepthToSpace(z) {blocksize=2, mode="DCR"}  # 7 5 6
            "#]],
        );
    }

    #[test]
    fn blocks_of_pixels_become_channels() {
        check_lean(
            each(super::run),
            "graph g(x:f32[B,2,6,10]) -> (y)
%0:f32[B,2,3,2,5,2] = Reshape(x, [0, 2, 3, 2, 5, 2]:i64)
%1:f32[B,2,2,2,3,5] = Transpose(%0) {perm=[0, 3, 5, 1, 2, 4]}
y:f32[B,8,3,5] = Reshape(%1, [0, 8, 3, 5]:i64)",
            expect![[r#"
                graph g(x:f32[B,2,6,10]) -> (y)
                y:f32[B,8,3,5] = SpaceToDepth(x) {blocksize=2}  # 4 2 3
            "#]],
        );
    }

    #[test]
    fn blocks_with_unequal_edges_and_other_orders_are_left() {
        check_lean(
            each(super::run),
            "graph g(x:f32[B,8,3,5], z:f32[B,8,3,3]) -> (y, u)
%0:f32[B,4,2,1,3,5] = Reshape(x, [0, 4, 2, 1, 3, 5]:i64)
%1:f32[B,1,3,4,5,2] = Transpose(%0) {perm=[0, 3, 4, 1, 5, 2]}
y:f32[B,1,12,10] = Reshape(%1, [0, 1, 12, 10]:i64)
%2:f32[B,2,2,2,3,3] = Reshape(z, [0, 2, 2, 2, 3, 3]:i64)
%3:f32[B,2,3,2,3,2] = Transpose(%2) {perm=[0, 3, 4, 2, 5, 1]}
u:f32[B,2,6,6] = Reshape(%3, [0, 2, 6, 6]:i64)",
            expect![[r#"
                graph g(x:f32[B,8,3,5], z:f32[B,8,3,3]) -> (y, u)
                %0 = Reshape(x, [0, 4, 2, 1, 3, 5]:i64)  # 2
                %1 = Transpose(%0) {perm=[0, 3, 4, 1, 5, 2]}  # 3
                y:f32[B,1,12,10] = Reshape(%1, [0, 1, 12, 10]:i64)  # 4
                %2 = Reshape(z, [0, 2, 2, 2, 3, 3]:i64)  # 5
                %3 = Transpose(%2) {perm=[0, 3, 4, 2, 5, 1]}  # 6
                u:f32[B,2,6,6] = Reshape(%3, [0, 2, 6, 6]:i64)  # 7
            "#]],
        );
    }
}
