//! Lowers padding: around an array, between its elements, and negative.

use onnx::{Dim, Expr, OpType, Range};

use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

/// `low` elements before, `high` behind and `interior` between each two; a negative `low` or `high`
/// takes elements away
pub(crate) fn pad<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let config: Vec<(i64, i64, i64)> = eqn.param("padding_config")?;
    let [x, value] = eqn.operands()?;
    let shape = &eqn.output()?.shape;

    let mut padded = x;
    for (axis, &(_, _, interior)) in config.iter().enumerate() {
        if interior > 0 {
            padded = pad_between(ctx, eqn, padded, axis, interior, value)?;
        }
    }
    let around = |of: fn(&(i64, i64, i64)) -> i64| config.iter().map(move |axis| of(axis).max(0));
    let amounts: Vec<i64> = around(|axis| axis.0).chain(around(|axis| axis.1)).collect();
    let cut = config.iter().any(|axis| axis.0 < 0 || axis.1 < 0);
    if amounts.iter().any(|&amount| amount > 0) {
        let shape = if cut { grown(ctx, &padded.shape(), &config) } else { shape.to_vec() };
        padded = pad_by(padded, &amounts, value, &shape);
    }
    if !cut {
        return Ok(padded);
    }
    let ranges: Vec<Range> = config
        .iter()
        .map(|&(low, high, _)| Range {
            start: Dim::Known((-low).max(0)),
            end: Dim::Known(if high < 0 { high } else { i64::MAX }),
            step: 1,
        })
        .collect();
    Ok(padded.slice(&ranges, shape))
}

/// Adds `interior` elements after each element, along a new axis that is then joined; those after
/// the last are cut off.
fn pad_between<'g>(
    ctx: &Ctx<'g>,
    eqn: &Eqn<'g, '_>,
    x: Expr<'g>,
    axis: usize,
    interior: i64,
    value: Expr<'g>,
) -> Result<Expr<'g>> {
    let Some(size) = x.shape()[axis].known() else {
        let what = format!("interior padding of {} along an axis of unknown size", eqn.primitive);
        return Err(crate::Refused::NoCounterpart { what }.into());
    };
    if size < 2 {
        return Ok(x);
    }
    let apart = x.unsqueeze(&[axis + 1]);
    let mut shape = apart.shape().to_vec();
    shape[axis + 1] = Dim::Known(1 + interior);
    let mut amounts = vec![0; 2 * shape.len()];
    amounts[shape.len() + axis + 1] = interior;
    let spread = pad_by(apart, &amounts, value, &shape);
    let mut joined = x.shape().to_vec();
    joined[axis] = ctx.builder.product(&shape[axis..=axis + 1]);
    let joined = spread.reshape(&joined);
    Ok(joined.slice_axis(axis, 0, size + (size - 1) * interior))
}

fn pad_by<'g>(x: Expr<'g>, amounts: &[i64], value: Expr<'g>, shape: &[Dim]) -> Expr<'g> {
    let amounts = x.builder.ints(amounts);
    let ty = onnx::Type::new(x.dtype(), shape);
    x.builder.node(OpType::Pad, &[x, amounts, value], Vec::new(), ty)
}

/// Returns the shape after what is positive was added, before what is negative is cut.
fn grown(ctx: &Ctx<'_>, shape: &[Dim], config: &[(i64, i64, i64)]) -> Vec<Dim> {
    let added = config.iter().map(|&(low, high, _)| low.max(0) + high.max(0));
    shape.iter().zip(added).map(|(dim, added)| ctx.builder.sum(dim, &added.into())).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn around_is_one_pad() {
        check(
            "x:f32[3] v:f32[] -> y:f32[6] = pad{padding_config=[(1, 2, 0)]} x v",
            expect![[r"
                graph test(in_0:f32[3], in_1:f32[]) -> (out_0)
                out_0:f32[6] = Pad(in_0, [1, 2]:i64, in_1)
            "]],
        );
    }

    #[test]
    fn negative_is_a_slice() {
        check(
            "x:f32[5] v:f32[] -> y:f32[2] = pad{padding_config=[(-1, -2, 0)]} x v",
            expect![[r"
                graph test(in_0:f32[5], in_1:f32[]) -> (out_0)
                out_0:f32[2] = Slice(in_0, [1]:i64, [-2]:i64, [0]:i64)
            "]],
        );
    }

    #[test]
    fn between_is_an_axis_of_its_own() {
        check(
            "x:f32[3] v:f32[] -> y:f32[7] = pad{padding_config=[(0, 0, 2)]} x v",
            expect![[r"
                graph test(in_0:f32[3], in_1:f32[]) -> (out_0)
                %0 = Unsqueeze(in_0, [1]:i64)
                %1 = Pad(%0, [0, 0, 0, 2]:i64, in_1)
                %2 = Reshape(%1, [9]:i64)
                out_0:f32[7] = Slice(%2, [0]:i64, [7]:i64, [0]:i64)
            "]],
        );
    }

    #[test]
    fn one_element_has_nothing_between() {
        check(
            "x:f32[1] v:f32[] -> y:f32[3] = pad{padding_config=[(1, 1, 4)]} x v",
            expect![[r"
                graph test(in_0:f32[1], in_1:f32[]) -> (out_0)
                out_0:f32[3] = Pad(in_0, [1, 1]:i64, in_1)
            "]],
        );
    }

    #[test]
    fn negative_and_positive_pads_first() {
        check(
            "x:f32[5] v:f32[] -> y:f32[6] = pad{padding_config=[(-1, 2, 0)]} x v",
            expect![[r"
                graph test(in_0:f32[5], in_1:f32[]) -> (out_0)
                %0 = Pad(in_0, [0, 2]:i64, in_1)
                out_0:f32[6] = Slice(%0, [1]:i64, [9223372036854775807]:i64, [0]:i64)
            "]],
        );
    }

    #[test]
    fn between_needs_a_known_size() {
        check(
            "x:f32[B] v:f32[] -> y:f32[2*B-1] = pad{padding_config=[(0, 0, 1)]} x v",
            expect![[r"
                refused: `interior padding of pad along an axis of unknown size` has no ONNX counterpart
            "]],
        );
    }
}
