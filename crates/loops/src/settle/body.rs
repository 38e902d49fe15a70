//! Reads the entries that an iteration of a loop drops.

use algebra::rewrite::require;
use onnx::operator::properties::{POINTWISE, RESHAPES};
use onnx::{DType, Edit, Node, OpType, Tensor, Type, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::super::{Array, Carry, Counted};

/// The effect of an active iteration.
pub(super) struct Effect {
    /// True if it clears flags, false if it sets flags.
    pub clears: bool,
    /// True if it changes only entries after its own.
    pub is_ordered: bool,
}

/// The analysis of the nodes of an iteration.
pub(super) struct Body<'a, 'e> {
    edit: &'a Edit<'e>,
    scan: &'a Counted,
    carry: Carry,
    rank: usize,
    pub entry: ValueId,
    /// The values that depend on the entry of the iteration and on nothing else that differs between iterations.
    of_entry: FxHashSet<ValueId>,
    pub flag_nodes: Vec<Node>,
    pub active_flag: Option<ValueId>,
    pub choosing: Vec<Node>,
    /// Flags as functions of the flags that an iteration reads.
    tables: FxHashMap<ValueId, Table>,
    given: Vec<ValueId>,
    made: FxHashSet<ValueId>,
}

/// The truth table of a flag as a function of six others: the carry, the flag of an active iteration, and four that
/// the iteration reads.
type Table = u64;

const CARRY: Table = 0xaaaa_aaaa_aaaa_aaaa;
const ACTIVE: Table = 0xcccc_cccc_cccc_cccc;
const GIVEN: [Table; 4] =
    [0xf0f0_f0f0_f0f0_f0f0, 0xff00_ff00_ff00_ff00, 0xffff_0000_ffff_0000, 0xffff_ffff_0000_0000];

impl<'a, 'e> Body<'a, 'e> {
    pub(super) fn new(
        edit: &'a Edit<'e>,
        scan: &'a Counted,
        carry: Carry,
        rank: usize,
    ) -> Body<'a, 'e> {
        Body {
            edit,
            scan,
            carry,
            rank,
            entry: carry.before,
            of_entry: FxHashSet::default(),
            flag_nodes: Vec::new(),
            active_flag: None,
            choosing: Vec::new(),
            tables: FxHashMap::default(),
            given: Vec::new(),
            made: FxHashSet::default(),
        }
    }

    /// Classifies a node. `None` if it does not belong to the pattern.
    pub(super) fn take(&mut self, node: &Node) -> Option<()> {
        let &[result] = &node.outputs[..] else { return None };
        self.made.insert(result);
        if self.reads_entry(node) {
            require(self.of_entry.is_empty() || self.entry == result)?;
            self.entry = result;
            self.of_entry.insert(result);
            return Some(());
        }
        if self.is_of_entry(node) {
            self.of_entry.insert(result);
            self.flag_nodes.push(node.clone());
            return Some(());
        }
        let table = self.table(node)?;
        self.tables.insert(result, table);
        self.choosing.push(node.clone());
        Some(())
    }

    /// True if a node gathers the entry of the iteration from the carry.
    fn reads_entry(&self, node: &Node) -> bool {
        let [Some(array), Some(number)] = node.inputs[..] else { return false };
        let is_entry = node.op == OpType::Gather
            && array == self.carry.before
            && node.axis(self.rank) == Some(self.rank - 1);
        let counts = |array: &&Array| {
            let numbers = self.edit.tensor(array.whole).and_then(Tensor::ints);
            let iterations = self.scan.iterations.known().unwrap_or(0);
            array.element == number
                && numbers.is_some_and(|numbers| numbers.into_iter().eq(0..iterations))
        };
        is_entry && self.scan.arrays.iter().any(|array| counts(&array))
    }

    /// True if a node depends only on the entry of the iteration.
    fn is_of_entry(&self, node: &Node) -> bool {
        let is_known = |id: &ValueId| {
            self.of_entry.contains(id) || (!self.made.contains(id) && self.is_same(*id))
        };
        let is_elementwise = node.op.is(POINTWISE | RESHAPES);
        let is_small = |ty: &Type| {
            ty.rank() < self.rank || ty.shape.last().is_some_and(|last| last.known() == Some(1))
        };
        is_elementwise
            && node.inputs.iter().flatten().any(|id| self.of_entry.contains(id))
            && node.inputs.iter().flatten().all(is_known)
            && self.edit.ty(node.outputs[0]).is_some_and(is_small)
    }

    /// True if a value is the same in each iteration.
    fn is_same(&self, value: ValueId) -> bool {
        value != self.carry.before && !self.scan.arrays.iter().any(|array| array.element == value)
    }

    /// Returns the table of the result of a node. The cast of a flag counts as a flag.
    fn table(&mut self, node: &Node) -> Option<Table> {
        let mut operand = |place: usize| self.flag(node.inputs.get(place).copied().flatten()?);
        Some(match node.op.onnx()? {
            OpType::And => operand(0)? & operand(1)?,
            OpType::Or => operand(0)? | operand(1)?,
            OpType::Xor => operand(0)? ^ operand(1)?,
            OpType::Not => !operand(0)?,
            OpType::Identity | OpType::Cast => operand(0)?,
            OpType::Where => {
                let flag = operand(0)?;
                (flag & operand(1)?) | (!flag & operand(2)?)
            }
            _ => return None,
        })
    }

    fn flag(&mut self, value: ValueId) -> Option<Table> {
        if let Some(&table) = self.tables.get(&value) {
            return Some(table);
        }
        if let Some(number) = self.edit.number(value) {
            return (number == 0.0 || number == 1.0).then_some(if number == 0.0 { 0 } else { !0 });
        }
        require(self.edit.dtype(value)? == DType::Bool)?;
        if value == self.carry.before {
            return Some(CARRY);
        }
        if self.of_entry.contains(&value) {
            return (*self.active_flag.get_or_insert(value) == value).then_some(ACTIVE);
        }
        let place = self.given.iter().position(|&given| given == value).unwrap_or_else(|| {
            self.given.push(value);
            self.given.len() - 1
        });
        GIVEN.get(place).copied()
    }

    /// Returns the effect of an iteration that is active for this value of the flag. `None` if inactive iterations
    /// have an effect too.
    pub(super) fn effect(&self, is_active_if: bool) -> Option<Effect> {
        let active = if is_active_if { ACTIVE } else { !ACTIVE };
        let after = *self.tables.get(&self.carry.after)?;
        require((after ^ CARRY) & !active == 0)?;
        // The iteration only clears flags, or only sets them.
        let clears = after & active & !CARRY == 0;
        let sets = !after & active & CARRY == 0;
        let is_set = if clears { !after & CARRY } else { after & !CARRY };
        (clears || sets).then(|| Effect { clears, is_ordered: self.is_ordered(is_set & active) })
    }

    /// True if entries are set only where a flag is, and that flag is set only for entries after that of the
    /// iteration.
    fn is_ordered(&self, is_set: Table) -> bool {
        self.given.iter().zip(GIVEN).any(|(&value, given)| {
            let array = self.scan.arrays.iter().find(|array| array.element == value);
            is_set & !given == 0
                && array.is_some_and(|array| is_behind_iteration(self.edit, array.whole))
        })
    }
}

/// True if the flags of each iteration are set only for entries after that of the iteration.
fn is_behind_iteration(edit: &Edit<'_>, flags: ValueId) -> bool {
    if let Some(tensor) = edit.tensor(flags) {
        let &[_, .., entries] = &tensor.shape[..] else { return false };
        let step: i64 = tensor.shape[1..].iter().product();
        return tensor.ints().is_some_and(|flags| {
            let is_behind = |place: i64| place / step < place % entries;
            (0..).zip(&flags).all(|(place, &flag)| flag == 0 || is_behind(place))
        });
    }
    let Some(node) = edit.made_by(flags, OpType::And) else { return false };
    // A mask that broadcasts along the iterations or the entries says nothing about their order.
    let ends = |value| edit.ty(value).map(|ty| (ty.rank(), ty.shape.first(), ty.shape.last()));
    let mut operands = [0, 1].into_iter().filter_map(|operand| edit.input(node, operand));
    operands.any(|operand| ends(operand) == ends(flags) && is_behind_iteration(edit, operand))
}
