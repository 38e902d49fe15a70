//! Means and the norms that are made of them.
//!
//! The runtime's `LayerNormalization` and `RMSNormalization` sum in higher precision than JAX does, so
//! they are nearer to the exact value: within 10⁻⁶ of it for rows around zero, and within
//! 10⁻⁷ · |mean| / σ for others. JAX itself is 10⁻⁷ · (mean / σ)² off where it computes the variance as
//! the mean square less the squared mean, so rows whose mean is a thousand times their spread come out
//! as JAX means them, not as it rounds them.

mod group;

use onnx::{Attr, DType, Dim, Op, OpType, Tensor, Type, ValueId};

use crate::pattern::{
    Pattern, either, hole, number, product, reciprocal, reduce_mean, reduce_sum, relu, spread, sqrt,
};
use crate::rewrite::{AXES_ARE_AN_OPERAND_SINCE, Declined, Found, Rewrite};
use crate::sizes::computed_size;

/// More ones than these are not written into the model to say that there is no scale.
const MOST_ONES: i64 = 4096;

pub(crate) const MEANS: &[Rewrite] =
    &[Rewrite { name: "fuse-mean", pattern: mean, replacement: to_mean }];

/// A norm with its bias before one without, and one with its scale before one without: the shorter
/// formulas are a part of the longer ones. `x − mean` has a root mean square too, so that comes last.
pub(crate) const STAGES: &[&[Rewrite]] = &[
    &[
        Rewrite {
            name: "fuse-layer-norm",
            pattern: || either(&[&scaled(&layer_norm()), &plain(&layer_norm())]) + hole("bias"),
            replacement: to_layer_norm,
        },
        Rewrite {
            name: "fuse-group-norm",
            pattern: || scaled(&group::norm()) + hole("bias"),
            replacement: group::to_group_norm,
        },
    ],
    &[
        Rewrite {
            name: "fuse-layer-norm",
            pattern: || scaled(&layer_norm()),
            replacement: to_layer_norm,
        },
        Rewrite {
            name: "fuse-group-norm",
            pattern: || scaled(&group::norm()),
            replacement: group::to_group_norm,
        },
    ],
    &[
        Rewrite {
            name: "fuse-layer-norm",
            pattern: || plain(&layer_norm()),
            replacement: to_layer_norm,
        },
        Rewrite {
            name: "fuse-group-norm",
            pattern: || plain(&group::norm()),
            replacement: group::to_group_norm,
        },
    ],
    &[Rewrite { name: "fuse-rms-norm", pattern: || scaled(&rms_norm()), replacement: to_rms_norm }],
    &[Rewrite { name: "fuse-rms-norm", pattern: || plain(&rms_norm()), replacement: to_rms_norm }],
];

/// `Σ x / n`, where `n` is a number or computed from sizes
fn mean() -> Pattern {
    let sum = reduce_sum(&hole("x")).named("sum");
    either(&[&(&sum / number("count")), &(&sum * number("part")), &(&sum / hole("size"))])
}

/// The runtime's mean of nothing is 0 and JAX's is NaN. `split-means` splits what may be such a mean, unless it
/// is part of a norm, which has no element then.
fn to_mean(found: &mut Found<'_, '_, '_>) -> Result<Op<'static>, Declined> {
    let x = found.value("x")?;
    let axes = found.axes("sum")?;
    let shape = found.ty(x)?.shape;
    let reduced = axes.iter().map(|&axis| &shape[axis]);
    if reduced.clone().any(|dim| dim.is(0)) {
        return Err("there is nothing to take the mean of".into());
    }
    let count = Dim::checked_product(reduced).ok_or("the number of elements is too large")?;
    let known = count.known().map(|count| count as f64);
    let is_count = if found.maybe("count").is_some() {
        Some(found.number("count")?) == known
    } else if found.maybe("part").is_some() {
        Some(found.number("part")?) == known.map(|count| f64::from((1.0 / count) as f32))
    } else {
        let computed = computed_size(found.edit, found.value("size")?);
        let (size, nodes) = computed.ok_or("the divisor is no size")?;
        found.take_up(&nodes);
        size == count
    };
    if !is_count {
        return Err("the divisor is not the number of elements".into());
    }
    found.expect_kernel(OpType::ReduceMean, x)?;
    if !found.ty(x)?.dtype.is_float() {
        return Err("a mean of integers is rounded".into());
    }
    if found.ty(found.value("sum")?)? != found.ty(found.result())? {
        return Err("the divisor has more axes than the sum".into());
    }
    let sum = found.node("sum")?;
    let keeps = sum.attr("keepdims").cloned().unwrap_or(Attr::Int(1));
    if found.edit.opset() < AXES_ARE_AN_OPERAND_SINCE {
        let axes: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
        let op = Op::new(OpType::ReduceMean, &[x]).attr("axes", &axes[..]);
        return Ok(op.attr("keepdims", keeps));
    }
    let inputs = sum.inputs.to_vec();
    Ok(Op { op: OpType::ReduceMean.into(), inputs, attrs: vec![("keepdims", keeps)] })
}

/// What is divided by a root, and the root.
struct Quotient {
    numerator: Pattern,
    root: Pattern,
}

/// A norm times its scale, in any association of the product.
fn scaled(norm: &Quotient) -> Pattern {
    let Quotient { numerator, root } = norm;
    let scale = hole("scale");
    let rsqrt = spread(&reciprocal(root)).named("factor");
    either(&[
        &product(&[numerator, &rsqrt, &scale], 1.0),
        &product(&[&plain(norm), &scale], 1.0),
        &(product(&[numerator, &scale], 1.0) / spread(root).named("factor")),
    ])
}

/// A norm without scale.
fn plain(Quotient { numerator, root }: &Quotient) -> Pattern {
    either(&[
        &(numerator * spread(&reciprocal(root)).named("factor")),
        &(numerator / spread(root).named("factor")),
    ])
}

/// `(x − mean) / √(variance + ε)`; the variance may spread the mean in its own way
fn layer_norm() -> Quotient {
    let x = hole("x");
    let mean = reduce_mean(&x).named("mean");
    let centered = &x - spread(&mean).named("spread mean");
    let deviation = &x - spread(&mean).named("mean in variance");
    let two_pass = reduce_mean(&(&deviation * &deviation)).named("square mean");
    let variance = either(&[&two_pass, &fast_variance(&x, &mean)]);
    Quotient { root: root(&either(&[&variance, &relu(&variance)])), numerator: centered }
}

/// `x / √(mean x² + ε)`
fn rms_norm() -> Quotient {
    let x = hole("x");
    let square = reduce_mean(&(&x * &x)).named("square mean");
    Quotient { root: root(&square), numerator: x }
}

/// `mean x² − mean²`
fn fast_variance(x: &Pattern, mean: &Pattern) -> Pattern {
    (reduce_mean(&(x * x)).named("square mean") - mean * mean).named("fast variance")
}

/// `√(v + ε)`, with the axes that were reduced spread before or after.
fn root(v: &Pattern) -> Pattern {
    sqrt(&spread(&(spread(v) + number("epsilon"))))
}

fn to_layer_norm(found: &mut Found<'_, '_, '_>) -> Result<Op<'static>, Declined> {
    let x = found.value("x")?;
    let axes = found.axes("mean")?;
    if found.axes("square mean")? != axes {
        return Err("the variance is over other axes than the mean".into());
    }
    for name in ["spread mean", "mean in variance", "factor"] {
        if let Some(value) = found.maybe(name) {
            found.expect_reduced(value, x, &axes)?;
        }
    }
    expect_whole(found, x)?;
    let Type { shape, dtype } = found.ty(x)?;
    let rank = shape.len();
    if !axes.is_empty() && axes.iter().copied().eq(1..rank - 1) {
        return group::to_instance_norm(found, x);
    }
    let axis = over_last_axes(&axes, rank)?;
    if !shape[axis..].iter().all(Dim::is_positive) {
        return Err("an axis that is normalized may be empty".into());
    }
    let has_scale = found.maybe("scale").is_some();
    let ones = shape[axis..].iter().map(Dim::known).product::<Option<i64>>();
    if !has_scale && found.maybe("bias").is_none() && ones.is_none_or(|ones| ones > MOST_ONES) {
        return group::to_unscaled_norm(found, x, axis);
    }
    found.expect_kernel(OpType::LayerNormalization, x)?;
    let epsilon = epsilon(found, dtype)?;
    let mut inputs = vec![x, last_axes_of(found, "scale", x, axis)?];
    if found.maybe("bias").is_some() {
        inputs.push(last_axes_of(found, "bias", x, axis)?);
    }
    let op = Op::new(OpType::LayerNormalization, &inputs).attr("axis", axis as i64);
    Ok(op.attr("epsilon", epsilon))
}

fn to_rms_norm(found: &mut Found<'_, '_, '_>) -> Result<Op<'static>, Declined> {
    let x = found.value("x")?;
    let axes = found.axes("square mean")?;
    found.expect_reduced(found.value("factor")?, x, &axes)?;
    expect_whole(found, x)?;
    let Type { shape, dtype } = found.ty(x)?;
    let axis = over_last_axes(&axes, shape.len())?;
    found.expect_kernel(OpType::RMSNormalization, x)?;
    let epsilon = epsilon(found, dtype)?;
    let scale = last_axes_of(found, "scale", x, axis)?;
    let op = Op::new(OpType::RMSNormalization, &[x, scale]).attr("axis", axis as i64);
    Ok(op.attr("epsilon", epsilon))
}

/// The number under the root, which ONNX keeps in single precision.
fn epsilon(found: &Found<'_, '_, '_>, dtype: DType) -> Result<Attr, Declined> {
    let exact = found.number("epsilon")?;
    let kept = exact as f32;
    if dtype == DType::F64 && f64::from(kept) != exact {
        return Err("the number under the root needs double precision".into());
    }
    Ok(Attr::Float(kept))
}

/// Declines where scale or bias make the result larger than what is normalized.
fn expect_whole(found: &Found<'_, '_, '_>, x: ValueId) -> Result<(), Declined> {
    if found.ty(found.result())? != found.ty(x)? {
        return Err("the scale has more axes than the operand".into());
    }
    Ok(())
}

/// The first of the axes, where they are the last ones.
fn over_last_axes(axes: &[usize], rank: usize) -> Result<usize, Declined> {
    let &first = axes.first().ok_or("it is over no axis")?;
    if axes.iter().copied().ne(first..rank) {
        return Err("it is not over the last axes".into());
    }
    Ok(first)
}

/// The scale or bias as an array of the last axes of `x`; ones where there is no scale and zeros where
/// there is no bias.
fn last_axes_of(
    found: &mut Found<'_, '_, '_>,
    name: &str,
    x: ValueId,
    axis: usize,
) -> Result<ValueId, Declined> {
    let ty = found.ty(x)?;
    let wanted: Vec<Dim> = ty.shape[axis..].to_vec();
    let Some(value) = found.maybe(name) else {
        let number = if name == "scale" { 1.0 } else { 0.0 };
        return filled(found, &ty, &wanted, number, &[]);
    };
    let given = found.ty(value)?;
    if given.dtype != ty.dtype {
        return Err("the scale is of another type".into());
    }
    if given.shape[..] == wanted[..] {
        return Ok(value);
    }
    let leading = given.shape.len().checked_sub(wanted.len());
    let fits = leading.is_some_and(|leading| {
        given.shape[..leading].iter().all(|dim| dim.is(1)) && given.shape[leading..] == wanted[..]
    });
    if !fits {
        let is_one = given.shape.iter().all(|dim| dim.is(1));
        let number = found.edit.tensor(value).and_then(crate::pattern::uniform);
        return match number.filter(|_| is_one) {
            Some(number) => filled(found, &ty, &wanted, number, &[value]),
            None => Err("the scale is not one number an element of the last axes".into()),
        };
    }
    let target: Option<Vec<i64>> = wanted.iter().map(Dim::known).collect();
    let target = target.ok_or("the normalized size is not known")?;
    renamed(found, value, target)
}

/// One number for each element of a shape.
fn filled(
    found: &mut Found<'_, '_, '_>,
    ty: &Type,
    shape: &[Dim],
    number: f64,
    from: &[ValueId],
) -> Result<ValueId, Declined> {
    let shape: Option<Vec<i64>> = shape.iter().map(Dim::known).collect();
    let shape = shape.ok_or("the normalized size is not known")?;
    let count = shape.iter().product::<i64>();
    if count > MOST_ONES {
        return Err("it has no scale, and too many elements to say so".into());
    }
    let tensor = Tensor::of_floats(ty.dtype, shape, &vec![number; count as usize]);
    Ok(found.computed(tensor.ok_or("no such number of the type")?, from))
}

/// A constant or a value in another shape of as many elements.
fn renamed(
    found: &mut Found<'_, '_, '_>,
    value: ValueId,
    target: Vec<i64>,
) -> Result<ValueId, Declined> {
    if let Some(tensor) = found.edit.tensor(value) {
        let renamed = tensor.with_shape(target);
        return Ok(found.computed(renamed, &[value]));
    }
    let dims: Vec<Dim> = target.iter().map(|&size| Dim::Known(size)).collect();
    let dtype = found.ty(value)?.dtype;
    let shape = found.ints(&target)?;
    Ok(found.emit(Op::new(OpType::Reshape, &[value, shape]), Type::new(dtype, dims)))
}

#[cfg(test)]
mod tests;
