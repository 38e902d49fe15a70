//! Exponentials, logarithms, powers and trigonometric functions of complex numbers.
//!
//! If a part overflows, is infinite or is NaN, the results are those of XLA. An imaginary part of
//! zero stays zero, and intermediate results do not overflow unless the result does.

use std::f64::consts::{LN_2, LOG2_E};

use onnx::{DType, Expr};

use crate::element::guards_nan;
use crate::elementwise::exponential;
use crate::elementwise::hyperbolic::{cosh, sinh};
use crate::elementwise::trigonometric::{atan2, is_positive};
use crate::parts::Complex;

/// The larger one of `|a|` and `|b|`, and the ratio of the smaller one to it.
pub(super) struct Sizes<'g> {
    pub larger: Expr<'g>,
    /// Equal numbers have the ratio 1, even if both are zero or infinite.
    pub ratio: Expr<'g>,
}

impl<'g> Sizes<'g> {
    pub fn of(a: Expr<'g>, b: Expr<'g>) -> Sizes<'g> {
        let (a, b) = (a.abs(), b.abs());
        let (larger, smaller) = (a.max(b), a.min(b));
        let one = larger.constant(1.0);
        Sizes { larger, ratio: larger.equal(smaller).select(one, smaller / larger) }
    }

    /// `√(1 + ratio²)`
    fn stretch(&self) -> Expr<'g> {
        (self.ratio * self.ratio + 1.0).sqrt()
    }
}

impl<'g> Complex<'g> {
    /// `|z| = m · √(1 + (n / m)²)` with the larger part `m` and the smaller part `n`
    #[track_caller]
    pub fn abs(self) -> Expr<'g> {
        self.re.builder.helper("complex_abs", || {
            let sizes = Sizes::of(self.re, self.im);
            sizes.larger * sizes.stretch()
        })
    }

    /// `exp(a + ib) = eᵃ (cos b + i sin b)`, with `eᵃ` as the square of `exp(a / 2)`
    ///
    /// `exp(a)` may be infinite even if its product with a small sine is finite.
    pub fn exp(self) -> Complex<'g> {
        let root = (self.re * 0.5).exp();
        let re = root * self.im.cos() * root;
        Complex { re, im: self.or_real(root * self.im.sin() * root) }
    }

    /// Returns the imaginary part of a function that maps real numbers to real numbers. As in XLA, it is 0 and not −0
    /// for them: its sign selects a side of the branch cut of a later logarithm.
    fn or_real(self, im: Expr<'g>) -> Expr<'g> {
        self.im.equal(0.0).select(im.constant(0.0), im)
    }

    /// `2^z = exp(z log 2)`
    pub fn exp2(self) -> Complex<'g> {
        let log = self.re.constant(LN_2);
        self.mul(Complex { re: log, im: log.constant(0.0) }).exp()
    }

    /// `exp(a + ib) − 1 = e cos b − 2 sin²(b / 2) + i (e + 1) sin b` with `e = expm1(a)`
    ///
    /// As in XLA, `e + 1` is 0 for large negative `a`.
    pub fn expm1(self) -> Complex<'g> {
        let half = (self.im * 0.5).sin();
        let less = exponential::expm1(self.re);
        let re = less * self.im.cos() - half * half * 2.0;
        Complex { re, im: self.or_real((less + 1.0) * self.im.sin()) }
    }

    /// `log z = log m + ½ log1p((n / m)²) + i arg z` with the larger part `m` and the smaller part
    /// `n`
    pub fn log(self) -> Complex<'g> {
        Complex { re: log_abs(self.re, self.im), im: atan2(self.im, self.re) }
    }

    /// `log₂ z = log z · log₂ e`
    pub fn log2(self) -> Complex<'g> {
        let Complex { re, im } = self.log();
        Complex { re: re * LOG2_E, im: im * LOG2_E }
    }

    /// `log(1 + z)`, with `log|1 + z| = ½ log1p(a (a + 2) + b²)` near zero
    pub fn log1p(self) -> Complex<'g> {
        let Complex { re: a, im: b } = self;
        let shifted = a + 1.0;
        let is_near = a.abs().max(b.abs()).less(0.5);
        let Sizes { larger, ratio } = Sizes::of(shifted, b);
        let square = is_near.select(a * (a + 2.0) + b * b, ratio * ratio);
        let size = is_near.select(larger.constant(1.0), larger);
        let re = size.log() + exponential::log1p(square) * 0.5;
        Complex { re, im: atan2(b, shifted) }
    }

    /// `√z = t + i b / 2t` for `a ≥ 0`, otherwise `|b| / 2t ± i t`
    pub fn sqrt(self) -> Complex<'g> {
        let Complex { re: a, im: b } = self;
        let (large, small) = root_parts(a, b);
        let is_right = a.greater_equal(0.0);
        let im = is_right.select(small, large);
        Complex { re: is_right.select(large, small), im: b.less(0.0).select(-im, im) }
    }

    /// `1 / √z = (q − i s B / 2q) / (√m h)` for `a ≥ 0`, otherwise `(B / 2q − i s q) / (√m h)`
    ///
    /// `m` is the larger part, `h = |z| / m`, `B = |b| / m`, `q = √((h + |a| / m) / 2)`, and `s` is the sign of `b`.
    pub fn rsqrt(self) -> Complex<'g> {
        let Complex { re: a, im: b } = self;
        let sizes = Sizes::of(a, b);
        let stretch = sizes.stretch();
        let is_flat = a.abs().equal(sizes.larger);
        let one = a.constant(1.0);
        let width = is_flat.select(one, sizes.ratio);
        let height = b.abs().equal(sizes.larger).select(one, sizes.ratio);
        let large = ((stretch + width) * 0.5).sqrt();
        let small = height / large * 0.5;
        let divisor = sizes.larger.sqrt() * stretch;
        let is_right = a.greater_equal(0.0);
        let re = is_right.select(large, small) / divisor;
        let im = is_right.select(small, large) / divisor;
        let im = sizes.larger.equal(0.0).select(im.constant(f64::NAN), im);
        let root = Complex { re, im: is_positive(b).select(-im, im) };
        if !guards_nan(a) {
            return root;
        }
        // Zero even if the other part is NaN.
        let is_infinite = a.is_inf().or(b.is_inf());
        let or_zero = |part: Expr<'g>| is_infinite.select(part.constant(0.0), part);
        Complex { re: or_zero(root.re), im: or_zero(root.im) }
    }

    /// `z^w = |z|^c exp(−d arg z) cis(c arg z + d log|z|)` with `w = c + id`
    ///
    /// As in XLA, `1^w = 1`, `z^0 = 1`, real powers of zero and of positive infinity are real, and `0^w` is NaN
    /// if `c` is negative.
    pub fn pow(self, power: Complex<'g>) -> Complex<'g> {
        let Complex { re: a, im: b } = self;
        // JAX takes integers as powers too.
        let [c, d] = [power.re, power.im].map(|part| part.cast(a.dtype()));
        let (size, angle) = (self.abs(), atan2(b, a));
        let is_real = b.equal(0.0);
        let to_real = d.equal(0.0);
        let is_one = to_real.and(c.equal(0.0)).or(is_real.and(a.equal(1.0)));
        let is_limit = a.equal(f64::INFINITY).or(a.equal(0.0).and(c.greater_equal(0.0)));
        let is_plain = is_one.or(is_real.and(to_real).and(is_limit));
        let grown = size.pow(c) * (-d * angle).exp();
        let grown = is_one.select(size.constant(1.0), grown);
        let turn = c * angle + d * size.log();
        Complex {
            re: is_plain.select(grown, grown * turn.cos()),
            im: is_plain.select(size.constant(0.0), grown * turn.sin()),
        }
    }

    /// `sin(a + ib) = sin a cosh b + i cos a sinh b`
    pub fn sin(self) -> Complex<'g> {
        let Complex { re: a, im: b } = self;
        let re = a.equal(0.0).select(a, a.sin() * cosh(b));
        Complex { re, im: a.cos() * sinh(b) }
    }

    /// `cos(a + ib) = cos a cosh b − i sin a sinh b`
    pub fn cos(self) -> Complex<'g> {
        let Complex { re: a, im: b } = self;
        let im = a.equal(0.0).select(a, -(a.sin() * sinh(b)));
        Complex { re: a.cos() * cosh(b), im }
    }

    /// `tan z = −i tanh(iz)`
    pub fn tan(self) -> Complex<'g> {
        let Complex { re, im } = Complex { re: -self.im, im: self.re }.tanh();
        Complex { re: im, im: -re }
    }

    /// `sinh(a + ib) = sinh a cos b + i cosh a sin b`, by `sinh` and `cosh` of `a / 2`
    ///
    /// `sinh a` and `cosh a` may be infinite even if their products with a small sine are finite.
    pub fn sinh(self) -> Complex<'g> {
        let Complex { re: a, im: b } = self;
        let (s, c) = (sinh(a * 0.5) * 2.0, cosh(a * 0.5));
        let sine = b.sin();
        Complex { re: c * b.cos() * s, im: self.or_real(c * 2.0 * sine * c - sine) }
    }

    /// `cosh(a + ib) = cosh a cos b + i sinh a sin b`, by `sinh` and `cosh` of `a / 2`
    pub fn cosh(self) -> Complex<'g> {
        let Complex { re: a, im: b } = self;
        let (s, c) = (sinh(a * 0.5) * 2.0, cosh(a * 0.5));
        let cosine = b.cos();
        Complex { re: c * 2.0 * cosine * c - cosine, im: self.or_real(c * b.sin() * s) }
    }

    /// `tanh(a + ib) = (sinh a cosh a + i sin b cos b) / (sinh² a + cos² b)`
    ///
    /// For large `a`, the result is ±1, and the square would overflow.
    pub fn tanh(self) -> Complex<'g> {
        let Complex { re: a, im: b } = self;
        let limit = if a.dtype() == DType::F64 { 354.0 } else { 44.0 };
        let near = a.max(-limit).min(limit);
        let (s, cosine) = (sinh(near), b.cos());
        let norm = s * s + cosine * cosine;
        let is_limit = a.is_inf();
        let re = is_limit.select(a.sign(), s * cosh(near) / norm);
        let width = a.abs().greater(limit).select(a.constant(f64::INFINITY), norm);
        let im = self.or_real(b.sin() * cosine / width);
        Complex { re, im: is_limit.select(a.constant(0.0), im) }
    }

    /// `1 / (1 + exp(−z))`
    pub fn logistic(self) -> Complex<'g> {
        let Complex { re, im } = self.neg().exp();
        Complex { re: re + 1.0, im }.recip()
    }

    /// `z / |z|`, and zero for zero
    pub fn sign(self) -> Complex<'g> {
        let size = self.abs();
        let safe = size.equal(0.0).select(size.constant(1.0), size);
        Complex { re: self.re / safe, im: self.im / safe }
    }
}

/// `log|a + ib|`, which is finite if the parts are finite and not both zero
pub(super) fn log_abs<'g>(a: Expr<'g>, b: Expr<'g>) -> Expr<'g> {
    a.builder.helper("log_abs", || {
        let Sizes { larger, ratio } = Sizes::of(a, b);
        larger.log() + exponential::log1p(ratio * ratio) * 0.5
    })
}

/// `t = √((|z| + |a|) / 2)` and `|b| / 2t`, the sizes of the parts of `√(a + ib)`
///
/// `t = √m · q`, with the larger part `m`. If `b` is the larger part, `|b| / t = √m / q`, which is
/// correct even for zeros and infinities.
pub(super) fn root_parts<'g>(a: Expr<'g>, b: Expr<'g>) -> (Expr<'g>, Expr<'g>) {
    a.builder.helper("root_parts", || {
        let (width, height) = (a.abs(), b.abs());
        let sizes = Sizes::of(a, b);
        let share = width.equal(sizes.larger).select(a.constant(1.0), sizes.ratio);
        let q = ((sizes.stretch() + share) * 0.5).sqrt();
        let root = sizes.larger.sqrt();
        let t = root * q;
        let quotient = height.equal(sizes.larger).select(root / q, height / t);
        (t, quotient * 0.5)
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn the_exponential_of_a_real_number_is_real() {
        check(
            "z:c64[3] -> w:c64[3] = exp z",
            expect![[r#"
                graph test(in_0:f32[3,2]) -> (out_0)
                %0 = Slice(in_0, [0]:i64, [1]:i64, [1]:i64)
                %1 = Squeeze(%0, [1]:i64)
                %2 = Slice(in_0, [1]:i64, [2]:i64, [1]:i64)
                %3 = Squeeze(%2, [1]:i64)
                %4 = Mul(%1, 0.5)
                %5 = Exp(%4)
                %6 = Cos(%3)
                %7 = Mul(%5, %6)
                %8 = Mul(%7, %5)
                %9 = Sin(%3)
                %10 = Mul(%5, %9)
                %11 = Mul(%10, %5)
                %12 = Equal(%3, 0.0)
                %13 = Where(%12, 0.0, %11)
                %14 = Unsqueeze(%8, [1]:i64)
                %15 = Unsqueeze(%13, [1]:i64)
                out_0:f32[3,2] = Concat(%14, %15) {axis=1}
            "#]],
        );
    }

    #[test]
    fn a_finite_constant_has_no_infinite_quotient() {
        check(
            "jaxpr f(z:c64[3]) {
               w:c64[3] = div (1.0, 0.0):c64[] z
               return w
             }",
            expect![[r#"
                graph test(in_0:f32[3,2]) -> (out_0)
                %0 = Slice(in_0, [0]:i64, [1]:i64, [1]:i64)
                %1 = Squeeze(%0, [1]:i64)
                %2 = Slice(in_0, [1]:i64, [2]:i64, [1]:i64)
                %3 = Squeeze(%2, [1]:i64)
                %4 = Abs(%1)
                %5 = Abs(%3)
                %6 = Less(%4, %5)
                %7 = Add(%4, %5)
                %8 = Equal(%7, 0.0)
                %9 = Where(%6, %1, %3)
                %10 = Where(%6, %3, %1)
                %11 = Div(%9, %10)
                %12 = Mul(%11, %9)
                %13 = Add(%10, %12)
                %14 = Where(%6, 0.0, 1.0)
                %15 = Where(%6, 1.0, 0.0)
                %16 = Mul(%11, %15)
                %17 = Add(%16, %14)
                %18 = Div(%17, %13)
                %19 = Mul(%11, %14)
                %20 = Sub(%15, %19)
                %21 = Div(%20, %13)
                %22 = Neg(%21)
                %23 = Where(%6, %22, %21)
                %24 = IsNaN(%18)
                %25 = IsNaN(%23)
                %26 = And(%24, %25)
                %27 = IsInf(%1)
                %28 = IsInf(%3)
                %29 = Or(%27, %28)
                %30 = Mul(1.0, 0.0)
                %31 = Mul(0.0, 0.0)
                %32 = Add(%30, %31)
                %33 = Reciprocal(%1)
                %34 = Mul(1.0, %33)
                %35 = Mul(0.0, %33)
                %36 = Where(%29, %32, %18)
                %37 = Where(%8, %34, %36)
                %38 = Where(%26, %37, %18)
                %39 = Where(%29, %32, %23)
                %40 = Where(%8, %35, %39)
                %41 = Where(%26, %40, %23)
                %42 = Unsqueeze(%38, [1]:i64)
                %43 = Unsqueeze(%41, [1]:i64)
                out_0:f32[3,2] = Concat(%42, %43) {axis=1}
            "#]],
        );
    }
}
