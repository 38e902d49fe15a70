//! The general product of tensors.

use onnx::{DType, Dim, Expr};

use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

/// The axes of one operand, by what they are to the product.
struct Axes {
    batch: Vec<usize>,
    free: Vec<usize>,
    contracted: Vec<usize>,
}

/// `out[b…, m…, n…] = Σ_k lhs[b…, m…, k…] · rhs[b…, n…, k…]`
///
/// One `MatMul` of the operands in the order `lhs[b…, m…, k…]`, `rhs[b…, k…, n…]`, with the axes of a
/// group joined where `MatMul` has room for one.
pub(crate) fn dot_general<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    type Pair = (Vec<usize>, Vec<usize>);
    let (contracted, batch): (Pair, Pair) = eqn.param("dimension_numbers")?;
    // The result's type says what is preferred; precision is a hint.
    eqn.ignore(&["precision", "preferred_element_type"]);
    eqn.refuse(&["out_sharding"])?;
    let [lhs, rhs] = eqn.operands()?;
    let result = eqn.output()?;

    let compute = compute_type(lhs.dtype(), rhs.dtype(), result.dtype);
    let (lhs, rhs) = (lhs.cast(compute), rhs.cast(compute));
    let left = Axes::new(lhs, batch.0, contracted.0);
    let right = Axes::new(rhs, batch.1, contracted.1);

    let dims = |x: Expr<'g>, axes: &[usize]| -> Vec<Dim> {
        axes.iter().map(|&axis| x.shape()[axis].clone()).collect()
    };
    let batch = dims(lhs, &left.batch);
    let (rows, columns) = (dims(lhs, &left.free), dims(rhs, &right.free));
    let depth = ctx.builder.product(&dims(lhs, &left.contracted));

    // Without batch axes the rows may stay apart, and the columns are one axis of a plain matrix.
    let keep_rows = batch.is_empty() && !rows.is_empty();
    let rows_in = if keep_rows { rows.clone() } else { vec![ctx.builder.product(&rows)] };
    let columns_in = ctx.builder.product(&columns);

    let left_order = [&left.batch[..], &left.free, &left.contracted].concat();
    let right_order = [&right.batch[..], &right.contracted, &right.free].concat();
    let left_shape = [&batch[..], &rows_in, &[depth.clone()]].concat();
    let right_shape = [&batch[..], &[depth, columns_in]].concat();
    let lhs = lhs.transpose(&left_order).reshape(&left_shape);
    let rhs = rhs.transpose(&right_order).reshape(&right_shape);

    let product = lhs.matmul(rhs).reshape(&result.shape);
    Ok(match result.dtype {
        DType::Bool => product.not_equal(0.0),
        dtype => product.cast(dtype),
    })
}

impl Axes {
    fn new(x: Expr<'_>, batch: Vec<usize>, contracted: Vec<usize>) -> Axes {
        let is_free = |axis: &usize| !batch.contains(axis) && !contracted.contains(axis);
        Axes { free: (0..x.rank()).filter(is_free).collect(), batch, contracted }
    }
}

/// The type that the sum is taken in: the widest of operands and result.
fn compute_type(lhs: DType, rhs: DType, result: DType) -> DType {
    if result == DType::Bool {
        return DType::I32;
    }
    let wider = |a: DType, b: DType| match (a.is_float(), b.is_float()) {
        (true, false) => a,
        (false, true) => b,
        // Two that do not hold each other, such as the two kinds of 16 bits, meet above.
        _ if a != b && a.bits() == b.bits() && a.is_float() => DType::F32,
        _ if b.bits() > a.bits() => b,
        _ => a,
    };
    wider(result, wider(lhs, rhs))
}
