//! Infers the types of results from an operator, its attributes and its operands.
//!
//! Nobody states the type of a node: builders and edits infer it here, and [`crate::check`] infers it again. The
//! rule of each operator is in [the table](crate::operator).

mod body;
mod layout;
mod product;
pub(crate) mod rules;
mod sizes;
mod window;

pub(crate) use sizes::sizes;
use smallvec::{SmallVec, smallvec};

use crate::attr::Attr;
use crate::dtype::DType;
use crate::model::{Graph, Node};
use crate::operator::{OpType, Operator};
use crate::value::{Dim, Type, ValueId, Values};

/// The types of all results of a node; `None` if a type does not follow from the operands.
pub type Types = SmallVec<[Option<Type>; 1]>;

/// The reason why the types of results are not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotInferred {
    /// The operands do not determine it, or there is no rule.
    #[error("the types of the results do not follow from the operands")]
    Unknown,
    /// The operator does not take such operands.
    #[error("{0}")]
    Invalid(String),
}

/// The result of a rule.
pub(crate) type Inferred = Result<Types, NotInferred>;

/// The rule of an operator.
pub(crate) type Rule = fn(&Call<'_>) -> Inferred;

/// An operator with its operands and attributes.
pub(crate) struct Call<'a> {
    pub op: &'a Operator,
    pub inputs: &'a [Option<ValueId>],
    /// The number of results.
    pub results: usize,
    pub values: &'a Values,
    pub opset: i64,
    pub attrs: &'a dyn Attributes,
}

/// The attributes of a node.
pub(crate) trait Attributes {
    fn get(&self, name: &str) -> Option<&Attr>;
}

impl<N: AsRef<str>> Attributes for Vec<(N, Attr)> {
    fn get(&self, name: &str) -> Option<&Attr> {
        self.iter().find(|(key, _)| key.as_ref() == name).map(|(_, attr)| attr)
    }
}

impl Call<'_> {
    /// Returns the call that a node represents.
    pub(crate) fn of_node<'a>(node: &'a Node, values: &'a Values, opset: i64) -> Call<'a> {
        let (op, inputs, results) = (&node.op, &node.inputs[..], node.outputs.len());
        Call { op, inputs, results, values, opset, attrs: &node.attrs }
    }

    /// Infers the types of the results.
    pub(crate) fn types(&self) -> Inferred {
        let types = match self.op {
            Operator::Onnx(op) => (op.row().infer)(self)?,
            Operator::Composite(_) => self.outputs_of_body("body")?,
            Operator::Foreign(_) => return Err(NotInferred::Unknown),
        };
        if types.len() < self.results {
            return Err(NotInferred::Unknown);
        }
        // Operands in a file may not fit together.
        let is_negative =
            |ty: &Type| ty.shape.iter().any(|dim| dim.known().is_some_and(|it| it < 0));
        Ok(types
            .into_iter()
            .take(self.results)
            .map(|ty| ty.filter(|ty| !is_negative(ty)))
            .collect())
    }

    /// Returns the type of an operand.
    pub(crate) fn ty(&self, operand: usize) -> Result<&Type, NotInferred> {
        let id = self.inputs.get(operand).copied().flatten().ok_or(NotInferred::Unknown)?;
        self.values[id].ty.as_ref().ok_or(NotInferred::Unknown)
    }

    pub(crate) fn has(&self, operand: usize) -> bool {
        self.inputs.get(operand).is_some_and(Option::is_some)
    }

    pub(crate) fn shape(&self, operand: usize) -> Result<&[Dim], NotInferred> {
        Ok(&self.ty(operand)?.shape)
    }

    pub(crate) fn dtype(&self, operand: usize) -> Result<DType, NotInferred> {
        Ok(self.ty(operand)?.dtype)
    }

    /// Returns the integers of an operand, if all are known.
    pub(crate) fn ints(&self, operand: usize) -> Result<Vec<i64>, NotInferred> {
        let sizes = self.sizes_of(operand)?;
        let known: Option<Vec<i64>> = sizes.iter().map(Dim::known).collect();
        known.ok_or(NotInferred::Unknown)
    }

    pub(crate) fn int_attr(&self, name: &str, default: i64) -> i64 {
        match self.attrs.get(name) {
            Some(Attr::Int(value)) => *value,
            _ => default,
        }
    }

    pub(crate) fn float_attr(&self, name: &str, default: f32) -> f32 {
        match self.attrs.get(name) {
            Some(Attr::Float(value)) => *value,
            _ => default,
        }
    }

    pub(crate) fn ints_attr(&self, name: &str) -> Option<&[i64]> {
        match self.attrs.get(name) {
            Some(Attr::Ints(values)) => Some(values),
            _ => None,
        }
    }

    pub(crate) fn str_attr(&self, name: &str) -> Option<&str> {
        match self.attrs.get(name) {
            Some(Attr::Str(value)) => Some(value),
            _ => None,
        }
    }

    /// Returns the element type in an attribute.
    pub(crate) fn dtype_attr(&self, name: &str) -> Option<DType> {
        match self.attrs.get(name) {
            Some(Attr::Int(code)) => DType::from_code(i32::try_from(*code).ok()?),
            _ => None,
        }
    }

    pub(crate) fn body(&self, name: &str) -> Result<&Graph, NotInferred> {
        match self.attrs.get(name) {
            Some(Attr::Graph(body)) => Ok(body),
            _ => Err(NotInferred::Unknown),
        }
    }

    /// Returns the axis that the operator works along, counted from the front.
    pub(crate) fn axis(&self, rank: usize) -> Result<usize, NotInferred> {
        let axis = match self.attrs.get("axis") {
            Some(Attr::Int(axis)) => Some(*axis),
            _ => self.op.onnx().and_then(OpType::default_axis),
        };
        self.axis_at(known(axis)?, rank)
    }

    /// Returns the axes in an attribute or an operand, if there is one.
    pub(crate) fn axes(&self) -> Result<Option<Vec<i64>>, NotInferred> {
        if let Some(axes) = self.ints_attr("axes") {
            return Ok(Some(axes.to_vec()));
        }
        let operand = self.op.onnx().and_then(OpType::axes_operand);
        operand.filter(|&operand| self.has(operand)).map(|operand| self.ints(operand)).transpose()
    }

    /// Counts an axis from the front.
    pub(crate) fn axis_at(&self, axis: i64, rank: usize) -> Result<usize, NotInferred> {
        axis_from_front(axis, rank)
            .ok_or_else(|| self.invalid(format_args!("has no axis {axis} of {rank}")))
    }

    pub(crate) fn axes_at(&self, axes: &[i64], rank: usize) -> Result<Vec<usize>, NotInferred> {
        axes.iter().map(|&axis| self.axis_at(axis, rank)).collect()
    }

    /// Returns the error for operands that the operator does not take.
    pub(crate) fn invalid(&self, what: std::fmt::Arguments<'_>) -> NotInferred {
        let types: Vec<String> = (0..self.inputs.len())
            .map(|operand| self.ty(operand).map_or_else(|_| "?".into(), Type::to_string))
            .collect();
        NotInferred::Invalid(format!("{} of {} {what}", self.op.name(), types.join(", ")))
    }
}

/// Counts an axis from the front. `None` if it is out of range for the rank.
pub fn axis_from_front(axis: i64, rank: usize) -> Option<usize> {
    let axis = if axis < 0 { axis.checked_add(i64::try_from(rank).ok()?)? } else { axis };
    usize::try_from(axis).ok().filter(|&axis| axis < rank)
}

/// Counts axes from the front. `None` if an axis is out of range or a duplicate.
pub fn axes_from_front(axes: &[i64], rank: usize) -> Option<Vec<usize>> {
    let axes: Vec<usize> =
        axes.iter().map(|&axis| axis_from_front(axis, rank)).collect::<Option<_>>()?;
    let is_new = |(position, axis): (usize, &usize)| !axes[..position].contains(axis);
    axes.iter().enumerate().all(is_new).then_some(axes)
}

/// Returns a single type.
#[expect(clippy::unnecessary_wraps, reason = "rules return this type")]
pub(crate) fn one(dtype: DType, shape: impl Into<std::sync::Arc<[Dim]>>) -> Inferred {
    Ok(smallvec![Some(Type::new(dtype, shape))])
}

/// Returns the value, or that it is unknown.
pub(crate) fn known<T>(found: Option<T>) -> Result<T, NotInferred> {
    found.ok_or(NotInferred::Unknown)
}

/// True if two types have the same element type and the same sizes, at least for large values of the symbols.
///
/// Sizes may be spelled differently: `max(B - 1, 0)` is `B - 1` for all values that JAX assumes.
pub fn agree(inferred: &Type, stated: &Type) -> bool {
    let same = |(a, b): (&Dim, &Dim)| match (a.known(), b.known()) {
        (Some(a), Some(b)) => a == b,
        (None, None) => a == b || a.is_equal_for_large_symbols(b),
        _ => false,
    };
    inferred.dtype == stated.dtype
        && inferred.rank() == stated.rank()
        && inferred.shape.iter().zip(&*stated.shape).all(same)
}

#[cfg(test)]
mod tests;
