//! Adds a guard for the cases in which ONNX Runtime's `GRU` and `LSTM` are wrong.
//!
//! They clamp the input of a gate, which turns NaN into a number. For an empty batch or without steps, they crash the
//! process.

use onnx::{DType, Dim, Edit, Op, OpType, Patch, Tensor, ValueId};

/// If the sums of magnitudes and the weights are below this, no gate overflows.
const MAX_SUM: f32 = (1u64 << 60) as f32;

/// Inserts a condition under which the operator is correct: the `conditions` hold, the input has an
/// element, and the input and the states are finite and so small that no gate overflows. `None` if the operator is
/// always correct. If NaN need not be exact, the condition ignores the numbers.
///
/// A sum of magnitudes is NaN or infinite if one of them is.
pub(super) fn fits(
    edit: &mut Patch<'_, '_>,
    op: OpType,
    x: ValueId,
    states: &[ValueId],
    conditions: Vec<ValueId>,
) -> Option<ValueId> {
    // A device may propagate NaN.
    let is_exact = edit.target().is_right_on_device(op, edit.opset(), DType::F32);
    let mut sums = Vec::new();
    for value in std::iter::once(x).chain(states.iter().copied()) {
        if edit.exact_nan() && !is_exact && !is_known_to_be_small(edit, value) {
            let op = Op::new(OpType::ReduceL1, &[value]).attr("keepdims", 0);
            sums.push(edit.insert(op));
        }
    }
    let total = match sums[..] {
        [] => None,
        [sum] => Some(sum),
        _ => Some(edit.insert(Op::new(OpType::Sum, &sums))),
    };
    let is_small = total.and_then(|total| {
        let bound = Tensor::of_floats(DType::F32, Vec::new(), &[MAX_SUM.into()])?;
        let bound = edit.constant(bound, &[]);
        Some(edit.insert(Op::new(OpType::Less, &[total, bound])))
    });
    let may_be_empty = |dim: &Dim| dim.known().is_none() && !dim.is_positive();
    let has_elements = edit.shape(x)?.iter().any(may_be_empty).then(|| {
        let size = edit.insert(Op::new(OpType::Size, &[x]));
        let zero = edit.integer(0)?;
        Some(edit.insert(Op::new(OpType::Greater, &[size, zero])))
    });
    let all = conditions.into_iter().chain(is_small).chain(has_elements.flatten());
    all.reduce(|a, b| edit.insert(Op::new(OpType::And, &[a, b])))
}

/// True if all numbers of a constant are finite and small.
pub(super) fn is_small(tensor: &Tensor) -> bool {
    tensor.max_magnitude() * (tensor.len() as f64) < f64::from(MAX_SUM)
}

/// True for small constants and for broadcasts of them, such as zeros of a symbolic size.
fn is_known_to_be_small(edit: &Edit<'_>, value: ValueId) -> bool {
    let repeated = edit.made_by(value, OpType::Expand);
    let value = repeated.and_then(|node| edit.input(node, 0)).unwrap_or(value);
    edit.tensor(value).is_some_and(is_small)
}
