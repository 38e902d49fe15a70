//! `scan`, and `fori_loop` where its bounds are known.

use std::sync::Arc;

use jaxpr::Jaxpr;
use onnx::{Attr, DType, Dim, Expr, OpType, Range, Type};

use super::{groups, inline_body, own_results, types};
use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

/// `carry, yᵢ = body(carry, xᵢ)` for each `i`, forwards or backwards
///
/// With inputs to run over it is ONNX's `Scan`, which has the direction as attributes; without, it is a
/// `Loop` that counts.
pub(crate) fn scan<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let body: Arc<Jaxpr> = eqn.param("jaxpr")?;
    let length: jaxpr::Dim = eqn.param("length")?;
    let reverse: bool = eqn.param("reverse")?;
    let sizes = [eqn.param("num_consts")?, eqn.param("num_carry")?];
    // How it is run and differentiated does not change the numbers.
    eqn.ignore(&["linear", "unroll", "_split_transpose"]);
    let ([consts, initial], inputs) = groups(eqn, sizes)?;
    let length = ctx.dim(&length)?;
    if length.is(0) {
        return Ok(nothing(ctx, eqn, &initial));
    }
    if inputs.is_empty() {
        return count(ctx, eqn, &body, &consts, &initial, &length, reverse);
    }

    let builder = ctx.builder;
    let elements = inputs.iter().map(|input| Type::new(input.dtype(), &input.shape()[1..]));
    let body_inputs: Vec<Type> = types(&initial).into_iter().chain(elements).collect();
    let round = builder.body("scan/body", &body_inputs, |arguments| -> Result<_> {
        let results = inline_body(ctx, "scan", &body, &consts, arguments)?;
        Ok(own_results(builder, results))
    })?;
    let mut attrs =
        vec![("body", Attr::from(round)), ("num_scan_inputs", Attr::Int(inputs.len() as i64))];
    if reverse {
        let outputs = eqn.outputs.len() - initial.len();
        attrs.push(("scan_input_directions", vec![1; inputs.len()][..].into()));
        if outputs > 0 {
            attrs.push(("scan_output_directions", vec![1; outputs][..].into()));
        }
    }
    let operands: Vec<Option<Expr<'g>>> = initial.into_iter().chain(inputs).map(Some).collect();
    Ok(builder.nodes(OpType::Scan, &operands, attrs, &eqn.outputs))
}

/// A scan of no rounds: the carry as it was, and outputs without an element.
fn nothing<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>, initial: &[Expr<'g>]) -> Vec<Expr<'g>> {
    let empty = eqn.outputs[initial.len()..].iter().map(|output| {
        let zero = ctx.builder.constant_ints(output.dtype, &[], &[0]);
        zero.expand(&output.shape)
    });
    initial.iter().copied().chain(empty).collect()
}

/// A scan over nothing: `length` rounds of a `Loop`.
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
    let round = builder.body(
        "scan/body",
        &[&counter[..], &types(initial)].concat(),
        |inputs| -> Result<_> {
            let results = inline_body(ctx, "scan", body, consts, &inputs[2..])?;
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
    let attrs = vec![("body", Attr::from(round))];
    let mut results = builder.nodes(OpType::Loop, &operands, attrs, &eqn.outputs);
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
