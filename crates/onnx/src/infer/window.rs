//! The rules of convolutions and pools.

use smallvec::smallvec;

use super::{Call, Inferred, NotInferred, known, one};
use crate::dtype::DType;
use crate::value::{Dim, Type};

/// The attributes of a window along one axis.
struct Window {
    size: Dim,
    stride: i64,
    dilation: i64,
    /// The padding before and after, together.
    pads: i64,
}

/// Returns the windows of the axes of an image.
fn windows(call: &Call<'_>, sizes: &[Dim]) -> Result<Vec<Window>, NotInferred> {
    let count = sizes.len();
    let is_padded = matches!(call.str_attr("auto_pad"), None | Some("NOTSET" | "VALID"));
    if !is_padded {
        return Err(NotInferred::Unknown);
    }
    let at = |name: &str, axis: usize, default: i64| {
        call.ints_attr(name).map_or(Some(default), |list| list.get(axis).copied())
    };
    let window = |(axis, size): (usize, &Dim)| {
        let pads = at("pads", axis, 0).zip(at("pads", count + axis, 0));
        Some(Window {
            size: size.clone(),
            stride: at("strides", axis, 1)?,
            dilation: at("dilations", axis, 1)?,
            pads: pads.and_then(|(before, after)| before.checked_add(after))?,
        })
    };
    sizes.iter().enumerate().map(|axis| known(window(axis))).collect()
}

/// Returns how many windows fit along an axis.
fn places(size: &Dim, window: &Window, rounds_up: bool) -> Option<Dim> {
    let one = Dim::Known(1);
    let span = window.size.checked_sub(&one)?.checked_mul(&window.dilation.into())?;
    let room = size.checked_add(&window.pads.into())?.checked_sub(&span.checked_add(&one)?)?;
    if rounds_up && window.stride != 1 {
        return None;
    }
    let stride = Dim::Known(window.stride);
    match room.known() {
        Some(room) => room.div_euclid(window.stride.max(1)).checked_add(1).map(Dim::Known),
        None => room.checked_floordiv(&stride)?.checked_add(&one),
    }
}

pub(crate) fn conv(call: &Call<'_>) -> Inferred {
    one(call.dtype(0)?, positions(call)?)
}

/// `ConvInteger`: bytes become 32-bit integers.
pub(crate) fn conv_of_bytes(call: &Call<'_>) -> Inferred {
    one(DType::I32, positions(call)?)
}

/// Returns the shape of the result of a convolution.
fn positions(call: &Call<'_>) -> Result<Vec<Dim>, NotInferred> {
    let (x, kernel) = (call.shape(0)?, call.shape(1)?);
    let [batch, _, sizes @ ..] = x else { return Err(NotInferred::Unknown) };
    let [channels, _, spans @ ..] = kernel else { return Err(NotInferred::Unknown) };
    if spans.len() != sizes.len() {
        return Err(call.invalid(format_args!("has different numbers of axes")));
    }
    let mut shape = vec![batch.clone(), channels.clone()];
    for (size, window) in sizes.iter().zip(windows(call, spans)?) {
        shape.push(known(places(size, &window, false))?);
    }
    Ok(shape)
}

pub(crate) fn conv_transpose(call: &Call<'_>) -> Inferred {
    let (x, kernel) = (call.ty(0)?, call.shape(1)?);
    let [batch, _, sizes @ ..] = &*x.shape else { return Err(NotInferred::Unknown) };
    let [_, channels, spans @ ..] = kernel else { return Err(NotInferred::Unknown) };
    if call.ints_attr("output_shape").is_some() || spans.len() != sizes.len() {
        return Err(NotInferred::Unknown);
    }
    let channels = known(channels.checked_mul(&Dim::Known(call.int_attr("group", 1))))?;
    let mut shape = vec![batch.clone(), channels];
    for (axis, (size, window)) in sizes.iter().zip(windows(call, spans)?).enumerate() {
        let extra =
            call.ints_attr("output_padding").map_or(Some(0), |list| list.get(axis).copied());
        let one = Dim::Known(1);
        let length = || {
            let steps = size.checked_sub(&one)?.checked_mul(&window.stride.into())?;
            let span = window.size.checked_sub(&one)?.checked_mul(&window.dilation.into())?;
            let whole = steps.checked_add(&span)?.checked_add(&one)?;
            whole.checked_add(&extra?.into())?.checked_sub(&window.pads.into())
        };
        shape.push(known(length())?);
    }
    one(x.dtype, shape)
}

/// `MaxPool` and similar operators; a second result contains the indices of the elements.
pub(crate) fn pool(call: &Call<'_>) -> Inferred {
    let x = call.ty(0)?;
    let [batch, channels, sizes @ ..] = &*x.shape else { return Err(NotInferred::Unknown) };
    let spans: Vec<Dim> =
        known(call.ints_attr("kernel_shape"))?.iter().map(|&size| size.into()).collect();
    if spans.len() != sizes.len() {
        return Err(call.invalid(format_args!("has windows of another rank")));
    }
    let mut shape = vec![batch.clone(), channels.clone()];
    for (size, window) in sizes.iter().zip(windows(call, &spans)?) {
        shape.push(known(places(size, &window, call.int_attr("ceil_mode", 0) == 1))?);
    }
    Ok(smallvec![Some(Type::new(x.dtype, shape.clone())), Some(Type::new(DType::I64, shape))])
}

pub(crate) fn global_pool(call: &Call<'_>) -> Inferred {
    let x = call.ty(0)?;
    let [batch, channels, sizes @ ..] = &*x.shape else { return Err(NotInferred::Unknown) };
    let mut shape = vec![batch.clone(), channels.clone()];
    shape.extend(std::iter::repeat_n(Dim::Known(1), sizes.len()));
    one(x.dtype, shape)
}

pub(crate) fn grid_sample(call: &Call<'_>) -> Inferred {
    let x = call.ty(0)?;
    let [batch, channels, ..] = &*x.shape else { return Err(NotInferred::Unknown) };
    let [_, sizes @ .., _] = call.shape(1)? else { return Err(NotInferred::Unknown) };
    one(x.dtype, [&[batch.clone(), channels.clone()], sizes].concat())
}
