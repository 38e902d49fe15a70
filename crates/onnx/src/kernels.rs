//! The types for which the runtime has kernels, and the types to compute in instead.
//!
//! A model does not load if ONNX Runtime has no kernel for one of its types. The builder looks types up here, and
//! adds casts around missing kernels: the operands to a wider type, the result back.

pub(crate) mod behavior;
#[expect(clippy::unreadable_literal, reason = "generated")]
mod generated;

use crate::dtype::DType;
use crate::operator::OpType;
use crate::operator::properties::SIGNLESS;

pub use behavior::is_right;

/// The operand types of one operator over a range of opsets.
pub(crate) struct Kernel {
    pub op: OpType,
    pub since: i64,
    pub until: i64,
    /// The type variable of each operand; the last one repeats for a variadic operator.
    pub inputs: &'static [usize],
    /// The type variable of each result.
    pub outputs: &'static [usize],
    /// The types of each variable, one bit each by the number of the type.
    pub types: &'static [u32],
}

impl Kernel {
    pub fn variable_of_input(&self, index: usize) -> Option<usize> {
        self.inputs.get(index).or(self.inputs.last()).copied()
    }

    pub fn variable_of_output(&self, index: usize) -> Option<usize> {
        self.outputs.get(index).or(self.outputs.last()).copied()
    }

    pub fn takes(&self, variable: usize, dtype: DType) -> bool {
        self.types.get(variable).is_some_and(|mask| mask >> dtype.code() & 1 == 1)
    }

    /// Returns the type to compute in if the type of a variable is `dtype`.
    pub fn compute_type(&self, variable: usize, dtype: DType) -> Option<DType> {
        let candidates = widenings(dtype).iter().chain(reinterpretations(self.op, dtype));
        std::iter::once(&dtype).chain(candidates).copied().find(|&t| self.takes(variable, t))
    }
}

/// The kernels of an operator.
pub(crate) enum Lookup {
    Kernel(&'static Kernel),
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

/// Returns whether the runtime computes `op` on operands of a type correctly and without a cast.
pub fn support(op: OpType, opset: i64, dtype: DType) -> Support {
    match lookup(op, opset) {
        Lookup::Kernel(kernel) => match kernel.variable_of_input(0) {
            Some(variable) if kernel.takes(variable, dtype) && is_right(op, dtype) => Support::Yes,
            _ => Support::No,
        },
        Lookup::Later(since) => Support::From(since),
        Lookup::Unlisted => Support::No,
    }
}

/// Returns a type of an operand or a result that no kernel of `op` takes, for models of this opset. Skips unknown
/// types. Skips operators without kernels too, because they are functions of ONNX.
pub fn missing_type(
    op: OpType,
    opset: i64,
    operands: &[Option<DType>],
    results: &[Option<DType>],
) -> Option<DType> {
    let Lookup::Kernel(kernel) = lookup(op, opset) else {
        return None;
    };
    let of_operands =
        operands.iter().enumerate().map(|(at, &ty)| (kernel.variable_of_input(at), ty));
    let of_results =
        results.iter().enumerate().map(|(at, &ty)| (kernel.variable_of_output(at), ty));
    let known = of_operands.chain(of_results).filter_map(|(variable, ty)| variable.zip(ty));
    known
        .into_iter()
        .find(|&(variable, dtype)| !kernel.takes(variable, dtype))
        .map(|(_, dtype)| dtype)
}

/// Returns the first opset in which the runtime computes `op`, if it is later than this one. Opsets before
/// 16 are not in the tables.
pub fn comes_with(op: OpType, opset: i64) -> Option<i64> {
    match lookup(op, opset) {
        Lookup::Later(since) if opset >= 16 => Some(since),
        _ => None,
    }
}

/// Returns the first opset in which the runtime supports the type; `None` if it does not, or if it rounds numbers
/// to the type differently from JAX.
pub fn type_comes_with(dtype: DType) -> Option<i64> {
    if dtype == DType::F8E8M0 {
        return None;
    }
    let rows = generated::KERNELS.iter().filter(|row| row.op == OpType::Cast);
    rows.filter(|row| row.takes(0, dtype)).map(|row| row.since).min()
}

/// Returns the kernel of `op` for models of this opset.
pub(crate) fn lookup(op: OpType, opset: i64) -> Lookup {
    let rows = generated::KERNELS;
    let start = rows.partition_point(|row| row.op < op);
    let mut later = None;
    for row in rows[start..].iter().take_while(|row| row.op == op) {
        if (row.since..=row.until).contains(&opset) {
            return Lookup::Kernel(row);
        }
        if row.since > opset {
            later = later.or(Some(row.since));
        }
    }
    later.map_or(Lookup::Unlisted, Lookup::Later)
}

/// Returns the types that hold every value of `dtype`, nearest first. Computing in one and casting
/// back wraps and rounds like computing in `dtype`.
fn widenings(dtype: DType) -> &'static [DType] {
    use DType::{F16, F32, F64, I8, I16, I32, I64, U8, U32, U64};
    match dtype {
        DType::Bool => &[U8, I32, I64, F32],
        DType::I2 | DType::I4 => &[I8, I32, I64],
        I8 | I16 => &[I32, I64],
        DType::U2 | DType::U4 => &[U8, I32, I64],
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
        match lookup(op, 23) {
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
            missing_type(op, 23, &types, &types[types.len() - 1..])
        };
        assert_eq!(
            missing(OpType::Where, &[DType::Bool, DType::I16, DType::I16]),
            Some(DType::I16)
        );
        assert_eq!(missing(OpType::Where, &[DType::Bool, DType::F32, DType::F32]), None);
        assert_eq!(missing(OpType::Mish, &[DType::I16]), None);
        assert_eq!(missing_type(OpType::Where, 23, &[None, None, None], &[None]), None);
    }

    #[test]
    fn there_is_nothing_wider_than_a_double() {
        assert_eq!(compute_type(OpType::Erf, DType::F64), None);
    }

    #[test]
    fn an_operator_of_a_later_opset_says_which() {
        assert!(matches!(lookup(OpType::BitwiseAnd, 17), Lookup::Later(18)));
        assert!(matches!(lookup(OpType::SequenceMap, 17), Lookup::Unlisted));
    }

    #[test]
    fn the_table_is_sorted_for_the_lookup() {
        assert!(generated::KERNELS.is_sorted_by_key(|row| (row.op, row.since)));
    }
}
