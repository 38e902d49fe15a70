//! Each test names a runtime whose table lacks what the graph has.

use expect_test::expect;

use super::{forms, loops, operators};
use testing::check_for;

#[test]
fn a_scan_is_a_loop_over_the_entries_of_its_arrays() {
    check_for(
        "rten",
        loops::scan_to_loop,
        "graph g(x:f32[3], xs:f32[4,3]) -> (y, ys)
y:f32[3], ys:f32[4,3] = Scan(x, xs) {body={
  graph b(v:f32[3], e:f32[3]) -> (w, o)
  w:f32[3] = Add(v, e)
  o:f32[3] = Neg(w)
}, num_scan_inputs=1}",
        expect![[r#"
            graph g(x:f32[3], xs:f32[4,3]) -> (y, ys)
            y:f32[3], ys:f32[4,3] = Loop(4:i64, true, x) {body={  # 2
              graph b(%0:i64[], %1:bool[], v:f32[3]) -> (%2, w, o)
              e = Gather(xs, %0) {axis=0}  # 2
              %2:bool[] = Identity(%1)  # 2
              w:f32[3] = Add(v, e)  # 4
              o:f32[3] = Neg(w)  # 5
            }}
        "#]],
    );
}

#[test]
fn a_backward_scan_is_a_loop_over_reversed_arrays() {
    check_for(
        "rten",
        loops::scan_to_loop,
        "graph g(x:f32[3], xs:f32[4,3]) -> (ys)
y:f32[3], ys:f32[4,3] = Scan(x, xs) {body={
  graph b(v:f32[3], e:f32[3]) -> (w, o)
  w:f32[3] = Add(v, e)
  o:f32[3] = Neg(w)
}, num_scan_inputs=1, scan_input_directions=[1], scan_output_directions=[1]}",
        expect![[r#"
            graph g(x:f32[3], xs:f32[4,3]) -> (ys)
            %0 = Gather(xs, [3, 2, 1, 0]:i64) {axis=0}  # 2
            y, %1 = Loop(4:i64, true, x) {body={  # 2
              graph b(%2:i64[], %3:bool[], v:f32[3]) -> (%4, w, o)
              e = Gather(%0, %2) {axis=0}  # 2
              %4:bool[] = Identity(%3)  # 2
              w:f32[3] = Add(v, e)  # 4
              o:f32[3] = Neg(w)  # 5
            }}
            ys:f32[4,3] = Gather(%1, [3, 2, 1, 0]:i64) {axis=0}  # 2
        "#]],
    );
}

#[test]
fn a_scan_stays_in_a_runtime_that_has_it() {
    check_for(
        "tract",
        loops::scan_to_loop,
        "graph g(x:f32[3], xs:f32[4,3]) -> (y)
y:f32[3] = Scan(x, xs) {body={
  graph b(v:f32[3], e:f32[3]) -> (w)
  w:f32[3] = Add(v, e)
}, num_scan_inputs=1}",
        expect![[r#"
            graph g(x:f32[3], xs:f32[4,3]) -> (y)
            y:f32[3] = Scan(x, xs) {body={  # 2
              graph b(v:f32[3], e:f32[3]) -> (w)
              w:f32[3] = Add(v, e)  # 4
            }, num_scan_inputs=1}
        "#]],
    );
}

#[test]
fn a_backward_scan_runs_forwards_over_reversed_arrays() {
    check_for(
        "iree",
        loops::flip_scan,
        "graph g(x:f32[3], xs:f32[4,3]) -> (y, ys)
y:f32[3], ys:f32[4,3] = Scan(x, xs) {body={
  graph b(v:f32[3], e:f32[3]) -> (w, o)
  w:f32[3] = Add(v, e)
  o:f32[3] = Neg(w)
}, num_scan_inputs=1, scan_input_directions=[1], scan_output_directions=[1]}",
        expect![[r#"
            graph g(x:f32[3], xs:f32[4,3]) -> (y, ys)
            %0 = Gather(xs, [3, 2, 1, 0]:i64) {axis=0}  # 2
            y:f32[3], %1 = Scan(x, %0) {body={  # 2
              graph b(v:f32[3], e:f32[3]) -> (w, o)
              w:f32[3] = Add(v, e)  # 4
              o:f32[3] = Neg(w)  # 5
            }, num_scan_inputs=1}
            ys:f32[4,3] = Gather(%1, [3, 2, 1, 0]:i64) {axis=0}  # 2
        "#]],
    );
}

#[test]
fn a_scan_carries_what_its_body_reads_from_outside() {
    check_for(
        "openvino",
        loops::carry_captures,
        "graph g(x:f32[3], xs:f32[4,3]) -> (y)
%0:f32[3] = Sin(x)
y:f32[3] = Scan(x, xs) {body={
  graph b(v:f32[3], e:f32[3]) -> (w)
  %1:f32[3] = Add(v, e)
  w:f32[3] = Mul(%1, %0)
}, num_scan_inputs=1}",
        expect![[r#"
            graph g(x:f32[3], xs:f32[4,3]) -> (y)
            %0 = Sin(x)  # 2
            y:f32[3], %1 = Scan(x, %0, xs) {body={  # 3
              graph b(v:f32[3], %2:f32[3], e:f32[3]) -> (w, %4)
              %3 = Add(v, e)  # 5
              w:f32[3] = Mul(%3, %2)  # 6
              %4:f32[3] = Identity(%2)  # 5
            }, num_scan_inputs=1}
        "#]],
    );
}

#[test]
fn a_scan_reads_all_inputs_of_its_body() {
    check_for(
        "tract",
        loops::read_inputs,
        "graph g(x:f32[3], xs:f32[4,3]) -> (y)
y:f32[3] = Scan(x, xs) {body={
  graph b(v:f32[3], e:f32[3]) -> (w)
  w:f32[3] = Sin(v)
}, num_scan_inputs=1}",
        expect![[r#"
            graph g(x:f32[3], xs:f32[4,3]) -> (y)
            %0 = Reshape(x, [-1]:i64)  # 2
            %1 = Gather(%0, [0]:i64) {axis=0}  # 2
            %2 = Cast(%1) {to=1}  # 2
            %3 = Abs(%2)  # 2
            %4 = Expand(%3, [4]:i64)  # 2
            y:f32[3] = Scan(x, %4) {body={  # 2
              graph b(v:f32[3], %5:f32[]) -> (%7)
              %6 = Less(%5, 0.0)  # 2
              w = Sin(v)  # 4
              %7:f32[3] = Where(%6, v, w)  # 2
            }, num_scan_inputs=1}
        "#]],
    );
}

#[test]
fn a_slice_at_a_computed_position_is_a_gather() {
    check_for(
        "tract",
        forms::run,
        "graph g(x:f32[9,4], i:i64[1], j:i64[1]) -> (y)
y:f32[3,4] = Slice(x, i, j, [0]:i64)",
        expect![[r#"
            graph g(x:f32[9,4], i:i64[1], j:i64[1]) -> (y)
            %0 = Gather(i, [0]:i64) {axis=0}  # 2
            %1 = Add(%0, [0, 1, 2]:i64)  # 2
            y:f32[3,4] = Gather(x, %1) {axis=0}  # 2
        "#]],
    );
}

#[test]
fn a_window_has_all_of_its_attributes() {
    check_for(
        "rten",
        forms::run,
        "graph g(x:f32[1,2,6,6], w:f32[3,2,3,3]) -> (y)
y:f32[1,3,4,4] = Conv(x, w)",
        expect![[r#"
            graph g(x:f32[1,2,6,6], w:f32[3,2,3,3]) -> (y)
            y:f32[1,3,4,4] = Conv(x, w) {dilations=[1, 1], pads=[0, 0, 0, 0], strides=[1, 1]}  # 2
        "#]],
    );
}

#[test]
fn axes_are_dropped_in_order() {
    check_for(
        "tract",
        forms::run,
        "graph g(x:f32[1,3,1]) -> (y)
y:f32[3] = Squeeze(x, [-1, 0]:i64)",
        expect![[r#"
            graph g(x:f32[1,3,1]) -> (y)
            y:f32[3] = Squeeze(x, [0, 2]:i64)  # 2
        "#]],
    );
}

#[test]
fn axes_in_order_stay() {
    check_for(
        "tract",
        forms::run,
        "graph g(x:f32[1,3,1]) -> (y)
y:f32[3] = Squeeze(x, [0, 2]:i64)",
        expect![[r#"
            graph g(x:f32[1,3,1]) -> (y)
            y:f32[3] = Squeeze(x, [0, 2]:i64)  # 2
        "#]],
    );
}

#[test]
fn matrices_times_a_vector_is_a_product_of_matrices() {
    check_for(
        "rten",
        forms::run,
        "graph g(x:f32[2,4,3], v:f32[3]) -> (y)
y:f32[2,4] = MatMul(x, v)",
        expect![[r#"
            graph g(x:f32[2,4,3], v:f32[3]) -> (y)
            %0 = Unsqueeze(v, [1]:i64)  # 2
            %1 = MatMul(x, %0)  # 2
            y:f32[2,4] = Squeeze(%1, [2]:i64)  # 2
        "#]],
    );
}

#[test]
fn half_of_a_spectrum_is_a_part_of_the_whole() {
    check_for(
        "openvino",
        forms::run,
        "graph g(x:f32[1,8,1]) -> (y)
y:f32[1,5,2] = DFT(x, _, 1:i64) {onesided=1}",
        expect![[r#"
            graph g(x:f32[1,8,1]) -> (y)
            %0 = DFT(x, _, 1:i64)  # 2
            y:f32[1,5,2] = Slice(%0, [0]:i64, [5]:i64, [1]:i64)  # 2
        "#]],
    );
}

#[test]
fn equal_elements_are_sorted_by_their_positions() {
    check_for(
        "openvino",
        forms::run,
        "graph g(x:f32[2,6]) -> (y, i)
y:f32[2,3], i:i64[2,3] = TopK(x, [3]:i64) {axis=1}",
        expect![[r#"
            graph g(x:f32[2,6]) -> (y, i)
            %0, %1 = TopK(x, [6]:i64) {axis=1}  # 2
            %2 = Slice(%0, [0]:i64, [5]:i64, [1]:i64)  # 2
            %3 = Slice(%0, [1]:i64, [6]:i64, [1]:i64)  # 2
            %4 = Equal(%2, %3)  # 2
            %5 = Where(%4, 0:i32, 1:i32)  # 2
            %6 = Pad(%5, [0, 1, 0, 0]:i64)  # 2
            %7 = CumSum(%6, 1:i64)  # 2
            %8 = Mul(%7, 6:i32)  # 2
            %9 = Cast(%1) {to=6}  # 2
            %10 = Add(%8, %9)  # 2
            %11, %12 = TopK(%10, [3]:i64) {axis=1, largest=0}  # 2
            %13 = Mod(%11, 6:i32)  # 2
            i:i64[2,3] = Cast(%13) {to=7}  # 2
            y:f32[2,3] = Slice(%0, [0]:i64, [3]:i64, [1]:i64)  # 2
        "#]],
    );
}

#[test]
fn positions_that_nothing_reads_need_no_order() {
    check_for(
        "openvino",
        forms::run,
        "graph g(x:f32[2,6]) -> (y)
y:f32[2,3], i:i64[2,3] = TopK(x, [3]:i64) {axis=1}",
        expect![[r#"
            graph g(x:f32[2,6]) -> (y)
            y:f32[2,3], i = TopK(x, [3]:i64) {axis=1}  # 2
        "#]],
    );
}

#[test]
fn operands_of_a_comparison_are_repeated() {
    check_for(
        "mnn",
        forms::run,
        "graph g(x:f32[1,6], y:f32[4,1]) -> (z)
z:bool[4,6] = Greater(x, y)",
        expect![[r#"
            graph g(x:f32[1,6], y:f32[4,1]) -> (z)
            %0 = Expand(x, [4, 6]:i64)  # 2
            %1 = Expand(y, [4, 6]:i64)  # 2
            z:bool[4,6] = Greater(%0, %1)  # 2
        "#]],
    );
}

#[test]
fn an_activation_that_a_runtime_lacks_is_a_formula() {
    check_for(
        "rten",
        operators::run,
        "graph g(x:f32[4]) -> (y)
y:f32[4] = Mish(x)",
        expect![[r#"
            graph g(x:f32[4]) -> (y)
            %0 = Max(x, 0.0)  # 2
            %1 = Abs(x)  # 2
            %2 = Neg(%1)  # 2
            %3 = Exp(%2)  # 2
            %4 = Add(%3, 1.0)  # 2
            %5 = Log(%4)  # 2
            %6 = Add(%0, %5)  # 2
            %7 = Tanh(%6)  # 2
            y:f32[4] = Mul(x, %7)  # 2
        "#]],
    );
}

#[test]
fn a_maximum_is_nan_if_an_operand_is() {
    check_for(
        "openvino",
        operators::run,
        "graph g(x:f32[4]) -> (y, z)
y:f32[4] = Max(x, 0.5)
z:f32[4] = Relu(x)",
        expect![[r#"
            graph g(x:f32[4]) -> (y, z)
            %0 = Less(x, 0.5)  # 2
            y:f32[4] = Where(%0, 0.5, x)  # 2
            %1 = Less(x, 0.0)  # 3
            z:f32[4] = Where(%1, 0.0, x)  # 3
        "#]],
    );
}

#[test]
fn a_comparison_with_nan_is_false() {
    check_for(
        "openvino",
        operators::run,
        "graph g(x:f32[4], y:f32[4]) -> (z)
z:bool[4] = Greater(x, y)",
        expect![[r#"
            graph g(x:f32[4], y:f32[4]) -> (z)
            z:bool[4] = Less(y, x)  # 2
        "#]],
    );
}

#[test]
fn a_comparison_of_negative_numbers_has_its_operands_swapped() {
    check_for(
        "mnn",
        operators::run,
        "graph g(x:f32[4], y:f32[4]) -> (z)
z:bool[4] = Less(x, y)",
        expect![[r#"
            graph g(x:f32[4], y:f32[4]) -> (z)
            z:bool[4] = Greater(y, x)  # 2
        "#]],
    );
}

#[test]
fn flags_are_compared_without_numbers() {
    check_for(
        "tract",
        operators::run,
        "graph g(x:bool[4], y:bool[4]) -> (z, n)
z:bool[4] = Equal(x, y)
n:bool[4] = Equal(x, false)",
        expect![[r#"
            graph g(x:bool[4], y:bool[4]) -> (z, n)
            %0 = Xor(x, y)  # 2
            z:bool[4] = Not(%0)  # 2
            n:bool[4] = Not(x)  # 3
        "#]],
    );
}

#[test]
fn the_first_of_equal_extremes_is_found() {
    check_for(
        "rten",
        operators::run,
        "graph g(x:i32[4,3]) -> (y)
y:i64[4] = ArgMax(x) {axis=1, keepdims=0}",
        expect![[r#"
            graph g(x:i32[4,3]) -> (y)
            %0 = ReduceMax(x, [1]:i64) {keepdims=1}  # 2
            %1 = Equal(x, %0)  # 2
            %2 = Where(%1, [0, 1, 2]:i64, 3:i64)  # 2
            y:i64[4] = ReduceMin(%2, [1]:i64) {keepdims=0}  # 2
        "#]],
    );
}

#[test]
fn branches_that_multiply_by_a_product_are_computed_both_where_a_runtime_does_not_take_them() {
    check_for(
        "mnn",
        forms::run,
        "graph g(c:bool[], x:f32[3,3]) -> (y, z)
y:f32[3,3] = If(c) {else_branch={
  graph e() -> (a)
  a:f32[3,3] = Abs(x)
}, then_branch={
  graph t() -> (b)
  p:f32[3,3] = MatMul(x, x)
  q:f32[3,3] = Exp(p)
  b:f32[3,3] = MatMul(x, q)
}}
z:f32[3,3] = If(c) {else_branch={
  graph e2() -> (a2)
  a2:f32[3,3] = Abs(x)
}, then_branch={
  graph t2() -> (b2)
  p2:f32[3,3] = MatMul(x, x)
  b2:f32[3,3] = MatMul(p2, x)
}}",
        expect![[r#"
            graph g(c:bool[], x:f32[3,3]) -> (y, z)
            %0 = MatMul(x, x)  # 7
            %1 = Exp(%0)  # 8
            %2 = MatMul(x, %1)  # 9
            %3 = Abs(x)  # 4
            y:f32[3,3] = Where(c, %2, %3)  # 2
            z:f32[3,3] = If(c) {else_branch={  # 11
              graph e2() -> (a2)
              a2:f32[3,3] = Abs(x)  # 13
            }, then_branch={
              graph t2() -> (b2)
              p2 = MatMul(x, x)  # 16
              b2:f32[3,3] = MatMul(p2, x)  # 17
            }}
        "#]],
    );
}

#[test]
fn a_product_with_one_that_adds_axes_is_a_reshape_where_a_runtime_drops_it() {
    check_for(
        "rten",
        forms::run,
        "graph g(x:f32[3]) -> (y, z, w)
y:f32[1,3] = Mul([[1.0]], x)
z:f32[1,1,3] = Sub(x, [[[0.0]]])
w:f32[1,3] = Mul(x, [[2.0]])",
        expect![[r#"
            graph g(x:f32[3]) -> (y, z, w)
            y:f32[1,3] = Unsqueeze(x, [0]:i64)  # 2
            z:f32[1,1,3] = Unsqueeze(x, [0, 1]:i64)  # 3
            w:f32[1,3] = Mul(x, [[2.0]])  # 4
        "#]],
    );
}

#[test]
fn an_integer_is_squared_by_two_operands_where_a_runtime_squares_floats() {
    check_for(
        "tract",
        forms::run,
        "graph g(x:i64[3], v:u8[3], f:f32[3]) -> (y, z, w)
y:i64[3] = Mul(x, x)
z:u8[3] = Mul(v, v)
w:f32[3] = Mul(f, f)",
        expect![[r#"
            graph g(x:i64[3], v:u8[3], f:f32[3]) -> (y, z, w)
            %0 = Add(x, 1:i64)  # 2
            %1 = Mul(x, %0)  # 2
            y:i64[3] = Sub(%1, x)  # 2
            %2 = Add(v, 1:u8)  # 3
            %3 = Mul(v, %2)  # 3
            z:u8[3] = Sub(%3, v)  # 3
            w:f32[3] = Mul(f, f)  # 4
        "#]],
    );
}

#[test]
fn a_constant_array_whose_element_scales_a_state_is_computed() {
    check_for(
        "tract",
        loops::hide_constants,
        "graph g(x:f32[4]) -> (y)
y:f32[4] = Scan(x, [1, 2, 3]:f32) {body={
  graph b(v:f32[4], e:f32[]) -> (w)
  d:f32[4] = Div(v, e)
  w:f32[4] = Mul(d, 0.5:f32)
}, num_scan_inputs=1}",
        expect![[r#"
            graph g(x:f32[4]) -> (y)
            %0 = Reshape(x, [-1]:i64)  # 2
            %1 = Gather(%0, [0]:i64) {axis=0}  # 2
            %2 = Cast(%1) {to=1}  # 2
            %3 = Abs(%2)  # 2
            %4 = Less(%3, 0.0)  # 2
            %5 = Where(%4, 0.0, [1.0, 2.0, 3.0])  # 2
            y:f32[4] = Scan(x, %5) {body={  # 2
              graph b(v:f32[4], e:f32[]) -> (w)
              d = Div(v, e)  # 4
              w:f32[4] = Mul(d, 0.5)  # 5
            }, num_scan_inputs=1}
        "#]],
    );
}

#[test]
fn a_constant_array_whose_element_is_only_added_stays() {
    check_for(
        "tract",
        loops::hide_constants,
        "graph g(x:f32[4]) -> (y)
y:f32[4] = Scan(x, [1, 2, 3]:f32) {body={
  graph b(v:f32[4], e:f32[]) -> (w)
  d:f32[4] = Add(v, e)
  w:f32[4] = Mul(d, 0.5:f32)
}, num_scan_inputs=1}",
        expect![[r#"
            graph g(x:f32[4]) -> (y)
            y:f32[4] = Scan(x, [1.0, 2.0, 3.0]) {body={  # 2
              graph b(v:f32[4], e:f32[]) -> (w)
              d = Add(v, e)  # 4
              w:f32[4] = Mul(d, 0.5)  # 5
            }, num_scan_inputs=1}
        "#]],
    );
}

#[test]
fn a_state_that_another_node_reads_is_separated_from_it() {
    check_for(
        "iree",
        loops::separate_states,
        "graph g(x:f32[4], v:f32[3,4]) -> (y)
a:f32[4] = Exp(x)
s:f32[4] = Scan(a, v) {body={
  graph b(h:f32[4], e:f32[4]) -> (w)
  w:f32[4] = Sub(h, e)
}, num_scan_inputs=1}
y:f32[4] = Mul(a, s)",
        expect![[r#"
            graph g(x:f32[4], v:f32[3,4]) -> (y)
            a = Exp(x)  # 2
            %0 = Reshape(a, [-1]:i64)  # 3
            %1 = Gather(%0, [0]:i64) {axis=0}  # 3
            %2 = Cast(%1) {to=1}  # 3
            %3 = Abs(%2)  # 3
            %4 = Less(%3, 0.0)  # 3
            %5 = If(%4) {else_branch={  # 3
              graph always() -> (%6)
              %6:f32[4] = Identity(a)  # 3
            }, then_branch={
              graph never() -> (%7)
              %7:f32[4] = Add(a, a)  # 3
            }}
            s = Scan(%5, v) {body={  # 3
              graph b(h:f32[4], e:f32[4]) -> (w)
              w:f32[4] = Sub(h, e)  # 5
            }, num_scan_inputs=1}
            y:f32[4] = Mul(a, s)  # 7
        "#]],
    );
}

#[test]
fn states_that_only_a_loop_reads_stay() {
    check_for(
        "iree",
        loops::separate_states,
        "graph g(x:f32[4], v:f32[3,4]) -> (y)
a:f32[4] = Exp(x)
s, t:f32[4] = Scan(a, x, v) {body={
  graph b(h:f32[4], k:f32[4], e:f32[4]) -> (w, l)
  w:f32[4] = Sub(h, e)
  l:f32[4] = Sub(k, e)
}, num_scan_inputs=1}
z:f32[4] = Mul(t, s)
y:f32[4] = Mul(x, z)",
        expect![[r#"
            graph g(x:f32[4], v:f32[3,4]) -> (y)
            a = Exp(x)  # 2
            s, t = Scan(a, x, v) {body={  # 3
              graph b(h:f32[4], k:f32[4], e:f32[4]) -> (w, l)
              w:f32[4] = Sub(h, e)  # 5
              l:f32[4] = Sub(k, e)  # 6
            }, num_scan_inputs=1}
            z = Mul(t, s)  # 8
            y:f32[4] = Mul(x, z)  # 9
        "#]],
    );
}
