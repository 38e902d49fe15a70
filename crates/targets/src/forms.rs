//! `adapt-forms`: writes operators in the form that most runtimes take.

use algebra::eval::arithmetic;
use onnx::infer::axis_from_front;
use onnx::kernels::Limit;
use onnx::operator::properties::{COMPARISONS, REDUCTIONS};
use onnx::{Attr, DType, Dim, Op, OpType, Outcome, Patch, Tensor, ValueId, declined};

use super::{branches, device, factors, integers, scatters, transforms};

pub fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    if edit.target().is_default() {
        return None;
    }
    if edit.has_limit(edit.root(), Limit::HighConstant) {
        return high_constants(edit);
    }
    if edit.has_limit(edit.root(), Limit::InputBytes) {
        return integers::wide_bytes(edit);
    }
    if edit.has_limit(edit.root(), Limit::NeutralAxes) {
        return added_axes(edit);
    }
    if let scaled @ Some(_) = factors::run(edit) {
        return scaled;
    }
    match edit.node(edit.root()).op.onnx()? {
        OpType::Squeeze => squeeze(edit),
        OpType::Slice => dynamic_slice(edit).or_else(|| reversing_slice(edit)),
        OpType::If
            if [Limit::IfTwice, Limit::BranchProducts]
                .iter()
                .any(|&limit| edit.has_limit(edit.root(), limit)) =>
        {
            device::choice(edit)
        }
        OpType::If => branches::hidden_constants(edit),
        OpType::Mul if edit.has_limit(edit.root(), Limit::IntegerSquare) => {
            let x = edit.input(edit.root(), 0)?;
            // All of these operations wrap.
            let square = edit.formula([x], |[x]| x * (x + 1.0) - x);
            edit.settle(square)
        }
        OpType::MatMul => product_with_vector(edit),
        OpType::Where => repeated_choice(edit),
        OpType::GatherND => batch_of_points(edit),
        OpType::Cast => sorted_flags(edit)
            .or_else(|| integers::cast_to_byte(edit))
            .or_else(|| integers::cast_to_short(edit)),
        OpType::BitShift => integers::shifted_bytes(edit),
        OpType::ScatterND | OpType::ScatterElements => scatters::run(edit),
        op if op.is(COMPARISONS) => broadcast_comparison(edit),
        OpType::DFT => transforms::run(edit),
        OpType::Div => quotient(edit),
        OpType::ConvTranspose if edit.has_limit(edit.root(), Limit::ConvTransposePads) => {
            cropped(edit)
        }
        op if op.is(REDUCTIONS) => own_reduction(edit),
        OpType::LSTM | OpType::GRU => own_sequence(edit),
        OpType::Resize => repeated_entries(edit),
        OpType::TopK => stable_order(edit).or_else(|| distinct_sort(edit)),
        OpType::Conv | OpType::ConvTranspose | OpType::MaxPool | OpType::AveragePool => {
            window(edit)
        }
        _ => None,
    }
}

/// Computes constants of `uint32` that do not fit into `int32` from constants that do.
fn high_constants(edit: &mut Patch<'_, '_>) -> Outcome {
    const LOW: i64 = i32::MAX as i64;
    let index = edit.root();
    if edit.node(index).bodies().next().is_some() {
        return declined("the constant is a state of a loop");
    }
    let mut operands = edit.inputs(index);
    for operand in operands.iter_mut().flatten() {
        let Some(tensor) = edit.tensor(*operand).filter(|it| it.dtype == DType::U32) else {
            continue;
        };
        let (shape, ints) = (tensor.shape.clone(), tensor.ints()?);
        let is_high = |int: &i64| *int > LOW;
        if !ints.iter().any(is_high) {
            continue;
        }
        let mut constant = |ints: &[i64], shape: Vec<i64>| {
            Some(edit.constant(Tensor::of_ints(DType::U32, shape, ints)?, &[]))
        };
        *operand = if ints.iter().all(is_high) {
            let flipped: Vec<i64> = ints.iter().map(|int| i64::from(u32::MAX) - int).collect();
            let flipped = constant(&flipped, shape)?;
            edit.insert(Op::new(OpType::BitwiseNot, &[flipped]))
        } else {
            let first: Vec<i64> = ints.iter().map(|int| i64::from(is_high(int))).collect();
            let others: Vec<i64> = ints.iter().map(|int| int & LOW).collect();
            let (first, others) = (constant(&first, shape.clone())?, constant(&others, shape)?);
            let low = constant(&[LOW], Vec::new())?;
            let bit = edit.insert(Op::new(OpType::BitwiseNot, &[low]));
            let first = edit.insert(Op::new(OpType::Mul, &[first, bit]));
            edit.insert(Op::new(OpType::BitwiseOr, &[first, others]))
        };
    }
    let op = Op::of(edit.node(index), operands);
    edit.done(&[], op)
}

/// Adds the axes of a product with 1 or a sum with 0, for runtimes that drop such an operation with its axes.
fn added_axes(edit: &mut Patch<'_, '_>) -> Outcome {
    let (a, b) = edit.pair(edit.root())?;
    let (x, constant) = if edit.tensor(b).is_some() { (a, b) } else { (b, a) };
    let count = edit.ty(constant)?.rank().checked_sub(edit.ty(x)?.rank())?;
    let axes: Vec<usize> = (0..count).collect();
    let made = edit.formula([x], |[x]| x.unsqueeze(&axes));
    edit.settle(made)
}

/// Repeats the last operand of a choice, for runtimes that repeat only the others.
fn repeated_choice(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    if !edit.has_limit(index, Limit::WhereRepeats) {
        return None;
    }
    let shape = edit.ty(edit.node(index).outputs[0])?.shape.clone();
    let shape: Option<Vec<i64>> = shape.iter().map(Dim::known).collect();
    let Some(shape) = shape else {
        return declined("the sizes of the operands are not known");
    };
    let shape = edit.integers(&shape)?;
    let mut operands = edit.inputs(index);
    operands[2] = Some(edit.insert(Op::new(OpType::Expand, &[operands[2]?, shape])));
    let op = Op::of(edit.node(index), operands);
    edit.done(&[], op)
}

/// Writes the batch as an index for runtimes that look up points in the first array of a batch only.
fn batch_of_points(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    if !edit.has_limit(index, Limit::GatherBatch) {
        return None;
    }
    let (x, indices) = (edit.input(index, 0)?, edit.input(index, 1)?);
    let ty = edit.ty(indices)?.clone();
    let sizes: Option<Vec<i64>> = ty.shape.iter().map(Dim::known).collect();
    let is_of_one = matches!(edit.node(index).attr("batch_dims"), Some(&Attr::Int(1)));
    let Some(mut sizes) = sizes.filter(|_| is_of_one) else {
        return declined("there are several batch axes, or the sizes are not known");
    };
    let count = sizes[0];
    let mut column = vec![1; sizes.len()];
    column[0] = count;
    let numbers = Tensor::of_ints(ty.dtype, column, &(0..count).collect::<Vec<_>>())?;
    let numbers = edit.constant(numbers, &[]);
    *sizes.last_mut()? = 1;
    let sizes = edit.integers(&sizes)?;
    let batch = edit.insert(Op::new(OpType::Expand, &[numbers, sizes]));
    let joined = Op::new(OpType::Concat, &[batch, indices]).attr("axis", ty.rank() as i64 - 1);
    let joined = edit.insert(joined);
    edit.done(&[], Op::new(OpType::GatherND, &[x, joined]))
}

/// Compares sorted integers with zero instead of casting them to flags.
fn sorted_flags(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    if !edit.has_limit(index, Limit::SortedFlags) {
        return None;
    }
    let x = edit.input(index, 0)?;
    let flags = edit.formula([x], |[x]| x.equal(0.0).logical_not());
    edit.settle(flags)
}

/// Divides constants.
fn quotient(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    if !edit.has_limit(index, Limit::ConstantQuotient) {
        return None;
    }
    let (a, b) = (edit.input(index, 0)?, edit.input(index, 1)?);
    let result = edit.ty(edit.node(index).outputs[0])?.clone();
    let shape: Vec<i64> = result.shape.iter().map(Dim::known).collect::<Option<_>>()?;
    let quotient = arithmetic(OpType::Div, edit.tensor(a)?, edit.tensor(b)?, result.dtype, shape)?;
    let quotient = edit.constant(quotient, &[a, b]);
    edit.done(&[], Op::new(OpType::Identity, &[quotient]))
}

/// Crops the result of a transposed convolution instead of padding.
pub(super) fn cropped(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let node = edit.node(index);
    let Some(Attr::Ints(pads)) = node.attr("pads").cloned() else { return None };
    let sizes = edit.ty(node.outputs[0])?.shape.clone();
    let sizes: Option<Vec<i64>> = sizes.iter().skip(2).map(Dim::known).collect();
    let Some(sizes) = sizes else {
        return declined("the sizes of the image are not known");
    };
    let mut op = Op::of(node, edit.inputs(index));
    op.attrs.retain(|(name, _)| &**name != "pads");
    op.attrs.push(("pads".into(), Attr::from(&vec![0; pads.len()][..])));
    let whole = edit.insert(op);
    let starts = &pads[..sizes.len()];
    let ends: Vec<i64> = starts.iter().zip(&sizes).map(|(start, size)| start + size).collect();
    let axes: Vec<i64> = (2..2 + sizes.len() as i64).collect();
    let [starts, ends, axes] = [starts, &ends, &axes].map(|ints| edit.integers(ints));
    edit.done(&[], Op::new(OpType::Slice, &[whole, starts?, ends?, axes?]))
}

/// Looks up the entries of each axis several times, for runtimes that enlarge images only.
fn repeated_entries(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    if !edit.has_limit(index, Limit::ResizeRows) {
        return None;
    }
    let node = edit.node(index);
    let is =
        |name: &str, text: &str| matches!(node.attr(name), Some(Attr::Str(it)) if &**it == text);
    let copies = is("mode", "nearest")
        && is("coordinate_transformation_mode", "asymmetric")
        && is("nearest_mode", "floor");
    if !copies {
        return declined("the result has other numbers than the operand");
    }
    let mut enlarged = edit.input(index, 0)?;
    let (before, after) = (edit.ty(enlarged)?.clone(), edit.ty(node.outputs[0])?.clone());
    for (axis, sizes) in before.shape.iter().zip(&*after.shape).enumerate() {
        let (Some(from), Some(to)) = (sizes.0.known(), sizes.1.known()) else {
            return declined("the sizes of the array are not known");
        };
        if to % from.max(1) != 0 {
            return declined("the entries do not occur equally often");
        }
        if from != to {
            let places: Vec<i64> = (0..to).map(|place| place * from / to).collect();
            let places = edit.integers(&places)?;
            let gather = Op::new(OpType::Gather, &[enlarged, places]);
            enlarged = edit.insert(gather.attr("axis", axis as i64));
        }
    }
    edit.done(&[], enlarged)
}

/// Looks up all entries of a reduction, so that a compiler does not join it with readers that move axes.
fn own_reduction(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    if !edit.has_limit(index, Limit::ReductionTwice) {
        return None;
    }
    let result = edit.ty(edit.node(index).outputs[0])?.clone();
    let sizes: Option<Vec<i64>> = result.shape.iter().map(Dim::known).collect();
    let Some(sizes) = sizes else {
        return declined("the sizes of the reduction are not known");
    };
    let (axis, &size) = sizes.iter().enumerate().max_by_key(|(_, size)| **size)?;
    let op = Op::of(edit.node(index), edit.inputs(index));
    let reduced = edit.insert(op);
    let entries = edit.integers(&(0..size).collect::<Vec<_>>())?;
    edit.done(&[], Op::new(OpType::Gather, &[reduced, entries]).attr("axis", axis as i64))
}

/// Copies the sequence of a recurrent operator if an earlier one reads the same array. A `Max` of the array with itself
/// is a copy that runtimes do not drop.
fn own_sequence(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    if !edit.has_limit(index, Limit::RecurrentShared) {
        return None;
    }
    let x = edit.input(index, 0)?;
    let is_copy = |edit: &Patch<'_, '_>, value: ValueId| {
        let max = edit.made_by(value, OpType::Max)?;
        let operands = edit.inputs(max);
        (operands.len() == 2 && operands[0] == operands[1]).then_some(operands[0]?)
    };
    // Each operator has a copy of the previous copy, so that no two copies are the same node.
    let mut copies = Vec::new();
    for other in edit.nodes() {
        let is_recurrent = matches!(edit.node(other).op.onnx(), Some(OpType::LSTM | OpType::GRU));
        let Some(own) = edit.input(other, 0).filter(|_| is_recurrent && other != index) else {
            continue;
        };
        let sources = std::iter::successors(Some(own), |&value| is_copy(edit, value));
        let sources: Vec<ValueId> = sources.collect();
        if let Some(depth) = sources.iter().position(|&value| value == x)
            && depth >= copies.len()
        {
            copies = sources[..depth].to_vec();
        }
    }
    let last = copies.first().copied().unwrap_or(x);
    let mut operands = edit.inputs(index);
    operands[0] = Some(edit.insert(Op::new(OpType::Max, &[last, last])));
    let op = Op::of(edit.node(index), operands);
    edit.done(&[], op)
}

/// Lists the axes of a `Squeeze` from the front, in order.
fn squeeze(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    if !edit.has_limit(index, Limit::SqueezeUnordered) {
        return None;
    }
    let (x, mut axes) = (edit.input(index, 0)?, edit.axes(index)?);
    axes.sort_unstable();
    let axes: Vec<i64> = axes.into_iter().map(|axis| axis as i64).collect();
    let axes = edit.integers(&axes)?;
    edit.done(&[], Op::new(OpType::Squeeze, &[x, axes]))
}

/// Writes a product with a vector as a product of matrices.
fn product_with_vector(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    if !edit.has_limit(index, Limit::MatMulVector) {
        return None;
    }
    let (left, right) = (edit.input(index, 0)?, edit.input(index, 1)?);
    let is_vector = [edit.ty(left)?.rank() == 1, edit.ty(right)?.rank() == 1];
    let mut operands = [left, right];
    let mut units = Vec::new();
    // The row of a vector on the left is the second axis from the end.
    for (side, place) in [(0, -2), (1, -1)] {
        if is_vector[side] {
            let axis = edit.integers(&[side as i64])?;
            operands[side] = edit.insert(Op::new(OpType::Unsqueeze, &[operands[side], axis]));
            units.push(place);
        }
    }
    let product = edit.insert(Op::new(OpType::MatMul, &operands));
    let rank = edit.ty(product)?.rank() as i64;
    let axes: Vec<i64> = units.into_iter().map(|place| rank + place).collect();
    let axes = edit.integers(&axes)?;
    edit.done(&[], Op::new(OpType::Squeeze, &[product, axes]))
}

fn dynamic_slice(edit: &mut Patch<'_, '_>) -> Outcome {
    if !edit.has_limit(edit.root(), Limit::DynamicSlice) {
        return None;
    }
    slice_at(edit)
}

/// Writes a slice of known size at a computed position as a `Gather` along each axis.
pub(super) fn slice_at(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let starts = edit.input(index, 1)?;
    if edit.input(index, 4).is_some() {
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
        let axis = axis_from_front(axis, result.rank())?;
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

/// Writes a slice that runs backwards as a `Gather` along each axis.
fn reversing_slice(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    if !edit.has_limit(index, Limit::SliceReverses) {
        return None;
    }
    let x = edit.input(index, 0)?;
    let ints = |operand| edit.tensor(edit.input(index, operand)?)?.ints();
    let (starts, axes, steps) = (ints(1)?, ints(3)?, ints(4)?);
    let (before, after) = (edit.ty(x)?.clone(), edit.ty(edit.node(index).outputs[0])?.clone());
    let mut cut = x;
    for ((start, axis), step) in starts.into_iter().zip(axes).zip(steps) {
        let axis = axis_from_front(axis, before.rank())?;
        let (Some(size), Some(count)) = (before.shape[axis].known(), after.shape[axis].known())
        else {
            return declined("the sizes of the array are not known");
        };
        let start = if start < 0 { start + size } else { start };
        let first = start.clamp(0, if step < 0 { size - 1 } else { size });
        let places: Vec<i64> = (0..count).map(|number| first + number * step).collect();
        let places = edit.integers(&places)?;
        cut = edit.insert(Op::new(OpType::Gather, &[cut, places]).attr("axis", axis as i64));
    }
    edit.done(&[], cut)
}

/// Repeats the operands of a comparison, for runtimes that broadcast only one of them.
fn broadcast_comparison(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    if !edit.has_limit(index, Limit::BroadcastComparison) {
        return None;
    }
    let shape = edit.ty(edit.node(index).outputs[0])?.shape.clone();
    let shape: Option<Vec<i64>> = shape.iter().map(Dim::known).collect();
    let Some(shape) = shape else {
        return declined("the sizes of the operands are not known");
    };
    let shape = edit.integers(&shape)?;
    let operands = edit.inputs(index).into_iter();
    let expand = |it: Option<ValueId>| Some(edit.insert(Op::new(OpType::Expand, &[it?, shape])));
    let operands: Vec<Option<ValueId>> = operands.map(expand).collect();
    let op = Op::of(edit.node(index), operands);
    edit.done(&[], op)
}

/// The most elements whose positions can be sorted: a runtime may compute with 24 bits.
const MAX_SORTED: i64 = 1 << 12;

/// Sorts equal elements by their positions, for runtimes that return them in any order.
///
/// After a sort of all elements, groups of equal ones are numbered. Then the number of the group and the position
/// together are sorted: no two of these are equal.
fn stable_order(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    if !edit.has_limit(index, Limit::TopKTies) {
        return None;
    }
    let (x, count) = (edit.input(index, 0)?, edit.input(index, 1)?);
    let ty = edit.ty(x)?.clone();
    let axis = match edit.node(index).attr("axis") {
        Some(&Attr::Int(axis)) => axis_from_front(axis, ty.rank())?,
        _ => ty.rank().checked_sub(1)?,
    };
    let size = ty.shape[axis].known();
    let (first_pad, axis) = (axis, axis as i64);
    let Some(size) = size.filter(|size| (1..=MAX_SORTED).contains(size)) else {
        return declined("the number of elements to sort is unknown or large");
    };
    let all = edit.integers(&[size])?;
    let sort = Op { inputs: vec![Some(x), Some(all)], ..Op::of(edit.node(index), Vec::new()) };
    let sorted = edit.insert_all_for(&[], sort, 2);
    let [start, end, last, axes] = [0, 1, size, axis].map(|int| edit.integers(&[int]));
    let (start, end, last, axes) = (start?, end?, last?, axes?);
    let before_last = edit.integers(&[size - 1])?;
    let earlier = edit.insert(Op::new(OpType::Slice, &[sorted[0], start, before_last, axes]));
    let later = edit.insert(Op::new(OpType::Slice, &[sorted[0], end, last, axes]));
    let same = edit.insert(Op::new(OpType::Equal, &[earlier, later]));
    let [zero, one, width] = [0, 1, size].map(|int| {
        Tensor::of_ints(DType::I32, Vec::new(), &[int]).map(|it| edit.constant(it, &[]))
    });
    let begins = edit.insert(Op::new(OpType::Where, &[same, zero?, one?]));
    let mut pads = vec![0; 2 * ty.rank()];
    pads[first_pad] = 1;
    let pads = edit.integers(&pads)?;
    let begins = edit.insert(Op::new(OpType::Pad, &[begins, pads]));
    let place = edit.integer(axis)?;
    let group = edit.insert(Op::new(OpType::CumSum, &[begins, place]));
    let group = edit.insert(Op::new(OpType::Mul, &[group, width?]));
    let position = Op::new(OpType::Cast, &[sorted[1]]).attr("to", i64::from(DType::I32.code()));
    let position = edit.insert(position);
    let key = edit.insert(Op::new(OpType::Add, &[group, position]));
    let order = Op::new(OpType::TopK, &[key, count]).attr("axis", axis).attr("largest", 0);
    let order = edit.insert_all_for(&[], order, 2)[0];
    let position = edit.insert(Op::new(OpType::Mod, &[order, width?]));
    let position = Op::new(OpType::Cast, &[position]).attr("to", i64::from(DType::I64.code()));
    let position = edit.insert(position);
    let values = edit.insert(Op::new(OpType::Slice, &[sorted[0], start, count, axes]));
    edit.done(&[], vec![(0, values), (1, position)])
}

/// Adds elements that are sorted to the end, for a runtime in which two sorts of as many elements disturb each other.
fn distinct_sort(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    if !edit.has_limit(index, Limit::TopKTwice) {
        return None;
    }
    let (x, count) = (edit.input(index, 0)?, edit.input(index, 1)?);
    let ty = edit.ty(x)?.clone();
    let axis = match edit.node(index).attr("axis") {
        Some(&Attr::Int(axis)) => axis_from_front(axis, ty.rank())?,
        _ => ty.rank().checked_sub(1)?,
    };
    let others = edit.nodes().into_iter().filter(|&node| node != index);
    let is_sort = |&node: &usize| edit.node(node).op == OpType::TopK;
    let taken: Vec<_> = others.filter(is_sort).map(|node| edit.sorted_size(node)).collect();
    let Some((size, times)) = edit.sorted_size(index) else {
        return declined("the sizes of the array are not known");
    };
    let most = taken.len() as i64 + 1;
    let added = (1..=most).find(|added| !taken.contains(&Some((size + added, times))))?;
    let is_largest = !matches!(edit.node(index).attr("largest"), Some(Attr::Int(0)));
    let last = match (ty.dtype, is_largest) {
        (dtype, true) if dtype.is_float() => f64::NEG_INFINITY,
        (dtype, false) if dtype.is_float() => f64::INFINITY,
        (DType::I32, true) => f64::from(i32::MIN),
        (DType::I32, false) => f64::from(i32::MAX),
        // Positions and groups are far from the ends.
        (DType::I64, true) => -((1i64 << 62) as f64),
        (DType::I64, false) => (1i64 << 62) as f64,
        (DType::Bool | DType::U8 | DType::U32, true) => 0.0,
        _ => return declined("the type has no last element"),
    };
    let last = match ty.dtype.is_float() {
        true => Tensor::of_floats(ty.dtype, Vec::new(), &[last])?,
        false => Tensor::of_ints(ty.dtype, Vec::new(), &[last as i64])?,
    };
    let last = edit.constant(last, &[]);
    let mut pads = vec![0; 2 * ty.rank()];
    pads[ty.rank() + axis] = added;
    let pads = edit.integers(&pads)?;
    let padded = edit.insert(Op::new(OpType::Pad, &[x, pads, last]));
    let op = Op::of(edit.node(index), vec![Some(padded), Some(count)]);
    edit.done(&[], op)
}

/// Writes the attributes of a window that have their defaults. rten does not know the defaults.
fn window(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    if !edit.has_limit(index, Limit::WindowDefaults) {
        return None;
    }
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
