//! Rewrites `(x − mean) · scale + shift` with one number per channel as `BatchNormalization(x)` with variance 1. The mean may
//! be missing.
//!
//! ONNX Runtime computes it in one pass over `x`, and a product and a sum in two. If there is a convolution or a
//! matrix product next to them, `fold-products` has folded both into it before.
//!
//! <https://onnx.ai/onnx/operators/onnx__BatchNormalization.html>

use algebra::pattern::{Pattern, constant, either, hole};
use algebra::rewrite::{Formulas, Match, Result, ensure, rewrite};
use onnx::{Attr, Op, OpType, Tensor, Type, ValueId};

pub(crate) static REWRITES: Formulas =
    Formulas::new(&[&[rewrite("fuse-batch-norm", scaled_and_shifted, to_batch_norm)]]);

/// ONNX Runtime computes `x · scale + (shift − mean · scale)`. Larger numbers would cost digits of results near zero.
const MAX_SHIFT: f64 = 100.0;

fn scaled_and_shifted() -> Pattern {
    let centered = (hole("x") - constant("mean")).named("centered");
    (either(&[&centered, &hole("x")]) * constant("scale")).named("product") + constant("shift")
}

fn to_batch_norm(found: &mut Match<'_, '_, '_>) -> Result<Op> {
    let x = found.value("x")?;
    let ty = found.ty(x)?;
    ensure(ty.rank() >= 3, "no channel axis precedes the last axis")?;
    ensure(found.ty(found.result())? == ty, "the scale has more axes than the operand")?;
    for name in ["product", "centered"] {
        let is_own = found.maybe(name).is_none_or(|value| found.reads(value) == 1);
        ensure(is_own, "another node reads the product")?;
    }
    found.expect_kernel(OpType::BatchNormalization, x)?;
    let mut vectors = Vec::new();
    for (name, number) in [("scale", 1.0), ("shift", 0.0), ("mean", 0.0), ("variance", 1.0)] {
        let source = found.maybe(name);
        let numbers = source.map_or(Ok(vec![number]), |from| numbers_of_channels(found, from, &ty));
        vectors.push((source, numbers?));
    }
    let channels = vectors.iter().map(|(_, numbers)| numbers.len()).max().unwrap_or(1);
    ensure(channels != 1, "all channels have the same scale and shift")?;
    let is_precise = |(mean, scale): (&f64, &f64)| (mean * scale).abs() <= MAX_SHIFT;
    let (mean, scale) = (vectors[2].1.iter(), vectors[0].1.iter());
    let is_precise = mean.cycle().zip(scale.cycle()).take(channels).all(is_precise);
    ensure(is_precise, "ONNX Runtime would subtract a large number after the product")?;
    let mut inputs = vec![x];
    for (source, numbers) in vectors {
        let numbers: Vec<f64> = numbers.into_iter().cycle().take(channels).collect();
        let tensor = Tensor::of_floats(ty.dtype, vec![channels as i64], &numbers);
        let tensor = tensor.ok_or("the type cannot represent the number")?;
        inputs.push(found.constant(tensor, source.as_slice()));
    }
    Ok(Op::new(OpType::BatchNormalization, &inputs).attr("epsilon", Attr::Float(0.0)))
}

/// Returns the numbers of a constant that varies only along the channel axis, or a single number if all channels have
/// the same.
fn numbers_of_channels(found: &Match<'_, '_, '_>, from: ValueId, ty: &Type) -> Result<Vec<f64>> {
    let tensor = found.tensor(from).ok_or("the values of a constant are unknown")?;
    let missing = ty.rank().checked_sub(tensor.shape.len()).ok_or("a constant has more axes")?;
    let mut sizes = tensor.shape.iter().enumerate().map(|(axis, &size)| (axis + missing, size));
    let is_of_channels =
        |(axis, size): (usize, i64)| size == 1 || (axis == 1 && ty.shape[1].is(size));
    ensure(sizes.all(is_of_channels), "a constant varies along axes other than the channel axis")?;
    let numbers = tensor.floats().ok_or("the type of a constant is not a float")?;
    ensure(
        numbers.iter().all(|number| number.is_finite()),
        "a number is not finite, and the operator would multiply it by the mean",
    )?;
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check, formulas};

    #[test]
    fn a_scale_and_a_shift_of_each_channel_are_a_batch_norm() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[B,2,5,5]) -> (y)
%0:f32[B,2,5,5] = Mul(x, [[[2.0]], [[3.0]]])
y:f32[B,2,5,5] = Add(%0, [[[[-1.0]], [[4.0]]]])",
            expect![[r#"
                graph g(x:f32[B,2,5,5]) -> (y)
                y:f32[B,2,5,5] = BatchNormalization(x, [2.0, 3.0], [-1.0, 4.0], [0.0, 0.0], [1.0, 1.0]) {epsilon=0.0}  # 3 2
            "#]],
        );
    }

    #[test]
    fn a_small_mean_of_each_channel_is_part_of_a_batch_norm() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[B,2,5]) -> (y, z)
%0:f32[B,2,5] = Sub(x, [[7.0], [9.0]])
%1:f32[B,2,5] = Mul(%0, [[2.0], [3.0]])
y:f32[B,2,5] = Add(%1, 0.5)
%2:f32[B,2,5] = Sub(x, [[7.0], [90.0]])
%3:f32[B,2,5] = Mul(%2, [[2.0], [3.0]])
z:f32[B,2,5] = Add(%3, 0.5)",
            expect![[r#"
                graph g(x:f32[B,2,5]) -> (y, z)
                y:f32[B,2,5] = BatchNormalization(x, [2.0, 3.0], [0.5, 0.5], [7.0, 9.0], [1.0, 1.0]) {epsilon=0.0}  # 4 2 3
                %0 = Sub(x, [[7.0], [90.0]])  # 5
                %1 = Mul(%0, [[2.0], [3.0]])  # 6
                z:f32[B,2,5] = Add(%1, 0.5)  # 7
            "#]],
        );
    }

    #[test]
    fn one_number_may_be_the_shift_of_all_channels() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[B,2,5]) -> (y)
%0:f32[B,2,5] = Mul([[2.0], [3.0]], x)
y:f32[B,2,5] = Add(0.5, %0)",
            expect![[r#"
                graph g(x:f32[B,2,5]) -> (y)
                y:f32[B,2,5] = BatchNormalization(x, [2.0, 3.0], [0.5, 0.5], [0.0, 0.0], [1.0, 1.0]) {epsilon=0.0}  # 3 2
            "#]],
        );
    }

    #[test]
    fn other_axes_equal_numbers_and_infinities_are_not_fused() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[3,2,2]) -> (a, b, c, d)
%0:f32[3,2,2] = Mul(x, [2.0, 3.0])
a:f32[3,2,2] = Add(%0, [1.0, 4.0])
%1:f32[3,2,2] = Mul(x, 2.0)
b:f32[3,2,2] = Add(%1, 3.0)
%2:f32[3,2,2] = Mul(x, [[2.0], [inf]])
c:f32[3,2,2] = Add(%2, [[1.0], [4.0]])
%3:f32[3,2,2] = Mul(x, [[2.0], [5.0]])
%4:f32[3,2,2] = Add(%3, [[1.0], [4.0]])
d:f32[3,2,2] = Mul(%3, %4)",
            expect![[r#"
                graph g(x:f32[3,2,2]) -> (a, b, c, d)
                %0 = Mul(x, [2.0, 3.0])  # 2
                a:f32[3,2,2] = Add(%0, [1.0, 4.0])  # 3
                %1 = Mul(x, 2.0)  # 4
                b:f32[3,2,2] = Add(%1, 3.0)  # 5
                %2 = Mul(x, [[2.0], [inf]])  # 6
                c:f32[3,2,2] = Add(%2, [[1.0], [4.0]])  # 7
                %3 = Mul(x, [[2.0], [5.0]])  # 8
                %4 = Add(%3, [[1.0], [4.0]])  # 9
                d:f32[3,2,2] = Mul(%3, %4)  # 10
            "#]],
        );
    }
}
