//! Attributes the cost of a node to a line.

use std::rc::Rc;

use onnx::OpType;
use onnx::operator::properties::{HOLDS_PRODUCTS, PRODUCTS};
use provenance::OriginId;
use provenance::resolve::Sure;
use rustc_hash::FxHashMap;

use crate::profile::heaviest;
use crate::{Document, Provenance};

/// The maximum number of nodes between a node without a line and the one whose line it gets.
const MAX_BETWEEN: usize = 8;

/// The origin of each node of a model.
#[derive(Clone, Debug)]
pub struct Lines<'d> {
    origins: Vec<Option<Rc<Provenance<'d>>>>,
}

impl<'d> Lines<'d> {
    /// Finds the origins. A node without a line has that of the nearest node that reads its results, or of one that
    /// computes its operands.
    pub fn of(document: &'d Document<'_>) -> Lines<'d> {
        let mut known: FxHashMap<(Sure, Vec<OriginId>, bool), Option<Rc<Provenance<'d>>>> =
            FxHashMap::default();
        let mut origins: Vec<Option<Rc<Provenance<'d>>>> = Vec::new();
        for (number, node) in document.scan.nodes.iter().enumerate() {
            let op = OpType::from_name(node.op);
            let is_product = op.is_some_and(|op| op.is(PRODUCTS | HOLDS_PRODUCTS));
            let (sure, ids) = document.answer(number);
            let found = known.entry((sure, ids, is_product));
            let origin = found.or_insert_with_key(|(sure, ids, is_product)| {
                heaviest(document, *sure, ids, *is_product).map(Rc::new)
            });
            origins.push(origin.clone());
        }
        let has_line = |origin: &Option<Rc<Provenance<'d>>>| {
            origin.as_ref().is_some_and(|origin| origin.callsite.is_some())
        };
        if origins.iter().any(has_line) && !origins.iter().all(has_line) {
            let missing: Vec<usize> =
                (0..origins.len()).filter(|&node| !has_line(&origins[node])).collect();
            let neighbors: Vec<Option<usize>> = {
                let around = Around::of(document);
                let is_known = |node: usize| has_line(&origins[node]);
                missing.iter().map(|&node| around.nearest(node, &is_known)).collect()
            };
            for (node, other) in missing.into_iter().zip(neighbors) {
                let Some(origin) = other.and_then(|other| origins[other].clone()) else { continue };
                let neighbor = Provenance { sure: Sure::Neighbour, ..Provenance::clone(&origin) };
                origins[node] = Some(Rc::new(neighbor));
            }
        }
        Lines { origins }
    }

    /// Returns the origin of a node.
    pub fn origin(&self, node: usize) -> Option<&Rc<Provenance<'d>>> {
        self.origins.get(node).and_then(Option::as_ref)
    }
}

/// The nodes that read the results of each node.
struct Around {
    readers: Vec<Vec<usize>>,
    makers: Vec<Vec<usize>>,
}

impl Around {
    fn of(document: &Document<'_>) -> Around {
        let nodes = &document.scan.nodes;
        let mut made: FxHashMap<(u32, &str), usize> = FxHashMap::default();
        for (number, node) in nodes.iter().enumerate() {
            for output in &node.outputs {
                made.insert((node.graph, output), number);
            }
        }
        let mut around = Around {
            readers: vec![Vec::new(); nodes.len()],
            makers: vec![Vec::new(); nodes.len()],
        };
        for (number, node) in nodes.iter().enumerate() {
            let makers = node.inputs.iter().filter_map(|input| made.get(&(node.graph, *input)));
            for &maker in makers {
                around.makers[number].push(maker);
                around.readers[maker].push(number);
            }
        }
        around
    }

    fn nearest(&self, node: usize, is_known: &dyn Fn(usize) -> bool) -> Option<usize> {
        [&self.readers, &self.makers].into_iter().find_map(|next| {
            let mut at = node;
            for _ in 0..MAX_BETWEEN {
                let found =
                    next[at].iter().take(MAX_BETWEEN).copied().find(|&other| is_known(other));
                if found.is_some() {
                    return found;
                }
                at = *next[at].first()?;
            }
            None
        })
    }
}
