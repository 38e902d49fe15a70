//! Activations.
//!
//! Results are those of the formula within a few units in the last place of the larger of the result
//! and one: where JAX computes `expm1` or `erfc`, the runtime subtracts from one, and is exact to
//! 10⁻⁷ there, not in every digit.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use onnx::{Attr, Op};

use crate::pattern::{
    Pattern, abs, either, erf, erfc, exp, expm1, hole, log1p, maximum, minimum, node, number,
    product, relu, tanh,
};
use crate::rewrite::{Declined, Found, Rewrite};

pub(super) const REWRITES: &[Rewrite] = &[
    Rewrite { name: "fuse-gelu", pattern: gelu_by_erf, replacement: |found| gelu(found, "none") },
    Rewrite { name: "fuse-gelu", pattern: gelu_by_erfc, replacement: |found| gelu(found, "none") },
    Rewrite { name: "fuse-gelu", pattern: gelu_by_tanh, replacement: |found| gelu(found, "tanh") },
    Rewrite {
        name: "fuse-relu",
        pattern: max_with_zero,
        replacement: |found| plain(found, "Relu"),
    },
    Rewrite { name: "fuse-leaky-relu", pattern: leaky_relu, replacement: to_leaky_relu },
    Rewrite { name: "fuse-selu", pattern: selu, replacement: to_selu },
    Rewrite { name: "fuse-elu", pattern: elu, replacement: to_elu },
    Rewrite {
        name: "fuse-softplus",
        pattern: softplus,
        replacement: |found| plain(found, "Softplus"),
    },
    Rewrite { name: "fuse-hard-sigmoid", pattern: hard_sigmoid, replacement: to_hard_sigmoid },
    Rewrite { name: "fuse-clip", pattern: clip, replacement: to_clip },
];

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

fn gelu(found: &mut Found<'_, '_>, approximate: &'static str) -> Result<Op<'static>, Declined> {
    let x = found.value("x")?;
    found.expect_kernel("Gelu", x)?;
    Ok(Op::new("Gelu", &[x]).attr("approximate", approximate))
}

/// `max(x, 0)`
fn max_with_zero() -> Pattern {
    maximum(&hole("x"), &0.0.into())
}

/// `x ≥ 0 ? x : α · x`
fn leaky_relu() -> Pattern {
    let x = hole("x");
    let positive = either(&[
        &node("GreaterOrEqual", &[&x, &0.0.into()]),
        &node("Greater", &[&x, &0.0.into()]),
    ]);
    node("Where", &[&positive, &x, &(&x * number("alpha"))])
}

fn to_leaky_relu(found: &mut Found<'_, '_>) -> Result<Op<'static>, Declined> {
    with_alpha(found, "LeakyRelu", "alpha")
}

/// `x > 0 ? x : α · expm1(x > 0 ? 0 : x)`
fn elu() -> Pattern {
    let curve = expm1_of_negative();
    either(&[
        &node("Where", &[&is_positive(), &hole("x"), &(number("alpha") * &curve)]),
        &node("Where", &[&is_positive(), &hole("x"), &curve]),
    ])
}

fn to_elu(found: &mut Found<'_, '_>) -> Result<Op<'static>, Declined> {
    match found.maybe("alpha") {
        Some(_) => with_alpha(found, "Elu", "alpha"),
        None => plain(found, "Elu"),
    }
}

/// `λ · (x > 0 ? x : α · expm1(x > 0 ? 0 : x))`
fn selu() -> Pattern {
    let curve = number("alpha") * expm1_of_negative();
    number("scale") * node("Where", &[&is_positive(), &hole("x"), &curve])
}

fn to_selu(found: &mut Found<'_, '_>) -> Result<Op<'static>, Declined> {
    let (alpha, scale) = (found.number("alpha")?, found.number("scale")?);
    let op = plain(found, "Selu")?;
    Ok(op.attr("alpha", Attr::Float(alpha as f32)).attr("gamma", Attr::Float(scale as f32)))
}

fn is_positive() -> Pattern {
    node("Greater", &[&hole("x"), &0.0.into()])
}

fn expm1_of_negative() -> Pattern {
    let negative = node("Where", &[&is_positive(), &0.0.into(), &hole("x")]);
    expm1(&either(&[&negative, &hole("x")]))
}

/// `log(exp(x) + exp(0))`, as `logaddexp` has it: `max(x, 0) + log1p(exp(−|x|))`, and NaN by itself
fn softplus() -> Pattern {
    let x = hole("x");
    let smooth = relu(&x) + log1p(&exp(&-abs(&x)));
    let is_nan = node("Not", &[&node("Equal", &[&x, &x])]);
    let smooth = either(&[&node("Softplus", &[&x]), &smooth]);
    either(&[&node("Where", &[&is_nan, &(&x + 0.0), &smooth]), &smooth])
}

/// `min(max(x + 3, 0), 6) / 6`
fn hard_sigmoid() -> Pattern {
    let shifted = hole("x") + 3.0;
    let clipped = minimum(&relu(&shifted), &6.0.into());
    let clip = node("Clip", &[&shifted, &0.0.into(), &6.0.into()]);
    product(&[&either(&[&clipped, &clip])], 1.0 / 6.0)
}

fn to_hard_sigmoid(found: &mut Found<'_, '_>) -> Result<Op<'static>, Declined> {
    let op = plain(found, "HardSigmoid")?;
    Ok(op.attr("alpha", Attr::Float(1.0 / 6.0)).attr("beta", Attr::Float(0.5)))
}

/// `min(max(x, low), high)`
fn clip() -> Pattern {
    let x = hole("x");
    let high = number("high");
    either(&[
        &minimum(&maximum(&x, &number("low")), &high),
        &minimum(&node("Relu", &[&x]).named("relu"), &high),
    ])
}

fn to_clip(found: &mut Found<'_, '_>) -> Result<Op<'static>, Declined> {
    let x = found.value("x")?;
    let high = found.number("high")?;
    let low = if found.maybe("low").is_some() { found.number("low")? } else { 0.0 };
    if low > high {
        return Err("the lower limit is above the upper one".into());
    }
    let ty = found.ty(x)?;
    if ty != found.ty(found.result())? {
        return Err("a limit has more axes than the operand".into());
    }
    if !ty.dtype.is_float() {
        return Err("the runtime's Clip of integers is not to be trusted".into());
    }
    found.expect_kernel("Clip", x)?;
    let low = found.scalar(ty.dtype, low)?;
    let high = found.scalar(ty.dtype, high)?;
    Ok(Op::new("Clip", &[x, low, high]))
}

/// An operator of `x` alone.
fn plain(found: &mut Found<'_, '_>, op: &'static str) -> Result<Op<'static>, Declined> {
    let x = found.value("x")?;
    found.expect_kernel(op, x)?;
    if found.ty(x)? != found.ty(found.result())? {
        return Err("a constant has more axes than the operand".into());
    }
    Ok(Op::new(op, &[x]))
}

fn with_alpha(
    found: &mut Found<'_, '_>,
    op: &'static str,
    name: &str,
) -> Result<Op<'static>, Declined> {
    let alpha = found.number(name)?;
    Ok(plain(found, op)?.attr("alpha", Attr::Float(alpha as f32)))
}
