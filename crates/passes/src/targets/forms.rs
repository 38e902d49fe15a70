//! `adapt-forms`: writes operators in the form that most runtimes take.

use onnx::kernels::Limit;
use onnx::{Attr, Dim, Op, OpType, Outcome, Patch, ValueId};

pub(crate) fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    if edit.target().is_default() {
        return None;
    }
    match edit.node(edit.root()).op.onnx()? {
        OpType::Squeeze => squeeze(edit),
        OpType::Slice => dynamic_slice(edit),
        OpType::MatMul => product_with_vector(edit),
        OpType::Conv | OpType::ConvTranspose | OpType::MaxPool | OpType::AveragePool => {
            window(edit)
        }
        _ => None,
    }
}

/// Writes a `Squeeze` of several axes as a `Reshape`. tract drops wrong axes.
fn squeeze(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let (x, result) = (edit.input(index, 0)?, edit.node(index).outputs[0]);
    let (before, after) = (edit.ty(x)?.rank(), edit.ty(result)?.rank());
    let shape: Option<Vec<i64>> = edit.ty(result)?.shape.iter().map(Dim::known).collect();
    if before < after + 2 {
        return None;
    }
    let shape = edit.integers(&shape?)?;
    edit.done(&[], Op::new(OpType::Reshape, &[x, shape]))
}

/// Writes a product of many matrices and a vector as a product of matrices. rten keeps an axis of size one.
fn product_with_vector(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let (left, right) = (edit.input(index, 0)?, edit.input(index, 1)?);
    let ranks = (edit.ty(left)?.rank(), edit.ty(right)?.rank());
    let axis = match ranks {
        (3.., 1) => -1,
        (1, 3..) => -2,
        _ => return None,
    };
    let unit = edit.integers(&[if axis == -1 { 1 } else { 0 }])?;
    let vector = if axis == -1 { right } else { left };
    let matrix = edit.insert(Op::new(OpType::Unsqueeze, &[vector, unit]));
    let operands = if axis == -1 { [left, matrix] } else { [matrix, right] };
    let product = edit.insert(Op::new(OpType::MatMul, &operands));
    let axis = edit.integers(&[axis])?;
    edit.done(&[], Op::new(OpType::Squeeze, &[product, axis]))
}

/// Writes a slice of known size at a computed position as a `Gather` along each axis.
fn dynamic_slice(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let starts = edit.input(index, 1)?;
    let has_steps = edit.input(index, 4).is_some();
    if !edit.target().has_limit(Limit::DynamicSlice) || edit.tensor(starts).is_some() || has_steps {
        return None;
    }
    let x = edit.input(index, 0)?;
    let result = edit.ty(edit.node(index).outputs[0])?.clone();
    let axes = match edit.input(index, 3) {
        Some(axes) => edit.tensor(axes)?.ints()?,
        None => (0..result.rank() as i64).collect(),
    };
    let mut cut: ValueId = x;
    for (position, axis) in axes.into_iter().enumerate() {
        let axis = usize::try_from(if axis < 0 { axis + result.rank() as i64 } else { axis }).ok()?;
        let (size, whole) = (result.shape[axis].known()?, edit.ty(x)?.shape[axis].clone());
        if whole.known() == Some(size) {
            continue;
        }
        let position = edit.integers(&[position as i64])?;
        let start = edit.insert(Op::new(OpType::Gather, &[starts, position]).attr("axis", 0));
        let numbers = edit.integers(&(0..size).collect::<Vec<_>>())?;
        let indices = edit.insert(Op::new(OpType::Add, &[start, numbers]));
        let gather = Op::new(OpType::Gather, &[cut, indices]);
        cut = edit.insert(gather.attr("axis", axis as i64));
    }
    edit.done(&[], cut)
}

/// Writes the attributes of a window that have their defaults. rten does not know the defaults.
fn window(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let node = edit.node(index);
    let rank = edit.ty(node.outputs[0])?.rank().checked_sub(2)?;
    let is_pool = matches!(node.op.onnx()?, OpType::MaxPool | OpType::AveragePool);
    let has_padding = node.attr("pads").is_some() || node.attr("auto_pad").is_some();
    let mut op = Op::of(node, edit.inputs(index));
    let mut add = |name: &str, value: Vec<i64>| {
        if !op.attrs.iter().any(|(key, _)| &**key == name) {
            op.attrs.push((name.into(), Attr::from(&value[..])));
        }
    };
    add("strides", vec![1; rank]);
    if !is_pool {
        add("dilations", vec![1; rank]);
    }
    if !has_padding {
        add("pads", vec![0; 2 * rank]);
    }
    if op.attrs.len() == node.attrs.len() {
        return None;
    }
    edit.done(&[], op)
}
