//! Arithmetic. Each test names a runtime that computes it with fewer digits, or not at all.

use expect_test::expect;

use super::{forms, integers, operators};
use testing::check_for;

#[test]
fn a_shift_of_bytes_is_a_product() {
    check_for(
        "openvino",
        forms::run,
        r#"graph g(x:u8[4]) -> (y)
y:u8[4] = BitShift(x, 1:u8) {direction="LEFT"}"#,
        expect![[r#"
            graph g(x:u8[4]) -> (y)
            %0 = Cast(x) {to=6}  # 2
            %1 = Mul(%0, 2:i32)  # 2
            y:u8[4] = Cast(%1) {to=2}  # 2
        "#]],
    );
}

#[test]
fn unsigned_numbers_are_shifted_in_two_halves() {
    check_for(
        "openvino",
        operators::run,
        r#"graph g(x:u32[4]) -> (y, z)
y:u32[4] = BitShift(x, 9:u32) {direction="RIGHT"}
z:u32[4] = BitShift(x, 20:u32) {direction="RIGHT"}"#,
        expect![[r#"
            graph g(x:u32[4]) -> (y, z)
            %0 = Cast(x) {to=6}  # 2
            %1 = BitwiseAnd(%0, -65536:i32)  # 2
            %2 = Div(%1, 512:i32)  # 2
            %3 = BitwiseAnd(%2, 8388607:i32)  # 2
            %4 = BitwiseAnd(%0, 65535:i32)  # 2
            %5 = Div(%4, 512:i32)  # 2
            %6 = BitwiseOr(%3, %5)  # 2
            y:u32[4] = Cast(%6) {to=12}  # 2
            %7 = Cast(x) {to=6}  # 3
            %8 = BitwiseAnd(%7, -1048576:i32)  # 3
            %9 = Div(%8, 1048576:i32)  # 3
            %10 = BitwiseAnd(%9, 4095:i32)  # 3
            z:u32[4] = Cast(%10) {to=12}  # 3
        "#]],
    );
}

#[test]
fn unsigned_numbers_are_divided_from_the_upper_digits_on() {
    check_for(
        "openvino",
        operators::run,
        "graph g(x:u32[4]) -> (y, z)
y:u32[4] = Div(x, 12:u32)
z:u32[4] = Div(x, 1000:u32)",
        expect![[r#"
            graph g(x:u32[4]) -> (y, z)
            %0 = Cast(x) {to=6}  # 2
            %1 = BitwiseAnd(%0, -65536:i32)  # 2
            %2 = Div(%1, 65536:i32)  # 2
            %3 = BitwiseAnd(%2, 65535:i32)  # 2
            %4 = BitwiseAnd(%0, 65535:i32)  # 2
            %5 = Div(%3, 12:i32)  # 2
            %6 = Mul(%5, 12:i32)  # 2
            %7 = Sub(%3, %6)  # 2
            %8 = Mul(%7, 65536:i32)  # 2
            %9 = Add(%8, %4)  # 2
            %10 = Div(%9, 12:i32)  # 2
            %11 = Mul(%5, 65536:i32)  # 2
            %12 = Add(%11, %10)  # 2
            y:u32[4] = Cast(%12) {to=12}  # 2
            %13 = Cast(x) {to=6}  # 3
            %14 = BitwiseAnd(%13, -65536:i32)  # 3
            %15 = Div(%14, 65536:i32)  # 3
            %16 = BitwiseAnd(%15, 65535:i32)  # 3
            %17 = BitwiseAnd(%13, 65535:i32)  # 3
            %18 = Div(%17, 256:i32)  # 3
            %19 = BitwiseAnd(%17, 255:i32)  # 3
            %20 = Div(%16, 1000:i32)  # 3
            %21 = Mul(%20, 1000:i32)  # 3
            %22 = Sub(%16, %21)  # 3
            %23 = Mul(%22, 256:i32)  # 3
            %24 = Add(%23, %18)  # 3
            %25 = Div(%24, 1000:i32)  # 3
            %26 = Mul(%25, 1000:i32)  # 3
            %27 = Sub(%24, %26)  # 3
            %28 = Mul(%20, 256:i32)  # 3
            %29 = Add(%28, %25)  # 3
            %30 = Mul(%27, 256:i32)  # 3
            %31 = Add(%30, %19)  # 3
            %32 = Div(%31, 1000:i32)  # 3
            %33 = Mul(%29, 256:i32)  # 3
            %34 = Add(%33, %32)  # 3
            z:u32[4] = Cast(%34) {to=12}  # 3
        "#]],
    );
}

#[test]
fn unsigned_numbers_are_not_divided_by_more_than_sixteen_bits() {
    let graph = "graph g(x:u32[4]) -> (y)
y:u32[4] = Div(x, 65537:u32)";
    check_for(
        "openvino",
        operators::run,
        graph,
        expect![[r#"
        graph g(x:u32[4]) -> (y)
        y:u32[4] = Div(x, 65537:u32)  # 2
    "#]],
    );
}

#[test]
fn bytes_are_shifted_by_a_table_of_powers() {
    check_for(
        "openvino",
        forms::run,
        r#"graph g(x:u8[4], s:u8[4]) -> (y, z)
y:u8[4] = BitShift(x, s) {direction="LEFT"}
z:u8[4] = BitShift(x, s) {direction="RIGHT"}"#,
        expect![[r#"
            graph g(x:u8[4], s:u8[4]) -> (y, z)
            %0 = Cast(s) {to=7}  # 2
            %1 = Gather(const i32[16], %0) {axis=0}  # 2
            %2 = Cast(x) {to=6}  # 2
            %3 = Mul(%2, %1)  # 2
            y:u8[4] = Cast(%3) {to=2}  # 2
            z:u8[4] = BitShift(x, s) {direction="RIGHT"}  # 3
        "#]],
    );
}

#[test]
fn unsigned_numbers_are_shifted_by_computed_distances() {
    check_for(
        "openvino",
        operators::run,
        r#"graph g(x:u32[4], s:u32[4]) -> (y, z)
y:u32[4] = BitShift(x, s) {direction="RIGHT"}
z:u32[4] = BitShift(x, s) {direction="LEFT"}"#,
        expect![[r#"
            graph g(x:u32[4], s:u32[4]) -> (y, z)
            %0 = Cast(x) {to=6}  # 2
            %1 = Cast(s) {to=7}  # 2
            %2 = BitwiseAnd(%0, -65536:i32)  # 2
            %3 = Div(%2, 65536:i32)  # 2
            %4 = BitwiseAnd(%3, 65535:i32)  # 2
            %5 = Gather(const i32[32], %1) {axis=0}  # 2
            %6 = Div(%4, %5)  # 2
            %7 = Gather(const i32[32], %1) {axis=0}  # 2
            %8 = Mul(%6, %7)  # 2
            %9 = BitwiseAnd(%0, 65535:i32)  # 2
            %10 = Gather(const i32[32], %1) {axis=0}  # 2
            %11 = Div(%9, %10)  # 2
            %12 = BitwiseOr(%8, %11)  # 2
            y:u32[4] = Cast(%12) {to=12}  # 2
            z:u32[4] = BitShift(x, s) {direction="LEFT"}  # 3
        "#]],
    );
}

#[test]
fn bytes_are_made_from_floats_by_way_of_larger_integers() {
    check_for(
        "iree",
        forms::run,
        "graph g(x:f32[4], i:i32[4]) -> (y, z, w)
y:u8[4] = Cast(x) {to=2}
z:u8[4] = Cast(i) {to=2}
w:i8[4] = Cast(x) {to=3}",
        expect![[r#"
            graph g(x:f32[4], i:i32[4]) -> (y, z, w)
            %0 = Cast(x) {to=6}  # 2
            y:u8[4] = Cast(%0) {to=2}  # 2
            z:u8[4] = Cast(i) {to=2}  # 3
            w:i8[4] = Cast(x) {to=3}  # 4
        "#]],
    );
}

#[test]
fn the_negative_of_a_large_integer_is_a_difference() {
    let graph = "graph g(x:i32[4], f:f32[4]) -> (y, z)
y:i32[4] = Neg(x)
z:f32[4] = Neg(f)";
    check_for(
        "iree",
        operators::run,
        graph,
        expect![[r#"
        graph g(x:i32[4], f:f32[4]) -> (y, z)
        y:i32[4] = Sub(0:i32, x)  # 2
        z:f32[4] = Neg(f)  # 3
    "#]],
    );
}

#[test]
fn integers_are_divided_twice_if_they_may_be_large() {
    check_for(
        "openvino",
        integers::run,
        "graph g(x:i32[4], b:u8[4], d:i32[4]) -> (y, z)
y:i32[4] = Div(x, d)
small:i32[4] = Cast(b) {to=6}
z:i32[4] = Div(small, d)",
        expect![[r#"
            graph g(x:i32[4], b:u8[4], d:i32[4]) -> (y, z)
            %0 = Cast(d) {to=1}  # 2
            %1 = Cast(x) {to=1}  # 2
            %2 = Mul(%1, 0.5)  # 2
            %3 = Div(%2, %0)  # 2
            %4 = Cast(%3) {to=6}  # 2
            %5 = Mul(%4, 2:i32)  # 2
            %6 = Mul(%5, d)  # 2
            %7 = Sub(x, %6)  # 2
            %8 = Cast(%7) {to=1}  # 2
            %9 = Div(%8, %0)  # 2
            %10 = Cast(%9) {to=6}  # 2
            %11 = Mul(%10, d)  # 2
            %12 = Sub(%7, %11)  # 2
            %13 = Add(%5, %10)  # 2
            %14 = Less(x, 0:i32)  # 2
            %15 = Less(d, 0:i32)  # 2
            %16 = Xor(%14, %15)  # 2
            %17 = Less(%12, 0:i32)  # 2
            %18 = Xor(%17, %14)  # 2
            %19 = Equal(%12, 0:i32)  # 2
            %20 = Not(%19)  # 2
            %21 = And(%18, %20)  # 2
            %22 = Add(%13, 1:i32)  # 2
            %23 = Sub(%13, 1:i32)  # 2
            %24 = Where(%16, %22, %23)  # 2
            y:i32[4] = Where(%21, %24, %13)  # 2
            small = Cast(b) {to=6}  # 3
            z:i32[4] = Div(small, d)  # 4
        "#]],
    );
}

#[test]
fn integers_are_divided_once_if_products_have_fewer_digits() {
    let graph = "graph g(x:i32[4], d:i32[4]) -> (y)
y:i32[4] = Div(x, d)";
    check_for(
        "mnn",
        integers::run,
        graph,
        expect![[r#"
        graph g(x:i32[4], d:i32[4]) -> (y)
        y:i32[4] = Div(x, d)  # 2
    "#]],
    );
    check_for(
        "tract",
        integers::run,
        graph,
        expect![[r#"
        graph g(x:i32[4], d:i32[4]) -> (y)
        y:i32[4] = Div(x, d)  # 2
    "#]],
    );
}

#[test]
fn integers_are_added_as_digits_if_they_may_be_large() {
    check_for(
        "openvino",
        integers::run,
        "graph g(x:i32[2,4], b:u8[4]) -> (y, z)
y:i32[2] = ReduceSum(x, [1]:i64) {keepdims=0}
small:i32[4] = Cast(b) {to=6}
z:i32[1] = ReduceSum(small)",
        expect![[r#"
            graph g(x:i32[2,4], b:u8[4]) -> (y, z)
            %0 = BitwiseAnd(x, -65536:i32)  # 2
            %1 = Cast(%0) {to=1}  # 2
            %2 = Mul(%1, 1.5258789e-5)  # 2
            %3 = ReduceSum(%2, [1]:i64) {keepdims=0}  # 2
            %4 = Cast(%3) {to=6}  # 2
            %5 = Mul(%4, 65536:i32)  # 2
            %6 = BitwiseAnd(x, 65535:i32)  # 2
            %7 = Cast(%6) {to=1}  # 2
            %8 = ReduceSum(%7, [1]:i64) {keepdims=0}  # 2
            %9 = Cast(%8) {to=6}  # 2
            y:i32[2] = Add(%5, %9)  # 2
            small = Cast(b) {to=6}  # 3
            z:i32[1] = ReduceSum(small)  # 4
        "#]],
    );
}

#[test]
fn many_integers_are_added_as_three_digits() {
    let graph = "graph g(x:i32[300]) -> (y)
y:i32[] = ReduceSum(x, [0]:i64) {keepdims=0}";
    check_for(
        "openvino",
        integers::run,
        graph,
        expect![[r#"
        graph g(x:i32[300]) -> (y)
        %0 = BitwiseAnd(x, -4194304:i32)  # 2
        %1 = Cast(%0) {to=1}  # 2
        %2 = Mul(%1, 2.3841858e-7)  # 2
        %3 = ReduceSum(%2, [0]:i64) {keepdims=0}  # 2
        %4 = Cast(%3) {to=6}  # 2
        %5 = Mul(%4, 4194304:i32)  # 2
        %6 = BitwiseAnd(x, 4192256:i32)  # 2
        %7 = Cast(%6) {to=1}  # 2
        %8 = Mul(%7, 0.00048828125)  # 2
        %9 = ReduceSum(%8, [0]:i64) {keepdims=0}  # 2
        %10 = Cast(%9) {to=6}  # 2
        %11 = Mul(%10, 2048:i32)  # 2
        %12 = Add(%5, %11)  # 2
        %13 = BitwiseAnd(x, 2047:i32)  # 2
        %14 = Cast(%13) {to=1}  # 2
        %15 = ReduceSum(%14, [0]:i64) {keepdims=0}  # 2
        %16 = Cast(%15) {to=6}  # 2
        y:i32[] = Add(%12, %16)  # 2
    "#]],
    );
}

#[test]
fn integers_are_added_as_digits_before_they_are_widened() {
    check_for(
        "openvino",
        integers::run,
        "graph g(x:i32[4]) -> (y)
wide:i64[4] = Cast(x) {to=7}
sum:i64[] = ReduceSum(wide, [0]:i64) {keepdims=0}
y:i32[] = Cast(sum) {to=6}",
        expect![[r#"
            graph g(x:i32[4]) -> (y)
            %0 = BitwiseAnd(x, -65536:i32)  # 3
            %1 = Cast(%0) {to=1}  # 3
            %2 = Mul(%1, 1.5258789e-5)  # 3
            %3 = ReduceSum(%2, [0]:i64) {keepdims=0}  # 3
            %4 = Cast(%3) {to=6}  # 3
            %5 = Mul(%4, 65536:i32)  # 3
            %6 = BitwiseAnd(x, 65535:i32)  # 3
            %7 = Cast(%6) {to=1}  # 3
            %8 = ReduceSum(%7, [0]:i64) {keepdims=0}  # 3
            %9 = Cast(%8) {to=6}  # 3
            %10 = Add(%5, %9)  # 3
            sum = Cast(%10) {to=7}  # 3
            y:i32[] = Cast(sum) {to=6}  # 4
        "#]],
    );
}

#[test]
fn unsigned_numbers_are_compared_by_the_signs_of_differences() {
    check_for(
        "openvino",
        operators::run,
        "graph g(x:u32[4], z:u32[4]) -> (y, w)
y:bool[4] = Less(x, z)
w:bool[4] = Equal(x, z)",
        expect![[r#"
            graph g(x:u32[4], z:u32[4]) -> (y, w)
            %0 = Cast(x) {to=6}  # 2
            %1 = Cast(z) {to=6}  # 2
            %2 = Less(%0, 0:i32)  # 2
            %3 = Less(%1, 0:i32)  # 2
            %4 = Sub(%0, %1)  # 2
            %5 = Less(%4, 0:i32)  # 2
            %6 = Xor(%2, %3)  # 2
            %7 = And(%6, %3)  # 2
            %8 = Not(%6)  # 2
            %9 = And(%8, %5)  # 2
            y:bool[4] = Or(%7, %9)  # 2
            %10 = BitwiseXor(x, z)  # 3
            %11 = Cast(%10) {to=6}  # 3
            w:bool[4] = Equal(%11, 0:i32)  # 3
        "#]],
    );
}

#[test]
fn unsigned_numbers_are_compared_with_a_flipped_sign() {
    check_for(
        "openvino",
        operators::run,
        "graph g(x:u32[3], z:u32[3]) -> (y)
y:bool[3] = Less(x, z)",
        expect![[r#"
            graph g(x:u32[3], z:u32[3]) -> (y)
            %0 = Cast(x) {to=6}  # 2
            %1 = Cast(z) {to=6}  # 2
            %2 = Less(%0, 0:i32)  # 2
            %3 = Less(%1, 0:i32)  # 2
            %4 = Sub(%0, %1)  # 2
            %5 = Less(%4, 0:i32)  # 2
            %6 = Xor(%2, %3)  # 2
            %7 = And(%6, %3)  # 2
            %8 = Not(%6)  # 2
            %9 = And(%8, %5)  # 2
            y:bool[3] = Or(%7, %9)  # 2
        "#]],
    );
}

#[test]
fn a_cast_to_uint32_adds_the_bits_of_an_integer() {
    check_for(
        "iree",
        operators::run,
        "graph g(x:i32[3], u:u64[3]) -> (y, z)
y:u32[3] = Cast(x) {to=12}
z:u32[3] = Cast(u) {to=12}",
        expect![[r#"
            graph g(x:i32[3], u:u64[3]) -> (y, z)
            %0 = Cast(x) {to=7}  # 2
            %1 = Unsqueeze(%0, [1]:i64)  # 2
            %2 = BitwiseAnd(%1, const i64[32])  # 2
            %3 = Equal(%2, 0:i64)  # 2
            %4 = Not(%3)  # 2
            %5 = Where(%4, const u32[32], 0:u32)  # 2
            y:u32[3] = ReduceSum(%5, [1]:i64) {keepdims=0}  # 2
            z:u32[3] = Cast(u) {to=12}  # 3
        "#]],
    );
}

#[test]
fn a_power_with_several_exponents_is_a_formula_if_a_runtime_knows_one() {
    let graph = "graph g(x:f32[2,2]) -> (y)
y:f32[2,2] = Pow(x, [2.0, 1.0])";
    check_for(
        "iree",
        operators::run,
        graph,
        expect![[r#"
            graph g(x:f32[2,2]) -> (y)
            %0 = Abs(x)  # 2
            %1 = Log(%0)  # 2
            %2 = Mul(%1, [2.0, 1.0])  # 2
            %3 = Exp(%2)  # 2
            %4 = Mul([2.0, 1.0], 0.5)  # 2
            %5 = Floor(%4)  # 2
            %6 = Equal(%5, %4)  # 2
            %7 = Not(%6)  # 2
            %8 = Neg(%3)  # 2
            %9 = Where(%7, %8, %3)  # 2
            %10 = Floor([2.0, 1.0])  # 2
            %11 = Equal(%10, [2.0, 1.0])  # 2
            %12 = Where(%11, %9, nan)  # 2
            %13 = Less(x, 0.0)  # 2
            %14 = Where(%13, %12, %3)  # 2
            %15 = Equal([2.0, 1.0], 0.0)  # 2
            y:f32[2,2] = Where(%15, 1.0, %14)  # 2
        "#]],
    );
}

#[test]
fn a_power_with_one_exponent_stays() {
    let graph = "graph g(x:f32[2,2]) -> (y)
y:f32[2,2] = Pow(x, [2.0, 2.0])";
    check_for(
        "iree",
        operators::run,
        graph,
        expect![[r#"
        graph g(x:f32[2,2]) -> (y)
        y:f32[2,2] = Pow(x, [2.0, 2.0])  # 2
    "#]],
    );
}

#[test]
fn constants_are_divided_for_a_runtime_that_rounds_their_quotient() {
    check_for(
        "rten",
        forms::run,
        "graph g(x:f32[2]) -> (y, z)
%0:f32[2] = Div([1.0, 2.0], 4.0)
y:f32[2] = Add(x, %0)
z:f32[2] = Div(x, 4.0)",
        expect![[r#"
            graph g(x:f32[2]) -> (y, z)
            %0 = Identity([0.25, 0.5])  # 2
            y:f32[2] = Add(x, %0)  # 3
            z:f32[2] = Div(x, 4.0)  # 4
        "#]],
    );
}
