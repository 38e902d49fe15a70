//! Evaluates small graphs, so that tests can compare the numbers before and after a rewrite.

use onnx::operator::properties::RESHAPES;
use onnx::{DType, Dim, Model, Node, OpType, Tensor, ValueId};
use rustc_hash::FxHashMap;

/// Results of operators for which JAX and ONNX Runtime differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Semantics {
    /// `0` is larger than `−0`, and `Where` returns the chosen operand unchanged.
    Jax,
    /// As in ONNX Runtime 1.31: `Relu` and `Clip` return `−0` unchanged, `Where` returns `0` for a `−0` whose condition is
    /// true, and `Max` and `Min` return the zero of either operand.
    Runtime { returns_first_zero: bool },
    /// The sum of the absolute values of all terms, in double precision. It bounds rounding errors.
    Magnitude,
}

/// An array whose numbers are stored as doubles.
#[derive(Clone, Debug)]
pub struct Array {
    pub dtype: DType,
    pub shape: Vec<usize>,
    pub elements: Vec<f64>,
}

impl Array {
    pub fn new(dtype: DType, shape: &[usize], elements: &[f64]) -> Array {
        let elements = elements.iter().map(|&element| stored(dtype, element)).collect();
        Array { dtype, shape: shape.to_vec(), elements }
    }

    fn of_tensor(tensor: &Tensor, semantics: Semantics) -> Array {
        let ints = || tensor.ints().map(|ints| ints.into_iter().map(|int| int as f64).collect());
        let elements: Vec<f64> = tensor.floats().or_else(ints).expect("numbers");
        let size =
            |element: f64| if semantics == Semantics::Magnitude { element.abs() } else { element };
        Array {
            dtype: tensor.dtype,
            shape: tensor.shape.iter().map(|&size| size as usize).collect(),
            elements: elements.into_iter().map(size).collect(),
        }
    }

    /// Broadcasts the elements to a shape.
    fn broadcast(&self, shape: &[usize]) -> Vec<f64> {
        let lead = shape.len() - self.shape.len();
        let count: usize = shape.iter().product();
        let element = |place: usize| {
            let (mut rest, mut index, mut stride) = (place, 0, 1);
            for axis in (0..shape.len()).rev() {
                let along = rest % shape[axis];
                rest /= shape[axis];
                if let Some(own) = axis.checked_sub(lead) {
                    index += along.min(self.shape[own] - 1) * stride;
                    stride *= self.shape[own];
                }
            }
            self.elements[index]
        };
        (0..count).map(element).collect()
    }
}

/// Rounds or wraps a number to a type.
fn stored(dtype: DType, number: f64) -> f64 {
    match dtype {
        DType::F64 => number,
        DType::F32 => f64::from(number as f32),
        DType::Bool => f64::from(u8::from(number != 0.0)),
        _ if dtype.is_float() => {
            let one = Tensor::of_floats(dtype, Vec::new(), &[number]).and_then(|one| one.floats());
            one.expect("a float")[0]
        }
        _ => {
            let one =
                Tensor::of_ints(dtype, Vec::new(), &[number as i64]).and_then(|one| one.ints());
            one.expect("an integer")[0] as f64
        }
    }
}

/// Returns the outputs of a graph.
pub fn interpret(model: &Model, inputs: &[Array], semantics: Semantics) -> Vec<Array> {
    let mut known: FxHashMap<ValueId, Array> = FxHashMap::default();
    known.extend(model.graph.inputs.iter().copied().zip(inputs.iter().cloned()));
    let value = |known: &FxHashMap<ValueId, Array>, id: ValueId| {
        let constant =
            || Array::of_tensor(model.values[id].tensor.as_ref().expect("a value"), semantics);
        known.get(&id).cloned().unwrap_or_else(constant)
    };
    for node in &model.graph.nodes {
        let operands: Vec<Array> =
            node.inputs.iter().flatten().map(|&id| value(&known, id)).collect();
        let ty = model.values[node.outputs[0]].ty.as_ref().expect("a type");
        let shape: Option<Vec<i64>> = ty.shape.iter().map(Dim::known).collect();
        let shape: Vec<usize> = shape.expect("sizes").iter().map(|&size| size as usize).collect();
        let elements = computed(node, &operands, ty.dtype, &shape, semantics);
        let result = match semantics {
            Semantics::Magnitude => Array { dtype: ty.dtype, shape, elements },
            _ => Array::new(ty.dtype, &shape, &elements),
        };
        known.insert(node.outputs[0], result);
    }
    model.graph.outputs.iter().map(|&id| value(&known, id)).collect()
}

fn computed(
    node: &Node,
    operands: &[Array],
    dtype: DType,
    shape: &[usize],
    semantics: Semantics,
) -> Vec<f64> {
    let op = node.op.onnx().expect("an operator of ONNX");
    match op {
        _ if op == OpType::Identity || op.is(RESHAPES) => operands[0].elements.clone(),
        OpType::Expand => operands[0].broadcast(shape),
        OpType::MatMul => product(operands, shape[shape.len() - 1], semantics),
        OpType::Conv => convolution(operands, semantics),
        _ => {
            let wide: Vec<Vec<f64>> =
                operands.iter().map(|operand| operand.broadcast(shape)).collect();
            let from = operands[0].dtype;
            let count: usize = shape.iter().product();
            let element = |place: usize| {
                let numbers: Vec<f64> = wide.iter().map(|operand| operand[place]).collect();
                match (op, &numbers[..]) {
                    (OpType::Cast, &[x]) => cast(x, from, dtype),
                    _ if semantics == Semantics::Magnitude => magnitude(op, &numbers),
                    _ if dtype.is_int() && op != OpType::Where => of_ints(op, &numbers),
                    _ => of_floats(op, &numbers, semantics),
                }
            };
            (0..count).map(element).collect()
        }
    }
}

fn cast(x: f64, from: DType, to: DType) -> f64 {
    // A number that is out of range becomes the smallest integer.
    let is_beyond = from.is_float() && to == DType::I32 && (x.is_nan() || x.abs() >= 2f64.powi(31));
    if is_beyond { f64::from(i32::MIN) } else { x }
}

fn of_ints(op: OpType, numbers: &[f64]) -> f64 {
    let ints: Vec<i64> = numbers.iter().map(|&number| number as i64).collect();
    let result = match (op, &ints[..]) {
        (OpType::Add, [a, b]) => a + b,
        (OpType::Sub, [a, b]) => a - b,
        // A double represents the low half exactly.
        (OpType::Mul, [a, b]) => i64::from((a * b) as i32),
        (OpType::Div, [a, b]) => a / b,
        (OpType::Neg, [a]) => -a,
        (OpType::Abs, [a]) => a.abs(),
        (OpType::Sign, [a]) => a.signum(),
        (OpType::Max, [a, b]) => *a.max(b),
        (OpType::Min, [a, b]) => *a.min(b),
        (OpType::Relu, [a]) => *a.max(&0),
        (OpType::Clip, [a, low, high]) => *a.max(low).min(high),
        _ => panic!("{op:?} of integers is not interpreted"),
    };
    result as f64
}

/// Returns the result of an operator on floats or booleans.
fn of_floats(op: OpType, numbers: &[f64], semantics: Semantics) -> f64 {
    let flag = |holds: bool| f64::from(u8::from(holds));
    let is_jax = semantics == Semantics::Jax;
    match (op, numbers) {
        (OpType::Add, [a, b]) => a + b,
        (OpType::Sub, [a, b]) => a - b,
        (OpType::Mul, [a, b]) => a * b,
        (OpType::Div, [a, b]) => a / b,
        (OpType::Reciprocal, [a]) => 1.0 / a,
        (OpType::Neg, [a]) => -a,
        (OpType::Abs, [a]) => a.abs(),
        (OpType::Sqrt, [a]) => a.sqrt(),
        (OpType::Exp, [a]) => a.exp(),
        (OpType::Sign, [a]) if *a == 0.0 || a.is_nan() => *a,
        (OpType::Sign, [a]) => a.signum(),
        (OpType::Max | OpType::Min, &[a, b]) => extreme(op, a, b, semantics),
        (OpType::Relu, &[a]) if is_jax => extreme(OpType::Max, a, 0.0, semantics),
        (OpType::Relu, &[a]) => {
            if a < 0.0 {
                0.0
            } else {
                a
            }
        }
        (OpType::Clip, &[a, low, high]) if is_jax => {
            extreme(OpType::Min, extreme(OpType::Max, a, low, semantics), high, semantics)
        }
        (OpType::Clip, &[a, low, high]) => {
            let raised = if a < low { low } else { a };
            if high < raised { high } else { raised }
        }
        (OpType::Where, &[condition, x, y]) => match (condition != 0.0, is_jax) {
            (false, _) => y,
            (true, false) if x == 0.0 => 0.0,
            (true, _) => x,
        },
        (OpType::Equal, [a, b]) => flag(a == b),
        (OpType::Less, [a, b]) => flag(a < b),
        (OpType::LessOrEqual, [a, b]) => flag(a <= b),
        (OpType::Greater, [a, b]) => flag(a > b),
        (OpType::GreaterOrEqual, [a, b]) => flag(a >= b),
        (OpType::Not, [a]) => flag(*a == 0.0),
        (OpType::And, [a, b]) => flag(*a != 0.0 && *b != 0.0),
        (OpType::Or, [a, b]) => flag(*a != 0.0 || *b != 0.0),
        (OpType::Xor, [a, b]) => flag(a != b),
        _ => panic!("{op:?} is not interpreted"),
    }
}

/// Returns the larger or the smaller number. NaN if either number is NaN.
fn extreme(op: OpType, a: f64, b: f64, semantics: Semantics) -> f64 {
    let are_zeros = a == 0.0 && b == 0.0;
    let is_second = match semantics {
        _ if a.is_nan() || b.is_nan() => b.is_nan(),
        Semantics::Runtime { returns_first_zero } if are_zeros => !returns_first_zero,
        _ if op == OpType::Max => b.total_cmp(&a).is_gt(),
        _ => b.total_cmp(&a).is_lt(),
    };
    if is_second { b } else { a }
}

fn magnitude(op: OpType, sizes: &[f64]) -> f64 {
    match (op, sizes) {
        (OpType::Add | OpType::Sub, [a, b]) => a + b,
        (OpType::Mul, [a, b]) => a * b,
        (OpType::Div, [a, b]) => a / b,
        _ => panic!("{op:?} has no magnitude"),
    }
}

/// Returns a sum in single precision, term by term.
fn sum(terms: impl Iterator<Item = f64>, semantics: Semantics) -> f64 {
    let rounded = |number: f64| match semantics {
        Semantics::Magnitude => number,
        _ => stored(DType::F32, number),
    };
    terms.fold(0.0, |sum, term| rounded(sum + rounded(term)))
}

/// Returns a product with a matrix of `columns` columns.
fn product(operands: &[Array], columns: usize, semantics: Semantics) -> Vec<f64> {
    let rows: Vec<&[f64]> = operands[1].elements.chunks_exact(columns).collect();
    let entry = |of_x: &[f64], column: usize| {
        sum(of_x.iter().zip(&rows).map(|(x, row)| x * row[column]), semantics)
    };
    let all = operands[0].elements.chunks_exact(rows.len());
    all.flat_map(|of_x| (0..columns).map(move |column| (of_x, column)))
        .map(|(of_x, column)| entry(of_x, column))
        .collect()
}

/// Returns a convolution of one batch with a window of size one.
fn convolution(operands: &[Array], semantics: Semantics) -> Vec<f64> {
    let (x, weights) = (&operands[0], &operands[1]);
    let (channels, places) = (x.shape[1], x.shape[2]);
    let entry = |result: usize, place: usize| {
        let term = |channel: usize| {
            weights.elements[result * channels + channel] * x.elements[channel * places + place]
        };
        let bias = operands.get(2).map(|bias| bias.elements[result]);
        sum((0..channels).map(term).chain(bias), semantics)
    };
    let all =
        (0..weights.shape[0]).flat_map(|result| (0..places).map(move |place| (result, place)));
    all.map(|(result, place)| entry(result, place)).collect()
}
