//! The largest elements of an axis.

use onnx::{Dim, Expr};

use super::{Ends, key, order, take, top};
use crate::ctx::{Ctx, Eqn};
use crate::error::{Refused, Result};

/// Returns the `k` largest elements along an axis and their indices, in descending order; equal
/// elements keep their order.
///
/// The order is the total order, in which `−0 < 0`.
pub(crate) fn top_k<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let axis: Option<usize> = eqn.optional("axis")?;
    // The order is always stable.
    eqn.ignore(&["k", "is_stable"]);
    let [x] = eqn.operands()?;
    // Older versions of JAX use the last axis.
    let axis = axis.unwrap_or_else(|| x.rank().saturating_sub(1));
    let count = eqn.output()?.shape[axis].clone();
    if key::is_plain(&eqn.input_dtypes[0]) {
        let (values, indices) = top(x, axis, Ends::Highest, &count);
        return results(eqn, values, indices);
    }
    // `jnp.partition` computes the smallest elements of `y` as the largest elements of `x = -y`.
    // Every NaN counts as positive, so the ranking takes the lowest elements of `y`, where NaN is
    // last.
    match x.builder.negated(x) {
        Some(negated) => ranked(eqn, x, &key::total_levels(negated), axis, Ends::Lowest, &count),
        None => ranked(eqn, x, &key::total_levels(x), axis, Ends::Highest, &count),
    }
}

/// Returns the `k` largest or smallest elements along an axis, without approximation.
pub(crate) fn approx_top_k<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let axis: i64 = eqn.param("reduction_dimension")?;
    let largest: bool = eqn.param("is_max_k")?;
    let aggregate: bool = eqn.param("aggregate_to_topk")?;
    // The result is exact, so the recall does not matter.
    eqn.ignore(&["k", "recall_target", "reduction_input_size_override"]);
    let [x] = eqn.operands()?;
    if !aggregate {
        let what = "aggregate_to_topk=False".into();
        return Err(Refused::NoCounterpart { what }.into());
    }
    let axis = if axis < 0 { axis + x.rank() as i64 } else { axis } as usize;
    let count = eqn.output()?.shape[axis].clone();
    let first = if largest { Ends::Highest } else { Ends::Lowest };
    ranked(eqn, x, &key::levels(x), axis, first, &count)
}

fn ranked<'g>(
    eqn: &Eqn<'g, '_>,
    x: Expr<'g>,
    keys: &[Expr<'g>],
    axis: usize,
    first: Ends,
    count: &Dim,
) -> Result<Vec<Expr<'g>>> {
    let indices = order(eqn, keys, axis, first, count)?;
    results(eqn, take(x, indices, axis), indices)
}

fn results<'g>(eqn: &Eqn<'g, '_>, values: Expr<'g>, indices: Expr<'g>) -> Result<Vec<Expr<'g>>> {
    let [_, index] = &eqn.outputs[..] else {
        return Err(eqn.broken("it does not have two results").into());
    };
    Ok(vec![values, indices.cast(index.dtype)])
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn top_k_of_integers_is_one_operator_and_of_floats_uses_the_total_order() {
        check(
            "jaxpr f(a:i32[2,5], b:f32[5]) {
               c:i32[2,3] d:i32[2,3] = top_k{axis=1; k=3} a
               e:f32[3] f:i32[3] = top_k{axis=0; k=3} b
               return c, d, e, f
             }",
            expect![[r#"
                graph test(in_0:i32[2,5], in_1:f32[5]) -> (out_0, out_1, out_2, out_3)
                out_0:i32[2,3], %0 = TopK(in_0, [3]:i64) {axis=1, largest=1}
                out_1:i32[2,3] = Cast(%0) {to=6}
                %1 = Cast(in_1) {to=11}
                %2 = Reciprocal(%1)
                %3 = Equal(%2, -inf:f64)
                %4 = Where(%3, -1e-300:f64, %1)
                %5 = IsNaN(in_1)
                %6 = Min(%4, 1e300:f64)
                %7 = Where(%5, inf:f64, %6)
                %8, %9 = TopK(%7, [3]:i64) {axis=0, largest=1}
                out_2:f32[3] = Gather(in_1, %9) {axis=0}
                out_3:i32[3] = Cast(%9) {to=6}
            "#]],
        );
    }

    #[test]
    fn the_largest_negated_elements_are_the_smallest_ones_in_narrow_types_too() {
        check(
            "jaxpr f(a:bf16[5]) {
               b:bf16[5] = neg a
               c:bf16[1] d:i32[1] = top_k{axis=0; k=1} b
               return c, d
             }",
            expect![[r#"
                graph test(in_0:bf16[5]) -> (out_0, out_1)
                %0 = Cast(in_0) {to=1}
                %1 = Neg(%0)
                %2 = Cast(%1) {to=16}
                %3 = Cast(in_0) {to=11}
                %4 = Reciprocal(%3)
                %5 = Equal(%4, -inf:f64)
                %6 = Where(%5, -1e-300:f64, %3)
                %7 = IsNaN(in_0)
                %8 = Min(%6, 1e300:f64)
                %9 = Where(%7, inf:f64, %8)
                %10, %11 = TopK(%9, [1]:i64) {axis=0, largest=0}
                out_0:bf16[1] = Gather(%2, %11) {axis=0}
                out_1:i32[1] = Cast(%11) {to=6}
            "#]],
        );
    }
}
