//! Reads the names and the metadata of a model from any exporter.

use provenance::outline::Outline;

use super::scan::{FormatError, Graph, Pair, scan};

/// The names and the metadata of a model, which may contain any operators, types and attributes.
#[derive(Clone, Debug, Default)]
pub struct Skim {
    pub outline: Outline,
    /// The metadata of each node of the outline.
    pub metadata: Vec<Vec<(String, String)>>,
    /// The inputs, initializers and outputs of the main graph that have metadata.
    pub values: Vec<(String, Vec<(String, String)>)>,
    pub model_metadata: Vec<(String, String)>,
}

/// Reads the names and the metadata of a model.
pub fn skim(bytes: &[u8]) -> Result<Skim, FormatError> {
    let scan = scan(bytes)?;
    let metadata = scan.nodes.iter().map(|node| pairs(&node.metadata)).collect();
    let model_metadata = pairs(&scan.metadata);
    let values = scan.graphs.first().map(described).unwrap_or_default();
    Ok(Skim { outline: scan.outline(), metadata, values, model_metadata })
}

/// Returns the inputs, weights and outputs of a graph that have metadata.
fn described(graph: &Graph<'_>) -> Vec<(String, Vec<(String, String)>)> {
    let inputs = graph.inputs.iter().map(|value| (value.name, &value.metadata));
    let weights = graph.initializers.iter().map(|tensor| (tensor.name, &tensor.metadata));
    let outputs = graph.outputs.iter().map(|value| (value.name, &value.metadata));
    let values = inputs.chain(weights).chain(outputs).filter(|(_, metadata)| !metadata.is_empty());
    values.map(|(name, metadata)| (name.to_owned(), pairs(metadata))).collect()
}

fn pairs(entries: &[Pair<'_>]) -> Vec<(String, String)> {
    entries.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}
