//! `move-transposes`: chooses the order of axes that needs the fewest transposes.
//!
//! JAX convolves with the channels last and ONNX with the channels first, so each convolution is between two
//! transposes. The operators between two convolutions work in any order of axes: elementwise operators, sums of
//! branches, joins, reductions. These operators and their arrays form a region. Each region gets the order that
//! leaves the fewest transposes at its border. A dense layer between two convolutions becomes a 1×1 convolution. A
//! product that `vmap` computes for the columns of a matrix becomes a product for its rows.

pub(crate) mod attention;
mod carry;
pub(crate) mod fold_layout_ops;
pub(crate) mod fold_products;
mod regions;
mod role;
pub(crate) mod rotary;
pub(crate) mod small_axes;

use algebra::axis_map::{AxisMap, transpose};
use algebra::axis_order::AxisOrder;
use onnx::{Dim, Edit, Op, OpType, Outcome, Patch, Tensor, ValueId, declined};
use rustc_hash::FxHashMap;

use regions::Regions;
use role::Role;

pub(crate) fn run(edit: &mut Edit<'_>) {
    let has_transposes = (0..edit.len()).any(|index| edit.node(index).op == OpType::Transpose);
    if !has_transposes {
        return;
    }
    let mut regions = Regions::of(edit);
    regions.choose();
    let mut mover = Mover {
        regions: &regions,
        stored: FxHashMap::default(),
        constants: FxHashMap::default(),
        added: Vec::new(),
    };
    for index in 0..edit.len() {
        let is_moved = edit.patch(index, |patch| mover.move_node(patch));
        mover.finish(is_moved);
    }
}

/// Rewrites the nodes of regions for the orders of their regions.
struct Mover<'r> {
    regions: &'r Regions,
    /// The value that replaces a value in the order of its region. Readers of it inherit the origins of the node, if
    /// there is one.
    stored: FxHashMap<ValueId, (ValueId, Option<usize>)>,
    /// Constants by order.
    constants: FxHashMap<(ValueId, AxisOrder), ValueId>,
    /// The entries that the current node added to `stored` (without an order) and to `constants` (with one).
    added: Vec<(ValueId, Option<AxisOrder>)>,
}

impl Mover<'_> {
    fn move_node(&mut self, edit: &mut Patch<'_, '_>) -> Outcome {
        let index = edit.root();
        let (value, moved) = match &self.regions.roles[index] {
            Role::Member => (edit.result(index), self.member(edit, index)),
            Role::Sink(axes) => (edit.input(index, 0)?, self.sink(edit, index, axes)),
            &Role::Product { operand } if self.regions.is_reordered(index) => {
                (edit.result(index), self.product(edit, index, operand))
            }
            Role::Product { .. } | Role::Transpose(_) | Role::Source(_) | Role::Fixed => {
                return None;
            }
        };
        if moved.is_none() && self.order_of(value).is_some() {
            return declined("it cannot use the axis order of its neighbors");
        }
        moved
    }

    /// Ends the current node. If it could not be moved, its patch was dropped, and the entries that it added go with
    /// it.
    fn finish(&mut self, is_moved: bool) {
        for (value, order) in self.added.drain(..).filter(|_| !is_moved) {
            match order {
                Some(order) => _ = self.constants.remove(&(value, order)),
                None => _ = self.stored.remove(&value),
            }
        }
    }

    fn store(&mut self, value: ValueId, stored: ValueId, also: Option<usize>) {
        if self.stored.insert(value, (stored, also)).is_none() {
            self.added.push((value, None));
        }
    }

    fn member(&mut self, edit: &mut Patch<'_, '_>, index: usize) -> Outcome {
        let order = self.order_of(edit.result(index))?;
        let (op, fused) = self.carried(edit, index, &order)?;
        self.retype(edit, index, &fused, op, &order)
    }

    /// Writes a product in its other form: the product of an image as a convolution, and a product for columns as one
    /// for rows.
    fn product(&mut self, edit: &mut Patch<'_, '_>, index: usize, operand: usize) -> Outcome {
        let result = edit.result(index);
        let order = self.order_of(result)?;
        let rank = edit.rank(result)?;
        let (x, weights) = (edit.input(index, operand)?, edit.input(index, 1 - operand)?);
        let kernel = edit.tensor(weights)?.transposed(&[1, 0])?;
        let shape = [&kernel.shape[..], &vec![1; rank - 2]].concat();
        let kernel = kernel.with_shape(shape);
        let kernel = edit.constant(kernel, &[weights]);
        let mut fused = Vec::new();
        let x = self.operand(edit, x, &order, &mut fused)?;
        let op = if rank == 2 { OpType::MatMul } else { OpType::Conv };
        self.retype(edit, index, &fused, Op::new(op, &[x, kernel]), &order)
    }

    fn sink(&mut self, edit: &mut Patch<'_, '_>, index: usize, axes: &[usize]) -> Outcome {
        let order = self.order_of(edit.input(index, 0)?).filter(|order| order.keeps_order(axes))?;
        let (op, fused) = self.carried(edit, index, &order)?;
        edit.done(&fused, op)
    }

    /// Returns the operator of a node for arrays in another order, and the nodes whose origins it inherits.
    fn carried(
        &mut self,
        edit: &mut Patch<'_, '_>,
        index: usize,
        order: &AxisOrder,
    ) -> Option<(Op, Vec<usize>)> {
        let mut fused = Vec::new();
        let stored =
            &mut |edit: &mut Patch<'_, '_>, value| self.operand(edit, value, order, &mut fused);
        let op = carry::carried(edit, index, order, stored)?;
        Some((op, fused))
    }

    /// Turns a node into an operator whose results have another order.
    fn retype(
        &mut self,
        edit: &mut Patch<'_, '_>,
        index: usize,
        fused: &[usize],
        op: Op,
        order: &AxisOrder,
    ) -> Outcome {
        let back = order.inverse();
        let made = edit.retype(index, fused, op, &|value| transpose(value, back.perm())).ok()?;
        for (output, made) in edit.node(index).outputs.clone().into_iter().zip(made) {
            self.store(output, made, None);
        }
        edit.finish()
    }

    /// Returns the order of the region of a value, unless the value has that order already.
    fn order_of(&self, value: ValueId) -> Option<AxisOrder> {
        let region = self.regions.region(value)?;
        (!region.order.is_identity()).then(|| region.order.clone())
    }

    /// Returns an operand of a node in the order of the node's region.
    fn operand(
        &mut self,
        edit: &mut Patch<'_, '_>,
        value: ValueId,
        order: &AxisOrder,
        fused: &mut Vec<usize>,
    ) -> Option<ValueId> {
        let rank = edit.rank(value)?;
        if let Some(tensor) = edit.tensor(value) {
            if tensor.len() == 1 && rank != order.rank() {
                return Some(value);
            }
            let key = (value, order.clone());
            if let Some(&known) = self.constants.get(&key) {
                return Some(known);
            }
            let transposed = transposed_constant(tensor, order)?;
            let transposed = edit.constant(transposed, &[value]);
            self.added.push((value, Some(order.clone())));
            self.constants.insert(key, transposed);
            return Some(transposed);
        }
        if rank == 0 {
            return Some(value);
        }
        if rank != order.rank() {
            return carry::widened(edit, value, order);
        }
        let (stored, also) = match self.stored.get(&value) {
            Some(&known) => known,
            None => self.entering(edit, value, order)?,
        };
        self.store(value, stored, also);
        fused.extend(also);
        Some(stored)
    }

    /// Returns the replacement of a value in the order in which its producer computes it, and that order.
    fn made(&self, value: ValueId, rank: usize) -> (ValueId, AxisOrder) {
        let maker = self.regions.maker(value);
        let follows = maker.is_some_and(|maker| self.regions.follows_order(maker));
        match self.stored.get(&value).filter(|_| follows) {
            Some(&(stored, _)) => (stored, self.regions.stored_order(value, rank)),
            None => (value, AxisOrder::identity(rank)),
        }
    }

    /// Returns an array that enters a region, in the order of the region. The second result is a node whose origins
    /// the reader inherits.
    fn entering(
        &mut self,
        edit: &mut Patch<'_, '_>,
        value: ValueId,
        order: &AxisOrder,
    ) -> Option<(ValueId, Option<usize>)> {
        let maker = self.regions.maker(value);
        if let Some(maker) = maker
            && let Some((from, _, own)) = self.regions.transpose(maker)
        {
            let (from, stored) = self.made(from, own.rank());
            let whole = stored.inverse().then(own)?.then(order)?;
            if whole.is_identity() {
                return Some((from, Some(maker)));
            }
            let op = transpose(from, whole.perm());
            return Some((edit.insert_for(&[maker], op), None));
        }
        if let Some(maker) = maker
            && let Role::Source(axes) = &self.regions.roles[maker]
            && order.keeps_order(axes)
            && let Some(made) = carry::made_in_order(edit, maker, order)
        {
            return Some((made, None));
        }
        Some((edit.insert(transpose(value, order.perm())), None))
    }
}

/// Transposes a constant so that it broadcasts with the transposed arrays as before. It gets no more leading unit
/// axes than it needs.
fn transposed_constant(tensor: &Tensor, order: &AxisOrder) -> Option<Tensor> {
    let missing = order.rank().checked_sub(tensor.shape.len())?;
    let shape = [&vec![1; missing][..], &tensor.shape].concat();
    let dims: Vec<Dim> = shape.iter().copied().map(Dim::from).collect();
    let map = AxisMap::identity(&dims).transposed(order.perm())?;
    let mut transposed = map.on_constant(&tensor.with_shape(shape))?;
    let ones = transposed.shape.iter().take_while(|&&size| size == 1).count();
    transposed.shape.drain(..ones.min(missing));
    Some(transposed)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    /// Merges the moved layout ops and drops unread nodes afterwards, as the pipeline does.
    #[track_caller]
    fn check(graph: &str, expect: Expect) {
        testing::check_all(
            &[
                &super::run,
                &testing::each(crate::layout_ops::merge::RULE.apply),
                &testing::drop_dead,
            ],
            graph,
            expect,
        );
    }

    #[test]
    fn nodes_between_two_convolutions_follow_their_axis_order() {
        check(
            "graph g(x:f32[2,3,8,8]) -> (y)
w = const f32[4,3,1,1]
v = const f32[5,4,1,1]
%0:f32[2,4,8,8] = Conv(x, w)
%1:f32[2,8,8,4] = Transpose(%0) {perm=[0, 2, 3, 1]}
%2:f32[2,8,8,4] = Add(%1, [1.0, 2.0, 3.0, 4.0])
%3:f32[2,8,8,4] = Mul(%2, 0.5)
%4:f32[2,8,8,4] = Relu(%3)
%5:f32[2,4,8,8] = Transpose(%4) {perm=[0, 3, 1, 2]}
y:f32[2,5,8,8] = Conv(%5, v)",
            expect![[r#"
                graph g(x:f32[2,3,8,8]) -> (y)
                w = const f32[4,3,1,1]
                v = const f32[5,4,1,1]
                %0 = Conv(x, w)  # 4
                %1 = Add(%0, [[[1.0]], [[2.0]], [[3.0]], [[4.0]]])  # 6 5
                %2 = Mul(%1, 0.5)  # 7
                %3 = Relu(%2)  # 8 9
                y:f32[2,5,8,8] = Conv(%3, v)  # 10
            "#]],
        );
    }

    #[test]
    fn branches_that_are_summed_follow_together() {
        check(
            "graph g(x:f32[2,4,8,8]) -> (y)
w = const f32[4,4,1,1]
%0:f32[2,4,8,8] = Conv(x, w)
%1:f32[2,8,8,4] = Transpose(%0) {perm=[0, 2, 3, 1]}
%2:f32[2,8,8,4] = Relu(%1)
%3:f32[2,4,8,8] = Transpose(%2) {perm=[0, 3, 1, 2]}
%4:f32[2,4,8,8] = Conv(%3, w)
%5:f32[2,8,8,4] = Transpose(%4) {perm=[0, 2, 3, 1]}
%6:f32[2,8,8,4] = Add(%2, %5)
y:f32[2,4] = ReduceMean(%6, [1, 2]:i64) {keepdims=0}",
            expect![[r#"
                graph g(x:f32[2,4,8,8]) -> (y)
                w = const f32[4,4,1,1]
                %0 = Conv(x, w)  # 3
                %1 = Relu(%0)  # 5 4 6
                %2 = Conv(%1, w)  # 7
                %3 = Add(%1, %2)  # 9 8
                y:f32[2,4] = ReduceMean(%3, [2, 3]:i64) {keepdims=0}  # 10
            "#]],
        );
    }

    #[test]
    fn joins_pads_slices_and_softmax_are_along_other_axes_then() {
        check(
            "graph g(x:f32[2,4,8,8], z:f32[2,4,8,8]) -> (y)
%0:f32[2,8,8,4] = Transpose(x) {perm=[0, 2, 3, 1]}
%1:f32[2,8,8,4] = Transpose(z) {perm=[0, 2, 3, 1]}
%2:f32[2,8,8,8] = Concat(%0, %1) {axis=-1}
%3:f32[2,10,8,8] = Pad(%2, [0, 1, 0, 0, 0, 1, 0, 0]:i64, 0.0)
%4:f32[2,10,8,4] = Slice(%3, [0]:i64, [4]:i64, [3]:i64)
%5:f32[2,10,8,4] = Softmax(%4)
%6:f32[2,10,1,4] = ReduceMax(%5, [2]:i64)
%7:f32[2,10,8,4] = Sub(%5, %6)
y:f32[2,4,10,8] = Transpose(%7) {perm=[0, 3, 1, 2]}",
            expect![[r#"
                graph g(x:f32[2,4,8,8], z:f32[2,4,8,8]) -> (y)
                %0 = Concat(x, z) {axis=1}  # 4 2 3
                %1 = Pad(%0, [0, 0, 1, 0, 0, 0, 1, 0]:i64, 0.0)  # 5
                %2 = Slice(%1, [0]:i64, [4]:i64, [1]:i64)  # 6
                %3 = Softmax(%2) {axis=1}  # 7
                %4 = ReduceMax(%3, [3]:i64)  # 8
                y:f32[2,4,10,8] = Sub(%3, %4)  # 9 10
            "#]],
        );
    }

    /// `what` is between a transpose and its inverse.
    fn between_transposes(what: &str) -> String {
        format!(
            "graph g(x:f32[2,3,8,8]) -> (y)
%0:f32[2,8,8,3] = Transpose(x) {{perm=[0, 2, 3, 1]}}
{what}
y:f32[2,2,8,8] = Transpose(%9) {{perm=[0, 3, 1, 2]}}"
        )
    }

    #[test]
    fn a_dense_layer_between_channels_first_is_a_convolution() {
        check(
            &between_transposes(
                "%1:f32[2,8,8,2] = MatMul(%0, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
%9:f32[2,8,8,2] = Tanh(%1)",
            ),
            expect![[r#"
                graph g(x:f32[2,3,8,8]) -> (y)
                %0 = Conv(x, [[[[1.0]], [[3.0]], [[5.0]]], [[[2.0]], [[4.0]], [[6.0]]]])  # 3 2
                y:f32[2,2,8,8] = Tanh(%0)  # 4 5
            "#]],
        );
    }

    #[test]
    fn dense_layers_in_a_row_are_convolutions() {
        check(
            &between_transposes(
                "%1:f32[2,8,8,2] = MatMul(%0, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
%2:f32[2,8,8,2] = Tanh(%1)
%9:f32[2,8,8,2] = MatMul(%2, [[1.0, 2.0], [3.0, 4.0]])",
            ),
            expect![[r#"
                graph g(x:f32[2,3,8,8]) -> (y)
                %0 = Conv(x, [[[[1.0]], [[3.0]], [[5.0]]], [[[2.0]], [[4.0]], [[6.0]]]])  # 3 2
                %1 = Tanh(%0)  # 4
                y:f32[2,2,8,8] = Conv(%1, [[[[1.0]], [[3.0]]], [[[2.0]], [[4.0]]]])  # 5 6
            "#]],
        );
    }

    #[test]
    fn a_dense_layer_with_channels_last_on_one_side_stays() {
        check(
            "graph g(x:f32[2,3,8,8]) -> (y)
%0:f32[2,8,8,3] = Transpose(x) {perm=[0, 2, 3, 1]}
%1:f32[2,8,8,2] = MatMul(%0, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
y:f32[2,8,8,2] = Tanh(%1)",
            expect![[r#"
                graph g(x:f32[2,3,8,8]) -> (y)
                %0 = Transpose(x) {perm=[0, 2, 3, 1]}  # 2
                %1 = MatMul(%0, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])  # 3
                y:f32[2,8,8,2] = Tanh(%1)  # 4
            "#]],
        );
    }

    #[test]
    fn several_readers_with_channels_last_share_one_transpose() {
        check(
            "graph g(x:f32[2,3,8,8]) -> (y, q, k)
%0:f32[2,8,8,3] = Transpose(x) {perm=[0, 2, 3, 1]}
%1:f32[2,8,8,3] = Tanh(%0)
%2:f32[2,8,8,2] = MatMul(%1, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
y:f32[2,2,8,8] = Transpose(%2) {perm=[0, 3, 1, 2]}
%3:f32[2,8,8,2] = MatMul(%1, [[2.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
q:f32[2,64,2] = Reshape(%3, [2, 64, 2]:i64)
%4:f32[2,8,8,2] = MatMul(%1, [[3.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
k:f32[2,64,2] = Reshape(%4, [2, 64, 2]:i64)",
            expect![[r#"
                graph g(x:f32[2,3,8,8]) -> (y, q, k)
                %0 = Tanh(x)  # 3 2
                %1 = Transpose(%0) {perm=[0, 2, 3, 1]}  # 3 2
                y:f32[2,2,8,8] = Conv(%0, [[[[1.0]], [[3.0]], [[5.0]]], [[[2.0]], [[4.0]], [[6.0]]]])  # 4 5
                %2 = MatMul(%1, [[2.0, 2.0], [3.0, 4.0], [5.0, 6.0]])  # 6
                q:f32[2,64,2] = Reshape(%2, [2, 64, 2]:i64)  # 7
                %3 = MatMul(%1, [[3.0, 2.0], [3.0, 4.0], [5.0, 6.0]])  # 8
                k:f32[2,64,2] = Reshape(%3, [2, 64, 2]:i64)  # 9
            "#]],
        );
    }

    #[test]
    fn products_of_columns_are_products_of_rows() {
        check(
            "graph g(x:f32[5,2]) -> (y)
%0:f32[2,5] = Transpose(x) {perm=[1, 0]}
%1:f32[3,5] = MatMul([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], %0)
%2:f32[3,5] = Add(%1, [[1.0], [2.0], [3.0]])
%3:f32[3,5] = Tanh(%2)
%4:f32[2,5] = MatMul([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], %3)
y:f32[5,2] = Transpose(%4) {perm=[1, 0]}",
            expect![[r#"
                graph g(x:f32[5,2]) -> (y)
                %0 = MatMul(x, [[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]])  # 3 2
                %1 = Add(%0, [[1.0, 2.0, 3.0]])  # 4
                %2 = Tanh(%1)  # 5
                y:f32[5,2] = MatMul(%2, [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]])  # 6 7
            "#]],
        );
    }

    #[test]
    fn a_product_with_weights_that_are_computed_stays() {
        check(
            "graph g(x:f32[2,3,8,8], w:f32[3,2]) -> (y)
%0:f32[2,8,8,3] = Transpose(x) {perm=[0, 2, 3, 1]}
%1:f32[2,8,8,2] = MatMul(%0, w)
y:f32[2,2,8,8] = Transpose(%1) {perm=[0, 3, 1, 2]}",
            expect![[r#"
                graph g(x:f32[2,3,8,8], w:f32[3,2]) -> (y)
                %0 = Transpose(x) {perm=[0, 2, 3, 1]}  # 2
                %1 = MatMul(%0, w)  # 3
                y:f32[2,2,8,8] = Transpose(%1) {perm=[0, 3, 1, 2]}  # 4
            "#]],
        );
    }

    #[test]
    fn an_array_with_unit_axes_is_made_in_the_order() {
        check(
            "graph g(x:f32[2,4,8,8], s:f32[2,4], b:f32[4]) -> (y)
%0:f32[2,8,8,4] = Transpose(x) {perm=[0, 2, 3, 1]}
%1:f32[2,1,1,4] = Reshape(s, [2, 1, 1, 4]:i64)
%2:f32[2,8,8,4] = Mul(%0, %1)
%3:f32[2,8,8,4] = Add(%2, b)
%4:f32[2,8,8,4] = Tanh(%3)
y:f32[2,4,8,8] = Transpose(%4) {perm=[0, 3, 1, 2]}",
            expect![[r#"
                graph g(x:f32[2,4,8,8], s:f32[2,4], b:f32[4]) -> (y)
                %0 = Reshape(s, [2, 4, 1, 1]:i64)  # 3 4
                %1 = Mul(x, %0)  # 4 2
                %2 = Unsqueeze(b, [1, 2]:i64)  # 5
                %3 = Add(%1, %2)  # 5
                y:f32[2,4,8,8] = Tanh(%3)  # 6 7
            "#]],
        );
    }

    #[test]
    fn a_value_that_is_read_in_both_orders_is_transposed_once() {
        check(
            "graph g(x:f32[2,4,8,8], w:f32[4,4]) -> (y, z)
%0:f32[2,8,8,4] = Transpose(x) {perm=[0, 2, 3, 1]}
%1:f32[2,8,8,4] = Relu(%0)
z:f32[2,8,8,4] = MatMul(%1, w)
y:f32[2,4,8,8] = Transpose(%1) {perm=[0, 3, 1, 2]}",
            expect![[r#"
                graph g(x:f32[2,4,8,8], w:f32[4,4]) -> (y, z)
                y:f32[2,4,8,8] = Relu(x)  # 3 2 5
                %0 = Transpose(y) {perm=[0, 2, 3, 1]}  # 3 2
                z:f32[2,8,8,4] = MatMul(%0, w)  # 4
            "#]],
        );
    }

    #[test]
    fn orders_that_are_not_inverse_leave_one() {
        check(
            "graph g(x:f32[2,4,8,8]) -> (y)
%0:f32[2,8,8,4] = Transpose(x) {perm=[0, 2, 3, 1]}
%1:f32[2,8,8,4] = Relu(%0)
y:f32[2,8,4,8] = Transpose(%1) {perm=[0, 1, 3, 2]}",
            expect![[r#"
                graph g(x:f32[2,4,8,8]) -> (y)
                %0 = Relu(x)  # 3 2
                y:f32[2,8,4,8] = Transpose(%0) {perm=[0, 2, 1, 3]}  # 4 2 3
            "#]],
        );
    }

    #[test]
    fn a_mean_that_would_transpose_the_rest_stays() {
        check(
            "graph g(x:f32[2,4,8,8]) -> (y)
%0:f32[2,8,8,4] = Transpose(x) {perm=[0, 2, 3, 1]}
%1:f32[2,8,8,4] = Relu(%0)
y:f32[2,8,4] = ReduceMean(%1, [1]:i64) {keepdims=0}",
            expect![[r#"
                graph g(x:f32[2,4,8,8]) -> (y)
                %0 = Transpose(x) {perm=[0, 2, 3, 1]}  # 2
                %1 = Relu(%0)  # 3
                y:f32[2,8,4] = ReduceMean(%1, [1]:i64) {keepdims=0}  # 4
            "#]],
        );
    }

    #[test]
    fn a_reshape_that_moves_the_channels_of_one_place_is_a_transpose() {
        check(
            "graph g(x:f32[1,4,1,1], w:f32[4,4,1,1], z:f32[1,4,8,8]) -> (y)
%0:f32[1,4,1,1] = Conv(x, w)
%1:f32[1,1,1,4] = Reshape(%0, [1, 1, 1, 4]:i64)
%2:f32[1,1,1,4] = Add(%1, [1.0, 2.0, 3.0, 4.0]:f32)
%3:f32[1,1,1,4] = Relu(%2)
%4:f32[1,4,1,1] = Reshape(%3, [1, 4, 1, 1]:i64)
%5:f32[1,4,1,1] = Conv(%4, w)
%6:f32[1,8,8,4] = Transpose(z) {perm=[0, 2, 3, 1]}
%7:f32[1,1,1,4] = Reshape(%5, [1, 1, 1, 4]:i64)
%8:f32[1,8,8,4] = Mul(%6, %7)
y:f32[1,4,8,8] = Transpose(%8) {perm=[0, 3, 1, 2]}",
            expect![[r#"
                graph g(x:f32[1,4,1,1], w:f32[4,4,1,1], z:f32[1,4,8,8]) -> (y)
                %0 = Conv(x, w)  # 2
                %1 = Add(%0, [[[1.0]], [[2.0]], [[3.0]], [[4.0]]])  # 4 3
                %2 = Relu(%1)  # 5 6
                %3 = Conv(%2, w)  # 7
                y:f32[1,4,8,8] = Mul(z, %3)  # 10 8 9 11
            "#]],
        );
    }

    /// An image between two convolutions, multiplied by an array of a shape.
    fn scaled(shape: &str) -> String {
        format!(
            "graph g(x:f32[1,4,8,8], w:f32[4,4,1,1], z:f32[{shape}]) -> (y)
%0:f32[1,4,8,8] = Conv(x, w)
%1:f32[1,8,8,4] = Transpose(%0) {{perm=[0, 2, 3, 1]}}
%2:f32[1,8,8,4] = Mul(%1, z)
%3:f32[1,4,8,8] = Transpose(%2) {{perm=[0, 3, 1, 2]}}
y:f32[1,4,8,8] = Conv(%3, w)"
        )
    }

    #[test]
    fn a_row_for_the_channels_gets_the_axes_of_an_image() {
        check(
            &scaled("1,4"),
            expect![[r#"
                graph g(x:f32[1,4,8,8], w:f32[4,4,1,1], z:f32[1,4]) -> (y)
                %0 = Conv(x, w)  # 2
                %1 = Unsqueeze(z, [2, 3]:i64)  # 4
                %2 = Mul(%0, %1)  # 4 3 5
                y:f32[1,4,8,8] = Conv(%2, w)  # 6
            "#]],
        );
    }

    #[test]
    fn a_row_of_two_axes_keeps_their_order() {
        check(
            &scaled("8,4"),
            expect![[r#"
                graph g(x:f32[1,4,8,8], w:f32[4,4,1,1], z:f32[8,4]) -> (y)
                %0 = Conv(x, w)  # 2
                %1 = Transpose(%0) {perm=[0, 2, 3, 1]}  # 3
                %2 = Mul(%1, z)  # 4
                %3 = Transpose(%2) {perm=[0, 3, 1, 2]}  # 5
                y:f32[1,4,8,8] = Conv(%3, w)  # 6
            "#]],
        );
    }
}
