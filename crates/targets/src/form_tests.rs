//! Scatters, transforms, sorts and slices. Each test names a runtime that does not take the form of the graph.

use expect_test::expect;

use super::{forms, loops, operators};
use testing::check_for;

#[test]
fn a_scatter_of_inner_slices_has_indices_of_one_axis() {
    check_for(
        "mnn",
        forms::run,
        "graph g(x:f32[2,4,3], i:i64[5,2], u:f32[5,3]) -> (y)
y:f32[2,4,3] = ScatterND(x, i, u)",
        expect![[r#"
            graph g(x:f32[2,4,3], i:i64[5,2], u:f32[5,3]) -> (y)
            %0 = Mul(i, [4, 1]:i64)  # 2
            %1 = ReduceSum(%0, [1]:i64) {keepdims=0}  # 2
            %2 = Reshape(%1, [5]:i64)  # 2
            %3 = Reshape(x, [8, 3]:i64)  # 2
            %4 = Reshape(u, [5, 3]:i64)  # 2
            %5 = Unsqueeze(%2, [1]:i64)  # 2
            %6 = ScatterND(%3, %5, %4)  # 2
            y:f32[2,4,3] = Reshape(%6, [2, 4, 3]:i64)  # 2
        "#]],
    );
}

#[test]
fn recurrent_operators_of_one_sequence_read_copies() {
    check_for(
        "openvino",
        forms::run,
        "graph g(x:f32[6,2,3], w:f32[1,20,3], r:f32[1,20,5], v:f32[1,12,3], s:f32[1,12,4]) -> (a, b, c)
a:f32[6,1,2,5] = LSTM(x, w, r) {hidden_size=5}
b:f32[6,1,2,4] = GRU(x, v, s) {hidden_size=4}
c:f32[6,1,2,5] = LSTM(x, w, r) {direction=\"reverse\", hidden_size=5}",
        expect![[r#"
            graph g(x:f32[6,2,3], w:f32[1,20,3], r:f32[1,20,5], v:f32[1,12,3], s:f32[1,12,4]) -> (a, b, c)
            a:f32[6,1,2,5] = LSTM(x, w, r) {hidden_size=5}  # 2
            %0 = Max(x, x)  # 3
            b:f32[6,1,2,4] = GRU(%0, v, s) {hidden_size=4}  # 3
            %1 = Max(%0, %0)  # 4
            c:f32[6,1,2,5] = LSTM(%1, w, r) {direction="reverse", hidden_size=5}  # 4
        "#]],
    );
}

#[test]
fn recurrent_operators_of_one_row_share_it() {
    check_for(
        "openvino",
        forms::run,
        "graph g(x:f32[6,1,3], w:f32[1,20,3], r:f32[1,20,5], v:f32[1,12,3], s:f32[1,12,4]) -> (a, b)
a:f32[6,1,1,5] = LSTM(x, w, r) {hidden_size=5}
b:f32[6,1,1,4] = GRU(x, v, s) {hidden_size=4}",
        expect![[r#"
            graph g(x:f32[6,1,3], w:f32[1,20,3], r:f32[1,20,5], v:f32[1,12,3], s:f32[1,12,4]) -> (a, b)
            a:f32[6,1,1,5] = LSTM(x, w, r) {hidden_size=5}  # 2
            b:f32[6,1,1,4] = GRU(x, v, s) {hidden_size=4}  # 3
        "#]],
    );
}

#[test]
fn a_transform_of_many_rows_is_along_the_second_axis() {
    check_for(
        "openvino",
        forms::run,
        "graph g(x:f32[2,5,16,1]) -> (y)
y:f32[2,5,9,2] = DFT(x, _, 2:i64) {onesided=1}",
        expect![[r#"
            graph g(x:f32[2,5,16,1]) -> (y)
            %0 = Reshape(x, [10, 16, 1]:i64)  # 2
            %1 = DFT(%0, _, 1:i64)  # 2
            %2 = Slice(%1, [0]:i64, [9]:i64, [1]:i64)  # 2
            y:f32[2,5,9,2] = Reshape(%2, [2, 5, 9, 2]:i64)  # 2
        "#]],
    );
}

#[test]
fn points_in_a_batch_have_the_batch_as_an_index() {
    check_for(
        "mnn",
        forms::run,
        "graph g(x:f32[2,4,5], i:i64[2,3,2]) -> (y)
y:f32[2,3] = GatherND(x, i) {batch_dims=1}",
        expect![[r#"
            graph g(x:f32[2,4,5], i:i64[2,3,2]) -> (y)
            %0 = Expand([[[0]], [[1]]]:i64, [2, 3, 1]:i64)  # 2
            %1 = Concat(%0, i) {axis=2}  # 2
            y:f32[2,3] = GatherND(x, %1)  # 2
        "#]],
    );
}

#[test]
fn the_last_operand_of_a_choice_is_repeated() {
    check_for(
        "mnn",
        forms::run,
        "graph g(c:bool[2,5], a:f32[2,5], b:f32[5], d:f32[]) -> (y, z)
y:f32[2,5] = Where(c, a, b)
z:f32[2,5] = Where(c, b, d)",
        expect![[r#"
            graph g(c:bool[2,5], a:f32[2,5], b:f32[5], d:f32[]) -> (y, z)
            %0 = Expand(b, [2, 5]:i64)  # 2
            y:f32[2,5] = Where(c, a, %0)  # 2
            z:f32[2,5] = Where(c, b, d)  # 3
        "#]],
    );
}

#[test]
fn sorted_flags_are_compared_with_zero() {
    check_for(
        "openvino",
        forms::run,
        "graph g(x:u8[2,6]) -> (y)
v:u8[2,6], i:i64[2,6] = TopK(x, [6]:i64) {axis=1, largest=0}
y:bool[2,6] = Cast(v) {to=9}",
        expect![[r#"
            graph g(x:u8[2,6]) -> (y)
            v, i = TopK(x, [6]:i64) {axis=1, largest=0}  # 2
            %0 = Equal(v, 0:u8)  # 3
            y:bool[2,6] = Not(%0)  # 3
        "#]],
    );
}

#[test]
fn a_scatter_of_the_smallest_numbers_does_not_compare_the_ends_of_integers() {
    check_for(
        "mnn",
        forms::run,
        "graph g(i:i64[2,1], u:i32[2]) -> (y)
y:i32[3] = ScatterND([2147483647, 2147483647, 2147483647]:i32, i, u) {reduction=\"min\"}",
        expect![[r#"
            graph g(i:i64[2,1], u:i32[2]) -> (y)
            %0 = Reshape(i, [2]:i64)  # 2
            %1 = Reshape([2147483647, 2147483647, 2147483647]:i32, [3]:i64)  # 2
            %2 = Reshape(u, [2]:i64)  # 2
            %3 = Unsqueeze(%0, [0]:i64)  # 2
            %4 = Sub([[0], [1], [2]]:i64, %3)  # 2
            %5 = Equal(%4, 0:i64)  # 2
            %6 = Unsqueeze(%2, [0]:i64)  # 2
            %7 = Where(%5, %6, 2147483647:i32)  # 2
            %8 = ReduceMin(%7, [1]:i64) {keepdims=0}  # 2
            y:i32[3] = Min(%1, %8)  # 2
        "#]],
    );
}

#[test]
fn a_scatter_of_rows_stays() {
    check_for(
        "mnn",
        forms::run,
        "graph g(x:f32[4,3], i:i64[5,1], u:f32[5,3]) -> (y)
y:f32[4,3] = ScatterND(x, i, u)",
        expect![[r#"
            graph g(x:f32[4,3], i:i64[5,1], u:f32[5,3]) -> (y)
            y:f32[4,3] = ScatterND(x, i, u)  # 2
        "#]],
    );
}

#[test]
fn rows_that_are_added_meet_every_place() {
    check_for(
        "mnn",
        forms::run,
        "graph g(x:f32[4,3], i:i64[5,1], u:f32[5,3]) -> (y)
y:f32[4,3] = ScatterND(x, i, u) {reduction=\"add\"}",
        expect![[r#"
            graph g(x:f32[4,3], i:i64[5,1], u:f32[5,3]) -> (y)
            %0 = Reshape(i, [5]:i64)  # 2
            %1 = Reshape(x, [4, 3]:i64)  # 2
            %2 = Reshape(u, [5, 3]:i64)  # 2
            %3 = Unsqueeze(%0, [0, 2]:i64)  # 2
            %4 = Sub([[[0]], [[1]], [[2]], [[3]]]:i64, %3)  # 2
            %5 = Equal(%4, 0:i64)  # 2
            %6 = Unsqueeze(%2, [0]:i64)  # 2
            %7 = Where(%5, %6, 0.0)  # 2
            %8 = ReduceSum(%7, [1]:i64) {keepdims=0}  # 2
            y:f32[4,3] = Add(%1, %8)  # 2
        "#]],
    );
}

#[test]
fn the_largest_of_scattered_elements_is_a_reduction() {
    check_for(
        "iree",
        forms::run,
        "graph g(x:f32[4,3], i:i64[2,3], u:f32[2,3]) -> (y)
y:f32[4,3] = ScatterElements(x, i, u) {axis=0, reduction=\"max\"}",
        expect![[r#"
            graph g(x:f32[4,3], i:i64[2,3], u:f32[2,3]) -> (y)
            %0 = Unsqueeze(i, [0]:i64)  # 2
            %1 = Sub([[[0]], [[1]], [[2]], [[3]]]:i64, %0)  # 2
            %2 = Equal(%1, 0:i64)  # 2
            %3 = Unsqueeze(u, [0]:i64)  # 2
            %4 = Where(%2, %3, -inf)  # 2
            %5 = ReduceMax(%4, [1]:i64) {keepdims=0}  # 2
            y:f32[4,3] = Max(x, %5)  # 2
        "#]],
    );
}

#[test]
fn a_scatter_of_many_numbers_is_declined() {
    check_for(
        "mnn",
        forms::run,
        "graph g(x:f32[2000,3], i:i64[5000,1], u:f32[5000,3]) -> (y)
y:f32[2000,3] = ScatterND(x, i, u) {reduction=\"add\"}",
        expect![[r#"
            graph g(x:f32[2000,3], i:i64[5000,1], u:f32[5000,3]) -> (y)
            y:f32[2000,3] = ScatterND(x, i, u) {reduction="add"}  # 2
        "#]],
    );
}

#[test]
fn a_short_transform_is_a_product() {
    check_for(
        "iree",
        forms::run,
        "graph g(x:f32[3,4,2]) -> (y)
y:f32[3,4,2] = DFT(x, _, 1:i64)",
        expect![[r#"
            graph g(x:f32[3,4,2]) -> (y)
            %0 = Reshape(x, [3, 8]:i64)  # 2
            %1 = MatMul(%0, const f32[8,8])  # 2
            y:f32[3,4,2] = Reshape(%1, [3, 4, 2]:i64)  # 2
        "#]],
    );
}

#[test]
fn a_transform_along_an_outer_axis_is_a_product_between_transposes() {
    check_for(
        "openvino",
        forms::run,
        "graph g(x:f32[2,3,1]) -> (y)
y:f32[2,3,2] = DFT(x, _, 0:i64)",
        expect![[r#"
            graph g(x:f32[2,3,1]) -> (y)
            %0 = Transpose(x) {perm=[1, 0, 2]}  # 2
            %1 = Reshape(%0, [3, 2]:i64)  # 2
            %2 = MatMul(%1, [[1.0, -0.0, 1.0, -0.0], [1.0, -0.0, -1.0, -1.2246469e-16]])  # 2
            %3 = Reshape(%2, [3, 2, 2]:i64)  # 2
            y:f32[2,3,2] = Transpose(%3) {perm=[1, 0, 2]}  # 2
        "#]],
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
        expect![[r#"
            graph g(x:f32[2,6], z:f32[2,6]) -> (i, j)
            v, i:i64[2,3] = TopK(x, [3]:i64) {axis=1}  # 2
            %0 = Pad(z, [0, 0, 0, 1]:i64, -inf)  # 3
            w, j:i64[2,3] = TopK(%0, [3]:i64) {axis=1}  # 3
        "#]],
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
        expect![[r#"
            graph g(x:f32[2,6], z:f32[2,7]) -> (i, j)
            v, i:i64[2,3] = TopK(x, [3]:i64) {axis=1}  # 2
            w, j:i64[2,3] = TopK(z, [3]:i64) {axis=1}  # 3
        "#]],
    );
}

#[test]
fn an_image_is_reversed_by_a_gather() {
    check_for(
        "mnn",
        forms::run,
        "graph g(x:f32[1,3,4,2]) -> (y)
y:f32[1,3,2,2] = Slice(x, [-1]:i64, [-9223372036854775807]:i64, [2]:i64, [-2]:i64)",
        expect![[r#"
            graph g(x:f32[1,3,4,2]) -> (y)
            y:f32[1,3,2,2] = Gather(x, [3, 1]:i64) {axis=2}  # 2
        "#]],
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
        expect![[r#"
            graph g(x:f32[3], p:f32[3]) -> (y, z)
            %0 = Abs(x)  # 2
            %1 = Log(%0)  # 2
            %2 = Mul(%1, p)  # 2
            %3 = Exp(%2)  # 2
            %4 = Mul(p, 0.5)  # 2
            %5 = Floor(%4)  # 2
            %6 = Equal(%5, %4)  # 2
            %7 = Not(%6)  # 2
            %8 = Neg(%3)  # 2
            %9 = Where(%7, %8, %3)  # 2
            %10 = Floor(p)  # 2
            %11 = Equal(%10, p)  # 2
            %12 = Where(%11, %9, nan)  # 2
            %13 = Less(x, 0.0)  # 2
            %14 = Where(%13, %12, %3)  # 2
            %15 = Equal(p, 0.0)  # 2
            y:f32[3] = Where(%15, 1.0, %14)  # 2
            %16 = Log(10000.0)  # 3
            %17 = Mul(%16, p)  # 3
            z:f32[3] = Exp(%17)  # 3
        "#]],
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
        expect![[r#"
            graph g(x:f32[3], xs:f32[4,3]) -> (y, ys)
            y:f32[3], ys:f32[4,3] = Scan(x, xs) {body={  # 2
              graph b(v:f32[3], e:f32[3]) -> (w, %0)
              o = Add(v, e)  # 4
              w:f32[3] = Neg(o)  # 5
              %0:f32[3] = Identity(o)  # 4
            }, num_scan_inputs=1}
        "#]],
    );
}

#[test]
fn a_high_constant_is_computed_from_low_ones() {
    let graph = "graph g(x:u32[2]) -> (y, z)
y:u32[2] = Mul(x, 3000000000:u32)
z:u32[2] = Add(x, [3000000000, 7]:u32)";
    check_for(
        "openvino",
        forms::run,
        graph,
        expect![[r#"
        graph g(x:u32[2]) -> (y, z)
        %0 = BitwiseNot(1294967295:u32)  # 2
        y:u32[2] = Mul(x, %0)  # 2
        %1 = BitwiseNot(2147483647:u32)  # 3
        %2 = Mul([1, 0]:u32, %1)  # 3
        %3 = BitwiseOr(%2, [852516352, 7]:u32)  # 3
        z:u32[2] = Add(x, %3)  # 3
    "#]],
    );
}

#[test]
fn a_high_constant_stays_in_a_runtime_that_takes_it() {
    let graph = "graph g(x:u32[2]) -> (y)
y:u32[2] = Add(x, 3000000000:u32)";
    check_for(
        "tract",
        forms::run,
        graph,
        expect![[r#"
        graph g(x:u32[2]) -> (y)
        y:u32[2] = Add(x, 3000000000:u32)  # 2
    "#]],
    );
}

#[test]
fn a_product_of_matrices_with_a_constant_vector_is_one_with_a_column() {
    let graph = "graph g(x:f32[2,3,2]) -> (y)
y:f32[2,3] = MatMul(x, [3, 4]:f32)";
    check_for(
        "mnn",
        forms::run,
        graph,
        expect![[r#"
        graph g(x:f32[2,3,2]) -> (y)
        %0 = Unsqueeze([3.0, 4.0], [1]:i64)  # 2
        %1 = MatMul(x, %0)  # 2
        y:f32[2,3] = Squeeze(%1, [2]:i64)  # 2
    "#]],
    );
}

#[test]
fn a_product_of_matrices_with_a_computed_vector_stays() {
    let graph = "graph g(x:f32[2,3,2], v:f32[2]) -> (y)
y:f32[2,3] = MatMul(x, v)";
    check_for(
        "mnn",
        forms::run,
        graph,
        expect![[r#"
        graph g(x:f32[2,3,2], v:f32[2]) -> (y)
        y:f32[2,3] = MatMul(x, v)  # 2
    "#]],
    );
}

#[test]
fn a_reduction_is_looked_up_if_it_is_read_with_other_axes_too() {
    check_for(
        "iree",
        forms::run,
        "graph g(x:f32[6,2]) -> (y, z, w)
%0:f32[6] = ReduceSum(x, [1]:i64) {keepdims=0}
%1:f32[6] = Exp(%0)
%2:f32[6,1] = Unsqueeze(%1, [1]:i64)
y:f32[6,6] = Add(%0, %2)
z:f32[6,1] = ReduceSum(x, [1]:i64) {keepdims=1}
%3:f32[6] = ReduceMax(x, [1]:i64) {keepdims=0}
w:f32[6,1] = Unsqueeze(%3, [1]:i64)",
        expect![[r#"
            graph g(x:f32[6,2]) -> (y, z, w)
            %0 = ReduceSum(x, [1]:i64) {keepdims=0}  # 2
            %1 = Gather(%0, [0, 1, 2, 3, 4, 5]:i64) {axis=0}  # 2
            %2 = Exp(%1)  # 3
            %3 = Unsqueeze(%2, [1]:i64)  # 4
            y:f32[6,6] = Add(%1, %3)  # 5
            z:f32[6,1] = ReduceSum(x, [1]:i64) {keepdims=1}  # 6
            %4 = ReduceMax(x, [1]:i64) {keepdims=0}  # 7
            w:f32[6,1] = Unsqueeze(%4, [1]:i64)  # 8
        "#]],
    );
}

#[test]
fn a_transposed_convolution_without_pads_is_cropped() {
    check_for(
        "iree",
        forms::run,
        "graph g(x:f32[1,2,4,4], w:f32[2,3,3,3]) -> (y)
y:f32[1,3,8,7] = ConvTranspose(x, w) {dilations=[1, 1], pads=[1, 0, 0, 2], strides=[2, 2]}",
        expect![[r#"
            graph g(x:f32[1,2,4,4], w:f32[2,3,3,3]) -> (y)
            %0 = ConvTranspose(x, w) {dilations=[1, 1], pads=[0, 0, 0, 0], strides=[2, 2]}  # 2
            y:f32[1,3,8,7] = Slice(%0, [1, 0]:i64, [9, 7]:i64, [2, 3]:i64)  # 2
        "#]],
    );
}

#[test]
fn a_resize_of_a_vector_looks_up_entries() {
    check_for(
        "mnn",
        forms::run,
        "graph g(x:f32[3]) -> (y)
y:f32[6] = Resize(x, _, [2.0]:f32) {mode=\"nearest\", coordinate_transformation_mode=\"asymmetric\", nearest_mode=\"floor\"}",
        expect![[r#"
            graph g(x:f32[3]) -> (y)
            y:f32[6] = Gather(x, [0, 0, 1, 1, 2, 2]:i64) {axis=0}  # 2
        "#]],
    );
}

#[test]
fn a_resize_along_the_first_axes_looks_up_entries() {
    check_for(
        "openvino",
        forms::run,
        "graph g(x:f32[1,2,3,2]) -> (y)
y:f32[1,4,3,4] = Resize(x, _, [1.0, 2.0, 1.0, 2.0]:f32) {mode=\"nearest\", coordinate_transformation_mode=\"asymmetric\", nearest_mode=\"floor\"}",
        expect![[r#"
            graph g(x:f32[1,2,3,2]) -> (y)
            %0 = Gather(x, [0, 0, 1, 1]:i64) {axis=1}  # 2
            y:f32[1,4,3,4] = Gather(%0, [0, 0, 1, 1]:i64) {axis=3}  # 2
        "#]],
    );
}

#[test]
fn a_resize_of_an_image_stays() {
    check_for(
        "mnn",
        forms::run,
        "graph g(x:f32[1,2,3,2]) -> (y)
y:f32[1,2,6,4] = Resize(x, _, [1.0, 1.0, 2.0, 2.0]:f32) {mode=\"nearest\", coordinate_transformation_mode=\"asymmetric\", nearest_mode=\"floor\"}",
        expect![[r#"
            graph g(x:f32[1,2,3,2]) -> (y)
            y:f32[1,2,6,4] = Resize(x, _, [1.0, 1.0, 2.0, 2.0]) {coordinate_transformation_mode="asymmetric", mode="nearest", nearest_mode="floor"}  # 2
        "#]],
    );
}

#[test]
fn a_slice_that_skips_elements_before_a_lookup_is_a_gather() {
    check_for(
        "iree",
        forms::run,
        "graph g(x:f32[16], i:i64[3]) -> (y, z, w)
s:f32[8] = Slice(x, [1]:i64, [16]:i64, [0]:i64, [2]:i64)
y:f32[8] = Slice(s, [-1]:i64, [-9223372036854775808]:i64, [0]:i64, [-1]:i64)
t:f32[8] = Slice(x, [0]:i64, [16]:i64, [0]:i64, [2]:i64)
u:f32[8,1] = Unsqueeze(t, [1]:i64)
z:f32[3,1] = Gather(u, i)
v:f32[8] = Slice(x, [0]:i64, [16]:i64, [0]:i64, [2]:i64)
w:f32[8] = Neg(v)",
        expect![[r#"
            graph g(x:f32[16], i:i64[3]) -> (y, z, w)
            %0 = Gather(x, [1, 3, 5, 7, 9, 11, 13, 15]:i64) {axis=0}  # 2
            y:f32[8] = Slice(%0, [-1]:i64, [-9223372036854775808]:i64, [0]:i64, [-1]:i64)  # 3
            %1 = Gather(x, [0, 2, 4, 6, 8, 10, 12, 14]:i64) {axis=0}  # 4
            u = Unsqueeze(%1, [1]:i64)  # 5
            z:f32[3,1] = Gather(u, i)  # 6
            v = Slice(x, [0]:i64, [16]:i64, [0]:i64, [2]:i64)  # 7
            w:f32[8] = Neg(v)  # 8
        "#]],
    );
}
