//! `fuse-resize`: fuses reads that repeat each row and column several times.
//!
//! `jax.image.resize(…, "nearest")` reads at constant indices, one axis after the other. If each index occurs the
//! same number of times in a row, that is a `Resize` to a multiple of the size, which copies the same elements.

use algebra::axis_map::AxisMap;
use algebra::rewrite::{Result, require};
use onnx::operator::properties::VIEW_OPS;
use onnx::{DType, Edit, Op, OpType, Outcome, Patch, Tensor, ValueId, declined};

/// Rewrites a broadcast that repeats elements in place along several axes, as `jnp.repeat` does to enlarge an image,
/// as gathers. A repeat along one axis, such as that of heads, stays a broadcast.
pub(crate) fn gather_repeats(edit: &mut Edit<'_>) {
    for index in (0..edit.len()).rev() {
        edit.patch(index, |patch| {
            let gathered = Repeats::of(patch, index)?.gathered(patch);
            patch.settle(gathered)
        });
    }
}

/// The maximum number of nodes of a broadcast.
const MAX_LINKS: usize = 12;

/// An array whose entries are repeated in place, along several axes.
struct Repeats {
    source: ValueId,
    chain: Vec<usize>,
    /// The number of repeats along each axis.
    times: Vec<i64>,
}

impl Repeats {
    /// Returns the longest chain of broadcasts that ends at a node and only repeats entries in place.
    fn of(edit: &Edit<'_>, index: usize) -> Option<Repeats> {
        let result = edit.result(index);
        require(edit.node(index).op == OpType::Reshape)?;
        let is_inner =
            |&(node, _): &(usize, ValueId)| node == index || edit.reads(edit.result(node)) == 1;
        let links: Vec<(usize, ValueId)> =
            edit.walk(result, VIEW_OPS).take_while(is_inner).take(MAX_LINKS).collect();
        (1..=links.len()).rev().find_map(|count| {
            let chain: Vec<usize> = links[..count].iter().map(|&(node, _)| node).collect();
            let source = links[count - 1].1;
            let times = repeats_in_place(AxisMap::of_chain(edit, source, &chain)?)?;
            let is_along_several = times.iter().filter(|&&times| times > 1).count() > 1;
            is_along_several.then_some(Repeats { source, chain, times })
        })
    }

    fn gathered(&self, patch: &mut Patch<'_, '_>) -> Result<Op> {
        patch.take(&self.chain);
        let shape = patch.shape(self.source).ok_or("the type of a value is unknown")?.to_vec();
        let (mut x, mut last) = (self.source, None);
        for (axis, &times) in self.times.iter().enumerate().filter(|(_, times)| **times > 1) {
            if let Some(gather) = last {
                x = patch.insert(gather);
            }
            let size = shape[axis].known().ok_or("a size is unknown")?;
            let places: Vec<i64> = (0..size * times).map(|place| place / times).collect();
            let places = Tensor::of_ints(DType::I64, vec![size * times], &places);
            let places = patch.constant(places.ok_or("the indices cannot be computed")?, &[]);
            last = Some(Op::new(OpType::Gather, &[x, places]).attr("axis", axis as i64));
        }
        last.ok_or_else(|| "nothing is repeated".into())
    }
}

/// Returns the number of repeats along each axis, if the map does nothing else.
fn repeats_in_place(mut map: AxisMap) -> Option<Vec<i64>> {
    let mut times = vec![1; map.rank_after()];
    for (axis, times) in times.iter_mut().enumerate() {
        if let Some((once, count)) = map.clone().without_repeats(axis) {
            (map, *times) = (once, count);
        }
    }
    map.is_identity().then_some(times)
}

pub(crate) fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
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
    // For longer rows, a gather is faster, because ONNX Runtime copies whole rows.
    let is_of_single_elements = scales.last().is_some_and(|&times| times > 1.0);
    let has_kernel = edit.has_kernel(OpType::Resize, result.dtype);
    if !is_of_single_elements {
        return declined(
            "the resize repeats whole rows, which ONNX Runtime copies faster in separate nodes",
        );
    }
    if !has_kernel {
        return declined("ONNX Runtime has no `Resize` kernel for this type and opset");
    }
    let fused = &nodes[1..];
    let scales = Tensor::of_floats(DType::F32, vec![scales.len() as i64], &scales)?;
    let scales = edit.constant_for(fused, scales, &[]);
    let inputs = vec![Some(source), None, Some(scales)];
    let op = Op { op: OpType::Resize.into(), inputs, attrs: Vec::new() }
        .attr("mode", "nearest")
        .attr("coordinate_transformation_mode", "asymmetric")
        .attr("nearest_mode", "floor");
    edit.done(fused, op)
}

/// Returns the array that a `Gather` reads, the axis, and the number of times that each index occurs in a row.
fn repetition(edit: &Edit<'_>, index: usize) -> Option<(ValueId, usize, f64)> {
    let node = edit.node(index);
    require(node.op == OpType::Gather)?;
    let data = edit.input(index, 0)?;
    let shape = edit.shape(data)?;
    let axis = edit.axis(index)?;
    let places = edit.tensor(edit.input(index, 1)?)?;
    require(places.shape.len() == 1)?;
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

    use testing::{check, check_lean, each};

    #[test]
    fn places_that_are_read_in_turn_are_a_resize() {
        check_lean(
            each(super::run),
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
            each(super::run),
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
    fn an_intermediate_value_with_readers_stays() {
        check(
            each(super::run),
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

    #[test]
    fn elements_repeated_along_rows_and_columns_are_gathered() {
        check_lean(
            super::gather_repeats,
            "graph g(x:f32[B,2,2,3]) -> (y)
%0:f32[B,2,1,2,3] = Unsqueeze(x, [2]:i64)
%1:f32[B,2,2,2,3] = Expand(%0, [1, 1, 2, 1, 1]:i64)
%2:f32[B,4,2,1,3] = Reshape(%1, [-1, 4, 2, 1, 3]:i64)
%3:f32[B,4,2,3,3] = Expand(%2, [1, 1, 1, 3, 1]:i64)
y:f32[B,4,6,3] = Reshape(%3, [-1, 4, 6, 3]:i64)",
            expect![[r#"
                graph g(x:f32[B,2,2,3]) -> (y)
                %0 = Gather(x, [0, 0, 1, 1]:i64) {axis=1}  # 6 2 3 4 5
                y:f32[B,4,6,3] = Gather(%0, [0, 0, 0, 1, 1, 1]:i64) {axis=2}  # 6 2 3 4 5
            "#]],
        );
    }

    #[test]
    fn heads_and_tiles_stay_broadcasts() {
        check(
            super::gather_repeats,
            "graph g(x:f32[2,4,2,3]) -> (y, z)
%0:f32[2,4,2,1,3] = Unsqueeze(x, [3]:i64)
%1:f32[2,4,2,2,3] = Expand(%0, [2, 4, 2, 2, 3]:i64)
y:f32[2,4,4,3] = Reshape(%1, [2, 4, 4, 3]:i64)
%2:f32[2,1,4,1,2,3] = Unsqueeze(x, [1, 3]:i64)
%3:f32[2,2,4,2,2,3] = Expand(%2, [2, 2, 4, 2, 2, 3]:i64)
z:f32[2,8,4,3] = Reshape(%3, [2, 8, 4, 3]:i64)",
            expect![[r#"
                graph g(x:f32[2,4,2,3]) -> (y, z)
                %0 = Unsqueeze(x, [3]:i64)  # 2
                %1 = Expand(%0, [2, 4, 2, 2, 3]:i64)  # 3
                y:f32[2,4,4,3] = Reshape(%1, [2, 4, 4, 3]:i64)  # 4
                %2 = Unsqueeze(x, [1, 3]:i64)  # 5
                %3 = Expand(%2, [2, 2, 4, 2, 2, 3]:i64)  # 6
                z:f32[2,8,4,3] = Reshape(%3, [2, 8, 4, 3]:i64)  # 7
            "#]],
        );
    }
}
