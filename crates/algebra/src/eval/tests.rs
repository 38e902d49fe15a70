//! Compares the folding of floats with an evaluation that shares no code with it: native arithmetic for 32 and 64
//! bits, and rounding by the definition for narrower types.

use onnx::{DType, OpType, Tensor};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::eval;

const FLOATS: [DType; 4] = [DType::F16, DType::Bf16, DType::F32, DType::F64];

/// Returns the numbers of bits of the fraction and of the exponent.
fn layout(dtype: DType) -> (u32, u32) {
    match dtype {
        DType::F16 => (10, 5),
        DType::Bf16 => (7, 8),
        DType::F32 => (23, 8),
        _ => (52, 11),
    }
}

/// Returns the number that bits represent.
fn decode(dtype: DType, bits: u64) -> f64 {
    let (fraction_bits, exponent_bits) = layout(dtype);
    let fraction = (bits & ((1 << fraction_bits) - 1)) as f64 / 2f64.powi(fraction_bits as i32);
    let exponent = (bits >> fraction_bits & ((1 << exponent_bits) - 1)) as i32;
    let bias = (1 << (exponent_bits - 1)) - 1;
    let size = match exponent {
        0 => fraction * 2f64.powi(1 - bias),
        _ if exponent <= 2 * bias => (1.0 + fraction) * 2f64.powi(exponent - bias),
        _ if fraction == 0.0 => f64::INFINITY,
        _ => f64::NAN,
    };
    if bits >> (fraction_bits + exponent_bits) & 1 == 1 { -size } else { size }
}

fn elements(tensor: &Tensor) -> Vec<f64> {
    let bytes = tensor.bytes();
    let bits = bytes.chunks_exact(tensor.dtype.bits() / 8).map(|bytes| {
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(wide)
    });
    if tensor.dtype.is_float() {
        return bits.map(|bits| decode(tensor.dtype, bits)).collect();
    }
    tensor.ints().expect("integers").into_iter().map(|int| int as f64).collect()
}

/// Rounds a number to a type: to the nearest number, and ties to even.
fn rounded(dtype: DType, number: f64) -> f64 {
    if dtype == DType::F64 || number == 0.0 || !number.is_finite() {
        return number;
    }
    if dtype == DType::F32 {
        return f64::from(number as f32);
    }
    let (fraction_bits, exponent_bits) = layout(dtype);
    let most = (1 << (exponent_bits - 1)) - 1;
    let exponent = ((number.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(1 - most);
    let quantum = 2f64.powi(exponent - fraction_bits as i32);
    let nearest = (number / quantum).round_ties_even() * quantum;
    if nearest.abs() >= 2f64.powi(most + 1) { f64::INFINITY.copysign(number) } else { nearest }
}

/// Returns the result of an operator on two numbers of a type. An operator with one operand ignores the second number.
fn computed(op: OpType, dtype: DType, a: f64, b: f64) -> f64 {
    if dtype == DType::F32 {
        let (a, b) = (a as f32, b as f32);
        return f64::from(match op {
            OpType::Add => a + b,
            OpType::Sub => a - b,
            OpType::Mul => a * b,
            OpType::Div => a / b,
            OpType::Sqrt => a.sqrt(),
            OpType::Reciprocal => 1.0 / a,
            _ => return exact(op, a.into(), b.into()),
        });
    }
    let result = match op {
        OpType::Add => a + b,
        OpType::Sub => a - b,
        OpType::Mul => a * b,
        OpType::Div => a / b,
        OpType::Sqrt => a.sqrt(),
        OpType::Reciprocal => 1.0 / a,
        _ => return exact(op, a, b),
    };
    rounded(dtype, result)
}

/// Returns the result of an operator that does not round.
fn exact(op: OpType, a: f64, b: f64) -> f64 {
    let flag = |holds: bool| f64::from(u8::from(holds));
    match op {
        OpType::Abs => f64::from_bits(a.to_bits() & !(1 << 63)),
        OpType::Neg => f64::from_bits(a.to_bits() ^ (1 << 63)),
        OpType::Floor => a.floor(),
        OpType::Ceil => a.ceil(),
        OpType::Max => {
            if a > b {
                a
            } else {
                b
            }
        }
        OpType::Min => {
            if a < b {
                a
            } else {
                b
            }
        }
        OpType::Relu => {
            if a > 0.0 {
                a
            } else {
                0.0
            }
        }
        OpType::IsNaN => flag(a.is_nan()),
        OpType::Equal => flag(a == b),
        OpType::Less => flag(a < b),
        OpType::LessOrEqual => flag(a <= b),
        OpType::Greater => flag(a > b),
        OpType::GreaterOrEqual => flag(a >= b),
        _ => unreachable!("{op:?} is not tested"),
    }
}

const UNARY: [OpType; 8] = [
    OpType::Sqrt,
    OpType::Reciprocal,
    OpType::Abs,
    OpType::Neg,
    OpType::Floor,
    OpType::Ceil,
    OpType::Relu,
    OpType::IsNaN,
];

const BINARY: [OpType; 11] = [
    OpType::Add,
    OpType::Sub,
    OpType::Mul,
    OpType::Div,
    OpType::Max,
    OpType::Min,
    OpType::Equal,
    OpType::Less,
    OpType::LessOrEqual,
    OpType::Greater,
    OpType::GreaterOrEqual,
];

fn is_comparison(op: OpType) -> bool {
    BINARY[6..].contains(&op) || op == OpType::IsNaN
}

/// True if ONNX does not specify the result: for NaN, or for two different zeros.
fn is_left_open(op: OpType, a: f64, b: f64) -> bool {
    let b = if op == OpType::Relu { 0.0 } else { b };
    let is_extreme = matches!(op, OpType::Max | OpType::Min | OpType::Relu);
    let are_zeros = a == 0.0 && b == 0.0 && a.is_sign_negative() != b.is_sign_negative();
    is_extreme && (a.is_nan() || b.is_nan() || are_zeros)
}

fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

/// Draws the bits of a float: special numbers, ties between narrower floats, and arbitrary bits.
fn bits(dtype: DType) -> impl Strategy<Value = u64> {
    let (fraction, exponent) = layout(dtype);
    let sign = 1 << (fraction + exponent);
    let infinity = ((1 << exponent) - 1) << fraction;
    let one = ((1 << (exponent - 1)) - 1) << fraction;
    let normal = 1 << fraction;
    let sizes = [0, 1, 2, normal - 1, normal, one, one + 1, one + normal, infinity - 1, infinity];
    let special: Vec<u64> = sizes.iter().flat_map(|&size| [size, size | sign]).collect();
    let narrower: Vec<u32> = FLOATS
        .iter()
        .map(|&narrow| fraction.saturating_sub(layout(narrow).0))
        .filter(|&dropped| dropped > 0)
        .chain([1])
        .collect();
    let near_tie = (any::<u64>(), proptest::sample::select(narrower), -2_i64..=2).prop_map(
        |(bits, dropped, away)| {
            let tie = bits >> dropped << dropped | 1 << (dropped - 1);
            tie.wrapping_add_signed(away)
        },
    );
    prop_oneof![
        proptest::sample::select(special),
        Just(infinity | 1 << (fraction - 1)),
        near_tie,
        any::<u64>(),
    ]
}

/// Six numbers. Each operand takes as many as it has elements.
#[derive(Clone, Debug)]
struct Numbers {
    dtype: DType,
    bits: Vec<u64>,
}

impl Numbers {
    fn tensor(&self, shape: &[i64]) -> Tensor {
        let width = self.dtype.bits() / 8;
        let count = shape.iter().product::<i64>() as usize;
        let bytes = self.bits[..count].iter().flat_map(|bits| bits.to_le_bytes()[..width].to_vec());
        Tensor::new(self.dtype, shape.to_vec(), bytes.collect::<Vec<u8>>())
    }
}

fn numbers(dtype: DType) -> impl Strategy<Value = Numbers> {
    let bits = proptest::collection::vec(bits(dtype), 6);
    bits.prop_map(move |bits| Numbers { dtype, bits })
}

/// Draws two lists of numbers of one type.
fn pair() -> impl Strategy<Value = (Numbers, Numbers)> {
    let dtypes = proptest::sample::select(&FLOATS[..]);
    dtypes.prop_flat_map(|dtype| (numbers(dtype), numbers(dtype)))
}

/// Shapes that broadcast to `[2, 3]`, each with factors of the row and of the column: 0 if the operand is repeated.
const SHAPES: [(&[i64], usize, usize); 5] =
    [(&[2, 3], 1, 1), (&[], 0, 0), (&[3], 0, 1), (&[1, 3], 0, 1), (&[2, 1], 1, 0)];

/// Broadcasts the elements of an operand to `[2, 3]`.
fn broadcast(tensor: &Tensor, shape: usize) -> Vec<f64> {
    let (_, by_row, by_column) = SHAPES[shape];
    let elements = elements(tensor);
    let width = if by_column == 1 { 3 } else { 1 };
    let places = (0..2).flat_map(|row| (0..3).map(move |column| (row, column)));
    places.map(|(row, column)| elements[by_row * row * width + by_column * column]).collect()
}

/// Folds the only node of a graph, with these operands.
fn folded(text: &str, operands: &[&Tensor]) -> Option<Tensor> {
    let model = onnx::text::parse_graph(text).expect("a graph of a test can be parsed");
    let node = &model.graph.nodes[0];
    let ty = model.values[node.outputs[0]].ty.as_ref().expect("a type");
    let shape = ty.shape.iter().map(onnx::Dim::known).collect::<Option<_>>().expect("sizes");
    let result = eval(node, operands, ty.dtype, shape)?;
    assert_eq!(result.byte_len(), result.expected_bytes());
    Some(result)
}

fn type_of(tensor: &Tensor) -> String {
    format!("{}{:?}", tensor.dtype, tensor.shape).replace(' ', "")
}

/// Terms of sums: most sums of them are exact.
const TERMS: [f64; 9] = [0.0, -0.0, 1.0, 1.0, 1.5, -1.0, -1.5, 0.1, f64::INFINITY];

fn config() -> ProptestConfig {
    ProptestConfig { cases: 200, rng_seed: RngSeed::Fixed(3), ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_folded_operator_on_floats_rounds_once(
        (x, y) in pair(), at_x in 0..SHAPES.len(), at_y in 0..SHAPES.len(),
    ) {
        let (x, y) = (x.tensor(SHAPES[at_x].0), y.tensor(SHAPES[at_y].0));
        let dtype = x.dtype;
        for op in UNARY.into_iter().chain(BINARY) {
            let is_unary = UNARY.contains(&op);
            let (a, b) = if is_unary {
                (elements(&x), elements(&x))
            } else if at_x != 0 && at_y != 0 {
                continue;
            } else {
                (broadcast(&x, at_x), broadcast(&y, at_y))
            };
            let of = if is_comparison(op) { DType::Bool } else { dtype };
            let (operands, shape) = if is_unary { ("x", &x.shape[..]) } else { ("x, y", &[2, 3][..]) };
            let text = format!(
                "graph g(x:{}, y:{}) -> (z)\nz:{of}{} = {op:?}({operands})",
                type_of(&x), type_of(&y), format!("{shape:?}").replace(' ', ""),
            );
            let found = if is_unary { folded(&text, &[&x]) } else { folded(&text, &[&x, &y]) };
            let pairs = || a.iter().copied().zip(b.iter().copied());
            let wanted: Vec<f64> = pairs().map(|(a, b)| computed(op, dtype, a, b)).collect();
            let is_open = pairs().any(|(a, b)| is_left_open(op, a, b));
            prop_assert_eq!(found.is_none(), is_open, "{}", text);
            for (found, wanted) in found.iter().flat_map(elements).zip(&wanted) {
                prop_assert!(same(found, *wanted), "{op:?} of {a:?} and {b:?}: {found:e}, not {wanted:e}");
            }
        }
    }

    #[test]
    fn a_folded_cast_of_a_float_is_the_nearest_number((x, _) in pair()) {
        let x = x.tensor(&[6]);
        let targets = [DType::Bool, DType::I32, DType::I64, DType::I8, DType::U8];
        for to in FLOATS.into_iter().chain(targets) {
            let text = format!("graph g(x:{}) -> (y)\ny:{to}[6] = Cast(x) {{to={}}}", type_of(&x), to.code());
            let found = folded(&text, &[&x]);
            prop_assert!(found.is_some() || !matches!(to, DType::F32 | DType::F64 | DType::Bool));
            for (found, from) in found.iter().flat_map(elements).zip(elements(&x)) {
                let wanted = match to {
                    DType::Bool => f64::from(u8::from(from != 0.0)),
                    _ if to.is_float() => rounded(to, from),
                    _ => from.trunc() + 0.0,
                };
                prop_assert!(same(found, wanted), "{from:e} to {to}: {found:e}, not {wanted:e}");
            }
        }
    }

    #[test]
    fn a_folded_cast_of_an_integer_is_the_nearest_number(
        numbers in proptest::collection::vec(prop_oneof![-300_i64..300, any::<i64>()], 6), shift in 0..60,
    ) {
        let numbers: Vec<i64> = numbers.iter().map(|number| number >> shift).collect();
        for from in [DType::I32, DType::I64, DType::U8, DType::Bool] {
            let x = Tensor::of_ints(from, vec![6], &numbers).expect("integers");
            for to in FLOATS {
                let text = format!("graph g(x:{from}[6]) -> (y)\ny:{to}[6] = Cast(x) {{to={}}}", to.code());
                let found = folded(&text, &[&x]);
                for (found, number) in found.iter().flat_map(elements).zip(x.ints().expect("integers")) {
                    prop_assert!(same(found, rounded(to, number as f64)), "{number} to {to}: {found:e}");
                }
            }
        }
    }

    #[test]
    fn a_folded_choice_keeps_every_bit(
        (x, y) in pair(), flags in proptest::array::uniform6(any::<bool>()), at_x in 0..SHAPES.len(),
    ) {
        let (x, y) = (x.tensor(SHAPES[at_x].0), y.tensor(&[2, 3]));
        let ints: Vec<i64> = flags.iter().map(|&flag| flag.into()).collect();
        let condition = Tensor::of_ints(DType::Bool, vec![2, 3], &ints).expect("flags");
        let text = format!(
            "graph g(c:bool[2,3], x:{}, y:{}) -> (z)\nz:{} = Where(c, x, y)",
            type_of(&x), type_of(&y), type_of(&y),
        );
        let found = folded(&text, &[&condition, &x, &y]).expect("choices are folded");
        let chosen = flags.iter().zip(broadcast(&x, at_x).into_iter().zip(elements(&y)));
        for (found, (&flag, (x, y))) in elements(&found).into_iter().zip(chosen) {
            let wanted = if flag { x } else { y };
            prop_assert!(same(found, wanted), "{found:e}, not {wanted:e}");
        }
    }

    #[test]
    fn a_folded_sum_is_the_nearest_number_or_the_sum_in_any_order(
        double in any::<bool>(),
        exponent in 0..3_usize,
        terms in proptest::collection::vec((proptest::sample::select(&TERMS[..]), 0..2_i32), 30),
    ) {
        let (dtype, top) = if double { (DType::F64, 1023) } else { (DType::F32, 127) };
        let exponent = [0, top, 3 - top][exponent];
        let text = format!("graph g(x:{dtype}[3]) -> (y)\ny:{dtype}[] = ReduceSum(x, [0]:i64) {{keepdims=0}}");
        let axes = Tensor::of_ints(DType::I64, vec![1], &[0]).expect("axes");
        let plus = |a, b| computed(OpType::Add, dtype, a, b);
        let terms: Vec<f64> =
            terms.iter().map(|(term, below)| term * 2f64.powi(exponent - below)).collect();
        for terms in terms.chunks_exact(3) {
            let x = Tensor::of_floats(dtype, vec![3], terms).expect("floats");
            let (found, row) = (folded(&text, &[&x, &axes]), elements(&x));
            for [a, b, c] in [[0, 1, 2], [1, 2, 0], [2, 0, 1]] {
                // Double precision represents all sums of these float32 numbers.
                let nearest = rounded(dtype, 0.0 + row[a] + row[b] + row[c]);
                let sum = if double { plus(plus(plus(0.0, row[a]), row[b]), row[c]) } else { nearest };
                for found in found.iter().flat_map(elements) {
                    prop_assert!(same(found, sum), "{row:?} is {sum:e} in an order, not {found:e}");
                }
            }
        }
    }
}
