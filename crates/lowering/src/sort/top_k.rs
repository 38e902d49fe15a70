//! The largest elements of an axis.

use onnx::{Dim, Expr};

use super::{Ends, key, order, take, top};
use crate::Refused;
use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

/// The `k` largest along an axis, the largest first, and their indices; of equals, the first first
///
/// The order is the total one, in which `−0 < 0`.
pub(crate) fn top_k<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let axis: Option<usize> = eqn.optional("axis")?;
    eqn.ignore(&["k"]);
    let [x] = eqn.operands()?;
    // Before JAX had the parameter, it was the last axis.
    let axis = axis.unwrap_or_else(|| x.rank().saturating_sub(1));
    let count = eqn.output()?.shape[axis].clone();
    if key::is_plain(&eqn.input_dtypes[0]) {
        let (values, indices) = top(x, axis, Ends::Highest, &count);
        return results(eqn, values, indices);
    }
    ranked(eqn, x, &key::total_levels(x), axis, Ends::Highest, &count)
}

/// The `k` largest or smallest along an axis, all of them found
pub(crate) fn approx_top_k<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let axis: i64 = eqn.param("reduction_dimension")?;
    let largest: bool = eqn.param("is_max_k")?;
    let aggregate: bool = eqn.param("aggregate_to_topk")?;
    // How many of them may be missed.
    eqn.ignore(&["k", "recall_target", "reduction_input_size_override"]);
    let [x] = eqn.operands()?;
    if !aggregate {
        let what = "aggregate_to_topk=False".into();
        return Err(Refused::NoCounterpart { what }.into());
    }
    let axis = if axis < 0 { axis + x.rank() as i64 } else { axis } as usize;
    let count = eqn.output()?.shape[axis].clone();
    let first = if largest { Ends::Highest } else { Ends::Lowest };
    ranked(eqn, x, &key::levels(x), axis, first, &count)
}

fn ranked<'g>(
    eqn: &Eqn<'g, '_>,
    x: Expr<'g>,
    keys: &[Expr<'g>],
    axis: usize,
    first: Ends,
    count: &Dim,
) -> Result<Vec<Expr<'g>>> {
    let indices = order(eqn, keys, axis, first, count)?;
    results(eqn, take(x, indices, axis), indices)
}

fn results<'g>(eqn: &Eqn<'g, '_>, values: Expr<'g>, indices: Expr<'g>) -> Result<Vec<Expr<'g>>> {
    let [_, index] = &eqn.outputs[..] else {
        return Err(eqn.broken("not two results").into());
    };
    Ok(vec![values, indices.cast(index.dtype)])
}
