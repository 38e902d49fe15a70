//! Scales integers by a constant array, for runtimes that take one constant for a mask.
//!
//! tract follows masks backwards through a model, and combines those of all readers of a value. The masks of a hash grow
//! until the model does not load, and a state with a mask is not that of the next iteration.

use onnx::infer::axis_from_front;
use onnx::kernels::Limit;
use onnx::{DType, Dim, Op, OpType, Outcome, Patch, Tensor, declined};

/// The most elements of a constant array.
const LONGEST: i64 = 1 << 16;

/// Repeats the constant along the last axis. If this axis has one element, or there is none, a second one is dropped.
pub(super) fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    if !edit.target().has_limit(Limit::ConstantFactor) {
        return None;
    }
    let (at, factor) = edit.constant_factor(index)?;
    let other = edit.input(index, 1 - at)?;
    let ty = edit.ty(edit.node(index).outputs[0])?.clone();
    // The sizes of arrays are computed with integers of 64 bits.
    if ty.dtype == DType::I64 && edit.made_by(other, OpType::Cast).is_none() {
        return None;
    }
    let last = ty.shape.last().map_or(Some(1), Dim::known)?;
    if last > LONGEST {
        return declined("the last axis is long");
    }
    let factors =
        Tensor::of_ints(ty.dtype, vec![last.max(2)], &vec![factor; last.max(2) as usize])?;
    let mut operands = edit.inputs(index);
    operands[at] = Some(edit.constant(factors, &[]));
    let op = Op::of(edit.node(index), operands);
    match last {
        0 => None,
        1 => {
            let both = edit.insert(op);
            let first = match axis_from_front(-1, ty.rank()) {
                Some(_) => edit.integers(&[0])?,
                None => edit.integer(0)?,
            };
            edit.done(&[], Op::new(OpType::Gather, &[both, first]).attr("axis", -1))
        }
        _ => edit.done(&[], op),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::check_for;

    #[test]
    fn integers_are_scaled_by_several_constants() {
        check_for(
            "tract",
            crate::forms::run,
            "graph g(x:u32[3], i:i32[], k:i32[2,1], n:i64[2], f:f32[3]) -> (y, j, l, m, e)
y:u32[3] = Mul(x, 5:u32)
j:i32[] = Div(i, 10:i32)
l:i32[2,1] = Mul([3]:i32, k)
m:i64[2] = Mul(n, 4:i64)
e:f32[3] = Mul(f, 2:f32)",
            expect![[r#"
                graph g(x:u32[3], i:i32[], k:i32[2,1], n:i64[2], f:f32[3]) -> (y, j, l, m, e)
                y:u32[3] = Mul(x, [5, 5, 5]:u32)  # 2
                %0 = Div(i, [10, 10]:i32)  # 3
                j:i32[] = Gather(%0, 0:i64) {axis=-1}  # 3
                %1 = Mul([3, 3]:i32, k)  # 4
                l:i32[2,1] = Gather(%1, [0]:i64) {axis=-1}  # 4
                m:i64[2] = Mul(n, 4:i64)  # 5
                e:f32[3] = Mul(f, 2.0)  # 6
            "#]],
        );
    }
}
