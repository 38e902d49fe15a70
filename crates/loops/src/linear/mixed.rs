//! Computes states whose numbers each step mixes by a constant matrix, in chunks of steps.
//!
//! Examples are filters, rotations, linear networks, and differential equations with a linear right-hand side. The
//! matrix is split into blocks of numbers that depend on each other; each block is a series of its own.

use algebra::axis_map::transpose;
use algebra::rewrite::Result;
use onnx::{DType, Dim, Edit, Op, OpType, Patch, Tensor, ValueId, known_shape};

use super::affine::{System, elements};
use super::body::{filled, number, shaped, sliced};
use super::coefficients::Row;
use super::components::{Blocks, Matrices};
use super::lanes::{Factor, Lanes};
use super::levels::{Levels, Plan};
use super::powers::{self, Base};
use super::registers::Delay;
use super::series::Join;
use super::split::Split;
use crate::{Carry, Counted};

/// More numbers stay in their loop: a step takes longer to compute than its nodes take to start.
const MAX_STATES: usize = 512;

/// More tables that the model computes take longer than the loop.
const MAX_TABLES: usize = 4;

/// The maximum number of entries of the matrices of a step, if the steps differ.
const MAX_VARYING: usize = 64;

/// The numbers of blocks and of their states that are computed one by one.
const MIN_LANES: usize = 8;
const MAX_LANES: usize = 3;

/// The largest product of matrices of several steps.
const MAX_PRODUCT: f64 = 64.0;

/// Returns the states of a loop that can leave it together. `None` if there are none.
///
/// States that stay must not depend on them.
pub(super) fn system(edit: &mut Patch<'_, '_>, scan: &Counted, delays: &[Delay]) -> Option<System> {
    let same = read(edit, scan, delays, false);
    same.or_else(|| read(edit, scan, delays, true).filter(|_| scan.iterations.known().is_some()))
}

fn read(
    edit: &mut Patch<'_, '_>,
    scan: &Counted,
    delays: &[Delay],
    may_vary: bool,
) -> Option<System> {
    let is_delay = |carry: &Carry| delays.iter().any(|delay| delay.carry.before == carry.before);
    let size = |edit: &Edit<'_>, carry: &Carry| {
        let shape = known_shape(edit.shape(carry.before)?)?;
        Some(elements(&shape))
            .filter(|&size| size > 0 && edit.dtype(carry.before) == Some(DType::F32))
    };
    let mut members: Vec<Carry> =
        scan.carries.iter().copied().filter(|one| !is_delay(one)).collect();
    members.retain(|carry| size(edit, carry).is_some());
    let total = |edit: &Edit<'_>, members: &[Carry]| -> usize {
        members.iter().filter_map(|carry| size(edit, carry)).sum()
    };
    while !members.is_empty() && total(edit, &members) <= MAX_STATES {
        let others = match System::of(edit, scan, &members, may_vary) {
            Ok(system) => {
                let stays = |carry: &&Carry| {
                    !is_delay(carry) && !members.iter().any(|one| one.before == carry.before)
                };
                let stay: Vec<ValueId> =
                    scan.carries.iter().filter(stays).map(|carry| carry.after).collect();
                let read = scan.sources(&stay);
                let others: Vec<Carry> =
                    members.iter().copied().filter(|one| read.contains(&one.before)).collect();
                if others.is_empty() {
                    return is_small(&system).then_some(system);
                }
                others
            }
            Err(others) => {
                // Others may be affine as soon as these are not among the states.
                let mut alone = others.clone();
                alone.retain(|carry| System::of(edit, scan, &[*carry], may_vary).is_err());
                if alone.is_empty() { others } else { alone }
            }
        };
        members.retain(|one| !others.iter().any(|other| other.before == one.before));
    }
    None
}

/// Returns the blocks whose numbers are computed one by one, if there are many with matrices of their own.
fn lanes(system: &System) -> Option<Blocks> {
    let blocks = Blocks::of(&system.rows).ok()?.pop()?;
    let has_many = blocks.count >= MIN_LANES && (system.is_varying || blocks.tables() > MAX_TABLES);
    let is_apart = match system.members.len() {
        1 => order_of(&blocks) != Order::Other,
        members => members == blocks.size && order_of(&blocks) == Order::ByPlace,
    };
    let is_whole = blocks.count * blocks.size == system.rows.len();
    let is_each = (2..=MAX_LANES).contains(&blocks.size) && is_whole && is_apart && has_many;
    (is_each && is_single(&system.rows)).then_some(blocks)
}

/// True if all coefficients may be rounded to single precision.
fn is_single(rows: &[Row]) -> bool {
    rows.iter().flatten().all(|(_, one)| one.is_single())
}

/// True unless the model would compute many tables.
fn is_small(system: &System) -> bool {
    if lanes(system).is_some() {
        return true;
    }
    let is_small = |blocks: &Blocks| match blocks.matrices {
        _ if system.is_varying => {
            blocks.count * blocks.size.pow(2) <= MAX_VARYING && is_single(&system.rows)
        }
        Matrices::Known(_) => true,
        Matrices::Computed { .. } => blocks.tables() <= MAX_TABLES,
    };
    let is_pair = |blocks: &Blocks| !system.is_varying || blocks.size > 1;
    Blocks::of(&system.rows).map_or(true, |all| all.iter().all(is_small) && all.iter().any(is_pair))
}

/// The arrays of all steps that the update of a system reads.
pub(super) struct Mixed {
    system: System,
    /// The sum that a step adds to each state, as `[steps, size]`.
    added: Vec<Option<ValueId>>,
    blocks: Vec<Part>,
    /// The values from which the model computes matrices.
    pub factors: Vec<ValueId>,
    /// The states after all steps, if their numbers are computed one by one.
    lanes: Option<Vec<ValueId>>,
}

/// Blocks of one size, and their powers.
struct Part {
    blocks: Blocks,
    way: Way,
}

enum Way {
    Powers(Base, Option<Plan>),
    /// The states after all steps, `[steps, blocks, 1, size]`.
    Computed(ValueId),
}

impl Mixed {
    /// Computes for all steps what they add to the states, and the powers of the matrix. Adds conditions that the powers
    /// are not too large.
    pub(super) fn of(
        edit: &mut Patch<'_, '_>,
        scan: &Counted,
        split: &mut Split<'_>,
        system: System,
        guards: &mut Vec<ValueId>,
    ) -> Result<Mixed> {
        for node in &system.nodes {
            split.take_node(edit, node)?;
        }
        let mut added = Vec::new();
        for (carry, value) in system.members.iter().zip(&system.added) {
            let Some(value) = *value else {
                added.push(None);
                continue;
            };
            let shape = edit.shape(carry.before).and_then(known_shape);
            let shape = shape.ok_or("a size of the state is not known")?;
            added.push(Some(split.rows(edit, value, &shape)?));
        }
        let is_added = added.iter().any(Option::is_some);
        let mut mixed =
            Mixed { system, added, blocks: Vec::new(), factors: Vec::new(), lanes: None };
        if let (Some(blocks), Some(steps)) = (lanes(&mixed.system), scan.iterations.known()) {
            mixed.by_lanes(edit, scan, split, &blocks, steps, guards)?;
            return Ok(mixed);
        }
        let mut parts = Vec::new();
        if mixed.system.is_varying {
            for blocks in Blocks::of(&mixed.system.rows)? {
                let matrices = powers::of_steps(edit, split, scan, &mixed.system, &blocks)?;
                let states = mixed.by_matrices(edit, scan, &blocks, matrices, guards)?;
                mixed.factors.push(matrices);
                parts.push(Part { blocks, way: Way::Computed(states) });
            }
            mixed.blocks = parts;
            return Ok(mixed);
        }
        let system = &mixed.system;
        let mut factors = Vec::new();
        for blocks in Blocks::of(&system.rows)? {
            let base = Base::of(edit, split, scan, system, &blocks, &mut factors)?;
            let plan = Plan::of(edit, &scan.iterations, &blocks, &base, is_added, guards)?;
            parts.push(Part { blocks, way: Way::Powers(base, plan) });
        }
        (mixed.blocks, mixed.factors) = (parts, factors);
        Ok(mixed)
    }

    /// Returns the numbers that must be finite.
    pub(super) fn numbers(&self) -> impl Iterator<Item = ValueId> {
        let initial = self.system.members.iter().map(|carry| carry.initial);
        self.added.iter().flatten().copied().chain(initial)
    }

    pub(super) fn members(&self) -> &[Carry] {
        &self.system.members
    }

    /// Returns the states after all steps, one array `[steps, size]` for each member.
    pub(super) fn states(&self, edit: &mut Patch<'_, '_>, scan: &Counted) -> Result<Vec<ValueId>> {
        if let Some(states) = &self.lanes {
            return Ok(states.clone());
        }
        let sizes = self.sizes(edit);
        let total: i64 = sizes.iter().sum();
        let initial = self.initial(edit, &sizes)?;
        let added = self.all_added(edit, scan, &sizes)?;
        let (mut parts, mut order) = (Vec::new(), Vec::new());
        for Part { blocks, way } in &self.blocks {
            let is_whole = self.blocks.len() == 1;
            let (base, plan) = match way {
                Way::Powers(base, plan) => (base, plan),
                Way::Computed(states) => {
                    parts.push(*states);
                    order.extend(blocks.order.iter().copied());
                    continue;
                }
            };
            let added = match added {
                Some(added) => Some(to_blocks(edit, added, blocks, is_whole, &scan.iterations)?),
                None => None,
            };
            let initial = to_blocks(edit, initial, blocks, is_whole, &Dim::Known(1))?;
            let carry = self.system.members[0];
            let plan = plan.as_ref();
            let levels = Levels { scan, carry, blocks, added, initial, base, plan };
            let states = levels.states(edit)?;
            parts.push(from_blocks(edit, states, blocks, is_whole)?);
            order.extend(blocks.order.iter().copied());
        }
        let is_ordered = order.is_sorted() || !self.system.is_varying;
        let whole = if let ([one], true) = (&parts[..], is_ordered) {
            *one
        } else {
            let joined = edit.insert(Op::new(OpType::Concat, &parts).attr("axis", 1));
            let mut places = vec![0; order.len()];
            order.iter().enumerate().for_each(|(place, &state)| places[state] = place as i64);
            picked(edit, joined, &places)?
        };
        let mut start = 0;
        let mut found = Vec::new();
        for size in sizes {
            let is_whole = size == total;
            found.push(if is_whole { whole } else { sliced(edit, whole, 1, start, start + size)? });
            start += size;
        }
        Ok(found)
    }

    /// Computes the numbers of blocks one by one. Adds conditions that the products of their factors are small.
    fn by_lanes(
        &mut self,
        edit: &mut Patch<'_, '_>,
        scan: &Counted,
        split: &mut Split<'_>,
        blocks: &Blocks,
        steps: i64,
        guards: &mut Vec<ValueId>,
    ) -> Result<()> {
        let matrix = powers::lanes(edit, split, scan, &self.system, blocks)?;
        self.factors.extend(matrix.iter().flatten().filter_map(|factor| factor.value()));
        let (mut initial, mut added) = (Vec::new(), Vec::new());
        let sizes = self.sizes(edit);
        for ((carry, sum), &size) in self.system.members.iter().zip(&self.added).zip(&sizes) {
            initial.push(shaped(edit, carry.initial, &[1, size])?);
            added.push(if let Some(sum) = *sum {
                sum
            } else {
                let zero = filled(edit, &[1, 1], 0.0)?;
                let sizes = edit.integers(&[steps, size]).ok_or("no shape")?;
                edit.insert(Op::new(OpType::Expand, &[zero, sizes]))
            });
        }
        let [initial, added] = [initial, added].map(|all| numbers_of(edit, &all, blocks));
        let (initial, join) = (vec![initial?], Join::Sum);
        let lanes = Lanes { scan, all: &[], join, initial, limit: i64::MAX };
        let mut products = Vec::new();
        let states = lanes.states(edit, &matrix, &[added?], [steps, 1], &mut products)?;
        ensure_small(edit, &products, guards)?;
        let states = states.into_iter().flatten().collect::<Vec<_>>();
        self.lanes = Some(match self.system.members.len() {
            1 => vec![from_numbers(edit, &states, blocks, steps)?],
            _ => states,
        });
        Ok(())
    }

    /// Computes the states of blocks by products of matrices, which differ between the steps. Returns them as
    /// `[steps, states]`, and adds conditions that the products are small.
    fn by_matrices(
        &self,
        edit: &mut Patch<'_, '_>,
        scan: &Counted,
        blocks: &Blocks,
        matrices: ValueId,
        guards: &mut Vec<ValueId>,
    ) -> Result<ValueId> {
        let steps = scan.iterations.known().ok_or("the number of steps is not known")?;
        let (count, size) = (blocks.count as i64, blocks.size as i64);
        let sizes = self.sizes(edit);
        let columns: Vec<i64> = blocks.order.iter().map(|&state| state as i64).collect();
        let rows = |edit: &mut Patch<'_, '_>, array: ValueId, lead: i64| {
            let is_whole = columns.is_sorted() && columns.len() == self.system.rows.len();
            let array = if is_whole { array } else { picked(edit, array, &columns)? };
            shaped(edit, array, &[lead, count, 1, size])
        };
        let initial = self.initial(edit, &sizes)?;
        let initial = rows(edit, initial, 1)?;
        let added = match self.all_added(edit, scan, &sizes)? {
            Some(added) => added,
            None => filled(edit, &[steps, sizes.iter().sum()], 0.0)?,
        };
        let added = rows(edit, added, steps)?;
        let (matrix, initial) = (vec![vec![Factor::Steps(matrices)]], vec![vec![initial]]);
        let lanes = Lanes { scan, all: &[], join: Join::Matrix, initial, limit: i64::MAX };
        let mut products = Vec::new();
        let states = lanes.states(edit, &matrix, &[vec![added]], [steps, 1], &mut products)?;
        ensure_small(edit, &products, guards)?;
        shaped(edit, states[0][0], &[steps, count * size])
    }

    fn sizes(&self, edit: &Edit<'_>) -> Vec<i64> {
        let shape = |carry: &Carry| edit.shape(carry.before).and_then(known_shape);
        let members = self.system.members.iter().filter_map(shape);
        members.map(|shape| shape.iter().product()).collect()
    }

    /// Returns all states before the first step, as one row.
    fn initial(&self, edit: &mut Patch<'_, '_>, sizes: &[i64]) -> Result<ValueId> {
        let mut rows = Vec::new();
        for (carry, &size) in self.system.members.iter().zip(sizes) {
            let constant = edit.tensor(carry.initial).cloned();
            let constant = constant.map(|tensor| tensor.with_shape(vec![1, size]));
            rows.push(match constant {
                Some(tensor) => edit.constant(tensor, &[carry.initial]),
                None => shaped(edit, carry.initial, &[1, size])?,
            });
        }
        Ok(joined(edit, &rows))
    }

    /// Returns what the steps add to all states, as `[steps, states]`. `None` if that is zero.
    fn all_added(
        &self,
        edit: &mut Patch<'_, '_>,
        scan: &Counted,
        sizes: &[i64],
    ) -> Result<Option<ValueId>> {
        let Some(like) = self.added.iter().flatten().next().copied() else { return Ok(None) };
        let mut arrays = Vec::new();
        for (added, &size) in self.added.iter().zip(sizes) {
            arrays.push(match (added, scan.iterations.known()) {
                (Some(added), _) => *added,
                (None, Some(steps)) => filled(edit, &[steps, size], 0.0)?,
                (None, None) => {
                    let steps = Op::new(OpType::Shape, &[like]).attr("start", 0).attr("end", 1);
                    let steps = edit.insert(steps);
                    let size = edit.integers(&[size]).ok_or("no shape")?;
                    let shape = Op::new(OpType::Concat, &[steps, size]).attr("axis", 0);
                    let shape = edit.insert(shape);
                    let zero = filled(edit, &[1, 1], 0.0)?;
                    edit.insert(Op::new(OpType::Expand, &[zero, shape]))
                }
            });
        }
        Ok(Some(joined(edit, &arrays)))
    }
}

/// Adds the conditions that products of factors are small.
fn ensure_small(
    edit: &mut Patch<'_, '_>,
    products: &[ValueId],
    guards: &mut Vec<ValueId>,
) -> Result<()> {
    for &product in products {
        let size = edit.insert(Op::new(OpType::Abs, &[product]));
        let most = edit.insert(Op::new(OpType::ReduceMax, &[size]).attr("keepdims", 0));
        let limit = number(edit, MAX_PRODUCT)?;
        guards.push(edit.insert(Op::new(OpType::Less, &[most, limit])));
    }
    Ok(())
}

/// Joins arrays along their second axis.
pub(super) fn joined(edit: &mut Patch<'_, '_>, arrays: &[ValueId]) -> ValueId {
    match arrays[..] {
        [one] => one,
        _ => edit.insert(Op::new(OpType::Concat, arrays).attr("axis", 1)),
    }
}

/// The order of the numbers of all blocks.
#[derive(PartialEq)]
enum Order {
    /// One block after the other.
    ByBlock,
    /// The first number of each block, then the second one of each.
    ByPlace,
    Other,
}

fn order_of(blocks: &Blocks) -> Order {
    let place = |index: usize| (index % blocks.size) * blocks.count + index / blocks.size;
    let is = |expected: &dyn Fn(usize) -> usize| {
        blocks.order.iter().enumerate().all(|(index, &state)| state == expected(index))
    };
    match () {
        () if is(&|index| index) => Order::ByBlock,
        () if is(&place) => Order::ByPlace,
        () => Order::Other,
    }
}

/// Returns arrays `[rows, states]` of all members as `[rows, blocks]`, one for each number of a block.
pub(super) fn numbers_of(
    edit: &mut Patch<'_, '_>,
    members: &[ValueId],
    blocks: &Blocks,
) -> Result<Vec<ValueId>> {
    let [array] = members[..] else { return Ok(members.to_vec()) };
    let rows = edit.shape(array).and_then(|shape| shape[0].known()).ok_or("no rows")?;
    let (count, size) = (blocks.count as i64, blocks.size as i64);
    let (sizes, axis) = match order_of(blocks) {
        Order::ByPlace => ([rows, size, count], 1),
        _ => ([rows, count, size], 2),
    };
    let array = shaped(edit, array, &sizes)?;
    let ones = edit.integers(&vec![1; blocks.size]).ok_or("no sizes")?;
    let op = Op::new(OpType::Split, &[array, ones]).attr("axis", axis);
    let parts = edit.insert_instead(op, &vec![None; blocks.size]);
    parts.into_iter().map(|part| shaped(edit, part, &[rows, count])).collect()
}

/// Returns arrays `[steps, blocks]` of the numbers of blocks as `[steps, states]`.
fn from_numbers(
    edit: &mut Patch<'_, '_>,
    numbers: &[ValueId],
    blocks: &Blocks,
    steps: i64,
) -> Result<ValueId> {
    let (count, size) = (blocks.count as i64, blocks.size as i64);
    let (sizes, axis) = match order_of(blocks) {
        Order::ByPlace => ([steps, 1, count], 1),
        _ => ([steps, count, 1], 2),
    };
    let parts = numbers.iter().map(|&one| shaped(edit, one, &sizes));
    let parts: Vec<ValueId> = parts.collect::<Result<_>>()?;
    let whole = edit.insert(Op::new(OpType::Concat, &parts).attr("axis", axis));
    shaped(edit, whole, &[steps, count * size])
}

/// Returns some columns of an array.
fn picked(edit: &mut Patch<'_, '_>, array: ValueId, columns: &[i64]) -> Result<ValueId> {
    let columns = Tensor::of_ints(DType::I64, vec![columns.len() as i64], columns);
    let columns = edit.constant(columns.ok_or("no indices")?, &[]);
    Ok(edit.insert(Op::new(OpType::Gather, &[array, columns]).attr("axis", 1)))
}

/// Returns an array `[steps, states]` as `[blocks, steps, size]`, without the first axis for one block.
pub(super) fn to_blocks(
    edit: &mut Patch<'_, '_>,
    array: ValueId,
    blocks: &Blocks,
    is_whole: bool,
    steps: &Dim,
) -> Result<ValueId> {
    let steps = steps.known().unwrap_or(-1);
    let (count, size) = (blocks.count as i64, blocks.size as i64);
    let mut order = order_of(blocks);
    let mut array = array;
    if !is_whole || order == Order::Other {
        let columns: Vec<i64> = blocks.order.iter().map(|&state| state as i64).collect();
        array = picked(edit, array, &columns)?;
        order = Order::ByBlock;
    }
    if count == 1 {
        return Ok(array);
    }
    let (sizes, perm) = match order {
        Order::ByPlace => ([steps, size, count], [2, 0, 1]),
        _ => ([steps, count, size], [1, 0, 2]),
    };
    let array = shaped(edit, array, &sizes)?;
    Ok(edit.insert(transpose(array, &perm)))
}

/// Returns an array `[blocks, steps, size]` as `[steps, states]`, in the order of the blocks unless they are all.
pub(super) fn from_blocks(
    edit: &mut Patch<'_, '_>,
    array: ValueId,
    blocks: &Blocks,
    is_whole: bool,
) -> Result<ValueId> {
    let (count, size) = (blocks.count as i64, blocks.size as i64);
    let order = order_of(blocks);
    let mut array = array;
    if count > 1 {
        let is_by_place = is_whole && order == Order::ByPlace;
        let perm = if is_by_place { [1, 2, 0] } else { [1, 0, 2] };
        array = edit.insert(transpose(array, &perm));
        let steps = edit.shape(array).and_then(|shape| shape[0].known()).unwrap_or(-1);
        array = shaped(edit, array, &[steps, count * size])?;
    }
    if !is_whole || order != Order::Other {
        return Ok(array);
    }
    let mut places = vec![0; blocks.order.len()];
    blocks.order.iter().enumerate().for_each(|(place, &state)| places[state] = place as i64);
    picked(edit, array, &places)
}
