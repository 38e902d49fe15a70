//! The rules of operators that compute elements: elementwise, with broadcasting, or along axes.

use smallvec::smallvec;

use super::{Call, Inferred, NotInferred, known, one};
use crate::attr::Attr;
use crate::check::type_of;
use crate::dtype::DType;
use crate::expr::{broadcast_shapes, reduced_shape};
use crate::value::{Dim, Type};

pub(crate) use super::body::{branches, loop_, scan};
pub(crate) use super::layout::{
    blocks_to_depth, concat, constant_of_shape, depth_to_blocks, expand, flatten, gather,
    gather_elements, gather_nd, one_hot, pad, range, reshape, resize, slice, split, squeeze, tile,
    top_k, transpose, unsqueeze,
};
pub(crate) use super::product::{attention, dft, einsum, gemm, gru, lstm, matmul, matmul_of_bytes};
pub(crate) use super::window::{
    conv, conv_of_bytes, conv_transpose, global_pool, grid_sample, pool,
};

/// The types cannot be inferred: they depend on numbers, they are not tensors, or jax2onnx never emits the
/// operator.
pub(crate) fn unknown(_: &Call<'_>) -> Inferred {
    Err(NotInferred::Unknown)
}

/// The type of the first operand.
pub(crate) fn same(call: &Call<'_>) -> Inferred {
    Ok(smallvec![Some(call.ty(0)?.clone())])
}

/// A boolean for each element of the first operand.
pub(crate) fn test(call: &Call<'_>) -> Inferred {
    one(DType::Bool, call.ty(0)?.shape.clone())
}

/// The type that the attribute `to` names.
pub(crate) fn cast(call: &Call<'_>) -> Inferred {
    one(known(call.dtype_attr("to"))?, call.ty(0)?.shape.clone())
}

/// The element type of the second operand.
pub(crate) fn cast_like(call: &Call<'_>) -> Inferred {
    one(call.dtype(1)?, call.ty(0)?.shape.clone())
}

/// The shape that all operands broadcast to.
fn broadcast(call: &Call<'_>) -> Result<Vec<Dim>, NotInferred> {
    let mut joined = call.shape(0)?.to_vec();
    for operand in 1..call.inputs.len() {
        let shape = call.shape(operand)?;
        joined = broadcast_shapes(&joined, shape).ok_or_else(|| {
            let is_known = |dims: &[Dim]| dims.iter().all(|dim| dim.known().is_some());
            match is_known(&joined) && is_known(shape) {
                true => call.invalid(format_args!("do not broadcast")),
                false => NotInferred::Unknown,
            }
        })?;
    }
    Ok(joined)
}

/// Operands of one type that broadcast.
pub(crate) fn join(call: &Call<'_>) -> Inferred {
    let dtype = call.dtype(0)?;
    if (1..call.inputs.len()).any(|operand| call.dtype(operand).is_ok_and(|other| other != dtype)) {
        return Err(call.invalid(format_args!("have different types")));
    }
    one(dtype, broadcast(call)?)
}

/// `Pow`: the exponent may have another type.
pub(crate) fn power(call: &Call<'_>) -> Inferred {
    one(call.dtype(0)?, broadcast(call)?)
}

/// A comparison of two arrays.
pub(crate) fn compare(call: &Call<'_>) -> Inferred {
    let Type { shape, .. } = known(join(call)?.swap_remove(0))?;
    one(DType::Bool, shape)
}

/// `Where`
pub(crate) fn choose(call: &Call<'_>) -> Inferred {
    let dtype = call.dtype(1)?;
    if call.dtype(0)? != DType::Bool || call.dtype(2)? != dtype {
        return Err(call.invalid(format_args!("has no such types")));
    }
    one(dtype, broadcast(call)?)
}

/// Returns the axes of a reduction; `None` if it reduces all axes.
fn reduced(call: &Call<'_>) -> Result<Option<Vec<usize>>, NotInferred> {
    let rank = call.ty(0)?.rank();
    match call.axes()? {
        Some(axes) if !axes.is_empty() => call.axes_at(&axes, rank).map(Some),
        _ if call.int_attr("noop_with_empty_axes", 0) == 1 => Ok(None),
        _ => Ok(Some((0..rank).collect())),
    }
}

/// `ReduceSum` and similar operators.
pub(crate) fn reduce(call: &Call<'_>) -> Inferred {
    let ty = call.ty(0)?;
    match reduced(call)? {
        Some(axes) => {
            one(ty.dtype, reduced_shape(&ty.shape, &axes, call.int_attr("keepdims", 1) == 1))
        }
        None => Ok(smallvec![Some(ty.clone())]),
    }
}

/// `ArgMax` and `ArgMin`
pub(crate) fn arg(call: &Call<'_>) -> Inferred {
    let shape = call.shape(0)?;
    let axis = call.axis(shape.len())?;
    one(DType::I64, reduced_shape(shape, &[axis], call.int_attr("keepdims", 1) == 1))
}

/// `LayerNormalization`: also the mean and the scale of each row.
pub(crate) fn normalize(call: &Call<'_>) -> Inferred {
    let ty = call.ty(0)?;
    let axis = call.axis(ty.rank())?;
    let axes: Vec<usize> = (axis..ty.rank()).collect();
    let dtype = call.dtype_attr("stash_type").unwrap_or(DType::F32);
    let rows = Type::new(dtype, reduced_shape(&ty.shape, &axes, true));
    Ok(smallvec![Some(ty.clone()), Some(rows.clone()), Some(rows)])
}

/// `Dropout`: also the mask.
pub(crate) fn dropout(call: &Call<'_>) -> Inferred {
    let ty = call.ty(0)?;
    Ok(smallvec![Some(ty.clone()), Some(Type::new(DType::Bool, ty.shape.clone()))])
}

/// `EyeLike`, and random numbers in the shape of the first operand. The element type is `dtype`, or that of the
/// operand.
pub(crate) fn random_like(call: &Call<'_>) -> Inferred {
    let ty = call.ty(0)?;
    one(call.dtype_attr("dtype").unwrap_or(ty.dtype), ty.shape.clone())
}

/// Random numbers in the shape of an attribute.
pub(crate) fn random(call: &Call<'_>) -> Inferred {
    let shape: Vec<Dim> = known(call.ints_attr("shape"))?.iter().map(|&size| size.into()).collect();
    one(call.dtype_attr("dtype").unwrap_or(DType::F32), shape)
}

/// `Multinomial`
pub(crate) fn draw(call: &Call<'_>) -> Inferred {
    let [rows, _] = call.shape(0)? else { return Err(NotInferred::Unknown) };
    let shape = [rows.clone(), call.int_attr("sample_size", 1).into()];
    one(call.dtype_attr("dtype").unwrap_or(DType::I32), shape)
}

/// `Shape`
pub(crate) fn shape(call: &Call<'_>) -> Inferred {
    let (start, end) = super::sizes::shape_range(call)?;
    one(DType::I64, [Dim::Known((end - start) as i64)])
}

/// A scalar 64-bit integer.
pub(crate) fn count(_: &Call<'_>) -> Inferred {
    one(DType::I64, [])
}

/// A scalar boolean.
pub(crate) fn flag(_: &Call<'_>) -> Inferred {
    one(DType::Bool, [])
}

/// `Constant`
pub(crate) fn constant(call: &Call<'_>) -> Inferred {
    let list = |dtype, length: usize| one(dtype, [Dim::Known(length as i64)]);
    let names = ["value", "value_float", "value_floats", "value_int", "value_ints"];
    match names.iter().find_map(|name| call.attrs.get(name)) {
        Some(Attr::Tensor(tensor)) => Ok(smallvec![Some(type_of(tensor))]),
        Some(Attr::Float(_)) => one(DType::F32, []),
        Some(Attr::Floats(numbers)) => list(DType::F32, numbers.len()),
        Some(Attr::Int(_)) => one(DType::I64, []),
        Some(Attr::Ints(numbers)) => list(DType::I64, numbers.len()),
        _ => Err(NotInferred::Unknown),
    }
}

/// `DequantizeLinear`: the type of the scale.
pub(crate) fn dequantize(call: &Call<'_>) -> Inferred {
    let dtype = call.dtype_attr("output_dtype").map_or_else(|| call.dtype(1), Ok)?;
    one(dtype, call.ty(0)?.shape.clone())
}

/// `QuantizeLinear`: the type of the zero point, or bytes.
pub(crate) fn quantize(call: &Call<'_>) -> Inferred {
    let dtype = match call.dtype_attr("output_dtype") {
        Some(dtype) => dtype,
        None if call.has(2) => call.dtype(2)?,
        None => DType::U8,
    };
    one(dtype, call.ty(0)?.shape.clone())
}

/// `DynamicQuantizeLinear`: the bytes, their scale and their zero point.
pub(crate) fn quantize_dynamically(call: &Call<'_>) -> Inferred {
    let shape = call.ty(0)?.shape.clone();
    let types = [Type::new(DType::U8, shape), Type::new(DType::F32, []), Type::new(DType::U8, [])];
    Ok(types.into_iter().map(Some).collect())
}

/// `Det`: one number for each matrix.
pub(crate) fn determinant(call: &Call<'_>) -> Inferred {
    let ty = call.ty(0)?;
    let [batch @ .., _, _] = &*ty.shape else { return Err(NotInferred::Unknown) };
    one(ty.dtype, batch.to_vec())
}

/// `HannWindow` and similar operators: as many numbers as the operand says.
pub(crate) fn window_function(call: &Call<'_>) -> Inferred {
    let size = known(call.sizes_of(0)?.first().cloned())?;
    one(call.dtype_attr("output_datatype").unwrap_or(DType::F32), [size])
}
