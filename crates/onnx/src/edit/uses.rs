//! Tracks the producer and the readers of each value of a graph.

use std::cell::{Cell, RefCell};

use smallvec::SmallVec;

use crate::model::Graph;
use crate::value::ValueId;

const NONE: u32 = u32::MAX;

/// One place for every value of the model, which all its graphs use in turn: a table for each would
/// cost as much as all values for every small body.
#[derive(Debug, Default)]
pub(super) struct Uses {
    producers: Vec<Option<u32>>,
    made: Vec<ValueId>,
    /// Filled when a count is first asked for.
    readers: RefCell<Readers>,
    are_counted: Cell<bool>,
    is_marked: Vec<bool>,
    marked: Vec<ValueId>,
}

/// How often each value is read, and by which nodes.
#[derive(Debug, Default)]
struct Readers {
    of: Vec<List>,
    entries: Vec<Entry>,
    /// The values that have a list, to forget them at the cost of the graph.
    read: Vec<ValueId>,
}

#[derive(Clone, Copy, Debug)]
struct List {
    count: u32,
    first: u32,
}

impl List {
    const EMPTY: List = List { count: 0, first: NONE };
}

/// A node that reads a value, or did: an entry stays when a node begins to read something else.
#[derive(Clone, Copy, Debug)]
struct Entry {
    node: u32,
    next: u32,
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

    /// Sets the node that computes a value.
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

    /// True if reads were counted, so that changes have to be reported.
    pub(super) fn are_counted(&self) -> bool {
        self.are_counted.get()
    }

    /// Counts all reads, unless that was done: `each` reports every one, with the node that reads, or
    /// without one for an output of the graph.
    pub(super) fn count(&self, each: impl FnOnce(&mut dyn FnMut(ValueId, Option<usize>))) {
        if !self.are_counted.replace(true) {
            let mut readers = self.readers.borrow_mut();
            each(&mut |id, node| _ = readers.add(id, node));
        }
    }

    /// Adds a read of a value. Returns how often it is read now.
    pub(super) fn add(&mut self, id: ValueId, node: usize) -> usize {
        self.readers.get_mut().add(id, Some(node))
    }

    /// Removes a read of a value. Returns how often it is read now.
    pub(super) fn remove(&mut self, id: ValueId) -> usize {
        let list = self.readers.get_mut().list(id);
        list.count = list.count.saturating_sub(1);
        list.count as usize
    }

    /// Makes all who read one value readers of another.
    pub(super) fn redirect(&mut self, from: ValueId, to: ValueId) {
        self.readers.get_mut().redirect(from, to);
    }

    /// How often a value is read, outputs included.
    pub(super) fn reads(&self, id: ValueId) -> usize {
        self.readers.borrow().of.get(id.index()).map_or(0, |list| list.count as usize)
    }

    /// The nodes that read a value, the last one first, and perhaps some that did before.
    pub(super) fn readers(&self, id: ValueId) -> SmallVec<[usize; 4]> {
        let readers = self.readers.borrow();
        let first = readers.of.get(id.index()).map_or(NONE, |list| list.first);
        let entry = |at: u32| readers.entries.get(at as usize);
        std::iter::successors(entry(first), |found| entry(found.next))
            .map(|found| found.node as usize)
            .collect()
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
        self.readers.get_mut().forget();
        self.are_counted.set(false);
        self.unmark();
    }

    pub(super) fn unmark(&mut self) {
        for id in self.marked.drain(..) {
            self.is_marked[id.index()] = false;
        }
    }
}

impl Readers {
    fn list(&mut self, id: ValueId) -> &mut List {
        if self.of.len() <= id.index() {
            self.of.resize(id.index() + 1, List::EMPTY);
        }
        &mut self.of[id.index()]
    }

    fn add(&mut self, id: ValueId, node: Option<usize>) -> usize {
        let entry = self.entries.len() as u32;
        let list = self.list(id);
        list.count += 1;
        let count = list.count as usize;
        if let Some(node) = node {
            let next = std::mem::replace(&mut list.first, entry);
            self.entries.push(Entry { node: node as u32, next });
        }
        self.read.push(id);
        count
    }

    fn redirect(&mut self, from: ValueId, to: ValueId) {
        let List { count, first } = std::mem::replace(self.list(from), List::EMPTY);
        let mut last = NONE;
        let mut at = first;
        while at != NONE {
            last = at;
            at = self.entries[at as usize].next;
        }
        self.read.push(to);
        let list = self.list(to);
        list.count += count;
        if last != NONE {
            let next = std::mem::replace(&mut list.first, first);
            self.entries[last as usize].next = next;
        }
    }

    fn forget(&mut self) {
        for id in self.read.drain(..) {
            self.of[id.index()] = List::EMPTY;
        }
        self.entries.clear();
    }
}
