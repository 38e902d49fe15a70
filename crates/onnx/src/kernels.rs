//! The types for which the runtime has kernels, and the types to compute in instead.
//!
//! A model does not load if ONNX Runtime has no kernel for one of its types. The builder looks types up here, and
//! adds casts around missing kernels: the operands to a wider type, the result back.

mod audit;
pub(crate) mod behavior;
mod device;
mod digits;
mod form;
#[expect(clippy::unreadable_literal, reason = "generated")]
mod generated;
mod limit;
#[allow(dead_code, clippy::unreadable_literal, reason = "generated")]
mod probed;
mod runtime;
mod target;
mod uses;
mod view;

use crate::dtype::DType;
use crate::operator::OpType;
use crate::operator::properties::SIGNLESS;

pub use audit::{Finding, Lack, audit, audit_bytes};
pub use behavior::counts_padding;
pub use device::Widened;
pub use digits::{LARGEST_EXACT, rounds};
pub use limit::{Limit, VERY_LOW, captured, constants, is_above_in_each_row};
pub use runtime::{Evidence, Release};
pub use target::{Fault, Numbers, Target, UnknownTarget, names};
pub(crate) use view::{View, sorted_size};

use smallvec::SmallVec;

/// The operand types of one operator in models of one opset.
pub(crate) struct Kernel {
    op: OpType,
    /// The type variable of each operand; the last one repeats for a variadic operator.
    inputs: &'static [usize],
    /// The type variable of each result.
    outputs: &'static [usize],
    /// The types of each variable, one bit each by the number of the type.
    types: SmallVec<[u32; 4]>,
    /// True if integers of 64 bits lose their upper half.
    narrows: bool,
}

impl Kernel {
    pub fn variable_of_input(&self, index: usize) -> Option<usize> {
        self.inputs.get(index).or(self.inputs.last()).copied()
    }

    pub fn variable_of_output(&self, index: usize) -> Option<usize> {
        self.outputs.get(index).or(self.outputs.last()).copied()
    }

    /// True if it takes no types.
    pub fn is_empty(&self) -> bool {
        self.types.iter().all(|&mask| mask == 0)
    }

    pub fn takes(&self, variable: usize, dtype: DType) -> bool {
        self.types.get(variable).is_some_and(|mask| mask >> dtype.code() & 1 == 1)
    }

    /// Returns the type to compute in if the type of a variable is `dtype`.
    pub fn compute_type(&self, variable: usize, dtype: DType) -> Option<DType> {
        let candidates = widenings(dtype).iter().chain(reinterpretations(self.op, dtype));
        let holds = |wider: &DType| !(self.narrows && dtype == DType::U32 && wider.bits() == 64);
        let candidates = std::iter::once(&dtype).chain(candidates.filter(|&wider| holds(wider)));
        candidates.copied().find(|&t| self.takes(variable, t))
    }

    /// Returns the types that another kernel of the operator takes too.
    fn and(mut self, other: &Kernel) -> Kernel {
        let operands = (0..self.inputs.len())
            .map(|at| (self.variable_of_input(at), other.variable_of_input(at)));
        let results = (0..self.outputs.len())
            .map(|at| (self.variable_of_output(at), other.variable_of_output(at)));
        let pairs = operands.chain(results).filter_map(|(own, others)| own.zip(others));
        for (own, others) in pairs.collect::<SmallVec<[(usize, usize); 8]>>() {
            let taken = other.types.get(others).copied().unwrap_or_default();
            if let Some(mask) = self.types.get_mut(own) {
                *mask &= taken;
            }
        }
        self.narrows |= other.narrows;
        self
    }
}

/// The kernels of an operator.
pub(crate) enum Lookup {
    Kernel(Kernel),
    /// The operator came with a later opset.
    Later(i64),
    /// There is no kernel with that name: the operator is a function of ONNX, or of another domain.
    Unlisted,
}

/// The support of the runtime for an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    Yes,
    /// Since a later opset.
    From(i64),
    No,
}

/// Returns the first opset in which the runtimes of the default target compute `op`, if it is later than this one.
/// Opsets before 16 are not in the tables.
pub fn comes_with(op: OpType, opset: i64) -> Option<i64> {
    match Target::default().kernel(op, opset) {
        Lookup::Later(since) if opset >= 16 => Some(since),
        _ => None,
    }
}

/// Returns the types that hold every value of `dtype`, nearest first. Computing in one and casting
/// back wraps and rounds like computing in `dtype`.
fn widenings(dtype: DType) -> &'static [DType] {
    use DType::{F16, F32, F64, I8, I16, I32, I64, U8, U32, U64};
    match dtype {
        DType::Bool => &[U8, I32, I64, F32],
        DType::I2 | DType::I4 => &[I32, I64, I8],
        I8 | I16 => &[I32, I64],
        DType::U2 | DType::U4 => &[I32, U32, I64, U8],
        U8 | DType::U16 => &[I32, U32, I64],
        I32 => &[I64],
        U32 => &[I64, U64],
        F16
        | DType::Bf16
        | DType::F8E4M3Fn
        | DType::F8E4M3FnUz
        | DType::F8E5M2
        | DType::F8E5M2FnUz
        | DType::F8E8M0
        | DType::F4E2M1 => &[F32],
        F32 => &[F64],
        _ => &[],
    }
}

/// Returns types of the same width that can replace `dtype` for operators that only move elements,
/// or that are the same on signed and unsigned numbers.
fn reinterpretations(op: OpType, dtype: DType) -> &'static [DType] {
    match dtype {
        DType::U64 if op.is(SIGNLESS) => &[DType::I64],
        DType::I64 if op.is(SIGNLESS) => &[DType::U64],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compute_type(op: OpType, dtype: DType) -> Option<DType> {
        match Target::default().kernel(op, 23) {
            Lookup::Kernel(kernel) => kernel.compute_type(kernel.variable_of_output(0)?, dtype),
            _ => None,
        }
    }

    #[test]
    fn a_type_with_a_kernel_stays() {
        assert_eq!(compute_type(OpType::Add, DType::I8), Some(DType::I8));
    }

    #[test]
    fn a_type_without_a_kernel_is_widened() {
        assert_eq!(compute_type(OpType::Sin, DType::Bf16), Some(DType::F32));
        assert_eq!(compute_type(OpType::Where, DType::Bool), Some(DType::U8));
        assert_eq!(compute_type(OpType::ReduceSum, DType::U32), Some(DType::I64));
    }

    #[test]
    fn unsigned_64_bits_are_summed_as_signed_but_not_ordered_so() {
        assert_eq!(compute_type(OpType::ReduceSum, DType::U64), Some(DType::I64));
        assert_eq!(compute_type(OpType::ReduceMax, DType::U64), None);
        assert_eq!(compute_type(OpType::Neg, DType::U64), Some(DType::I64));
    }

    #[test]
    fn a_type_that_no_kernel_takes_is_missing() {
        let missing = |op, types: &[DType]| {
            let types: Vec<Option<DType>> = types.iter().copied().map(Some).collect();
            Target::default().missing_type(op, 23, &types, &types[types.len() - 1..])
        };
        assert_eq!(
            missing(OpType::Where, &[DType::Bool, DType::I16, DType::I16]),
            Some(DType::I16)
        );
        assert_eq!(missing(OpType::Where, &[DType::Bool, DType::F32, DType::F32]), None);
        assert_eq!(missing(OpType::Mish, &[DType::I16]), None);
        assert_eq!(
            Target::default().missing_type(OpType::Where, 23, &[None, None, None], &[None]),
            None
        );
    }

    #[test]
    fn there_is_nothing_wider_than_a_double() {
        assert_eq!(compute_type(OpType::Erf, DType::F64), None);
    }

    #[test]
    fn an_operator_of_a_later_opset_says_which() {
        assert!(matches!(Target::default().kernel(OpType::BitwiseAnd, 17), Lookup::Later(18)));
        assert!(matches!(Target::default().kernel(OpType::SequenceMap, 17), Lookup::Unlisted));
    }
}
