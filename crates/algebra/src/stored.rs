//! Counts how many bytes of each array of the program constants store.

use onnx::edit::LARGE_BYTES;
use onnx::tensor::Memory;
use onnx::{Edit, Node, Tensor, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

/// The number of bytes that constants store of each array.
pub struct Stored(FxHashMap<Memory, usize>);

impl Stored {
    /// Counts the constants that a graph, its bodies and the graphs around it read.
    pub fn of(edit: &Edit<'_>) -> Stored {
        let mut stored: FxHashMap<Memory, usize> = FxHashMap::default();
        let own: FxHashSet<ValueId> = large_constants(edit).into_iter().map(|(id, _)| id).collect();
        let tensors = own.union(edit.constants_outside()).filter_map(|&id| edit.tensor(id));
        tensors.flat_map(|tensor| tensor.sources()).for_each(|(memory, bytes)| {
            *stored.entry(memory).or_default() += bytes;
        });
        Stored(stored)
    }

    /// True if a node may read changed numbers in place of a constant. Otherwise, the model would contain an array
    /// twice: as it is for other nodes, and changed for this one.
    pub fn may_change(&self, edit: &Edit<'_>, reader: usize, constant: ValueId) -> bool {
        let operands = 0..edit.node(reader).inputs.len();
        let own = operands.filter(|&operand| edit.input(reader, operand) == Some(constant)).count();
        let is_kept = edit.reads(constant) > own || edit.constants_outside().contains(&constant);
        edit.tensor(constant).is_some_and(|tensor| self.has_room(tensor, is_kept))
    }

    /// True if no other constant stores the same numbers of an array.
    pub fn is_only_one(&self, tensor: &Tensor) -> bool {
        self.has_room(tensor, false)
    }

    /// True if an array is stored at most once, also if a constant is stored again.
    fn has_room(&self, tensor: &Tensor, again: bool) -> bool {
        tensor.byte_len() <= LARGE_BYTES
            || tensor.sources().into_iter().all(|(memory, bytes)| {
                let stored = self.0.get(&memory).copied().unwrap_or(bytes);
                stored + if again { bytes } else { 0 } <= memory.1
            })
    }
}

/// Returns the large constants in the order of first use. Each comes with the first node of this graph that reads it,
/// directly or in a body.
pub fn large_constants(edit: &Edit<'_>) -> Vec<(ValueId, usize)> {
    let (mut seen, mut found) = (FxHashSet::default(), Vec::new());
    for index in edit.nodes() {
        let mut nodes: Vec<&Node> = vec![edit.node(index)];
        while let Some(node) = nodes.pop() {
            nodes.extend(node.bodies().flat_map(|body| &body.nodes));
            for id in node.inputs.iter().flatten().map(|&id| edit.current(id)) {
                let is_large =
                    edit.tensor(id).is_some_and(|tensor| tensor.byte_len() > LARGE_BYTES);
                if is_large && seen.insert(id) {
                    found.push((id, index));
                }
            }
        }
    }
    found
}
