use expect_test::expect;

use testing::check_model;

#[test]
fn the_product_of_absolute_values_is_the_absolute_value_of_the_product() {
    check_model(
        super::run,
        "graph g(x:f32[3], y:f32[3]) -> (a, b)
%0:f32[3] = Relu(x)
%1:f32[3] = Relu(y)
%2:f32[3] = Mul(%0, %1)
a:f32[3] = Reciprocal(%2)
%3:f32[3] = Relu(x)
%4:f32[3] = Mul(%3, %3)
b:f32[3] = Reciprocal(%4)",
        expect![[r#"
            graph g(x:f32[3], y:f32[3]) -> (a, b)
            %0 = Max(x, 0.0)  # 2
            %1 = Max(y, 0.0)  # 3
            %2 = Mul(%0, %1)  # 4
            %3 = Abs(%2)  # 3 2 4
            a:f32[3] = Reciprocal(%3)  # 5
            %4 = Max(x, 0.0)  # 6
            %5 = Abs(%4)  # 6
            %6 = Mul(%5, %5)  # 7
            b:f32[3] = Reciprocal(%6)  # 8
        "#]],
    );
}

#[test]
fn zeros_of_narrow_floats_are_chosen_in_float32() {
    check_model(
        super::run,
        "graph g(x:f16[3], y:f16[3]) -> (a, b, c)
%0:f16[3] = Max(x, y)
a:f16[3] = Reciprocal(%0)
%1:f16[3] = Relu(x)
b:f16[3] = Div(y, %1)
%2:f16[3] = Max(x, 1.0:f16)
c:f16[3] = Reciprocal(%2)",
        expect![[r#"
            graph g(x:f16[3], y:f16[3]) -> (a, b, c)
            %0 = Cast(x) {to=1}  # 2
            %1 = Cast(y) {to=1}  # 2
            %2 = Max(%0, -1.0)  # 2
            %3 = Reciprocal(%2)  # 2
            %4 = Less(%3, 0.0)  # 2
            %5 = Max(%1, -1.0)  # 2
            %6 = Reciprocal(%5)  # 2
            %7 = Less(%6, 0.0)  # 2
            %8 = And(%4, %7)  # 2
            %9 = Max(%0, %1)  # 2
            %10 = Abs(%9)  # 2
            %11 = Where(%8, -1.0, 1.0)  # 2
            %12 = Mul(%10, %11)  # 2
            %13 = Cast(%12) {to=10}  # 2
            a:f16[3] = Reciprocal(%13)  # 3
            %14 = Cast(x) {to=1}  # 4
            %15 = Max(%14, 0.0)  # 4
            %16 = Abs(%15)  # 4
            %17 = Cast(%16) {to=10}  # 4
            b:f16[3] = Div(y, %17)  # 5
            %18 = Max(x, 1.0:f16)  # 6
            c:f16[3] = Reciprocal(%18)  # 7
        "#]],
    );
}

#[test]
fn the_signs_of_zero_before_a_clamp_at_zero_do_not_matter() {
    check_model(
        super::run,
        "graph g(x:f32[3], y:f32[3]) -> (a, b, c)
%0:f32[3] = Max(x, y)
%1:f32[3] = Relu(%0)
a:f32[3] = Reciprocal(%1)
%2:f32[3] = Min(x, y)
%3:f32[3] = Clip(%2, 0.0, 6.0)
b:f32[3] = Reciprocal(%3)
%4:bool[3] = Less(x, y)
%5:f32[3] = Where(%4, 1.0, 2.0)
%6:f32[3] = Max(x, %5)
c:f32[3] = Reciprocal(%6)",
        expect![[r#"
            graph g(x:f32[3], y:f32[3]) -> (a, b, c)
            %0 = Max(x, y)  # 2
            %1 = Max(%0, 0.0)  # 3
            %2 = Abs(%1)  # 3
            a:f32[3] = Reciprocal(%2)  # 4
            %3 = Min(x, y)  # 5
            %4 = Max(%3, 0.0)  # 6
            %5 = Abs(%4)  # 6
            %6 = Min(%5, 6.0)  # 6
            b:f32[3] = Reciprocal(%6)  # 7
            %7 = Less(x, y)  # 8
            %8 = Where(%7, 1.0, 2.0)  # 9
            %9 = Max(x, %8)  # 10
            c:f32[3] = Reciprocal(%9)  # 11
        "#]],
    );
}

#[test]
fn a_quotient_depends_on_the_sign_of_zero() {
    check_model(
        super::run,
        "graph g(x:f32[3], y:f32[3,1]) -> (a, b, c, d)
%0:f32[3] = Relu(x)
%1:f32[3] = Mul(%0, 2.0)
a:f32[3] = Reciprocal(%1)
%2:f32[3,3] = Min(x, y)
b:f32[3,3] = Div(x, %2)
%3:f32[3] = Clip(x, -1.0, -0.0)
c:f32[3] = Pow(%3, -1.0)
%4:f32[3] = Clip(x, 0.0, 6.0)
d:f32[3] = Reciprocal(%4)",
        expect![[r#"
            graph g(x:f32[3], y:f32[3,1]) -> (a, b, c, d)
            %0 = Max(x, 0.0)  # 2
            %1 = Abs(%0)  # 2
            %2 = Mul(%1, 2.0)  # 3
            a:f32[3] = Reciprocal(%2)  # 4
            %3 = Max(x, -1.0)  # 5
            %4 = Reciprocal(%3)  # 5
            %5 = Less(%4, 0.0)  # 5
            %6 = Max(y, -1.0)  # 5
            %7 = Reciprocal(%6)  # 5
            %8 = Less(%7, 0.0)  # 5
            %9 = Or(%5, %8)  # 5
            %10 = Min(x, y)  # 5
            %11 = Abs(%10)  # 5
            %12 = Where(%9, -1.0, 1.0)  # 5
            %13 = Mul(%11, %12)  # 5
            b:f32[3,3] = Div(x, %13)  # 6
            %14 = Max(x, -1.0)  # 7
            %15 = Max(%14, -1.0)  # 7
            %16 = Reciprocal(%15)  # 7
            %17 = Less(%16, 0.0)  # 7
            %18 = Max(-0.0, -1.0)  # 7
            %19 = Reciprocal(%18)  # 7
            %20 = Less(%19, 0.0)  # 7
            %21 = Or(%17, %20)  # 7
            %22 = Min(%14, -0.0)  # 7
            %23 = Abs(%22)  # 7
            %24 = Where(%21, -1.0, 1.0)  # 7
            %25 = Mul(%23, %24)  # 7
            c:f32[3] = Pow(%25, -1.0)  # 8
            %26 = Max(x, 0.0)  # 9
            %27 = Abs(%26)  # 9
            %28 = Min(%27, 6.0)  # 9
            d:f32[3] = Reciprocal(%28)  # 10
        "#]],
    );
}

#[test]
fn a_negative_zero_is_chosen_by_a_false_condition() {
    check_model(
        super::run,
        "graph g(c:bool[3], x:f32[3], y:f32[2,1]) -> (a, b, d, e)
%0:f32[3] = Where(c, x, 1.0)
a:f32[3] = Reciprocal(%0)
%1:f32[2,3] = Where(c, x, y)
b:f32[2,3] = Reciprocal(%1)
%2:f32[3] = Where(c, 1.0, x)
d:f32[3] = Reciprocal(%2)
%3:bool[3] = Greater(x, 0.0)
%4:f32[3] = Where(%3, x, 1.0)
%5:f32[3] = Add(x, 1.0)
%6:f32[3] = Where(c, %5, x)
%7:f32[3] = Mul(%4, %6)
e:f32[3] = Reciprocal(%7)",
        expect![[r#"
            graph g(c:bool[3], x:f32[3], y:f32[2,1]) -> (a, b, d, e)
            %0 = Equal(c, false)  # 2
            %1 = Where(%0, 1.0, x)  # 2
            a:f32[3] = Reciprocal(%1)  # 3
            %2 = Equal(c, false)  # 4
            %3 = Where(%2, 1.0, x)  # 4
            %4 = Where(c, 1.0, y)  # 4
            %5 = Mul(%3, %4)  # 4
            b:f32[2,3] = Reciprocal(%5)  # 5
            %6 = Where(c, 1.0, x)  # 6
            d:f32[3] = Reciprocal(%6)  # 7
            %7 = Greater(x, 0.0)  # 8
            %8 = Where(%7, x, 1.0)  # 9
            %9 = Add(x, 1.0)  # 10
            %10 = Where(c, %9, x)  # 11
            %11 = Mul(%8, %10)  # 12
            e:f32[3] = Reciprocal(%11)  # 13
        "#]],
    );
}

#[test]
fn a_node_whose_readers_do_not_depend_on_the_sign_of_zero_is_kept() {
    check_model(
        super::run,
        "graph g(x:f32[3], w:f32[3,3]) -> (a, b, c, d)
%0:f32[3] = Relu(x)
%1:f32[3] = MatMul(%0, w)
a:f32[3] = Reciprocal(%1)
%2:f32[3] = Max(x, 1e-06)
b:f32[3] = Reciprocal(%2)
c:f32[3] = Relu(x)
%3:f32[3] = Relu(x)
%4:f32[3] = Add(%3, 1.0)
d:f32[3] = Div(%3, %4)",
        expect![[r#"
            graph g(x:f32[3], w:f32[3,3]) -> (a, b, c, d)
            %0 = Relu(x)  # 2
            %1 = MatMul(%0, w)  # 3
            a:f32[3] = Reciprocal(%1)  # 4
            %2 = Max(x, 1e-6)  # 5
            b:f32[3] = Reciprocal(%2)  # 6
            c:f32[3] = Relu(x)  # 7
            %3 = Relu(x)  # 8
            %4 = Add(%3, 1.0)  # 9
            d:f32[3] = Div(%3, %4)  # 10
        "#]],
    );
}

#[test]
fn signs_of_zero_are_tracked_into_and_out_of_functions() {
    check_model(
        super::run,
        "graph g(x:f32[3]) -> (a)
%0:f32[3] = d::f(x)
%1:f32[3] = Relu(%0)
a:f32[3] = d::h(%1)
function d::f(p:f32[3]) -> (q)
q:f32[3] = Relu(p)
function d::h(r:f32[3]) -> (s)
s:f32[3] = Reciprocal(r)",
        expect![[r#"
            graph g(x:f32[3]) -> (a)
            %0 = d::f(x)  # 2
            %1 = Max(%0, 0.0)  # 3
            %2 = Abs(%1)  # 3
            a:f32[3] = d::h(%2)  # 4
            function d::f(p:f32[3]) -> (q)
            q:f32[3] = Relu(p)  # 6
            function d::h(r:f32[3]) -> (s)
            s:f32[3] = Reciprocal(r)  # 8
        "#]],
    );
}

#[test]
fn cumulative_sums_begin_with_zero() {
    check_model(
        super::run,
        "graph g(x:f32[3], o:f32[1]) -> (a, b, c, d)
%0:f32[3] = CumSum(x, 0:i64) {reverse=1}
a:f32[3] = Reciprocal(%0)
%1:f32[1] = CumSum(o, 0:i64)
b:f32[1] = Reciprocal(%1)
%2:f32[3] = Exp(x)
%3:f32[3] = CumSum(%2, 0:i64)
c:f32[3] = Reciprocal(%3)
d:f32[3] = CumSum(x, 0:i64)",
        expect![[r#"
            graph g(x:f32[3], o:f32[1]) -> (a, b, c, d)
            %0 = CumSum(x, 0:i64) {reverse=1}  # 2
            %1 = Neg(%0)  # 2
            %2 = Sub(0.0, %1)  # 2
            a:f32[3] = Reciprocal(%2)  # 3
            %3 = CumSum(o, 0:i64)  # 4
            b:f32[1] = Reciprocal(%3)  # 5
            %4 = Exp(x)  # 6
            %5 = CumSum(%4, 0:i64)  # 7
            c:f32[3] = Reciprocal(%5)  # 8
            d:f32[3] = CumSum(x, 0:i64)  # 9
        "#]],
    );
}

#[test]
fn a_sum_of_several_elements_begins_with_zero() {
    check_model(
        super::run,
        "graph g(x:f32[3,1], n:f32[N,1]) -> (a, b, c, d, e)
%0:f32[1] = ReduceSum(x, [0]:i64) {keepdims=0}
a:f32[1] = Reciprocal(%0)
%1:f32[] = ReduceMean(n) {keepdims=0}
b:f32[] = Reciprocal(%1)
%2:f32[3] = ReduceSum(x, [1]:i64) {keepdims=0}
c:f32[3] = Reciprocal(%2)
%3:f32[3,1] = Abs(x)
%4:f32[1] = ReduceSum(%3, [0]:i64) {keepdims=0}
d:f32[1] = Reciprocal(%4)
e:f32[1] = ReduceSum(x, [0]:i64) {keepdims=0}",
        expect![[r#"
            graph g(x:f32[3,1], n:f32[N,1]) -> (a, b, c, d, e)
            %0 = ReduceSum(x, [0]:i64) {keepdims=0}  # 2
            %1 = Neg(%0)  # 2
            %2 = Sub(0.0, %1)  # 2
            a:f32[1] = Reciprocal(%2)  # 3
            %3 = ReduceMean(n) {keepdims=0}  # 4
            %4 = Neg(%3)  # 4
            %5 = Sub(0.0, %4)  # 4
            b:f32[] = Reciprocal(%5)  # 5
            %6 = ReduceSum(x, [1]:i64) {keepdims=0}  # 6
            c:f32[3] = Reciprocal(%6)  # 7
            %7 = Abs(x)  # 8
            %8 = ReduceSum(%7, [0]:i64) {keepdims=0}  # 9
            d:f32[1] = Reciprocal(%8)  # 10
            e:f32[1] = ReduceSum(x, [0]:i64) {keepdims=0}  # 11
        "#]],
    );
}

#[test]
fn the_signs_of_zero_in_the_terms_of_a_sum_do_not_matter() {
    check_model(
        super::run,
        "graph g(x:f32[3], y:f32[3]) -> (a)
%0:f32[3] = Max(x, y)
%1:f32[] = ReduceSum(%0, [0]:i64) {keepdims=0}
a:f32[] = Reciprocal(%1)",
        expect![[r#"
            graph g(x:f32[3], y:f32[3]) -> (a)
            %0 = Max(x, y)  # 2
            %1 = ReduceSum(%0, [0]:i64) {keepdims=0}  # 3
            %2 = Neg(%1)  # 3
            %3 = Sub(0.0, %2)  # 3
            a:f32[] = Reciprocal(%3)  # 4
        "#]],
    );
}

#[test]
fn positive_zeros_are_the_same_zero() {
    check_model(
        super::run,
        "graph g(x:f32[3], y:f32[3]) -> (a)
%0:f32[3] = Abs(x)
%1:f32[3] = Abs(y)
%2:f32[3] = Max(%0, %1)
a:f32[3] = Reciprocal(%2)",
        expect![[r#"
            graph g(x:f32[3], y:f32[3]) -> (a)
            %0 = Abs(x)  # 2
            %1 = Abs(y)  # 3
            %2 = Max(%0, %1)  # 4
            a:f32[3] = Reciprocal(%2)  # 5
        "#]],
    );
}

#[test]
fn a_zero_is_added_to_a_number_that_may_be_a_negative_zero() {
    check_model(
        super::run,
        "graph g(x:f32[3]) -> (a, b)
%0:f32[3] = Mul(x, 0.0)
%1:f32[3] = Add(%0, 0.0)
a:f32[3] = Reciprocal(%1)
%2:f32[3] = Abs(x)
%3:f32[3] = Add(%2, 0.0)
b:f32[3] = Reciprocal(%3)",
        expect![[r#"
            graph g(x:f32[3]) -> (a, b)
            %0 = Mul(x, 0.0)  # 2
            %1 = Neg(%0)  # 3
            %2 = Sub(0.0, %1)  # 3
            a:f32[3] = Reciprocal(%2)  # 4
            %3 = Abs(x)  # 5
            %4 = Add(%3, 0.0)  # 6
            b:f32[3] = Reciprocal(%4)  # 7
        "#]],
    );
}
