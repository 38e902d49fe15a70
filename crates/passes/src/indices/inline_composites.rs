//! `inline-composites`: replaces the composites that no pass fused by their nodes.

use onnx::Edit;

pub(crate) fn run(edit: &mut Edit<'_>) {
    for index in 0..edit.len() {
        edit.inline_composite(index);
    }
}
