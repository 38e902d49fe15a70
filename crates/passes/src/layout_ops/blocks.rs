//! `fuse-blocks`: channels that become a block of pixels, and the other way round.

use onnx::kernels::{Support, support};
use onnx::{Dim, Edit, Op, OpType};

use crate::access::Access;

pub(crate) fn run(edit: &mut Edit<'_>) {
    for index in 0..edit.len() {
        fuse(edit, index);
    }
}

/// One axis each for the image, the channels, the rows and the columns, with two more for the block.
struct Block {
    op: OpType,
    mode: Option<&'static str>,
    order: [usize; 6],
    /// Which axes of the six are the block, and which the channels, rows and columns beside it.
    edges: [usize; 2],
    beside: [usize; 3],
}

const BLOCKS: &[Block] = &[
    Block {
        op: OpType::DepthToSpace,
        mode: Some("DCR"),
        order: [0, 3, 4, 1, 5, 2],
        edges: [1, 2],
        beside: [3, 4, 5],
    },
    Block {
        op: OpType::DepthToSpace,
        mode: Some("CRD"),
        order: [0, 1, 4, 2, 5, 3],
        edges: [2, 3],
        beside: [1, 4, 5],
    },
    Block {
        op: OpType::SpaceToDepth,
        mode: None,
        order: [0, 3, 5, 1, 2, 4],
        edges: [3, 5],
        beside: [1, 2, 4],
    },
];

fn fuse(edit: &mut Edit<'_>, index: usize) -> Option<()> {
    let is = |node: usize, op: OpType| edit.node(node).op == op;
    let before = |node: usize| {
        let value = edit.input(node, 0)?;
        edit.producer(value).filter(|_| edit.reads(value) == 1)
    };
    let transpose =
        before(index).filter(|&node| is(index, OpType::Reshape) && is(node, OpType::Transpose))?;
    let apart = before(transpose).filter(|&node| is(node, OpType::Reshape))?;
    let x = edit.input(apart, 0)?;
    let (from, to) = (edit.ty(x)?, edit.ty(edit.node(index).outputs[0])?);
    let mut between = edit.ty(edit.node(apart).outputs[0])?.shape.to_vec();
    let mut order = edit.perm(transpose)?;
    // One image has no axis of its own.
    if between.len() == 5 && from.shape.first()?.is(1) {
        between.insert(0, Dim::Known(1));
        order = std::iter::once(0).chain(order.iter().map(|axis| axis + 1)).collect();
    }
    let block = BLOCKS.iter().find(|block| block.order[..] == order[..])?;
    let size = block.size(&from.shape, &between, &to.shape)?;
    if support(block.op, edit.opset(), from.dtype) != Support::Yes {
        return None;
    }
    let mut op = Op::new(block.op, &[x]).attr("blocksize", size);
    if let Some(mode) = block.mode {
        op = op.attr("mode", mode);
    }
    edit.rewrite(index, &[apart, transpose], op);
    Some(())
}

impl Block {
    /// The edge of the block, where the shapes are those of one.
    fn size(&self, from: &[Dim], between: &[Dim], to: &[Dim]) -> Option<i64> {
        let (channels_first, pixels_first) =
            if self.mode.is_some() { (from, to) } else { (to, from) };
        let size = between[self.edges[0]].known()?;
        let [channels, rows, columns] = self.beside.map(|axis| &between[axis]);
        let times = |dim: &Dim, factor: i64| dim.known().map(|dim| Dim::Known(dim * factor));
        let deep =
            [between[0].clone(), times(channels, size * size)?, rows.clone(), columns.clone()];
        let wide =
            [between[0].clone(), channels.clone(), times(rows, size)?, times(columns, size)?];
        let is_block = between[self.edges[1]].is(size);
        (is_block && channels_first == deep && pixels_first == wide).then_some(size)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check_all;

    #[test]
    fn channels_become_blocks_of_pixels() {
        check_all(
            &[super::run, crate::drop_dead::run],
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
        check_all(
            &[super::run, crate::drop_dead::run],
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
        check_all(
            &[super::run, crate::drop_dead::run],
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
