use expect_test::expect;

use testing::{check, formulas};

#[test]
fn a_sum_over_the_number_of_its_elements_is_a_mean() {
    check(
        formulas(&super::MEANS),
        "graph g(x:f32[2,3]) -> (y)
%0:f32[2] = ReduceSum(x, [1]:i64) {keepdims=0}
y:f32[2] = Div(%0, 3.0)",
        expect![[r#"
            graph g(x:f32[2,3]) -> (y)
            y:f32[2] = ReduceMean(x, [1]:i64) {keepdims=0}  # 3 2
        "#]],
    );
}

#[test]
fn a_size_that_the_graph_computes_is_a_number_of_elements_too() {
    check(
        formulas(&super::MEANS),
        "graph g(x:f32[B,4,C]) -> (y)
%0:i64[1] = Shape(x) {end=1, start=0}
%1:i64[] = Squeeze(%0, [0]:i64)
%2:i64[] = Mul(%1, 4:i64)
%3:f32[] = Cast(%2) {to=1}
%4:f32[C] = ReduceSum(x, [0, 1]:i64) {keepdims=0}
y:f32[C] = Div(%4, %3)",
        expect![[r#"
            graph g(x:f32[B,4,C]) -> (y)
            y:f32[C] = ReduceMean(x, [0, 1]:i64) {keepdims=0}  # 7 2 3 4 5 6
        "#]],
    );
}

#[test]
fn another_size_is_not_equal_and_a_difference_may_be_zero() {
    check(
        formulas(&super::MEANS),
        "graph g(x:f32[B,C], z:f32[B - 1]) -> (y, w)
%0:i64[1] = Shape(x) {end=2, start=1}
%1:f32[1] = Cast(%0) {to=1}
%2:f32[1,C] = ReduceSum(x, [0]:i64) {keepdims=1}
y:f32[1,C] = Div(%2, %1)
%3:i64[1] = Shape(z) {end=1, start=0}
%4:f32[1] = Cast(%3) {to=1}
%5:f32[1] = ReduceSum(z, [0]:i64) {keepdims=1}
w:f32[1] = Div(%5, %4)",
        expect![[r#"
            graph g(x:f32[B,C], z:f32[B - 1]) -> (y, w)
            %0 = Shape(x) {end=2, start=1}  # 2
            %1 = Cast(%0) {to=1}  # 3
            %2 = ReduceSum(x, [0]:i64) {keepdims=1}  # 4
            y:f32[1,C] = Div(%2, %1)  # 5
            w:f32[1] = ReduceMean(z, [0]:i64) {keepdims=1}  # 9 6 7 8
        "#]],
    );
}

/// `x − mean`, its mean square, and the root of the mean square.
const TWO_PASS: &str = "%0:f32[2,1] = ReduceMean(x, [1]:i64) {keepdims=1}
%1:f32[2,3] = Sub(x, %0)
%2:f32[2,3] = Mul(%1, %1)
%3:f32[2,1] = ReduceMean(%2, [1]:i64) {keepdims=1}
%4:f32[2,1] = Add(%3, 0.00001)
%5:f32[2,1] = Sqrt(%4)
";

#[test]
fn a_deviation_over_the_root_of_the_variance_is_a_layer_norm() {
    check(
        formulas(&super::STAGES),
        &format!("graph g(x:f32[2,3]) -> (y)\n{TWO_PASS}y:f32[2,3] = Div(%1, %5)"),
        expect![[r#"
            graph g(x:f32[2,3]) -> (y)
            y:f32[2,3] = LayerNormalization(x, [1.0, 1.0, 1.0]) {axis=1, epsilon=1e-5}  # 8 2 3 4 5 6 7
        "#]],
    );
}

#[test]
fn the_scale_may_be_anywhere_in_the_product() {
    check(
        formulas(&super::STAGES),
        &format!(
            "graph g(x:f32[2,3], w:f32[3], b:f32[1,3]) -> (y)\n{TWO_PASS}\
%6:f32[2,1] = Reciprocal(%5)
%7:f32[2,3] = Mul(w, %6)
%8:f32[2,3] = Mul(%7, %1)
y:f32[2,3] = Add(b, %8)"
        ),
        expect![[r#"
            graph g(x:f32[2,3], w:f32[3], b:f32[1,3]) -> (y)
            %0 = Reshape(b, [3]:i64)  # 11 2 3 4 5 6 7 8 9 10
            y:f32[2,3] = LayerNormalization(x, w, %0) {axis=1, epsilon=1e-5}  # 11 2 3 4 5 6 7 8 9 10
        "#]],
    );
}

#[test]
fn a_summand_for_each_row_is_not_a_bias() {
    check(
        formulas(&super::STAGES),
        &format!(
            "graph g(x:f32[2,3], b:f32[2,3]) -> (y)\n{TWO_PASS}\
%6:f32[2,3] = Div(%1, %5)
y:f32[2,3] = Add(%6, b)"
        ),
        expect![[r#"
            graph g(x:f32[2,3], b:f32[2,3]) -> (y)
            %0 = LayerNormalization(x, [1.0, 1.0, 1.0]) {axis=1, epsilon=1e-5}  # 8 2 3 4 5 6 7
            y:f32[2,3] = Add(%0, b)  # 9
        "#]],
    );
}

/// `how` broadcasts the mean to the rows for the variance. Another node broadcasts it for the numerator.
fn deviation_of_its_own(how: [&str; 2]) -> String {
    let [shape, axis] = how;
    format!(
        "graph g(x:f32[3,3]) -> (y)
%0:f32[3] = ReduceMean(x, [1]:i64) {{keepdims=0}}
%1:{shape} = Unsqueeze(%0, [{axis}]:i64)
%2:f32[3,3] = Sub(x, %1)
%3:f32[3,3] = Mul(%2, %2)
%4:f32[3] = ReduceMean(%3, [1]:i64) {{keepdims=0}}
%5:f32[3,1] = Reshape(%4, [-1, 1]:i64)
%6:f32[3,1] = Reshape(%0, [-1, 1]:i64)
%7:f32[3,3] = Sub(x, %6)
%8:f32[3,1] = Add(%5, 0.00001)
%9:f32[3,1] = Sqrt(%8)
y:f32[3,3] = Div(%7, %9)"
    )
}

#[test]
fn the_variance_may_have_its_own_broadcast_of_the_mean() {
    check(
        formulas(&super::STAGES),
        &deviation_of_its_own(["f32[3,1]", "1"]),
        expect![[r#"
        graph g(x:f32[3,3]) -> (y)
        y:f32[3,3] = LayerNormalization(x, [1.0, 1.0, 1.0]) {axis=1, epsilon=1e-5}  # 12 2 3 4 5 6 7 8 9 10 11
    "#]],
    );
}

#[test]
fn a_variance_with_the_means_of_other_rows_is_not_fused() {
    check(
        formulas(&super::STAGES),
        &deviation_of_its_own(["f32[1,3]", "0"]),
        expect![[r#"
        graph g(x:f32[3,3]) -> (y)
        %0 = ReduceMean(x, [1]:i64) {keepdims=0}  # 2
        %1 = Unsqueeze(%0, [0]:i64)  # 3
        %2 = Sub(x, %1)  # 4
        %3 = Mul(%2, %2)  # 5
        %4 = ReduceMean(%3, [1]:i64) {keepdims=0}  # 6
        %5 = Reshape(%4, [-1, 1]:i64)  # 7
        %6 = Reshape(%0, [-1, 1]:i64)  # 8
        %7 = Sub(x, %6)  # 9
        %8 = Add(%5, 1e-5)  # 10
        %9 = Sqrt(%8)  # 11
        y:f32[3,3] = Div(%7, %9)  # 12
    "#]],
    );
}

#[test]
fn a_root_that_is_broadcast_along_another_axis_is_not_fused() {
    check(
        formulas(&super::STAGES),
        "graph g(x:f32[3,3]) -> (y)
%0:f32[3,1] = ReduceMean(x, [1]:i64) {keepdims=1}
%1:f32[3,3] = Sub(x, %0)
%2:f32[3,3] = Mul(%1, %1)
%3:f32[3] = ReduceMean(%2, [1]:i64) {keepdims=0}
%4:f32[3] = Add(%3, 0.00001)
%5:f32[3] = Sqrt(%4)
y:f32[3,3] = Div(%1, %5)",
        expect![[r#"
            graph g(x:f32[3,3]) -> (y)
            %0 = ReduceMean(x, [1]:i64) {keepdims=1}  # 2
            %1 = Sub(x, %0)  # 3
            %2 = Mul(%1, %1)  # 4
            %3 = ReduceMean(%2, [1]:i64) {keepdims=0}  # 5
            %4 = Add(%3, 1e-5)  # 6
            %5 = Sqrt(%4)  # 7
            y:f32[3,3] = Div(%1, %5)  # 8
        "#]],
    );
}

#[test]
fn a_number_outside_the_root_is_not_an_epsilon() {
    check(
        formulas(&super::STAGES),
        "graph g(x:f32[2,3]) -> (y)
%0:f32[2,1] = ReduceMean(x, [1]:i64) {keepdims=1}
%1:f32[2,3] = Sub(x, %0)
%2:f32[2,3] = Mul(%1, %1)
%3:f32[2,1] = ReduceMean(%2, [1]:i64) {keepdims=1}
%4:f32[2,1] = Sqrt(%3)
%5:f32[2,1] = Add(%4, 0.00001)
y:f32[2,3] = Div(%1, %5)",
        expect![[r#"
            graph g(x:f32[2,3]) -> (y)
            %0 = ReduceMean(x, [1]:i64) {keepdims=1}  # 2
            %1 = Sub(x, %0)  # 3
            %2 = Mul(%1, %1)  # 4
            %3 = ReduceMean(%2, [1]:i64) {keepdims=1}  # 5
            %4 = Sqrt(%3)  # 6
            %5 = Add(%4, 1e-5)  # 7
            y:f32[2,3] = Div(%1, %5)  # 8
        "#]],
    );
}

#[test]
fn a_row_over_its_root_mean_square_is_an_rms_norm() {
    check(
        formulas(&super::STAGES),
        "graph g(x:f32[2,3]) -> (y)
%0:f32[2,3] = Mul(x, x)
%1:f32[2,1] = ReduceMean(%0, [1]:i64) {keepdims=1}
%2:f32[2,1] = Add(%1, 0.00001)
%3:f32[2,1] = Sqrt(%2)
%4:f32[2,1] = Reciprocal(%3)
%5:f32[2,3] = Mul(x, %4)
y:f32[2,3] = Mul(%5, [0.0, 0.0, 0.0])",
        expect![[r#"
            graph g(x:f32[2,3]) -> (y)
            y:f32[2,3] = RMSNormalization(x, [0.0, 0.0, 0.0]) {axis=1, epsilon=1e-5}  # 8 2 3 4 5 6 7
        "#]],
    );
}

#[test]
fn an_rms_norm_of_an_axis_that_may_be_empty_is_kept_as_a_formula() {
    check(
        formulas(&super::STAGES),
        "graph g(x:f32[2,N], s:f32[N]) -> (y)
%0:f32[2,N] = Mul(x, x)
%1:f32[2,1] = ReduceMean(%0, [1]:i64) {keepdims=1}
%2:f32[2,1] = Add(%1, 0.00001)
%3:f32[2,1] = Sqrt(%2)
%4:f32[2,N] = Div(x, %3)
y:f32[2,N] = Mul(%4, s)",
        expect![[r#"
            graph g(x:f32[2,N], s:f32[N]) -> (y)
            %0 = Mul(x, x)  # 2
            %1 = ReduceMean(%0, [1]:i64) {keepdims=1}  # 3
            %2 = Add(%1, 1e-5)  # 4
            %3 = Sqrt(%2)  # 5
            %4 = Div(x, %3)  # 6
            y:f32[2,N] = Mul(%4, s)  # 7
        "#]],
    );
}

#[test]
fn an_epsilon_of_float64_is_not_rounded() {
    check(
        formulas(&super::STAGES),
        "graph g(x:f64[2,3]) -> (y)
%0:f64[2,3] = Mul(x, x)
%1:f64[2,1] = ReduceMean(%0, [1]:i64) {keepdims=1}
%2:f64[2,1] = Add(%1, 0.1:f64)
%3:f64[2,1] = Sqrt(%2)
y:f64[2,3] = Div(x, %3)",
        expect![[r#"
            graph g(x:f64[2,3]) -> (y)
            %0 = Mul(x, x)  # 2
            %1 = ReduceMean(%0, [1]:i64) {keepdims=1}  # 3
            %2 = Add(%1, 0.1:f64)  # 4
            %3 = Sqrt(%2)  # 5
            y:f64[2,3] = Div(x, %3)  # 6
        "#]],
    );
}

#[test]
fn a_norm_of_each_channel_on_the_last_axis_is_an_instance_norm() {
    check(
        formulas(&super::STAGES),
        "graph g(x:f32[B,5,5,2]) -> (y)
%0:f32[B,1,1,2] = ReduceMean(x, [1, 2]:i64) {keepdims=1}
%1:f32[B,5,5,2] = Sub(x, %0)
%2:f32[B,5,5,2] = Mul(%1, %1)
%3:f32[B,1,1,2] = ReduceMean(%2, [1, 2]:i64) {keepdims=1}
%4:f32[B,1,1,2] = Add(%3, 0.00001)
%5:f32[B,1,1,2] = Sqrt(%4)
%6:f32[B,5,5,2] = Div(%1, %5)
%7:f32[B,5,5,2] = Mul(%6, [3.0, 4.0])
y:f32[B,5,5,2] = Add(%7, [1.0, 2.0])",
        expect![[r#"
            graph g(x:f32[B,5,5,2]) -> (y)
            %0 = Transpose(x) {perm=[0, 3, 1, 2]}  # 10 2 3 4 5 6 7 8 9
            %1 = InstanceNormalization(%0, [3.0, 4.0], [1.0, 2.0]) {epsilon=1e-5}  # 10 2 3 4 5 6 7 8 9
            y:f32[B,5,5,2] = Transpose(%1) {perm=[0, 2, 3, 1]}  # 10 2 3 4 5 6 7 8 9
        "#]],
    );
}

#[test]
fn without_a_scale_many_elements_are_an_instance() {
    check(
        formulas(&super::STAGES),
        "graph g(x:f32[2,9000]) -> (y)
%0:f32[2,1] = ReduceMean(x, [1]:i64) {keepdims=1}
%1:f32[2,9000] = Sub(x, %0)
%2:f32[2,9000] = Mul(%1, %1)
%3:f32[2,1] = ReduceMean(%2, [1]:i64) {keepdims=1}
%4:f32[2,1] = Add(%3, 0.00001)
%5:f32[2,1] = Sqrt(%4)
y:f32[2,9000] = Div(%1, %5)",
        expect![[r#"
            graph g(x:f32[2,9000]) -> (y)
            %0 = Unsqueeze(x, [0]:i64)  # 8 2 3 4 5 6 7
            %1 = InstanceNormalization(%0, [1.0, 1.0], [0.0, 0.0]) {epsilon=1e-5}  # 8 2 3 4 5 6 7
            y:f32[2,9000] = Squeeze(%1, [0]:i64)  # 8 2 3 4 5 6 7
        "#]],
    );
}

/// The mean and the variance of groups of two channels, which `how` broadcasts.
fn of_groups(how: [&str; 2]) -> String {
    let [expanded, joined] = how;
    format!(
        "graph g(x:f32[B,3,3,4]) -> (y)
%0:f32[B,3,3,2,2] = Reshape(x, [-1, 3, 3, 2, 2]:i64)
%1:f32[B,3,3,2,2] = Mul(%0, %0)
%2:f32[B,2] = ReduceMean(%0, [1, 2, 4]:i64) {{keepdims=0}}
%3:f32[B,2] = ReduceMean(%1, [1, 2, 4]:i64) {{keepdims=0}}
%4:f32[B,2] = Mul(%2, %2)
%5:f32[B,2] = Sub(%3, %4)
%6:f32[B,2] = Relu(%5)
%7:{expanded} = Unsqueeze(%2, [{joined}]:i64)
%8:f32[B,2,2] = Expand(%7, [1, 2, 2]:i64)
%9:f32[B,1,1,4] = Reshape(%8, [-1, 1, 1, 4]:i64)
%10:f32[B,2,1] = Unsqueeze(%6, [2]:i64)
%11:f32[B,2,2] = Expand(%10, [1, 2, 2]:i64)
%12:f32[B,1,1,4] = Reshape(%11, [-1, 1, 1, 4]:i64)
%13:f32[B,3,3,4] = Sub(x, %9)
%14:f32[B,1,1,4] = Add(%12, 0.00001)
%15:f32[B,1,1,4] = Sqrt(%14)
%16:f32[B,1,1,4] = Reciprocal(%15)
%17:f32[B,1,1,4] = Mul(%16, [[[[1.0, 2.0, 3.0, 4.0]]]])
y:f32[B,3,3,4] = Mul(%13, %17)"
    )
}

#[test]
fn groups_of_channels_are_instances() {
    check(
        formulas(&super::STAGES),
        &of_groups(["f32[B,2,1]", "2"]),
        expect![[r#"
            graph g(x:f32[B,3,3,4]) -> (y)
            %0 = Transpose(x) {perm=[0, 3, 1, 2]}  # 20 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19
            %1 = Reshape(%0, [0, 2, 18]:i64)  # 14 2 3 4 5 6 7 8 9 10 11 12 13 15 16 17 18 19 20
            %2 = InstanceNormalization(%1, [1.0, 1.0], [0.0, 0.0]) {epsilon=1e-5}  # 20 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19
            %3 = Reshape(%2, [0, 4, 3, 3]:i64)  # 14 2 3 4 5 6 7 8 9 10 11 12 13 15 16 17 18 19 20
            %4 = Mul(%3, [[[1.0]], [[2.0]], [[3.0]], [[4.0]]])  # 20 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19
            y:f32[B,3,3,4] = Transpose(%4) {perm=[0, 2, 3, 1]}  # 20 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19
        "#]],
    );
}

#[test]
fn groups_of_a_row_are_instances() {
    check(
        formulas(&super::STAGES),
        "graph g(x:f32[3,16]) -> (y)
%0:f32[3,2,8] = Reshape(x, [3, 2, 8]:i64)
%1:f32[3,2,8] = Mul(%0, %0)
%2:f32[3,2] = ReduceMean(%0, [2]:i64) {keepdims=0}
%3:f32[3,2] = ReduceMean(%1, [2]:i64) {keepdims=0}
%4:f32[3,2] = Mul(%2, %2)
%5:f32[3,2] = Sub(%3, %4)
%6:f32[3,2,1] = Unsqueeze(%2, [2]:i64)
%7:f32[3,2,8] = Expand(%6, [3, 2, 8]:i64)
%8:f32[3,16] = Reshape(%7, [3, 16]:i64)
%9:f32[3,2,1] = Unsqueeze(%5, [2]:i64)
%10:f32[3,2,8] = Expand(%9, [3, 2, 8]:i64)
%11:f32[3,16] = Reshape(%10, [3, 16]:i64)
%12:f32[3,16] = Sub(x, %8)
%13:f32[3,16] = Add(%11, 0.00001)
%14:f32[3,16] = Sqrt(%13)
y:f32[3,16] = Div(%12, %14)",
        expect![[r#"
            graph g(x:f32[3,16]) -> (y)
            %0 = Transpose(x) {perm=[0, 1]}  # 17 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16
            %1 = Reshape(%0, [3, 2, 8]:i64)  # 13 2 3 4 5 6 7 8 9 10 11 12 14 15 16 17
            %2 = InstanceNormalization(%1, [1.0, 1.0], [0.0, 0.0]) {epsilon=1e-5}  # 17 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16
            %3 = Reshape(%2, [3, 16]:i64)  # 13 2 3 4 5 6 7 8 9 10 11 12 14 15 16 17
            y:f32[3,16] = Transpose(%3) {perm=[0, 1]}  # 17 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16
        "#]],
    );
}

#[test]
fn groups_of_two_elements_are_not_fused() {
    check(
        formulas(&super::STAGES),
        "graph g(x:f32[3,4]) -> (y)
%0:f32[3,2,2] = Reshape(x, [3, 2, 2]:i64)
%1:f32[3,2,2] = Mul(%0, %0)
%2:f32[3,2] = ReduceMean(%0, [2]:i64) {keepdims=0}
%3:f32[3,2] = ReduceMean(%1, [2]:i64) {keepdims=0}
%4:f32[3,2] = Mul(%2, %2)
%5:f32[3,2] = Sub(%3, %4)
%6:f32[3,2,1] = Unsqueeze(%2, [2]:i64)
%7:f32[3,2,2] = Expand(%6, [3, 2, 2]:i64)
%8:f32[3,4] = Reshape(%7, [3, 4]:i64)
%9:f32[3,2,1] = Unsqueeze(%5, [2]:i64)
%10:f32[3,2,2] = Expand(%9, [3, 2, 2]:i64)
%11:f32[3,4] = Reshape(%10, [3, 4]:i64)
%12:f32[3,4] = Sub(x, %8)
%13:f32[3,4] = Add(%11, 0.00001)
%14:f32[3,4] = Sqrt(%13)
y:f32[3,4] = Div(%12, %14)",
        expect![[r#"
            graph g(x:f32[3,4]) -> (y)
            %0 = Reshape(x, [3, 2, 2]:i64)  # 2
            %1 = Mul(%0, %0)  # 3
            %2 = ReduceMean(%0, [2]:i64) {keepdims=0}  # 4
            %3 = ReduceMean(%1, [2]:i64) {keepdims=0}  # 5
            %4 = Mul(%2, %2)  # 6
            %5 = Sub(%3, %4)  # 7
            %6 = Unsqueeze(%2, [2]:i64)  # 8
            %7 = Expand(%6, [3, 2, 2]:i64)  # 9
            %8 = Reshape(%7, [3, 4]:i64)  # 10
            %9 = Unsqueeze(%5, [2]:i64)  # 11
            %10 = Expand(%9, [3, 2, 2]:i64)  # 12
            %11 = Reshape(%10, [3, 4]:i64)  # 13
            %12 = Sub(x, %8)  # 14
            %13 = Add(%11, 1e-5)  # 15
            %14 = Sqrt(%13)  # 16
            y:f32[3,4] = Div(%12, %14)  # 17
        "#]],
    );
}

#[test]
fn one_channel_in_a_group_is_an_instance_with_its_scale() {
    check(
        formulas(&super::STAGES),
        "graph g(x:f32[B,8,2]) -> (y)
%0:f32[B,8,2,1] = Reshape(x, [-1, 8, 2, 1]:i64)
%1:f32[B,8,2,1] = Mul(%0, %0)
%2:f32[B,2] = ReduceMean(%0, [1, 3]:i64) {keepdims=0}
%3:f32[B,2] = ReduceMean(%1, [1, 3]:i64) {keepdims=0}
%4:f32[B,2] = Mul(%2, %2)
%5:f32[B,2] = Sub(%3, %4)
%6:f32[B,1,2] = Reshape(%2, [-1, 1, 2]:i64)
%7:f32[B,1,2] = Reshape(%5, [-1, 1, 2]:i64)
%8:f32[B,8,2] = Sub(x, %6)
%9:f32[B,1,2] = Add(%7, 0.00001)
%10:f32[B,1,2] = Sqrt(%9)
%11:f32[B,8,2] = Div(%8, %10)
%12:f32[B,8,2] = Mul(%11, [1.0, 2.0])
y:f32[B,8,2] = Add(%12, [3.0, 4.0])",
        expect![[r#"
            graph g(x:f32[B,8,2]) -> (y)
            %0 = Transpose(x) {perm=[0, 2, 1]}  # 15 2 3 4 5 6 7 8 9 10 11 12 13 14
            %1 = InstanceNormalization(%0, [1.0, 2.0], [3.0, 4.0]) {epsilon=1e-5}  # 15 2 3 4 5 6 7 8 9 10 11 12 13 14
            y:f32[B,8,2] = Transpose(%1) {perm=[0, 2, 1]}  # 15 2 3 4 5 6 7 8 9 10 11 12 13 14
        "#]],
    );
}

#[test]
fn interleaved_groups_are_not_fused() {
    check(
        formulas(&super::STAGES),
        &of_groups(["f32[B,1,2]", "1"]),
        expect![[r#"
        graph g(x:f32[B,3,3,4]) -> (y)
        %0 = Reshape(x, [-1, 3, 3, 2, 2]:i64)  # 2
        %1 = Mul(%0, %0)  # 3
        %2 = ReduceMean(%0, [1, 2, 4]:i64) {keepdims=0}  # 4
        %3 = ReduceMean(%1, [1, 2, 4]:i64) {keepdims=0}  # 5
        %4 = Mul(%2, %2)  # 6
        %5 = Sub(%3, %4)  # 7
        %6 = Relu(%5)  # 8
        %7 = Unsqueeze(%2, [1]:i64)  # 9
        %8 = Expand(%7, [1, 2, 2]:i64)  # 10
        %9 = Reshape(%8, [-1, 1, 1, 4]:i64)  # 11
        %10 = Unsqueeze(%6, [2]:i64)  # 12
        %11 = Expand(%10, [1, 2, 2]:i64)  # 13
        %12 = Reshape(%11, [-1, 1, 1, 4]:i64)  # 14
        %13 = Sub(x, %9)  # 15
        %14 = Add(%12, 1e-5)  # 16
        %15 = Sqrt(%14)  # 17
        %16 = Reciprocal(%15)  # 18
        %17 = Mul(%16, [[[[1.0, 2.0, 3.0, 4.0]]]])  # 19
        y:f32[B,3,3,4] = Mul(%13, %17)  # 20
    "#]],
    );
}
