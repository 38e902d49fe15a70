//! `make-columns`: rewrites the product of a matrix and a vector as a product with a column, or of a row with a
//! matrix.
//!
//! For a vector, ONNX Runtime multiplies row by row, which is up to fifteen times slower.

use algebra::axis_map::{Step, emit, emit_after};
use algebra::rewrite::require;
use onnx::{Dim, Op, OpType, Outcome, Patch, declined};

/// For smaller matrices, the additional nodes cost more than they save.
const FEWEST_ELEMENTS: i64 = 1024;

pub(crate) fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    require(edit.node(index).op == OpType::MatMul)?;
    let (matrix, vector) = edit.pair(index)?;
    require(edit.rank(vector)? == 1)?;
    let shape = edit.shape(matrix)?;
    if shape.len() == 2 && edit.tensor(matrix).is_some() {
        let transposed = emit(edit, &[], matrix, &[Step::Transpose(vec![1, 0])]).ok()?;
        return edit.done(&[], Op::new(OpType::MatMul, &[vector, transposed]));
    }
    let elements: Option<i64> = shape.iter().map(Dim::known).product();
    require(shape.len() >= 2)?;
    if elements.is_some_and(|elements| elements < FEWEST_ELEMENTS) {
        return declined("the matrix is so small that more nodes would cost more");
    }
    multiply_with_column(edit)
}

/// Rewrites the product of a matrix and a vector as a product with a column.
pub(crate) fn multiply_with_column(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let (matrix, vector) = edit.pair(index)?;
    let size = edit.shape(vector)?.first()?.clone();
    let column = emit(edit, &[], vector, &[Step::Reshape(vec![size, Dim::Known(1)])]).ok()?;
    let back = [Step::Reshape(edit.result_ty(index)?.shape.to_vec())];
    let product = emit_after(edit, Op::new(OpType::MatMul, &[matrix, column]), &back);
    edit.settle(product)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check, each};

    #[test]
    fn a_vector_becomes_a_column() {
        check(
            each(super::run),
            "graph g(x:f32[B,4,3], w:f32[3]) -> (y)
y:f32[B,4] = MatMul(x, w)",
            expect![[r#"
                graph g(x:f32[B,4,3], w:f32[3]) -> (y)
                %0 = Reshape(w, [3, 1]:i64)  # 2
                %1 = MatMul(x, %0)  # 2
                y:f32[B,4] = Reshape(%1, [0, 4]:i64)  # 2
            "#]],
        );
    }

    #[test]
    fn weights_are_transposed() {
        check(
            each(super::run),
            "graph g(x:f32[3]) -> (y)
w = const f32[2,3]
y:f32[2] = MatMul(w, x)",
            expect![[r#"
                graph g(x:f32[3]) -> (y)
                w/Transpose = [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]  # 3
                y:f32[2] = MatMul(x, w/Transpose)
            "#]],
        );
    }

    #[test]
    fn a_product_with_a_small_matrix_is_left() {
        check(
            each(super::run),
            "graph g(x:f32[4,3], w:f32[3]) -> (y)
y:f32[4] = MatMul(x, w)",
            expect![[r#"
                graph g(x:f32[4,3], w:f32[3]) -> (y)
                y:f32[4] = MatMul(x, w)  # 2
            "#]],
        );
    }

    #[test]
    fn a_product_of_two_vectors_is_left() {
        check(
            each(super::run),
            "graph g(x:f32[3], w:f32[3]) -> (y)
y:f32[] = MatMul(x, w)",
            expect![[r#"
                graph g(x:f32[3], w:f32[3]) -> (y)
                y:f32[] = MatMul(x, w)  # 2
            "#]],
        );
    }
}
