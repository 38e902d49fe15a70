//! Who makes and who reads the values of one graph, looked up by number.

use std::cell::{Cell, RefCell};

use super::for_each_read;
use crate::model::Graph;
use crate::value::ValueId;

/// Who reads a value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reads {
    pub count: usize,
    /// The last node that does; none where that is the graph, as an output.
    pub last: Option<usize>,
}

/// One place for every value of the model, which all its graphs use in turn: a table for each would
/// cost as much as all values for every small body.
#[derive(Debug, Default)]
pub(super) struct Uses {
    producers: Vec<Option<u32>>,
    made: Vec<ValueId>,
    reads: RefCell<Vec<Reads>>,
    read: RefCell<Vec<ValueId>>,
    is_counted: Cell<bool>,
    is_marked: Vec<bool>,
    marked: Vec<ValueId>,
}

impl Uses {
    pub(super) fn of_values(count: usize) -> Uses {
        Uses { producers: vec![None; count], ..Uses::default() }
    }

    pub(super) fn note_producers(&mut self, graph: &Graph) {
        for (index, node) in graph.nodes.iter().enumerate() {
            node.outputs.iter().for_each(|&id| self.make(id, Some(index)));
        }
    }

    /// Says which node makes a value from now on.
    pub(super) fn make(&mut self, id: ValueId, node: Option<usize>) {
        if self.producers.len() <= id.index() {
            self.producers.resize(id.index() + 1, None);
        }
        self.producers[id.index()] = node.map(|node| node as u32);
        self.made.push(id);
    }

    pub(super) fn producer(&self, id: ValueId) -> Option<usize> {
        self.producers.get(id.index())?.map(|node| node as usize)
    }

    /// Who reads a value in this graph and its bodies, as of the first time that anything is asked for.
    pub(super) fn reads(&self, graph: &Graph, id: ValueId) -> Reads {
        if !self.is_counted.replace(true) {
            self.count(graph);
        }
        self.reads.borrow().get(id.index()).copied().unwrap_or_default()
    }

    fn count(&self, graph: &Graph) {
        let mut reads = self.reads.borrow_mut();
        let mut read = self.read.borrow_mut();
        let values = self.producers.len().max(reads.len());
        reads.resize(values, Reads::default());
        let mut count = |id: ValueId, last: Option<usize>| {
            if reads.len() <= id.index() {
                reads.resize(id.index() + 1, Reads::default());
            }
            let entry = &mut reads[id.index()];
            *entry = Reads { count: entry.count + 1, last };
            read.push(id);
        };
        for (index, node) in graph.nodes.iter().enumerate() {
            for_each_read(node, &mut |id| count(id, Some(index)));
        }
        graph.outputs.iter().for_each(|&id| count(id, None));
    }

    pub(super) fn mark(&mut self, id: ValueId) {
        if self.is_marked.len() <= id.index() {
            self.is_marked.resize(self.producers.len().max(id.index() + 1), false);
        }
        self.is_marked[id.index()] = true;
        self.marked.push(id);
    }

    pub(super) fn is_marked(&self, id: ValueId) -> bool {
        self.is_marked.get(id.index()).is_some_and(|&is_marked| is_marked)
    }

    /// Forgets a graph, at the cost of that graph.
    pub(super) fn forget(&mut self) {
        for id in self.made.drain(..) {
            self.producers[id.index()] = None;
        }
        let reads = self.reads.get_mut();
        for id in self.read.get_mut().drain(..) {
            reads[id.index()] = Reads::default();
        }
        self.is_counted.set(false);
        self.unmark();
    }

    pub(super) fn unmark(&mut self) {
        for id in self.marked.drain(..) {
            self.is_marked[id.index()] = false;
        }
    }
}
