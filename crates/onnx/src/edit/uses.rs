//! Tracks the producer and the readers of each value of a graph.

use std::cell::{Cell, RefCell};

use smallvec::SmallVec;

use crate::model::Graph;
use crate::value::ValueId;

const NONE: u32 = u32::MAX;

/// One table for all values of the model, which its graphs use in turn: a table per graph would cost as much as all
/// values for every small body.
#[derive(Debug, Default)]
pub(super) struct Uses {
    producers: Vec<Option<u32>>,
    made: Vec<ValueId>,
    /// Filled on the first call of [`Uses::count`].
    readers: RefCell<Readers>,
    are_counted: Cell<bool>,
    is_marked: Vec<bool>,
    marked: Vec<ValueId>,
}

/// The number of reads of each value, and the nodes that read it.
#[derive(Debug, Default)]
struct Readers {
    of: Vec<List>,
    entries: Vec<Entry>,
    /// The values that have a list. Only these are cleared, so that clearing costs as much as the graph.
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

/// A node that reads a value or once did: the entry stays if the node changes.
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

    /// True if reads were counted, so that changes must be reported.
    pub(super) fn are_counted(&self) -> bool {
        self.are_counted.get()
    }

    /// Counts all reads, unless they were counted already. `each` reports every read with the node that reads, or
    /// without one for an output of the graph.
    pub(super) fn count(&self, each: impl FnOnce(&mut dyn FnMut(ValueId, Option<usize>))) {
        if !self.are_counted.replace(true) {
            let mut readers = self.readers.borrow_mut();
            each(&mut |id, node| _ = readers.add(id, node));
        }
    }

    /// Adds a read of a value. Returns its number of reads.
    pub(super) fn add(&mut self, id: ValueId, node: usize) -> usize {
        self.readers.get_mut().add(id, Some(node))
    }

    /// Removes a read of a value. Returns its number of reads.
    pub(super) fn remove(&mut self, id: ValueId) -> usize {
        let list = self.readers.get_mut().list(id);
        list.count = list.count.saturating_sub(1);
        list.count as usize
    }

    /// Makes all readers of one value readers of another.
    pub(super) fn redirect(&mut self, from: ValueId, to: ValueId) {
        self.readers.get_mut().redirect(from, to);
    }

    /// Returns how often a value is read. Being an output counts as a read.
    pub(super) fn reads(&self, id: ValueId) -> usize {
        self.readers.borrow().of.get(id.index()).map_or(0, |list| list.count as usize)
    }

    /// Returns the nodes that read a value, the last one first. Some may no longer read it.
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

    /// Clears the tables, at a cost proportional to the graph.
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
