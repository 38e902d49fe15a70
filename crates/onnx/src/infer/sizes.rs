//! The integers of a value as sizes: numbers, or polynomials of symbols.
//!
//! A graph may compute a shape. If its integers are known as sizes, the result of a `Reshape` to that shape has a
//! type.

use super::{Call, NotInferred, known};
use crate::dtype::DType;
use crate::operator::properties::{COPIES, RESHAPES};
use crate::operator::{OpType, Operator};
use crate::tensor::Tensor;
use crate::value::{Dim, Type, ValueId, Values};

/// Longer lists are not shapes.
const MAX_SIZES: usize = 64;

/// Returns the integers of a value.
pub(crate) fn sizes(values: &Values, id: ValueId) -> Option<Vec<Dim>> {
    let value = &values[id];
    if let Some(sizes) = &value.sizes {
        return Some(sizes.to_vec());
    }
    let tensor = value.tensor.as_deref().filter(|tensor| is_short(tensor))?;
    Some(tensor.ints()?.into_iter().map(Dim::Known).collect())
}

fn is_short(tensor: &Tensor) -> bool {
    tensor.dtype.is_int() && tensor.shape.len() <= 1 && tensor.len() <= MAX_SIZES
}

/// Returns the first and the last axis that `Shape` reads; the last is exclusive.
pub(super) fn shape_range(call: &Call<'_>) -> Result<(usize, usize), NotInferred> {
    let rank = call.ty(0)?.rank() as i64;
    let clamp = |at: i64| usize::try_from(if at < 0 { at + rank } else { at }.clamp(0, rank));
    let start = clamp(call.int_attr("start", 0)).map_err(|_| NotInferred::Unknown)?;
    let end = clamp(call.int_attr("end", rank)).map_err(|_| NotInferred::Unknown)?;
    Ok((start, end.max(start)))
}

impl Call<'_> {
    /// Returns the integers of an operand.
    pub(crate) fn sizes_of(&self, operand: usize) -> Result<Vec<Dim>, NotInferred> {
        let id = known(self.inputs.get(operand).copied().flatten())?;
        known(sizes(self.values, id))
    }

    /// Returns the integers that the node computes, if its result of this type is short and all of them are sizes.
    pub(crate) fn sizes(&self, result: &Type) -> Option<Vec<Dim>> {
        let is_list = match &*result.shape {
            [] => true,
            [length] => length.known().is_some_and(|length| length <= MAX_SIZES as i64),
            _ => false,
        };
        if !is_list || !matches!(result.dtype, DType::I64 | DType::I32) {
            return None;
        }
        let Operator::Onnx(op) = self.op else { return None };
        self.computed(*op, result).ok()
    }

    fn computed(&self, op: OpType, result: &Type) -> Result<Vec<Dim>, NotInferred> {
        match op {
            OpType::Shape => {
                let (start, end) = shape_range(self)?;
                Ok(self.shape(0)?[start..end].to_vec())
            }
            OpType::Size => Ok(vec![known(Dim::checked_product(self.shape(0)?))?]),
            op if op.is(COPIES | RESHAPES) => self.sizes_of(0),
            OpType::Cast if self.dtype(0)? == DType::I32 || result.dtype == DType::I64 => {
                self.sizes_of(0)
            }
            OpType::Concat => {
                let parts = (0..self.inputs.len()).map(|operand| self.sizes_of(operand));
                Ok(parts.collect::<Result<Vec<_>, _>>()?.concat())
            }
            OpType::Gather => {
                let sizes = self.sizes_of(0)?;
                let picked = self
                    .ints(1)?
                    .into_iter()
                    .map(|index| Ok(sizes[self.axis_at(index, sizes.len())?].clone()));
                picked.collect()
            }
            OpType::Slice => self.sliced(),
            OpType::ReduceProd => Ok(vec![known(Dim::checked_product(&self.sizes_of(0)?))?]),
            OpType::Add => self.combined(Dim::checked_add),
            OpType::Sub => self.combined(Dim::checked_sub),
            OpType::Mul => self.combined(Dim::checked_mul),
            OpType::Max => self.combined(Dim::checked_max),
            OpType::Min => self.combined(Dim::checked_min),
            // `Div` truncates, which is the floor unless a number is negative.
            OpType::Div => self.combined(|a, b| {
                (a.is_at_least(0) && b.is_at_least(1)).then(|| a.checked_floordiv(b))?
            }),
            OpType::Mod => self.combined(|a, b| {
                (a.is_at_least(0) && b.is_at_least(1)).then(|| a.checked_mod(b))?
            }),
            _ => Err(NotInferred::Unknown),
        }
    }

    fn sliced(&self) -> Result<Vec<Dim>, NotInferred> {
        let sizes = self.sizes_of(0)?;
        let only = |operand: usize, default: i64| match self.has(operand) {
            true => known(self.ints(operand)?.first().copied()),
            false => Ok(default),
        };
        if only(4, 1)? != 1 {
            return Err(NotInferred::Unknown);
        }
        let count = sizes.len() as i64;
        let clamp = |at: i64| (if at < 0 { at.saturating_add(count) } else { at }).clamp(0, count);
        let (start, end) = (clamp(only(1, 0)?), clamp(only(2, count)?));
        Ok(sizes[start as usize..end.max(start) as usize].to_vec())
    }

    /// Combines two lists. One of them may be a scalar.
    fn combined(
        &self,
        combine: impl Fn(&Dim, &Dim) -> Option<Dim>,
    ) -> Result<Vec<Dim>, NotInferred> {
        let [a, b] = [self.sizes_of(0)?, self.sizes_of(1)?];
        let count = a.len().max(b.len());
        if self.inputs.len() != 2 || ![a.len(), b.len()].iter().all(|&n| n == 1 || n == count) {
            return Err(NotInferred::Unknown);
        }
        let at = |list: &[Dim], index: usize| list[if list.len() == 1 { 0 } else { index }].clone();
        (0..count).map(|index| known(combine(&at(&a, index), &at(&b, index)))).collect()
    }
}
