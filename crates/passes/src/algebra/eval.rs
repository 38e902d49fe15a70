//! Evaluates a node with constant operands, with the same bits as the runtime.
//!
//! This file contains only operators that every runtime rounds in the same way: operators that move elements,
//! arithmetic, square roots, operators on bits and booleans, and comparisons.

mod floats;

use std::cmp::Ordering;

use onnx::infer::axes_from_front;
use onnx::operator::properties::{ARITHMETIC, RESHAPES};
use onnx::{DType, Node, OpType, Tensor};

use crate::rewrite::require;

/// Returns the result of `op` on constants. `None` if runtimes may differ.
pub(crate) fn eval(
    op: OpType,
    node: &Node,
    operands: &[&Tensor],
    dtype: DType,
    shape: Vec<i64>,
) -> Option<Tensor> {
    of_any_numbers(op, node, operands, dtype, shape.clone())
        .or_else(|| floats::eval(op, node, operands, dtype, shape))
        .filter(|result| result.byte_len() == result.expected_bytes())
}

/// Returns the result of operators for which runtimes agree on all numbers.
fn of_any_numbers(
    op: OpType,
    node: &Node,
    operands: &[&Tensor],
    dtype: DType,
    shape: Vec<i64>,
) -> Option<Tensor> {
    match (op, operands) {
        (op, [x, ..]) if op == OpType::Identity || op.is(RESHAPES) => Some(x.with_shape(shape)),
        (OpType::Expand, [x, _]) => x.broadcast(&shape),
        (OpType::Transpose, [x]) => x.transposed(&node.perm(x.shape.len())?),
        (OpType::Concat, parts) => Tensor::joined(parts, node.axis(shape.len())?, shape),
        (OpType::Slice, [x, starts, _, axes, steps @ ..]) => {
            sliced(x, starts, axes, steps.first().copied(), &shape)
        }
        (OpType::Gather, [x, indices]) => gathered(node, x, indices, dtype, &shape),
        (OpType::Where, [condition, x, y]) => chosen(condition, x, y, dtype, &shape),
        (OpType::Cast, [x]) => cast(x, dtype, shape),
        // Double precision is wide enough that rounding twice returns the same number as rounding once.
        (OpType::Sqrt, [x]) => of_each(x, dtype, shape, f64::sqrt),
        (OpType::Reciprocal, [x]) => of_each(x, dtype, shape, f64::recip),
        (OpType::Abs, [x]) => of_each(x, dtype, shape, f64::abs),
        (OpType::Sign, [x]) if dtype.is_signed_int() => {
            let values: Vec<i64> = x.ints()?.into_iter().map(i64::signum).collect();
            Tensor::of_ints(dtype, shape, &values)
        }
        (OpType::Not, [x]) => {
            let flags: Vec<i64> = x.ints()?.into_iter().map(|flag| i64::from(flag == 0)).collect();
            Tensor::of_ints(dtype, shape, &flags)
        }
        (OpType::Max | OpType::Min, [x, y]) => extreme(op, x, y, dtype, shape),
        (OpType::Clip, [x, low, high]) => {
            let raised = extreme(OpType::Max, x, low, dtype, shape.clone())?;
            extreme(OpType::Min, &raised, high, dtype, shape)
        }
        (op, [x, y]) if op.is(ARITHMETIC) => arithmetic(op, x, y, dtype, shape),
        (OpType::And | OpType::BitwiseAnd, [x, y]) => of_ints(x, y, dtype, shape, |a, b| a & b),
        (OpType::Or | OpType::BitwiseOr, [x, y]) => of_ints(x, y, dtype, shape, |a, b| a | b),
        (OpType::Xor | OpType::BitwiseXor, [x, y]) => of_ints(x, y, dtype, shape, |a, b| a ^ b),
        (OpType::BitShift, [x, y]) => {
            let is_left = *node.attr("direction")? == onnx::Attr::from("LEFT");
            shifted(is_left, x, y, dtype, shape)
        }
        (OpType::Neg, [x]) => {
            // `0 - 0` would lose the sign. Unsigned integers wrap.
            let minus_one = Tensor::of_ints(dtype, Vec::new(), &[-1])?;
            arithmetic(OpType::Mul, x, &minus_one, dtype, shape)
        }
        (
            OpType::Equal
            | OpType::Greater
            | OpType::GreaterOrEqual
            | OpType::Less
            | OpType::LessOrEqual,
            [x, y],
        ) => comparison(op, x, y, shape),
        (OpType::ArgMax, [x]) => index_of_largest(node, x, dtype, shape),
        _ => None,
    }
}

/// Returns the index of the first largest integer along an axis.
fn index_of_largest(node: &Node, x: &Tensor, dtype: DType, shape: Vec<i64>) -> Option<Tensor> {
    let is_first = matches!(node.attr("select_last_index"), None | Some(onnx::Attr::Int(0)));
    require(is_first && x.dtype != DType::U64)?;
    let axis = node.axis(x.shape.len())?;
    let (numbers, size) = (x.ints()?, usize::try_from(*x.shape.get(axis)?).ok()?);
    let width = x.shape[axis + 1..].iter().product::<i64>() as usize;
    let indices = numbers.chunks_exact((size * width).max(1)).flat_map(|rows| {
        (0..width).map(move |column| {
            let largest = (0..size).rev().max_by_key(|&index| rows[index * width + column]);
            largest.map(|index| index as i64)
        })
    });
    Tensor::of_ints(dtype, shape, &indices.collect::<Option<Vec<i64>>>()?)
}

/// Broadcasts two constants to a shape.
fn broadcast(x: &Tensor, y: &Tensor, shape: &[i64]) -> Option<(Tensor, Tensor)> {
    Some((x.broadcast(shape)?, y.broadcast(shape)?))
}

/// Returns the offsets of the elements of a shape, in row-major order, from the strides of its axes.
fn strided_indices(shape: &[i64], strides: &[i64]) -> Vec<usize> {
    let mut offsets: Vec<i64> = vec![0];
    for (&size, &stride) in shape.iter().zip(strides) {
        let along = |&offset: &i64| (0..size).map(move |i| offset + i * stride);
        offsets = offsets.iter().flat_map(along).collect();
    }
    offsets.into_iter().map(|offset| offset as usize).collect()
}

fn sliced(
    x: &Tensor,
    starts: &Tensor,
    axes: &Tensor,
    steps: Option<&Tensor>,
    shape: &[i64],
) -> Option<Tensor> {
    let (starts, axes) = (starts.ints()?, axes_from_front(&axes.ints()?, x.shape.len())?);
    let steps = steps.map_or_else(|| Some(vec![1; axes.len()]), Tensor::ints)?;
    let (mut first, mut step) = (vec![0; x.shape.len()], vec![1; x.shape.len()]);
    for ((&start, &axis), &by) in starts.iter().zip(&axes).zip(&steps) {
        let size = x.shape[axis];
        let start = if start < 0 { start + size } else { start };
        first[axis] = start.clamp(0, (size - 1).max(0));
        step[axis] = by;
    }
    x.sliced(&first, &step, shape)
}

fn gathered(
    node: &Node,
    x: &Tensor,
    indices: &Tensor,
    dtype: DType,
    shape: &[i64],
) -> Option<Tensor> {
    let axis = node.axis(x.shape.len())?;
    let size = *x.shape.get(axis)?;
    let places: Vec<i64> =
        indices.ints()?.iter().map(|&at| if at < 0 { at + size } else { at }).collect();
    require(places.iter().all(|at| (0..size).contains(at)))?;
    if let [first, rest @ ..] = &places[..] {
        let step = rest.first().map_or(1, |second| second - first);
        if places.windows(2).all(|pair| pair[1] - pair[0] == step) {
            let (mut starts, mut steps) = (vec![0; x.shape.len()], vec![1; x.shape.len()]);
            let mut sizes = x.shape.clone();
            (starts[axis], steps[axis], sizes[axis]) = (*first, step, places.len() as i64);
            return Some(x.sliced(&starts, &steps, &sizes)?.with_shape(shape.to_vec()));
        }
    }
    let row = x.shape[axis + 1..].iter().product::<i64>() as usize * dtype.bits() / 8;
    let bytes = x.bytes();
    let mut data = Vec::new();
    for rows in bytes.chunks_exact((size as usize * row).max(1)) {
        for &at in &places {
            data.extend_from_slice(&rows[at as usize * row..][..row]);
        }
    }
    (dtype.bits() >= 8).then(|| Tensor::new(dtype, shape.to_vec(), data))
}

fn chosen(
    condition: &Tensor,
    x: &Tensor,
    y: &Tensor,
    dtype: DType,
    shape: &[i64],
) -> Option<Tensor> {
    let width = dtype.bits() / 8;
    let (x, y) = broadcast(x, y, shape)?;
    let (flags, x, y) = (condition.broadcast(shape)?.ints()?, x.bytes(), y.bytes());
    let elements = x.chunks_exact(width).zip(y.chunks_exact(width));
    let chosen = flags.iter().zip(elements);
    let chosen = chosen.flat_map(|(&flag, (x, y))| if flag == 0 { y } else { x });
    Some(Tensor::new(dtype, shape.to_vec(), chosen.copied().collect::<Vec<u8>>()))
}

fn cast(x: &Tensor, dtype: DType, shape: Vec<i64>) -> Option<Tensor> {
    if x.dtype.is_float() && dtype.is_float() {
        // Some runtimes convert float64 to float16 through float32.
        let may = x.dtype != DType::F64 || matches!(dtype, DType::F32 | DType::F64);
        return may.then(|| x.cast(dtype))?;
    }
    match (x.ints(), x.floats()) {
        // A 64-bit integer that a double does not represent would be rounded twice.
        (Some(values), _) => {
            let is_exact = |value: &i64| value.unsigned_abs() < 1 << 24;
            let may = x.dtype != DType::U64 && (!dtype.is_float() || values.iter().all(is_exact));
            may.then(|| Tensor::of_ints(dtype, shape, &values))?
        }
        (_, Some(values)) if dtype == DType::Bool => {
            let flags: Vec<i64> = values.iter().map(|&value| i64::from(value != 0.0)).collect();
            Tensor::of_ints(dtype, shape, &flags)
        }
        _ => None,
    }
}

/// Returns the sum, product or another combination of constants that broadcast to the shape.
pub(crate) fn arithmetic(
    op: OpType,
    x: &Tensor,
    y: &Tensor,
    dtype: DType,
    shape: Vec<i64>,
) -> Option<Tensor> {
    let (x, y) = broadcast(x, y, &shape)?;
    if let (Some(a), Some(b)) = (x.ints(), y.ints()) {
        let join = |(a, b): (&i64, &i64)| match op {
            OpType::Add => Some(a.wrapping_add(*b)),
            OpType::Sub => Some(a.wrapping_sub(*b)),
            OpType::Mul => Some(a.wrapping_mul(*b)),
            // `ints` returns uint64 as signed. The runtime handles divisions that trap.
            OpType::Div if dtype != DType::U64 => a.checked_div(*b),
            _ => None,
        };
        let values: Option<Vec<i64>> = a.iter().zip(&b).map(join).collect();
        return Tensor::of_ints(dtype, shape, &values?);
    }
    let (a, b) = (x.floats()?, y.floats()?);
    // For narrower floats, an operation in double precision that is rounded again returns the same number as the
    // narrow operation.
    let join = |(a, b): (&f64, &f64)| match op {
        OpType::Add => a + b,
        OpType::Sub => a - b,
        OpType::Mul => a * b,
        _ => a / b,
    };
    let values: Vec<f64> = a.iter().zip(&b).map(join).collect();
    Tensor::of_floats(dtype, shape, &values)
}

/// Shifts the bits of integers by less than the width of the type.
fn shifted(is_left: bool, x: &Tensor, y: &Tensor, dtype: DType, shape: Vec<i64>) -> Option<Tensor> {
    let bits = dtype.bits() as i64;
    require(y.ints()?.iter().all(|distance| (0..bits).contains(distance)))?;
    of_ints(x, y, dtype, shape, |a, distance| match is_left {
        true => a.wrapping_shl(distance as u32),
        // ONNX shifts only unsigned integers. Of these, only uint64 may look negative.
        false => (a as u64).wrapping_shr(distance as u32) as i64,
    })
}

fn of_each(x: &Tensor, dtype: DType, shape: Vec<i64>, f: fn(f64) -> f64) -> Option<Tensor> {
    let values: Vec<f64> = x.floats()?.into_iter().map(f).collect();
    Tensor::of_floats(dtype, shape, &values)
}

/// Combines integers that broadcast to a shape.
fn of_ints(
    x: &Tensor,
    y: &Tensor,
    dtype: DType,
    shape: Vec<i64>,
    combine: impl Fn(i64, i64) -> i64,
) -> Option<Tensor> {
    let (x, y) = broadcast(x, y, &shape)?;
    let (a, b) = (x.ints()?, y.ints()?);
    let values: Vec<i64> = a.iter().zip(&b).map(|(&a, &b)| combine(a, b)).collect();
    Tensor::of_ints(dtype, shape, &values)
}

/// Returns the larger or smaller integers. `None` for floats: runtimes return different zeros and NaNs.
fn extreme(op: OpType, x: &Tensor, y: &Tensor, dtype: DType, shape: Vec<i64>) -> Option<Tensor> {
    // `ints` returns uint64 as signed, which has another order.
    require(dtype != DType::U64)?;
    of_ints(x, y, dtype, shape, if op == OpType::Max { i64::max } else { i64::min })
}

fn comparison(op: OpType, x: &Tensor, y: &Tensor, shape: Vec<i64>) -> Option<Tensor> {
    let (x, y) = broadcast(x, y, &shape)?;
    // A double represents all types exactly except 64-bit integers, which are compared as integers.
    let orders: Vec<Option<Ordering>> = match (x.ints(), y.ints()) {
        (Some(a), Some(b)) if x.dtype != DType::U64 => {
            a.iter().zip(&b).map(|(a, b)| Some(a.cmp(b))).collect()
        }
        _ => {
            let (a, b) = (x.floats()?, y.floats()?);
            a.iter().zip(&b).map(|(a, b)| a.partial_cmp(b)).collect()
        }
    };
    let holds = |order: Option<Ordering>| {
        order.is_some_and(|order| match op {
            OpType::Equal => order.is_eq(),
            OpType::Greater => order.is_gt(),
            OpType::GreaterOrEqual => order.is_ge(),
            OpType::Less => order.is_lt(),
            _ => order.is_le(),
        })
    };
    let flags: Vec<i64> = orders.into_iter().map(|order| holds(order).into()).collect();
    Tensor::of_ints(DType::Bool, shape, &flags)
}

#[cfg(test)]
mod tests;
