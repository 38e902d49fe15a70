//! Inserts the products that solve the equation of `settle-flags`.

use onnx::{DType, Dim, Op, OpType, Patch, Tensor, Type, ValueId};

/// The number of products before the loop. Entering a loop takes as long as three small products.
const FIRST_PRODUCTS: usize = 4;

/// The equation for the active iterations: `active = candidates & ~(active @ earlier)`.
pub(super) struct Equation {
    /// The flags of the iterations that would be active if nothing were set before.
    pub(super) candidates: ValueId,
    /// One for each iteration that an iteration stops, zero for the others.
    pub(super) earlier: ValueId,
    /// One for each entry that an iteration changes, zero for the others.
    pub(super) covers: ValueId,
    /// The shape of the flags.
    pub(super) rows: Vec<i64>,
}

/// The approximation after some products.
pub(super) struct Approximation {
    pub(super) flags: ValueId,
    /// The flags as ones and zeros.
    pub(super) active: ValueId,
    /// True if the last product changed something.
    pub(super) is_open: ValueId,
}

impl Equation {
    pub(super) fn first_products(
        &self,
        edit: &mut Patch<'_, '_>,
        start: ValueId,
    ) -> Option<Approximation> {
        let (mut flags, mut before, mut active) = (self.candidates, start, start);
        for _ in 0..FIRST_PRODUCTS {
            before = active;
            (flags, active) = self.product(edit, before)?;
        }
        Some(Approximation { flags, active, is_open: is_changed(edit, before, active) })
    }

    /// Inserts a loop of at most `most` products.
    pub(super) fn more_products(
        &self,
        edit: &mut Patch<'_, '_>,
        start: ValueId,
        most: i64,
    ) -> Option<Approximation> {
        let most = edit.integer(most)?;
        let always = edit.constant(Tensor::of_ints(DType::Bool, Vec::new(), &[1])?, &[]);
        let number = edit.body_input(Type::new(DType::I64, []));
        let flag = edit.body_input(Type::new(DType::Bool, []));
        let before = edit.body_input(of_sizes(DType::F32, &self.rows));
        let was_open = edit.body_input(Type::new(DType::Bool, []));
        let mut body = edit.branch("settle-flags", |edit| {
            let Some((_, after)) = self.product(edit, before) else { return Vec::new() };
            let goes_on = is_changed(edit, before, after);
            let is_open = Op::new(OpType::Identity, &[goes_on]);
            vec![goes_on, after, edit.insert(is_open)]
        });
        body.inputs = vec![number, flag, before, was_open];
        let op = Op::new(OpType::Loop, &[most, always, start, always]).attr("body", body);
        let made = edit.insert_all_for(&[], op, 2);
        let flags = cast(edit, made[0], DType::Bool);
        Some(Approximation { flags, active: made[0], is_open: made[1] })
    }

    /// Inserts the right side of the equation, as flags and as ones and zeros.
    fn product(&self, edit: &mut Patch<'_, '_>, active: ValueId) -> Option<(ValueId, ValueId)> {
        let half = half(edit)?;
        let hits = edit.insert(Op::new(OpType::MatMul, &[active, self.earlier]));
        let is_free = edit.insert(Op::new(OpType::Less, &[hits, half]));
        let both = edit.insert(Op::new(OpType::And, &[self.candidates, is_free]));
        Some((both, cast(edit, both, DType::F32)))
    }
}

/// Inserts a flag that is true if two arrays of ones and zeros differ.
fn is_changed(edit: &mut Patch<'_, '_>, before: ValueId, after: ValueId) -> ValueId {
    let change = edit.insert(Op::new(OpType::Sub, &[after, before]));
    let change = edit.insert(Op::new(OpType::ReduceSumSquare, &[change]).attr("keepdims", 0));
    cast(edit, change, DType::Bool)
}

pub(super) fn cast(edit: &mut Patch<'_, '_>, value: ValueId, to: DType) -> ValueId {
    if edit.dtype(value) == Some(to) {
        return value;
    }
    edit.insert(Op::new(OpType::Cast, &[value]).attr("to", i64::from(to.code())))
}

pub(super) fn half(edit: &mut Patch<'_, '_>) -> Option<ValueId> {
    Some(edit.constant(Tensor::of_floats(DType::F32, Vec::new(), &[0.5])?, &[]))
}

/// Reshapes an array, unless it has the shape already.
pub(super) fn reshaped(edit: &mut Patch<'_, '_>, array: ValueId, shape: &[i64]) -> Option<ValueId> {
    let Type { dtype, .. } = *edit.ty(array)?;
    if edit.ty(array)? == &of_sizes(dtype, shape) {
        return Some(array);
    }
    let sizes = edit.integers(shape)?;
    Some(edit.insert(Op::new(OpType::Reshape, &[array, sizes])))
}

fn of_sizes(dtype: DType, sizes: &[i64]) -> Type {
    Type::new(dtype, sizes.iter().map(|&size| Dim::Known(size)).collect::<Vec<_>>())
}
