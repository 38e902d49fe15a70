//! Reads and writes at computed indices.
//!
//! ONNX Runtime reports an error if an index is out of bounds, but JAX clamps, fills or drops.
//! Therefore every index is clamped first.

mod gather;
mod joined;
mod numbers;
mod places;
mod reduction;
mod scatter;
mod slice;
mod write;

pub(crate) use gather::gather;
pub(crate) use reduction::Reduction;
pub(crate) use scatter::{
    complex_scatter_mul, scatter, scatter_add, scatter_max, scatter_min, scatter_mul, scatter_sub,
};
pub(crate) use slice::{dynamic_slice, dynamic_update_slice};

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn rows_that_are_promised_are_one_gather_of_indices_in_bounds() {
        check(
            "x:f32[6,4] i:i32[3,1] -> y:f32[3,4] = \
             gather{dimension_numbers=GatherDimensionNumbers(offset_dims=(1), collapsed_slice_dims=(0), start_index_map=(0), operand_batching_dims=(), start_indices_batching_dims=()); fill_value=None; mode=GatherScatterMode.PROMISE_IN_BOUNDS; slice_sizes=(1, 4)} x i",
            expect![[r#"
                graph test(in_0:f32[6,4], in_1:i32[3,1]) -> (out_0)
                %0 = Squeeze(in_1, [1]:i64)
                %1 = Clip(%0, 0:i32, 5:i32)
                out_0:f32[3,4] = Gather(in_0, %1) {axis=0}
            "#]],
        );
    }

    #[test]
    fn rows_out_of_bounds_are_those_that_clamping_changes() {
        check(
            "x:f32[6,4] i:i32[3,1] -> y:f32[3,4] = \
             gather{dimension_numbers=GatherDimensionNumbers(offset_dims=(1), collapsed_slice_dims=(0), start_index_map=(0), operand_batching_dims=(), start_indices_batching_dims=()); fill_value=-1.0; mode=GatherScatterMode.FILL_OR_DROP; slice_sizes=(1, 4)} x i",
            expect![[r#"
                graph test(in_0:f32[6,4], in_1:i32[3,1]) -> (out_0)
                %0 = Squeeze(in_1, [1]:i64)
                %1 = Clip(%0, 0:i32, 5:i32)
                %2 = Equal(%1, %0)
                %3 = Gather(in_0, %1) {axis=0}
                %4 = Unsqueeze(%2, [1]:i64)
                out_0:f32[3,4] = Where(%4, %3, -1.0)
            "#]],
        );
    }

    #[test]
    fn an_entry_of_each_row_is_a_gather_of_elements() {
        check(
            "x:f32[6,4] i:i32[6,2,1] -> y:f32[6,2] = \
             gather{dimension_numbers=GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(1), start_index_map=(1), operand_batching_dims=(0), start_indices_batching_dims=(0)); fill_value=None; mode=GatherScatterMode.CLIP; slice_sizes=(1, 1)} x i",
            expect![[r#"
                graph test(in_0:f32[6,4], in_1:i32[6,2,1]) -> (out_0)
                %0 = Squeeze(in_1, [2]:i64)
                %1 = Clip(%0, 0:i32, 3:i32)
                out_0:f32[6,2] = GatherElements(in_0, %1) {axis=1}
            "#]],
        );
    }

    #[test]
    fn places_along_several_axes_are_vectors() {
        check(
            "x:f32[6,4,5] i:i32[3,2] -> y:f32[3,4] = \
             gather{dimension_numbers=GatherDimensionNumbers(offset_dims=(1), collapsed_slice_dims=(0, 2), start_index_map=(2, 0), operand_batching_dims=(), start_indices_batching_dims=()); fill_value=None; mode=GatherScatterMode.CLIP; slice_sizes=(1, 4, 1)} x i",
            expect![[r#"
                graph test(in_0:f32[6,4,5], in_1:i32[3,2]) -> (out_0)
                %0 = Max(in_1, 0:i32)
                %1 = Min(%0, [4, 5]:i32)
                %2 = Transpose(in_0) {perm=[2, 0, 1]}
                %3 = Cast(%1) {to=7}
                out_0:f32[3,4] = GatherND(%2, %3)
            "#]],
        );
    }

    #[test]
    fn windows_are_grids_of_places() {
        check(
            "x:f32[6,4] i:i32[3,2] -> y:f32[3,2,3] = \
             gather{dimension_numbers=GatherDimensionNumbers(offset_dims=(1, 2), collapsed_slice_dims=(), start_index_map=(0, 1), operand_batching_dims=(), start_indices_batching_dims=()); fill_value=None; mode=GatherScatterMode.CLIP; slice_sizes=(2, 3)} x i",
            expect![[r#"
                graph test(in_0:f32[6,4], in_1:i32[3,2]) -> (out_0)
                %0 = Max(in_1, 0:i32)
                %1 = Min(%0, [4, 1]:i32)
                %2 = Cast(%1) {to=7}
                %3 = Unsqueeze(%2, [1, 2]:i64)
                %4 = Add(%3, const i64[2,3,2])
                out_0:f32[3,2,3] = GatherND(in_0, %4)
            "#]],
        );
    }

    #[test]
    fn a_symbolic_size_is_computed() {
        check(
            "x:f32[B,4] i:i32[3,1] -> y:f32[3,4] = \
             gather{dimension_numbers=GatherDimensionNumbers(offset_dims=(1), collapsed_slice_dims=(0), start_index_map=(0), operand_batching_dims=(), start_indices_batching_dims=()); fill_value=None; mode=GatherScatterMode.CLIP; slice_sizes=(1, 4)} x i",
            expect![[r#"
                graph test(in_0:f32[B,4], in_1:i32[3,1]) -> (out_0)
                %0 = Squeeze(in_1, [1]:i64)
                %1 = Cast(%0) {to=7}
                %2 = Shape(in_0) {end=1, start=0}
                %3 = Squeeze(%2, [0]:i64)
                %4 = Sub(%3, 1:i64)
                %5 = Clip(%1, 0:i64, %4)
                out_0:f32[3,4] = Gather(in_0, %5) {axis=0}
            "#]],
        );
    }

    #[test]
    fn a_row_out_of_bounds_writes_the_old_contents() {
        check(
            "x:f32[6,4] i:i32[1] u:f32[4] -> y:f32[6,4] = \
             scatter{dimension_numbers=ScatterDimensionNumbers(update_window_dims=(0), inserted_window_dims=(0), scatter_dims_to_operand_dims=(0), operand_batching_dims=(), scatter_indices_batching_dims=()); mode=GatherScatterMode.FILL_OR_DROP; update_consts=(); update_jaxpr=None} x i u",
            expect![[r#"
                graph test(in_0:f32[6,4], in_1:i32[1], in_2:f32[4]) -> (out_0)
                %0 = Squeeze(in_1, [0]:i64)
                %1 = Clip(%0, 0:i32, 5:i32)
                %2 = Equal(%1, %0)
                %3 = Cast(%1) {to=7}
                %4 = Unsqueeze(%3, [0]:i64)
                %5 = GatherND(in_0, %4)
                %6 = Unsqueeze(%2, [0]:i64)
                %7 = Where(%6, in_2, %5)
                out_0:f32[6,4] = ScatterND(in_0, %4, %7)
            "#]],
        );
    }

    #[test]
    fn rows_that_may_overlap_are_written_one_after_the_other() {
        check(
            "x:f32[6,4] i:i32[3,1] u:f32[3,4] -> y:f32[6,4] = \
             scatter{dimension_numbers=ScatterDimensionNumbers(update_window_dims=(1), inserted_window_dims=(0), scatter_dims_to_operand_dims=(0), operand_batching_dims=(), scatter_indices_batching_dims=()); mode=GatherScatterMode.FILL_OR_DROP; update_consts=(); update_jaxpr=None} x i u",
            expect![[r#"
                graph test(in_0:f32[6,4], in_1:i32[3,1], in_2:f32[3,4]) -> (out_0)
                %0 = Squeeze(in_1, [1]:i64)
                %1 = Clip(%0, 0:i32, 5:i32)
                %2 = Equal(%1, %0)
                %3 = Cast(%1) {to=7}
                %4 = Unsqueeze(%3, [1]:i64)
                %5 = Squeeze(%4, [1]:i64)
                %6 = Where(%2, %5, 6:i64)
                %7 = Reshape(%6, [3, 1]:i64)
                %8 = Expand(%7, [3, 4]:i64)
                %9 = Expand(0.0, [1, 4]:i64)
                %10 = Concat(in_0, %9) {axis=0}
                %11 = ScatterElements(%10, %8, in_2) {axis=0}
                out_0:f32[6,4] = Slice(%11, [0]:i64, [-1]:i64, [0]:i64)
            "#]],
        );
    }

    #[test]
    fn a_dropped_update_of_a_sum_is_minus_zero() {
        check(
            "x:f32[6,4] i:i32[3,1] u:f32[3,4] -> y:f32[6,4] = \
             \"scatter-add\"{dimension_numbers=ScatterDimensionNumbers(update_window_dims=(1), inserted_window_dims=(0), scatter_dims_to_operand_dims=(0), operand_batching_dims=(), scatter_indices_batching_dims=()); mode=GatherScatterMode.FILL_OR_DROP; update_consts=(); update_jaxpr=None} x i u",
            expect![[r#"
                graph test(in_0:f32[6,4], in_1:i32[3,1], in_2:f32[3,4]) -> (out_0)
                %0 = Squeeze(in_1, [1]:i64)
                %1 = Clip(%0, 0:i32, 5:i32)
                %2 = Equal(%1, %0)
                %3 = Unsqueeze(%2, [1]:i64)
                %4 = Where(%3, in_2, -0.0)
                %5 = Cast(%1) {to=7}
                %6 = Unsqueeze(%5, [1]:i64)
                %7 = Squeeze(%6, [1]:i64)
                %8 = Reshape(%7, [3, 1]:i64)
                %9 = Expand(%8, [3, 4]:i64)
                out_0:f32[6,4] = ScatterElements(in_0, %9, %4) {axis=0, reduction="add"}
            "#]],
        );
    }

    #[test]
    fn scatter_max_keeps_nan() {
        check(
            "x:f32[6] i:i32[3,1] u:f32[3] -> y:f32[6] = \
             \"scatter-max\"{dimension_numbers=ScatterDimensionNumbers(update_window_dims=(), inserted_window_dims=(0), scatter_dims_to_operand_dims=(0), operand_batching_dims=(), scatter_indices_batching_dims=()); mode=GatherScatterMode.CLIP; update_consts=(); update_jaxpr=None} x i u",
            expect![[r#"
                graph test(in_0:f32[6], in_1:i32[3,1], in_2:f32[3]) -> (out_0)
                %0 = Squeeze(in_1, [1]:i64)
                %1 = Clip(%0, 0:i32, 5:i32)
                %2 = Cast(%1) {to=7}
                %3 = Unsqueeze(%2, [1]:i64)
                %4 = Squeeze(%3, [1]:i64)
                %5 = ScatterElements(in_0, %4, in_2) {axis=0, reduction="max"}
                %6 = IsNaN(in_0)
                %7 = Cast(%6) {to=6}
                %8 = IsNaN(in_2)
                %9 = Cast(%8) {to=6}
                %10 = ScatterElements(%7, %4, %9) {axis=0, reduction="max"}
                %11 = Cast(%10) {to=9}
                out_0:f32[6] = Where(%11, nan, %5)
            "#]],
        );
    }

    #[test]
    fn windows_that_may_overlap_are_joined_one_after_the_other() {
        check(
            "x:f32[6] i:i32[3,1] u:f32[3] -> y:f32[6] = \
             scatter{dimension_numbers=ScatterDimensionNumbers(update_window_dims=(), inserted_window_dims=(0), scatter_dims_to_operand_dims=(0), operand_batching_dims=(), scatter_indices_batching_dims=()); mode=GatherScatterMode.CLIP; update_consts=(); update_jaxpr=jaxpr f(a:f32[], b:f32[]) {\n c:f32[] = sin a\n return c\n }} x i u",
            expect![[r#"
                graph test(in_0:f32[6], in_1:i32[3,1], in_2:f32[3]) -> (out_0)
                %0 = Squeeze(in_1, [1]:i64)
                %1 = Clip(%0, 0:i32, 5:i32)
                %2 = Cast(%1) {to=7}
                %3 = Unsqueeze(%2, [1]:i64)
                out_0:f32[6] = Loop(3:i64, true, in_0) {body={
                  graph scatter(%4:i64[], %5:bool[], %6:f32[6]) -> (%12, %11)
                  %7 = Gather(%3, %4) {axis=0}
                  %8 = Gather(in_2, %4) {axis=0}
                  %9 = GatherND(%6, %7)
                  %10 = Sin(%9)
                  %11:f32[6] = ScatterND(%6, %7, %10)
                  %12:bool[] = Identity(%5)
                }}
            "#]],
        );
    }

    #[test]
    fn one_entry_of_one_axis_is_a_gather() {
        check(
            "x:f32[6,4] i:i32[] j:i32[] -> y:f32[6,1] = dynamic_slice{slice_sizes=(6, 1)} x i j",
            expect![[r#"
                graph test(in_0:f32[6,4], in_1:i32[], in_2:i32[]) -> (out_0)
                %0 = Unsqueeze(in_2, [0]:i64)
                %1 = Clip(%0, 0:i32, 3:i32)
                out_0:f32[6,1] = Gather(in_0, %1) {axis=1}
            "#]],
        );
    }

    #[test]
    fn a_window_is_a_slice() {
        check(
            "x:f32[6,4] i:i32[] j:i32[] -> y:f32[3,2] = dynamic_slice{slice_sizes=(3, 2)} x i j",
            expect![[r#"
                graph test(in_0:f32[6,4], in_1:i32[], in_2:i32[]) -> (out_0)
                %0 = Unsqueeze(in_1, [0]:i64)
                %1 = Unsqueeze(in_2, [0]:i64)
                %2 = Concat(%0, %1) {axis=0}
                %3 = Max(%2, 0:i32)
                %4 = Min(%3, [3, 2]:i32)
                %5 = Cast(%4) {to=7}
                %6 = Add(%5, [3, 2]:i64)
                out_0:f32[3,2] = Slice(in_0, %5, %6, [0, 1]:i64)
            "#]],
        );
    }

    #[test]
    fn no_axis_is_moved_to_update_a_window() {
        check(
            "x:f32[2,6,4] u:f32[2,1,4] i:i32[] j:i32[] k:i32[] -> y:f32[2,6,4] = \
             dynamic_update_slice x u i j k",
            expect![[r#"
                graph test(in_0:f32[2,6,4], in_1:f32[2,1,4], in_2:i32[], in_3:i32[], in_4:i32[]) -> (out_0)
                %0 = Unsqueeze(in_3, [0]:i64)
                %1 = Squeeze(%0, [0]:i64)
                %2 = Clip(%1, 0:i32, 5:i32)
                %3 = Cast(%2) {to=7}
                %4 = Unsqueeze(%3, [0]:i64)
                %5 = Expand(0:i64, [1]:i64)
                %6 = Concat(%5, %4) {axis=0}
                %7 = Unsqueeze(%6, [0]:i64)
                %8 = Add(%7, [[0, 0], [1, 0]]:i64)
                %9 = Squeeze(in_1, [1]:i64)
                out_0:f32[2,6,4] = ScatterND(in_0, %8, %9)
            "#]],
        );
    }
}
