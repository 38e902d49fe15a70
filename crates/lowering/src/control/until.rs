//! Builds loops that run until every element of an array is done.

use std::convert::Infallible;

use onnx::{Attr, DType, Expr, OpType, Type};

use super::own_results;

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
