//! `cond` and `switch`.

use std::sync::Arc;

use jaxpr::{Jaxpr, Param};
use onnx::{Attr, DType, Expr, OpType};

use crate::bodies::own_results;
use crate::ctx::{Body, Ctx, Eqn};
use crate::error::{Refused, Result};

/// `branches[index](operands…)`
///
/// Of two branches, the second is taken where the index is not zero; more are a chain of choices.
/// The index is in range: JAX clamps it before.
pub(crate) fn cond<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let branches: Vec<Arc<Jaxpr>> = eqn.param("branches")?;
    eqn.ignore(&["branches_platforms", "linear"]);
    let Some((&index, operands)) = eqn.inputs.split_first() else {
        return Err(eqn.broken("no index").into());
    };
    // A constant index chooses here; so it is with platforms.
    let known = index.tensor().and_then(|index| index.ints()?.first().copied());
    let known = known.and_then(|place| usize::try_from(place).ok());
    if let Some((place, branch)) = known.and_then(|place| Some((place, branches.get(place)?))) {
        return ctx.inline(&format!("cond/branch_{place}"), Body::branch(place), branch, operands);
    }
    // A branch that raises an exception is a check, which a model leaves out.
    let mut others = branches.iter().enumerate().filter(|(_, branch)| !raises(branch));
    if let (Some((place, branch)), None) = (others.next(), others.next())
        && branches.len() > 1
    {
        ctx.note_dropped();
        return ctx.inline(&format!("cond/branch_{place}"), Body::branch(place), branch, operands);
    }
    choose(ctx, eqn, index, &branches, 0, operands)
}

/// True if a branch raises an exception of equinox, as `equinox.error_if` does.
fn raises(branch: &Jaxpr) -> bool {
    branch.eqns.iter().any(|eqn| match eqn.params.get("callback") {
        Some(Param::Opaque(function)) => {
            &*eqn.primitive == "pure_callback" && function.starts_with("equinox._errors.")
        }
        _ => false,
    })
}

/// Returns the place of the first list that has the platform `cpu`, or has all
///
/// JAX 0.6 says with `has_default` that one more branch follows, for all other platforms.
/// What JAX computes on it is what the model is compared with.
pub(crate) fn platform_index<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let platforms: Vec<Option<Vec<Arc<str>>>> = eqn.param("platforms")?;
    let is_ours = |names: &Option<Vec<Arc<str>>>| {
        names.as_ref().is_none_or(|names| names.iter().any(|name| &**name == "cpu"))
    };
    let has_default = eqn.optional("has_default")?.unwrap_or(false);
    let default = has_default.then_some(platforms.len());
    let Some(place) = platforms.iter().position(is_ours).or(default) else {
        let what = "platform_dependent without a default".into();
        return Err(Refused::NoCounterpart { what }.into());
    };
    Ok(ctx.builder.constant_ints(eqn.output()?.dtype, &[], &[place as i64]))
}

/// Returns the branch `first + i` where the index is that, for all `branches[i]`.
fn choose<'g>(
    ctx: &Ctx<'g>,
    eqn: &Eqn<'g, '_>,
    index: Expr<'g>,
    branches: &[Arc<Jaxpr>],
    first: usize,
    operands: &[Expr<'g>],
) -> Result<Vec<Expr<'g>>> {
    let Some((branch, others)) = branches.split_first() else {
        return Err(eqn.broken("no branches").into());
    };
    let label = format!("cond/branch_{first}");
    if others.is_empty() {
        return ctx.inline(&label, Body::branch(first), branch, operands);
    }
    let builder = ctx.builder;
    let this = builder.body(&label, &[], |_| -> Result<_> {
        Ok(own_results(builder, ctx.inline(&label, Body::branch(first), branch, operands)?))
    })?;
    let rest = builder.body("cond/others", &[], |_| -> Result<_> {
        let results = choose(ctx, eqn, index, others, first + 1, operands)?;
        Ok(own_results(builder, results))
    })?;
    let is_flag = first == 0 && others.len() == 1;
    let (condition, on_true, on_false) = if is_flag {
        (index.cast(DType::Bool), rest, this)
    } else {
        (index.equal(first as f64), this, rest)
    };
    let attrs = vec![("else_branch", Attr::from(on_false)), ("then_branch", Attr::from(on_true))];
    Ok(builder.nodes(OpType::If, &[Some(condition)], attrs, eqn.outputs.len()))
}
