//! Finds the source lines of the weights, inputs and outputs of a finished model.

use indexmap::IndexSet;
use provenance::{Origin, OriginId, Site, Table};
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::check::constants_of;
use crate::model::{Graph, Model};
use crate::value::ValueId;

impl Model {
    /// Records the lines that read each weight, because a fused node no longer distinguishes them.
    pub fn note_captures(&mut self) {
        let mut readers: FxHashMap<ValueId, Vec<OriginId>> = FxHashMap::default();
        note_readers(&self.graph, &mut readers);
        for id in self.values.ids().filter(|id| self.values[*id].is_captured()).collect::<Vec<_>>()
        {
            let readers = readers.get(&id).map(Vec::as_slice).unwrap_or_default();
            self.values[id].captured = captured(&mut self.provenance, readers);
        }
    }

    /// Sets the origin of every initializer and every output.
    ///
    /// An output has the origin of the node that computes it. A constant that replaces folded equations keeps their
    /// origins. The origin of a weight contains the lines that read it in order, because the user's code captured
    /// it there. Any other constant has the origin of its first reader.
    pub fn assign_value_origins(&mut self) {
        let mut readers: FxHashMap<ValueId, Vec<OriginId>> = FxHashMap::default();
        note_readers(&self.graph, &mut readers);
        for id in self.values.ids() {
            let value = &self.values[id];
            if value.tensor.is_some()
                && value.origin.is_none()
                && let Some(readers) = readers.get(&id)
            {
                self.values[id].origin = match value.is_captured() {
                    true => value.captured.or_else(|| captured(&mut self.provenance, readers)),
                    false => readers.first().map(|&first| shown(&mut self.provenance, first)),
                };
            }
        }
        for node in &self.graph.nodes {
            for id in node.outputs.iter().filter(|id| self.graph.outputs.contains(id)) {
                self.values[*id].origin = Some(node.origin);
            }
        }
    }

    /// Returns the inputs, weights and outputs of the model, each once.
    pub fn described_values(&self) -> Vec<ValueId> {
        let inputs = self.graph.inputs.iter().copied();
        let weights = constants_of(self, &self.graph).into_iter();
        let values = inputs.chain(weights).chain(self.graph.outputs.iter().copied());
        values.collect::<IndexSet<ValueId, FxBuildHasher>>().into_iter().collect()
    }

    /// Returns every origin to render: those of nodes, weights, inputs and outputs.
    pub fn origins(&self) -> impl Iterator<Item = OriginId> + '_ {
        let nodes = self.graphs().into_iter().flat_map(|graph| &graph.nodes);
        let values = self.described_values().into_iter().filter_map(|id| self.origin_of_value(id));
        nodes.map(|node| self.origin_of(node)).chain(values)
    }
}

/// Records the readers of each value, in the order of the graph. A read in a body counts for the node in the body,
/// not for the node that contains the body.
fn note_readers(graph: &Graph, readers: &mut FxHashMap<ValueId, Vec<OriginId>>) {
    for node in &graph.nodes {
        for &id in node.inputs.iter().flatten() {
            readers.entry(id).or_default().push(node.origin);
        }
        for body in node.bodies() {
            note_readers(body, readers);
            for &id in &body.outputs {
                readers.entry(id).or_default().push(node.origin);
            }
        }
    }
}

/// Returns the lines that read a weight.
fn captured(table: &mut Table, readers: &[OriginId]) -> Option<OriginId> {
    let mut lines = readers.iter().map(|&reader| {
        let site = table.get_site(table.get_origin(reader).primary);
        Origin::of(table.site(Site { emitter: None, ..site }))
    });
    let first = lines.next()?;
    let all = lines.fold(first, |all, line| all.absorb(&line));
    Some(table.origin(all))
}

/// Returns an origin with only the site that is shown first.
fn shown(table: &mut Table, origin: OriginId) -> OriginId {
    let primary = table.get_origin(origin).primary;
    table.origin(Origin::of(primary))
}

#[cfg(test)]
mod tests {
    use provenance::render::callsite;

    use super::*;
    use crate::text::parse_graph;

    /// Returns the lines of a value, the one that is shown first at the front.
    fn lines(model: &Model, name: &str) -> Vec<String> {
        let named = |id: &ValueId| model.values[*id].name.as_deref() == Some(name);
        let id = model.values.ids().find(named).expect("the value is there");
        let origin = model.provenance.get_origin(model.origin_of_value(id).expect("an origin"));
        let line = |site| callsite(&model.provenance, site).unwrap_or_default();
        origin.sites().map(line).collect()
    }

    #[test]
    fn a_weight_has_the_lines_that_read_it_and_an_output_the_line_that_makes_it() {
        let mut model = parse_graph(
            "graph g(c:bool[], x:f32[2]) -> (y)
             w = const f32[2]
             two = const f32[]
             %0:f32[2] = Mul(x, two)
             %1:f32[2] = If(c) {else_branch={
               graph no() -> (%2)
               %2:f32[2] = Add(%0, w)
             }, then_branch={
               graph yes() -> (w)
             }}
             y:f32[2] = Mul(%1, w)",
        )
        .expect("the graph of a test can be parsed");
        for id in model.values.ids() {
            let value = &mut model.values[id];
            value.is_weight = value.name.as_deref() == Some("w");
        }
        model.assign_value_origins();
        assert_eq!(lines(&model, "w"), ["f:7", "f:5", "f:11"]);
        assert_eq!(lines(&model, "two"), ["f:4"]);
        assert_eq!(lines(&model, "y"), ["f:11"]);
    }
}
