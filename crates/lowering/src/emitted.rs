//! Made by `tools/primitives.py` from the end-to-end cases; do not edit.

/// The ONNX operators that the plugin for each primitive emits in them.
pub(crate) const EMITTED: &[(&str, &[&str])] = &[];
