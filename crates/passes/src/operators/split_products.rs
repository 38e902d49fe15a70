//! `split-products`: rewrites the product over a short axis as products of its entries.
//!
//! ONNX Runtime has a fast kernel for sums over any axis, but none for products. For the two extents of 10,000 boxes,
//! `ReduceProd` takes 50 µs, while the entries and their product take 10 µs.

use algebra::rewrite::require;
use onnx::{Dim, Op, OpType, Outcome, Patch, ValueId, declined};

/// The longest axis for which the nodes take less time than the reduction.
const MAX_ENTRIES: i64 = 4;

/// With fewer results, the additional nodes cost as much as they save.
const MIN_RESULTS: i64 = 2048;

pub(crate) fn run(patch: &mut Patch<'_, '_>) -> Outcome {
    let index = patch.root();
    require(patch.node(index).op == OpType::ReduceProd)?;
    let &[axis] = &patch.axes(index)?[..] else { return None };
    let x = patch.input(index, 0)?;
    let ty = patch.ty(x)?;
    let entries = ty.shape.get(axis)?.known()?;
    require(ty.dtype.is_float() && (2..=MAX_ENTRIES).contains(&entries))?;
    let result = patch.result_ty(index)?;
    let results: Option<i64> = result.shape.iter().map(Dim::known).product();
    if results.is_none_or(|results| results < MIN_RESULTS) {
        return declined("it has so few results that more nodes cost more");
    }
    // A list of one index keeps the axis.
    let keeps_axis = result.rank() == ty.rank();
    let mut parts: Vec<ValueId> = Vec::new();
    for place in 0..entries {
        let place = if keeps_axis { patch.integers(&[place]) } else { patch.integer(place) };
        let entry = Op::new(OpType::Gather, &[x, place?]).attr("axis", axis as i64);
        parts.push(patch.insert(entry));
    }
    let (&last, rest) = parts.split_last()?;
    let mut multiply = |a, b| patch.insert(Op::new(OpType::Mul, &[a, b]));
    let product = rest.iter().copied().reduce(&mut multiply)?;
    patch.done(&[], Op::new(OpType::Mul, &[product, last]))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check, each};

    #[test]
    fn a_product_of_few_entries_with_many_results_is_split() {
        check(
            each(super::run),
            "graph g(x:f32[3,64,64], y:f32[4096,2]) -> (a, b)
a:f32[64,64] = ReduceProd(x, [0]:i64) {keepdims=0}
b:f32[4096,1] = ReduceProd(y, [-1]:i64) {keepdims=1}",
            expect![[r#"
                graph g(x:f32[3,64,64], y:f32[4096,2]) -> (a, b)
                %0 = Gather(x, 0:i64) {axis=0}  # 2
                %1 = Gather(x, 1:i64) {axis=0}  # 2
                %2 = Gather(x, 2:i64) {axis=0}  # 2
                %3 = Mul(%0, %1)  # 2
                a:f32[64,64] = Mul(%3, %2)  # 2
                %4 = Gather(y, [0]:i64) {axis=1}  # 3
                %5 = Gather(y, [1]:i64) {axis=1}  # 3
                b:f32[4096,1] = Mul(%4, %5)  # 3
            "#]],
        );
    }

    #[test]
    fn a_product_of_many_entries_or_with_few_or_unknown_results_stays() {
        check(
            each(super::run),
            "graph g(x:f32[5,64,64], y:f32[2,64], z:f32[2,B], i:i32[2,4096]) -> (a, b, c, d, e)
a:f32[64,64] = ReduceProd(x, [0]:i64) {keepdims=0}
b:f32[64] = ReduceProd(y, [0]:i64) {keepdims=0}
c:f32[B] = ReduceProd(z, [0]:i64) {keepdims=0}
d:i32[4096] = ReduceProd(i, [0]:i64) {keepdims=0}
e:f32[] = ReduceProd(y, [0, 1]:i64) {keepdims=0}",
            expect![[r#"
                graph g(x:f32[5,64,64], y:f32[2,64], z:f32[2,B], i:i32[2,4096]) -> (a, b, c, d, e)
                a:f32[64,64] = ReduceProd(x, [0]:i64) {keepdims=0}  # 2
                b:f32[64] = ReduceProd(y, [0]:i64) {keepdims=0}  # 3
                c:f32[B] = ReduceProd(z, [0]:i64) {keepdims=0}  # 4
                d:i32[4096] = ReduceProd(i, [0]:i64) {keepdims=0}  # 5
                e:f32[] = ReduceProd(y, [0, 1]:i64) {keepdims=0}  # 6
            "#]],
        );
    }
}
