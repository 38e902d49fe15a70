//! Means and the norms that are made of them.

use onnx::{Attr, Dim, Op, Tensor, Type, ValueId};

use crate::pattern::{
    Pattern, either, hole, number, product, reciprocal, reduce_mean, reduce_sum, relu, spread, sqrt,
};
use crate::rewrite::{Declined, Found, Rewrite};

pub(super) const MEANS: &[Rewrite] =
    &[Rewrite { name: "fuse-mean", pattern: mean, replacement: to_mean }];

pub(super) const NORMS: &[Rewrite] = &[
    Rewrite {
        name: "fuse-layer-norm",
        pattern: || scaled(&layer_norm()) + hole("bias"),
        replacement: to_layer_norm,
    },
    Rewrite { name: "fuse-rms-norm", pattern: || scaled(&rms_norm()), replacement: to_rms_norm },
];

/// `Σ x / n`
fn mean() -> Pattern {
    product_with_number(&reduce_sum(&hole("x")).named("sum"))
}

fn product_with_number(sum: &Pattern) -> Pattern {
    either(&[&(sum / number("count")), &(sum * number("part"))])
}

fn to_mean(found: &mut Found<'_, '_>) -> Result<Op<'static>, Declined> {
    let x = found.value("x")?;
    let axes = found.axes("sum")?;
    let shape = found.ty(x)?.shape;
    let count: Option<i64> = axes.iter().map(|&axis| shape[axis].known()).product();
    let count = count.ok_or("the number of elements is not known")? as f64;
    let is_count = match found.maybe("count") {
        Some(_) => found.number("count")? == count,
        None => found.number("part")? == f64::from((1.0 / count) as f32),
    };
    if !is_count || count == 0.0 {
        return Err("the divisor is not the number of elements".into());
    }
    found.expect_kernel("ReduceMean", x)?;
    if !found.ty(x)?.dtype.is_float() {
        return Err("a mean of integers is rounded".into());
    }
    let sum = found.node("sum")?;
    let attrs = sum.attrs.iter().map(|(name, attr)| (attr_name(name), attr.clone())).collect();
    let inputs = sum.inputs.to_vec();
    if found.ty(found.value("sum")?)? != found.ty(found.result())? {
        return Err("the divisor has more axes than the sum".into());
    }
    Ok(Op { domain: "", name: "ReduceMean", inputs, attrs })
}

fn attr_name(name: &str) -> &'static str {
    match name {
        "axes" => "axes",
        "noop_with_empty_axes" => "noop_with_empty_axes",
        _ => "keepdims",
    }
}

/// A norm with its scale, which may be left out, in any association of the product.
fn scaled([centered, root]: &[Pattern; 2]) -> Pattern {
    let scale = hole("scale");
    let rsqrt = either(&[&reciprocal(root), &spread(&reciprocal(root))]);
    either(&[
        &product(&[centered, &rsqrt, &scale], 1.0),
        &product(&[centered, &rsqrt], 1.0),
        &product(&[&(centered / root), &scale], 1.0),
        &(centered / root),
    ])
}

/// `x − mean` and `√(variance + ε)`
fn layer_norm() -> [Pattern; 2] {
    let x = hole("x");
    let mean = reduce_mean(&x).named("mean");
    let spread_mean = spread(&mean).named("spread mean");
    let centered = &x - &spread_mean;
    let fast = reduce_mean(&(&x * &x)).named("square mean") - &mean * &mean;
    let fast = either(&[&relu(&fast), &fast]);
    let two_pass = reduce_mean(&(&centered * &centered)).named("square mean");
    let variance = either(&[&two_pass, &fast]);
    [centered, sqrt(&root_operand(&variance))]
}

/// `x` and `√(mean x² + ε)`
fn rms_norm() -> [Pattern; 2] {
    let x = hole("x");
    let square = reduce_mean(&(&x * &x)).named("square mean");
    [x, sqrt(&root_operand(&square))]
}

/// `v + ε`, with the axes that were reduced spread before or after.
fn root_operand(v: &Pattern) -> Pattern {
    spread(&(spread(v).named("spread variance") + number("epsilon")))
}

fn to_layer_norm(found: &mut Found<'_, '_>) -> Result<Op<'static>, Declined> {
    let x = found.value("x")?;
    let axes = found.axes("mean")?;
    if found.axes("square mean")? != axes {
        return Err("the variance is over other axes than the mean".into());
    }
    found.expect_reduced(found.value("spread mean")?, x, &axes)?;
    let axis = over_last_axes(found, x, &axes)?;
    found.expect_kernel("LayerNormalization", x)?;
    let scale = last_axes_of(found, "scale", x, axis)?;
    let bias = last_axes_of(found, "bias", x, axis)?;
    let epsilon = found.number("epsilon")? as f32;
    let op = Op::new("LayerNormalization", &[x, scale, bias]).attr("axis", axis as i64);
    Ok(op.attr("epsilon", Attr::Float(epsilon)))
}

fn to_rms_norm(found: &mut Found<'_, '_>) -> Result<Op<'static>, Declined> {
    let x = found.value("x")?;
    let axes = found.axes("square mean")?;
    let axis = over_last_axes(found, x, &axes)?;
    found.expect_kernel("RMSNormalization", x)?;
    let scale = last_axes_of(found, "scale", x, axis)?;
    let epsilon = found.number("epsilon")? as f32;
    let op = Op::new("RMSNormalization", &[x, scale]).attr("axis", axis as i64);
    Ok(op.attr("epsilon", Attr::Float(epsilon)))
}

/// The first of the axes, where they are the last of `x` and the result is as large as `x`.
fn over_last_axes(found: &Found<'_, '_>, x: ValueId, axes: &[usize]) -> Result<usize, Declined> {
    let rank = found.ty(x)?.rank();
    let &first = axes.first().ok_or("it is over no axis")?;
    if axes.iter().copied().ne(first..rank) {
        return Err("it is not over the last axes".into());
    }
    found.expect_reduced_somewhere("spread variance", x, axes)?;
    if found.ty(found.result())? != found.ty(x)? {
        return Err("the scale has more axes than the operand".into());
    }
    Ok(first)
}

/// The scale or bias as an array of the last axes of `x`; ones where there is none.
fn last_axes_of(
    found: &mut Found<'_, '_>,
    name: &str,
    x: ValueId,
    axis: usize,
) -> Result<ValueId, Declined> {
    let ty = found.ty(x)?;
    let wanted: Vec<Dim> = ty.shape[axis..].to_vec();
    let Some(value) = found.maybe(name) else {
        let shape: Vec<i64> = wanted.iter().filter_map(Dim::known).collect();
        if shape.len() != wanted.len() {
            return Err("the normalized size is not known".into());
        }
        let count = shape.iter().product::<i64>() as usize;
        let ones = Tensor::of_floats(ty.dtype, shape, &vec![1.0; count]);
        return Ok(found.constant(ones.ok_or("no ones of the type")?));
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
        return Err("the scale is not one number an element of the last axes".into());
    }
    let target: Option<Vec<i64>> = wanted.iter().map(Dim::known).collect();
    let target = target.ok_or("the normalized size is not known")?;
    if let Some(tensor) = found.edit.tensor(value) {
        let renamed = Tensor { shape: target, ..tensor.clone() };
        return Ok(found.computed(renamed, &[value]));
    }
    let count = target.len() as i64;
    let shape = Tensor::of_ints(onnx::DType::I64, vec![count], &target).ok_or("no shape")?;
    let shape = found.constant(shape);
    Ok(found.emit(Op::new("Reshape", &[value, shape]), Type::new(ty.dtype, wanted)))
}
