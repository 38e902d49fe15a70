//! Emits the steps of a map as nodes.

use onnx::{Dim, Op, OpType, Patch, Tensor, ValueId, known_shape};

use super::{AxisMap, Step};
use crate::rewrite::{Result, require};
use crate::sizes::emit_sizes;

/// Returns a `Transpose`: axis `i` of the result is axis `perm[i]` of `x`.
pub fn transpose(x: ValueId, perm: &[usize]) -> Op {
    let perm: Vec<i64> = perm.iter().map(|&axis| axis as i64).collect();
    Op::new(OpType::Transpose, &[x]).attr("perm", &perm[..])
}

/// Returns the steps on an array of a shape, if constants describe all shapes. `None` if too many sizes are unknown.
pub fn plan(shape: &[Dim], steps: impl Into<Vec<Step>>) -> Option<Vec<Step>> {
    let steps = steps.into();
    let mut shape = shape.to_vec();
    for step in &steps {
        let (_, numbers) = step.operator(&shape)?;
        require(numbers.iter().all(|number| number.known().is_some()))?;
        shape = step.shape_after(&shape);
    }
    Some(steps)
}

/// Returns the operator that changes a shape, and its second operand.
fn reshape(before: &[Dim], after: &[Dim]) -> Option<(OpType, Vec<Dim>)> {
    let (op, numbers) = match reshape_sizes(before, after) {
        Some(sizes) => (OpType::Reshape, sizes),
        None if after.len() > before.len() => (OpType::Unsqueeze, added_units(before, after)?),
        None => (OpType::Squeeze, added_units(after, before)?),
    };
    Some((op, numbers.into_iter().map(Dim::Known).collect()))
}

/// Returns the axes that only the longer shape has, if all of them are unit axes.
pub fn added_units(shorter: &[Dim], longer: &[Dim]) -> Option<Vec<i64>> {
    let mut rest = shorter.iter().peekable();
    let mut units = Vec::with_capacity(longer.len().checked_sub(shorter.len())?);
    for (axis, dim) in longer.iter().enumerate() {
        if rest.next_if_eq(&dim).is_none() {
            dim.is(1).then(|| units.push(axis as i64))?;
        }
    }
    (rest.next().is_none() && !units.is_empty()).then_some(units)
}

/// Returns a shape as a constant operand of `Reshape`: 0 copies the size of the operand, and −1 is the remaining size.
fn reshape_sizes(before: &[Dim], after: &[Dim]) -> Option<Vec<i64>> {
    require(!after.iter().any(|dim| dim.is(0)))?;
    let named = after.iter().filter(|dim| dim.known().is_none()).count();
    let size = |(axis, dim): (usize, &Dim)| match dim.known() {
        Some(size) => Some(size),
        None if before.get(axis) == Some(dim) => Some(0),
        // A −1 next to a 0 is ambiguous if that axis is empty.
        None => (named == 1).then_some(-1),
    };
    after.iter().enumerate().map(size).collect()
}

/// Returns a shape as an operand of `Expand`: 1 keeps the size of the operand.
fn expand_sizes(before: &[Dim], after: &[Dim]) -> Option<Vec<Dim>> {
    let missing = after.len().checked_sub(before.len())?;
    let own = |axis: usize| before.get(axis.checked_sub(missing)?);
    let size = |(axis, dim): (usize, &Dim)| {
        if own(axis) == Some(dim) { Dim::Known(1) } else { dim.clone() }
    };
    Some(after.iter().enumerate().map(size).collect())
}

impl Step {
    pub fn is_transpose(&self) -> bool {
        matches!(self, Step::Transpose(_))
    }

    /// Returns the operator of the step on an array of a shape, and its second operand: the sizes of `Reshape` or `Expand`,
    /// or the axes of `Unsqueeze` or `Squeeze`.
    fn operator(&self, shape: &[Dim]) -> Option<(OpType, Vec<Dim>)> {
        match self {
            Step::Reshape(after) => reshape(shape, after),
            Step::Broadcast(after) => Some((OpType::Expand, expand_sizes(shape, after)?)),
            Step::Transpose(_) => Some((OpType::Transpose, Vec::new())),
        }
    }

    /// Returns the operator of the step on `x`, which has this shape, and inserts the nodes that compute its sizes.
    fn op(
        &self,
        patch: &mut Patch<'_, '_>,
        fused: &[usize],
        x: ValueId,
        shape: &[Dim],
    ) -> Result<Op> {
        if let Step::Transpose(perm) = self {
            return Ok(transpose(x, perm));
        }
        let (op, numbers) = self.operator(shape).ok_or(UNKNOWN)?;
        let numbers = emit_sizes(patch, fused, &numbers)?;
        Ok(Op::new(op, &[x, numbers]))
    }

    fn shape_after(&self, shape: &[Dim]) -> Vec<Dim> {
        match self {
            Step::Reshape(after) | Step::Broadcast(after) => after.clone(),
            Step::Transpose(perm) => perm.iter().map(|&axis| shape[axis].clone()).collect(),
        }
    }

    /// Applies the step to a constant. `None` if the result is larger.
    pub fn on_constant(&self, x: &Tensor) -> Option<Tensor> {
        match self {
            Step::Transpose(perm) => x.transposed(perm),
            Step::Reshape(shape) => Some(x.with_shape(known_shape(shape)?)),
            Step::Broadcast(_) => None,
        }
    }
}

impl AxisMap {
    /// Applies the map to a constant. `None` if the result is larger.
    pub fn on_constant(&self, x: &Tensor) -> Option<Tensor> {
        self.steps()?.iter().try_fold(x.clone(), |x, step| step.on_constant(&x))
    }
}

const UNKNOWN: &str = "too many sizes of a shape are unknown";

/// Inserts the nodes of steps on `x` before the replacement, with the origins of `fused`. Other nodes may compute the sizes
/// of a broadcast. Returns the result.
///
/// If `x` is a constant, the steps before the first broadcast are folded.
pub fn emit(
    patch: &mut Patch<'_, '_>,
    fused: &[usize],
    mut x: ValueId,
    mut steps: &[Step],
) -> Result<ValueId> {
    if let Some(tensor) = patch.tensor(x) {
        let is_folded = |step: &&Step| !matches!(step, Step::Broadcast(_));
        let (first, rest) = steps.split_at(steps.iter().take_while(is_folded).count());
        if !first.is_empty() {
            let folded =
                first.iter().try_fold(tensor.clone(), |tensor, step| step.on_constant(&tensor));
            x = patch.constant_for(fused, folded.ok_or("a constant cannot be moved")?, &[x]);
        }
        steps = rest;
    }
    let mut shape = patch.shape(x).ok_or(UNKNOWN)?.to_vec();
    for step in steps {
        let op = step.op(patch, fused, x, &shape)?;
        x = patch.insert_for(fused, op);
        shape = step.shape_after(&shape);
    }
    Ok(x)
}

/// Returns the last node of steps on `x`, and inserts the other ones before the replacement. If there are no nodes, returns
/// an `Identity`.
pub fn emit_last(
    patch: &mut Patch<'_, '_>,
    fused: &[usize],
    x: ValueId,
    steps: &[Step],
) -> Result<Op> {
    let Some((last, before)) = steps.split_last() else {
        return Ok(Op::new(OpType::Identity, &[x]));
    };
    let shape = patch.shape(x).ok_or(UNKNOWN)?.to_vec();
    let shape = before.iter().fold(shape, |shape, step| step.shape_after(&shape));
    let x = emit(patch, fused, x, before)?;
    last.op(patch, fused, x, &shape)
}

/// Returns the last node of steps on the result of `op`. All nodes have the origins of the replacement.
pub fn emit_after(patch: &mut Patch<'_, '_>, op: Op, steps: &[Step]) -> Result<Op> {
    if steps.is_empty() {
        return Ok(op);
    }
    let x = patch.insert(op);
    let steps = patch.shape(x).and_then(|shape| plan(shape, steps)).ok_or(UNKNOWN)?;
    let fused = patch.fused().to_vec();
    emit_last(patch, &fused, x, &steps)
}

#[cfg(test)]
mod tests {
    use onnx::Dim;

    use super::added_units;

    /// Asserts which unit axes only the longer shape has. `B` and `T` are unknown sizes.
    #[track_caller]
    fn check(shorter: &str, longer: &str, expected: Option<&[i64]>) {
        let shape = |text: &str| -> Vec<Dim> {
            text.split_whitespace().map(|dim| dim.parse().expect("a size")).collect()
        };
        let found = added_units(&shape(shorter), &shape(longer));
        assert_eq!(found.as_deref(), expected, "{shorter} in {longer}");
    }

    #[test]
    fn axes_that_were_added_are_of_size_one() {
        check("B T", "1 B T 1", Some(&[0, 3]));
        check("1 B", "1 1 B", Some(&[1]));
        check("B T", "T 1 B", None);
        check("B T", "B T", None);
        check("B T", "B 2 T", None);
        check("B T T", "B T", None);
    }
}
