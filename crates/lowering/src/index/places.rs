//! Clamps indices, and computes the index vectors of all entries of windows, their *places*.

use onnx::{Attr, Builder, DType, Dim, Expr, OpType};

use super::numbers::{Axis, Windows};

/// The maximum number of stored indices. The model computes more indices at run time.
const MAX_STORED: i64 = 4096;

/// The starts of windows.
#[derive(Clone, Copy)]
pub(super) struct Starts<'g> {
    /// Indices in bounds: vectors along the last axis. If the vectors have one entry, this axis is
    /// missing.
    pub indices: Expr<'g>,
    /// For each vector, whether it was in bounds before clamping, if this matters.
    pub were_in_bounds: Option<Expr<'g>>,
}

impl<'g> Starts<'g> {
    /// Clamps every vector of indices to the nearest start at which a window fits.
    #[track_caller]
    pub fn new(indices: Expr<'g>, windows: &Windows, shape: &[Dim], watch: bool) -> Starts<'g> {
        indices.builder.helper("start_indices", || {
            if windows.mapped.is_empty() {
                return Starts { indices, were_in_bounds: None };
            }
            let last = indices.rank() - 1;
            let room: Vec<(&Dim, &Dim)> =
                windows.mapped.iter().map(|&axis| (&shape[axis], &windows.sizes[axis])).collect();
            let (is_plain, is_narrow) = (room.len() == 1, is_narrow(indices.dtype()));
            let indices = if is_plain { indices.squeeze(&[last]) } else { indices };
            let indices = as_index(indices, &room);
            let inside = clamp(indices, &room, watch || is_narrow);
            let were_in_bounds = watch.then(|| {
                let same = inside.equal(indices);
                if is_plain { same } else { same.reduce(OpType::ReduceMin, &[last], false) }
            });
            Starts { indices: inside, were_in_bounds }
        })
    }

    /// Returns the place of each entry of each window: an array over the axes of the indices, then
    /// over the wide axes of the windows. Its last axis contains the index along each of the `axes`
    /// of the operand.
    ///
    /// `batch` is the shape of the indices without the axis of vectors.
    pub fn places(&self, windows: &Windows, axes: &[usize], batch: &[Dim]) -> Expr<'g> {
        let builder = self.indices.builder;
        builder.helper("places", || {
            let mut places = self.columns(windows, axes, batch);
            let wide = wide_axes(windows, axes);
            if wide.is_empty() {
                return places;
            }
            let new: Vec<usize> = (0..wide.len()).map(|i| batch.len() + i).collect();
            places = places.unsqueeze(&new);
            let sizes: Vec<Dim> = wide.iter().map(|&axis| windows.sizes[axis].clone()).collect();
            let column = |axis: usize| axes.iter().position(|&own| own == axis).unwrap_or(0);
            let columns: Vec<usize> = wide.iter().map(|&axis| column(axis)).collect();
            if let Some(offsets) = stored_offsets(builder, &sizes, &columns, axes.len()) {
                return places + offsets;
            }
            for (i, (size, &column)) in sizes.iter().zip(&columns).enumerate() {
                let trailing: Vec<usize> = (1..=sizes.len() - i).collect();
                let mut unit = vec![0; axes.len()];
                unit[column] = 1;
                places =
                    places + Expr::range(builder, size).unsqueeze(&trailing) * builder.ints(&unit);
            }
            places
        })
    }

    /// Returns the starts along `axes` of the operand: an index, the position along a batching
    /// axis, or zero.
    fn columns(&self, windows: &Windows, axes: &[usize], batch: &[Dim]) -> Expr<'g> {
        let builder = self.indices.builder;
        let last = batch.len();
        let indices = self.indices.cast(DType::I64);
        let indices = if windows.mapped.len() == 1 { indices.unsqueeze(&[last]) } else { indices };
        if windows.mapped == axes {
            return indices;
        }
        let mut one = batch.to_vec();
        one.push(Dim::Known(1));
        let column = |&axis: &usize| {
            if let Some(at) = windows.mapped.iter().position(|&own| own == axis) {
                return indices.slice_axis(last, at as i64, at as i64 + 1);
            }
            match windows.batching.iter().find(|&&(own, _)| own == axis) {
                Some(&(_, along)) => {
                    let trailing: Vec<usize> = (1..=batch.len() - along).collect();
                    Expr::range(builder, &batch[along]).unsqueeze(&trailing).expand(&one)
                }
                None => builder.constant_ints(DType::I64, &[], &[0]).expand(&one),
            }
        };
        let columns: Vec<Expr<'g>> = axes.iter().map(column).collect();
        Expr::concat(&columns, last)
    }
}

/// Returns a type that contains the values of `dtype` and has kernels for gathering and scattering.
pub(super) fn movable(dtype: DType) -> DType {
    match dtype.bits() {
        2 | 4 if dtype.is_int() => DType::I32,
        ..=8 if dtype.is_float() => DType::F32,
        _ => dtype,
    }
}

/// Returns the axes along which a window may have more than one entry.
pub(super) fn wide_axes(windows: &Windows, axes: &[usize]) -> Vec<usize> {
    let is_wide = |axis: &usize| {
        !windows.collapsed.contains(axis)
            && !windows.is_batching(*axis)
            && !windows.sizes[*axis].is(1)
    };
    axes.iter().copied().filter(is_wide).collect()
}

/// Transposes a value to the wanted axes, and adds missing axes with size one.
#[track_caller]
pub(super) fn arrange<'g>(x: Expr<'g>, have: &[Axis], want: &[Axis]) -> Expr<'g> {
    let place = |axis: &Axis| have.iter().position(|own| own == axis);
    let order: Vec<usize> = want.iter().filter_map(place).collect();
    let new: Vec<usize> = (0..want.len()).filter(|&i| place(&want[i]).is_none()).collect();
    x.transpose(&order).unsqueeze(&new)
}

/// `min(max(0, indices), size − window)` along each axis
///
/// In ONNX Runtime 1.31, `Clip` of 64-bit integers compares their halves, and moves integers from
/// 2³¹ to 2³² to the wrong end. The caller sets `clip_is_exact` if no index is that large, or if
/// only indices that were in bounds matter.
#[track_caller]
pub(super) fn clamp<'g>(indices: Expr<'g>, room: &[(&Dim, &Dim)], clip_is_exact: bool) -> Expr<'g> {
    let last = last_start(indices.builder, indices.dtype(), room);
    if last.rank() > 0 || !clip_is_exact {
        return indices.max(0.0).min(last);
    }
    let zero = indices.constant(0.0);
    indices.builder.node(OpType::Clip, &[indices, zero, last], Vec::new())
}

/// True if every integer of a type is below 2³¹.
pub(super) fn is_narrow(dtype: DType) -> bool {
    dtype.bits() < 32 || dtype == DType::I32
}

/// Converts indices to a type that ONNX accepts and that contains the sizes with which they are
/// compared.
#[track_caller]
pub(super) fn as_index<'g>(indices: Expr<'g>, room: &[(&Dim, &Dim)]) -> Expr<'g> {
    // A size that the model computes has 64 bits.
    let is_small = |&(size, window): &(&Dim, &Dim)| {
        window.known().is_some() && size.known().is_some_and(|size| i32::try_from(size).is_ok())
    };
    match indices.dtype() {
        DType::I32 if room.iter().all(is_small) => indices,
        // An integer that is too large for the signed type must not become negative.
        DType::U64 => {
            let signed = indices.cast(DType::I64);
            let largest = indices.builder.constant_ints(DType::I64, &[], &[i64::MAX]);
            signed.less(0.0).select(largest, signed)
        }
        _ => indices.cast(DType::I64),
    }
}

/// Returns the last start at which a window fits along each axis, or a scalar if it is the same for
/// all axes.
#[track_caller]
fn last_start<'g>(builder: &'g Builder, dtype: DType, room: &[(&Dim, &Dim)]) -> Expr<'g> {
    let difference = |&(size, window): &(&Dim, &Dim)| Some(size.known()? - window.known()?);
    if let Some(known) = room.iter().map(difference).collect::<Option<Vec<i64>>>() {
        return match known[..] {
            [first, ..] if known.iter().all(|&last| last == first) => {
                builder.constant_ints(dtype, &[], &[first])
            }
            _ => builder.constant_ints(dtype, &[known.len() as i64], &known),
        };
    }
    let (sizes, windows): (Vec<Dim>, Vec<Dim>) =
        room.iter().map(|&(size, window)| (size.clone(), window.clone())).unzip();
    let last = match room {
        [(size, window)] => builder.size(size) - builder.size(window),
        _ => builder.sizes(&sizes) - builder.sizes(&windows),
    };
    last.cast(dtype)
}

/// Returns the offsets of the entries of a window from its start, if there are few enough to store
/// them.
fn stored_offsets<'g>(
    builder: &'g Builder,
    sizes: &[Dim],
    columns: &[usize],
    width: usize,
) -> Option<Expr<'g>> {
    let mut shape: Vec<i64> = sizes.iter().map(Dim::known).collect::<Option<_>>()?;
    let count = shape.iter().try_fold(1i64, |all, &size| all.checked_mul(size))?;
    if count.checked_mul(width as i64)? > MAX_STORED {
        return None;
    }
    let mut offsets = Vec::new();
    for entry in 0..count {
        let mut vector = vec![0; width];
        let mut rest = entry;
        for (&size, &column) in shape.iter().zip(columns).rev() {
            vector[column] = rest % size;
            rest /= size;
        }
        offsets.extend(vector);
    }
    shape.push(width as i64);
    Some(builder.constant_ints(DType::I64, &shape, &offsets))
}

/// Returns the row-major index of each place in an array of the given sizes.
#[track_caller]
pub(super) fn linear<'g>(places: Expr<'g>, sizes: &[Dim]) -> Expr<'g> {
    let builder = places.builder;
    let last = places.rank() - 1;
    if sizes.len() == 1 {
        return places.squeeze(&[last]);
    }
    let strides: Vec<Dim> = (1..=sizes.len()).map(|i| builder.product(&sizes[i..])).collect();
    (places * builder.sizes(&strides)).reduce_sum(&[last], false)
}

/// Returns the entries at the given places. The first `batch` axes of both operands are batch axes.
#[track_caller]
pub(super) fn gather_nd<'g>(x: Expr<'g>, places: Expr<'g>, batch: usize) -> Expr<'g> {
    let attrs = match batch {
        0 => Vec::new(),
        _ => vec![("batch_dims", Attr::Int(batch as i64))],
    };
    x.builder.node(OpType::GatherND, &[x, places], attrs)
}
