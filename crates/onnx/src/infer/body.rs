//! The rules of control flow: the types of results follow from those of bodies.

use smallvec::SmallVec;

use super::{Call, Inferred, NotInferred, Types, axis_from_front, known};
use crate::model::Graph;
use crate::value::{Dim, Type};

impl Call<'_> {
    /// Returns the types of what a body returns.
    pub(super) fn outputs_of_body(&self, name: &str) -> Inferred {
        self.outputs(self.body(name)?)
    }

    fn outputs(&self, body: &Graph) -> Inferred {
        body.outputs.iter().map(|&id| known(self.values[id].ty.clone())).collect()
    }
}

/// `If`
pub(crate) fn branches(call: &Call<'_>) -> Inferred {
    let [yes, no] = ["then_branch", "else_branch"].map(|name| call.outputs_of_body(name));
    let (yes, no) = (yes?, no?);
    let is_same = yes.len() == no.len() && yes.iter().zip(&no).all(|(a, b)| super::agree(a, b));
    if is_same { Ok(yes) } else { Err(NotInferred::Unknown) }
}

/// `Loop`: what is carried, then what is stacked.
pub(crate) fn loop_(call: &Call<'_>) -> Inferred {
    let body = call.body("body")?;
    let carried = known(call.inputs.len().checked_sub(2))?;
    let outputs = call.outputs(body)?;
    if outputs.len() <= carried {
        return Err(NotInferred::Unknown);
    }
    let mut types: Types = outputs[1..=carried].into();
    let stacked = &outputs[carried + 1..];
    if !stacked.is_empty() {
        let rounds = known(call.sizes_of(0)?.first().cloned())?;
        types.extend(stacked.iter().map(|ty| with_axis(ty, 0, rounds.clone())));
    }
    Ok(types)
}

/// `Scan`: the state, then what is stacked.
pub(crate) fn scan(call: &Call<'_>) -> Inferred {
    let body = call.body("body")?;
    let scanned = usize::try_from(call.int_attr("num_scan_inputs", 0)).unwrap_or(0);
    let state = known(call.inputs.len().checked_sub(scanned))?;
    let outputs = call.outputs(body)?;
    if outputs.len() < state {
        return Err(NotInferred::Unknown);
    }
    let mut types: Types = outputs[..state].into();
    let axes = call.ints_attr("scan_output_axes").unwrap_or(&[]);
    let rounds = rounds_of_scan(call, state)?;
    for (place, ty) in outputs[state..].iter().enumerate() {
        let axis = axes.get(place).copied().unwrap_or(0);
        let axis = known(axis_from_front(axis, ty.rank() + 1))?;
        types.push(with_axis(ty, axis, rounds.clone()));
    }
    Ok(types)
}

/// Returns the size of the axis along which a `Scan` reads its first operand.
fn rounds_of_scan(call: &Call<'_>, state: usize) -> Result<Dim, NotInferred> {
    let shape = call.shape(state)?;
    let axis = call.ints_attr("scan_input_axes").and_then(|axes| axes.first().copied());
    let axis = call.from_front(axis.unwrap_or(0), shape.len())?;
    Ok(shape[axis].clone())
}

fn with_axis(ty: &Type, axis: usize, size: Dim) -> Type {
    let mut shape: SmallVec<[Dim; 8]> = ty.shape.iter().cloned().collect();
    shape.insert(axis, size);
    Type::new(ty.dtype, shape.into_vec())
}
