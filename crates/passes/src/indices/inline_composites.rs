//! `inline-composites`: replaces the composites that no pass fused by their nodes.

use onnx::Edit;

pub(crate) fn run(edit: &mut Edit<'_>) {
    edit.inline_composites();
}
