//! The cost of one run of a node: the operations that it computes, and the bytes that it reads and writes.
//!
//! The rule of each operator is in [the table](crate::operator). A cost is a polynomial of the symbols in the shapes.
//! It is the cost of the formula in the documentation of the operator, not of a kernel:
//!
//! * An addition, multiplication, division, comparison, choice, rounding or conversion of a number is one operation. If
//!   its operand or result is a floating-point number, it is a *flop*.
//! * A function such as `exp`, `tanh` or `sqrt` of a floating-point number is one *transcendental* function.
//! * Moving elements is no operation. Elements that a convolution reads from its padding are not multiplied.

mod products;
pub(crate) mod rules;
mod windows;

use crate::dtype::DType;
use crate::infer::{Call, NotInferred};
use crate::operator::Operator;
use crate::value::{Dim, Symbol, Type, ValueId};

/// The cost of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Operations on floating-point numbers.
    pub flops: Dim,
    /// Functions such as `exp` of floating-point numbers.
    pub transcendentals: Dim,
    /// Operations on integers and booleans.
    pub operations: Dim,
    pub bytes_read: Dim,
    pub bytes_written: Dim,
}

impl Cost {
    /// The cost of a node that does nothing.
    pub const NOTHING: Cost = Cost {
        flops: Dim::Known(0),
        transcendentals: Dim::Known(0),
        operations: Dim::Known(0),
        bytes_read: Dim::Known(0),
        bytes_written: Dim::Known(0),
    };
}

/// The reason why the cost of a node is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
#[non_exhaustive]
pub enum NotCounted {
    #[error("the shapes of its operands or results are not known")]
    Shapes,
    #[error("its cost depends on the numbers that it reads, or there is no rule for it")]
    NoRule,
    #[error("its cost is too large")]
    TooLarge,
}

impl From<NotInferred> for NotCounted {
    fn from(_: NotInferred) -> NotCounted {
        NotCounted::Shapes
    }
}

/// The rule of an operator.
#[derive(Clone, Copy)]
pub(crate) struct Rule {
    work: Work,
    traffic: Traffic,
}

impl Rule {
    /// True if nodes of the operator never cost anything.
    pub(crate) fn is_nothing(&self) -> bool {
        matches!((self.work, self.traffic), (Work::None, Traffic::Nothing))
    }
}

/// The rule that counts operations.
#[derive(Clone, Copy)]
enum Work {
    /// Nothing is computed.
    None,
    /// Simple operations and transcendental functions for each element of the first result.
    Each(i64, i64),
    By(fn(&Count<'_, '_>) -> Counted),
    /// It cannot be counted.
    Unknown,
}

/// The rule that counts bytes.
#[derive(Clone, Copy)]
enum Traffic {
    /// Every operand is read once, and every result written once.
    Whole,
    /// The results contain the elements of the first operand that were picked. Other operands are read once.
    Picks,
    /// No elements are read.
    Writes,
    /// The result is another name for the operand, or bodies do everything.
    Nothing,
    /// `Nothing`, unless this operand is there.
    NothingUnless(usize),
}

/// Operations and transcendental functions.
pub(crate) struct Ops(Dim, Dim);

pub(crate) type Counted = Result<Ops, NotCounted>;

/// A call with the types of its results.
pub(crate) struct Count<'c, 'a> {
    call: &'c Call<'a>,
    results: &'c [Option<Type>],
}

/// Returns the cost of a call. Results that are not used have no type.
pub(crate) fn cost(call: &Call<'_>, results: &[Option<Type>]) -> Result<Cost, NotCounted> {
    let Operator::Onnx(op) = call.op else { return Err(NotCounted::NoRule) };
    let rule = op.row().cost;
    let count = Count { call, results };
    let Ops(simple, transcendental) = match rule.work {
        Work::None => Ops(Dim::Known(0), Dim::Known(0)),
        Work::Each(simple, transcendental) => {
            let elements = count.written(0)?;
            Ops(times(&elements, simple)?, times(&elements, transcendental)?)
        }
        Work::By(rule) => rule(&count)?,
        Work::Unknown => return Err(NotCounted::NoRule),
    };
    let (bytes_read, bytes_written) = count.bytes(rule.traffic)?;
    let is_of_floats = |dtype: DType| dtype.is_float() || dtype.is_complex();
    let is_float = call.dtype(0).is_ok_and(is_of_floats)
        || results.iter().flatten().any(|ty| is_of_floats(ty.dtype));
    Ok(match is_float {
        true => Cost {
            flops: simple,
            transcendentals: transcendental,
            operations: Dim::Known(0),
            bytes_read,
            bytes_written,
        },
        false => Cost {
            flops: Dim::Known(0),
            transcendentals: Dim::Known(0),
            operations: sum(&[simple, transcendental])?,
            bytes_read,
            bytes_written,
        },
    })
}

impl Count<'_, '_> {
    /// Returns the number of elements of an operand.
    fn read(&self, operand: usize) -> Result<Dim, NotCounted> {
        product(self.call.shape(operand)?)
    }

    /// Returns the number of elements of a result.
    fn written(&self, result: usize) -> Result<Dim, NotCounted> {
        product(&self.result(result)?.shape)
    }

    fn result(&self, result: usize) -> Result<&Type, NotCounted> {
        self.results.get(result).and_then(Option::as_ref).ok_or(NotCounted::Shapes)
    }

    fn size(&self, operand: usize, axis: usize) -> Result<Dim, NotCounted> {
        self.call.shape(operand)?.get(axis).cloned().ok_or(NotCounted::Shapes)
    }

    fn bytes(&self, traffic: Traffic) -> Result<(Dim, Dim), NotCounted> {
        let nothing = Ok((Dim::Known(0), Dim::Known(0)));
        let first = match traffic {
            Traffic::Nothing => return nothing,
            Traffic::NothingUnless(operand) if !self.call.has(operand) => return nothing,
            Traffic::Whole | Traffic::NothingUnless(_) => 0,
            Traffic::Picks => 1,
            Traffic::Writes => self.call.inputs.len(),
        };
        let written = self.results.iter().flatten().map(bytes_of);
        let written = sum(&written.collect::<Result<Vec<Dim>, _>>()?)?;
        let mut operands: Vec<ValueId> =
            self.call.inputs.iter().skip(first).copied().flatten().collect();
        operands.sort_unstable();
        operands.dedup();
        let mut read = Vec::with_capacity(operands.len() + 1);
        for operand in operands {
            let ty = self.call.values[operand].ty.as_ref().ok_or(NotCounted::Shapes)?;
            read.push(bytes_of(ty)?);
        }
        if matches!(traffic, Traffic::Picks) {
            let picked = self.written(0)?;
            read.push(bytes_of(&Type::new(self.call.dtype(0)?, [picked]))?);
        }
        Ok((sum(&read)?, written))
    }
}

fn bytes_of(ty: &Type) -> Result<Dim, NotCounted> {
    ty.bytes().ok_or(if ty.dtype == DType::String {
        NotCounted::NoRule
    } else {
        NotCounted::TooLarge
    })
}

fn product(dims: &[Dim]) -> Result<Dim, NotCounted> {
    Dim::checked_product(dims).ok_or(NotCounted::TooLarge)
}

fn sum(dims: &[Dim]) -> Result<Dim, NotCounted> {
    let sum = dims.iter().try_fold(Dim::Known(0), |sum, dim| sum.checked_add(dim));
    sum.ok_or(NotCounted::TooLarge)
}

fn times(dim: &Dim, factor: impl Into<Dim>) -> Result<Dim, NotCounted> {
    dim.checked_mul(&factor.into()).ok_or(NotCounted::TooLarge)
}

/// Returns `a - b`, or 0 if that is negative.
fn less(a: &Dim, b: &Dim) -> Result<Dim, NotCounted> {
    let difference = a.checked_sub(b).and_then(|difference| at_least_zero(&difference));
    difference.ok_or(NotCounted::TooLarge)
}

/// Returns the size, or 0 if that is larger. Symbols are at least 1.
fn at_least_zero(dim: &Dim) -> Option<Dim> {
    let after = |symbol: &Symbol| Dim::from(symbol.clone()).checked_add(&Dim::Known(1));
    if dim.known().is_none() && dim.with(&after).is_some_and(|dim| dim.is_at_least(0)) {
        return Some(dim.clone());
    }
    dim.checked_max(&Dim::Known(0))
}

#[cfg(test)]
mod tests;
