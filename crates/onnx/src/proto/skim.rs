//! The names and the metadata of a model that anybody may have written.

use bytes::Bytes;
use prost::Message;
use provenance::outline::{Outline, OutlineBuilder, Place};

use super::ReadError;
use super::generated::{
    GraphProto, ModelProto, NodeProto, StringStringEntryProto, TensorProto, ValueInfoProto,
};

/// What can be said of every model, whatever operators, types and attributes it has.
#[derive(Clone, Debug, Default)]
pub struct Skim {
    pub outline: Outline,
    /// The metadata of each node of the outline.
    pub metadata: Vec<Vec<(String, String)>>,
    /// The inputs, initializers and outputs of the main graph that have metadata.
    pub values: Vec<(String, Vec<(String, String)>)>,
    pub model_metadata: Vec<(String, String)>,
    /// The files that weights are in, below the folder of the model, each once.
    pub external: Vec<String>,
}

/// Reads the names and the metadata of a model, and nothing else.
pub fn skim(bytes: Bytes) -> Result<Skim, ReadError> {
    let model = ModelProto::decode(bytes)?;
    let graph = model.graph.as_ref().ok_or(ReadError::NoGraph)?;
    let mut builder = OutlineBuilder::default();
    let mut metadata = Vec::new();
    let mut graphs: Vec<(Place, Option<usize>, &[NodeProto])> =
        vec![(Place::Main, None, &graph.node)];
    for function in &model.functions {
        let (domain, name) = (text(function.domain.as_ref()), text(function.name.as_ref()));
        graphs.push((Place::Function(format!("{domain}::{name}").into()), None, &function.node));
    }
    let mut next = 0;
    while let Some((place, around, nodes)) = graphs.get(next).cloned() {
        let here = builder.graph(place, around);
        for node in nodes {
            let domain = text(node.domain.as_ref());
            let number = builder.node(
                text(node.name.as_ref()),
                if domain == "ai.onnx" { "" } else { domain },
                text(node.op_type.as_ref()),
                node.input.iter().map(String::as_str),
                node.output.iter().map(String::as_str),
            );
            metadata.push(pairs(&node.metadata_props));
            for (attribute, body) in bodies(node) {
                let place = Place::Body { node: number, attribute: attribute.into() };
                graphs.push((place, Some(here), &body.node));
            }
        }
        next += 1;
    }
    let described = |value: &ValueInfoProto| (value.name.clone(), pairs(&value.metadata_props));
    let weights = graph.initializer.iter().map(|t| (t.name.clone(), pairs(&t.metadata_props)));
    let inputs = graph.input.iter().map(described);
    let values = inputs.chain(weights).chain(graph.output.iter().map(described));
    let values = values.map(|(name, pairs)| (name.unwrap_or_default(), pairs));
    let values = values.filter(|(_, pairs)| !pairs.is_empty()).collect();
    let model_metadata = pairs(&model.metadata_props);
    let external = external(&model);
    Ok(Skim { outline: builder.finish(), metadata, values, model_metadata, external })
}

/// The locations of all tensors, those of attributes and bodies too.
fn external(model: &ModelProto) -> Vec<String> {
    let mut locations: Vec<String> = Vec::new();
    let mut tensors: Vec<&TensorProto> = Vec::new();
    let mut graphs: Vec<&GraphProto> = model.graph.iter().collect();
    let mut nodes: Vec<&NodeProto> = model.functions.iter().flat_map(|f| &f.node).collect();
    loop {
        if let Some(graph) = graphs.pop() {
            tensors.extend(&graph.initializer);
            nodes.extend(&graph.node);
        } else if let Some(node) = nodes.pop() {
            graphs.extend(bodies(node).map(|(_, graph)| graph));
            tensors.extend(node.attribute.iter().flat_map(|a| a.t.iter().chain(&a.tensors)));
        } else {
            break;
        }
    }
    for entry in tensors.into_iter().flat_map(|tensor| &tensor.external_data) {
        let location = text(entry.value.as_ref());
        if text(entry.key.as_ref()) == "location" && !locations.iter().any(|l| l == location) {
            locations.push(location.to_owned());
        }
    }
    locations.sort();
    locations
}

fn bodies(node: &NodeProto) -> impl Iterator<Item = (&str, &GraphProto)> {
    node.attribute.iter().flat_map(|attribute| {
        let graphs = attribute.g.iter().chain(&attribute.graphs);
        graphs.map(|graph| (text(attribute.name.as_ref()), graph))
    })
}

fn text(field: Option<&String>) -> &str {
    field.map_or("", String::as_str)
}

fn pairs(entries: &[StringStringEntryProto]) -> Vec<(String, String)> {
    let pair = |entry: &StringStringEntryProto| {
        (text(entry.key.as_ref()).to_owned(), text(entry.value.as_ref()).to_owned())
    };
    entries.iter().map(pair).collect()
}
