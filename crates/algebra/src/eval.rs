//! Evaluates a node with constant operands.
//!
//! Operators that every runtime rounds in the same way return the bits of the runtime: operators that move elements,
//! arithmetic, square roots, operators on bits and booleans, and comparisons. The others return the float32 number that
//! is nearest to the result, if it is known; see `nearest.rs`.

mod along;
mod floats;
mod nearest;
mod places;

use std::cmp::Ordering;

use onnx::infer::axes_from_front;
use onnx::operator::properties::{ARITHMETIC, RESHAPES};
use onnx::{Attr, DType, Node, OpType, Tensor};

use crate::rewrite::require;

/// Returns the result of a node on constants, which has this type. `None` if runtimes may differ.
pub fn eval(node: &Node, operands: &[&Tensor], dtype: DType, shape: Vec<i64>) -> Option<Tensor> {
    let call = Call { op: node.op.onnx()?, node, operands, dtype, shape };
    call.of_any_numbers()
        .or_else(|| call.of_some_floats())
        .or_else(|| call.of_nearest_floats())
        .filter(|result| result.byte_len() == result.expected_bytes())
}

/// An operator on constants, and the type of its result.
struct Call<'a> {
    op: OpType,
    node: &'a Node,
    operands: &'a [&'a Tensor],
    dtype: DType,
    shape: Vec<i64>,
}

impl Call<'_> {
    /// Returns the result of operators for which runtimes agree on all numbers.
    fn of_any_numbers(&self) -> Option<Tensor> {
        match (self.op, self.operands) {
            (op, [x, ..]) if op == OpType::Identity || op.is(RESHAPES) => {
                Some(x.with_shape(self.shape.clone()))
            }
            (OpType::Expand, [x, _]) => x.broadcast(&self.shape),
            (OpType::Transpose, [x]) => x.transposed(&self.node.perm(x.shape.len())?),
            (OpType::Concat, parts) => {
                Tensor::joined(parts, self.node.axis(self.shape.len())?, self.shape.clone())
            }
            (OpType::Slice, [x, starts, _, axes, steps @ ..]) => {
                self.sliced(x, starts, axes, steps.first().copied())
            }
            (OpType::Gather, [x, indices]) => self.gathered(x, indices),
            (OpType::Where, [condition, x, y]) => self.chosen(condition, x, y),
            (OpType::Cast, [x]) => self.cast(x),
            // Double precision is wide enough that rounding twice returns the same number as rounding once.
            (OpType::Sqrt, [x]) => self.of_each_float(x, f64::sqrt),
            (OpType::Reciprocal, [x]) => self.of_each_float(x, f64::recip),
            (OpType::Abs, [x]) if self.dtype.is_signed_int() => {
                self.of_each_int(x, i64::wrapping_abs)
            }
            (OpType::Abs, [x]) => self.of_each_float(x, f64::abs),
            (OpType::Sign, [x]) if self.dtype.is_signed_int() => self.of_each_int(x, i64::signum),
            (OpType::Not, [x]) => self.of_each_int(x, |flag| i64::from(flag == 0)),
            (OpType::Max | OpType::Min, [x, y]) => self.extreme(self.op, x, y),
            (OpType::Clip, [x, low, high]) => {
                let raised = self.extreme(OpType::Max, x, low)?;
                self.extreme(OpType::Min, &raised, high)
            }
            (op, [x, y]) if op.is(ARITHMETIC) => {
                arithmetic(op, x, y, self.dtype, self.shape.clone())
            }
            (OpType::And | OpType::BitwiseAnd, [x, y]) => self.of_int_pairs(x, y, |a, b| a & b),
            (OpType::Or | OpType::BitwiseOr, [x, y]) => self.of_int_pairs(x, y, |a, b| a | b),
            (OpType::Xor | OpType::BitwiseXor, [x, y]) => self.of_int_pairs(x, y, |a, b| a ^ b),
            (OpType::BitShift, [x, y]) => self.shifted(x, y),
            (OpType::Neg, [x]) => {
                // `0 - 0` would lose the sign. Unsigned integers wrap.
                let minus_one = Tensor::of_ints(self.dtype, Vec::new(), &[-1])?;
                arithmetic(OpType::Mul, x, &minus_one, self.dtype, self.shape.clone())
            }
            (
                OpType::Equal
                | OpType::Greater
                | OpType::GreaterOrEqual
                | OpType::Less
                | OpType::LessOrEqual,
                [x, y],
            ) => self.comparison(x, y),
            (OpType::ArgMax | OpType::ArgMin, [x]) => self.index_of_extreme(x),
            (OpType::ReduceMax | OpType::ReduceMin, [x, ..]) => self.extreme_of_lanes(x),
            (OpType::ReduceSum | OpType::ReduceProd, [x, ..]) if x.dtype.is_int() => {
                self.reduced_ints(x)
            }
            (OpType::CumSum, [x, axis]) if x.dtype.is_int() => self.cumulated_ints(x, axis),
            (OpType::MatMul, [x, y]) if x.dtype.is_int() => nearest::product_of_ints(self, x, y),
            (OpType::Mod, [x, y]) => self.remainder(x, y),
            (OpType::Range, [start, _, delta]) => self.range(start, delta),
            (OpType::Tile, [x, _]) => self.tiled(x),
            (OpType::Pad, [x, pads, rest @ ..]) => self.padded(x, pads, rest),
            (OpType::GatherElements, [x, at]) => self.gathered_elements(x, at),
            (OpType::GatherND, [x, at]) => self.gathered_slices(x, at),
            (OpType::ScatterElements, [x, at, y]) => self.scattered_elements(x, at, y),
            (OpType::ScatterND, [x, at, y]) => self.scattered_slices(x, at, y),
            _ => None,
        }
    }

    /// Returns a result of these integers.
    fn ints(&self, ints: impl Iterator<Item = i64>) -> Option<Tensor> {
        Tensor::of_ints(self.dtype, self.shape.clone(), &ints.collect::<Vec<_>>())
    }

    /// Returns a result of these floats.
    fn floats(&self, floats: impl Iterator<Item = f64>) -> Option<Tensor> {
        Tensor::of_floats(self.dtype, self.shape.clone(), &floats.collect::<Vec<_>>())
    }

    fn of_each_int(&self, x: &Tensor, f: fn(i64) -> i64) -> Option<Tensor> {
        self.ints(x.ints()?.into_iter().map(f))
    }

    fn of_each_float(&self, x: &Tensor, f: fn(f64) -> f64) -> Option<Tensor> {
        self.floats(x.floats()?.into_iter().map(f))
    }

    /// Combines integers that broadcast to the shape.
    fn of_int_pairs(
        &self,
        x: &Tensor,
        y: &Tensor,
        combine: impl Fn(i64, i64) -> i64,
    ) -> Option<Tensor> {
        let (x, y) = broadcast(x, y, &self.shape)?;
        self.ints(x.ints()?.into_iter().zip(y.ints()?).map(|(a, b)| combine(a, b)))
    }

    /// Returns the remainder of a division, which is exact. The attribute `fmod` decides its sign.
    fn remainder(&self, x: &Tensor, y: &Tensor) -> Option<Tensor> {
        let is_of_dividend = self.node.attr("fmod") == Some(&Attr::Int(1));
        if self.dtype.is_int() {
            // `ints` returns uint64 as signed.
            require(self.dtype != DType::U64 && !y.ints()?.contains(&0))?;
            return self.of_int_pairs(x, y, |a, b| match a.wrapping_rem(b) {
                rest if rest != 0 && !is_of_dividend && (rest < 0) != (b < 0) => rest + b,
                rest => rest,
            });
        }
        let (x, y) = broadcast(x, y, &self.shape)?;
        let rests: Vec<f64> =
            x.floats()?.into_iter().zip(y.floats()?).map(|(a, b)| a % b).collect();
        require(is_of_dividend && rests.iter().all(|rest| rest.is_finite()))?;
        self.floats(rests.into_iter())
    }

    fn sliced(
        &self,
        x: &Tensor,
        starts: &Tensor,
        axes: &Tensor,
        steps: Option<&Tensor>,
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
        x.sliced(&first, &step, &self.shape)
    }

    fn gathered(&self, x: &Tensor, indices: &Tensor) -> Option<Tensor> {
        let axis = self.node.axis(x.shape.len())?;
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
                return Some(x.sliced(&starts, &steps, &sizes)?.with_shape(self.shape.clone()));
            }
        }
        let row = x.shape[axis + 1..].iter().product::<i64>() as usize * self.dtype.bits() / 8;
        let bytes = x.bytes();
        let mut data = Vec::new();
        for rows in bytes.chunks_exact((size as usize * row).max(1)) {
            for &at in &places {
                data.extend_from_slice(&rows[at as usize * row..][..row]);
            }
        }
        (self.dtype.bits() >= 8).then(|| Tensor::new(self.dtype, self.shape.clone(), data))
    }

    fn chosen(&self, condition: &Tensor, x: &Tensor, y: &Tensor) -> Option<Tensor> {
        let width = self.dtype.bits() / 8;
        let (x, y) = broadcast(x, y, &self.shape)?;
        let (flags, x, y) = (condition.broadcast(&self.shape)?.ints()?, x.bytes(), y.bytes());
        let elements = x.chunks_exact(width).zip(y.chunks_exact(width));
        let chosen = flags.iter().zip(elements);
        let chosen = chosen.flat_map(|(&flag, (x, y))| if flag == 0 { y } else { x });
        let chosen: Vec<u8> = chosen.copied().collect();
        Some(Tensor::new(self.dtype, self.shape.clone(), chosen))
    }

    fn cast(&self, x: &Tensor) -> Option<Tensor> {
        let dtype = self.dtype;
        if x.dtype.is_float() && dtype.is_float() {
            // Some runtimes convert float64 to float16 through float32.
            let may = x.dtype != DType::F64 || matches!(dtype, DType::F32 | DType::F64);
            return may.then(|| x.cast(dtype))?;
        }
        match (x.ints(), x.floats()) {
            // A 64-bit integer that a double does not represent would be rounded twice.
            (Some(values), _) => {
                let is_exact = |value: &i64| value.unsigned_abs() < 1 << 24;
                let may =
                    x.dtype != DType::U64 && (!dtype.is_float() || values.iter().all(is_exact));
                may.then(|| self.ints(values.into_iter()))?
            }
            (_, Some(values)) if dtype == DType::Bool => {
                self.ints(values.iter().map(|&value| i64::from(value != 0.0)))
            }
            _ => None,
        }
    }

    /// Shifts the bits of integers by less than the width of the type.
    fn shifted(&self, x: &Tensor, y: &Tensor) -> Option<Tensor> {
        let is_left = *self.node.attr("direction")? == Attr::from("LEFT");
        let bits = self.dtype.bits() as i64;
        require(y.ints()?.iter().all(|distance| (0..bits).contains(distance)))?;
        self.of_int_pairs(x, y, |a, distance| match is_left {
            true => a.wrapping_shl(distance as u32),
            // ONNX shifts only unsigned integers. Of these, only uint64 may look negative.
            false => (a as u64).wrapping_shr(distance as u32) as i64,
        })
    }

    /// Returns the larger or smaller integers. `None` for floats: runtimes return different zeros and NaNs.
    fn extreme(&self, op: OpType, x: &Tensor, y: &Tensor) -> Option<Tensor> {
        // `ints` returns uint64 as signed, which has another order.
        require(self.dtype != DType::U64)?;
        self.of_int_pairs(x, y, if op == OpType::Max { i64::max } else { i64::min })
    }

    fn comparison(&self, x: &Tensor, y: &Tensor) -> Option<Tensor> {
        let (x, y) = broadcast(x, y, &self.shape)?;
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
        let holds = |order: Ordering| match self.op {
            OpType::Equal => order.is_eq(),
            OpType::Greater => order.is_gt(),
            OpType::GreaterOrEqual => order.is_ge(),
            OpType::Less => order.is_lt(),
            _ => order.is_le(),
        };
        self.ints(orders.into_iter().map(|order| order.is_some_and(holds).into()))
    }
}

/// Broadcasts two constants to a shape.
fn broadcast(x: &Tensor, y: &Tensor, shape: &[i64]) -> Option<(Tensor, Tensor)> {
    Some((x.broadcast(shape)?, y.broadcast(shape)?))
}

/// Returns the sum, product or another combination of constants that broadcast to the shape.
pub fn arithmetic(
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

#[cfg(test)]
mod tests;
