//! Reads windows at computed indices.

use jaxpr::Param;
use onnx::{DType, Dim, Expr, OpType};

use super::numbers::{Axis, Mode, Windows, gather_mode};
use super::places::{Starts, arrange, gather_nd, movable, wide_axes};
use crate::ctx::{Ctx, Eqn};
use crate::error::{Refused, Result};

/// `out[b…, w…] = x[start(b…) + w…]`; a window that does not fit is moved into bounds, or replaced
/// by `fill_value`
pub(crate) fn gather<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let sizes: Vec<Dim> = eqn.param("slice_sizes")?;
    let mode = gather_mode(eqn)?;
    let fill: Option<Param> = eqn.optional("fill_value")?;
    eqn.ignore(&["indices_are_sorted", "unique_indices"]);
    let [x, indices] = eqn.operands()?;
    let result = eqn.output()?;
    let windows = Windows::of_gather(eqn, ctx.dims(&sizes)?, &x.shape(), result.rank())?;
    let x = x.cast(movable(x.dtype()));
    let fill = match mode {
        Mode::Fill => Some(fill_value(ctx, eqn, x, fill.as_ref())?),
        Mode::Clamp => None,
    };

    let (windows, indices) = match fill {
        Some(_) => (windows, indices),
        None => without_whole_axes(windows, indices, &x.shape()),
    };
    let starts = Starts::new(indices, &windows, &x.shape(), fill.is_some());
    let wanted = windows.result_axes(result.rank());
    let (found, axes) = windows_at(x, starts, &windows, &indices.shape());
    let found = arrange(found, &axes, &wanted).expand(&result.shape);
    let filled = match (starts.were_in_bounds, fill) {
        (Some(inside), Some(fill)) => inside.unsqueeze(&windows.offsets).select(found, fill),
        _ => found,
    };
    Ok(filled.cast_exactly(result.dtype))
}

/// Removes the indices along axes on which a window fits at only one position, because clamping
/// moves them there.
fn without_whole_axes<'g>(
    mut windows: Windows,
    indices: Expr<'g>,
    shape: &[Dim],
) -> (Windows, Expr<'g>) {
    let is_part = |&column: &usize| {
        let axis = windows.mapped[column];
        windows.sizes[axis] != shape[axis]
    };
    let kept: Vec<usize> = (0..windows.mapped.len()).filter(is_part).collect();
    if kept.is_empty() || kept.len() == windows.mapped.len() {
        return (windows, indices);
    }
    let last = indices.rank() - 1;
    let column = |&at: &usize| indices.slice_axis(last, at as i64, at as i64 + 1);
    let columns: Vec<Expr<'g>> = kept.iter().map(column).collect();
    windows.mapped = kept.into_iter().map(|column| windows.mapped[column]).collect();
    (windows, Expr::concat(&columns, last))
}

/// Returns the windows and their axes. Axes of size one may be missing.
fn windows_at<'g>(
    x: Expr<'g>,
    starts: Starts<'g>,
    windows: &Windows,
    indices: &[Dim],
) -> (Expr<'g>, Vec<Axis>) {
    let shape = x.shape();
    let batch = &indices[..indices.len() - 1];
    let indexed = windows.indexed(&shape);
    let of_windows = |axes: &[usize]| axes.iter().map(|&axis| Axis::Window(axis)).collect();
    let of_indices: Vec<Axis> = (0..batch.len()).map(Axis::Index).collect();

    if indexed.is_empty() {
        // Every window is the whole array.
        let along = |axis: usize| windows.batching.iter().find(|&&(own, _)| own == axis);
        let axis = |axis| along(axis).map_or(Axis::Window(axis), |&(_, along)| Axis::Index(along));
        return (x, (0..shape.len()).map(axis).collect());
    }
    let wide = wide_axes(windows, &indexed);
    let is_one = windows.batching.is_empty() && batch.iter().all(|dim| dim.is(1));
    if is_one && !wide.is_empty() && indexed.iter().all(|axis| windows.mapped.contains(axis)) {
        return one_window(x, starts, windows, &indexed);
    }
    if let [axis] = indexed[..]
        && windows.mapped.contains(&axis)
    {
        if windows.batching.is_empty() {
            let at = along_one_axis(starts, windows, axis, batch);
            let before: Vec<Axis> = (0..axis).map(Axis::Window).collect();
            let trailing: Vec<Axis> = (axis + 1..shape.len()).map(Axis::Window).collect();
            return (
                x.gather(at, axis),
                [before, of_indices, of_windows(&wide), trailing].concat(),
            );
        }
        let side_by_side = (0..shape.len()).filter(|&own| own != axis).map(|own| (own, own));
        if wide.is_empty()
            && batch.len() == shape.len()
            && windows.batching.iter().copied().eq(side_by_side)
        {
            let at = along_one_axis(starts, windows, axis, batch);
            return (x.gather_elements(at, axis), of_indices);
        }
    }
    anywhere(x, starts, windows, &indexed, batch)
}

/// Returns the places along the only indexed axis.
fn along_one_axis<'g>(
    starts: Starts<'g>,
    windows: &Windows,
    axis: usize,
    batch: &[Dim],
) -> Expr<'g> {
    let is_plain = windows.mapped == [axis] && wide_axes(windows, &[axis]).is_empty();
    if is_plain {
        return starts.indices;
    }
    let places = starts.places(windows, &[axis], batch);
    places.squeeze(&[places.rank() - 1])
}

/// Returns the only window, as a slice.
fn one_window<'g>(
    x: Expr<'g>,
    starts: Starts<'g>,
    windows: &Windows,
    indexed: &[usize],
) -> (Expr<'g>, Vec<Axis>) {
    let builder = x.builder;
    let count = Dim::Known(windows.mapped.len() as i64);
    let sizes: Vec<Dim> = windows.mapped.iter().map(|&axis| windows.sizes[axis].clone()).collect();
    let start = starts.indices.cast(DType::I64).reshape(&[count]);
    let end = start + builder.sizes(&sizes);
    let axes: Vec<i64> = windows.mapped.iter().map(|&axis| axis as i64).collect();
    let axes = builder.ints(&axes);
    let inputs = [x, start, end, axes];
    let window = builder.sized_node(OpType::Slice, &inputs, Vec::new(), &windows.sizes);
    let collapsed: Vec<usize> =
        indexed.iter().copied().filter(|axis| windows.collapsed.contains(axis)).collect();
    (window.squeeze(&collapsed), windows.window_axes().into_iter().map(Axis::Window).collect())
}

/// Gathers any windows with `GatherND`. The order of the axes is: batching axes, indexed axes,
/// other axes.
fn anywhere<'g>(
    x: Expr<'g>,
    starts: Starts<'g>,
    windows: &Windows,
    indexed: &[usize],
    batch: &[Dim],
) -> (Expr<'g>, Vec<Axis>) {
    // The axes are in the order of the index vectors, if then the vectors need not be split.
    let in_order = |axes: &[usize]| axes.iter().all(|axis| indexed.contains(axis));
    let is_as_given = in_order(&windows.mapped) && windows.mapped.len() == indexed.len();
    let indexed = if is_as_given { &windows.mapped } else { indexed };
    let (own, along): (Vec<usize>, Vec<usize>) = windows.batching.iter().copied().unzip();
    let is_whole = |axis: &usize| !own.contains(axis) && !indexed.contains(axis);
    let whole: Vec<usize> = (0..x.rank()).filter(is_whole).collect();
    let rest: Vec<usize> = (0..batch.len()).filter(|axis| !along.contains(axis)).collect();
    let wide = wide_axes(windows, indexed);

    let x = x.transpose(&[&own[..], indexed, &whole].concat());
    let places = starts.places(windows, indexed, batch);
    let window_places = batch.len()..places.rank();
    let order: Vec<usize> = [&along[..], &rest, &window_places.collect::<Vec<_>>()].concat();
    let found = gather_nd(x, places.transpose(&order), own.len());
    let indices = along.iter().chain(&rest).map(|&axis| Axis::Index(axis));
    let entries = wide.iter().chain(&whole).map(|&axis| Axis::Window(axis));
    (found, indices.chain(entries).collect())
}

/// Returns the value for windows that are out of bounds: the given one, or else NaN, the smallest
/// signed integer or the largest unsigned integer.
fn fill_value<'g>(
    ctx: &Ctx<'g>,
    eqn: &Eqn<'g, '_>,
    x: Expr<'g>,
    given: Option<&Param>,
) -> Result<Expr<'g>> {
    let (builder, dtype) = (x.builder, x.dtype());
    let is_complex = eqn.part_axes() > 0 && dtype.is_float();
    let integer = |value: i64| builder.constant_ints(dtype, &[], &[value]);
    Ok(match given {
        Some(Param::Array(value)) if value.shape.is_empty() => {
            let value = ctx.constant(value)?;
            // A real number becomes a pair with the imaginary part zero.
            match (is_complex, value.rank()) {
                (true, 0) => Expr::concat(
                    &[value.cast(dtype).unsqueeze(&[0]), builder.constant(dtype, &[1], &[0.0])],
                    0,
                ),
                _ => value.cast(dtype),
            }
        }
        Some(Param::Float(value)) if is_complex => builder.constant(dtype, &[2], &[*value, 0.0]),
        Some(Param::Int(value)) if is_complex => {
            builder.constant(dtype, &[2], &[*value as f64, 0.0])
        }
        Some(Param::Bool(flag)) if is_complex => {
            builder.constant(dtype, &[2], &[f64::from(u8::from(*flag)), 0.0])
        }
        None | Some(Param::None) if is_complex => builder.constant(dtype, &[2], &[f64::NAN, 0.0]),
        _ if eqn.part_axes() > 0 => {
            let what = "gather of random keys with mode=FILL_OR_DROP".into();
            return Err(Refused::OfKeys { what }.into());
        }
        None | Some(Param::None) if dtype.is_float() => builder.scalar(dtype, f64::NAN),
        None | Some(Param::None) if dtype.is_signed_int() => integer(-1 << (dtype.bits() - 1)),
        None | Some(Param::None) => integer(-1),
        Some(Param::Float(value)) => builder.scalar(dtype, *value),
        Some(Param::Int(value)) => integer(*value),
        Some(Param::Bool(flag)) => integer(i64::from(*flag)),
        Some(other) => {
            return Err(Refused::NoCounterpart { what: format!("fill_value={other}") }.into());
        }
    })
}
