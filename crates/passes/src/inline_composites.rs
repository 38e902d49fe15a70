//! `inline-composites`: what no pass had a better form for is put in its place.

use onnx::Edit;

pub(crate) fn run(edit: &mut Edit<'_>) {
    for index in 0..edit.len() {
        edit.inline_composite(index);
    }
}
