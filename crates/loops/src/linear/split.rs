//! Separates a state from the loop that updates it.

use algebra::axis_map::transpose;
use algebra::rewrite::{Declined, Result, ensure};
use onnx::edit::for_each_read;
use onnx::operator::properties::RESHAPES;
use onnx::{Attr, Dim, Node, Op, OpType, Patch, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::body::{filled, sliced};
use super::forms::{Axes, Factor};
use crate::batches::Batches;
use crate::{Carry, Counted, copy_of, renew, replacing};

/// The maximum number of elements of the states of all steps. More stay in the loop.
const MAX_ELEMENTS: i64 = 1 << 21;

/// The parts of a loop that leave it.
pub(super) struct Parts<'p> {
    pub states: &'p [Carry],
    /// The states that become known for all steps before the others.
    pub delays: &'p [Carry],
    /// True if a value depends on one of the states.
    pub is_reached: &'p dyn Fn(ValueId) -> bool,
    /// True if a value is computed after the loop from the operands of its node.
    pub is_followed: &'p dyn Fn(ValueId) -> bool,
    /// True if a value is computed after the loop in another way.
    pub is_known: &'p dyn Fn(ValueId) -> bool,
}

/// The values of a body for all steps, outside of the loop.
pub(super) struct Split<'l> {
    scan: &'l Counted,
    makers: FxHashMap<ValueId, usize>,
    pub batches: Batches,
    /// The results that the rest of the loop still computes, with their replacements.
    pub kept: Vec<(ValueId, ValueId)>,
    /// The sizes of the state.
    shape: Vec<i64>,
}

impl<'l> Split<'l> {
    /// Reads a loop of which nothing stays.
    pub(super) fn without_rest(scan: &'l Counted) -> Split<'l> {
        let makers = scan.nodes.iter().enumerate();
        let makers =
            makers.flat_map(|(place, node)| node.outputs.iter().map(move |&id| (id, place)));
        let mut batches = Batches::beside(scan);
        batches.max_elements = MAX_ELEMENTS;
        batches.inside.extend(scan.carries.iter().map(|carry| carry.before));
        Split { scan, makers: makers.collect(), batches, kept: Vec::new(), shape: Vec::new() }
    }

    /// Sets the sizes of the state whose factors are read from now on.
    pub(super) fn set_shape(&mut self, shape: Vec<i64>) {
        self.shape = shape;
    }

    /// Removes states and everything that depends on them from a loop. The rest of the loop returns for all steps
    /// what an update or a result `needs`.
    pub(super) fn of(
        edit: &mut Patch<'_, '_>,
        scan: &'l Counted,
        parts: &Parts<'_>,
        needs: &[ValueId],
    ) -> Result<Split<'l>> {
        let mut split = Split::without_rest(scan);
        let mut rest = scan.clone();
        for delay in parts.delays {
            split.batches.inside.remove(&delay.before);
        }
        let is_removed = |carry: &Carry| {
            parts.states.iter().chain(parts.delays).any(|one| one.before == carry.before)
        };
        rest.carries.retain(|carry| !is_removed(carry));
        if rest.carries.is_empty() {
            return Ok(split);
        }
        rest.nodes.retain(|node| !node.outputs.iter().any(|&id| (parts.is_reached)(id)));
        rest.stacks.retain(|stack| !(parts.is_reached)(stack.element));
        let unknown = "the type of a value is unknown";
        for value in split.dependent(parts, needs) {
            let ty = edit.ty(value).ok_or(unknown)?.clone();
            let result = edit.body_input(split.batches.batch(&ty));
            let element = edit.body_input(ty);
            let maker = rest.nodes.iter().find(|node| node.outputs.contains(&value));
            let maker = maker.or(rest.nodes.first()).ok_or("the other state is constant")?;
            let copy = copy_of(value, element, maker);
            rest.nodes.push(copy);
            rest.stack(element, result);
            split.kept.push((value, result));
        }
        let stacked = std::mem::take(&mut split.kept);
        let (mut op, results) = rest.into_op(edit);
        // The model may contain the whole loop too.
        for (_, attr) in &mut op.attrs {
            if let Attr::Graph(body) = attr {
                renew(edit, body, &mut FxHashMap::default());
            }
        }
        let made = edit.insert_instead(op, &replacing(&results));
        let made: FxHashMap<ValueId, ValueId> = results.iter().copied().zip(made).collect();
        for (value, result) in &stacked {
            split.batches.inside.remove(value);
            split.batches.of.insert(*value, made[result]);
        }
        split.kept = results.iter().map(|&result| (result, made[&result])).collect();
        Ok(split)
    }

    /// Returns the nearest values that the needed ones depend on and that depend on other states.
    fn dependent(&self, parts: &Parts<'_>, needs: &[ValueId]) -> Vec<ValueId> {
        let mut tainted: FxHashSet<ValueId> = self.batches.inside.clone();
        for node in &self.scan.nodes {
            let mut is_tainted = false;
            for_each_read(node, &mut |id| is_tainted |= tainted.contains(&id));
            if is_tainted {
                tainted.extend(&node.outputs);
            }
        }
        let mut found = Vec::new();
        let mut open: Vec<ValueId> = needs.to_vec();
        let mut seen = FxHashSet::default();
        while let Some(value) = open.pop() {
            if !seen.insert(value) {
                continue;
            }
            if (parts.is_followed)(value) {
                let node = self.makers.get(&value).map(|&place| &self.scan.nodes[place]);
                open.extend(node.into_iter().flat_map(|node| node.inputs.iter().flatten()));
            } else if tainted.contains(&value) && !(parts.is_known)(value) {
                found.push(value);
            }
        }
        found.sort_unstable();
        found
    }

    /// Computes values of the body for all steps.
    pub(super) fn take(
        &mut self,
        edit: &mut Patch<'_, '_>,
        values: impl IntoIterator<Item = ValueId>,
    ) -> Result<()> {
        let mut places = std::collections::BTreeSet::new();
        let mut open: Vec<ValueId> = values.into_iter().collect();
        while let Some(value) = open.pop() {
            let is_known =
                self.batches.of.contains_key(&value) || self.batches.lifted.contains_key(&value);
            let maker = self.makers.get(&value).filter(|_| !is_known);
            if let Some(&place) = maker
                && places.insert(place)
            {
                for_each_read(&self.scan.nodes[place], &mut |id| open.push(id));
            }
        }
        let scan = self.scan;
        places.into_iter().try_for_each(|place| self.take_one(edit, &scan.nodes[place]))
    }

    /// Computes a node that the body does not contain for all steps, from values of the body.
    pub(super) fn take_node(&mut self, edit: &mut Patch<'_, '_>, node: &Node) -> Result<()> {
        self.take(edit, node.inputs.iter().flatten().copied())?;
        self.take_one(edit, node)
    }

    fn take_one(&mut self, edit: &mut Patch<'_, '_>, node: &Node) -> Result<()> {
        if self.batches.take(edit, node).is_some() {
            return Ok(());
        }
        Err(Declined(match self.batches.too_large {
            true => "all steps together would need much more memory than one step".into(),
            false => format!("`{}` cannot be computed for all steps at once", node.op.name()),
        }))
    }

    /// Notes the array of a value for all steps, and those of the values that it was joined of.
    pub(super) fn take_parts(
        &mut self,
        edit: &mut Patch<'_, '_>,
        value: ValueId,
        array: ValueId,
    ) -> Result<()> {
        self.batches.of.insert(value, array);
        let scan = self.scan;
        let Some(node) = self.makers.get(&value).map(|&place| &scan.nodes[place]) else {
            return Ok(());
        };
        let mut start = 0;
        let is_joined = node.op == OpType::Concat;
        let is_reshaped = node.op.onnx().is_some_and(|op| op.is(RESHAPES));
        for &input in node.inputs.iter().flatten().take(if is_joined { usize::MAX } else { 1 }) {
            let shape = edit.shape(input).and_then(onnx::known_shape);
            let Some(shape) = shape.filter(|_| is_joined || is_reshaped) else { return Ok(()) };
            let mut part = array;
            if let Some(axis) = node.axis(shape.len()).filter(|_| is_joined) {
                part = sliced(edit, array, axis as i64 + 1, start, start + shape[axis])?;
                start += shape[axis];
            }
            if !self.batches.of.contains_key(&input) && self.makers.contains_key(&input) {
                let part = self.reshape(edit, part, None, &shape)?;
                self.take_parts(edit, input, part)?;
            }
        }
        Ok(())
    }

    /// Returns a value for all steps, reshaped or broadcast to the shape of a state, as `[steps, size]`.
    pub(super) fn rows(
        &mut self,
        edit: &mut Patch<'_, '_>,
        value: ValueId,
        shape: &[i64],
    ) -> Result<ValueId> {
        self.take(edit, [value])?;
        self.set_shape(shape.to_vec());
        let own = edit.shape(value).and_then(onnx::known_shape).ok_or("a size is not known")?;
        let dims = if own.iter().product::<i64>() == shape.iter().product::<i64>() {
            shape.to_vec()
        } else {
            let units = shape.len().checked_sub(own.len());
            [vec![1; units.ok_or("a value has more axes than the state")?], own].concat()
        };
        let one = if let Some(array) = self.array(value) {
            self.reshape(edit, array, None, &dims)?
        } else {
            let same = self.batches.lifted.get(&value).copied().unwrap_or(value);
            self.reshape(edit, same, Some(1), &dims)?
        };
        let axes: Vec<usize> = (0..shape.len()).collect();
        let whole = self.full(edit, one, &axes)?;
        self.reshape(edit, whole, None, &[shape.iter().product()])
    }

    /// Returns the array with a value of all steps, if steps differ.
    pub(super) fn array(&self, value: ValueId) -> Option<ValueId> {
        self.batches.of.get(&value).copied()
    }

    /// Returns a value as an array over steps and some axes of the state, in this order. Axes that it does not have, and
    /// the steps if all are the same, have size one.
    fn canonical(
        &self,
        edit: &mut Patch<'_, '_>,
        value: ValueId,
        own: &Axes,
        axes: &[usize],
    ) -> Result<ValueId> {
        let (id, steps) = match self.array(value) {
            Some(array) => (array, true),
            None => (self.batches.lifted.get(&value).copied().unwrap_or(value), false),
        };
        let places: Vec<usize> = own
            .iter()
            .flatten()
            .map(|axis| axes.iter().position(|other| other == axis))
            .collect::<Option<_>>()
            .ok_or("a factor of the update has another axis")?;
        let mut id = id;
        if !places.is_sorted() {
            let mut order: Vec<usize> = (0..own.len()).collect();
            let key = |&place: &usize| own[place].and_then(|a| axes.iter().position(|&b| a == b));
            order.sort_by_key(key);
            let lead = usize::from(steps);
            let perm = (0..lead).chain(order.into_iter().map(|place| place + lead));
            id = edit.insert(transpose(id, &perm.collect::<Vec<_>>()));
        }
        let dims =
            axes.iter().map(|axis| if own.contains(&Some(*axis)) { self.shape[*axis] } else { 1 });
        let lead = if steps { None } else { Some(1) };
        self.reshape(edit, id, lead, &dims.collect::<Vec<_>>())
    }

    /// Returns the array as `[steps, dims]`, or with another leading size.
    pub(super) fn reshape(
        &self,
        edit: &mut Patch<'_, '_>,
        id: ValueId,
        lead: Option<i64>,
        dims: &[i64],
    ) -> Result<ValueId> {
        let lead_dim = lead.map_or(self.batches.steps.clone(), Dim::Known);
        let shape: Vec<Dim> =
            std::iter::once(lead_dim).chain(dims.iter().map(|&dim| Dim::Known(dim))).collect();
        if edit.shape(id) == Some(&shape[..]) {
            return Ok(id);
        }
        let lead = lead.or(self.batches.steps.known()).unwrap_or(-1);
        let sizes = edit.integers(&[&[lead], dims].concat()).ok_or("no shape")?;
        Ok(edit.insert(Op::new(OpType::Reshape, &[id, sizes])))
    }

    /// Returns a value of a factor as an array over steps and axes.
    pub(super) fn all_steps(
        &mut self,
        edit: &mut Patch<'_, '_>,
        id: ValueId,
        own: &Axes,
        axes: &[usize],
    ) -> Result<ValueId> {
        self.take(edit, [id])?;
        self.canonical(edit, id, own, axes)
    }

    /// Returns the product of factors as an array over steps and axes. `None` without factors.
    pub(super) fn product(
        &mut self,
        edit: &mut Patch<'_, '_>,
        factors: &[Factor],
        axes: &[usize],
    ) -> Result<Option<ValueId>> {
        let mut product = None;
        for factor in factors {
            let id = match factor {
                Factor::Value { id, axes: own } => self.all_steps(edit, *id, own, axes)?,
                Factor::Mask { id, axes: own, is_negated } => {
                    let condition = self.all_steps(edit, *id, own, axes)?;
                    let unit = vec![1; axes.len() + 1];
                    let (one, zero) = (filled(edit, &unit, 1.0)?, filled(edit, &unit, 0.0)?);
                    let (x, y) = if *is_negated { (zero, one) } else { (one, zero) };
                    edit.insert(Op::new(OpType::Where, &[condition, x, y]))
                }
                Factor::Dot { factors, axis } => {
                    let inner: Vec<usize> =
                        axes.iter().copied().filter(|a| a != axis).chain([*axis]).collect();
                    let whole = self.product(edit, factors, &inner)?.ok_or("an empty product")?;
                    let last = edit.integers(&[inner.len() as i64]).ok_or("no axes")?;
                    let keeps = axes.contains(axis);
                    let op = Op::new(OpType::ReduceSum, &[whole, last]);
                    ensure(!keeps, "a sum has the axis that it sums over")?;
                    edit.insert(op.attr("keepdims", 0))
                }
            };
            product = Some(match product {
                None => id,
                Some(product) => edit.insert(Op::new(OpType::Mul, &[product, id])),
            });
        }
        Ok(product)
    }

    /// Repeats an array over steps and axes where it has size one.
    pub(super) fn full(
        &self,
        edit: &mut Patch<'_, '_>,
        id: ValueId,
        axes: &[usize],
    ) -> Result<ValueId> {
        let dims: Vec<i64> = axes.iter().map(|&axis| self.shape[axis]).collect();
        let steps = &self.batches.steps;
        let shape: Vec<Dim> =
            std::iter::once(steps.clone()).chain(dims.iter().map(|&dim| Dim::Known(dim))).collect();
        if edit.shape(id) == Some(&shape[..]) {
            return Ok(id);
        }
        let sizes = if let Some(steps) = steps.known() {
            edit.integers(&[&[steps], &dims[..]].concat()).ok_or("no shape")?
        } else {
            let whole = self.scan.arrays.first().ok_or("no array")?.whole;
            let op = Op::new(OpType::Shape, &[whole]).attr("start", 0).attr("end", 1);
            let steps = edit.insert(op);
            let dims = edit.integers(&dims).ok_or("no shape")?;
            edit.insert(Op::new(OpType::Concat, &[steps, dims]).attr("axis", 0))
        };
        Ok(edit.insert(Op::new(OpType::Expand, &[id, sizes])))
    }

    /// Returns the sizes of axes of the state.
    pub(super) fn sizes(&self, axes: &[usize]) -> Vec<i64> {
        axes.iter().map(|&axis| self.shape[axis]).collect()
    }
}
