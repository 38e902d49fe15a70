//! The modified Bessel functions of the first kind, scaled by `exp(−|x|)`.
//!
//! The coefficients of `P` are from an interpolation at Chebyshev nodes.

use onnx::Expr;

use crate::elementwise::polynomial::polynomial;
use crate::elementwise::special::{by_precision, in_single};

/// `exp(−|x|) · I₀(x)`
pub(crate) fn bessel_i0e(x: Expr<'_>) -> Expr<'_> {
    in_single([x], |[x]| scaled(x.abs(), 0, by_precision(x, I0_SINGLE, I0_DOUBLE)))
}

/// `exp(−|x|) · I₁(x)`, which is odd
pub(crate) fn bessel_i1e(x: Expr<'_>) -> Expr<'_> {
    in_single([x], |[x]| {
        let value = scaled(x.abs(), 1, by_precision(x, I1_SINGLE, I1_DOUBLE));
        x.less(0.0).select(-value, value)
    })
}

/// `exp(−x) · (x / 2)ⁿ · Σ (x² / 4)ᵏ / (k! (k + n)!)` below the limit, `P(1 / x) / √x` above
///
/// The variable of the series is `(x / limit)²`, because ONNX Runtime omits the addition of a
/// constant that is zero in single precision.
fn scaled<'g>(x: Expr<'g>, order: u32, far: &[f64]) -> Expr<'g> {
    let (limit, count) = by_precision(x, (8.0, 16), (16.0, 33));
    let part = x * (1.0 / limit);
    let terms = series_terms(order, limit * limit / 4.0, count);
    let series = (-x).exp() * polynomial(part * part, &terms);
    let near = if order == 1 { x * 0.5 * series } else { series };
    let far = polynomial(x.recip(), far) / x.sqrt();
    x.less(limit).select(near, far)
}

/// Returns `scaleᵏ / (k! (k + n)!)`, in descending order of `k`.
fn series_terms(order: u32, scale: f64, count: u32) -> Vec<f64> {
    let next = |term: &mut f64, k: u32| {
        if k > 0 {
            *term *= scale / (f64::from(k) * f64::from(k + order));
        }
        Some(*term)
    };
    let mut terms: Vec<f64> = (0..count).scan(1.0, next).collect();
    terms.reverse();
    terms
}

const I0_SINGLE: &[f64] = &[
    0.371_994_927_5,
    -0.008_832_300_377,
    0.033_233_373_13,
    0.027_923_534_13,
    0.049_869_199_16,
    0.398_942_277_9,
];

const I0_DOUBLE: &[f64] = &[
    55_690.310_555_083_24,
    -15_827.031_297_429_634,
    2_206.505_526_106_838_7,
    -161.233_152_865_530_2,
    11.100_125_917_133_171,
    0.396_103_322_460_934_2,
    0.235_034_744_445_040_55,
    0.090_503_720_776_279_93,
    0.044_743_156_009_318_73,
    0.029_219_400_035_778_265,
    0.028_050_629_105_913_442,
    0.049_867_785_050_162,
    0.398_942_280_401_432_7,
];

const I1_SINGLE: &[f64] = &[
    -0.432_109_109_5,
    0.003_330_508_494,
    -0.045_455_932_71,
    -0.046_607_194_26,
    -0.149_604_954_8,
    0.398_942_283_2,
];

const I1_DOUBLE: &[f64] = &[
    -58_989.604_048_196_255,
    16_730.651_617_781_477,
    -2_334.763_663_198_701,
    169.822_202_763_896_26,
    -11.916_068_813_553_968,
    -0.485_514_544_231_234_6,
    -0.276_937_467_064_051_26,
    -0.110_632_092_967_183_13,
    -0.057_526_699_172_610_725,
    -0.040_907_161_858_562_46,
    -0.046_751_048_500_590_88,
    -0.149_603_355_150_519_2,
    0.398_942_280_401_432_65,
];
