//! The rules of convolutions, pools and resampling.

use super::rules::powers;
use super::{Count, Counted, NotCounted, Ops, at_least_zero, less, product, sum, times};
use crate::value::Dim;

/// The maximum number of entries of a window along an axis that are looked at one by one.
const MAX_ENTRIES: i64 = 1 << 12;

/// The maximum number of entries if the sizes are symbols, because each may add a term.
const MAX_SYMBOLIC: i64 = 1 << 6;

/// A window that moves along one axis.
struct Window {
    /// The number of entries.
    entries: Dim,
    stride: i64,
    dilation: i64,
    /// The padding before the first element.
    before: i64,
    is_padded: bool,
}

/// Returns the windows along the axes of an image, from its sizes and those of the kernel and of the result.
fn windows(
    count: &Count<'_, '_>,
    sizes: &[Dim],
    kernel: &[Dim],
    places: &[Dim],
) -> Result<Vec<Window>, NotCounted> {
    let rank = sizes.len();
    if kernel.len() != rank || places.len() != rank {
        return Err(NotCounted::Shapes);
    }
    let at = |name: &str, axis: usize, default: i64| {
        count.call.ints_attr(name).map_or(Some(default), |list| list.get(axis).copied())
    };
    let window = |axis: usize| {
        let (stride, dilation) = (at("strides", axis, 1)?, at("dilations", axis, 1)?);
        let entries = kernel[axis].clone();
        let (before, after) = match count.call.str_attr("auto_pad") {
            Some(same @ ("SAME_UPPER" | "SAME_LOWER")) => {
                // The padding that the last window needs.
                let span =
                    entries.known()?.checked_sub(1)?.checked_mul(dilation)?.checked_add(1)?;
                let last = places[axis].checked_sub(&Dim::Known(1))?.checked_mul(&stride.into())?;
                let needed = last.checked_add(&span.into())?.checked_sub(&sizes[axis])?;
                let pads = needed.known()?.max(0);
                if same == "SAME_UPPER" {
                    (pads / 2, pads - pads / 2)
                } else {
                    (pads - pads / 2, pads / 2)
                }
            }
            Some("VALID") => (0, 0),
            _ => (at("pads", axis, 0)?, at("pads", rank + axis, 0)?),
        };
        let is_padded = before > 0 || after > 0;
        (stride > 0 && dilation > 0).then_some(Window {
            entries,
            stride,
            dilation,
            before,
            is_padded,
        })
    };
    (0..rank).map(|axis| window(axis).ok_or(NotCounted::Shapes)).collect()
}

/// Returns how often an entry of the window meets an element along an axis of this size, in windows at so many places.
fn meetings(size: &Dim, places: &Dim, window: &Window) -> Result<Dim, NotCounted> {
    let all = times(places, window.entries.clone())?;
    if !window.is_padded {
        return Ok(all);
    }
    let is_known = size.known().is_some() && places.known().is_some();
    let most = if is_known { MAX_ENTRIES } else { MAX_SYMBOLIC };
    let entries = window.entries.known().filter(|&entries| entries <= most);
    let entries = entries.ok_or(NotCounted::NoRule)?;
    (0..entries).try_fold(Dim::Known(0), |met, entry| {
        let met_by_entry = window.met_by(entry, size, places).ok_or(NotCounted::TooLarge)?;
        sum(&[met, met_by_entry])
    })
}

impl Window {
    /// Returns at how many places an entry meets an element, and not the padding.
    fn met_by(&self, entry: i64, size: &Dim, places: &Dim) -> Option<Dim> {
        // The entry meets element `place · stride + entry · dilation - before`.
        let missing = self.before.checked_sub(entry.checked_mul(self.dilation)?)?;
        let first =
            if missing > 0 { missing.checked_add(self.stride - 1)? / self.stride } else { 0 };
        let last = size.checked_add(&missing.checked_sub(1)?.into())?;
        let end = last.checked_floordiv(&self.stride.into())?.checked_add(&Dim::Known(1))?;
        at_least_zero(&end.checked_min(places)?.checked_sub(&first.into())?)
    }
}

/// Returns how often the entries of all windows meet elements of an image.
fn all_meetings(
    count: &Count<'_, '_>,
    sizes: &[Dim],
    kernel: &[Dim],
    places: &[Dim],
) -> Result<Dim, NotCounted> {
    let windows = windows(count, sizes, kernel, places)?;
    let axes = sizes.iter().zip(places).zip(&windows);
    let met: Vec<Dim> = axes
        .map(|((size, places), window)| meetings(size, places, window))
        .collect::<Result<_, _>>()?;
    product(&met)
}

fn spatial(shape: &[Dim]) -> Result<&[Dim], NotCounted> {
    shape.get(2..).ok_or(NotCounted::Shapes)
}

/// Returns the products of a convolution of `operand` with `kernel`.
fn convolution(count: &Count<'_, '_>, kernel: usize) -> Result<Dim, NotCounted> {
    let (x, w, y) = (count.call.shape(0)?, count.call.shape(kernel)?, &count.result(0)?.shape);
    let met = all_meetings(count, spatial(x)?, spatial(w)?, spatial(y)?)?;
    // The second axis of the kernel has the channels of a group.
    product(&[x[0].clone(), w[0].clone(), w[1].clone(), met, Dim::Known(2)])
}

/// `Conv` and `ConvInteger`
pub(crate) fn conv(count: &Count<'_, '_>) -> Counted {
    let is_of_bytes = count.call.op == &crate::operator::OpType::ConvInteger;
    let bias = if count.call.has(2) && !is_of_bytes { count.written(0)? } else { Dim::Known(0) };
    Ok(Ops(sum(&[convolution(count, 1)?, bias])?, Dim::Known(0)))
}

/// `QLinearConv`: the convolution, and a product, a rounding and a sum for each element.
pub(crate) fn quantized_conv(count: &Count<'_, '_>) -> Counted {
    let each = if count.call.has(8) { 4 } else { 3 };
    let simple = sum(&[convolution(count, 3)?, times(&count.written(0)?, each)?])?;
    Ok(Ops(simple, Dim::Known(0)))
}

/// `ConvTranspose`: each element is multiplied with the kernel. Products outside of the result are not computed.
pub(crate) fn conv_transpose(count: &Count<'_, '_>) -> Counted {
    let (x, w, y) = (count.call.shape(0)?, count.call.shape(1)?, &count.result(0)?.shape);
    if !matches!(count.call.str_attr("auto_pad"), None | Some("NOTSET" | "VALID"))
        || count.call.ints_attr("output_shape").is_some()
    {
        return Err(NotCounted::NoRule);
    }
    // The windows lie on the result, and their places are the elements of the operand.
    let met = all_meetings(count, spatial(y)?, spatial(w)?, spatial(x)?)?;
    let simple = product(&[x[0].clone(), x[1].clone(), w[1].clone(), met, Dim::Known(2)])?;
    let bias = if count.call.has(2) { count.written(0)? } else { Dim::Known(0) };
    Ok(Ops(sum(&[simple, bias])?, Dim::Known(0)))
}

/// `DeformConv`: each element of the window is interpolated between four, multiplied and added.
pub(crate) fn deform_conv(count: &Count<'_, '_>) -> Counted {
    let (w, elements) = (count.call.shape(1)?, count.written(0)?);
    let entries = product(w.get(1..).ok_or(NotCounted::Shapes)?)?;
    let points = times(&count.read(2)?, count.size(0, 1)?)?;
    let interpolated = points.checked_floordiv(&Dim::Known(2)).ok_or(NotCounted::TooLarge)?;
    let each = if count.call.has(4) { 8 } else { 7 };
    let bias = if count.call.has(3) { elements.clone() } else { Dim::Known(0) };
    let products = times(&times(&elements, 2)?, entries)?;
    Ok(Ops(sum(&[products, times(&interpolated, each)?, bias])?, Dim::Known(0)))
}

/// Returns the number of results of a pool, and the number of elements of one window.
fn pool(count: &Count<'_, '_>) -> Result<(Dim, i64), NotCounted> {
    let kernel = count.call.ints_attr("kernel_shape").ok_or(NotCounted::Shapes)?;
    let window = kernel.iter().try_fold(1_i64, |all, &size| all.checked_mul(size));
    Ok((count.written(0)?, window.ok_or(NotCounted::TooLarge)?))
}

/// `MaxPool`: comparisons of all elements of a window.
pub(crate) fn max_pool(count: &Count<'_, '_>) -> Counted {
    let (results, window) = pool(count)?;
    Ok(Ops(times(&results, (window - 1).max(0))?, Dim::Known(0)))
}

/// `AveragePool`: a sum and a division.
pub(crate) fn average_pool(count: &Count<'_, '_>) -> Counted {
    let (results, window) = pool(count)?;
    Ok(Ops(times(&results, window)?, Dim::Known(0)))
}

/// `LpPool`: `(Σ |x|^p)^(1/p)`
pub(crate) fn lp_pool(count: &Count<'_, '_>) -> Counted {
    let (results, window) = pool(count)?;
    let elements = times(&results, window)?;
    powers(count, &elements, &results, &less(&elements, &results)?)
}

/// Returns the products and sums that combine so many neighbors with their factors.
fn interpolation(neighbors: i64) -> i64 {
    2 * neighbors - 1
}

/// `Resize` and `Upsample`: each element is interpolated along the axes whose size changes.
pub(crate) fn resize(count: &Count<'_, '_>) -> Counted {
    let per_axis = match count.call.str_attr("mode") {
        None | Some("nearest") => return Ok(Ops(Dim::Known(0), Dim::Known(0))),
        Some("cubic") => 4_i64,
        Some(_) => 2,
    };
    let (from, to) = (count.call.shape(0)?, &count.result(0)?.shape);
    let resized = from.iter().zip(&**to).filter(|(from, to)| from != to).count();
    let neighbors = u32::try_from(resized).ok().and_then(|axes| per_axis.checked_pow(axes));
    let neighbors = neighbors.filter(|&all| all < 1 << 32).ok_or(NotCounted::TooLarge)?;
    let each = if neighbors == 1 { 0 } else { interpolation(neighbors) };
    Ok(Ops(times(&count.written(0)?, each)?, Dim::Known(0)))
}

/// `GridSample`: each element is interpolated along all axes of the image.
pub(crate) fn grid_sample(count: &Count<'_, '_>) -> Counted {
    let per_axis = match count.call.str_attr("mode") {
        Some("nearest") => return Ok(Ops(Dim::Known(0), Dim::Known(0))),
        Some("cubic" | "bicubic") => 4_i64,
        _ => 2,
    };
    let axes = count.call.shape(0)?.len().saturating_sub(2);
    let neighbors = u32::try_from(axes).ok().and_then(|axes| per_axis.checked_pow(axes));
    let neighbors = neighbors.filter(|&all| all < 1 << 32).ok_or(NotCounted::TooLarge)?;
    Ok(Ops(times(&count.written(0)?, interpolation(neighbors))?, Dim::Known(0)))
}

/// `RoiAlign`: the mean or maximum of points that are interpolated between four, if their number is fixed.
pub(crate) fn roi_align(count: &Count<'_, '_>) -> Counted {
    let ratio = count.call.int_attr("sampling_ratio", 0);
    let points = ratio.checked_mul(ratio).filter(|&points| points > 0 && points < 1 << 32);
    let points = points.ok_or(NotCounted::NoRule)?;
    let is_mean = count.call.str_attr("mode") != Some("max");
    let each = points * (interpolation(4) + 1) - i64::from(!is_mean);
    Ok(Ops(times(&count.written(0)?, each)?, Dim::Known(0)))
}
