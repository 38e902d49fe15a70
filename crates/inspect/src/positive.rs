//! Finds sizes that must be positive, because some kernels of ONNX Runtime fail on empty axes.

use std::collections::{BTreeMap, HashMap, HashSet};

use onnx::Operator;
use onnx::operator::properties::POINTWISE;
use onnx::scan::{AttributeValue, Dim, Node, ValueType};
use provenance::outline::GraphPlace;

use crate::guards::{Guards, is_positive};
use crate::{Document, Frame};

/// A size that must be positive when the model runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Positive<'d> {
    /// A symbol or an expression: `T`, `floordiv(T, 2)`.
    pub size: &'d str,
    /// The nodes that need it, in the order of the file.
    pub needed_by: Vec<Need<'d>>,
}

/// A node whose kernel fails if the size is 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need<'d> {
    pub node: String,
    pub op: &'d str,
    /// The line of Python that the node came from.
    pub callsite: Option<Frame<'d>>,
}

/// A value of a node.
#[derive(Clone, Copy)]
enum Operand {
    Input(usize),
    Output(usize),
}

/// Axes of a value.
#[derive(Clone, Copy)]
enum Axes {
    /// All axes from this one on.
    From(usize),
    /// The axis in the attribute `axis`, by default 0.
    Attribute,
    /// The axes before the matrices along which the other factor is broadcast.
    Broadcast,
}

/// The operators, each with the axes that must not be empty. `python/tests/numbers/test_positive.py` runs each row at
/// size 0.
///
/// The kernels of ONNX Runtime contain these conditions:
/// [`Conv`](https://github.com/microsoft/onnxruntime/blob/main/onnxruntime/core/providers/cpu/nn/conv_attributes.h),
/// [`ConvTranspose`](https://github.com/microsoft/onnxruntime/blob/main/onnxruntime/core/providers/cpu/nn/conv_transpose_attributes.h),
/// [pools](https://github.com/microsoft/onnxruntime/blob/main/onnxruntime/core/providers/cpu/nn/pool_attributes.h),
/// [`ArgMax` and `ArgMin`](https://github.com/microsoft/onnxruntime/blob/main/onnxruntime/core/providers/cpu/reduction/reduction_ops.cc),
/// [`Attention`](https://github.com/microsoft/onnxruntime/blob/main/onnxruntime/core/providers/cpu/llm/attention_parameters.h),
/// [`MatMul`](https://github.com/microsoft/onnxruntime/blob/main/onnxruntime/core/providers/cpu/math/matmul_helper.h).
const TABLE: &[(&str, Operand, Axes)] = &[
    ("ArgMax", Operand::Input(0), Axes::Attribute),
    ("ArgMin", Operand::Input(0), Axes::Attribute),
    ("Attention", Operand::Input(0), Axes::From(0)),
    ("Attention", Operand::Input(1), Axes::From(0)),
    ("Attention", Operand::Input(2), Axes::From(0)),
    ("AveragePool", Operand::Input(0), Axes::From(1)),
    ("Conv", Operand::Output(0), Axes::From(2)),
    ("ConvTranspose", Operand::Output(0), Axes::From(2)),
    ("GlobalAveragePool", Operand::Input(0), Axes::From(1)),
    ("GlobalMaxPool", Operand::Input(0), Axes::From(1)),
    ("LpPool", Operand::Input(0), Axes::From(1)),
    ("MatMul", Operand::Input(0), Axes::Broadcast),
    ("MatMul", Operand::Input(1), Axes::Broadcast),
    ("MaxPool", Operand::Input(0), Axes::From(1)),
];

/// Returns the sizes that must be positive, by name. Skips values without a declared shape, and sizes that are positive
/// wherever the branch of the node runs.
pub fn positive<'d>(document: &'d Document<'_>) -> Vec<Positive<'d>> {
    let mut sizes: BTreeMap<&'d str, Vec<Need<'d>>> = BTreeMap::new();
    let transposed = transposed(document);
    let guards = Guards::new(document);
    for (number, node) in document.scan.nodes.iter().enumerate() {
        if !node.domain().is_empty() {
            continue;
        }
        let rows = TABLE.iter().filter(|(op, ..)| *op == node.op);
        let mut named: Vec<&str> = rows
            .flat_map(|&(_, operand, axes)| names(document, node, operand, axes, &transposed))
            .collect();
        named.sort_unstable();
        named.dedup();
        if named.is_empty() {
            continue;
        }
        let smallest = guards.smallest(node.graph as usize);
        for size in named.into_iter().filter(|size| !is_positive(size, &smallest)) {
            let callsite = document.callsites(number).first().map(|&at| document.frame(at));
            let need = Need { node: document.node_name(number), op: node.op, callsite };
            sizes.entry(size).or_default().push(need);
        }
    }
    sizes.into_iter().map(|(size, needed_by)| Positive { size, needed_by }).collect()
}

/// Returns the named sizes of the axes that may be 0.
fn names<'d>(
    document: &'d Document<'_>,
    node: &Node<'_>,
    operand: Operand,
    axes: Axes,
    transposed: &HashSet<(usize, &str)>,
) -> Vec<&'d str> {
    let Some(shape) = shape(document, node, operand) else { return Vec::new() };
    let rank = shape.len();
    let chosen: Vec<usize> = match axes {
        Axes::From(first) => (first..rank).collect(),
        Axes::Attribute => axis(node, rank).into_iter().collect(),
        Axes::Broadcast => {
            let first = node.inputs.first().map(|name| (node.graph as usize, &**name));
            let is_transposed = first.is_some_and(|first| transposed.contains(&first));
            broadcast_axes(document, node, operand, rank, is_transposed)
        }
    };
    let named = |axis: usize| match shape[axis] {
        Dim::Named(size) => Some(size),
        Dim::Known(_) | Dim::Unknown => None,
    };
    chosen.into_iter().filter_map(named).collect()
}

/// Returns the values that the runtime may compute as transposed matrices: the results of a transpose, and what
/// pointwise operators compute from them, because the runtime's optimizer moves a transpose past such operators.
/// It does not move one past a `Max` with one operand. The runtime inlines functions, so the inputs of a function are
/// transposed if the operands of a call are, and calls count as pointwise.
fn transposed<'d>(document: &'d Document<'_>) -> HashSet<(usize, &'d str)> {
    let graphs = document.scan.graphs.iter().enumerate();
    let functions: HashMap<&str, usize> = graphs
        .filter_map(|(number, graph)| match &graph.place {
            GraphPlace::Function(name) => Some((&**name, number)),
            _ => None,
        })
        .collect();
    let mut found = HashSet::new();
    let mut before = None;
    // A function may be stored before one that calls it.
    while before.replace(found.len()) != Some(found.len()) {
        for node in &document.scan.nodes {
            let graph = node.graph as usize;
            let op = Operator::new(node.domain(), node.op);
            let is_found = |name: &&str| found.contains(&(graph, *name));
            let is_moved = (op.is(POINTWISE) || !op.is_onnx())
                && (node.op != "Max" || node.inputs.len() > 1)
                && node.inputs.iter().any(is_found);
            let called = format!("{}::{}", node.domain, node.op);
            if let Some(&function) = functions.get(&*called).filter(|_| is_moved) {
                let inputs = document.scan.graphs[function].inputs.iter().zip(&node.inputs);
                let moved: Vec<&str> = inputs
                    .filter(|(_, name)| is_found(name))
                    .map(|(input, _)| input.name)
                    .collect();
                found.extend(moved.into_iter().map(|name| (function, name)));
            }
            if is_moved || swaps_matrices(node) {
                found.extend(node.outputs.iter().map(|name| (graph, &**name)));
            }
        }
    }
    found
}

/// True if a node transposes each matrix of an array, which the runtime does within a product.
fn swaps_matrices(node: &Node<'_>) -> bool {
    let Some(AttributeValue::Ints(perm)) = node.attribute("perm").map(|perm| perm.value()) else {
        return false;
    };
    let mut expected: Vec<i64> = (0..perm.len() as i64).collect();
    let Some(batch) = perm.len().checked_sub(2) else { return false };
    expected.swap(batch, batch + 1);
    node.op == "Transpose" && perm == expected
}

/// Returns the axes of one factor that the other one lacks or has with size 1. If the second factor is a single
/// matrix, it is excluded: that product works, unless the runtime transposes the first factor within it.
fn broadcast_axes(
    document: &Document<'_>,
    node: &Node<'_>,
    operand: Operand,
    rank: usize,
    is_transposed: bool,
) -> Vec<usize> {
    let is_first = matches!(operand, Operand::Input(0));
    let Some(other) = shape(document, node, Operand::Input(usize::from(is_first))) else {
        return Vec::new();
    };
    let batch = other.len().checked_sub(2).map(|axes| &other[..axes]);
    if is_first
        && !is_transposed
        && batch.is_some_and(|batch| batch.iter().all(|&size| size == Dim::Known(1)))
    {
        return Vec::new();
    }
    let size = |axis: usize| (axis + other.len()).checked_sub(rank).map(|at| other[at]);
    let is_broadcast = |&axis: &usize| matches!(size(axis), None | Some(Dim::Known(1)));
    // If the second factor is a vector, the rows count too.
    let matrix = if is_first && other.len() == 1 { 1 } else { 2 };
    (0..rank.saturating_sub(matrix)).filter(is_broadcast).collect()
}

fn shape<'d>(
    document: &'d Document<'_>,
    node: &Node<'_>,
    operand: Operand,
) -> Option<Vec<Dim<'d>>> {
    let name = match operand {
        Operand::Input(number) => node.inputs.get(number)?,
        Operand::Output(number) => node.outputs.get(number)?,
    };
    let graph = node.graph as usize;
    match document.declared_type(graph, name) {
        Some(ValueType::Tensor { shape, .. }) => shape.clone(),
        Some(_) => None,
        None => {
            let tensor = document.initializer(graph, name)?;
            Some(tensor.dims.iter().map(|&size| Dim::Known(size)).collect())
        }
    }
}

fn axis(node: &Node<'_>, rank: usize) -> Option<usize> {
    let axis = match node.attribute("axis").map(|attribute| attribute.value()) {
        None => 0,
        Some(AttributeValue::Int(axis)) => axis,
        Some(_) => return None,
    };
    let axis = if axis < 0 { axis.checked_add_unsigned(rank as u64)? } else { axis };
    usize::try_from(axis).ok().filter(|&axis| axis < rank)
}

#[cfg(test)]
mod tests {
    use onnx::scan::Attribute;

    use super::*;

    #[test]
    fn an_axis_counts_from_the_end_if_it_is_negative_and_is_0_without_the_attribute() {
        assert_eq!(axis(&Node::default(), 2), Some(0));
        assert_eq!(axis(&Node::default(), 0), None);
        let minus_one = [0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        let last = Attribute { name: "axis", kind: 2, message: &minus_one, reference: "" };
        let node = Node { attributes: vec![last], ..Node::default() };
        assert_eq!(axis(&node, 3), Some(2));
        assert_eq!(axis(&node, 0), None);
    }

    #[test]
    fn the_table_is_sorted_by_operator() {
        assert!(TABLE.is_sorted_by_key(|(op, ..)| *op));
    }
}
