//! Reads the input of a gate: `x·W + h·R + b`.

use std::ops::Range;

use algebra::rewrite::require;
use onnx::{DType, Edit, OpType, Tensor, ValueId};

use super::body::Body;

/// Some rows and columns of weights.
struct Part {
    /// `None` for the identity matrix.
    weights: Option<ValueId>,
    rows: Range<usize>,
    columns: Range<usize>,
    /// True if rows and columns refer to the transposed array.
    is_transposed: bool,
}

impl Part {
    /// Returns the transposed numbers: one row per column.
    fn transposed(&self, edit: &Edit<'_>, dtype: DType) -> Option<Tensor> {
        let (rows, columns) = (&self.rows, &self.columns);
        let Some(weights) = self.weights else {
            let places =
                columns.clone().flat_map(|column| rows.clone().map(move |row| (row, column)));
            let numbers: Vec<f64> =
                places.map(|(row, column)| f64::from(u8::from(row == column))).collect();
            let shape = vec![columns.len() as i64, rows.len() as i64];
            return Tensor::of_floats(dtype, shape, &numbers);
        };
        let [first, second] = if self.is_transposed { [columns, rows] } else { [rows, columns] };
        let starts = [first.start as i64, second.start as i64];
        let shape = [first.len() as i64, second.len() as i64];
        let part = edit.tensor(weights)?.sliced(&starts, &[1, 1], &shape)?;
        if self.is_transposed { Some(part) } else { part.transposed(&[1, 0]) }
    }
}

/// A sum of products and biases.
#[derive(Default)]
pub(super) struct Linear {
    of_input: Vec<Part>,
    of_state: Vec<Part>,
    /// Biases with ranges of their numbers. Those of `state_bias` are added to the product with the state.
    bias: Vec<(ValueId, Range<usize>)>,
    state_bias: Vec<(ValueId, Range<usize>)>,
    is_negated: bool,
}

/// A range of an array in a body, along the last axis, or along the first axis of a transposed matrix.
#[derive(Clone)]
struct Numbers {
    value: ValueId,
    range: Range<usize>,
    is_transposed: bool,
}

impl Linear {
    /// Reads `size` numbers of a value, starting at `start`, as such a sum.
    pub(super) fn of(
        body: &Body<'_>,
        (value, start): (ValueId, usize),
        state: ValueId,
        size: usize,
    ) -> Option<Linear> {
        let width = body.edit.ty(value)?.shape.last()?.known()?;
        let range = start..start + size;
        usize::try_from(width).is_ok_and(|width| range.end <= width).then_some(())?;
        let mut linear = Linear::default();
        linear.add(body, Numbers { value, range, is_transposed: false }, state)?;
        Some(linear)
    }

    /// Returns the sum with the other sign.
    pub(super) fn negated(self) -> Linear {
        Linear { is_negated: !self.is_negated, ..self }
    }

    /// True if there is a product with the state.
    pub(super) fn reads_state(&self) -> bool {
        !self.of_state.is_empty()
    }

    /// Combines a sum without the state and a sum without the input, whose biases belong to the state.
    pub(super) fn of_both(input: Linear, state: Linear) -> Option<Linear> {
        let may = input.of_state.is_empty() && state.of_input.is_empty();
        may.then_some(Linear {
            of_input: input.of_input,
            of_state: state.of_state,
            bias: input.bias,
            state_bias: state.bias,
            is_negated: false,
        })
    }

    fn add(&mut self, body: &Body<'_>, numbers: Numbers, state: ValueId) -> Option<()> {
        let Numbers { value, range, is_transposed } = numbers;
        if let Some(tensor) = body.edit.tensor(value).filter(|_| !is_transposed) {
            self.bias.push((value, bias_range(tensor, range)?));
            return Some(());
        }
        // The zeros of the identity matrix turn infinity into NaN. The guard excludes infinity.
        if Some(value) == body.input() && !is_transposed && body.edit.exact_nan() {
            let width = usize::try_from(body.edit.ty(value)?.shape.last()?.known()?).ok()?;
            let rows = 0..width;
            self.of_input.push(Part { weights: None, rows, columns: range, is_transposed });
            return Some(());
        }
        let node = body.maker(value)?;
        let width = |value: ValueId| {
            let shape = &body.edit.ty(value)?.shape;
            if is_transposed { shape.first()?.known() } else { shape.last()?.known() }
        };
        match node.op.onnx() {
            Some(OpType::Add) => {
                let operands = body.binary(OpType::Add, value)?;
                for operand in operands {
                    let is_whole =
                        body.edit.tensor(operand).is_some() || width(operand) == width(value);
                    require(is_whole)?;
                    let range = range.clone();
                    self.add(body, Numbers { value: operand, range, is_transposed }, state)?;
                }
                Some(())
            }
            Some(OpType::Split | OpType::Slice) => {
                let source = node.inputs[0]?;
                let start = body.start_of_part(node, value, is_transposed)?;
                let range = range.start + start..range.end + start;
                self.add(body, Numbers { value: source, range, is_transposed }, state)
            }
            Some(OpType::Transpose) => {
                let source = body.transposed(value)?;
                let is_transposed = !is_transposed;
                self.add(body, Numbers { value: source, range, is_transposed }, state)
            }
            Some(OpType::MatMul) => {
                let [a, b] = body.binary(OpType::MatMul, value)?;
                let rank = |value: ValueId| body.edit.ty(value).map(onnx::Type::rank);
                let is_matrix =
                    |value: ValueId| body.edit.tensor(value).is_some() && rank(value) == Some(2);
                if is_matrix(b) && !is_transposed {
                    return self.product(body, a, b, state, range, false);
                }
                let columns = if is_transposed { body.transposed(b)? } else { b };
                let is_column = is_transposed || rank(b) == Some(1);
                (is_column && is_matrix(a))
                    .then(|| self.product(body, columns, a, state, range, true))?
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
                let rank = body.edit.ty(operand)?.rank();
                require(node.axis(rank)? + 1 == rank)?;
                node.inputs.iter().copied().collect::<Option<_>>()?
            }
            None => vec![operand],
        };
        let mut row = 0;
        for part in parts {
            let depth = usize::try_from(body.edit.ty(part)?.shape.last()?.known()?).ok()?;
            let rows = row..row + depth;
            row += depth;
            let columns = columns.clone();
            let part_of_weights = Part { weights: Some(weights), rows, columns, is_transposed };
            match part {
                _ if part == state => self.of_state.push(part_of_weights),
                _ if Some(part) == body.input() => self.of_input.push(part_of_weights),
                _ => return None,
            }
        }
        Some(())
    }

    /// Returns the number of features of the input.
    pub(super) fn input_depth(&self) -> Option<usize> {
        self.of_input.first().map(|part| part.rows.len())
    }

    /// Returns the weights for the input and for the state, with one row per number of the gate, and the biases of both.
    pub(super) fn rows(
        &self,
        edit: &Edit<'_>,
        dtype: DType,
        size: usize,
        depth: usize,
    ) -> Option<([Tensor; 2], [Vec<f64>; 2])> {
        let sign = if self.is_negated { -1.0 } else { 1.0 };
        let rows = |parts: &[Part], depth| sum_of_parts(edit, parts, dtype, [size, depth], sign);
        let bias = |biases| sum_of_biases(edit, biases, size, sign);
        let weights = [rows(&self.of_input, depth)?, rows(&self.of_state, size)?];
        Some((weights, [bias(&self.bias)?, bias(&self.state_bias)?]))
    }

    /// Returns the arrays of its weights and biases.
    pub(super) fn sources(&self) -> Vec<ValueId> {
        let parts = self.of_input.iter().chain(&self.of_state).filter_map(|part| part.weights);
        let biases = self.bias.iter().chain(&self.state_bias).map(|(bias, _)| *bias);
        parts.chain(biases).collect()
    }
}

/// Returns the range of a bias for these columns. A single number applies to all columns.
fn bias_range(tensor: &Tensor, columns: Range<usize>) -> Option<Range<usize>> {
    let leading = tensor.shape.split_last().map_or(&[][..], |(_, leading)| leading);
    require(!leading.iter().any(|&size| size != 1))?;
    match tensor.len() {
        1 => Some(0..1),
        length => (columns.end <= length).then_some(columns),
    }
}

/// Returns the transposed sum of parts of weights, each `depth` by `size`.
fn sum_of_parts(
    edit: &Edit<'_>,
    parts: &[Part],
    dtype: DType,
    [size, depth]: [usize; 2],
    sign: f64,
) -> Option<Tensor> {
    let fits = |part: &Part| part.rows.len() == depth && part.columns.len() == size;
    require(parts.iter().all(fits))?;
    let shape = vec![size as i64, depth as i64];
    if let ([part], true) = (parts, sign > 0.0) {
        return part.transposed(edit, dtype).filter(|tensor| tensor.dtype == dtype);
    }
    let mut sum = vec![0.0; size * depth];
    for part in parts {
        let numbers = part.transposed(edit, dtype)?.floats()?;
        sum.iter_mut().zip(numbers).for_each(|(total, number)| *total += sign * number);
    }
    Tensor::of_floats(dtype, shape, &sum)
}

fn sum_of_biases(
    edit: &Edit<'_>,
    biases: &[(ValueId, Range<usize>)],
    size: usize,
    sign: f64,
) -> Option<Vec<f64>> {
    let mut sum = vec![0.0; size];
    for (bias, range) in biases {
        let numbers = edit.tensor(*bias)?.floats()?;
        let numbers = numbers.get(range.clone())?;
        for (total, number) in sum.iter_mut().zip(numbers.iter().cycle()) {
            *total += sign * number;
        }
    }
    Some(sum)
}
