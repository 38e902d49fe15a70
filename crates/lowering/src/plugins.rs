//! The table.

use crate::call::{call, custom_jvp_call, custom_vjp_call, jit, pass_through, remat};
use crate::complex;
use crate::control::{cond, platform_index, scan, while_loop};
use crate::convert::{bitcast, convert_element_type, reduce_precision};
use crate::cumulative::{cumlogsumexp, cummax, cummin, cumprod, cumsum};
use crate::dot_general::dot_general;
use crate::elementwise::{
    arithmetic, bits, clamp, compare, exponential, gamma, hyperbolic, power, rounding, select_n,
    special, trigonometric,
};
use crate::index::{
    dynamic_slice, dynamic_update_slice, gather, scatter, scatter_add, scatter_max, scatter_min,
    scatter_mul, scatter_sub,
};
use crate::plugin::{Plugin, binary, eqn, many, unary};
use crate::reduce::{
    argmax, argmin, reduce_and, reduce_max, reduce_min, reduce_or, reduce_prod, reduce_sum,
    reduce_xor,
};
use crate::shape::{
    broadcast_in_dim, concatenate, dim_as_value, iota, pad, reshape, rev, slice, split, squeeze,
    stack, tile, transpose, unstack,
};
use crate::sort::{approx_top_k, sort, top_k};

/// Every primitive we lower, one line each, alphabetical within its family.
pub const PLUGINS: &[Plugin] = &[
    // Arithmetic.
    unary("abs", |x| x.abs()).complex_eqn(complex::abs),
    binary("add", |x, y| x + y).parts(),
    binary("add_any", |x, y| x + y).parts(),
    eqn("clamp", clamp),
    binary("div", arithmetic::div).complex_pair(|z, w| z.div(w)),
    eqn("integer_pow", power::integer_pow).complex_eqn(complex::integer_pow),
    binary("max", arithmetic::max).limits(&["of zeros with different signs it may be either"]),
    binary("min", arithmetic::min).limits(&["of zeros with different signs it may be either"]),
    binary("mul", |x, y| x * y).bilinear(),
    unary("neg", |x| -x).parts(),
    binary("nextafter", bits::nextafter).limits(&["a negative zero may come out positive"]),
    binary("pow", power::pow).complex_pair(|z, w| z.pow(w)),
    binary("rem", arithmetic::rem),
    unary("sign", arithmetic::sign).complex(|z| z.sign()),
    unary("square", |x| x * x).complex(|z| z.square()),
    binary("sub", |x, y| x - y).parts(),
    // Bits and logic.
    binary("and", bits::and),
    unary("clz", bits::clz),
    unary("not", bits::not),
    binary("or", bits::or),
    unary("population_count", bits::population_count),
    binary("shift_left", bits::shift_left),
    binary("shift_right_arithmetic", bits::shift_right_arithmetic),
    binary("shift_right_logical", bits::shift_right_logical),
    binary("xor", bits::xor),
    // Comparison and selection.
    binary("eq", |x, y| x.equal(y)).complex_eqn(complex::eq),
    binary("ge", compare::ge),
    binary("gt", compare::gt),
    unary("is_finite", compare::is_finite),
    binary("le", compare::le),
    binary("le_to", compare::le_to).limits(&["every NaN counts as positive"]),
    binary("lt", compare::lt),
    binary("lt_to", compare::lt_to).limits(&["every NaN counts as positive"]),
    binary("ne", |x, y| x.not_equal(y)).complex_eqn(complex::ne),
    eqn("select_n", select_n)
        .parts()
        .limits(&["ONNX Runtime makes a negative zero positive, in any case but the first"]),
    // Rounding.
    unary("ceil", |x| x.ceil()),
    unary("floor", |x| x.floor()),
    eqn("round", rounding::round),
    // Powers, exponentials, logarithms.
    unary("cbrt", power::cbrt),
    unary("exp", |x| x.exp()).complex(|z| z.exp()),
    unary("exp2", exponential::exp2),
    unary("expm1", exponential::expm1).complex(|z| z.expm1()),
    unary("log", |x| x.log()).complex(|z| z.log()),
    unary("log1p", exponential::log1p).complex(|z| z.log1p()),
    unary("logistic", exponential::logistic).complex(|z| z.logistic()).limits(&[
        "in float32 ONNX Runtime has an absolute error of 6·10⁻⁸, and gives 0 below −18",
    ]),
    unary("rsqrt", |x| x.sqrt().recip()).complex(|z| z.rsqrt()),
    unary("sqrt", |x| x.sqrt()).complex(|z| z.sqrt()),
    // Trigonometric and hyperbolic.
    unary("acos", trigonometric::acos),
    unary("acosh", hyperbolic::acosh),
    unary("asin", trigonometric::asin),
    unary("asinh", hyperbolic::asinh),
    unary("atan", trigonometric::atan),
    binary("atan2", trigonometric::atan2),
    unary("atanh", hyperbolic::atanh),
    unary("cos", |x| x.cos()).complex(|z| z.cos()),
    unary("cosh", hyperbolic::cosh).complex(|z| z.cosh()),
    unary("sin", |x| x.sin()).complex(|z| z.sin()),
    unary("sinh", hyperbolic::sinh).complex(|z| z.sinh()),
    unary("tan", trigonometric::tan).complex(|z| z.tan()),
    unary("tanh", |x| x.tanh()).complex(|z| z.tanh()),
    // Special functions.
    unary("digamma", gamma::digamma),
    unary("erf", special::erf),
    unary("erf_inv", special::erf_inv),
    unary("erfc", special::erfc),
    unary("lgamma", gamma::lgamma),
    // Types.
    eqn("bitcast_convert_type", bitcast)
        .limits(&["before opset 26 a NaN loses its sign and payload"]),
    eqn("convert_element_type", convert_element_type).complex_eqn(complex::convert),
    eqn("reduce_precision", reduce_precision).limits(&["a mantissa of no bits is refused"]),
    // Reductions.
    eqn("argmax", argmax),
    eqn("argmin", argmin),
    eqn("reduce_and", reduce_and).limits(KNOWN_SIZE_FOR_INTS),
    eqn("reduce_max", reduce_max).limits(NOT_EMPTY_OF_64_BITS),
    eqn("reduce_min", reduce_min).limits(NOT_EMPTY_OF_64_BITS),
    eqn("reduce_or", reduce_or).limits(KNOWN_SIZE_FOR_INTS),
    eqn("reduce_prod", reduce_prod).limits(KNOWN_SIZE_FOR_INTS),
    eqn("reduce_sum", reduce_sum).linear(),
    eqn("reduce_xor", reduce_xor).limits(KNOWN_SIZE_FOR_INTS),
    // Cumulative.
    eqn("cumlogsumexp", cumlogsumexp).limits(KNOWN_SIZE),
    eqn("cummax", cummax).limits(KNOWN_SIZE),
    eqn("cummin", cummin).limits(KNOWN_SIZE),
    eqn("cumprod", cumprod).limits(KNOWN_SIZE),
    eqn("cumsum", cumsum).linear(),
    // Shapes.
    eqn("broadcast_in_dim", broadcast_in_dim).parts(),
    eqn("concatenate", concatenate).parts(),
    eqn("dim_as_value", dim_as_value),
    eqn("iota", iota),
    eqn("pad", pad).linear().limits(&["interior padding needs an axis of known size"]),
    eqn("reshape", reshape).parts(),
    eqn("rev", rev).parts(),
    eqn("slice", slice).parts(),
    many("split", split).parts(),
    eqn("squeeze", squeeze).parts(),
    eqn("stack", stack).parts(),
    eqn("tile", tile).parts(),
    eqn("transpose", transpose).parts(),
    many("unstack", unstack).parts(),
    // Indexing.
    eqn("dynamic_slice", dynamic_slice).parts(),
    eqn("dynamic_update_slice", dynamic_update_slice).parts(),
    eqn("gather", gather).parts().limits(&[
        "`mode=ONE_HOT` is refused",
        "random keys are not filled in where an index is out of bounds",
    ]),
    eqn("scatter", scatter).parts().limits(&["`x.at[i].apply(f)` is refused"]),
    eqn("scatter-add", scatter_add).parts(),
    eqn("scatter-max", scatter_max)
        .limits(&["needs opset 18", "of zeros that differ in their sign, either may stay"]),
    eqn("scatter-min", scatter_min)
        .limits(&["needs opset 18", "of zeros that differ in their sign, either may stay"]),
    eqn("scatter-mul", scatter_mul),
    eqn("scatter-sub", scatter_sub).parts(),
    // Convolutions and windows.
    // Sorting.
    many("approx_top_k", approx_top_k).limits(&["every one of the `k` is found"]),
    many("sort", sort).parts(),
    many("top_k", top_k).limits(&["every NaN counts as positive, so it is among the largest"]),
    // Random numbers.
    // Complex numbers and Fourier transforms.
    eqn("complex", complex::complex).parts(),
    eqn("conj", complex::conj).parts(),
    eqn("fft", complex::fft).parts(),
    eqn("imag", complex::imag).parts(),
    eqn("real", complex::real).parts(),
    // Linear algebra.
    eqn("dot_general", dot_general).bilinear().limits(&["`precision` is a hint and is ignored"]),
    // Branches and loops.
    many("cond", cond).parts(),
    eqn("platform_index", platform_index),
    many("scan", scan).parts(),
    many("while", while_loop).parts(),
    // Calls and what only concerns transformations.
    many("call", call).parts(),
    many("checkpoint", remat).parts(),
    many("closed_call", call).parts(),
    many("copy", pass_through).parts(),
    many("core_call", call).parts(),
    many("custom_jvp_call", custom_jvp_call).parts(),
    many("custom_vjp_call", custom_vjp_call).parts(),
    many("custom_vjp_call_jaxpr", custom_vjp_call).parts(),
    many("jit", jit).parts(),
    many("name", pass_through).parts(),
    many("optimization_barrier", pass_through).parts(),
    many("pjit", jit).parts(),
    many("remat2", remat).parts(),
    many("stop_gradient", pass_through).parts(),
];

const KNOWN_SIZE: &[&str] = &["the axis must have a known size"];
const KNOWN_SIZE_FOR_INTS: &[&str] = &["axes of integers must have known sizes"];
const NOT_EMPTY_OF_64_BITS: &[&str] =
    &["64-bit integers over an axis whose symbolic size turns out to be zero fail in the runtime"];
