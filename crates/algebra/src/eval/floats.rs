//! Evaluates operators on floats if every runtime returns the same result for the given numbers.

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
            (OpType::Cast, [x]) if self.dtype.is_int() => {
                let values = x.floats()?;
                let signed_bits = self.dtype.bits() - usize::from(self.dtype.is_signed_int());
                let limit = 2f64.powi(signed_bits.min(30) as i32);
                let least = if self.dtype.is_signed_int() { -limit } else { -1.0 };
                require(values.iter().all(|&value| least < value && value < limit))?;
                self.ints(values.iter().map(|&value| value as i64))
            }
            (OpType::Max | OpType::Min, [x, y]) => self.extreme_float(self.op, x, y),
            (OpType::Clip, [x, low, high]) => {
                let raised = self.extreme_float(OpType::Max, x, low)?;
                self.extreme_float(OpType::Min, &raised, high)
            }
            (OpType::Relu, [x]) => {
                let zero = Tensor::of_floats(self.dtype, Vec::new(), &[0.0])?;
                self.extreme_float(OpType::Max, x, &zero)
            }
            (OpType::Round, [x]) => self.of_each_float(x, f64::round_ties_even),
            (OpType::Sign, [x]) => {
                let values = x.floats()?;
                let is_open = |x: &f64| x.is_nan() || x.to_bits() == (-0.0f64).to_bits();
                require(!values.iter().any(is_open))?;
                let sign = |x: f64| if x == 0.0 { 0.0 } else { x.signum() };
                self.floats(values.into_iter().map(sign))
            }
            (OpType::IsInf, [x]) => {
                let has_flag = |name| self.node.attr(name).is_none_or(|flag| *flag == Attr::Int(1));
                let (above, below) = (has_flag("detect_positive"), has_flag("detect_negative"));
                let is_found = |x: &f64| x.is_infinite() && if *x > 0.0 { above } else { below };
                self.ints(x.floats()?.iter().map(|x| is_found(x).into()))
            }
            (OpType::ReduceSum, [x, _]) => self.sum(x),
            (OpType::Pow, [x, y]) => {
                let (x, y) = broadcast(x, y, &self.shape)?;
                let exponents = y.floats()?;
                let most = match self.dtype {
                    DType::F64 => 1022.0,
                    DType::F16 => 14.0,
                    _ => 126.0,
                };
                let is_whole = |&power: &f64| power.trunc() == power && power.abs() <= most;
                let is_of_two = x.floats()?.iter().all(|&base| base == 2.0);
                require(is_of_two && exponents.iter().all(is_whole))?;
                self.floats(exponents.iter().map(|&power| 2f64.powi(power as i32)))
            }
            _ => None,
        }
    }

    /// Returns the smaller of two floats for `Min`, and the larger one for `Max`.
    fn extreme_float(&self, op: OpType, x: &Tensor, y: &Tensor) -> Option<Tensor> {
        let (x, y) = broadcast(x, y, &self.shape)?;
        let (a, b) = (x.floats()?, y.floats()?);
        let join = |(&a, &b): (&f64, &f64)| {
            let differ = a.is_sign_negative() != b.is_sign_negative();
            if a.is_nan() || b.is_nan() || (a == 0.0 && b == 0.0 && differ) {
                return None;
            }
            Some(if op == OpType::Min { a.min(b) } else { a.max(b) })
        };
        self.floats(a.iter().zip(&b).map(join).collect::<Option<Vec<_>>>()?.into_iter())
    }

    /// Returns a sum, if no order of its terms rounds.
    fn sum(&self, x: &Tensor) -> Option<Tensor> {
        let (digits, most) = match self.dtype {
            DType::F32 => (24, f64::from(f32::MAX)),
            DType::F64 => (53, f64::MAX),
            _ => return None,
        };
        let (values, lanes) = (x.floats()?, self.reduced_lanes(x)?);
        let total = |&start: &usize| {
            exact_sum(lanes.steps().iter().map(|&step| values[start + step]), digits, most)
        };
        self.floats(lanes.starts().iter().map(total).collect::<Option<Vec<_>>>()?.into_iter())
    }
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
