//! `align-elements`: copies the elements of an array that the body of a `Scan` convolves on a GPU.
//!
//! ONNX Runtime passes a part of the array to the body without a copy. cuDNN refuses a part that does not begin at a
//! multiple of 16 bytes.

use loops::Counted;
use onnx::edit::rename;
use onnx::operator::properties::RESHAPES;
use onnx::{Node, Op, OpType, Outcome, Patch, Type, ValueId, known_shape};
use rustc_hash::{FxHashMap, FxHashSet};

use super::endings::body_node;

/// The number of bits at a multiple of which an operand of cuDNN begins.
const ALIGNMENT: i64 = 128;

pub fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    edit.target().device_name()?;
    let index = edit.root();
    if edit.node(index).op != OpType::Scan {
        return None;
    }
    let mut counted = Counted::at(edit, index)?;
    let (mut renamed, mut nodes) = (FxHashMap::default(), Vec::new());
    for array in &counted.arrays {
        let ty = edit.ty(array.element)?.clone();
        if is_aligned(&ty) || !is_convolved(&counted.nodes, array.element) {
            continue;
        }
        let copy = edit.body_input(ty);
        nodes.extend(body_node(edit, Op::new(OpType::Max, &[array.element]), copy));
        renamed.insert(array.element, copy);
    }
    if renamed.is_empty() {
        return None;
    }
    counted.nodes.iter_mut().for_each(|node| rename(node, &renamed));
    nodes.append(&mut counted.nodes);
    counted.nodes = nodes;
    let replacement = counted.replacement(edit, &[]);
    edit.done(&[], replacement)
}

/// True if each element of an array of such elements is aligned.
fn is_aligned(ty: &Type) -> bool {
    let bits =
        known_shape(&ty.shape).map(|shape| shape.iter().product::<i64>() * ty.dtype.bits() as i64);
    bits.is_some_and(|bits| bits % ALIGNMENT == 0)
}

/// True if a convolution reads a value, or the value in another shape.
fn is_convolved(nodes: &[Node], value: ValueId) -> bool {
    let mut views = FxHashSet::from_iter([value]);
    nodes.iter().any(|node| {
        let reads = node.inputs.iter().flatten().any(|input| views.contains(input));
        if reads && (node.op.is(RESHAPES) || node.op == OpType::Identity) {
            views.extend(&node.outputs);
        }
        reads && node.op.is_one_of(&[OpType::Conv, OpType::ConvTranspose])
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use testing::check_for;

    fn check(size: i64, expected: Expect) {
        let text = format!(
            "graph g(h:f32[1,2,{size}], xs:f32[4,1,{size},2], w:f32[2,2,1]) -> (y)
y:f32[1,2,{size}] = Scan(h, xs) {{body={{
  graph b(v:f32[1,2,{size}], e:f32[1,{size},2]) -> (o)
  %0:f32[1,2,{size}] = Reshape(e, [1, 2, {size}]:i64)
  %1:f32[1,2,{size}] = Conv(%0, w)
  o:f32[1,2,{size}] = Add(v, %1)
}}, num_scan_inputs=1}}"
        );
        check_for("onnxruntime-cuda", super::run, &text, expected);
    }

    #[test]
    fn an_element_is_copied_for_a_convolution() {
        check(
            5,
            expect![[r#"
            graph g(h:f32[1,2,5], xs:f32[4,1,5,2], w:f32[2,2,1]) -> (y)
            y:f32[1,2,5] = Scan(h, xs) {body={  # 2
              graph b(v:f32[1,2,5], e:f32[1,5,2]) -> (o)
              %0 = Max(e)  # 2
              %1 = Reshape(%0, [1, 2, 5]:i64)  # 4
              %2 = Conv(%1, w)  # 5
              o:f32[1,2,5] = Add(v, %2)  # 6
            }, num_scan_inputs=1}
        "#]],
        );
    }

    #[test]
    fn an_aligned_element_is_not_copied() {
        check(
            6,
            expect![[r#"
            graph g(h:f32[1,2,6], xs:f32[4,1,6,2], w:f32[2,2,1]) -> (y)
            y:f32[1,2,6] = Scan(h, xs) {body={  # 2
              graph b(v:f32[1,2,6], e:f32[1,6,2]) -> (o)
              %0 = Reshape(e, [1, 2, 6]:i64)  # 4
              %1 = Conv(%0, w)  # 5
              o:f32[1,2,6] = Add(v, %1)  # 6
            }, num_scan_inputs=1}
        "#]],
        );
    }
}
