//! Complex numbers, as pairs of a real and an imaginary part.

mod fft;

use onnx::{Dim, Expr, Type};

pub(crate) use fft::fft;

use crate::ctx::{Ctx, Eqn};
use crate::elementwise::exponential;
use crate::elementwise::hyperbolic::{cosh, sinh};
use crate::elementwise::power::by_squaring;
use crate::elementwise::trigonometric::{atan2, tan};
use crate::error::Result;

/// `re + i·im`
#[derive(Clone, Copy)]
pub(crate) struct Complex<'g> {
    pub re: Expr<'g>,
    pub im: Expr<'g>,
}

impl<'g> Complex<'g> {
    /// Takes the pairs apart.
    #[track_caller]
    pub fn of(pairs: Expr<'g>) -> Complex<'g> {
        let axis = pairs.rank() - 1;
        let part = |i: i64| pairs.slice_axis(axis, i, i + 1).squeeze(&[axis]);
        Complex { re: part(0), im: part(1) }
    }

    /// Returns the pairs, each part broadcast to the shape of both.
    #[track_caller]
    pub fn pairs(self) -> Expr<'g> {
        let shape = onnx::expr::broadcast_shapes(&self.re.shape(), &self.im.shape());
        let shape = shape.unwrap_or_else(|| self.re.shape().to_vec());
        let part = |part: Expr<'g>| part.expand(&shape).unsqueeze(&[shape.len()]);
        Expr::concat(&[part(self.re), part(self.im)], shape.len())
    }

    #[track_caller]
    pub fn neg(self) -> Complex<'g> {
        Complex { re: -self.re, im: -self.im }
    }

    /// `(a + ib)(c + id) = ac − bd + i(ad + bc)`
    #[track_caller]
    pub fn mul(self, other: Complex<'g>) -> Complex<'g> {
        let Complex { re: a, im: b } = self;
        let Complex { re: c, im: d } = other;
        Complex { re: a * c - b * d, im: a * d + b * c }
    }

    #[track_caller]
    pub fn times(self, factor: Expr<'g>) -> Complex<'g> {
        Complex { re: self.re * factor, im: self.im * factor }
    }

    /// `z / w = z · w̄ / |w|²`, with `w` scaled by its larger part so that the square does not overflow
    #[track_caller]
    pub fn div(self, other: Complex<'g>) -> Complex<'g> {
        let Complex { re: c, im: d } = other;
        let scale = c.abs().max(d.abs());
        let (c, d) = (c / scale, d / scale);
        let norm = (c * c + d * d) * scale;
        let product = self.mul(Complex { re: c, im: -d });
        Complex { re: product.re / norm, im: product.im / norm }
    }

    #[track_caller]
    pub fn recip(self) -> Complex<'g> {
        Complex { re: self.re.constant(1.0), im: self.re.constant(0.0) }.div(self)
    }

    /// `|z| = m · √(1 + (n / m)²)` with the larger part `m` and the smaller `n`
    #[track_caller]
    pub fn abs(self) -> Expr<'g> {
        let (a, b) = (self.re.abs(), self.im.abs());
        let (larger, smaller) = (a.max(b), a.min(b));
        let ratio = smaller / larger;
        let size = larger * (ratio * ratio + 1.0).sqrt();
        let plain = larger.equal(0.0).or(larger.is_inf());
        plain.select(larger, size)
    }

    /// `exp(a + ib) = eᵃ (cos b + i sin b)`
    pub fn exp(self) -> Complex<'g> {
        Complex { re: self.im.cos(), im: self.im.sin() }.times(self.re.exp())
    }

    /// `exp(a + ib) − 1 = expm1(a) cos b − 2 sin²(b / 2) + i eᵃ sin b`
    pub fn expm1(self) -> Complex<'g> {
        let half = (self.im / 2.0).sin();
        let re = exponential::expm1(self.re) * self.im.cos() - half * half * 2.0;
        Complex { re, im: self.re.exp() * self.im.sin() }
    }

    /// `log z = log|z| + i arg z`
    pub fn log(self) -> Complex<'g> {
        Complex { re: self.abs().log(), im: atan2(self.im, self.re) }
    }

    /// `log(1 + z)`, with `log|1 + z| = ½ log1p(a (a + 2) + b²)`
    pub fn log1p(self) -> Complex<'g> {
        let Complex { re: a, im: b } = self;
        let re = exponential::log1p(a * (a + 2.0) + b * b) / 2.0;
        Complex { re, im: atan2(b, a + 1.0) }
    }

    /// `√z`, with `t = √((|z| + |a|) / 2)`: `t + i b / 2t` where `a ≥ 0`, else `|b| / 2t ± i t`
    pub fn sqrt(self) -> Complex<'g> {
        let Complex { re: a, im: b } = self;
        let t = (self.abs() / 2.0 + a.abs() / 2.0).sqrt();
        let other = t.equal(0.0).select(t, b / (t * 2.0));
        let is_right = a.greater_equal(0.0);
        let signed = b.less(0.0).select(-t, t);
        Complex { re: is_right.select(t, other.abs()), im: is_right.select(other, signed) }
    }

    pub fn rsqrt(self) -> Complex<'g> {
        self.sqrt().recip()
    }

    /// `z^w = exp(w log z)`, and `0^w = 0` but for `w = 0`
    pub fn pow(self, power: Complex<'g>) -> Complex<'g> {
        let value = power.mul(self.log()).exp();
        let is_zero = self.re.equal(0.0).and(self.im.equal(0.0));
        let to_zero = power.re.equal(0.0).and(power.im.equal(0.0));
        let at_zero = to_zero.select(self.re.constant(1.0), 0.0);
        Complex {
            re: is_zero.select(at_zero, value.re),
            im: is_zero.select(self.re.constant(0.0), value.im),
        }
    }

    /// `sin(a + ib) = sin a cosh b + i cos a sinh b`
    pub fn sin(self) -> Complex<'g> {
        let Complex { re: a, im: b } = self;
        Complex { re: a.sin() * cosh(b), im: a.cos() * sinh(b) }
    }

    /// `cos(a + ib) = cos a cosh b − i sin a sinh b`
    pub fn cos(self) -> Complex<'g> {
        let Complex { re: a, im: b } = self;
        Complex { re: a.cos() * cosh(b), im: -(a.sin() * sinh(b)) }
    }

    /// `tan z = −i tanh(iz)`
    pub fn tan(self) -> Complex<'g> {
        let Complex { re, im } = Complex { re: -self.im, im: self.re }.tanh();
        Complex { re: im, im: -re }
    }

    /// `sinh(a + ib) = sinh a cos b + i cosh a sin b`
    pub fn sinh(self) -> Complex<'g> {
        let Complex { re: a, im: b } = self;
        Complex { re: sinh(a) * b.cos(), im: cosh(a) * b.sin() }
    }

    /// `cosh(a + ib) = cosh a cos b + i sinh a sin b`
    pub fn cosh(self) -> Complex<'g> {
        let Complex { re: a, im: b } = self;
        Complex { re: cosh(a) * b.cos(), im: sinh(a) * b.sin() }
    }

    /// `tanh(a + ib) = (tanh a + i tan b) / (1 + i tanh a tan b)`
    pub fn tanh(self) -> Complex<'g> {
        let (t, s) = (self.re.tanh(), tan(self.im));
        Complex { re: t, im: s }.div(Complex { re: t.constant(1.0), im: t * s })
    }

    /// `1 / (1 + exp(−z))`
    pub fn logistic(self) -> Complex<'g> {
        let Complex { re, im } = self.neg().exp();
        Complex { re: re + 1.0, im }.recip()
    }

    /// `z / |z|`, and zero of zero
    pub fn sign(self) -> Complex<'g> {
        let size = self.abs();
        let safe = size.equal(0.0).select(size.constant(1.0), size);
        Complex { re: self.re / safe, im: self.im / safe }
    }

    pub fn square(self) -> Complex<'g> {
        self.mul(self)
    }
}

/// `a + ib` of `a` and `b`
pub(crate) fn complex<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let [re, im] = eqn.operands()?;
    Ok(Complex { re, im }.pairs())
}

/// `a` of `a + ib`
pub(crate) fn real<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let [z] = eqn.operands()?;
    Ok(Complex::of(z).re)
}

/// `b` of `a + ib`
pub(crate) fn imag<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let [z] = eqn.operands()?;
    Ok(Complex::of(z).im)
}

/// `a − ib` of `a + ib`; a real number becomes complex
pub(crate) fn conj<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    eqn.ignore(&["input_dtype"]);
    let [z] = eqn.operands()?;
    let z = if eqn.is_complex_operand(0) { Complex::of(z) } else { of_real(z) };
    Ok(Complex { re: z.re, im: -z.im }.pairs())
}

/// `|z|`
pub(crate) fn abs<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let [z] = eqn.operands()?;
    Ok(Complex::of(z).abs())
}

/// True if both parts are equal
pub(crate) fn eq<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let [z, w] = eqn.operands()?.map(Complex::of);
    Ok(z.re.equal(w.re).and(z.im.equal(w.im)))
}

/// True if some part differs
pub(crate) fn ne<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    Ok(eq(ctx, eqn)?.logical_not())
}

/// `z · w` of pairs
#[track_caller]
pub(crate) fn product<'g>(z: Expr<'g>, w: Expr<'g>) -> Expr<'g> {
    Complex::of(z).mul(Complex::of(w)).pairs()
}

/// `zⁿ` by squaring
pub(crate) fn integer_pow<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let n: i64 = eqn.param("y")?;
    eqn.ignore(&["accuracy"]);
    let [z] = eqn.operands()?.map(Complex::of);
    let power = by_squaring(z, n.unsigned_abs(), Complex::mul).unwrap_or_else(|| {
        let one = z.re.constant(1.0).expand(&z.re.shape());
        Complex { re: one, im: z.re.constant(0.0) }
    });
    Ok(if n < 0 { power.recip() } else { power }.pairs())
}

/// Returns a complex number in another precision, or a real one with no imaginary part
pub(crate) fn convert<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    eqn.ignore(&["new_dtype", "weak_type", "sharding"]);
    let [x] = eqn.operands()?;
    let result = eqn.output()?;
    match (eqn.is_complex_operand(0), eqn.part_axes()) {
        (true, 1) => Ok(x.cast(result.dtype)),
        (false, 1) => Ok(of_real(x.cast(result.dtype)).pairs()),
        _ => {
            let what = "the conversion of a complex number to a real one".into();
            Err(crate::Refused::NoCounterpart { what }.into())
        }
    }
}

fn of_real(x: Expr<'_>) -> Complex<'_> {
    Complex { re: x, im: x.constant(0.0) }
}

/// Returns the type of one part of an array of pairs.
pub(crate) fn part_type(pairs: &Type) -> Type {
    let shape: Vec<Dim> = pairs.shape[..pairs.rank().saturating_sub(1)].to_vec();
    Type::new(pairs.dtype, shape)
}
