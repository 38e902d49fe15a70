//! Sizes that the graph computes.

use onnx::{Attr, Dim, Edit, OpType, Type, ValueId};

/// How many nodes a size is looked for behind.
const MOST_NODES: usize = 16;

/// The sizes whose product a scalar is, in order, where it is computed from shapes and numbers alone.
/// Numbers are one size, at the front, which is left out where it is one. With the nodes that compute
/// it.
pub(crate) fn computed_size(edit: &Edit<'_>, value: ValueId) -> Option<(Vec<Dim>, Vec<usize>)> {
    let (mut factors, mut nodes) = (Vec::new(), Vec::new());
    collect(edit, value, &mut factors, &mut nodes)?;
    Some((product_of(factors), nodes))
}

/// A product in the form in which equal ones are equal.
pub(crate) fn product_of(factors: impl IntoIterator<Item = Dim>) -> Vec<Dim> {
    let mut number = 1;
    let mut names = Vec::new();
    for factor in factors {
        match factor {
            Dim::Known(size) => number *= size,
            Dim::Named(name) => names.push(name),
        }
    }
    names.sort_unstable();
    let number = (number != 1).then_some(Dim::Known(number));
    number.into_iter().chain(names.into_iter().map(Dim::Named)).collect()
}

fn collect(
    edit: &Edit<'_>,
    value: ValueId,
    factors: &mut Vec<Dim>,
    nodes: &mut Vec<usize>,
) -> Option<()> {
    if let Some(tensor) = edit.tensor(value) {
        let number = crate::pattern::uniform(tensor).filter(|_| tensor.len() == 1)?;
        let is_whole = number >= 0.0 && number.fract() == 0.0 && number < 9e15;
        return is_whole.then(|| factors.push(Dim::Known(number as i64)));
    }
    let index = edit.producer(value).filter(|_| nodes.len() < MOST_NODES)?;
    nodes.push(index);
    let node = edit.node(index);
    let operand = edit.input(index, 0)?;
    match node.op.onnx() {
        Some(
            OpType::Cast | OpType::Squeeze | OpType::Unsqueeze | OpType::Reshape | OpType::Identity,
        ) => collect(edit, operand, factors, nodes),
        Some(OpType::Mul) => {
            collect(edit, operand, factors, nodes)?;
            collect(edit, edit.input(index, 1)?, factors, nodes)
        }
        Some(OpType::Shape) => {
            let Type { shape, .. } = edit.ty(operand)?;
            let at = |name: &str, default: i64| match node.attr(name) {
                Some(Attr::Int(at)) => *at,
                _ => default,
            };
            let (start, end) = (at("start", 0), at("end", shape.len() as i64));
            let is_one = start >= 0 && end == start + 1;
            let dim = shape.get(usize::try_from(start).ok()?).filter(|_| is_one)?;
            factors.push(dim.clone());
            Some(())
        }
        _ => None,
    }
}
