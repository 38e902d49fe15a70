//! `adapt-loops`: writes loops in the forms that the runtimes of the target take.
//!
//! Some runtimes have `Scan` or `Loop` only, cannot run backwards, do not let a body read values from outside, or drop
//! inputs that a body does not read.

use onnx::edit::rename;
use onnx::kernels::Limit;
use onnx::{DType, Dim, Op, OpType, Outcome, Patch, Replacement, Tensor, Type, ValueId, declined};
use rustc_hash::FxHashMap;

use super::endings::body_node;
use loops::{Array, Carry, Counted, LoopCounter, copy_of, replacing, results_in_place};

/// Writes a `Scan` as a `Loop` if a runtime has no `Scan`, or computes some bodies wrongly.
pub fn scan_to_loop(edit: &mut Patch<'_, '_>) -> Outcome {
    let lacks_scan =
        !edit.target().has(OpType::Scan, edit.opset()) || edit.target().has_limit(Limit::ScanFuses);
    if edit.node(edit.root()).op != OpType::Scan || !lacks_scan {
        return None;
    }
    let Some(mut counted) = Counted::at(edit, edit.root()) else {
        return declined("the scan runs over another axis than the first");
    };
    let flipped = run_forwards(edit, &mut counted);
    let first = counted.arrays.first().copied()?;
    let iterations = match counted.iterations {
        Dim::Known(iterations) => edit.integer(iterations)?,
        Dim::Symbolic(_) => length(edit, first.whole)?,
    };
    let flag = Type::new(DType::Bool, []);
    let number = edit.body_input(Type::new(DType::I64, []));
    let [flag, next_flag] = [flag.clone(), flag].map(|flag| edit.body_input(flag));
    let mut nodes = Vec::new();
    for Array { whole, element } in std::mem::take(&mut counted.arrays) {
        let gather = Op::new(OpType::Gather, &[whole, number]).attr("axis", 0);
        nodes.extend(body_node(edit, gather, element));
    }
    let model = nodes.first()?.clone();
    nodes.push(copy_of(flag, next_flag, &model));
    nodes.append(&mut counted.nodes);
    counted.nodes = nodes;
    let yes = Tensor::of_ints(DType::Bool, Vec::new(), &[1])?;
    let condition = Some(edit.constant(yes, &[]));
    counted.counter = Some(LoopCounter { iterations, condition, number, flag, next_flag });
    let replacement = with_flipped(edit, counted, &flipped)?;
    edit.done(&[], replacement)
}

/// Runs a `Scan` forwards if a runtime ignores its directions.
pub fn flip_scan(edit: &mut Patch<'_, '_>) -> Outcome {
    let limit = Limit::ScanReversed;
    let index = edit.root();
    if !edit.has_limit(index, limit) {
        return None;
    }
    let Some(mut counted) = Counted::at(edit, index) else {
        return declined("the scan runs in several directions");
    };
    let flipped = run_forwards(edit, &mut counted);
    let replacement = with_flipped(edit, counted, &flipped)?;
    edit.done(&[], replacement)
}

/// Carries the values that the body of a `Scan` reads from outside.
pub fn carry_captures(edit: &mut Patch<'_, '_>) -> Outcome {
    let limit = Limit::ScanCaptures;
    let index = edit.root();
    if !edit.has_limit(index, limit) {
        return None;
    }
    let captured = edit.captured(index);
    let Some(mut counted) = Counted::at(edit, index) else {
        return declined("the scan runs over another axis than the first");
    };
    let model = counted.nodes.first()?.clone();
    let mut renamed = FxHashMap::default();
    for outer in captured {
        let ty = edit.ty(outer)?.clone();
        let [before, after, result] = [(); 3].map(|()| edit.body_input(ty.clone()));
        renamed.insert(outer, before);
        counted.nodes.push(copy_of(before, after, &model));
        counted.carries.push(Carry { initial: outer, before, after, result });
    }
    counted.nodes.iter_mut().for_each(|node| rename(node, &renamed));
    let replacement = with_flipped(edit, counted, &[])?;
    edit.done(&[], replacement)
}

/// Makes the body of a `Scan` read all of its inputs.
///
/// The scan also runs over copies of a magnitude. An iteration keeps the old state if its copy is negative, which is
/// never true. A runtime that computes constants when it loads a model would see this of a constant and drop it, so the
/// magnitude is one of an array that the model computes, if there is one.
pub fn read_inputs(edit: &mut Patch<'_, '_>) -> Outcome {
    let limit = Limit::ScanUnread;
    let index = edit.root();
    if !edit.has_limit(index, limit) {
        return None;
    }
    let Some(mut counted) = Counted::at(edit, index) else {
        return declined("the scan runs over another axis than the first");
    };
    let Dim::Known(iterations) = counted.iterations else {
        return declined("the number of iterations is not known");
    };
    let unread: Vec<usize> = (0..counted.carries.len())
        .filter(|&carry| !counted.reads(counted.carries[carry].before))
        .collect();
    let chosen = if unread.is_empty() { vec![0] } else { unread };
    if counted.carries.is_empty() {
        return declined("the scan has no state");
    }
    let size = edit.integers(&[iterations])?;
    let magnitude = magnitude(edit, &counted)?;
    let whole = edit.insert(Op::new(OpType::Expand, &[magnitude, size]));
    let zero = zero(edit, DType::F32)?;
    let element = edit.body_input(Type::new(DType::F32, []));
    let never = edit.body_input(Type::new(DType::Bool, []));
    let less = Op::new(OpType::Less, &[element, zero]);
    counted.nodes.splice(0..0, body_node(edit, less, never));
    for carry in chosen {
        let Carry { before, after, .. } = counted.carries[carry];
        let kept = edit.body_input(edit.ty(after)?.clone());
        let choose = Op::new(OpType::Where, &[never, before, after]);
        counted.nodes.extend(body_node(edit, choose, kept));
        counted.carries[carry].after = kept;
    }
    let mut arrays = std::mem::take(&mut counted.arrays);
    arrays.retain(|array| counted.reads(array.element));
    arrays.push(Array { whole, element });
    counted.arrays = arrays;
    let replacement = with_flipped(edit, counted, &[])?;
    edit.done(&[], replacement)
}

/// Chooses between zero and a constant array by a number that the model computes, if a runtime takes an element of a
/// constant array for the whole array. The choice is always the array.
pub fn hide_constants(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    if !edit.has_limit(index, Limit::ScanConstant) {
        return None;
    }
    let Some(mut counted) = Counted::at(edit, index) else {
        return declined("the scan runs over another axis than the first");
    };
    let magnitude = magnitude(edit, &counted)?;
    if edit.tensor(magnitude).is_some() {
        return declined("the scan reads no computed array");
    }
    let limit = zero(edit, DType::F32)?;
    let never = edit.insert(Op::new(OpType::Less, &[magnitude, limit]));
    for array in &mut counted.arrays {
        if let Some(dtype) = edit.tensor(array.whole).map(|tensor| tensor.dtype) {
            let nothing = zero(edit, dtype)?;
            let choose = Op::new(OpType::Where, &[never, nothing, array.whole]);
            array.whole = edit.insert(choose);
        }
    }
    let replacement = with_flipped(edit, counted, &[])?;
    edit.done(&[], replacement)
}

/// Chooses between an initial state and its double by a number that the model computes, if a runtime cannot let other
/// nodes read the state. The choice is always the state.
pub fn separate_states(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    if !edit.has_limit(index, Limit::LoopStateShared) {
        return None;
    }
    let counted = Counted::at(edit, index)?;
    let magnitude = magnitude(edit, &counted)?;
    if edit.tensor(magnitude).is_some() {
        return declined("no state of the loop has a number");
    }
    let limit = zero(edit, DType::F32)?;
    let never = edit.insert(Op::new(OpType::Less, &[magnitude, limit]));
    let mut operands = edit.inputs(index);
    for at in edit.shared_states(index) {
        let state = operands[at]?;
        let other = match edit.ty(state)?.dtype {
            DType::Bool => Op::new(OpType::Not, &[state]),
            _ => Op::new(OpType::Add, &[state, state]),
        };
        let other = edit.branch("never", |edit| vec![edit.insert(other)]);
        let same =
            edit.branch("always", |edit| vec![edit.insert(Op::new(OpType::Identity, &[state]))]);
        operands[at] = edit.insert_if(never, other, same).first().copied();
    }
    let results = edit.node(index).outputs.to_vec();
    let op = Op::of(edit.node(index), operands);
    let made = edit.insert_instead(op, &replacing(&results));
    let results = results_in_place(edit, results.into_iter().zip(made));
    edit.done(&[], results)
}

/// Returns a constant zero.
pub(super) fn zero(edit: &mut Patch<'_, '_>, dtype: DType) -> Option<ValueId> {
    Some(edit.constant(Tensor::of_ints(dtype, Vec::new(), &[0])?, &[]))
}

/// Returns the magnitude of one number of an array that the loop reads, as an array of one element. The array is one that
/// the model computes, if there is one.
fn magnitude(edit: &mut Patch<'_, '_>, counted: &Counted) -> Option<ValueId> {
    let has_numbers = |ty: &Type| ty.shape.iter().all(|dim| dim.known().is_some_and(|it| it > 0));
    let is_computed =
        |&state: &ValueId| edit.tensor(state).is_none() && edit.ty(state).is_some_and(has_numbers);
    let states = counted.carries.iter().map(|carry| carry.initial);
    let arrays = counted.arrays.iter().map(|array| array.whole);
    let captured = edit.captured(edit.root());
    let mut known = states.chain(arrays).chain(captured);
    let Some(state) = known.find(is_computed) else {
        let zero = Tensor::of_floats(DType::F32, vec![1], &[0.0])?;
        return Some(edit.constant(zero, &[]));
    };
    let (line, first) = (edit.integers(&[-1])?, edit.integers(&[0])?);
    let flat = edit.insert(Op::new(OpType::Reshape, &[state, line]));
    let number = edit.insert(Op::new(OpType::Gather, &[flat, first]).attr("axis", 0));
    let cast = Op::new(OpType::Cast, &[number]).attr("to", i64::from(DType::F32.code()));
    let float = edit.insert(cast);
    Some(edit.insert(Op::new(OpType::Abs, &[float])))
}

/// Drops the axes of one element of scanned arrays, and adds them in the body.
pub fn drop_added_axes(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    if !edit.has_limit(index, Limit::ScanWidened) {
        return None;
    }
    let Some(mut counted) = Counted::at(edit, index) else {
        return declined("the scan runs over another axis than the first");
    };
    let states = counted.carries.len();
    for at in edit.widened_arrays(index) {
        let Array { whole, element } = counted.arrays[at - states];
        let ty = edit.ty(element)?.clone();
        let units = ty.shape.iter().enumerate().filter(|(_, dim)| **dim == Dim::Known(1));
        let axes: Vec<i64> = units.map(|(axis, _)| axis as i64).collect();
        let outer: Vec<i64> = axes.iter().map(|axis| axis + 1).collect();
        let (outer, inner) = (edit.integers(&outer)?, edit.integers(&axes)?);
        let others = ty.shape.iter().filter(|dim| **dim != Dim::Known(1)).cloned();
        let thin = edit.body_input(Type::new(ty.dtype, others.collect::<Vec<_>>()));
        let whole = edit.insert(Op::new(OpType::Squeeze, &[whole, outer]));
        let added = Op::new(OpType::Unsqueeze, &[thin, inner]);
        counted.nodes.splice(0..0, body_node(edit, added, element));
        counted.arrays[at - states] = Array { whole, element: thin };
    }
    let replacement = with_flipped(edit, counted, &[])?;
    edit.done(&[], replacement)
}

/// Copies the results that the body of a `Scan` reads and stacks, if a runtime takes the stack for the result.
pub fn copy_results(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    if !edit.has_limit(index, Limit::ScanReadsResult) {
        return None;
    }
    let Some(mut counted) = Counted::at(edit, index) else {
        return declined("the scan runs over another axis than the first");
    };
    let model = counted.nodes.first()?.clone();
    for element in counted.read_stacks() {
        let copy = edit.body_input(edit.ty(element)?.clone());
        counted.nodes.push(copy_of(element, copy, &model));
        counted.stack_instead(element, copy);
    }
    let replacement = with_flipped(edit, counted, &[])?;
    edit.done(&[], replacement)
}

/// Makes a loop run forwards over arrays that are reversed. Returns the results that must be reversed.
fn run_forwards(edit: &mut Patch<'_, '_>, counted: &mut Counted) -> Vec<ValueId> {
    if counted.is_reverse {
        for array in &mut counted.arrays {
            array.whole = flip(edit, array.whole).unwrap_or(array.whole);
        }
        counted.is_reverse = false;
    }
    counted.take_reversed_stacks()
}

/// Returns the replacement of the root, with the `flipped` results in reverse order.
fn with_flipped(
    edit: &mut Patch<'_, '_>,
    counted: Counted,
    flipped: &[ValueId],
) -> Option<Replacement> {
    let (op, results) = counted.into_op(edit);
    let mut made = edit.insert_instead(op, &replacing(&results));
    for (value, result) in made.iter_mut().zip(&results) {
        if flipped.contains(result) {
            *value = flip(edit, *value)?;
        }
    }
    Some(results_in_place(edit, results.into_iter().zip(made)).into())
}

/// Reverses the first axis.
fn flip(edit: &mut Patch<'_, '_>, array: ValueId) -> Option<ValueId> {
    let op = match edit.ty(array)?.shape.first()? {
        &Dim::Known(size) => {
            let backwards = edit.integers(&(0..size).rev().collect::<Vec<_>>())?;
            Op::new(OpType::Gather, &[array, backwards]).attr("axis", 0)
        }
        Dim::Symbolic(_) => {
            let [start, end, axis, step] = [-1, i64::MIN, 0, -1].map(|int| edit.integers(&[int]));
            Op::new(OpType::Slice, &[array, start?, end?, axis?, step?])
        }
    };
    Some(edit.insert(op))
}

/// Returns the size of the first axis.
fn length(edit: &mut Patch<'_, '_>, array: ValueId) -> Option<ValueId> {
    let shape = edit.insert(Op::new(OpType::Shape, &[array]));
    let first = edit.integer(0)?;
    Some(edit.insert(Op::new(OpType::Gather, &[shape, first]).attr("axis", 0)))
}
