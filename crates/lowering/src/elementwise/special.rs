//! The error function, its complement and its inverse, and helpers for special functions.

use std::f64::consts::FRAC_2_SQRT_PI;

use onnx::{DType, Expr};

use crate::elementwise::polynomial::polynomial;

/// `erf(x) = x · P(x²)` for `|x| < ½`, otherwise `±(1 − erfc(|x|))`
///
/// ONNX Runtime has `Erf` only in single precision.
pub(crate) fn erf(x: Expr<'_>) -> Expr<'_> {
    if x.dtype() != DType::F64 {
        return x.erf();
    }
    let size = x.abs();
    let near = x * polynomial(x * x, ERF);
    let far = x.sign() * (1.0 - erfc_of_size(size));
    size.greater_equal(0.5).select(far, near)
}

/// `erfc(−x) = 2 − erfc(x)`
///
/// `1 − erf(x)` has no correct digits above about 4 in single precision, and above about 6 in
/// double precision.
pub(crate) fn erfc(x: Expr<'_>) -> Expr<'_> {
    in_single([x], |[x]| {
        let value = erfc_of_size(x.abs());
        x.less(0.0).select(2.0 - value, value)
    })
}

/// `erf⁻¹(x) = x · P(w)` with `w = −log((1 − x) · (1 + x))`, or `x · P(√w)` where `w` is large
///
/// Mike Giles, *Approximating the erfinv function*, 2012.
pub(crate) fn erf_inv(x: Expr<'_>) -> Expr<'_> {
    in_single([x], |[x]| {
        let w = -((1.0 - x) * (1.0 + x)).log();
        let root = w.sqrt();
        let factor = if x.dtype() == DType::F64 {
            let near = polynomial(w - 3.125, ERF_INV_NEAR_DOUBLE);
            let far = polynomial(root - 3.25, ERF_INV_FAR_DOUBLE);
            let farthest = polynomial(root - 5.0, ERF_INV_FARTHEST_DOUBLE);
            w.less(6.25).select(near, w.less(16.0).select(far, farthest))
        } else {
            let near = polynomial(w - 2.5, ERF_INV_NEAR_SINGLE);
            let far = polynomial(root - 3.0, ERF_INV_FAR_SINGLE);
            w.less(5.0).select(near, far)
        };
        x * w.is_inf().select(w, factor)
    })
}

/// `erfc(x) = exp(−x²) · P(t) / (1 + 2x)` for `x ≥ 0`, with `t = (x − 3) / (x + 3)`
///
/// The coefficients are from an interpolation at Chebyshev nodes; with the last one, `erfc(0)` is 1. The
/// exponential would multiply the rounding error of `x²`, so the formula uses `x² = c² + (x − c) · (x + c)`,
/// where `c` has few bits. Beyond `limit`, the result is zero.
#[track_caller]
fn erfc_of_size(x: Expr<'_>) -> Expr<'_> {
    x.builder.helper("erfc_of_size", || {
        let (limit, coefficients) = by_precision(x, (10.5, ERFC_SINGLE), (28.0, ERFC_DOUBLE));
        let x = x.min(limit);
        let c = (x * 16.0).floor() / 16.0;
        let bell = (-(c * c)).exp() * ((c - x) * (c + x)).exp();
        let t = (x - 3.0) / (x + 3.0);
        bell * (polynomial(t, coefficients) / (x * 2.0 + 1.0))
    })
}

/// If the operands have less than single precision, computes a formula in single precision and
/// rounds the result once, as JAX does.
pub(crate) fn in_single<'g, const N: usize>(
    operands: [Expr<'g>; N],
    formula: impl FnOnce([Expr<'g>; N]) -> Expr<'g>,
) -> Expr<'g> {
    let dtype = operands[0].dtype();
    if dtype.bits() >= 32 {
        return formula(operands);
    }
    formula(operands.map(|operand| operand.cast(DType::F32))).cast(dtype)
}

/// Returns `double` if `x` has double precision, otherwise `single`.
pub(crate) fn by_precision<T>(x: Expr<'_>, single: T, double: T) -> T {
    if x.dtype() == DType::F64 { double } else { single }
}

/// Returns the distance from 1 to the next number of the type of `x`.
pub(crate) fn epsilon(x: Expr<'_>) -> f64 {
    by_precision(x, f64::from(f32::EPSILON), f64::EPSILON)
}

const ERF: &[f64] = &[
    1.472_586_548_055_674_4e-6,
    -1.484_584_925_970_786_9e-5,
    0.000_120_533_351_243_537_41,
    -0.000_854_829_775_367_496_6,
    0.005_223_977_373_021_47,
    -0.026_866_170_632_887_928,
    0.112_837_916_709_253_53,
    -0.376_126_389_031_834_76,
    FRAC_2_SQRT_PI,
];

const ERFC_SINGLE: &[f64] = &[
    -0.000_273_595_999_3,
    -0.000_788_120_753,
    0.002_001_771_226,
    0.002_576_856_517,
    -0.023_794_664_53,
    0.068_293_029_06,
    -0.119_271_919_3,
    0.129_646_714_9,
    -0.047_562_318_17,
    -0.135_621_149_1,
    1.253_008_127,
];

const ERFC_DOUBLE: &[f64] = &[
    -4.210_104_975_119_195e-9,
    -8.500_119_502_115_306e-9,
    3.291_634_396_766_32e-8,
    9.186_243_026_143_847e-8,
    -1.311_166_137_536_459e-7,
    -6.050_048_623_933_503e-7,
    3.489_919_788_974_429_3e-7,
    3.463_997_532_352_904e-6,
    -7.275_875_746_667_183e-7,
    -2.009_663_087_595_395e-5,
    4.948_147_875_576_539e-6,
    0.000_125_098_151_748_643_22,
    -0.000_105_159_490_337_759_75,
    -0.000_779_832_037_961_111_5,
    0.001_888_690_312_003_782,
    0.002_529_391_788_270_445,
    -0.023_770_514_914_233_67,
    0.068_308_027_345_804_59,
    -0.119_273_663_415_528_53,
    0.129_645_158_702_705_52,
    -0.047_562_294_353_446_374,
    -0.135_621_106_124_580_7,
    1.253_008_058_269_729_8,
];

const ERF_INV_NEAR_SINGLE: &[f64] = &[
    2.810_226_36e-8,
    3.432_739_39e-7,
    -3.523_387_7e-6,
    -4.391_506_54e-6,
    0.000_218_580_87,
    -0.001_253_725_03,
    -0.004_177_681_64,
    0.246_640_727,
    1.501_409_41,
];

const ERF_INV_FAR_SINGLE: &[f64] = &[
    -0.000_200_214_257,
    0.000_100_950_558,
    0.001_349_343_22,
    -0.003_673_428_44,
    0.005_739_507_73,
    -0.007_622_461_3,
    0.009_438_870_47,
    1.001_674_06,
    2.832_976_82,
];

const ERF_INV_NEAR_DOUBLE: &[f64] = &[
    -3.644_412_064_017_82e-21,
    -1.685_059_138_182_016_6e-19,
    1.285_848_071_525_64e-18,
    1.115_787_767_802_518_1e-17,
    -1.333_171_662_854_621e-16,
    2.097_276_787_596_856_2e-17,
    6.637_638_134_358_324e-15,
    -4.054_566_272_975_207e-14,
    -8.151_934_197_605_472e-14,
    2.633_509_315_308_232_3e-12,
    -1.297_513_325_345_353_2e-11,
    -5.415_412_054_294_628e-11,
    1.051_212_273_321_532_3e-9,
    -4.112_633_980_346_984e-9,
    -2.907_036_995_788_200_5e-8,
    4.234_787_782_793_240_4e-7,
    -1.365_469_200_083_467_9e-6,
    -1.388_252_336_278_646_9e-5,
    0.000_186_734_208_034_057_14,
    -0.000_740_702_534_166_267,
    -0.006_033_670_871_430_149,
    0.240_158_182_425_589_62,
    1.653_654_562_683_102_7,
];

const ERF_INV_FAR_DOUBLE: &[f64] = &[
    2.213_737_692_177_578_7e-9,
    9.075_656_193_888_539e-8,
    -2.751_740_629_706_454_5e-7,
    1.823_962_921_438_922_8e-8,
    1.502_740_396_890_982_8e-6,
    -4.013_867_526_981_546e-6,
    2.923_444_908_995_544_6e-6,
    1.247_530_448_167_177_9e-5,
    -4.731_822_900_905_573_4e-5,
    6.828_485_145_957_318e-5,
    2.403_111_038_709_789_4e-5,
    -0.000_355_037_520_362_847_5,
    0.000_953_289_379_737_380_5,
    -0.001_688_275_556_023_504_7,
    0.002_491_442_096_107_851,
    -0.003_751_208_507_569_241,
    0.005_370_914_553_590_064,
    1.005_258_967_694_159_2,
    3.083_885_610_492_220_8,
];

const ERF_INV_FARTHEST_DOUBLE: &[f64] = &[
    -2.710_992_061_643_857_3e-11,
    -2.555_641_816_996_525e-10,
    1.507_657_269_350_054_8e-9,
    -3.789_465_440_126_737e-9,
    7.615_701_208_078_34e-9,
    -1.496_002_662_714_924e-8,
    2.914_795_345_090_108e-8,
    -6.771_199_775_845_234e-8,
    2.290_048_222_802_665_5e-7,
    -9.929_827_294_231_7e-7,
    4.526_062_597_223_154e-6,
    -1.968_177_810_553_167e-5,
    7.599_527_703_001_776e-5,
    -0.000_215_030_119_300_444_77,
    -0.000_138_719_318_336_231_22,
    1.010_300_464_864_534_4,
    4.849_906_401_408_584,
];
