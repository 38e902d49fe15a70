//! Formats literals: small constants that are not weights.

use onnx::scan::{Tensor, meta};
use onnx::{DType, Tensor as Array};
use provenance::keys;

/// The maximum number of elements to show as numbers.
const MAX_ELEMENTS: u64 = 4;

/// True if a tensor is a literal of a formula, and not a weight of the user.
pub(crate) fn is_literal(tensor: &Tensor<'_>) -> bool {
    let is_small = tensor.elements().is_some_and(|count| count <= MAX_ELEMENTS);
    is_small && tensor.raw.is_some() && meta(&tensor.metadata, keys::PATH).is_none()
}

/// Returns the elements of a small constant: `0.5`, `[1, 2]`.
pub(crate) fn numbers(tensor: &Tensor<'_>) -> Option<String> {
    let dtype = DType::from_code(tensor.element)?;
    if !is_literal(tensor) {
        return None;
    }
    let array = Array::new(dtype, tensor.dims.clone(), tensor.raw?.to_vec());
    let texts: Vec<String> = if let Some(floats) = array.floats() {
        let text = |&float: &f64| match dtype {
            DType::F64 => float.to_string(),
            // The shortest text that distinguishes it from other numbers of its type.
            _ => (float as f32).to_string(),
        };
        floats.iter().map(text).collect()
    } else if dtype == DType::Bool {
        array.ints()?.iter().map(|&value| (value != 0).to_string()).collect()
    } else {
        array.ints()?.iter().map(ToString::to_string).collect()
    };
    Some(match (texts.as_slice(), tensor.dims.is_empty()) {
        ([text], true) => text.clone(),
        _ => format!("[{}]", texts.join(", ")),
    })
}
