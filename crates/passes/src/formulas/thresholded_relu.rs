//! Writes `x > α ? x : 0` as `ThresholdedRelu(x)`. Both return 0 for NaN.
//!
//! <https://onnx.ai/onnx/operators/onnx__ThresholdedRelu.html>

use algebra::pattern::{Pattern, greater, hole, node, number};
use algebra::rewrite::{Formulas, Match, Result, ensure, rewrite};
use onnx::{Attr, DType, Op, OpType};

pub(crate) static REWRITES: Formulas =
    Formulas::new(&[&[rewrite("fuse-thresholded-relu", thresholded_relu, to_thresholded_relu)]]);

fn thresholded_relu() -> Pattern {
    let x = hole("x");
    node(OpType::Where, &[&greater(&x, &number("alpha")), &x, &0.0.into()])
}

fn to_thresholded_relu(found: &mut Match<'_, '_, '_>) -> Result<Op> {
    let x = found.value("x")?;
    let alpha = found.number("alpha")?;
    ensure(
        found.ty(x)? == found.ty(found.result())?,
        "the threshold has more axes than the operand",
    )?;
    ensure(
        found.ty(x)?.dtype == DType::F32 && alpha.is_finite(),
        "the threshold is an attribute of type float32",
    )?;
    found.expect_kernel(OpType::ThresholdedRelu, x)?;
    Ok(Op::new(OpType::ThresholdedRelu, &[x]).attr("alpha", Attr::Float(alpha as f32)))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check, formulas};

    #[test]
    fn a_number_above_a_threshold_or_zero_is_a_thresholded_relu() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[3]) -> (y)
%0:bool[3] = Less(0.5, x)
y:f32[3] = Where(%0, x, 0.0)",
            expect![[r#"
                graph g(x:f32[3]) -> (y)
                y:f32[3] = ThresholdedRelu(x) {alpha=0.5}  # 3 2
            "#]],
        );
    }

    #[test]
    fn a_threshold_that_is_included_and_another_number_are_not_fused() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[3]) -> (y, z)
%0:bool[3] = GreaterOrEqual(x, 0.5)
y:f32[3] = Where(%0, x, 0.0)
%1:bool[3] = Greater(x, 0.5)
z:f32[3] = Where(%1, x, 1.0)",
            expect![[r#"
                graph g(x:f32[3]) -> (y, z)
                %0 = GreaterOrEqual(x, 0.5)  # 2
                y:f32[3] = Where(%0, x, 0.0)  # 3
                %1 = Greater(x, 0.5)  # 4
                z:f32[3] = Where(%1, x, 1.0)  # 5
            "#]],
        );
    }
}
