//! `batch-steps`: computes everything that depends only on the inputs of a step once, for all steps of a scan.
//!
//! A product with a weight becomes one product with more rows, and an activation runs once over all elements. ONNX
//! Runtime spends about as much time on a small node as on a product of small matrices, so each node that leaves the
//! body saves time in every step.

use algebra::rewrite::require;
use onnx::edit::{for_each_read, rename};
use onnx::{OpType, Outcome, Patch, Tensor, ValueId, declined};
use rustc_hash::{FxHashMap, FxHashSet};

use super::batches::Batches;
use super::{Array, Counted, biases};

/// Larger constants are not inspected.
const MAX_CONSTANT: usize = 1 << 16;

pub fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    require(edit.node(index).op == OpType::Scan)?;
    let Some(mut scan) = Counted::at(edit, index) else {
        return declined("the inputs run over other axes, or in both directions");
    };
    let mut batches = Batches::beside(&scan);
    batches.inside.extend(scan.carries.iter().map(|carry| carry.before));
    batches.lifted = constants(edit, &scan);
    batches.of.retain(|element, _| !batches.lifted.contains_key(element));
    let results: FxHashSet<ValueId> = scan.outputs().collect();
    let mut kept = Vec::new();
    for node in std::mem::take(&mut scan.nodes) {
        let is_result = node.outputs.iter().any(|output| results.contains(output));
        if is_result || batches.take(edit, &node).is_none() {
            batches.inside.extend(&node.outputs);
            kept.push(node);
        }
    }
    biases::move_out(edit, &mut batches, &mut kept, &results);
    let Batches { of, lifted, too_large, .. } = batches;
    let mut renamed: FxHashMap<ValueId, ValueId> = lifted;
    let mut is_moved = !renamed.is_empty();
    let mut read = Vec::new();
    for node in &kept {
        for_each_read(node, &mut |id| read.push(id));
    }
    let elements: Vec<ValueId> = scan.arrays.iter().map(|array| array.element).collect();
    for value in read {
        if let Some(&whole) = of.get(&value)
            && !elements.contains(&value)
            && !renamed.contains_key(&value)
        {
            let ty = edit.ty(value)?.clone();
            let element = edit.body_input(ty);
            renamed.insert(value, element);
            scan.arrays.push(Array { whole, element });
            is_moved = true;
        }
    }
    if !is_moved {
        let why = "all steps together would need much more memory than one step";
        return too_large.then(|| declined(why))?;
    }
    for node in &mut kept {
        rename(node, &renamed);
    }
    edit.note_same(renamed.iter().map(|(&from, &to)| (from, to)));
    scan.nodes = kept;
    let replacement = scan.replacement(edit, &[]);
    edit.done(&[], replacement)
}

/// Returns the entries that are the same number in every step, and these numbers.
fn constants(edit: &mut Patch<'_, '_>, scan: &Counted) -> FxHashMap<ValueId, ValueId> {
    let number = |&Array { whole, element }: &Array| {
        let tensor = edit.tensor(whole).filter(|tensor| tensor.len() <= MAX_CONSTANT)?;
        let numbers = tensor.ints()?;
        let shape = tensor.shape.get(1..)?.to_vec();
        let (first, count) = (*numbers.first()?, shape.iter().product::<i64>() as usize);
        let is_same = numbers.iter().all(|&number| number == first);
        let ty = edit.ty(element).filter(|ty| ty.dtype == tensor.dtype && is_same)?;
        Some((element, Tensor::of_ints(ty.dtype, shape, &vec![first; count])?))
    };
    let found: Vec<(ValueId, Tensor)> = scan.arrays.iter().filter_map(number).collect();
    found.into_iter().map(|(element, tensor)| (element, edit.constant(tensor, &[]))).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check, check_lean, each};

    #[test]
    fn a_product_of_the_input_is_computed_for_all_steps() {
        check_lean(
            each(super::run),
            "graph g(xs:f32[5,2,3], h:f32[2,4], w:f32[3,4], u:f32[4,4], b:f32[4]) -> (y, ys)
y:f32[2,4], ys:f32[5,2,4] = Scan(h, xs) {body={
  graph b(c:f32[2,4], x:f32[2,3]) -> (n, o)
  %0:f32[2,4] = MatMul(x, w)
  %1:f32[2,4] = Add(%0, b)
  %2:f32[2,4] = MatMul(c, u)
  %3:f32[2,4] = Add(%1, %2)
  n:f32[2,4] = Tanh(%3)
  o:f32[2,4] = Identity(n)
}, num_scan_inputs=1}",
            expect![[r#"
                graph g(xs:f32[5,2,3], h:f32[2,4], w:f32[3,4], u:f32[4,4], b:f32[4]) -> (y, ys)
                %0 = MatMul(xs, w)  # 4
                %1 = Add(%0, b)  # 5
                y:f32[2,4], ys:f32[5,2,4] = Scan(h, %1) {body={  # 2
                  graph b(c:f32[2,4], %2:f32[2,4]) -> (n, o)
                  %3 = MatMul(c, u)  # 6
                  %4 = Add(%2, %3)  # 7
                  n:f32[2,4] = Tanh(%4)  # 8
                  o:f32[2,4] = Identity(n)  # 9
                }, num_scan_inputs=1}
            "#]],
        );
    }

    #[test]
    fn ranks_that_differ_broadcast_as_before_and_axes_move() {
        check_lean(
            each(super::run),
            "graph g(xs:f32[5,3], ts:f32[5], h:f32[2,3], t:f32[7,3], is:i64[5,2]) -> (y)
y:f32[2,3] = Scan(h, xs, ts, is) {body={
  graph b(c:f32[2,3], x:f32[3], s:f32[], i:i64[2]) -> (n)
  %0:f32[3] = Mul(x, s)
  %1:f32[2,3] = Gather(t, i) {axis=0}
  %2:f32[2,3] = Add(%0, %1)
  %3:f32[2,1] = ReduceSum(%2, [-1]:i64) {keepdims=1}
  %4:f32[3,2] = Transpose(%2) {perm=[1, 0]}
  %5:f32[1,3,2] = Unsqueeze(%4, [0]:i64)
  %6:f32[2,3] = Reshape(%5, [2, 3]:i64)
  %7:f32[2,3] = Add(c, %6)
  n:f32[2,3] = Add(%7, %3)
}, num_scan_inputs=3, scan_input_directions=[1, 1, 1]}",
            expect![[r#"
                graph g(xs:f32[5,3], ts:f32[5], h:f32[2,3], t:f32[7,3], is:i64[5,2]) -> (y)
                %0 = Unsqueeze(ts, [1]:i64)  # 4
                %1 = Mul(xs, %0)  # 4
                %2 = Gather(t, is) {axis=0}  # 5
                %3 = Unsqueeze(%1, [1]:i64)  # 6
                %4 = Add(%3, %2)  # 6
                %5 = ReduceSum(%4, [2]:i64) {keepdims=1}  # 7
                %6 = Transpose(%4) {perm=[0, 2, 1]}  # 8
                %7 = Unsqueeze(%6, [1]:i64)  # 9
                %8 = Reshape(%7, [5, 2, 3]:i64)  # 10
                y:f32[2,3] = Scan(h, %8, %5) {body={  # 2
                  graph b(c:f32[2,3], %9:f32[2,3], %10:f32[2,1]) -> (n)
                  %11 = Add(c, %9)  # 11
                  n:f32[2,3] = Add(%11, %10)  # 12
                }, num_scan_inputs=2, scan_input_directions=[1, 1]}
            "#]],
        );
    }

    #[test]
    fn nodes_that_need_the_carry_or_are_results_or_large_stay() {
        check(
            each(super::run),
            "graph g(xs:f32[4096,2], h:f32[2], w:f32[2,64]) -> (y, ys, z)
y:f32[2], ys:f32[4096,2], z:f32[4096,64] = Scan(h, xs) {body={
  graph b(c:f32[2], x:f32[2]) -> (n, o, p)
  %0:f32[2] = Mul(c, x)
  n:f32[2] = Sin(%0)
  o:f32[2] = Neg(x)
  %1:f32[64] = MatMul(x, w)
  p:f32[64] = Mul(%1, 2.0)
}, num_scan_inputs=1}",
            expect![[r#"
                graph g(xs:f32[4096,2], h:f32[2], w:f32[2,64]) -> (y, ys, z)
                %0 = MatMul(xs, w)  # 7
                y:f32[2], ys:f32[4096,2], z:f32[4096,64] = Scan(h, xs, %0) {body={  # 2
                  graph b(c:f32[2], x:f32[2], %1:f32[64]) -> (n, o, p)
                  %2 = Mul(c, x)  # 4
                  n:f32[2] = Sin(%2)  # 5
                  o:f32[2] = Neg(x)  # 6
                  p:f32[64] = Mul(%1, 2.0)  # 8
                }, num_scan_inputs=2}
            "#]],
        );
    }

    #[test]
    fn any_number_of_steps_is_one_batch() {
        check_lean(
            each(super::run),
            "graph g(xs:f32[T,B,3], h:f32[B,4], w:f32[3,4]) -> (y)
y:f32[B,4] = Scan(h, xs) {body={
  graph b(c:f32[B,4], x:f32[B,3]) -> (n)
  %0:f32[B,4] = MatMul(x, w)
  n:f32[B,4] = Add(c, %0)
}, num_scan_inputs=1}",
            expect![[r#"
                graph g(xs:f32[T,B,3], h:f32[B,4], w:f32[3,4]) -> (y)
                %0 = MatMul(xs, w)  # 4
                y:f32[B,4] = Scan(h, %0) {body={  # 2
                  graph b(c:f32[B,4], %1:f32[B,4]) -> (n)
                  n:f32[B,4] = Add(c, %1)  # 5
                }, num_scan_inputs=1}
            "#]],
        );
    }

    #[test]
    fn a_number_that_is_the_same_in_every_step_is_a_constant() {
        check_lean(
            each(super::run),
            "graph g(xs:f32[3,2], h:f32[2]) -> (y)
y:f32[2] = Scan(h, xs, [true, true, true], [1, 1, 2]:i64) {body={
  graph b(c:f32[2], x:f32[2], f:bool[], k:i64[]) -> (n)
  %0:f32[2] = Where(f, x, c)
  %1:f32[] = Cast(k) {to=1}
  n:f32[2] = Mul(%0, %1)
}, num_scan_inputs=3}",
            expect![[r#"
                graph g(xs:f32[3,2], h:f32[2]) -> (y)
                %0 = Cast([1, 1, 2]:i64) {to=1}  # 5
                y:f32[2] = Scan(h, xs, %0) {body={  # 2
                  graph b(c:f32[2], x:f32[2], %1:f32[]) -> (n)
                  %2 = Where(true, x, c)  # 4
                  n:f32[2] = Mul(%2, %1)  # 6
                }, num_scan_inputs=2}
            "#]],
        );
    }
    #[test]
    fn a_constant_is_repeated_beside_what_the_steps_are_given() {
        check_lean(
            each(super::run),
            "graph g(xs:i64[3,1], h:f32[2,4]) -> (y)
y:f32[2,4] = Scan(h, xs) {body={
  graph b(c:f32[2,4], x:i64[1]) -> (n)
  %0:i64[2] = Concat([0]:i64, x) {axis=0}
  %1:f32[] = GatherND(c, %0)
  n:f32[2,4] = Add(c, %1)
}, num_scan_inputs=1}",
            expect![[r#"
                graph g(xs:i64[3,1], h:f32[2,4]) -> (y)
                %0 = Expand([0]:i64, [3, 1]:i64)  # 4
                %1 = Concat(%0, xs) {axis=1}  # 4
                y:f32[2,4] = Scan(h, %1) {body={  # 2
                  graph b(c:f32[2,4], %2:i64[2]) -> (n)
                  %3 = GatherND(c, %2)  # 5
                  n:f32[2,4] = Add(c, %3)  # 6
                }, num_scan_inputs=1}
            "#]],
        );
    }

    #[test]
    fn a_body_is_canonical_when_nodes_have_left_it() {
        check_lean(
            |edit| {
                each(super::run)(edit);
                if edit.is_changed() {
                    passes::canonicalize::changed(edit);
                }
            },
            "graph g(xs:f32[3,2], h:f32[2]) -> (y)
y:f32[2] = Scan(h, xs, [true, true, true]) {body={
  graph b(c:f32[2], x:f32[2], f:bool[]) -> (n)
  %0:f32[2] = Where(f, x, c)
  %1:f32[2] = Mul(%0, 1.0)
  n:f32[2] = Add(%1, c)
}, num_scan_inputs=2}",
            expect![[r#"
                graph g(xs:f32[3,2], h:f32[2]) -> (y)
                y:f32[2] = Scan(h, xs) {body={  # 2
                  graph b(c:f32[2], x:f32[2]) -> (n)
                  n:f32[2] = Add(x, c)  # 6 2 4 5
                }, num_scan_inputs=1}
            "#]],
        );
    }

    #[test]
    fn places_along_any_axis_are_looked_up_for_all_steps() {
        check_lean(
            each(super::run),
            "graph g(h:f32[2], t:f32[2,5], m:f32[5,4]) -> (y)
y:f32[2] = Scan(h, [0, 1, 3]:i64) {body={
  graph b(c:f32[2], i:i64[]) -> (n)
  %0:f32[2] = Gather(t, i) {axis=1}
  %1:f32[4] = Gather(m, i) {axis=0}
  %2:f32[1] = ReduceSum(%1, [0]:i64) {keepdims=1}
  %3:f32[2] = Mul(%0, %2)
  n:f32[2] = Add(c, %3)
}, num_scan_inputs=1}",
            expect![[r#"
                graph g(h:f32[2], t:f32[2,5], m:f32[5,4]) -> (y)
                %0 = Gather(t, [0, 1, 3]:i64) {axis=1}  # 4
                %1 = Transpose(%0) {perm=[1, 0]}  # 4
                %2 = Gather(m, [0, 1, 3]:i64) {axis=0}  # 5
                %3 = ReduceSum(%2, [1]:i64) {keepdims=1}  # 6
                %4 = Mul(%1, %3)  # 7
                y:f32[2] = Scan(h, %4) {body={  # 2
                  graph b(c:f32[2], %5:f32[2]) -> (n)
                  n:f32[2] = Add(c, %5)  # 8
                }, num_scan_inputs=1}
            "#]],
        );
    }
}
