//! The rules of control flow: the types of the results follow from the bodies.

use super::{Call, Inferred, NotInferred, Types, axis_from_front, known};
use crate::model::Graph;
use crate::value::{Dim, Type};

impl Call<'_> {
    /// Returns the types of the outputs of a body.
    pub(super) fn outputs_of_body(&self, name: &str) -> Inferred {
        Ok(self.outputs(self.body(name)?))
    }

    fn outputs(&self, body: &Graph) -> Types {
        body.outputs.iter().map(|&id| self.values[id].ty.clone()).collect()
    }
}

/// `If`: the types that both branches return.
pub(crate) fn branches(call: &Call<'_>) -> Inferred {
    let [yes, no] = ["then_branch", "else_branch"].map(|name| call.outputs_of_body(name));
    let both = yes?.into_iter().zip(no?).map(|(yes, no)| {
        let (yes, no) = (yes?, no?);
        super::agree(&yes, &no).then_some(yes)
    });
    Ok(both.collect())
}

/// `Loop`: the carried values, then the stacked ones.
pub(crate) fn loop_(call: &Call<'_>) -> Inferred {
    let carried = known(call.inputs.len().checked_sub(2))?;
    let rounds = call.sizes_of(0).ok().and_then(|sizes| sizes.first().cloned());
    let outputs = call.outputs(call.body("body")?).into_iter().skip(1);
    let typed = outputs.enumerate().map(|(place, ty)| match place < carried {
        true => ty,
        false => Some(with_axis(&ty?, 0, rounds.clone()?)),
    });
    Ok(typed.collect())
}

/// `Scan`: the state, then the stacked values.
pub(crate) fn scan(call: &Call<'_>) -> Inferred {
    let scanned = usize::try_from(call.int_attr("num_scan_inputs", 0)).unwrap_or(0);
    let state = known(call.inputs.len().checked_sub(scanned))?;
    let axes = call.ints_attr("scan_output_axes").unwrap_or(&[]);
    let rounds = rounds_of_scan(call, state)?;
    let outputs = call.outputs(call.body("body")?).into_iter();
    let typed = outputs.enumerate().map(|(place, ty)| match place.checked_sub(state) {
        None => ty,
        Some(stack) => {
            let (ty, axis) = (ty?, axes.get(stack).copied().unwrap_or(0));
            Some(with_axis(&ty, axis_from_front(axis, ty.rank() + 1)?, rounds.clone()))
        }
    });
    Ok(typed.collect())
}

/// Returns the size of the axis along which a `Scan` reads its first operand.
fn rounds_of_scan(call: &Call<'_>, state: usize) -> Result<Dim, NotInferred> {
    let shape = call.shape(state)?;
    let axis = call.ints_attr("scan_input_axes").and_then(|axes| axes.first().copied());
    let axis = call.axis_at(axis.unwrap_or(0), shape.len())?;
    Ok(shape[axis].clone())
}

fn with_axis(ty: &Type, axis: usize, size: Dim) -> Type {
    let mut shape = ty.shape.to_vec();
    shape.insert(axis, size);
    Type::new(ty.dtype, shape)
}
