//! `make-rows`: computes with rows of a matrix instead of vectors around products with a bias.
//!
//! ONNX Runtime multiplies matrices and adds a bias in one node. For a vector, it reshapes before and after that
//! node, at each product. This rewrite makes the vectors between the products rows as well.

use onnx::operator::properties::POINTWISE;
use onnx::{DType, Edit, Op, OpType, Outcome, Patch, Type, ValueId, declined};
use rustc_hash::{FxHashMap, FxHashSet};

use super::readers;

/// In a loop, this many reshapes cost as much as one product of a vector with a bias.
const RESHAPES_OF_PRODUCT: usize = 3;

pub(crate) fn run(edit: &mut Edit<'_>) {
    let mut seen: FxHashSet<usize> = FxHashSet::default();
    for index in edit.nodes() {
        if seen.contains(&index) || !is_biased_product(edit, index) {
            continue;
        }
        let region = Region::around(edit, index);
        seen.extend(&region.nodes);
        let worth = if edit.is_in_loop() { RESHAPES_OF_PRODUCT } else { 1 };
        let is_worth_it = worth * region.products > region.borders;
        edit.patch(index, |patch| match is_worth_it {
            true => region.rewrite(patch),
            false => declined("reshapes around it would cost as much"),
        });
    }
}

/// True if a node multiplies a vector with a matrix.
fn is_product(edit: &Edit<'_>, index: usize) -> bool {
    let rank = |operand| edit.ty(edit.input(index, operand)?).map(Type::rank);
    edit.node(index).op == OpType::MatMul
        && (rank(0), rank(1)) == (Some(1), Some(2))
        && edit.input(index, 0).is_some_and(|vector| edit.tensor(vector).is_none())
}

/// True if a node multiplies a vector with a matrix, and only an addition reads the result.
fn is_biased_product(edit: &Edit<'_>, index: usize) -> bool {
    let result = edit.result(index);
    let is_wide = edit.ty(result).is_some_and(|ty| matches!(ty.dtype, DType::F32 | DType::F64));
    let reader = || edit.sole_reader(result).filter(|&reader| edit.node(reader).op == OpType::Add);
    edit.is_live(index)
        && is_wide
        && is_product(edit, index)
        && reader().is_some_and(|sum| edit.result_ty(sum) == edit.ty(result))
}

/// True if a node computes a vector, and would compute a row from rows.
fn is_member(edit: &Edit<'_>, index: usize) -> bool {
    let node = edit.node(index);
    let rank = |id: ValueId| edit.ty(id).map(Type::rank);
    let mut operands = edit.operands(index);
    node.outputs.iter().all(|&output| rank(output) == Some(1))
        && (is_product(edit, index)
            || node.op.is_one_of(&[OpType::Concat, OpType::Split])
            || node.op.is(POINTWISE) && operands.all(|id| rank(id).is_some_and(|rank| rank <= 1)))
}

/// True if a value is a vector and not a constant.
fn is_vector(edit: &Edit<'_>, id: ValueId) -> bool {
    edit.tensor(id).is_none() && edit.ty(id).is_some_and(|ty| ty.rank() == 1)
}

/// Returns the vectors that a member reads, without constants.
fn vectors(edit: &Edit<'_>, index: usize) -> Vec<ValueId> {
    edit.operands(index).filter(|&id| is_vector(edit, id)).collect()
}

/// Vectors that depend on each other.
struct Region {
    /// The nodes that compute the vectors, in topological order.
    nodes: Vec<usize>,
    /// The number of products with a bias.
    products: usize,
    /// The number of vectors that other nodes compute or read. In a body, inputs and outputs do not count: the loop
    /// can carry rows.
    borders: usize,
}

impl Region {
    fn around(edit: &Edit<'_>, index: usize) -> Region {
        let mut found: FxHashSet<usize> = FxHashSet::default();
        let mut values: FxHashSet<ValueId> = FxHashSet::default();
        let (mut borders, in_loop) = (0, edit.is_in_loop());
        let mut open = vec![edit.result(index)];
        while let Some(value) = open.pop() {
            if !values.insert(value) {
                continue;
            }
            match edit.producer(value).filter(|&maker| is_member(edit, maker)) {
                Some(maker) => {
                    found.insert(maker);
                    open.extend(vectors(edit, maker));
                    open.extend(&edit.node(maker).outputs);
                }
                None => borders += usize::from(!in_loop || edit.producer(value).is_some()),
            }
            let mut reads = 0;
            for (reader, times) in readers(edit, value) {
                if is_member(edit, reader) {
                    reads += times;
                    open.extend(&edit.node(reader).outputs);
                }
            }
            if in_loop {
                reads += edit.outputs().iter().filter(|&&output| output == value).count();
            }
            borders += usize::from(edit.reads(value) > reads);
        }
        let mut nodes = edit.nodes();
        nodes.retain(|node| found.contains(node));
        let products = nodes.iter().filter(|&&node| is_biased_product(edit, node)).count();
        Region { nodes, products, borders }
    }

    fn rewrite(&self, edit: &mut Patch<'_, '_>) -> Outcome {
        let mut rows: FxHashMap<ValueId, ValueId> = FxHashMap::default();
        for &index in &self.nodes {
            edit.move_to(index);
            let node = edit.node(index).clone();
            let mut inputs = edit.inputs(index);
            // Constants broadcast as they are.
            let is_concat = node.op == OpType::Concat;
            for input in inputs.iter_mut().flatten() {
                if is_vector(edit, *input) || is_concat {
                    let row = match rows.get(input) {
                        Some(&row) => row,
                        None => row_of(edit, *input)?,
                    };
                    rows.insert(*input, row);
                    *input = row;
                }
            }
            let mut op = Op::of(&node, inputs);
            if is_concat || node.op == OpType::Split {
                op = op.attr("axis", 1);
            }
            let axes = edit.integers(&[0])?;
            let restore = |row| Op::new(OpType::Squeeze, &[row, axes]);
            let made = edit.retype(index, &[], op, &restore).ok()?;
            rows.extend(node.outputs.iter().copied().zip(made));
        }
        edit.finish()
    }
}

/// Returns a vector as a row.
fn row_of(edit: &mut Patch<'_, '_>, vector: ValueId) -> Option<ValueId> {
    if let Some(tensor) = edit.tensor(vector) {
        let shape = [&[1], &tensor.shape[..]].concat();
        let row = tensor.with_shape(shape);
        return Some(edit.constant(row, &[vector]));
    }
    edit.unsqueeze(vector, &[0])
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::check_lean;

    #[test]
    fn vectors_between_products_are_rows() {
        check_lean(
            super::run,
            "graph g(x:f32[3], t:f32[1], w:f32[4,5], v:f32[5,3]) -> (y)
%0:f32[4] = Concat(t, x) {axis=0}
%1:f32[5] = MatMul(%0, w)
%2:f32[5] = Add(%1, [1.0, 2.0, 3.0, 4.0, 5.0])
%a:f32[2], %b:f32[3] = Split(%2, [2, 3]:i64) {axis=0}
%c:f32[3] = Tanh(%b)
%3:f32[5] = Concat(%c, %a) {axis=0}
%4:f32[3] = MatMul(%3, v)
%5:f32[3] = Add(%4, [1.0, 2.0, 3.0])
%6:f32[3] = MatMul(%5, const f32[3,3])
%7:f32[3] = Add(%6, [1.0, 2.0, 3.0])
%8:f32[3] = MatMul(%7, const f32[3,3])
%9:f32[3] = Add(%8, [1.0, 2.0, 3.0])
y:f32[3] = Add(%9, x)",
            expect![[r#"
                graph g(x:f32[3], t:f32[1], w:f32[4,5], v:f32[5,3]) -> (y)
                %0 = Unsqueeze(t, [0]:i64)  # 2
                %1 = Unsqueeze(x, [0]:i64)  # 2
                %2 = Concat(%0, %1) {axis=1}  # 2
                %3 = MatMul(%2, w)  # 3
                %4 = Add(%3, [1.0, 2.0, 3.0, 4.0, 5.0])  # 4
                %5, %6 = Split(%4, [2, 3]:i64) {axis=1}  # 5
                %7 = Tanh(%6)  # 6
                %8 = Concat(%7, %5) {axis=1}  # 7
                %9 = MatMul(%8, v)  # 8
                %10 = Add(%9, [1.0, 2.0, 3.0])  # 9
                %11 = MatMul(%10, const f32[3,3])  # 10
                %12 = Add(%11, [1.0, 2.0, 3.0])  # 11
                %13 = MatMul(%12, const f32[3,3])  # 12
                %14 = Add(%13, [1.0, 2.0, 3.0])  # 13
                %15 = Add(%14, %1)  # 14
                y:f32[3] = Squeeze(%15, [0]:i64)  # 14
            "#]],
        );
    }

    #[test]
    fn a_product_between_other_nodes_stays() {
        check_lean(
            super::run,
            "graph g(x:f32[3], w:f32[3,3], c:f32[3]) -> (y)
%0:f32[3] = MatMul(x, w)
%1:f32[3] = Add(%0, [1.0, 2.0, 3.0])
y:f32[3] = CumSum(%1, 0:i64)",
            expect![[r#"
                graph g(x:f32[3], w:f32[3,3], c:f32[3]) -> (y)
                %0 = MatMul(x, w)  # 2
                %1 = Add(%0, [1.0, 2.0, 3.0])  # 3
                y:f32[3] = CumSum(%1, 0:i64)  # 4
            "#]],
        );
    }

    #[test]
    fn a_loop_is_worth_more_reshapes() {
        check_lean(
            super::run,
            "graph g(x:f32[3], w:f32[3,3], n:i64[]) -> (y)
y:f32[3] = Loop(n, true, x) {body={
  graph b(i:i64[], c:bool[], v:f32[3]) -> (d, u)
  d:bool[] = Identity(c)
  %0:f32[3] = MatMul(v, w)
  %1:f32[3] = Add(%0, [1.0, 2.0, 3.0])
  u:f32[3] = Tanh(%1)
}}",
            expect![[r#"
                graph g(x:f32[3], w:f32[3,3], n:i64[]) -> (y)
                y:f32[3] = Loop(n, true, x) {body={  # 2
                  graph b(i:i64[], c:bool[], v:f32[3]) -> (d, u)
                  d:bool[] = Identity(c)  # 4
                  %0 = Unsqueeze(v, [0]:i64)  # 5
                  %1 = MatMul(%0, w)  # 5
                  %2 = Add(%1, [1.0, 2.0, 3.0])  # 6
                  %3 = Tanh(%2)  # 7
                  u:f32[3] = Squeeze(%3, [0]:i64)  # 7
                }}
            "#]],
        );
    }
}
