//! Eigenvalues of general matrices.

use onnx::Expr;

use super::batch::{axes, epsilon};
use super::refused;
use crate::ctx::{Ctx, Eqn};
use crate::element::Element;
use crate::error::Result;

/// `A · V = V · diag(w)` and `Uᴴ · A = diag(w) · Uᴴ`. Returns `w`, and `U` and `V` if wanted.
///
/// All results are complex. The eigenvalue of a matrix with one row is its element, and the
/// eigenvectors are 1.
pub(crate) fn eig<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let with_left: bool = eqn.param("compute_left_eigenvectors")?;
    let with_right: bool = eqn.param("compute_right_eigenvectors")?;
    // Hints for the computation and differentiation do not change the numbers.
    eqn.ignore(&["enable_eigvec_derivs", "implementation", "use_magma"]);
    let [a] = eqn.operands()?;
    let is_complex = eqn.input_dtypes.iter().any(Element::has_parts);
    let values_type = eqn.output()?;
    let rank = values_type.rank();

    let is_real_pair = !is_complex && values_type.shape[rank - 2].is(2);
    let values = if values_type.shape[rank - 2].is(1) {
        let number = a.squeeze(&[rank - 2]);
        if is_complex { number } else { complex(number, number * 0.0) }
    } else if is_real_pair && !with_left && !with_right {
        of_two(a)
    } else if is_real_pair {
        return Err(refused(eqn, "with eigenvectors of a matrix with more than one row").into());
    } else {
        return Err(refused(
            eqn,
            "of a matrix with more than two rows, or of a complex matrix with two rows",
        )
        .into());
    };
    let one = ctx.builder.constant(values_type.dtype, &[2], &[1.0, 0.0]);
    let vectors = eqn.outputs[1..].iter().map(|ty| one.expand(&ty.shape));
    Ok(std::iter::once(values).chain(vectors).collect())
}

/// Joins real and imaginary parts to pairs.
#[track_caller]
fn complex<'g>(real: Expr<'g>, imaginary: Expr<'g>) -> Expr<'g> {
    let axis = real.rank();
    Expr::concat(&[real.unsqueeze(&[axis]), imaginary.unsqueeze(&[axis])], axis)
}

/// Returns the eigenvalues of `[a b; c d]`, in the order of LAPACK.
///
/// With `p = ½ · (a − d)`, they are `½ · (a + d) ± √(p² + b · c)`. In the first one, the root has
/// the sign of `p`, or the sign of `b + c` if it is lost in rounding. In a conjugate pair, the
/// first one has the positive imaginary part. The numbers are scaled to at most one before the
/// root, and the second eigenvalue follows from the product of both. The eigenvalues of a
/// triangular matrix are on its diagonal, for a lower triangle in reverse order.
fn of_two(matrix: Expr<'_>) -> Expr<'_> {
    let (row_axis, column_axis) = axes(matrix);
    let entry = |i: i64, j: i64| {
        let row = matrix.slice_axis(row_axis, i, i + 1);
        row.slice_axis(column_axis, j, j + 1).squeeze(&[row_axis])
    };
    let [a, b, c, d] = [entry(0, 0), entry(0, 1), entry(1, 0), entry(1, 1)];
    let (zero, one) = (a.constant(0.0), a.constant(1.0));

    let p = (a - d) * 0.5;
    let (size_b, size_c) = (b.abs(), c.abs());
    let larger = size_b.max(size_c);
    let smaller = size_b.min(size_c) * b.sign() * c.sign();
    let scale = p.abs().max(larger);
    let divisor = scale.equal(0.0).select(one, scale);
    let square = (p / divisor) * p + (larger / divisor) * smaller;
    let root = scale.sqrt() * square.abs().sqrt();
    let is_pair = square.less(0.0);
    let is_clear = square.greater_equal(4.0 * epsilon(a.dtype()));

    let center = d + p;
    let side = is_clear.select(p, b + c);
    let way = side.less(0.0).select(-root, root);
    let distance = p + way;
    let divisor = distance.equal(0.0).select(one, distance);
    let second = is_clear.select(d - (larger / divisor) * smaller, center - way);
    let first = is_pair.select(center, center + way);
    let second = is_pair.select(center, second);

    let (is_upper, is_lower) = (c.equal(0.0), b.equal(0.0));
    let first = is_upper.select(a, is_lower.select(d, first));
    let second = is_upper.select(d, is_lower.select(a, second));
    let imaginary = is_pair.select(root, zero);
    complex(
        Expr::concat(&[first, second], row_axis),
        Expr::concat(&[imaginary, -imaginary], row_axis),
    )
}
