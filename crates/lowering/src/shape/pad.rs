//! Lowers padding around an array, between its elements, and with negative amounts.

use onnx::{Dim, Expr, OpType, Range};

use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

/// Adds `low` elements before, `high` after, and `interior` between the elements of each axis; a
/// negative `low` or `high` removes elements.
pub(crate) fn pad<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let config: Vec<(Dim, Dim, i64)> = eqn.param("padding_config")?;
    let mut sides = Vec::new();
    for (low, high, _) in &config {
        sides.push((ctx.dim(low)?, ctx.dim(high)?));
    }
    let [x, value] = eqn.operands()?;
    let mut padded = x;
    for (axis, &(_, _, interior)) in config.iter().enumerate() {
        if interior > 0 {
            padded = pad_between(padded, axis, interior, value);
        }
    }
    Ok(pad_around(padded, &sides, Some(value), &eqn.output()?.shape))
}

/// Adds elements before and after the elements of each axis, by default zeros. A negative amount
/// removes elements.
#[track_caller]
pub(crate) fn pad_around<'g>(
    x: Expr<'g>,
    sides: &[(Dim, Dim)],
    value: Option<Expr<'g>>,
    shape: &[Dim],
) -> Expr<'g> {
    let builder = x.builder;
    let added = |side: &Dim| builder.at_least(side, 0);
    let amounts: Vec<(Dim, Dim)> =
        sides.iter().map(|(low, high)| (added(low), added(high))).collect();
    let cuts = |side: &Dim| !side.is_at_least(0);
    let is_cut = sides.iter().any(|(low, high)| cuts(low) || cuts(high));
    let mut padded = x;
    if amounts.iter().any(|(low, high)| !low.is(0) || !high.is(0)) {
        let grown =
            |(dim, (low, high)): (&Dim, &(Dim, Dim))| builder.sum(dim, &builder.sum(low, high));
        let grown = if is_cut {
            x.shape().iter().zip(&amounts).map(grown).collect()
        } else {
            shape.to_vec()
        };
        let lows = amounts.iter().map(|(low, _)| low.clone());
        let amounts: Vec<Dim> = lows.chain(amounts.iter().map(|(_, high)| high.clone())).collect();
        padded = pad_by(x, &amounts, value, &grown);
    }
    if !is_cut {
        return padded;
    }
    let ranges: Vec<Range> = sides
        .iter()
        .zip(shape)
        .map(|((low, high), size)| {
            let start = added(&builder.difference(&Dim::Known(0), low));
            let end = match high {
                Dim::Known(..0) => high.clone(),
                _ if high.is_at_least(0) => Dim::Known(i64::MAX),
                _ => builder.sum(&start, size),
            };
            Range { start, end, step: 1 }
        })
        .collect();
    padded.slice(&ranges, shape)
}

/// Adds `interior` elements after each element, along a new axis that is then merged with `axis`,
/// and removes those after the last element.
fn pad_between<'g>(x: Expr<'g>, axis: usize, interior: i64, value: Expr<'g>) -> Expr<'g> {
    let builder = x.builder;
    let size = &x.shape()[axis];
    if matches!(size, Dim::Known(..2)) {
        return x;
    }
    let apart = x.unsqueeze(&[axis + 1]);
    let mut shape = apart.shape().to_vec();
    shape[axis + 1] = Dim::Known(1 + interior);
    let mut amounts = vec![Dim::Known(0); 2 * shape.len()];
    amounts[shape.len() + axis + 1] = Dim::Known(interior);
    let spread = pad_by(apart, &amounts, Some(value), &shape);
    let mut joined = x.shape().to_vec();
    joined[axis] = builder.product(&shape[axis..=axis + 1]);
    let spread = spread.reshape(&joined);
    joined[axis] = builder.difference(&joined[axis], &Dim::Known(interior));
    let mut ranges = vec![Range::whole(); joined.len()];
    // If the end is relative to the size, an empty axis stays empty.
    let end = if size.known().is_some() { joined[axis].clone() } else { Dim::Known(-interior) };
    ranges[axis].end = end;
    spread.slice(&ranges, &joined)
}

#[track_caller]
fn pad_by<'g>(x: Expr<'g>, amounts: &[Dim], value: Option<Expr<'g>>, shape: &[Dim]) -> Expr<'g> {
    let amounts = x.builder.sizes(amounts);
    let inputs: Vec<Expr<'g>> = [x, amounts].into_iter().chain(value).collect();
    x.builder.sized_node(OpType::Pad, &inputs, Vec::new(), shape)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn padding_around_an_array_is_one_pad() {
        check(
            "x:f32[3] v:f32[] -> y:f32[6] = pad{padding_config=[(1, 2, 0)]} x v",
            expect![[r"
                graph test(in_0:f32[3], in_1:f32[]) -> (out_0)
                out_0:f32[6] = Pad(in_0, [1, 2]:i64, in_1)
            "]],
        );
    }

    #[test]
    fn negative_padding_is_a_slice() {
        check(
            "x:f32[5] v:f32[] -> y:f32[2] = pad{padding_config=[(-1, -2, 0)]} x v",
            expect![[r"
                graph test(in_0:f32[5], in_1:f32[]) -> (out_0)
                out_0:f32[2] = Slice(in_0, [1]:i64, [-2]:i64, [0]:i64)
            "]],
        );
    }

    #[test]
    fn padding_between_elements_uses_a_new_axis() {
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
    fn one_element_needs_no_padding_between() {
        check(
            "x:f32[1] v:f32[] -> y:f32[3] = pad{padding_config=[(1, 1, 4)]} x v",
            expect![[r"
                graph test(in_0:f32[1], in_1:f32[]) -> (out_0)
                out_0:f32[3] = Pad(in_0, [1, 1]:i64, in_1)
            "]],
        );
    }

    #[test]
    fn negative_and_positive_padding_pads_first() {
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
    fn padding_between_elements_of_a_symbolic_axis_is_the_same() {
        check(
            "x:f32[B] v:f32[] -> y:f32[2*B-1] = pad{padding_config=[(0, 0, 1)]} x v",
            expect![[r#"
                graph test(in_0:f32[B], in_1:f32[]) -> (out_0)
                %0 = Unsqueeze(in_0, [1]:i64)
                %1 = Pad(%0, [0, 0, 0, 1]:i64, in_1)
                %2 = Reshape(%1, [-1]:i64)
                out_0:f32[2*B - 1] = Slice(%2, [0]:i64, [-1]:i64, [0]:i64)
            "#]],
        );
    }

    #[test]
    fn a_symbolic_amount_is_computed() {
        check(
            "x:f32[A] n:f32[B] v:f32[] -> y:f32[A+B] = pad{padding_config=[(B, 0, 0)]} x v",
            expect![[r#"
                graph test(in_0:f32[A], in_1:f32[B], in_2:f32[]) -> (out_0)
                %0 = Shape(in_1) {end=1, start=0}
                %1 = Squeeze(%0, [0]:i64)
                %2 = Unsqueeze(%1, [0]:i64)
                %3 = Concat(%2, [0]:i64) {axis=0}
                out_0:f32[B + A] = Pad(in_0, %3, in_2)
            "#]],
        );
    }

    #[test]
    fn a_symbolic_amount_that_may_be_negative_is_added_or_cut() {
        check(
            "x:f32[A] n:f32[B] v:f32[] -> y:f32[A+B-3] = pad{padding_config=[(0, B-3, 0)]} x v",
            expect![[r#"
                graph test(in_0:f32[A], in_1:f32[B], in_2:f32[]) -> (out_0)
                %0 = Shape(in_1) {end=1, start=0}
                %1 = Squeeze(%0, [0]:i64)
                %2 = Sub(%1, 3:i64)
                %3 = Greater(%2, 0:i64)
                %4 = Where(%3, %2, 0:i64)
                %5 = Unsqueeze(%4, [0]:i64)
                %6 = Concat([0]:i64, %5) {axis=0}
                %7 = Pad(in_0, %6, in_2)
                %8 = Shape(in_0) {end=1, start=0}
                %9 = Squeeze(%8, [0]:i64)
                %10 = Add(%1, %9)
                %11 = Sub(%10, 3:i64)
                %12 = Unsqueeze(%11, [0]:i64)
                out_0:f32[B + A - 3] = Slice(%7, [0]:i64, %12, [0]:i64)
            "#]],
        );
    }
}
