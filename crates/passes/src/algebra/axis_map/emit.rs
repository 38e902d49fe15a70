//! Emits the steps of a map as nodes.

use onnx::{Declined, Dim, Op, OpType, Patch, Tensor, ValueId, known_shape};

use super::{AxisMap, Step};
use crate::algebra::sizes::emit_sizes;
use crate::rewrite::require;

/// Returns a `Transpose`: axis `i` of the result is axis `perm[i]` of `x`.
pub(crate) fn transpose(x: ValueId, perm: &[usize]) -> Op {
    let perm: Vec<i64> = perm.iter().map(|&axis| axis as i64).collect();
    Op::new(OpType::Transpose, &[x]).attr("perm", &perm[..])
}

/// A step with its operator.
pub(crate) struct Planned {
    step: Step,
    op: OpType,
    /// The second operand: the sizes of `Reshape` or `Expand`, or the axes of `Unsqueeze` or `Squeeze`.
    numbers: Vec<Dim>,
}

/// Plans the nodes of the steps on an array of a shape. `None` if a shape has too many unknown sizes for a constant.
pub(crate) fn plan(shape: &[Dim], steps: &[Step]) -> Option<Vec<Planned>> {
    let planned = plan_with_sizes(shape, steps)?;
    let is_constant = |step: &Planned| step.numbers.iter().all(|number| number.known().is_some());
    planned.iter().all(is_constant).then_some(planned)
}

/// Like [`plan`], but other nodes may compute the sizes of a broadcast.
pub(crate) fn plan_with_sizes(shape: &[Dim], steps: &[Step]) -> Option<Vec<Planned>> {
    let mut shape = shape.to_vec();
    let mut planned = Vec::with_capacity(steps.len());
    for step in steps {
        let (op, numbers, after) = match step {
            Step::Reshape(after) => {
                let (op, numbers) = reshape(&shape, after)?;
                (op, numbers.into_iter().map(Dim::Known).collect(), after.clone())
            }
            Step::Broadcast(after) => (OpType::Expand, expand_sizes(&shape, after)?, after.clone()),
            Step::Transpose(perm) => {
                let after = perm.iter().map(|&axis| shape[axis].clone()).collect();
                (OpType::Transpose, Vec::new(), after)
            }
        };
        shape = after;
        planned.push(Planned { step: step.clone(), op, numbers });
    }
    Some(planned)
}

/// Returns the operator that changes a shape, and its second operand.
fn reshape(before: &[Dim], after: &[Dim]) -> Option<(OpType, Vec<i64>)> {
    if let Some(sizes) = reshape_sizes(before, after) {
        return Some((OpType::Reshape, sizes));
    }
    if after.len() > before.len() {
        return Some((OpType::Unsqueeze, added_units(before, after)?));
    }
    Some((OpType::Squeeze, added_units(after, before)?))
}

/// Returns the axes that only the longer shape has, if all of them are unit axes.
pub(crate) fn added_units(shorter: &[Dim], longer: &[Dim]) -> Option<Vec<i64>> {
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

impl Planned {
    pub(crate) fn is_transpose(&self) -> bool {
        matches!(self.step, Step::Transpose(_))
    }

    /// Returns the operator on `x`, and inserts the nodes that compute its sizes.
    fn op(&self, patch: &mut Patch<'_, '_>, fused: &[usize], x: ValueId) -> Result<Op, Declined> {
        if let Step::Transpose(perm) = &self.step {
            return Ok(transpose(x, perm));
        }
        let numbers = emit_sizes(patch, fused, &self.numbers)?;
        Ok(Op::new(self.op, &[x, numbers]))
    }

    /// Applies the step to a constant. `None` if the result is larger.
    pub(crate) fn on_constant(&self, x: &Tensor) -> Option<Tensor> {
        self.step.on_constant(x)
    }
}

impl Step {
    fn on_constant(&self, x: &Tensor) -> Option<Tensor> {
        match self {
            Step::Transpose(perm) => x.transposed(perm),
            Step::Reshape(shape) => Some(x.with_shape(known_shape(shape)?)),
            Step::Broadcast(_) => None,
        }
    }
}

impl AxisMap {
    /// Applies the map to a constant. `None` if the result is larger.
    pub(crate) fn on_constant(&self, x: &Tensor) -> Option<Tensor> {
        self.steps()?.iter().try_fold(x.clone(), |x, step| step.on_constant(&x))
    }
}

/// Inserts the planned nodes on `x` before the replacement, with the origins of `fused`. Returns the result.
///
/// If `x` is a constant, the steps before the first broadcast are folded.
pub(crate) fn emit(
    patch: &mut Patch<'_, '_>,
    fused: &[usize],
    x: ValueId,
    planned: &[Planned],
) -> Result<ValueId, Declined> {
    let (mut x, mut planned) = (x, planned);
    if let Some(tensor) = patch.tensor(x) {
        let is_folded = |step: &&Planned| !matches!(step.step, Step::Broadcast(_));
        let (first, rest) = planned.split_at(planned.iter().take_while(is_folded).count());
        if !first.is_empty() {
            let folded =
                first.iter().try_fold(tensor.clone(), |tensor, step| step.on_constant(&tensor));
            x = patch.constant_for(fused, folded.ok_or("a constant cannot be moved")?, &[x]);
        }
        planned = rest;
    }
    planned.iter().try_fold(x, |x, step| {
        let op = step.op(patch, fused, x)?;
        Ok(patch.insert_for(fused, op))
    })
}

/// Returns the last of the planned nodes on `x`, and inserts the other ones before the replacement. If there are no
/// nodes, returns an `Identity`.
pub(crate) fn emit_last(
    patch: &mut Patch<'_, '_>,
    fused: &[usize],
    x: ValueId,
    planned: &[Planned],
) -> Result<Op, Declined> {
    let Some((last, before)) = planned.split_last() else {
        return Ok(Op::new(OpType::Identity, &[x]));
    };
    let x = emit(patch, fused, x, before)?;
    last.op(patch, fused, x)
}

/// Returns the last of the planned nodes on the result of `op`. All nodes have the origins of the replacement.
pub(crate) fn emit_after(
    patch: &mut Patch<'_, '_>,
    op: Op,
    planned: &[Planned],
) -> Result<Op, Declined> {
    if planned.is_empty() {
        return Ok(op);
    }
    let x = patch.insert(op);
    let fused = patch.fused().to_vec();
    emit_last(patch, &fused, x, planned)
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
