//! Reads what the conditions of branches say about sizes: within the branch of `B > 0`, `B` is at least 1.

use onnx::Dim;
use onnx::scan::{self, Node, Tensor, ValueType};
use provenance::outline::GraphPlace;
use rustc_hash::FxHashMap;

use crate::Document;

/// The nodes that compute the values of a document.
pub(crate) struct Guards<'d, 'a> {
    document: &'d Document<'a>,
    makers: FxHashMap<(usize, &'d str), &'d Node<'a>>,
}

impl<'d, 'a> Guards<'d, 'a> {
    pub(crate) fn new(document: &'d Document<'a>) -> Self {
        let made = |node: &'d Node<'a>| {
            let graph = node.graph as usize;
            node.outputs.iter().map(move |name| ((graph, &**name), node))
        };
        Self { document, makers: document.scan.nodes.iter().flat_map(made).collect() }
    }

    /// Returns the smallest sizes with which a graph runs, as far as its branch and the ones around it tell.
    pub(crate) fn smallest(&self, graph: usize) -> Vec<(&'d str, i64)> {
        let mut found = Vec::new();
        let mut graph = Some(graph);
        while let Some(inner) = graph.and_then(|number| self.document.graph(number)) {
            if let GraphPlace::Body { node, attribute } = &inner.place
                && let Some(branch) = self.document.scan.nodes.get(*node as usize)
                && (branch.op, &**attribute) == ("If", "then_branch")
                && let Some(condition) = branch.inputs.first()
            {
                self.read(branch.graph as usize, condition, &mut found);
            }
            graph = inner.around;
        }
        found
    }

    /// Reads a condition that is true: comparisons of a size with a constant, all of which hold.
    fn read(&self, graph: usize, condition: &str, found: &mut Vec<(&'d str, i64)>) {
        let mut left = vec![condition];
        while let Some(name) = left.pop() {
            let Some(node) = self.maker(graph, name) else { continue };
            let more = match node.op {
                "And" => {
                    left.extend(node.inputs.iter().map(|name| &**name));
                    continue;
                }
                "Greater" => 1,
                "GreaterOrEqual" => 0,
                _ => continue,
            };
            let [size, bound] = &node.inputs[..] else { continue };
            let graph = node.graph as usize;
            if let Some(size) = self.size(graph, size)
                && let Some(bound) = self.document.initializer(graph, bound).and_then(number)
            {
                found.extend(bound.checked_add(more).map(|least| (size, least)));
            }
        }
    }

    /// Returns the name of the size that a scalar contains.
    fn size(&self, graph: usize, name: &str) -> Option<&'d str> {
        let mut node = self.maker(graph, name)?;
        // A scalar has the same element before it was reshaped.
        while matches!(node.op, "Identity" | "Reshape" | "Squeeze") {
            node = self.maker(node.graph as usize, node.inputs.first()?)?;
        }
        if node.op != "Shape" {
            return None;
        }
        let read = self.document.declared_type(node.graph as usize, node.inputs.first()?)?;
        let ValueType::Tensor { shape: Some(shape), .. } = read else { return None };
        let rank = i64::try_from(shape.len()).ok()?;
        let place = |name| {
            let scan::AttributeValue::Int(at) = node.attribute(name)?.value() else { return None };
            Some(if at < 0 { at + rank } else { at })
        };
        let start = place("start").unwrap_or(0);
        match shape.get(usize::try_from(start).ok()?)? {
            scan::Dim::Named(size) if place("end").unwrap_or(rank) == start + 1 => Some(size),
            _ => None,
        }
    }

    fn maker(&self, graph: usize, name: &str) -> Option<&'d Node<'a>> {
        let around = |&graph: &usize| self.document.graph(graph)?.around;
        std::iter::successors(Some(graph), around).find_map(|graph| {
            let node = self.makers.get(&(graph, name))?;
            node.domain().is_empty().then_some(*node)
        })
    }
}

/// True if a size is positive wherever the named ones are as large as stated.
pub(crate) fn is_positive(size: &str, smallest: &[(&str, i64)]) -> bool {
    let least = |size: &str| {
        let known = smallest.iter().filter(|(name, _)| *name == size);
        known.map(|(_, least)| *least).max().filter(|&least| least > 0)
    };
    let more = |symbol: &onnx::Symbol| {
        let name = symbol.to_string();
        Dim::from(symbol.clone()).checked_add(&Dim::Known(least(&name)?))
    };
    let parsed = Dim::from_param(size);
    least(size).is_some()
        || parsed.is_positive()
        || parsed.with(&more).is_some_and(|size| size.is_positive())
}

/// Returns the only element of an `int64` tensor.
fn number(tensor: &Tensor<'_>) -> Option<i64> {
    let is_one = tensor.elements() == Some(1) && tensor.element == onnx::DType::I64.code();
    let listed = tensor.listed();
    let bytes = tensor.raw.or(listed.as_deref()).filter(|_| is_one)?;
    Some(i64::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_is_positive_for_all_symbols_is_not_listed() {
        for (size, is_listed) in [
            ("T", true),
            ("T - 2", true),
            ("2*T + 1", false),
            ("T + S", true),
            ("T - S + 1", true),
            ("floordiv(T + 1, 2)", true),
            ("floordiv(T + 2, 2)", false),
            ("floordiv(T, 2) + 1", false),
            ("max(T - 2, 1)", false),
            ("batch size + 1", true),
        ] {
            assert_eq!(is_positive(size, &[]), !is_listed, "{size}");
        }
    }

    #[test]
    fn a_branch_tells_how_large_its_sizes_are() {
        for (size, smallest, expected) in [
            ("T", vec![("T", 1)], true),
            ("T", vec![("T", 0)], false),
            ("T", vec![("S", 1)], false),
            ("T", vec![("T", 0), ("T", 1)], true),
            ("floordiv(T + 31, 32)", vec![("T", 1)], true),
            ("floordiv(T, 32)", vec![("T", 31)], false),
            ("floordiv(T, 32)", vec![("T", 32)], true),
            ("T - S", vec![("T", 5)], false),
            ("T - S", vec![("T - S", 1)], true),
        ] {
            assert_eq!(is_positive(size, &smallest), expected, "{size} {smallest:?}");
        }
    }
}
