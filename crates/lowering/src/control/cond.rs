//! `cond` and `switch`.

use std::sync::Arc;

use jaxpr::Jaxpr;
use onnx::{Attr, Expr};

use super::own_results;
use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

/// `branches[index](operands…)`
///
/// Of two branches, the second is taken where the index is not zero; more are a chain of such choices.
/// The index is in range: JAX clamps it before.
pub(crate) fn cond<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let branches: Vec<Arc<Jaxpr>> = eqn.param("branches")?;
    eqn.ignore(&["linear"]);
    let Some((&index, operands)) = eqn.inputs.split_first() else {
        return Err(eqn.broken("no index").into());
    };
    choose(ctx, eqn, index, &branches, 0, operands)
}

/// The branch `first + i` where the index is that, for all `branches[i]`.
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
        return ctx.inline(&label, branch, operands);
    }
    let builder = ctx.builder;
    let this = builder.body(&label, &[], |_| -> Result<_> {
        Ok(own_results(builder, ctx.inline(&label, branch, operands)?))
    })?;
    let rest = builder.body("cond/others", &[], |_| -> Result<_> {
        let results = choose(ctx, eqn, index, others, first + 1, operands)?;
        Ok(own_results(builder, results))
    })?;
    let attrs = vec![("else_branch", Attr::from(rest)), ("then_branch", Attr::from(this))];
    Ok(builder.nodes("If", &[Some(index.equal(first as f64))], attrs, &eqn.outputs))
}
