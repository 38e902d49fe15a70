//! Finds the values that share a buffer, and when each buffer is allocated and freed, as ONNX Runtime plans it.

use std::sync::Arc;

use onnx::operator::properties::{ALIASES, IN_PLACE};
use onnx::{Dim, Symbol, Type};
use rustc_hash::FxHashMap;

use super::flat::{Flat, Source};

/// Memory that one value after another takes.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    /// The value that determines its size.
    pub value: u32,
    /// The first and the last step at which it is allocated.
    pub first: usize,
    pub last: usize,
    /// The steps at which something is written to it, and those at which the last value in it is no longer needed.
    pub uses: Vec<Use>,
    /// True if an output of the graph is in it.
    pub is_output: bool,
}

/// A value in a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    /// The position of the node that makes it.
    pub first: usize,
    /// The position of the last node that reads it.
    pub last: usize,
}

/// Buffers of one shape and element size can be exchanged.
type Key = (usize, Arc<[Dim]>);

/// Plans the buffers of the values that nodes make, in the order in which they run.
pub(super) fn buffers(flat: &Flat, order: &[usize]) -> Vec<Buffer> {
    let mut planner = Planner {
        flat,
        counts: counts(flat),
        buffer_of: vec![None; flat.values.len()],
        buffers: Vec::new(),
        free: FxHashMap::default(),
        is_output: vec![false; flat.values.len()],
    };
    flat.outputs.iter().for_each(|&value| planner.is_output[value as usize] = true);
    for (step, &number) in order.iter().enumerate() {
        planner.allocate(step, number);
        let node = &flat.nodes[number];
        let written = node.writes.iter().flatten();
        for &value in node.reads.iter().chain(&node.captures).chain(written) {
            planner.release(value, step);
        }
    }
    let end = order.len().saturating_sub(1);
    let mut buffers = planner.buffers;
    for buffer in buffers.iter_mut().filter(|buffer| buffer.last == usize::MAX) {
        buffer.last = end;
        if let Some(last) = buffer.uses.last_mut() {
            last.last = end;
        }
    }
    buffers
}

/// Returns how often each value is needed: once for each operand, each node that makes it, and each output.
fn counts(flat: &Flat) -> Vec<usize> {
    let mut counts = flat.readers();
    let written = flat.nodes.iter().flat_map(|node| node.writes.iter().flatten());
    written.for_each(|&value| counts[value as usize] += 1);
    counts
}

struct Planner<'f> {
    flat: &'f Flat,
    /// The number of times that the values in a buffer are still needed, under the value that determines its size; for other values,
    /// how often they are needed.
    counts: Vec<usize>,
    buffer_of: Vec<Option<usize>>,
    buffers: Vec<Buffer>,
    /// The buffers that nothing needs, the one that was released last at the end.
    free: FxHashMap<Key, Vec<usize>>,
    is_output: Vec<bool>,
}

impl Planner<'_> {
    fn allocate(&mut self, step: usize, number: usize) {
        let node = &self.flat.nodes[number];
        for (place, value) in node.writes.iter().enumerate() {
            let Some(value) = *value else { continue };
            if self.is_output[value as usize] {
                self.add(value, step, true);
                continue;
            }
            let operand = node.operands.first().copied().flatten().filter(|_| place == 0);
            if let (Some(op), Some(operand)) = (node.op, operand) {
                if op.is(ALIASES) {
                    self.alias(value, operand, step);
                    continue;
                }
                if op.is(IN_PLACE)
                    && let Some(buffer) = self.last_use(operand, value)
                {
                    self.put(value, buffer, step);
                    continue;
                }
            }
            let free =
                key(self.flat.computed(value)).and_then(|key| self.free.get_mut(&key)?.pop());
            match free {
                Some(buffer) => self.put(value, buffer, step),
                None => self.add(value, step, false),
            }
        }
    }

    /// Lets a value be another name of an operand, whose memory may be from outside.
    fn alias(&mut self, value: u32, operand: u32, step: usize) {
        match self.buffer_of[operand as usize] {
            Some(buffer) => self.put(value, buffer, step),
            None if self.flat.values[operand as usize].source == Source::Made => {
                self.add(value, step, false);
            }
            None => {}
        }
    }

    /// Returns the buffer of an operand, if this is its last use and the result fits in it.
    fn last_use(&self, operand: u32, result: u32) -> Option<usize> {
        let buffer = self.buffer_of[operand as usize]?;
        let is_last = self.counts[self.buffers[buffer].value as usize] == 1;
        let (from, to) = (key_of_any(self.flat.ty(operand))?, key_of_any(self.flat.ty(result))?);
        (is_last && from == to).then_some(buffer)
    }

    fn add(&mut self, value: u32, step: usize, is_output: bool) {
        self.buffer_of[value as usize] = Some(self.buffers.len());
        let uses = vec![Use { first: step, last: usize::MAX }];
        self.buffers.push(Buffer { value, first: step, last: usize::MAX, uses, is_output });
    }

    fn put(&mut self, value: u32, buffer: usize, step: usize) {
        let owner = self.buffers[buffer].value as usize;
        self.counts[owner] += self.counts[value as usize];
        self.buffer_of[value as usize] = Some(buffer);
        let buffer = &mut self.buffers[buffer];
        buffer.last = usize::MAX;
        if let Some(before) = buffer.uses.last_mut().filter(|before| before.last == usize::MAX) {
            before.last = step;
        }
        buffer.uses.push(Use { first: step, last: usize::MAX });
    }

    /// Notes that one of those that need a value is done.
    fn release(&mut self, value: u32, step: usize) {
        let Some(number) = self.buffer_of[value as usize] else { return };
        let buffer = &mut self.buffers[number];
        let count = &mut self.counts[buffer.value as usize];
        *count = count.saturating_sub(1);
        if *count > 0 {
            return;
        }
        buffer.last = step;
        if let Some(last) = buffer.uses.last_mut() {
            last.last = step;
        }
        if let Some(key) = key(self.flat.computed(buffer.value)) {
            self.free.entry(key).or_default().push(number);
        }
    }
}

/// Returns what a buffer must have in common with a value that takes it over. Numbers without axes do not reuse buffers.
fn key(ty: Option<&Type>) -> Option<Key> {
    key_of_any(ty).filter(|(_, shape)| !shape.is_empty())
}

fn key_of_any(ty: Option<&Type>) -> Option<Key> {
    let ty = ty?;
    let is_unknown = |dim: &Dim| {
        let mut is_unknown = false;
        dim.for_each_symbol(&mut |symbol| is_unknown |= matches!(symbol, Symbol::Unknown(_)));
        is_unknown
    };
    let is_fixed = ty.dtype.bits() > 0 && !ty.shape.iter().any(is_unknown);
    is_fixed.then(|| (ty.dtype.bits(), ty.shape.clone()))
}
