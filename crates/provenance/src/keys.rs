//! The metadata keys that jax2onnx writes.

pub const CALLSITE: &str = "pkg.jax2onnx.callsite";
pub const PLUGIN: &str = "pkg.jax2onnx.plugin";
pub const STACKTRACE: &str = "pkg.jax2onnx.stacktrace";
pub const JAX_TRACEBACK: &str = "pkg.jax2onnx.jax_traceback";
pub const FUSED_FROM: &str = "pkg.jax2onnx.fused_from";
/// For a weight, an input or an output, its path in the model, the arguments or the result.
pub const PATH: &str = "pkg.jax2onnx.path";
pub const ORIGIN: &str = "pkg.jax2onnx.origin";
/// On the model: the table that [`ORIGIN`] refers to.
pub const PROVENANCE: &str = "pkg.jax2onnx.provenance";
/// On the model: the id that its source map contains too.
pub const DEBUG_ID: &str = "pkg.jax2onnx.debug_id";
/// On the model: [`IGNORE`] if it matches JAX only without NaN.
pub const NAN: &str = "pkg.jax2onnx.nan";
/// The value of [`NAN`].
pub const IGNORE: &str = "ignore";
/// On the model: the type of half precision that it computes in float32.
pub const HALF: &str = "pkg.jax2onnx.half";
/// On the model, with the value [`RUN`]: weights in few bits become floats in each run.
pub const DEQUANTIZE: &str = "pkg.jax2onnx.dequantize";
/// The value of [`DEQUANTIZE`].
pub const RUN: &str = "run";
/// On the model: the runtimes that it is for, separated by commas, unless they are the default.
pub const TARGET: &str = "pkg.jax2onnx.target";
/// The prefix of every metadata key of jax2onnx.
pub const PREFIX: &str = "pkg.jax2onnx.";

/// True if the key describes the origin of something. [`NAN`], [`HALF`], [`DEQUANTIZE`] and [`TARGET`]
/// describe what the model computes, and where.
pub fn is_provenance(key: &str) -> bool {
    key.starts_with(PREFIX) && ![NAN, HALF, DEQUANTIZE, TARGET].contains(&key)
}
