//! `orient-products`: rewrites a matrix product so that the fewest elements are transposed around it.
//!
//! `A·B = (Bᵀ·Aᵀ)ᵀ`, and the rows of a side can be in any order that the readers of the result accept. JAX always
//! returns the result of `dot_general` in one order of axes, and transposes it afterward.

use algebra::axis_map::{AxisMap, cost, emit, emit_after, plan};
use algebra::rewrite::require;
use onnx::{Dim, Edit, Op, OpType, Outcome, Patch, ValueId, declined};
use rustc_hash::FxHashMap;

use super::is_layout_op;
use super::merge::links;

/// The maximum number of layout ops to follow after a product.
const MAX_FOLLOWING: usize = 8;

pub(crate) fn run(edit: &mut Edit<'_>) {
    let weighted = read_by_weights(edit);
    for index in 0..edit.len() {
        if is_product(edit, index) {
            let after = following(edit, index);
            let end = after.last().copied().unwrap_or(index);
            edit.patch(end, |patch| orient(patch, index, &after, &weighted));
        }
    }
}

fn is_product(edit: &Edit<'_>, index: usize) -> bool {
    edit.node(index).op == OpType::MatMul
}

/// Counts how often a value is the right side of a product with weights. If nothing else reads the value, it becomes
/// unnecessary once all of these products are swapped.
fn read_by_weights(edit: &Edit<'_>) -> FxHashMap<ValueId, usize> {
    let mut counts = FxHashMap::default();
    for index in (0..edit.len()).filter(|&index| is_product(edit, index)) {
        let is_constant = edit.input(index, 0).is_some_and(|left| edit.tensor(left).is_some());
        if let Some(right) = edit.input(index, 1).filter(|_| is_constant) {
            *counts.entry(right).or_default() += 1;
        }
    }
    counts
}

/// One side of a product: a source, and the layout ops on it.
#[derive(Clone)]
pub(crate) struct Side {
    pub source: ValueId,
    /// The map from the source to the side.
    pub map: AxisMap,
    /// The layout ops of the map, the last one first.
    pub links: Vec<usize>,
    is_constant: bool,
}

/// A form of the product.
#[derive(Clone)]
struct Form {
    left: Side,
    right: Side,
    /// The map of the layout ops after the product.
    after: AxisMap,
}

fn orient(
    edit: &mut Patch<'_, '_>,
    index: usize,
    after: &[usize],
    weighted: &FxHashMap<ValueId, usize>,
) -> Outcome {
    let is_weighted = |value: &ValueId| weighted.get(value) == Some(&edit.reads(*value));
    let left = side(edit, index, 0)?;
    let right = side_where(edit, index, 1, |value| left.is_constant && is_weighted(&value))?;
    let (of_left, of_right) = (left.batch()?, right.batch()?);
    // A matrix without batch axes broadcasts along the batch of the other side.
    if of_left != of_right && !of_left.is_empty() && !of_right.is_empty() {
        let is_moved = !(left.links.is_empty() && right.links.is_empty() && after.is_empty());
        let why = "the two sides have different batches";
        return is_moved.then(|| declined(why))?;
    }
    let form = Form { after: map_after(edit, index, &left, &right, after)?, left, right };
    let now = form.cost()?;
    require(now != 0 || form.left.is_constant)?;
    let swapped = form.swapped()?;
    let swapped_in_order = swapped.in_order();
    let forms = [swapped, form.in_order(), swapped_in_order];
    let (found, best) =
        forms.iter().filter_map(|form| Some((form.cost()?, form))).min_by_key(|(cost, _)| *cost)?;
    // If the cost is the same, weights go to the right, as in other products.
    let is_alike = found == now && form.left.is_constant && best.right.is_constant;
    if found > now || (found == now && !is_alike) {
        let why = "no other order of its sides or rows needs fewer transposes";
        return (now > 0).then(|| declined(why))?;
    }
    write(edit, index, after, best)
}

/// Reads an operand through the layout ops that only this operand reads.
pub(crate) fn side(edit: &Edit<'_>, index: usize, operand: usize) -> Option<Side> {
    side_where(edit, index, operand, |_| false)
}

/// Like [`side`], but also reads through values with other readers if `is_the_same` accepts them.
fn side_where(
    edit: &Edit<'_>,
    index: usize,
    operand: usize,
    is_the_same: impl Fn(ValueId) -> bool,
) -> Option<Side> {
    let value = edit.input(index, operand)?;
    let is_own = |&link: &usize| {
        let result = edit.result(link);
        edit.reads(result) == 1 || (result == value && is_the_same(result))
    };
    let chain: Vec<usize> = links(edit, value).into_iter().take_while(is_own).collect();
    // Prefers the longest chain that a map can describe.
    (0..=chain.len()).rev().find_map(|length| {
        let links = chain[..length].to_vec();
        let source = links.last().map_or(Some(value), |&link| edit.input(link, 0))?;
        let map = AxisMap::of_chain(edit, source, &links)?;
        Some(Side { source, map, links, is_constant: edit.tensor(source).is_some() })
    })
}

/// Returns the layout ops after a node, each the only reader of the one before it.
pub(crate) fn following(edit: &Edit<'_>, index: usize) -> Vec<usize> {
    let next = |&link: &usize| {
        let reader = edit.sole_reader(edit.result(link))?;
        is_layout_op(edit, reader).then_some(reader)
    };
    std::iter::successors(next(&index), next).take(MAX_FOLLOWING).collect()
}

/// Returns the map of the layout ops after a product. The factors of its rows and columns are those of the sides.
fn map_after(
    edit: &Edit<'_>,
    index: usize,
    left: &Side,
    right: &Side,
    after: &[usize],
) -> Option<AxisMap> {
    let shape = &edit.result_ty(index)?.shape;
    let (row, column) = (shape.len().checked_sub(2)?, shape.len() - 1);
    let axes = shape.iter().enumerate().map(|(axis, dim)| match axis {
        _ if axis == row => left.map.parts_after(left.row()),
        _ if axis == column => right.map.parts_after(right.column()),
        _ => vec![dim.clone()],
    });
    let parts = AxisMap::identity_of_parts(axes);
    let whole = after.iter().try_fold(parts.clone(), |map, &link| map.then_node(edit, link))?;
    // If a layout op splits a factor further, the factors cannot be reordered to match the operand.
    whole.has_parts_of(&parts).then_some(whole)
}

impl Side {
    fn row(&self) -> usize {
        self.map.rank_after() - 2
    }

    fn column(&self) -> usize {
        self.map.rank_after() - 1
    }

    /// Returns the sizes of the batch axes.
    fn batch(&self) -> Option<Vec<Dim>> {
        let rank = self.map.rank_after().checked_sub(2)?;
        (0..rank).map(|axis| self.map.size_after(axis)).collect()
    }

    /// Returns the side with rows and columns swapped.
    pub(crate) fn transposed(self) -> Option<Side> {
        let map = self.map.with_last_axes_swapped()?;
        Some(Side { map, ..self })
    }
}

impl Form {
    fn cost(&self) -> Option<usize> {
        let of_side =
            |side: &Side| if side.is_constant { Some(0) } else { Some(cost(&side.map.steps()?)) };
        Some(of_side(&self.left)? + of_side(&self.right)? + cost(&self.after.steps()?))
    }

    /// `(Bᵀ·Aᵀ)ᵀ`
    fn swapped(&self) -> Option<Form> {
        let (left, right) = (self.right.clone().transposed()?, self.left.clone().transposed()?);
        let after = self.after.clone().inverse().with_last_axes_swapped()?.inverse();
        Some(Form { left, right, after })
    }

    /// Returns the form with the factors of rows and columns in the order that they have in the sources.
    fn in_order(&self) -> Form {
        let mut form = self.clone();
        let rank = form.after.rank_before();
        let (row, column) = (form.left.row(), form.right.column());
        let sides = [(&mut form.left, row, rank - 2), (&mut form.right, column, rank - 1)];
        for (side, axis, axis_of_result) in sides {
            let order = side.map.sort_parts_after(axis);
            form.after.reorder_parts_before(axis_of_result, &order);
        }
        form
    }
}

/// Replaces the product and the layout ops after it.
fn write(patch: &mut Patch<'_, '_>, index: usize, after: &[usize], form: &Form) -> Outcome {
    let planned = |edit: &Edit<'_>, side: &Side| plan(edit.shape(side.source)?, side.map.steps()?);
    let (left, right) = (planned(patch, &form.left)?, planned(patch, &form.right)?);
    for nodes in [&form.left.links[..], &form.right.links, after, &[index]] {
        patch.take(nodes);
    }
    let a = emit(patch, &form.left.links, form.left.source, &left).ok()?;
    let b = emit(patch, &form.right.links, form.right.source, &right).ok()?;
    let product = emit_after(patch, Op::new(OpType::MatMul, &[a, b]), &form.after.steps()?);
    patch.settle(product)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::check;

    #[test]
    fn a_product_is_swapped_if_its_transpose_is_read() {
        check(
            super::run,
            "graph g(v:f32[B,5,3,4], p:f32[B,3,6,5]) -> (y)
%0:f32[B,3,4,5] = Transpose(v) {perm=[0, 2, 3, 1]}
%1:f32[B,3,5,6] = Transpose(p) {perm=[0, 1, 3, 2]}
%2:f32[B,3,4,6] = MatMul(%0, %1)
y:f32[B,6,3,4] = Transpose(%2) {perm=[0, 3, 1, 2]}",
            expect![[r#"
                graph g(v:f32[B,5,3,4], p:f32[B,3,6,5]) -> (y)
                %0 = Transpose(v) {perm=[0, 2, 3, 1]}  # 2
                %1 = Transpose(p) {perm=[0, 1, 3, 2]}  # 3
                %2 = MatMul(%0, %1)  # 4
                %3 = Transpose(v) {perm=[0, 2, 1, 3]}  # 5 2
                %4 = MatMul(p, %3)  # 4 2 3 5
                y:f32[B,6,3,4] = Transpose(%4) {perm=[0, 2, 1, 3]}  # 5 2 3 4
            "#]],
        );
    }

    #[test]
    fn a_product_that_is_best_as_it_is_stays() {
        check(
            super::run,
            "graph g(q:f32[2,5,3,4], k:f32[2,6,3,4]) -> (y)
%0:f32[2,3,5,4] = Transpose(q) {perm=[0, 2, 1, 3]}
%1:f32[2,3,4,6] = Transpose(k) {perm=[0, 2, 3, 1]}
y:f32[2,3,5,6] = MatMul(%0, %1)",
            expect![[r#"
                graph g(q:f32[2,5,3,4], k:f32[2,6,3,4]) -> (y)
                %0 = Transpose(q) {perm=[0, 2, 1, 3]}  # 2
                %1 = Transpose(k) {perm=[0, 2, 3, 1]}  # 3
                y:f32[2,3,5,6] = MatMul(%0, %1)  # 4
            "#]],
        );
    }

    #[test]
    fn a_matrix_is_swapped_with_a_batch() {
        check(
            super::run,
            "graph g(x:f32[5,3], w:f32[2,4,3]) -> (y)
%0:f32[3,5] = Transpose(x) {perm=[1, 0]}
%1:f32[2,4,5] = MatMul(w, %0)
y:f32[2,5,4] = Transpose(%1) {perm=[0, 2, 1]}",
            expect![[r#"
                graph g(x:f32[5,3], w:f32[2,4,3]) -> (y)
                %0 = Transpose(x) {perm=[1, 0]}  # 2
                %1 = MatMul(w, %0)  # 3
                %2 = Transpose(w) {perm=[0, 2, 1]}  # 4
                y:f32[2,5,4] = MatMul(x, %2)  # 3 2 4
            "#]],
        );
    }

    #[test]
    fn rows_that_were_joined_in_another_order_are_read_in_their_own() {
        check(
            super::run,
            "graph g(p:f32[2,5,3,6], v:f32[2,6,4]) -> (y)
%0:f32[2,3,5,6] = Transpose(p) {perm=[0, 2, 1, 3]}
%1:f32[2,15,6] = Reshape(%0, [2, 15, 6]:i64)
%2:f32[2,15,4] = MatMul(%1, v)
%3:f32[2,3,5,4] = Reshape(%2, [2, 3, 5, 4]:i64)
y:f32[2,5,3,4] = Transpose(%3) {perm=[0, 2, 1, 3]}",
            expect![[r#"
                graph g(p:f32[2,5,3,6], v:f32[2,6,4]) -> (y)
                %0 = Transpose(p) {perm=[0, 2, 1, 3]}  # 2
                %1 = Reshape(%0, [2, 15, 6]:i64)  # 3
                %2 = MatMul(%1, v)  # 4
                %3 = Reshape(%2, [2, 3, 5, 4]:i64)  # 5
                %4 = Reshape(p, [2, 15, 6]:i64)  # 3 2 6
                %5 = MatMul(%4, v)  # 4 2 3 5 6
                y:f32[2,5,3,4] = Reshape(%5, [2, 5, 3, 4]:i64)  # 5 2 3 4 6
            "#]],
        );
    }

    #[test]
    fn an_operand_that_only_weights_read_is_not_transposed() {
        check(
            super::run,
            "graph g(x:f32[2,5,3]) -> (y, z)
w = const f32[3,3]
u = const f32[3,3]
%0:f32[3,2,5] = Transpose(x) {perm=[2, 0, 1]}
%1:f32[3,10] = Reshape(%0, [3, 10]:i64)
%2:f32[3,10] = MatMul(w, %1)
%3:f32[3,2,5] = Reshape(%2, [3, 2, 5]:i64)
y:f32[2,5,3] = Transpose(%3) {perm=[1, 2, 0]}
%4:f32[3,10] = MatMul(u, %1)
%5:f32[3,2,5] = Reshape(%4, [3, 2, 5]:i64)
z:f32[2,5,3] = Transpose(%5) {perm=[1, 2, 0]}",
            expect![[r#"
                graph g(x:f32[2,5,3]) -> (y, z)
                w = const f32[3,3]
                w/folded = const f32[3,3]
                u = const f32[3,3]
                u/folded = const f32[3,3]
                %0 = Transpose(x) {perm=[2, 0, 1]}  # 4
                %1 = Reshape(%0, [3, 10]:i64)  # 5
                %2 = MatMul(w, %1)  # 6
                %3 = Reshape(%2, [3, 2, 5]:i64)  # 7
                %4 = Reshape(x, [10, 3]:i64)  # 5 4 8
                %5 = MatMul(%4, w/folded)  # 6 4 5 7 8
                y:f32[2,5,3] = Reshape(%5, [2, 5, 3]:i64)  # 7 4 5 6 8
                %6 = MatMul(u, %1)  # 9
                %7 = Reshape(%6, [3, 2, 5]:i64)  # 10
                %8 = Reshape(x, [10, 3]:i64)  # 5 4 11
                %9 = MatMul(%8, u/folded)  # 9 4 5 10 11
                z:f32[2,5,3] = Reshape(%9, [2, 5, 3]:i64)  # 10 4 5 9 11
            "#]],
        );
    }

    #[test]
    fn an_operand_that_others_read_stays_transposed() {
        check(
            super::run,
            "graph g(x:f32[2,5,3]) -> (y, z)
w = const f32[3,3]
%0:f32[3,2,5] = Transpose(x) {perm=[2, 0, 1]}
%1:f32[3,10] = Reshape(%0, [3, 10]:i64)
%2:f32[3,10] = MatMul(w, %1)
%3:f32[3,2,5] = Reshape(%2, [3, 2, 5]:i64)
y:f32[2,5,3] = Transpose(%3) {perm=[1, 2, 0]}
z:f32[3,10] = Tanh(%1)",
            expect![[r#"
                graph g(x:f32[2,5,3]) -> (y, z)
                w = const f32[3,3]
                %0 = Transpose(x) {perm=[2, 0, 1]}  # 3
                %1 = Reshape(%0, [3, 10]:i64)  # 4
                %2 = MatMul(w, %1)  # 5
                %3 = Reshape(%2, [3, 2, 5]:i64)  # 6
                y:f32[2,5,3] = Transpose(%3) {perm=[1, 2, 0]}  # 7
                z:f32[3,10] = Tanh(%1)  # 8
            "#]],
        );
    }
}
