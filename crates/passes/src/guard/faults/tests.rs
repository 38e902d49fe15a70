use expect_test::{Expect, expect};

use super::FAULTS;
use testing::check_model;

#[track_caller]
fn check(text: &str, expect: Expect) {
    check_model(super::run, text, expect);
}

#[test]
fn a_transposed_matrix_times_a_vector_is_the_vector_times_the_matrix() {
    check(
        "graph g(a:f32[2,3], v:f32[2]) -> (y)
%0:f32[3,2] = Transpose(a) {perm=[1, 0]}
y:f32[3] = MatMul(%0, v)",
        expect![[r#"
            graph g(a:f32[2,3], v:f32[2]) -> (y)
            y:f32[3] = MatMul(v, a)  # 3 2
        "#]],
    );
}

#[test]
fn a_matrix_times_a_vector_is_a_product_with_a_column_if_there_is_a_transpose() {
    check(
        "graph g(a:f32[B,2,3], v:f32[2]) -> (y)
%0:f32[B,3,2] = Transpose(a) {perm=[0, 2, 1]}
%1:f32[B,3,2] = Tanh(%0)
y:f32[B,3] = MatMul(%1, v)",
        expect![[r#"
            graph g(a:f32[B,2,3], v:f32[2]) -> (y)
            %0 = Transpose(a) {perm=[0, 2, 1]}  # 2
            %1 = Tanh(%0)  # 3
            %2 = Reshape(v, [2, 1]:i64)  # 4
            %3 = MatMul(%1, %2)  # 4
            y:f32[B,3] = Reshape(%3, [0, 3]:i64)  # 4
        "#]],
    );
}

#[test]
fn a_matrix_times_a_vector_is_kept_if_there_is_no_transpose() {
    check(
        "graph g(a:f32[3,2], v:f32[2]) -> (y)
y:f32[3] = MatMul(a, v)",
        expect![[r#"
            graph g(a:f32[3,2], v:f32[2]) -> (y)
            y:f32[3] = MatMul(a, v)  # 2
        "#]],
    );
}

#[test]
fn a_product_transposes_doubles_itself() {
    check(
        "graph g(a:f64[2,3], b:f64[2,3]) -> (y)
%0:f64[3,2] = Transpose(a) {perm=[1, 0]}
y:f64[3,3] = MatMul(%0, b)",
        expect![[r#"
            graph g(a:f64[2,3], b:f64[2,3]) -> (y)
            y:f64[3,3] = Gemm(a, b) {transA=1}  # 3
        "#]],
    );
}

#[test]
fn a_cast_of_a_batch_that_is_moved_is_kept_apart_from_the_product() {
    check(
        "graph g(a:f16[2,3,4], c:f32[4,5], d:f32[3,5]) -> (y, z)
%0:f16[3,2,4] = Transpose(a) {perm=[1, 0, 2]}
%1:f32[3,2,4] = Cast(%0) {to=1}
y:f32[3,2,5] = MatMul(%1, c)
%2:f16[2,4,3] = Transpose(a) {perm=[0, 2, 1]}
%3:f32[2,4,3] = Cast(%2) {to=1}
z:f32[2,4,5] = MatMul(%3, d)",
        expect![[r#"
            graph g(a:f16[2,3,4], c:f32[4,5], d:f32[3,5]) -> (y, z)
            %0 = Transpose(a) {perm=[1, 0, 2]}  # 2
            %1 = Cast(%0) {to=1}  # 3
            %2 = Max(%1)  # 3
            y:f32[3,2,5] = MatMul(%2, c)  # 4
            %3 = Transpose(a) {perm=[0, 2, 1]}  # 5
            %4 = Cast(%3) {to=1}  # 6
            z:f32[2,4,5] = MatMul(%4, d)  # 7
        "#]],
    );
}

#[test]
fn a_batch_that_a_function_casts_is_kept_apart_from_the_product() {
    check(
        "graph g(a:f16[2,3,4], c:f32[4,5]) -> (y, z)
%0:f16[3,2,4] = Transpose(a) {perm=[1, 0, 2]}
y:f32[3,2,5] = custom::f(%0, c)
%1:f16[2,4,3] = Transpose(a) {perm=[0, 2, 1]}
z:f16[2,4,3] = Sin(%1)
function custom::f(b:f16[3,2,4], d:f32[4,5]) -> (w)
%2:f32[3,2,4] = Cast(b) {to=1}
w:f32[3,2,5] = MatMul(%2, d)",
        expect![[r#"
            graph g(a:f16[2,3,4], c:f32[4,5]) -> (y, z)
            %0 = Transpose(a) {perm=[1, 0, 2]}  # 2
            %1 = Max(%0)  # 2
            y:f32[3,2,5] = custom::f(%1, c)  # 3
            %2 = Transpose(a) {perm=[0, 2, 1]}  # 4
            z:f16[2,4,3] = Sin(%2)  # 5
            function custom::f(b:f16[3,2,4], d:f32[4,5]) -> (w)
            %3 = Cast(b) {to=1}  # 7
            w:f32[3,2,5] = MatMul(%3, d)  # 8
        "#]],
    );
}

#[test]
fn a_batch_that_may_be_empty_is_kept_apart_from_the_product() {
    check(
        "graph g(a:f32[B,3,4], b:f32[2,3,4], c:f32[4,5]) -> (y, z, w)
%0:f32[3,B,4] = Transpose(a) {perm=[1, 0, 2]}
y:f32[3,B,5] = MatMul(%0, c)
%1:f32[3,2,4] = Transpose(b) {perm=[1, 0, 2]}
z:f32[3,2,5] = MatMul(%1, c)
%2:f32[B,4,3] = Transpose(a) {perm=[0, 2, 1]}
%3:f32[B,4,4] = MatMul(%2, a)
w:f32[B,4,5] = MatMul(%3, c)",
        expect![[r#"
            graph g(a:f32[B,3,4], b:f32[2,3,4], c:f32[4,5]) -> (y, z, w)
            %0 = Transpose(a) {perm=[1, 0, 2]}  # 2
            %1 = Max(%0)  # 2
            y:f32[3,B,5] = MatMul(%1, c)  # 3
            %2 = Transpose(b) {perm=[1, 0, 2]}  # 4
            z:f32[3,2,5] = MatMul(%2, c)  # 5
            %3 = Transpose(a) {perm=[0, 2, 1]}  # 6
            %4 = MatMul(%3, a)  # 7
            w:f32[B,4,5] = MatMul(%4, c)  # 8
        "#]],
    );
}

#[test]
fn one_divided_by_an_integer_is_kept_apart_from_the_product() {
    check(
        "graph g(x:i32[3], y:i32[3]) -> (z)
%0:i32[3] = Div(1:i32, x)
z:i32[3] = Mul(%0, y)",
        expect![[r#"
            graph g(x:i32[3], y:i32[3]) -> (z)
            %0 = Div(1:i32, x)  # 2
            %1 = Max(%0)  # 2
            z:i32[3] = Mul(%1, y)  # 3
        "#]],
    );
}

#[test]
fn one_divided_by_a_float_is_its_reciprocal_if_it_is_multiplied() {
    check(
        "graph g(x:f32[3], y:f32[3]) -> (z, w)
%0:f32[3] = Div(1.0, x)
z:f32[3] = Mul(%0, y)
%1:f32[3] = Div(1.0, y)
w:f32[3] = Add(%1, y)",
        expect![[r#"
            graph g(x:f32[3], y:f32[3]) -> (z, w)
            %0 = Reciprocal(x)  # 2
            z:f32[3] = Mul(%0, y)  # 3
            %1 = Div(1.0, y)  # 4
            w:f32[3] = Add(%1, y)  # 5
        "#]],
    );
}

#[test]
fn a_number_has_no_higher_rank_than_what_it_scales() {
    check(
        "graph g(x:f32[3], y:f32[B]) -> (z, w)
z:f32[1,1,3] = Mul(x, [[[2.0]]])
w:f32[1,B] = Div([[1.0]], y)",
        expect![[r#"
            graph g(x:f32[3], y:f32[B]) -> (z, w)
            %0 = Mul(x, 2.0)  # 2
            z:f32[1,1,3] = Reshape(%0, [1, 1, 3]:i64)  # 2
            %1 = Div(1.0, y)  # 3
            w:f32[1,B] = Reshape(%1, [1, -1]:i64)  # 3
        "#]],
    );
}

#[test]
fn a_factor_that_float32_does_not_have_is_kept_apart_from_a_product_of_doubles() {
    check(
        "graph g(a:f64[2,2], b:f64[2,2]) -> (y, z)
%0:f64[2,2] = Mul(a, 0.9:f64)
y:f64[2,2] = MatMul(%0, b)
%1:f64[2,2] = MatMul(a, b)
z:f64[2,2] = Div(%1, 3.0:f64)",
        expect![[r#"
            graph g(a:f64[2,2], b:f64[2,2]) -> (y, z)
            %0 = Mul(a, 0.9:f64)  # 2
            %1 = Max(%0)  # 3
            y:f64[2,2] = MatMul(%1, b)  # 3
            %2 = MatMul(a, b)  # 4
            %3 = Max(%2)  # 5
            z:f64[2,2] = Div(%3, 3.0:f64)  # 5
        "#]],
    );
}

#[test]
fn a_factor_that_float32_has_and_a_factor_of_floats_are_kept() {
    check(
        "graph g(a:f64[2,2], b:f64[2,2], c:f32[2,2]) -> (y, z)
%0:f64[2,2] = Mul(a, 0.5:f64)
%1:f64[2,2] = MatMul(%0, b)
y:f64[2,2] = Mul(3.0:f64, %1)
%2:f32[2,2] = MatMul(c, c)
z:f32[2,2] = Mul(%2, 0.9)",
        expect![[r#"
            graph g(a:f64[2,2], b:f64[2,2], c:f32[2,2]) -> (y, z)
            %0 = Mul(a, 0.5:f64)  # 2
            %1 = MatMul(%0, b)  # 3
            y:f64[2,2] = Mul(3.0:f64, %1)  # 4
            %2 = MatMul(c, c)  # 5
            z:f32[2,2] = Mul(%2, 0.9)  # 6
        "#]],
    );
}

#[test]
fn a_transpose_of_integers_that_have_no_max_is_kept() {
    check(
        "graph g(a:i16[2,N,4], b:f32[2,2]) -> (y, z)
y:i16[N,4,2] = Transpose(a) {perm=[1, 2, 0]}
z:f32[2,2] = MatMul(b, b)",
        expect![[r#"
            graph g(a:i16[2,N,4], b:f32[2,2]) -> (y, z)
            y:i16[N,4,2] = Transpose(a) {perm=[1, 2, 0]}  # 2
            z:f32[2,2] = MatMul(b, b)  # 3
        "#]],
    );
}

#[test]
fn a_sum_of_nothing_is_an_empty_constant() {
    check(
        "graph g(x:f32[1,1], y:f32[0,3]) -> (z)
%0:f32[0,3] = Add(x, y)
z:f32[0,3] = Tanh(%0)",
        expect![[r#"
            graph g(x:f32[1,1], y:f32[0,3]) -> (z)
            z:f32[0,3] = Tanh(const f32[0,3])  # 3
        "#]],
    );
}

#[test]
fn a_transpose_is_kept_apart_from_a_sum_that_may_be_empty() {
    check(
        "graph g(a:f32[N,3], b:f32[N,3]) -> (y, z)
%0:f32[3,N] = Transpose(a) {perm=[1, 0]}
y:f32[3,3] = MatMul(%0, b)
%1:f32[3,N] = Transpose(b) {perm=[1, 0]}
z:f32[N,N] = MatMul(a, %1)",
        expect![[r#"
            graph g(a:f32[N,3], b:f32[N,3]) -> (y, z)
            %0 = Transpose(a) {perm=[1, 0]}  # 2
            %1 = Max(%0)  # 2
            y:f32[3,3] = MatMul(%1, b)  # 3
            %2 = Transpose(b) {perm=[1, 0]}  # 4
            z:f32[N,N] = MatMul(a, %2)  # 5
        "#]],
    );
}

#[test]
fn a_cast_of_a_transpose_is_kept_apart_from_a_sum_that_may_be_empty() {
    check(
        "graph g(a:f16[N,3], b:f32[N,3], c:f32[3,N]) -> (y, z, w)
%0:f16[3,N] = Transpose(a) {perm=[1, 0]}
%1:f32[3,N] = Cast(%0) {to=1}
y:f32[3,3] = MatMul(%1, b)
%2:f16[3,N] = Transpose(a) {perm=[1, 0]}
%3:f32[3,N] = Cast(%2) {to=1}
z:f32[N,N] = MatMul(b, %3)
w:f32[3,N] = Add(c, %3)",
        expect![[r#"
            graph g(a:f16[N,3], b:f32[N,3], c:f32[3,N]) -> (y, z, w)
            %0 = Transpose(a) {perm=[1, 0]}  # 2
            %1 = Cast(%0) {to=1}  # 3
            %2 = Max(%1)  # 3
            y:f32[3,3] = MatMul(%2, b)  # 4
            %3 = Transpose(a) {perm=[1, 0]}  # 5
            %4 = Cast(%3) {to=1}  # 6
            %5 = Max(%4)  # 6
            z:f32[N,N] = MatMul(b, %5)  # 7
            w:f32[3,N] = Add(c, %5)  # 8
        "#]],
    );
}

#[test]
fn an_infinite_factor_is_kept_apart_from_the_product() {
    check(
        "graph g(x:f32[2,2], y:f32[2,2]) -> (z)
%0:f32[2,2] = Mul(x, inf)
z:f32[2,2] = MatMul(%0, y)",
        expect![[r#"
            graph g(x:f32[2,2], y:f32[2,2]) -> (z)
            %0 = Mul(x, inf)  # 2
            %1 = Max(%0)  # 2
            z:f32[2,2] = MatMul(%1, y)  # 3
        "#]],
    );
}

#[test]
fn an_infinite_factor_of_a_product_is_kept_apart_from_it() {
    check(
        "graph g(x:f64[2,2], y:f64[2,2]) -> (z, w)
%0:f64[2,2] = MatMul(x, y)
z:f64[2,2] = Mul(%0, inf:f64)
%1:f64[2,2] = MatMul(y, x)
w:f64[2,2] = Mul(%1, 2.0:f64)",
        expect![[r#"
            graph g(x:f64[2,2], y:f64[2,2]) -> (z, w)
            %0 = MatMul(x, y)  # 2
            %1 = Max(%0)  # 3
            %2 = Mul(%1, inf:f64)  # 3
            z:f64[2,2] = Max(%2)  # 3
            %3 = MatMul(y, x)  # 4
            w:f64[2,2] = Mul(%3, 2.0:f64)  # 5
        "#]],
    );
}

#[test]
fn the_relu_of_doubles_before_a_clip_is_a_maximum() {
    check(
        "graph g(x:f64[2]) -> (y)
%0:f64[2] = Relu(x)
y:f64[2] = Clip(%0, -1.0:f64, 2.0:f64)",
        expect![[r#"
            graph g(x:f64[2]) -> (y)
            %0 = Max(x, 0.0:f64)  # 2
            y:f64[2] = Clip(%0, -1.0:f64, 2.0:f64)  # 3
        "#]],
    );
}

#[test]
fn zeros_around_an_array_are_kept_apart_from_a_pool_and_not_from_a_convolution() {
    check(
        "graph g(x:f32[1,3,6,6], w:f32[4,3,3,3]) -> (y, z)
%0:f32[1,3,8,8] = Pad(x, [0, 0, 1, 1, 0, 0, 1, 1]:i64, 0.0)
y:f32[1,3,7,7] = MaxPool(%0) {kernel_shape=[2, 2]}
%1:f32[1,3,8,8] = Pad(x, [0, 0, 1, 1, 0, 0, 1, 1]:i64, 0.0)
z:f32[1,4,6,6] = Conv(%1, w) {kernel_shape=[3, 3]}",
        expect![[r#"
            graph g(x:f32[1,3,6,6], w:f32[4,3,3,3]) -> (y, z)
            %0 = Pad(x, [0, 0, 1, 1, 0, 0, 1, 1]:i64, 0.0)  # 2
            %1 = Max(%0)  # 2
            y:f32[1,3,7,7] = MaxPool(%1) {kernel_shape=[2, 2]}  # 3
            %2 = Pad(x, [0, 0, 1, 1, 0, 0, 1, 1]:i64, 0.0)  # 4
            z:f32[1,4,6,6] = Conv(%2, w) {kernel_shape=[3, 3]}  # 5
        "#]],
    );
}

#[test]
fn a_cast_and_back_without_a_loss_is_dropped() {
    check(
        "graph g(x:u16[3], y:f32[3]) -> (z, w)
%0:i32[3] = Cast(x) {to=6}
%1:u16[3] = Cast(%0) {to=4}
z:i64[3] = Cast(%1) {to=7}
%2:f16[3] = Cast(y) {to=10}
%3:f32[3] = Cast(%2) {to=1}
w:f32[3] = Tanh(%3)",
        expect![[r#"
            graph g(x:u16[3], y:f32[3]) -> (z, w)
            z:i64[3] = Cast(x) {to=7}  # 4 2 3
            %0 = Cast(y) {to=10}  # 5
            %1 = Cast(%0) {to=1}  # 6
            w:f32[3] = Tanh(%1)  # 7
        "#]],
    );
}

#[test]
fn an_expand_to_nothing_is_a_constant() {
    check(
        "graph g(x:f32[6,1], z:f32[6,3]) -> (y)
%0:f32[6,0] = Expand(x, [6, 0]:i64)
y:f32[6,3] = Concat(%0, z) {axis=1}",
        expect![[r#"
            graph g(x:f32[6,1], z:f32[6,3]) -> (y)
            y:f32[6,3] = Concat(const f32[6,0], z) {axis=1}  # 3
        "#]],
    );
}

#[test]
fn an_expand_of_an_axis_to_nothing_is_a_slice() {
    check(
        "graph g(x:f32[N,1]) -> (y, z, w)
y:f32[N,0] = Expand(x, [0]:i64)
z:f32[2,N,0] = Expand(x, [2, 1, 0]:i64)
w:f32[2,N,1] = Expand(x, [2, 1, 1]:i64)",
        expect![[r#"
            graph g(x:f32[N,1]) -> (y, z, w)
            y:f32[N,0] = Slice(x, [0]:i64, [0]:i64, [1]:i64)  # 2
            %0 = Slice(x, [0]:i64, [0]:i64, [1]:i64)  # 3
            z:f32[2,N,0] = Expand(%0, [2, 1, 0]:i64)  # 3
            w:f32[2,N,1] = Expand(x, [2, 1, 1]:i64)  # 4
        "#]],
    );
}

#[test]
fn a_pad_names_all_axes() {
    check(
        "graph g(x:f32[2,3]) -> (y)
y:f32[2,6] = Pad(x, [1, 2]:i64, 0.0, [-1]:i64)",
        expect![[r#"
            graph g(x:f32[2,3]) -> (y)
            y:f32[2,6] = Pad(x, [0, 1, 0, 2]:i64, 0.0)  # 2
        "#]],
    );
}

#[test]
fn a_form_that_a_call_completes_is_avoided() {
    check(
        "graph g(x:i32[3], y:i32[3]) -> (z)
%0:i32[3] = Div(1:i32, x)
z:i32[3] = custom::f(%0, y)
function custom::f(a, b) -> (c)
c:i32[3] = Mul(a, b)",
        expect![[r#"
            graph g(x:i32[3], y:i32[3]) -> (z)
            %0 = Div(1:i32, x)  # 2
            %1 = Max(%0)  # 2
            z:i32[3] = custom::f(%1, y)  # 3
            function custom::f(a, b) -> (c)
            c:i32[3] = Mul(a, b)  # 5
        "#]],
    );
}

#[test]
fn the_page_on_faults_shows_every_one() {
    let page = include_str!("../../../../../docs/runtime-faults.md");
    for fault in FAULTS {
        let row = format!(
            "| {} | {} | {} | {} | {} |",
            fault.form, fault.optimizer, fault.versions, fault.result, fault.instead
        );
        assert!(page.contains(&row), "docs/runtime-faults.md lacks the row\n{row}");
    }
}

#[test]
fn the_error_function_of_nan_is_chosen_apart_unless_a_factor_is_nan_too() {
    check_model(
        super::run,
        "graph g(x:f32[3], b:f32[3]) -> (y, z)
y:f32[3] = Erf(x)
%0:f32[3] = Div(b, 1.5)
%1:f32[3] = Erf(%0)
%2:f32[3] = Add(%1, 1.0)
%3:f32[3] = Mul(b, 0.5)
z:f32[3] = Mul(%3, %2)",
        expect![[r#"
            graph g(x:f32[3], b:f32[3]) -> (y, z)
            %0 = IsNaN(x)  # 2
            %1 = Erf(x)  # 2
            y:f32[3] = Where(%0, x, %1)  # 2
            %2 = Div(b, 1.5)  # 3
            %3 = Erf(%2)  # 4
            %4 = Add(%3, 1.0)  # 5
            %5 = Mul(b, 0.5)  # 6
            z:f32[3] = Mul(%5, %4)  # 7
        "#]],
    );
}

#[test]
fn an_empty_result_is_an_empty_constant() {
    check_model(
        super::run,
        "graph g(x:f32[0]) -> (y)
%0:f32[0] = Mul(x, 2.0)
y:f32[0] = Add(%0, 1.0)",
        expect![[r#"
            graph g(x:f32[0]) -> (y)
            y:f32[0] = Identity([]:f32)  # 3 2
        "#]],
    );
}

#[test]
fn a_product_that_broadcasts_a_matrix_and_may_sum_nothing_is_chosen_by_size() {
    check(
        "graph g(a:f32[4,N], b:f32[B,N,5], c:f32[1,4,N], d:f32[2,4,N], e:f32[B,2,N,5]) -> (x, y, z)
x:f32[B,4,5] = MatMul(a, b)
y:f32[B,4,5] = MatMul(c, b)
z:f32[B,2,4,5] = MatMul(d, e)",
        expect![[r#"
            graph g(a:f32[4,N], b:f32[B,N,5], c:f32[1,4,N], d:f32[2,4,N], e:f32[B,2,N,5]) -> (x, y, z)
            %0 = Shape(a) {end=2, start=1}  # 2
            %1 = Greater(%0, [0]:i64)  # 2
            %2 = MatMul(a, b)  # 2
            x:f32[B,4,5] = Where(%1, %2, 0.0)  # 2
            %3 = Reshape(c, [4, -1]:i64)  # 3
            %4 = Shape(%3) {end=2, start=1}  # 3
            %5 = Greater(%4, [0]:i64)  # 3
            %6 = MatMul(%3, b)  # 3
            y:f32[B,4,5] = Where(%5, %6, 0.0)  # 3
            %7 = Shape(d) {end=3, start=2}  # 4
            %8 = Greater(%7, [0]:i64)  # 4
            %9 = MatMul(d, e)  # 4
            z:f32[B,2,4,5] = Where(%8, %9, 0.0)  # 4
        "#]],
    );
}

#[test]
fn a_product_that_broadcasts_a_unit_axis_and_may_sum_nothing_is_expanded() {
    check(
        "graph g(a:f32[B,1,4,N], b:f32[2,N,5], c:f32[B,2,N,5], d:f32[1,1,4,N], e:f32[B,2,4,N]) -> (x, y, z, w)
x:f32[B,2,4,5] = MatMul(a, b)
y:f32[B,2,4,5] = MatMul(a, c)
z:f32[1,2,4,5] = MatMul(d, b)
w:f32[B,2,4,5] = MatMul(e, b)",
        expect![[r#"
            graph g(a:f32[B,1,4,N], b:f32[2,N,5], c:f32[B,2,N,5], d:f32[1,1,4,N], e:f32[B,2,4,N]) -> (x, y, z, w)
            %0 = Expand(a, [1, 2, 1, 1]:i64)  # 2
            x:f32[B,2,4,5] = MatMul(%0, b)  # 2
            %1 = Expand(a, [1, 2, 1, 1]:i64)  # 3
            y:f32[B,2,4,5] = MatMul(%1, c)  # 3
            %2 = Expand(d, [1, 2, 1, 1]:i64)  # 4
            z:f32[1,2,4,5] = MatMul(%2, b)  # 4
            w:f32[B,2,4,5] = MatMul(e, b)  # 5
        "#]],
    );
}

#[test]
fn a_product_with_a_vector_that_may_sum_nothing_is_one_with_a_column() {
    check(
        "graph g(a:f32[4,N], v:f32[N], b:f32[B,N,5]) -> (x, y)
x:f32[4] = MatMul(a, v)
y:f32[B,5] = MatMul(v, b)",
        expect![[r#"
            graph g(a:f32[4,N], v:f32[N], b:f32[B,N,5]) -> (x, y)
            %0 = Reshape(v, [0, 1]:i64)  # 2
            %1 = MatMul(a, %0)  # 2
            x:f32[4] = Reshape(%1, [4]:i64)  # 2
            %2 = Shape(v) {end=1, start=0}  # 3
            %3 = Greater(%2, [0]:i64)  # 3
            %4 = MatMul(v, b)  # 3
            y:f32[B,5] = Where(%3, %4, 0.0)  # 3
        "#]],
    );
}

#[test]
fn a_product_that_does_not_broadcast_its_left_operand_may_sum_nothing() {
    check(
        "graph g(a:f32[B,4,N], b:f32[N,5], c:f32[B,N,5], d:f32[1,N,5], v:f32[N], e:f32[3,4], f:f32[B,4,5]) -> (x, y, z, w, u)
x:f32[B,4,5] = MatMul(a, b)
y:f32[B,4,5] = MatMul(a, c)
z:f32[B,4,5] = MatMul(a, d)
w:f32[5] = MatMul(v, b)
u:f32[B,3,5] = MatMul(e, f)",
        expect![[r#"
            graph g(a:f32[B,4,N], b:f32[N,5], c:f32[B,N,5], d:f32[1,N,5], v:f32[N], e:f32[3,4], f:f32[B,4,5]) -> (x, y, z, w, u)
            x:f32[B,4,5] = MatMul(a, b)  # 2
            y:f32[B,4,5] = MatMul(a, c)  # 3
            z:f32[B,4,5] = MatMul(a, d)  # 4
            w:f32[5] = MatMul(v, b)  # 5
            u:f32[B,3,5] = MatMul(e, f)  # 6
        "#]],
    );
}
