//! The types of the values that an edit adds.

use std::sync::Arc;

use super::{Declined, Edit, Op};
use crate::dtype::DType;
use crate::infer::{Call, NotInferred, agree};
use crate::value::{Dim, Type, Value, ValueId};

impl Edit<'_> {
    /// Infers the types of the results of an operator.
    fn types_of(&self, op: &Op, results: usize) -> Result<Vec<Value>, NotInferred> {
        let inputs: Vec<Option<ValueId>> =
            op.inputs.iter().map(|&id| id.map(|id| self.current(id))).collect();
        let (values, opset, attrs) = (&*self.values, self.opset, &op.attrs);
        let call = Call { op: &op.op, inputs: &inputs, results, values, opset, attrs };
        let value = |ty: Option<Type>| {
            let sizes = ty.as_ref().filter(|_| results == 1).and_then(|ty| call.sizes(ty));
            Value { ty, sizes: sizes.map(Arc::from), ..Value::default() }
        };
        Ok(call.types()?.into_iter().map(value).collect())
    }

    /// Returns values for the results of an operator. Their types follow from the operands, or are those of the
    /// values that they replace.
    pub(super) fn results_of(
        &self,
        op: &Op,
        replaced: &[Option<ValueId>],
    ) -> Result<Vec<Value>, Declined> {
        let made = self.types_of(op, replaced.len()).or_else(|why| match why {
            NotInferred::Unknown => Ok(vec![Value::default(); replaced.len()]),
            NotInferred::Invalid(_) => {
                debug_assert!(false, "{why}");
                Err(Declined(why.to_string()))
            }
        });
        let mut made = made?;
        for (value, &replaced) in made.iter_mut().zip(replaced) {
            let before = replaced.and_then(|id| self.ty(id));
            value.ty = value.ty.take().or_else(|| before.cloned());
            if value.ty.is_none() {
                return Err(Declined(NotInferred::Unknown.to_string()));
            }
        }
        Ok(made)
    }

    /// Adds values for the results of an operator. If a type is not known, or if `check` declines the element
    /// types, no node that reads the results can stay.
    pub(super) fn add_results(
        &mut self,
        op: &Op,
        replaced: &[Option<ValueId>],
        check: impl FnOnce(&Edit<'_>, &[Option<DType>]) -> Result<(), Declined>,
    ) -> Vec<ValueId> {
        let made = self.results_of(op, replaced);
        let is_computed = match &made {
            Ok(values) => check(self, &dtypes(values)),
            Err(why) => Err(why.clone()),
        };
        let made = made.unwrap_or_else(|_| vec![Value::default(); replaced.len()]);
        let outputs: Vec<ValueId> = made.into_iter().map(|value| self.values.add(value)).collect();
        self.note_computable(&outputs, is_computed);
        outputs
    }

    /// Declines an operator whose results have other types than those of the node that it replaces. Debug builds panic.
    pub(super) fn expect_results(&self, index: usize, op: &Op) -> Result<(), Declined> {
        let outputs = &self.node(index).outputs;
        let Ok(results) = self.types_of(op, outputs.len()) else { return Ok(()) };
        for (&output, result) in outputs.iter().zip(results) {
            if let (Some(before), Some(after)) = (self.ty(output), &result.ty)
                && !agree(after, before)
            {
                let why = format!("a {} of type {after} replaces {before}", op.op.name());
                debug_assert!(false, "{why}");
                return Err(Declined(why));
            }
        }
        Ok(())
    }

    /// Returns the integers of a value as sizes.
    pub fn sizes(&self, value: ValueId) -> Option<Vec<Dim>> {
        crate::infer::sizes(self.values, value)
    }
}

/// Returns the element types of values.
pub(super) fn dtypes(values: &[Value]) -> Vec<Option<DType>> {
    values.iter().map(|value| Some(value.ty.as_ref()?.dtype)).collect()
}
