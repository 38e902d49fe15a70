//! Fuses activations.
//!
//! Results differ from the formula by a few units in the last place of the result or of 1, whichever is larger. JAX
//! computes `expm1` or `erfc` with all digits. ONNX Runtime subtracts from 1 instead, with an error of 10⁻⁷.

use std::f64::consts::{FRAC_1_SQRT_2, PI, SQRT_2};

use algebra::pattern::{
    Pattern, abs, either, erf, erfc, exp, expm1, greater, greater_or_equal, hole, log1p, maximum,
    minimum, node, number, product, relu, tanh,
};
use algebra::rewrite::{Formulas, Match, Result, ensure, rewrite};
use onnx::kernels::Support;
use onnx::{Attr, Op, OpType, Tensor};

pub(crate) static REWRITES: Formulas = Formulas::new(&[&[
    rewrite("fuse-gelu", gelu_by_erf, |found| gelu(found, "none")),
    rewrite("fuse-gelu", gelu_by_erfc, to_gelu_or_erf),
    rewrite("fuse-gelu", gelu_by_tanh, |found| gelu(found, "tanh")),
    rewrite("fuse-relu", max_with_zero, |found| plain(found, OpType::Relu)),
    rewrite("fuse-leaky-relu", leaky_relu, |found| with_alpha(found, OpType::LeakyRelu)),
    rewrite("fuse-prelu", prelu, to_prelu),
    rewrite("fuse-prelu", sum_of_relus, to_prelu),
    rewrite("fuse-selu", selu, to_selu),
    rewrite("fuse-elu", elu, to_elu),
    rewrite("fuse-softplus", softplus, |found| plain(found, OpType::Softplus)),
    rewrite("fuse-hard-sigmoid", hard_sigmoid, to_hard_sigmoid),
    rewrite("fuse-hard-swish", hard_swish, to_hard_swish),
    rewrite("fuse-celu", celu, to_celu),
    rewrite("fuse-mish", mish, to_mish),
    rewrite("fuse-softsign", softsign, |found| plain(found, OpType::Softsign)),
    rewrite("fuse-clip", clip, to_clip),
]]);

/// `½ · x · (1 + erf(x / √2))`
fn gelu_by_erf() -> Pattern {
    let x = hole("x");
    product(&[&x, &(erf(&product(&[&x], FRAC_1_SQRT_2)) + 1.0)], 0.5)
}

/// `½ · x · erfc(−x / √2)`
fn gelu_by_erfc() -> Pattern {
    let x = hole("x");
    product(&[&x, &erfc(&product(&[&-&x], FRAC_1_SQRT_2))], 0.5)
}

/// `½ · x · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))`
fn gelu_by_tanh() -> Pattern {
    let x = hole("x");
    let cubic = &x + product(&[&x, &x, &x], 0.044_715);
    product(&[&x, &(tanh(&product(&[&cubic], (2.0 / PI).sqrt())) + 1.0)], 0.5)
}

fn gelu(found: &mut Match<'_, '_, '_>, approximate: &'static str) -> Result<Op> {
    let x = found.value("x")?;
    found.expect_kernel(OpType::Gelu, x)?;
    Ok(Op::new(OpType::Gelu, &[x]).attr("approximate", approximate))
}

/// If the opset has no `Gelu` yet, writes the formula with `erf`, which the kernel of `Gelu` computes too.
fn to_gelu_or_erf(found: &mut Match<'_, '_, '_>) -> Result<Op> {
    let x = found.value("x")?;
    if !matches!(found.runs(OpType::Gelu, found.ty(x)?.dtype), Support::From(_)) {
        return gelu(found, "none");
    }
    found.expect_kernel(OpType::Erf, x)?;
    found.formula([x], |[x]| {
        let shifted = (x / SQRT_2).erf() + 1.0;
        x * 0.5 * shifted
    })
}

/// `max(x, 0)`
fn max_with_zero() -> Pattern {
    maximum(&hole("x"), &0.0.into())
}

/// `x ≥ 0 ? x : α · x`
fn leaky_relu() -> Pattern {
    let x = hole("x");
    node(OpType::Where, &[&is_not_negative(), &x, &(&x * number("alpha"))])
}

fn is_not_negative() -> Pattern {
    let x = hole("x");
    either(&[&greater_or_equal(&x, &0.0.into()), &greater(&x, &0.0.into())])
}

/// `x ≥ 0 ? x : α · x` with a slope for each channel.
fn prelu() -> Pattern {
    let x = hole("x");
    node(OpType::Where, &[&is_not_negative(), &x, &(&x * hole("slope"))])
}

/// `relu(x) − slope · relu(−x)`. The minus sign is part of the slope.
fn sum_of_relus() -> Pattern {
    let x = hole("x");
    relu(&x) + relu(&-&x) * hole("negative slope")
}

fn to_prelu(found: &mut Match<'_, '_, '_>) -> Result<Op> {
    let op = plain(found, OpType::PRelu)?;
    let given = found.maybe("slope").or(found.maybe("negative slope"));
    let mut slope = given.ok_or("no slope was found")?;
    let Some(tensor) = found.tensor(slope).cloned() else {
        return Err("the slopes are not constant".into());
    };
    let mut numbers = tensor.floats().ok_or("the slopes are not floats")?;
    if found.maybe("slope").is_none() {
        numbers = numbers.iter().map(|number| -number).collect();
        let negated = Tensor::of_floats(tensor.dtype, tensor.shape.clone(), &numbers);
        slope = found.constant(negated.ok_or("the type cannot represent the number")?, &[slope]);
    }
    // The pattern may compare with `>` or `≥`. Both return 0 for 0 if the slope is finite.
    ensure(numbers.into_iter().all(f64::is_finite), "a slope is not finite")?;
    ensure(
        found.ty(slope)?.rank() <= found.ty(found.value("x")?)?.rank(),
        "the slopes have more axes than the operand",
    )?;
    Ok(Op { inputs: vec![op.inputs[0], Some(slope)], ..op })
}

/// `x > 0 ? x : α · expm1(x > 0 ? 0 : x)`
fn elu() -> Pattern {
    let curve = expm1_of_negative();
    either(&[
        &node(OpType::Where, &[&is_positive(), &hole("x"), &(number("alpha") * &curve)]),
        &node(OpType::Where, &[&is_positive(), &hole("x"), &curve]),
    ])
}

fn to_elu(found: &mut Match<'_, '_, '_>) -> Result<Op> {
    match found.maybe("alpha") {
        Some(_) => with_alpha(found, OpType::Elu),
        None => plain(found, OpType::Elu),
    }
}

/// `λ · (x > 0 ? x : α · expm1(x > 0 ? 0 : x))`
fn selu() -> Pattern {
    let curve = number("alpha") * expm1_of_negative();
    let whole = node(OpType::Where, &[&is_positive(), &hole("x"), &curve]);
    number("scale") * either(&[&whole, &node(OpType::Elu, &[&hole("x")]).named("elu")])
}

fn to_selu(found: &mut Match<'_, '_, '_>) -> Result<Op> {
    let alpha = match found.maybe("elu") {
        Some(_) => match found.node("elu")?.attr("alpha") {
            Some(Attr::Float(alpha)) => *alpha,
            _ => 1.0,
        },
        None => in_single_precision(found.number("alpha")?)?,
    };
    let scale = in_single_precision(found.number("scale")?)?;
    let op = plain(found, OpType::Selu)?;
    Ok(op.attr("alpha", Attr::Float(alpha)).attr("gamma", Attr::Float(scale)))
}

/// `x · tanh(softplus(x))`
fn mish() -> Pattern {
    let x = hole("x");
    &x * tanh(&node(OpType::Softplus, &[&x]))
}

fn to_mish(found: &mut Match<'_, '_, '_>) -> Result<Op> {
    let x = found.value("x")?;
    ensure(found.opset() >= 18, "Mish needs opset 18")?;
    // ONNX Runtime expands `Mish` when it loads the model, so it needs the kernels of the parts.
    found.expect_kernel(OpType::Softplus, x)?;
    Ok(Op::new(OpType::Mish, &[x]))
}

/// `x / (1 + |x|)`
fn softsign() -> Pattern {
    let x = hole("x");
    &x / (abs(&x) + 1.0)
}

fn is_positive() -> Pattern {
    greater(&hole("x"), &0.0.into())
}

fn expm1_of_negative() -> Pattern {
    let negative = node(OpType::Where, &[&is_positive(), &0.0.into(), &hole("x")]);
    expm1(&either(&[&negative, &hole("x")]))
}

/// `log(exp(x) + exp(0))`, as `logaddexp` computes it: `max(x, 0) + log1p(exp(−|x|))`, with a separate case for NaN.
fn softplus() -> Pattern {
    let x = hole("x");
    let smooth = relu(&x) + log1p(&exp(&-abs(&x)));
    let is_number = node(OpType::Equal, &[&x, &x]);
    let smooth = either(&[&node(OpType::Softplus, &[&x]), &smooth]);
    // `drop-identity` replaces `x + 0` with `x` if `x` cannot be −0, as in `softplus(y + 1)`.
    let otherwise = either(&[&(&x + 0.0), &x]);
    either(&[&node(OpType::Where, &[&is_number, &smooth, &otherwise]), &smooth])
}

/// `min(max(x + 3, 0), 6)`
fn relu6_of_shifted(x: &Pattern) -> Pattern {
    let shifted = x + 3.0;
    let clipped = minimum(&relu(&shifted), &6.0.into());
    either(&[&clipped, &node(OpType::Clip, &[&shifted, &0.0.into(), &6.0.into()])])
}

/// `min(max(x + 3, 0), 6) / 6`
fn hard_sigmoid() -> Pattern {
    product(&[&relu6_of_shifted(&hole("x"))], 1.0 / 6.0)
}

fn to_hard_sigmoid(found: &mut Match<'_, '_, '_>) -> Result<Op> {
    let op = plain(found, OpType::HardSigmoid)?;
    Ok(op.attr("alpha", Attr::Float(1.0 / 6.0)).attr("beta", Attr::Float(0.5)))
}

/// `x · HardSigmoid(x)`. The division by 6 may come last.
fn hard_swish() -> Pattern {
    let x = hole("x");
    let sigmoid = node(OpType::HardSigmoid, &[&x]).named("sigmoid");
    either(&[&(&x * sigmoid), &product(&[&x, &relu6_of_shifted(&x)], 1.0 / 6.0)])
}

fn to_hard_swish(found: &mut Match<'_, '_, '_>) -> Result<Op> {
    if let Some(sigmoid) = found.maybe("sigmoid") {
        let curve = found.node("sigmoid")?;
        let has = |name: &str, number: f32| curve.attr(name) == Some(&Attr::Float(number));
        ensure(has("alpha", 1.0 / 6.0) && has("beta", 0.5), "the slope of the curve differs")?;
        ensure(found.reads(sigmoid) <= 1, "another node reads the curve")?;
    }
    // ONNX Runtime expands `HardSwish` when it loads the model, so it needs the kernels of the parts.
    found.expect_kernel(OpType::HardSigmoid, found.value("x")?)?;
    Ok(Op::new(OpType::HardSwish, &[found.value("x")?]))
}

/// `max(x, 0) + α · expm1(min(x, 0) / α)`
fn celu() -> Pattern {
    let x = hole("x");
    let negative = minimum(&x, &0.0.into());
    let curve = expm1(&either(&[&(&negative / number("divisor")), &negative]));
    either(&[&(relu(&x) + number("alpha") * &curve), &(relu(&x) + &curve)])
}

fn to_celu(found: &mut Match<'_, '_, '_>) -> Result<Op> {
    let of = |name: &str| found.maybe(name).map_or(Ok(1.0), |_| found.number(name));
    let alpha = of("alpha")?;
    if of("divisor")? != alpha || alpha.is_nan() || alpha <= 0.0 {
        return Err("the divisor differs from the factor, or is not positive".into());
    }
    // `Celu` exists only for float32. With an α of 1, it is equal to `Elu`.
    let op = plain(found, if alpha == 1.0 { OpType::Elu } else { OpType::Celu })?;
    Ok(op.attr("alpha", Attr::Float(in_single_precision(alpha)?)))
}

/// `min(max(x, low), high)`, or `x > high ? high : x < low ? low : x`.
fn clip() -> Pattern {
    let x = hole("x");
    let (low, high) = (number("low"), number("high"));
    let raised = node(OpType::Where, &[&greater(&low, &x), &low, &x]);
    either(&[
        &node(OpType::Where, &[&greater(&x, &high), &high, &raised]),
        &minimum(&maximum(&x, &number("low")), &high),
        &minimum(&node(OpType::Relu, &[&x]).named("relu"), &high),
    ])
}

fn to_clip(found: &mut Match<'_, '_, '_>) -> Result<Op> {
    let x = found.value("x")?;
    let high = found.number("high")?;
    let low = if found.maybe("low").is_some() { found.number("low")? } else { 0.0 };
    if low.is_nan() || high.is_nan() || low > high {
        return Err("the lower limit is above the upper one, or one is NaN".into());
    }
    let ty = found.ty(x)?;
    ensure(ty == found.ty(found.result())?, "a limit has more axes than the operand")?;
    ensure(ty.dtype.is_float(), "ONNX Runtime's Clip is wrong for some integers")?;
    found.expect_kernel(OpType::Clip, x)?;
    let low = found.scalar(ty.dtype, low)?;
    let high = found.scalar(ty.dtype, high)?;
    Ok(Op::new(OpType::Clip, &[x, low, high]))
}

/// Returns an operator with the only operand `x`.
fn plain(found: &mut Match<'_, '_, '_>, op: OpType) -> Result<Op> {
    let x = found.value("x")?;
    found.expect_kernel(op, x)?;
    ensure(found.ty(x)? == found.ty(found.result())?, "a constant has more axes than the operand")?;
    Ok(Op::new(op, &[x]))
}

/// Returns an operator of `x` with the attribute `alpha`.
fn with_alpha(found: &mut Match<'_, '_, '_>, op: OpType) -> Result<Op> {
    let slope = found.number("alpha")?;
    // The pattern may compare with `>` or `≥`. Both return 0 for 0 with such a slope.
    ensure(slope.is_finite() && slope.is_sign_positive(), "a slope is negative or not finite")?;
    Ok(plain(found, op)?.attr("alpha", Attr::Float(in_single_precision(slope)?)))
}

/// Returns a number as float32. Declines if it is not finite or would be rounded.
fn in_single_precision(number: f64) -> Result<f32> {
    let narrow = number as f32;
    if number.is_finite() && f64::from(narrow) == number {
        return Ok(narrow);
    }
    Err("a number is not finite, or float32 cannot represent it".into())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check, check_at, formulas};

    const GELU: &str = "graph g(x:f32[3]) -> (y)
%0:f32[3] = Mul(0.5, x)
%1:f32[3] = Neg(x)
%2:f32[3] = Mul(%1, 0.70710677)
%3:f32[3] = jax2onnx.composite::erfc(%2)
y:f32[3] = Mul(%0, %3)";

    fn lean(edit: &mut onnx::Edit<'_>) {
        super::REWRITES.run(edit);
        edit.drop_unread();
    }

    #[test]
    fn an_exact_gelu_is_one_operator_or_the_formula_of_its_kernel() {
        check(
            lean,
            GELU,
            expect![[r#"
            graph g(x:f32[3]) -> (y)
            y:f32[3] = Gelu(x) {approximate="none"}  # 6 2 3 4 5
        "#]],
        );
        check_at(
            19,
            lean,
            GELU,
            expect![[r#"
            graph g(x:f32[3]) -> (y)
            %0 = Div(x, 1.4142135)  # 6 2 3 4 5
            %1 = Erf(%0)  # 6 2 3 4 5
            %2 = Add(%1, 1.0)  # 6 2 3 4 5
            %3 = Mul(x, 0.5)  # 6 2 3 4 5
            y:f32[3] = Mul(%3, %2)  # 6 2 3 4 5
        "#]],
        );
    }

    #[test]
    fn a_gelu_with_another_factor_or_of_float64_is_not_fused() {
        let narrow = GELU.replace("0.70710677", "0.8");
        check_at(
            19,
            lean,
            &narrow,
            expect![[r#"
            graph g(x:f32[3]) -> (y)
            %0 = Mul(0.5, x)  # 2
            %1 = Neg(x)  # 3
            %2 = Mul(%1, 0.8)  # 4
            %3 = jax2onnx.composite::erfc(%2)  # 5
            y:f32[3] = Mul(%0, %3)  # 6
        "#]],
        );
        let double = GELU.replace("f32", "f64").replace("0.70710677", "0.7071067811865476:f64");
        check_at(
            19,
            lean,
            &double.replace("0.5,", "0.5:f64,"),
            expect![[r#"
            graph g(x:f64[3]) -> (y)
            %0 = Mul(0.5:f64, x)  # 2
            %1 = Neg(x)  # 3
            %2 = Mul(%1, 0.7071067811865476:f64)  # 4
            %3 = jax2onnx.composite::erfc(%2)  # 5
            y:f64[3] = Mul(%0, %3)  # 6
        "#]],
        );
    }

    #[test]
    fn choices_between_limits_are_a_clip() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[3]) -> (y)
%0:bool[3] = Greater(x, 1.0)
%1:bool[3] = Greater(-1.0, x)
%2:f32[3] = Where(%1, -1.0, x)
y:f32[3] = Where(%0, 1.0, %2)",
            expect![[r#"
                graph g(x:f32[3]) -> (y)
                y:f32[3] = Clip(x, -1.0, 1.0)  # 5 2 3 4
            "#]],
        );
    }

    #[test]
    fn choices_between_other_numbers_are_not_fused() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[3]) -> (y)
%0:bool[3] = Greater(x, 1.0)
%1:bool[3] = Greater(-1.0, x)
%2:f32[3] = Where(%1, -2.0, x)
y:f32[3] = Where(%0, 1.0, %2)",
            expect![[r#"
                graph g(x:f32[3]) -> (y)
                %0 = Greater(x, 1.0)  # 2
                %1 = Greater(-1.0, x)  # 3
                %2 = Where(%1, -2.0, x)  # 4
                y:f32[3] = Where(%0, 1.0, %2)  # 5
            "#]],
        );
    }

    #[test]
    fn slopes_and_limits_that_are_not_finite_are_not_fused() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[3]) -> (a, b, c, d, e)
%0:bool[3] = Greater(x, 0.0)
%1:f32[3] = Mul(x, inf)
a:f32[3] = Where(%0, x, %1)
%2:f32[3] = Mul(x, -0.5)
b:f32[3] = Where(%0, x, %2)
%3:f32[3] = Max(x, nan)
c:f32[3] = Min(%3, 1.0)
d:f32[3] = Max(x, -0.0)
%4:f32[3] = Mul(x, [1.0, nan, 0.5])
e:f32[3] = Where(%0, x, %4)",
            expect![[r#"
                graph g(x:f32[3]) -> (a, b, c, d, e)
                %0 = Greater(x, 0.0)  # 2
                %1 = Mul(x, inf)  # 3
                a:f32[3] = Where(%0, x, %1)  # 4
                b:f32[3] = PRelu(x, -0.5)  # 6 2 5
                %2 = Max(x, nan)  # 7
                c:f32[3] = Min(%2, 1.0)  # 8
                d:f32[3] = Max(x, -0.0)  # 9
                %3 = Mul(x, [1.0, nan, 0.5])  # 10
                e:f32[3] = Where(%0, x, %3)  # 11
            "#]],
        );
    }

    #[test]
    fn a_hard_swish_is_one_operator() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[3]) -> (y, z, w)
%0:f32[3] = Add(x, 3.0)
%1:f32[3] = Clip(%0, 0.0, 6.0)
%2:f32[3] = Div(%1, 6.0)
y:f32[3] = Mul(x, %2)
%3:f32[3] = HardSigmoid(x) {alpha=0.2, beta=0.5}
z:f32[3] = Mul(x, %3)
%4:f32[3] = Add(y, 3.0)
%5:f32[3] = Clip(%4, 0.0, 6.0)
%6:f32[3] = Mul(y, %5)
w:f32[3] = Div(%6, 6.0)",
            expect![[r#"
                graph g(x:f32[3]) -> (y, z, w)
                y:f32[3] = HardSwish(x)  # 5 2 3 4
                %0 = HardSigmoid(x) {alpha=0.2, beta=0.5}  # 6
                z:f32[3] = Mul(x, %0)  # 7
                w:f32[3] = HardSwish(y)  # 11 8 9 10
            "#]],
        );
    }

    #[test]
    fn a_celu_divides_by_its_factor() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[3]) -> (y, z)
%0:f32[3] = Relu(x)
%1:f32[3] = Min(x, 0.0)
%2:f32[3] = Div(%1, 2.0)
%3:f32[3] = jax2onnx.composite::expm1(%2)
%4:f32[3] = Mul(2.0, %3)
y:f32[3] = Add(%0, %4)
%5:f32[3] = Mul(3.0, %3)
z:f32[3] = Add(%0, %5)",
            expect![[r#"
                graph g(x:f32[3]) -> (y, z)
                %0 = Relu(x)  # 2
                %1 = Min(x, 0.0)  # 3
                %2 = Div(%1, 2.0)  # 4
                %3 = jax2onnx.composite::expm1(%2)  # 5
                y:f32[3] = Celu(x) {alpha=2.0}  # 7 2 3 4 5 6
                %4 = Mul(3.0, %3)  # 8
                z:f32[3] = Add(%0, %4)  # 9
            "#]],
        );
    }

    #[test]
    fn a_sum_of_relus_of_both_signs_is_a_prelu() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[2,3]) -> (y)
%0:f32[2,3] = Relu(x)
%1:f32[2,3] = Neg(x)
%2:f32[2,3] = Relu(%1)
%3:f32[2,3] = Mul([-0.5, -0.25, 0.0], %2)
y:f32[2,3] = Add(%0, %3)",
            expect![[r#"
                graph g(x:f32[2,3]) -> (y)
                y:f32[2,3] = PRelu(x, [0.5, 0.25, -0.0])  # 6 2 3 4 5
            "#]],
        );
    }

    #[test]
    fn relus_of_other_operands_and_an_infinite_slope_make_no_prelu() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[3], z:f32[3]) -> (y, u)
%0:f32[3] = Relu(x)
%1:f32[3] = Neg(z)
%2:f32[3] = Relu(%1)
%3:f32[3] = Mul(%2, -0.5)
y:f32[3] = Add(%0, %3)
%4:f32[3] = Neg(x)
%5:f32[3] = Relu(%4)
%6:f32[3] = Mul(%5, [-inf, 1.0, 2.0])
u:f32[3] = Add(%0, %6)",
            expect![[r#"
                graph g(x:f32[3], z:f32[3]) -> (y, u)
                %0 = Relu(x)  # 2
                %1 = Neg(z)  # 3
                %2 = Relu(%1)  # 4
                %3 = Mul(%2, -0.5)  # 5
                y:f32[3] = Add(%0, %3)  # 6
                %4 = Neg(x)  # 7
                %5 = Relu(%4)  # 8
                %6 = Mul(%5, [-inf, 1.0, 2.0])  # 9
                u:f32[3] = Add(%0, %6)  # 10
            "#]],
        );
    }

    #[test]
    fn a_softplus_without_the_sum_with_zero_is_fused() {
        check(
            lean,
            "graph g(x:f32[3]) -> (y)
%0:bool[3] = Equal(x, x)
%1:f32[3] = Softplus(x)
y:f32[3] = Where(%0, %1, x)",
            expect![[r#"
                graph g(x:f32[3]) -> (y)
                y:f32[3] = Softplus(x)  # 3 2 4
            "#]],
        );
    }
}
