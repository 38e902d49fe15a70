//! Linear algebra. ONNX has no factorizations, so they become loops over columns. Every function
//! takes matrices in the last two axes, with any leading axes.

mod batch;
mod condense;
mod eig;
mod eigh;
mod householder;
mod jacobi;
mod loops;
mod lu;
mod matrix;
mod solve;
mod svd;
mod triangular;
mod tridiagonal;

pub(crate) use condense::{hessenberg, schur, tridiagonal};
pub(crate) use eig::eig;
pub(crate) use eigh::eigh;
pub(crate) use householder::{geqp3, geqrf, householder_product, ormqr, qr};
pub(crate) use lu::{lu, lu_pivots_to_permutation};
pub(crate) use solve::{custom_linear_solve, symmetric_product};
pub(crate) use svd::svd;
pub(crate) use triangular::{cholesky, cholesky_update, triangular_solve};
pub(crate) use tridiagonal::tridiagonal_solve;

use onnx::{DType, Expr};

use self::matrix::Matrix;
use crate::ctx::Eqn;
use crate::error::Refused;

/// Returns the operands. Refuses types for which JAX has no factorizations.
fn operands<'g, const N: usize>(eqn: &Eqn<'g, '_>) -> Result<[Expr<'g>; N], Refused> {
    let operands = eqn.operands::<N>()?;
    match operands.iter().find(|x| !matches!(x.dtype(), DType::F32 | DType::F64)) {
        None => Ok(operands),
        Some(other) => Err(refused(eqn, &format!("of {}", other.dtype()))),
    }
}

/// Returns the operands, which are all real or all complex.
fn matrices<'g, const N: usize>(eqn: &Eqn<'g, '_>) -> Result<[Matrix<'g>; N], Refused> {
    Ok(operands(eqn)?.map(|operand| Matrix::of(eqn, operand)))
}

/// Returns the numbers of rows and columns. Refuses symbolic sizes.
fn known_sizes(eqn: &Eqn<'_, '_>, matrix: Expr<'_>) -> Result<(i64, i64), Refused> {
    let shape = matrix.shape();
    let size = |axis: usize| {
        shape[axis].known().ok_or_else(|| refused(eqn, "of a matrix of unknown size"))
    };
    Ok((size(shape.len() - 2)?, size(shape.len() - 1)?))
}

fn refused(eqn: &Eqn<'_, '_>, what: &str) -> Refused {
    Refused::NoFactorization { what: format!("{} {what}", eqn.primitive) }
}
