//! Evaluates operators on floats if every runtime returns the same result for the given numbers.

use onnx::infer::axes_from_front;
use onnx::{Attr, DType, OpType, Tensor};

use super::{Call, broadcast};
use crate::rewrite::require;

impl Call<'_> {
    /// Returns the result on these constants. `None` if runtimes may differ: in the larger of two zeros, in NaN, in the
    /// cast of numbers that are out of range, and in the order of rounded sums.
    pub(super) fn of_some_floats(&self) -> Option<Tensor> {
        match (self.op, self.operands) {
            (OpType::Floor, [x]) => self.of_each_float(x, f64::floor),
            (OpType::Ceil, [x]) => self.of_each_float(x, f64::ceil),
            (OpType::IsNaN, [x]) => self.ints(x.floats()?.iter().map(|x| x.is_nan().into())),
            (OpType::Cast, [x]) if self.dtype.is_signed_int() && self.dtype.bits() >= 32 => {
                let values = x.floats()?;
                require(values.iter().all(|value| value.abs() < f64::from(1 << 30)))?;
                self.ints(values.iter().map(|&value| value as i64))
            }
            (OpType::Max | OpType::Min, [x, y]) => self.extreme_float(x, y),
            (OpType::Relu, [x]) => {
                self.extreme_float(x, &Tensor::of_floats(self.dtype, Vec::new(), &[0.0])?)
            }
            (OpType::ReduceSum, [x, axes]) => self.sum(x, &axes.ints()?),
            _ => None,
        }
    }

    /// Returns the smaller of two floats for `Min`, and the larger one for other operators.
    fn extreme_float(&self, x: &Tensor, y: &Tensor) -> Option<Tensor> {
        let (x, y) = broadcast(x, y, &self.shape)?;
        let (a, b) = (x.floats()?, y.floats()?);
        let join = |(&a, &b): (&f64, &f64)| {
            let differ = a.is_sign_negative() != b.is_sign_negative();
            if a.is_nan() || b.is_nan() || (a == 0.0 && b == 0.0 && differ) {
                return None;
            }
            Some(if self.op == OpType::Min { a.min(b) } else { a.max(b) })
        };
        self.floats(a.iter().zip(&b).map(join).collect::<Option<Vec<_>>>()?.into_iter())
    }

    /// Returns a sum, if no order of its terms rounds.
    fn sum(&self, x: &Tensor, axes: &[i64]) -> Option<Tensor> {
        let (digits, most) = match self.dtype {
            DType::F32 => (24, f64::from(f32::MAX)),
            DType::F64 => (53, f64::MAX),
            _ => return None,
        };
        let axes = axes_from_front(axes, x.shape.len())?;
        let is_noop = self.node.attr("noop_with_empty_axes") == Some(&Attr::Int(1));
        require(!axes.is_empty() && !is_noop)?;
        let values = x.floats()?;
        let stride = |axis: usize| -> i64 { x.shape[axis + 1..].iter().product() };
        let part = |of: &dyn Fn(usize) -> bool| {
            let chosen = (0..x.shape.len()).filter(|&axis| of(axis));
            strided_indices(chosen.map(|axis| (x.shape[axis], stride(axis))))
        };
        let inner = part(&|axis| axes.contains(&axis));
        let outer = part(&|axis| !axes.contains(&axis));
        let total =
            |&start: &usize| exact_sum(inner.iter().map(|&at| values[start + at]), digits, most);
        self.floats(outer.iter().map(total).collect::<Option<Vec<_>>>()?.into_iter())
    }
}

/// Returns the offsets of elements in row-major order, from the sizes and strides of their axes.
fn strided_indices(axes: impl Iterator<Item = (i64, i64)>) -> Vec<usize> {
    let mut offsets: Vec<i64> = vec![0];
    for (size, stride) in axes {
        let along = |&offset: &i64| (0..size).map(move |i| offset + i * stride);
        offsets = offsets.iter().flat_map(along).collect();
    }
    offsets.into_iter().map(|offset| offset as usize).collect()
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
