//! The rules of operators that move, pick, join or repeat elements.

use smallvec::smallvec;

use super::{Call, Inferred, NotInferred, known, one};
use crate::attr::Attr;
use crate::dtype::DType;
use crate::expr::{broadcast_shapes, reduced_shape};
use crate::value::{Dim, Type};

pub(crate) fn transpose(call: &Call<'_>) -> Inferred {
    let ty = call.ty(0)?;
    let reversed: Vec<i64> = (0..ty.rank() as i64).rev().collect();
    let perm = call.ints_attr("perm").unwrap_or(&reversed);
    if perm.len() != ty.rank() {
        return Err(call.invalid(format_args!("has another permutation")));
    }
    let shape: Result<Vec<Dim>, _> =
        perm.iter().map(|&axis| Ok(ty.shape[call.axis_at(axis, ty.rank())?].clone())).collect();
    one(ty.dtype, shape?)
}

pub(crate) fn reshape(call: &Call<'_>) -> Inferred {
    let ty = call.ty(0)?;
    let mut shape = call.sizes_of(1)?;
    if call.int_attr("allowzero", 0) == 0 {
        for (axis, dim) in shape.iter_mut().enumerate().filter(|(_, dim)| dim.is(0)) {
            *dim = known(ty.shape.get(axis).cloned())?;
        }
    }
    if let Some(open) = shape.iter().position(|dim| dim.is(-1)) {
        shape[open] = Dim::Known(1);
        shape[open] = known(rest_of(&ty.shape, &shape))?;
    }
    one(ty.dtype, shape)
}

/// Returns the product of all sizes divided by the product of others.
fn rest_of(all: &[Dim], others: &[Dim]) -> Option<Dim> {
    // Sizes on both sides cancel, so that they do not have to be multiplied.
    let (mut all, mut rest) = (all.to_vec(), Vec::new());
    for dim in others {
        match all.iter().position(|other| other == dim) {
            Some(at) => drop(all.swap_remove(at)),
            None => rest.push(dim.clone()),
        }
    }
    Dim::checked_product(&all)?.divide_exact(&Dim::checked_product(&rest)?)
}

pub(crate) fn squeeze(call: &Call<'_>) -> Inferred {
    let ty = call.ty(0)?;
    let axes: Vec<usize> = match call.axes()? {
        Some(axes) => call.axes_at(&axes, ty.rank())?,
        None if ty.shape.iter().all(|dim| dim.known().is_some()) => {
            (0..ty.rank()).filter(|&axis| ty.shape[axis].is(1)).collect()
        }
        None => return Err(NotInferred::Unknown),
    };
    if axes.iter().any(|&axis| ty.shape[axis].known().is_some_and(|size| size != 1)) {
        return Err(call.invalid(format_args!("drops an axis of another size than 1")));
    }
    one(ty.dtype, reduced_shape(&ty.shape, &axes, false))
}

pub(crate) fn unsqueeze(call: &Call<'_>) -> Inferred {
    let ty = call.ty(0)?;
    let axes = known(call.axes()?)?;
    let rank = ty.rank() + axes.len();
    let axes = call.axes_at(&axes, rank)?;
    let mut old = ty.shape.iter().cloned();
    let shape = (0..rank)
        .filter_map(|axis| if axes.contains(&axis) { Some(Dim::Known(1)) } else { old.next() });
    one(ty.dtype, shape.collect::<Vec<Dim>>())
}

pub(crate) fn expand(call: &Call<'_>) -> Inferred {
    let ty = call.ty(0)?;
    let shape = call.sizes_of(1)?;
    one(ty.dtype, known(broadcast_shapes(&ty.shape, &shape))?)
}

pub(crate) fn flatten(call: &Call<'_>) -> Inferred {
    let ty = call.ty(0)?;
    // The axis may be equal to the rank.
    let rank = ty.rank();
    let axis = if call.int_attr("axis", 1) == rank as i64 { rank } else { call.axis(rank)? };
    let (rows, columns) = ty.shape.split_at(axis);
    let sizes = [known(Dim::checked_product(rows))?, known(Dim::checked_product(columns))?];
    one(ty.dtype, sizes)
}

pub(crate) fn concat(call: &Call<'_>) -> Inferred {
    let first = call.ty(0)?;
    let axis = call.axis(first.rank())?;
    let mut shape = first.shape.to_vec();
    for operand in 1..call.inputs.len() {
        let other = call.ty(operand)?;
        let is_beside = |(at, (a, b)): (usize, (&Dim, &Dim))| {
            at == axis || a == b || a.known().is_none() || b.known().is_none()
        };
        let fits = other.dtype == first.dtype
            && other.rank() == shape.len()
            && shape.iter().zip(&*other.shape).enumerate().all(is_beside);
        if !fits {
            return Err(call.invalid(format_args!("cannot be joined along axis {axis}")));
        }
        shape[axis] = known(shape[axis].checked_add(&other.shape[axis]))?;
    }
    one(first.dtype, shape)
}

pub(crate) fn split(call: &Call<'_>) -> Inferred {
    let ty = call.ty(0)?;
    let axis = call.axis(ty.rank())?;
    let sizes = match call.ints_attr("split") {
        Some(sizes) => sizes.iter().map(|&size| size.into()).collect(),
        None if call.has(1) => call.sizes_of(1)?,
        None => {
            let size = known(ty.shape[axis].known())?;
            let count = known(i64::try_from(call.results).ok().filter(|&count| count > 0))?;
            // If the size is not a multiple, the last part is smaller.
            let part = size / count + i64::from(size % count != 0);
            let sizes = (0..count).map(|at| Dim::Known(part.min(size - at * part).max(0)));
            sizes.collect()
        }
    };
    let part = |size: Dim| {
        let mut shape = ty.shape.to_vec();
        shape[axis] = size;
        Type::new(ty.dtype, shape)
    };
    Ok(sizes.into_iter().map(|size| Some(part(size))).collect())
}

pub(crate) fn slice(call: &Call<'_>) -> Inferred {
    let ty = call.ty(0)?;
    let (starts, ends) = (call.sizes_of(1)?, call.sizes_of(2)?);
    let axes = call.axes()?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = match call.has(4) {
        true => call.ints(4)?,
        false => vec![1; starts.len()],
    };
    let mut shape = ty.shape.to_vec();
    for (((start, end), axis), step) in starts.iter().zip(&ends).zip(axes).zip(steps) {
        let axis = call.axis_at(axis, ty.rank())?;
        shape[axis] = known(sliced(&shape[axis], start, end, step))?;
    }
    one(ty.dtype, shape)
}

/// Returns the number of elements that a slice takes from an axis.
fn sliced(size: &Dim, start: &Dim, end: &Dim, step: i64) -> Option<Dim> {
    if let (Some(size), Some(start), Some(end)) = (size.known(), start.known(), end.known()) {
        let from_front = |at: i64| if at < 0 { at.saturating_add(size) } else { at };
        let count = match step {
            1.. => {
                let (start, end) =
                    (from_front(start).clamp(0, size), from_front(end).clamp(0, size));
                (end - start).max(0).checked_add(step - 1)? / step
            }
            0 => return None,
            _ => {
                let last = (size - 1).max(-1);
                let (start, end) =
                    (from_front(start).clamp(-1, last), from_front(end).clamp(-1, last));
                let step = step.checked_neg()?;
                (start - end).max(0).checked_add(step - 1)? / step
            }
        };
        return Some(Dim::Known(count));
    }
    let is_whole_end = end.is(i64::MAX) || end == size;
    if step == -1 && start.is(-1) && end.known().is_some_and(|end| end <= i64::from(i32::MIN)) {
        return Some(size.clone());
    }
    let length = match (start.known(), end.known()) {
        // From `start` to the end, or to a position counted from the end.
        (Some(start @ 0..), _) if is_whole_end => size.checked_sub(&start.into())?,
        (Some(start @ 0..), Some(end @ ..0)) => {
            size.checked_sub(&start.checked_sub(end)?.into())?
        }
        // The last `-start` elements.
        (Some(start @ ..0), _) if is_whole_end && size.is_at_least(start.checked_neg()?) => {
            start.checked_neg()?.into()
        }
        (Some(start @ 0..), Some(end @ 0..)) if size.is_at_least(end) => {
            Dim::Known((end - start).max(0))
        }
        (None, _) if is_whole_end => size.checked_sub(start)?,
        (_, None) => end.checked_sub(start)?,
        _ => return None,
    };
    match step {
        1 => Some(length),
        2.. => length.checked_add(&(step - 1).into())?.checked_floordiv(&step.into()),
        _ => None,
    }
}

pub(crate) fn gather(call: &Call<'_>) -> Inferred {
    let ty = call.ty(0)?;
    let axis = call.axis(ty.rank())?;
    let indices = call.shape(1)?;
    one(ty.dtype, [&ty.shape[..axis], indices, &ty.shape[axis + 1..]].concat())
}

/// The elements of the first operand in the shape of the second.
pub(crate) fn gather_elements(call: &Call<'_>) -> Inferred {
    one(call.dtype(0)?, call.ty(1)?.shape.clone())
}

pub(crate) fn gather_nd(call: &Call<'_>) -> Inferred {
    let (ty, indices) = (call.ty(0)?, call.shape(1)?);
    let [rows @ .., length] = indices else { return Err(NotInferred::Unknown) };
    let batch = call.int_attr("batch_dims", 0).checked_add(known(length.known())?);
    let rest =
        batch.and_then(|batch| usize::try_from(batch).ok()).and_then(|taken| ty.shape.get(taken..));
    one(ty.dtype, [rows, known(rest)?].concat())
}

pub(crate) fn pad(call: &Call<'_>) -> Inferred {
    let ty = call.ty(0)?;
    let pads = call.sizes_of(1)?;
    let axes = call.axes()?.unwrap_or_else(|| (0..ty.rank() as i64).collect());
    let mut shape = ty.shape.to_vec();
    for (place, &axis) in axes.iter().enumerate() {
        let axis = call.axis_at(axis, ty.rank())?;
        for pad in [pads.get(place), pads.get(axes.len() + place)] {
            shape[axis] = known(shape[axis].checked_add(known(pad)?))?;
        }
    }
    one(ty.dtype, shape)
}

pub(crate) fn tile(call: &Call<'_>) -> Inferred {
    let ty = call.ty(0)?;
    let repeats = call.sizes_of(1)?;
    let sizes = ty.shape.iter().zip(&repeats).map(|(size, times)| known(size.checked_mul(times)));
    one(ty.dtype, sizes.collect::<Result<Vec<Dim>, _>>()?)
}

pub(crate) fn range(call: &Call<'_>) -> Inferred {
    let dtype = call.dtype(0)?;
    let only = |operand: usize| known(call.sizes_of(operand)?.first().cloned());
    let (start, end, step) = (only(0)?, only(1)?, only(2)?);
    let size = match step.known() {
        Some(1) => end.checked_sub(&start),
        Some(step @ 2..) => end
            .checked_sub(&start)
            .and_then(|length| length.checked_add(&(step - 1).into()))
            .and_then(|length| length.checked_floordiv(&step.into())),
        Some(-1) => start.checked_sub(&end),
        _ => None,
    };
    one(dtype, [known(size)?])
}

pub(crate) fn constant_of_shape(call: &Call<'_>) -> Inferred {
    let dtype = match call.attrs.get("value") {
        Some(Attr::Tensor(tensor)) => tensor.dtype,
        _ => DType::F32,
    };
    one(dtype, call.sizes_of(0)?)
}

pub(crate) fn one_hot(call: &Call<'_>) -> Inferred {
    let depth = known(call.sizes_of(1)?.first().cloned())?;
    let mut shape = call.shape(0)?.to_vec();
    let axis = call.axis(shape.len() + 1)?;
    shape.insert(axis, depth);
    one(call.dtype(2)?, shape)
}

/// The largest elements, and their indices.
pub(crate) fn top_k(call: &Call<'_>) -> Inferred {
    let ty = call.ty(0)?;
    let axis = call.axis(ty.rank())?;
    let mut shape = ty.shape.to_vec();
    shape[axis] = known(call.sizes_of(1)?.first().cloned())?;
    Ok(smallvec![Some(Type::new(ty.dtype, shape.clone())), Some(Type::new(DType::I64, shape))])
}

/// `DepthToSpace`
pub(crate) fn depth_to_blocks(call: &Call<'_>) -> Inferred {
    let ty = call.ty(0)?;
    let [batch, channels, height, width] = &*ty.shape else { return Err(NotInferred::Unknown) };
    let block = Dim::Known(call.int_attr("blocksize", 1));
    let channels = channels.divide_exact(&known(block.checked_mul(&block))?);
    let sizes = [channels, height.checked_mul(&block), width.checked_mul(&block)];
    one(ty.dtype, images(batch, sizes)?)
}

/// `SpaceToDepth`
pub(crate) fn blocks_to_depth(call: &Call<'_>) -> Inferred {
    let ty = call.ty(0)?;
    let [batch, channels, height, width] = &*ty.shape else { return Err(NotInferred::Unknown) };
    let block = Dim::Known(call.int_attr("blocksize", 1));
    let channels = channels.checked_mul(&known(block.checked_mul(&block))?);
    let sizes = [channels, height.divide_exact(&block), width.divide_exact(&block)];
    one(ty.dtype, images(batch, sizes)?)
}

fn images(batch: &Dim, sizes: [Option<Dim>; 3]) -> Result<Vec<Dim>, NotInferred> {
    let mut shape = vec![batch.clone()];
    for size in sizes {
        shape.push(known(size)?);
    }
    Ok(shape)
}

pub(crate) fn resize(call: &Call<'_>) -> Inferred {
    let ty = call.ty(0)?;
    let axes = call.axes()?.unwrap_or_else(|| (0..ty.rank() as i64).collect());
    let mut shape = ty.shape.to_vec();
    if call.has(3) && matches!(call.str_attr("keep_aspect_ratio_policy"), None | Some("stretch")) {
        for (axis, size) in axes.into_iter().zip(call.sizes_of(3)?) {
            shape[call.axis_at(axis, ty.rank())?] = size;
        }
        return one(ty.dtype, shape);
    }
    let scales = known(call.inputs.get(2).copied().flatten())?;
    let scales = known(call.values[scales].tensor.as_ref().and_then(|tensor| tensor.floats()))?;
    for (axis, scale) in axes.into_iter().zip(scales) {
        let axis = call.axis_at(axis, ty.rank())?;
        shape[axis] = match shape[axis].known() {
            Some(size) => Dim::Known((size as f64 * scale).floor() as i64),
            None if scale == 1.0 => continue,
            None if scale.fract() == 0.0 => {
                known(shape[axis].checked_mul(&Dim::Known(scale as i64)))?
            }
            None => return Err(NotInferred::Unknown),
        };
    }
    one(ty.dtype, shape)
}
