//! Builds the bodies of branches and loops, and loops that run until every element of an array is done.

use std::convert::Infallible;

use onnx::{Attr, Builder, DType, Expr, OpType, Type};

/// Returns the types of values, as the inputs of a body.
pub(crate) fn types(values: &[Expr<'_>]) -> Vec<Type> {
    values.iter().map(|value| value.ty()).collect()
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

/// Runs `again` until the flags hold nowhere; where they do not hold, the state stays.
pub(crate) fn until_all<'g, const N: usize>(
    label: &str,
    initial: [Expr<'g>; N],
    holds: impl Fn([Expr<'g>; N]) -> Expr<'g>,
    again: impl Fn([Expr<'g>; N]) -> [Expr<'g>; N],
) -> [Expr<'g>; N] {
    let builder = initial[0].builder;
    let states = initial.map(Expr::ty);
    let counter = [Type::new(DType::I64, []), Type::new(DType::Bool, [])];
    let Ok(round) = builder.body(label, &[&counter[..], &states[..]].concat(), |inputs| {
        let before: [Expr<'g>; N] = std::array::from_fn(|i| inputs[i + 2]);
        let open = holds(before);
        let next = again(before);
        let after: [Expr<'g>; N] = std::array::from_fn(|i| open.select(next[i], before[i]));
        let results = [&[any(holds(after))], &after[..]].concat();
        Ok::<_, Infallible>(own_results(builder, results))
    });
    let mut operands = vec![None, Some(any(holds(initial)))];
    operands.extend(initial.map(Some));
    let attrs = vec![("body", Attr::from(round))];
    let results = builder.nodes(OpType::Loop, &operands, attrs, N);
    std::array::from_fn(|i| results[i])
}

/// True if any flag is set; of none, none is.
fn any(flags: Expr<'_>) -> Expr<'_> {
    let axes: Vec<usize> = (0..flags.rank()).collect();
    flags.cast(DType::I64).reduce_sum(&axes, false).greater(0.0)
}
