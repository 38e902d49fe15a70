//! `split-means`: splits a mean over an axis that may be empty into a sum and a quotient.
//!
//! For no elements, `ReduceMean` of ONNX Runtime returns 0. JAX returns NaN, which is `0 / 0`.

use algebra::rewrite::require;
use onnx::{Expr, OpType, Outcome, Patch};

pub(crate) fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    require(edit.exact_nan() && edit.node(index).op == OpType::ReduceMean)?;
    let x = edit.input(index, 0)?;
    let shape = edit.shape(x)?.to_vec();
    let axes = edit.axes(index)?;
    if axes.iter().all(|&axis| shape[axis].is_positive()) {
        return None;
    }
    let keeps = edit.node(index).keeps_axes();
    let mean =
        edit.formula([x], |[x]| x.reduce_sum(&axes, keeps) / count(x, &axes).cast(x.dtype()));
    edit.settle(mean)
}

/// Returns the number of elements per mean: a scalar, or a list of one number.
fn count<'g>(x: Expr<'g>, axes: &[usize]) -> Expr<'g> {
    if axes.len() == x.rank() {
        return x.unary(OpType::Size);
    }
    if let &[axis] = axes {
        let ends = vec![("start", (axis as i64).into()), ("end", (axis as i64 + 1).into())];
        return x.builder.node(OpType::Shape, &[x], ends);
    }
    let axes: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
    let sizes = x.unary(OpType::Shape).gather(x.builder.ints(&axes), 0);
    sizes.reduce(OpType::ReduceProd, &[0], true)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use testing::{check, each};

    fn check_mean(shape: &str, result: &str, axes: &str, expect: Expect) {
        let text = format!(
            "graph g(x:f32[{shape}]) -> (y)\ny:f32[{result}] = ReduceMean(x, {axes}:i64) {{keepdims=0}}"
        );
        check(each(super::run), &text, expect);
    }

    #[test]
    fn a_mean_over_a_symbolic_axis_divides_by_its_size() {
        check_mean(
            "B,4",
            "4",
            "[0]",
            expect![[r#"
                graph g(x:f32[B,4]) -> (y)
                %0 = ReduceSum(x, [0]:i64) {keepdims=0}  # 2
                %1 = Shape(x) {end=1, start=0}  # 2
                %2 = Cast(%1) {to=1}  # 2
                y:f32[4] = Div(%0, %2)  # 2
            "#]],
        );
    }

    #[test]
    fn a_mean_over_all_axes_divides_by_the_number_of_elements() {
        check_mean(
            "B,4",
            "",
            "[0, 1]",
            expect![[r#"
                graph g(x:f32[B,4]) -> (y)
                %0 = ReduceSum(x, [0, 1]:i64) {keepdims=0}  # 2
                %1 = Size(x)  # 2
                %2 = Cast(%1) {to=1}  # 2
                y:f32[] = Div(%0, %2)  # 2
            "#]],
        );
    }

    #[test]
    fn a_mean_over_some_axes_divides_by_the_product_of_their_sizes() {
        check_mean(
            "B,4,T",
            "4",
            "[0, 2]",
            expect![[r#"
                graph g(x:f32[B,4,T]) -> (y)
                %0 = ReduceSum(x, [0, 2]:i64) {keepdims=0}  # 2
                %1 = Shape(x)  # 2
                %2 = Gather(%1, [0, 2]:i64) {axis=0}  # 2
                %3 = ReduceProd(%2, [0]:i64) {keepdims=1}  # 2
                %4 = Cast(%3) {to=1}  # 2
                y:f32[4] = Div(%0, %4)  # 2
            "#]],
        );
    }

    #[test]
    fn a_mean_over_an_axis_with_elements_is_kept() {
        check_mean(
            "B,4",
            "B",
            "[1]",
            expect![[r#"
            graph g(x:f32[B,4]) -> (y)
            y:f32[B] = ReduceMean(x, [1]:i64) {keepdims=0}  # 2
        "#]],
        );
    }

    #[test]
    fn a_mean_over_an_axis_that_is_positive_for_all_sizes_is_kept() {
        check_mean(
            "B + 1,B",
            "B",
            "[0]",
            expect![[r#"
            graph g(x:f32[B + 1,B]) -> (y)
            y:f32[B] = ReduceMean(x, [0]:i64) {keepdims=0}  # 2
        "#]],
        );
    }
}
