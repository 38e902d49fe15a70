//! Fuses norms over any axes of an array.
//!
//! The operators normalize the last axes. For other axes, the array is transposed, which is not slower than the formula.
//! If the scale and the bias vary along the normalized axes or along the channels of an instance, they are operands of
//! the norm. Otherwise, they stay separate nodes.

use algebra::axis_map::transpose;
use algebra::rewrite::{Match, Result, ensure};
use onnx::{Dim, Op, OpType, Type, ValueId};

use super::affine::{Affine, MAX_EQUAL, Vector};
use super::{epsilon, expect_whole, group, normalized_axes};

pub(super) fn to_layer_norm(found: &mut Match<'_, '_, '_>) -> Result<Op> {
    let x = found.value("x")?;
    let axes = normalized_axes(found)?;
    for name in ["spread mean", "mean in variance", "factor"] {
        if let Some(value) = found.maybe(name) {
            found.expect_reduced(value, x, &axes)?;
        }
    }
    expect_whole(found, x)?;
    let shape = found.ty(x)?.shape;
    let rank = shape.len();
    expect_elements(&shape, &axes)?;
    if let Some((source, groups)) = group::Groups::behind(found, x, &axes) {
        let affine = Affine::over(found, x, &[rank - 2, rank - 1])?;
        return group::to_split_groups(found, source, &groups, affine);
    }
    if axes.iter().copied().eq(1..rank - 1)
        && let Ok(affine) = Affine::over(found, x, &[rank - 1])
    {
        return group::to_instance_norm(found, x, affine);
    }
    let affine = Affine::over(found, x, &axes);
    if affine.is_err()
        && axes.iter().copied().eq(2..rank)
        && let Ok(affine) = Affine::over(found, x, &[1])
    {
        return group::instance_norm(found, x, affine);
    }
    match affine {
        Ok(affine) => normalized(found, x, &axes, affine),
        Err(_) if Vector::over(found, "scale", x, &axes).is_err() => beside(found, x, &axes),
        Err(why) => Err(why),
    }
}

/// Expects axes that are never empty: ONNX Runtime fails if there is nothing to normalize.
fn expect_elements(shape: &[Dim], axes: &[usize]) -> Result<()> {
    ensure(!axes.is_empty(), "no axis is reduced")?;
    ensure(axes.iter().all(|&axis| shape[axis].is_positive()), "a normalized axis may be empty")
}

pub(super) fn to_rms_norm(found: &mut Match<'_, '_, '_>) -> Result<Op> {
    let x = found.value("x")?;
    let axes = found.axes("square mean")?;
    found.expect_reduced(found.value("factor")?, x, &axes)?;
    expect_whole(found, x)?;
    let Type { shape, dtype } = found.ty(x)?;
    expect_elements(&shape, &axes)?;
    found.expect_kernel(OpType::RMSNormalization, x)?;
    let epsilon = epsilon(found, dtype)?;
    let scale = match Vector::over(found, "scale", x, &axes)? {
        Some(scale) => scale,
        None => Vector::filled(&shape, &axes, 1.0, MAX_EQUAL, Vec::new())?,
    };
    let scale = scale.emit(found, dtype)?;
    over_last_axes(found, x, &axes, |_, x, axis| {
        let op = Op::new(OpType::RMSNormalization, &[x, scale]).attr("axis", axis as i64);
        Ok(op.attr("epsilon", epsilon))
    })
}

/// Applies an operator over the last axes to any axes, with transposes if necessary.
fn over_last_axes(
    found: &mut Match<'_, '_, '_>,
    x: ValueId,
    axes: &[usize],
    make: impl FnOnce(&mut Match<'_, '_, '_>, ValueId, usize) -> Result<Op>,
) -> Result<Op> {
    let rank = found.ty(x)?.rank();
    let first = rank - axes.len();
    if axes.iter().copied().eq(first..rank) {
        return make(found, x, first);
    }
    let kept = (0..rank).filter(|axis| !axes.contains(axis));
    let order: Vec<usize> = kept.chain(axes.iter().copied()).collect();
    let mut back: Vec<usize> = (0..rank).collect();
    back.sort_by_key(|&axis| order[axis]);
    let transposed = found.insert(transpose(x, &order));
    let op = make(found, transposed, first)?;
    let result = found.insert(op);
    Ok(transpose(result, &back))
}

/// Returns the norm with a scale and a bias along the normalized axes.
fn normalized(
    found: &mut Match<'_, '_, '_>,
    x: ValueId,
    axes: &[usize],
    affine: Affine,
) -> Result<Op> {
    let Type { shape, dtype } = found.ty(x)?;
    let ones = axes.iter().map(|&axis| shape[axis].known()).product::<Option<i64>>();
    // An instance norm needs one number per channel. Several normalized axes have more elements than that.
    let mut kept = (0..shape.len()).filter(|axis| !axes.contains(axis)).skip(1);
    let are_instances = axes.len() > 1
        && kept.next().is_some_and(|channel| shape[channel].known().is_some())
        && kept.next().is_none();
    if affine.is_none() && (are_instances || ones.is_none_or(|ones| ones > MAX_EQUAL)) {
        return over_last_axes(found, x, axes, group::to_unscaled_norm);
    }
    found.expect_kernel(OpType::LayerNormalization, x)?;
    let epsilon = epsilon(found, dtype)?;
    let scale = match affine.scale {
        Some(scale) => scale,
        None => Vector::filled(&shape, axes, 1.0, MAX_EQUAL, Vec::new())?,
    };
    let mut vectors = vec![scale.emit(found, dtype)?];
    if let Some(bias) = affine.bias {
        vectors.push(bias.emit(found, dtype)?);
    }
    over_last_axes(found, x, axes, |_, x, axis| {
        let inputs = [&[x], &vectors[..]].concat();
        let op = Op::new(OpType::LayerNormalization, &inputs).attr("axis", axis as i64);
        Ok(op.attr("epsilon", epsilon))
    })
}

/// Returns the norm with a separate scale and bias.
fn beside(found: &mut Match<'_, '_, '_>, x: ValueId, axes: &[usize]) -> Result<Op> {
    let op = normalized(found, x, axes, Affine::default())?;
    let operands = [("scale", OpType::Mul), ("bias", OpType::Add)];
    let operands = operands.into_iter().filter_map(|(name, op)| Some((op, found.maybe(name)?)));
    Ok(operands.collect::<Vec<_>>().into_iter().fold(op, |before, (op, value)| {
        let result = found.insert(before);
        Op::new(op, &[result, value])
    }))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use crate::formulas::norm::STAGES;

    #[track_caller]
    fn check(graph: &str, expect: Expect) {
        testing::check(testing::formulas(&STAGES), graph, expect);
    }

    /// A norm over some axes of `x`, and then scaled and shifted.
    fn over(axes: &str, sizes: [&str; 2], rest: &str) -> String {
        let [whole, reduced] = sizes;
        format!(
            "graph g(x:f32[{whole}]) -> (y)
%0:f32[{reduced}] = ReduceMean(x, [{axes}]:i64) {{keepdims=1}}
%1:f32[{whole}] = Sub(x, %0)
%2:f32[{whole}] = Mul(%1, %1)
%3:f32[{reduced}] = ReduceMean(%2, [{axes}]:i64) {{keepdims=1}}
%4:f32[{reduced}] = Add(%3, 0.00001)
%5:f32[{reduced}] = Sqrt(%4)
%6:f32[{whole}] = Div(%1, %5)
{rest}"
        )
    }

    #[test]
    fn a_norm_of_each_channel_on_the_second_axis_is_an_instance_norm() {
        check(
            &over(
                "2, 3",
                ["B,2,5,5", "B,2,1,1"],
                "%7:f32[B,2,5,5] = Mul(%6, [[[3.0]], [[4.0]]])
y:f32[B,2,5,5] = Add(%7, [[[1.0]], [[2.0]]])",
            ),
            expect![[r#"
                graph g(x:f32[B,2,5,5]) -> (y)
                y:f32[B,2,5,5] = InstanceNormalization(x, [3.0, 4.0], [1.0, 2.0]) {epsilon=1e-5}  # 10 2 3 4 5 6 7 8 9
            "#]],
        );
    }

    #[test]
    fn a_norm_over_channels_on_the_first_axis_is_transposed() {
        check(
            &over(
                "1",
                ["B,2,5,5", "B,1,5,5"],
                "%7:f32[B,2,5,5] = Mul(%6, [[[3.0]], [[4.0]]])
y:f32[B,2,5,5] = Add(%7, [[[1.0]], [[2.0]]])",
            ),
            expect![[r#"
                graph g(x:f32[B,2,5,5]) -> (y)
                %0 = Transpose(x) {perm=[0, 2, 3, 1]}  # 10 2 3 4 5 6 7 8 9
                %1 = LayerNormalization(%0, [3.0, 4.0], [1.0, 2.0]) {axis=3, epsilon=1e-5}  # 10 2 3 4 5 6 7 8 9
                y:f32[B,2,5,5] = Transpose(%1) {perm=[0, 3, 1, 2]}  # 10 2 3 4 5 6 7 8 9
            "#]],
        );
    }

    #[test]
    fn a_scale_of_channels_is_beside_a_norm_of_whole_images() {
        check(
            &over(
                "1, 2, 3",
                ["B,5,5,2", "B,1,1,1"],
                "%7:f32[B,5,5,2] = Mul(%6, [3.0, 4.0])
y:f32[B,5,5,2] = Add(%7, [1.0, 2.0])",
            ),
            expect![[r#"
                graph g(x:f32[B,5,5,2]) -> (y)
                %0 = LayerNormalization(x, const f32[5,5,2]) {axis=1, epsilon=1e-5}  # 10 2 3 4 5 6 7 8 9
                %1 = Mul(%0, [3.0, 4.0])  # 9 2 3 4 5 6 7 8 10
                y:f32[B,5,5,2] = Add(%1, [1.0, 2.0])  # 10 2 3 4 5 6 7 8 9
            "#]],
        );
    }

    #[test]
    fn a_norm_over_a_row_that_may_be_empty_is_not_fused() {
        check(
            &over("1", ["2,N", "2,1"], "y:f32[2,N] = Mul(%6, 2.0)"),
            expect![[r#"
                graph g(x:f32[2,N]) -> (y)
                %0 = ReduceMean(x, [1]:i64) {keepdims=1}  # 2
                %1 = Sub(x, %0)  # 3
                %2 = Mul(%1, %1)  # 4
                %3 = ReduceMean(%2, [1]:i64) {keepdims=1}  # 5
                %4 = Add(%3, 1e-5)  # 6
                %5 = Sqrt(%4)  # 7
                %6 = Div(%1, %5)  # 8
                y:f32[2,N] = Mul(%6, 2.0)  # 9
            "#]],
        );
    }

    /// Groups of the last axis, normalized in their own shape.
    const GROUPS: &str = "graph g(x:f32[B,3,3,4]) -> (y)
%0:f32[B,3,3,2,2] = Reshape(x, [-1, 3, 3, 2, 2]:i64)
%1:f32[B,1,1,2,1] = ReduceMean(%0, [1, 2, 4]:i64) {keepdims=1}
%2:f32[B,3,3,2,2] = Sub(%0, %1)
%3:f32[B,3,3,2,2] = Mul(%2, %2)
%4:f32[B,1,1,2,1] = ReduceMean(%3, [1, 2, 4]:i64) {keepdims=1}
%5:f32[B,1,1,2,1] = Add(%4, 0.00001)
%6:f32[B,1,1,2,1] = Sqrt(%5)
%7:f32[B,1,1,2,1] = Reciprocal(%6)
";

    #[test]
    fn groups_in_their_own_shape_are_instances() {
        check(
            &format!(
                "{GROUPS}%8:f32[B,3,3,2,2] = Mul(%2, %7)
%9:f32[B,3,3,4] = Reshape(%8, [-1, 3, 3, 4]:i64)
y:f32[B,3,3,4] = Mul(%9, [1.0, 2.0, 3.0, 4.0])"
            ),
            expect![[r#"
                graph g(x:f32[B,3,3,4]) -> (y)
                %0 = Transpose(x) {perm=[0, 3, 1, 2]}  # 10 2 3 4 5 6 7 8 9
                %1 = Reshape(%0, [0, 2, 18]:i64)  # 2 3 4 5 6 7 8 9 10
                %2 = InstanceNormalization(%1, [1.0, 1.0], [0.0, 0.0]) {epsilon=1e-5}  # 10 2 3 4 5 6 7 8 9
                %3 = Reshape(%2, [0, 4, 3, 3]:i64)  # 2 3 4 5 6 7 8 9 10
                %4 = Transpose(%3) {perm=[0, 2, 3, 1]}  # 10 2 3 4 5 6 7 8 9
                %5 = Reshape(%4, [-1, 3, 3, 2, 2]:i64)  # 2 3 4 5 6 7 8 9 10
                %6 = Reshape(%5, [-1, 3, 3, 4]:i64)  # 11
                y:f32[B,3,3,4] = Mul(%6, [1.0, 2.0, 3.0, 4.0])  # 12
            "#]],
        );
    }

    #[test]
    fn a_factor_and_a_shift_may_be_computed_first() {
        check(
            &format!(
                "{GROUPS}%8:f32[B,1,1,2,2] = Mul(%7, [[1.0, 2.0], [3.0, 4.0]])
%9:f32[B,1,1,2,1] = Neg(%1)
%10:f32[B,1,1,2,2] = Mul(%9, %8)
%11:f32[B,1,1,2,2] = Add(%10, [[5.0, 6.0], [7.0, 8.0]])
%12:f32[B,3,3,2,2] = Mul(%0, %8)
%13:f32[B,3,3,2,2] = Add(%12, %11)
y:f32[B,3,3,4] = Reshape(%13, [-1, 3, 3, 4]:i64)"
            ),
            expect![[r#"
                graph g(x:f32[B,3,3,4]) -> (y)
                %0 = Transpose(x) {perm=[0, 3, 1, 2]}  # 15 2 3 4 5 6 7 8 9 10 11 12 13 14
                %1 = Reshape(%0, [0, 2, 18]:i64)  # 2 3 4 5 6 7 8 9 10 11 12 13 14 15
                %2 = InstanceNormalization(%1, [1.0, 1.0], [0.0, 0.0]) {epsilon=1e-5}  # 15 2 3 4 5 6 7 8 9 10 11 12 13 14
                %3 = Reshape(%2, [0, 4, 3, 3]:i64)  # 2 3 4 5 6 7 8 9 10 11 12 13 14 15
                %4 = Mul(%3, [[[1.0]], [[2.0]], [[3.0]], [[4.0]]])  # 14 2 3 4 5 6 7 8 9 10 11 12 13 15
                %5 = Add(%4, [[[5.0]], [[6.0]], [[7.0]], [[8.0]]])  # 15 2 3 4 5 6 7 8 9 10 11 12 13 14
                %6 = Transpose(%5) {perm=[0, 2, 3, 1]}  # 15 2 3 4 5 6 7 8 9 10 11 12 13 14
                %7 = Reshape(%6, [-1, 3, 3, 2, 2]:i64)  # 2 3 4 5 6 7 8 9 10 11 12 13 14 15
                y:f32[B,3,3,4] = Reshape(%7, [-1, 3, 3, 4]:i64)  # 16
            "#]],
        );
    }

    #[test]
    fn a_shift_with_another_factor_is_not_fused() {
        check(
            &format!(
                "{GROUPS}%8:f32[B,1,1,2,2] = Mul(%7, [[1.0, 2.0], [3.0, 4.0]])
%9:f32[B,1,1,2,1] = Neg(%1)
%10:f32[B,1,1,2,1] = Mul(%9, %7)
%11:f32[B,3,3,2,2] = Mul(%0, %8)
%12:f32[B,3,3,2,2] = Add(%11, %10)
y:f32[B,3,3,4] = Reshape(%12, [-1, 3, 3, 4]:i64)"
            ),
            expect![[r#"
                graph g(x:f32[B,3,3,4]) -> (y)
                %0 = Reshape(x, [-1, 3, 3, 2, 2]:i64)  # 2
                %1 = ReduceMean(%0, [1, 2, 4]:i64) {keepdims=1}  # 3
                %2 = Sub(%0, %1)  # 4
                %3 = Mul(%2, %2)  # 5
                %4 = ReduceMean(%3, [1, 2, 4]:i64) {keepdims=1}  # 6
                %5 = Add(%4, 1e-5)  # 7
                %6 = Sqrt(%5)  # 8
                %7 = Reciprocal(%6)  # 9
                %8 = Mul(%7, [[1.0, 2.0], [3.0, 4.0]])  # 10
                %9 = Neg(%1)  # 11
                %10 = Mul(%9, %7)  # 12
                %11 = Mul(%0, %8)  # 13
                %12 = Add(%11, %10)  # 14
                y:f32[B,3,3,4] = Reshape(%12, [-1, 3, 3, 4]:i64)  # 15
            "#]],
        );
    }

    #[test]
    fn a_scale_in_the_shape_of_groups_is_a_scale_of_channels() {
        check(
            "graph g(x:f32[B,4,3]) -> (y)
%0:f32[B,2,2,3] = Reshape(x, [-1, 2, 2, 3]:i64)
%1:f32[B,2,1,1] = ReduceMean(%0, [2, 3]:i64) {keepdims=1}
%2:f32[B,2,2,3] = Sub(%0, %1)
%3:f32[B,2,2,3] = Mul(%2, %2)
%4:f32[B,2,1,1] = ReduceMean(%3, [2, 3]:i64) {keepdims=1}
%5:f32[B,2,1,1] = Add(%4, 0.00001)
%6:f32[B,2,1,1] = Sqrt(%5)
%7:f32[B,2,2,3] = Div(%2, %6)
%8:f32[B,2,2,3] = Mul(%7, [[[1.0], [2.0]], [[3.0], [4.0]]])
y:f32[B,4,3] = Reshape(%8, [-1, 4, 3]:i64)",
            expect![[r#"
                graph g(x:f32[B,4,3]) -> (y)
                %0 = Reshape(x, [-1, 2, 2, 3]:i64)  # 2
                %1 = InstanceNormalization(%0, [1.0, 1.0], [0.0, 0.0]) {epsilon=1e-5}  # 10 3 4 5 6 7 8 9
                %2 = Mul(%1, [[[1.0], [2.0]], [[3.0], [4.0]]])  # 10 3 4 5 6 7 8 9
                y:f32[B,4,3] = Reshape(%2, [-1, 4, 3]:i64)  # 11
            "#]],
        );
    }
}
