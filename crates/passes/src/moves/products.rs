//! `orient-products`: a product of matrices written so that the fewest elements are moved around it.
//!
//! `A·B = (Bᵀ·Aᵀ)ᵀ`, and the rows of one side may be listed in any order that the result is read in.
//! JAX has one order of axes for the result of `dot_general`, whichever way round it was asked for, and
//! transposes it afterwards.

use onnx::{Edit, Op, OpType, Type, ValueId};
use rustc_hash::FxHashMap;

use super::merge::links;
use super::{Move, Planned, Step, cost, emit, is_move, plan};

pub(crate) fn run(edit: &mut Edit<'_>) {
    let weighted = read_by_weights(edit);
    for index in 0..edit.len() {
        if is_product(edit, index) {
            orient(edit, index, &weighted);
        }
    }
}

fn is_product(edit: &Edit<'_>, index: usize) -> bool {
    let node = edit.node(index);
    node.op == OpType::MatMul
}

/// How often a value is the right side of a product with weights. What nothing else reads need not be made
/// where all of these products are written the other way round.
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

/// One side of a product: what it is made of, and how.
#[derive(Clone)]
pub(crate) struct Side {
    pub source: ValueId,
    pub moves: Move,
    /// The nodes of the moves.
    pub links: Vec<usize>,
    is_constant: bool,
}

/// A way to write the product.
#[derive(Clone)]
struct Form {
    left: Side,
    right: Side,
    after: Move,
}

fn orient(edit: &mut Edit<'_>, index: usize, weighted: &FxHashMap<ValueId, usize>) -> Option<()> {
    let is_weighted = |value: &ValueId| weighted.get(value) == Some(&edit.reads(*value));
    let left = side(edit, index, 0)?;
    let right = side_where(edit, index, 1, |value| left.is_constant && is_weighted(&value))?;
    let batch = |side: &Side| {
        let rank = side.moves.to.len().checked_sub(2)?;
        side.moves.shape_of(&side.moves.to[..rank])
    };
    let (of_left, of_right) = (batch(&left)?, batch(&right)?);
    // A matrix is the same for the whole batch of the other side.
    if of_left != of_right && !of_left.is_empty() && !of_right.is_empty() {
        return None;
    }
    let after = following(edit, index);
    let form = Form { after: moves_after(edit, index, &left, &right, &after)?, left, right };
    let now = form.cost()?;
    if now == 0 && !form.left.is_constant {
        return None;
    }
    let forms = [form.swapped(), form.in_order(), form.swapped().in_order()];
    let (found, best) =
        forms.iter().filter_map(|form| Some((form.cost()?, form))).min_by_key(|(cost, _)| *cost)?;
    // Weights stand on the right where it is all the same, as they do in other products.
    let is_alike = found == now && form.left.is_constant && best.right.is_constant;
    if found > now || (found == now && !is_alike) {
        return None;
    }
    write(edit, index, &after, best)
}

/// An operand, seen through the moves that only it is read through.
pub(crate) fn side(edit: &Edit<'_>, index: usize, operand: usize) -> Option<Side> {
    side_where(edit, index, operand, |_| false)
}

/// As [`side`], also through what others read for which it is the same.
fn side_where(
    edit: &Edit<'_>,
    index: usize,
    operand: usize,
    is_the_same: impl Fn(ValueId) -> bool,
) -> Option<Side> {
    let value = edit.input(index, operand)?;
    let is_own = |&link: &usize| {
        let result = edit.node(link).outputs[0];
        edit.reads(result) == 1 || (result == value && is_the_same(result))
    };
    let last = edit.producer(value).filter(|&link| is_move(edit, link));
    let chain = last.map(|last| links(edit, last)).unwrap_or_default();
    let chain: Vec<usize> = chain.into_iter().take_while(is_own).collect();
    // The longest chain that can be followed.
    (0..=chain.len()).rev().find_map(|length| {
        let links = chain[..length].to_vec();
        let source = links.last().map_or(Some(value), |&link| edit.input(link, 0))?;
        let moves = Move::none(&edit.ty(source)?.shape);
        let moves = links.iter().rev().try_fold(moves, |moves, &link| moves.then(edit, link))?;
        Some(Side { source, moves, links, is_constant: edit.tensor(source).is_some() })
    })
}

/// The moves that follow, each the only reader of what is before it.
pub(crate) fn following(edit: &Edit<'_>, index: usize) -> Vec<usize> {
    let next = |&link: &usize| {
        let reader = edit.sole_reader(edit.node(link).outputs[0])?;
        is_move(edit, reader).then_some(reader)
    };
    std::iter::successors(next(&index), next).take(8).collect()
}

/// What becomes of the result, whose rows and columns are made of the parts that those of the sides
/// are made of.
fn moves_after(
    edit: &Edit<'_>,
    index: usize,
    left: &Side,
    right: &Side,
    after: &[usize],
) -> Option<Move> {
    let shape = edit.ty(edit.node(index).outputs[0])?.shape.clone();
    let (row, column) = (shape.len().checked_sub(2)?, shape.len() - 1);
    let axes = shape.iter().enumerate().map(|(axis, dim)| match axis {
        _ if axis == row => left.moves.parts_after(left.moves.to.len() - 2),
        _ if axis == column => right.moves.parts_after(right.moves.to.len() - 1),
        _ => vec![dim.clone()],
    });
    let moves = Move::none_of_parts(axes.collect::<Vec<_>>().into_iter());
    let whole = after.iter().try_fold(moves.clone(), |moves, &link| moves.then(edit, link))?;
    let lengths = |moves: &Move| moves.from.iter().map(Vec::len).collect::<Vec<_>>();
    // Parts that are taken apart further could not be put into the order of the operand's.
    (lengths(&whole) == lengths(&moves)).then_some(whole)
}

impl Form {
    fn cost(&self) -> Option<usize> {
        let of =
            |side: &Side| if side.is_constant { Some(0) } else { Some(cost(&side.moves.steps()?)) };
        Some(of(&self.left)? + of(&self.right)? + cost(&self.after.steps()?))
    }

    /// `(Bᵀ·Aᵀ)ᵀ`
    fn swapped(&self) -> Form {
        let transposed = |side: &Side| {
            let mut side = side.clone();
            let rank = side.moves.to.len();
            side.moves.to.swap(rank - 2, rank - 1);
            side
        };
        let mut after = self.after.clone();
        let rank = after.from.len();
        after.from.swap(rank - 2, rank - 1);
        Form { left: transposed(&self.right), right: transposed(&self.left), after }
    }

    /// With the rows and columns in the order that they have in what they are made of.
    fn in_order(&self) -> Form {
        let mut form = self.clone();
        let rank = form.after.from.len();
        let own = |side: &Side, back: usize| side.moves.to.len() - back;
        let (row, column) = (own(&form.left, 2), own(&form.right, 1));
        let sides = [(&mut form.left, row, rank - 2), (&mut form.right, column, rank - 1)];
        for (side, axis, result_axis) in sides {
            let before = side.moves.from.concat();
            let atoms = &side.moves.to[axis];
            let place = |&position: &usize| before.iter().position(|&atom| atom == atoms[position]);
            let mut order: Vec<usize> = (0..atoms.len()).collect();
            order.sort_by_key(place);
            let sorted = |atoms: &[usize]| order.iter().map(|&position| atoms[position]).collect();
            let (atoms, parts) = (sorted(atoms), sorted(&form.after.from[result_axis]));
            side.moves.to[axis] = atoms;
            form.after.from[result_axis] = parts;
        }
        form
    }
}

/// Puts the product where the last of the moves after it was.
fn write(edit: &mut Edit<'_>, index: usize, after: &[usize], form: &Form) -> Option<()> {
    let end = after.last().copied().unwrap_or(index);
    let planned =
        |edit: &Edit<'_>, side: &Side| plan(&edit.ty(side.source)?.shape, &side.moves.steps()?);
    let (left, right) = (planned(edit, &form.left)?, planned(edit, &form.right)?);
    let shape = form.after.shape_of(&form.after.from)?;
    let steps: Vec<Step> = form.after.steps()?;
    let following: Vec<Planned> = plan(&shape, &steps)?;
    let mut fused = [&form.left.links[..], &form.right.links, after].concat();
    fused.push(index);
    fused.retain(|&node| node != end);
    let a = emit(edit, end, &form.left.links, form.left.source, &left)?;
    let b = emit(edit, end, &form.right.links, form.right.source, &right)?;
    let product = Op::new(OpType::MatMul, &[a, b]);
    let Some((last, before)) = following.split_last() else {
        edit.rewrite(end, &fused, product);
        return Some(());
    };
    let dtype = edit.ty(form.left.source)?.dtype;
    let result = edit.insert(end, &fused, product, Type::new(dtype, shape));
    let result = emit(edit, end, &fused, result, before)?;
    let op = last.op(edit, end, &fused, result)?;
    edit.rewrite(end, &fused, op);
    Some(())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn the_other_way_round_needs_no_transposed_weights_of_attention() {
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
    fn a_matrix_may_stand_on_the_other_side_of_a_batch() {
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
    fn what_only_weights_read_need_not_be_transposed() {
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
    fn what_others_read_too_is_transposed() {
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
