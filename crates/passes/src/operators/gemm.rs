//! `make-gemm`: fuses a matrix product with the transposes of its operands and a bias.

use algebra::rewrite::require;
use onnx::{DType, Edit, Op, OpType, Outcome, Patch, Type, ValueId, declined};

pub(crate) fn run(patch: &mut Patch<'_, '_>) -> Outcome {
    match patch.op(patch.root())? {
        OpType::MatMul => read_untransposed(patch, patch.root()),
        OpType::Add => add(patch, patch.root()),
        _ => None,
    }
}

/// Replaces `MatMul(Aᵀ, B)` by a `Gemm` that reads `A` and transposes it itself.
fn read_untransposed(edit: &mut Patch<'_, '_>, index: usize) -> Outcome {
    let (a, b) = edit.pair(index)?;
    let is_matrix = |id: ValueId| edit.rank(id) == Some(2);
    let result = edit.result_ty(index)?;
    let (of_a, of_b) = (own_transpose(edit, a), own_transpose(edit, b));
    let fused: Vec<usize> = [of_a, of_b].into_iter().flatten().collect();
    require(!fused.is_empty() && is_matrix(a) && is_matrix(b))?;
    if !has_kernel(edit, result) {
        return declined("ONNX Runtime has no `Gemm` for this type");
    }
    let before = |link: Option<usize>| link.and_then(|link| edit.input(link, 0));
    let op = product_of_transposed([a, b], [before(of_a), before(of_b)]);
    edit.done(&fused, op)
}

/// Returns the product of two matrices. If a matrix is the transpose of another one, the operator reads that one.
pub(crate) fn product_of_transposed(sides: [ValueId; 2], before: [Option<ValueId>; 2]) -> Op {
    let [a, b] = [0, 1].map(|side| before[side].unwrap_or(sides[side]));
    let mut op = Op::new(OpType::Gemm, &[a, b]);
    for (name, before) in ["transA", "transB"].into_iter().zip(before) {
        if before.is_some() {
            op = op.attr(name, 1);
        }
    }
    op
}

/// Returns the transpose that computes a matrix, if nothing else reads the matrix.
fn own_transpose(edit: &Edit<'_>, value: ValueId) -> Option<usize> {
    let link = edit.producer(value).filter(|_| edit.reads(value) == 1)?;
    (edit.perm(link)? == [1, 0]).then_some(link)
}

/// Replaces `A · B + c`, if `c` is the same for every row.
fn add(edit: &mut Patch<'_, '_>, index: usize) -> Outcome {
    let operands = [edit.input(index, 0)?, edit.input(index, 1)?];
    let is_product = |&operand: &usize| {
        let product = edit.producer(operands[operand]);
        product.is_some_and(|product| {
            let node = edit.node(product);
            let is_bare = node.op == OpType::Gemm && node.inputs.len() == 2;
            node.op == OpType::MatMul || is_bare
        }) && edit.reads(operands[operand]) == 1
    };
    let operand = [0, 1].into_iter().find(is_product)?;
    let (value, bias) = (operands[operand], operands[1 - operand]);
    let product = edit.producer(value)?;
    let (a, b) = edit.pair(product)?;
    let ty = |id: ValueId| edit.ty(id);
    let are_matrices = ty(a)?.rank() == 2 && ty(b)?.rank() == 2;
    let result: &Type = ty(edit.result(index))?;
    // ONNX Runtime is fast only for a bias of one row.
    let is_row = match (&ty(bias)?.shape[..], &result.shape[..]) {
        ([columns], [_, wanted]) => columns == wanted,
        ([rows, columns], [_, wanted]) => rows.is(1) && columns == wanted,
        _ => false,
    };
    require(ty(value)? == result)?;
    let has_kernel = has_kernel(edit, result);
    if !are_matrices {
        return declined("an operand of the product is not a matrix");
    }
    if !is_row {
        return declined("the addend is not one row");
    }
    if !has_kernel {
        return declined("ONNX Runtime has no `Gemm` for this type");
    }
    let op = Op::of(edit.node(product), vec![Some(a), Some(b), Some(bias)]);
    edit.done(&[product], Op { op: OpType::Gemm.into(), ..op })
}

fn has_kernel(edit: &Edit<'_>, result: &Type) -> bool {
    let is_wide = matches!(result.dtype, DType::F32 | DType::F64);
    is_wide && edit.has_kernel(OpType::Gemm, result.dtype)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check_lean, each};

    #[test]
    fn a_product_of_matrices_and_a_row_is_one_node() {
        check_lean(
            each(super::run),
            "graph g(x:f32[3,1], w:f32[1,2], b:f32[2], m:f32[3,2]) -> (y, z)
%0:f32[3,2] = MatMul(x, w)
y:f32[3,2] = Add(b, %0)
%1:f32[3,2] = MatMul(x, w)
z:f32[3,2] = Add(%1, m)",
            expect![[r#"
                graph g(x:f32[3,1], w:f32[1,2], b:f32[2], m:f32[3,2]) -> (y, z)
                y:f32[3,2] = Gemm(x, w, b)  # 2 3
                %0 = MatMul(x, w)  # 4
                z:f32[3,2] = Add(%0, m)  # 5
            "#]],
        );
    }

    #[test]
    fn a_transposed_matrix_is_read_as_it_is() {
        check_lean(
            each(super::run),
            "graph g(x:f32[1,3], w:f32[2,1], b:f32[2]) -> (y)
%0:f32[3,1] = Transpose(x) {perm=[1, 0]}
%1:f32[1,2] = Transpose(w) {perm=[1, 0]}
%2:f32[3,2] = MatMul(%0, %1)
y:f32[3,2] = Add(%2, b)",
            expect![[r#"
                graph g(x:f32[1,3], w:f32[2,1], b:f32[2]) -> (y)
                y:f32[3,2] = Gemm(x, w, b) {transA=1, transB=1}  # 4 2 3 5
            "#]],
        );
    }

    #[test]
    fn a_stack_of_matrices_and_one_that_others_read_are_left() {
        check_lean(
            each(super::run),
            "graph g(x:f32[4,1,3], w:f32[1,2], v:f32[2,1]) -> (y, z, t)
%0:f32[4,3,1] = Transpose(x) {perm=[0, 2, 1]}
y:f32[4,3,2] = MatMul(%0, w)
t:f32[1,2] = Transpose(v) {perm=[1, 0]}
z:f32[2,2] = MatMul(v, t)",
            expect![[r#"
                graph g(x:f32[4,1,3], w:f32[1,2], v:f32[2,1]) -> (y, z, t)
                %0 = Transpose(x) {perm=[0, 2, 1]}  # 2
                y:f32[4,3,2] = MatMul(%0, w)  # 3
                t:f32[1,2] = Transpose(v) {perm=[1, 0]}  # 4
                z:f32[2,2] = MatMul(v, t)  # 5
            "#]],
        );
    }
}
