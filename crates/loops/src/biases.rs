//! Adds the biases of products to the inputs of the steps, before the loop.
//!
//! In `h·U + x·W + b`, the sum `x·W + b` is computed for all steps at once. What stays in a step is a product and one sum,
//! which ONNX Runtime computes as one node together with the activation that follows.

use onnx::edit::for_each_read;
use onnx::{Node, OpType, Patch, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::batches::Batches;

/// A bias of at most this magnitude does not change which sums overflow: it is far below the rounding of the largest
/// number.
const MAX_BIAS: f64 = (1u64 << 60) as f64;

/// Moves each bias that is added to a product and to an input of the step. The sum has another order, so its rounding
/// may differ by as much as that of the product.
pub(super) fn move_out(
    edit: &mut Patch<'_, '_>,
    batches: &mut Batches,
    kept: &mut Vec<Node>,
    results: &FxHashSet<ValueId>,
) {
    let mut reads: FxHashMap<ValueId, usize> = results.iter().map(|&id| (id, 1)).collect();
    for node in kept.iter() {
        for_each_read(node, &mut |id| *reads.entry(id).or_default() += 1);
    }
    let mut dropped = FxHashSet::default();
    for place in 0..kept.len() {
        let Some(sum) = find(edit, batches, kept, place) else { continue };
        let inner = kept[sum.inner].outputs[0];
        if dropped.contains(&sum.inner) || reads.get(&inner) != Some(&1) {
            continue;
        }
        let Some(ty) = edit.ty(sum.element).cloned() else { continue };
        let element = edit.body_input(ty);
        let mut outside = kept[place].clone();
        outside.inputs = [Some(sum.element), Some(sum.bias)].into_iter().collect();
        outside.outputs = [element].into_iter().collect();
        if batches.take(edit, &outside).is_none() {
            continue;
        }
        let outputs = kept[place].outputs.clone();
        let mut inside = kept[sum.inner].clone();
        inside.inputs = [Some(sum.product), Some(element)].into_iter().collect();
        inside.outputs = outputs;
        kept[place] = inside;
        dropped.insert(sum.inner);
    }
    let mut place = 0;
    kept.retain(|_| {
        place += 1;
        !dropped.contains(&(place - 1))
    });
}

/// The sum of a product, an input of the step and a bias.
struct Sum {
    product: ValueId,
    element: ValueId,
    bias: ValueId,
    /// The index of the sum of two of them.
    inner: usize,
}

fn find(edit: &Patch<'_, '_>, batches: &Batches, kept: &[Node], place: usize) -> Option<Sum> {
    let maker = |value: ValueId| kept[..place].iter().rposition(|node| node.outputs[..] == [value]);
    let operands = |node: &Node| match node.inputs[..] {
        [Some(a), Some(b)] if node.op == OpType::Add => Some([(a, b), (b, a)]),
        _ => None,
    };
    let ty = edit.ty(*kept[place].outputs.first()?)?;
    let is_element = |value: ValueId| batches.of.contains_key(&value) && edit.ty(value) == Some(ty);
    let is_bias =
        |value: ValueId| edit.tensor(value).is_some_and(|bias| bias.max_magnitude() <= MAX_BIAS);
    let is_product =
        |value: ValueId| maker(value).is_some_and(|place| kept[place].op == OpType::MatMul);
    let pairs = operands(&kept[place])?.into_iter().filter_map(|(sum, other)| {
        let inner = maker(sum).filter(|_| edit.ty(sum) == Some(ty))?;
        Some((inner, other, operands(&kept[inner])?))
    });
    pairs.into_iter().find_map(|(inner, other, operands)| {
        operands.into_iter().find_map(|(product, own)| {
            let (element, bias) = match () {
                () if is_element(other) && is_bias(own) => (other, own),
                () if is_element(own) && is_bias(other) => (own, other),
                () => return None,
            };
            is_product(product).then_some(Sum { product, element, bias, inner })
        })
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use testing::{check_lean, each};

    #[track_caller]
    fn check(nodes: &str, expect: Expect) {
        let text = format!(
            "graph g(xs:f32[5,2,4], h:f32[2,4], u:f32[4,4]) -> (y)
y:f32[2,4] = Scan(h, xs) {{body={{
  graph b(c:f32[2,4], x:f32[2,4]) -> (n)
  p:f32[2,4] = MatMul(c, u)
{nodes}
  n:f32[2,4] = Tanh(s)
}}, num_scan_inputs=1}}"
        );
        check_lean(each(crate::steps::run), &text, expect);
    }

    #[test]
    fn a_bias_is_added_to_the_inputs_of_all_steps() {
        check(
            "  a:f32[2,4] = Add(x, p)
  s:f32[2,4] = Add(a, [1.0, 2.0, 3.0, 4.0])",
            expect![[r#"
                graph g(xs:f32[5,2,4], h:f32[2,4], u:f32[4,4]) -> (y)
                %0 = Add(xs, [1.0, 2.0, 3.0, 4.0])  # 6
                y:f32[2,4] = Scan(h, %0) {body={  # 2
                  graph b(c:f32[2,4], %1:f32[2,4]) -> (n)
                  p = MatMul(c, u)  # 4
                  s = Add(p, %1)  # 5
                  n:f32[2,4] = Tanh(s)  # 7
                }, num_scan_inputs=1}
            "#]],
        );
    }

    #[test]
    fn a_bias_of_the_product_is_added_to_the_inputs_of_all_steps() {
        check(
            "  a:f32[2,4] = Add(p, [1.0, 2.0, 3.0, 4.0])
  s:f32[2,4] = Add(x, a)",
            expect![[r#"
                graph g(xs:f32[5,2,4], h:f32[2,4], u:f32[4,4]) -> (y)
                %0 = Add(xs, [1.0, 2.0, 3.0, 4.0])  # 6
                y:f32[2,4] = Scan(h, %0) {body={  # 2
                  graph b(c:f32[2,4], %1:f32[2,4]) -> (n)
                  p = MatMul(c, u)  # 4
                  s = Add(p, %1)  # 5
                  n:f32[2,4] = Tanh(s)  # 7
                }, num_scan_inputs=1}
            "#]],
        );
    }

    #[test]
    fn a_large_bias_and_a_sum_that_is_read_twice_stay() {
        check(
            "  a:f32[2,4] = Add(x, p)
  s:f32[2,4] = Add(a, [1e30, 2.0, 3.0, 4.0])",
            expect![[r#"
                graph g(xs:f32[5,2,4], h:f32[2,4], u:f32[4,4]) -> (y)
                y:f32[2,4] = Scan(h, xs) {body={  # 2
                  graph b(c:f32[2,4], x:f32[2,4]) -> (n)
                  p = MatMul(c, u)  # 4
                  a = Add(x, p)  # 5
                  s = Add(a, [1e30, 2.0, 3.0, 4.0])  # 6
                  n:f32[2,4] = Tanh(s)  # 7
                }, num_scan_inputs=1}
            "#]],
        );
        check(
            "  a:f32[2,4] = Add(x, p)
  t:f32[2,4] = Add(a, [1.0, 2.0, 3.0, 4.0])
  s:f32[2,4] = Mul(a, t)",
            expect![[r#"
                graph g(xs:f32[5,2,4], h:f32[2,4], u:f32[4,4]) -> (y)
                y:f32[2,4] = Scan(h, xs) {body={  # 2
                  graph b(c:f32[2,4], x:f32[2,4]) -> (n)
                  p = MatMul(c, u)  # 4
                  a = Add(x, p)  # 5
                  t = Add(a, [1.0, 2.0, 3.0, 4.0])  # 6
                  s = Mul(a, t)  # 7
                  n:f32[2,4] = Tanh(s)  # 8
                }, num_scan_inputs=1}
            "#]],
        );
    }

    #[test]
    fn a_bias_of_a_state_without_a_product_stays() {
        check(
            "  a:f32[2,4] = Add(x, c)
  t:f32[2,4] = Add(a, [1.0, 2.0, 3.0, 4.0])
  s:f32[2,4] = Mul(p, t)",
            expect![[r#"
                graph g(xs:f32[5,2,4], h:f32[2,4], u:f32[4,4]) -> (y)
                y:f32[2,4] = Scan(h, xs) {body={  # 2
                  graph b(c:f32[2,4], x:f32[2,4]) -> (n)
                  p = MatMul(c, u)  # 4
                  a = Add(x, c)  # 5
                  t = Add(a, [1.0, 2.0, 3.0, 4.0])  # 6
                  s = Mul(p, t)  # 7
                  n:f32[2,4] = Tanh(s)  # 8
                }, num_scan_inputs=1}
            "#]],
        );
    }
}
