//! Lists the names in a finished model and the readers of each value.

use provenance::OriginId;
use provenance::outline::{GraphPlace, Outline, OutlineBuilder};

use crate::attr::Attr;
use crate::model::{Graph, Model};
use crate::value::ValueId;

/// The names in a model, each with its origin.
#[derive(Clone, Debug)]
pub struct Outlined {
    pub outline: Outline,
    /// The origin of each node of the outline.
    pub origins: Vec<OriginId>,
    /// The inputs, weights and outputs.
    pub values: Vec<ValueId>,
}

/// Returns the outline of a model whose nodes and values have names.
pub fn outline(model: &Model) -> Outlined {
    let mut builder = OutlineBuilder::default();
    let mut origins = Vec::new();
    let functions = model.functions.iter().map(|function| {
        let name = format!("{}::{}", function.domain, function.name);
        (GraphPlace::Function(name.into()), None, &function.body)
    });
    let mut graphs: Vec<(GraphPlace, Option<usize>, &Graph)> =
        vec![(GraphPlace::Main, None, &model.graph)];
    graphs.extend(functions);
    let mut next = 0;
    while let Some((place, around, graph)) = graphs.get(next).cloned() {
        let here = builder.graph(place, around);
        for node in &graph.nodes {
            let number = builder.node(
                node.name.as_deref().unwrap_or_default(),
                node.op.domain(),
                node.op.name(),
                node.inputs.iter().flatten().map(|&id| name(model, id)),
                node.outputs.iter().map(|&id| name(model, id)),
            );
            origins.push(model.origin_of(node));
            for (attribute, attr) in &node.attrs {
                if let Attr::Graph(body) = attr {
                    let place = GraphPlace::Body { node: number, attribute: attribute.clone() };
                    graphs.push((place, Some(here), body));
                }
            }
        }
        next += 1;
    }
    Outlined { outline: builder.finish(), origins, values: model.described_values() }
}

fn name(model: &Model, id: ValueId) -> &str {
    model.values[id].name.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::assign_names;
    use crate::proto::{no_metadata, skim, to_bytes};
    use crate::text::parse_graph;

    #[test]
    fn a_model_and_its_file_have_the_same_outline() {
        let mut model = parse_graph(
            "graph f(c:bool[], x:f32[]) -> (y)
             %0 = Neg(x)
             %1, %2 = Split(%0)
             y:f32[] = If(c) {else_branch={
               graph no() -> (%3)
               %3 = my::Add(%0, %2)
             }, then_branch={
               graph yes() -> (%4)
               %4 = Neg(%0)
             }}
             function local::g(%0) -> (y)
             y = Neg(%0)",
        )
        .unwrap();
        assign_names(&mut model);
        let Outlined { outline, origins, .. } = outline(&model);
        assert_eq!(origins.len(), outline.nodes.len());
        let inputs: Vec<&[u32]> = outline.nodes.iter().map(|node| &*node.inputs).collect();
        assert_eq!(inputs, [&[][..], &[0], &[], &[], &[0, 1], &[0]]);
        let bytes = to_bytes(&model, &mut no_metadata).unwrap();
        assert_eq!(skim(&bytes).unwrap().outline, outline);
    }
}
