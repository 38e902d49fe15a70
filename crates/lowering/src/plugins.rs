//! The table of plugins.

use crate::call::{
    any_call, call, custom_jvp_call, custom_vjp_call, device_put, jit, onnx_function, pass_through,
    pmap, remat, select_if_vmap, shard_map, unvmap_all, unvmap_any, unvmap_max,
};
use crate::complex;
use crate::control::{cond, platform_index, scan, while_loop};
use crate::conv::conv_general_dilated;
use crate::convert::{bitcast, convert_element_type, reduce_precision};
use crate::cumulative::{complex_cumprod, cumlogsumexp, cummax, cummin, cumprod, cumsum};
use crate::devices::{
    all_gather, all_to_all, axis_index, drop_callback, pmax, pmin, ppermute, psum, reduce_scatter,
};
use crate::dot_general::dot_general;
use crate::elementwise::{
    arithmetic, bessel, bits, clamp, compare, exponential, gamma, hyperbolic, incomplete_beta,
    incomplete_gamma, power, rounding, select_n, special, trigonometric, zeta,
};
use crate::emitted::EMITTED;
use crate::index::{
    complex_scatter_mul, dynamic_slice, dynamic_update_slice, gather, scatter, scatter_add,
    scatter_max, scatter_min, scatter_mul, scatter_sub,
};
use crate::linalg::{
    cholesky, cholesky_update, custom_linear_solve, eig, eigh, geqp3, geqrf, hessenberg,
    householder_product, lu, lu_pivots_to_permutation, ormqr, qr, schur, svd, symmetric_product,
    triangular_solve, tridiagonal, tridiagonal_solve,
};
use crate::plugin::{Plugin, binary, eqn, many, unary};
use crate::random::{
    random_bits, random_fold_in, random_gamma, random_seed, random_split, threefry2x32,
};
use crate::reduce::{
    argmax, argmin, complex_reduce_max, complex_reduce_min, complex_reduce_prod, reduce_and,
    reduce_max, reduce_min, reduce_or, reduce_prod, reduce_sum, reduce_xor,
};
use crate::shape::{
    broadcast_in_dim, concatenate, dim_as_value, empty, iota, pad, reshape, rev, slice, split,
    squeeze, stack, tile, transpose, unstack,
};
use crate::sort::{approx_top_k, sort, top_k};
use crate::window::{
    reduce, reduce_window, reduce_window_max, reduce_window_min, reduce_window_sum,
    select_and_gather_add, select_and_scatter_add,
};

/// All supported primitives, in alphabetical order within each family.
pub const PLUGINS: &[Plugin] = &[
    // Arithmetic.
    unary("abs", |x| x.abs()).complex_eqn(complex::abs),
    binary("add", |x, y| x + y).apart(),
    binary("add_any", |x, y| x + y).parts(),
    eqn("clamp", clamp),
    binary("div", arithmetic::div).complex_pair(|z, w| z.div(w)),
    eqn("integer_pow", power::integer_pow).complex_eqn(complex::integer_pow),
    binary("max", arithmetic::max).complex_pair(|z, w| z.max(w)).limits(&["for 0 and -0, the model may return either"]),
    binary("min", arithmetic::min).complex_pair(|z, w| z.min(w)).limits(&["for 0 and -0, the model may return either"]),
    binary("mul", |x, y| x * y).complex_pair(|z, w| z.mul(w)),
    unary("neg", |x| -x).apart(),
    binary("nextafter", bits::nextafter).limits(&["the model may return 0 instead of -0"]),
    unary("one_minus_square", |x| 1.0 - x * x),
    binary("pow", power::pow).complex_pair(|z, w| z.pow(w)),
    binary("rem", arithmetic::rem),
    unary("sign", arithmetic::sign).complex(|z| z.sign()),
    unary("square", |x| x * x).complex(|z| z.square()),
    binary("sub", |x, y| x - y).apart(),
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
        .limits(&["ONNX Runtime turns -0 into 0, except in the first case"]),
    // Rounding.
    unary("ceil", |x| x.ceil()),
    unary("floor", |x| x.floor()),
    eqn("round", rounding::round),
    // Powers, exponentials, logarithms.
    unary("cbrt", power::cbrt),
    unary("exp", |x| x.exp()).complex(|z| z.exp()),
    unary("exp2", exponential::exp2).complex(|z| z.exp2()),
    unary("expm1", exponential::expm1).composite().complex(|z| z.expm1()),
    unary("log", |x| x.log()).complex(|z| z.log()),
    unary("log1p", exponential::log1p).composite().complex(|z| z.log1p()),
    unary("log2", |x| x.log() * std::f64::consts::LOG2_E).complex(|z| z.log2()),
    unary("logistic", exponential::logistic).complex(|z| z.logistic()).limits(&[
        "in float32, the absolute error in ONNX Runtime is 6·10⁻⁸, and the result below -18 is 0",
    ]),
    unary("rsqrt", power::rsqrt).complex(|z| z.rsqrt()),
    unary("sqrt", |x| x.sqrt()).complex(|z| z.sqrt()),
    // Trigonometric and hyperbolic.
    unary("acos", trigonometric::acos).complex(|z| z.acos()),
    unary("acosh", hyperbolic::acosh).complex(|z| z.acosh()),
    unary("asin", trigonometric::asin).complex(|z| z.asin()),
    unary("asinh", hyperbolic::asinh).complex(|z| z.asinh()),
    unary("atan", trigonometric::atan).complex(|z| z.atan()),
    binary("atan2", trigonometric::atan2),
    unary("atanh", hyperbolic::atanh).complex(|z| z.atanh()),
    unary("cos", |x| x.cos()).complex(|z| z.cos()).limits(&[
        "in float64, the absolute error in ONNX Runtime is 3·10⁻¹⁶, so the result next to a root may be 0",
    ]),
    unary("cosh", hyperbolic::cosh).complex(|z| z.cosh()),
    unary("sin", |x| x.sin()).complex(|z| z.sin()).limits(&[
        "in float64, the absolute error in ONNX Runtime is 3·10⁻¹⁶, so the result next to a root may be 0",
    ]),
    unary("sinh", hyperbolic::sinh).complex(|z| z.sinh()),
    unary("tan", trigonometric::tan).complex(|z| z.tan()),
    unary("tanh", |x| x.tanh()).complex(|z| z.tanh()),
    // Special functions.
    unary("bessel_i0e", bessel::bessel_i0e),
    unary("bessel_i1e", bessel::bessel_i1e),
    eqn("digamma", gamma::digamma),
    unary("erf", special::erf),
    unary("erf_inv", special::erf_inv),
    unary("erfc", special::erfc).composite(),
    eqn("igamma", incomplete_gamma::igamma),
    eqn("igamma_grad_a", incomplete_gamma::igamma_grad_a),
    eqn("igammac", incomplete_gamma::igammac),
    unary("lgamma", gamma::lgamma),
    eqn("polygamma", zeta::polygamma),
    eqn("random_gamma_grad", incomplete_gamma::random_gamma_grad),
    eqn("regularized_incomplete_beta", incomplete_beta::regularized_incomplete_beta),
    binary("zeta", zeta::zeta),
    // Types.
    eqn("bitcast_convert_type", bitcast)
        .limits(&["before opset 26, a NaN loses its sign and payload"]),
    eqn("convert_element_type", convert_element_type).complex_eqn(complex::convert),
    eqn("reduce_precision", reduce_precision).limits(&["the mantissa must have at least one bit"]),
    // Reductions.
    eqn("argmax", argmax),
    eqn("argmin", argmin),
    eqn("reduce_and", reduce_and),
    eqn("reduce_max", reduce_max).complex_eqn(complex_reduce_max).limits(EXTREME),
    eqn("reduce_min", reduce_min).complex_eqn(complex_reduce_min).limits(EXTREME),
    eqn("reduce_or", reduce_or),
    eqn("reduce_prod", reduce_prod)
        .complex_eqn(complex_reduce_prod)
        .limits(&[
            "JAX multiplies complex numbers by 1 + 0i, which makes parts of infinite ones NaN",
        ]),
    eqn("reduce_sum", reduce_sum).linear(),
    eqn("reduce_xor", reduce_xor),
    // Cumulative.
    eqn("cumlogsumexp", cumlogsumexp),
    eqn("cummax", cummax),
    eqn("cummin", cummin),
    eqn("cumprod", cumprod).complex_eqn(complex_cumprod).limits(&[
        "JAX multiplies complex numbers by 1 + 0i, which makes parts of infinite ones NaN",
        "with more than 16 elements, more than 5 in reverse, or a symbolic size, other products may overflow than in JAX",
    ]),
    eqn("cumsum", cumsum).linear().limits(&["a sum of negative zeros is -0, and 0 in JAX"]),
    // Shapes.
    eqn("broadcast_in_dim", broadcast_in_dim).apart(),
    eqn("concatenate", concatenate).apart(),
    eqn("dim_as_value", dim_as_value),
    eqn("empty", empty).parts().ignores(&["dtype", "shape"]).ambiguous(),
    eqn("empty2", empty).parts().ignores(&["dtype", "memory_space"]).ambiguous(),
    eqn("iota", iota).complex_eqn(complex::iota),
    eqn("pad", pad).linear(),
    eqn("reshape", reshape).apart(),
    eqn("rev", rev).apart(),
    eqn("slice", slice).apart(),
    many("split", split).parts(),
    eqn("squeeze", squeeze).apart(),
    eqn("stack", stack).parts(),
    eqn("tile", tile).parts(),
    eqn("transpose", transpose).apart(),
    many("unstack", unstack).parts(),
    // Indexing.
    eqn("dynamic_slice", dynamic_slice).parts(),
    eqn("dynamic_update_slice", dynamic_update_slice).parts(),
    eqn("gather", gather).parts().limits(&[
        "`mode=ONE_HOT` is not supported",
        "for random keys, indices must be in bounds",
    ]),
    eqn("scatter", scatter)
        .parts()
        .limits(&["`x.at[i].apply(f)` needs an elementwise function"]),
    eqn("scatter-add", scatter_add).parts(),
    eqn("scatter-max", scatter_max)
        .limits(&["needs opset 18", "for 0 and -0, the model may keep either"]),
    eqn("scatter-min", scatter_min)
        .limits(&["needs opset 18", "for 0 and -0, the model may keep either"]),
    eqn("scatter-mul", scatter_mul).complex_eqn(complex_scatter_mul),
    eqn("scatter-sub", scatter_sub).parts(),
    // Convolutions and windows.
    eqn("conv_general_dilated", conv_general_dilated)
        .bilinear()
        .limits(&["`precision` is ignored", "along each axis, the size of the kernel or of the result must be known"]),
    many("reduce", reduce).limits(&[
        "operations other than `add`, `mul`, `max`, `min`, `and`, `or` and `xor` must be elementwise",
    ]),
    many("reduce_window", reduce_window).limits(&[
        "operations other than `add`, `mul`, `max`, `min`, `and`, `or` and `xor` must be elementwise",
        "for other operations, the initial value of padded windows must be the identity",
    ]),
    eqn("reduce_window_max", reduce_window_max).limits(&[
        "in float32, if all elements of a window are -inf, ONNX Runtime returns -3.4·10³⁸",
    ]),
    eqn("reduce_window_min", reduce_window_min)
        .limits(&["in float32, if all elements of a window are inf, ONNX Runtime returns 3.4·10³⁸"]),
    eqn("reduce_window_sum", reduce_window_sum).linear(),
    eqn("select_and_gather_add", select_and_gather_add).limits(&[
        "if all elements of a window are -inf (`ge`) or inf (`le`), the model returns the first tangent, and JAX returns 0",
        "if padding follows a NaN in a window, the model returns 0, and JAX returns the tangent of the NaN",
    ]),
    eqn("select_and_scatter_add", select_and_scatter_add),
    // Sorting.
    many("approx_top_k", approx_top_k).limits(&[
        "the result is exact",
        "equal elements keep their order, and NaN is above all numbers, while JAX defines neither",
    ]),
    many("sort", sort).parts(),
    many("top_k", top_k).limits(&[
        "every NaN counts as positive, and therefore as one of the largest elements",
    ]),
    // Random numbers.
    eqn("random_bits", random_bits).limits(&["only for Threefry keys"]).parts(),
    many("random_clone", pass_through).parts(),
    eqn("random_fold_in", random_fold_in).limits(&["only for Threefry keys"]).parts(),
    eqn("random_gamma", random_gamma).parts().limits(&[
        "only for Threefry keys",
        "a sample that rounding moves across the rejection bound may differ from JAX",
    ]),
    eqn("random_seed", random_seed).limits(&["only for Threefry keys"]).parts(),
    eqn("random_split", random_split).limits(&["only for Threefry keys"]).parts(),
    many("random_unwrap", pass_through).parts(),
    many("random_wrap", pass_through).parts().ignores(&["impl"]),
    many("threefry2x32", threefry2x32),
    // Complex numbers and Fourier transforms.
    eqn("complex", complex::complex).parts(),
    eqn("conj", complex::conj).parts(),
    eqn("fft", complex::fft).parts(),
    eqn("imag", complex::imag).parts(),
    eqn("real", complex::real).parts(),
    // Linear algebra.
    eqn("cholesky", cholesky).parts().ambiguous().limits(&[
        "an infinite element below an infinite pivot becomes NaN, and 0 in LAPACK",
    ]),
    eqn("cholesky_update", cholesky_update),
    many("custom_linear_solve", custom_linear_solve).parts(),
    eqn("dot_general", dot_general).bilinear().limits(&["`precision` is ignored"]),
    many("eig", eig)
        .parts()
        .limits(&[
            "eigenvectors only for matrices with one row",
            "eigenvalues only for real matrices with at most two rows",
            "eigenvalues that differ only by rounding may be in a different order than in LAPACK",
        ])
        .ambiguous(),
    many("eigh", eigh)
        .parts()
        .limits(&[
            "only for matrices of known size",
            "for more than two rows, the signs of eigenvectors may differ from LAPACK",
        ])
        .ambiguous(),
    many("geqp3", geqp3)
        .parts()
        .limits(&["only for matrices of known size", "no column can be fixed in front"]),
    many("geqrf", geqrf).parts().limits(KNOWN_MATRIX),
    many("hessenberg", hessenberg).parts().limits(KNOWN_MATRIX),
    eqn("householder_product", householder_product).parts().limits(KNOWN_MATRIX),
    many("lu", lu).parts().limits(&[
        "a NaN is never chosen as a pivot, unless all candidates are NaN; whether LAPACK chooses it depends on the CPU",
    ]),
    eqn("lu_pivots_to_permutation", lu_pivots_to_permutation),
    eqn("ormqr", ormqr).parts(),
    many("qr", qr).parts().limits(KNOWN_MATRIX),
    many("schur", schur).parts().limits(&["only for matrices with one row"]),
    many("svd", svd)
        .parts()
        .limits(&[
            "only for matrices of known size",
            "for more than one column, the signs and phases of singular vectors may differ from LAPACK",
        ])
        .ambiguous(),
    eqn("symmetric_product", symmetric_product),
    eqn("triangular_solve", triangular_solve).parts(),
    many("tridiagonal", tridiagonal).parts().limits(KNOWN_MATRIX),
    eqn("tridiagonal_solve", tridiagonal_solve)
        .limits(&["only for real matrices of known size", "a singular matrix is used as it is"]),
    // Branches and loops.
    many("cond", cond).parts(),
    eqn("platform_index", platform_index),
    many("scan", scan).parts(),
    many("while", while_loop).parts(),
    // Several devices. A model runs on one.
    many("all_gather", all_gather).parts(),
    many("all_gather_invariant", all_gather).parts(),
    many("all_gather_reduced", all_gather).parts(),
    many("all_to_all", all_to_all).parts(),
    eqn("axis_index", axis_index),
    many("custom_partitioning", any_call).parts(),
    many("dll_constraint", pass_through).parts().ignores(&["layout"]),
    many("layout_constraint", pass_through).parts().ignores(&["layout"]),
    many("mesh_cast", pass_through).parts(),
    many("pmax", pmax),
    many("pmin", pmin),
    many("ppermute", ppermute).parts(),
    many("preduced", pass_through).parts().ignores(&["axes"]),
    many("psum", psum).parts(),
    many("psum_invariant", psum).parts(),
    many("pvary", pass_through).parts().ignores(&["axes", "axis_index_groups"]),
    many("reduce_scatter", reduce_scatter).parts(),
    many("reduced_vary_cast", pass_through).parts().ignores(&["axes"]),
    many("reduced_vary_cast_p", pass_through).parts().ignores(&["axes"]),
    many("relayout", pass_through).parts().ignores(&["dst_layout"]),
    many("reshard", pass_through).parts(),
    many("shard_alike", pass_through).parts(),
    many("shard_map", shard_map).parts().limits(&["the mesh must have one device"]),
    many("sharding_constraint", pass_through).parts().ignores(&["layout", "unconstrained_dims"]),
    many("unreduced_psum", psum).parts(),
    many("unreduced_reduce_scatter", reduce_scatter).parts(),
    many("vary_unreduced_cast", pass_through).parts().ignores(&["axes"]),
    many("vary_unreduced_cast_p", pass_through).parts().ignores(&["axes"]),
    many("xla_pmap", pmap).parts().limits(&["the axis must have one device"]),
    // Callbacks without results.
    many("debug_callback", drop_callback).parts(),
    many("debug_print", drop_callback).parts(),
    many("inspect_sharding", drop_callback).parts(),
    // Calls, and primitives for transformations.
    many("call", call).parts(),
    many("checkpoint", remat).parts(),
    many("closed_call", call).parts(),
    many("composite", any_call).parts(),
    many("compute_on", any_call).parts(),
    many("copy", pass_through).parts(),
    many("core_call", call).parts(),
    many("custom_jvp_call", custom_jvp_call).parts(),
    many("custom_vjp_call", custom_vjp_call).parts(),
    many("custom_vjp_call_jaxpr", custom_vjp_call).parts(),
    many("device_put", device_put).parts(),
    many("eval_jaxpr", call).parts(),
    many("jit", jit).parts(),
    many("name", pass_through).parts().ignores(&["name"]),
    many("nondifferentiable_backward", pass_through).parts().ignores(&["msg", "symbolic"]),
    many("nonbatchable", pass_through).parts().ignores(&["msg", "allow_constant_across_batch"]),
    many("onnx_function", onnx_function).parts(),
    many("optimization_barrier", pass_through).parts(),
    many("pjit", jit).parts(),
    many("remat2", remat).parts(),
    eqn("select_if_vmap", select_if_vmap).parts(),
    many("stop_gradient", pass_through).parts(),
    eqn("unvmap_all", unvmap_all),
    eqn("unvmap_any", unvmap_any),
    eqn("unvmap_max", unvmap_max),
    many("xla_metadata_call", any_call).parts(),
    many("xla_metadata_value", pass_through).parts().ignores(&["xla_metadata_kvs"]),
];

/// The ONNX operators that the end-to-end cases of a primitive emit.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmittedOps {
    /// For real numbers, integers and booleans.
    pub real: &'static [&'static str],
    /// Further operators for complex numbers.
    pub complex: &'static [&'static str],
}

/// Returns the ONNX operators that a primitive emits.
pub fn emitted_ops(primitive: &str) -> EmittedOps {
    let found = EMITTED.iter().find(|(name, _, _)| *name == primitive);
    found.map_or_else(EmittedOps::default, |(_, real, complex)| EmittedOps { real, complex })
}

const KNOWN_MATRIX: &[&str] = &["only for matrices of known size"];
const EXTREME: &[&str] = &[
    "for 64-bit integers, ONNX Runtime fails if the size of a symbolic axis is 0",
    "for complex numbers, a NaN may be left out",
];
