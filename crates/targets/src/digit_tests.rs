//! Integers with all digits. Each test names a runtime that computes them in float32, or stores them in another way.

use expect_test::expect;

use super::{forms, integers};
use testing::check_for;

#[test]
fn integers_are_multiplied_as_digits_if_they_may_be_large() {
    check_for(
        "mnn",
        integers::run,
        "graph g(x:i32[4], z:i32[4], b:u8[4]) -> (y, s, t, u, v)
y:i32[4] = Mul(x, z)
s:i32[4] = Mul(x, -5:i32)
small:i32[4] = Cast(b) {to=6}
t:i32[4] = Mul(small, small)
u:i32[4] = Mul(small, 4096:i32)
at:i32[4] = Mul(x, 3:i32)
v:i32[4] = Gather(z, at)",
        expect![[r#"
            graph g(x:i32[4], z:i32[4], b:u8[4]) -> (y, s, t, u, v)
            %0 = Mod(x, 2048:i32) {fmod=1}  # 2
            %1 = Div(x, 2048:i32)  # 2
            %2 = Mod(%1, 2048:i32) {fmod=1}  # 2
            %3 = Div(x, 4194304:i32)  # 2
            %4 = Mod(z, 2048:i32) {fmod=1}  # 2
            %5 = Div(z, 2048:i32)  # 2
            %6 = Mod(%5, 2048:i32) {fmod=1}  # 2
            %7 = Div(z, 4194304:i32)  # 2
            %8 = Mul(%0, %7)  # 2
            %9 = Mul(%2, %6)  # 2
            %10 = Add(%8, %9)  # 2
            %11 = Mul(%3, %4)  # 2
            %12 = Add(%10, %11)  # 2
            %13 = Mul(%0, %6)  # 2
            %14 = Mul(%2, %4)  # 2
            %15 = Add(%13, %14)  # 2
            %16 = Mod(%12, 2097152:i32) {fmod=1}  # 2
            %17 = Mul(%16, 1024:i32)  # 2
            %18 = Add(%17, %17)  # 2
            %19 = Add(%18, %15)  # 2
            %20 = Mod(%19, 2097152:i32) {fmod=1}  # 2
            %21 = Mul(%20, 1024:i32)  # 2
            %22 = Add(%21, %21)  # 2
            %23 = Mul(%0, %4)  # 2
            y:i32[4] = Add(%22, %23)  # 2
            %24 = Add(x, x)  # 3
            %25 = Add(%24, %24)  # 3
            %26 = Add(%25, x)  # 3
            s:i32[4] = Sub(0:i32, %26)  # 3
            small = Cast(b) {to=6}  # 4
            t:i32[4] = Mul(small, small)  # 5
            u:i32[4] = Mul(small, 4096:i32)  # 6
            at = Mul(x, 3:i32)  # 7
            v:i32[4] = Gather(z, at)  # 8
        "#]],
    );
}

#[test]
fn a_hash_keeps_its_digits_before_it_becomes_an_index() {
    check_for(
        "mnn",
        integers::run,
        "graph g(x:i32[4], z:i32[16]) -> (v)
h:i32[4] = Mul(x, 33:i32)
at:i32[4] = Mod(h, 16:i32)
v:i32[4] = Gather(z, at)",
        expect![[r#"
            graph g(x:i32[4], z:i32[16]) -> (v)
            %0 = Add(x, x)  # 2
            %1 = Add(%0, %0)  # 2
            %2 = Add(%1, %1)  # 2
            %3 = Add(%2, %2)  # 2
            %4 = Add(%3, %3)  # 2
            h = Add(%4, x)  # 2
            at = Mod(h, 16:i32)  # 3
            v:i32[4] = Gather(z, at)  # 4
        "#]],
    );
}

#[test]
fn limits_of_integers_are_choices_if_they_may_be_large() {
    check_for(
        "mnn",
        integers::run,
        "graph g(x:i32[4], z:i32[4]) -> (a, b, c, d, e)
a:i32[4] = Max(x, z)
b:i32[4] = Min(x, 7:i32)
c:i32[4] = Clip(x, 0:i32, 100000000:i32)
d:i32[4] = Clip(x, 0:i32, 100:i32)
e:i32[4] = Abs(x)",
        expect![[r#"
            graph g(x:i32[4], z:i32[4]) -> (a, b, c, d, e)
            %0 = Less(x, z)  # 2
            a:i32[4] = Where(%0, z, x)  # 2
            %1 = Less(x, 7:i32)  # 3
            b:i32[4] = Where(%1, x, 7:i32)  # 3
            %2 = Less(x, 0:i32)  # 4
            %3 = Where(%2, 0:i32, x)  # 4
            %4 = Less(100000000:i32, %3)  # 4
            c:i32[4] = Where(%4, 100000000:i32, %3)  # 4
            d:i32[4] = Clip(x, 0:i32, 100:i32)  # 5
            %5 = Less(x, 0:i32)  # 6
            %6 = Sub(0:i32, x)  # 6
            e:i32[4] = Where(%5, %6, x)  # 6
        "#]],
    );
}

#[test]
fn extremes_of_integers_are_found_in_two_halves_if_they_may_be_large() {
    check_for(
        "openvino",
        integers::run,
        "graph g(x:i32[2,4], b:u8[4]) -> (y, z, s)
y:i32[2] = ReduceMax(x, [1]:i64) {keepdims=0}
z:i32[1,1] = ReduceMin(x)
small:i32[4] = Cast(b) {to=6}
s:i32[1] = ReduceMax(small)",
        expect![[r#"
            graph g(x:i32[2,4], b:u8[4]) -> (y, z, s)
            %0 = BitwiseAnd(x, -65536:i32)  # 2
            %1 = Div(%0, 65536:i32)  # 2
            %2 = ReduceMax(%1, [1]:i64) {keepdims=1}  # 2
            %3 = Equal(%1, %2)  # 2
            %4 = BitwiseAnd(x, 65535:i32)  # 2
            %5 = Where(%3, %4, -1:i32)  # 2
            %6 = Mul(%2, 65536:i32)  # 2
            %7 = ReduceMax(%5, [1]:i64) {keepdims=1}  # 2
            %8 = Add(%6, %7)  # 2
            y:i32[2] = Squeeze(%8, [1]:i64)  # 2
            %9 = BitwiseAnd(x, -65536:i32)  # 3
            %10 = Div(%9, 65536:i32)  # 3
            %11 = ReduceMin(%10, [0, 1]:i64) {keepdims=1}  # 3
            %12 = Equal(%10, %11)  # 3
            %13 = BitwiseAnd(x, 65535:i32)  # 3
            %14 = Where(%12, %13, 65536:i32)  # 3
            %15 = Mul(%11, 65536:i32)  # 3
            %16 = ReduceMin(%14, [0, 1]:i64) {keepdims=1}  # 3
            z:i32[1,1] = Add(%15, %16)  # 3
            small = Cast(b) {to=6}  # 4
            s:i32[1] = ReduceMax(small)  # 5
        "#]],
    );
}

#[test]
fn bytes_of_an_input_meet_others_as_wider_integers() {
    check_for(
        "mnn",
        forms::run,
        "graph g(x:i8[4], c:bool[4], f:f32[4]) -> (y, z, w)
y:i8[4] = Where(c, x, 1:i8)
v:i8[2,2] = Reshape(x, [2, 2]:i64)
z:i8[3,2] = Concat(v, [[1, 2]]:i8) {axis=0}
k:i8[4] = Cast(f) {to=3}
w:i8[4] = Where(c, k, 1:i8)",
        expect![[r#"
            graph g(x:i8[4], c:bool[4], f:f32[4]) -> (y, z, w)
            %0 = Cast(x) {to=6}  # 2
            %1 = Cast(1:i8) {to=6}  # 2
            %2 = Where(c, %0, %1)  # 2
            y:i8[4] = Cast(%2) {to=3}  # 2
            v = Reshape(x, [2, 2]:i64)  # 3
            %3 = Cast(v) {to=6}  # 4
            %4 = Cast([[1, 2]]:i8) {to=6}  # 4
            %5 = Concat(%3, %4) {axis=0}  # 4
            z:i8[3,2] = Cast(%5) {to=3}  # 4
            k = Cast(f) {to=3}  # 5
            w:i8[4] = Where(c, k, 1:i8)  # 6
        "#]],
    );
}

#[test]
fn integers_lose_their_high_bits_before_a_cast_to_sixteen() {
    check_for(
        "mnn",
        forms::run,
        "graph g(x:i32[4], b:u8[4], v:u16[4]) -> (y, z, w, u)
y:u16[4] = Cast(x) {to=4}
z:i16[4] = Cast(x) {to=5}
w:u16[4] = Cast(b) {to=4}
u:i16[4] = Cast(v) {to=5}",
        expect![[r#"
            graph g(x:i32[4], b:u8[4], v:u16[4]) -> (y, z, w, u)
            %0 = Mod(x, 65536:i32)  # 2
            y:u16[4] = Cast(%0) {to=4}  # 2
            %1 = Add(x, 32768:i32)  # 3
            %2 = Mod(%1, 65536:i32)  # 3
            %3 = Sub(%2, 32768:i32)  # 3
            z:i16[4] = Cast(%3) {to=5}  # 3
            w:u16[4] = Cast(b) {to=4}  # 4
            %4 = Cast(v) {to=6}  # 5
            %5 = Add(%4, 32768:i32)  # 5
            %6 = Mod(%5, 65536:i32)  # 5
            %7 = Sub(%6, 32768:i32)  # 5
            u:i16[4] = Cast(%7) {to=5}  # 5
        "#]],
    );
}
