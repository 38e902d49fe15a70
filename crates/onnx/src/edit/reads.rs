//! Adds and removes nodes, and keeps the readers of each value up to date.

use smallvec::SmallVec;

use super::{Edit, State, Touched, for_each_read, resolve};
use crate::model::Node;
use crate::pairs::ViewStep;
use crate::value::ValueId;

impl Edit<'_> {
    /// True if a value is a result of the graph.
    pub fn is_result(&self, value: ValueId) -> bool {
        self.graph.outputs.contains(&value)
    }

    /// Returns how often this graph and its bodies read a value now. Being an output counts as a read; nodes
    /// without readers do not count.
    pub fn reads(&self, value: ValueId) -> usize {
        self.count_reads();
        self.uses.reads(value)
    }

    /// Returns the only reader of a value. It must read the value once and not in a body, and the value must not be
    /// an output.
    pub fn sole_reader(&self, value: ValueId) -> Option<usize> {
        if self.reads(value) != 1 {
            return None;
        }
        let reads_it = |&node: &usize| {
            let mut inputs = self.graph.nodes[node].inputs.iter().flatten();
            self.is_live(node) && inputs.any(|&input| self.current(input) == value)
        };
        self.uses.readers(value).into_iter().find(reads_it)
    }

    /// Returns the nodes that read a value, in any order. A node may occur twice, and some may no longer read it.
    pub fn readers(&self, value: ValueId) -> impl Iterator<Item = usize> + '_ {
        self.count_reads();
        self.uses.readers(value).into_iter().filter(|&node| self.is_live(node))
    }

    /// Returns the changes since the last call.
    pub fn take_touched(&mut self) -> Touched {
        let Touched { mut values, mut nodes } = std::mem::take(&mut self.touched);
        for id in &mut values {
            *id = self.current(*id);
        }
        values.dedup();
        nodes.retain(|&node| self.is_live(node));
        Touched { values, nodes }
    }

    fn count_reads(&self) {
        self.uses.count(|count| {
            let live = (0..self.len()).filter(|&index| self.state[index] != State::Dropped);
            for index in live {
                let node = &self.graph.nodes[index];
                for_each_read(node, &mut |id| count(self.current(id), Some(index)));
            }
            self.graph.outputs.iter().for_each(|&id| count(self.current(id), None));
        });
    }

    /// Inserts a node right before another one. Returns its index.
    pub(super) fn insert_before(&mut self, anchor: usize, node: Node) -> usize {
        let index = self.sequence.insert_before(anchor);
        self.add_node(index, node);
        index
    }

    /// Inserts a node right after another one. Returns its index.
    pub(super) fn insert_after(&mut self, anchor: usize, node: Node) -> usize {
        let index = self.sequence.insert_after(anchor);
        self.add_node(index, node);
        index
    }

    fn add_node(&mut self, index: usize, node: Node) {
        for &output in &node.outputs {
            self.uses.make(output, Some(index));
        }
        self.touched.values.extend(&node.outputs);
        self.graph.nodes.push(node);
        self.state.push(State::Live);
        self.changed = true;
        self.start_reading(index);
    }

    /// Removes and returns the nodes from index `length` on.
    pub(super) fn take_nodes_from(&mut self, length: usize) -> Vec<Node> {
        for index in length..self.len() {
            self.stop_reading(index);
            let outputs = self.graph.nodes[index].outputs.clone();
            outputs.into_iter().for_each(|output| self.uses.make(output, None));
        }
        self.sequence.truncate(length);
        self.state.truncate(length);
        self.graph.nodes.split_off(length)
    }

    /// Changes the inputs of a node.
    pub(super) fn change_reads(&mut self, index: usize, change: impl FnOnce(&mut Node)) {
        let before = self.values_read(index);
        change(&mut self.graph.nodes[index]);
        // New reads are counted first, so that a value in both lists never becomes unread.
        self.start_reading(index);
        for value in before {
            self.read_less(value);
        }
        let outputs = &self.graph.nodes[index].outputs;
        self.facts.get_mut().forget(outputs);
        self.touched.values.extend_from_slice(outputs);
    }

    /// Makes all readers of a value read another one.
    pub(super) fn replace_value(&mut self, from: ValueId, to: ValueId) {
        let to = self.current(to);
        if from == to {
            return;
        }
        self.note_same([(from, to)]);
        let was_unread = self.uses.are_counted() && self.uses.reads(to) == 0;
        self.renamed.insert(from, to);
        if self.uses.are_counted() {
            self.touched.nodes.extend(self.uses.readers(from));
            self.touched.nodes.extend(self.uses.producer(to));
            self.uses.redirect(from, to);
            if was_unread {
                self.revive(to);
            }
        } else {
            self.touched.values.push(to);
        }
    }

    /// Records that each second value has the contents of the first, perhaps in another shape, so that it holds the
    /// same variables of the program.
    pub(super) fn note_same(&mut self, values: impl IntoIterator<Item = (ValueId, ValueId)>) {
        let Some(pairs) = &mut self.pairs else { return };
        for (from, to) in values {
            if self.values[from].ty == self.values[to].ty {
                pairs.note_same(from, to);
            } else if let Some(step) = ViewStep::to_shape_of(from, self.values) {
                pairs.note_view(from, to, step);
            }
        }
    }

    /// If a node only moves elements, records that its result holds the same variables as its operand. With
    /// `is_kept`, the result stays when the node changes.
    pub(super) fn note_view(&mut self, index: usize, is_kept: bool) {
        let Some(pairs) = &mut self.pairs else { return };
        let node = &self.graph.nodes[index];
        let operand = node.inputs.first().copied().flatten();
        let operand = operand.map(|operand| resolve(&self.renamed, operand));
        let step = ViewStep::of(node, self.values);
        let (Some(operand), Some(step)) = (operand, step) else { return };
        match (is_kept, node.outputs[0]) {
            (false, result) => pairs.note_view(result, operand, step),
            (true, result) => {
                if let Some(back) = step.back(operand, self.values) {
                    pairs.note_view(operand, result, back);
                }
            }
        }
    }

    pub(super) fn drop_node(&mut self, index: usize) {
        self.note_view(index, false);
        if self.state[index] == State::Live {
            self.stop_reading(index);
        }
        self.state[index] = State::Dropped;
    }

    /// Returns the inputs of a node, including those of its bodies.
    fn values_read(&self, index: usize) -> SmallVec<[ValueId; 8]> {
        let mut read = SmallVec::new();
        for_each_read(&self.graph.nodes[index], &mut |id| read.push(resolve(&self.renamed, id)));
        read
    }

    fn start_reading(&mut self, index: usize) {
        if !self.uses.are_counted() {
            return;
        }
        for value in self.values_read(index) {
            if self.uses.add(value, index) == 1 {
                self.revive(value);
            }
        }
    }

    fn stop_reading(&mut self, index: usize) {
        if self.state[index] != State::Live {
            return;
        }
        for value in self.values_read(index) {
            self.read_less(value);
        }
    }

    /// Counts one read less. If a node has no readers left, its own reads no longer count.
    fn read_less(&mut self, value: ValueId) {
        let left = if self.uses.are_counted() { Some(self.uses.remove(value)) } else { None };
        // Rules depend on whether a value has one reader, not on larger counts.
        if left.is_none_or(|left| left <= 1) {
            self.touched.values.push(value);
        }
        if left != Some(0) {
            return;
        }
        if let Some(producer) = self.uses.producer(value)
            && self.state[producer] == State::Live
            && self.graph.nodes[producer].outputs.iter().all(|&output| self.uses.reads(output) == 0)
        {
            self.stop_reading(producer);
            self.state[producer] = State::Unread;
        }
    }

    /// If the producer of a value was unread, counts its reads again.
    fn revive(&mut self, value: ValueId) {
        if let Some(producer) = self.uses.producer(value)
            && self.state[producer] == State::Unread
        {
            self.state[producer] = State::Live;
            self.start_reading(producer);
        }
    }
}
