//! Finds nodes by their operands or their position, for messages that do not name them.

use onnx::DType;
use onnx::scan::{Attribute, AttributeValue, Dim, Node, ValueType};
use provenance::outline::GraphPlace;
use rustc_hash::FxHashSet;

use super::resolve::{Culprits, MAX_LISTED, few, is_inside, nodes_where};
use crate::Document;
use crate::log::{Operand, Operands};

/// Returns the node of the main graph at a position, if it has the operator. TensorRT writes the name of its own
/// function for the operator, and uses one function for all operators that it does not know.
pub(super) fn of_position(document: &Document<'_>, position: usize, op: &str) -> Culprits {
    let nodes = document.graph(0).map(|graph| graph.nodes.clone()).unwrap_or_default();
    let node = nodes.clone().nth(position);
    let is_it = |&number: &usize| {
        let node = document.scan.nodes.get(number);
        op == "FallbackPluginImporter" || node.is_some_and(|node| node.op == op)
    };
    match node.filter(is_it) {
        Some(node) => Culprits {
            nodes: vec![node],
            how: format!("this is node {position} of the model"),
            ..Culprits::default()
        },
        None => Culprits {
            how: format!("node {position} of the model is not a {op}"),
            ..Culprits::default()
        },
    }
}

/// The attributes that operators require, by name.
const REQUIRED: &[(&str, &[&str])] = &[
    ("axis", &["Concat"]),
    ("blocksize", &["DepthToSpace", "SpaceToDepth"]),
    ("body", &["Loop", "Scan"]),
    ("else_branch", &["If"]),
    ("equation", &["Einsum"]),
    ("kernel_shape", &["AveragePool", "LpPool", "MaxPool", "MaxUnpool"]),
    ("num_scan_inputs", &["Scan"]),
    ("then_branch", &["If"]),
    ("to", &["Cast"]),
];

/// Returns the nodes without an attribute that their operators require.
pub(super) fn of_attribute(document: &Document<'_>, attribute: &str) -> Culprits {
    let required = REQUIRED.iter().find(|(name, _)| *name == attribute);
    let ops = required.map_or(&[][..], |(_, ops)| ops);
    let is_it = |node: &Node<'_>| ops.contains(&node.op) && node.attribute(attribute).is_none();
    let nodes = nodes_where(document, is_it);
    let mut found = few(nodes, &format!("{} ", ops.join(" or ")), MAX_LISTED);
    found.how = format!("{} without `{attribute}`", found.how.replace("  ", " "));
    found
}

/// Returns the nodes of an operator in which an attribute has another value than 0.
pub(super) fn of_other(document: &Document<'_>, op: &str, attribute: &str) -> Culprits {
    let is_other = |node: &Node<'_>| match node.attribute(attribute).map(Attribute::value) {
        Some(AttributeValue::Ints(values)) => values.iter().any(|&value| value != 0),
        _ => false,
    };
    let nodes = nodes_where(document, |node| node.op == op && is_other(node));
    let mut found = few(nodes, op, MAX_LISTED);
    found.how = format!("{} with `{attribute}`", found.how);
    found
}

/// Returns the products whose declared operands do not fit. If all of them fit, returns all products.
pub(super) fn of_product(document: &Document<'_>) -> Culprits {
    let products = nodes_where(document, |node| node.op == "MatMul");
    let differs = |&number: &usize| {
        let Some(node) = document.scan.nodes.get(number) else { return false };
        let shape = |at: usize| shape(document, node.graph as usize, node.inputs.get(at)?);
        let (Some(left), Some(right)) = (shape(0), shape(1)) else { return false };
        let inner = right.len().saturating_sub(2);
        let sizes = (left.last().copied().flatten(), right.get(inner).copied().flatten());
        matches!(sizes, (Some(left), Some(right)) if left != right)
    };
    let different: Vec<usize> = products.iter().copied().filter(differs).collect();
    match different.is_empty() {
        true => few(products, "MatMul", MAX_LISTED),
        false => few(different, "MatMul with operands that do not fit", MAX_LISTED),
    }
}

/// OpenVINO names a node and those that it fused after it after the last of them. If the operation is not that of
/// this node, adds the node before it that has the operation.
pub(super) fn of_fused(document: &Document<'_>, mut found: Culprits, operation: &str) -> Culprits {
    /// The maximum number of fused nodes.
    const MAX: usize = 4;
    let [last] = found.nodes[..] else { return found };
    // `Convolution` is `Conv`, and `Multiply` is `Mul`.
    let is_it = |node: usize| {
        document.scan.nodes.get(node).is_some_and(|node| operation.starts_with(node.op))
    };
    if is_it(last) {
        return found;
    }
    let outline = document.outline();
    let mut before = vec![last];
    for _ in 0..MAX {
        let producers = |&node: &usize| outline.nodes.get(node).map(|node| node.inputs.clone());
        before = before.iter().filter_map(producers).flatten().map(|it| it as usize).collect();
        let same: Vec<usize> = before.iter().copied().filter(|&node| is_it(node)).collect();
        if !same.is_empty() {
            found.nodes.splice(0..0, same);
            break;
        }
    }
    found.nodes.dedup();
    found.is_certain = false;
    found.how = format!("{}, into which the runtime fused a {operation}", found.how);
    found
}

/// The operators whose kernels in ONNX Runtime broadcast their operands.
const BROADCASTS: &[&str] = &[
    "Add",
    "And",
    "BitShift",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "Div",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Max",
    "Mean",
    "Min",
    "Mod",
    "Mul",
    "Or",
    "PRelu",
    "Pow",
    "Sub",
    "Sum",
    "Where",
    "Xor",
];

/// Returns the nodes with two operands that may have these sizes along the same axis.
pub(super) fn of_broadcast(document: &Document<'_>, sizes: [i64; 2]) -> Culprits {
    let nodes = nodes_where(document, |node| {
        let shape = |name: &&str| shape(document, node.graph as usize, name);
        let shapes: Vec<Option<Vec<Option<i64>>>> = node.inputs.iter().map(shape).collect();
        let may_be = |shape: &Option<Vec<Option<i64>>>, axis: usize, size: i64| match shape {
            None => true,
            Some(shape) => {
                let at = shape.len().checked_sub(axis + 1).and_then(|at| shape.get(at));
                at.is_some_and(|known| known.is_none_or(|known| known == size))
            }
        };
        let rank = shapes.iter().flatten().map(Vec::len).max().unwrap_or(1);
        let is_pair = |one: usize, other: usize| {
            (0..rank).any(|axis| {
                may_be(&shapes[one], axis, sizes[0]) && may_be(&shapes[other], axis, sizes[1])
            })
        };
        let operands = 0..shapes.len();
        BROADCASTS.contains(&node.op)
            && operands.clone().any(|one| operands.clone().any(|it| it != one && is_pair(one, it)))
    });
    let [one, other] = sizes;
    let how = match nodes.len() {
        0 => "the message names no node".to_owned(),
        1 => format!(
            "the model has one node whose operands may have {one} and {other} elements along an axis"
        ),
        count => format!(
            "the model has {count} nodes whose operands may have {one} and {other} elements along an axis"
        ),
    };
    let nodes = if nodes.len() > MAX_LISTED { Vec::new() } else { nodes };
    Culprits { nodes, how, ..Culprits::default() }
}

/// Returns the declared sizes of a value, `None` for those that are not known.
fn shape(document: &Document<'_>, graph: usize, name: &str) -> Option<Vec<Option<i64>>> {
    if let Some(ValueType::Tensor { shape, .. }) = document.declared_type(graph, name) {
        let known = |size: &Dim<'_>| match size {
            Dim::Known(size) => Some(*size),
            _ => None,
        };
        return shape.as_ref().map(|sizes| sizes.iter().map(known).collect());
    }
    let tensor = document.initializer(graph, name)?;
    Some(tensor.dims.iter().map(|&size| Some(size)).collect())
}

/// Returns the nodes with these operands. `outer` is the enclosing node, if the message names one.
pub(super) fn of_operands(
    document: &Document<'_>,
    wanted: &Operands,
    outer: Option<usize>,
) -> Culprits {
    let values: FxHashSet<&str> =
        document.scan.nodes.iter().flat_map(|node| node.outputs.iter().copied()).collect();
    let is_it = |node: &Node<'_>| {
        let has_op = wanted.ops.is_empty() || wanted.ops.iter().any(|op| op == node.op);
        let is_unnamed = !wanted.is_named_like_a_value || values.contains(node.name);
        has_op && (is_unnamed || node.name.is_empty()) && has_operands(document, node, wanted)
    };
    let mut nodes = nodes_where(document, is_it);
    if let Some(outer) = outer {
        nodes.retain(|&node| is_inside(document, node, outer));
    }
    if let (true, Some(number)) = (nodes.len() > 1, wanted.number) {
        let numbered: Vec<usize> = nodes
            .iter()
            .copied()
            .filter(|&node| number_of(document, node) == Some(number))
            .collect();
        if !numbered.is_empty() {
            nodes = numbered;
        }
    }
    let what = match wanted.ops.as_slice() {
        [op] => format!("{op} node"),
        _ => "node".to_owned(),
    };
    let how = match nodes.len() {
        0 => format!("the message names no node, and the model has no {what} with these operands"),
        1 => format!("the model has one {what} with these operands at this place"),
        count => format!("the model has {count} {what}s with these operands"),
    };
    if nodes.len() > MAX_LISTED {
        nodes.clear();
    }
    Culprits { nodes, how, ..Culprits::default() }
}

fn has_operands(document: &Document<'_>, node: &Node<'_>, wanted: &Operands) -> bool {
    let trimmed = |count: usize, is_absent: &dyn Fn(usize) -> bool| {
        (0..count).rev().find(|&at| !is_absent(at)).map_or(0, |at| at + 1)
    };
    let given = trimmed(node.inputs.len(), &|at| node.inputs[at].is_empty());
    let listed = trimmed(wanted.operands.len(), &|at| wanted.operands[at].is_absent);
    given == listed
        && node.inputs.iter().zip(&wanted.operands).all(|(&name, operand)| {
            name.is_empty() == operand.is_absent
                && (operand.is_absent || fits(document, node.graph as usize, name, operand))
        })
}

/// True if a value may have the type of an operand.
fn fits(document: &Document<'_>, graph: usize, name: &str, operand: &Operand) -> bool {
    let argument = document.graph(0).and_then(|graph| graph.inputs.get(operand.argument?));
    if argument.is_some_and(|input| input.name != name) && graph == 0 {
        return false;
    }
    let is_element = |code: i32| {
        let Some(element) = DType::from_code(code) else { return true };
        operand.elements.is_empty() || operand.elements.contains(&element.to_string())
    };
    let declared = document.declared_type(graph, name);
    let element = match declared {
        Some(ValueType::Tensor { element, .. }) => Some(*element),
        _ => document.initializer(graph, name).map(|tensor| tensor.element),
    };
    let has_sizes = match (shape(document, graph, name), &operand.sizes) {
        (Some(sizes), Some(wanted)) => {
            let is_same = |(size, wanted): (&Option<i64>, &Option<i64>)| match (size, wanted) {
                (Some(size), Some(wanted)) => size == wanted,
                _ => true,
            };
            sizes.len() == wanted.len() && sizes.iter().zip(wanted).all(is_same)
        }
        _ => true,
    };
    element.is_none_or(is_element) && has_sizes
}

/// Returns the number that IREE's text gives to the result of a node: it numbers the initializers of a graph, then
/// its nodes, and continues in a body with the number after that of the node around it.
fn number_of(document: &Document<'_>, node: usize) -> Option<usize> {
    let mut number = 0;
    let mut at = node;
    for depth in 0..document.scan.graphs.len() {
        let graph = document.graph(document.scan.nodes.get(at)?.graph as usize)?;
        number += graph.initializers.len() + at.checked_sub(graph.nodes.start)?;
        number += usize::from(depth > 0);
        match graph.place {
            GraphPlace::Main => return Some(number),
            GraphPlace::Function(_) => return None,
            GraphPlace::Body { node, .. } => at = node as usize,
        }
    }
    None
}
