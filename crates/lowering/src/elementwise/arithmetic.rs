//! Quotients, remainders, signs and extremes.

use onnx::{DType, Expr};

/// `x / y`; integers round towards zero
///
/// XLA defines `x / 0 = −1` and `MIN / −1 = MIN`, but the processor traps on both. Therefore the
/// formula replaces the divisors 0 and −1, unless the divisor is a constant without them.
pub(crate) fn div<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    if !x.dtype().is_int() || is_safe_divisor(y) {
        return x / y;
    }
    let is_zero = y.equal(0.0);
    if x.dtype().is_unsigned_int() {
        let all_ones = x.constant(-1.0);
        return is_zero.select(all_ones, x / is_zero.select(y.constant(1.0), y));
    }
    let is_minus_one = y.equal(-1.0);
    let safe = is_zero.or(is_minus_one).select(y.constant(1.0), y);
    is_zero.select(x.constant(-1.0), is_minus_one.select(-x, x / safe))
}

/// `x − trunc(x / y) · y`, with the sign of `x`
///
/// `Mod` computes integers in double precision, which loses bits of 64-bit integers.
pub(crate) fn rem<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    if x.dtype().is_float() { x.fmod(y) } else { x - div(x, y) * y }
}

/// `−1`, `0` or `1`; a float that is zero or NaN does not change
///
/// `Sign` loses the sign of a zero, and NaN in 16-bit types.
pub(crate) fn sign(x: Expr<'_>) -> Expr<'_> {
    if x.dtype().is_float() { x.abs().greater(0.0).select(x.sign(), x) } else { x.sign() }
}

/// Returns the larger element, or NaN if either is NaN; for booleans, `x or y`.
pub(crate) fn max<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    if x.dtype() == DType::Bool { x.or(y) } else { x.max(y) }
}

/// Returns the smaller element, or NaN if either is NaN; for booleans, `x and y`.
pub(crate) fn min<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    if x.dtype() == DType::Bool { x.and(y) } else { x.min(y) }
}

fn is_safe_divisor(y: Expr<'_>) -> bool {
    let divisors = y.tensor().and_then(|tensor| tensor.ints());
    divisors.is_some_and(|divisors| divisors.iter().all(|&divisor| divisor != 0 && divisor != -1))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn a_quotient_of_floats_is_one_node() {
        check(
            "x:f32[3] y:f32[3] -> z:f32[3] = div x y",
            expect![[r#"
                graph test(in_0:f32[3], in_1:f32[3]) -> (out_0)
                out_0:f32[3] = Div(in_0, in_1)
            "#]],
        );
    }

    #[test]
    fn a_divisor_that_may_trap_is_guarded() {
        check(
            "x:i32[3] y:i32[3] -> z:i32[3] = div x y",
            expect![[r#"
                graph test(in_0:i32[3], in_1:i32[3]) -> (out_0)
                %0 = Equal(in_1, 0:i32)
                %1 = Equal(in_1, -1:i32)
                %2 = Or(%0, %1)
                %3 = Where(%2, 1:i32, in_1)
                %4 = Neg(in_0)
                %5 = Div(in_0, %3)
                %6 = Where(%1, %4, %5)
                out_0:i32[3] = Where(%0, -1:i32, %6)
            "#]],
        );
    }

    #[test]
    fn an_unsigned_divisor_can_only_be_zero() {
        check(
            "x:u32[3] y:u32[3] -> z:u32[3] = div x y",
            expect![[r#"
                graph test(in_0:u32[3], in_1:u32[3]) -> (out_0)
                %0 = Equal(in_1, 0:u32)
                %1 = Cast(1:u32) {to=7}
                %2 = Cast(in_1) {to=7}
                %3 = Where(%0, %1, %2)
                %4 = Cast(%3) {to=12}
                %5 = Div(in_0, %4)
                %6 = Cast(4294967295:u32) {to=7}
                %7 = Cast(%5) {to=7}
                %8 = Where(%0, %6, %7)
                out_0:u32[3] = Cast(%8) {to=12}
            "#]],
        );
    }

    #[test]
    fn a_safe_constant_divisor_needs_no_guard() {
        check(
            "x:i32[3] -> z:i32[3] = rem x 7:i32[]",
            expect![[r#"
                graph test(in_0:i32[3]) -> (out_0)
                %0 = Div(in_0, 7:i32)
                %1 = Mul(%0, 7:i32)
                out_0:i32[3] = Sub(in_0, %1)
            "#]],
        );
    }

    #[test]
    fn a_constant_of_minus_one_is_guarded() {
        check(
            "x:i8[3] -> z:i8[3] = div x -1:i8[]",
            expect![[r#"
                graph test(in_0:i8[3]) -> (out_0)
                %0 = Equal(-1:i8, 0:i8)
                %1 = Equal(-1:i8, -1:i8)
                %2 = Or(%0, %1)
                %3 = Cast(1:i8) {to=6}
                %4 = Cast(-1:i8) {to=6}
                %5 = Where(%2, %3, %4)
                %6 = Cast(%5) {to=3}
                %7 = Neg(in_0)
                %8 = Div(in_0, %6)
                %9 = Cast(%7) {to=6}
                %10 = Cast(%8) {to=6}
                %11 = Where(%1, %9, %10)
                %12 = Cast(%11) {to=3}
                %13 = Cast(-1:i8) {to=6}
                %14 = Cast(%12) {to=6}
                %15 = Where(%0, %13, %14)
                out_0:i8[3] = Cast(%15) {to=3}
            "#]],
        );
    }

    #[test]
    fn the_sign_of_a_zero_is_kept() {
        check(
            "x:f32[3] -> y:f32[3] = sign x",
            expect![[r#"
                graph test(in_0:f32[3]) -> (out_0)
                %0 = Abs(in_0)
                %1 = Greater(%0, 0.0)
                %2 = Sign(in_0)
                out_0:f32[3] = Where(%1, %2, in_0)
            "#]],
        );
    }

    #[test]
    fn sixteen_bits_are_compared_in_thirty_two() {
        check(
            "x:i16[3] y:i16[3] -> z:i16[3] = max x y",
            expect![[r#"
                graph test(in_0:i16[3], in_1:i16[3]) -> (out_0)
                %0 = Cast(in_0) {to=6}
                %1 = Cast(in_1) {to=6}
                %2 = Max(%0, %1)
                out_0:i16[3] = Cast(%2) {to=5}
            "#]],
        );
    }

    #[test]
    fn the_larger_of_two_booleans_is_their_disjunction() {
        check(
            "x:bool[3] y:bool[3] -> z:bool[3] = max x y",
            expect![[r#"
                graph test(in_0:bool[3], in_1:bool[3]) -> (out_0)
                out_0:bool[3] = Or(in_0, in_1)
            "#]],
        );
    }

    #[test]
    fn a_sum_of_8_bits_overflows() {
        check(
            "x:f8_e4m3fn[3] y:f8_e4m3fn[3] -> z:f8_e4m3fn[3] = add x y",
            expect![[r#"
            graph test(in_0:f8_e4m3fn[3], in_1:f8_e4m3fn[3]) -> (out_0)
            %0 = Cast(in_0) {to=1}
            %1 = Cast(in_1) {to=1}
            %2 = Add(%0, %1)
            %3 = Abs(%2)
            %4 = GreaterOrEqual(%3, 480.0)
            %5 = Where(%4, inf, 1.0)
            %6 = Mul(%2, %5)
            out_0:f8_e4m3fn[3] = Cast(%6) {saturate=0, to=17}
        "#]],
        );
    }

    #[test]
    fn the_larger_of_8_bits_never_overflows() {
        check(
            "x:f8_e5m2[3] y:f8_e5m2[3] -> z:f8_e5m2[3] = max x y",
            expect![[r#"
            graph test(in_0:f8_e5m2[3], in_1:f8_e5m2[3]) -> (out_0)
            %0 = Cast(in_0) {to=1}
            %1 = Cast(in_1) {to=1}
            %2 = Max(%0, %1)
            out_0:f8_e5m2[3] = Cast(%2) {saturate=0, to=19}
        "#]],
        );
    }
}
