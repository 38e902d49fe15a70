//! `fold-constants`: evaluates small nodes with constant operands.

use algebra::eval::eval;
use algebra::rewrite::require;
use algebra::stored::Stored;
use onnx::operator::properties::{RESHAPES, SELECTIONS};
use onnx::{DType, Dim, Edit, Op, OpType, Outcome, Patch, Tensor, ValueId, known_shape};

use super::Rule;
use crate::indices::reciprocals;

pub(crate) const RULE: Rule = Rule {
    name: "fold-constants",
    does: "replaces a small node with constant operands by its result",
    apply: |patch| {
        if let Some(empty) = empty(patch, patch.root()) {
            return replace_by_constant(patch, empty);
        }
        if patch.node(patch.root()).op == OpType::Split {
            return split(patch);
        }
        let quotient = quotient_of_constants(patch);
        if quotient.is_some() {
            return quotient;
        }
        let tensor = fold(patch, patch.root())?;
        patch.done(&[], tensor)
    },
};

/// Writes a quotient as a product where XLA does, so that its result is folded as that of XLA.
fn quotient_of_constants(patch: &mut Patch<'_, '_>) -> Outcome {
    let (x, divisor) = patch.pair(patch.root())?;
    require(patch.tensor(x).is_some() && patch.tensor(divisor).is_some())?;
    reciprocals::run(patch)
}

/// A result is folded up to this number of elements, or up to the size of the largest operand. ONNX Runtime folds larger
/// results when it loads the model, so that they are not in the file.
const MAX_ELEMENTS: usize = 1024;

/// Like `MAX_ELEMENTS`, for an array of equal numbers into which others are written, such as the regions of a mask.
const MAX_ELEMENTS_OF_TABLES: usize = 1 << 14;

/// No larger result is folded. Masks are folded up to this number of elements, because their elements are small.
const MAX_ELEMENTS_OF_WEIGHTS: usize = 1 << 18;

fn fold(edit: &Edit<'_>, index: usize) -> Option<Tensor> {
    let node = edit.node(index);
    // `fold-tables` decides about ranges, which are larger than their bounds.
    let op = node.op.onnx().filter(|&op| node.outputs.len() == 1 && op != OpType::Range)?;
    let ty = edit.ty(node.outputs[0])?;
    let filled = if op == OpType::ScatterND { filled(edit, index, &ty.shape) } else { None };
    let operand = |operand| match &filled {
        Some(filled) if operand == 0 => Some(filled),
        _ => edit.tensor(edit.input(index, operand)?),
    };
    let operands: Option<Vec<&Tensor>> = (0..node.inputs.len()).map(operand).collect();
    let operands = operands?;
    let shape: Vec<i64> = known_shape(&ty.shape)?;
    let count: i64 = shape.iter().product();
    let only_reshapes = op.is(RESHAPES);
    let largest_operand = operands.iter().map(|operand| operand.len()).max().unwrap_or(0);
    let least = if filled.is_some() { MAX_ELEMENTS_OF_TABLES } else { MAX_ELEMENTS };
    let budget = match ty.dtype {
        DType::Bool => MAX_ELEMENTS_OF_WEIGHTS,
        _ => largest_operand.clamp(least, MAX_ELEMENTS_OF_WEIGHTS),
    };
    if count as usize > budget && !only_reshapes && !is_own_and_lazy(edit, index) {
        return None;
    }
    require(!is_dequantized(edit, index))?;
    let is_whole = |reader: usize| edit.node(reader).op == OpType::Sub;
    let is_weight = ty.dtype.is_float() || edit.readers(node.outputs[0]).all(is_whole);
    require(op != OpType::Cast || !is_weight || !is_enlarged(operands[0], ty.dtype))?;
    if count as usize > MAX_ELEMENTS && !are_moved(op) && is_repeated(edit, index) {
        return None;
    }
    eval(node, &operands, ty.dtype, shape)
}

/// Returns the array into which a `ScatterND` writes, if all of its elements are equal.
fn filled(edit: &Edit<'_>, index: usize, shape: &[Dim]) -> Option<Tensor> {
    let expand = edit.made_by(edit.input(index, 0)?, OpType::Expand)?;
    let number = edit.tensor(edit.input(expand, 0)?).filter(|number| number.len() == 1)?;
    let shape: Vec<i64> = known_shape(shape)?;
    let is_small = shape.iter().product::<i64>() <= MAX_ELEMENTS_OF_TABLES as i64;
    is_small.then(|| number.broadcast(&shape))?
}

/// Replaces the results of a `Split` of a constant.
fn split(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let source = edit.input(index, 0)?;
    let tensor = edit.tensor(source)?.clone();
    let axis = edit.axis(index)?;
    let outputs = edit.node(index).outputs.to_vec();
    require(!outputs.iter().any(|output| edit.outputs().contains(output)))?;
    let mut parts = Vec::with_capacity(outputs.len());
    let mut starts = vec![0; tensor.shape.len()];
    for &output in &outputs {
        let shape: Vec<i64> = known_shape(edit.shape(output)?)?;
        parts.push(tensor.sliced(&starts, &vec![1; shape.len()], &shape)?);
        starts[axis] += shape[axis];
    }
    let constant = |part| edit.constant(part, &[source]);
    let parts: Vec<(usize, ValueId)> = parts.into_iter().map(constant).enumerate().collect();
    edit.done(&[], parts)
}

/// Returns the result of a product without elements. ONNX Runtime does not compute all of them.
fn empty(edit: &Edit<'_>, index: usize) -> Option<Tensor> {
    let node = edit.node(index);
    let &[result] = &node.outputs[..] else { return None };
    let ty = edit.ty(result).filter(|_| node.op == OpType::MatMul)?;
    let shape: Vec<i64> = known_shape(&ty.shape)?;
    require(shape.contains(&0))?;
    Tensor::of_ints(ty.dtype, shape, &[])
}

/// Replaces a node with a constant. If it is an output of the graph, replaces the node with a copy of the constant.
pub(crate) fn replace_by_constant(patch: &mut Patch<'_, '_>, tensor: Tensor) -> Outcome {
    if patch.outputs().contains(&patch.result(patch.root())) {
        let constant = patch.constant(tensor, &[]);
        return patch.done(&[], Op::new(OpType::Identity, &[constant]));
    }
    patch.done(&[], tensor)
}

/// True if the node transposes, casts or concatenates arrays that no other node reads. The writer of the model evaluates
/// these nodes, without a copy in memory.
fn is_own_and_lazy(edit: &Edit<'_>, index: usize) -> bool {
    let node = edit.node(index);
    let mut operands = edit.operands(index);
    let is_own = operands.all(|value| edit.reads(value) == 1);
    let is_float = |value: Option<ValueId>| {
        value.and_then(|value| edit.ty(value)).is_some_and(|ty| ty.dtype.is_float())
    };
    match node.op.onnx() {
        Some(OpType::Transpose | OpType::Concat) => is_own,
        Some(OpType::Cast) => {
            is_own && is_float(edit.input(index, 0)) && is_float(Some(node.outputs[0]))
        }
        _ => false,
    }
}

/// True if an operator moves elements without computing.
fn are_moved(op: OpType) -> bool {
    op.is(SELECTIONS) || op == OpType::Concat
}

/// True if another constant also stores the elements of an operand.
fn is_repeated(edit: &Edit<'_>, index: usize) -> bool {
    let stored = Stored::of(edit);
    edit.operands(index).any(|operand| !stored.may_change(edit, index, operand))
}

/// True if a cast makes wider numbers of whole numbers that have to stay short.
pub(crate) fn is_dequantized(edit: &Edit<'_>, index: usize) -> bool {
    let is_short = |dtype: DType| dtype.is_int() && dtype.bits() <= 8;
    edit.dequantizes()
        && edit.node(index).op == OpType::Cast
        && edit.input(index, 0).and_then(|value| edit.dtype(value)).is_some_and(is_short)
        && !edit.dtype(edit.result(index)).is_some_and(is_short)
}

/// True if the cast to a wider type has more bytes than the array of the program that contains the numbers.
fn is_enlarged(x: &Tensor, dtype: DType) -> bool {
    let is_narrow = x.dtype.is_float() || x.dtype.bits() == 8 && x.dtype.is_int();
    let bytes = x.len() * dtype.bits() / 8;
    let is_number = dtype.is_float() || dtype.is_int();
    is_narrow && is_number && x.len() > MAX_ELEMENTS && bytes > x.source_bytes()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check, check_lean, each};

    #[test]
    fn a_quotient_that_is_rounded_is_that_of_xla() {
        check(
            each(super::RULE.apply),
            "graph g() -> (y)
             c:f32[2] = Div([0.5, 41.0]:f32, 41.0)
             y:f32[2] = Floor(c)",
            expect![[r#"
                graph g() -> (y)
                c = Mul([0.5, 41.0], 0.024390243)  # 2
                y:f32[2] = Floor(c)  # 3
            "#]],
        );
    }

    #[test]
    fn arithmetic_on_constants_is_done_in_their_type() {
        check(
            each(super::RULE.apply),
            "graph g(x:f32[2], n:i8[]) -> (y, m)
%0:f32[] = Div(1.0, 3.0)
%1:f32[] = Neg(0.0)
%2:f32[] = Add(%0, %1)
y:f32[2] = Mul(x, %2)
%3:i8[] = Mul(100:i8, 3:i8)
m:i8[] = Add(n, %3)",
            expect![[r#"
                graph g(x:f32[2], n:i8[]) -> (y, m)
                y:f32[2] = Mul(x, 0.33333334)  # 5
                m:i8[] = Add(n, 44:i8)  # 7
            "#]],
        );
    }

    #[test]
    fn a_product_without_elements_needs_no_operands() {
        check_lean(
            each(super::RULE.apply),
            "graph g(x:f32[0,2], n:f32[N,2]) -> (y, z)
%0:f32[2,0] = Transpose(x) {perm=[1, 0]}
%1:f32[3,2,0] = Expand(%0, [3, 2, 0]:i64)
%2:f32[3,2,0] = Exp(%1)
y:f32[3,2,0] = MatMul(%2, const f32[0,0])
z:f32[N,2] = Exp(n)",
            expect![[r#"
                graph g(x:f32[0,2], n:f32[N,2]) -> (y, z)
                y:f32[3,2,0] = Identity(const f32[3,2,0])  # 5
                z:f32[N,2] = Exp(n)  # 6
            "#]],
        );
    }

    #[test]
    fn moved_elements_and_combined_bits_are_folded() {
        check(
            each(super::RULE.apply),
            "graph g(x:u32[2,2]) -> (y)
%0:u32[2,1] = Slice([[1, 2], [3, 4]]:u32, [-1]:i64, [-9]:i64, [1]:i64, [-1]:i64)
%1:u32[1,2] = Slice([[1, 2], [3, 4]]:u32, [1]:i64, [2]:i64, [0]:i64)
%2:u32[2,2] = Concat(%0, %0) {axis=1}
%3:u32[2,2] = BitwiseXor(%2, %1)
%4:u32[2,2] = BitShift(%3, 31:u32) {direction=\"LEFT\"}
%5:u32[2,2] = BitShift(%4, 30:u32) {direction=\"RIGHT\"}
y:u32[2,2] = Add(x, %5)",
            expect![[r#"
                graph g(x:u32[2,2]) -> (y)
                y:u32[2,2] = Add(x, [[2, 0], [2, 0]]:u32)  # 8
            "#]],
        );
    }

    #[test]
    fn comparisons_know_nan_and_unsigned_numbers() {
        check(
            each(super::RULE.apply),
            "graph g(a:bool[], b:bool[]) -> (y, z)
%0:bool[] = LessOrEqual(nan, nan)
y:bool[] = And(a, %0)
%1:bool[] = Greater(200:u8, 100:u8)
z:bool[] = And(b, %1)",
            expect![[r#"
                graph g(a:bool[], b:bool[]) -> (y, z)
                y:bool[] = And(a, false)  # 3
                z:bool[] = And(b, true)  # 5
            "#]],
        );
    }

    #[test]
    fn shapes_and_a_broadcast_are_folded() {
        check(
            each(super::RULE.apply),
            "graph g(x:f32[2,3]) -> (y)
%0:i64[2] = Concat([2]:i64, [3]:i64) {axis=0}
%1:f32[2,1] = Unsqueeze([1.0, 2.0], [1]:i64)
%2:f32[2,3] = Expand(%1, %0)
%3:f32[3,2] = Transpose(%2) {perm=[1, 0]}
%4:f32[2,3] = Transpose(%3) {perm=[1, 0]}
y:f32[2,3] = Mul(x, %4)",
            expect![[r#"
                graph g(x:f32[2,3]) -> (y)
                y:f32[2,3] = Mul(x, [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]])  # 7
            "#]],
        );
    }

    #[test]
    fn integers_are_divided_towards_zero() {
        check(
            each(super::RULE.apply),
            "graph g(n:i32[2], k:u8[]) -> (m, l)
%0:i32[2] = Div([-7, 7]:i32, 2:i32)
m:i32[2] = Add(n, %0)
%1:u8[] = Div(255:u8, 2:u8)
l:u8[] = Add(k, %1)",
            expect![[r#"
                graph g(n:i32[2], k:u8[]) -> (m, l)
                m:i32[2] = Add(n, [-3, 3]:i32)  # 3
                l:u8[] = Add(k, 127:u8)  # 5
            "#]],
        );
    }

    #[test]
    fn a_large_weight_is_cast_to_a_narrower_type_but_not_to_a_wider_one() {
        check(
            each(super::RULE.apply),
            "graph g(x:f16[2,600], z:f32[2,64]) -> (y, u, v)
w = const f32[600,600]
b = const bf16[64,64]
f = const f32[64,64]
%0:f16[600,600] = Cast(w) {to=10}
y:f16[2,600] = MatMul(x, %0)
%1:f32[64,64] = Cast(b) {to=1}
u:f32[2,64] = MatMul(z, %1)
%2:bf16[64,64] = Cast(f) {to=16}
%3:f32[64,64] = Cast(%2) {to=1}
v:f32[2,64] = MatMul(z, %3)",
            expect![[r#"
                graph g(x:f16[2,600], z:f32[2,64]) -> (y, u, v)
                w/Cast = const f16[600,600]
                b = const bf16[64,64]
                f/Cast/Cast = const f32[64,64]
                y:f16[2,600] = MatMul(x, w/Cast)  # 6
                %0 = Cast(b) {to=1}  # 7
                u:f32[2,64] = MatMul(z, %0)  # 8
                v:f32[2,64] = MatMul(z, f/Cast/Cast)  # 11
            "#]],
        );
    }

    #[test]
    fn rows_are_gathered_in_any_order() {
        check(
            each(super::RULE.apply),
            "graph g(x:i64[2,2]) -> (a, b, c, d)
%0:i64[2,2] = Gather([[1, 2], [3, 4], [5, 6]]:i64, [-1, 1]:i64) {axis=0}
a:i64[2,2] = Add(x, %0)
%1:i64[2,2] = Gather([[1, 2, 3], [4, 5, 6]]:i64, [2, 0]:i64) {axis=1}
b:i64[2,2] = Add(x, %1)
%2:i64[2,2] = Gather([[1, 2]]:i64, [0, 0]:i64) {axis=0}
c:i64[2,2] = Add(x, %2)
%3:i64[2,2] = Gather([5, 7, 9]:i64, [[0, 2], [1, 1]]:i64) {axis=0}
d:i64[2,2] = Add(x, %3)",
            expect![[r#"
                graph g(x:i64[2,2]) -> (a, b, c, d)
                a:i64[2,2] = Add(x, [[5, 6], [3, 4]]:i64)  # 3
                b:i64[2,2] = Add(x, [[3, 1], [6, 4]]:i64)  # 5
                c:i64[2,2] = Add(x, [[1, 2], [1, 2]]:i64)  # 7
                d:i64[2,2] = Add(x, [[5, 9], [7, 7]]:i64)  # 9
            "#]],
        );
    }

    #[test]
    fn a_division_by_zero_and_a_large_result_are_not_folded() {
        check(
            each(super::RULE.apply),
            "graph g(x:f32[2000], n:i32[]) -> (y, m)
%0:i32[] = Div(7:i32, 0:i32)
m:i32[] = Add(n, %0)
%1:f32[2000] = Expand(2.0, [2000]:i64)
y:f32[2000] = Mul(x, %1)",
            expect![[r#"
                graph g(x:f32[2000], n:i32[]) -> (y, m)
                %0 = Div(7:i32, 0:i32)  # 2
                m:i32[] = Add(n, %0)  # 3
                %1 = Expand(2.0, [2000]:i64)  # 4
                y:f32[2000] = Mul(x, %1)  # 5
            "#]],
        );
    }

    #[test]
    fn the_parts_of_a_constant_are_constants() {
        check_lean(
            each(super::RULE.apply),
            "graph g(x:f32[2]) -> (y, z)
%0:f32[2,1], %1:f32[2,2] = Split([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [1, 2]:i64) {axis=1}
y:f32[2,2] = Add(%0, %1)
z:f32[2,2] = Mul(x, %1)",
            expect![[r#"
                graph g(x:f32[2]) -> (y, z)
                y:f32[2,2] = Add([[1.0], [4.0]], [[2.0, 3.0], [5.0, 6.0]])  # 3
                z:f32[2,2] = Mul(x, [[2.0, 3.0], [5.0, 6.0]])  # 4
            "#]],
        );
    }

    #[test]
    fn a_part_that_is_an_output_is_not_folded() {
        check(
            each(super::RULE.apply),
            "graph g(x:f32[1]) -> (y, z)
%0:f32[1], z:f32[1] = Split([1.0, 2.0], [1, 1]:i64) {axis=0}
y:f32[1] = Add(x, %0)",
            expect![[r#"
                graph g(x:f32[1]) -> (y, z)
                %0, z:f32[1] = Split([1.0, 2.0], [1, 1]:i64) {axis=0}  # 2
                y:f32[1] = Add(x, %0)  # 3
            "#]],
        );
    }

    #[test]
    fn the_index_of_the_maximum_is_the_first_one() {
        check(
            each(super::RULE.apply),
            "graph g(x:i64[3], y:i64[2]) -> (a, b, c)
%0:i64[3] = ArgMax([[0, 1, 1], [1, 1, 0]]:u8) {axis=0, keepdims=0}
a:i64[3] = Add(x, %0)
%1:i64[2] = ArgMax([[0, 1, 1], [-3, -2, -1]]:i32) {axis=1, keepdims=0}
b:i64[2] = Add(y, %1)
%2:i64[2] = ArgMax([[0.0], [0.0]]) {axis=1, keepdims=0}
c:i64[2] = Add(y, %2)",
            expect![[r#"
                graph g(x:i64[3], y:i64[2]) -> (a, b, c)
                a:i64[3] = Add(x, [1, 0, 0]:i64)  # 3
                b:i64[2] = Add(y, [1, 2]:i64)  # 5
                c:i64[2] = Add(y, [0, 0]:i64)  # 7
            "#]],
        );
    }

    #[test]
    fn elements_are_copied_to_other_places() {
        check_lean(
            each(super::RULE.apply),
            "graph g(x:i32[6], z:i32[2,2]) -> (a, b, c, d, e, f)
%0:i32[6] = Tile([1, 2]:i32, [3]:i64)
a:i32[6] = Add(x, %0)
%1:i32[6] = Pad([1, 2]:i32, [1, 3]:i64, 7:i32)
b:i32[6] = Add(x, %1)
%2:i32[2,2] = GatherElements([[1, 2], [3, 4]]:i32, [[1, 0], [-1, -2]]:i64) {axis=1}
c:i32[2,2] = Add(z, %2)
%3:i32[2,2] = ScatterElements([[1, 2], [3, 4]]:i32, [[1], [0]]:i64, [[8], [9]]:i32) {axis=1}
d:i32[2,2] = Add(z, %3)
%4:i32[2,2] = ScatterND([[1, 2], [3, 4]]:i32, [[1], [1]]:i64, [[10, 20], [30, 40]]:i32) {reduction=\"add\"}
e:i32[2,2] = Add(z, %4)
%5:i32[2,2] = GatherND([[1, 2], [3, 4]]:i32, [[1], [0]]:i64)
f:i32[2,2] = Add(z, %5)",
            expect![[r#"
                graph g(x:i32[6], z:i32[2,2]) -> (a, b, c, d, e, f)
                a:i32[6] = Add(x, [1, 2, 1, 2, 1, 2]:i32)  # 3
                b:i32[6] = Add(x, [7, 1, 2, 7, 7, 7]:i32)  # 5
                c:i32[2,2] = Add(z, [[2, 1], [4, 3]]:i32)  # 7
                d:i32[2,2] = Add(z, [[1, 8], [9, 4]]:i32)  # 9
                e:i32[2,2] = Add(z, [[1, 2], [43, 64]]:i32)  # 11
                f:i32[2,2] = Add(z, [[3, 4], [1, 2]]:i32)  # 13
            "#]],
        );
    }

    #[test]
    fn a_scatter_whose_order_matters_and_an_index_out_of_bounds_are_not_folded() {
        check_lean(
            each(super::RULE.apply),
            "graph g(x:f32[2]) -> (a, b, c)
%0:f32[2] = ScatterElements([1.0, 2.0], [0, 0]:i64, [3.0, 4.0]) {axis=0}
a:f32[2] = Add(x, %0)
%1:f32[2] = ScatterElements([1.0, 2.0], [0, 0]:i64, [3.0, 4.0]) {axis=0, reduction=\"add\"}
b:f32[2] = Add(x, %1)
%2:f32[2] = GatherElements([1.0, 2.0], [0, 2]:i64) {axis=0}
c:f32[2] = Add(x, %2)",
            expect![[r#"
                graph g(x:f32[2]) -> (a, b, c)
                %0 = ScatterElements([1.0, 2.0], [0, 0]:i64, [3.0, 4.0]) {axis=0}  # 2
                a:f32[2] = Add(x, %0)  # 3
                %1 = ScatterElements([1.0, 2.0], [0, 0]:i64, [3.0, 4.0]) {axis=0, reduction="add"}  # 4
                b:f32[2] = Add(x, %1)  # 5
                %2 = GatherElements([1.0, 2.0], [0, 2]:i64) {axis=0}  # 6
                c:f32[2] = Add(x, %2)  # 7
            "#]],
        );
    }

    #[test]
    fn lanes_are_reduced_and_summed() {
        check_lean(
            each(super::RULE.apply),
            "graph g(x:i32[2], z:f32[2], w:f32[3]) -> (a, b, c, d)
%0:i32[2] = ReduceSum([[1, 2], [3, 4]]:i32, [0]:i64) {keepdims=0}
a:i32[2] = Add(x, %0)
%1:f32[2] = ReduceMax([[1.0, 2.0], [3.0, -4.0]], [1]:i64) {keepdims=0}
b:f32[2] = Add(z, %1)
%2:f32[3] = CumSum([0.1, 0.2, 0.3], 0:i64) {reverse=1}
c:f32[3] = Add(w, %2)
%3:f32[2] = MatMul([[1.0, 2.0], [3.0, 4.0]], [0.1, 0.2])
d:f32[2] = Add(z, %3)",
            expect![[r#"
                graph g(x:i32[2], z:f32[2], w:f32[3]) -> (a, b, c, d)
                a:i32[2] = Add(x, [4, 6]:i32)  # 3
                b:f32[2] = Add(z, [2.0, 3.0])  # 5
                c:f32[3] = Add(w, [0.6, 0.5, 0.3])  # 7
                d:f32[2] = Add(z, [0.5, 1.1])  # 9
            "#]],
        );
    }

    #[test]
    fn remainders_and_rounded_numbers_are_folded_and_open_zeros_are_not() {
        check_lean(
            each(super::RULE.apply),
            "graph g(x:i32[2], z:f32[2]) -> (a, b, c, d, e)
%0:i32[2] = Mod([-7, 7]:i32, [3, -3]:i32)
a:i32[2] = Add(x, %0)
%1:f32[2] = Mod([-7.5, 7.5], [2.0, -2.0]) {fmod=1}
b:f32[2] = Add(z, %1)
%2:f32[2] = Round([2.5, -0.5])
c:f32[2] = Add(z, %2)
%3:f32[2] = Sign([-0.0, 2.0])
d:f32[2] = Add(z, %3)
%4:f32[2] = ReduceMax([[0.0, -0.0], [1.0, 2.0]], [1]:i64) {keepdims=0}
e:f32[2] = Add(z, %4)",
            expect![[r#"
                graph g(x:i32[2], z:f32[2]) -> (a, b, c, d, e)
                a:i32[2] = Add(x, [2, -2]:i32)  # 3
                b:f32[2] = Add(z, [-1.5, 1.5])  # 5
                c:f32[2] = Add(z, [2.0, -0.0])  # 7
                %0 = Sign([-0.0, 2.0])  # 8
                d:f32[2] = Add(z, %0)  # 9
                %1 = ReduceMax([[0.0, -0.0], [1.0, 2.0]], [1]:i64) {keepdims=0}  # 10
                e:f32[2] = Add(z, %1)  # 11
            "#]],
        );
    }

    #[test]
    fn a_function_is_folded_if_the_nearest_number_is_known() {
        check_lean(
            each(super::RULE.apply),
            "graph g(x:f32[2], y:f64[2]) -> (a, b, c, d, e)
%0:f32[2] = Exp([1.0, -1.0])
a:f32[2] = Add(x, %0)
%1:f32[2] = Exp([1.0, 100.0])
b:f32[2] = Add(x, %1)
%2:f64[2] = Exp([1.0, -1.0]:f64)
c:f64[2] = Add(y, %2)
%3:f32[2] = Pow([10000.0, 4097.0], [0.25, 2.0])
d:f32[2] = Add(x, %3)
%4:f32[2] = Log([0.0, 1.0])
e:f32[2] = Add(x, %4)",
            expect![[r#"
                graph g(x:f32[2], y:f64[2]) -> (a, b, c, d, e)
                a:f32[2] = Add(x, [2.7182817, 0.36787945])  # 3
                %0 = Exp([1.0, 100.0])  # 4
                b:f32[2] = Add(x, %0)  # 5
                %1 = Exp([1.0, -1.0]:f64)  # 6
                c:f64[2] = Add(y, %1)  # 7
                %2 = Pow([10000.0, 4097.0], [0.25, 2.0])  # 8
                d:f32[2] = Add(x, %2)  # 9
                %3 = Log([0.0, 1.0])  # 10
                e:f32[2] = Add(x, %3)  # 11
            "#]],
        );
    }
}
