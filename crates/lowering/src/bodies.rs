//! Builds the bodies of branches and loops, loops that run until every element of an array is done, and loops that join
//! the elements of an axis.

use std::convert::Infallible;

use onnx::{Attr, Builder, DType, Dim, Expr, OpType, Type};

use crate::error::Result;

/// Returns the types of values, for the inputs of a body.
pub(crate) fn types(values: &[Expr<'_>]) -> Vec<Type> {
    values.iter().map(|value| value.ty()).collect()
}

/// Returns the results of a body, each as a value that the body computes itself. Copies a value
/// from outside the body, a constant, an input of the body, or a duplicate result.
#[track_caller]
pub(crate) fn own_results<'g>(builder: &'g Builder, results: Vec<Expr<'g>>) -> Vec<Expr<'g>> {
    own_results_by(builder, results, |result| result.identity())
}

/// Does the same as [`own_results`], and copies with `copy`.
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

/// Runs `step` until `is_open` is false for all elements. Elements for which it is false keep their
/// state.
pub(crate) fn until_all<'g, const N: usize>(
    label: &str,
    initial: [Expr<'g>; N],
    is_open: impl Fn([Expr<'g>; N]) -> Expr<'g>,
    step: impl Fn([Expr<'g>; N]) -> [Expr<'g>; N],
) -> [Expr<'g>; N] {
    let builder = initial[0].builder;
    let states = initial.map(Expr::ty);
    let counter = [Type::new(DType::I64, []), Type::new(DType::Bool, [])];
    let Ok(body) = builder.body(label, &[&counter[..], &states[..]].concat(), |inputs| {
        let before: [Expr<'g>; N] = std::array::from_fn(|i| inputs[i + 2]);
        let open = is_open(before);
        let next = step(before);
        let after: [Expr<'g>; N] = std::array::from_fn(|i| open.select(next[i], before[i]));
        let results = [&[any(is_open(after))], &after[..]].concat();
        Ok::<_, Infallible>(own_results(builder, results))
    });
    let mut operands = vec![None, Some(any(is_open(initial)))];
    operands.extend(initial.map(Some));
    let attrs = vec![("body", Attr::from(body))];
    let results = builder.nodes(OpType::Loop, &operands, attrs, N);
    std::array::from_fn(|i| results[i])
}

/// Joins each element of an axis with all elements before it, or with all behind it if `reverse`.
///
/// For axes of unknown size: after `k` rounds of a loop, each element is joined with up to `2ᵏ − 1` others. `join` takes
/// the elements that are farther away first, so that `reverse` exchanges its arguments.
#[track_caller]
pub(crate) fn joined_along<'g>(
    label: &str,
    arrays: &[Expr<'g>],
    axis: usize,
    reverse: bool,
    join: impl FnOnce(&[Expr<'g>], &[Expr<'g>]) -> Result<Vec<Expr<'g>>>,
) -> Result<Vec<Expr<'g>>> {
    let Some(first) = arrays.first() else {
        return Ok(Vec::new());
    };
    let builder = first.builder;
    let size = first.shape()[axis].clone();
    let count = builder.size(&size);
    let places = Expr::range(builder, &size);
    let state = [Type::new(DType::I64, []), Type::new(DType::Bool, []), Type::new(DType::I64, [])];
    let body =
        builder.body(label, &[&state[..], &types(arrays)].concat(), |inputs| -> Result<_> {
            let (distance, near) = (inputs[2], &inputs[3..]);
            let (place, is_inside) = if reverse {
                let place = places + distance;
                (place.min(count - 1.0), place.less(count))
            } else {
                let place = places - distance;
                (place.max(0.0), place.greater_equal(0.0))
            };
            let far: Vec<Expr<'g>> = near.iter().map(|x| x.gather(place, axis)).collect();
            let joined = join(&far, near)?;
            let after = joined.iter().zip(near).map(|(joined, before)| {
                let others: Vec<usize> = (1..before.rank() - axis).collect();
                is_inside.unsqueeze(&others).select(*joined, *before)
            });
            let distance = distance * 2.0;
            let head = [distance.less(count), distance];
            Ok(own_results(builder, head.into_iter().chain(after).collect()))
        })?;
    let head = [count.greater(1.0), builder.constant_ints(DType::I64, &[], &[1])];
    let operands: Vec<Option<Expr<'g>>> =
        std::iter::once(None).chain(head.iter().chain(arrays).copied().map(Some)).collect();
    let attrs = vec![("body", Attr::from(body))];
    Ok(builder.nodes(OpType::Loop, &operands, attrs, arrays.len() + 1).split_off(1))
}

/// Joins all elements of an axis of unknown size, from the first to the last. The axis keeps one element, which is
/// `initial` if the axis is empty.
#[track_caller]
pub(crate) fn joined_to_one<'g>(
    label: &str,
    arrays: &[Expr<'g>],
    axis: usize,
    initial: &[Expr<'g>],
    join: impl FnOnce(&[Expr<'g>], &[Expr<'g>]) -> Result<Vec<Expr<'g>>>,
) -> Result<Vec<Expr<'g>>> {
    let joined = joined_along(label, arrays, axis, false, join)?;
    let last = |(x, initial): (&Expr<'g>, &Expr<'g>)| {
        let (builder, size) = (x.builder, x.shape()[axis].clone());
        let mut shape = x.shape().to_vec();
        shape[axis] = Dim::Known(1);
        let all = Expr::concat(&[initial.expand(&shape), *x], axis);
        all.gather(builder.size(&size).unsqueeze(&[0]), axis)
    };
    Ok(joined.iter().zip(initial).map(last).collect())
}

/// True if any flag is set; false for an empty array.
fn any(flags: Expr<'_>) -> Expr<'_> {
    let axes: Vec<usize> = (0..flags.rank()).collect();
    flags.cast(DType::I64).reduce_sum(&axes, false).greater(0.0)
}
