use expect_test::expect;

use testing::{check, check_lean};

#[test]
fn a_norm_after_a_convolution_is_folded_into_its_weights() {
    check_lean(
        super::run,
        "graph g(x:f32[1,1,4]) -> (y)
%0:f32[1,2,4] = Conv(x, [[[1.0]], [[2.0]]])
%1:f32[1,2,4] = Sub(%0, [[1.0], [2.0]])
%2:f32[1,2,4] = Mul(%1, [[3.0], [0.5]])
y:f32[1,2,4] = Add(%2, [[[4.0], [5.0]]])",
        expect![[r#"
            graph g(x:f32[1,1,4]) -> (y)
            y:f32[1,2,4] = Conv(x, [[[3.0]], [[1.0]]], [1.0, 4.0])  # 2 3 4 5
        "#]],
    );
}

#[test]
fn an_order_of_axes_or_the_batch_may_come_between() {
    check_lean(
        super::run,
        "graph g(x:f32[1,1,4]) -> (y, z, u)
%0:f32[1,2,4] = Conv(x, [[[1.0]], [[2.0]]])
%1:f32[1,4,2] = Transpose(%0) {perm=[0, 2, 1]}
y:f32[1,4,2] = Add(%1, [1.0, 2.0])
%2:f32[1,2,4] = Conv(x, [[[1.0]], [[2.0]]])
%3:f32[2,4] = Squeeze(%2, [0]:i64)
z:f32[2,4] = Mul(%3, [[2.0], [3.0]])
%4:f32[1,2,4] = Conv(x, [[[1.0]], [[2.0]]])
%5:f32[2,4] = Squeeze(%4, [0]:i64)
u:f32[2,4] = Mul(%5, [2.0, 3.0, 4.0, 5.0])",
        expect![[r#"
            graph g(x:f32[1,1,4]) -> (y, z, u)
            %0 = Conv(x, [[[1.0]], [[2.0]]], [1.0, 2.0])  # 2 3 4
            y:f32[1,4,2] = Transpose(%0) {perm=[0, 2, 1]}  # 3 2 4
            %1 = Conv(x, [[[2.0]], [[6.0]]])  # 5 6 7
            z:f32[2,4] = Squeeze(%1, [0]:i64)  # 6 5 7
            %2 = Conv(x, [[[1.0]], [[2.0]]])  # 8
            %3 = Squeeze(%2, [0]:i64)  # 9
            u:f32[2,4] = Mul(%3, [2.0, 3.0, 4.0, 5.0])  # 10
        "#]],
    );
}

#[test]
fn constants_that_vary_within_a_channel_or_have_other_readers_stay() {
    check(
        super::run,
        "graph g(x:f32[1,1,2]) -> (y, z, u)
%0:f32[1,2,2] = Conv(x, [[[1.0]], [[2.0]]])
y:f32[1,2,2] = Add(%0, [1.0, 2.0])
%1:f32[1,2,2] = Conv(x, [[[3.0]], [[2.0]]])
z:f32[1,2,2] = Mul(%1, [[1.0], [2.0]])
u:f32[1,2,2] = Relu(%1)",
        expect![[r#"
            graph g(x:f32[1,1,2]) -> (y, z, u)
            %0 = Conv(x, [[[1.0]], [[2.0]]])  # 2
            y:f32[1,2,2] = Add(%0, [1.0, 2.0])  # 3
            %1 = Conv(x, [[[3.0]], [[2.0]]])  # 4
            z:f32[1,2,2] = Mul(%1, [[1.0], [2.0]])  # 5
            u:f32[1,2,2] = Relu(%1)  # 6
        "#]],
    );
}

#[test]
fn a_shift_before_a_convolution_without_padding_is_folded() {
    check_lean(
        super::run,
        "graph g(x:f32[1,2,4]) -> (y, z)
%0:f32[1,2,4] = Mul(x, [[10.0], [100.0]])
%1:f32[1,2,4] = Add(%0, [[1.0], [2.0]])
y:f32[1,1,4] = Conv(%1, [[[3.0], [5.0]]])
%2:f32[1,2,4] = Add(x, [[1.0], [2.0]])
z:f32[1,1,4] = Conv(%2, [[[3.0, 1.0, 1.0], [5.0, 1.0, 1.0]]]) {pads=[1, 1]}",
        expect![[r#"
            graph g(x:f32[1,2,4]) -> (y, z)
            y:f32[1,1,4] = Conv(x, [[[30.0], [500.0]]], [13.0])  # 4 2 3
            %0 = Add(x, [[1.0], [2.0]])  # 5
            z:f32[1,1,4] = Conv(%0, [[[3.0, 1.0, 1.0], [5.0, 1.0, 1.0]]]) {pads=[1, 1]}  # 6
        "#]],
    );
}

#[test]
fn groups_have_channels_of_their_own() {
    check_lean(
        super::run,
        "graph g(x:f32[1,2,4]) -> (y)
%0:f32[1,2,4] = Mul(x, [[10.0], [100.0]])
%1:f32[1,2,4] = Sub(%0, [[1.0], [2.0]])
y:f32[1,2,4] = Conv(%1, [[[3.0]], [[5.0]]], [0.5, 0.25]) {group=2}",
        expect![[r#"
            graph g(x:f32[1,2,4]) -> (y)
            y:f32[1,2,4] = Conv(x, [[[30.0]], [[500.0]]], [-2.5, -9.75]) {group=2}  # 4 2 3
        "#]],
    );
}

#[test]
fn a_scale_after_a_product_and_its_bias_is_folded_into_both() {
    check_lean(
        super::run,
        "graph g(x:f32[3,4,1]) -> (y)
%0:f32[3,4,2] = MatMul(x, [[1.0, 2.0]])
%1:f32[3,4,2] = Add(%0, [3.0, 4.0])
y:f32[3,4,2] = Mul([10.0, 100.0], %1)",
        expect![[r#"
            graph g(x:f32[3,4,1]) -> (y)
            %0 = MatMul(x, [[10.0, 200.0]])  # 2 3 4
            y:f32[3,4,2] = Add(%0, [30.0, 400.0])  # 3 2 4
        "#]],
    );
}

#[test]
fn a_constant_that_overflows_rounds_or_cancels_stays() {
    check_lean(
        super::run,
        "graph g(x:f32[3,2], i:f32[1,1,4]) -> (y, z, w)
%0:f32[3,1] = MatMul(x, [[1.0], [-1.0]])
y:f32[3,1] = Mul(%0, 1e10)
%1:f32[1,1,4] = Conv(i, [[[0.3]]])
%2:f32[1,1,4] = Add(%1, 8388608.0)
z:f32[1,1,4] = Sub(%2, 8388608.0)
%3:f32[1,1,4] = Sub(i, 1600000000.0)
w:f32[1,1,4] = Conv(%3, [[[0.3]]])",
        expect![[r#"
            graph g(x:f32[3,2], i:f32[1,1,4]) -> (y, z, w)
            %0 = MatMul(x, [[1.0], [-1.0]])  # 2
            y:f32[3,1] = Mul(%0, 10000000000.0)  # 3
            %1 = Conv(i, [[[0.3]]])  # 4
            %2 = Add(%1, 8388608.0)  # 5
            z:f32[1,1,4] = Sub(%2, 8388608.0)  # 6
            %3 = Sub(i, 1600000000.0)  # 7
            w:f32[1,1,4] = Conv(%3, [[[0.3]]])  # 8
        "#]],
    );
}

#[test]
fn a_scale_that_leaves_no_digits_stays() {
    check(
        super::run,
        "graph g(x:f32[3,1]) -> (y, z)
%0:f32[3,2] = MatMul(x, [[1e-30, 2.0]])
y:f32[3,2] = Mul(%0, 1e-15)
%1:f32[3,2] = MatMul(x, [[1.0, 3.0]])
z:f32[3,2] = Mul(%1, [inf, 1.0])",
        expect![[r#"
            graph g(x:f32[3,1]) -> (y, z)
            %0 = MatMul(x, [[1e-30, 2.0]])  # 2
            y:f32[3,2] = Mul(%0, 1e-15)  # 3
            %1 = MatMul(x, [[1.0, 3.0]])  # 4
            z:f32[3,2] = Mul(%1, [inf, 1.0])  # 5
        "#]],
    );
}

#[test]
fn a_convolution_whose_bias_stays_stays_a_convolution() {
    check_lean(
        super::run,
        "graph g(x:f32[1,1,4]) -> (y)
%0:f32[1,1,4] = Conv(x, [[[0.5]]])
%1:f32[1,1,4] = Add(%0, 20000.0)
y:f32[1,1,4] = Mul(%1, 3.0)",
        expect![[r#"
            graph g(x:f32[1,1,4]) -> (y)
            %0 = Conv(x, [[[0.5]]])  # 2
            %1 = Add(%0, 20000.0)  # 3
            y:f32[1,1,4] = Mul(%1, 3.0)  # 4
        "#]],
    );
}
