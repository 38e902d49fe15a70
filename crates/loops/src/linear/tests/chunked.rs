//! Tests of recurrences that are computed in chunks and blocks.

use expect_test::expect;

use crate::linear::attention::run;
use crate::linear::chunks;
use testing::{check_for, check_lean, each};

#[test]
fn a_target_without_the_operator_computes_long_loops_in_chunks() {
    let graph = |steps: &str| {
        format!(
            "graph g(s:f32[3,4], k:f32[{steps},3], v:f32[{steps},4]) -> (y)
y:f32[3,4] = Scan(s, k, v) {{body={{
  graph b(a:f32[3,4], k0:f32[3], v0:f32[4]) -> (n)
  %0:f32[3,1] = Unsqueeze(k0, [1]:i64)
  %1:f32[3,4] = Mul(%0, v0)
  n:f32[3,4] = Add(a, %1)
}}, num_scan_inputs=2}}"
        )
    };
    let cases = [
        ("onnxruntime", "40", true),
        ("onnxruntime>=1.30", "40", true),
        ("onnxruntime", "T", true),
        ("onnxruntime", "31", false),
        ("onnxruntime-cuda", "40", false),
        ("openvino", "40", false),
    ];
    for (target, steps, is_rewritten) in cases {
        let mut model = onnx::text::parse_graph(&graph(steps)).expect("a graph");
        model.target = onnx::kernels::Target::parse([target]).expect("a target");
        let found = model.edit(&mut |edit| algebra::rewrite::run_each(edit, run));
        assert_eq!(found, is_rewritten, "{target}, {steps} steps");
        assert!(model.graph.nodes.iter().all(|node| node.op.is_onnx()), "{target}");
    }
}

#[test]
fn a_decay_of_each_head_is_computed_in_chunks() {
    check_for(
        "onnxruntime",
        run,
        "graph g(s:f32[2,3,4], g:f32[40,2], k:f32[40,2,3], v:f32[40,2,4], q:f32[40,2,3]) -> (os)
%y:f32[2,3,4], os:f32[40,2,4] = Scan(s, g, k, v, q) {body={
  graph b(a:f32[2,3,4], g0:f32[2], k0:f32[2,3], v0:f32[2,4], q0:f32[2,3]) -> (n, o)
  %0:f32[2] = Sigmoid(g0)
  %1:f32[2,1,1] = Unsqueeze(%0, [1, 2]:i64)
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
            graph g(s:f32[2,3,4], g:f32[40,2], k:f32[40,2,3], v:f32[40,2,4], q:f32[40,2,3]) -> (os)
            %0 = Sigmoid(g)  # 4
            %1 = ReduceL1(q) {keepdims=0}  # 2
            %2 = ReduceL1(k) {keepdims=0}  # 2
            %3 = ReduceL1(v) {keepdims=0}  # 2
            %4 = ReduceL1(s) {keepdims=0}  # 2
            %5 = Add(%1, %2)  # 2
            %6 = Add(%5, %3)  # 2
            %7 = Add(%6, %4)  # 2
            %8 = Less(%7, 1099511600000.0)  # 2
            %9 = Reshape(s, [1, 2, 3, 4]:i64)  # 2
            os:f32[40,2,4] = If(%8) {else_branch={  # 2 4 5 6 7 8 9 10 11 12 13
              graph recurrent/scan() -> (%11)
              %10, %11:f32[40,2,4] = Scan(s, g, k, v, q) {body={  # 2
                graph b(a:f32[2,3,4], g0:f32[2], k0:f32[2,3], v0:f32[2,4], q0:f32[2,3]) -> (n, o)
                %12 = Sigmoid(g0)  # 4
                %13 = Unsqueeze(%12, [1, 2]:i64)  # 5
                %14 = Mul(a, %13)  # 6
                %15 = Unsqueeze(k0, [2]:i64)  # 7
                %16 = Unsqueeze(v0, [1]:i64)  # 8
                %17 = Mul(%15, %16)  # 9
                n:f32[2,3,4] = Add(%14, %17)  # 10
                %18 = Reshape(q0, [2, 1, 3]:i64)  # 11
                %19 = MatMul(%18, n)  # 12
                o:f32[2,4] = Reshape(%19, [2, 4]:i64)  # 13
              }, num_scan_inputs=4}
            }, then_branch={
              graph recurrence/fused() -> (%60)
              %20 = Reshape(q, [40, 6]:i64)  # 2 4 5 6 7 8 9 10 11 12 13
              %21 = Pad(%20, [0, 0, 24, 0]:i64, 0.0)  # 2 4 5 6 7 8 9 10 11 12 13
              %22 = Reshape(%21, [-1, 32, 2, 3]:i64)  # 2 4 5 6 7 8 9 10 11 12 13
              %23 = Transpose(%22) {perm=[0, 2, 1, 3]}  # 2 4 5 6 7 8 9 10 11 12 13
              %24 = Reshape(k, [40, 6]:i64)  # 2 4 5 6 7 8 9 10 11 12 13
              %25 = Pad(%24, [0, 0, 24, 0]:i64, 0.0)  # 2 4 5 6 7 8 9 10 11 12 13
              %26 = Reshape(%25, [-1, 32, 2, 3]:i64)  # 2 4 5 6 7 8 9 10 11 12 13
              %27 = Transpose(%26) {perm=[0, 2, 1, 3]}  # 2 4 5 6 7 8 9 10 11 12 13
              %28 = Reshape(v, [40, 8]:i64)  # 2 4 5 6 7 8 9 10 11 12 13
              %29 = Pad(%28, [0, 0, 24, 0]:i64, 0.0)  # 2 4 5 6 7 8 9 10 11 12 13
              %30 = Reshape(%29, [-1, 32, 2, 4]:i64)  # 2 4 5 6 7 8 9 10 11 12 13
              %31 = Transpose(%30) {perm=[0, 2, 1, 3]}  # 2 4 5 6 7 8 9 10 11 12 13
              %32 = Reshape(%0, [40, 2]:i64)  # 2 4 5 6 7 8 9 10 11 12 13
              %33 = Pad(%32, [0, 0, 24, 0]:i64, 1.0)  # 2 4 5 6 7 8 9 10 11 12 13
              %34 = Reshape(%33, [-1, 32, 2, 1]:i64)  # 2 4 5 6 7 8 9 10 11 12 13
              %35 = Transpose(%34) {perm=[1, 0, 2, 3]}  # 2 4 5 6 7 8 9 10 11 12 13
              %36 = Shape(%35) {end=3, start=1}  # 2 4 5 6 7 8 9 10 11 12 13
              %37 = Concat(%36, [1]:i64) {axis=0}  # 2 4 5 6 7 8 9 10 11 12 13
              %38 = Expand(const f32[1,1,33], %37)  # 2 4 5 6 7 8 9 10 11 12 13
              %39, %40 = Scan(%38, %35, const f32[32,1,1,33]) {body={  # 2 4 5 6 7 8 9 10 11 12 13
                graph b(%61:f32[2,2,33], %62:f32[2,2,1], %63:f32[1,1,33]) -> (%65, %66)
                %64 = Mul(%62, %61)  # 10
                %65:f32[2,2,33] = Add(%64, %63)  # 10
                %66:f32[2,2,33] = Identity(%65)  # 10
              }, num_scan_inputs=2}
              %41 = Transpose(%40) {perm=[1, 2, 0, 3]}  # 2 4 5 6 7 8 9 10 11 12 13
              %42, %43 = Split(%41, [1, 32]:i64) {axis=3}  # 2 4 5 6 7 8 9 10 11 12 13
              %44 = Reshape(%39, [-1, 2, 1, 33]:i64)  # 2 4 5 6 7 8 9 10 11 12 13
              %45, %46 = Split(%44, [1, 32]:i64) {axis=3}  # 2 4 5 6 7 8 9 10 11 12 13
              %47 = Transpose(%27) {perm=[0, 1, 3, 2]}  # 2 4 5 6 7 8 9 10 11 12 13
              %48 = MatMul(%23, %47)  # 2 4 5 6 7 8 9 10 11 12 13
              %49 = Mul(%48, %43)  # 2 4 5 6 7 8 9 10 11 12 13
              %50 = Mul(%23, %42)  # 2 4 5 6 7 8 9 10 11 12 13
              %51 = Transpose(%27) {perm=[0, 1, 3, 2]}  # 2 4 5 6 7 8 9 10 11 12 13
              %52 = Mul(%51, %46)  # 2 4 5 6 7 8 9 10 11 12 13
              %53 = Reshape(%9, [2, 3, 4]:i64)  # 2 4 5 6 7 8 9 10 11 12 13
              %54, %55 = Scan(%53, %45, %52, %31, %50) {body={  # 2 4 5 6 7 8 9 10 11 12 13
                graph b(%67:f32[2,3,4], %68:f32[2,1,1], %69:f32[2,3,32], %70:f32[2,32,4], %71:f32[2,32,3]) -> (%74, %75)
                %72 = Mul(%68, %67)  # 10
                %73 = MatMul(%69, %70)  # 10
                %74:f32[2,3,4] = Add(%72, %73)  # 10
                %75:f32[2,32,4] = MatMul(%71, %67)  # 10
              }, num_scan_inputs=4}
              %56 = MatMul(%49, %31)  # 2 4 5 6 7 8 9 10 11 12 13
              %57 = Add(%56, %55)  # 2 4 5 6 7 8 9 10 11 12 13
              %58 = Transpose(%57) {perm=[0, 2, 1, 3]}  # 2 4 5 6 7 8 9 10 11 12 13
              %59 = Reshape(%58, [-1, 2, 4]:i64)  # 2 4 5 6 7 8 9 10 11 12 13
              %60:f32[40,2,4] = Slice(%59, [0]:i64, [40]:i64, [0]:i64)  # 2 4 5 6 7 8 9 10 11 12 13
            }}
        "#]],
    );
}

#[test]
fn a_delta_rule_is_solved_in_chunks() {
    check_for(
        "onnxruntime",
        run,
        "graph g(k:f32[32,3], v:f32[32,4], b:f32[32], q:f32[32,3]) -> (os)
%s:f32[3,4] = Expand(0.0, [3, 4]:i64)
%y:f32[3,4], os:f32[32,4] = Scan(%s, k, v, b, q) {body={
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
            graph g(k:f32[32,3], v:f32[32,4], b:f32[32], q:f32[32,3]) -> (os)
            %0 = Expand(0.0, [3, 4]:i64)  # 2
            %1 = ReduceL1(q) {keepdims=0}  # 3
            %2 = ReduceL1(k) {keepdims=0}  # 3
            %3 = ReduceL1(v) {keepdims=0}  # 3
            %4 = ReduceL1(b) {keepdims=0}  # 3
            %5 = Add(%1, %2)  # 3
            %6 = Add(%5, %3)  # 3
            %7 = Add(%6, %4)  # 3
            %8 = Less(%7, 1099511600000.0)  # 3
            %9 = Mul(k, k)  # 3
            %10 = ReduceSum(%9, [-1]:i64) {keepdims=0}  # 3
            %11 = Mul(%10, b)  # 3
            %12 = Sub(1.0, %11)  # 3
            %13 = Abs(%12)  # 3
            %14 = ReduceMax(%13) {keepdims=0}  # 3
            %15 = LessOrEqual(%14, 1.01)  # 3
            %16 = And(%8, %15)  # 3
            os:f32[32,4] = If(%16) {else_branch={  # 3 5 6 7 8 9 10 11 12
              graph recurrent/scan() -> (%18)
              %17, %18:f32[32,4] = Scan(%0, k, v, b, q) {body={  # 3
                graph b(a:f32[3,4], k0:f32[3], v0:f32[4], b0:f32[], q0:f32[3]) -> (n, o)
                %19 = Unsqueeze(k0, [1]:i64)  # 5
                %20 = Mul(%19, a)  # 6
                %21 = ReduceSum(%20, [0]:i64) {keepdims=0}  # 7
                %22 = Sub(v0, %21)  # 8
                %23 = Mul(b0, %22)  # 9
                %24 = Mul(%19, %23)  # 10
                n:f32[3,4] = Add(a, %24)  # 11
                o:f32[4] = MatMul(q0, n)  # 12
              }, num_scan_inputs=4}
            }, then_branch={
              graph recurrence/fused() -> (%69)
              %25 = Reshape(q, [-1, 32, 1, 3]:i64)  # 3 5 6 7 8 9 10 11 12
              %26 = Transpose(%25) {perm=[0, 2, 1, 3]}  # 3 5 6 7 8 9 10 11 12
              %27 = Reshape(k, [-1, 32, 1, 3]:i64)  # 3 5 6 7 8 9 10 11 12
              %28 = Transpose(%27) {perm=[0, 2, 1, 3]}  # 3 5 6 7 8 9 10 11 12
              %29 = Reshape(v, [-1, 32, 1, 4]:i64)  # 3 5 6 7 8 9 10 11 12
              %30 = Transpose(%29) {perm=[0, 2, 1, 3]}  # 3 5 6 7 8 9 10 11 12
              %31 = Reshape(b, [-1, 32, 1, 1]:i64)  # 3 5 6 7 8 9 10 11 12
              %32 = Transpose(%31) {perm=[0, 2, 1, 3]}  # 3 5 6 7 8 9 10 11 12
              %33 = Transpose(%28) {perm=[0, 1, 3, 2]}  # 3 5 6 7 8 9 10 11 12
              %34 = MatMul(%26, %33)  # 3 5 6 7 8 9 10 11 12
              %35 = Mul(%34, const f32[32,32])  # 3 5 6 7 8 9 10 11 12
              %36 = Transpose(%28) {perm=[0, 1, 3, 2]}  # 3 5 6 7 8 9 10 11 12
              %37 = MatMul(%28, %36)  # 3 5 6 7 8 9 10 11 12
              %38 = Transpose(%28) {perm=[0, 1, 3, 2]}  # 3 5 6 7 8 9 10 11 12
              %39 = Mul(%37, %32)  # 3 5 6 7 8 9 10 11 12
              %40 = Mul(%39, const f32[32,32])  # 3 5 6 7 8 9 10 11 12
              %41 = Sub(const f32[32,32], %40)  # 3 5 6 7 8 9 10 11 12
              %42 = Mul(%39, const f32[32,32])  # 3 5 6 7 8 9 10 11 12
              %43 = MatMul(%41, %42)  # 3 5 6 7 8 9 10 11 12
              %44 = MatMul(%43, %41)  # 3 5 6 7 8 9 10 11 12
              %45 = Sub(%41, %44)  # 3 5 6 7 8 9 10 11 12
              %46 = Mul(%39, const f32[32,32])  # 3 5 6 7 8 9 10 11 12
              %47 = MatMul(%45, %46)  # 3 5 6 7 8 9 10 11 12
              %48 = MatMul(%47, %45)  # 3 5 6 7 8 9 10 11 12
              %49 = Sub(%45, %48)  # 3 5 6 7 8 9 10 11 12
              %50 = Mul(%39, const f32[32,32])  # 3 5 6 7 8 9 10 11 12
              %51 = MatMul(%49, %50)  # 3 5 6 7 8 9 10 11 12
              %52 = MatMul(%51, %49)  # 3 5 6 7 8 9 10 11 12
              %53 = Sub(%49, %52)  # 3 5 6 7 8 9 10 11 12
              %54 = Mul(%39, const f32[32,32])  # 3 5 6 7 8 9 10 11 12
              %55 = MatMul(%53, %54)  # 3 5 6 7 8 9 10 11 12
              %56 = MatMul(%55, %53)  # 3 5 6 7 8 9 10 11 12
              %57 = Sub(%53, %56)  # 3 5 6 7 8 9 10 11 12
              %58 = Mul(%30, %32)  # 3 5 6 7 8 9 10 11 12
              %59 = Mul(%28, %32)  # 3 5 6 7 8 9 10 11 12
              %60 = MatMul(%57, %58)  # 3 5 6 7 8 9 10 11 12
              %61 = MatMul(%57, %59)  # 3 5 6 7 8 9 10 11 12
              %62, %63, %64 = Scan(const f32[1,3,4], %38, %60, %61, %26) {body={  # 3 5 6 7 8 9 10 11 12
                graph b(%70:f32[1,3,4], %71:f32[1,3,32], %72:f32[1,32,4], %73:f32[1,32,3], %74:f32[1,32,3]) -> (%78, %79, %76)
                %75 = MatMul(%73, %70)  # 11
                %76:f32[1,32,4] = Sub(%72, %75)  # 11
                %77 = MatMul(%71, %76)  # 11
                %78:f32[1,3,4] = Add(%70, %77)  # 11
                %79:f32[1,32,4] = MatMul(%74, %70)  # 11
              }, num_scan_inputs=4}
              %65 = MatMul(%35, %64)  # 3 5 6 7 8 9 10 11 12
              %66 = Add(%65, %63)  # 3 5 6 7 8 9 10 11 12
              %67 = Transpose(%66) {perm=[0, 2, 1, 3]}  # 3 5 6 7 8 9 10 11 12
              %68 = Reshape(%67, [-1, 1, 4]:i64)  # 3 5 6 7 8 9 10 11 12
              %69:f32[32,4] = Reshape(%68, [32, 4]:i64)  # 3 5 6 7 8 9 10 11 12
            }}
        "#]],
    );
}

#[test]
fn a_constant_decay_is_computed_by_powers() {
    check_lean(
        each(chunks::run),
        "graph g(x:f32[36,2]) -> (ys)
%y:f32[2], ys:f32[36,2] = Scan([0.0, 0.0], x) {body={
  graph b(h:f32[2], x0:f32[2]) -> (n, o)
  %0:f32[2] = Mul(h, 0.5)
  n:f32[2] = Add(%0, x0)
  o:f32[2] = Identity(n)
}, num_scan_inputs=1}",
        expect![[r#"
            graph g(x:f32[36,2]) -> (ys)
            %0 = ReduceL1(x) {keepdims=0}  # 2
            %1 = Less(%0, 1.1529215e18)  # 2
            ys:f32[36,2] = If(%1) {else_branch={  # 2 4 5 6
              graph recurrent/scan() -> (%3)
              %2, %3:f32[36,2] = Scan([0.0, 0.0], x) {body={  # 2
                graph b(h:f32[2], x0:f32[2]) -> (n, o)
                %4 = Mul(h, 0.5)  # 4
                n:f32[2] = Add(%4, x0)  # 5
                o:f32[2] = Identity(n)  # 6
              }, num_scan_inputs=1}
            }, then_branch={
              graph recurrence/chunks() -> (%12)
              %5 = Reshape(x, [9, 4, 2]:i64)  # 2 4 5 6
              %6 = MatMul([0.125, 0.25, 0.5, 1.0], %5)  # 2 4 5 6
              %7 = MatMul(const f32[9,9], %6)  # 2 4 5 6
              %8 = Unsqueeze(%7, [1]:i64)  # 2 4 5 6
              %9 = Concat(%8, %5) {axis=1}  # 2 4 5 6
              %10 = MatMul(const f32[4,5], %9)  # 2 4 5 6
              %11 = Reshape(%10, [36, 2]:i64)  # 2 4 5 6
              %12:f32[36,2] = Identity(%11)  # 6
            }}
        "#]],
    );
}

#[test]
fn a_decay_of_each_step_is_multiplied_in_chunks() {
    check_lean(
        each(chunks::run),
        "graph g(h:f32[2], x:f32[40,2], z:f32[40,2]) -> (y, ys)
y:f32[2], ys:f32[40,2] = Scan(h, x, z) {body={
  graph b(a:f32[2], x0:f32[2], z0:f32[2]) -> (n, o)
  %0:f32[2] = Sigmoid(z0)
  %1:f32[2] = Sub(x0, a)
  %2:f32[2] = Mul(%0, %1)
  n:f32[2] = Add(a, %2)
  o:f32[2] = Tanh(n)
}, num_scan_inputs=2, scan_input_directions=[1, 1], scan_output_directions=[1]}",
        expect![[r#"
            graph g(h:f32[2], x:f32[40,2], z:f32[40,2]) -> (y, ys)
            %0 = Sigmoid(z)  # 4
            %1 = Sub([[1.0]], %0)  # 2
            %2 = Mul(x, %0)  # 2
            %3 = ReduceL1(%2) {keepdims=0}  # 2
            %4 = ReduceL1(h) {keepdims=0}  # 2
            %5 = Add(%3, %4)  # 2
            %6 = Less(%5, 1.1529215e18)  # 2
            y:f32[2], ys:f32[40,2] = If(%6) {else_branch={  # 2 4 5 6 7 8
              graph recurrent/scan() -> (%7, %8)
              %7:f32[2], %8:f32[40,2] = Scan(h, x, z) {body={  # 2
                graph b(a:f32[2], x0:f32[2], z0:f32[2]) -> (n, o)
                %9 = Sigmoid(z0)  # 4
                %10 = Sub(x0, a)  # 5
                %11 = Mul(%9, %10)  # 6
                n:f32[2] = Add(a, %11)  # 7
                o:f32[2] = Tanh(n)  # 8
              }, num_scan_inputs=2, scan_input_directions=[1, 1], scan_output_directions=[1]}
            }, then_branch={
              graph recurrence/chunks() -> (%102, %103)
              %12 = Reshape(h, [1, 2]:i64)  # 2 4 5 6 7 8
              %13 = Reshape(%2, [5, 8, 2]:i64)  # 2 4 5 6 7 8
              %14, %15, %16, %17, %18, %19, %20, %21 = Split(%13, [1, 1, 1, 1, 1, 1, 1, 1]:i64) {axis=1}  # 2 4 5 6 7 8
              %22 = Reshape(%1, [5, 8, 2]:i64)  # 2 4 5 6 7 8
              %23, %24, %25, %26, %27, %28, %29, %30 = Split(%22, [1, 1, 1, 1, 1, 1, 1, 1]:i64) {axis=1}  # 2 4 5 6 7 8
              %31 = Mul(%29, %21)  # 2 4 5 6 7 8
              %32 = Add(%31, %20)  # 2 4 5 6 7 8
              %33 = Mul(%29, %30)  # 2 4 5 6 7 8
              %34 = Mul(%28, %32)  # 2 4 5 6 7 8
              %35 = Add(%34, %19)  # 2 4 5 6 7 8
              %36 = Mul(%28, %33)  # 2 4 5 6 7 8
              %37 = Mul(%27, %35)  # 2 4 5 6 7 8
              %38 = Add(%37, %18)  # 2 4 5 6 7 8
              %39 = Mul(%27, %36)  # 2 4 5 6 7 8
              %40 = Mul(%26, %38)  # 2 4 5 6 7 8
              %41 = Add(%40, %17)  # 2 4 5 6 7 8
              %42 = Mul(%26, %39)  # 2 4 5 6 7 8
              %43 = Mul(%25, %41)  # 2 4 5 6 7 8
              %44 = Add(%43, %16)  # 2 4 5 6 7 8
              %45 = Mul(%25, %42)  # 2 4 5 6 7 8
              %46 = Mul(%24, %44)  # 2 4 5 6 7 8
              %47 = Add(%46, %15)  # 2 4 5 6 7 8
              %48 = Mul(%24, %45)  # 2 4 5 6 7 8
              %49 = Mul(%23, %47)  # 2 4 5 6 7 8
              %50 = Add(%49, %14)  # 2 4 5 6 7 8
              %51 = Mul(%23, %48)  # 2 4 5 6 7 8
              %52 = Reshape(%51, [5, 2]:i64)  # 2 4 5 6 7 8
              %53 = Reshape(%50, [5, 2]:i64)  # 2 4 5 6 7 8
              %54 = Reshape(%53, [1, 5, 2]:i64)  # 2 4 5 6 7 8
              %55, %56, %57, %58, %59 = Split(%54, [1, 1, 1, 1, 1]:i64) {axis=1}  # 2 4 5 6 7 8
              %60 = Reshape(%52, [1, 5, 2]:i64)  # 2 4 5 6 7 8
              %61, %62, %63, %64, %65 = Split(%60, [1, 1, 1, 1, 1]:i64) {axis=1}  # 2 4 5 6 7 8
              %66 = Reshape(%12, [1, 1, 2]:i64)  # 2 4 5 6 7 8
              %67 = Mul(%65, %66)  # 2 4 5 6 7 8
              %68 = Add(%67, %59)  # 2 4 5 6 7 8
              %69 = Mul(%64, %68)  # 2 4 5 6 7 8
              %70 = Add(%69, %58)  # 2 4 5 6 7 8
              %71 = Mul(%63, %70)  # 2 4 5 6 7 8
              %72 = Add(%71, %57)  # 2 4 5 6 7 8
              %73 = Mul(%62, %72)  # 2 4 5 6 7 8
              %74 = Add(%73, %56)  # 2 4 5 6 7 8
              %75 = Mul(%61, %74)  # 2 4 5 6 7 8
              %76 = Add(%75, %55)  # 2 4 5 6 7 8
              %77 = Concat(%76, %74, %72, %70, %68) {axis=1}  # 2 4 5 6 7 8
              %78 = Reshape(%77, [5, 2]:i64)  # 2 4 5 6 7 8
              %79 = Reshape(%12, [2]:i64)  # 2 4 5 6 7 8
              %80 = Unsqueeze(%79, [0]:i64)  # 2 4 5 6 7 8
              %81 = Slice(%78, [1]:i64, [9223372036854775807]:i64, [0]:i64)  # 2 4 5 6 7 8
              %82 = Concat(%81, %80) {axis=0}  # 2 4 5 6 7 8
              %83 = Reshape(%82, [5, 1, 2]:i64)  # 2 4 5 6 7 8
              %84 = Mul(%30, %83)  # 2 4 5 6 7 8
              %85 = Add(%84, %21)  # 2 4 5 6 7 8
              %86 = Mul(%29, %85)  # 2 4 5 6 7 8
              %87 = Add(%86, %20)  # 2 4 5 6 7 8
              %88 = Mul(%28, %87)  # 2 4 5 6 7 8
              %89 = Add(%88, %19)  # 2 4 5 6 7 8
              %90 = Mul(%27, %89)  # 2 4 5 6 7 8
              %91 = Add(%90, %18)  # 2 4 5 6 7 8
              %92 = Mul(%26, %91)  # 2 4 5 6 7 8
              %93 = Add(%92, %17)  # 2 4 5 6 7 8
              %94 = Mul(%25, %93)  # 2 4 5 6 7 8
              %95 = Add(%94, %16)  # 2 4 5 6 7 8
              %96 = Mul(%24, %95)  # 2 4 5 6 7 8
              %97 = Add(%96, %15)  # 2 4 5 6 7 8
              %98 = Mul(%23, %97)  # 2 4 5 6 7 8
              %99 = Add(%98, %14)  # 2 4 5 6 7 8
              %100 = Concat(%99, %97, %95, %93, %91, %89, %87, %85) {axis=1}  # 2 4 5 6 7 8
              %101 = Reshape(%100, [40, 2]:i64)  # 2 4 5 6 7 8
              %102:f32[2] = Gather(%101, 0:i64) {axis=0}  # 2 4 5 6 7 8
              %103:f32[40,2] = Tanh(%101)  # 8
            }}
        "#]],
    );
}

#[test]
fn a_large_state_is_computed_in_blocks() {
    check_lean(
        each(chunks::run),
        "graph g(h:f32[64,32], d:f32[96,64], r:f32[64,32], u:f32[96,32], q:f32[96,32]) -> (y, ys)
y:f32[64,32], ys:f32[96,64] = Scan(h, d, u, q) {body={
  graph b(a:f32[64,32], d0:f32[64], u0:f32[32], q0:f32[32]) -> (n, o)
  %0:f32[64,1] = Unsqueeze(d0, [1]:i64)
  %1:f32[64,32] = Mul(%0, r)
  %2:f32[64,32] = Exp(%1)
  %3:f32[64,32] = Mul(%2, a)
  %4:f32[64,32] = Mul(%0, u0)
  n:f32[64,32] = Add(%3, %4)
  o:f32[64] = MatMul(n, q0)
}, num_scan_inputs=3}",
        expect![[r#"
            graph g(h:f32[64,32], d:f32[96,64], r:f32[64,32], u:f32[96,32], q:f32[96,32]) -> (y, ys)
            %0 = Transpose(h) {perm=[1, 0]}  # 2 4 5 6 7 8 9 10
            %1 = Reshape(d, [3, 32, 64]:i64)  # 2 4 5 6 7 8 9 10
            %2 = Reshape(u, [3, 32, 32]:i64)  # 2 4 5 6 7 8 9 10
            %3 = Reshape(q, [3, 32, 32]:i64)  # 2 4 5 6 7 8 9 10
            %4, %5 = Scan(%0, %1, %2, %3) {body={  # 2 4 5 6 7 8 9 10
              graph b(%6:f32[32,64], %7:f32[32,64], %8:f32[32,32], %9:f32[32,32]) -> (%18, %23)
              %10 = Reshape(%7, [32, 1, 64]:i64)  # 2 4 5 6 7 8 9 10
              %11 = Transpose(r) {perm=[1, 0]}  # 2 4 5 6 7 8 9 10
              %12 = Reshape(%11, [1, 32, 64]:i64)  # 2 4 5 6 7 8 9 10
              %13 = Mul(%10, %12)  # 2 4 5 6 7 8 9 10
              %14 = Exp(%13)  # 2 4 5 6 7 8 9 10
              %15 = Reshape(%7, [32, 1, 64]:i64)  # 2 4 5 6 7 8 9 10
              %16 = Reshape(%8, [32, 32, 1]:i64)  # 2 4 5 6 7 8 9 10
              %17 = Mul(%15, %16)  # 2 4 5 6 7 8 9 10
              %18:f32[32,64], %19 = Scan(%6, %14, %17) {body={  # 2 4 5 6 7 8 9 10
                graph b(%24:f32[32,64], %25:f32[32,64], %26:f32[32,64]) -> (%28, %29)
                %27 = Mul(%25, %24)  # 9
                %28:f32[32,64] = Add(%27, %26)  # 9
                %29:f32[32,64] = Identity(%28)  # 9
              }, num_scan_inputs=2}
              %20 = Reshape(%9, [32, 32, 1]:i64)  # 2 4 5 6 7 8 9 10
              %21 = Reshape(%20, [32, 1, 32]:i64)  # 2 4 5 6 7 8 9 10
              %22 = MatMul(%21, %19)  # 2 4 5 6 7 8 9 10
              %23:f32[32,64] = Reshape(%22, [32, 64]:i64)  # 2 4 5 6 7 8 9 10
            }, num_scan_inputs=3}
            ys:f32[96,64] = Reshape(%5, [96, 64]:i64)  # 2 4 5 6 7 8 9 10
            y:f32[64,32] = Transpose(%4) {perm=[1, 0]}  # 2 4 5 6 7 8 9 10
        "#]],
    );
}

/// Near misses: each must stay a loop.
#[test]
fn states_that_are_not_linear_or_depend_on_another_are_not_computed_in_chunks() {
    let graph = |lines: &str| {
        format!(
            "graph g(h:f32[2], m:f32[2], x:f32[40,2], w:f32[2,2]) -> (y, z)
y:f32[2], z:f32[2] = Scan(h, m, x) {{body={{
  graph b(a:f32[2], c:f32[2], x0:f32[2]) -> (n, l)
  %9:f32[2] = Mul(c, 0.5)
{lines}
}}, num_scan_inputs=1}}"
        )
    };
    let linear = "  l:f32[2] = Add(%9, x0)\n";
    let lines = [
        // The controls: both states are linear, and one is a part of the other.
        (true, "  %0:f32[2] = Mul(a, 0.5)\n  n:f32[2] = Add(%0, x0)"),
        (true, "  %0:f32[2] = Mul(a, 0.5)\n  n:f32[2] = Add(%0, c)"),
        (false, "  %0:f32[2] = Max(a, x0)\n  n:f32[2] = Add(%0, x0)"),
        (false, "  %0:f32[2] = Mul(a, a)\n  n:f32[2] = Add(%0, x0)"),
        (true, "  %0:f32[2] = MatMul(a, w)\n  n:f32[2] = Add(%0, x0)"),
        (
            false,
            "  %7:f32[2,2] = Add(w, x0)\n  %0:f32[2] = MatMul(a, %7)\n  n:f32[2] = Add(%0, x0)",
        ),
        (false, "  %0:f32[2] = Mul(a, c)\n  n:f32[2] = Add(%0, x0)"),
        (false, "  %0:f32[2] = Mul(a, 1.5)\n  n:f32[2] = Add(%0, c)"),
        (false, "  %0:f32[2] = Mul(a, 1.5)\n  n:f32[2] = Add(%0, x0)"),
        (false, "  %0:f32[2] = Mul(a, -0.001)\n  %1:f32[2] = Add(%0, a)\n  n:f32[2] = Add(%1, x0)"),
    ];
    for (is_linear, lines) in lines {
        let text = graph(&format!("{linear}{lines}"));
        let mut model = onnx::text::parse_graph(&text).expect("a graph");
        assert_eq!(model.edit(&mut |edit| each(chunks::run)(edit)), is_linear, "{text}");
    }
}
