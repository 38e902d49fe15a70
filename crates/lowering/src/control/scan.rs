//! Lowers `scan`, and `fori_loop` with known bounds.

use std::sync::Arc;

use jaxpr::Jaxpr;
use onnx::pairs::Round;
use onnx::{Attr, DType, Dim, Expr, OpType, Range, Type};

use super::search::Search;
use super::{groups, inline_body};
use crate::bodies::{own_results, types};
use crate::ctx::{Body, Ctx, Eqn};
use crate::error::Result;

/// `carry, yᵢ = body(carry, xᵢ)` for each `i`, forwards or backwards
///
/// With arrays to scan over, this becomes an ONNX `Scan`, whose attributes set the direction;
/// without, it becomes a `Loop` that counts. ONNX Runtime fails on a `Scan` without iterations, and
/// a `Loop` without iterations loses symbolic sizes. Therefore, if the length is symbolic, an `If`
/// returns the initial carry and empty outputs in this case.
pub(crate) fn scan<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let body: Arc<Jaxpr> = eqn.param("jaxpr")?;
    let length: Dim = eqn.param("length")?;
    let reverse: bool = eqn.param("reverse")?;
    let sizes = [eqn.param("num_consts")?, eqn.param("num_carry")?];
    // Hints for compilation and differentiation do not change the numbers.
    eqn.ignore(&["linear", "unroll", "_split_transpose"]);
    let ([consts, initial], inputs) = groups(eqn, sizes)?;
    let length = ctx.dim(&length)?;
    if length.is(0) {
        return Ok(no_iterations(ctx, eqn, &initial));
    }
    let iterate = || match inputs[..] {
        [] => count(ctx, eqn, &body, &consts, &initial, &length, reverse),
        _ => run_over(ctx, eqn, &body, &consts, &initial, &inputs, reverse),
    };
    if length.known().is_some() {
        let mut results = iterate()?;
        // Nothing reads the other bound, so the loop is dead.
        let search = inputs.is_empty().then(|| Search::of(&body, &consts, &initial, &length));
        if let (Some(search), [_, high]) = (search.flatten(), &mut results[..]) {
            *high = search.result().cast(high.dtype());
        }
        return Ok(results);
    }
    let builder = ctx.builder;
    let some = builder.body("scan/rounds", &[], |_| iterate())?;
    let none = builder.body("scan/nothing", &[], |_| -> Result<_> {
        Ok(own_results(builder, no_iterations(ctx, eqn, &initial)))
    })?;
    let is_positive = builder.size(&length).greater(0.0);
    let attrs = vec![("else_branch", Attr::from(none)), ("then_branch", Attr::from(some))];
    Ok(builder.nodes(OpType::If, &[Some(is_positive)], attrs, eqn.outputs.len()))
}

/// Lowers a scan over arrays to an ONNX `Scan`.
fn run_over<'g>(
    ctx: &Ctx<'g>,
    eqn: &Eqn<'g, '_>,
    body: &Jaxpr,
    consts: &[Expr<'g>],
    initial: &[Expr<'g>],
    inputs: &[Expr<'g>],
    reverse: bool,
) -> Result<Vec<Expr<'g>>> {
    let builder = ctx.builder;
    let elements = inputs.iter().map(|input| Type::new(input.dtype(), &input.shape()[1..]));
    let body_inputs: Vec<Type> = types(initial).into_iter().chain(elements).collect();
    let body_graph = builder.body("scan/body", &body_inputs, |arguments| -> Result<_> {
        let results =
            inline_body(ctx, "scan", Body::of_loop("jaxpr", Round::Each), body, consts, arguments)?;
        Ok(own_results(builder, results))
    })?;
    let mut attrs =
        vec![("body", Attr::from(body_graph)), ("num_scan_inputs", Attr::Int(inputs.len() as i64))];
    if reverse {
        let outputs = eqn.outputs.len() - initial.len();
        attrs.push(("scan_input_directions", vec![1; inputs.len()][..].into()));
        if outputs > 0 {
            attrs.push(("scan_output_directions", vec![1; outputs][..].into()));
        }
    }
    let operands: Vec<Option<Expr<'g>>> = initial.iter().chain(inputs).copied().map(Some).collect();
    Ok(builder.nodes(OpType::Scan, &operands, attrs, eqn.outputs.len()))
}

/// Lowers a scan without iterations: returns the initial carry and empty outputs.
fn no_iterations<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>, initial: &[Expr<'g>]) -> Vec<Expr<'g>> {
    let empty = eqn.outputs[initial.len()..].iter().map(|output| {
        let zero = ctx.builder.constant_ints(output.dtype, &[], &[0]);
        zero.expand(&output.shape)
    });
    initial.iter().copied().chain(empty).collect()
}

/// Lowers a scan without arrays to `length` iterations of a `Loop`.
fn count<'g>(
    ctx: &Ctx<'g>,
    eqn: &Eqn<'g, '_>,
    body: &Jaxpr,
    consts: &[Expr<'g>],
    initial: &[Expr<'g>],
    length: &Dim,
    reverse: bool,
) -> Result<Vec<Expr<'g>>> {
    let builder = ctx.builder;
    let counter = [Type::new(DType::I64, []), Type::new(DType::Bool, [])];
    let body_graph = builder.body(
        "scan/body",
        &[&counter[..], &types(initial)].concat(),
        |inputs| -> Result<_> {
            let results = inline_body(
                ctx,
                "scan",
                Body::of_loop("jaxpr", Round::Each),
                body,
                consts,
                &inputs[2..],
            )?;
            let results = [&[inputs[1]], &results[..]].concat();
            Ok(own_results(builder, results))
        },
    )?;
    let goes_on = builder.constant_ints(DType::Bool, &[], &[1]);
    let operands: Vec<Option<Expr<'g>>> = [builder.size(length), goes_on]
        .into_iter()
        .chain(initial.iter().copied())
        .map(Some)
        .collect();
    let attrs = vec![("body", Attr::from(body_graph))];
    let mut results = builder.nodes(OpType::Loop, &operands, attrs, eqn.outputs.len());
    if reverse {
        for output in results.iter_mut().skip(initial.len()) {
            *output = backwards(*output);
        }
    }
    Ok(results)
}

fn backwards(x: Expr<'_>) -> Expr<'_> {
    let whole = (1..x.rank()).map(|_| Range::whole());
    let ranges: Vec<Range> = std::iter::once(Range::backwards()).chain(whole).collect();
    x.slice(&ranges, &x.shape())
}
