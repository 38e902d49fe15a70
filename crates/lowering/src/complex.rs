//! Complex numbers, as pairs of a real and an imaginary part.

mod fft;
mod functions;
mod inverse;

use onnx::{Dim, Expr, Type};

pub(crate) use fft::fft;

use crate::ctx::{Ctx, Eqn};
use crate::elementwise::power::by_squaring;
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
        let constant = pairs.tensor().filter(|_| pairs.rank() == 1);
        if let Some(&[re, im]) = constant.and_then(|tensor| tensor.floats()).as_deref() {
            let number = |value| pairs.builder.scalar(pairs.dtype(), value);
            return Complex { re: number(re), im: number(im) };
        }
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
    ///
    /// As in XLA, the product with the constant 1 is the other number, even if a part of it is infinite or NaN.
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

    /// `z / w` by the larger part `v` of `w`: with `r = u / v`, the denominator is `v + r·u`
    ///
    /// No square overflows. As in C and XLA, a quotient of which nothing is left is infinite if only `w` is
    /// zero or only `z` is infinite; and it is zero if only `w` is infinite.
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

    /// Returns the quotient `self / other`, or its limit where both parts are NaN.
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
        // Zero if the dividend is finite, else NaN.
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

    /// Returns this number where `condition` is true, else the other one.
    #[track_caller]
    fn or(self, other: Complex<'g>, condition: Expr<'g>) -> Complex<'g> {
        let choose = |x: Expr<'g>, y: Expr<'g>| condition.select(x, y);
        Complex { re: choose(self.re, other.re), im: choose(self.im, other.im) }
    }

    /// Returns the number with the larger real part; of equal ones, that with the larger imaginary part
    ///
    /// With a NaN, it is the second one, as in JAX.
    #[track_caller]
    pub fn max(self, other: Complex<'g>) -> Complex<'g> {
        let is_equal = self.re.equal(other.re);
        let above = is_equal.and(self.im.greater(other.im));
        self.or(other, self.re.greater(other.re).or(above))
    }

    /// Returns the number with the smaller real part; of equal ones, that with the smaller imaginary part
    #[track_caller]
    pub fn min(self, other: Complex<'g>) -> Complex<'g> {
        let is_equal = self.re.equal(other.re);
        let below = is_equal.and(self.im.less(other.im));
        self.or(other, self.re.less(other.re).or(below))
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

/// Returns the larger of pairs.
#[track_caller]
pub(crate) fn larger<'g>(z: Expr<'g>, w: Expr<'g>) -> Expr<'g> {
    Complex::of(z).max(Complex::of(w)).pairs()
}

/// Returns the smaller of pairs.
#[track_caller]
pub(crate) fn smaller<'g>(z: Expr<'g>, w: Expr<'g>) -> Expr<'g> {
    Complex::of(z).min(Complex::of(w)).pairs()
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

/// `0, 1, 2, …` along one axis, repeated along the others
pub(crate) fn iota<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let axis: usize = eqn.param("dimension")?;
    eqn.ignore(&["dtype", "shape"]);
    Ok(of_real(crate::shape::numbered(ctx, &part_type(eqn.output()?), axis)).pairs())
}

/// Returns a complex number in another precision, a real one with no imaginary part, or the real part
pub(crate) fn convert<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    eqn.ignore(&["new_dtype", "weak_type"]);
    let [x] = eqn.operands()?;
    let result = eqn.output()?;
    match (eqn.is_complex_operand(0), eqn.part_axes()) {
        (true, 1) => Ok(x.cast(result.dtype)),
        (false, 1) => Ok(of_real(x.cast(result.dtype)).pairs()),
        _ => Ok(crate::convert::convert(Complex::of(x).re, result.dtype)),
    }
}

/// True if `x` is a constant without infinities and NaN.
fn is_finite_constant(x: Expr<'_>) -> bool {
    let numbers = x.tensor().and_then(|tensor| tensor.floats());
    numbers.is_some_and(|numbers| numbers.iter().all(|number| number.is_finite()))
}

fn of_real(x: Expr<'_>) -> Complex<'_> {
    Complex { re: x, im: x.constant(0.0) }
}

/// Returns the type of one part of an array of pairs.
pub(crate) fn part_type(pairs: &Type) -> Type {
    let shape: Vec<Dim> = pairs.shape[..pairs.rank().saturating_sub(1)].to_vec();
    Type::new(pairs.dtype, shape)
}
