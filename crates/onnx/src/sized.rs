//! A model with the types, the shapes and the costs of everything in it, as far as they follow from its inputs.
//!
//! The file is untrusted: the number of nodes that are looked at, the depth of calls and the sizes of polynomials are
//! bounded. Whatever is beyond a bound has no type and no cost, and nothing is guessed.

mod bodies;
mod build;
mod contents;
mod counters;
mod lists;
mod names;

use smallvec::SmallVec;

use crate::cost::{Cost, NotCounted};
use crate::scan::Scan;
use crate::value::{Dim, ValueId, Values};
pub use names::{Sizes, SymbolOf, SymbolUse};

/// A model with sizes.
#[derive(Clone, Debug, Default)]
pub struct SizedModel {
    /// The values of all instances. A value has a type if it is known; initializers and the results of `Constant` are
    /// weights.
    pub values: Values,
    /// An instance comes after those that it runs. The main graph is the last one.
    pub instances: Vec<Instance>,
    /// The symbols in shapes, in the order in which they were found.
    pub symbols: Vec<SymbolUse>,
}

/// The main graph, a body of a node, or a function for operands of one type.
#[derive(Clone, Debug, Default)]
pub struct Instance {
    /// The number of the graph in [`Scan::graphs`].
    pub graph: usize,
    pub inputs: Vec<ValueId>,
    pub outputs: Vec<ValueId>,
    /// The initializers of the graph.
    pub weights: Vec<ValueId>,
    /// The nodes, in the order of the file.
    pub steps: Vec<Step>,
}

/// A node of an instance.
#[derive(Clone, Debug)]
pub struct Step {
    /// The number of the node in [`Scan::nodes`].
    pub node: usize,
    pub inputs: SmallVec<[Option<ValueId>; 3]>,
    /// `None` is an omitted result.
    pub outputs: SmallVec<[Option<ValueId>; 1]>,
    /// The cost of one run of the node, without the instances that it runs. A node that reads only weights costs
    /// nothing, because runtimes compute it when they load the model.
    pub cost: Result<Cost, NotCounted>,
    pub inner: SmallVec<[Inner; 1]>,
}

/// An instance that a node runs.
#[derive(Clone, Debug)]
pub struct Inner {
    /// The number of the instance.
    pub instance: usize,
    /// The number of times that one run of the node runs it. It is 0 for the branch of an `If` that costs less.
    pub times: Dim,
    pub kind: InnerKind,
}

/// The body or function that a node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InnerKind {
    /// The body of a `Loop` or a `Scan`.
    Iteration,
    /// The branch of an `If` that a constant condition takes, or that costs more.
    Taken,
    /// The other branch of an `If`.
    Alternative,
    /// A function of the model.
    Call,
}

impl SizedModel {
    /// Infers all sizes of a model. The sizes in `sizes` replace symbols.
    pub fn of(scan: &Scan<'_>, sizes: &Sizes) -> SizedModel {
        build::Sizer::new(scan, sizes).model()
    }

    /// Returns the main graph.
    pub fn main(&self) -> Option<&Instance> {
        self.instances.last()
    }
}

#[cfg(test)]
mod tests;
