//! Finds operators in the formulas that programs write.
//!
//! Each file contains a family of patterns with their replacements.

pub(crate) mod activation;
pub(crate) mod choice;
pub(crate) mod keep_axes;
pub(crate) mod merge_affine;
pub(crate) mod norm;
pub(crate) mod pool;
pub(crate) mod reduction;
pub(crate) mod softmax;
pub(crate) mod split_means;
pub(crate) mod thresholded_relu;
pub(crate) mod uniform;
