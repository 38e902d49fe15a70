//! Reduces axes and windows with the user's function.

use std::sync::Arc;

use jaxpr::{Atom, Jaxpr};
use onnx::{Dim, Expr};

use super::{over_windows, slides};
use crate::bodies::joined_to_one;
use crate::ctx::{Ctx, Eqn};
use crate::error::{Refused, Result};
use crate::reduce::Monoid;

/// `reduce((x, y, …), (x₀, y₀, …), op)`: joins the elements along the axes and the initial values
/// with `op`
///
/// JAX requires that `op` is associative, so the elements of an axis are joined pairwise. XLA
/// assumes that the initial values are identities of `op`, and returns a single element without
/// them.
pub(crate) fn reduce<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let axes: Vec<usize> = eqn.param("dimensions")?;
    let body: Arc<Jaxpr> = eqn.param("jaxpr")?;
    // The body is the jaxpr of the function.
    eqn.ignore(&["computation"]);
    let (arrays, initial) = halves_of(eqn)?;
    let shape = arrays.first().map(|x| x.shape()).unwrap_or_default();
    let reduced: Vec<Dim> = axes.iter().filter_map(|&axis| shape.get(axis).cloned()).collect();
    let count = ctx.builder.product(&reduced);
    if count == Dim::Known(1) {
        return Ok(arrays.iter().map(|x| x.squeeze(&axes)).collect());
    }
    if let (Some(monoid), [x], [initial]) = (monoid_of(&body), &arrays[..], &initial[..]) {
        let joined = monoid.reduce(eqn, *x, &axes)?;
        let whole = with_initial(monoid, *initial, joined);
        if whole.id == joined.id || count.known().is_some() {
            return Ok(vec![whole]);
        }
        let is_one = ctx.builder.size(&count).equal(1.0);
        return Ok(vec![is_one.select(joined, whole)]);
    }
    let mut joined = arrays;
    for &axis in &axes {
        joined = along_axis(ctx, eqn, &body, joined, axis, &initial)?;
    }
    let joined: Vec<Expr<'g>> = joined.iter().map(|x| x.squeeze(&axes)).collect();
    let whole = apply(ctx, eqn, &body, &initial, &joined)?;
    if count.known().is_some() {
        return Ok(whole);
    }
    let is_one = ctx.builder.size(&count).equal(1.0);
    Ok(joined.iter().zip(whole).map(|(joined, whole)| is_one.select(*joined, whole)).collect())
}

/// `reduce_window((x, y, …), (x₀, y₀, …), op)`: joins the elements of each window and the initial
/// values with `op`
pub(crate) fn reduce_window<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let slides = slides(ctx, eqn)?;
    let body: Arc<Jaxpr> = eqn.param("jaxpr")?;
    let constants: Option<Vec<jaxpr::Param>> = eqn.optional("consts")?;
    if constants.is_some_and(|constants| !constants.is_empty()) {
        let what = "reduce_window with an operation that closes over arrays".into();
        return Err(Refused::NoCounterpart { what }.into());
    }
    let (arrays, initial) = halves_of(eqn)?;
    if let (Some(monoid), [x], [initial]) = (monoid_of(&body), &arrays[..], &initial[..]) {
        let joined = over_windows(eqn, *x, &slides, monoid)?;
        return Ok(vec![with_initial(monoid, *initial, joined)]);
    }
    let shape = eqn.output()?.shape.clone();
    let mut joined = arrays;
    for (axis, slide) in slides.iter().enumerate().filter(|(_, slide)| !slide.is_trivial()) {
        let filled = joined.iter().zip(&initial);
        joined = filled.map(|(x, fill)| slide.windows(*x, axis, &shape[axis], *fill)).collect();
        joined = along_axis(ctx, eqn, &body, joined, axis + 1, &initial)?;
        joined = joined.iter().map(|x| x.squeeze(&[axis + 1])).collect();
    }
    apply(ctx, eqn, &body, &initial, &joined)
}

/// Returns the arrays and their initial values.
fn halves_of<'g>(eqn: &Eqn<'g, '_>) -> Result<(Vec<Expr<'g>>, Vec<Expr<'g>>)> {
    if eqn.inputs.len() % 2 == 1 || eqn.inputs.is_empty() {
        return Err(eqn.broken("it does not have one initial value per array").into());
    }
    let (arrays, initial) = eqn.inputs.split_at(eqn.inputs.len() / 2);
    Ok((arrays.to_vec(), initial.to_vec()))
}

/// Returns the operation, if the body consists of this operation alone.
fn monoid_of(body: &Jaxpr) -> Option<Monoid> {
    let ([eqn], [Atom::Var(result)]) = (&body.eqns[..], &body.outputs[..]) else {
        return None;
    };
    let [Atom::Var(x), Atom::Var(y)] = &eqn.inputs[..] else {
        return None;
    };
    let is_of_inputs = body.inputs == [*x, *y] || body.inputs == [*y, *x];
    let is_result = eqn.outputs[..] == [*result];
    if is_of_inputs && is_result { Monoid::of(&eqn.primitive) } else { None }
}

/// Joins the result with the initial value, unless the initial value is the identity.
fn with_initial<'g>(monoid: Monoid, initial: Expr<'g>, joined: Expr<'g>) -> Expr<'g> {
    let identity = monoid.identity(initial);
    let is_identity = match (initial.tensor(), identity.tensor()) {
        (Some(initial), Some(identity)) => initial == identity,
        _ => false,
    };
    if is_identity { joined } else { monoid.join(initial, joined) }
}

/// Joins neighboring elements along an axis until one is left.
fn along_axis<'g>(
    ctx: &Ctx<'g>,
    eqn: &Eqn<'g, '_>,
    body: &Jaxpr,
    arrays: Vec<Expr<'g>>,
    axis: usize,
    initial: &[Expr<'g>],
) -> Result<Vec<Expr<'g>>> {
    let Some(mut size) = arrays.first().and_then(|x| x.shape()[axis].known()) else {
        let join = |lefts: &[Expr<'g>], rights: &[Expr<'g>]| apply(ctx, eqn, body, lefts, rights);
        return joined_to_one(eqn.primitive, &arrays, axis, initial, join);
    };
    if size == 0 {
        let one = |(x, initial): (&Expr<'g>, &Expr<'g>)| {
            let mut shape = x.shape().to_vec();
            shape[axis] = Dim::Known(1);
            initial.expand(&shape)
        };
        return Ok(arrays.iter().zip(initial).map(one).collect());
    }
    let mut rest = arrays;
    while size > 1 {
        // Joining neighbors keeps the order.
        let pairs = size / 2;
        let every_second = |start: i64| -> Vec<Expr<'g>> {
            rest.iter().map(|x| every_second(*x, axis, start, pairs)).collect()
        };
        let joined = apply(ctx, eqn, body, &every_second(0), &every_second(1))?;
        rest = if size % 2 == 0 {
            joined
        } else {
            let last = rest.iter().map(|x| x.slice_axis(axis, size - 1, size));
            joined.iter().zip(last).map(|(x, last)| Expr::concat(&[*x, last], axis)).collect()
        };
        size = pairs + size % 2;
    }
    Ok(rest)
}

/// Returns elements `start`, `start + 2`, … of an axis, `count` of them.
fn every_second(x: Expr<'_>, axis: usize, start: i64, count: i64) -> Expr<'_> {
    let mut shape = x.shape().to_vec();
    shape[axis] = Dim::Known(count);
    let mut ranges = vec![onnx::Range::whole(); shape.len()];
    ranges[axis] =
        onnx::Range { start: start.into(), end: (start + 2 * count - 1).into(), step: 2 };
    x.slice(&ranges, &shape)
}

/// Applies the body, which takes scalars, to each element of arrays. Initial values broadcast.
fn apply<'g>(
    ctx: &Ctx<'g>,
    eqn: &Eqn<'g, '_>,
    body: &Jaxpr,
    lefts: &[Expr<'g>],
    rights: &[Expr<'g>],
) -> Result<Vec<Expr<'g>>> {
    if !ctx.is_elementwise(body) {
        let what = format!("{} with an operation that is not elementwise", eqn.primitive);
        return Err(Refused::NoCounterpart { what }.into());
    }
    let shape = rights.first().map(|x| x.shape()).unwrap_or_default();
    let arguments: Vec<Expr<'g>> = lefts.iter().chain(rights).map(|x| x.expand(&shape)).collect();
    let results = ctx.inline_on_each(eqn.primitive, body, &arguments, &shape)?;
    Ok(results.iter().map(|x| x.expand(&shape)).collect())
}
