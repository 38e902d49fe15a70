//! `avoid-faults`: replaces patterns that a runtime computes wrongly.
//!
//! Each entry of [`FAULTS`] is a valid pattern that an optimizer of ONNX Runtime changes to an incorrect one. ONNX Runtime
//! inlines functions before it optimizes, so a pattern may cross the boundary of a call. An unknown reader is treated as
//! the node that completes the pattern.

mod factors;
#[cfg(test)]
mod tests;

use algebra::axis_map::{Step, emit};
use algebra::rewrite::require;
use onnx::kernels::Support;
use onnx::operator::properties::ARITHMETIC;
use onnx::{DType, Dim, Edit, Model, Op, OpType, Outcome, Patch, Tensor, ValueId, known_shape};

use crate::canonicalize::{joined_cast, replace_by_constant};
use crate::layout_ops::columns::multiply_with_column;
use crate::operators::gemm::product_of_transposed;
use factors::{infinite_factor, number_of_high_rank, rounded_factor};

/// A pattern that a runtime computes wrongly, and its replacement.
pub struct Fault {
    /// The optimizer of ONNX Runtime that is at fault.
    pub optimizer: &'static str,
    /// The tested versions that have the fault.
    pub versions: &'static str,
    pub form: &'static str,
    pub result: &'static str,
    pub instead: &'static str,
    /// Rewrites the node at an index if it completes the pattern.
    avoid: fn(&mut Patch<'_, '_>, usize, Present) -> Outcome,
}

/// The operators that the graphs of the model contain. A pattern needs all of its operators.
#[derive(Clone, Copy)]
#[allow(clippy::struct_excessive_bools)]
struct Present {
    transposes: bool,
    products: bool,
    pools: bool,
    calls: bool,
}

/// Every pattern that is avoided. `docs/runtime-faults.md` shows the same table.
pub const FAULTS: &[Fault] = &[
    Fault {
        optimizer: "MatmulTransposeFusion",
        versions: "1.22 to 1.31",
        form: "`MatMul(Transpose(a), v)` with a vector `v`",
        result: "the transpose is dropped",
        instead: "`MatMul(v, a)`, or a product with a column",
        avoid: vector_behind_a_transpose,
    },
    Fault {
        optimizer: "MatmulTransposeFusion",
        versions: "1.22 to 1.23",
        form: "`MatMul(Transpose(a), b)` of float64",
        result: "the model does not load",
        instead: "`Gemm(a, b)` that transposes `a`, or `MatMul(Max(Transpose(a)), b)`",
        avoid: transposed_doubles,
    },
    Fault {
        optimizer: "MatmulTransposeFusion",
        versions: "1.22 to 1.31",
        form: "`MatMul(Transpose(a), b)` that moves the first axis of `a` behind the other batch axes, with a size of 0",
        result: "the process crashes",
        instead: "`MatMul(Max(Transpose(a)), b)` if a size is not known to be positive",
        avoid: batch_that_may_be_empty,
    },
    Fault {
        optimizer: "MatmulTransposeFusion",
        versions: "1.31",
        form: "`MatMul(Cast(Transpose(a)), b)` that moves the first axis of `a` behind the other batch axes",
        result: "the process crashes",
        instead: "`MatMul(Max(Cast(Transpose(a))), b)`, or `Max(Transpose(a))` as the operand of a function",
        avoid: cast_of_a_batch,
    },
    Fault {
        optimizer: "MatmulTransposeFusion",
        versions: "1.23 to 1.31",
        form: "`MatMul(Transpose(a), b)` or `MatMul(a, Transpose(b))` that sums over an axis of size 0, also with `Cast(Transpose(a))`",
        result: "the result is not initialized",
        instead: "`MatMul(Max(Transpose(a)), b)` if the size is not known to be positive",
        avoid: sum_that_may_be_empty,
    },
    Fault {
        optimizer: "none",
        versions: "1.23 to 1.31",
        form: "`MatMul(a, b)` that sums over an axis of size 0, and broadcasts `a` or has a vector `b`",
        result: "the result is not initialized, or has a wrong shape",
        instead: "`Where(size > 0, MatMul(a, b), 0)`, `MatMul(Expand(a), b)` or a product with a column, if the size is not known to be positive",
        avoid: broadcast_that_may_sum_nothing,
    },
    Fault {
        optimizer: "DivMulFusion",
        versions: "1.22 to 1.31",
        form: "`Mul(Div(1, x), y)`",
        result: "`y / x`, which differs for integers and where `1 / x` overflows",
        instead: "`Reciprocal(x)` of floats, `Max(Div(1, x))` of integers",
        avoid: quotient_of_one,
    },
    Fault {
        optimizer: "DivMulFusion, MatMulScaleFusion",
        versions: "1.22 to 1.31",
        form: "`Mul(x, c)` or `Div(x, c)` with one number `c` of higher rank than `x`",
        result: "the result has the rank of `x`",
        instead: "a number of rank 0, and a reshape of the result",
        avoid: number_of_high_rank,
    },
    Fault {
        optimizer: "MatMulScaleFusion",
        versions: "1.22 to 1.31",
        form: "`MatMul(Mul(x, c), y)` or `Mul(MatMul(x, y), c)` with an infinite number `c`, and the same with `Div`",
        result: "infinity where `0 * c` is NaN, or a model of float64 that does not load",
        instead: "`MatMul(Max(Mul(x, c)), y)` and `Mul(Max(MatMul(x, y)), c)`",
        avoid: infinite_factor,
    },
    Fault {
        optimizer: "MatMulScaleFusion",
        versions: "1.26 to 1.31",
        form: "`MatMul(Mul(x, c), y)` or `Mul(MatMul(x, y), c)` of float64, and the same with `Div`",
        result: "the number `c` is rounded to float32",
        instead: "`MatMul(Max(Mul(x, c)), y)` and `Mul(Max(MatMul(x, y)), c)` if float32 does not have `c`",
        avoid: rounded_factor,
    },
    Fault {
        optimizer: "FuseReluClip",
        versions: "1.22 to 1.31",
        form: "`Clip(Relu(x), lo, hi)` of float64 or integers",
        result: "the model does not load",
        instead: "`Clip(Max(x, 0), lo, hi)`",
        avoid: relu_of_another_type,
    },
    Fault {
        optimizer: "PadFusion",
        versions: "1.26 to 1.31",
        form: "`MaxPool(Pad(x))` or `AveragePool(Pad(x))` with zeros",
        result: "the zeros are left out of the maximum, or the model does not load",
        instead: "`MaxPool(Max(Pad(x)))`",
        avoid: pool_of_zeros,
    },
    Fault {
        optimizer: "ExpandElimination",
        versions: "1.22 to 1.31",
        form: "`Reshape(Expand(Reshape(x)))` of an empty array",
        result: "the model does not load",
        instead: "an empty constant",
        avoid: expand_to_nothing,
    },
    Fault {
        optimizer: "ExpandElimination",
        versions: "1.22 to 1.31",
        form: "`Expand(x, [0])` where `x` has an axis of size 1",
        result: "the operator is dropped",
        instead: "`Slice(x, 0, 0)`",
        avoid: axis_to_nothing,
    },
    Fault {
        optimizer: "NoopElimination",
        versions: "1.23 to 1.26",
        form: "`Add`, `Sub`, `Mul` or `Div` with an empty constant",
        result: "the operator is dropped, or the model does not load",
        instead: "an empty constant",
        avoid: arithmetic_of_nothing,
    },
    Fault {
        optimizer: "RemoveDuplicateCastTransformer",
        versions: "1.31",
        form: "`Cast(Cast(x))` back to the type of `x` without a loss, if both branches of an `If` read it",
        result: "the second branch fails with `Missing Input`",
        instead: "`x`",
        avoid: cast_and_back,
    },
    Fault {
        optimizer: "none",
        versions: "1.22 to 1.26",
        form: "`Erf(x)` where `x` is NaN",
        result: "1",
        instead: "`Where(IsNaN(x), x, Erf(x))`, unless a factor of the result is NaN too",
        avoid: erf_of_nan,
    },
    Fault {
        optimizer: "TransposeOptimizer",
        versions: "1.22 to 1.31",
        form: "`Pad` with axes next to a `Transpose`",
        result: "the model does not load",
        instead: "`Pad` of all axes",
        avoid: pad_with_axes,
    },
];

pub(crate) fn run(model: &mut Model) {
    if !model.target.includes_onnxruntime() {
        return;
    }
    let nodes = || model.graphs().into_iter().flat_map(|graph| &graph.nodes);
    let has = |ops: &[OpType]| nodes().any(|node| node.op.is_one_of(ops));
    let present = Present {
        transposes: has(&[OpType::Transpose]),
        products: has(&[OpType::MatMul]),
        pools: has(&[OpType::MaxPool, OpType::AveragePool]),
        calls: nodes().any(|node| !node.op.is_onnx()),
    };
    // A rewrite only separates operators, so the loop ends.
    while model.edit(&mut |edit| {
        for index in 0..edit.len() {
            let _ = FAULTS
                .iter()
                .any(|fault| edit.patch(index, |patch| (fault.avoid)(patch, index, present)));
        }
        if edit.is_changed() {
            edit.drop_unread();
        }
    }) {}
}

/// True if the only reader of the result is an ONNX operator other than `ops`.
fn is_read_by_another(edit: &Edit<'_>, index: usize, ops: &[OpType]) -> bool {
    let reader = edit.sole_reader(edit.result(index));
    reader.is_some_and(|reader| {
        let op = &edit.node(reader).op;
        op.is_onnx() && !op.is_one_of(ops)
    })
}

/// Inserts a `Max` with one operand after a node. It does not change numbers, and no optimizer looks through it.
///
/// If a type has no `Max`, ONNX Runtime has no fused kernels for it either.
fn separate(edit: &mut Patch<'_, '_>, index: usize) -> Outcome {
    let dtype = edit.result_ty(index)?.dtype;
    require(edit.has_kernel(OpType::Max, dtype))?;
    let op = Op::of(edit.node(index), edit.inputs(index));
    edit.retype(index, &[], op, &|value| Op::new(OpType::Max, &[value])).ok()?;
    edit.finish()
}

/// Returns a constant that has one element.
fn number<'a>(edit: &'a Edit<'_>, value: ValueId) -> Option<&'a Tensor> {
    edit.tensor(value).filter(|tensor| tensor.len() == 1)
}

fn vector_behind_a_transpose(edit: &mut Patch<'_, '_>, index: usize, present: Present) -> Outcome {
    require(present.transposes && edit.node(index).op == OpType::MatMul)?;
    let (matrix, vector) = edit.pair(index)?;
    let rank = edit.rank(matrix)?;
    require(rank >= 2 && edit.rank(vector)? == 1 && edit.tensor(matrix).is_none())?;
    let transpose = edit.made_by(matrix, OpType::Transpose);
    if let (2, Some(transpose)) = (rank, transpose) {
        let source = edit.input(transpose, 0)?;
        return edit.done(&[transpose], Op::new(OpType::MatMul, &[vector, source]));
    }
    multiply_with_column(edit)
}

fn transposed_doubles(edit: &mut Patch<'_, '_>, index: usize, present: Present) -> Outcome {
    if edit.node(index).op == OpType::MatMul {
        return double_product(edit, index);
    }
    let may = present.products && edit.node(index).op == OpType::Transpose;
    let ty = edit.result_ty(index).filter(|_| may)?;
    require(ty.dtype == DType::F64 && !is_read_by_another(edit, index, &[OpType::MatMul]))?;
    separate(edit, index)
}

/// Multiplies matrices of float64 without a transpose, because the optimizer of transposes moves them past `Max`.
fn double_product(edit: &mut Patch<'_, '_>, index: usize) -> Outcome {
    let operands = [edit.input(index, 0)?, edit.input(index, 1)?];
    let is_matrix = |&value: &ValueId| {
        let ty = edit.ty(value);
        ty.is_some_and(|ty| ty.dtype == DType::F64 && ty.rank() == 2)
    };
    let has_terms = edit.shape(operands[0])?.last().is_some_and(Dim::is_positive);
    if !operands.iter().all(is_matrix) || !has_terms {
        return None;
    }
    let before = operands.map(|value| untransposed(edit, value));
    if before == [None, None] || edit.runs(OpType::Gemm, DType::F64) != Support::Yes {
        return None;
    }
    edit.done(&[], product_of_transposed(operands, before))
}

/// Returns the operand of the transpose that computes a value.
fn untransposed(edit: &Edit<'_>, value: ValueId) -> Option<ValueId> {
    let node = edit.producer(value)?;
    if edit.node(node).op == OpType::Max && edit.node(node).inputs.len() == 1 {
        return untransposed(edit, edit.input(node, 0)?);
    }
    (edit.perm(node)? == [1, 0]).then(|| edit.input(node, 0))?
}

fn erf_of_nan(edit: &mut Patch<'_, '_>, index: usize, _: Present) -> Outcome {
    if edit.node(index).op != OpType::Erf || !edit.exact_nan() {
        return None;
    }
    let (x, result) = (edit.input(index, 0)?, edit.node(index).outputs[0]);
    // If the reader of `Erf` also reads its operand, this rewrite is already done.
    let reader = edit.sole_reader(result);
    let choice = reader.filter(|&reader| edit.node(reader).op == OpType::Where);
    if choice.is_some_and(|choice| edit.input(choice, 1) == Some(x)) {
        return None;
    }
    // `x · (1 + erf(x / √2))` is NaN without a rewrite.
    let mut product = reader;
    while let Some(node) = product.filter(|&node| edit.node(node).op != OpType::Mul) {
        let passes_nan = edit.node(node).op.is_one_of(&[OpType::Add, OpType::Cast]);
        product = passes_nan.then(|| edit.sole_reader(edit.node(node).outputs[0])).flatten();
    }
    let is_multiple = |operand| {
        let factor = product.and_then(|product| edit.input(product, operand));
        factor.is_some_and(|factor| unscaled(edit, factor) == unscaled(edit, x))
    };
    if is_multiple(0) || is_multiple(1) {
        return None;
    }
    let op = Op::of(edit.node(index), edit.inputs(index));
    let is_nan = edit.insert(Op::new(OpType::IsNaN, &[x]));
    let erf = edit.insert(op);
    edit.done(&[], Op::new(OpType::Where, &[is_nan, x, erf]))
}

/// Returns the value before products and quotients with constants.
fn unscaled(edit: &Edit<'_>, value: ValueId) -> ValueId {
    let source = || {
        let node = edit.producer(value)?;
        match edit.op(node)? {
            OpType::Cast => edit.input(node, 0),
            OpType::Mul | OpType::Div => edit.beside_constant(node).map(|(source, ..)| source),
            _ => None,
        }
    };
    source().map_or(value, |source| unscaled(edit, source))
}

fn batch_that_may_be_empty(edit: &mut Patch<'_, '_>, index: usize, present: Present) -> Outcome {
    require(present.products && edit.node(index).op == OpType::Transpose)?;
    let ty = edit.result_ty(index)?;
    let may_be_empty = !ty.shape.iter().all(Dim::is_positive);
    let is_form = may_be_empty && moves_first_axis_back(edit, index);
    require(is_form && !is_read_by_another(edit, index, &[OpType::MatMul]))?;
    separate(edit, index)
}

/// True if a node moves the first axis behind the other batch axes.
fn moves_first_axis_back(edit: &Edit<'_>, index: usize) -> bool {
    let Some(perm) = edit.perm(index).filter(|perm| perm.len() > 2) else { return false };
    let rank = perm.len();
    let moves_first_axis_to =
        |place: usize| perm.iter().copied().eq((1..=place).chain([0]).chain(place + 1..rank));
    (rank - 2..rank).any(moves_first_axis_to)
}

/// Returns the transpose whose result a node casts.
fn transpose_before_cast(edit: &Edit<'_>, index: usize) -> Option<usize> {
    require(edit.node(index).op == OpType::Cast)?;
    edit.made_by(edit.input(index, 0)?, OpType::Transpose)
}

fn cast_of_a_batch(edit: &mut Patch<'_, '_>, index: usize, present: Present) -> Outcome {
    require(present.products)?;
    if edit.op(index) == Some(OpType::Transpose) {
        // The function may begin with the `Cast`.
        let is_operand = edit.readers(edit.result(index)).any(|node| !edit.node(node).op.is_onnx());
        require(is_operand && moves_first_axis_back(edit, index))?;
        return separate(edit, index);
    }
    let transpose = transpose_before_cast(edit, index)?;
    let is_form = moves_first_axis_back(edit, transpose)
        && !is_read_by_another(edit, index, &[OpType::MatMul]);
    if is_form { separate(edit, index) } else { None }
}

fn cast_and_back(edit: &mut Patch<'_, '_>, index: usize, _: Present) -> Outcome {
    require(edit.node(index).op == OpType::Cast)?;
    let first = edit.made_by(edit.input(index, 0)?, OpType::Cast)?;
    require(edit.dtype(edit.input(first, 0)?) == Some(edit.result_ty(index)?.dtype))?;
    let (by, fused) = joined_cast(edit, index, first)?;
    edit.done(&fused, by)
}

fn sum_that_may_be_empty(edit: &mut Patch<'_, '_>, index: usize, present: Present) -> Outcome {
    let is_transpose = edit.node(index).op == OpType::Transpose;
    require(present.products && (is_transpose || transpose_before_cast(edit, index).is_some()))?;
    let result = edit.result(index);
    require(!is_read_by_another(edit, index, &[OpType::MatMul]))?;
    let ty = edit.ty(result)?;
    let is_left = |reader: usize| edit.input(reader, 0) == Some(result);
    let may_be_empty = |from_last: usize| {
        let place = ty.rank().checked_sub(from_last);
        place.is_some_and(|place| !ty.shape[place].is_positive())
    };
    let is_form = match edit.sole_reader(result).filter(|&reader| edit.node(reader).op.is_onnx()) {
        Some(reader) if is_left(reader) => may_be_empty(1),
        Some(_) => may_be_empty(2),
        None => may_be_empty(1) || may_be_empty(2),
    };
    if is_form { separate(edit, index) } else { None }
}

fn broadcast_that_may_sum_nothing(edit: &mut Patch<'_, '_>, index: usize, _: Present) -> Outcome {
    require(edit.node(index).op == OpType::MatMul)?;
    let (left, right) = edit.pair(index)?;
    let (rows, columns) = (edit.shape(left)?.to_vec(), edit.shape(right)?.to_vec());
    require(!rows.last()?.is_positive() && !is_chosen_by_size(edit, index))?;
    if columns.len() == 1 {
        require(rows.len() > 1)?;
        return multiply_with_column(edit);
    }
    let is_one = |size: &Dim| size.known() == Some(1);
    let matrix = rows.len().saturating_sub(2);
    let of_left = |axis: usize| (axis + rows.len()).checked_sub(columns.len()).map(|at| &rows[at]);
    let is_broadcast = |axis: usize| !is_one(&columns[axis]) && of_left(axis).is_none_or(is_one);
    require((0..columns.len() - 2).any(is_broadcast))?;
    let single = rows[..matrix].iter().all(is_one);
    if rows.len() > columns.len() || (rows.len() == columns.len() && !single) {
        // The shape of the result is wrong too, because it has the unit axes of the left operand.
        let mut whole = edit.result_ty(index)?.shape[..rows.len() - 2].to_vec();
        whole.extend_from_slice(&rows[matrix..]);
        let left = emit(edit, &[], left, &[Step::Broadcast(whole)]).ok()?;
        return edit.done(&[], Op::new(OpType::MatMul, &[left, right]));
    }
    let left = match single && matrix > 0 {
        true => emit(edit, &[], left, &[Step::Reshape(rows[matrix..].to_vec())]).ok()?,
        false => left,
    };
    let dtype = edit.result_ty(index)?.dtype;
    // ONNX Runtime has no `Where` of these types, and the lowering multiplies signed integers instead.
    require(!matches!(dtype, DType::U32 | DType::U64))?;
    let zero = edit.constant(Tensor::of_ints(dtype, Vec::new(), &[0])?, &[]);
    let rank = edit.rank(left)? as i64;
    let terms = Op::new(OpType::Shape, &[left]).attr("start", rank - 1).attr("end", rank);
    let (terms, none) = (edit.insert(terms), edit.integers(&[0])?);
    let has_terms = edit.insert(Op::new(OpType::Greater, &[terms, none]));
    let product = edit.insert(Op::new(OpType::MatMul, &[left, right]));
    edit.done(&[], Op::new(OpType::Where, &[has_terms, product, zero]))
}

/// True if the only reader of a product chooses it by the size of an operand.
fn is_chosen_by_size(edit: &Edit<'_>, index: usize) -> bool {
    let result = edit.result(index);
    let choice = edit.sole_reader(result).filter(|&reader| edit.node(reader).op == OpType::Where);
    choice.is_some_and(|choice| {
        let comparison = edit.input(choice, 0).and_then(|flag| edit.made_by(flag, OpType::Greater));
        let terms = comparison.and_then(|comparison| edit.input(comparison, 0));
        let is_size = terms.is_some_and(|terms| edit.made_by(terms, OpType::Shape).is_some());
        is_size && edit.input(choice, 1) == Some(result)
    })
}

fn quotient_of_one(edit: &mut Patch<'_, '_>, index: usize, _: Present) -> Outcome {
    if edit.node(index).op != OpType::Div || is_read_by_another(edit, index, &[OpType::Mul]) {
        return None;
    }
    let (one, x) = edit.pair(index)?;
    let tensor = number(edit, one)?;
    let numbers = tensor.floats().or_else(|| Some(vec![*tensor.ints()?.first()? as f64]))?;
    require(numbers == [1.0])?;
    if !tensor.dtype.is_float() {
        return separate(edit, index);
    }
    require(tensor.shape.len() <= edit.rank(x)?)?;
    edit.done(&[], Op::new(OpType::Reciprocal, &[x]))
}

fn relu_of_another_type(edit: &mut Patch<'_, '_>, index: usize, _: Present) -> Outcome {
    require(
        edit.node(index).op == OpType::Relu && !is_read_by_another(edit, index, &[OpType::Clip]),
    )?;
    let x = edit.input(index, 0)?;
    let dtype = edit.dtype(x)?;
    require(!matches!(dtype, DType::F32 | DType::F16 | DType::Bf16))?;
    let zero = Tensor::of_ints(dtype, Vec::new(), &[0])?;
    let zero = edit.constant(zero, &[]);
    edit.done(&[], Op::new(OpType::Max, &[x, zero]))
}

fn pool_of_zeros(edit: &mut Patch<'_, '_>, index: usize, present: Present) -> Outcome {
    require(present.pools && edit.node(index).op == OpType::Pad)?;
    let is_zero = match edit.input(index, 2) {
        Some(value) => number(edit, value)?.floats()?.first() == Some(&0.0),
        None => true,
    };
    require(is_zero && !is_read_by_another(edit, index, &[OpType::MaxPool, OpType::AveragePool]))?;
    separate(edit, index)
}

fn expand_to_nothing(edit: &mut Patch<'_, '_>, index: usize, _: Present) -> Outcome {
    (edit.node(index).op == OpType::Expand).then(|| fold_nothing(edit, index))?
}

fn axis_to_nothing(edit: &mut Patch<'_, '_>, index: usize, _: Present) -> Outcome {
    require(edit.node(index).op == OpType::Expand)?;
    let (x, target) = edit.pair(index)?;
    let sizes = edit.tensor(target)?.ints()?;
    let dtype = edit.dtype(x)?;
    let mut shape = edit.shape(x)?.to_vec();
    let mut axes = Vec::new();
    for ((axis, extent), size) in shape.iter_mut().enumerate().rev().zip(sizes.iter().rev()) {
        if *size == 0 && extent.known() != Some(0) {
            axes.push(axis as i64);
            *extent = Dim::Known(0);
        }
    }
    require(!axes.is_empty() && edit.has_kernel(OpType::Slice, dtype))?;
    let (zeros, axes) = (edit.integers(&vec![0; axes.len()])?, edit.integers(&axes)?);
    let slice = Op::new(OpType::Slice, &[x, zeros, zeros, axes]);
    if shape[..] == edit.result_ty(index)?.shape[..] {
        return edit.done(&[], slice);
    }
    let nothing = edit.insert(slice);
    edit.done(&[], Op::new(OpType::Expand, &[nothing, target]))
}

fn arithmetic_of_nothing(edit: &mut Patch<'_, '_>, index: usize, _: Present) -> Outcome {
    edit.node(index).op.is(ARITHMETIC).then(|| fold_nothing(edit, index))?
}

/// Replaces a result without elements with a constant.
fn fold_nothing(edit: &mut Patch<'_, '_>, index: usize) -> Outcome {
    let ty = edit.result_ty(index)?;
    let nothing = Tensor::of_ints(ty.dtype, known_shape(&ty.shape)?, &[])?;
    nothing.is_empty().then(|| replace_by_constant(edit, nothing))?
}

fn pad_with_axes(edit: &mut Patch<'_, '_>, index: usize, _: Present) -> Outcome {
    require(edit.node(index).op == OpType::Pad)?;
    let (axes, amounts) = (edit.axes_in_order(index)?, edit.ints(index, 1)?);
    let rank = edit.rank(edit.input(index, 0)?)?;
    let mut all = vec![0; 2 * rank];
    for (place, &axis) in axes.iter().enumerate() {
        *all.get_mut(axis)? = *amounts.get(place)?;
        *all.get_mut(rank + axis)? = *amounts.get(axes.len() + place)?;
    }
    let inputs = vec![edit.input(index, 0), edit.integers(&all), edit.input(index, 2)];
    let op = Op::of(edit.node(index), inputs);
    edit.done(&[], op)
}
