//! Formulas that ONNX has one operator for.
//!
//! Each file is a family; each function there is a pattern with what stands in its place.

mod activation;
mod norm;
mod softmax;

use onnx::Edit;

use crate::rewrite;

/// Activations, which norms and products do not need to have been found before.
pub(crate) fn activations(edit: &mut Edit<'_>) {
    rewrite::run(edit, activation::REWRITES);
}

pub(crate) fn means(edit: &mut Edit<'_>) {
    rewrite::run(edit, norm::MEANS);
}

/// After means.
pub(crate) fn norms(edit: &mut Edit<'_>) {
    for rewrites in norm::STAGES {
        rewrite::run(edit, rewrites);
        edit.drop_unread();
    }
}

pub(crate) fn softmax(edit: &mut Edit<'_>) {
    rewrite::run(edit, softmax::REWRITES);
}
