//! `fuse-resize`: rows and columns that are each read several times in turn.
//!
//! `jax.image.resize(…, "nearest")` reads at constant places, one axis after the other. Where each
//! place is read the same number of times in turn that is a `Resize` to a multiple of the size, which
//! moves the same elements.

use onnx::kernels::{Support, support};
use onnx::{DType, Edit, Op, OpType, Tensor, ValueId};

use crate::access::Access;
use crate::rewrite::decline;

const NAME: &str = "fuse-resize";

pub(crate) fn run(edit: &mut Edit<'_>) {
    for index in 0..edit.len() {
        to_resize(edit, index);
    }
}

fn to_resize(edit: &mut Edit<'_>, index: usize) -> Option<()> {
    let result = edit.ty(*edit.node(index).outputs.first()?)?.clone();
    let mut scales = vec![1.0; result.rank()];
    let (mut source, mut next) = (None, Some(index));
    let mut nodes = Vec::new();
    while let Some(node) = next
        && let Some((data, axis, times)) = repetition(edit, node)
        && scales.get(axis) == Some(&1.0)
    {
        scales[axis] = times;
        nodes.push(node);
        source = Some(data);
        next = edit.producer(data).filter(|_| edit.reads(data) == 1);
    }
    let source = source?;
    // Of longer rows a copy is faster, and the runtime copies when it gathers.
    let is_of_single_elements = scales.last().is_some_and(|&times| times > 1.0);
    let has_kernel = support(OpType::Resize, edit.opset(), result.dtype) == Support::Yes;
    if !is_of_single_elements {
        return decline(
            edit,
            NAME,
            index,
            "whole rows are repeated, which the runtime copies faster",
        );
    }
    if !has_kernel || edit.opset() < 13 {
        return decline(edit, NAME, index, "the runtime has no `Resize` of this type and opset");
    }
    let fused = &nodes[1..];
    let scales = Tensor::of_floats(DType::F32, vec![scales.len() as i64], &scales)?;
    let scales = edit.constant(index, fused, scales, &[]);
    let op = Op {
        op: OpType::Resize.into(),
        inputs: vec![Some(source), None, Some(scales)],
        attrs: vec![
            ("mode", "nearest".into()),
            ("coordinate_transformation_mode", "asymmetric".into()),
            ("nearest_mode", "floor".into()),
        ],
    };
    edit.rewrite(index, fused, op);
    edit.note(NAME, index, None);
    Some(())
}

/// What a `Gather` reads, along which axis, and how many times in turn each place.
fn repetition(edit: &Edit<'_>, index: usize) -> Option<(ValueId, usize, f64)> {
    let node = edit.node(index);
    if node.op != OpType::Gather {
        return None;
    }
    let data = edit.input(index, 0)?;
    let shape = &edit.ty(data)?.shape;
    let axis = edit.axis(index)?;
    let places = edit.tensor(edit.input(index, 1)?)?;
    if places.shape.len() != 1 {
        return None;
    }
    let size = shape.get(axis)?.known().filter(|&size| size > 0)?;
    let places = places.ints()?;
    let times = places.len() as i64 / size;
    let is_in_turn = |(at, &place): (usize, &i64)| {
        (if place < 0 { place + size } else { place }) == at as i64 / times
    };
    let fits = times >= 2 && times * size == places.len() as i64;
    (fits && places.iter().enumerate().all(is_in_turn)).then_some((data, axis, times as f64))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::{check, check_lean};

    #[test]
    fn places_that_are_read_in_turn_are_a_resize() {
        check_lean(
            super::run,
            "graph g(x:f32[1,3,2,2]) -> (y)
%0:f32[1,3,4,2] = Gather(x, [0, 0, 1, 1]:i64) {axis=2}
y:f32[1,3,4,6] = Gather(%0, [0, 0, 0, -1, -1, -1]:i32) {axis=3}",
            expect![[r#"
                graph g(x:f32[1,3,2,2]) -> (y)
                y:f32[1,3,4,6] = Resize(x, _, [1.0, 1.0, 2.0, 3.0]) {coordinate_transformation_mode="asymmetric", mode="nearest", nearest_mode="floor"}  # 3 2
            "#]],
        );
    }

    #[test]
    fn longer_rows_and_places_out_of_turn_are_gathered() {
        check(
            super::run,
            "graph g(x:f32[1,2,2,3]) -> (y, z, u)
y:f32[1,4,2,3] = Gather(x, [0, 0, 1, 1]:i64) {axis=1}
z:f32[1,2,2,6] = Gather(x, [0, 0, 1, 2, 1, 2]:i64) {axis=3}
u:f32[1,2,2,5] = Gather(x, [0, 0, 1, 1, 2]:i64) {axis=3}",
            expect![[r#"
                graph g(x:f32[1,2,2,3]) -> (y, z, u)
                y:f32[1,4,2,3] = Gather(x, [0, 0, 1, 1]:i64) {axis=1}  # 2
                z:f32[1,2,2,6] = Gather(x, [0, 0, 1, 2, 1, 2]:i64) {axis=3}  # 3
                u:f32[1,2,2,5] = Gather(x, [0, 0, 1, 1, 2]:i64) {axis=3}  # 4
            "#]],
        );
    }

    #[test]
    fn what_is_read_on_the_way_stays() {
        check(
            super::run,
            "graph g(x:f32[1,3,2,2]) -> (y, z)
z:f32[1,3,4,2] = Gather(x, [0, 0, 1, 1]:i64) {axis=2}
y:f32[1,3,4,4] = Gather(z, [0, 0, 1, 1]:i64) {axis=3}",
            expect![[r#"
                graph g(x:f32[1,3,2,2]) -> (y, z)
                z:f32[1,3,4,2] = Gather(x, [0, 0, 1, 1]:i64) {axis=2}  # 2
                y:f32[1,3,4,4] = Resize(z, _, [1.0, 1.0, 1.0, 2.0]) {coordinate_transformation_mode="asymmetric", mode="nearest", nearest_mode="floor"}  # 3
            "#]],
        );
    }
}
