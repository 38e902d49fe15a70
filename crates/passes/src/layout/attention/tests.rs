use crate::layout::attention::Stage;
use expect_test::{Expect, expect};

use testing::{check, check_ignoring_nan};

/// Two heads of size three over rows of four, with these nodes between the product and the softmax.
fn scores(nodes: &str) -> String {
    format!(
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
    )
}

#[track_caller]
fn check_scores(nodes: &str, expect: Expect) {
    check_ignoring_nan(
        |edit| crate::layout::attention::run(edit, Stage::Any),
        &scores(nodes),
        expect,
    );
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
fn a_mask_is_added_to_the_scores() {
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
fn a_mask_that_chooses_is_not_added_where_nan_is_exact() {
    let masked = "masked:f32[B,2,4,5] = Where(m, s, -1e9)
p:f32[B,2,4,5] = Softmax(masked) {axis=3}";
    check(
        |edit| crate::layout::attention::run(edit, Stage::Any),
        &scores(masked),
        expect![[r#"
        graph g(q:f32[B,4,6], k:f32[B,5,6], v:f32[B,5,6], m:bool[B,1,1,5]) -> (y)
        q4 = Reshape(q, [0, 4, 2, 3]:i64)  # 2
        qt = Transpose(q4) {perm=[0, 2, 1, 3]}  # 3
        k4 = Reshape(k, [0, 5, 2, 3]:i64)  # 4
        kt = Transpose(k4) {perm=[0, 2, 3, 1]}  # 5
        s = MatMul(qt, kt)  # 6
        masked = Where(m, s, -1000000000.0)  # 7
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
fn a_bias_is_added_where_nan_is_exact() {
    let added = "flags:bool[B,2,4,5] = Expand(m, [1, 2, 4, 5]:i64)
bias:f32[B,2,4,5] = Where(flags, 0.0, -3.4028235e38)
masked:f32[B,2,4,5] = Add(s, bias)
p:f32[B,2,4,5] = Softmax(masked) {axis=3}";
    check(
        |edit| crate::layout::attention::run(edit, Stage::Any),
        &scores(added),
        expect![[r#"
        graph g(q:f32[B,4,6], k:f32[B,5,6], v:f32[B,5,6], m:bool[B,1,1,5]) -> (y)
        q4 = Reshape(q, [0, 4, 2, 3]:i64)  # 2
        qt = Transpose(q4) {perm=[0, 2, 1, 3]}  # 3
        k4 = Reshape(k, [0, 5, 2, 3]:i64)  # 4
        kt = Transpose(k4) {perm=[0, 2, 3, 1]}  # 5
        s = MatMul(qt, kt)  # 6
        flags = Expand(m, [1, 2, 4, 5]:i64)  # 7
        bias = Where(flags, 0.0, -3.4028235e38)  # 8
        masked = Add(s, bias)  # 9
        p = Softmax(masked) {axis=3}  # 10
        v4 = Reshape(v, [0, 5, 2, 3]:i64)  # 11
        vt = Transpose(v4) {perm=[0, 2, 1, 3]}  # 12
        o = MatMul(p, vt)  # 13
        ot = Transpose(o) {perm=[0, 2, 1, 3]}  # 14
        %0 = Where(flags, 0.0, -2.3819763e38)  # 8 6 9 10 15
        y:f32[B,4,6] = Attention(q, k, v, %0) {kv_num_heads=2, q_num_heads=2, scale=1.0}  # 13 2 3 4 5 6 8 9 10 11 12 14 15
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

#[test]
fn weights_that_are_zero_where_scores_are_masked_take_flags() {
    check_scores(
        "masked:f32[B,2,4,5] = Where(m, s, -2.4e38)
soft:f32[B,2,4,5] = Softmax(masked) {axis=3}
p:f32[B,2,4,5] = Where(m, soft, 0.0)",
        expect![[r#"
            graph g(q:f32[B,4,6], k:f32[B,5,6], v:f32[B,5,6], m:bool[B,1,1,5]) -> (y)
            q4 = Reshape(q, [0, 4, 2, 3]:i64)  # 2
            qt = Transpose(q4) {perm=[0, 2, 1, 3]}  # 3
            k4 = Reshape(k, [0, 5, 2, 3]:i64)  # 4
            kt = Transpose(k4) {perm=[0, 2, 3, 1]}  # 5
            s = MatMul(qt, kt)  # 6
            masked = Where(m, s, -2.4e38)  # 7
            soft = Softmax(masked) {axis=3}  # 8
            p = Where(m, soft, 0.0)  # 9
            v4 = Reshape(v, [0, 5, 2, 3]:i64)  # 10
            vt = Transpose(v4) {perm=[0, 2, 1, 3]}  # 11
            o = MatMul(p, vt)  # 12
            ot = Transpose(o) {perm=[0, 2, 1, 3]}  # 13
            %0 = Expand(m, [1, 1, 4, 1]:i64)  # 14 6 7 8 9
            y:f32[B,4,6] = Attention(q, k, v, %0) {kv_num_heads=2, q_num_heads=2, scale=1.0}  # 12 2 3 4 5 6 7 8 9 10 11 13 14
        "#]],
    );
}

#[test]
fn scores_without_a_limit_may_be_below_the_number_of_masked_ones() {
    check_scores(
        "masked:f32[B,2,4,5] = Where(m, s, -1e9)
p:f32[B,2,4,5] = Softmax(masked) {axis=3}",
        expect![[r#"
            graph g(q:f32[B,4,6], k:f32[B,5,6], v:f32[B,5,6], m:bool[B,1,1,5]) -> (y)
            q4 = Reshape(q, [0, 4, 2, 3]:i64)  # 2
            qt = Transpose(q4) {perm=[0, 2, 1, 3]}  # 3
            k4 = Reshape(k, [0, 5, 2, 3]:i64)  # 4
            kt = Transpose(k4) {perm=[0, 2, 3, 1]}  # 5
            s = MatMul(qt, kt)  # 6
            masked = Where(m, s, -1000000000.0)  # 7
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
fn limited_scores_have_a_cap() {
    check_scores(
        "by_cap:f32[B,2,4,5] = Div(s, 8.0)
tanh:f32[B,2,4,5] = Tanh(by_cap)
capped:f32[B,2,4,5] = Mul(tanh, 4.0)
p:f32[B,2,4,5] = Softmax(capped) {axis=3}",
        expect![[r#"
            graph g(q:f32[B,4,6], k:f32[B,5,6], v:f32[B,5,6], m:bool[B,1,1,5]) -> (y)
            q4 = Reshape(q, [0, 4, 2, 3]:i64)  # 2
            qt = Transpose(q4) {perm=[0, 2, 1, 3]}  # 3
            k4 = Reshape(k, [0, 5, 2, 3]:i64)  # 4
            kt = Transpose(k4) {perm=[0, 2, 3, 1]}  # 5
            s = MatMul(qt, kt)  # 6
            by_cap = Div(s, 8.0)  # 7
            tanh = Tanh(by_cap)  # 8
            capped = Mul(tanh, 4.0)  # 9
            p = Softmax(capped) {axis=3}  # 10
            v4 = Reshape(v, [0, 5, 2, 3]:i64)  # 11
            vt = Transpose(v4) {perm=[0, 2, 1, 3]}  # 12
            o = MatMul(p, vt)  # 13
            ot = Transpose(o) {perm=[0, 2, 1, 3]}  # 14
            y:f32[B,4,6] = Attention(q, k, v) {kv_num_heads=2, q_num_heads=2, scale=0.5, softcap=4.0}  # 13 2 3 4 5 6 7 8 9 10 11 12 14 15
        "#]],
    );
}

#[test]
fn a_small_number_does_not_mask() {
    check_scores(
        "masked:f32[B,2,4,5] = Where([true, true, true, true, false]:bool, s, -5.0)
p:f32[B,2,4,5] = Softmax(masked) {axis=3}",
        expect![[r#"
            graph g(q:f32[B,4,6], k:f32[B,5,6], v:f32[B,5,6], m:bool[B,1,1,5]) -> (y)
            q4 = Reshape(q, [0, 4, 2, 3]:i64)  # 2
            qt = Transpose(q4) {perm=[0, 2, 1, 3]}  # 3
            k4 = Reshape(k, [0, 5, 2, 3]:i64)  # 4
            kt = Transpose(k4) {perm=[0, 2, 3, 1]}  # 5
            s = MatMul(qt, kt)  # 6
            masked = Where([true, true, true, true, false], s, -5.0)  # 7
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
fn heads_that_are_apart_stay_so() {
    check(
        |edit| crate::layout::attention::run(edit, Stage::Any),
        "graph g(q:f32[B,2,4,3], k:f32[B,2,5,3], v:f32[B,2,5,3]) -> (y)
kt:f32[B,2,3,5] = Transpose(k) {perm=[0, 1, 3, 2]}
s:f32[B,2,4,5] = MatMul(q, kt)
p:f32[B,2,4,5] = Softmax(s) {axis=3}
y:f32[B,2,4,3] = MatMul(p, v)",
        expect![[r#"
            graph g(q:f32[B,2,4,3], k:f32[B,2,5,3], v:f32[B,2,5,3]) -> (y)
            kt = Transpose(k) {perm=[0, 1, 3, 2]}  # 2
            s = MatMul(q, kt)  # 3
            p = Softmax(s) {axis=3}  # 4
            y:f32[B,2,4,3] = Attention(q, k, v) {scale=1.0}  # 5 2 3 4
        "#]],
    );
}

/// Six heads of `q` share two of `k` and `v`; both products are the other way round.
#[track_caller]
fn check_groups(axis: usize, expect: Expect) {
    let text = format!(
        "graph g(q:f32[2,4,6,3], k:f32[2,5,2,3], v:f32[2,5,2,3]) -> (y)
kt:f32[2,2,5,3] = Transpose(k) {{perm=[0, 2, 1, 3]}}
q5:f32[2,4,2,3,3] = Reshape(q, [2, 4, 2, 3, 3]:i64)
qt:f32[2,2,3,4,3] = Transpose(q5) {{perm=[0, 2, 4, 1, 3]}}
q4:f32[2,2,3,12] = Reshape(qt, [2, 2, 3, 12]:i64)
s:f32[2,2,5,12] = MatMul(kt, q4)
p:f32[2,2,5,12] = Softmax(s) {{axis={axis}}}
vt:f32[2,2,3,5] = Transpose(v) {{perm=[0, 2, 3, 1]}}
o:f32[2,2,3,12] = MatMul(vt, p)
o5:f32[2,2,3,4,3] = Reshape(o, [2, 2, 3, 4, 3]:i64)
ot:f32[2,4,2,3,3] = Transpose(o5) {{perm=[0, 3, 1, 4, 2]}}
y:f32[2,4,6,3] = Reshape(ot, [2, 4, 6, 3]:i64)"
    );
    check(|edit| crate::layout::attention::run(edit, Stage::Any), &text, expect);
}

#[test]
fn groups_among_the_rows_are_heads() {
    check_groups(
        2,
        expect![[r#"
        graph g(q:f32[2,4,6,3], k:f32[2,5,2,3], v:f32[2,5,2,3]) -> (y)
        kt = Transpose(k) {perm=[0, 2, 1, 3]}  # 2
        q5 = Reshape(q, [2, 4, 2, 3, 3]:i64)  # 3
        qt = Transpose(q5) {perm=[0, 2, 4, 1, 3]}  # 4
        q4 = Reshape(qt, [2, 2, 3, 12]:i64)  # 5
        s = MatMul(kt, q4)  # 6
        p = Softmax(s) {axis=2}  # 7
        vt = Transpose(v) {perm=[0, 2, 3, 1]}  # 8
        o = MatMul(vt, p)  # 9
        o5 = Reshape(o, [2, 2, 3, 4, 3]:i64)  # 10
        ot = Transpose(o5) {perm=[0, 3, 1, 4, 2]}  # 11
        %0 = Reshape(q, [2, 4, 18]:i64)  # 12 3 4 5
        %1 = Reshape(k, [2, 5, 6]:i64)  # 12 2
        %2 = Reshape(v, [2, 5, 6]:i64)  # 12 8
        %3 = Attention(%0, %1, %2) {kv_num_heads=2, q_num_heads=6, scale=1.0}  # 9 2 3 4 5 6 7 8 10 11 12
        y:f32[2,4,6,3] = Reshape(%3, [2, 4, 6, 3]:i64)  # 12 2 3 4 5 6 7 8 9 10 11
    "#]],
    );
}

#[test]
fn a_softmax_over_the_queries_is_not_fused() {
    check_groups(
        3,
        expect![[r#"
        graph g(q:f32[2,4,6,3], k:f32[2,5,2,3], v:f32[2,5,2,3]) -> (y)
        kt = Transpose(k) {perm=[0, 2, 1, 3]}  # 2
        q5 = Reshape(q, [2, 4, 2, 3, 3]:i64)  # 3
        qt = Transpose(q5) {perm=[0, 2, 4, 1, 3]}  # 4
        q4 = Reshape(qt, [2, 2, 3, 12]:i64)  # 5
        s = MatMul(kt, q4)  # 6
        p = Softmax(s) {axis=3}  # 7
        vt = Transpose(v) {perm=[0, 2, 3, 1]}  # 8
        o = MatMul(vt, p)  # 9
        o5 = Reshape(o, [2, 2, 3, 4, 3]:i64)  # 10
        ot = Transpose(o5) {perm=[0, 3, 1, 4, 2]}  # 11
        y:f32[2,4,6,3] = Reshape(ot, [2, 4, 6, 3]:i64)  # 12
    "#]],
    );
}

/// `k` is repeated for all heads, `v` as given.
#[track_caller]
fn check_repeated(v: &str, expect: Expect) {
    let text = format!(
        "graph g(q:f32[2,6,4,3], k:f32[2,2,1,5,3], v:f32[2,2,1,5,3], w:f32[2,1,2,5,3]) -> (y)
kr:f32[2,2,3,5,3] = Expand(k, [1, 1, 3, 1, 1]:i64)
k4:f32[2,6,5,3] = Reshape(kr, [2, 6, 5, 3]:i64)
kt:f32[2,6,3,5] = Transpose(k4) {{perm=[0, 1, 3, 2]}}
s:f32[2,6,4,5] = MatMul(q, kt)
p:f32[2,6,4,5] = Softmax(s) {{axis=3}}
{v}
v4:f32[2,6,5,3] = Reshape(vr, [2, 6, 5, 3]:i64)
y:f32[2,6,4,3] = MatMul(p, v4)"
    );
    check(|edit| crate::layout::attention::run(edit, Stage::Any), &text, expect);
}

#[test]
fn heads_repeated_for_each_group_are_read_once() {
    check_repeated(
        "vr:f32[2,2,3,5,3] = Expand(v, [1, 1, 3, 1, 1]:i64)",
        expect![[r#"
        graph g(q:f32[2,6,4,3], k:f32[2,2,1,5,3], v:f32[2,2,1,5,3], w:f32[2,1,2,5,3]) -> (y)
        kr = Expand(k, [1, 1, 3, 1, 1]:i64)  # 2
        k4 = Reshape(kr, [2, 6, 5, 3]:i64)  # 3
        kt = Transpose(k4) {perm=[0, 1, 3, 2]}  # 4
        s = MatMul(q, kt)  # 5
        p = Softmax(s) {axis=3}  # 6
        vr = Expand(v, [1, 1, 3, 1, 1]:i64)  # 7
        v4 = Reshape(vr, [2, 6, 5, 3]:i64)  # 8
        %0 = Reshape(k, [2, 2, 5, 3]:i64)  # 3 2 4 9
        %1 = Reshape(v, [2, 2, 5, 3]:i64)  # 8 7 9
        y:f32[2,6,4,3] = Attention(q, %0, %1) {scale=1.0}  # 9 2 3 4 5 6 7 8
    "#]],
    );
}

#[test]
fn interleaved_repeats_are_not_shared() {
    check_repeated(
        "vr:f32[2,3,2,5,3] = Expand(w, [1, 3, 1, 1, 1]:i64)",
        expect![[r#"
        graph g(q:f32[2,6,4,3], k:f32[2,2,1,5,3], v:f32[2,2,1,5,3], w:f32[2,1,2,5,3]) -> (y)
        kr = Expand(k, [1, 1, 3, 1, 1]:i64)  # 2
        k4 = Reshape(kr, [2, 6, 5, 3]:i64)  # 3
        kt = Transpose(k4) {perm=[0, 1, 3, 2]}  # 4
        s = MatMul(q, kt)  # 5
        p = Softmax(s) {axis=3}  # 6
        vr = Expand(w, [1, 3, 1, 1, 1]:i64)  # 7
        v4 = Reshape(vr, [2, 6, 5, 3]:i64)  # 8
        %0 = Reshape(kr, [2, 6, 5, 3]:i64)  # 3 4 9
        %1 = Reshape(vr, [2, 6, 5, 3]:i64)  # 8 9
        y:f32[2,6,4,3] = Attention(q, %0, %1) {scale=1.0}  # 9 3 4 5 6 8
    "#]],
    );
}

/// A product that the projection of the keys is, which can be had either way round.
#[track_caller]
fn check_plain(keys: &str, expect: Expect) {
    let text = format!(
        "graph g(q:f32[4,6], x:f32[6,5], v:f32[5,6], w:f32[6,6]) -> (y)
q3:f32[4,2,3] = Reshape(q, [4, 2, 3]:i64)
qt:f32[2,4,3] = Transpose(q3) {{perm=[1, 0, 2]}}
k:f32[6,5] = {keys}
k3:f32[2,3,5] = Reshape(k, [2, 3, 5]:i64)
s:f32[2,4,5] = MatMul(qt, k3)
p:f32[2,4,5] = Softmax(s) {{axis=2}}
v3:f32[5,2,3] = Reshape(v, [5, 2, 3]:i64)
vt:f32[2,5,3] = Transpose(v3) {{perm=[1, 0, 2]}}
o:f32[2,4,3] = MatMul(p, vt)
ot:f32[4,2,3] = Transpose(o) {{perm=[1, 0, 2]}}
y:f32[4,6] = Reshape(ot, [4, 6]:i64)"
    );
    check(|edit| crate::layout::attention::run(edit, Stage::Plain), &text, expect);
}

#[test]
fn a_product_may_still_be_transposed() {
    check_plain(
        "MatMul(w, x)",
        expect![[r#"
        graph g(q:f32[4,6], x:f32[6,5], v:f32[5,6], w:f32[6,6]) -> (y)
        q3 = Reshape(q, [4, 2, 3]:i64)  # 2
        qt = Transpose(q3) {perm=[1, 0, 2]}  # 3
        k = MatMul(w, x)  # 4
        k3 = Reshape(k, [2, 3, 5]:i64)  # 5
        s = MatMul(qt, k3)  # 6
        p = Softmax(s) {axis=2}  # 7
        v3 = Reshape(v, [5, 2, 3]:i64)  # 8
        vt = Transpose(v3) {perm=[1, 0, 2]}  # 9
        o = MatMul(p, vt)  # 10
        ot = Transpose(o) {perm=[1, 0, 2]}  # 11
        %0 = Reshape(q, [1, 4, 6]:i64)  # 12 2 3
        %1 = Transpose(k) {perm=[1, 0]}  # 12 5
        %2 = Reshape(%1, [1, 5, 6]:i64)  # 12 5
        %3 = Reshape(v, [1, 5, 6]:i64)  # 12 8 9
        %4 = Attention(%0, %2, %3) {kv_num_heads=2, q_num_heads=2, scale=1.0}  # 10 2 3 5 6 7 8 9 11 12
        y:f32[4,6] = Reshape(%4, [4, 6]:i64)  # 12 2 3 5 6 7 8 9 10 11
    "#]],
    );
}

#[test]
fn heads_that_no_product_makes_are_left_until_layout_ops_are_merged() {
    check_plain(
        "Tanh(x)",
        expect![[r#"
        graph g(q:f32[4,6], x:f32[6,5], v:f32[5,6], w:f32[6,6]) -> (y)
        q3 = Reshape(q, [4, 2, 3]:i64)  # 2
        qt = Transpose(q3) {perm=[1, 0, 2]}  # 3
        k = Tanh(x)  # 4
        k3 = Reshape(k, [2, 3, 5]:i64)  # 5
        s = MatMul(qt, k3)  # 6
        p = Softmax(s) {axis=2}  # 7
        v3 = Reshape(v, [5, 2, 3]:i64)  # 8
        vt = Transpose(v3) {perm=[1, 0, 2]}  # 9
        o = MatMul(p, vt)  # 10
        ot = Transpose(o) {perm=[1, 0, 2]}  # 11
        y:f32[4,6] = Reshape(ot, [4, 6]:i64)  # 12
    "#]],
    );
}

/// Two heads of size three for which one array has `q`, `k` and `v`, one of which is picked here.
#[track_caller]
fn check_stacked(pick: &str, expect: Expect) {
    let text = format!(
        "graph g(x:f32[B,4,18]) -> (y)
x5:f32[B,4,3,2,3] = Reshape(x, [0, 4, 3, 2, 3]:i64)
xt:f32[3,B,2,4,3] = Transpose(x5) {{perm=[2, 0, 3, 1, 4]}}
q:f32[B,2,4,3] = Gather(xt, 0:i64) {{axis=0}}
k:f32[B,2,4,3] = {pick}
kt:f32[B,2,3,4] = Transpose(k) {{perm=[0, 1, 3, 2]}}
s:f32[B,2,4,4] = MatMul(q, kt)
p:f32[B,2,4,4] = Softmax(s) {{axis=3}}
v:f32[B,2,4,3] = Gather(xt, 2:i64) {{axis=0}}
o:f32[B,2,4,3] = MatMul(p, v)
ot:f32[B,4,2,3] = Transpose(o) {{perm=[0, 2, 1, 3]}}
y:f32[B,4,6] = Reshape(ot, [0, 4, 6]:i64)"
    );
    check(|edit| crate::layout::attention::run(edit, Stage::Any), &text, expect);
}

#[test]
fn parts_of_one_array_are_split() {
    check_stacked(
        "Gather(xt, 1:i64) {axis=0}",
        expect![[r#"
        graph g(x:f32[B,4,18]) -> (y)
        x5 = Reshape(x, [0, 4, 3, 2, 3]:i64)  # 2
        xt = Transpose(x5) {perm=[2, 0, 3, 1, 4]}  # 3
        q = Gather(xt, 0:i64) {axis=0}  # 4
        k = Gather(xt, 1:i64) {axis=0}  # 5
        kt = Transpose(k) {perm=[0, 1, 3, 2]}  # 6
        s = MatMul(q, kt)  # 7
        p = Softmax(s) {axis=3}  # 8
        v = Gather(xt, 2:i64) {axis=0}  # 9
        o = MatMul(p, v)  # 10
        ot = Transpose(o) {perm=[0, 2, 1, 3]}  # 11
        %0, %1, %2 = Split(x, [6, 6, 6]:i64) {axis=2}  # 12 2 3 4 5 9
        y:f32[B,4,6] = Attention(%0, %1, %2) {kv_num_heads=2, q_num_heads=2, scale=1.0}  # 10 2 3 4 5 6 7 8 9 11 12
    "#]],
    );
}

#[test]
fn a_part_that_is_read_twice_is_picked() {
    check_stacked(
        "Gather(xt, 2:i64) {axis=0}",
        expect![[r#"
        graph g(x:f32[B,4,18]) -> (y)
        x5 = Reshape(x, [0, 4, 3, 2, 3]:i64)  # 2
        xt = Transpose(x5) {perm=[2, 0, 3, 1, 4]}  # 3
        q = Gather(xt, 0:i64) {axis=0}  # 4
        k = Gather(xt, 2:i64) {axis=0}  # 5
        kt = Transpose(k) {perm=[0, 1, 3, 2]}  # 6
        s = MatMul(q, kt)  # 7
        p = Softmax(s) {axis=3}  # 8
        v = Gather(xt, 2:i64) {axis=0}  # 9
        o = MatMul(p, v)  # 10
        ot = Transpose(o) {perm=[0, 2, 1, 3]}  # 11
        %0 = Attention(q, k, v) {scale=1.0}  # 10 6 7 8 11 12
        %1 = Transpose(%0) {perm=[0, 2, 1, 3]}  # 11 6 7 8 10 12
        y:f32[B,4,6] = Reshape(%1, [0, 4, 6]:i64)  # 12 6 7 8 10 11
    "#]],
    );
}
