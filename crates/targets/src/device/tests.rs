//! Rewrites for the device of `onnxruntime-cuda`. Each graph has a node for which it has no kernel.

use expect_test::expect;

use super::run;
use testing::check_for;

const CUDA: &str = "onnxruntime-cuda";

#[test]
fn an_index_is_clamped_with_kernels_of_the_device() {
    check_for(
        CUDA,
        run,
        "graph g(i:i32[4]) -> (y)
y:i32[4] = Clip(i, 0:i32, 9:i32)",
        expect![[r#"
            graph g(i:i32[4]) -> (y)
            %0 = Max(i, 0:i32)  # 2
            y:i32[4] = Min(%0, 9:i32)  # 2
        "#]],
    );
}

#[test]
fn a_kernel_of_the_device_stays() {
    check_for(
        CUDA,
        run,
        "graph g(x:f32[4]) -> (y)
y:f32[4] = Clip(x, 0.0:f32, 9.0:f32)",
        expect![[r#"
            graph g(x:f32[4]) -> (y)
            y:f32[4] = Clip(x, 0.0, 9.0)  # 2
        "#]],
    );
}

#[test]
fn without_a_device_nothing_changes() {
    check_for(
        "onnxruntime",
        run,
        "graph g(i:i32[4]) -> (y)
y:i32[4] = Clip(i, 0:i32, 9:i32)",
        expect![[r#"
            graph g(i:i32[4]) -> (y)
            y:i32[4] = Clip(i, 0:i32, 9:i32)  # 2
        "#]],
    );
}

#[test]
fn flags_are_reduced_as_bytes() {
    check_for(
        CUDA,
        run,
        "graph g(x:bool[4,5]) -> (y)
y:bool[4] = ReduceMax(x, [1]:i64) {keepdims=0}",
        expect![[r#"
            graph g(x:bool[4,5]) -> (y)
            %0 = Cast(x) {to=2}  # 2
            %1 = ReduceMax(%0, [1]:i64) {keepdims=0}  # 2
            y:bool[4] = Cast(%1) {to=9}  # 2
        "#]],
    );
}

#[test]
fn the_first_flag_is_found_among_floats() {
    check_for(
        CUDA,
        run,
        "graph g(x:bool[4,5]) -> (y)
%0:u8[4,5] = Cast(x) {to=2}
y:i64[4] = ArgMax(%0) {axis=1, keepdims=0}",
        expect![[r#"
            graph g(x:bool[4,5]) -> (y)
            %0 = Cast(x) {to=1}  # 3
            y:i64[4] = ArgMax(%0) {axis=1, keepdims=0}  # 3
        "#]],
    );
}

#[test]
fn a_choice_of_unsigned_numbers_is_made_with_wider_ones() {
    check_for(
        CUDA,
        run,
        "graph g(c:bool[4], a:u32[4], b:u32[4]) -> (y)
y:u32[4] = Where(c, a, b)",
        expect![[r#"
            graph g(c:bool[4], a:u32[4], b:u32[4]) -> (y)
            %0 = Cast(a) {to=7}  # 2
            %1 = Cast(b) {to=7}  # 2
            %2 = Where(c, %0, %1)  # 2
            y:u32[4] = Cast(%2) {to=12}  # 2
        "#]],
    );
}

#[test]
fn a_rotation_is_a_sum_of_a_product_and_a_quotient() {
    check_for(
        CUDA,
        run,
        "graph g(x:u32[4]) -> (y)
%0:u32[4] = BitShift(x, 13:u32) {direction=\"LEFT\"}
%1:u32[4] = BitShift(x, 19:u32) {direction=\"RIGHT\"}
y:u32[4] = BitwiseOr(%0, %1)",
        expect![[r#"
            graph g(x:u32[4]) -> (y)
            %0 = Mul(x, 8192:u32)  # 2
            %1 = Div(x, 524288:u32)  # 3
            y:u32[4] = Add(%0, %1)  # 4
        "#]],
    );
}

#[test]
fn bits_that_overlap_are_combined_one_by_one() {
    check_for(
        CUDA,
        run,
        "graph g(x:u8[4], z:u8[4]) -> (y)
y:u8[4] = BitwiseXor(x, z)",
        expect![[r#"
            graph g(x:u8[4], z:u8[4]) -> (y)
            %0 = Cast(x) {to=12}  # 2
            %1 = Div(%0, [[1], [2], [4], [8], [16], [32], [64], [128]]:u32)  # 2
            %2 = Cast(z) {to=12}  # 2
            %3 = Div(%2, [[1], [2], [4], [8], [16], [32], [64], [128]]:u32)  # 2
            %4 = Add(%1, %3)  # 2
            %5 = Mod(%4, 2:u32)  # 2
            %6 = Cast(%5) {to=11}  # 2
            %7 = Mul(%6, [[1.0], [2.0], [4.0], [8.0], [16.0], [32.0], [64.0], [128.0]]:f64)  # 2
            %8 = ReduceSum(%7, [0]:i64) {keepdims=0}  # 2
            y:u8[4] = Cast(%8) {to=2}  # 2
        "#]],
    );
}

#[test]
fn bits_of_a_large_array_that_overlap_are_combined_by_a_table() {
    check_for(
        CUDA,
        run,
        "graph g(x:u32[40000], z:u32[40000]) -> (y)
y:u32[40000] = BitwiseAnd(x, z)",
        expect![[r#"
            graph g(x:u32[40000], z:u32[40000]) -> (y)
            %0 = Cast(x) {to=7}  # 2
            %1 = Unsqueeze(%0, [1]:i64)  # 2
            %2 = Div(%1, [1, 16, 256, 4096, 65536, 1048576, 16777216, 268435456]:i64)  # 2
            %3 = Mod(%2, 16:i64)  # 2
            %4 = Cast(z) {to=7}  # 2
            %5 = Unsqueeze(%4, [1]:i64)  # 2
            %6 = Div(%5, [1, 16, 256, 4096, 65536, 1048576, 16777216, 268435456]:i64)  # 2
            %7 = Mod(%6, 16:i64)  # 2
            %8 = Mul(%3, 16:i64)  # 2
            %9 = Add(%8, %7)  # 2
            %10 = Gather(const i64[256], %9) {axis=0}  # 2
            %11 = Mul(%10, [1, 16, 256, 4096, 65536, 1048576, 16777216, 268435456]:i64)  # 2
            %12 = ReduceSum(%11, [1]:i64) {keepdims=0}  # 2
            y:u32[40000] = Cast(%12) {to=12}  # 2
        "#]],
    );
}

#[test]
fn the_low_bits_are_a_remainder() {
    check_for(
        CUDA,
        run,
        "graph g(x:u32[4]) -> (y)
y:u32[4] = BitwiseAnd(x, 255:u32)",
        expect![[r#"
            graph g(x:u32[4]) -> (y)
            y:u32[4] = Mod(x, 256:u32)  # 2
        "#]],
    );
}

#[test]
fn windows_that_do_not_overlap_get_axes() {
    check_for(
        CUDA,
        run,
        "graph g(x:f32[2,3,8,8]) -> (y)
y:f32[2,3,4,4] = MaxPool(x) {kernel_shape=[2, 2], strides=[2, 2]}",
        expect![[r#"
            graph g(x:f32[2,3,8,8]) -> (y)
            %0 = Reshape(x, [2, 3, 4, 2, 4, 2]:i64)  # 2
            y:f32[2,3,4,4] = ReduceMax(%0, [3, 5]:i64) {keepdims=0}  # 2
        "#]],
    );
}

#[test]
fn windows_that_overlap_are_the_largest_of_slices() {
    check_for(
        CUDA,
        run,
        "graph g(x:f32[2,3,9]) -> (y)
y:f32[2,3,5] = MaxPool(x) {kernel_shape=[3], pads=[1, 1], strides=[2]}",
        expect![[r#"
            graph g(x:f32[2,3,9]) -> (y)
            %0 = Pad(x, [0, 0, 1, 0, 0, 1]:i64, -inf)  # 2
            %1 = Slice(%0, [0]:i64, [9]:i64, [2]:i64, [2]:i64)  # 2
            %2 = Slice(%0, [1]:i64, [10]:i64, [2]:i64, [2]:i64)  # 2
            %3 = Slice(%0, [2]:i64, [11]:i64, [2]:i64, [2]:i64)  # 2
            y:f32[2,3,5] = Max(%1, %2, %3)  # 2
        "#]],
    );
}

#[test]
fn a_long_window_is_the_largest_of_shorter_ones() {
    check_for(
        CUDA,
        run,
        "graph g(x:f32[2,3,20]) -> (y)
y:f32[2,3,5] = MaxPool(x) {kernel_shape=[7], strides=[3]}",
        expect![[r#"
            graph g(x:f32[2,3,20]) -> (y)
            %0 = Slice(x, [0]:i64, [19]:i64, [2]:i64)  # 2
            %1 = Slice(x, [1]:i64, [20]:i64, [2]:i64)  # 2
            %2 = Max(%0, %1)  # 2
            %3 = Slice(%2, [0]:i64, [17]:i64, [2]:i64)  # 2
            %4 = Slice(%2, [2]:i64, [19]:i64, [2]:i64)  # 2
            %5 = Max(%3, %4)  # 2
            %6 = Slice(%5, [0]:i64, [13]:i64, [2]:i64, [3]:i64)  # 2
            %7 = Slice(%5, [3]:i64, [16]:i64, [2]:i64, [3]:i64)  # 2
            y:f32[2,3,5] = Max(%6, %7)  # 2
        "#]],
    );
}

#[test]
fn channels_are_normalized_as_rows() {
    check_for(
        CUDA,
        run,
        "graph g(x:f32[2,3,4], s:f32[3], b:f32[3]) -> (y)
y:f32[2,3,4] = InstanceNormalization(x, s, b) {epsilon=0.001}",
        expect![[r#"
            graph g(x:f32[2,3,4], s:f32[3], b:f32[3]) -> (y)
            %0 = LayerNormalization(x, [1.0, 1.0, 1.0, 1.0]) {axis=2, epsilon=0.001}  # 2
            %1 = Unsqueeze(s, [1]:i64)  # 2
            %2 = Mul(%0, %1)  # 2
            %3 = Unsqueeze(b, [1]:i64)  # 2
            y:f32[2,3,4] = Add(%2, %3)  # 2
        "#]],
    );
}

#[test]
fn short_branches_are_computed_both() {
    check_for(
        CUDA,
        run,
        "graph g(c:bool[], x:f32[3]) -> (y)
y:f32[3] = If(c) {else_branch={
  graph e() -> (a)
  a:f32[3] = Sin(x)
}, then_branch={
  graph t() -> (b)
  b:f32[3] = Identity(x)
}}",
        expect![[r#"
            graph g(c:bool[], x:f32[3]) -> (y)
            %0 = Sin(x)  # 4
            y:f32[3] = Where(c, x, %0)  # 2
        "#]],
    );
}

#[test]
fn a_branch_with_a_product_stays() {
    check_for(
        CUDA,
        run,
        "graph g(c:bool[], x:f32[3,3]) -> (y)
y:f32[3,3] = If(c) {else_branch={
  graph e() -> (a)
  a:f32[3,3] = MatMul(x, x)
}, then_branch={
  graph t() -> (b)
  b:f32[3,3] = Identity(x)
}}",
        expect![[r#"
            graph g(c:bool[], x:f32[3,3]) -> (y)
            y:f32[3,3] = If(c) {else_branch={  # 2
              graph e() -> (a)
              a:f32[3,3] = MatMul(x, x)  # 4
            }, then_branch={
              graph t() -> (b)
              b:f32[3,3] = Identity(x)  # 7
            }}
        "#]],
    );
}

#[test]
fn a_slice_at_a_computed_position_is_a_gather() {
    check_for(
        CUDA,
        run,
        "graph g(x:f32[9], i:i64[1]) -> (y)
%0:i64[1] = Add(i, [3]:i64)
y:f32[3] = Slice(x, i, %0, [0]:i64)",
        expect![[r#"
            graph g(x:f32[9], i:i64[1]) -> (y)
            %0 = Gather(i, [0]:i64) {axis=0}  # 3
            %1 = Add(%0, [0, 1, 2]:i64)  # 3
            y:f32[3] = Gather(x, %1) {axis=0}  # 3
        "#]],
    );
}

#[test]
fn arithmetic_on_sizes_stays_on_the_cpu() {
    check_for(
        CUDA,
        run,
        "graph g(x:f32[N,3]) -> (y)
%0:i64[2] = Shape(x)
%1:i32[2] = Cast(%0) {to=6}
y:i32[2] = Clip(%1, 0:i32, 9:i32)",
        expect![[r#"
            graph g(x:f32[N,3]) -> (y)
            %0 = Shape(x)  # 2
            %1 = Cast(%0) {to=6}  # 3
            y:i32[2] = Clip(%1, 0:i32, 9:i32)  # 4
        "#]],
    );
}

#[test]
fn the_sign_of_nan_is_nan() {
    check_for(
        CUDA,
        run,
        "graph g(x:f32[3]) -> (y)
y:f32[3] = Sign(x)",
        expect![[r#"
            graph g(x:f32[3]) -> (y)
            %0 = IsNaN(x)  # 2
            %1 = Sign(x)  # 2
            y:f32[3] = Where(%0, x, %1)  # 2
        "#]],
    );
}

#[test]
fn elu_and_sinh_are_formulas() {
    check_for(
        CUDA,
        run,
        "graph g(x:f32[3]) -> (y, z)
y:f32[3] = Elu(x)
z:f32[3] = Sinh(x)",
        expect![[r#"
            graph g(x:f32[3]) -> (y, z)
            %0 = Less(0.0, x)  # 2
            %1 = Exp(x)  # 2
            %2 = Sub(%1, 1.0)  # 2
            %3 = Mul(%2, 1.0)  # 2
            y:f32[3] = Where(%0, x, %3)  # 2
            %4 = Tanh(x)  # 3
            %5 = Mul(x, 0.5)  # 3
            %6 = Exp(%5)  # 3
            %7 = Mul(%6, 0.5)  # 3
            %8 = Mul(%7, %6)  # 3
            %9 = Reciprocal(%6)  # 3
            %10 = Mul(%9, 0.5)  # 3
            %11 = Div(%10, %6)  # 3
            %12 = Add(%8, %11)  # 3
            z:f32[3] = Mul(%4, %12)  # 3
        "#]],
    );
}

#[test]
fn a_transposed_convolution_with_uneven_pads_is_cropped() {
    check_for(
        CUDA,
        run,
        "graph g(x:f32[1,2,4,4], w:f32[2,3,3,3]) -> (y, z)
y:f32[1,3,8,7] = ConvTranspose(x, w) {dilations=[1, 1], pads=[1, 0, 0, 2], strides=[2, 2]}
z:f32[1,3,7,7] = ConvTranspose(x, w) {dilations=[1, 1], pads=[1, 1, 1, 1], strides=[2, 2]}",
        expect![[r#"
            graph g(x:f32[1,2,4,4], w:f32[2,3,3,3]) -> (y, z)
            %0 = ConvTranspose(x, w) {dilations=[1, 1], pads=[0, 0, 0, 0], strides=[2, 2]}  # 2
            y:f32[1,3,8,7] = Slice(%0, [1, 0]:i64, [9, 7]:i64, [2, 3]:i64)  # 2
            z:f32[1,3,7,7] = ConvTranspose(x, w) {dilations=[1, 1], pads=[1, 1, 1, 1], strides=[2, 2]}  # 3
        "#]],
    );
}
