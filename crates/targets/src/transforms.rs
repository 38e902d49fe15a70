//! Fourier transforms in the forms that a runtime takes.

use std::f64::consts::TAU;

use algebra::axis_map::transpose;
use onnx::infer::axis_from_front;
use onnx::kernels::Limit;
use onnx::{Attr, DType, Dim, Op, OpType, Outcome, Patch, Tensor, declined};

/// The most elements of a transform that is written as a product with a matrix.
const MAX_LENGTH: i64 = 512;

pub(super) fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let has_operator = edit.target().has(OpType::DFT, edit.opset());
    if !has_operator || edit.has_limit(index, Limit::DftAxis) {
        return product(edit);
    }
    if edit.has_limit(index, Limit::DftLaterAxis) {
        return rows(edit);
    }
    if edit.has_limit(index, Limit::OneSidedDft) {
        return half(edit);
    }
    None
}

/// Transforms all rows of an array along the second of three axes.
fn rows(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let x = edit.input(index, 0)?;
    let known = |value| {
        let shape = &edit.ty(value)?.shape;
        shape.iter().map(Dim::known).collect::<Option<Vec<i64>>>()
    };
    let sizes = known(x).zip(known(edit.node(index).outputs[0]));
    let Some((before, after)) = sizes else {
        return declined("the sizes of the array are not known");
    };
    let is_half = edit.has_limit(index, Limit::OneSidedDft);
    let place = axis_from_front(edit.tensor(edit.input(index, 2)?)?.ints()?[0], before.len())?;
    if place + 2 != before.len() || is_half && is_set(edit, "inverse") {
        return product(edit);
    }
    let shape = [&[before[..place].iter().product()], &before[place..]].concat();
    let shape = edit.integers(&shape)?;
    let mut op = Op::of(edit.node(index), edit.inputs(index));
    op.inputs[0] = Some(edit.insert(Op::new(OpType::Reshape, &[x, shape])));
    op.inputs[2] = Some(edit.constant(Tensor::of_ints(DType::I64, Vec::new(), &[1])?, &[]));
    if is_half {
        op.attrs.retain(|(name, _)| &**name != "onesided");
    }
    let mut made = edit.insert(op);
    if is_half {
        let [start, end, axis] = [0, after[place], 1].map(|int| edit.integers(&[int]));
        made = edit.insert(Op::new(OpType::Slice, &[made, start?, end?, axis?]));
    }
    let shape = edit.integers(&after)?;
    edit.done(&[], Op::new(OpType::Reshape, &[made, shape]))
}

/// Computes one half of a spectrum as a part of the whole.
fn half(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let axis = match edit.input(index, 2) {
        Some(axis) => edit.tensor(axis)?.ints()?.first().copied()?,
        None => return None,
    };
    if is_set(edit, "inverse") {
        return product(edit);
    }
    let result = edit.ty(edit.node(index).outputs[0])?;
    let place = axis_from_front(axis, result.rank())?;
    let size = result.shape.get(place)?.known()?;
    let mut op = Op::of(edit.node(index), edit.inputs(index));
    op.attrs.retain(|(name, _)| &**name != "onesided");
    let whole = edit.insert(op);
    let [start, end, axis] = [0, size, place as i64].map(|int| edit.integers(&[int]));
    edit.done(&[], Op::new(OpType::Slice, &[whole, start?, end?, axis?]))
}

/// Writes a transform as a product with the matrix of its waves.
fn product(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let x = edit.input(index, 0)?;
    let ty = edit.ty(x)?.clone();
    let rank = ty.rank();
    let axis = match (edit.input(index, 2), edit.node(index).attr("axis")) {
        (Some(axis), _) => edit.tensor(axis)?.ints()?.first().copied()?,
        (None, Some(&Attr::Int(axis))) => axis,
        (None, _) if edit.opset() >= 20 => -2,
        (None, _) => 1,
    };
    let axis = axis_from_front(axis, rank)?;
    let result = edit.ty(edit.node(index).outputs[0])?.clone();
    let known = |dims: &[Dim]| dims.iter().map(Dim::known).collect::<Option<Vec<i64>>>();
    let (Some(before), Some(after)) = (known(&ty.shape), known(&result.shape)) else {
        return declined("the sizes of the array are not known");
    };
    let wave = Wave {
        given: before[axis],
        parts: *before.last()?,
        made: after[axis],
        made_parts: *after.last()?,
        length: match edit.input(index, 1) {
            Some(length) => edit.tensor(length)?.ints()?.first().copied()?,
            None if is_set(edit, "onesided") && is_set(edit, "inverse") => after[axis],
            None => before[axis],
        },
        is_inverse: is_set(edit, "inverse"),
        is_half: is_set(edit, "onesided"),
    };
    if wave.length > MAX_LENGTH || wave.made > MAX_LENGTH || ty.dtype != DType::F32 {
        return declined("the transform is long, or not of float32");
    }
    let matrix = edit.constant(wave.matrix()?, &[]);
    let mut order: Vec<usize> = (0..rank).filter(|&it| it != axis).collect();
    order.insert(rank - 2, axis);
    let is_moved = axis != rank - 2;
    let mut value = x;
    if is_moved {
        value = edit.insert(transpose(x, &order));
    }
    let others: Vec<i64> = order[..rank - 2].iter().map(|&it| before[it]).collect();
    let kept = wave.given.min(wave.length);
    if kept < wave.given {
        let [start, end, place] = [0, kept, rank as i64 - 2].map(|int| edit.integers(&[int]));
        value = edit.insert(Op::new(OpType::Slice, &[value, start?, end?, place?]));
    }
    let rows = [&others[..], &[kept * wave.parts]].concat();
    let rows = edit.integers(&rows)?;
    let rows = edit.insert(Op::new(OpType::Reshape, &[value, rows]));
    let product = edit.insert(Op::new(OpType::MatMul, &[rows, matrix]));
    let shape = [&others[..], &[wave.made, wave.made_parts]].concat();
    let shape = edit.integers(&shape)?;
    let reshape = Op::new(OpType::Reshape, &[product, shape]);
    if !is_moved {
        return edit.done(&[], reshape);
    }
    let made = edit.insert(reshape);
    let mut back = vec![0; rank];
    for (place, &from) in order.iter().enumerate() {
        back[from] = place;
    }
    edit.done(&[], transpose(made, &back))
}

fn is_set(edit: &Patch<'_, '_>, name: &str) -> bool {
    matches!(edit.node(edit.root()).attr(name), Some(Attr::Int(1)))
}

/// The sizes of a transform.
struct Wave {
    given: i64,
    /// Two for complex numbers, one for real ones.
    parts: i64,
    made: i64,
    made_parts: i64,
    length: i64,
    is_inverse: bool,
    is_half: bool,
}

impl Wave {
    /// Returns the matrix from the given numbers, part by part, to the results, part by part.
    fn matrix(&self) -> Option<Tensor> {
        let kept = self.given.min(self.length);
        let scale = if self.is_inverse { 1.0 / self.length as f64 } else { 1.0 };
        let sign = if self.is_inverse { 1.0 } else { -1.0 };
        let mut entries = Vec::new();
        for from in 0..kept {
            // One half of a spectrum stands for both halves, except its ends.
            let is_end = from == 0 || 2 * from == self.length;
            let share = if self.is_inverse && self.is_half && !is_end { 2.0 } else { 1.0 };
            for part in 0..self.parts {
                for to in 0..self.made {
                    let turn = (from * to).rem_euclid(self.length) as f64 / self.length as f64;
                    let (sin, cos) = (sign * turn * TAU).sin_cos();
                    for made_part in 0..self.made_parts {
                        let entry = match (part, made_part) {
                            (0, 0) | (1, 1) => cos,
                            (0, _) => sin,
                            _ => -sin,
                        };
                        entries.push(entry * scale * share);
                    }
                }
            }
        }
        Tensor::of_floats(
            DType::F32,
            vec![kept * self.parts, self.made * self.made_parts],
            &entries,
        )
    }
}
