//! Finds literals that differ.

use onnx::scan::Node;

use super::Side;
use crate::Document;
use crate::literals::numbers;

/// Returns the operands of two nodes that are different literals: `0.5 → 0.7`.
pub(super) fn changes(
    a: &Side<'_, '_>,
    before: &Node<'_>,
    b: &Side<'_, '_>,
    after: &Node<'_>,
) -> Vec<String> {
    let pairs = before.inputs.iter().zip(&after.inputs);
    let numbers = pairs
        .filter_map(|(old, new)| Some((of_operand(a, before, old)?, of_operand(b, after, new)?)));
    let changed = numbers.filter(|(old, new)| old != new);
    changed.map(|(old, new)| format!("{old} → {new}")).collect()
}

/// Returns the numbers of an operand, if it is an initializer.
fn of_operand(side: &Side<'_, '_>, node: &Node<'_>, name: &str) -> Option<String> {
    let document: &Document<'_> = side.document;
    numbers(document.initializer(node.graph as usize, name)?)
}
