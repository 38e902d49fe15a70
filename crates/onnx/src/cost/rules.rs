//! The rules of operators that compute elements one by one, along axes, or not at all.

pub(crate) use super::products::{
    attention, causal_conv, determinant, dft, einsum, gemm, gru, lstm, matmul, quantized_matmul,
    rnn, stft,
};
pub(crate) use super::windows::{
    average_pool, conv, conv_transpose, deform_conv, grid_sample, lp_pool, max_pool,
    quantized_conv, resize, roi_align,
};
use super::{Count, Counted, NotCounted, Ops, Rule, Traffic, Work, less, product, sum, times};
use crate::attr::Attr;
use crate::dtype::DType;
use crate::value::Dim;

/// So many operations for each element.
pub(crate) const fn each(simple: i64) -> Rule {
    each_with(simple, 0)
}

/// So many operations and transcendental functions for each element.
pub(crate) const fn each_with(simple: i64, transcendental: i64) -> Rule {
    Rule { work: Work::Each(simple, transcendental), traffic: Traffic::Whole }
}

/// A transcendental function of each element.
pub(crate) const TRANSCENDENTAL: Rule = each_with(0, 1);

/// The operations that a function counts.
pub(crate) const fn by(rule: fn(&Count<'_, '_>) -> Counted) -> Rule {
    Rule { work: Work::By(rule), traffic: Traffic::Whole }
}

/// Elements are moved, and none is computed.
pub(crate) const MOVES: Rule = Rule { work: Work::None, traffic: Traffic::Whole };

/// Only the elements of the result are read.
pub(crate) const PICKS: Rule = Rule { work: Work::None, traffic: Traffic::Picks };

/// The result depends on no elements, or is written without a computation.
pub(crate) const WRITES: Rule = Rule { work: Work::None, traffic: Traffic::Writes };

/// The result is another name for the operand, or the bodies do the work.
pub(crate) const NOTHING: Rule = Rule { work: Work::None, traffic: Traffic::Nothing };

/// The cost depends on the numbers, or the values are no tensors of numbers.
pub(crate) const UNKNOWN: Rule = Rule { work: Work::Unknown, traffic: Traffic::Nothing };

/// Random numbers: each is a transcendental function of random bits, which is scaled and shifted.
pub(crate) const RANDOM: Rule = Rule { work: Work::Each(2, 1), traffic: Traffic::Writes };

/// `Dropout` changes nothing unless it trains.
pub(crate) const DROPOUT: Rule =
    Rule { work: Work::By(dropout), traffic: Traffic::NothingUnless(2) };

/// `HannWindow` and similar operators: `a - b · cos(2π · i / (n - 1))`
pub(crate) const WINDOW: Rule = Rule { work: Work::Each(4, 1), traffic: Traffic::Writes };

/// `BlackmanWindow`: a window with two cosines.
pub(crate) const LONG_WINDOW: Rule = Rule { work: Work::Each(7, 2), traffic: Traffic::Writes };

#[expect(clippy::unnecessary_wraps, reason = "rules return this type")]
fn ops(simple: Dim) -> Counted {
    Ok(Ops(simple, Dim::Known(0)))
}

fn dropout(count: &Count<'_, '_>) -> Counted {
    let elements = count.written(0)?;
    match count.call.has(2) {
        // A random number is compared, and the element is scaled and chosen.
        true => Ok(Ops(times(&elements, 3)?, elements)),
        false => ops(Dim::Known(0)),
    }
}

/// `Max`, `Sum` and similar operators: one operation less than operands for each element.
pub(crate) fn joined(count: &Count<'_, '_>) -> Counted {
    let joins = count.call.inputs.iter().flatten().count().saturating_sub(1);
    ops(times(&count.written(0)?, joins as i64)?)
}

/// `Mean`: a sum and a division.
pub(crate) fn mean_of_operands(count: &Count<'_, '_>) -> Counted {
    ops(times(&count.written(0)?, count.call.inputs.iter().flatten().count() as i64)?)
}

/// `Clip`: a comparison with each limit.
pub(crate) fn clip(count: &Count<'_, '_>) -> Counted {
    // Before opset 11, the limits were attributes.
    let is_there = |operand: usize, name: &str| {
        i64::from(count.call.has(operand) || count.call.attrs.get(name).is_some())
    };
    ops(times(&count.written(0)?, is_there(1, "min") + is_there(2, "max"))?)
}

/// `Pow`: a square or a cube is a product.
pub(crate) fn power(count: &Count<'_, '_>) -> Counted {
    let elements = count.written(0)?;
    let tensor = count.call.inputs.get(1).copied().flatten();
    let exponent =
        tensor.and_then(|id| count.call.values[id].tensor.as_deref()).and_then(|tensor| {
            let numbers = tensor.floats().or_else(|| {
                Some(tensor.ints()?.into_iter().map(|number| number as f64).collect())
            })?;
            match numbers[..] {
                [number] => Some(number),
                _ => None,
            }
        });
    match exponent {
        Some(2.0) => ops(elements),
        Some(3.0) => ops(times(&elements, 2)?),
        _ => Ok(Ops(Dim::Known(0), elements)),
    }
}

/// `Gelu`: `x · (1 + erf(x / √2)) / 2`, or `x · (1 + tanh(√(2/π) · (x + c · x³))) / 2`
pub(crate) fn gelu(count: &Count<'_, '_>) -> Counted {
    let elements = count.written(0)?;
    let simple = if count.call.str_attr("approximate") == Some("tanh") { 8 } else { 4 };
    Ok(Ops(times(&elements, simple)?, elements))
}

/// Returns the number of elements of the operand, and of the result without axes of size 1.
fn reduction(count: &Count<'_, '_>) -> Result<(Dim, Dim), NotCounted> {
    Ok((count.read(0)?, count.written(0)?))
}

/// `ReduceSum` and similar operators, and `ArgMax`: each element but the first is combined with the others.
pub(crate) fn reduce(count: &Count<'_, '_>) -> Counted {
    let (all, rows) = reduction(count)?;
    ops(less(&all, &rows)?)
}

/// `ReduceMean` and `GlobalAveragePool`: a sum and a division.
pub(crate) fn mean(count: &Count<'_, '_>) -> Counted {
    let (all, rows) = reduction(count)?;
    ops(sum(&[less(&all, &rows)?, rows])?)
}

/// `ReduceL1` and `ReduceSumSquare`: a sum of magnitudes or squares.
pub(crate) fn reduce_mapped(count: &Count<'_, '_>) -> Counted {
    let (all, rows) = reduction(count)?;
    ops(sum(&[less(&all, &rows)?, all])?)
}

/// `ReduceL2`: the root of a sum of squares.
pub(crate) fn reduce_l2(count: &Count<'_, '_>) -> Counted {
    let (all, rows) = reduction(count)?;
    Ok(Ops(sum(&[less(&all, &rows)?, all])?, rows))
}

/// `ReduceLogSum`
pub(crate) fn log_sum(count: &Count<'_, '_>) -> Counted {
    let (all, rows) = reduction(count)?;
    Ok(Ops(less(&all, &rows)?, rows))
}

/// `ReduceLogSumExp`: `log(Σ exp(x - max(x))) + max(x)`
pub(crate) fn log_sum_exp(count: &Count<'_, '_>) -> Counted {
    let (all, rows) = reduction(count)?;
    let combined = less(&all, &rows)?;
    let simple = sum(&[times(&combined, 2)?, all.clone(), rows.clone()])?;
    Ok(Ops(simple, sum(&[all, rows])?))
}

/// `GlobalLpPool`
pub(crate) fn global_lp_pool(count: &Count<'_, '_>) -> Counted {
    let (all, rows) = reduction(count)?;
    powers(count, &all, &rows, &less(&all, &rows)?)
}

/// Returns the operations of `(Σ |x|^p)^(1/p)` of so many elements and results.
pub(super) fn powers(count: &Count<'_, '_>, elements: &Dim, rows: &Dim, sums: &Dim) -> Counted {
    match count.call.int_attr("p", 2) {
        1 => ops(sum(&[elements.clone(), sums.clone()])?),
        2 => Ok(Ops(sum(&[elements.clone(), sums.clone()])?, rows.clone())),
        _ => Ok(Ops(
            sum(&[elements.clone(), sums.clone()])?,
            sum(&[elements.clone(), rows.clone()])?,
        )),
    }
}

/// Returns the number of elements, and of rows along the axis of the operator.
fn rows(count: &Count<'_, '_>) -> Result<(Dim, Dim), NotCounted> {
    let shape = count.call.shape(0)?;
    let axis = count.call.axis(shape.len())?;
    let rest: Vec<Dim> = [&shape[..axis], &shape[axis + 1..]].concat();
    Ok((product(shape)?, product(&rest)?))
}

/// Returns the number of elements, and of rows that span the axis and all axes after it.
fn long_rows(count: &Count<'_, '_>) -> Result<(Dim, Dim), NotCounted> {
    let shape = count.call.shape(0)?;
    let axis = count.call.axis(shape.len())?;
    Ok((product(shape)?, product(&shape[..axis])?))
}

/// Returns the number of elements, and of rows that the operator normalizes.
fn normalized_rows(count: &Count<'_, '_>) -> Result<(Dim, Dim), NotCounted> {
    // Before opset 13, the operand was a matrix of the axes before and after `axis`.
    match count.call.opset {
        ..13 if count.call.attrs.get("axis").is_none() => {
            let shape = count.call.shape(0)?;
            Ok((product(shape)?, product(shape.get(..1).unwrap_or_default())?))
        }
        ..13 => long_rows(count),
        _ => rows(count),
    }
}

/// `Softmax`: `exp(x - max(x)) / Σ exp(x - max(x))`
pub(crate) fn softmax(count: &Count<'_, '_>) -> Counted {
    let (all, rows) = normalized_rows(count)?;
    let combined = less(&all, &rows)?;
    Ok(Ops(sum(&[times(&combined, 2)?, times(&all, 2)?])?, all))
}

/// `LogSoftmax`: `x - max(x) - log(Σ exp(x - max(x)))`
pub(crate) fn log_softmax(count: &Count<'_, '_>) -> Counted {
    let (all, rows) = normalized_rows(count)?;
    let combined = less(&all, &rows)?;
    Ok(Ops(sum(&[times(&combined, 2)?, times(&all, 2)?])?, sum(&[all, rows])?))
}

/// `Hardmax`: the place of the maximum, and a comparison with it.
pub(crate) fn hardmax(count: &Count<'_, '_>) -> Counted {
    let (all, rows) = normalized_rows(count)?;
    ops(sum(&[less(&all, &rows)?, all])?)
}

/// `CumSum` and `CumProd`
pub(crate) fn cumulate(count: &Count<'_, '_>) -> Counted {
    let shape = count.call.shape(0)?;
    let axis = match count.call.ints(1)?[..] {
        [axis] => count.call.axis_at(axis, shape.len())?,
        _ => return Err(NotCounted::Shapes),
    };
    let rest: Vec<Dim> = [&shape[..axis], &shape[axis + 1..]].concat();
    ops(less(&product(shape)?, &product(&rest)?)?)
}

/// `LpNormalization`: `x / (Σ |x|^p)^(1/p)`
pub(crate) fn lp_normalization(count: &Count<'_, '_>) -> Counted {
    let (all, rows) = rows(count)?;
    let Ops(simple, roots) = powers(count, &all, &rows, &less(&all, &rows)?)?;
    Ok(Ops(sum(&[simple, all])?, roots))
}

/// Returns the operations of `(x - mean(x)) / √(mean((x - mean(x))²) + ε) · scale + bias`.
fn normalization(all: &Dim, rows: &Dim, has_bias: bool) -> Counted {
    // The two means are sums and a division each. The divisions of rows by roots are products.
    let means = sum(&[less(all, rows)?, rows.clone()])?;
    let elements = times(all, if has_bias { 5 } else { 4 })?;
    Ok(Ops(sum(&[times(&means, 2)?, elements, times(rows, 2)?])?, rows.clone()))
}

/// `LayerNormalization`
pub(crate) fn layer_normalization(count: &Count<'_, '_>) -> Counted {
    let (all, rows) = long_rows(count)?;
    normalization(&all, &rows, count.call.has(2))
}

/// `RMSNormalization`: `x / √(mean(x²) + ε) · scale`
pub(crate) fn rms_normalization(count: &Count<'_, '_>) -> Counted {
    let (all, rows) = long_rows(count)?;
    let mean = sum(&[less(&all, &rows)?, rows.clone()])?;
    Ok(Ops(sum(&[mean, times(&all, 3)?, times(&rows, 2)?])?, rows))
}

/// `InstanceNormalization`
pub(crate) fn instance_normalization(count: &Count<'_, '_>) -> Counted {
    let shape = count.call.shape(0)?;
    let channels = product(shape.get(..2).ok_or(NotCounted::Shapes)?)?;
    normalization(&product(shape)?, &channels, true)
}

/// `GroupNormalization`
pub(crate) fn group_normalization(count: &Count<'_, '_>) -> Counted {
    let groups = times(&count.size(0, 0)?, count.call.int_attr("num_groups", 1))?;
    normalization(&count.read(0)?, &groups, true)
}

/// `MeanVarianceNormalization`: `(x - mean(x)) / √(mean((x - mean(x))²) + ε)`
pub(crate) fn mean_variance(count: &Count<'_, '_>) -> Counted {
    let shape = count.call.shape(0)?;
    let axes =
        count.call.axes_at(count.call.ints_attr("axes").unwrap_or(&[0, 2, 3]), shape.len())?;
    let rest: Vec<Dim> = (0..shape.len())
        .filter(|axis| !axes.contains(axis))
        .map(|axis| shape[axis].clone())
        .collect();
    let (all, rows) = (product(shape)?, product(&rest)?);
    let means = sum(&[less(&all, &rows)?, rows.clone()])?;
    Ok(Ops(sum(&[times(&means, 2)?, times(&all, 3)?, rows.clone()])?, rows))
}

/// `BatchNormalization`: `(x - mean) · scale / √(variance + ε) + bias`, where the factor is computed per channel.
pub(crate) fn batch_normalization(count: &Count<'_, '_>) -> Counted {
    let (all, channels) = (count.read(0)?, count.read(1)?);
    Ok(Ops(sum(&[times(&all, 3)?, times(&channels, 2)?])?, channels))
}

/// `LRN`: `x / (bias + α / size · Σ x²)^β`
pub(crate) fn local_response(count: &Count<'_, '_>) -> Counted {
    let all = count.read(0)?;
    let size = count.call.int_attr("size", 1).max(1);
    Ok(Ops(times(&all, size.saturating_add(3))?, all))
}

/// `RotaryEmbedding`: two products and a sum for each element that is rotated.
pub(crate) fn rotate(count: &Count<'_, '_>) -> Counted {
    let all = count.read(0)?;
    let shape = count.call.shape(0)?;
    let rotated = count.call.int_attr("rotary_embedding_dim", 0);
    if rotated == 0 {
        return ops(times(&all, 3)?);
    }
    let last = shape.last().ok_or(NotCounted::Shapes)?;
    let width = match shape.len() {
        3 => last
            .divide_exact(&Dim::Known(count.call.int_attr("num_heads", 0)))
            .ok_or(NotCounted::Shapes)?,
        _ => last.clone(),
    };
    let part = times(&all, rotated)?.divide_exact(&width).ok_or(NotCounted::TooLarge)?;
    ops(times(&part, 3)?)
}

/// `ScatterND` and similar operators: an operation for each update, if they are combined with what is there.
pub(crate) fn scatter(count: &Count<'_, '_>) -> Counted {
    match count.call.str_attr("reduction") {
        None | Some("none") => ops(Dim::Known(0)),
        Some(_) => ops(count.read(2)?),
    }
}

/// `Col2Im`: adds each element of the columns.
pub(crate) fn each_of_operand(count: &Count<'_, '_>) -> Counted {
    ops(count.read(0)?)
}

/// `TopK`: the comparisons of a heap of `k` elements, `log₂(k)` for each element and at least one.
pub(crate) fn top_k(count: &Count<'_, '_>) -> Counted {
    let k = count.call.ints(1)?.first().copied().ok_or(NotCounted::Shapes)?;
    ops(times(&count.read(0)?, levels(k).max(1))?)
}

/// Returns the logarithm of a number to base 2, rounded up.
pub(super) fn levels(number: i64) -> i64 {
    i64::from(64 - u64::try_from(number.saturating_sub(1)).unwrap_or(0).leading_zeros())
}

/// `QuantizeLinear`: a division, a rounding, and a sum with the zero point.
pub(crate) fn quantize(count: &Count<'_, '_>) -> Counted {
    ops(times(&count.written(0)?, if count.call.has(2) { 3 } else { 2 })?)
}

/// `DequantizeLinear`: a product, and a difference to the zero point.
pub(crate) fn dequantize(count: &Count<'_, '_>) -> Counted {
    ops(times(&count.written(0)?, if count.call.has(2) { 2 } else { 1 })?)
}

/// `DynamicQuantizeLinear`: both extremes, a division, a rounding and a sum for each element.
pub(crate) fn quantize_dynamically(count: &Count<'_, '_>) -> Counted {
    ops(times(&count.read(0)?, 5)?)
}

/// `AffineGrid`: the product of a matrix with each point.
pub(crate) fn affine_grid(count: &Count<'_, '_>) -> Counted {
    ops(times(&count.written(0)?, 2)?
        .checked_mul(&count.size(0, 2)?)
        .ok_or(NotCounted::TooLarge)?)
}

/// `NegativeLogLikelihoodLoss`: a product with the weight and a sum for each entry that is picked.
pub(crate) fn picked_loss(count: &Count<'_, '_>) -> Counted {
    ops(times(&count.read(1)?, 2)?)
}

/// `SoftmaxCrossEntropyLoss`: a logarithm of a softmax along the second axis, and the loss.
pub(crate) fn softmax_loss(count: &Count<'_, '_>) -> Counted {
    let (all, picked) = (count.read(0)?, count.read(1)?);
    let combined = less(&all, &picked)?;
    let simple = sum(&[times(&combined, 2)?, times(&all, 2)?, times(&picked, 2)?])?;
    Ok(Ops(simple, sum(&[all, picked])?))
}

/// True if the attribute `to`, or the result, has the type of the operand.
pub(crate) fn cast(count: &Count<'_, '_>) -> Counted {
    let (from, to) = (count.call.dtype(0)?, count.result(0)?.dtype);
    ops(if from == to || to == DType::String { Dim::Known(0) } else { count.written(0)? })
}

/// `Swish` has a factor since it exists; the default is 1.
pub(crate) fn swish(count: &Count<'_, '_>) -> Counted {
    let elements = count.written(0)?;
    let has_factor =
        matches!(count.call.attrs.get("alpha"), Some(Attr::Float(alpha)) if *alpha != 1.0);
    Ok(Ops(times(&elements, if has_factor { 5 } else { 4 })?, elements))
}
