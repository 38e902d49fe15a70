use expect_test::{Expect, expect};

use testing::check;

#[test]
fn rotated_halves_are_one_node() {
    check(
        crate::layout::rotary::run,
        "graph g(x:f32[1,T,2,4], c:f32[T,1,2], s:f32[T,1,2]) -> (y)
a:f32[1,T,2,2], b:f32[1,T,2,2] = Split(x, [2, 2]:i64) {axis=3}
%0:f32[1,T,2,2] = Mul(a, c)
%1:f32[1,T,2,2] = Mul(s, b)
%2:f32[1,T,2,2] = Sub(%0, %1)
%3:f32[1,T,2,2] = Mul(a, s)
%4:f32[1,T,2,2] = Mul(b, c)
%5:f32[1,T,2,2] = Add(%3, %4)
y:f32[1,T,2,4] = Concat(%2, %5) {axis=3}",
        expect![[r#"
            graph g(x:f32[1,T,2,4], c:f32[T,1,2], s:f32[T,1,2]) -> (y)
            a, b = Split(x, [2, 2]:i64) {axis=3}  # 2
            %0 = Mul(a, c)  # 3
            %1 = Mul(s, b)  # 4
            %2 = Sub(%0, %1)  # 5
            %3 = Mul(a, s)  # 6
            %4 = Mul(b, c)  # 7
            %5 = Add(%3, %4)  # 8
            %6 = Reshape(x, [1, 0, 8]:i64)  # 9 2 3 4 5 6 7 8
            %7 = Reshape(c, [1, -1, 2]:i64)  # 9 2 3 4 5 6 7 8
            %8 = Reshape(s, [1, -1, 2]:i64)  # 9 2 3 4 5 6 7 8
            %9 = RotaryEmbedding(%6, %7, %8) {num_heads=2}  # 9 2 3 4 5 6 7 8
            y:f32[1,T,2,4] = Reshape(%9, [1, 0, 2, 4]:i64)  # 9 2 3 4 5 6 7 8
        "#]],
    );
}

#[test]
fn batches_of_heads_that_are_apart_keep_their_shape() {
    check(
        crate::layout::rotary::run,
        "graph g(x:f32[3,2,5,4], c:f32[5,2], s:f32[5,2]) -> (y)
a:f32[3,2,5,2], b:f32[3,2,5,2] = Split(x, [2, 2]:i64) {axis=3}
%0:f32[3,2,5,2] = Mul(a, c)
%1:f32[3,2,5,2] = Mul(s, b)
%2:f32[3,2,5,2] = Sub(%0, %1)
%3:f32[3,2,5,2] = Mul(a, s)
%4:f32[3,2,5,2] = Mul(b, c)
%5:f32[3,2,5,2] = Add(%3, %4)
y:f32[3,2,5,4] = Concat(%2, %5) {axis=3}",
        expect![[r#"
            graph g(x:f32[3,2,5,4], c:f32[5,2], s:f32[5,2]) -> (y)
            a, b = Split(x, [2, 2]:i64) {axis=3}  # 2
            %0 = Mul(a, c)  # 3
            %1 = Mul(s, b)  # 4
            %2 = Sub(%0, %1)  # 5
            %3 = Mul(a, s)  # 6
            %4 = Mul(b, c)  # 7
            %5 = Add(%3, %4)  # 8
            %6 = Reshape(c, [1, 5, 2]:i64)  # 9 2 3 4 5 6 7 8
            %7 = Expand(%6, [3, 1, 1]:i64)  # 9 2 3 4 5 6 7 8
            %8 = Reshape(s, [1, 5, 2]:i64)  # 9 2 3 4 5 6 7 8
            %9 = Expand(%8, [3, 1, 1]:i64)  # 9 2 3 4 5 6 7 8
            y:f32[3,2,5,4] = RotaryEmbedding(x, %7, %9)  # 9 2 3 4 5 6 7 8
        "#]],
    );
}

#[test]
fn a_rotation_the_other_way_is_not_fused() {
    check(
        crate::layout::rotary::run,
        "graph g(x:f32[1,5,2,4], c:f32[5,1,2], s:f32[5,1,2]) -> (y)
a:f32[1,5,2,2], b:f32[1,5,2,2] = Split(x, [2, 2]:i64) {axis=3}
%0:f32[1,5,2,2] = Mul(a, c)
%1:f32[1,5,2,2] = Mul(s, b)
%2:f32[1,5,2,2] = Sub(%0, %1)
%3:f32[1,5,2,2] = Mul(a, c)
%4:f32[1,5,2,2] = Mul(b, s)
%5:f32[1,5,2,2] = Add(%3, %4)
y:f32[1,5,2,4] = Concat(%2, %5) {axis=3}",
        expect![[r#"
            graph g(x:f32[1,5,2,4], c:f32[5,1,2], s:f32[5,1,2]) -> (y)
            a, b = Split(x, [2, 2]:i64) {axis=3}  # 2
            %0 = Mul(a, c)  # 3
            %1 = Mul(s, b)  # 4
            %2 = Sub(%0, %1)  # 5
            %3 = Mul(a, c)  # 6
            %4 = Mul(b, s)  # 7
            %5 = Add(%3, %4)  # 8
            y:f32[1,5,2,4] = Concat(%2, %5) {axis=3}  # 9
        "#]],
    );
}

#[test]
fn a_table_whose_halves_differ_is_not_fused() {
    check(
        crate::layout::rotary::run,
        "graph g(x:f32[1,1,2,2], s:f32[1,1,1,2]) -> (y)
a:f32[1,1,2,1], b:f32[1,1,2,1] = Split(x, [1, 1]:i64) {axis=3}
%0:f32[1,1,2,2] = Mul(x, [[[[0.5, 0.5]]]])
%1:f32[1,1,2,1] = Neg(b)
%2:f32[1,1,2,2] = Concat(%1, a) {axis=3}
%3:f32[1,1,2,2] = Mul(%2, s)
y:f32[1,1,2,2] = Add(%0, %3)",
        expect![[r#"
            graph g(x:f32[1,1,2,2], s:f32[1,1,1,2]) -> (y)
            a, b = Split(x, [1, 1]:i64) {axis=3}  # 2
            %0 = Mul(x, [[[[0.5, 0.5]]]])  # 3
            %1 = Neg(b)  # 4
            %2 = Concat(%1, a) {axis=3}  # 5
            %3 = Mul(%2, s)  # 6
            y:f32[1,1,2,2] = Add(%0, %3)  # 7
        "#]],
    );
}

#[test]
fn rotated_pairs_side_by_side_are_one_node() {
    check(
        crate::layout::rotary::run,
        "graph g(x:f32[B,2,5,4], c:f32[5,2], s:f32[5,2]) -> (y)
p:f32[B,2,5,2,2] = Reshape(x, [0, 2, 5, 2, 2]:i64)
a:f32[B,2,5,2] = Gather(p, 0:i64) {axis=4}
b:f32[B,2,5,2] = Gather(p, 1:i64) {axis=4}
%0:f32[B,2,5,2] = Mul(a, c)
%1:f32[B,2,5,2] = Mul(s, b)
%2:f32[B,2,5,2] = Sub(%0, %1)
%3:f32[B,2,5,2] = Mul(a, s)
%4:f32[B,2,5,2] = Mul(b, c)
%5:f32[B,2,5,2] = Add(%3, %4)
%6:f32[B,2,5,2,1] = Unsqueeze(%2, [4]:i64)
%7:f32[B,2,5,2,1] = Unsqueeze(%5, [4]:i64)
%8:f32[B,2,5,2,2] = Concat(%6, %7) {axis=4}
y:f32[B,2,5,4] = Reshape(%8, [0, 2, 5, 4]:i64)",
        expect![[r#"
            graph g(x:f32[B,2,5,4], c:f32[5,2], s:f32[5,2]) -> (y)
            p = Reshape(x, [0, 2, 5, 2, 2]:i64)  # 2
            a = Gather(p, 0:i64) {axis=4}  # 3
            b = Gather(p, 1:i64) {axis=4}  # 4
            %0 = Mul(a, c)  # 5
            %1 = Mul(s, b)  # 6
            %2 = Sub(%0, %1)  # 7
            %3 = Mul(a, s)  # 8
            %4 = Mul(b, c)  # 9
            %5 = Add(%3, %4)  # 10
            %6 = Unsqueeze(%2, [4]:i64)  # 11
            %7 = Unsqueeze(%5, [4]:i64)  # 12
            %8 = Concat(%6, %7) {axis=4}  # 13
            %9 = Reshape(c, [1, 5, 2]:i64)  # 14 2 3 4 5 6 7 8 9 10 11 12 13
            %10 = Shape(x) {end=1, start=0}  # 14 2 3 4 5 6 7 8 9 10 11 12 13
            %11 = Concat(%10, [1, 1]:i64) {axis=0}  # 13 2 3 4 5 6 7 8 9 10 11 12 14
            %12 = Expand(%9, %11)  # 14 2 3 4 5 6 7 8 9 10 11 12 13
            %13 = Reshape(s, [1, 5, 2]:i64)  # 14 2 3 4 5 6 7 8 9 10 11 12 13
            %14 = Shape(x) {end=1, start=0}  # 14 2 3 4 5 6 7 8 9 10 11 12 13
            %15 = Concat(%14, [1, 1]:i64) {axis=0}  # 13 2 3 4 5 6 7 8 9 10 11 12 14
            %16 = Expand(%13, %15)  # 14 2 3 4 5 6 7 8 9 10 11 12 13
            y:f32[B,2,5,4] = RotaryEmbedding(x, %12, %16) {interleaved=1}  # 14 2 3 4 5 6 7 8 9 10 11 12 13
        "#]],
    );
}

/// Halves that are swapped, where heads and rows are.
#[track_caller]
fn check_swapped(plain: &str, expect: Expect) {
    let text = format!(
        "graph g(x:f32[5,2,4], c:f32[5,2], s:f32[5,2]) -> (y)
c2:f32[5,4] = Tile(c, [1, 2]:i64)
s2:f32[5,4] = Concat(s, s) {{axis=1}}
b:f32[5,2,2] = Slice(x, [2]:i64, [4]:i64, [2]:i64)
n:f32[5,2,2] = Neg(b)
nt:f32[2,5,2] = Transpose(n) {{perm=[1, 0, 2]}}
a:f32[5,2,2] = Slice(x, [0]:i64, [2]:i64, [2]:i64)
at:f32[2,5,2] = Transpose(a) {{perm=[1, 0, 2]}}
r:f32[2,5,4] = Concat(nt, at) {{axis=2}}
{plain}
%0:f32[2,5,4] = Mul(xt, c2)
%1:f32[2,5,4] = Mul(r, s2)
y:f32[2,5,4] = Add(%0, %1)"
    );
    check(crate::layout::rotary::run, &text, expect);
}

#[test]
fn swapped_halves_of_an_array_that_is_transposed() {
    check_swapped(
        "xt:f32[2,5,4] = Transpose(x) {perm=[1, 0, 2]}",
        expect![[r#"
            graph g(x:f32[5,2,4], c:f32[5,2], s:f32[5,2]) -> (y)
            c2 = Tile(c, [1, 2]:i64)  # 2
            s2 = Concat(s, s) {axis=1}  # 3
            b = Slice(x, [2]:i64, [4]:i64, [2]:i64)  # 4
            n = Neg(b)  # 5
            nt = Transpose(n) {perm=[1, 0, 2]}  # 6
            a = Slice(x, [0]:i64, [2]:i64, [2]:i64)  # 7
            at = Transpose(a) {perm=[1, 0, 2]}  # 8
            r = Concat(nt, at) {axis=2}  # 9
            xt = Transpose(x) {perm=[1, 0, 2]}  # 10
            %0 = Mul(xt, c2)  # 11
            %1 = Mul(r, s2)  # 12
            y:f32[2,5,4] = Add(%0, %1)  # 13
        "#]],
    );
}

#[test]
fn tables_that_are_repeated_in_rows_are_read_once() {
    check(
        crate::layout::rotary::run,
        "graph g(x:f32[1,5,4], c:f32[5,2], s:f32[5,2]) -> (y)
%0:f32[1,5,1,2] = Reshape(c, [1, 5, 1, 2]:i64)
%1:f32[1,5,2,2] = Expand(%0, [1, 5, 2, 2]:i64)
c2:f32[5,4] = Reshape(%1, [5, 4]:i64)
s2:f32[5,4] = Concat(s, s) {axis=1}
b:f32[1,5,2] = Slice(x, [2]:i64, [4]:i64, [2]:i64)
n:f32[1,5,2] = Neg(b)
a:f32[1,5,2] = Slice(x, [0]:i64, [2]:i64, [2]:i64)
r:f32[1,5,4] = Concat(n, a) {axis=2}
%2:f32[1,5,4] = Mul(x, c2)
%3:f32[1,5,4] = Mul(r, s2)
y:f32[1,5,4] = Add(%2, %3)",
        expect![[r#"
            graph g(x:f32[1,5,4], c:f32[5,2], s:f32[5,2]) -> (y)
            %0 = Reshape(c, [1, 5, 1, 2]:i64)  # 2
            %1 = Expand(%0, [1, 5, 2, 2]:i64)  # 3
            c2 = Reshape(%1, [5, 4]:i64)  # 4
            s2 = Concat(s, s) {axis=1}  # 5
            b = Slice(x, [2]:i64, [4]:i64, [2]:i64)  # 6
            n = Neg(b)  # 7
            a = Slice(x, [0]:i64, [2]:i64, [2]:i64)  # 8
            r = Concat(n, a) {axis=2}  # 9
            %2 = Mul(x, c2)  # 10
            %3 = Mul(r, s2)  # 11
            %4 = Reshape(x, [1, 1, 5, 4]:i64)  # 12 5 6 7 8 9 10 11
            %5 = Slice(c2, [0]:i64, [2]:i64, [1]:i64)  # 8 5 6 7 9 10 11 12
            %6 = Reshape(%5, [1, 5, 2]:i64)  # 12 5 6 7 8 9 10 11
            %7 = Reshape(s, [1, 5, 2]:i64)  # 12 5 6 7 8 9 10 11
            %8 = RotaryEmbedding(%4, %6, %7)  # 12 5 6 7 8 9 10 11
            y:f32[1,5,4] = Reshape(%8, [1, 5, 4]:i64)  # 12 5 6 7 8 9 10 11
        "#]],
    );
}

#[test]
fn halves_of_another_array_are_not_fused() {
    check_swapped(
        "xt:f32[2,5,4] = Reshape(x, [2, 5, 4]:i64)",
        expect![[r#"
        graph g(x:f32[5,2,4], c:f32[5,2], s:f32[5,2]) -> (y)
        c2 = Tile(c, [1, 2]:i64)  # 2
        s2 = Concat(s, s) {axis=1}  # 3
        b = Slice(x, [2]:i64, [4]:i64, [2]:i64)  # 4
        n = Neg(b)  # 5
        nt = Transpose(n) {perm=[1, 0, 2]}  # 6
        a = Slice(x, [0]:i64, [2]:i64, [2]:i64)  # 7
        at = Transpose(a) {perm=[1, 0, 2]}  # 8
        r = Concat(nt, at) {axis=2}  # 9
        xt = Reshape(x, [2, 5, 4]:i64)  # 10
        %0 = Mul(xt, c2)  # 11
        %1 = Mul(r, s2)  # 12
        y:f32[2,5,4] = Add(%0, %1)  # 13
    "#]],
    );
}

#[test]
fn a_part_that_is_not_a_half_is_not_fused() {
    check(
        crate::layout::rotary::run,
        "graph g(x:f32[5,4], c:f32[5,4], s:f32[5,2]) -> (y)
s2:f32[5,4] = Tile(s, [1, 2]:i64)
b:f32[5,2] = Slice(x, [1]:i64, [3]:i64, [1]:i64)
n:f32[5,2] = Neg(b)
a:f32[5,2] = Slice(x, [0]:i64, [2]:i64, [1]:i64)
r:f32[5,4] = Concat(n, a) {axis=1}
%0:f32[5,4] = Mul(x, c)
%1:f32[5,4] = Mul(r, s2)
y:f32[5,4] = Add(%0, %1)",
        expect![[r#"
            graph g(x:f32[5,4], c:f32[5,4], s:f32[5,2]) -> (y)
            s2 = Tile(s, [1, 2]:i64)  # 2
            b = Slice(x, [1]:i64, [3]:i64, [1]:i64)  # 3
            n = Neg(b)  # 4
            a = Slice(x, [0]:i64, [2]:i64, [1]:i64)  # 5
            r = Concat(n, a) {axis=1}  # 6
            %0 = Mul(x, c)  # 7
            %1 = Mul(r, s2)  # 8
            y:f32[5,4] = Add(%0, %1)  # 9
        "#]],
    );
}

#[test]
fn a_rotation_with_the_second_half_negated_is_not_fused() {
    check(
        crate::layout::rotary::run,
        "graph g(x:f32[1,4]) -> (y)
b:f32[1,2] = Slice(x, [2]:i64, [4]:i64, [1]:i64)
a:f32[1,2] = Slice(x, [0]:i64, [2]:i64, [1]:i64)
n:f32[1,2] = Neg(a)
r:f32[1,4] = Concat(b, n) {axis=1}
%0:f32[1,4] = Mul(x, [1.0, 2.0, 3.0, 4.0])
%1:f32[1,4] = Mul(r, [5.0, 6.0, 7.0, 8.0])
y:f32[1,4] = Add(%0, %1)",
        expect![[r#"
            graph g(x:f32[1,4]) -> (y)
            b = Slice(x, [2]:i64, [4]:i64, [1]:i64)  # 2
            a = Slice(x, [0]:i64, [2]:i64, [1]:i64)  # 3
            n = Neg(a)  # 4
            r = Concat(b, n) {axis=1}  # 5
            %0 = Mul(x, [1.0, 2.0, 3.0, 4.0])  # 6
            %1 = Mul(r, [5.0, 6.0, 7.0, 8.0])  # 7
            y:f32[1,4] = Add(%0, %1)  # 8
        "#]],
    );
}
