//! Lowers branches and loops. Bodies become separate graphs that can read the values around them.

mod cond;
mod scan;
mod until;
mod while_loop;

pub(crate) use cond::{cond, platform_index};
pub(crate) use scan::scan;
pub(crate) use until::until_all;
pub(crate) use while_loop::while_loop;

use jaxpr::Jaxpr;
use onnx::{Builder, Expr, Type};

use crate::Refused;
use crate::ctx::{Body, Ctx, Eqn};
use crate::error::Result;

/// Returns the types of values, as the inputs of a body.
pub(crate) fn types(values: &[Expr<'_>]) -> Vec<Type> {
    values.iter().map(|value| value.ty()).collect()
}

/// Splits the operands of an equation into groups of the given sizes, and the rest.
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

/// Returns the results of a body, each a value that the body makes itself: one of its surroundings,
/// a constant, one of its inputs or a result that stands twice is copied.
#[track_caller]
pub(crate) fn own_results<'g>(builder: &'g Builder, results: Vec<Expr<'g>>) -> Vec<Expr<'g>> {
    own_results_by(builder, results, |result| result.identity())
}

/// Does the same as [`own_results`], with a given node that copies.
pub(crate) fn own_results_by<'g>(
    builder: &'g Builder,
    results: Vec<Expr<'g>>,
    copy: impl Fn(Expr<'g>) -> Expr<'g>,
) -> Vec<Expr<'g>> {
    let mut taken = Vec::new();
    let own = |result: Expr<'g>| {
        let is_own = builder.makes(result.id) && !taken.contains(&result.id);
        let own = if is_own { result } else { copy(result) };
        taken.push(own.id);
        own
    };
    results.into_iter().map(own).collect()
}

/// Lowers a jaxpr as a body of its own, whose inputs stand behind `outside` among its arguments.
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
