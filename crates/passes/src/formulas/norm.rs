//! Fuses means and norms.
//!
//! `LayerNormalization` and `RMSNormalization` of ONNX Runtime sum in higher precision than JAX, so their results are
//! closer to the exact value: the error is below 10⁻⁶ for rows around zero, and below 10⁻⁷ · |mean| / σ for other rows. If
//! JAX computes the variance as the mean square minus the squared mean, its own error is 10⁻⁷ · (mean / σ)². Rows whose
//! mean is a thousand times their deviation therefore differ from JAX.

mod affine;
mod group;
mod layer;

use algebra::pattern::{
    Pattern, either, hole, number, power, product, reciprocal, reduce_mean, reduce_sum, relu,
    spread, sqrt, square,
};
use algebra::rewrite::{AXES_ARE_AN_OPERAND_SINCE, Formulas, Match, Result, ensure, rewrite};
use algebra::sizes::computed_size;
use onnx::{Attr, DType, Dim, Op, OpType, ValueId};

pub(crate) static MEANS: Formulas = Formulas::new(&[&[rewrite("fuse-mean", mean, to_mean)]]);

/// Longer formulas come first, because they contain the shorter ones: norms with a bias, norms with a scale, and plain
/// norms. An RMS norm of `x − mean` is part of a layer norm, so RMS norms come last.
pub(crate) static STAGES: Formulas = Formulas::new(&[
    &[
        rewrite(
            "fuse-layer-norm",
            || either(&[&scaled(&layer_norm()), &plain(&layer_norm())]) + hole("bias"),
            layer::to_layer_norm,
        ),
        rewrite("fuse-layer-norm", || shifted(true), layer::to_layer_norm),
        rewrite("fuse-group-norm", || scaled(&group::norm()) + hole("bias"), group::to_group_norm),
    ],
    &[
        rewrite("fuse-layer-norm", || scaled(&layer_norm()), layer::to_layer_norm),
        rewrite("fuse-layer-norm", || shifted(false), layer::to_layer_norm),
        rewrite("fuse-group-norm", || scaled(&group::norm()), group::to_group_norm),
    ],
    &[
        rewrite("fuse-layer-norm", || plain(&layer_norm()), layer::to_layer_norm),
        rewrite("fuse-group-norm", || plain(&group::norm()), group::to_group_norm),
    ],
    &[rewrite("fuse-rms-norm", || scaled(&rms_norm()), layer::to_rms_norm)],
    &[rewrite("fuse-rms-norm", || plain(&rms_norm()), layer::to_rms_norm)],
]);

/// `Σ x / n`, where `n` is a number or computed from sizes.
fn mean() -> Pattern {
    let sum = reduce_sum(&hole("x")).named("sum");
    either(&[&(&sum / number("count")), &(&sum * number("part")), &(&sum / hole("size"))])
}

/// A mean over no elements is 0 in ONNX Runtime and NaN in JAX. `split-means` splits a mean that may have no elements,
/// unless it is part of a norm, whose result then has no elements either.
fn to_mean(found: &mut Match<'_, '_, '_>) -> Result<Op> {
    let x = found.value("x")?;
    let axes = found.axes("sum")?;
    let shape = found.ty(x)?.shape;
    let reduced = axes.iter().map(|&axis| &shape[axis]);
    ensure(!reduced.clone().any(|dim| dim.is(0)), "the mean is over no elements")?;
    let count = Dim::checked_product(reduced).ok_or("the number of elements is too large")?;
    let known = count.known().map(|count| count as f64);
    let is_count = if found.maybe("count").is_some() {
        Some(found.number("count")?) == known
    } else if found.maybe("part").is_some() {
        Some(found.number("part")?) == known.map(|count| f64::from((1.0 / count) as f32))
    } else {
        let computed = computed_size(found.edit, found.value("size")?);
        let (size, nodes) = computed.ok_or("the divisor is not a size")?;
        found.take(&nodes);
        size == count
    };
    ensure(is_count, "the divisor is not the number of elements")?;
    found.expect_kernel(OpType::ReduceMean, x)?;
    ensure(found.ty(x)?.dtype.is_float(), "the type is an integer, whose mean is rounded")?;
    ensure(
        found.ty(found.value("sum")?)? == found.ty(found.result())?,
        "the divisor has more axes than the sum",
    )?;
    let sum = found.node("sum")?;
    let keeps = sum.attr("keepdims").cloned().unwrap_or(Attr::Int(1));
    if found.opset() < AXES_ARE_AN_OPERAND_SINCE {
        let axes: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
        let op = Op::new(OpType::ReduceMean, &[x]).attr("axes", &axes[..]);
        return Ok(op.attr("keepdims", keeps));
    }
    let op = Op { op: OpType::ReduceMean.into(), inputs: sum.inputs.to_vec(), attrs: Vec::new() };
    Ok(op.attr("keepdims", keeps))
}

/// A quotient `numerator / √radicand`.
struct Quotient {
    numerator: Pattern,
    radicand: Pattern,
}

/// A norm times its scale, in any association of the product.
fn scaled(norm: &Quotient) -> Pattern {
    let Quotient { numerator, radicand } = norm;
    let scale = hole("scale");
    let rsqrt = spread(&rsqrt(radicand)).named("factor");
    either(&[
        &product(&[numerator, &rsqrt, &scale], 1.0),
        &product(&[&plain(norm), &scale], 1.0),
        &(product(&[numerator, &scale], 1.0) / spread(&root(radicand)).named("factor")),
    ])
}

/// A norm without scale.
fn plain(Quotient { numerator, radicand }: &Quotient) -> Pattern {
    either(&[
        &(numerator * spread(&rsqrt(radicand)).named("factor")),
        &(numerator / spread(&root(radicand)).named("factor")),
    ])
}

/// `(x − mean) / √(variance + ε)`
fn layer_norm() -> Quotient {
    let x = hole("x");
    let mean = reduce_mean(&x).named("mean");
    let centered = &x - spread(&mean).named("spread mean");
    Quotient { radicand: radicand(&variance(&x, &mean)), numerator: centered }
}

/// `x · f + (bias − mean · f)`, where `f` is the scale divided by the root.
fn shifted(has_bias: bool) -> Pattern {
    let x = hole("x");
    let mean = reduce_mean(&x).named("mean");
    let rsqrt = spread(&rsqrt(&radicand(&variance(&x, &mean)))).named("factor");
    let factor = either(&[&(&rsqrt * hole("scale")), &rsqrt]).named("scaled factor");
    let mean = spread(&mean).named("spread mean");
    let product = &mean * &factor;
    let shift = either(&[&(-&mean * &factor), &-&product]);
    let scaled = x * &factor;
    if !has_bias {
        return either(&[&(&scaled + shift), &(scaled - product)]);
    }
    let bias = hole("bias");
    either(&[&(&scaled + (shift + &bias)), &(scaled + (bias - product))])
}

/// The mean square of `x − mean`, with its own broadcast of the mean, or the mean square minus the squared mean.
/// Optionally, the maximum with 0.
fn variance(x: &Pattern, mean: &Pattern) -> Pattern {
    let deviation = x - spread(mean).named("mean in variance");
    let two_pass = reduce_mean(&square(&deviation)).named("square mean");
    let variance = either(&[&two_pass, &fast_variance(x, mean)]);
    either(&[&variance, &relu(&variance)])
}

/// `x / √(mean x² + ε)`
fn rms_norm() -> Quotient {
    let x = hole("x");
    let square_mean = reduce_mean(&square(&x)).named("square mean");
    Quotient { radicand: radicand(&square_mean), numerator: x }
}

/// `mean x² − mean²`
fn fast_variance(x: &Pattern, mean: &Pattern) -> Pattern {
    (reduce_mean(&square(x)).named("square mean") - square(mean)).named("fast variance")
}

/// `v + ε`, with a broadcast of the reduced axes before or after the sum.
fn radicand(v: &Pattern) -> Pattern {
    spread(&(spread(v) + number("epsilon")))
}

/// `√v`
fn root(v: &Pattern) -> Pattern {
    either(&[&sqrt(v), &power(v, 0.5)])
}

/// `1 / √v`
fn rsqrt(v: &Pattern) -> Pattern {
    either(&[&reciprocal(&root(v)), &power(v, -0.5)])
}

/// Returns the axes of the mean. Declines if the variance has other axes.
fn normalized_axes(found: &Match<'_, '_, '_>) -> Result<Vec<usize>> {
    let axes = found.axes("mean")?;
    ensure(
        found.axes("square mean")? == axes,
        "the axes of the variance differ from those of the mean",
    )?;
    Ok(axes)
}

/// Returns ε as an attribute, which has single precision.
fn epsilon(found: &Match<'_, '_, '_>, dtype: DType) -> Result<Attr> {
    let exact = found.number("epsilon")?;
    let kept = exact as f32;
    ensure(
        dtype != DType::F64 || f64::from(kept) == exact,
        "float32 cannot represent the number under the root",
    )?;
    Ok(Attr::Float(kept))
}

/// Declines if the scale or the bias broadcasts the result.
fn expect_whole(found: &Match<'_, '_, '_>, x: ValueId) -> Result<()> {
    ensure(found.ty(found.result())? == found.ty(x)?, "the scale has more axes than the operand")
}

#[cfg(test)]
mod tests;
