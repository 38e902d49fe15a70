//! `read-arrays`: makes the body of a scan read the arrays that the scan runs over.
//!
//! A scan that only counts runs over an array that its body does not read. ONNX Runtime counts the entries of the
//! array, but other runtimes drop it, and then run one iteration or reject the model. So the scan runs over one of
//! the constants that its body reads, repeated for each iteration. That costs no node and no time.

use onnx::edit::LARGE_BYTES;
use onnx::operator::properties::ARITHMETIC;
use onnx::{Dim, OpType, Outcome, Patch, Tensor, Type, ValueId, declined};

use super::{Array, Counted};

pub fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    if edit.node(index).op != OpType::Scan {
        return None;
    }
    let mut counted = Counted::at(edit, index)?;
    let is_read = |array: &Array| counted.reads(array.element);
    let read: Vec<Array> = counted.arrays.iter().copied().filter(is_read).collect();
    if read.len() == counted.arrays.len() {
        return None;
    }
    if read.is_empty() {
        let Some((node, operand, whole)) = constant(edit, &counted) else {
            return declined("no iteration reads a small constant");
        };
        let shape: Vec<Dim> = whole.shape[1..].iter().map(|&size| Dim::Known(size)).collect();
        let element = edit.body_input(Type::new(whole.dtype, shape));
        counted.nodes[node].inputs[operand] = Some(element);
        counted.arrays = vec![Array { whole: edit.constant(whole, &[]), element }];
    } else {
        counted.arrays = read;
    }
    let replacement = counted.replacement(edit, &[]);
    edit.done(&[], replacement)
}

/// Returns a constant of the body, repeated for each iteration, with the node and the operand that read it.
fn constant(edit: &Patch<'_, '_>, counted: &Counted) -> Option<(usize, usize, Tensor)> {
    let iterations = counted.iterations.known().filter(|&iterations| iterations > 0)?;
    let repeated = |value: ValueId| {
        let tensor = edit.tensor(value)?;
        let is_small =
            usize::try_from(iterations).ok()?.checked_mul(tensor.byte_len())? <= LARGE_BYTES;
        let shape = [&[iterations][..], &tensor.shape].concat();
        is_small.then(|| tensor.broadcast(&shape))?
    };
    let computes = counted.nodes.iter().enumerate().filter(|(_, node)| node.op.is(ARITHMETIC));
    computes.into_iter().find_map(|(node, found)| {
        let mut operands = found.inputs.iter().enumerate();
        operands.find_map(|(operand, &value)| Some((node, operand, repeated(value?)?)))
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check, each};

    #[test]
    fn a_scan_that_counts_runs_over_a_constant_of_its_body() {
        check(
            each(super::run),
            "graph g(x:f32[3]) -> (y)
y:f32[3] = Scan(x, [0, 0, 0]:u8) {body={
  graph b(v:f32[3], i:u8[]) -> (w)
  %0:f32[3] = Sin(v)
  w:f32[3] = Add(%0, 1.5)
}, num_scan_inputs=1}",
            expect![[r#"
                graph g(x:f32[3]) -> (y)
                y:f32[3] = Scan(x, [1.5, 1.5, 1.5]) {body={  # 2
                  graph b(v:f32[3], %0:f32[]) -> (w)
                  %1 = Sin(v)  # 4
                  w:f32[3] = Add(%1, %0)  # 5
                }, num_scan_inputs=1}
            "#]],
        );
    }

    #[test]
    fn an_array_that_no_iteration_reads_is_dropped() {
        check(
            each(super::run),
            "graph g(x:f32[3], xs:f32[4,3], zs:f32[4,2]) -> (y)
y:f32[3] = Scan(x, xs, zs) {body={
  graph b(v:f32[3], e:f32[3], i:f32[2]) -> (w)
  w:f32[3] = Add(v, e)
}, num_scan_inputs=2, scan_input_directions=[1, 1]}",
            expect![[r#"
                graph g(x:f32[3], xs:f32[4,3], zs:f32[4,2]) -> (y)
                y:f32[3] = Scan(x, xs) {body={  # 2
                  graph b(v:f32[3], e:f32[3]) -> (w)
                  w:f32[3] = Add(v, e)  # 4
                }, num_scan_inputs=1, scan_input_directions=[1]}
            "#]],
        );
    }

    #[test]
    fn a_scan_whose_body_reads_no_constant_or_its_array_stays() {
        check(
            each(super::run),
            "graph g(x:f32[3], xs:f32[4,3]) -> (y, z)
y:f32[3] = Scan(x, [0, 0, 0]:u8) {body={
  graph b(v:f32[3], i:u8[]) -> (w)
  w:f32[3] = Sin(v)
}, num_scan_inputs=1}
z:f32[3] = Scan(x, xs) {body={
  graph b2(v2:f32[3], i2:f32[3]) -> (w2)
  %0:f32[3] = Add(v2, 1.5)
  w2:f32[3] = Add(%0, i2)
}, num_scan_inputs=1}",
            expect![[r#"
                graph g(x:f32[3], xs:f32[4,3]) -> (y, z)
                y:f32[3] = Scan(x, [0, 0, 0]:u8) {body={  # 2
                  graph b(v:f32[3], i:u8[]) -> (w)
                  w:f32[3] = Sin(v)  # 4
                }, num_scan_inputs=1}
                z:f32[3] = Scan(x, xs) {body={  # 6
                  graph b2(v2:f32[3], i2:f32[3]) -> (w2)
                  %0 = Add(v2, 1.5)  # 8
                  w2:f32[3] = Add(%0, i2)  # 9
                }, num_scan_inputs=1}
            "#]],
        );
    }
}
