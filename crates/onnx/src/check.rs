//! Checks the invariants of a model.

use std::fmt;
use std::sync::Arc;

use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::attr::Attr;
use crate::dtype::DType;
use crate::infer::{Call, NotInferred, agree};
use crate::model::{Function, Graph, Model, Node};
use crate::proto::{OMITTED, unpack_strings};
use crate::tensor::Tensor;
use crate::value::{Dim, Type, ValueId, Values};

/// A violated invariant of a model. It is a bug in jax2onnx, or in the program that wrote the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    #[error("value {value} is defined twice")]
    DefinedTwice { value: Shown },
    #[error("{node} reads value {value} before it is defined")]
    ReadTooEarly { node: Shown, value: Shown },
    #[error("output {value} of graph `{graph}` is not defined in it")]
    OutputNotDefined { graph: Arc<str>, value: Shown },
    #[error("value {value} is listed twice as an output of graph `{graph}`")]
    OutputTwice { graph: Arc<str>, value: Shown },
    #[error("value {value} of graph `{graph}` has no type")]
    NoType { graph: Arc<str>, value: Shown },
    #[error("two nodes have the name `{name}`")]
    NodeName { name: Arc<str> },
    #[error("two values have the name `{name}`")]
    ValueName { name: Arc<str> },
    #[error("{tensor} has {found} bytes, but its type is `{ty}`")]
    Contents { tensor: Shown, ty: String, found: usize },
    #[error("{node} belongs to the domain `{domain}`, which the model does not import")]
    NoOpset { node: Shown, domain: Arc<str> },
    #[error("{node} has {found} {what}, but the function that it calls has {wanted}")]
    Arity { node: Shown, what: &'static str, found: usize, wanted: usize },
    #[error("{node} has a result of type `{stated}`, but its operands make it `{inferred}`")]
    Type { node: Shown, stated: String, inferred: String },
    #[error("the operands of {node} are invalid: {why}")]
    Operands { node: Shown, why: String },
    #[error("function `{domain}::{name}` is defined twice")]
    FunctionTwice { domain: Arc<str>, name: Arc<str> },
}

/// A node or a value in a message: its name, or another description if it has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown(String);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Checks that every value is defined once and before it is read, that names are unique, that every
/// tensor has the size of its type, that the domain of every operator is imported, and that inputs
/// and outputs have types.
pub fn check(model: &Model) -> Result<(), CheckError> {
    let mut checker = Checker {
        model,
        functions: FxHashMap::default(),
        defined: FxHashSet::default(),
        visible: FxHashSet::default(),
        node_names: FxHashSet::default(),
        value_names: FxHashSet::default(),
        contents: FxHashSet::default(),
    };
    for function in &model.functions {
        let (domain, name) = (&function.domain, &function.name);
        if checker.functions.insert((domain, name), function).is_some() {
            let (domain, name) = (domain.clone(), name.clone());
            return Err(CheckError::FunctionTwice { domain, name });
        }
    }
    checker.graph(&model.graph, GraphKind::Main)?;
    let interface = model.graph.inputs.iter().chain(&model.graph.outputs);
    for &id in interface {
        let value = &model.values[id];
        if value.ty.is_none() && value.tensor.is_none() {
            let graph = model.graph.name.clone();
            let value = checker.value(id);
            return Err(CheckError::NoType { graph, value });
        }
    }
    for function in &model.functions {
        checker.graph(&function.body, GraphKind::Function)?;
    }
    Ok(())
}

/// Infers the types of all results again, and compares them with the recorded types. Skips types that do not follow
/// from the operands.
pub fn check_types(model: &Model) -> Result<(), CheckError> {
    let own = model.opsets.iter().find(|(domain, _)| domain.is_empty());
    let opset = own.map_or(0, |(_, version)| *version);
    for node in model.graphs().into_iter().flat_map(|graph| &graph.nodes) {
        check_node_types(node, &model.values, opset)?;
    }
    Ok(())
}

pub(crate) fn check_node_types(node: &Node, values: &Values, opset: i64) -> Result<(), CheckError> {
    let inferred = match Call::of_node(node, values, opset).types() {
        Ok(inferred) => inferred,
        Err(NotInferred::Unknown) => return Ok(()),
        Err(NotInferred::Invalid(why)) => {
            return Err(CheckError::Operands { node: shown_node(node), why });
        }
    };
    for (inferred, &output) in inferred.iter().zip(&node.outputs) {
        if let (Some(inferred), Some(stated)) = (inferred, &values[output].ty)
            && !agree(inferred, stated)
        {
            let (stated, inferred) = (stated.to_string(), inferred.to_string());
            return Err(CheckError::Type { node: shown_node(node), stated, inferred });
        }
    }
    Ok(())
}

/// True if the contents have the size of the type.
pub(crate) fn holds_its_contents(tensor: &Tensor) -> bool {
    let mut length: usize = 1;
    for &size in &tensor.shape {
        let product = usize::try_from(size).ok().and_then(|size| length.checked_mul(size));
        let Some(product) = product else { return false };
        length = product;
    }
    if tensor.dtype == DType::String {
        return unpack_strings(&tensor.bytes()).is_some_and(|strings| strings.len() == length);
    }
    let bits = length.checked_mul(tensor.dtype.bits());
    bits.is_some_and(|bits| bits.div_ceil(8) == tensor.byte_len())
}

/// Returns the type of a tensor.
pub(crate) fn type_of(tensor: &Tensor) -> Type {
    let shape: Vec<Dim> = tensor.shape.iter().map(|&size| Dim::Known(size)).collect();
    Type::new(tensor.dtype, shape)
}

/// Returns the values with contents that a graph or its bodies read, in the order of first use.
pub(crate) fn constants_of(model: &Model, graph: &Graph) -> Vec<ValueId> {
    let mut found = Ids::default();
    visit_reads(graph, &mut |id| {
        if model.values[id].tensor.is_some() {
            found.insert(id);
        }
    });
    found.into_iter().collect()
}

type Ids = IndexSet<ValueId, FxBuildHasher>;

fn visit_reads(graph: &Graph, read: &mut dyn FnMut(ValueId)) {
    for node in &graph.nodes {
        node.inputs.iter().copied().flatten().for_each(&mut *read);
        for body in node.bodies() {
            visit_reads(body, read);
        }
    }
    graph.outputs.iter().copied().for_each(read);
}

#[derive(Clone, Copy, PartialEq)]
enum GraphKind {
    Main,
    Body,
    Function,
}

struct Checker<'a> {
    model: &'a Model,
    functions: FxHashMap<(&'a str, &'a str), &'a Function>,
    /// The values that are defined anywhere in the model.
    defined: FxHashSet<ValueId>,
    /// The values that the current graph can read: its own and those of enclosing graphs.
    visible: FxHashSet<ValueId>,
    node_names: FxHashSet<&'a str>,
    value_names: FxHashSet<&'a str>,
    /// The values whose tensors were checked.
    contents: FxHashSet<ValueId>,
}

impl<'a> Checker<'a> {
    fn graph(&mut self, graph: &'a Graph, kind: GraphKind) -> Result<(), CheckError> {
        let mut own = Ids::default();
        for &input in &graph.inputs {
            self.define(input, &mut own)?;
        }
        for node in &graph.nodes {
            self.node(node)?;
            for &output in &node.outputs {
                self.define(output, &mut own)?;
            }
        }
        let mut listed = FxHashSet::default();
        for &output in &graph.outputs {
            let is_constant = kind != GraphKind::Body && self.is_constant(output)?;
            let is_own = self.visible.contains(&output)
                && (kind != GraphKind::Body || own.contains(&output));
            let (graph, value) = (graph.name.clone(), self.value(output));
            if !is_own && !is_constant {
                return Err(CheckError::OutputNotDefined { graph, value });
            }
            if !listed.insert(output) {
                return Err(CheckError::OutputTwice { graph, value });
            }
        }
        for id in own {
            self.visible.remove(&id);
        }
        Ok(())
    }

    fn node(&mut self, node: &'a Node) -> Result<(), CheckError> {
        if let Some(name) = &node.name
            && !self.node_names.insert(name)
        {
            return Err(CheckError::NodeName { name: name.clone() });
        }
        if !self.model.opsets.iter().any(|(domain, _)| **domain == *node.op.domain()) {
            let domain = node.op.domain().into();
            return Err(CheckError::NoOpset { node: shown_node(node), domain });
        }
        self.call(node)?;
        for &input in node.inputs.iter().flatten() {
            if !self.is_constant(input)? && !self.visible.contains(&input) {
                let value = self.value(input);
                return Err(CheckError::ReadTooEarly { node: shown_node(node), value });
            }
        }
        for (name, attr) in &node.attrs {
            match attr {
                Attr::Tensor(tensor) => {
                    let place = || Shown(format!("attribute `{name}` of {}", shown_node(node)));
                    check_contents(tensor, place)?;
                }
                Attr::Graph(body) => self.graph(body, GraphKind::Body)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks that a call has the inputs and outputs of its function.
    fn call(&self, node: &Node) -> Result<(), CheckError> {
        let Some(function) = self.functions.get(&(node.op.domain(), node.op.name())) else {
            return Ok(());
        };
        let body = &function.body;
        let counts = [
            ("inputs", node.inputs.len(), body.inputs.len()),
            ("outputs", node.outputs.len(), body.outputs.len()),
        ];
        for (what, found, wanted) in counts {
            if found != wanted {
                let node = shown_node(node);
                return Err(CheckError::Arity { node, what, found, wanted });
            }
        }
        Ok(())
    }

    fn define(&mut self, id: ValueId, own: &mut Ids) -> Result<(), CheckError> {
        if !self.defined.insert(id) || self.model.values[id].tensor.is_some() {
            return Err(CheckError::DefinedTwice { value: self.value(id) });
        }
        self.visible.insert(id);
        own.insert(id);
        self.unique_name(id)
    }

    /// True if the value has contents. Checks each tensor once.
    fn is_constant(&mut self, id: ValueId) -> Result<bool, CheckError> {
        let Some(tensor) = &self.model.values[id].tensor else {
            return Ok(false);
        };
        if self.contents.insert(id) {
            self.unique_name(id)?;
            check_contents(tensor, || self.value(id))?;
        }
        Ok(true)
    }

    fn unique_name(&mut self, id: ValueId) -> Result<(), CheckError> {
        if let Some(name) = &self.model.values[id].name
            && **name != *OMITTED
            && !self.value_names.insert(name)
        {
            return Err(CheckError::ValueName { name: name.clone() });
        }
        Ok(())
    }

    fn value(&self, id: ValueId) -> Shown {
        Shown(match &self.model.values[id].name {
            Some(name) => format!("`{name}`"),
            None => format!("#{}", id.0),
        })
    }
}

fn shown_node(node: &Node) -> Shown {
    Shown(match &node.name {
        Some(name) => format!("{} `{name}`", node.op.name()),
        None => format!("{} without a name", node.op.name()),
    })
}

fn check_contents(tensor: &Tensor, shown: impl Fn() -> Shown) -> Result<(), CheckError> {
    if holds_its_contents(tensor) {
        return Ok(());
    }
    Err(CheckError::Contents {
        tensor: shown(),
        ty: type_of(tensor).to_string(),
        found: tensor.byte_len(),
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::operator::Operator;
    use crate::text::parse_graph;

    /// Compares the error of `check` after `change` with the expected one.
    #[track_caller]
    fn wrong(text: &str, change: impl FnOnce(&mut Model), expect: &Expect) {
        let mut model = parse_graph(text).unwrap();
        check(&model).unwrap();
        change(&mut model);
        expect.assert_eq(&check(&model).unwrap_err().to_string());
    }

    const CHAIN: &str = "graph f(x:f32[]) -> (y)\n%0 = Neg(x)\ny:f32[] = Add(%0, 2.0)";

    const BRANCH: &str = "graph f(x:f32[], c:bool[]) -> (y)
        y:f32[] = If(c) {else_branch={
          graph no() -> (a)
          a = Neg(x)
        }, then_branch={
          graph yes() -> (b)
          b = Abs(x)
        }}";

    fn body(model: &mut Model, index: usize) -> &mut Graph {
        model.graph.nodes[0].bodies_mut().nth(index).unwrap()
    }

    #[test]
    fn a_value_is_defined_once() {
        wrong(
            CHAIN,
            |model| model.graph.nodes[0].outputs[0] = model.graph.inputs[0],
            &expect!["value `x` is defined twice"],
        );
        wrong(
            CHAIN,
            |model| {
                let constant = model.graph.nodes[1].inputs[1].unwrap();
                model.graph.inputs.push(constant);
            },
            &expect!["value #2 is defined twice"],
        );
    }

    #[test]
    fn a_value_is_defined_before_it_is_read() {
        wrong(
            CHAIN,
            |model| model.graph.nodes.swap(0, 1),
            &expect!["Add without a name reads value #1 before it is defined"],
        );
        wrong(
            BRANCH,
            |model| {
                let other = body(model, 0).outputs[0];
                body(model, 1).nodes[0].inputs[0] = Some(other);
            },
            &expect!["Abs without a name reads value `a` before it is defined"],
        );
    }

    const CALL: &str = "graph f(x:f32[], z:f32[]) -> (y)
        y:f32[] = local::g(x)
        function local::g(a) -> (b)
        b = Neg(a)";

    #[test]
    fn a_function_does_not_see_the_values_around_its_calls() {
        wrong(
            CALL,
            |model| {
                let outer = model.graph.inputs[1];
                model.functions[0].body.nodes[0].inputs[0] = Some(outer);
            },
            &expect!["Neg without a name reads value `z` before it is defined"],
        );
    }

    #[test]
    fn a_call_passes_all_inputs_of_its_function() {
        wrong(
            CALL,
            |model| {
                let other = model.graph.inputs[1];
                model.graph.nodes[0].inputs.push(Some(other));
            },
            &expect!["g without a name has 2 inputs, but the function that it calls has 1"],
        );
    }

    #[test]
    fn a_body_returns_its_own_values() {
        wrong(
            BRANCH,
            |model| {
                let outer = model.graph.inputs[0];
                body(model, 0).outputs[0] = outer;
            },
            &expect!["output `x` of graph `no` is not defined in it"],
        );
    }

    #[test]
    fn names_are_given_once() {
        let rename = |model: &mut Model| {
            model.graph.nodes.iter_mut().for_each(|node| node.name = Some("n".into()));
        };
        wrong(CHAIN, rename, &expect!["two nodes have the name `n`"]);
        wrong(
            CHAIN,
            |model| {
                let id = model.graph.nodes[0].outputs[0];
                model.values[id].name = Some("y".into());
            },
            &expect!["two values have the name `y`"],
        );
    }

    #[test]
    fn a_tensor_holds_what_its_type_asks_for() {
        wrong(
            CHAIN,
            |model| {
                let id = model.graph.nodes[1].inputs[1].unwrap();
                let shape = vec![i64::MAX, i64::MAX];
                let data = bytes::Bytes::from_static(&[0; 3]);
                model.values[id].tensor = Some(Arc::new(Tensor::new(DType::F32, shape, data)));
            },
            &expect![
                "#2 has 3 bytes, but its type is `f32[9223372036854775807,9223372036854775807]`"
            ],
        );
    }

    #[test]
    fn domains_are_imported_and_the_interface_is_typed() {
        wrong(
            CHAIN,
            |model| model.graph.nodes[0].op = Operator::new("local", "Neg"),
            &expect![
                "Neg without a name belongs to the domain `local`, which the model does not import"
            ],
        );
        wrong(
            CHAIN,
            |model| {
                let id = model.graph.inputs[0];
                model.values[id].ty = None;
            },
            &expect!["value `x` of graph `f` has no type"],
        );
    }
}
