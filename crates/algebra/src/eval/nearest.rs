//! Returns the float32 numbers nearest to results that runtimes round in different ways.
//!
//! The result is computed in double precision, with a bound of its error. If all numbers within the bound round to the
//! same float32 number, that number is the nearest one, on every machine. Otherwise, the node is not folded.

use onnx::{DType, OpType, Tensor};

use super::{Call, broadcast};
use crate::rewrite::require;

/// A bound of the relative error of a function of the standard library, several times as large as its documented error.
const ERROR_OF_FUNCTIONS: f64 = f64::EPSILON * 8.0;

/// No product with more multiplications is folded.
const MAX_MULTIPLICATIONS: usize = 1 << 20;

impl Call<'_> {
    /// Returns the nearest result of functions, powers, sums and products.
    pub(super) fn of_nearest_floats(&self) -> Option<Tensor> {
        require(self.dtype == DType::F32)?;
        match (self.op, self.operands) {
            (OpType::Pow, [x, y]) => {
                let (x, y) = broadcast(x, y, &self.shape)?;
                let (x, y) = (x.floats()?, any_floats(&y)?);
                self.nearest(x.iter().zip(y).map(|(x, y)| within(x.powf(y), ERROR_OF_FUNCTIONS)))
            }
            (OpType::ReduceSum | OpType::ReduceMean, [x, ..]) => {
                let (values, lanes) = (x.floats()?, self.reduced_lanes(x)?);
                let divisor = if self.op == OpType::ReduceMean { lanes.len() as f64 } else { 1.0 };
                require(divisor > 0.0)?;
                self.nearest(lanes.starts().iter().map(|&start| {
                    let terms = lanes.steps().iter().map(|&step| values[start + step]);
                    let (sum, error) = terms.fold(Sum::default(), Sum::plus).with_error();
                    let mean = sum / divisor;
                    let is_exact = lanes.len().is_power_of_two() || divisor == 1.0;
                    let of_division = if is_exact { 0.0 } else { mean.abs() * f64::EPSILON };
                    (mean, error / divisor + of_division)
                }))
            }
            (OpType::CumSum, [x, axis]) => {
                let (values, lanes) = (x.floats()?, self.cumulated_lanes(x, axis)?);
                let mut sums = vec![(0.0, 0.0); values.len()];
                for &start in lanes.starts() {
                    let mut sum = Sum::default();
                    for &step in lanes.steps() {
                        sum = sum.plus(values[start + step]);
                        sums[start + step] = sum.with_error();
                    }
                }
                self.nearest(sums.into_iter())
            }
            (OpType::MatMul, [x, y]) => {
                let (a, b) = (x.floats()?, y.floats()?);
                let product = Product::of(x, y, &self.shape)?;
                self.nearest(product.entries().map(|entry| {
                    // A double represents the product of two float32 numbers exactly.
                    let terms = product.terms(entry).map(|(left, right)| a[left] * b[right]);
                    terms.fold(Sum::default(), Sum::plus).with_error()
                }))
            }
            (op, [x]) => {
                let function = function(op)?;
                self.nearest(
                    x.floats()?.into_iter().map(|x| within(function(x), ERROR_OF_FUNCTIONS)),
                )
            }
            _ => None,
        }
    }

    /// Returns a result of these numbers, each with a bound of its error. `None` if a number is too large or too small
    /// for float32, because runtimes differ in these.
    fn nearest(&self, numbers: impl Iterator<Item = (f64, f64)>) -> Option<Tensor> {
        let nearest = numbers.map(|(number, error)| {
            let (low, high) = ((number - error) as f32, (number + error) as f32);
            let is_normal = low.is_normal() || (number == 0.0 && error == 0.0);
            (low == high && is_normal).then_some(if number == 0.0 { 0.0 } else { f64::from(low) })
        });
        self.floats(nearest.collect::<Option<Vec<f64>>>()?.into_iter())
    }
}

/// Returns the integers of a product of matrices, which wrap.
pub(super) fn product_of_ints(call: &Call<'_>, x: &Tensor, y: &Tensor) -> Option<Tensor> {
    let (a, b) = (x.ints()?, y.ints()?);
    let product = Product::of(x, y, &call.shape)?;
    call.ints(product.entries().map(|entry| {
        let terms = product.terms(entry).map(|(left, right)| a[left].wrapping_mul(b[right]));
        terms.fold(0, i64::wrapping_add)
    }))
}

fn within(number: f64, relative_error: f64) -> (f64, f64) {
    (number, number.abs() * relative_error)
}

/// Returns the function of the standard library that an operator computes.
fn function(op: OpType) -> Option<fn(f64) -> f64> {
    Some(match op {
        OpType::Sin => f64::sin,
        OpType::Cos => f64::cos,
        OpType::Tan => f64::tan,
        OpType::Asin => f64::asin,
        OpType::Acos => f64::acos,
        OpType::Atan => f64::atan,
        OpType::Sinh => f64::sinh,
        OpType::Cosh => f64::cosh,
        OpType::Tanh => f64::tanh,
        OpType::Exp => f64::exp,
        OpType::Log => f64::ln,
        OpType::Sigmoid => |x| 1.0 / (1.0 + (-x).exp()),
        _ => return None,
    })
}

/// Returns the elements of any type of number, if doubles represent them.
fn any_floats(x: &Tensor) -> Option<Vec<f64>> {
    let is_small = |int: &i64| int.unsigned_abs() < 1 << 52;
    x.floats().or_else(|| {
        let ints = x.ints().filter(|ints| ints.iter().all(is_small))?;
        Some(ints.into_iter().map(|int| int as f64).collect())
    })
}

/// A sum in double precision.
#[derive(Clone, Copy, Default)]
struct Sum {
    total: f64,
    /// The sum of the magnitudes.
    size: f64,
    terms: usize,
    is_rounded: bool,
}

impl Sum {
    fn plus(self, term: f64) -> Sum {
        let total = self.total + term;
        // Both differences are the operands, unless the sum was rounded.
        let is_exact = total - self.total == term && total - term == self.total;
        let is_rounded = self.is_rounded || !is_exact;
        Sum { total, size: self.size + term.abs(), terms: self.terms + 1, is_rounded }
    }

    /// Returns the sum and a bound of its error.
    fn with_error(self) -> (f64, f64) {
        let error =
            if self.is_rounded { self.size * self.terms as f64 * f64::EPSILON } else { 0.0 };
        (self.total, error)
    }
}

/// A product of matrices or vectors.
struct Product {
    batches: usize,
    rows: usize,
    columns: usize,
    terms: usize,
    /// True if every batch has its own left or right matrix.
    is_batched: (bool, bool),
}

impl Product {
    fn of(x: &Tensor, y: &Tensor, shape: &[i64]) -> Option<Product> {
        let size = |size: &i64| usize::try_from(*size).ok();
        let terms = size(x.shape.last()?)?;
        let rows = if x.shape.len() > 1 { size(&x.shape[x.shape.len() - 2])? } else { 1 };
        let columns = if y.shape.len() > 1 { size(y.shape.last()?)? } else { 1 };
        let (of_left, of_right) = (rows * terms, terms * columns);
        require(of_left > 0 && of_right > 0)?;
        let results = size(&shape.iter().product())?;
        let batches = results / (rows * columns);
        let are_whole = |matrices: usize| matrices == 1 || matrices == batches;
        let (lefts, rights) = (x.len() / of_left, y.len() / of_right);
        let have_one_shape = lefts == 1 || rights == 1 || x.shape.len() == y.shape.len();
        require(are_whole(lefts) && are_whole(rights) && have_one_shape)?;
        require(results * terms <= MAX_MULTIPLICATIONS)?;
        Some(Product { batches, rows, columns, terms, is_batched: (lefts > 1, rights > 1) })
    }

    /// Returns the batch, row and column of each element.
    fn entries(&self) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
        let rows = move |batch| (0..self.rows).map(move |row| (batch, row));
        let columns = move |(batch, row)| (0..self.columns).map(move |column| (batch, row, column));
        (0..self.batches).flat_map(rows).flat_map(columns)
    }

    /// Returns the indices of the factors of an element.
    fn terms(
        &self,
        (batch, row, column): (usize, usize, usize),
    ) -> impl Iterator<Item = (usize, usize)> + '_ {
        let left = if self.is_batched.0 { batch } else { 0 } * self.rows + row;
        let right = if self.is_batched.1 { batch } else { 0 } * self.terms;
        (0..self.terms)
            .map(move |term| (left * self.terms + term, (right + term) * self.columns + column))
    }
}
