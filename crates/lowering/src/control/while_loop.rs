//! Lowers `while_loop`, and `fori_loop` with unknown bounds.

use std::sync::Arc;

use jaxpr::Jaxpr;
use onnx::pairs::Round;
use onnx::{Attr, DType, Expr, OpType, Type};

use super::{groups, inline_body};
use crate::bodies::{own_results, types};
use crate::ctx::{Body, Ctx, Eqn};
use crate::error::Result;
use crate::reduce::of_flags;

/// `while condition(carry): carry = body(carry)`
///
/// `Loop` reads a flag before each iteration: at first the condition on the initial carry, then the
/// condition on the carry that the body returned. Under `vmap`, the condition has batch axes: the
/// loop continues while any element is true, and the carry changes only where it is true.
pub(crate) fn while_loop<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let condition: Arc<Jaxpr> = eqn.param("cond_jaxpr")?;
    let body: Arc<Jaxpr> = eqn.param("body_jaxpr")?;
    let sizes = [eqn.param("cond_nconsts")?, eqn.param("body_nconsts")?];
    let ([condition_consts, body_consts], initial) = groups(eqn, sizes)?;

    let builder = ctx.builder;
    let holds = |round: Round, carry: &[Expr<'g>]| -> Result<Expr<'g>> {
        let part = Body::of_loop("cond_jaxpr", round);
        let flags = inline_body(ctx, "while/cond", part, &condition, &condition_consts, carry)?;
        Ok(flags.first().copied().ok_or_else(|| eqn.broken("no condition"))?)
    };
    let first = holds(Round::At(0), &initial)?;
    let counter = [Type::new(DType::I64, []), Type::new(DType::Bool, [])];
    let inputs = [&counter[..], &types(&initial)].concat();
    let body_graph = builder.body("while/body", &inputs, |inputs| -> Result<_> {
        let before = &inputs[2..];
        let part = Body::of_loop("body_jaxpr", Round::Each);
        let mut carry = inline_body(ctx, "while/body", part, &body, &body_consts, before)?;
        if first.rank() > 0 {
            let holds = holds(Round::Each, before)?;
            let pairs = before.iter().zip(&carry);
            carry = pairs.map(|(&old, &new)| where_holds(holds, new, old)).collect();
        }
        let goes_on = any(holds(Round::Next, &carry)?);
        Ok(own_results(builder, [&[goes_on], &carry[..]].concat()))
    })?;
    let operands: Vec<Option<Expr<'g>>> =
        [None, Some(any(first))].into_iter().chain(initial.into_iter().map(Some)).collect();
    let attrs = vec![("body", Attr::from(body_graph))];
    Ok(builder.nodes(OpType::Loop, &operands, attrs, eqn.outputs.len()))
}

fn any(flags: Expr<'_>) -> Expr<'_> {
    let axes: Vec<usize> = (0..flags.rank()).collect();
    of_flags(flags, OpType::ReduceMax, &axes)
}

/// Selects between values by flags that have only the leading axes of the values.
fn where_holds<'g>(holds: Expr<'g>, new: Expr<'g>, old: Expr<'g>) -> Expr<'g> {
    let trailing: Vec<usize> = (holds.rank()..new.rank()).collect();
    holds.unsqueeze(&trailing).select(new, old)
}
