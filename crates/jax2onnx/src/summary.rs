//! Summarizes the model that an export would write.

use std::collections::{BTreeMap, BTreeSet};

use onnx::{Model, ValueId};

/// The contents of a model in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub opset: i64,
    /// The number of nodes of each operator, including those of bodies and functions.
    pub ops: BTreeMap<String, usize>,
    /// The number of initializers, and their size in bytes.
    pub weights: usize,
    pub weight_bytes: usize,
    /// Names and types.
    pub inputs: Vec<(String, String)>,
    pub outputs: Vec<(String, String)>,
}

/// Counts the nodes and the weights of a model.
pub fn summary(model: &Model) -> Summary {
    let mut summary = Summary::default();
    let mut weights: BTreeSet<ValueId> = BTreeSet::new();
    for node in model.graphs().into_iter().flat_map(|graph| &graph.nodes) {
        *summary.ops.entry(node.op.name().to_owned()).or_default() += 1;
        weights.extend(node.inputs.iter().flatten().copied());
    }
    weights.extend(&model.graph.outputs);
    let tensors = weights.iter().filter_map(|&id| model.values[id].tensor.as_ref());
    for tensor in tensors {
        summary.weights += 1;
        summary.weight_bytes += tensor.byte_len();
    }
    let described = |ids: &[ValueId]| {
        let describe = |&id: &ValueId| {
            let value = &model.values[id];
            let name = value.name.as_deref().unwrap_or_default().to_owned();
            (name, value.ty.as_ref().map_or_else(|| "?".to_owned(), ToString::to_string))
        };
        ids.iter().map(describe).collect()
    };
    summary.inputs = described(&model.graph.inputs);
    summary.outputs = described(&model.graph.outputs);
    let opset = model.opsets.iter().find(|(domain, _)| domain.is_empty());
    summary.opset = opset.map_or(0, |(_, version)| *version);
    summary
}
