//! What goes into a gate: `x·W + h·R + b`.

use std::ops::Range;

use onnx::{DType, Edit, OpType, Tensor, ValueId};

use crate::access::{axes_from_front, axis_of};

use super::body::Body;

/// Some rows and columns of weights.
struct Part {
    weights: ValueId,
    rows: Range<usize>,
    columns: Range<usize>,
    /// Whether rows and columns are those of the transposed array.
    is_transposed: bool,
}

impl Part {
    /// Returns the transposed numbers, a row for each column.
    fn transposed(&self, edit: &Edit<'_>) -> Option<Tensor> {
        let (rows, columns) = (&self.rows, &self.columns);
        let [first, second] = if self.is_transposed { [columns, rows] } else { [rows, columns] };
        let starts = [first.start as i64, second.start as i64];
        let shape = [first.len() as i64, second.len() as i64];
        let part = edit.tensor(self.weights)?.sliced(&starts, &[1, 1], &shape)?;
        if self.is_transposed { Some(part) } else { part.transposed(&[1, 0]) }
    }
}

/// A sum of products and biases.
#[derive(Default)]
pub(super) struct Linear {
    of_input: Vec<Part>,
    of_state: Vec<Part>,
    /// Biases, and which of their numbers; those of `before_reset` are added to the product with the
    /// state.
    bias: Vec<(ValueId, Range<usize>)>,
    state_bias: Vec<(ValueId, Range<usize>)>,
}

impl Linear {
    /// Reads a value of `size` numbers as such a sum.
    pub(super) fn of(
        body: &Body<'_>,
        value: ValueId,
        hidden: usize,
        size: usize,
    ) -> Option<Linear> {
        let width = body.ty(value)?.shape.last()?.known()?;
        let is_whole = usize::try_from(width) == Ok(size);
        is_whole.then_some(())?;
        let mut linear = Linear::default();
        linear.add(body, value, body.carry(hidden), 0..size)?;
        Some(linear)
    }

    /// One sum without the state, and one without the input whose biases belong to the state.
    pub(super) fn of_both(input: Linear, state: Linear) -> Option<Linear> {
        let may = input.of_state.is_empty() && state.of_input.is_empty();
        may.then_some(Linear {
            of_input: input.of_input,
            of_state: state.of_state,
            bias: input.bias,
            state_bias: state.bias,
        })
    }

    fn add(
        &mut self,
        body: &Body<'_>,
        value: ValueId,
        state: ValueId,
        columns: Range<usize>,
    ) -> Option<()> {
        if let Some(tensor) = body.tensor(value) {
            self.bias.push((value, bias_range(tensor, columns)?));
            return Some(());
        }
        let node = body.maker(value)?;
        let width = |value: ValueId| body.ty(value)?.shape.last()?.known();
        match node.op.onnx() {
            Some(OpType::Add) => {
                let operands = body.binary(OpType::Add, value)?;
                for operand in operands {
                    let is_whole = body.tensor(operand).is_some() || width(operand) == width(value);
                    is_whole.then_some(())?;
                    self.add(body, operand, state, columns.clone())?;
                }
                Some(())
            }
            Some(OpType::Split | OpType::Slice) => {
                let source = node.inputs[0]?;
                let start = start_on_last_axis(body, node, value)?;
                self.add(body, source, state, columns.start + start..columns.end + start)
            }
            Some(OpType::MatMul) => {
                let [a, b] = body.binary(OpType::MatMul, value)?;
                let rank = |value: ValueId| body.ty(value).map(onnx::Type::rank);
                let is_matrix =
                    |value: ValueId| body.tensor(value).is_some() && rank(value) == Some(2);
                if is_matrix(b) {
                    return self.product(body, a, b, state, columns, false);
                }
                let is_vector = rank(b) == Some(1) && is_matrix(a);
                is_vector.then(|| self.product(body, b, a, state, columns, true))?
            }
            _ => None,
        }
    }

    fn product(
        &mut self,
        body: &Body<'_>,
        operand: ValueId,
        weights: ValueId,
        state: ValueId,
        columns: Range<usize>,
        is_transposed: bool,
    ) -> Option<()> {
        let concat = body.maker(operand).filter(|node| node.op == OpType::Concat);
        let parts: Vec<ValueId> = match concat {
            Some(node) => {
                let rank = body.ty(operand)?.rank();
                (axis_of(node, rank)? + 1 == rank).then_some(())?;
                node.inputs.iter().copied().collect::<Option<_>>()?
            }
            None => vec![operand],
        };
        let mut row = 0;
        for part in parts {
            let depth = usize::try_from(body.ty(part)?.shape.last()?.known()?).ok()?;
            let rows = row..row + depth;
            row += depth;
            let part_of_weights = Part { weights, rows, columns: columns.clone(), is_transposed };
            match part {
                _ if part == state => self.of_state.push(part_of_weights),
                _ if Some(part) == body.input() => self.of_input.push(part_of_weights),
                _ => return None,
            }
        }
        Some(())
    }

    /// How many numbers the input has.
    pub(super) fn input_depth(&self) -> Option<usize> {
        self.of_input.first().map(|part| part.rows.len())
    }

    /// One row for each number of the gate.
    pub(super) fn input_rows(
        &self,
        edit: &Edit<'_>,
        dtype: DType,
        size: usize,
        depth: usize,
    ) -> Option<Tensor> {
        sum_of_parts(edit, &self.of_input, dtype, [size, depth])
    }

    pub(super) fn state_rows(&self, edit: &Edit<'_>, dtype: DType, size: usize) -> Option<Tensor> {
        sum_of_parts(edit, &self.of_state, dtype, [size, size])
    }

    pub(super) fn input_bias(&self, edit: &Edit<'_>, size: usize) -> Option<Vec<f64>> {
        sum_of_biases(edit, &self.bias, size)
    }

    pub(super) fn state_bias(&self, edit: &Edit<'_>, size: usize) -> Option<Vec<f64>> {
        sum_of_biases(edit, &self.state_bias, size)
    }

    /// The arrays that it is made of.
    pub(super) fn sources(&self) -> Vec<ValueId> {
        let parts = self.of_input.iter().chain(&self.of_state).map(|part| part.weights);
        let biases = self.bias.iter().chain(&self.state_bias).map(|(bias, _)| *bias);
        parts.chain(biases).collect()
    }
}

/// Which numbers of a bias those columns are; one number may stand for all.
fn bias_range(tensor: &Tensor, columns: Range<usize>) -> Option<Range<usize>> {
    let leading = tensor.shape.split_last().map_or(&[][..], |(_, leading)| leading);
    if leading.iter().any(|&size| size != 1) {
        return None;
    }
    match tensor.len() {
        1 => Some(0..1),
        length => (columns.end <= length).then_some(columns),
    }
}

/// Where a part of an array along its last axis begins.
fn start_on_last_axis(body: &Body<'_>, node: &onnx::Node, value: ValueId) -> Option<usize> {
    let rank = body.ty(value)?.rank();
    let ints = |operand: usize| body.tensor(node.inputs.get(operand).copied()??)?.ints();
    let start = if node.op == OpType::Split {
        (axis_of(node, rank)? + 1 == rank).then_some(())?;
        let before = node.outputs.iter().take_while(|&&output| output != value);
        let widths = before.map(|&output| body.ty(output)?.shape.last()?.known());
        widths.sum::<Option<i64>>()?
    } else {
        let (starts, axes) = (ints(1)?, axes_from_front(&ints(3)?, rank)?);
        let is_stepped = node.inputs.len() > 4 && ints(4)? != [1];
        match (&starts[..], &axes[..]) {
            (&[start], &[axis]) if axis + 1 == rank && start >= 0 && !is_stepped => start,
            _ => return None,
        }
    };
    usize::try_from(start).ok()
}

/// The transposed sum of parts of weights, each `depth` by `size`.
fn sum_of_parts(
    edit: &Edit<'_>,
    parts: &[Part],
    dtype: DType,
    [size, depth]: [usize; 2],
) -> Option<Tensor> {
    let fits = |part: &Part| part.rows.len() == depth && part.columns.len() == size;
    if !parts.iter().all(fits) {
        return None;
    }
    let shape = vec![size as i64, depth as i64];
    if let [part] = parts {
        return part.transposed(edit).filter(|tensor| tensor.dtype == dtype);
    }
    let mut sum = vec![0.0; size * depth];
    for part in parts {
        let numbers = part.transposed(edit)?.floats()?;
        sum.iter_mut().zip(numbers).for_each(|(total, number)| *total += number);
    }
    Tensor::of_floats(dtype, shape, &sum)
}

fn sum_of_biases(
    edit: &Edit<'_>,
    biases: &[(ValueId, Range<usize>)],
    size: usize,
) -> Option<Vec<f64>> {
    let mut sum = vec![0.0; size];
    for (bias, range) in biases {
        let numbers = edit.tensor(*bias)?.floats()?;
        let numbers = numbers.get(range.clone())?;
        for (total, number) in sum.iter_mut().zip(numbers.iter().cycle()) {
            *total += number;
        }
    }
    Some(sum)
}
