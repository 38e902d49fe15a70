//! The names of nodes and values in a finished model.

use std::borrow::Cow;
use std::sync::Arc;

use provenance::{Emitter, EmitterKind, Scope, ScopeKind, Table};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::attr::Attr;
use crate::model::{Graph, Model, Node};
use crate::operator::OpType;
use crate::proto::OMITTED;
use crate::value::{ValueId, Values};

/// Assigns every node and every value a name that is unique in the whole model, including bodies and functions, and
/// the same from run to run.
///
/// The name of a node consists of its name scope and its primitive, or the function that it calls. If an edit fused
/// the node from several equations, its operator replaces the primitive. In an unrolled loop, the number of the
/// iteration precedes the primitive, except in the first iteration. In a function, the name of the function comes
/// first. Unique names that exist already stay. A value is named after its node, and a constant after the first
/// node that reads it.
pub fn assign_names(model: &mut Model) {
    let mut nodes = Unique::default();
    for graph in graphs_mut(model) {
        keep_node_names(graph, &mut nodes);
    }
    let Model { graph, functions, values, provenance, .. } = model;
    let mut bodies = Unique::default();
    let mut graphs = vec![("", graph)];
    graphs.extend(functions.iter_mut().map(|function| (&*function.name, &mut function.body)));
    for (function, graph) in &mut graphs {
        name_nodes(graph, function, provenance, &mut nodes);
        name_graphs(graph, "graph", &mut bodies);
    }
    let mut values = ValueNames { values, names: Unique::default(), kept: FxHashSet::default() };
    if let Some((_, main)) = graphs.first() {
        main.inputs.iter().chain(&main.outputs).for_each(|&id| values.keep(id));
    }
    for (_, graph) in &graphs {
        values.keep_all(graph);
    }
    for (prefix, graph) in &graphs {
        values.name_all(graph, prefix);
    }
}

fn graphs_mut(model: &mut Model) -> impl Iterator<Item = &mut Graph> {
    let functions = model.functions.iter_mut().map(|function| &mut function.body);
    std::iter::once(&mut model.graph).chain(functions)
}

/// Unique names.
#[derive(Default)]
struct Unique {
    taken: FxHashSet<Arc<str>>,
    /// The next number to try for a name that is taken, so that many equal names stay cheap.
    next: FxHashMap<Arc<str>, usize>,
}

impl Unique {
    /// Returns `name`, or the first of `name_1`, `name_2` … that is free.
    fn claim(&mut self, name: &str) -> Arc<str> {
        let name: Arc<str> = name.into();
        if self.taken.insert(name.clone()) {
            return name;
        }
        let next = self.next.entry(name.clone()).or_insert(1);
        loop {
            let numbered: Arc<str> = format!("{name}_{next}").into();
            *next += 1;
            if self.taken.insert(numbered.clone()) {
                return numbered;
            }
        }
    }
}

/// Removes the names that are empty or taken.
fn keep_node_names(graph: &mut Graph, names: &mut Unique) {
    for node in &mut graph.nodes {
        node.name =
            node.name.take().filter(|name| !name.is_empty() && names.taken.insert(name.clone()));
        for body in node.bodies_mut() {
            keep_node_names(body, names);
        }
    }
}

fn name_nodes(graph: &mut Graph, function: &str, table: &Table, names: &mut Unique) {
    for node in &mut graph.nodes {
        if node.name.is_none() {
            node.name = Some(names.claim(&speaking_name(table, function, node)));
        }
        for body in node.bodies_mut() {
            name_nodes(body, function, table, names);
        }
    }
}

/// The scope of equations of the backward pass of `grad`. They have the module paths of the forward ones, so
/// without it only a number would distinguish them.
const BACKWARD: &str = "backward";

/// Returns the part of a name stack's entry that belongs into the name of a node: names, and the backward pass of
/// `grad`.
fn shown_scope(scope: &Scope) -> Option<&str> {
    match (scope.kind, &*scope.name) {
        (ScopeKind::Name, name) => Some(name),
        (ScopeKind::Transform, "transpose") => Some(BACKWARD),
        (ScopeKind::Transform, _) => None,
    }
}

/// `Transformer/blocks.3/attn/dot_general`
fn speaking_name(table: &Table, function: &str, node: &Node) -> String {
    let site = table.get_site(table.get_origin(node.origin).primary);
    let scopes = site.scope.map_or_else(Vec::new, |scope| table.scope_path(scope));
    let scopes = scopes.into_iter().rev().map(|id| table.get_scope(id));
    let plugin = site.emitter.and_then(|emitter| table.plugin_of(emitter));
    let base = match (plugin.map(|plugin| table.get_emitter(plugin)), node.op.onnx()) {
        (Some(_), Some(op)) if node.is_fused => Cow::Owned(fusion_name(op)),
        (Some(Emitter { kind: EmitterKind::Plugin, name, .. }), _)
            if node.op.domain().is_empty() =>
        {
            Cow::Borrowed(&**name)
        }
        _ => Cow::Borrowed(node.op.name()),
    };
    let mut parts: Vec<&str> = vec![function];
    parts.extend(scopes.filter_map(shown_scope));
    parts.retain(|part| !part.is_empty());
    parts.dedup_by(|part, before| *part == BACKWARD && *before == BACKWARD);
    parts.extend(node.iteration.as_deref());
    parts.push(&base);
    // Like an initializer, a constant of a function is named after its reader.
    let is_constant = node.op == OpType::Constant;
    parts.join("/") + if is_constant { ".const" } else { "" }
}

/// Returns the name of a node that represents several primitives: its operator, spelled like a Python function.
fn fusion_name(op: OpType) -> String {
    match op {
        OpType::IsNaN => "isnan".into(),
        OpType::MatMul => "matmul".into(),
        OpType::PRelu => "prelu".into(),
        _ => snake_case(&op.name().replace("Normalization", "Norm")),
    }
}

/// `LogSoftmax` becomes `log_softmax`, `RMSNorm` becomes `rms_norm`.
fn snake_case(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut text = String::new();
    for (i, &letter) in letters.iter().enumerate() {
        let is_after_lower = i > 0 && !letters[i - 1].is_uppercase();
        let is_before_lower = letters.get(i + 1).is_some_and(|next| next.is_lowercase());
        if letter.is_uppercase() && i > 0 && (is_after_lower || is_before_lower) {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

/// Names every graph, because ONNX requires it. Some runtimes take bodies of the same name for the same body.
fn name_graphs(graph: &mut Graph, name: &str, names: &mut Unique) {
    let name = if graph.name.is_empty() { name } else { &*graph.name };
    graph.name = (&*names.claim(name)).into();
    for node in &mut graph.nodes {
        for (name, attr) in &mut node.attrs {
            if let Attr::Graph(body) = attr {
                name_graphs(body, name, names);
            }
        }
    }
}

struct ValueNames<'a> {
    values: &'a mut Values,
    names: Unique,
    /// The values whose names are final.
    kept: FxHashSet<ValueId>,
}

impl ValueNames<'_> {
    /// Keeps the name of a value if it has one, but changes it if it is taken.
    fn keep(&mut self, id: ValueId) {
        let value = &mut self.values[id];
        if let Some(name) = &value.name
            && self.kept.insert(id)
            && **name != *OMITTED
        {
            value.name = Some(self.names.claim(name));
        }
    }

    fn keep_all(&mut self, graph: &Graph) {
        graph.inputs.iter().for_each(|&id| self.keep(id));
        for node in &graph.nodes {
            node.inputs.iter().flatten().for_each(|&id| self.keep(id));
            node.outputs.iter().for_each(|&id| self.keep(id));
            for body in node.bodies() {
                self.keep_all(body);
            }
        }
        graph.outputs.iter().for_each(|&id| self.keep(id));
    }

    /// Names the values that have no name. `prefix` is for the inputs of the graph.
    fn name_all(&mut self, graph: &Graph, prefix: &str) {
        let dot = if prefix.is_empty() { "" } else { "." };
        for (i, &id) in graph.inputs.iter().enumerate() {
            self.name(id, || format!("{prefix}{dot}input_{i}"));
        }
        for node in &graph.nodes {
            self.name_node(node);
        }
        for &id in &graph.outputs {
            self.name(id, || format!("{prefix}{dot}const"));
        }
    }

    fn name_node(&mut self, node: &Node) {
        let name = node.name.as_deref().unwrap_or(node.op.name());
        for &id in node.inputs.iter().flatten() {
            // A value that is read and has no name yet is a constant.
            self.name(id, || format!("{name}.const"));
        }
        for (i, &id) in node.outputs.iter().enumerate() {
            self.name(id, || match node.outputs.len() {
                1 => name.to_owned(),
                _ => format!("{name}:{i}"),
            });
        }
        for (attr_name, attr) in &node.attrs {
            if let Attr::Graph(body) = attr {
                self.name_all(body, &format!("{name}.{attr_name}"));
            }
        }
    }

    fn name(&mut self, id: ValueId, name: impl FnOnce() -> String) {
        let value = &mut self.values[id];
        if value.name.is_none() {
            value.name = Some(self.names.claim(&name()));
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use provenance::{Origin, ScopeId, Site};

    use super::*;
    use crate::text::parse_graph;

    #[track_caller]
    fn check(model: &mut Model, expect: &Expect) {
        assign_names(model);
        let mut text = String::new();
        for graph in model.graphs() {
            for node in &graph.nodes {
                text += node.name.as_deref().unwrap_or("?");
                text += "\n";
            }
        }
        expect.assert_eq(&(text + &model.text().to_string()));
        crate::check::check(model).unwrap();
        let before = model.text().to_string();
        assign_names(model);
        assert_eq!(model.text().to_string(), before, "naming twice changes nothing");
    }

    #[test]
    fn values_are_called_after_their_nodes_and_constants_after_their_readers() {
        check(
            &mut parse_graph(
                "graph f(x:f32[2]) -> (y)
                 %0 = Mul(x, 2.0)
                 %1 = Mul(%0, 3.0)
                 %2, %3 = Split(%1)
                 y:f32[1] = Add(%2, %3)",
            )
            .unwrap(),
            &expect![[r"
                Mul
                Mul_1
                Split
                Add
                graph f(x:f32[2]) -> (y)
                Mul.const = 2.0
                Mul_1.const = 3.0
                Mul = Mul(x, Mul.const)
                Mul_1 = Mul(Mul, Mul_1.const)
                `Split:0`, `Split:1` = Split(Mul_1)
                y:f32[1] = Add(`Split:0`, `Split:1`)
            "]],
        );
    }

    #[test]
    fn names_are_unique_over_bodies_and_functions_and_inputs_keep_theirs() {
        check(
            &mut parse_graph(
                "graph f(c:bool[], Neg:f32[]) -> (y)
                 y:f32[] = If(c) {else_branch={
                   graph no() -> (%0)
                   %0 = Neg(Neg)
                 }, then_branch={
                   graph yes() -> (%1)
                   %1 = Neg(Neg)
                 }}
                 function local::g(%0) -> (y)
                 y = Neg(%0)",
            )
            .unwrap(),
            &expect![[r#"
                If
                g/Neg
                Neg
                Neg_1
                graph f(c:bool[], Neg:f32[]) -> (y)
                y:f32[] = If(c) {else_branch={
                  graph no() -> (Neg_1)
                  Neg_1 = Neg(Neg)
                }, then_branch={
                  graph yes() -> (Neg_1_1)
                  Neg_1_1 = Neg(Neg)
                }}
                function local::g(g.input_0) -> (y_1)
                y_1 = Neg(g.input_0)
            "#]],
        );
    }

    #[test]
    fn a_node_is_called_after_its_scope_and_its_primitive() {
        let mut model =
            parse_graph("graph f(x:f32[2]) -> (y)\n%0 = Exp(x)\ny:f32[2] = Add(%0, 1.0)").unwrap();
        let table = &mut model.provenance;
        let mut scope: Option<ScopeId> = None;
        for (kind, name) in [
            (ScopeKind::Name, "Net"),
            (ScopeKind::Transform, "jit(f)"),
            (ScopeKind::Name, "blocks.3"),
        ] {
            scope = Some(table.scope(scope, kind, name));
        }
        let emitter = |kind, name: &str, parent| Emitter {
            kind,
            name: name.into(),
            file: "exponential.rs".into(),
            line: 1,
            parent,
        };
        let plugin = table.emitter(emitter(EmitterKind::Plugin, "expm1", None));
        let helper = table.emitter(emitter(EmitterKind::Helper, "scaled", Some(plugin)));
        let site = table.site(Site { stack: None, scope, emitter: Some(helper) });
        let origin = table.origin(Origin::of(site));
        for node in &mut model.graph.nodes {
            node.origin = origin;
        }
        model.graph.nodes[1].name = Some("kept".into());
        check(
            &mut model,
            &expect![[r"
                Net/blocks.3/expm1
                kept
                graph f(x:f32[2]) -> (y)
                kept.const = 1.0
                Net/blocks.3/expm1 = Exp(x)
                y:f32[2] = Add(Net/blocks.3/expm1, kept.const)
            "]],
        );
    }

    #[test]
    fn two_nodes_of_one_name_are_told_apart() {
        let mut model =
            parse_graph("graph f(x:f32[]) -> (y)\n%0 = Neg(x)\ny:f32[] = Neg(%0)").unwrap();
        for node in &mut model.graph.nodes {
            node.name = Some("n".into());
        }
        check(
            &mut model,
            &expect![[r"
                n
                Neg
                graph f(x:f32[]) -> (y)
                n = Neg(x)
                y:f32[] = Neg(n)
            "]],
        );
    }

    #[test]
    fn names_of_fusions_are_spelled_as_functions_of_python() {
        let names = [
            (OpType::LayerNormalization, "layer_norm"),
            (OpType::RMSNormalization, "rms_norm"),
            (OpType::RotaryEmbedding, "rotary_embedding"),
            (OpType::LSTM, "lstm"),
            (OpType::ReduceL2, "reduce_l2"),
            (OpType::GatherND, "gather_nd"),
            (OpType::IsNaN, "isnan"),
            (OpType::MatMul, "matmul"),
        ];
        for (op, name) in names {
            assert_eq!(fusion_name(op), name);
        }
    }
}
