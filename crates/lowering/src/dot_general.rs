//! Lowers `dot_general`, the product of tensors over any axes.

use onnx::{DType, Dim, Expr, OpType};

use crate::bytes;
use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

/// The axes of one operand, by their role in the product.
struct Axes {
    batch: Vec<usize>,
    free: Vec<usize>,
    contracted: Vec<usize>,
}

/// `out[b…, m…, n…] = Σ_k lhs[b…, m…, k…] · rhs[b…, n…, k…]`
pub(crate) fn dot_general<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    type Pair = (Vec<usize>, Vec<usize>);
    let (contracted, batch): (Pair, Pair) = eqn.param("dimension_numbers")?;
    // The type of the result already follows the preferred type, and the precision is a hint.
    eqn.ignore(&["precision", "preferred_element_type"]);
    let [lhs, rhs] = eqn.operands()?;
    let result = eqn.output()?;

    let (left, right) = Axes::of_both(lhs, rhs, batch, contracted);
    let depth = ctx.builder.product(&dims(lhs, &left.contracted));
    let is_of_bytes = bytes::multiplies(ctx, OpType::MatMulInteger, lhs, rhs, result.dtype);
    let has_matrices = !left.free.is_empty() && !right.free.is_empty();
    // ONNX Runtime does not write the result of `MatMulInteger` if it sums over nothing.
    if is_of_bytes && has_matrices && !left.contracted.is_empty() && depth.is_positive() {
        let product = matrix_product(lhs, &left, rhs, &right, depth, product_of_bytes);
        return Ok(product.reshape(&result.shape));
    }
    let compute = compute_type(lhs.dtype(), rhs.dtype(), result.dtype, &depth);
    let (lhs, rhs) = (lhs.cast(compute), rhs.cast(compute));
    let product = if depth.is(0) {
        lhs.constant(0.0).expand(&result.shape)
    } else if left.contracted.is_empty() {
        outer_product(lhs, &left, rhs, &right)
    } else {
        matrix_product(lhs, &left, rhs, &right, depth, |a, b| a.matmul(b)).reshape(&result.shape)
    };
    Ok(match result.dtype {
        DType::Bool => product.not_equal(0.0),
        dtype => product.cast(dtype),
    })
}

/// `MatMulInteger`, of unsigned bytes with a zero point
fn product_of_bytes<'g>(lhs: Expr<'g>, rhs: Expr<'g>) -> Expr<'g> {
    let ((a, zero_of_a), (b, zero_of_b)) = (bytes::unsigned(lhs), bytes::unsigned(rhs));
    lhs.builder.node(OpType::MatMulInteger, &[a, b, zero_of_a, zero_of_b], vec![])
}

/// Returns one product of the operands in the order `lhs[b…, m…, k…]`, `rhs[b…, k…, n…]`. Where
/// `MatMul` supports only one axis, the axes of the group are merged.
fn matrix_product<'g>(
    lhs: Expr<'g>,
    left: &Axes,
    rhs: Expr<'g>,
    right: &Axes,
    depth: Dim,
    multiply: impl FnOnce(Expr<'g>, Expr<'g>) -> Expr<'g>,
) -> Expr<'g> {
    let batch = dims(lhs, &left.batch);
    let (rows, columns) = (dims(lhs, &left.free), dims(rhs, &right.free));
    // Without batch axes, the axes of the rows need not be merged, and each operand can be a
    // vector. However, ONNX Runtime returns wrong results for vectors if an axis is empty at run
    // time.
    let no_axis_is_empty =
        rows.iter().chain(&columns).chain(std::iter::once(&depth)).all(Dim::is_positive);
    let may_be_vectors = batch.is_empty() && no_axis_is_empty;
    let keep_rows = batch.is_empty() && (may_be_vectors || !rows.is_empty());
    let joined = |dims: &[Dim]| vec![lhs.builder.product(dims)];
    let rows = if keep_rows { rows } else { joined(&rows) };
    let columns = if may_be_vectors && columns.is_empty() { columns } else { joined(&columns) };
    let depth = [depth];

    let left_order = [&left.batch[..], &left.free, &left.contracted].concat();
    let right_order = [&right.batch[..], &right.contracted, &right.free].concat();
    let lhs = lhs.transpose(&left_order).reshape(&[&batch[..], &rows, &depth].concat());
    let rhs = rhs.transpose(&right_order).reshape(&[&batch[..], &depth, &columns].concat());
    multiply(lhs, rhs)
}

/// `out[b…, m…, n…] = lhs[b…, m…] · rhs[b…, n…]`
fn outer_product<'g>(lhs: Expr<'g>, left: &Axes, rhs: Expr<'g>, right: &Axes) -> Expr<'g> {
    let lhs = lhs.transpose(&[&left.batch[..], &left.free].concat());
    let rhs = rhs.transpose(&[&right.batch[..], &right.free].concat());
    let columns: Vec<usize> = (lhs.rank()..lhs.rank() + right.free.len()).collect();
    // Without batch axes, broadcasting adds the leading axes.
    let batch = left.batch.len();
    let rows: Vec<usize> =
        if batch == 0 { Vec::new() } else { (batch..batch + left.free.len()).collect() };
    lhs.unsqueeze(&columns) * rhs.unsqueeze(&rows)
}

impl Axes {
    /// Returns the axes of both operands. The contracted axes can be in any order that is the same
    /// in both operands: prefers an order that needs no transpose.
    fn of_both(
        lhs: Expr<'_>,
        rhs: Expr<'_>,
        batch: (Vec<usize>, Vec<usize>),
        contracted: (Vec<usize>, Vec<usize>),
    ) -> (Axes, Axes) {
        let mut pairs: Vec<(usize, usize)> = contracted.0.into_iter().zip(contracted.1).collect();
        pairs.sort_by_key(|pair| pair.1);
        let right = Axes::new(rhs, batch.1, pairs.iter().map(|pair| pair.1).collect());
        let right_is_in_order =
            [&right.batch[..], &right.contracted, &right.free].concat().is_sorted();
        if right_is_in_order {
            let left = Axes::new(lhs, batch.0, pairs.iter().map(|pair| pair.0).collect());
            return (left, right);
        }
        pairs.sort_unstable();
        let left = Axes::new(lhs, batch.0, pairs.iter().map(|pair| pair.0).collect());
        let right = Axes { contracted: pairs.iter().map(|pair| pair.1).collect(), ..right };
        (left, right)
    }

    fn new(x: Expr<'_>, batch: Vec<usize>, contracted: Vec<usize>) -> Axes {
        let is_free = |axis: &usize| !batch.contains(axis) && !contracted.contains(axis);
        Axes { free: (0..x.rank()).filter(is_free).collect(), batch, contracted }
    }
}

fn dims(x: Expr<'_>, axes: &[usize]) -> Vec<Dim> {
    let shape = x.shape();
    axes.iter().map(|&axis| shape[axis].clone()).collect()
}

/// Returns the type of the sum: the widest type of the operands and the result.
pub(crate) fn compute_type(lhs: DType, rhs: DType, result: DType, depth: &Dim) -> DType {
    if result == DType::Bool {
        return DType::I32;
    }
    let wider = |a: DType, b: DType| match (a.is_float(), b.is_float()) {
        (true, false) => a,
        (false, true) => b,
        // For two different types of the same width, such as float16 and bfloat16, float32 contains
        // both.
        _ if a != b && a.bits() == b.bits() && a.is_float() => DType::F32,
        _ if b.bits() > a.bits() => b,
        _ => a,
    };
    match wider(result, wider(lhs, rhs)) {
        // ONNX Runtime fails on empty products of unsigned integers. Signed integers wrap in the
        // same way.
        DType::U32 if depth.known().is_none() => DType::I32,
        DType::U64 if depth.known().is_none() => DType::I64,
        widest => widest,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn a_plain_product_is_one_matmul() {
        check(
            "x:f32[2,3] y:f32[3,4] -> z:f32[2,4] = \
             dot_general{dimension_numbers=(([1], [0]), ([], []))} x y",
            expect![[r"
                graph test(in_0:f32[2,3], in_1:f32[3,4]) -> (out_0)
                out_0:f32[2,4] = MatMul(in_0, in_1)
            "]],
        );
    }

    #[test]
    fn a_product_of_bytes_has_unsigned_operands() {
        check(
            "x:i8[2,3] y:u8[3,4] -> z:i32[2,4] = \
             dot_general{dimension_numbers=(([1], [0]), ([], []))} x y",
            expect![[r#"
                graph test(in_0:i8[2,3], in_1:u8[3,4]) -> (out_0)
                %0 = Cast(in_0) {to=2}
                %1 = BitwiseXor(%0, 128:u8)
                out_0:i32[2,4] = MatMulInteger(%1, in_1, 128:u8, 0:u8)
            "#]],
        );
    }

    #[test]
    fn a_product_of_bytes_that_may_sum_over_nothing_is_of_integers() {
        check(
            "x:i8[2,K] y:i8[K,4] -> z:i32[2,4] = \
             dot_general{dimension_numbers=(([1], [0]), ([], []))} x y",
            expect![[r#"
                graph test(in_0:i8[2,K], in_1:i8[K,4]) -> (out_0)
                %0 = Cast(in_0) {to=6}
                %1 = Cast(in_1) {to=6}
                out_0:i32[2,4] = MatMul(%0, %1)
            "#]],
        );
    }

    #[test]
    fn a_product_of_bytes_that_wraps_is_not_of_wider_integers() {
        check(
            "x:i8[2,3] y:i8[3,4] -> z:i8[2,4] = \
             dot_general{dimension_numbers=(([1], [0]), ([], []))} x y",
            expect![[r#"
                graph test(in_0:i8[2,3], in_1:i8[3,4]) -> (out_0)
                %0 = Cast(in_0) {to=6}
                %1 = Cast(in_1) {to=6}
                %2 = MatMul(%0, %1)
                out_0:i8[2,4] = Cast(%2) {to=3}
            "#]],
        );
    }

    #[test]
    fn several_axes_of_rows_are_kept() {
        check(
            "x:f32[5,2,3] y:f32[3,4] -> z:f32[5,2,4] = \
             dot_general{dimension_numbers=(([2], [0]), ([], []))} x y",
            expect![[r"
                graph test(in_0:f32[5,2,3], in_1:f32[3,4]) -> (out_0)
                out_0:f32[5,2,4] = MatMul(in_0, in_1)
            "]],
        );
    }

    #[test]
    fn a_product_of_batches_is_one_matmul() {
        check(
            "x:f32[B,2,3] y:f32[B,3,4] -> z:f32[B,2,4] = \
             dot_general{dimension_numbers=(([2], [1]), ([0], [0]))} x y",
            expect![[r"
                graph test(in_0:f32[B,2,3], in_1:f32[B,3,4]) -> (out_0)
                out_0:f32[B,2,4] = MatMul(in_0, in_1)
            "]],
        );
    }

    #[test]
    fn a_transposed_right_side_costs_one_transpose() {
        check(
            "x:f32[2,3] y:f32[4,3] -> z:f32[2,4] = \
             dot_general{dimension_numbers=(([1], [1]), ([], []))} x y",
            expect![[r"
                graph test(in_0:f32[2,3], in_1:f32[4,3]) -> (out_0)
                %0 = Transpose(in_1) {perm=[1, 0]}
                out_0:f32[2,4] = MatMul(in_0, %0)
            "]],
        );
    }

    #[test]
    fn a_transposed_right_side_of_a_batch_costs_one_transpose() {
        check(
            "x:f32[5,2,3] y:f32[5,4,3] -> z:f32[5,2,4] = \
             dot_general{dimension_numbers=(([2], [2]), ([0], [0]))} x y",
            expect![[r"
                graph test(in_0:f32[5,2,3], in_1:f32[5,4,3]) -> (out_0)
                %0 = Transpose(in_1) {perm=[0, 2, 1]}
                out_0:f32[5,2,4] = MatMul(in_0, %0)
            "]],
        );
    }

    #[test]
    fn a_vector_stays_a_vector() {
        check(
            "x:f32[2,3] y:f32[3] -> z:f32[2] = \
             dot_general{dimension_numbers=(([1], [0]), ([], []))} x y",
            expect![[r"
                graph test(in_0:f32[2,3], in_1:f32[3]) -> (out_0)
                out_0:f32[2] = MatMul(in_0, in_1)
            "]],
        );
    }

    #[test]
    fn contracted_axes_are_in_the_order_with_the_fewest_transposes() {
        check(
            "x:f32[2,3,4] y:f32[3,4,5] -> z:f32[2,5] = \
             dot_general{dimension_numbers=(([2, 1], [1, 0]), ([], []))} x y",
            expect![[r"
                graph test(in_0:f32[2,3,4], in_1:f32[3,4,5]) -> (out_0)
                %0 = Reshape(in_0, [2, 12]:i64)
                %1 = Reshape(in_1, [12, 5]:i64)
                out_0:f32[2,5] = MatMul(%0, %1)
            "]],
        );
    }

    #[test]
    fn several_axes_of_columns_are_merged() {
        check(
            "x:f32[2,3] y:f32[3,4,5] -> z:f32[2,4,5] = \
             dot_general{dimension_numbers=(([1], [0]), ([], []))} x y",
            expect![[r"
                graph test(in_0:f32[2,3], in_1:f32[3,4,5]) -> (out_0)
                %0 = Reshape(in_1, [3, 20]:i64)
                %1 = MatMul(in_0, %0)
                out_0:f32[2,4,5] = Reshape(%1, [2, 4, 5]:i64)
            "]],
        );
    }

    #[test]
    fn a_product_without_contracted_axes_is_an_outer_product() {
        check(
            "x:f32[2] y:f32[3] -> z:f32[2,3] = \
             dot_general{dimension_numbers=(([], []), ([], []))} x y",
            expect![[r"
                graph test(in_0:f32[2], in_1:f32[3]) -> (out_0)
                %0 = Unsqueeze(in_0, [1]:i64)
                out_0:f32[2,3] = Mul(%0, in_1)
            "]],
        );
    }

    #[test]
    fn an_empty_sum_is_zero() {
        check(
            "x:f32[2,0] y:f32[0,4] -> z:f32[2,4] = \
             dot_general{dimension_numbers=(([1], [0]), ([], []))} x y",
            expect![[r"
                graph test(in_0:f32[2,0], in_1:f32[0,4]) -> (out_0)
                out_0:f32[2,4] = Expand(0.0, [2, 4]:i64)
            "]],
        );
    }

    #[test]
    fn a_sum_of_bytes_is_computed_in_the_type_of_the_result() {
        check(
            "x:i8[2,3] y:i8[3,4] -> z:i32[2,4] = \
             dot_general{dimension_numbers=(([1], [0]), ([], []))} x y",
            expect![[r#"
                graph test(in_0:i8[2,3], in_1:i8[3,4]) -> (out_0)
                %0 = Cast(in_0) {to=2}
                %1 = BitwiseXor(%0, 128:u8)
                %2 = Cast(in_1) {to=2}
                %3 = BitwiseXor(%2, 128:u8)
                out_0:i32[2,4] = MatMulInteger(%1, %3, 128:u8, 128:u8)
            "#]],
        );
    }

    #[test]
    fn four_bits_become_bytes() {
        check(
            "x:i8[2,3] y:i4[3,4] -> z:i32[2,4] = \
             dot_general{dimension_numbers=(([1], [0]), ([], []))} x y",
            expect![[r#"
                graph test(in_0:i8[2,3], in_1:i4[3,4]) -> (out_0)
                %0 = Cast(in_0) {to=2}
                %1 = BitwiseXor(%0, 128:u8)
                %2 = Cast(in_1) {to=6}
                %3 = Cast(%2) {to=2}
                %4 = BitwiseXor(%3, 128:u8)
                out_0:i32[2,4] = MatMulInteger(%1, %4, 128:u8, 128:u8)
            "#]],
        );
    }

    #[test]
    fn a_parameter_that_no_plugin_reads_is_refused() {
        check(
            "x:f32[2,3] y:f32[3,4] -> z:f32[2,4] = \
             dot_general{dimension_numbers=(([1], [0]), ([], [])); algorithm=7} x y",
            expect![[r#"
                refused: the plugin for `dot_general` does not support the parameter `algorithm=7`
            "#]],
        );
    }
}
