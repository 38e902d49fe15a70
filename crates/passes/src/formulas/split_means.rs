//! `split-means`: splits a mean over an axis that may be empty into a sum and a quotient.
//!
//! ONNX Runtime's `ReduceMean` of nothing is 0 and JAX's mean is NaN, which is what `0 / 0` is.

use onnx::{Attr, Op, OpType, Outcome, Patch, ValueId};

use crate::algebra::access::Access;
use crate::rewrite::require;

pub(crate) fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    require(edit.exact_nan() && edit.node(index).op == OpType::ReduceMean)?;
    let x = edit.input(index, 0)?;
    let shape = edit.ty(x)?.shape.to_vec();
    let axes = edit.axes(index)?;
    require(!axes.iter().all(|&axis| shape[axis].is_positive()))?;
    let ty = edit.result_ty(index)?.clone();
    let keeps = edit.node(index).attr("keepdims").cloned().unwrap_or(Attr::Int(1));
    let axes: Vec<i64> = axes.into_iter().map(|axis| axis as i64).collect();
    let count = count(edit, x, &axes, shape.len())?;
    let to = i64::from(ty.dtype.code());
    let count = edit.insert(Op::new(OpType::Cast, &[count]).attr("to", to));
    let axes = edit.integers(&axes)?;
    let sum = Op::new(OpType::ReduceSum, &[x, axes]).attr("keepdims", keeps);
    let sum = edit.insert(sum);
    edit.done(&[], Op::new(OpType::Div, &[sum, count]))
}

/// How many elements are reduced to one: a scalar, or one number in a list.
fn count(edit: &mut Patch<'_, '_>, x: ValueId, axes: &[i64], rank: usize) -> Option<ValueId> {
    if axes.len() == rank {
        return Some(edit.insert(Op::new(OpType::Size, &[x])));
    }
    if let &[axis] = axes {
        let op = Op::new(OpType::Shape, &[x]).attr("start", axis).attr("end", axis + 1);
        return Some(edit.insert(op));
    }
    let places = edit.integers(axes)?;
    let sizes = edit.insert(Op::new(OpType::Shape, &[x]));
    let sizes = edit.insert(Op::new(OpType::Gather, &[sizes, places]));
    Some(edit.insert(Op::new(OpType::ReduceProd, &[sizes])))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use crate::testing::{check, each};

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
            %0 = Shape(x) {end=1, start=0}  # 2
            %1 = Cast(%0) {to=1}  # 2
            %2 = ReduceSum(x, [0]:i64) {keepdims=0}  # 2
            y:f32[4] = Div(%2, %1)  # 2
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
            %0 = Size(x)  # 2
            %1 = Cast(%0) {to=1}  # 2
            %2 = ReduceSum(x, [0, 1]:i64) {keepdims=0}  # 2
            y:f32[] = Div(%2, %1)  # 2
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
            %0 = Shape(x)  # 2
            %1 = Gather(%0, [0, 2]:i64)  # 2
            %2 = ReduceProd(%1)  # 2
            %3 = Cast(%2) {to=1}  # 2
            %4 = ReduceSum(x, [0, 2]:i64) {keepdims=0}  # 2
            y:f32[4] = Div(%4, %3)  # 2
        "#]],
        );
    }

    #[test]
    fn a_mean_over_an_axis_with_elements_is_left() {
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
    fn a_mean_over_an_axis_that_is_positive_for_all_sizes_is_left() {
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
