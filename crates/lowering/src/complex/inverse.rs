//! Inverse trigonometric and hyperbolic functions of complex numbers.
//!
//! All are computed in the first quadrant, where no root crosses its cut, and get their signs afterwards.

use std::f64::consts::{LN_2, PI};

use onnx::{DType, Expr};

use super::Complex;
use super::functions::{log_abs, root_parts};
use crate::elementwise::exponential::log1p;
use crate::elementwise::hyperbolic::asinh;
use crate::elementwise::trigonometric::{atan2, is_positive};

/// The parts of `asin` and `acos` in the first quadrant.
struct Arcs<'g> {
    sine: Expr<'g>,
    cosine: Expr<'g>,
    /// The imaginary part of `asin`.
    height: Expr<'g>,
}

impl<'g> Complex<'g> {
    pub fn asin(self) -> Complex<'g> {
        let arcs = arcs(self.re.abs(), self.im.abs());
        Complex { re: signed(self.re, arcs.sine), im: signed(self.im, arcs.height) }
    }

    /// `acos(−z) = π − acos z`
    pub fn acos(self) -> Complex<'g> {
        let arcs = arcs(self.re.abs(), self.im.abs());
        let re = self.re.less(0.0).select(PI - arcs.cosine, arcs.cosine);
        Complex { re, im: -signed(self.im, arcs.height) }
    }

    /// `asinh z = i asin(−iz)`
    pub fn asinh(self) -> Complex<'g> {
        let arcs = arcs(self.im.abs(), self.re.abs());
        Complex { re: signed(self.re, arcs.height), im: signed(self.im, arcs.sine) }
    }

    /// `acosh z = ±i acos z`
    pub fn acosh(self) -> Complex<'g> {
        let Complex { re, .. } = self.acos();
        let height = arcs(self.re.abs(), self.im.abs()).height;
        Complex { re: height, im: signed(self.im, re) }
    }

    /// `atan z = −i atanh(iz)`
    pub fn atan(self) -> Complex<'g> {
        let Complex { re, im } = Complex { re: -self.im, im: self.re }.atanh();
        Complex { re: im, im: -re }
    }

    /// `atanh z = ¼ log1p(4x / ((1 − x)² + y²)) + ½ i atan2(2y, (1 − x)(1 + x) − y²)`
    ///
    /// Both fractions are divided by the larger part if it is large.
    pub fn atanh(self) -> Complex<'g> {
        let most = if self.re.dtype() == DType::F64 { 1e300 } else { 1e37 };
        let (x, y) = (self.re.abs().min(most), self.im.abs().min(most));
        let larger = x.max(y);
        let one = x.constant(1.0);
        let scale = larger.greater(2.0).select(larger, one);
        let (x, y, one) = (x / scale, y / scale, one / scale);
        let (below, above) = (one - x, one + x);
        let square = y * y;
        let re = log1p(x * 4.0 / (below * below + square) / scale) * 0.25;
        let im = atan2(y * 2.0 * one, below * above - square) * 0.5;
        // On the cut, the sign of a zero counts.
        Complex { re: signed(self.re, re), im: is_positive(self.im).select(im, -im) }
    }
}

/// Returns the arcs of `x + iy` for positive `x` and `y`
///
/// With `s = √(1 + z)` and `t = √(1 − z̄)`, `asin z = atan2(x, Re(t̄ s)) + i asinh(Im(t s))` and
/// `Re acos z = 2 atan2(Re t, Re s)`. Of large numbers, `asin z = atan2(x, y) + i log 2|z|`.
fn arcs<'g>(x: Expr<'g>, y: Expr<'g>) -> Arcs<'g> {
    x.builder.helper("arcs", || {
        let large = if x.dtype() == DType::F64 { 1e16 } else { 1e8 };
        let is_large = x.max(y).greater(large);
        let (s_re, s_im) = root_parts(x + 1.0, y);
        let (t_large, t_small) = root_parts(1.0 - x, y);
        let is_inside = x.less_equal(1.0);
        let t_re = is_inside.select(t_large, t_small);
        let t_im = is_inside.select(t_small, t_large);
        let sine = atan2(x, is_large.select(y, t_re * s_re + t_im * s_im));
        let cosine = atan2(is_large.select(y, t_re), is_large.select(x, s_re));
        let cosine = is_large.select(cosine, cosine * 2.0);
        let height = asinh(t_re * s_im + t_im * s_re);
        let height = is_large.select(log_abs(x, y) + LN_2, height);
        Arcs { sine, cosine, height }
    })
}

/// Returns a positive number with the sign of `like`. A zero counts as positive.
fn signed<'g>(like: Expr<'g>, size: Expr<'g>) -> Expr<'g> {
    like.less(0.0).select(-size, size)
}
