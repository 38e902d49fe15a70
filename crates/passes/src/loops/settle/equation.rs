//! The equation of `settle-flags`, and the products that solve it.

use onnx::{DType, Dim, Edit, Op, OpType, Tensor, Type, ValueId};

use super::NAME;
use crate::loops::ints;

/// So many products are computed without a loop. To enter one takes as long as three small products.
const FIRST_PRODUCTS: usize = 4;

/// Which rounds are active: `active = asked & ~(active @ earlier)`.
pub(super) struct Equation {
    /// The flags of the rounds that would be active if nothing were set before.
    pub(super) asked: ValueId,
    /// Ones for the rounds that each round stops, and zeros.
    pub(super) earlier: ValueId,
    /// Ones for the entries that each round sets, and zeros.
    pub(super) covers: ValueId,
    /// True if the entries are those of the rounds, and a round sets only later ones.
    pub(super) is_ordered: bool,
    /// The shape of the flags.
    pub(super) rows: Vec<i64>,
}

/// What is known after some products.
pub(super) struct Found {
    pub(super) flags: ValueId,
    /// The flags as ones and zeros.
    pub(super) active: ValueId,
    /// True if the last product changed something.
    pub(super) is_open: ValueId,
}

impl Equation {
    pub(super) fn first_products(
        &self,
        nodes: &mut Nodes<'_, '_>,
        start: ValueId,
    ) -> Option<Found> {
        let (mut flags, mut before, mut active) = (self.asked, start, start);
        for _ in 0..FIRST_PRODUCTS {
            before = active;
            (flags, active) = self.product(nodes, before)?;
        }
        Some(Found { flags, active, is_open: Equation::is_changed(nodes, before, active) })
    }

    /// Inserts a loop of at most so many products.
    pub(super) fn more_products(
        &self,
        nodes: &mut Nodes<'_, '_>,
        start: ValueId,
        most: i64,
    ) -> Option<Found> {
        let most = nodes.constant(Tensor::of_ints(DType::I64, Vec::new(), &[most])?);
        let always = nodes.constant(Tensor::of_ints(DType::Bool, Vec::new(), &[1])?);
        let number = nodes.edit.body_input(Type::new(DType::I64, []));
        let flag = nodes.edit.body_input(Type::new(DType::Bool, []));
        let before = nodes.edit.body_input(of_sizes(DType::F32, &self.rows));
        let was_open = nodes.edit.body_input(Type::new(DType::Bool, []));
        let index = nodes.index;
        let mut body = nodes.edit.branch(NAME, |edit| {
            let mut nodes = Nodes { edit, index };
            let Some((_, after)) = self.product(&mut nodes, before) else { return Vec::new() };
            let goes_on = Equation::is_changed(&mut nodes, before, after);
            let is_open = Op::new(OpType::Identity, &[goes_on]);
            vec![goes_on, after, nodes.add(is_open)]
        });
        body.inputs = vec![number, flag, before, was_open];
        let op = Op::new(OpType::Loop, &[most, always, start, always]).attr("body", body);
        let made = nodes.edit.insert_all(index, &[], op, 2);
        let flags = nodes.cast(made[0], DType::Bool);
        Some(Found { flags, active: made[0], is_open: made[1] })
    }

    /// Inserts the right side of the equation, as flags and as ones and zeros.
    fn product(&self, nodes: &mut Nodes<'_, '_>, active: ValueId) -> Option<(ValueId, ValueId)> {
        let half = nodes.half()?;
        let hits = Op::new(OpType::MatMul, &[active, self.earlier]);
        let hits = nodes.add(hits);
        let is_free = nodes.add(Op::new(OpType::Less, &[hits, half]));
        let both = Op::new(OpType::And, &[self.asked, is_free]);
        let both = nodes.add(both);
        Some((both, nodes.cast(both, DType::F32)))
    }

    fn is_changed(nodes: &mut Nodes<'_, '_>, before: ValueId, after: ValueId) -> ValueId {
        let change = Op::new(OpType::Sub, &[after, before]);
        let change = nodes.add(change);
        let change = Op::new(OpType::ReduceSumSquare, &[change]).attr("keepdims", 0);
        let change = nodes.add(change);
        nodes.cast(change, DType::Bool)
    }
}

/// Inserts nodes before one.
pub(super) struct Nodes<'a, 'm> {
    pub(super) edit: &'a mut Edit<'m>,
    pub(super) index: usize,
}

impl Nodes<'_, '_> {
    pub(super) fn add(&mut self, op: Op<'_>) -> ValueId {
        self.edit.insert(self.index, &[], op)
    }

    pub(super) fn cast(&mut self, value: ValueId, to: DType) -> ValueId {
        if self.edit.ty(value).is_some_and(|ty| ty.dtype == to) {
            return value;
        }
        let op = Op::new(OpType::Cast, &[value]).attr("to", i64::from(to.code()));
        self.add(op)
    }

    pub(super) fn constant(&mut self, tensor: Tensor) -> ValueId {
        self.edit.constant(self.index, &[], tensor, &[])
    }

    pub(super) fn half(&mut self) -> Option<ValueId> {
        Some(self.constant(Tensor::of_floats(DType::F32, Vec::new(), &[0.5])?))
    }

    /// Inserts an array in another shape, unless it has that.
    pub(super) fn reshape(&mut self, array: ValueId, shape: &[i64]) -> Option<ValueId> {
        let Type { dtype, .. } = *self.edit.ty(array)?;
        if self.edit.ty(array)? == &of_sizes(dtype, shape) {
            return Some(array);
        }
        let sizes = ints(self.edit, self.index, shape)?;
        Some(self.add(Op::new(OpType::Reshape, &[array, sizes])))
    }

    /// Inserts the part of an array that has this shape, at the beginning of the last axis.
    pub(super) fn first(&mut self, array: ValueId, shape: &[i64]) -> Option<ValueId> {
        let (size, lead) = shape.split_last()?;
        let bounds = [0, *size, lead.len() as i64];
        let [start, end, axis] = bounds.map(|bound| ints(self.edit, self.index, &[bound]));
        let op = Op::new(OpType::Slice, &[array, start?, end?, axis?]);
        Some(self.add(op))
    }
}

fn of_sizes(dtype: DType, sizes: &[i64]) -> Type {
    Type::new(dtype, sizes.iter().map(|&size| Dim::Known(size)).collect::<Vec<_>>())
}
