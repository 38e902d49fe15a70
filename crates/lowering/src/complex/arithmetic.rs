//! Arithmetic and order of complex numbers.

use onnx::Expr;

use crate::parts::Complex;

impl<'g> Complex<'g> {
    #[track_caller]
    pub fn neg(self) -> Complex<'g> {
        Complex { re: -self.re, im: -self.im }
    }

    /// `(a + ib)(c + id) = ac − bd + i(ad + bc)`
    ///
    /// As in XLA, the product with the constant 1 is the other factor, even if a part of it is
    /// infinite or NaN.
    #[track_caller]
    pub fn mul(self, other: Complex<'g>) -> Complex<'g> {
        if self.is_one() {
            return other;
        }
        if other.is_one() {
            return self;
        }
        let Complex { re: a, im: b } = self;
        let Complex { re: c, im: d } = other;
        Complex { re: a * c - b * d, im: a * d + b * c }
    }

    /// True if the number is the scalar constant 1.
    fn is_one(self) -> bool {
        let is = |part: Expr<'g>, number: f64| {
            part.rank() == 0
                && part.tensor().and_then(|tensor| tensor.floats()).as_deref() == Some(&[number])
        };
        is(self.re, 1.0) && is(self.im, 0.0)
    }

    #[track_caller]
    pub fn times(self, factor: Expr<'g>) -> Complex<'g> {
        Complex { re: self.re * factor, im: self.im * factor }
    }

    /// `z / w`, where `v` is the larger part of `w`, `u` the other part, and `r = u / v`: the
    /// denominator is `v + r·u`
    ///
    /// No square overflows. As in C and XLA, if both parts of the quotient would be NaN, the
    /// quotient is infinite if only `w` is zero or only `z` is infinite, and zero if only `w` is
    /// infinite.
    #[track_caller]
    pub fn div(self, other: Complex<'g>) -> Complex<'g> {
        self.re.builder.helper("complex_div", || {
            let Complex { re: a, im: b } = self;
            let Complex { re: c, im: d } = other;
            let (width, height) = (c.abs(), d.abs());
            let is_steep = width.less(height);
            let is_by_zero = (width + height).equal(0.0);
            let (u, v) = (is_steep.select(c, d), is_steep.select(d, c));
            let ratio = u / v;
            let norm = v + ratio * u;
            let (g, h) = (is_steep.select(b, a), is_steep.select(a, b));
            let re = (ratio * h + g) / norm;
            let im = (h - ratio * g) / norm;
            let im = is_steep.select(-im, im);
            self.with_limits(other, is_by_zero, Complex { re, im })
        })
    }

    /// Replaces the quotient `self / other` by its limit where both parts are NaN.
    fn with_limits(
        self,
        other: Complex<'g>,
        is_by_zero: Expr<'g>,
        quotient: Complex<'g>,
    ) -> Complex<'g> {
        let Complex { re: a, im: b } = self;
        let Complex { re: c, im: d } = other;
        let is_lost = quotient.re.is_nan().and(quotient.im.is_nan());
        let by_infinity = c.is_inf().or(d.is_inf());
        // Zero if the dividend is finite, otherwise NaN.
        let vanishing = a * 0.0 + b * 0.0;
        let infinite = if [a, b].iter().all(|part| is_finite_constant(*part)) {
            quotient
        } else {
            let signs = |x: Expr<'g>| x.is_inf().select(x.sign(), 0.0);
            let direction = Complex { re: signs(a), im: signs(b) };
            direction.mul(Complex { re: c, im: -d }).times(a.constant(f64::INFINITY))
        };
        let by_zero = self.times(c.recip());
        let limit = |by_zero: Expr<'g>, infinite: Expr<'g>, part: Expr<'g>| {
            let limit = by_infinity.select(vanishing, infinite);
            is_lost.select(is_by_zero.select(by_zero, limit), part)
        };
        Complex {
            re: limit(by_zero.re, infinite.re, quotient.re),
            im: limit(by_zero.im, infinite.im, quotient.im),
        }
    }

    #[track_caller]
    pub fn recip(self) -> Complex<'g> {
        Complex { re: self.re.constant(1.0), im: self.re.constant(0.0) }.div(self)
    }

    /// `(a + ib)² = (a − b)(a + b) + 2iab`
    ///
    /// As in XLA, the real part is zero if `|a| = |b|`, even if `a²` or `a + b` overflows.
    pub fn square(self) -> Complex<'g> {
        let Complex { re: a, im: b } = self;
        let is_diagonal = a.abs().equal(b.abs());
        // NaN if `a` is infinite.
        let zero = a.abs() * 0.0;
        Complex { re: is_diagonal.select(zero, (a - b) * (a + b)), im: a * b * 2.0 }
    }

    /// Returns this number where `condition` is true, and `other` elsewhere.
    #[track_caller]
    fn or(self, other: Complex<'g>, condition: Expr<'g>) -> Complex<'g> {
        let choose = |x: Expr<'g>, y: Expr<'g>| condition.select(x, y);
        Complex { re: choose(self.re, other.re), im: choose(self.im, other.im) }
    }

    /// Returns the number with the larger real part. If the real parts are equal, the larger
    /// imaginary part decides.
    ///
    /// As in JAX, returns the second number if the comparison meets a NaN.
    #[track_caller]
    pub fn max(self, other: Complex<'g>) -> Complex<'g> {
        let is_equal = self.re.equal(other.re);
        let above = is_equal.and(self.im.greater(other.im));
        self.or(other, self.re.greater(other.re).or(above))
    }

    /// Returns the number with the smaller real part. If the real parts are equal, the smaller
    /// imaginary part decides.
    #[track_caller]
    pub fn min(self, other: Complex<'g>) -> Complex<'g> {
        let is_equal = self.re.equal(other.re);
        let below = is_equal.and(self.im.less(other.im));
        self.or(other, self.re.less(other.re).or(below))
    }
}

/// Returns the larger number of two arrays of pairs.
#[track_caller]
pub(crate) fn larger<'g>(z: Expr<'g>, w: Expr<'g>) -> Expr<'g> {
    Complex::of(z).max(Complex::of(w)).pairs()
}

/// Returns the smaller number of two arrays of pairs.
#[track_caller]
pub(crate) fn smaller<'g>(z: Expr<'g>, w: Expr<'g>) -> Expr<'g> {
    Complex::of(z).min(Complex::of(w)).pairs()
}

/// `z · w` for arrays of pairs
#[track_caller]
pub(crate) fn product<'g>(z: Expr<'g>, w: Expr<'g>) -> Expr<'g> {
    Complex::of(z).mul(Complex::of(w)).pairs()
}

/// True if `x` is a constant without infinities and NaNs.
fn is_finite_constant(x: Expr<'_>) -> bool {
    let numbers = x.tensor().and_then(|tensor| tensor.floats());
    numbers.is_some_and(|numbers| numbers.iter().all(|number| number.is_finite()))
}
