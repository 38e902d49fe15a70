//! Samples the gamma distribution.

use onnx::{DType, Dim, Expr};

use super::bits::bits;
use super::threefry::Pair;
use super::{is_partitionable, needs_threefry, split, unknown_size, words};
use crate::bodies::until_all;
use crate::ctx::{Ctx, Eqn};
use crate::elementwise::exponential::log1p;
use crate::elementwise::power::pow;
use crate::elementwise::special::erf_inv;
use crate::error::Result;

/// Returns a sample of the gamma distribution for each shape parameter `a`, or its logarithm.
///
/// Marsaglia and Tsang, *A simple method for generating gamma variables*, 2000: `d v³` for a normal
/// sample `x`, with `v = 1 + c x`, `d = a − 1/3` and `c = 1 / (3 √d)`. The formula samples `x`
/// again until a uniform sample accepts it. If `a` is less than one, it uses `a + 1` and multiplies
/// the result by `u^(1/a)`. It uses the keys in the same order as JAX, so the samples are the same.
pub(crate) fn random_gamma<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let in_logs: bool = eqn.param("log_space")?;
    let partitionable = is_partitionable(eqn)?;
    let [key, a] = eqn.operands()?;
    needs_threefry(eqn, eqn.input_dtypes.first())?;

    let shape = a.shape();
    let each = ctx.builder.product(&shape[key.rank() - 1..]);
    let keys = split(words(key), &[each], partitionable).ok_or_else(|| unknown_size(eqn))?;
    let keys = words(keys.reshape(&[&shape[..], &[Dim::Known(2)]].concat()));
    let sampler = Sampler { dtype: a.dtype(), partitionable };

    let is_large = a.greater_equal(1.0);
    let d = is_large.select(a, a + 1.0) - 1.0 / 3.0;
    let [key, boost_key] = sampler.keys(keys);
    let v = sampler.accepted(d, key);
    if in_logs {
        let exponent = log1p(-sampler.uniform(boost_key));
        let boost = exponent * a.recip();
        let boost = is_large.or(exponent.equal(0.0)).select(a.constant(0.0), boost);
        return Ok(d.log() + v.log() + boost);
    }
    let boost = pow(1.0 - sampler.uniform(boost_key), a.recip());
    Ok(d * v * is_large.select(a.constant(1.0), boost))
}

/// The settings for samples from keys.
#[derive(Clone, Copy)]
struct Sampler {
    dtype: DType,
    partitionable: bool,
}

impl Sampler {
    /// Returns `v³` of the first accepted sample for each element.
    fn accepted<'g>(self, d: Expr<'g>, key: Pair<'g>) -> Expr<'g> {
        let c = (1.0 / 3.0) / d.sqrt();
        let like = |value: f64| d.constant(value).expand(&d.shape());
        let state = [key[0], key[1], like(0.0), like(1.0), like(2.0)];
        let is_rejected = |[_, _, x2, v3, u]: [Expr<'g>; 5]| {
            let outside = u.greater_equal(1.0 - 0.0331 * (x2 * x2));
            let bound = x2 * 0.5 + d * ((1.0 - v3) + v3.log());
            outside.and(u.log().greater_equal(bound))
        };
        let step = |[key_0, key_1, ..]: [Expr<'g>; 5]| {
            let [key, x_key, u_key] = self.keys([key_0, key_1]);
            let normal = [x_key[0], x_key[1], like(0.0), like(-1.0)];
            let [.., x, v] = until_all(
                "redraw",
                normal,
                |[.., v]| v.less_equal(0.0),
                |[key_0, key_1, ..]| {
                    let [key, x_key] = self.keys([key_0, key_1]);
                    let x = self.normal(x_key);
                    [key[0], key[1], x, x * c + 1.0]
                },
            );
            [key[0], key[1], x * x, v * v * v, self.uniform(u_key)]
        };
        let [.., v3, _] = until_all("redraw", state, is_rejected, step);
        v3
    }

    /// Splits each key into `N` keys.
    fn keys<'g, const N: usize>(self, key: Pair<'g>) -> [Pair<'g>; N] {
        let axis = key[0].rank();
        // `split` succeeds, because the number of keys is known.
        let keys = split(key, &[Dim::Known(N as i64)], self.partitionable).map(words);
        let [first, second] = keys.unwrap_or(key);
        let at = |word: Expr<'g>, i: i64| word.slice_axis(axis, i, i + 1).squeeze(&[axis]);
        std::array::from_fn(|i| [at(first, i as i64), at(second, i as i64)])
    }

    /// Returns a uniform sample from 0 to 1 (excluded) for each key: random bits of a mantissa.
    fn uniform(self, key: Pair<'_>) -> Expr<'_> {
        let (width, mantissa) = self.widths();
        let bits = bits(key, width, &[], self.partitionable).unwrap_or(key[0]);
        let lowest = match width {
            8 | 16 => bits.bitwise_and(f64::powi(2.0, width as i32) - 1.0),
            _ => bits,
        };
        let number = lowest.shift_right((width - mantissa) as f64).cast(self.dtype);
        number * f64::powi(2.0, -(mantissa as i32))
    }

    /// Returns a normal sample `√2 · erf⁻¹(u)`, with a uniform `u` between −1 and 1, both excluded.
    fn normal(self, key: Pair<'_>) -> Expr<'_> {
        let (_, mantissa) = self.widths();
        let u = self.uniform(key);
        let low = u.constant(f64::powi(2.0, -(mantissa as i32) - 1) - 1.0);
        let u = (u * (1.0 - low) + low).max(low);
        erf_inv(u) * std::f64::consts::SQRT_2
    }

    /// Returns the number of random bits for a sample, and the number of these bits that are used.
    fn widths(self) -> (i64, i64) {
        match self.dtype {
            DType::F64 => (64, 52),
            DType::F16 => (16, 10),
            DType::Bf16 => (8, 7),
            _ => (32, 23),
        }
    }
}
