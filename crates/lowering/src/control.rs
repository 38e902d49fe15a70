//! Lowers branches and loops. Their bodies become separate graphs, which can read the values of the
//! enclosing graph.

mod cond;
mod scan;
mod search;
mod while_loop;

pub(crate) use cond::{cond, platform_index};
pub(crate) use scan::scan;
pub(crate) use while_loop::while_loop;

use jaxpr::Jaxpr;
use onnx::Expr;

use crate::ctx::{Body, Ctx, Eqn};
use crate::error::{Refused, Result};

/// Splits the operands of an equation into groups of the given sizes, and returns the remaining
/// operands too.
fn groups<'g, const N: usize>(
    eqn: &Eqn<'g, '_>,
    sizes: [usize; N],
) -> std::result::Result<([Vec<Expr<'g>>; N], Vec<Expr<'g>>), Refused> {
    if sizes.iter().sum::<usize>() > eqn.inputs.len() {
        return Err(eqn.broken("it has fewer operands than its parameters require"));
    }
    let mut rest = eqn.inputs.clone().into_iter();
    let groups = sizes.map(|size| rest.by_ref().take(size).collect());
    Ok((groups, rest.collect()))
}

/// Lowers a jaxpr in a body. Its arguments are `outside`, followed by the inputs of the body.
#[track_caller]
fn inline_body<'g>(
    ctx: &Ctx<'g>,
    label: &str,
    body: Body,
    jaxpr: &Jaxpr,
    outside: &[Expr<'g>],
    inputs: &[Expr<'g>],
) -> Result<Vec<Expr<'g>>> {
    ctx.inline(label, body, jaxpr, &[outside, inputs].concat())
}
