//! Scatters, transforms, sorts and slices. Each test names a runtime that does not take the form of the graph.

use expect_test::expect;

use super::{forms, loops, operators};
use crate::testing::check_for;

#[test]
fn a_scatter_of_inner_slices_has_indices_of_one_axis() {
    check_for(
        "mnn",
        forms::run,
        "graph g(x:f32[2,4,3], i:i64[5,2], u:f32[5,3]) -> (y)
y:f32[2,4,3] = ScatterND(x, i, u)",
        expect![[r#""#]],
    );
}

#[test]
fn a_scatter_of_rows_stays() {
    check_for(
        "mnn",
        forms::run,
        "graph g(x:f32[4,3], i:i64[5,1], u:f32[5,3]) -> (y)
y:f32[4,3] = ScatterND(x, i, u)",
        expect![[r#""#]],
    );
}

#[test]
fn rows_that_are_added_meet_every_place() {
    check_for(
        "mnn",
        forms::run,
        "graph g(x:f32[4,3], i:i64[5,1], u:f32[5,3]) -> (y)
y:f32[4,3] = ScatterND(x, i, u) {reduction=\"add\"}",
        expect![[r#""#]],
    );
}

#[test]
fn the_largest_of_scattered_elements_is_a_reduction() {
    check_for(
        "iree",
        forms::run,
        "graph g(x:f32[4,3], i:i64[2,3], u:f32[2,3]) -> (y)
y:f32[4,3] = ScatterElements(x, i, u) {axis=0, reduction=\"max\"}",
        expect![[r#""#]],
    );
}

#[test]
fn a_scatter_of_many_numbers_is_declined() {
    check_for(
        "mnn",
        forms::run,
        "graph g(x:f32[2000,3], i:i64[5000,1], u:f32[5000,3]) -> (y)
y:f32[2000,3] = ScatterND(x, i, u) {reduction=\"add\"}",
        expect![[r#""#]],
    );
}

#[test]
fn a_short_transform_is_a_product() {
    check_for(
        "iree",
        forms::run,
        "graph g(x:f32[3,4,2]) -> (y)
y:f32[3,4,2] = DFT(x, _, 1:i64)",
        expect![[r#""#]],
    );
}

#[test]
fn a_transform_along_an_outer_axis_is_a_product_between_transposes() {
    check_for(
        "openvino",
        forms::run,
        "graph g(x:f32[2,3,1]) -> (y)
y:f32[2,3,2] = DFT(x, _, 0:i64)",
        expect![[r#""#]],
    );
}

#[test]
fn a_second_sort_of_as_many_elements_has_more() {
    check_for(
        "iree",
        forms::run,
        "graph g(x:f32[2,6], z:f32[2,6]) -> (i, j)
v:f32[2,3], i:i64[2,3] = TopK(x, [3]:i64) {axis=1}
w:f32[2,3], j:i64[2,3] = TopK(z, [3]:i64) {axis=1}",
        expect![[r#""#]],
    );
}

#[test]
fn sorts_of_different_sizes_stay() {
    check_for(
        "iree",
        forms::run,
        "graph g(x:f32[2,6], z:f32[2,7]) -> (i, j)
v:f32[2,3], i:i64[2,3] = TopK(x, [3]:i64) {axis=1}
w:f32[2,3], j:i64[2,3] = TopK(z, [3]:i64) {axis=1}",
        expect![[r#""#]],
    );
}

#[test]
fn an_image_is_reversed_by_a_gather() {
    check_for(
        "mnn",
        forms::run,
        "graph g(x:f32[1,3,4,2]) -> (y)
y:f32[1,3,2,2] = Slice(x, [-1]:i64, [-9223372036854775807]:i64, [2]:i64, [-2]:i64)",
        expect![[r#""#]],
    );
}

#[test]
fn a_power_with_a_computed_exponent_is_an_exponential() {
    check_for(
        "iree",
        operators::run,
        "graph g(x:f32[3], p:f32[3]) -> (y, z)
y:f32[3] = Pow(x, p)
z:f32[3] = Pow(10000:f32, p)",
        expect![[r#""#]],
    );
}

#[test]
fn a_result_that_the_body_of_a_scan_reads_is_copied() {
    check_for(
        "tract",
        loops::copy_results,
        "graph g(x:f32[3], xs:f32[4,3]) -> (y, ys)
y:f32[3], ys:f32[4,3] = Scan(x, xs) {body={
  graph b(v:f32[3], e:f32[3]) -> (w, o)
  o:f32[3] = Add(v, e)
  w:f32[3] = Neg(o)
}, num_scan_inputs=1}",
        expect![[r#""#]],
    );
}

#[test]
fn unsigned_numbers_are_compared_with_a_flipped_sign() {
    check_for(
        "openvino",
        operators::run,
        "graph g(x:u32[3], z:u32[3]) -> (y)
y:bool[3] = Less(x, z)",
        expect![[r#""#]],
    );
}
