//! Matrices of real or of complex numbers, so that each factorization is written once.

use std::ops::{Add, Mul, Neg, Sub};

use onnx::{Builder, DType, Dim, Expr, OpType};

use super::batch::{self, axes, column, row, transposed};
use crate::ctx::Eqn;
use crate::parts::Complex;

/// A batch of matrices in the last two axes. A real matrix has no imaginary part, so that the graph
/// has no nodes for it.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'g> {
    pub re: Expr<'g>,
    pub im: Option<Expr<'g>>,
}

impl<'g> Matrix<'g> {
    /// Returns a value of an equation as a matrix, complex if the first operand of the equation is
    /// complex.
    #[track_caller]
    pub fn of(eqn: &Eqn<'g, '_>, value: Expr<'g>) -> Matrix<'g> {
        if !eqn.is_complex_operand(0) {
            return Matrix::real(value);
        }
        let Complex { re, im } = Complex::of(value);
        Matrix { re, im: Some(im) }
    }

    pub fn real(re: Expr<'g>) -> Matrix<'g> {
        Matrix { re, im: None }
    }

    /// Returns the array of the model, with complex numbers as pairs.
    #[track_caller]
    pub fn value(self) -> Expr<'g> {
        match self.im {
            None => self.re,
            Some(im) => Complex { re: self.re, im }.pairs(),
        }
    }

    /// Applies the same function to both parts, such as a transpose.
    #[track_caller]
    pub fn map(self, f: impl Fn(Expr<'g>) -> Expr<'g>) -> Matrix<'g> {
        Matrix { re: f(self.re), im: self.im.map(f) }
    }

    pub fn builder(self) -> &'g Builder {
        self.re.builder
    }

    pub fn dtype(self) -> DType {
        self.re.dtype()
    }

    pub fn shape(self) -> std::sync::Arc<[Dim]> {
        self.re.shape()
    }

    pub fn is_complex(self) -> bool {
        self.im.is_some()
    }

    /// Returns a constant real number, as a complex number if the matrix is complex.
    #[track_caller]
    pub fn constant(self, value: f64) -> Matrix<'g> {
        self.with_real(self.re.constant(value))
    }

    /// Returns real numbers, as complex numbers if the matrix is complex.
    #[track_caller]
    pub fn with_real(self, re: Expr<'g>) -> Matrix<'g> {
        let zero = || re.constant(0.0).expand(&re.shape());
        Matrix { re, im: self.im.map(|_| zero()) }
    }

    /// Returns row `k`, as a matrix with one row.
    #[track_caller]
    pub fn row(self, k: Expr<'g>) -> Matrix<'g> {
        self.map(|part| row(part, k))
    }

    /// Returns column `k`, as a matrix with one column.
    #[track_caller]
    pub fn column(self, k: Expr<'g>) -> Matrix<'g> {
        self.map(|part| column(part, k))
    }

    #[track_caller]
    pub fn slice_axis(self, axis: usize, start: i64, end: i64) -> Matrix<'g> {
        self.map(|part| part.slice_axis(axis, start, end))
    }

    #[track_caller]
    pub fn conj(self) -> Matrix<'g> {
        Matrix { re: self.re, im: self.im.map(|im| -im) }
    }

    #[track_caller]
    pub fn transposed(self) -> Matrix<'g> {
        self.map(transposed)
    }

    /// Returns the conjugate of the transpose.
    #[track_caller]
    pub fn adjoint(self) -> Matrix<'g> {
        self.transposed().conj()
    }

    /// Returns the elements of `on_true` where the flag is true, and those of `on_false` elsewhere.
    #[track_caller]
    pub fn choose(flag: Expr<'g>, on_true: Matrix<'g>, on_false: Matrix<'g>) -> Matrix<'g> {
        let zero = |like: Expr<'g>| like.constant(0.0);
        Matrix {
            re: flag.select(on_true.re, on_false.re),
            im: match (on_true.im, on_false.im) {
                (None, None) => None,
                (Some(x), Some(y)) => Some(flag.select(x, y)),
                (Some(x), None) => Some(flag.select(x, zero(x))),
                (None, Some(y)) => Some(flag.select(zero(y), y)),
            },
        }
    }

    /// `|z|²`
    #[track_caller]
    pub fn squares(self) -> Expr<'g> {
        let square = self.re * self.re;
        self.im.map_or(square, |im| square + im * im)
    }

    /// Returns `|re| + |im|`, by which LAPACK compares complex numbers. It is at least `|z|`, and
    /// at most twice as large.
    #[track_caller]
    pub fn sizes(self) -> Expr<'g> {
        let size = self.re.abs();
        self.im.map_or(size, |im| size + im.abs())
    }

    /// Returns `max(|re|, |im|)`.
    #[track_caller]
    pub fn larger_parts(self) -> Expr<'g> {
        let size = self.re.abs();
        self.im.map_or(size, |im| size.max(im.abs()))
    }

    /// Divides by real numbers.
    #[track_caller]
    pub fn over(self, divisor: Expr<'g>) -> Matrix<'g> {
        self.map(|part| part / divisor)
    }

    /// Multiplies by real numbers.
    #[track_caller]
    pub fn times(self, factor: Expr<'g>) -> Matrix<'g> {
        self.map(|part| part * factor)
    }

    /// `z / w = z · w̄ / |w|²`, with `w` scaled by its larger part so that its square does not overflow
    #[track_caller]
    pub fn div(self, divisor: Matrix<'g>) -> Matrix<'g> {
        if !divisor.is_complex() {
            return self.over(divisor.re);
        }
        let scale = divisor.larger_parts();
        let scaled = divisor.over(scale);
        (self * scaled.conj()).over(scaled.squares()).over(scale)
    }

    #[track_caller]
    pub fn reduce_sum(self, axes: &[usize], keep: bool) -> Matrix<'g> {
        self.map(|part| part.reduce_sum(axes, keep))
    }

    #[track_caller]
    pub fn matmul(self, other: Matrix<'g>) -> Matrix<'g> {
        match (self.im, other.im) {
            (Some(b), Some(d)) => {
                let (a, c) = (self.re, other.re);
                Matrix { re: a.matmul(c) - b.matmul(d), im: Some(a.matmul(d) + b.matmul(c)) }
            }
            (_, None) => self.map(|part| part.matmul(other.re)),
            (None, _) => other.map(|part| self.re.matmul(part)),
        }
    }

    /// Returns the identity matrix, with additional rows or columns of zeros if it is not square.
    #[track_caller]
    pub fn identity(self, rows: i64, columns: i64) -> Matrix<'g> {
        self.with_real(batch::identity(self.re, rows, columns))
    }

    /// Stacks this matrix on top of another one.
    #[track_caller]
    pub fn above(self, below: Matrix<'g>) -> Matrix<'g> {
        let (row_axis, _) = axes(self.re);
        let join = |one: Expr<'g>, other: Expr<'g>| Expr::concat(&[one, other], row_axis);
        let im = self.im.zip(below.im).map(|(one, other)| join(one, other));
        Matrix { re: join(self.re, below.re), im }
    }

    /// Returns zero for each matrix, or NaN if it contains NaN or an infinity.
    #[track_caller]
    pub fn zero_or_nan(self) -> Expr<'g> {
        let (row_axis, column_axis) = axes(self.re);
        let of_part = |part: Expr<'g>| (part * 0.0).reduce_sum(&[row_axis, column_axis], true);
        let zero = of_part(self.re);
        self.im.map_or(zero, |im| zero + of_part(im))
    }

    /// Returns the largest `max(|re|, |im|)` in each matrix.
    #[track_caller]
    pub fn magnitude(self) -> Expr<'g> {
        let (row_axis, column_axis) = axes(self.re);
        self.larger_parts().reduce(OpType::ReduceMax, &[row_axis, column_axis], true)
    }

    /// Returns `|z|` and `z / |z|`, which is one for zero.
    #[track_caller]
    pub fn polar(self) -> (Expr<'g>, Matrix<'g>) {
        let one = self.constant(1.0);
        let scale = self.larger_parts();
        let is_zero = scale.equal(0.0);
        let scaled = Matrix::choose(is_zero, one, self.over(is_zero.select(one.re, scale)));
        let length = scaled.squares().sqrt();
        (length * scale, scaled.over(length))
    }
}

impl<'g> Add for Matrix<'g> {
    type Output = Matrix<'g>;

    #[track_caller]
    fn add(self, other: Matrix<'g>) -> Matrix<'g> {
        let im = match (self.im, other.im) {
            (Some(x), Some(y)) => Some(x + y),
            (x, y) => x.or(y),
        };
        Matrix { re: self.re + other.re, im }
    }
}

impl<'g> Sub for Matrix<'g> {
    type Output = Matrix<'g>;

    #[track_caller]
    fn sub(self, other: Matrix<'g>) -> Matrix<'g> {
        let im = match (self.im, other.im) {
            (Some(x), Some(y)) => Some(x - y),
            (x, y) => x.or_else(|| y.map(|y| -y)),
        };
        Matrix { re: self.re - other.re, im }
    }
}

impl<'g> Mul for Matrix<'g> {
    type Output = Matrix<'g>;

    #[track_caller]
    fn mul(self, other: Matrix<'g>) -> Matrix<'g> {
        match (self.im, other.im) {
            (Some(b), Some(d)) => {
                let (a, c) = (self.re, other.re);
                Matrix { re: a * c - b * d, im: Some(a * d + b * c) }
            }
            (_, None) => self.times(other.re),
            (None, _) => other.map(|part| self.re * part),
        }
    }
}

impl<'g> Neg for Matrix<'g> {
    type Output = Matrix<'g>;

    #[track_caller]
    fn neg(self) -> Matrix<'g> {
        self.map(|part| -part)
    }
}
