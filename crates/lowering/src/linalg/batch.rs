//! Rows, columns, diagonals and shapes of batches of real matrices.

use onnx::{Attr, Builder, DType, Dim, Expr, OpType};

/// Returns `size − 1 − k`, the index `k` counted from the end.
#[track_caller]
pub(super) fn from_the_end<'g>(k: Expr<'g>, size: &Dim) -> Expr<'g> {
    match size.known() {
        Some(1) => k,
        Some(size) => k.builder.ints(&[size - 1]) - k,
        None => k.builder.size(size) - k - k.builder.ints(&[1]),
    }
}

/// Returns `0, 1, 2, …` as a column, to compare with an index.
#[track_caller]
pub(super) fn row_numbers<'g>(builder: &'g Builder, size: &Dim) -> Expr<'g> {
    match size.known() {
        Some(size @ 0..=256) => {
            let numbers: Vec<i64> = (0..size).collect();
            builder.constant_ints(DType::I64, &[size, 1], &numbers)
        }
        _ => Expr::range(builder, size).unsqueeze(&[1]),
    }
}

/// Returns `0, 1, 2, …` as a row, to compare with an index.
#[track_caller]
pub(super) fn column_numbers<'g>(builder: &'g Builder, size: &Dim) -> Expr<'g> {
    match size.known() {
        Some(size @ 0..=256) => {
            let numbers: Vec<i64> = (0..size).collect();
            builder.ints(&numbers)
        }
        _ => Expr::range(builder, size),
    }
}

/// Returns the axis of the rows and the axis of the columns.
pub(super) fn axes(matrix: Expr<'_>) -> (usize, usize) {
    (matrix.rank() - 2, matrix.rank() - 1)
}

/// Returns the numbers of rows and columns of a batch of matrices.
pub(super) fn size_of(matrix: Expr<'_>) -> (Dim, Dim) {
    let shape = matrix.shape();
    (shape[shape.len() - 2].clone(), shape[shape.len() - 1].clone())
}

/// Returns the shape of a batch of matrices with `last` in place of its last two sizes.
pub(super) fn batched(like: Expr<'_>, last: &[Dim]) -> Vec<Dim> {
    let shape = like.shape();
    [&shape[..shape.len() - 2], last].concat()
}

/// Returns row `k`, as a matrix with one row.
#[track_caller]
pub(super) fn row<'g>(matrix: Expr<'g>, k: Expr<'g>) -> Expr<'g> {
    matrix.gather(k, matrix.rank() - 2)
}

/// Returns column `k`, as a matrix with one column.
#[track_caller]
pub(super) fn column<'g>(matrix: Expr<'g>, k: Expr<'g>) -> Expr<'g> {
    matrix.gather(k, matrix.rank() - 1)
}

/// Transposes each matrix of a batch.
#[track_caller]
pub(super) fn transposed(matrix: Expr<'_>) -> Expr<'_> {
    let (rows, columns) = axes(matrix);
    let mut order: Vec<usize> = (0..matrix.rank()).collect();
    order.swap(rows, columns);
    matrix.transpose(&order)
}

/// Returns the part of each matrix on and above its diagonal, or on and below it.
#[track_caller]
pub(super) fn triangle(matrix: Expr<'_>, upper: bool) -> Expr<'_> {
    let attrs = if upper { Vec::new() } else { vec![("upper", Attr::Int(0))] };
    matrix.builder.node(OpType::Trilu, &[matrix], attrs)
}

/// Returns a batch of matrices with ones on the diagonal and zeros elsewhere.
#[track_caller]
pub(super) fn identity(like: Expr<'_>, rows: i64, columns: i64) -> Expr<'_> {
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
pub(super) fn diagonal(matrix: Expr<'_>, rows: i64, columns: i64) -> Expr<'_> {
    let (row_axis, column_axis) = axes(matrix);
    let size = rows.min(columns);
    let square = matrix.slice_axis(row_axis, 0, size).slice_axis(column_axis, 0, size);
    let is_on_it = is_diagonal(matrix.builder, size);
    is_on_it.select(square, 0.0).reduce_sum(&[column_axis], false)
}

/// Returns a mask of the diagonal of a square matrix.
#[track_caller]
pub(super) fn is_diagonal(builder: &Builder, size: i64) -> Expr<'_> {
    if size > 16 {
        return row_numbers(builder, &size.into()).equal(column_numbers(builder, &size.into()));
    }
    let flags: Vec<i64> = (0..size * size).map(|i| i64::from(i / size == i % size)).collect();
    builder.constant_ints(DType::Bool, &[size, size], &flags)
}

/// Exchanges the entries `k` and `other` along an axis of each matrix of a batch. `numbers` are
/// `0, 1, 2, …` along the axis.
#[track_caller]
pub(super) fn swapped<'g>(
    matrix: Expr<'g>,
    axis: usize,
    numbers: Expr<'g>,
    k: Expr<'g>,
    other: Expr<'g>,
) -> Expr<'g> {
    let (is_k, is_other) = (numbers.equal(k), numbers.equal(other));
    if matrix.rank() == 2 && other.shape().iter().all(|size| size.is(1)) {
        let order = is_k.select(other, is_other.select(k, numbers));
        return matrix.gather(order.squeeze(&[1 - axis]), axis);
    }
    let at_k = matrix.gather(k, axis);
    let at_other = is_other.select(matrix, 0.0).reduce_sum(&[axis], true);
    is_k.select(at_other, is_other.select(at_k, matrix))
}

/// Sorts a list, and the columns of matrices in the same order.
#[track_caller]
pub(super) fn sorted<'g>(
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

/// True if any flag is set; false for an empty array.
#[track_caller]
pub(super) fn any(flags: Expr<'_>) -> Expr<'_> {
    let axes: Vec<usize> = (0..flags.rank()).collect();
    flags.cast(DType::I32).reduce_sum(&axes, false).greater(0.0)
}

/// Returns the first index of the maximum along an axis, and keeps the axis. The entries before `start` are -1, and the
/// others are not negative.
///
/// As in LAPACK, the result is `start` if the entry there is NaN. `ArgMax` skips other entries that are NaN.
#[track_caller]
pub(super) fn position_of_largest<'g>(x: Expr<'g>, axis: usize, start: Expr<'g>) -> Expr<'g> {
    let attrs = vec![("axis", Attr::Int(axis as i64))];
    let found = x.builder.node(OpType::ArgMax, &[x], attrs);
    if !x.builder.exact_nan() {
        return found;
    }
    x.gather(start, axis).greater_equal(0.0).select(found, start)
}

/// Returns the distance from 1 to the next number of the type.
pub(super) fn epsilon(dtype: DType) -> f64 {
    if dtype == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) }
}
