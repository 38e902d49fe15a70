//! The names in a model, and the readers of each value.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

/// Every node of a model, and the graphs that contain them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// A body comes after the graph that contains it.
    pub graphs: Vec<Graph>,
    /// In the order of their graphs.
    pub nodes: Vec<Node>,
}

/// A graph of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    pub place: GraphPlace,
    /// Its first node; its last one is before the first node of the next graph.
    pub first: u32,
}

/// The place of a graph in the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GraphPlace {
    Main,
    /// `domain::name`
    Function(Arc<str>),
    /// The body of a node, with the attribute that contains it.
    Body {
        node: u32,
        attribute: Arc<str>,
    },
}

/// A node with the names of its operator and its results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub name: Arc<str>,
    /// Prefixed with the domain unless that is ONNX's: `com.microsoft::FusedGemm`.
    pub op: Arc<str>,
    /// The nodes that it reads, each once.
    pub inputs: Vec<u32>,
    /// The names of its results.
    pub outputs: Vec<Arc<str>>,
}

impl Outline {
    /// Returns the nodes of a graph.
    pub fn nodes_of(&self, graph: usize) -> &[Node] {
        let first = self.graphs.get(graph).map_or(0, |graph| graph.first as usize);
        let end = self.graphs.get(graph + 1).map_or(self.nodes.len(), |next| next.first as usize);
        self.nodes.get(first..end).unwrap_or_default()
    }
}

/// Builds an outline graph by graph.
#[derive(Debug, Default)]
pub struct OutlineBuilder {
    outline: Outline,
    /// The scope of each graph.
    scopes: Vec<Scope>,
    words: FxHashMap<String, Arc<str>>,
}

/// The enclosing graph, and the node that produces each value.
#[derive(Debug)]
struct Scope {
    around: Option<usize>,
    values: FxHashMap<Arc<str>, u32>,
}

impl OutlineBuilder {
    /// Adds a graph. The following nodes belong to it. `around` is the enclosing graph.
    pub fn graph(&mut self, place: GraphPlace, around: Option<usize>) -> usize {
        let first = self.outline.nodes.len() as u32;
        self.outline.graphs.push(Graph { place, first });
        self.scopes.push(Scope { around, values: FxHashMap::default() });
        self.scopes.len() - 1
    }

    /// Adds a node to the last graph.
    pub fn node<'n>(
        &mut self,
        name: &str,
        domain: &str,
        op: &str,
        inputs: impl IntoIterator<Item = &'n str>,
        outputs: impl IntoIterator<Item = &'n str>,
    ) -> u32 {
        let number = self.outline.nodes.len() as u32;
        let mut seen = FxHashSet::default();
        let producers = inputs.into_iter().filter_map(|value| self.producer(value));
        let producers: Vec<u32> = producers.filter(|&producer| seen.insert(producer)).collect();
        let outputs: Vec<Arc<str>> =
            outputs.into_iter().filter(|name| !name.is_empty()).map(Arc::from).collect();
        if let Some(scope) = self.scopes.last_mut() {
            scope.values.extend(outputs.iter().map(|output| (output.clone(), number)));
        }
        let op =
            if domain.is_empty() { self.word(op) } else { self.word(&format!("{domain}::{op}")) };
        self.outline.nodes.push(Node { name: name.into(), op, inputs: producers, outputs });
        number
    }

    pub fn finish(self) -> Outline {
        self.outline
    }

    /// Returns the node that produces a value, as seen from the last graph.
    fn producer(&self, value: &str) -> Option<u32> {
        let mut scope = self.scopes.last();
        while let Some(Scope { around, values }) = scope {
            if let Some(&node) = values.get(value) {
                return Some(node);
            }
            scope = around.and_then(|around| self.scopes.get(around));
        }
        None
    }

    /// Interns the name of an operator.
    fn word(&mut self, word: &str) -> Arc<str> {
        if let Some(known) = self.words.get(word) {
            return known.clone();
        }
        let fresh: Arc<str> = word.into();
        self.words.insert(word.to_owned(), fresh.clone());
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_reads_what_is_around_it_and_a_function_does_not() {
        let mut builder = OutlineBuilder::default();
        let main = builder.graph(GraphPlace::Main, None);
        let add = builder.node("add", "", "Add", ["x", "x"], ["a"]);
        let twice = builder.node("if", "", "If", ["a", "a"], ["b", ""]);
        let place = GraphPlace::Body { node: twice, attribute: "then_branch".into() };
        builder.graph(place, Some(main));
        builder.node("neg", "my", "Neg", ["a"], ["c"]);
        builder.graph(GraphPlace::Function("my::f".into()), None);
        builder.node("exp", "", "Exp", ["a"], ["d"]);
        let outline = builder.finish();
        let inputs: Vec<&[u32]> = outline.nodes.iter().map(|node| &*node.inputs).collect();
        assert_eq!(inputs, [&[][..], &[add], &[add], &[]]);
        assert_eq!(&*outline.nodes[2].op, "my::Neg");
        assert_eq!(outline.nodes[1].outputs, ["b".into()]);
        let sizes: Vec<usize> = (0..3).map(|graph| outline.nodes_of(graph).len()).collect();
        assert_eq!(sizes, [2, 1, 1]);
    }
}
