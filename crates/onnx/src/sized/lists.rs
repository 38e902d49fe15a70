//! The integers of short lists that a graph computes from sizes, beyond those that the rules of types need.
//!
//! Exporters compute shapes with comparisons and choices. A boolean is 0 or 1.

use crate::attr::Attr;
use crate::dtype::DType;
use crate::infer::{Call, sizes};
use crate::operator::OpType;
use crate::value::{Dim, Type};

/// Longer lists are not shapes.
const MAX_SIZES: usize = 64;

/// Returns the integers of the only result of a call, if all are known as sizes.
pub(super) fn computed(call: &Call<'_>, result: &Type) -> Option<Vec<Dim>> {
    let length = match &*result.shape {
        [] => 1,
        [length] => usize::try_from(length.known()?).ok().filter(|&length| length <= MAX_SIZES)?,
        _ => return None,
    };
    if !matches!(result.dtype, DType::I64 | DType::I32 | DType::Bool) {
        return None;
    }
    let found = call.sizes(result).or_else(|| other(call, result, length))?;
    (found.len() == length).then_some(found)
}

fn other(call: &Call<'_>, result: &Type, length: usize) -> Option<Vec<Dim>> {
    let list = |operand: usize| {
        let id = call.inputs.get(operand).copied().flatten()?;
        sizes(call.values, id)
    };
    let at =
        |list: &[Dim], place: usize| list.get(if list.len() == 1 { 0 } else { place }).cloned();
    let each = |f: &dyn Fn(&Dim, &Dim) -> Option<Dim>| -> Option<Vec<Dim>> {
        let (a, b) = (list(0)?, list(1)?);
        (0..length).map(|place| f(&at(&a, place)?, &at(&b, place)?)).collect()
    };
    let flag = |is_true: bool| Dim::Known(i64::from(is_true));
    match call.op.onnx()? {
        OpType::Constant => match call.attrs.get("value_int").or(call.attrs.get("value_ints"))? {
            Attr::Int(value) => Some(vec![Dim::Known(*value)]),
            Attr::Ints(values) => Some(values.iter().map(|&value| Dim::Known(value)).collect()),
            _ => None,
        },
        OpType::ConstantOfShape => {
            let value = match call.attrs.get("value") {
                Some(Attr::Tensor(tensor)) => *tensor.ints()?.first()?,
                _ => return None,
            };
            Some(vec![Dim::Known(value); length])
        }
        OpType::Cast if result.dtype == DType::Bool && call.dtype(0) != Ok(DType::Bool) => {
            list(0)?.iter().map(|dim| different(dim, &Dim::Known(0)).map(flag)).collect()
        }
        OpType::Cast | OpType::Identity | OpType::Squeeze | OpType::Unsqueeze | OpType::Reshape => {
            list(0)
        }
        OpType::Expand => {
            let only = list(0)?;
            (0..length).map(|place| at(&only, place)).collect()
        }
        OpType::Equal => each(&|a, b| different(a, b).map(|is_different| flag(!is_different))),
        OpType::Less => each(&|a, b| is_less(a, b).map(flag)),
        OpType::Greater => each(&|a, b| is_less(b, a).map(flag)),
        OpType::LessOrEqual => each(&|a, b| is_less(b, a).map(|is_less| flag(!is_less))),
        OpType::GreaterOrEqual => each(&|a, b| is_less(a, b).map(|is_less| flag(!is_less))),
        OpType::And => each(&|a, b| a.checked_mul(b)),
        OpType::Or => each(&|a, b| a.checked_max(b)),
        OpType::Not => list(0)?.iter().map(|dim| Dim::Known(1).checked_sub(dim)).collect(),
        OpType::Neg => list(0)?.iter().map(|dim| Dim::Known(0).checked_sub(dim)).collect(),
        OpType::Where => {
            let (flags, yes, no) = (list(0)?, list(1)?, list(2)?);
            let chosen = |place: usize| match at(&flags, place)?.known()? {
                0 => at(&no, place),
                _ => at(&yes, place),
            };
            (0..length).map(chosen).collect()
        }
        OpType::Range => {
            let (start, step) = (list(0)?, list(2)?);
            let (start, step) = (start.first()?.known()?, step.first()?.known()?);
            let number = |place: usize| step.checked_mul(place as i64)?.checked_add(start);
            (0..length).map(|place| number(place).map(Dim::Known)).collect()
        }
        OpType::ReduceSum if length == 1 => {
            let sum = list(0)?.iter().try_fold(Dim::Known(0), |sum, dim| sum.checked_add(dim));
            sum.map(|sum| vec![sum])
        }
        OpType::ReduceMax if length == 1 => extreme(&list(0)?, Dim::checked_max),
        OpType::ReduceMin if length == 1 => extreme(&list(0)?, Dim::checked_min),
        _ => None,
    }
}

fn extreme(list: &[Dim], choose: impl Fn(&Dim, &Dim) -> Option<Dim>) -> Option<Vec<Dim>> {
    let (first, rest) = list.split_first()?;
    rest.iter().try_fold(first.clone(), |best, dim| choose(&best, dim)).map(|best| vec![best])
}

/// True if two sizes differ for all values of their symbols, false if they are equal.
fn different(a: &Dim, b: &Dim) -> Option<bool> {
    let difference = a.checked_sub(b)?;
    match difference.known() {
        Some(number) => Some(number != 0),
        None => (difference.is_at_least(1) || difference.is_at_most(-1)).then_some(true),
    }
}

/// True if a size is smaller for all values of the symbols, false if it never is.
fn is_less(a: &Dim, b: &Dim) -> Option<bool> {
    let difference = b.checked_sub(a)?;
    match (difference.is_at_least(1), difference.is_at_most(0)) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}
