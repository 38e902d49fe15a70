//! Fuses `Softmax` and `LogSoftmax`.

use algebra::axis_map::AxisMap;
use algebra::pattern::{
    Pattern, either, exp, hole, log, node, number, one_of, reduce_max, reduce_sum, spread, view,
};
use algebra::rewrite::{Formulas, Match, Result, ensure, rewrite};
use onnx::expr::reduced_shape;
use onnx::operator::properties::LAYOUT_OPS;
use onnx::{Dim, Op, OpType};

pub(crate) static REWRITES: Formulas = Formulas::new(&[&[
    rewrite("fuse-softmax", softmax, |found| over_one_axis(found, OpType::Softmax)),
    rewrite("fuse-log-softmax", log_softmax, |found| over_one_axis(found, OpType::LogSoftmax)),
    rewrite("fuse-masked-softmax", masked_softmax, to_masked_softmax),
]]);

/// `exp(x − max x) / Σ exp(x − max x)`
fn softmax() -> Pattern {
    let e = exp(&shifted());
    &e / spread(&reduce_sum(&e).named("sum")).named("spread sum")
}

/// `(x − max x) − log Σ exp(x − max x)`
fn log_softmax() -> Pattern {
    let sum = spread(&reduce_sum(&exp(&shifted())).named("sum"));
    shifted() - spread(&log(&sum)).named("spread sum")
}

/// `x − max x`. A layout op may follow the maximum and `x`.
fn shifted() -> Pattern {
    let x = hole("x");
    let max = reduce_max(&x).named("max");
    let laid_out = one_of(LAYOUT_OPS, &x);
    either(&[
        &(&x - spread(&max).named("spread max")),
        &(laid_out.named("laid out") - view(&max).named("spread max")),
    ])
}

/// The softmax of the elements with a true mask, as in `jax.nn.softmax(x, where=mask)`: masked elements are −∞, and the
/// sum leaves them out again.
///
/// The sum differs from the sum of a softmax only if the whole mask is false. Then, the result does not depend on it.
fn masked_softmax() -> Pattern {
    let mask = hole("mask");
    let let_through =
        |x: &Pattern, otherwise: f64| node(OpType::Where, &[&mask, x, &otherwise.into()]);
    let x = let_through(&hole("input"), f64::NEG_INFINITY).named("x");
    let e = exp(&(&x - spread(&reduce_max(&x).named("max")).named("spread max")));
    let sum = spread(&reduce_sum(&let_through(&e, 0.0)).named("sum")).named("spread sum");
    node(OpType::Where, &[&mask, &(e / sum), &number("elsewhere")])
}

fn to_masked_softmax(found: &mut Match<'_, '_, '_>) -> Result<Op> {
    let (mask, elsewhere) = (found.value("mask")?, found.value("elsewhere")?);
    let op = over_one_axis(found, OpType::Softmax)?;
    let whole = found.insert(op);
    Ok(Op::new(OpType::Where, &[mask, whole, elsewhere]))
}

fn over_one_axis(found: &mut Match<'_, '_, '_>, op: OpType) -> Result<Op> {
    let axes = found.axes("sum")?;
    let &[axis] = &axes[..] else {
        return Err("the reduction is over several axes".into());
    };
    let x = match found.maybe("laid out") {
        Some(laid_out) => {
            expect_same_layout(found, axis)?;
            laid_out
        }
        None if found.axes("max")? == axes => found.value("x")?,
        None => return Err("the axes of the maximum differ from those of the sum".into()),
    };
    ensure(
        !found.exact_nan() || found.target().is_right(op, found.ty(x)?.dtype),
        "ONNX Runtime's kernel for this type does not propagate NaN",
    )?;
    found.expect_reduced(found.value("spread max")?, x, &axes)?;
    found.expect_reduced(found.value("spread sum")?, x, &axes)?;
    Ok(Op::new(op, &[x]).attr("axis", axis as i64))
}

/// Declines unless the array and its maxima have the same layout, in which `axis` is the reduced axis.
fn expect_same_layout(found: &Match<'_, '_, '_>, axis: usize) -> Result<()> {
    let (x, laid_out) = (found.ty(found.value("x")?)?, found.ty(found.value("laid out")?)?);
    let &[over] = &found.axes("max")?[..] else {
        return Err("the axes of the maximum differ from those of the sum".into());
    };
    let map = found.map("x", "laid out")?;
    let are_units = x.shape[over].is(1) && laid_out.shape[axis].is(1);
    ensure(
        map.axis_after(over) == Some(axis) || are_units,
        "the axes of the maximum differ from those of the sum",
    )?;
    let kept = reduced_shape(&x.shape, &[over], true);
    let maxima = AxisMap::identity(&found.ty(found.value("max")?)?.shape).reshaped(&kept);
    let expected = maxima.and_then(|maxima| maxima.then(&map.on_operand(&kept)?));
    // Leading unit axes may be missing.
    let map_of_max = found.map("max", "spread max")?;
    let missing = laid_out.rank().checked_sub(map_of_max.rank_after());
    let shape = map_of_max
        .shape_after()
        .zip(missing)
        .map(|(shape, missing)| [vec![Dim::from(1); missing], shape].concat());
    let found = shape.and_then(|shape| map_of_max.reshaped(&shape));
    if found.is_some() && found == expected {
        return Ok(());
    }
    Err("the layout of the maximum differs from that of the array".into())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check, formulas};

    fn masked(elsewhere: &str) -> String {
        format!(
            "graph g(x:f32[2,3], m:bool[2,3]) -> (y)
%0:f32[2,3] = Where(m, x, {elsewhere})
%1:f32[2] = jax2onnx.composite::reduce_max(%0) {{axes=[1]}}
%2:f32[2,1] = Unsqueeze(%1, [1]:i64)
%3:f32[2,3] = Sub(%0, %2)
%4:f32[2,3] = Exp(%3)
%5:f32[2,3] = Where(m, %4, 0.0)
%6:f32[2,1] = ReduceSum(%5, [1]:i64) {{keepdims=1}}
%7:f32[2,3] = Div(%4, %6)
y:f32[2,3] = Where(m, %7, 0.0)"
        )
    }

    fn lean(edit: &mut onnx::Edit<'_>) {
        super::REWRITES.run(edit);
        edit.drop_unread();
    }

    #[test]
    fn two_equal_masks_are_merged() {
        check(
            lean,
            &masked("-inf"),
            expect![[r#"
            graph g(x:f32[2,3], m:bool[2,3]) -> (y)
            %0 = Where(m, x, -inf)  # 2
            %1 = Softmax(%0) {axis=1}  # 10 2 3 4 5 6 7 8 9
            y:f32[2,3] = Where(m, %1, 0.0)  # 10 2 3 4 5 6 7 8 9
        "#]],
        );
    }

    #[test]
    fn a_mask_with_a_finite_number_is_not_fused() {
        check(
            lean,
            &masked("-1.0"),
            expect![[r#"
            graph g(x:f32[2,3], m:bool[2,3]) -> (y)
            %0 = Where(m, x, -1.0)  # 2
            %1 = jax2onnx.composite::reduce_max(%0) {axes=[1]}  # 3
            %2 = Unsqueeze(%1, [1]:i64)  # 4
            %3 = Sub(%0, %2)  # 5
            %4 = Exp(%3)  # 6
            %5 = Where(m, %4, 0.0)  # 7
            %6 = ReduceSum(%5, [1]:i64) {keepdims=1}  # 8
            %7 = Div(%4, %6)  # 9
            y:f32[2,3] = Where(m, %7, 0.0)  # 10
        "#]],
        );
    }

    #[test]
    fn an_exponential_over_its_sum_is_a_softmax() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[2,3]) -> (y)
m:f32[2] = jax2onnx.composite::reduce_max(x) {axes=[1]}
%1:f32[2,1] = Unsqueeze(m, [1]:i64)
%2:f32[2,3] = Sub(x, %1)
%3:f32[2,3] = Exp(%2)
%4:f32[2] = ReduceSum(%3, [1]:i64) {keepdims=0}
%5:f32[2,1] = Unsqueeze(%4, [1]:i64)
y:f32[2,3] = Div(%3, %5)",
            expect![[r#"
                graph g(x:f32[2,3]) -> (y)
                y:f32[2,3] = Softmax(x) {axis=1}  # 8 2 3 4 5 6 7
            "#]],
        );
    }

    #[test]
    fn a_sum_over_another_axis_is_not_fused() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[3,3]) -> (y)
m:f32[3] = jax2onnx.composite::reduce_max(x) {axes=[1]}
%1:f32[3,1] = Unsqueeze(m, [1]:i64)
%2:f32[3,3] = Sub(x, %1)
%3:f32[3,3] = Exp(%2)
%4:f32[3] = ReduceSum(%3, [0]:i64) {keepdims=0}
%5:f32[1,3] = Unsqueeze(%4, [0]:i64)
y:f32[3,3] = Div(%3, %5)",
            expect![[r#"
                graph g(x:f32[3,3]) -> (y)
                m = jax2onnx.composite::reduce_max(x) {axes=[1]}  # 2
                %0 = Unsqueeze(m, [1]:i64)  # 3
                %1 = Sub(x, %0)  # 4
                %2 = Exp(%1)  # 5
                %3 = ReduceSum(%2, [0]:i64) {keepdims=0}  # 6
                %4 = Unsqueeze(%3, [0]:i64)  # 7
                y:f32[3,3] = Div(%2, %4)  # 8
            "#]],
        );
    }

    #[test]
    fn a_sum_that_is_broadcast_along_another_axis_is_not_fused() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[3,3]) -> (y)
m:f32[3] = jax2onnx.composite::reduce_max(x) {axes=[1]}
%1:f32[3,1] = Unsqueeze(m, [1]:i64)
%2:f32[3,3] = Sub(x, %1)
%3:f32[3,3] = Exp(%2)
%4:f32[3] = ReduceSum(%3, [1]:i64) {keepdims=0}
y:f32[3,3] = Div(%3, %4)",
            expect![[r#"
                graph g(x:f32[3,3]) -> (y)
                m = jax2onnx.composite::reduce_max(x) {axes=[1]}  # 2
                %0 = Unsqueeze(m, [1]:i64)  # 3
                %1 = Sub(x, %0)  # 4
                %2 = Exp(%1)  # 5
                %3 = ReduceSum(%2, [1]:i64) {keepdims=0}  # 6
                y:f32[3,3] = Div(%2, %3)  # 7
            "#]],
        );
    }

    #[test]
    fn the_maximum_may_come_before_a_reshape_of_other_axes() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[2,1,3]) -> (y)
m:f32[2,1] = jax2onnx.composite::reduce_max(x) {axes=[2]}
%1:f32[1,2,1] = Reshape(m, [1, 2, 1]:i64)
%2:f32[1,2,3] = Reshape(x, [1, 2, 3]:i64)
%3:f32[1,2,3] = Sub(%2, %1)
%4:f32[1,2,3] = Exp(%3)
%5:f32[1,2] = ReduceSum(%4, [2]:i64) {keepdims=0}
%6:f32[1,2,1] = Unsqueeze(%5, [2]:i64)
y:f32[1,2,3] = Div(%4, %6)",
            expect![[r#"
                graph g(x:f32[2,1,3]) -> (y)
                %0 = Reshape(x, [1, 2, 3]:i64)  # 4
                y:f32[1,2,3] = Softmax(%0) {axis=2}  # 9 2 3 4 5 6 7 8
            "#]],
        );
    }

    fn ordered(order: &str) -> String {
        format!(
            "graph g(x:f32[2,2,3]) -> (y)
m:f32[2,2] = jax2onnx.composite::reduce_max(x) {{axes=[2]}}
%1:f32[2,2] = Transpose(m) {{perm={order}}}
%2:f32[2,2,1] = Unsqueeze(%1, [2]:i64)
%3:f32[2,2,3] = Transpose(x) {{perm=[1, 0, 2]}}
%4:f32[2,2,3] = Sub(%3, %2)
%5:f32[2,2,3] = Exp(%4)
%6:f32[2,2,1] = ReduceSum(%5, [2]:i64) {{keepdims=1}}
y:f32[2,2,3] = Div(%5, %6)"
        )
    }

    #[test]
    fn the_maximum_may_come_before_a_transpose_of_other_axes() {
        check(
            lean,
            &ordered("[1, 0]"),
            expect![[r#"
            graph g(x:f32[2,2,3]) -> (y)
            %0 = Transpose(x) {perm=[1, 0, 2]}  # 5
            y:f32[2,2,3] = Softmax(%0) {axis=2}  # 9 2 3 4 5 6 7 8
        "#]],
        );
    }

    #[test]
    fn a_maximum_with_another_permutation_is_not_fused() {
        check(
            lean,
            &ordered("[0, 1]"),
            expect![[r#"
            graph g(x:f32[2,2,3]) -> (y)
            m = jax2onnx.composite::reduce_max(x) {axes=[2]}  # 2
            %0 = Transpose(m) {perm=[0, 1]}  # 3
            %1 = Unsqueeze(%0, [2]:i64)  # 4
            %2 = Transpose(x) {perm=[1, 0, 2]}  # 5
            %3 = Sub(%2, %1)  # 6
            %4 = Exp(%3)  # 7
            %5 = ReduceSum(%4, [2]:i64) {keepdims=1}  # 8
            y:f32[2,2,3] = Div(%4, %5)  # 9
        "#]],
        );
    }

    #[test]
    fn a_maximum_of_rows_that_a_reshape_cuts_is_not_fused() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[3,2]) -> (y)
m:f32[3] = jax2onnx.composite::reduce_max(x) {axes=[1]}
%1:f32[1,3] = Reshape(m, [1, 3]:i64)
%2:f32[2,3] = Reshape(x, [2, 3]:i64)
%3:f32[2,3] = Sub(%2, %1)
%4:f32[2,3] = Exp(%3)
%5:f32[2] = ReduceSum(%4, [1]:i64) {keepdims=0}
%6:f32[2,1] = Unsqueeze(%5, [1]:i64)
y:f32[2,3] = Div(%4, %6)",
            expect![[r#"
                graph g(x:f32[3,2]) -> (y)
                m = jax2onnx.composite::reduce_max(x) {axes=[1]}  # 2
                %0 = Reshape(m, [1, 3]:i64)  # 3
                %1 = Reshape(x, [2, 3]:i64)  # 4
                %2 = Sub(%1, %0)  # 5
                %3 = Exp(%2)  # 6
                %4 = ReduceSum(%3, [1]:i64) {keepdims=0}  # 7
                %5 = Unsqueeze(%4, [1]:i64)  # 8
                y:f32[2,3] = Div(%3, %5)  # 9
            "#]],
        );
    }
}
