//! Evaluates operators on floats if every runtime returns the same result for the given numbers.

use onnx::infer::axes_from_front;
use onnx::{Attr, DType, OpType, Tensor};

use crate::rewrite::require;

use super::{broadcast, of_each, strided_indices};

/// Returns the result of `op` on constants. `None` if runtimes may differ: in the larger of two zeros, in NaN, in the
/// cast of numbers that are out of range, and in the order of rounded sums.
pub(super) fn eval(
    op: OpType,
    node: &onnx::Node,
    operands: &[&Tensor],
    dtype: DType,
    shape: Vec<i64>,
) -> Option<Tensor> {
    match (op, operands) {
        (OpType::Floor | OpType::Ceil, [x]) => {
            let function = if op == OpType::Floor { f64::floor } else { f64::ceil };
            of_each(x, dtype, shape, function)
        }
        (OpType::IsNaN, [x]) => {
            let flags: Vec<i64> = x.floats()?.iter().map(|x| x.is_nan().into()).collect();
            Tensor::of_ints(dtype, shape, &flags)
        }
        (OpType::Cast, [x]) if dtype.is_signed_int() && dtype.bits() >= 32 => {
            let is_in_range = |value: &f64| value.abs() < f64::from(1 << 30);
            let values = x.floats()?;
            let ints: Vec<i64> = values.iter().map(|&value| value as i64).collect();
            values.iter().all(is_in_range).then(|| Tensor::of_ints(dtype, shape, &ints))?
        }
        (OpType::Max | OpType::Min, [x, y]) => extreme(op, x, y, dtype, shape),
        (OpType::Relu, [x]) => {
            extreme(OpType::Max, x, &Tensor::of_floats(dtype, Vec::new(), &[0.0])?, dtype, shape)
        }
        (OpType::ReduceSum, [x, axes]) => sum(node, x, &axes.ints()?, dtype, shape),
        _ => None,
    }
}

fn extreme(op: OpType, x: &Tensor, y: &Tensor, dtype: DType, shape: Vec<i64>) -> Option<Tensor> {
    let (x, y) = broadcast(x, y, &shape)?;
    let (a, b) = (x.floats()?, y.floats()?);
    let join = |(&a, &b): (&f64, &f64)| {
        let differ = a.is_sign_negative() != b.is_sign_negative();
        if a.is_nan() || b.is_nan() || (a == 0.0 && b == 0.0 && differ) {
            return None;
        }
        Some(if op == OpType::Max { a.max(b) } else { a.min(b) })
    };
    let values: Vec<f64> = a.iter().zip(&b).map(join).collect::<Option<_>>()?;
    Tensor::of_floats(dtype, shape, &values)
}

/// Returns a sum, if no order of its terms rounds.
fn sum(
    node: &onnx::Node,
    x: &Tensor,
    axes: &[i64],
    dtype: DType,
    shape: Vec<i64>,
) -> Option<Tensor> {
    let (digits, most) = match dtype {
        DType::F32 => (24, f64::from(f32::MAX)),
        DType::F64 => (53, f64::MAX),
        _ => return None,
    };
    let axes = axes_from_front(axes, x.shape.len())?;
    require(!axes.is_empty() && node.attr("noop_with_empty_axes") != Some(&Attr::Int(1)))?;
    let values = x.floats()?;
    let stride = |axis: usize| -> i64 { x.shape[axis + 1..].iter().product() };
    let part = |of: &dyn Fn(usize) -> bool| {
        let chosen: Vec<usize> = (0..x.shape.len()).filter(|&axis| of(axis)).collect();
        let sizes: Vec<i64> = chosen.iter().map(|&axis| x.shape[axis]).collect();
        let strides: Vec<i64> = chosen.iter().map(|&axis| stride(axis)).collect();
        strided_indices(&sizes, &strides)
    };
    let inner = part(&|axis| axes.contains(&axis));
    let outer = part(&|axis| !axes.contains(&axis));
    let total =
        |&start: &usize| exact_sum(inner.iter().map(|&at| values[start + at]), digits, most);
    let sums: Vec<f64> = outer.iter().map(total).collect::<Option<_>>()?;
    Tensor::of_floats(dtype, shape, &sums)
}

/// Returns the sum, if every partial sum has at most `digits` binary digits and does not overflow.
fn exact_sum(values: impl Iterator<Item = f64> + Clone, digits: i32, most: f64) -> Option<f64> {
    let last_digit = |value: f64| {
        let mantissa = value.to_bits() & ((1 << 52) - 1) | (1 << 52);
        let exponent = (value.to_bits() >> 52 & 0x7ff) as i32;
        exponent + mantissa.trailing_zeros() as i32
    };
    let nonzero = || values.clone().filter(|&value| value != 0.0);
    require(!values.clone().any(|value| !value.is_finite() || value.is_subnormal()))?;
    let Some(lowest) = nonzero().map(last_digit).min() else {
        // A sum that begins with `0` is `0`.
        return Some(0.0);
    };
    let largest: f64 = nonzero().map(f64::abs).sum();
    let quantum = 2f64.powi(lowest - 1075);
    let is_exact = largest <= most && largest / quantum <= 2f64.powi(digits);
    is_exact.then(|| values.sum())
}
