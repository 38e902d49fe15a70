//! `lift-weights`: a function is given its weights, so that calls with other weights can share it.

use onnx::{Model, Value};

/// What has more bytes is worth an initializer, whose contents stand once in the file.
const MOST_BYTES: usize = 256;

pub(crate) fn run(model: &mut Model) {
    model.lift_constants(is_weight);
}

fn is_weight(value: &Value) -> bool {
    let is_large = value.tensor.as_ref().is_some_and(|tensor| tensor.data.len() > MOST_BYTES);
    value.is_weight || is_large || value.name.is_some()
}
