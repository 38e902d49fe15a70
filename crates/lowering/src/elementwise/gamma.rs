//! The logarithm of the gamma function, and its derivative.
//!
//! The coefficients are from an interpolation at Chebyshev nodes.

use std::f64::consts::PI;

use onnx::Expr;

use crate::ctx::{Ctx, Eqn};
use crate::elementwise::polynomial::polynomial;
use crate::elementwise::special::{by_precision, in_single};
use crate::error::Result;

/// `ψ(x)`
pub(crate) fn digamma<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let at_zero = digamma_at_zero(eqn)?;
    let [x] = eqn.operands()?;
    Ok(psi(x, at_zero))
}

/// Returns `ψ(0)`: NaN before JAX 0.11.2, and `-inf` since then.
pub(crate) fn digamma_at_zero(eqn: &Eqn<'_, '_>) -> Result<f64> {
    let is_infinite = eqn.optional("infinite_at_zero")?.unwrap_or(false);
    Ok(if is_infinite { f64::NEG_INFINITY } else { f64::NAN })
}

/// `ψ(x) = ψ(1 − x) − π / tan(πx)` below ½; NaN at the negative poles
pub(crate) fn psi(x: Expr<'_>, at_zero: f64) -> Expr<'_> {
    in_single([x], |[x]| {
        let is_left = x.less(0.5);
        let value = digamma_from_half(is_left.select(1.0 - x, x));
        let angle = past_integer(x) * PI;
        let mirrored = value - angle.cos() / angle.sin() * PI;
        let value = is_pole(x).select(x.constant(f64::NAN), is_left.select(mirrored, value));
        if at_zero.is_nan() { value } else { x.equal(0.0).select(x.constant(at_zero), value) }
    })
}

/// `log|Γ(x)| = log(π) − log|sin(πx)| − log|Γ(1 − x)|` below ½; infinite at the poles
pub(crate) fn lgamma(x: Expr<'_>) -> Expr<'_> {
    in_single([x], |[x]| {
        let is_left = x.less(0.5);
        let value = lgamma_from_half(is_left.select(1.0 - x, x));
        let sine = (past_integer(x).abs() * PI).sin();
        let mirrored = PI.ln() - sine.log() - value;
        is_pole(x).select(x.constant(f64::INFINITY), is_left.select(mirrored, value))
    })
}

/// `ψ(x) = log(y) − 1 / 2y − P(1 / y²) / y² − 1 / x − 1 / (x + 1) − 1 / (x + 2)` for `x ≥ ½`, with
/// `y = x + 3`
fn digamma_from_half(x: Expr<'_>) -> Expr<'_> {
    let y = x + 3.0;
    let inverse = y.recip();
    let square = inverse * inverse;
    let series = square * polynomial(square, by_precision(x, DIGAMMA_SINGLE, DIGAMMA_DOUBLE));
    let far = y.log() - (inverse * 0.5 + series);
    let steps = x.recip() + (x + 1.0).recip() + (x + 2.0).recip();
    far - steps
}

/// `log Γ(x) = (x − ½) · (log(x) − 1) + (log(2π) − 1) / 2 + S(1 / x²) / x` for `x ≥ 3`,
/// `(x − 1) · (x − 2) · P(x) / Q(x)` for `½ ≤ x < 3`
///
/// The factors keep the results precise near the zeros at 1 and 2.
fn lgamma_from_half(x: Expr<'_>) -> Expr<'_> {
    let (p, q) =
        by_precision(x, (LGAMMA_P_SINGLE, LGAMMA_Q_SINGLE), (LGAMMA_P_DOUBLE, LGAMMA_Q_DOUBLE));
    let near = (x - 1.0) * (x - 2.0) * (polynomial(x, p) / polynomial(x, q));

    let inverse = x.recip();
    let stirling = by_precision(x, STIRLING_SINGLE, STIRLING_DOUBLE);
    let series = inverse * polynomial(inverse * inverse, stirling);
    let far = (x - 0.5) * (x.log() - 1.0) + (series + ((2.0 * PI).ln() - 1.0) / 2.0);

    x.less(3.0).select(near, far)
}

/// Returns `x` minus the nearest integer.
#[track_caller]
fn past_integer(x: Expr<'_>) -> Expr<'_> {
    x.builder.helper("past_integer", || x - x.round())
}

/// True if `x` is zero, a negative integer, or negative infinity.
#[track_caller]
fn is_pole(x: Expr<'_>) -> Expr<'_> {
    x.builder.helper("is_pole", || x.less_equal(0.0).and(x.equal(x.floor())))
}

const DIGAMMA_SINGLE: &[f64] = &[0.003_527_997_959, -0.008_320_416_284, 0.083_333_275_19];

const DIGAMMA_DOUBLE: &[f64] = &[
    -1.708_597_492_481_157,
    0.996_850_814_505_295_9,
    -0.307_958_223_827_437_04,
    0.076_979_016_650_955_74,
    -0.020_891_876_522_879_13,
    0.007_571_704_572_467_314,
    -0.004_166_618_333_192_170_4,
    0.003_968_253_669_719_19,
    -0.008_333_333_332_607_166,
    0.083_333_333_333_333_04,
];

const LGAMMA_P_SINGLE: &[f64] =
    &[0.016_337_796_03, 3.126_415_913, 32.246_926_15, 68.701_391_15, 34.122_363_09, 2.939_118_442];

const LGAMMA_Q_SINGLE: &[f64] =
    &[1.0, 20.731_358_23, 88.996_365_02, 103.056_521_1, 29.440_025_79, 1.316_134_978];

const LGAMMA_P_DOUBLE: &[f64] = &[
    0.004_970_028_819_544,
    4.372_081_923_570_901,
    228.273_093_750_974_17,
    3_420.153_597_894_411,
    20_176.476_181_538_8,
    53_113.638_192_474_886,
    65_185.702_766_834_79,
    36_833.496_967_891_25,
    8_927.564_209_028_858,
    777.269_820_631_999_6,
    15.192_626_950_323_943,
];

const LGAMMA_Q_DOUBLE: &[f64] = &[
    1.0,
    81.999_362_571_312_36,
    1_789.257_706_769_659_5,
    15_189.227_820_721_913,
    58_267.125_683_111_146,
    107_495.189_939_842_14,
    96_245.470_928_078_44,
    40_227.110_698_594_05,
    7_143.035_743_333_58,
    438.488_555_245_263_17,
    5.364_377_218_673_988,
];

const STIRLING_SINGLE: &[f64] = &[0.000_708_591_053_1, -0.002_774_386_724, 0.083_333_312_56];

const STIRLING_DOUBLE: &[f64] = &[
    -0.060_672_533_076_304_73,
    0.046_498_799_243_722_6,
    -0.018_431_231_442_583_71,
    0.005_726_056_083_836_847,
    -0.001_888_716_724_424_404,
    0.000_840_970_133_166_110_8,
    -0.000_595_225_525_344_839_1,
    0.000_793_650_688_491_504_8,
    -0.002_777_777_777_430_5,
    0.083_333_333_333_333_13,
];
