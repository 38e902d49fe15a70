//! Fuses formulas into ONNX operators.
//!
//! Each file contains a family of patterns with their replacements.

pub(crate) mod activation;
pub(crate) mod attention;
pub(crate) mod batch_norm;
pub(crate) mod choice;
pub(crate) mod division;
pub(crate) mod index;
pub(crate) mod norm;
pub(crate) mod pad;
pub(crate) mod pick;
pub(crate) mod place;
pub(crate) mod pool;
pub(crate) mod reduction;
pub(crate) mod resize;
pub(crate) mod rotary;
pub(crate) mod softmax;
pub(crate) mod thresholded_relu;
pub(crate) mod triangle;
pub(crate) mod uniform;
pub(crate) mod weighted;
