//! `cond` and `switch`.

use std::sync::Arc;

use jaxpr::{Jaxpr, Param};
use onnx::{Attr, DType, Expr, OpType};

use crate::bodies::own_results;
use crate::ctx::{Body, Ctx, Eqn};
use crate::error::{Refused, Result};

/// `branches[index](operands…)`
///
/// With two branches, an index other than zero selects the second one. More branches become a chain
/// of `If` nodes. The index is in range, because JAX clamps it.
pub(crate) fn cond<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let branches: Vec<Arc<Jaxpr>> = eqn.param("branches")?;
    eqn.ignore(&["branches_platforms", "linear"]);
    let Some((&index, operands)) = eqn.inputs.split_first() else {
        return Err(eqn.broken("no index").into());
    };
    // A constant index selects the branch now. The index of a platform is a constant.
    let known = index.tensor().and_then(|index| index.ints()?.first().copied());
    let known = known.and_then(|index| usize::try_from(index).ok());
    if let Some((index, branch)) = known.and_then(|index| Some((index, branches.get(index)?))) {
        return ctx.inline(&format!("cond/branch_{index}"), Body::branch(index), branch, operands);
    }
    // A branch that raises an exception is a check. The model leaves it out.
    let mut others = branches.iter().enumerate().filter(|(_, branch)| !raises(branch));
    if let (Some((index, branch)), None) = (others.next(), others.next())
        && branches.len() > 1
    {
        ctx.note_dropped();
        return ctx.inline(&format!("cond/branch_{index}"), Body::branch(index), branch, operands);
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

/// Returns the index of the first entry that lists the platform `cpu` or stands for all platforms.
///
/// In JAX 0.6, `has_default` means that one more branch follows, for all other platforms. The model
/// follows the CPU, because JAX on the CPU is the reference.
pub(crate) fn platform_index<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let platforms: Vec<Option<Vec<Arc<str>>>> = eqn.param("platforms")?;
    let is_ours = |names: &Option<Vec<Arc<str>>>| {
        names.as_ref().is_none_or(|names| names.iter().any(|name| &**name == "cpu"))
    };
    let has_default = eqn.optional("has_default")?.unwrap_or(false);
    let default = has_default.then_some(platforms.len());
    let Some(index) = platforms.iter().position(is_ours).or(default) else {
        let what = "platform_dependent without a default".into();
        return Err(Refused::NoCounterpart { what }.into());
    };
    Ok(ctx.builder.constant_ints(eqn.output()?.dtype, &[], &[index as i64]))
}

/// Selects `branches[i]` if the index is `first + i`.
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
