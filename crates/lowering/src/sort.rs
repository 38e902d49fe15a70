//! Sorting.
//!
//! `TopK` sorts. It is stable, because it returns equal elements in the order of their indices.
//! JAX's order differs from that of `TopK` for some numbers, so the sort keys encode it.

mod key;
mod top_k;

pub(crate) use top_k::{approx_top_k, top_k};

use onnx::{Attr, DType, Dim, Expr, OpType};

use crate::ctx::{Ctx, Eqn};
use crate::element::Element;
use crate::error::Result;

/// Sorts all operands by the first `num_keys` of them: by the first one, then by the second one if
/// the first ones are equal, …
///
/// NaN is last, and the zeros are equal. The order is always stable.
pub(crate) fn sort<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let axis: usize = eqn.param("dimension")?;
    let num_keys: usize = eqn.param("num_keys")?;
    eqn.ignore(&["is_stable"]);
    let size = &eqn.output()?.shape[axis];
    if size.is(0) || size.is(1) {
        return Ok(eqn.inputs.clone());
    }
    if let [x] = eqn.inputs[..]
        && key::is_plain(&eqn.input_dtypes[0])
    {
        return Ok(vec![top(x, axis, Ends::Lowest, size).0]);
    }
    let inputs = eqn.inputs.iter().zip(&eqn.input_dtypes).take(num_keys);
    let keys: Vec<Expr<'g>> = inputs
        .flat_map(|(&x, dtype)| {
            if Element::has_parts(dtype) {
                // The order of complex numbers is by the real part, then by the imaginary part.
                [part(x, 0), part(x, 1)].into_iter().flat_map(key::levels).collect()
            } else {
                key::levels(x)
            }
        })
        .collect();
    if let ([x], [key]) = (&eqn.inputs[..], &keys[..])
        && x.id == key.id
    {
        return Ok(vec![top(*x, axis, Ends::Lowest, size).0]);
    }
    let order = order(eqn, &keys, axis, Ends::Lowest, size)?;
    Ok(eqn.inputs.iter().map(|&x| take(x, order, axis)).collect())
}

/// The end of the order that comes first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    Lowest,
    Highest,
}

/// Returns the first `count` elements along an axis, and their indices.
#[track_caller]
fn top<'g>(x: Expr<'g>, axis: usize, first: Ends, count: &Dim) -> (Expr<'g>, Expr<'g>) {
    let mut shape = x.shape().to_vec();
    shape[axis] = count.clone();
    // Older versions of ONNX Runtime end the process if another axis has no entries.
    if shape.iter().any(|size| size.is(0)) {
        let index = x.builder.constant_ints(DType::I64, &[], &[0]);
        return (x.constant(0.0).expand(&shape), index.expand(&shape));
    }
    let attrs = vec![
        ("axis", Attr::Int(axis as i64)),
        ("largest", Attr::Int(i64::from(first == Ends::Highest))),
    ];
    let count = x.builder.sizes(std::slice::from_ref(count));
    let results =
        x.builder.sized_nodes(OpType::TopK, &[Some(x), Some(count)], attrs, &[&shape, &shape]);
    match results[..] {
        [values, indices] => (values, indices),
        _ => (x, x),
    }
}

/// Returns the indices of the first `count` elements in the order of several keys, the most
/// significant one first. Sorts by the last key, then by the previous one, which keeps the order of
/// equal elements.
fn order<'g>(
    eqn: &Eqn<'g, '_>,
    keys: &[Expr<'g>],
    axis: usize,
    first: Ends,
    count: &Dim,
) -> Result<Expr<'g>> {
    let mut order: Option<Expr<'g>> = None;
    for (level, &key) in keys.iter().enumerate().rev() {
        let key_in_order = order.map_or(key, |order| take(key, order, axis));
        let size = &key.shape()[axis];
        let (_, indices) = top(key_in_order, axis, first, if level == 0 { count } else { size });
        order = Some(order.map_or(indices, |order| take(order, indices, axis)));
    }
    Ok(order.ok_or_else(|| eqn.broken("it has no sort key"))?)
}

/// Returns the elements at the indices along an axis, with all their parts.
#[track_caller]
fn take<'g>(x: Expr<'g>, indices: Expr<'g>, axis: usize) -> Expr<'g> {
    if indices.rank() == 1 {
        return x.gather(indices, 0);
    }
    let mut shape = indices.shape().to_vec();
    shape.extend_from_slice(&x.shape()[indices.rank()..]);
    let trailing: Vec<usize> = (indices.rank()..x.rank()).collect();
    let indices = indices.unsqueeze(&trailing).expand(&shape);
    x.gather_elements(indices, axis)
}

fn part(x: Expr<'_>, index: i64) -> Expr<'_> {
    let axis = x.rank() - 1;
    x.slice_axis(axis, index, index + 1).squeeze(&[axis])
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn a_sort_of_integers_is_one_operator() {
        check(
            "jaxpr f(a:i32[2,5]) {
               b:i32[2,5] = sort{dimension=1; is_stable=True; num_keys=1} a
               return b
             }",
            expect![[r#"
                graph test(in_0:i32[2,5]) -> (out_0)
                out_0:i32[2,5], %0 = TopK(in_0, [5]:i64) {axis=1, largest=0}
            "#]],
        );
    }

    #[test]
    fn the_last_key_is_sorted_by_first() {
        check(
            "jaxpr f(a:i32[2,5], b:f32[2,5]) {
               c:i32[2,5] d:f32[2,5] = sort{dimension=1; is_stable=True; num_keys=2} a b
               return c, d
             }",
            expect![[r#"
                graph test(in_0:i32[2,5], in_1:f32[2,5]) -> (out_0, out_1)
                %0 = Cast(in_1) {to=11}
                %1 = IsNaN(in_1)
                %2 = Min(%0, 1e300:f64)
                %3 = Where(%1, inf:f64, %2)
                %4, %5 = TopK(%3, [5]:i64) {axis=1, largest=0}
                %6 = GatherElements(in_0, %5) {axis=1}
                %7, %8 = TopK(%6, [5]:i64) {axis=1, largest=0}
                %9 = GatherElements(%5, %8) {axis=1}
                out_0:i32[2,5] = GatherElements(in_0, %9) {axis=1}
                out_1:f32[2,5] = GatherElements(in_1, %9) {axis=1}
            "#]],
        );
    }

    #[test]
    fn a_size_that_is_not_known_is_asked_for() {
        check(
            "jaxpr f(a:u64[B]) {
               b:u64[B] = sort{dimension=0; is_stable=True; num_keys=1} a
               return b
             }",
            expect![[r#"
                graph test(in_0:u64[B]) -> (out_0)
                %0 = Cast(in_0) {to=7}
                %1 = BitwiseXor(%0, -9223372036854775808:i64)
                %2 = Shape(in_0) {end=1, start=0}
                %3 = Squeeze(%2, [0]:i64)
                %4 = Unsqueeze(%3, [0]:i64)
                %5, %6 = TopK(%1, %4) {axis=0, largest=0}
                out_0:u64[B] = Gather(in_0, %6) {axis=0}
            "#]],
        );
    }
}
