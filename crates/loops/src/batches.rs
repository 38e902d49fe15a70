//! Computes nodes of a body for all steps at once.

use algebra::axis_map::transpose;
use algebra::rewrite::require;
use onnx::infer::axes_from_front;
use onnx::operator::properties::{BROADCASTING, ELEMENTWISE, NORMALIZES, REDUCTIONS, RESHAPES};
use onnx::{Dim, Edit, Node, Op, OpType, Patch, Type, ValueId, known_shape};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Counted;

/// The result of a step may have at most this many times the elements of its operands.
const MAX_GROWTH: i64 = 8;

/// The usual limit of [`Batches::max_elements`].
pub(super) const MAX_ELEMENTS: i64 = 1 << 18;

/// The values that are computed before or after a loop for all steps.
pub(super) struct Batches {
    /// The number of steps.
    pub steps: Dim,
    /// Maps values that depend only on the inputs of a step to arrays with the values of all steps along a new
    /// leading axis.
    pub of: FxHashMap<ValueId, ValueId>,
    /// The values that depend on the carry.
    pub inside: FxHashSet<ValueId>,
    /// Maps values that are the same in every step to copies outside the loop.
    pub lifted: FxHashMap<ValueId, ValueId>,
    /// Results of all steps with at most this many elements are allowed, however much larger they are than the
    /// operands.
    pub max_elements: i64,
    /// True if a node stays in the loop because its batch would be too large.
    pub too_large: bool,
}

/// An operand of a node in a body.
#[derive(Clone, Copy)]
enum Operand {
    /// The same in every step.
    Same(ValueId),
    /// One value per step, along the leading axis.
    Batch(ValueId),
}

impl Batches {
    /// Starts with the batches of some values.
    pub(super) fn new(steps: Dim, of: impl IntoIterator<Item = (ValueId, ValueId)>) -> Batches {
        Batches {
            steps,
            of: of.into_iter().collect(),
            inside: FxHashSet::default(),
            lifted: FxHashMap::default(),
            max_elements: MAX_ELEMENTS,
            too_large: false,
        }
    }

    /// Starts with the arrays that a loop runs over.
    pub(super) fn beside(scan: &Counted) -> Batches {
        let arrays = scan.arrays.iter().map(|array| (array.element, array.whole));
        Batches::new(scan.iterations.clone(), arrays)
    }

    /// Computes a node of the body for all steps. `None` if that is not possible.
    pub(super) fn take(&mut self, edit: &mut Patch<'_, '_>, node: &Node) -> Option<()> {
        require(node.op.is_onnx() && node.bodies().next().is_none())?;
        let operand = |&id: &ValueId| match self.of.get(&id) {
            Some(&batch) => Some(Operand::Batch(batch)),
            None if self.inside.contains(&id) => None,
            None => Some(Operand::Same(self.lifted.get(&id).copied().unwrap_or(id))),
        };
        let operands: Vec<Option<Operand>> = node
            .inputs
            .iter()
            .map(|id| id.as_ref().map_or(Some(None), |id| operand(id).map(Some)))
            .collect::<Option<_>>()?;
        let types: Vec<Type> =
            node.outputs.iter().map(|&output| edit.ty(output).cloned()).collect::<Option<_>>()?;
        if !operands.iter().any(|operand| matches!(operand, Some(Operand::Batch(_)))) {
            self.lift(edit, node, &operands);
            return Some(());
        }
        if !self.is_small_enough(edit, node, &types) {
            self.too_large = true;
            return None;
        }
        let op = self.batched(edit, node, &operands, &types)?;
        let made = edit.lift_all(node, op, types.len());
        self.of.extend(node.outputs.iter().copied().zip(made));
        Some(())
    }

    /// Moves a node with the same result in every step out of the loop. A scan has at least one step, so a node that
    /// fails outside would have failed inside too.
    fn lift(&mut self, edit: &mut Patch<'_, '_>, node: &Node, operands: &[Option<Operand>]) {
        let made = edit.lift_all(node, Op::of(node, ids(operands)), node.outputs.len());
        self.lifted.extend(node.outputs.iter().copied().zip(made));
    }

    fn is_small_enough(&self, edit: &Edit<'_>, node: &Node, types: &[Type]) -> bool {
        let batches = node.inputs.iter().flatten().filter(|&id| self.of.contains_key(id));
        let given: Vec<&Type> = batches.filter_map(|&id| edit.ty(id)).collect();
        types.iter().all(|ty| {
            is_small_beside(ty, &given, &self.steps, self.max_elements)
                || self.is_part_of_array(edit, node, ty)
        })
    }

    /// True if a gather returns no more elements for all steps than its array has.
    fn is_part_of_array(&self, edit: &Edit<'_>, node: &Node, ty: &Type) -> bool {
        let elements = |ty: &Type| ty.shape.iter().map(Dim::known).product::<Option<i64>>();
        let array = node.inputs.first().copied().flatten().and_then(|array| edit.ty(array));
        node.op == OpType::Gather
            && array.and_then(elements).is_some_and(|whole| {
                elements(&self.batch(ty)).is_some_and(|looked_up| looked_up <= whole)
            })
    }

    /// Returns the operator that computes a node for all steps.
    fn batched(
        &self,
        edit: &mut Patch<'_, '_>,
        node: &Node,
        operands: &[Option<Operand>],
        types: &[Type],
    ) -> Option<Op> {
        let op = node.op.onnx()?;
        let rank = types.first()?.rank();
        let ranks: Vec<usize> = node
            .inputs
            .iter()
            .map(|id| id.map_or(Some(0), |id| edit.rank(id)))
            .collect::<Option<_>>()?;
        // Most operators support a batch only as their first operand.
        let is_first = matches!(operands.first()?, Some(Operand::Batch(_)))
            && !operands[1..].iter().any(|operand| matches!(operand, Some(Operand::Batch(_))));
        let mut made = Op { op: node.op.clone(), inputs: ids(operands), attrs: Vec::new() };
        match op {
            _ if op.is(BROADCASTING) => {
                for (place, operand) in operands.iter().enumerate() {
                    if let &Some(Operand::Batch(id)) = operand {
                        let aligned = align(edit, node, id, ranks[place], rank)?;
                        made.inputs[place] = Some(aligned);
                    }
                }
            }
            _ if op.is(ELEMENTWISE) && is_first => {}
            OpType::MatMul if is_product_of_batch(operands, &ranks) => {}
            OpType::MatMul => return self.product(edit, node, operands, &ranks, types.first()?),
            OpType::Concat => {
                let batches = operands.iter().flatten().find_map(|operand| match operand {
                    Operand::Batch(id) => Some(*id),
                    Operand::Same(_) => None,
                });
                for (place, operand) in operands.iter().enumerate() {
                    if let &Some(Operand::Same(id)) = operand {
                        made.inputs[place] = Some(self.repeat(edit, node, id, batches?)?);
                    }
                }
                made = made.attr("axis", node.axis(rank)? as i64 + 1);
            }
            _ if op.is(RESHAPES) && op != OpType::Reshape && is_first && ranks.len() == 2 => {
                made.inputs[1] = Some(batched_axes(edit, node, 1, ranks[0].max(rank))?);
            }
            _ if op.is(RESHAPES) && is_first => {
                let shape = self.shape(types.first()?)?;
                made.op = OpType::Reshape.into();
                made.inputs = vec![made.inputs[0], Some(edit.integers(&shape)?)];
            }
            _ if op.is(REDUCTIONS) && is_first => {
                made.inputs[1] = Some(batched_axes(edit, node, 1, ranks[0])?);
            }
            OpType::Gather
                if matches!(operands, [Some(Operand::Same(_)), Some(Operand::Batch(_))]) =>
            {
                return lookup(edit, node, &made, types.first()?);
            }
            OpType::Slice if is_first => {
                made.inputs[3] = Some(batched_axes(edit, node, 3, ranks[0])?);
            }
            OpType::Transpose if is_first => {
                let perm = node.perm(ranks[0])?.into_iter().map(|axis| axis + 1);
                let perm: Vec<usize> = std::iter::once(0).chain(perm).collect();
                made = transpose(made.inputs[0]?, &perm);
            }
            OpType::Gather | OpType::Split if is_first => {
                made = made.attr("axis", node.axis(ranks[0])? as i64 + 1);
            }
            _ if op.is(NORMALIZES) && is_first => {
                require(node.axis(rank)? + 1 == rank)?;
                made = made.attr("axis", rank as i64);
            }
            _ => return None,
        }
        keep_attrs(node, made)
    }

    /// Returns a product for each step. The operands get the same number of axes.
    fn product(
        &self,
        edit: &mut Patch<'_, '_>,
        node: &Node,
        operands: &[Option<Operand>],
        ranks: &[usize],
        ty: &Type,
    ) -> Option<Op> {
        let rank = ranks.iter().copied().max()?.max(2);
        let mut product = Op { op: node.op.clone(), inputs: ids(operands), attrs: Vec::new() };
        let mut has_vectors = false;
        for (place, operand) in operands.iter().enumerate() {
            let &Some(Operand::Batch(mut id)) = operand else { continue };
            let is_vector = ranks[place] == 1;
            if is_vector {
                let axes = edit.integers(&[place as i64 + 1])?;
                id = edit.lift(node, Op::new(OpType::Unsqueeze, &[id, axes]));
                has_vectors = true;
            }
            product.inputs[place] = Some(align(edit, node, id, ranks[place].max(2), rank)?);
        }
        if !has_vectors {
            return Some(product);
        }
        let made = edit.lift(node, product);
        let shape = edit.integers(&self.shape(ty)?)?;
        Some(Op::new(OpType::Reshape, &[made, shape]))
    }

    /// Repeats a value for each step of a batch.
    fn repeat(
        &self,
        edit: &mut Patch<'_, '_>,
        node: &Node,
        same: ValueId,
        like: ValueId,
    ) -> Option<ValueId> {
        let ty = edit.ty(same)?.clone();
        let shape = if self.steps.known().is_some() {
            edit.integers(&self.shape(&ty)?)?
        } else {
            let sizes = edit.integers(&known_shape(&ty.shape)?)?;
            let steps = Op::new(OpType::Shape, &[like]).attr("start", 0).attr("end", 1);
            let steps = edit.lift(node, steps);
            edit.lift(node, Op::new(OpType::Concat, &[steps, sizes]).attr("axis", 0))
        };
        let op = Op::new(OpType::Expand, &[same, shape]);
        Some(edit.lift(node, op))
    }

    /// Returns the type of the batch of values of a type.
    pub(super) fn batch(&self, ty: &Type) -> Type {
        let shape: Vec<Dim> = std::iter::once(&self.steps).chain(&*ty.shape).cloned().collect();
        Type::new(ty.dtype, shape)
    }

    /// Returns the shape of a batch as an operand of `Reshape`.
    fn shape(&self, ty: &Type) -> Option<Vec<i64>> {
        let sizes: Vec<i64> = known_shape(&ty.shape)?;
        let steps = match self.steps.known() {
            Some(steps) => steps,
            None if sizes.contains(&0) => return None,
            None => -1,
        };
        Some([&[steps], &sizes[..]].concat())
    }
}

/// True if the batch of a type has few elements, or not many more than the batch of one of the others.
pub(super) fn is_small_beside(ty: &Type, others: &[&Type], steps: &Dim, limit: i64) -> bool {
    let sizes = |ty: &Type| -> (i64, Vec<Dim>) {
        let known = ty.shape.iter().filter_map(Dim::known).product();
        let named = ty.shape.iter().filter(|dim| dim.known().is_none());
        (known, named.cloned().collect())
    };
    let (known, named) = sizes(ty);
    let is_small =
        steps.known().is_some_and(|steps| named.is_empty() && known.saturating_mul(steps) <= limit);
    let fits = |other: &&Type| {
        let (other, others) = sizes(other);
        known <= other.saturating_mul(MAX_GROWTH)
            && named.iter().all(|dim| others.contains(dim))
            && named.len() <= others.len()
    };
    is_small || others.iter().any(fits)
}

/// The attributes that are the same for a batch.
const ATTRS: &[&str] = &[
    "alpha",
    "approximate",
    "beta",
    "detect_negative",
    "detect_positive",
    "direction",
    "epsilon",
    "fmod",
    "gamma",
    "keepdims",
    "noop_with_empty_axes",
    "num_outputs",
    "saturate",
    "stash_type",
    "to",
];

/// Returns the values of operands.
fn ids(operands: &[Option<Operand>]) -> Vec<Option<ValueId>> {
    let id = |operand: &Option<Operand>| match operand {
        Some(Operand::Same(id) | Operand::Batch(id)) => Some(*id),
        None => None,
    };
    operands.iter().map(id).collect()
}

/// True if the product of a batch is the batch of products.
fn is_product_of_batch(operands: &[Option<Operand>], ranks: &[usize]) -> bool {
    match (operands, ranks) {
        ([Some(Operand::Batch(_)), Some(Operand::Same(_))], &[rank, 2]) => rank > 0,
        ([Some(_), Some(Operand::Batch(_))], &[2, 2]) => true,
        _ => false,
    }
}

/// Returns the axes that an operand of a node lists, as axes of a batch.
fn batched_axes(
    edit: &mut Patch<'_, '_>,
    node: &Node,
    operand: usize,
    rank: usize,
) -> Option<ValueId> {
    let axes = edit.tensor((*node.inputs.get(operand)?)?)?.ints()?;
    let axes = axes_from_front(&axes, rank)?.into_iter().map(|axis| axis as i64 + 1);
    edit.integers(&axes.collect::<Vec<_>>())
}

/// Adds unit axes after the leading axis, so that a batch broadcasts as its elements do.
fn align(
    edit: &mut Patch<'_, '_>,
    node: &Node,
    batch: ValueId,
    from: usize,
    to: usize,
) -> Option<ValueId> {
    if from >= to {
        return Some(batch);
    }
    let axes = edit.integers(&(1..=(to - from) as i64).collect::<Vec<_>>())?;
    Some(edit.lift(node, Op::new(OpType::Unsqueeze, &[batch, axes])))
}

/// Adds the attributes that are the same for a batch. `None` if there are others.
fn keep_attrs(node: &Node, mut made: Op) -> Option<Op> {
    if made.op != node.op {
        return Some(made);
    }
    for (name, attr) in &node.attrs {
        if !made.attrs.iter().any(|(other, _)| other == name) {
            require(ATTRS.contains(&&**name))?;
            made.attrs.push((name.clone(), attr.clone()));
        }
    }
    Some(made)
}

/// Gathers the entries of all steps along an axis, and moves the steps to the front.
fn lookup(edit: &mut Patch<'_, '_>, node: &Node, made: &Op, ty: &Type) -> Option<Op> {
    let &[Some(array), Some(places)] = &made.inputs[..] else { return None };
    let axis = node.axis(edit.rank(array)?)?;
    Some(steps_to_front(edit, node, [array, places], axis, ty.rank()))
}

/// Returns a gather for all steps, with the steps as the leading axis. `rank` is that of the result of one step.
fn steps_to_front(
    edit: &mut Patch<'_, '_>,
    node: &Node,
    [array, places]: [ValueId; 2],
    axis: usize,
    rank: usize,
) -> Op {
    let op = Op::new(OpType::Gather, &[array, places]).attr("axis", axis as i64);
    if axis == 0 {
        return op;
    }
    let found = edit.lift(node, op);
    let others = (0..=rank).filter(|&other| other != axis);
    let perm: Vec<usize> = std::iter::once(axis).chain(others).collect();
    transpose(found, &perm)
}
