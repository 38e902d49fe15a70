//! Chooses the final operators. No later rewrite matches them.

pub(crate) mod batch_norm;
pub(crate) mod causal_conv;
pub(crate) mod dequantize;
pub(crate) mod gemm;
pub(crate) mod keep_entries;
pub(crate) mod pad;
pub(crate) mod shape_constants;
pub(crate) mod split_products;
