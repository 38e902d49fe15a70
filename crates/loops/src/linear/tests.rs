//! Tests of recurrences that become `LinearAttention`.

mod chunked;
mod mixed;

use expect_test::{Expect, expect};

use super::attention::run;
use testing::check_for;

const TARGET: &str = "onnxruntime>=1.31";

#[track_caller]
fn check(graph: &str, expect: Expect) {
    check_for(TARGET, run, graph, expect);
}

#[test]
fn a_gated_outer_product_is_linear_attention() {
    check(
        "graph g(s:f32[2,3,4], g:f32[8,2,3], k:f32[8,2,3], v:f32[8,2,4], q:f32[8,2,3]) -> (y, os)
y:f32[2,3,4], os:f32[8,2,4] = Scan(s, g, k, v, q) {body={
  graph b(a:f32[2,3,4], g0:f32[2,3], k0:f32[2,3], v0:f32[2,4], q0:f32[2,3]) -> (n, o)
  %0:f32[2,3] = Exp(g0)
  %1:f32[2,3,1] = Unsqueeze(%0, [2]:i64)
  %2:f32[2,3,4] = Mul(a, %1)
  %3:f32[2,3,1] = Unsqueeze(k0, [2]:i64)
  %4:f32[2,1,4] = Unsqueeze(v0, [1]:i64)
  %5:f32[2,3,4] = Mul(%3, %4)
  n:f32[2,3,4] = Add(%2, %5)
  %6:f32[2,1,3] = Reshape(q0, [2, 1, 3]:i64)
  %7:f32[2,1,4] = MatMul(%6, n)
  o:f32[2,4] = Reshape(%7, [2, 4]:i64)
}, num_scan_inputs=4}",
        expect![[r#"
            graph g(s:f32[2,3,4], g:f32[8,2,3], k:f32[8,2,3], v:f32[8,2,4], q:f32[8,2,3]) -> (y, os)
            %0 = Reshape(s, [1, 2, 3, 4]:i64)  # 2
            %1 = Reshape(q, [1, 8, 6]:i64)  # 2
            %2 = Reshape(k, [1, 8, 6]:i64)  # 2
            %3 = Reshape(v, [1, 8, 8]:i64)  # 2
            %4 = Reshape(g, [1, 8, 6]:i64)  # 2
            %5, %6 = com.microsoft::LinearAttention(%1, %2, %3, %0, %4) {kv_num_heads=2, q_num_heads=2, scale=1.0, update_rule="gated"}  # 2 4 5 6 7 8 9 10 11 12 13
            os:f32[8,2,4] = Reshape(%5, [8, 2, 4]:i64)  # 2 4 5 6 7 8 9 10 11 12 13
            y:f32[2,3,4] = Reshape(%6, [2, 3, 4]:i64)  # 2 4 5 6 7 8 9 10 11 12 13
        "#]],
    );
}

#[test]
fn a_delta_rule_that_reads_by_a_sum_is_linear_attention() {
    check(
        "graph g(k:f32[8,3], v:f32[8,4], b:f32[8], q:f32[8,3]) -> (os)
%s:f32[3,4] = Expand(0.0, [3, 4]:i64)
%y:f32[3,4], os:f32[8,4] = Scan(%s, k, v, b, q) {body={
  graph b(a:f32[3,4], k0:f32[3], v0:f32[4], b0:f32[], q0:f32[3]) -> (n, o)
  %0:f32[3,1] = Unsqueeze(k0, [1]:i64)
  %1:f32[3,4] = Mul(%0, a)
  %2:f32[4] = ReduceSum(%1, [0]:i64) {keepdims=0}
  %3:f32[4] = Sub(v0, %2)
  %4:f32[4] = Mul(b0, %3)
  %5:f32[3,4] = Mul(%0, %4)
  n:f32[3,4] = Add(a, %5)
  o:f32[4] = MatMul(q0, n)
}, num_scan_inputs=4}",
        expect![[r#"
            graph g(k:f32[8,3], v:f32[8,4], b:f32[8], q:f32[8,3]) -> (os)
            %0 = Reshape(q, [1, 8, 3]:i64)  # 3
            %1 = Reshape(k, [1, 8, 3]:i64)  # 3
            %2 = Reshape(v, [1, 8, 4]:i64)  # 3
            %3 = Reshape(b, [1, 8, 1]:i64)  # 3
            %4, %5 = com.microsoft::LinearAttention(%0, %1, %2, _, _, %3) {kv_num_heads=1, q_num_heads=1, scale=1.0, update_rule="delta"}  # 3 5 6 7 8 9 10 11 12
            os:f32[8,4] = Reshape(%4, [8, 4]:i64)  # 3 5 6 7 8 9 10 11 12
        "#]],
    );
}

#[test]
fn a_decay_that_may_be_negative_keeps_the_loop_beside_the_operator() {
    check(
        "graph g(s:f32[3,4], d:f32[8], k:f32[8,3], v:f32[8,4]) -> (y)
y:f32[3,4] = Scan(s, d, k, v) {body={
  graph b(a:f32[3,4], d0:f32[], k0:f32[3], v0:f32[4]) -> (n)
  %0:f32[3,4] = Mul(a, d0)
  %1:f32[3,1] = Unsqueeze(k0, [1]:i64)
  %2:f32[3,4] = Mul(%1, v0)
  n:f32[3,4] = Add(%0, %2)
}, num_scan_inputs=3}",
        expect![[r#"
            graph g(s:f32[3,4], d:f32[8], k:f32[8,3], v:f32[8,4]) -> (y)
            %0 = ReduceMin(d) {keepdims=0}  # 2
            %1 = GreaterOrEqual(%0, 0.0)  # 2
            %2 = Log(d)  # 2
            %3 = Reshape(s, [1, 1, 3, 4]:i64)  # 2
            %4 = Reshape(k, [1, 8, 3]:i64)  # 2
            %5 = Reshape(k, [1, 8, 3]:i64)  # 2
            %6 = Reshape(v, [1, 8, 4]:i64)  # 2
            %7 = Reshape(%2, [1, 8, 1]:i64)  # 2
            y:f32[3,4] = If(%1) {else_branch={  # 2 4 5 6 7
              graph recurrent/scan() -> (%8)
              %8:f32[3,4] = Scan(s, d, k, v) {body={  # 2
                graph b(a:f32[3,4], d0:f32[], k0:f32[3], v0:f32[4]) -> (n)
                %9 = Mul(a, d0)  # 4
                %10 = Unsqueeze(k0, [1]:i64)  # 5
                %11 = Mul(%10, v0)  # 6
                n:f32[3,4] = Add(%9, %11)  # 7
              }, num_scan_inputs=3}
            }, then_branch={
              graph recurrence/fused() -> (%14)
              %12, %13 = com.microsoft::LinearAttention(%4, %5, %6, %3, %7) {kv_num_heads=1, q_num_heads=1, scale=1.0, update_rule="gated"}  # 2 4 5 6 7
              %14:f32[3,4] = Reshape(%13, [3, 4]:i64)  # 2 4 5 6 7
            }}
        "#]],
    );
}

#[test]
fn another_state_that_the_decay_depends_on_stays_in_the_loop() {
    check(
        "graph g(s:f32[3,4], m:f32[], f:f32[8], k:f32[8,3], v:f32[8,4], q:f32[8,3]) -> (l, os)
%y:f32[3,4], l:f32[], os:f32[8,4] = Scan(s, m, f, k, v, q) {body={
  graph b(a:f32[3,4], c:f32[], f0:f32[], k0:f32[3], v0:f32[4], q0:f32[3]) -> (n, d, o)
  d:f32[] = Max(c, f0)
  %0:f32[] = Sub(c, d)
  %1:f32[] = Exp(%0)
  %2:f32[3,4] = Mul(a, %1)
  %3:f32[3,1] = Unsqueeze(k0, [1]:i64)
  %4:f32[3,4] = Mul(%3, v0)
  n:f32[3,4] = Add(%2, %4)
  %5:f32[4] = MatMul(q0, n)
  o:f32[4] = Div(%5, c)
}, num_scan_inputs=4}",
        expect![[r#"
            graph g(s:f32[3,4], m:f32[], f:f32[8], k:f32[8,3], v:f32[8,4], q:f32[8,3]) -> (l, os)
            l:f32[], %0, %1 = Scan(m, f) {body={  # 2 6 8 9
              graph b(%11:f32[], %12:f32[]) -> (%13, %15, %16)
              %13:f32[] = Max(%11, %12)  # 4
              %14 = Sub(%11, %13)  # 5
              %15:f32[] = Identity(%11)  # 4
              %16:f32[] = Identity(%14)  # 5
            }, num_scan_inputs=1}
            %2 = Reshape(s, [1, 1, 3, 4]:i64)  # 2 6 8 9
            %3 = Reshape(q, [1, 8, 3]:i64)  # 2 6 8 9
            %4 = Reshape(k, [1, 8, 3]:i64)  # 2 6 8 9
            %5 = Reshape(v, [1, 8, 4]:i64)  # 2 6 8 9
            %6 = Reshape(%1, [1, 8, 1]:i64)  # 2 6 8 9
            %7, %8 = com.microsoft::LinearAttention(%3, %4, %5, %2, %6) {kv_num_heads=1, q_num_heads=1, scale=1.0, update_rule="gated"}  # 2 4 5 6 7 8 9 10 11 12
            %9 = Reshape(%7, [8, 4]:i64)  # 2 4 5 6 7 8 9 10 11 12
            %10 = Unsqueeze(%0, [1]:i64)  # 12
            os:f32[8,4] = Div(%9, %10)  # 12
        "#]],
    );
}

#[test]
fn a_state_that_is_read_before_its_update_is_read_one_step_later() {
    check(
        "graph g(s:f32[3,4], k:f32[T,3], v:f32[T,4], q:f32[T,3], u:f32[3]) -> (y, os)
y:f32[3,4], os:f32[T,4] = Scan(s, k, v, q) {body={
  graph b(a:f32[3,4], k0:f32[3], v0:f32[4], q0:f32[3]) -> (n, o)
  %0:f32[3,1] = Unsqueeze(k0, [1]:i64)
  %1:f32[3,4] = Mul(%0, v0)
  n:f32[3,4] = Add(a, %1)
  %2:f32[3,1] = Unsqueeze(u, [1]:i64)
  %3:f32[3,4] = Mul(%2, %1)
  %4:f32[3,4] = Add(a, %3)
  o:f32[4] = MatMul(q0, %4)
}, num_scan_inputs=3}",
        expect![[r#"
            graph g(s:f32[3,4], k:f32[T,3], v:f32[T,4], q:f32[T,3], u:f32[3]) -> (y, os)
            %0 = Reshape(s, [1, 1, 3, 4]:i64)  # 2
            %1 = Pad(q, [0, 0, 1, 0]:i64)  # 2
            %2 = Reshape(%1, [1, -1, 3]:i64)  # 2
            %3 = Pad(k, [1, 0, 0, 0]:i64)  # 2
            %4 = Reshape(%3, [1, -1, 3]:i64)  # 2
            %5 = Pad(v, [1, 0, 0, 0]:i64)  # 2
            %6 = Reshape(%5, [1, -1, 4]:i64)  # 2
            %7, %8 = com.microsoft::LinearAttention(%2, %4, %6, %0) {kv_num_heads=1, q_num_heads=1, scale=1.0, update_rule="linear"}  # 2 4 5 6 7 8 9 10
            %9 = Slice(%7, [0]:i64, [-1]:i64, [1]:i64)  # 2 4 5 6 7 8 9 10
            %10 = Reshape(%9, [-1, 4]:i64)  # 2 4 5 6 7 8 9 10
            %11 = Reshape(u, [1, 1, 3]:i64)  # 2 4 5 6 7 8 9 10
            %12 = Reshape(k, [-1, 1, 3]:i64)  # 2 4 5 6 7 8 9 10
            %13 = Mul(%11, %12)  # 2 4 5 6 7 8 9 10
            %14 = Reshape(q, [-1, 1, 3]:i64)  # 2 4 5 6 7 8 9 10
            %15 = Mul(%13, %14)  # 2 4 5 6 7 8 9 10
            %16 = ReduceSum(%15, [2]:i64) {keepdims=0}  # 2 4 5 6 7 8 9 10
            %17 = Mul(v, %16)  # 2 4 5 6 7 8 9 10
            os:f32[T,4] = Add(%10, %17)  # 2 4 5 6 7 8 9 10
            y:f32[3,4] = Reshape(%8, [3, 4]:i64)  # 2 4 5 6 7 8 9 10
        "#]],
    );
}

#[test]
fn a_reflection_of_the_state_is_a_delta_rule() {
    check(
        "graph g(s:f32[3,4], k:f32[8,3], v:f32[8,4], b:f32[8]) -> (y)
y:f32[3,4] = Scan(s, k, v, b) {body={
  graph b(a:f32[3,4], k0:f32[3], v0:f32[4], b0:f32[]) -> (n)
  %0:f32[3,1] = Unsqueeze(k0, [1]:i64)
  %1:f32[3,1] = Mul(%0, b0)
  %2:f32[3,3] = Mul(%1, k0)
  %3:f32[3,3] = Sub([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], %2)
  %4:f32[3,4] = MatMul(%3, a)
  %5:f32[3,4] = Mul(%1, v0)
  n:f32[3,4] = Add(%4, %5)
}, num_scan_inputs=3}",
        expect![[r#"
            graph g(s:f32[3,4], k:f32[8,3], v:f32[8,4], b:f32[8]) -> (y)
            %0 = ReduceL1(k) {keepdims=0}  # 2
            %1 = ReduceL1(v) {keepdims=0}  # 2
            %2 = ReduceL1(b) {keepdims=0}  # 2
            %3 = ReduceL1(s) {keepdims=0}  # 2
            %4 = Add(%0, %1)  # 2
            %5 = Add(%4, %2)  # 2
            %6 = Add(%5, %3)  # 2
            %7 = Less(%6, 1099511600000.0)  # 2
            %8 = Reshape(s, [1, 1, 3, 4]:i64)  # 2
            %9 = Reshape(k, [1, 8, 3]:i64)  # 2
            %10 = Reshape(k, [1, 8, 3]:i64)  # 2
            %11 = Reshape(v, [1, 8, 4]:i64)  # 2
            %12 = Reshape(b, [1, 8, 1]:i64)  # 2
            y:f32[3,4] = If(%7) {else_branch={  # 2 4 5 6 7 8 9 10
              graph recurrent/scan() -> (%13)
              %13:f32[3,4] = Scan(s, k, v, b) {body={  # 2
                graph b(a:f32[3,4], k0:f32[3], v0:f32[4], b0:f32[]) -> (n)
                %14 = Unsqueeze(k0, [1]:i64)  # 4
                %15 = Mul(%14, b0)  # 5
                %16 = Mul(%15, k0)  # 6
                %17 = Sub(const f32[3,3], %16)  # 7
                %18 = MatMul(%17, a)  # 8
                %19 = Mul(%15, v0)  # 9
                n:f32[3,4] = Add(%18, %19)  # 10
              }, num_scan_inputs=3}
            }, then_branch={
              graph recurrence/fused() -> (%22)
              %20, %21 = com.microsoft::LinearAttention(%9, %10, %11, %8, _, %12) {kv_num_heads=1, q_num_heads=1, scale=1.0, update_rule="delta"}  # 2 4 5 6 7 8 9 10
              %22:f32[3,4] = Reshape(%21, [3, 4]:i64)  # 2 4 5 6 7 8 9 10
            }}
        "#]],
    );
}

/// Near misses: each must stay a loop.
#[test]
fn other_updates_stay_loops() {
    let body = |lines: &str| {
        format!(
            "graph g(s:f32[3,4], k:f32[8,3], v:f32[8,4], w:f32[8,3,4], u:f32[3,3]) -> (y)
y:f32[3,4] = Scan(s, k, v, w) {{body={{
  graph b(a:f32[3,4], k0:f32[3], v0:f32[4], w0:f32[3,4]) -> (n)
  %0:f32[3,1] = Unsqueeze(k0, [1]:i64)
  %1:f32[3,4] = Mul(%0, v0)
{lines}
}}, num_scan_inputs=3}}"
        )
    };
    // Each step adds a matrix.
    let sum =
        "  %2:f32[3,4] = Mul(a, 0.5)\n  %3:f32[3,4] = Add(%1, w0)\n  n:f32[3,4] = Add(%2, %3)";
    // The decay differs between all entries.
    let decay = "  %2:f32[3,4] = Exp(w0)\n  %3:f32[3,4] = Mul(a, %2)\n  n:f32[3,4] = Add(%3, %1)";
    // The decay differs between the values: no state is read, so that the first axis is that of keys.
    let values = "  %2:f32[4] = Exp(v0)\n  %3:f32[3,4] = Mul(a, %2)\n  n:f32[3,4] = Add(%3, %1)";
    // The update is not linear.
    let tanh = "  %2:f32[3,4] = Tanh(a)\n  n:f32[3,4] = Add(%2, %1)";
    let square = "  %2:f32[3,4] = Mul(a, a)\n  n:f32[3,4] = Add(%2, %1)";
    // The state is multiplied by a matrix.
    let mixed = "  %2:f32[3,4] = MatMul(u, a)\n  n:f32[3,4] = Add(%2, %1)";
    // The matrix is not the identity plus an outer product.
    let skewed = "  %2:f32[3,3] = MatMul(%0, [[1.0, 2.0, 3.0]])\n  %3:f32[3,3] = Sub([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 1.0]], %2)\n  %4:f32[3,4] = MatMul(%3, a)\n  n:f32[3,4] = Add(%4, %1)";
    for lines in [sum, decay, values, tanh, square, mixed, skewed] {
        let mut model = onnx::text::parse_graph(&body(lines)).expect("a graph");
        model.target = onnx::kernels::Target::parse([TARGET]).expect("a target");
        model.edit(&mut |edit| algebra::rewrite::run_each(edit, run));
        let is_foreign = |node: &onnx::Node| !node.op.is_onnx();
        assert!(!model.graph.nodes.iter().any(is_foreign), "{lines}\n{}", model.text());
    }
}
