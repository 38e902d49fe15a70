//! Linear algebra. ONNX has no factorizations, so they are loops over columns in the graph. Every function takes
//! matrices in the last two axes, with any leading axes.

mod condense;
mod eig;
mod eigh;
mod householder;
mod jacobi;
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

use onnx::{Attr, Builder, DType, Dim, Expr, OpType, Type};

use self::matrix::{Carried, Matrix};
use crate::Refused;
use crate::control::{own_results, types};
use crate::ctx::Eqn;

/// Returns the operands, which must be of a type that JAX factors.
fn operands<'g, const N: usize>(eqn: &Eqn<'g, '_>) -> Result<[Expr<'g>; N], Refused> {
    let operands = eqn.operands::<N>()?;
    match operands.iter().find(|x| !matches!(x.dtype(), DType::F32 | DType::F64)) {
        None => Ok(operands),
        Some(other) => Err(refused(eqn, &format!("of {}", other.dtype()))),
    }
}

/// Returns the operands, all real or all complex.
fn matrices<'g, const N: usize>(eqn: &Eqn<'g, '_>) -> Result<[Matrix<'g>; N], Refused> {
    Ok(operands(eqn)?.map(|operand| Matrix::of(eqn, operand)))
}

/// Returns the numbers of rows and columns, which must be known.
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

/// `carried = round(k, carried)` for `k = 0, 1, … count − 1`, where `k` is a list of one index.
#[track_caller]
fn rounds<'g, S: Carried<'g>>(
    builder: &'g Builder,
    count: &Dim,
    carried: S,
    round: impl FnOnce(Expr<'g>, S) -> S,
) -> S {
    match count.known() {
        Some(0) => return carried,
        Some(1) => return round(builder.ints(&[0]), carried),
        _ => {}
    }
    looped(builder, "round", count, carried, |inputs, carried| {
        let results = round(inputs[0].unsqueeze(&[0]), carried);
        (inputs[1], results)
    })
}

/// `carried = round(carried)` at most `limit` times, until its flag does not hold any more.
#[track_caller]
fn rounds_while<'g, S: Carried<'g>>(
    builder: &'g Builder,
    limit: i64,
    carried: S,
    round: impl FnOnce(S) -> (Expr<'g>, S),
) -> S {
    looped(builder, "sweep", &limit.into(), carried, |_, carried| round(carried))
}

/// Runs a body at most `limit` times. The body takes the counter and the flag of the loop.
#[track_caller]
fn looped<'g, S: Carried<'g>>(
    builder: &'g Builder,
    name: &str,
    limit: &Dim,
    carried: S,
    round: impl FnOnce(&[Expr<'g>], S) -> (Expr<'g>, S),
) -> S {
    let list = |carried: S| {
        let mut arrays = Vec::new();
        carried.list(&mut arrays);
        arrays
    };
    let before = list(carried);
    let counter = [Type::new(DType::I64, []), Type::new(DType::Bool, [])];
    let inputs = [&counter[..], &types(&before)].concat();
    let body = builder.body(name, &inputs, |inputs| -> Result<_, std::convert::Infallible> {
        let inside = carried.replaced(&mut inputs[2..].iter().copied());
        let (goes_on, results) = round(inputs, inside);
        let results = list(results);
        check_carried(builder, &before, &results);
        Ok(own_results(builder, [&[goes_on], &results[..]].concat()))
    });
    let Ok(body) = body;
    let goes_on = builder.constant_ints(DType::Bool, &[], &[1]);
    let head = [Some(builder.size(limit)), Some(goes_on)];
    let operands: Vec<_> = head.into_iter().chain(before.iter().copied().map(Some)).collect();
    let attrs = vec![("body", Attr::from(body))];
    let results = builder.nodes(OpType::Loop, &operands, attrs, before.len());
    carried.replaced(&mut results.into_iter())
}

/// Checks that the values that a loop carries keep their types.
fn check_carried(builder: &Builder, before: &[Expr<'_>], after: &[Expr<'_>]) {
    for (before, after) in before.iter().zip(after) {
        let (before, after) = (before.ty(), after.ty());
        if before != after {
            let _ = builder.broken(format!("a loop carries `{before}` and `{after}`"), before);
        }
    }
}

/// Returns the index that has as many behind it as `k` has before it.
#[track_caller]
fn from_the_end<'g>(k: Expr<'g>, size: &Dim) -> Expr<'g> {
    match size.known() {
        Some(1) => k,
        Some(size) => k.builder.ints(&[size - 1]) - k,
        None => k.builder.size(size) - k - k.builder.ints(&[1]),
    }
}

/// `0, 1, 2, …` down a column, to compare with an index.
#[track_caller]
fn row_numbers<'g>(builder: &'g Builder, size: &Dim) -> Expr<'g> {
    match size.known() {
        Some(size @ 0..=256) => {
            let numbers: Vec<i64> = (0..size).collect();
            builder.constant_ints(DType::I64, &[size, 1], &numbers)
        }
        _ => Expr::range(builder, size).unsqueeze(&[1]),
    }
}

/// `0, 1, 2, …` along a row, to compare with an index.
#[track_caller]
fn column_numbers<'g>(builder: &'g Builder, size: &Dim) -> Expr<'g> {
    match size.known() {
        Some(size @ 0..=256) => {
            let numbers: Vec<i64> = (0..size).collect();
            builder.ints(&numbers)
        }
        _ => Expr::range(builder, size),
    }
}

/// Returns the axis of rows, and the axis along a row.
fn axes(matrix: Expr<'_>) -> (usize, usize) {
    (matrix.rank() - 2, matrix.rank() - 1)
}

/// Returns the sizes of a batch of matrices, by the numbers of rows and columns.
fn size_of(matrix: Expr<'_>) -> (Dim, Dim) {
    let shape = matrix.shape();
    (shape[shape.len() - 2].clone(), shape[shape.len() - 1].clone())
}

/// Returns a shape with the leading axes of a batch of matrices.
fn batched(like: Expr<'_>, last: &[Dim]) -> Vec<Dim> {
    let shape = like.shape();
    [&shape[..shape.len() - 2], last].concat()
}

/// Returns row `k`, still a matrix.
#[track_caller]
fn row<'g>(matrix: Expr<'g>, k: Expr<'g>) -> Expr<'g> {
    matrix.gather(k, matrix.rank() - 2)
}

/// Returns column `k`, still a matrix.
#[track_caller]
fn column<'g>(matrix: Expr<'g>, k: Expr<'g>) -> Expr<'g> {
    matrix.gather(k, matrix.rank() - 1)
}

/// Transposes each matrix of a batch.
#[track_caller]
fn transposed(matrix: Expr<'_>) -> Expr<'_> {
    let (rows, columns) = axes(matrix);
    let mut order: Vec<usize> = (0..matrix.rank()).collect();
    order.swap(rows, columns);
    matrix.transpose(&order)
}

/// Returns the part of each matrix on and above its diagonal, or on and below it.
#[track_caller]
fn triangle(matrix: Expr<'_>, upper: bool) -> Expr<'_> {
    let attrs = if upper { Vec::new() } else { vec![("upper", Attr::Int(0))] };
    matrix.builder.node(OpType::Trilu, &[matrix], attrs)
}

/// Returns a batch of matrices with ones on the diagonal and zeros elsewhere.
#[track_caller]
fn identity(like: Expr<'_>, rows: i64, columns: i64) -> Expr<'_> {
    let builder = like.builder;
    let identity = if rows * columns <= 256 {
        let one = |i: i64| if i / columns == i % columns { 1.0 } else { 0.0 };
        let ones: Vec<f64> = (0..rows * columns).map(one).collect();
        builder.constant(like.dtype(), &[rows, columns], &ones)
    } else {
        let numbers = row_numbers(builder, &rows.into());
        numbers.equal(column_numbers(builder, &columns.into())).cast(like.dtype())
    };
    identity.expand(&batched(like, &[rows.into(), columns.into()]))
}

/// Returns the entries on the diagonals of matrices of known size, as a list.
#[track_caller]
fn diagonal(matrix: Expr<'_>, rows: i64, columns: i64) -> Expr<'_> {
    let (row_axis, column_axis) = axes(matrix);
    let size = rows.min(columns);
    let square = matrix.slice_axis(row_axis, 0, size).slice_axis(column_axis, 0, size);
    let is_on_it = is_diagonal(matrix.builder, size);
    is_on_it.select(square, 0.0).reduce_sum(&[column_axis], false)
}

/// Returns which entries of a square matrix are on its diagonal.
#[track_caller]
fn is_diagonal(builder: &Builder, size: i64) -> Expr<'_> {
    if size > 16 {
        return row_numbers(builder, &size.into()).equal(column_numbers(builder, &size.into()));
    }
    let flags: Vec<i64> = (0..size * size).map(|i| i64::from(i / size == i % size)).collect();
    builder.constant_ints(DType::Bool, &[size, size], &flags)
}

/// Exchanges the entries `k` and `other` along an axis, for each matrix of a batch; `numbers` are
/// those of the axis.
#[track_caller]
fn swapped<'g>(
    matrix: Expr<'g>,
    axis: usize,
    numbers: Expr<'g>,
    k: Expr<'g>,
    other: Expr<'g>,
) -> Expr<'g> {
    let (is_k, is_other) = (numbers.equal(k), numbers.equal(other));
    let at_k = matrix.gather(k, axis);
    let at_other = is_other.select(matrix, 0.0).reduce_sum(&[axis], true);
    is_k.select(at_other, is_other.select(at_k, matrix))
}

/// Sorts a list, and the columns of matrices with it.
#[track_caller]
fn sorted<'g>(
    list: Expr<'g>,
    size: i64,
    ascending: bool,
    matrices: &[Expr<'g>],
) -> (Expr<'g>, Vec<Expr<'g>>) {
    let builder = list.builder;
    builder.helper("sorted", || {
        let attrs = vec![("largest", Attr::Int(i64::from(!ascending)))];
        let operands = [Some(list), Some(builder.ints(&[size]))];
        let found = builder.nodes(OpType::TopK, &operands, attrs, 2);
        let in_order = |matrix: &Expr<'g>| {
            let (row_axis, column_axis) = axes(*matrix);
            let indices = found[1].unsqueeze(&[row_axis]).expand(&matrix.shape());
            matrix.gather_elements(indices, column_axis)
        };
        (found[0], matrices.iter().map(in_order).collect())
    })
}

/// True if any flag holds.
#[track_caller]
fn any(flags: Expr<'_>) -> Expr<'_> {
    let axes: Vec<usize> = (0..flags.rank()).collect();
    flags.cast(DType::I32).reduce_sum(&axes, false).greater(0.0)
}

/// Returns the index of the largest along an axis, the first of equals; the axis stays.
#[track_caller]
fn position_of_largest(x: Expr<'_>, axis: usize) -> Expr<'_> {
    x.builder.node(OpType::ArgMax, &[x], vec![("axis", Attr::Int(axis as i64))])
}

/// Returns the distance from one to the next number of the type.
fn epsilon(dtype: DType) -> f64 {
    if dtype == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) }
}
