//! Scatters in the forms that a runtime takes.

use onnx::kernels::Limit;
use onnx::{Attr, DType, Dim, Expr, Op, OpType, Outcome, Patch, Tensor, ValueId, declined};

pub(super) fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    if edit.has_limit(index, Limit::ScatterCombines) {
        return combined(edit);
    }
    if edit.has_limit(index, Limit::ScatterInnerSlices) {
        return slices(edit);
    }
    if edit.has_limit(index, Limit::ScatterEntry) {
        return entry(edit);
    }
    None
}

/// Writes a scatter of one entry as a scatter of a list of entries.
fn entry(edit: &mut Patch<'_, '_>) -> Outcome {
    let (x, indices, updates) = operands(edit)?;
    let front = edit.integers(&[0])?;
    let [indices, updates] =
        [indices, updates].map(|it| edit.insert(Op::new(OpType::Unsqueeze, &[it, front])));
    let op = Op::of(edit.node(edit.root()), vec![Some(x), Some(indices), Some(updates)]);
    edit.done(&[], op)
}

/// The operands of a `ScatterND` with the indexed axes as one: the array, the list of indices, and the slices.
struct Flat {
    x: ValueId,
    indices: ValueId,
    updates: ValueId,
    /// The number of places, the number of indices, and the shape of a slice.
    places: i64,
    count: i64,
    slice: Vec<i64>,
}

/// Writes a scatter of slices with indices of several axes as one with indices of one axis.
fn slices(edit: &mut Patch<'_, '_>) -> Outcome {
    let result = edit.node(edit.root()).outputs[0];
    let Some(shape) = sizes(edit, result) else {
        return declined("the sizes of the array are not known");
    };
    let flat = flatten(edit)?;
    let column = edit.integers(&[1])?;
    let indices = edit.insert(Op::new(OpType::Unsqueeze, &[flat.indices, column]));
    let list = vec![Some(flat.x), Some(indices), Some(flat.updates)];
    let op = Op::of(edit.node(edit.root()), list);
    let made = edit.insert(op);
    let shape = edit.integers(&shape)?;
    edit.done(&[], Op::new(OpType::Reshape, &[made, shape]))
}

/// Joins the indexed axes. Returns `None` if a size is not known.
fn flatten(edit: &mut Patch<'_, '_>) -> Option<Flat> {
    let (x, indices, updates) = operands(edit)?;
    let (shape, list) = (sizes(edit, x)?, sizes(edit, indices)?);
    let (&depth, list) = list.split_last()?;
    let (indexed, slice) = shape.split_at_checked(usize::try_from(depth).ok()?)?;
    let (places, count) = (indexed.iter().product::<i64>(), list.iter().product::<i64>());
    let strides: Vec<i64> = (1..=indexed.len()).map(|at| indexed[at..].iter().product()).collect();
    let flat_indices = if indexed.len() == 1 {
        indices
    } else {
        let dtype = edit.ty(indices)?.dtype;
        let strides = Tensor::of_ints(dtype, vec![depth], &strides)?;
        let strides = edit.constant(strides, &[]);
        let places = edit.insert(Op::new(OpType::Mul, &[indices, strides]));
        let last = edit.integers(&[list.len() as i64])?;
        edit.insert(Op::new(OpType::ReduceSum, &[places, last]).attr("keepdims", 0))
    };
    let mut reshaped = |value: ValueId, shape: &[i64]| {
        let shape = edit.integers(shape)?;
        Some(edit.insert(Op::new(OpType::Reshape, &[value, shape])))
    };
    let indices = reshaped(flat_indices, &[count])?;
    let rows = |count: i64| [&[count], slice].concat();
    let (x, updates) = (reshaped(x, &rows(places))?, reshaped(updates, &rows(count))?);
    Some(Flat { x, indices, updates, places, count, slice: slice.to_vec() })
}

/// The most elements of the table in which each place meets each update.
const MAX_TABLE: i64 = 1 << 20;

/// Writes a scatter that combines numbers as a reduction: each place meets each update, and drops those of other places.
fn combined(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let reduction = match edit.node(index).attr("reduction") {
        Some(Attr::Str(reduction)) => reduction.to_string(),
        _ => return None,
    };
    let result = edit.node(index).outputs[0];
    let Some(shape) = sizes(edit, result) else {
        return declined("the sizes of the array are not known");
    };
    let table = if edit.node(index).op == OpType::ScatterND {
        let flat = flatten(edit)?;
        // The axes are the places, the updates, and those of a slice.
        let rank = flat.slice.len();
        let size = flat.places * flat.count * flat.slice.iter().product::<i64>();
        let [index_axes, update_axes] = [(0..1).chain(2..2 + rank).collect(), vec![0]];
        Table {
            x: flat.x,
            places: flat.places,
            axis: 0,
            size,
            index_axes,
            update_axes,
            ..Table::of(flat.indices, flat.updates)
        }
    } else {
        let (x, indices, updates) = operands(edit)?;
        let (of_x, of_indices) = (sizes(edit, x)?, sizes(edit, indices)?);
        let axis = match edit.node(index).attr("axis") {
            Some(&Attr::Int(axis)) => onnx::infer::axis_from_front(axis, of_x.len())?,
            _ => 0,
        };
        let others = |sizes: &[i64]| [&sizes[..axis], &sizes[axis + 1..]].concat();
        if others(&of_x) != others(&of_indices) {
            return declined("the updates do not cover the other axes");
        }
        let size = of_x[axis] * of_indices.iter().product::<i64>();
        Table {
            x,
            places: of_x[axis],
            axis,
            size,
            index_axes: vec![axis],
            update_axes: vec![axis],
            ..Table::of(indices, updates)
        }
    };
    if table.size > MAX_TABLE {
        return declined("the array or the list of updates is large");
    }
    let made = table.combine(edit, &reduction, &shape)?;
    edit.settle(made)
}

/// A table of the places and the updates that meet there.
struct Table {
    x: ValueId,
    indices: ValueId,
    updates: ValueId,
    places: i64,
    /// The axis of the places. The axis of the updates follows.
    axis: usize,
    size: i64,
    /// The axes of the table that the indices lack, and those that the updates lack.
    index_axes: Vec<usize>,
    update_axes: Vec<usize>,
}

impl Table {
    fn of(indices: ValueId, updates: ValueId) -> Table {
        let [index_axes, update_axes] = [Vec::new(), Vec::new()];
        Table { x: indices, indices, updates, places: 0, axis: 0, size: 0, index_axes, update_axes }
    }

    fn combine(
        &self,
        edit: &mut Patch<'_, '_>,
        reduction: &str,
        shape: &[i64],
    ) -> Option<Result<onnx::Replacement, onnx::Declined>> {
        let dtype = edit.ty(self.indices)?.dtype;
        let numbers: Vec<i64> = (0..self.places).collect();
        let rank = edit.ty(self.indices)?.rank() + self.index_axes.len();
        let mut column = vec![1; rank];
        column[self.axis] = self.places;
        let numbers = edit.constant(Tensor::of_ints(dtype, column, &numbers)?, &[]);
        let of_x = edit.ty(self.x)?.dtype;
        let (start, op): (f64, OpType) = match reduction {
            "add" => (0.0, OpType::ReduceSum),
            "mul" => (1.0, OpType::ReduceProd),
            "max" => (lowest(of_x)?, OpType::ReduceMax),
            "min" => (highest(of_x)?, OpType::ReduceMin),
            _ => return None,
        };
        // A runtime may round the ends of integers when it compares them.
        let is_extreme = matches!(reduction, "max" | "min");
        let is_start = is_extreme && edit.number(self.x) == Some(start);
        let shape: Vec<Dim> = shape.iter().map(|&size| Dim::Known(size)).collect();
        let operands = [self.x, self.indices, self.updates, numbers];
        Some(edit.formula(operands, |[x, indices, updates, numbers]| {
            let distance = numbers - indices.unsqueeze(&self.index_axes);
            let is_there = distance.equal(0.0);
            let updates = updates.unsqueeze(&self.update_axes);
            let met = is_there.select(updates, updates.constant(start));
            let met = met.reduce(op, &[self.axis + 1], false);
            let both: Expr<'_> = match op {
                _ if is_start => met,
                OpType::ReduceSum => x + met,
                OpType::ReduceProd => x * met,
                OpType::ReduceMax => x.max(met),
                _ => x.min(met),
            };
            both.reshape(&shape)
        }))
    }
}

fn operands(edit: &Patch<'_, '_>) -> Option<(ValueId, ValueId, ValueId)> {
    let operand = |at| edit.input(edit.root(), at);
    Some((operand(0)?, operand(1)?, operand(2)?))
}

fn sizes(edit: &Patch<'_, '_>, value: ValueId) -> Option<Vec<i64>> {
    edit.ty(value)?.shape.iter().map(Dim::known).collect()
}

fn lowest(dtype: DType) -> Option<f64> {
    match dtype {
        DType::I32 => Some(f64::from(i32::MIN)),
        DType::I64 => Some(i64::MIN as f64),
        DType::U8 | DType::U32 => Some(0.0),
        dtype if dtype.is_float() => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

fn highest(dtype: DType) -> Option<f64> {
    match dtype {
        DType::I32 => Some(f64::from(i32::MAX)),
        DType::U8 => Some(f64::from(u8::MAX)),
        DType::U32 => Some(f64::from(u32::MAX)),
        dtype if dtype.is_float() => Some(f64::INFINITY),
        _ => None,
    }
}
