//! Reads values of a body as a constant matrix times some states, plus a value that does not depend on them.
//!
//! The matrix has a row for each element of the value and a column for each element of the states. Layout ops only
//! choose rows, so that the spelling of an update does not matter: states in several arrays, in one stack, or complex.

use algebra::rewrite::require;
use onnx::edit::for_each_read;
use onnx::infer::axes_from_front;
use onnx::operator::properties::RESHAPES;
use onnx::{DType, Edit, Node, OpType, Patch, Tensor, ValueId, known_shape};
use rustc_hash::{FxHashMap, FxHashSet};

use super::coefficients::{Coefficient, Row, Symbols, negated};
use crate::{Carry, Counted};

/// The largest coefficient. Products of coefficients and of numbers below the limit of the numbers do not overflow.
const MAX_COEFFICIENT: f64 = (1u64 << 40) as f64;

/// The maximum number of products for one node.
const MAX_WORK: usize = 1 << 24;

/// The same if the model computes the factors.
const MAX_COMPUTED_WORK: usize = 1 << 18;

/// The maximum number of elements of a factor that the model computes.
const MAX_COMPUTED: usize = 1 << 12;

#[derive(Clone)]
struct Affine {
    rows: Vec<Row>,
    /// The value if all states are zero. `None` if it is zero.
    free: Option<ValueId>,
}

/// States whose updates are affine.
pub(super) struct System {
    pub members: Vec<Carry>,
    /// The matrix by which a step multiplies all states, one after the other.
    pub rows: Vec<Row>,
    /// The sum that a step adds to each state. `None` if it is zero.
    pub added: Vec<Option<ValueId>>,
    /// The nodes that compute these sums from values that do not depend on the states.
    pub nodes: Vec<Node>,
    /// True if the coefficients differ between the steps.
    pub is_varying: bool,
    /// The values by which the updates multiply states.
    pub factors: Vec<ValueId>,
    /// The values that are affine in the states.
    pub affine: FxHashSet<ValueId>,
    /// The values that depend on the states.
    pub reached: FxHashSet<ValueId>,
    /// Values of a step that take part in it like states, and have columns after those of the states.
    pub inputs: Vec<ValueId>,
    /// Values that a step reads from the states and inputs, and that have the last rows.
    pub reads: Vec<ValueId>,
}

impl System {
    /// Reads the updates of states. Returns the states whose updates are not affine otherwise, or whose coefficients
    /// differ between the steps unless `may_vary`.
    pub(super) fn of(
        edit: &mut Patch<'_, '_>,
        scan: &Counted,
        members: &[Carry],
        may_vary: bool,
    ) -> Result<System, Vec<Carry>> {
        let before: Vec<ValueId> = members.iter().map(|carry| carry.before).collect();
        let walk = Walk::of(edit, scan, &before, &FxHashSet::default(), may_vary);
        let Some((walk, _)) = walk else { return Err(members.to_vec()) };
        let (mut rows, mut added, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for carry in members {
            let count =
                edit.shape(carry.before).and_then(known_shape).map(|shape| elements(&shape));
            match walk.of.get(&carry.after) {
                Some(affine) if Some(affine.rows.len()) == count => {
                    rows.extend(affine.rows.iter().cloned());
                    added.push(affine.free);
                }
                None if !walk.later.contains(&carry.after) => {
                    rows.extend(vec![Row::new(); count.unwrap_or(0)]);
                    added.push(Some(carry.after));
                }
                _ => others.push(*carry),
            }
        }
        if !others.is_empty() {
            return Err(others);
        }
        let mut system = System::new(scan, walk, members, rows, Vec::new(), Vec::new());
        system.nodes = needed(std::mem::take(&mut system.nodes), &added);
        system.added = added;
        Ok(system)
    }

    /// Reads the updates of states, and what the results of a loop read from them, as products with the states and with
    /// inputs. `None` if something else is added, or if an input or a read has more than `most` numbers.
    pub(super) fn with_reads(
        edit: &mut Patch<'_, '_>,
        scan: &Counted,
        members: &[Carry],
        most: usize,
    ) -> Option<System> {
        let states: Vec<ValueId> = members.iter().map(|carry| carry.before).collect();
        let reached = scan.dependents(states.iter().copied().collect());
        let entering = entering(edit, scan, &reached, most)?;
        let (walk, inputs) = Walk::of(edit, scan, &states, &entering, false)?;
        let (mut reads, mut seen) = (Vec::new(), FxHashSet::default());
        let mut open: Vec<ValueId> = scan.stacks.iter().map(|stack| stack.element).collect();
        while let Some(value) = open.pop() {
            if !reached.contains(&value) || !seen.insert(value) {
                continue;
            }
            let affine = walk.of.get(&value).filter(|affine| affine.free.is_none());
            if affine.is_some_and(|affine| affine.rows.len() <= most) {
                reads.push(value);
                continue;
            }
            let node = scan.nodes.iter().find(|node| node.outputs.contains(&value))?;
            for_each_read(node, &mut |id| open.push(id));
        }
        reads.sort_unstable();
        let all = |ids: &mut dyn Iterator<Item = ValueId>| -> Option<Vec<Row>> {
            let mut rows = Vec::new();
            for id in ids {
                let affine = walk.of.get(&id).filter(|affine| affine.free.is_none())?;
                rows.extend(affine.rows.iter().cloned());
            }
            Some(rows)
        };
        let mut rows = all(&mut members.iter().map(|carry| carry.after))?;
        let columns: usize = states.iter().chain(&inputs).map(|id| walk.of[id].rows.len()).sum();
        rows.resize(columns, Row::new());
        rows.extend(all(&mut reads.iter().copied())?);
        Some(System::new(scan, walk, members, rows, inputs, reads))
    }

    fn new(
        scan: &Counted,
        walk: Walk,
        members: &[Carry],
        rows: Vec<Row>,
        inputs: Vec<ValueId>,
        reads: Vec<ValueId>,
    ) -> System {
        let affine: FxHashSet<ValueId> = walk.of.into_keys().collect();
        let reached = affine.iter().copied().chain(walk.later).collect();
        let after = members.iter().map(|carry| carry.after).chain(reads.iter().copied());
        let read = scan.sources(&after.collect::<Vec<_>>());
        let is_read =
            |id: &ValueId| affine.contains(id) && read.contains(id) && !inputs.contains(id);
        let makers = scan.nodes.iter().filter(|node| node.outputs.iter().any(is_read));
        let operands = makers.flat_map(|node| node.inputs.iter().flatten().copied());
        let factors = operands.filter(|id| !affine.contains(id)).collect();
        let is_varying = rows.iter().flatten().any(|(_, one)| one.is_varying);
        System {
            members: members.to_vec(),
            rows,
            added: Vec::new(),
            nodes: walk.nodes,
            is_varying,
            factors,
            affine,
            reached,
            inputs,
            reads,
        }
    }

    /// Returns the values before and after a step for which the columns and rows stand.
    pub(super) fn places(&self) -> Vec<[Option<ValueId>; 2]> {
        let members = self.members.iter().map(|carry| [Some(carry.before), Some(carry.after)]);
        let inputs = self.inputs.iter().map(|&input| [Some(input), None]);
        let reads = self.reads.iter().map(|&read| [None, Some(read)]);
        members.chain(inputs).chain(reads).collect()
    }
}

/// Returns values with few numbers that differ between the steps and from which nodes compute what they add to states.
fn entering(
    edit: &Edit<'_>,
    scan: &Counted,
    reached: &FxHashSet<ValueId>,
    most: usize,
) -> Option<FxHashSet<ValueId>> {
    let varying = scan.dependents(scan.arrays.iter().map(|array| array.element).collect());
    let (mut found, mut seen) = (FxHashSet::default(), FxHashSet::default());
    let mut open = Vec::new();
    let push = |open: &mut Vec<ValueId>, node: &Node| {
        let is_input = |id: &ValueId| varying.contains(id) && !reached.contains(id);
        for_each_read(node, &mut |id| open.extend(Some(id).filter(is_input)));
    };
    for node in scan.nodes.iter().filter(|node| node.outputs.iter().any(|id| reached.contains(id)))
    {
        push(&mut open, node);
    }
    while let Some(value) = open.pop() {
        if !seen.insert(value) {
            continue;
        }
        let is_float = edit.dtype(value) == Some(DType::F32);
        if is_float && elements(&known_shape(edit.shape(value)?)?) <= most {
            found.insert(value);
        } else {
            let node = scan.nodes.iter().find(|node| node.outputs.contains(&value))?;
            push(&mut open, node);
        }
    }
    Some(found)
}

/// Returns the nodes that values depend on.
fn needed(nodes: Vec<Node>, values: &[Option<ValueId>]) -> Vec<Node> {
    let mut open: FxHashSet<ValueId> = values.iter().flatten().copied().collect();
    let mut found = Vec::new();
    for node in nodes.into_iter().rev() {
        if node.outputs.iter().any(|output| open.contains(output)) {
            open.extend(node.inputs.iter().flatten());
            found.push(node);
        }
    }
    found.reverse();
    found
}

struct Walk {
    of: FxHashMap<ValueId, Affine>,
    symbols: Symbols,
    /// The values that differ between the steps, and whether they may be coefficients.
    varying: FxHashSet<ValueId>,
    may_vary: bool,
    /// The values that depend on states in another way.
    later: FxHashSet<ValueId>,
    nodes: Vec<Node>,
    /// The number of columns.
    columns: u32,
}

impl Walk {
    /// Reads the values of a body that depend on some values, or on those that are `entering`. Returns the entering ones
    /// that do not follow from others. `None` if a size of these is not known.
    fn of(
        edit: &mut Patch<'_, '_>,
        scan: &Counted,
        sources: &[ValueId],
        entering: &FxHashSet<ValueId>,
        may_vary: bool,
    ) -> Option<(Walk, Vec<ValueId>)> {
        let elements = scan.arrays.iter().map(|array| array.element);
        let varying = elements.clone().chain(scan.carries.iter().map(|carry| carry.before));
        let varying = varying.chain(scan.counter.map(|counter| counter.number));
        let mut walk = Walk {
            of: FxHashMap::default(),
            symbols: Symbols::default(),
            varying: scan.dependents(varying.collect()),
            may_vary,
            later: FxHashSet::default(),
            nodes: Vec::new(),
            columns: 0,
        };
        let mut inputs: Vec<ValueId> = elements.filter(|id| entering.contains(id)).collect();
        for &source in sources.iter().chain(&inputs) {
            walk.add(edit, source)?;
        }
        for node in &scan.nodes {
            walk.read(edit, node);
            for output in node.outputs.iter().filter(|output| entering.contains(output)) {
                let affine = walk.of.get(output);
                if affine.is_none_or(|affine| affine.free.is_some()) {
                    walk.later.remove(output);
                    walk.add(edit, *output)?;
                    inputs.push(*output);
                }
            }
        }
        Some((walk, inputs))
    }

    /// Adds columns for the elements of a value.
    fn add(&mut self, edit: &Edit<'_>, source: ValueId) -> Option<()> {
        let count = elements(&known_shape(edit.shape(source)?)?);
        let columns = self.columns..self.columns + count as u32;
        let rows = columns.map(|column| vec![(column, Coefficient::known(1.0))]).collect();
        self.of.insert(source, Affine { rows, free: None });
        self.columns += count as u32;
        Some(())
    }

    fn read(&mut self, edit: &mut Patch<'_, '_>, node: &Node) {
        let mut depends = false;
        for_each_read(node, &mut |id| {
            depends |= self.of.contains_key(&id) || self.later.contains(&id);
        });
        if !depends {
            return;
        }
        let read = self.affine(edit, node).filter(|rows| rows.iter().flatten().all(is_bounded));
        let Some(rows) = read else { return self.later.extend(&node.outputs) };
        let free = self.free(edit, node);
        for ((rows, free), output) in rows.into_iter().zip(free).zip(&node.outputs) {
            self.of.insert(*output, Affine { rows, free });
        }
    }

    /// Returns the rows of the results of a node.
    fn affine(&self, edit: &Edit<'_>, node: &Node) -> Option<Vec<Vec<Row>>> {
        let op = node.op.onnx()?;
        let inputs: Vec<ValueId> = node.inputs.iter().copied().collect::<Option<_>>()?;
        require(!inputs.iter().any(|id| self.later.contains(id)))?;
        let first = *inputs.first()?;
        let shape = |id: ValueId| known_shape(edit.shape(id)?);
        let whole = shape(*node.outputs.first()?)?;
        let rows = |id: ValueId| self.of.get(&id).map(|affine| &affine.rows[..]);
        let selected = |source: &[usize]| -> Option<Vec<Vec<Row>>> {
            let rows = rows(first)?;
            Some(vec![source.iter().map(|&place| rows[place].clone()).collect()])
        };
        let only_first = inputs[1..].iter().all(|id| !self.of.contains_key(id));
        match op {
            OpType::Identity => Some(vec![rows(first)?.to_vec()]),
            op if op.is(RESHAPES) && only_first => Some(vec![rows(first)?.to_vec()]),
            OpType::Neg => Some(vec![rows(first)?.iter().map(negated).collect()]),
            OpType::Add | OpType::Sub => {
                let sign = if op == OpType::Sub { -1.0 } else { 1.0 };
                let [one, sign] = [1.0, sign].map(Coefficient::known);
                let side = |id: ValueId| Some((rows(id), broadcast(&shape(id)?, &whole)?));
                let [(a, from_a), (b, from_b)] = [side(first)?, side(*inputs.get(1)?)?];
                let sum = |(&a_place, &b_place): (&usize, &usize)| {
                    let (a, b) = (a.map(|rows| &rows[a_place]), b.map(|rows| &rows[b_place]));
                    let terms = [(a, one), (b, sign)];
                    let terms = terms.into_iter().filter_map(|(row, by)| Some((row?, by)));
                    self.symbols.combined(terms)
                };
                Some(vec![from_a.iter().zip(&from_b).map(sum).collect()])
            }
            OpType::Mul | OpType::Div => {
                let second = *inputs.get(1)?;
                let (value, constant) =
                    if rows(first).is_some() { (first, second) } else { (second, first) };
                require(op == OpType::Mul || value == first)?;
                let factors = self.factors(edit, constant)?;
                let (from, by) =
                    (broadcast(&shape(value)?, &whole)?, broadcast(&shape(constant)?, &whole)?);
                let rows = rows(value)?;
                let product = |(&place, &by): (&usize, &usize)| {
                    let factor = match op {
                        OpType::Div => self.symbols.inverse(factors[by]),
                        _ => factors[by],
                    };
                    self.symbols.scaled(&rows[place], factor)
                };
                Some(vec![from.iter().zip(&by).map(product).collect()])
            }
            OpType::MatMul => Some(vec![self.product(edit, first, *inputs.get(1)?, &whole)?]),
            OpType::ReduceSum | OpType::ReduceMean if inputs.len() == 2 && only_first => {
                let own = shape(first)?;
                let axes = edit.tensor(inputs[1])?.ints()?;
                let axes = axes_from_front(&axes, own.len())?;
                require(!axes.is_empty())?;
                let kept: Vec<i64> = own
                    .iter()
                    .enumerate()
                    .map(|(axis, &size)| if axes.contains(&axis) { 1 } else { size })
                    .collect();
                let count = elements(&own) / elements(&kept).max(1);
                let by = if op == OpType::ReduceMean { 1.0 / count as f64 } else { 1.0 };
                let by = Coefficient::known(by);
                let mut sums = vec![Vec::new(); elements(&kept)];
                for (row, to) in rows(first)?.iter().zip(broadcast(&kept, &own)?) {
                    sums[to].push((row, by));
                }
                Some(vec![sums.into_iter().map(|sum| self.symbols.combined(sum)).collect()])
            }
            OpType::Expand if only_first => selected(&broadcast(&shape(first)?, &whole)?),
            OpType::Transpose => {
                let own = shape(first)?;
                let perm = node.perm(own.len())?;
                let strides = strides(&own);
                let moved: Vec<usize> = perm.iter().map(|&axis| strides[axis]).collect();
                selected(&places(&whole, &moved, 0))
            }
            OpType::Slice if only_first => {
                let ints = |place: usize| edit.tensor(*inputs.get(place)?)?.ints();
                let own = shape(first)?;
                let (starts, axes) = (ints(1)?, axes_from_front(&ints(3)?, own.len())?);
                let steps = if inputs.len() > 4 { ints(4)? } else { vec![1; axes.len()] };
                require(steps.iter().all(|&step| step == 1))?;
                let (strides, mut offset) = (strides(&own), 0);
                for (&axis, &start) in axes.iter().zip(&starts) {
                    let size = own[axis];
                    let start = if start < 0 { start + size } else { start };
                    offset += strides[axis] * start.clamp(0, size) as usize;
                }
                selected(&places(&whole, &strides, offset))
            }
            OpType::Gather if only_first => {
                let own = shape(first)?;
                let axis = node.axis(own.len())?;
                let indices = edit.tensor(inputs[1])?;
                let inner: usize = elements(&own[axis + 1..]);
                let (outer, size) = (elements(&own[..axis]), own[axis]);
                let mut source = Vec::new();
                for lead in 0..outer {
                    for index in indices.ints()? {
                        let index = if index < 0 { index + size } else { index };
                        require((0..size).contains(&index))?;
                        let start = (lead * size as usize + index as usize) * inner;
                        source.extend(start..start + inner);
                    }
                }
                selected(&source)
            }
            OpType::Split if only_first => {
                let own = shape(first)?;
                let axis = node.axis(own.len())?;
                let (strides, mut start) = (strides(&own), 0);
                let mut parts = Vec::new();
                for &output in &node.outputs {
                    let part = shape(output)?;
                    parts.extend(selected(&places(&part, &strides, start * strides[axis]))?);
                    start += part[axis] as usize;
                }
                Some(parts)
            }
            OpType::Concat => {
                let axis = node.axis(whole.len())?;
                let outer = elements(&whole[..axis]);
                let mut joined = Vec::new();
                let mut lengths = Vec::new();
                for &input in &inputs {
                    lengths.push(elements(&shape(input)?[axis..]));
                }
                for lead in 0..outer {
                    for (&input, &length) in inputs.iter().zip(&lengths) {
                        match rows(input) {
                            Some(rows) => joined
                                .extend(rows[lead * length..(lead + 1) * length].iter().cloned()),
                            None => joined.extend(vec![Row::new(); length]),
                        }
                    }
                }
                Some(vec![joined])
            }
            _ => None,
        }
    }

    /// Returns the elements of a value that multiplies states.
    fn factors(&self, edit: &Edit<'_>, value: ValueId) -> Option<Vec<Coefficient>> {
        require(edit.dtype(value) == Some(DType::F32))?;
        let count = elements(&known_shape(edit.shape(value)?)?);
        if let Some(tensor) = edit.tensor(value) {
            require(count <= MAX_WORK)?;
            return Some(tensor.floats()?.into_iter().map(Coefficient::known).collect());
        }
        let is_varying = self.varying.contains(&value);
        require(count <= MAX_COMPUTED && (self.may_vary || !is_varying))?;
        require(!self.of.contains_key(&value) && !self.later.contains(&value))?;
        Some(self.symbols.elements(value, count, is_varying))
    }

    /// Returns the rows of a product of matrices, one of which does not depend on the states.
    fn product(&self, edit: &Edit<'_>, x: ValueId, y: ValueId, whole: &[i64]) -> Option<Vec<Row>> {
        let shape = |id: ValueId| known_shape(edit.shape(id)?);
        let (mut left, mut right) = (shape(x)?, shape(y)?);
        let (is_row, is_column) = (left.len() == 1, right.len() == 1);
        let mut full = whole.to_vec();
        if is_row {
            left.insert(0, 1);
            full.insert(full.len() + usize::from(is_column) - 1, 1);
        }
        if is_column {
            right.push(1);
            full.push(1);
        }
        let rank = full.len();
        let (p, k, q) =
            (full[rank - 2] as usize, left[left.len() - 1] as usize, full[rank - 1] as usize);
        let lead = &full[..rank - 2];
        let from_x = broadcast(&left[..left.len() - 2], lead)?;
        let from_y = broadcast(&right[..right.len() - 2], lead)?;
        let (rows, factors, is_left) = match (self.of.get(&x), self.of.get(&y)) {
            (Some(affine), None) => (&affine.rows, self.factors(edit, y)?, true),
            (None, Some(affine)) => (&affine.rows, self.factors(edit, x)?, false),
            _ => return None,
        };
        let longest = rows.iter().map(Vec::len).max().unwrap_or(0);
        let is_known = factors.iter().all(|factor| factor.constant().is_some());
        let most = if is_known { MAX_WORK } else { MAX_COMPUTED_WORK };
        require(elements(&full).checked_mul(k)?.checked_mul(longest)? <= most)?;
        let mut made = Vec::new();
        for (x, y) in from_x.iter().zip(&from_y) {
            for row in 0..p {
                for column in 0..q {
                    let terms = (0..k).map(|inner| {
                        let a = (x * p + row) * k + inner;
                        let b = (y * k + inner) * q + column;
                        if is_left { (&rows[a], factors[b]) } else { (&rows[b], factors[a]) }
                    });
                    made.push(self.symbols.combined(terms));
                }
            }
        }
        Some(made)
    }

    /// Returns the results of a node if all states are zero. `None` for results that are zero.
    fn free(&mut self, edit: &mut Patch<'_, '_>, node: &Node) -> Vec<Option<ValueId>> {
        let is_sum = [OpType::Add, OpType::Sub, OpType::Concat].iter().any(|&op| node.op == op);
        let own = |id: &ValueId| match self.of.get(id) {
            Some(affine) => affine.free,
            None => Some(*id).filter(|&id| !edit.tensor(id).is_some_and(is_zero)),
        };
        let operands: Vec<(ValueId, Option<ValueId>)> =
            node.inputs.iter().flatten().map(|id| (*id, own(id))).collect();
        let is_zero = match is_sum {
            true => operands.iter().all(|(_, free)| free.is_none()),
            false => operands.iter().any(|(_, free)| free.is_none()),
        };
        if is_zero {
            return vec![None; node.outputs.len()];
        }
        let is_whole = |id: ValueId| edit.ty(id) == edit.ty(node.outputs[0]);
        match operands[..] {
            [(_, None), (_, Some(free))] | [(_, Some(free)), (_, None)]
                if node.op == OpType::Add && is_whole(free) =>
            {
                return vec![Some(free)];
            }
            [(_, Some(free)), (_, None)] if node.op == OpType::Sub && is_whole(free) => {
                return vec![Some(free)];
            }
            _ => {}
        }
        let mut copy = node.clone();
        copy.inputs = operands.iter().map(|&(id, free)| free.or_else(|| zeros(edit, id))).collect();
        copy.outputs = node
            .outputs
            .iter()
            .filter_map(|&output| {
                let ty = edit.ty(output)?.clone();
                Some(edit.body_input(ty))
            })
            .collect();
        let outputs = copy.outputs.iter().copied().map(Some).collect();
        self.nodes.push(copy);
        outputs
    }
}

/// Returns zeros of the shape of a value.
fn zeros(edit: &mut Patch<'_, '_>, like: ValueId) -> Option<ValueId> {
    let shape = known_shape(edit.shape(like)?)?;
    let zero = Tensor::of_floats(DType::F32, vec![1; shape.len()], &[0.0])?.broadcast(&shape)?;
    Some(edit.constant(zero, &[]))
}

fn is_zero(tensor: &Tensor) -> bool {
    tensor.all_floats(|number| number == 0.0)
}

fn is_bounded(row: &Row) -> bool {
    row.iter().all(|(_, one)| one.number.abs() <= MAX_COEFFICIENT)
}

pub(super) fn elements(shape: &[i64]) -> usize {
    shape.iter().product::<i64>() as usize
}

fn strides(shape: &[i64]) -> Vec<usize> {
    (0..shape.len()).map(|axis| elements(&shape[axis + 1..])).collect()
}

/// Returns the place of each element of an array in another one with these strides.
fn places(shape: &[i64], strides: &[usize], offset: usize) -> Vec<usize> {
    let mut found = vec![offset];
    for (&size, stride) in shape.iter().zip(strides) {
        let steps = 0..size as usize;
        found = found
            .iter()
            .flat_map(|place| steps.clone().map(move |step| place + step * stride))
            .collect();
    }
    found
}

/// Returns, for each element of an array, the element of a smaller array that is broadcast to it.
fn broadcast(own: &[i64], whole: &[i64]) -> Option<Vec<usize>> {
    let missing = whole.len().checked_sub(own.len())?;
    let inner = strides(own);
    let stride = |axis: usize| match axis.checked_sub(missing) {
        Some(place) if own[place] == whole[axis] => Some(inner[place]),
        Some(place) if own[place] != 1 => None,
        _ => Some(0),
    };
    let strides: Vec<usize> = (0..whole.len()).map(stride).collect::<Option<_>>()?;
    Some(places(whole, &strides, 0))
}
