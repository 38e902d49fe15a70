//! Formulas that ONNX has one operator for.
//!
//! Each file is a family; each function there is a pattern with what stands in its place.

mod activation;
mod attention;
mod choice;
mod index;
mod norm;
mod pick;
mod place;
mod pool;
mod reduction;
mod resize;
mod rotary;
mod softmax;
mod triangle;
mod weighted;

use onnx::Edit;

use crate::rewrite;

/// Activations, which norms and products do not need to have been found before.
pub(crate) fn activations(edit: &mut Edit<'_>) {
    rewrite::run(edit, activation::REWRITES);
}

/// Before products are oriented, which needs to know what reads them.
pub(crate) fn plain_attention(edit: &mut Edit<'_>) {
    attention::run(edit, attention::Stage::Plain);
}

/// After moves have been brought together.
pub(crate) fn attention(edit: &mut Edit<'_>) {
    attention::run(edit, attention::Stage::Any);
}

/// Before formulas that have a choice in them.
pub(crate) fn choices(edit: &mut Edit<'_>) {
    rewrite::run(edit, choice::REWRITES);
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

/// One entry of an axis, however it was cut out.
pub(crate) fn picks(edit: &mut Edit<'_>) {
    rewrite::run(edit, pick::REWRITES);
}

/// When nothing is left to be moved through a choice.
pub(crate) fn triangles(edit: &mut Edit<'_>) {
    rewrite::run(edit, triangle::REWRITES);
}

/// Before moves are brought together: it makes some.
pub(crate) fn rotary(edit: &mut Edit<'_>) {
    rotary::run(edit);
}

pub(crate) fn softmax(edit: &mut Edit<'_>) {
    rewrite::run(edit, softmax::REWRITES);
}

/// After norms, which have squares and reciprocal roots in them.
pub(crate) fn reductions(edit: &mut Edit<'_>) {
    for rewrites in reduction::STAGES {
        rewrite::run(edit, rewrites);
        edit.drop_unread();
    }
}

pub(crate) fn indices(edit: &mut Edit<'_>) {
    rewrite::run(edit, index::REWRITES);
}

/// Before moves are brought together: it makes some.
pub(crate) fn weighted_sums(edit: &mut Edit<'_>) {
    rewrite::run(edit, weighted::REWRITES);
}

/// After indices, whose bounds it asks for.
pub(crate) fn places(edit: &mut Edit<'_>) {
    rewrite::run(edit, place::REWRITES);
}

/// After indices.
pub(crate) fn entries(edit: &mut Edit<'_>) {
    rewrite::run(edit, index::ENTRIES);
}

/// While sums over windows are composites.
pub(crate) fn pools(edit: &mut Edit<'_>) {
    rewrite::run(edit, pool::REWRITES);
}

/// After the order of axes is chosen.
pub(crate) fn resizes(edit: &mut Edit<'_>) {
    resize::run(edit);
}
