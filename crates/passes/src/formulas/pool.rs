//! Fuses means and maxima over windows.

use algebra::axis_map::AxisMap;
use algebra::pattern::{Pattern, composite, either, hole, moved, node, number};
use algebra::rewrite::{Formulas, Match, Result, ensure, rewrite};
use onnx::operator::properties::{LAYOUT_OPS, VIEW_OPS};
use onnx::{Attr, Node, Op, OpType, ValueId};

pub(crate) static REWRITES: Formulas = Formulas::new(&[&[
    rewrite("fuse-average-pool", average, to_average_pool),
    rewrite("pool-positives", maximum_of_halves, to_max_pool),
]]);

/// The attributes that describe windows.
const WINDOWS: [&str; 4] = ["kernel_shape", "strides", "pads", "dilations"];

/// `Σ x / n` over windows, possibly with layout ops before the division. If padding does not count, `Σ x / Σ 1`, possibly
/// with a transpose that moves the channels to the end.
fn average() -> Pattern {
    let sum = node(composite("window_sum"), &[&hole("x")]).named("sum");
    let moved = moved(&sum).named("moved");
    let transposed = either(&[&node(OpType::Transpose, &[&sum]).named("transposed"), &sum]);
    let counts = node(composite("window_sum"), &[&hole("ones")]).named("counts");
    either(&[
        &(&moved / number("count")),
        &(&moved * number("part")),
        &(transposed.named("moved") / self::moved(&counts).named("divisor")),
    ])
}

fn to_average_pool(found: &mut Match<'_, '_, '_>) -> Result<Op> {
    let x = found.value("x")?;
    let sum = found.node("sum")?.clone();
    let ints = |name: &str| match sum.attr(name) {
        Some(Attr::Ints(ints)) => ints.to_vec(),
        _ => Vec::new(),
    };
    let (window, pads) = (ints("kernel_shape"), ints("pads"));
    ensure(sum.attr("dilations").is_none(), "the windows have gaps")?;
    ensure(
        !pads.iter().zip(window.iter().cycle()).any(|(pad, size)| pad >= size),
        "a window may contain only padding",
    )?;
    let elements = window.iter().product::<i64>() as f64;
    let counts_padding = match (found.maybe("counts"), found.maybe("count")) {
        (Some(_), _) => {
            expect_same_windows(found, &sum, x)?;
            false
        }
        (None, Some(_)) => found.number("count")? == elements,
        (None, None) => found.number("part")? == f64::from((1.0 / elements) as f32),
    };
    ensure(
        found.maybe("counts").is_some() || counts_padding,
        "the divisor is not the number of elements in a window",
    )?;
    ensure(
        !counts_padding || onnx::kernels::counts_padding(&pads),
        "before 1.25, ONNX Runtime does not count all of the padding",
    )?;
    ensure(
        found.ty(found.value("moved")?)? == found.ty(found.result())?,
        "the divisor has more axes than the sum",
    )?;
    let layout_ops = layout_ops(found)?;
    found.expect_kernel(OpType::AveragePool, x)?;
    let mut op = with_windows(Op::new(OpType::AveragePool, &[x]), &sum);
    if counts_padding && !pads.is_empty() {
        op = op.attr("count_include_pad", 1);
    }
    for mut next in layout_ops {
        next.inputs[0] = Some(found.insert(op));
        op = next;
    }
    Ok(op)
}

/// `2 · max(x / 2)` over windows, which is correct for windows of `-inf`.
fn maximum_of_halves() -> Pattern {
    let halves = (hole("x") * 0.5).named("halves");
    node(OpType::MaxPool, &[&halves]).named("pool") * 2.0
}

fn to_max_pool(found: &mut Match<'_, '_, '_>) -> Result<Op> {
    let x = found.value("x")?;
    ensure(!found.fact(x).may_be_negative(), "a window may contain only -inf")?;
    Ok(with_windows(Op::new(OpType::MaxPool, &[x]), found.node("pool")?))
}

/// Copies the attributes that describe windows from a node.
fn with_windows(op: Op, node: &Node) -> Op {
    WINDOWS.into_iter().fold(op, |op, name| match node.attr(name) {
        Some(value) => op.attr(name, value.clone()),
        None => op,
    })
}

/// Returns the layout ops between the sum and the division, in order.
fn layout_ops(found: &Match<'_, '_, '_>) -> Result<Vec<Op>> {
    let edit = &found.edit;
    let chain = edit.chain_to(found.value("moved")?, found.value("sum")?, LAYOUT_OPS);
    let chain = chain.ok_or("another operation changes the sum")?;
    Ok(chain.iter().rev().map(|&index| Op::of(edit.node(index), edit.inputs(index))).collect())
}

/// True if the divisor has the same axes as the sum.
fn is_laid_out_alike(found: &Match<'_, '_, '_>) -> Result<bool> {
    let counts = found.value("counts")?;
    let (_, chain) = found.through(found.value("divisor")?, LAYOUT_OPS);
    let divisor = AxisMap::of_chain(found.edit, counts, &chain);
    let perm = found.index("transposed").ok().and_then(|index| found.perm(index));
    let wanted = AxisMap::identity(&found.ty(counts)?.shape);
    let wanted = perm.map_or(Some(wanted.clone()), |perm| wanted.transposed(&perm));
    Ok(divisor.zip(wanted).is_some_and(|(divisor, wanted)| divisor.broadcasts_as(&wanted)))
}

/// Declines unless the divisor is, for each window, the number of its elements that are not padding.
fn expect_same_windows(found: &Match<'_, '_, '_>, sum: &Node, x: ValueId) -> Result<()> {
    let counts = found.node("counts")?;
    let is_same = WINDOWS.into_iter().all(|name| counts.attr(name) == sum.attr(name));
    let ones = found.value("ones")?;
    let is_same = is_same && found.ty(ones)?.shape[2..] == found.ty(x)?.shape[2..];
    ensure(is_same && is_laid_out_alike(found)?, "the windows of the divisor differ")?;
    // The ones may be a number that is broadcast.
    let (source, _) = found.through(ones, VIEW_OPS);
    ensure(found.edit.number(source) == Some(1.0), "the divisor is not a count")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check, formulas};

    #[test]
    fn a_sum_over_its_places_is_a_mean_and_padding_counts() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[1,2,8,8]) -> (y)
%0:f32[1,2,4,4] = jax2onnx.composite::window_sum(x) {kernel_shape=[3, 3], pads=[1, 1, 0, 0], strides=[2, 2]}
%1:f32[1,4,4,2] = Transpose(%0) {perm=[0, 2, 3, 1]}
y:f32[1,4,4,2] = Div(%1, 9.0)",
            expect![[r#"
                graph g(x:f32[1,2,8,8]) -> (y)
                %0 = AveragePool(x) {count_include_pad=1, kernel_shape=[3, 3], pads=[1, 1, 0, 0], strides=[2, 2]}  # 4 2 3
                y:f32[1,4,4,2] = Transpose(%0) {perm=[0, 2, 3, 1]}  # 3 2 4
            "#]],
        );
    }

    #[test]
    fn a_sum_over_a_sum_of_ones_is_a_mean_without_padding() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[1,2,8,8]) -> (y)
%0:f32[1,2,4,4] = jax2onnx.composite::window_sum(x) {kernel_shape=[3, 3], pads=[1, 1, 0, 0], strides=[2, 2]}
%1:f32[1,1,8,8] = Expand(1.0, [1, 1, 8, 8]:i64)
%2:f32[1,1,4,4] = jax2onnx.composite::window_sum(%1) {kernel_shape=[3, 3], pads=[1, 1, 0, 0], strides=[2, 2]}
y:f32[1,2,4,4] = Div(%0, %2)",
            expect![[r#"
                graph g(x:f32[1,2,8,8]) -> (y)
                y:f32[1,2,4,4] = AveragePool(x) {kernel_shape=[3, 3], pads=[1, 1, 0, 0], strides=[2, 2]}  # 5 2 4
            "#]],
        );
    }

    #[test]
    fn a_sum_may_lose_its_batch_before_it_is_divided() {
        check(
            |edit| {
                super::REWRITES.run(edit);
                edit.drop_unread();
            },
            "graph g(x:f32[1,2,8,8]) -> (y)
%0:f32[1,2,4,4] = jax2onnx.composite::window_sum(x) {kernel_shape=[2, 2], strides=[2, 2]}
%1:f32[1,4,4,2] = Transpose(%0) {perm=[0, 2, 3, 1]}
%2:f32[4,4,2] = Squeeze(%1, [0]:i64)
%3:f32[2,4,4] = Transpose(%2) {perm=[2, 0, 1]}
y:f32[2,4,4] = Div(%3, 4.0)",
            expect![[r#"
                graph g(x:f32[1,2,8,8]) -> (y)
                %0 = AveragePool(x) {kernel_shape=[2, 2], strides=[2, 2]}  # 6 2 3 4 5
                %1 = Transpose(%0) {perm=[0, 2, 3, 1]}  # 5 2 3 4 6
                %2 = Squeeze(%1, [0]:i64)  # 4 2 3 5 6
                y:f32[2,4,4] = Transpose(%2) {perm=[2, 0, 1]}  # 5 2 3 4 6
            "#]],
        );
    }

    #[test]
    fn a_maximum_of_numbers_that_are_not_negative_needs_no_halves() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[1,2,8,8]) -> (y, z)
%0:f32[1,2,8,8] = Max(x, 0.0)
%1:f32[1,2,8,8] = Mul(%0, 0.5)
%2:f32[1,2,4,4] = MaxPool(%1) {kernel_shape=[2, 2], strides=[2, 2]}
y:f32[1,2,4,4] = Mul(%2, 2.0)
%3:f32[1,2,8,8] = Mul(x, 0.5)
%4:f32[1,2,4,4] = MaxPool(%3) {kernel_shape=[2, 2], strides=[2, 2]}
z:f32[1,2,4,4] = Mul(%4, 2.0)",
            expect![[r#"
                graph g(x:f32[1,2,8,8]) -> (y, z)
                %0 = Max(x, 0.0)  # 2
                y:f32[1,2,4,4] = MaxPool(%0) {kernel_shape=[2, 2], strides=[2, 2]}  # 4 3 5
                %1 = Mul(x, 0.5)  # 6
                %2 = MaxPool(%1) {kernel_shape=[2, 2], strides=[2, 2]}  # 7
                z:f32[1,2,4,4] = Mul(%2, 2.0)  # 8
            "#]],
        );
    }

    #[test]
    fn a_sum_over_other_windows_or_with_another_divisor_is_not_fused() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[1,2,8,8]) -> (y, z)
%0:f32[1,2,4,4] = jax2onnx.composite::window_sum(x) {kernel_shape=[3, 3], pads=[1, 1, 0, 0], strides=[2, 2]}
%1:f32[1,1,8,8] = Expand(1.0, [1, 1, 8, 8]:i64)
%2:f32[1,1,4,4] = jax2onnx.composite::window_sum(%1) {kernel_shape=[3, 3], pads=[0, 0, 1, 1], strides=[2, 2]}
y:f32[1,2,4,4] = Div(%0, %2)
z:f32[1,2,4,4] = Div(%0, 8.0)",
            expect![[r#"
                graph g(x:f32[1,2,8,8]) -> (y, z)
                %0 = jax2onnx.composite::window_sum(x) {kernel_shape=[3, 3], pads=[1, 1, 0, 0], strides=[2, 2]}  # 2
                %1 = Expand(1.0, [1, 1, 8, 8]:i64)  # 3
                %2 = jax2onnx.composite::window_sum(%1) {kernel_shape=[3, 3], pads=[0, 0, 1, 1], strides=[2, 2]}  # 4
                y:f32[1,2,4,4] = Div(%0, %2)  # 5
                z:f32[1,2,4,4] = Div(%0, 8.0)  # 6
            "#]],
        );
    }
}
