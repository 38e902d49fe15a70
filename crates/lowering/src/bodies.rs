//! Builds the bodies of branches and loops, and loops that run until every element of an array is done.

use std::convert::Infallible;

use onnx::{Attr, Builder, DType, Expr, OpType, Type};

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

/// True if any flag is set; false for an empty array.
fn any(flags: Expr<'_>) -> Expr<'_> {
    let axes: Vec<usize> = (0..flags.rank()).collect();
    flags.cast(DType::I64).reduce_sum(&axes, false).greater(0.0)
}
