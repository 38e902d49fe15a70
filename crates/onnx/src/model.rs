//! Models, graphs, nodes.

use std::sync::Arc;

use provenance::{OriginId, SiteId, Table};
use smallvec::SmallVec;

use crate::attr::Attr;
use crate::dtype::DType;
use crate::kernels::Target;
use crate::operator::Operator;
use crate::pairs::Pairs;
use crate::tensor::Assumptions;
use crate::value::{ValueId, Values};

/// A model: one graph, and everything that its ids refer to.
#[derive(Clone, Debug)]
pub struct Model {
    pub graph: Graph,
    /// In a model from jax2onnx, each function comes after those that it calls.
    pub functions: Vec<Function>,
    pub values: Values,
    pub provenance: Table,
    pub ir_version: i64,
    /// Domain and version; the domain of ONNX itself is the empty text.
    pub opsets: Vec<(Arc<str>, i64)>,
    pub producer_name: String,
    pub producer_version: String,
    pub metadata: Vec<(String, String)>,
    /// True if the model must match JAX for NaN inputs too.
    pub exact_nan: bool,
    /// True if weights in few bits become floats in each run.
    pub dequantizes: bool,
    /// The type of half precision that the model computes in float32, if any. Its constants have the digits of this
    /// type.
    pub widened: Option<DType>,
    /// The runtimes that it is for.
    pub target: Target,
    /// The rewrites that passes did and declined, in order. They are not written to the file.
    pub notes: Vec<Note>,
    /// The running rewrite, if its outcomes are recorded.
    pub rewrite: Option<Label>,
    /// The values that hold the variables of the program, if a listener wants to know. They are not
    /// written to the file.
    pub pairs: Option<Box<Pairs>>,
    /// The assumptions of passes about large weights. Without them, passes read the weights.
    pub assumptions: Option<Assumptions>,
    /// Set only while the worth of rewrites is measured.
    pub trial: Option<Trial>,
}

/// A run of the passes that shows what a rewrite is worth. Its notes contain the rules of canonicalization too.
#[derive(Clone, Debug, Default)]
pub struct Trial {
    /// The rewrite to leave out.
    pub without: Option<&'static str>,
    /// The rewrites of the whole model that changed it.
    pub of_model: Vec<&'static str>,
}

/// The decision of a pass on a pattern that it found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub label: Label,
    /// The site of the last node of the pattern.
    pub site: SiteId,
    /// The reason why the pattern was not rewritten; `None` if it was.
    pub declined: Option<String>,
}

/// The name of a rewrite, and the word for what it does to nodes: `fused` or `applied`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    pub name: &'static str,
    pub done: &'static str,
}

/// Nodes in topological order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    pub name: Arc<str>,
    pub inputs: Vec<ValueId>,
    pub outputs: Vec<ValueId>,
    pub nodes: Vec<Node>,
}

/// A function of the model, called as an operator of its domain.
#[derive(Clone, Debug)]
pub struct Function {
    pub domain: Arc<str>,
    pub name: Arc<str>,
    /// The requested name. If several bodies have it, `name` has a number appended.
    pub title: Arc<str>,
    /// It reads no values from outside.
    pub body: Graph,
}

/// An operator with its operands and results.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Assigned when the model is finished, or read from the file.
    pub name: Option<Arc<str>>,
    pub op: Operator,
    /// `None` is an omitted optional operand.
    pub inputs: SmallVec<[Option<ValueId>; 3]>,
    pub outputs: SmallVec<[ValueId; 1]>,
    pub attrs: Vec<(Arc<str>, Attr)>,
    /// Set only by [`crate::edit`] and [`crate::build`], and read only for rendering.
    pub(crate) origin: OriginId,
    /// True if it replaces several equations, none of which has its operator. Such a node is named after its
    /// operator.
    pub(crate) is_fused: bool,
    /// The iteration of an unrolled loop that it belongs to, as a part of its name; `None` for the first iteration.
    pub(crate) iteration: Option<Arc<str>>,
    /// Metadata of a node that was read from a file. New nodes have none until they are rendered.
    pub metadata: Vec<(String, String)>,
}

impl Function {
    /// Returns the operator of its calls.
    pub fn operator(&self) -> Operator {
        Operator::new(&self.domain, &self.name)
    }
}

impl Node {
    pub fn attr(&self, name: &str) -> Option<&Attr> {
        self.attrs.iter().find(|(key, _)| &**key == name).map(|(_, attr)| attr)
    }

    /// Returns the bodies of the node.
    pub fn bodies(&self) -> impl Iterator<Item = &Graph> {
        self.attrs.iter().filter_map(|(_, attr)| match attr {
            Attr::Graph(graph) => Some(&**graph),
            _ => None,
        })
    }

    /// Returns the bodies of the node, to change them.
    pub fn bodies_mut(&mut self) -> impl Iterator<Item = &mut Graph> {
        self.attrs.iter_mut().filter_map(|(_, attr)| match attr {
            Attr::Graph(graph) => Some(&mut **graph),
            _ => None,
        })
    }
}

impl Model {
    /// Returns the origin of a node of this model.
    pub fn origin_of(&self, node: &Node) -> OriginId {
        node.origin
    }

    /// Returns the origin of an initializer, of an input or of an output.
    pub fn origin_of_value(&self, value: ValueId) -> Option<OriginId> {
        self.values[value].origin
    }

    /// Returns every graph: the main one, those of functions, and all bodies, outer before inner.
    pub fn graphs(&self) -> Vec<&Graph> {
        let mut graphs: Vec<&Graph> = vec![&self.graph];
        graphs.extend(self.functions.iter().map(|function| &function.body));
        let mut next = 0;
        while next < graphs.len() {
            let graph = graphs[next];
            graphs.extend(graph.nodes.iter().flat_map(Node::bodies));
            next += 1;
        }
        graphs
    }
}
