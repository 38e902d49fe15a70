//! The rules of products, transforms and recurrent cells.

use smallvec::smallvec;

use super::{Call, Inferred, NotInferred, known, one};
use crate::dtype::DType;
use crate::expr::broadcast_shapes;
use crate::value::{Dim, Type};

pub(crate) fn matmul(call: &Call<'_>) -> Inferred {
    one(call.dtype(0)?, matrices(call)?)
}

/// `MatMulInteger`: bytes become 32-bit integers.
pub(crate) fn matmul_of_bytes(call: &Call<'_>) -> Inferred {
    one(DType::I32, matrices(call)?)
}

fn matrices(call: &Call<'_>) -> Result<Vec<Dim>, NotInferred> {
    let (a, b) = (call.shape(0)?, call.shape(1)?);
    let (batch_a, m, k) = match a {
        [k] => (&[][..], None, k),
        [batch @ .., m, k] => (batch, Some(m), k),
        [] => return Err(call.invalid(format_args!("multiplies a number"))),
    };
    let (batch_b, l, n) = match b {
        [l] => (&[][..], l, None),
        [batch @ .., l, n] => (batch, l, Some(n)),
        [] => return Err(call.invalid(format_args!("multiplies a number"))),
    };
    if k.known().zip(l.known()).is_some_and(|(k, l)| k != l) {
        return Err(call.invalid(format_args!("has different sizes to sum over")));
    }
    let mut shape = known(broadcast_shapes(batch_a, batch_b))?;
    shape.extend(m.into_iter().chain(n).cloned());
    Ok(shape)
}

pub(crate) fn gemm(call: &Call<'_>) -> Inferred {
    let size = |operand: usize, attr: &str, axis: usize| {
        let is_transposed = call.int_attr(attr, 0) != 0;
        match call.shape(operand)? {
            [rows, columns] => {
                Ok(if is_transposed == (axis == 0) { columns } else { rows }.clone())
            }
            _ => Err(call.invalid(format_args!("multiplies no matrices"))),
        }
    };
    let (k, l) = (size(0, "transA", 1)?, size(1, "transB", 0)?);
    if k.known().zip(l.known()).is_some_and(|(k, l)| k != l) {
        return Err(call.invalid(format_args!("has different sizes to sum over")));
    }
    one(call.dtype(0)?, [size(0, "transA", 0)?, size(1, "transB", 1)?])
}

/// `Einsum`, without an ellipsis.
pub(crate) fn einsum(call: &Call<'_>) -> Inferred {
    let equation = known(call.str_attr("equation"))?.replace(' ', "");
    let (operands, result) = known(equation.split_once("->"))?;
    if equation.contains('.') {
        return Err(NotInferred::Unknown);
    }
    let mut sizes: Vec<(char, Dim)> = Vec::new();
    for (operand, letters) in operands.split(',').enumerate() {
        let shape = call.shape(operand)?;
        if letters.chars().count() != shape.len() {
            return Err(call.invalid(format_args!("has other axes than `{equation}`")));
        }
        for (letter, size) in letters.chars().zip(shape) {
            match sizes.iter_mut().find(|(other, _)| *other == letter) {
                Some((_, known)) if known.is(1) => *known = size.clone(),
                Some(_) => {}
                None => sizes.push((letter, size.clone())),
            }
        }
    }
    let size = |letter: char| {
        known(sizes.iter().find(|(other, _)| *other == letter).map(|(_, size)| size.clone()))
    };
    one(call.dtype(0)?, result.chars().map(size).collect::<Result<Vec<Dim>, _>>()?)
}

/// `Attention`, with four axes or with heads in the last of three.
pub(crate) fn attention(call: &Call<'_>) -> Inferred {
    let (q, v) = (call.ty(0)?, call.shape(2)?);
    match (&*q.shape, v) {
        ([batch, heads, length, _], [_, _, _, width]) => {
            one(q.dtype, [batch.clone(), heads.clone(), length.clone(), width.clone()])
        }
        ([batch, length, _], [_, _, width]) => {
            let heads = Dim::Known(call.int_attr("q_num_heads", 0));
            let kept = Dim::Known(call.int_attr("kv_num_heads", 0));
            let width = width.divide_exact(&kept).and_then(|width| width.checked_mul(&heads));
            one(q.dtype, [batch.clone(), length.clone(), known(width)?])
        }
        _ => Err(NotInferred::Unknown),
    }
}

pub(crate) fn lstm(call: &Call<'_>) -> Inferred {
    recurrent(call, 3)
}

/// `GRU` and `RNN`
pub(crate) fn gru(call: &Call<'_>) -> Inferred {
    recurrent(call, 2)
}

/// All states, then each of the `results - 1` last states.
fn recurrent(call: &Call<'_>, results: usize) -> Inferred {
    let x = call.ty(0)?;
    let ([directions, _, units], 0) = (call.shape(2)?, call.int_attr("layout", 0)) else {
        return Err(NotInferred::Unknown);
    };
    let [steps, batch, _] = &*x.shape else { return Err(NotInferred::Unknown) };
    let state = [directions.clone(), batch.clone(), units.clone()];
    let states = [&[steps.clone()][..], &state[..]].concat();
    let mut types = smallvec![Some(Type::new(x.dtype, states))];
    types.extend(std::iter::repeat_n(Some(Type::new(x.dtype, state)), results - 1));
    Ok(types)
}

/// `DFT`: real and imaginary parts along the last axis.
pub(crate) fn dft(call: &Call<'_>) -> Inferred {
    let ty = call.ty(0)?;
    let is_operand = call.opset >= 20;
    let axis = match is_operand && call.has(2) {
        true => known(call.ints(2)?.first().copied())?,
        false if is_operand => -2,
        false => call.int_attr("axis", 1),
    };
    let axis = call.axis_at(axis, ty.rank())?;
    let (is_half, is_inverse) =
        (call.int_attr("onesided", 0) == 1, call.int_attr("inverse", 0) == 1);
    let mut shape = ty.shape.to_vec();
    if call.has(1) {
        shape[axis] = known(call.sizes_of(1)?.first().cloned())?;
    }
    let parts = match (is_half, is_inverse) {
        (true, true) => 1,
        (true, false) => {
            let half = shape[axis].checked_floordiv(&Dim::Known(2));
            shape[axis] = known(half.and_then(|half| half.checked_add(&Dim::Known(1))))?;
            2
        }
        _ => 2,
    };
    if let Some(last) = shape.last_mut() {
        *last = Dim::Known(parts);
    }
    one(ty.dtype, shape)
}
