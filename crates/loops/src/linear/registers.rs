//! Computes states that only keep inputs: the last one, or a register of several that each step shifts.
//!
//! The register after a step is a window of the inputs of all steps, so that no loop and no arithmetic is needed.

use algebra::rewrite::{Result, require};
use onnx::operator::properties::RESHAPES;
use onnx::{Op, OpType, Patch, ValueId, known_shape};

use super::affine::System;
use super::body::{shaped, sliced};
use super::split::Split;
use crate::{Carry, Counted};

/// The maximum number of entries of a register.
const MAX_ENTRIES: i64 = 32;

/// The maximum number of elements of the registers of all steps.
const MAX_ELEMENTS: i64 = 1 << 22;

/// A state that depends only on the arrays of the loop and on other such states.
pub(super) struct Delay {
    pub carry: Carry,
    register: Option<Register>,
}

/// A state to which each step adds an entry at one end, and from which it drops an entry at the other end.
struct Register {
    system: System,
    /// The number of entries, and of the elements of each.
    count: i64,
    entry: i64,
    shape: Vec<i64>,
    /// True if the newest entry is the first one.
    is_newest_first: bool,
}

impl Register {
    fn of(edit: &mut Patch<'_, '_>, scan: &Counted, carry: Carry) -> Option<Register> {
        let shape = known_shape(edit.shape(carry.before)?)?;
        let after = scan.sources(&[carry.after]);
        let before = scan.dependents([carry.before].into_iter().collect());
        let copies = |op: OpType| {
            op.is(RESHAPES) || [OpType::Concat, OpType::Slice, OpType::Split].contains(&op)
        };
        let mut between = scan.nodes.iter().filter(|node| {
            node.outputs.iter().any(|output| after.contains(output) && before.contains(output))
        });
        require(!scan.is_reverse && between.all(|node| node.op.onnx().is_some_and(copies)))?;
        let system = System::of(edit, scan, &[carry], false).ok()?;
        let size = system.rows.len();
        let kept = |row: usize| match system.rows[row][..] {
            [(column, one)] if one.constant() == Some(1.0) => Some(column as usize),
            _ => None,
        };
        let is_newest_first = system.rows.first()?.is_empty();
        let entry = system.rows.iter().filter(|row| row.is_empty()).count();
        require(entry > 0 && entry < size && size.is_multiple_of(entry))?;
        let is_shift = match is_newest_first {
            true => (entry..size).all(|row| kept(row) == Some(row - entry)),
            false => (0..size - entry).all(|row| kept(row) == Some(row + entry)),
        };
        let (count, entry) = ((size / entry) as i64, entry as i64);
        let is_small = scan.iterations.known()? * count * entry <= MAX_ELEMENTS;
        (is_shift && is_small && count <= MAX_ENTRIES && system.added[0].is_some())
            .then_some(Register { system, count, entry, shape, is_newest_first })
    }

    /// Returns the states after and before all steps, and after the last one.
    fn states(&self, edit: &mut Patch<'_, '_>, split: &mut Split<'_>) -> Result<[ValueId; 3]> {
        let carry = self.system.members[0];
        let added = self.entries(edit, split)?;
        let mut initial = shaped(edit, carry.initial, &[self.count, self.entry])?;
        if self.is_newest_first {
            initial = reversed(edit, initial)?;
        }
        let all = Op::new(OpType::Concat, &[initial, added]).attr("axis", 0);
        let all = edit.insert(all);
        // The state before a step is the window that starts at this step.
        let mut windows = Vec::new();
        for entry in 0..=self.count {
            let rest = self.count - entry;
            let end = if rest == 0 { i64::MAX } else { -rest };
            windows.push(sliced(edit, all, 0, entry, end)?);
        }
        let joined = |edit: &mut Patch<'_, '_>, windows: &[ValueId]| {
            let mut windows = windows.to_vec();
            if self.is_newest_first {
                windows.reverse();
            }
            edit.insert(Op::new(OpType::Concat, &windows).attr("axis", 1))
        };
        let last = windows.len() - 1;
        let (after, before) = (joined(edit, &windows[1..]), joined(edit, &windows[..last]));
        let after = split.reshape(edit, after, None, &self.shape)?;
        let before = split.reshape(edit, before, None, &self.shape)?;
        let mut end = sliced(edit, all, 0, -self.count, i64::MAX)?;
        if self.is_newest_first {
            end = reversed(edit, end)?;
        }
        Ok([after, before, shaped(edit, end, &self.shape)?])
    }

    /// Returns the entries that the steps add, as `[steps, entry]`.
    fn entries(&self, edit: &mut Patch<'_, '_>, split: &mut Split<'_>) -> Result<ValueId> {
        let added = self.system.added[0].ok_or("no step adds an entry")?;
        let mut nodes = &self.system.nodes[..];
        let mut entry = None;
        if let Some((last, others)) = nodes.split_last()
            && last.op == OpType::Concat
            && last.outputs.contains(&added)
        {
            // The entry is joined with zeros.
            let operand =
                if self.is_newest_first { last.inputs.first() } else { last.inputs.last() };
            let shape = |id: ValueId| edit.shape(id).and_then(known_shape);
            let is_entry = |id: &ValueId| {
                shape(*id).is_some_and(|shape| shape.iter().product::<i64>() == self.entry)
            };
            entry = operand.copied().flatten().filter(is_entry);
            nodes = if entry.is_some() { others } else { nodes };
        }
        for node in nodes {
            split.take_node(edit, node)?;
        }
        if let Some(entry) = entry {
            return split.rows(edit, entry, &[self.entry]);
        }
        let rows = split.rows(edit, added, &self.shape)?;
        let size = self.count * self.entry;
        let start = if self.is_newest_first { 0 } else { size - self.entry };
        sliced(edit, rows, 1, start, start + self.entry)
    }
}

/// Reverses the order of rows.
fn reversed(edit: &mut Patch<'_, '_>, rows: ValueId) -> Result<ValueId> {
    let operands = [-1, i64::MIN, 0, -1].map(|int| edit.integers(&[int]));
    let operands: Option<Vec<ValueId>> = std::iter::once(Some(rows)).chain(operands).collect();
    Ok(edit.insert(Op::new(OpType::Slice, &operands.ok_or("no axes")?)))
}

/// Returns the states of a loop that depend only on its arrays and on each other, one after the other.
pub(super) fn delays(edit: &mut Patch<'_, '_>, scan: &Counted) -> Vec<Delay> {
    let mut found: Vec<Delay> = Vec::new();
    let mut open: Vec<Carry> = scan.carries.clone();
    loop {
        let mut next = None;
        for (place, &carry) in open.iter().enumerate() {
            let read = scan.sources(&[carry.after]);
            let others = open.iter().filter(|other| other.before != carry.before);
            if others.clone().any(|other| read.contains(&other.before)) {
                continue;
            }
            let register = match read.contains(&carry.before) {
                true => Register::of(edit, scan, carry),
                false => None,
            };
            if register.is_some() || !read.contains(&carry.before) {
                next = Some((place, Delay { carry, register }));
                break;
            }
        }
        let Some((place, delay)) = next else { return found };
        open.remove(place);
        found.push(delay);
    }
}

impl Delay {
    /// Computes the states of all steps. Returns the state after the last one.
    pub(super) fn take(
        &self,
        edit: &mut Patch<'_, '_>,
        scan: &Counted,
        split: &mut Split<'_>,
    ) -> Result<ValueId> {
        let carry = self.carry;
        if let Some(register) = &self.register {
            let [after, before, last] = register.states(edit, split)?;
            split.batches.of.insert(carry.after, after);
            split.batches.of.insert(carry.before, before);
            return Ok(last);
        }
        split.take(edit, [carry.after])?;
        let after = split.array(carry.after).ok_or("a state is the same after all steps")?;
        let initial = edit.unsqueeze(carry.initial, &[0]).ok_or("no axes")?;
        let (start, end, last) = if scan.is_reverse { (1, i64::MAX, 0) } else { (0, -1, -1) };
        let parts = if scan.is_reverse { [after, initial] } else { [initial, after] };
        let all = edit.insert(Op::new(OpType::Concat, &parts).attr("axis", 0));
        let before = sliced(edit, all, 0, start, end)?;
        split.batches.of.insert(carry.before, before);
        let last = edit.integer(last).ok_or("no index")?;
        Ok(edit.insert(Op::new(OpType::Gather, &[all, last]).attr("axis", 0)))
    }
}
