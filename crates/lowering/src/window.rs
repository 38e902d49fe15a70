//! Reductions over sliding windows.

mod fold;
mod pool;
mod select;
pub(crate) mod slide;

use onnx::{DType, Dim, Expr};

use crate::ctx::{Ctx, Eqn};
use crate::error::Result;
use crate::reduce::Monoid;
use slide::Slide;

pub(crate) use fold::{reduce, reduce_window};
pub(crate) use select::{select_and_gather_add, select_and_scatter_add};

/// `Σ x` over each window
pub(crate) fn reduce_window_sum<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    reduced(ctx, eqn, Monoid::Add)
}

/// Returns the maximum of each window, or NaN if there is one; for a window without elements, the
/// smallest number.
pub(crate) fn reduce_window_max<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    reduced(ctx, eqn, Monoid::Max)
}

/// Returns the minimum of each window, or NaN if there is one; for a window without elements, the
/// largest number.
pub(crate) fn reduce_window_min<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    reduced(ctx, eqn, Monoid::Min)
}

fn reduced<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>, monoid: Monoid) -> Result<Expr<'g>> {
    let slides = slides(ctx, eqn)?;
    let [x] = eqn.operands()?;
    over_windows(eqn, x, &slides, monoid)
}

/// Reads the window parameters of each axis.
fn slides(ctx: &Ctx<'_>, eqn: &Eqn<'_, '_>) -> Result<Vec<Slide>> {
    let sizes: Vec<i64> = eqn.param("window_dimensions")?;
    let strides: Vec<i64> = eqn.param("window_strides")?;
    let padding: Vec<(Dim, Dim)> = eqn.param("padding")?;
    let base_dilation: Option<Vec<i64>> = eqn.optional("base_dilation")?;
    let window_dilation: Option<Vec<i64>> = eqn.optional("window_dilation")?;
    let at = |list: &Option<Vec<i64>>, axis: usize| {
        list.as_ref().and_then(|list| list.get(axis)).copied().unwrap_or(1)
    };
    let mut slides = Vec::new();
    for (axis, ((&size, &stride), (low, high))) in
        sizes.iter().zip(&strides).zip(&padding).enumerate()
    {
        slides.push(Slide {
            size,
            stride,
            padding: (ctx.dim(low)?, ctx.dim(high)?),
            base_dilation: at(&base_dilation, axis),
            window_dilation: at(&window_dilation, axis),
        });
    }
    Ok(slides)
}

/// Reduces each window: with a pooling operator if there is one, otherwise one axis after the
/// other.
fn over_windows<'g>(
    eqn: &Eqn<'g, '_>,
    x: Expr<'g>,
    slides: &[Slide],
    monoid: Monoid,
) -> Result<Expr<'g>> {
    let shape = eqn.output()?.shape.clone();
    // In a narrow type, a sum or a product is rounded only once.
    let is_narrow = x.dtype().is_float() && x.dtype().bits() < 32;
    if is_narrow && matches!(monoid, Monoid::Add | Monoid::Mul) {
        let wide = reduced_in(eqn, x.cast(DType::F32), slides, monoid, &shape)?;
        return Ok(wide.cast(x.dtype()));
    }
    reduced_in(eqn, x, slides, monoid, &shape)
}

fn reduced_in<'g>(
    eqn: &Eqn<'g, '_>,
    x: Expr<'g>,
    slides: &[Slide],
    monoid: Monoid,
    shape: &[Dim],
) -> Result<Expr<'g>> {
    let sizes = x.shape();
    let axes = || (0..slides.len()).filter(|&axis| !slides[axis].is_trivial());
    let whole: Vec<usize> = axes().filter(|&axis| slides[axis].is_whole(&sizes[axis])).collect();
    let sliding: Vec<usize> = axes().filter(|axis| !whole.contains(axis)).collect();

    let mut rest = x;
    if !whole.is_empty() {
        rest = monoid.reduce(eqn, rest, &whole)?.unsqueeze(&whole);
    }
    if let Some(pooled) = pool::pool(rest, &sliding, slides, monoid, shape) {
        return Ok(pooled);
    }
    let fill = monoid.identity(x);
    for axis in sliding {
        let windows = slides[axis].windows(rest, axis, &shape[axis], fill);
        rest = match slides[axis].size {
            1 => windows.squeeze(&[axis + 1]),
            _ => monoid.reduce(eqn, windows, &[axis + 1])?,
        };
    }
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn a_maximum_over_windows_is_max_pool_and_restores_nan() {
        check(
            "x:f32[B,8,8,3] -> y:f32[B,4,4,3] = reduce_window_max{\
             window_dimensions=[1, 2, 2, 1]; window_strides=[1, 2, 2, 1]; \
             padding=[(0, 0), (0, 0), (0, 0), (0, 0)]; \
             base_dilation=[1, 1, 1, 1]; window_dilation=[1, 1, 1, 1]} x",
            expect![[r#"
                graph test(in_0:f32[B,8,8,3]) -> (out_0)
                %0 = Transpose(in_0) {perm=[0, 3, 1, 2]}
                %1 = Mul(%0, 0.5)
                %2 = MaxPool(%1) {kernel_shape=[2, 2], strides=[2, 2]}
                %3 = Mul(%2, 2.0)
                %4 = Max(%0, 0.0)
                %5 = AveragePool(%4) {kernel_shape=[2, 2], strides=[2, 2]}
                %6 = IsNaN(%5)
                %7 = Where(%6, nan, %3)
                out_0:f32[B,4,4,3] = Transpose(%7) {perm=[0, 2, 3, 1]}
            "#]],
        );
    }

    #[test]
    fn a_sum_over_a_power_of_two_is_average_pool() {
        check(
            "x:f32[2,3,8] -> y:f32[2,3,5] = reduce_window_sum{\
             window_dimensions=[1, 1, 2]; window_strides=[1, 1, 2]; \
             padding=[(0, 0), (0, 0), (1, 1)]; base_dilation=[1, 1, 1]; \
             window_dilation=[1, 1, 1]} x",
            expect![[r#"
                graph test(in_0:f32[2,3,8]) -> (out_0)
                %0 = AveragePool(in_0) {count_include_pad=1, kernel_shape=[2], pads=[1, 1], strides=[2]}
                out_0:f32[2,3,5] = Mul(%0, 2.0)
            "#]],
        );
    }

    #[test]
    fn another_sum_is_a_convolution_with_ones() {
        check(
            "x:f32[2,3,8] -> y:f32[2,3,6] = reduce_window_sum{\
             window_dimensions=[1, 1, 3]; window_strides=[1, 1, 1]; \
             padding=[(0, 0), (0, 0), (0, 0)]; base_dilation=[1, 1, 1]; \
             window_dilation=[1, 1, 1]} x",
            expect![[r#"
                graph test(in_0:f32[2,3,8]) -> (out_0)
                out_0:f32[2,3,6] = Conv(in_0, const f32[3,1,3]) {group=3, kernel_shape=[3]}
            "#]],
        );
    }

    #[test]
    fn a_window_over_the_whole_axis_is_a_reduction() {
        check(
            "x:f32[B,8,8,3] -> y:f32[B,1,1,3] = reduce_window_sum{\
             window_dimensions=[1, 8, 8, 1]; window_strides=[1, 8, 8, 1]; \
             padding=[(0, 0), (0, 0), (0, 0), (0, 0)]; \
             base_dilation=[1, 1, 1, 1]; window_dilation=[1, 1, 1, 1]} x",
            expect![[r#"
                graph test(in_0:f32[B,8,8,3]) -> (out_0)
                %0 = ReduceSum(in_0, [1, 2]:i64) {keepdims=0}
                out_0:f32[B,1,1,3] = Unsqueeze(%0, [1, 2]:i64)
            "#]],
        );
    }

    #[test]
    fn windows_without_a_pooling_operator_are_gathered() {
        check(
            "x:i32[4] -> y:i32[3] = reduce_window_sum{window_dimensions=[2]; window_strides=[2]; \
             padding=[(1, 1)]; base_dilation=[1]; window_dilation=[1]} x",
            expect![[r#"
                graph test(in_0:i32[4]) -> (out_0)
                %0 = Pad(in_0, [0, 1]:i64, 0:i32)
                %1 = Gather(%0, [[4, 0], [1, 2], [3, 4]]:i64) {axis=0}
                %2 = Cast(%1) {to=7}
                %3 = ReduceSum(%2, [1]:i64) {keepdims=0}
                out_0:i32[3] = Cast(%3) {to=6}
            "#]],
        );
    }
}
