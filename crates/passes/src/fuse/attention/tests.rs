use expect_test::{Expect, expect};

use crate::testing::check;

/// Two heads of size three over rows of four, with these nodes between the product and the softmax.
#[track_caller]
fn check_scores(nodes: &str, expect: Expect) {
    let text = format!(
        "graph g(q:f32[B,4,6], k:f32[B,5,6], v:f32[B,5,6], m:bool[B,1,1,5]) -> (y)
q4:f32[B,4,2,3] = Reshape(q, [0, 4, 2, 3]:i64)
qt:f32[B,2,4,3] = Transpose(q4) {{perm=[0, 2, 1, 3]}}
k4:f32[B,5,2,3] = Reshape(k, [0, 5, 2, 3]:i64)
kt:f32[B,2,3,5] = Transpose(k4) {{perm=[0, 2, 3, 1]}}
s:f32[B,2,4,5] = MatMul(qt, kt)
{nodes}
v4:f32[B,5,2,3] = Reshape(v, [0, 5, 2, 3]:i64)
vt:f32[B,2,5,3] = Transpose(v4) {{perm=[0, 2, 1, 3]}}
o:f32[B,2,4,3] = MatMul(p, vt)
ot:f32[B,4,2,3] = Transpose(o) {{perm=[0, 2, 1, 3]}}
y:f32[B,4,6] = Reshape(ot, [0, 4, 6]:i64)"
    );
    let run = |edit: &mut onnx::Edit<'_>| super::run(edit);
    check(run, &text, expect);
}

#[test]
fn scores_of_all_heads_are_one_node() {
    check_scores(
        "scaled:f32[B,2,4,5] = Div(s, 4.0)
p:f32[B,2,4,5] = Softmax(scaled) {axis=3}",
        expect![[r#"
            graph g(q:f32[B,4,6], k:f32[B,5,6], v:f32[B,5,6], m:bool[B,1,1,5]) -> (y)
            q4 = Reshape(q, [0, 4, 2, 3]:i64)  # 2
            qt = Transpose(q4) {perm=[0, 2, 1, 3]}  # 3
            k4 = Reshape(k, [0, 5, 2, 3]:i64)  # 4
            kt = Transpose(k4) {perm=[0, 2, 3, 1]}  # 5
            s = MatMul(qt, kt)  # 6
            scaled = Div(s, 4.0)  # 7
            p = Softmax(scaled) {axis=3}  # 8
            v4 = Reshape(v, [0, 5, 2, 3]:i64)  # 9
            vt = Transpose(v4) {perm=[0, 2, 1, 3]}  # 10
            o = MatMul(p, vt)  # 11
            ot = Transpose(o) {perm=[0, 2, 1, 3]}  # 12
            y:f32[B,4,6] = Attention(q, k, v) {kv_num_heads=2, q_num_heads=2, scale=0.25}  # 11 2 3 4 5 6 7 8 9 10 12 13
        "#]],
    );
}

#[test]
fn a_mask_is_what_is_added() {
    check_scores(
        "masked:f32[B,2,4,5] = Where(m, s, -3.4028235e38)
p:f32[B,2,4,5] = Softmax(masked) {axis=3}",
        expect![[r#"
            graph g(q:f32[B,4,6], k:f32[B,5,6], v:f32[B,5,6], m:bool[B,1,1,5]) -> (y)
            q4 = Reshape(q, [0, 4, 2, 3]:i64)  # 2
            qt = Transpose(q4) {perm=[0, 2, 1, 3]}  # 3
            k4 = Reshape(k, [0, 5, 2, 3]:i64)  # 4
            kt = Transpose(k4) {perm=[0, 2, 3, 1]}  # 5
            s = MatMul(qt, kt)  # 6
            masked = Where(m, s, -3.4028235e38)  # 7
            p = Softmax(masked) {axis=3}  # 8
            v4 = Reshape(v, [0, 5, 2, 3]:i64)  # 9
            vt = Transpose(v4) {perm=[0, 2, 1, 3]}  # 10
            o = MatMul(p, vt)  # 11
            ot = Transpose(o) {perm=[0, 2, 1, 3]}  # 12
            %0 = Where(m, 0.0, -2.3819763e38)  # 7 6 8 13
            %1 = Expand(%0, [1, 1, 4, 1]:i64)  # 13 6 7 8
            y:f32[B,4,6] = Attention(q, k, v, %1) {kv_num_heads=2, q_num_heads=2, scale=1.0}  # 11 2 3 4 5 6 7 8 9 10 12 13
        "#]],
    );
}

#[test]
fn a_mask_by_infinity_that_may_hide_a_row_is_not_fused() {
    check_scores(
        "masked:f32[B,2,4,5] = Where(m, s, -inf)
p:f32[B,2,4,5] = Softmax(masked) {axis=3}",
        expect![[r#"
            graph g(q:f32[B,4,6], k:f32[B,5,6], v:f32[B,5,6], m:bool[B,1,1,5]) -> (y)
            q4 = Reshape(q, [0, 4, 2, 3]:i64)  # 2
            qt = Transpose(q4) {perm=[0, 2, 1, 3]}  # 3
            k4 = Reshape(k, [0, 5, 2, 3]:i64)  # 4
            kt = Transpose(k4) {perm=[0, 2, 3, 1]}  # 5
            s = MatMul(qt, kt)  # 6
            masked = Where(m, s, -inf)  # 7
            p = Softmax(masked) {axis=3}  # 8
            v4 = Reshape(v, [0, 5, 2, 3]:i64)  # 9
            vt = Transpose(v4) {perm=[0, 2, 1, 3]}  # 10
            o = MatMul(p, vt)  # 11
            ot = Transpose(o) {perm=[0, 2, 1, 3]}  # 12
            y:f32[B,4,6] = Reshape(ot, [0, 4, 6]:i64)  # 13
        "#]],
    );
}

#[test]
fn a_scale_for_each_head_is_not_fused() {
    check_scores(
        "scaled:f32[B,2,4,5] = Mul(s, [[[1.0]], [[2.0]]])
p:f32[B,2,4,5] = Softmax(scaled) {axis=3}",
        expect![[r#"
            graph g(q:f32[B,4,6], k:f32[B,5,6], v:f32[B,5,6], m:bool[B,1,1,5]) -> (y)
            q4 = Reshape(q, [0, 4, 2, 3]:i64)  # 2
            qt = Transpose(q4) {perm=[0, 2, 1, 3]}  # 3
            k4 = Reshape(k, [0, 5, 2, 3]:i64)  # 4
            kt = Transpose(k4) {perm=[0, 2, 3, 1]}  # 5
            s = MatMul(qt, kt)  # 6
            scaled = Mul(s, [[[1.0]], [[2.0]]])  # 7
            p = Softmax(scaled) {axis=3}  # 8
            v4 = Reshape(v, [0, 5, 2, 3]:i64)  # 9
            vt = Transpose(v4) {perm=[0, 2, 1, 3]}  # 10
            o = MatMul(p, vt)  # 11
            ot = Transpose(o) {perm=[0, 2, 1, 3]}  # 12
            y:f32[B,4,6] = Reshape(ot, [0, 4, 6]:i64)  # 13
        "#]],
    );
}

#[test]
fn a_mask_after_the_softmax_is_not_fused() {
    check_scores(
        "soft:f32[B,2,4,5] = Softmax(s) {axis=3}
p:f32[B,2,4,5] = Where(m, soft, 0.0)",
        expect![[r#"
            graph g(q:f32[B,4,6], k:f32[B,5,6], v:f32[B,5,6], m:bool[B,1,1,5]) -> (y)
            q4 = Reshape(q, [0, 4, 2, 3]:i64)  # 2
            qt = Transpose(q4) {perm=[0, 2, 1, 3]}  # 3
            k4 = Reshape(k, [0, 5, 2, 3]:i64)  # 4
            kt = Transpose(k4) {perm=[0, 2, 3, 1]}  # 5
            s = MatMul(qt, kt)  # 6
            soft = Softmax(s) {axis=3}  # 7
            p = Where(m, soft, 0.0)  # 8
            v4 = Reshape(v, [0, 5, 2, 3]:i64)  # 9
            vt = Transpose(v4) {perm=[0, 2, 1, 3]}  # 10
            o = MatMul(p, vt)  # 11
            ot = Transpose(o) {perm=[0, 2, 1, 3]}  # 12
            y:f32[B,4,6] = Reshape(ot, [0, 4, 6]:i64)  # 13
        "#]],
    );
}

#[test]
fn a_softmax_over_the_rows_is_not_fused() {
    check_scores(
        "p:f32[B,2,4,5] = Softmax(s) {axis=2}",
        expect![[r#"
        graph g(q:f32[B,4,6], k:f32[B,5,6], v:f32[B,5,6], m:bool[B,1,1,5]) -> (y)
        q4 = Reshape(q, [0, 4, 2, 3]:i64)  # 2
        qt = Transpose(q4) {perm=[0, 2, 1, 3]}  # 3
        k4 = Reshape(k, [0, 5, 2, 3]:i64)  # 4
        kt = Transpose(k4) {perm=[0, 2, 3, 1]}  # 5
        s = MatMul(qt, kt)  # 6
        p = Softmax(s) {axis=2}  # 7
        v4 = Reshape(v, [0, 5, 2, 3]:i64)  # 8
        vt = Transpose(v4) {perm=[0, 2, 1, 3]}  # 9
        o = MatMul(p, vt)  # 10
        ot = Transpose(o) {perm=[0, 2, 1, 3]}  # 11
        y:f32[B,4,6] = Reshape(ot, [0, 4, 6]:i64)  # 12
    "#]],
    );
}
