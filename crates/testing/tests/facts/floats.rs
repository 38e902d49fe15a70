//! Compares facts about floats with an evaluation of random graphs.

use std::fmt::Write;

use onnx::{DType, Fact, Tensor};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use testing::SPECIAL_FLOATS;

const TYPES: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::Bf16];

type Function = fn(f64) -> f64;

/// A list of three floats.
#[derive(Clone, Debug)]
struct List {
    name: String,
    dtype: DType,
    elements: Vec<f64>,
}

/// A graph over lists of three floats, and the result of each node.
#[derive(Default)]
struct Program {
    inputs: Vec<String>,
    nodes: String,
    lists: Vec<List>,
    /// The result of each node.
    results: Vec<List>,
}

/// Rounds a number to a type.
fn stored(dtype: DType, number: f64) -> f64 {
    Tensor::of_floats(dtype, Vec::new(), &[number]).and_then(|one| one.floats()).unwrap()[0]
}

fn literal(list: &List) -> String {
    let numbers: Vec<String> = list
        .elements
        .iter()
        .map(|number| match number {
            _ if number.is_nan() => "nan".to_owned(),
            _ if number.is_infinite() => (if *number > 0.0 { "inf" } else { "-inf" }).to_owned(),
            _ => format!("{number:?}"),
        })
        .collect();
    format!("[{}]:{}", numbers.join(", "), list.dtype)
}

impl Program {
    fn node(&mut self, dtype: DType, shape: &str, text: &str, elements: Vec<f64>) -> List {
        let name = format!("%{}", self.results.len());
        let _ = writeln!(self.nodes, "{name}:{dtype}{shape} = {text}");
        let elements = elements.into_iter().map(|number| stored(dtype, number)).collect();
        let list = List { name, dtype, elements };
        self.results.push(list.clone());
        list
    }

    fn push(&mut self, dtype: DType, text: &str, elements: Vec<f64>) {
        let list = self.node(dtype, "[3]", text, elements);
        self.lists.push(list);
    }

    fn pick(&self, number: usize) -> List {
        self.lists[self.lists.len() - 1 - number % self.lists.len().min(6)].clone()
    }

    fn cast(&mut self, of: &List, dtype: DType) -> List {
        if of.dtype == dtype {
            return of.clone();
        }
        let text = format!("Cast({}) {{to={}}}", of.name, dtype.code());
        self.node(dtype, "[3]", &text, of.elements.clone())
    }

    fn step(&mut self, &(op, a, b, c): &(u8, usize, usize, usize)) {
        let a = self.pick(a);
        let b = self.pick(b);
        let b = self.cast(&b, a.dtype);
        let (x, y) = (a.name.as_str(), b.name.as_str());
        let each = |f: Function| a.elements.iter().map(|&x| f(x)).collect::<Vec<f64>>();
        let both = |f: fn(f64, f64) -> f64| {
            a.elements.iter().zip(&b.elements).map(|(&a, &b)| f(a, b)).collect::<Vec<f64>>()
        };
        let larger = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) };
        let unary: [(&str, Function); 17] = [
            ("Neg", |x| -x),
            ("Abs", f64::abs),
            ("Sqrt", f64::sqrt),
            ("Exp", f64::exp),
            ("Log", f64::ln),
            ("Sign", |x| if x == 0.0 || x.is_nan() { x } else { x.signum() }),
            ("Relu", |x| if x < 0.0 { 0.0 } else { x }),
            ("Floor", f64::floor),
            ("Ceil", f64::ceil),
            ("Round", f64::round_ties_even),
            ("Tanh", f64::tanh),
            ("Sigmoid", |x| 1.0 / (1.0 + (-x).exp())),
            ("Sin", f64::sin),
            ("Cos", f64::cos),
            ("Reciprocal", f64::recip),
            ("Softsign", |x| if x.is_infinite() { f64::NAN } else { x / (1.0 + x.abs()) }),
            ("Identity", |x| x),
        ];
        match op % 20 {
            0..=5 => {
                let (name, f) = unary[c % unary.len()];
                self.push(a.dtype, &format!("{name}({x})"), each(f));
            }
            6 => self.push(a.dtype, &format!("Add({x}, {y})"), both(|a, b| a + b)),
            7 => self.push(a.dtype, &format!("Sub({x}, {y})"), both(|a, b| a - b)),
            8 => self.push(a.dtype, &format!("Mul({x}, {y})"), both(|a, b| a * b)),
            9 => self.push(a.dtype, &format!("Div({x}, {y})"), both(|a, b| a / b)),
            10 => self.push(a.dtype, &format!("Mul({x}, {x})"), each(|x| x * x)),
            11 => self.push(
                a.dtype,
                &format!("Sub({x}, {x})"),
                each(|x| if x.is_finite() { 0.0 } else { f64::NAN }),
            ),
            12 => {
                let chosen = a.elements.iter().zip(&b.elements);
                let chosen = chosen.map(|(&a, &b)| larger(a, b)).collect();
                self.push(a.dtype, &format!("Max({x}, {y})"), chosen);
            }
            13 => {
                let chosen = a.elements.iter().zip(&b.elements);
                let chosen = chosen.map(|(&a, &b)| -larger(-a, -b)).collect();
                self.push(a.dtype, &format!("Min({x}, {y})"), chosen);
            }
            14 => {
                let numbers = [1.0, -2.0, 0.0, 1e5, -0.5, 3.0];
                let (low, high) = (numbers[c % 6], numbers[c / 6 % 6]);
                let clip = |x: f64| if x.is_nan() { x } else { x.max(low).min(high) };
                let clipped = a.elements.iter().map(|&x| clip(x)).collect();
                let dtype = a.dtype;
                let text = format!("Clip({x}, {low:?}:{dtype}, {high:?}:{dtype})");
                self.push(dtype, &text, clipped);
            }
            15 => {
                let sum = a.elements.iter().sum::<f64>();
                self.reduced(a.dtype, &format!("ReduceSum({x}, [0]:i64)"), sum);
            }
            16 => {
                let mean = a.elements.iter().sum::<f64>() / 3.0;
                self.reduced(a.dtype, &format!("ReduceMean({x}, [0]:i64)"), mean);
            }
            17 => {
                let cast = self.cast(&a, TYPES[c % TYPES.len()]);
                self.lists.push(cast);
            }
            18 => {
                let two = format!("2.0:{}", a.dtype);
                match c % 2 {
                    0 => self.push(a.dtype, &format!("Pow({x}, {two})"), each(|x| x * x)),
                    _ => self.push(a.dtype, &format!("Pow({two}, {x})"), each(f64::exp2)),
                }
            }
            _ => {
                let joined = [&a.elements[..], &b.elements].concat();
                let text = format!("Concat({x}, {y}) {{axis=0}}");
                let whole = self.node(a.dtype, "[6]", &text, joined.clone());
                let text = format!("Slice({}, [2]:i64, [5]:i64, [0]:i64)", whole.name);
                self.push(a.dtype, &text, joined[2..5].to_vec());
            }
        }
    }

    /// Adds a reduction, and a list that repeats its result.
    fn reduced(&mut self, dtype: DType, text: &str, result: f64) {
        let reduced = self.node(dtype, "[1]", text, vec![result]);
        let text = format!("Expand({}, [3]:i64)", reduced.name);
        self.push(dtype, &text, reduced.elements.repeat(3));
    }

    fn text(&self) -> String {
        let last = self.results.last().map_or("in0", |last| &last.name);
        format!("graph g({}) -> ({last})\n{}", self.inputs.join(", "), self.nodes)
    }

    /// Returns the text of the graph. Some inputs are constants, so that facts can use their values.
    fn with_constants(&self) -> String {
        let mut text = self.text();
        for list in self.lists.iter().filter(|list| list.name.starts_with("in")).take(2) {
            let (name, literal) = (&list.name, literal(list));
            for (before, after) in [("(", ","), ("(", ")"), (", ", ")")] {
                text = text.replace(
                    &format!("{before}{name}{after}"),
                    &format!("{before}{literal}{after}"),
                );
            }
        }
        text
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\n{:?}", self.text(), self.lists)
    }
}

fn program() -> impl Strategy<Value = Program> {
    let input = (0..TYPES.len(), proptest::array::uniform3(0..SPECIAL_FLOATS.len()));
    let step = (any::<u8>(), 0..99_usize, 0..99_usize, 0..99_usize);
    let inputs = proptest::collection::vec(input, 2..5);
    (inputs, proptest::collection::vec(step, 1..9)).prop_map(|(inputs, steps)| {
        let mut program = Program::default();
        for (dtype, places) in &inputs {
            let (name, dtype) = (format!("in{}", program.inputs.len()), TYPES[*dtype]);
            program.inputs.push(format!("{name}:{dtype}[3]"));
            let elements = places.iter().map(|&at| stored(dtype, SPECIAL_FLOATS[at])).collect();
            program.lists.push(List { name, dtype, elements });
        }
        for step in &steps {
            program.step(step);
        }
        program
    })
}

fn holds(fact: Fact, list: &List) -> bool {
    let Fact::Floats(fact) = fact else { return false };
    list.elements.iter().all(|&number| match number {
        _ if number.is_nan() => fact.nan,
        _ if number == 0.0 && number.is_sign_negative() => {
            Fact::Floats(fact).may_be_negative_zero() && fact.may_be_zero()
        }
        _ => (fact.low..=fact.high).contains(&number),
    })
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 2000, rng_seed: RngSeed::Fixed(11), ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_fact_about_floats_holds(program in program()) {
        for text in [program.text(), program.with_constants()] {
            let mut model = onnx::text::parse_graph(&text).expect(&text);
            let mut wrong = None;
            model.edit(&mut |edit| {
                for (index, list) in program.results.iter().enumerate() {
                    let fact = edit.fact(edit.node(index).outputs[0]);
                    if !holds(fact, list) {
                        wrong = wrong.take().or(Some((list.clone(), fact)));
                    }
                }
            });
            prop_assert!(wrong.is_none(), "{:?} in\n{}", wrong, text);
        }
    }
}
