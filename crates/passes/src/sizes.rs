//! Finds sizes that the graph computes.

use onnx::{Attr, Dim, Edit, OpType, Type, ValueId};

use crate::operators::RESHAPES;

/// The largest number of nodes behind which a size is looked for.
const MAX_NODES: usize = 16;

/// Returns the size that a scalar is, if it is computed from shapes and numbers alone, with the nodes that compute
/// it.
pub(crate) fn computed_size(edit: &Edit<'_>, value: ValueId) -> Option<(Dim, Vec<usize>)> {
    let mut nodes = Vec::new();
    let size = collect(edit, value, &mut nodes)?;
    Some((size, nodes))
}

fn collect(edit: &Edit<'_>, value: ValueId, nodes: &mut Vec<usize>) -> Option<Dim> {
    if let Some(tensor) = edit.tensor(value) {
        let number = crate::pattern::uniform(tensor).filter(|_| tensor.len() == 1)?;
        let is_whole = number >= 0.0 && number.fract() == 0.0 && number < 9e15;
        return is_whole.then_some(Dim::Known(number as i64));
    }
    let index = edit.producer(value).filter(|_| nodes.len() < MAX_NODES)?;
    nodes.push(index);
    let node = edit.node(index);
    let operand = edit.input(index, 0)?;
    match node.op.onnx() {
        Some(OpType::Cast | OpType::Identity) => collect(edit, operand, nodes),
        Some(op) if RESHAPES.contains(&op) => collect(edit, operand, nodes),
        Some(OpType::Mul) => {
            let first = collect(edit, operand, nodes)?;
            first.checked_mul(&collect(edit, edit.input(index, 1)?, nodes)?)
        }
        Some(OpType::Shape) => {
            let Type { shape, .. } = edit.ty(operand)?;
            let at = |name: &str, default: i64| match node.attr(name) {
                Some(Attr::Int(at)) => *at,
                _ => default,
            };
            let (start, end) = (at("start", 0), at("end", shape.len() as i64));
            let is_one = start >= 0 && end == start + 1;
            shape.get(usize::try_from(start).ok()?).filter(|_| is_one).cloned()
        }
        _ => None,
    }
}
