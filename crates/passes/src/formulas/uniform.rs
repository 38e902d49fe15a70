//! Writes `float_of_bits((x >> k) | 1.0) - 1` as `(x >> k) · 2⁻ᵐ`, where `m` is the number of bits of a fraction.
//!
//! JAX converts random bits to numbers between 0 and 1 in this way. Both formulas are exact: the remaining bits of `x` are
//! the fraction of a number with the exponent of 1.

use algebra::pattern::{Pattern, composite, either, either_order, hole, node, number};
use algebra::rewrite::{Declined, Formulas, Match, Result, ensure, rewrite};
use onnx::{Attr, DType, Op, OpType};

pub(crate) static REWRITES: Formulas =
    Formulas::new(&[&[rewrite("fuse-uniform", uniform, to_product)]]);

fn uniform() -> Pattern {
    let fraction = node(OpType::BitShift, &[&hole("x"), &number("places")]).named("fraction");
    let bits = either_order(OpType::BitwiseOr, &fraction, &number("exponent"));
    let float = node(composite("float_of_bits"), &[&bits]);
    either(&[&(&float - 1.0), &(&float + -1.0)])
}

fn to_product(found: &mut Match<'_, '_, '_>) -> Result<Op> {
    let result = found.ty(found.result())?;
    let (bits, one) = match result.dtype {
        DType::F16 => (10, 0x3c00),
        DType::F32 => (23, u64::from(1.0_f32.to_bits())),
        DType::F64 => (52, 1.0_f64.to_bits()),
        dtype => return Err(Declined(format!("the fraction of {dtype} is too short"))),
    };
    ensure(found.number("exponent")? == one as f64, "the exponent is not that of 1")?;
    let fraction = found.value("fraction")?;
    ensure(
        found.node("fraction")?.attr("direction") == Some(&Attr::from("RIGHT")),
        "the bits are shifted to the left",
    )?;
    let width = found.ty(fraction)?.dtype.bits() as f64;
    if found.number("places")? < width - f64::from(bits) {
        return Err("more bits remain than a fraction has".into());
    }
    found.formula([fraction], |[fraction]| {
        fraction.cast_exactly(result.dtype) * f64::powi(2.0, -bits)
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check, formulas};

    #[test]
    fn random_bits_of_doubles_are_a_product() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:u64[3]) -> (y)
%0:u64[3] = BitShift(x, 12:u64) {direction=\"RIGHT\"}
%1:u64[3] = BitwiseOr(%0, 4607182418800017408:u64)
%2:f64[3] = jax2onnx.composite::float_of_bits(%1)
y:f64[3] = Sub(%2, 1.0:f64)",
            expect![[r#"
                graph g(x:u64[3]) -> (y)
                %0 = BitShift(x, 12:u64) {direction="RIGHT"}  # 2
                %1 = Cast(%0) {to=11}  # 5 2 3 4
                y:f64[3] = Mul(%1, 2.220446049250313e-16:f64)  # 5 2 3 4
            "#]],
        );
    }

    #[test]
    fn random_bits_as_a_number_below_one_are_a_product() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:u32[3]) -> (y)
%0:u32[3] = BitShift(x, 9:u32) {direction=\"RIGHT\"}
%1:u32[3] = BitwiseOr(%0, 1065353216:u32)
%2:f32[3] = jax2onnx.composite::float_of_bits(%1)
y:f32[3] = Sub(%2, 1.0)",
            expect![[r#"
                graph g(x:u32[3]) -> (y)
                %0 = BitShift(x, 9:u32) {direction="RIGHT"}  # 2
                %1 = Cast(%0) {to=1}  # 5 2 3 4
                y:f32[3] = Mul(%1, 1.1920929e-7)  # 5 2 3 4
            "#]],
        );
    }

    #[test]
    fn too_many_bits_another_exponent_and_a_shift_to_the_left_are_not_fused() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:u32[3]) -> (a, b, c)
%0:u32[3] = BitShift(x, 8:u32) {direction=\"RIGHT\"}
%1:u32[3] = BitwiseOr(%0, 1065353216:u32)
%2:f32[3] = jax2onnx.composite::float_of_bits(%1)
a:f32[3] = Sub(%2, 1.0)
%3:u32[3] = BitShift(x, 9:u32) {direction=\"RIGHT\"}
%4:u32[3] = BitwiseOr(%3, 1073741824:u32)
%5:f32[3] = jax2onnx.composite::float_of_bits(%4)
b:f32[3] = Sub(%5, 1.0)
%6:u32[3] = BitShift(x, 9:u32) {direction=\"LEFT\"}
%7:u32[3] = BitwiseOr(%6, 1065353216:u32)
%8:f32[3] = jax2onnx.composite::float_of_bits(%7)
c:f32[3] = Sub(%8, 1.0)",
            expect![[r#"
                graph g(x:u32[3]) -> (a, b, c)
                %0 = BitShift(x, 8:u32) {direction="RIGHT"}  # 2
                %1 = BitwiseOr(%0, 1065353216:u32)  # 3
                %2 = jax2onnx.composite::float_of_bits(%1)  # 4
                a:f32[3] = Sub(%2, 1.0)  # 5
                %3 = BitShift(x, 9:u32) {direction="RIGHT"}  # 6
                %4 = BitwiseOr(%3, 1073741824:u32)  # 7
                %5 = jax2onnx.composite::float_of_bits(%4)  # 8
                b:f32[3] = Sub(%5, 1.0)  # 9
                %6 = BitShift(x, 9:u32) {direction="LEFT"}  # 10
                %7 = BitwiseOr(%6, 1065353216:u32)  # 11
                %8 = jax2onnx.composite::float_of_bits(%7)  # 12
                c:f32[3] = Sub(%8, 1.0)  # 13
            "#]],
        );
    }
}
