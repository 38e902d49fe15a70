//! `fuse-recurrent`: a `Scan` that is exactly a recurrent network of ONNX.
//!
//! The body is read as formulas. What goes into a gate is a sum of products of the input and of the
//! state with columns of weights, and of biases; the gates themselves have to be those of `LSTM` or
//! `GRU`, activations and order of operations included. The runtime computes the products with the
//! inputs of all steps at once.

mod body;
mod gru;
mod linear;
mod lstm;
#[cfg(test)]
mod tests;

use onnx::kernels::{Support, support};
use onnx::{Attr, DType, Dim, Edit, Op, OpType, Tensor, Type, ValueId};

use crate::rewrite::Declined;
use body::Body;
use linear::Linear;

pub(crate) fn run(edit: &mut Edit<'_>) {
    for index in 0..edit.len() {
        let node = edit.node(index);
        if node.op != OpType::Scan {
            continue;
        }
        let Some(found) = find(edit, index) else {
            continue;
        };
        let declined = fuse(edit, index, &found).err().map(|Declined(why)| why);
        edit.note("fuse-recurrent", index, declined);
    }
}

/// A cell that was found in the body of a scan.
struct Cell {
    op: OpType,
    /// What goes into each gate, in ONNX's order, and the size of the state.
    gates: Vec<Linear>,
    size: usize,
    /// Which carries are the hidden state and, of an `LSTM`, the memory.
    hidden: usize,
    memory: Option<usize>,
    attrs: Vec<(&'static str, Attr)>,
}

fn find(edit: &Edit<'_>, index: usize) -> Option<Cell> {
    let body = Body::of(edit, index)?;
    let cell = lstm::find(&body).or_else(|| gru::find(&body))?;
    // Whatever is given out at each step has to be the hidden state.
    let carries = body.carries();
    let hidden = body.output(cell.hidden)?;
    let outputs = carries..edit.node(index).outputs.len();
    let is_hidden = |output| body.output(output) == Some(hidden);
    outputs.into_iter().all(is_hidden).then_some(cell)
}

fn fuse(edit: &mut Edit<'_>, index: usize, cell: &Cell) -> Result<(), Declined> {
    let carries = if cell.memory.is_some() { 2 } else { 1 };
    let unknown = || Declined::from("a type is not known");
    let x = edit.input(index, carries).ok_or_else(unknown)?;
    let ty = edit.ty(x).cloned().ok_or_else(unknown)?;
    match support(cell.op, edit.opset(), ty.dtype) {
        Support::Yes => {}
        _ => return Err(Declined(format!("the runtime has no {} of {}", cell.op, ty.dtype))),
    }
    let attrs = directions(edit, index, carries)?;
    let is_batched = ty.rank() == 3;
    let steps = ty.shape[0].clone();
    let batch = if is_batched { ty.shape[1].clone() } else { Dim::Known(1) };
    let size = Dim::Known(cell.size as i64);
    let weights = Weights::of(edit, cell, ty.dtype).ok_or("the weights are not all known")?;

    edit.fuse_bodies(index);
    let sources = weights.sources;
    let constant =
        |edit: &mut Edit<'_>, tensor: Tensor| edit.constant(index, &[], tensor, &sources);
    let w = constant(edit, weights.input);
    let r = constant(edit, weights.state);
    let b = constant(edit, weights.bias);
    let x = if is_batched { x } else { unsqueeze(edit, index, x, 1)? };
    let mut inputs = vec![Some(x), Some(w), Some(r), Some(b), None];
    for carry in std::iter::once(cell.hidden).chain(cell.memory) {
        let state = edit.input(index, carry).ok_or_else(unknown)?;
        let state = unsqueeze(edit, index, state, 0)?;
        inputs.push(Some(if is_batched { state } else { unsqueeze(edit, index, state, 0)? }));
    }
    let all = Type::new(ty.dtype, [steps, Dim::Known(1), batch.clone(), size.clone()]);
    let last = Type::new(ty.dtype, [Dim::Known(1), batch, size]);
    let mut types = vec![all, last.clone()];
    types.extend(cell.memory.map(|_| last));
    let mut op = Op { op: cell.op.into(), inputs, attrs };
    op.attrs.push(("hidden_size", Attr::Int(cell.size as i64)));
    op.attrs.extend(cell.attrs.iter().cloned());
    let made = edit.insert_all(index, &[], op, types);
    let results: Vec<ValueId> = (0..edit.node(index).outputs.len())
        .map(|output| match output {
            _ if output == cell.hidden => made[1],
            _ if Some(output) == cell.memory => made[2],
            _ => made[0],
        })
        .collect();
    for (output, made) in results.into_iter().enumerate() {
        let ty = edit.ty(edit.node(index).outputs[output]).cloned().ok_or_else(unknown)?;
        let is_step = output >= carries;
        let axes: &[i64] = match (is_step, is_batched) {
            (true, true) => &[1],
            (true, false) => &[1, 2],
            (false, true) => &[0],
            (false, false) => &[0, 1],
        };
        let axes =
            Tensor::of_ints(DType::I64, vec![axes.len() as i64], axes).ok_or_else(unknown)?;
        let axes = edit.constant(index, &[], axes, &[]);
        let result = edit.insert(index, &[], Op::new(OpType::Squeeze, &[made, axes]), ty);
        edit.replace_output(index, output, result);
    }
    Ok(())
}

/// Which way the scan runs. Inputs and outputs have to run the same way.
fn directions(
    edit: &Edit<'_>,
    index: usize,
    carries: usize,
) -> Result<Vec<(&'static str, Attr)>, Declined> {
    let node = edit.node(index);
    let steps = node.outputs.len() - carries;
    let runs = |name: &str, count: usize| match node.attr(name) {
        Some(Attr::Ints(ways)) => ways.to_vec(),
        _ => vec![0; count],
    };
    let mut ways = runs("scan_input_directions", 1);
    ways.extend(runs("scan_output_directions", steps));
    let is_axis = |name: &str| node.attr(name).is_some();
    if is_axis("scan_input_axes") || is_axis("scan_output_axes") {
        return Err("it runs over another axis than the first".into());
    }
    match &ways[..] {
        ways if ways.iter().all(|&way| way == 0) => Ok(Vec::new()),
        ways if ways.iter().all(|&way| way == 1) => Ok(vec![("direction", "reverse".into())]),
        _ => Err("its inputs and outputs run in different directions".into()),
    }
}

fn unsqueeze(
    edit: &mut Edit<'_>,
    index: usize,
    value: ValueId,
    axis: usize,
) -> Result<ValueId, Declined> {
    let ty = edit.ty(value).cloned().ok_or("a type is not known")?;
    let mut shape = ty.shape.to_vec();
    shape.insert(axis, Dim::Known(1));
    let axes = Tensor::of_ints(DType::I64, vec![1], &[axis as i64]).ok_or("no axes")?;
    let axes = edit.constant(index, &[], axes, &[]);
    let op = Op::new(OpType::Unsqueeze, &[value, axes]);
    Ok(edit.insert(index, &[], op, Type::new(ty.dtype, shape)))
}

/// The weights as ONNX has them: the gates below each other, one row for each of their numbers.
struct Weights {
    input: Tensor,
    state: Tensor,
    bias: Tensor,
    sources: Vec<ValueId>,
}

impl Weights {
    fn of(edit: &Edit<'_>, cell: &Cell, dtype: DType) -> Option<Weights> {
        let depth = cell.gates.iter().find_map(|gate| gate.input_depth())?;
        let rows = (cell.gates.len() * cell.size) as i64;
        let (mut input, mut state) = (Vec::new(), Vec::new());
        let (mut of_input, mut of_state) = (Vec::new(), Vec::new());
        for gate in &cell.gates {
            input.extend(gate.input_rows(edit, cell.size, depth)?);
            state.extend(gate.state_rows(edit, cell.size)?);
            of_input.extend(gate.input_bias(edit, cell.size)?);
            of_state.extend(gate.state_bias(edit, cell.size)?);
        }
        let bias = [of_input, of_state].concat();
        let size = cell.size as i64;
        Some(Weights {
            input: Tensor::of_floats(dtype, vec![1, rows, depth as i64], &input)?,
            state: Tensor::of_floats(dtype, vec![1, rows, size], &state)?,
            bias: Tensor::of_floats(dtype, vec![1, 2 * rows], &bias)?,
            sources: cell.gates.iter().flat_map(Linear::sources).collect(),
        })
    }
}
