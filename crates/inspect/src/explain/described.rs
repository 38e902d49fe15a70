//! Finds nodes by their operands or their position, for messages that do not name them.

use onnx::DType;
use onnx::scan::{Dim, Node, ValueType};
use provenance::outline::GraphPlace;
use rustc_hash::FxHashSet;

use super::resolve::{Culprits, MAX_LISTED, is_inside, nodes_where};
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
        let numbered: Vec<usize> =
            nodes.iter().copied().filter(|&node| number_of(document, node) == Some(number)).collect();
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
    let has_sizes = |sizes: &mut dyn ExactSizeIterator<Item = Option<i64>>| {
        let Some(wanted) = &operand.sizes else { return true };
        sizes.len() == wanted.len()
            && sizes.zip(wanted).all(|(size, wanted)| match (size, wanted) {
                (Some(size), Some(wanted)) => size == *wanted,
                _ => true,
            })
    };
    if let Some(ValueType::Tensor { element, shape }) = document.declared_type(graph, name) {
        let known = |size: &Dim<'_>| match size {
            Dim::Known(size) => Some(*size),
            _ => None,
        };
        return is_element(*element)
            && shape.as_ref().is_none_or(|sizes| has_sizes(&mut sizes.iter().map(known)));
    }
    match document.initializer(graph, name) {
        Some(tensor) => {
            is_element(tensor.element) && has_sizes(&mut tensor.dims.iter().map(|&size| Some(size)))
        }
        None => true,
    }
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
