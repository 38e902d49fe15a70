//! The table.

use crate::call::{call, custom_jvp_call, custom_vjp_call, jit, pass_through, remat};
use crate::control::{cond, scan, while_loop};
use crate::convert::{bitcast, convert_element_type, reduce_precision};
use crate::cumulative::{cumlogsumexp, cummax, cummin, cumprod, cumsum};
use crate::dot_general::dot_general;
use crate::elementwise::{
    arithmetic, bits, clamp, compare, exponential, gamma, hyperbolic, power, rounding, select_n,
    special, trigonometric,
};
use crate::linalg::{
    cholesky, cholesky_update, custom_linear_solve, eigh, geqp3, geqrf, hessenberg,
    householder_product, lu, lu_pivots_to_permutation, ormqr, qr, schur, svd, symmetric_product,
    triangular_solve, tridiagonal, tridiagonal_solve,
};
use crate::plugin::{Plugin, binary, eqn, many, unary};
use crate::reduce::{
    argmax, argmin, reduce_and, reduce_max, reduce_min, reduce_or, reduce_prod, reduce_sum,
    reduce_xor,
};
use crate::shape::{
    broadcast_in_dim, concatenate, iota, pad, reshape, rev, slice, split, squeeze, stack, tile,
    transpose, unstack,
};

/// Every primitive we lower, one line each, alphabetical within its family.
pub const PLUGINS: &[Plugin] = &[
    // Arithmetic.
    unary("abs", arithmetic::abs),
    binary("add", |x, y| x + y),
    binary("add_any", |x, y| x + y),
    eqn("clamp", clamp),
    binary("div", arithmetic::div).limits(&["an integer divided by zero is −1, as XLA has it"]),
    eqn("integer_pow", power::integer_pow),
    binary("max", arithmetic::max),
    binary("min", arithmetic::min),
    binary("mul", |x, y| x * y),
    unary("neg", |x| -x),
    binary("nextafter", bits::nextafter),
    binary("pow", power::pow),
    binary("rem", arithmetic::rem),
    unary("sign", |x| x.sign()).limits(&["the sign of negative zero is positive zero"]),
    unary("square", |x| x * x),
    binary("sub", |x, y| x - y),
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
    binary("eq", |x, y| x.equal(y)),
    binary("ge", compare::ge),
    binary("gt", compare::gt),
    unary("is_finite", compare::is_finite),
    binary("le", compare::le),
    binary("le_to", compare::le_to),
    binary("lt", compare::lt),
    binary("lt_to", compare::lt_to),
    binary("ne", |x, y| x.not_equal(y)),
    eqn("select_n", select_n),
    // Rounding.
    unary("ceil", |x| x.ceil()),
    unary("floor", |x| x.floor()),
    eqn("round", rounding::round),
    // Powers, exponentials, logarithms.
    unary("cbrt", power::cbrt),
    unary("exp", |x| x.exp()),
    unary("exp2", exponential::exp2),
    unary("expm1", exponential::expm1),
    unary("log", |x| x.log()),
    unary("log1p", exponential::log1p),
    unary("logistic", |x| x.sigmoid()).limits(&[
        "ONNX Runtime gives 0 below −18 in float32, where the true value is under 2·10⁻⁸",
    ]),
    unary("rsqrt", |x| x.sqrt().recip()),
    unary("sqrt", |x| x.sqrt()),
    // Trigonometric and hyperbolic.
    unary("acos", trigonometric::acos),
    unary("acosh", hyperbolic::acosh),
    unary("asin", trigonometric::asin),
    unary("asinh", hyperbolic::asinh),
    unary("atan", trigonometric::atan),
    binary("atan2", trigonometric::atan2),
    unary("atanh", hyperbolic::atanh),
    unary("cos", |x| x.cos()),
    unary("cosh", hyperbolic::cosh),
    unary("sin", |x| x.sin()),
    unary("sinh", hyperbolic::sinh),
    unary("tan", trigonometric::tan),
    unary("tanh", |x| x.tanh()),
    // Special functions.
    unary("digamma", gamma::digamma),
    unary("erf", special::erf),
    unary("erf_inv", special::erf_inv),
    unary("erfc", special::erfc),
    unary("lgamma", gamma::lgamma),
    // Types.
    eqn("bitcast_convert_type", bitcast),
    eqn("convert_element_type", convert_element_type),
    eqn("reduce_precision", reduce_precision),
    // Reductions.
    eqn("argmax", argmax),
    eqn("argmin", argmin),
    eqn("reduce_and", reduce_and),
    eqn("reduce_max", reduce_max),
    eqn("reduce_min", reduce_min),
    eqn("reduce_or", reduce_or),
    eqn("reduce_prod", reduce_prod),
    eqn("reduce_sum", reduce_sum),
    eqn("reduce_xor", reduce_xor),
    // Cumulative.
    eqn("cumlogsumexp", cumlogsumexp),
    eqn("cummax", cummax),
    eqn("cummin", cummin),
    eqn("cumprod", cumprod),
    eqn("cumsum", cumsum),
    // Shapes.
    eqn("broadcast_in_dim", broadcast_in_dim),
    eqn("concatenate", concatenate),
    eqn("iota", iota),
    eqn("pad", pad),
    eqn("reshape", reshape),
    eqn("rev", rev),
    eqn("slice", slice),
    many("split", split),
    eqn("squeeze", squeeze),
    eqn("stack", stack),
    eqn("tile", tile),
    eqn("transpose", transpose),
    many("unstack", unstack),
    // Indexing.
    // Convolutions and windows.
    // Sorting.
    // Random numbers.
    // Complex numbers and Fourier transforms.
    // Linear algebra.
    eqn("cholesky", cholesky).limits(&["real matrices only"]),
    eqn("cholesky_update", cholesky_update),
    many("custom_linear_solve", custom_linear_solve),
    eqn("dot_general", dot_general).limits(&["`precision` is a hint and is ignored"]),
    many("eigh", eigh).limits(&[
        "real matrices of a known size only",
        "the signs of the eigenvectors of more than two rows are not those of LAPACK",
    ]),
    many("geqp3", geqp3)
        .limits(&["real matrices of a known size only", "no column is kept in front"]),
    many("geqrf", geqrf).limits(&["real matrices of a known size only"]),
    many("hessenberg", hessenberg).limits(&["real matrices of a known size only"]),
    eqn("householder_product", householder_product)
        .limits(&["real matrices of a known size only"]),
    many("lu", lu).limits(&["real matrices only"]),
    eqn("lu_pivots_to_permutation", lu_pivots_to_permutation),
    eqn("ormqr", ormqr).limits(&["real matrices only"]),
    many("qr", qr).limits(&["real matrices of a known size only"]),
    many("schur", schur).limits(&["real matrices of one row only"]),
    many("svd", svd).limits(&[
        "real matrices of a known size only",
        "the signs of the singular vectors of more than one column are not those of LAPACK",
    ]),
    eqn("symmetric_product", symmetric_product),
    eqn("triangular_solve", triangular_solve).limits(&["real matrices only"]),
    many("tridiagonal", tridiagonal).limits(&["real matrices of a known size only"]),
    eqn("tridiagonal_solve", tridiagonal_solve).limits(&[
        "real matrices of a known size only",
        "a singular matrix is not perturbed",
    ]),
    // Branches and loops.
    many("cond", cond),
    many("scan", scan),
    many("while", while_loop),
    // Calls and what only concerns transformations.
    many("call", call),
    many("checkpoint", remat),
    many("closed_call", call),
    many("copy", pass_through),
    many("core_call", call),
    many("custom_jvp_call", custom_jvp_call),
    many("custom_vjp_call", custom_vjp_call),
    many("custom_vjp_call_jaxpr", custom_vjp_call),
    many("jit", jit),
    many("name", pass_through),
    many("optimization_barrier", pass_through),
    many("pjit", jit),
    many("remat2", remat),
    many("stop_gradient", pass_through),
];
