//! Inverse trigonometric and hyperbolic functions of complex numbers.
//!
//! All formulas are for the first quadrant, where no root crosses its branch cut. The signs are set
//! afterwards.

use std::f64::consts::{FRAC_PI_2, LN_2, PI};

use onnx::{DType, Expr};

use super::functions::{log_abs, root_parts};
use crate::element::guards_nan;
use crate::elementwise::exponential::log1p;
use crate::elementwise::hyperbolic::asinh;
use crate::elementwise::trigonometric::{atan2, is_positive};
use crate::parts::Complex;

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
    /// For large numbers, `atanh z = x / (x² + y²) ± ½ i π`. As in XLA, NaN counts as large, and
    /// the real part is zero if either part is infinite.
    pub fn atanh(self) -> Complex<'g> {
        let large = if self.re.dtype() == DType::F64 { 2_f64.powi(106) } else { 2_f64.powi(48) };
        let (x, y) = (self.re.abs(), self.im.abs());
        let is_near = x.less(large).and(y.less(large));
        let (below, above) = (1.0 - x, x + 1.0);
        let square = y * y;
        let far = (x + y / x * y).recip();
        let far = x.is_inf().or(y.is_inf()).select(far.constant(0.0), far);
        let fraction = is_near.select(x / (below * below + square), far);
        let re = log1p(fraction * 4.0) * 0.25;
        let im = atan2(y * 2.0, below * above - square) * 0.5;
        // On the branch cut near zero, the sign of a zero matters.
        let im = is_positive(self.im).select(im, -im);
        let right = im.constant(FRAC_PI_2);
        let quarter = self.im.greater_equal(0.0).select(right, -right);
        Complex { re: signed(self.re, re), im: is_near.select(im, quarter) }
    }
}

/// Returns the arcs of `x + iy` for positive `x` and `y`.
///
/// With `s = √(1 + z)` and `t = √(1 − z̄)`, `asin z = atan2(x, Re(t̄ s)) + i asinh(Im(t s))` and
/// `Re acos z = 2 atan2(Re t, Re s)`. For large numbers, `asin z = atan2(x, y) + i log 2|z|`.
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
        let height = if guards_nan(x) { height_beside_nan(x, y, height) } else { height };
        Arcs { sine, cosine, height }
    })
}

/// Returns the imaginary part of `asin` with the results of XLA beside a NaN: infinite if `y` is
/// infinite, and `log 2x` if `x` is large and `y` is NaN.
fn height_beside_nan<'g>(x: Expr<'g>, y: Expr<'g>, height: Expr<'g>) -> Expr<'g> {
    let largest = if x.dtype() == DType::F64 { f64::MAX } else { f64::from(f32::MAX) };
    let is_alone = y.is_nan().and(x.greater_equal(largest.sqrt() / 8.0));
    let height = is_alone.select(x.log() + LN_2, height);
    y.equal(f64::INFINITY).select(y, height)
}

/// Returns `size` with the sign of `like`. A zero counts as positive.
fn signed<'g>(like: Expr<'g>, size: Expr<'g>) -> Expr<'g> {
    like.less(0.0).select(-size, size)
}
