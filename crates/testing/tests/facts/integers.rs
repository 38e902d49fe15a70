//! Compares facts about integers, and folded constants, with an evaluation of random graphs.

use std::fmt::Write;

use algebra::eval::eval;
use onnx::{DType, Tensor, ValueId};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const TYPES: [DType; 7] =
    [DType::I8, DType::U8, DType::I16, DType::U16, DType::I32, DType::U32, DType::I64];

/// A value of the graph.
#[derive(Clone, Debug)]
struct Known {
    name: String,
    dtype: DType,
    elements: Vec<i64>,
}

/// A graph over lists of three integers, and the result of each node.
#[derive(Default)]
struct Program {
    inputs: Vec<String>,
    nodes: String,
    /// The lists of three elements that a step may read.
    lists: Vec<Known>,
    /// The result of each node.
    results: Vec<Known>,
}

fn wrap(dtype: DType, number: i128) -> i64 {
    let bits = dtype.bits() as u32;
    let low = number & ((1_i128 << bits) - 1);
    let is_negative = dtype.is_signed_int() && low >> (bits - 1) != 0;
    (if is_negative { low - (1_i128 << bits) } else { low }) as i64
}

impl Program {
    fn input(&mut self, dtype: DType, elements: &[i64]) {
        let name = format!("in{}", self.inputs.len());
        self.inputs.push(format!("{name}:{dtype}[3]"));
        let elements = elements.iter().map(|&element| wrap(dtype, element.into())).collect();
        self.lists.push(Known { name, dtype, elements });
    }

    /// Adds a node whose result has this shape.
    fn node(&mut self, dtype: DType, shape: &str, text: &str, elements: Vec<i64>) -> Known {
        let name = format!("%{}", self.results.len());
        let _ = writeln!(self.nodes, "{name}:{dtype}{shape} = {text}");
        let known = Known { name, dtype, elements };
        self.results.push(known.clone());
        known
    }

    fn list(&mut self, dtype: DType, text: &str, elements: Vec<i64>) {
        let known = self.node(dtype, "[3]", text, elements);
        self.lists.push(known);
    }

    fn pick(&self, number: usize) -> Known {
        self.lists[number % self.lists.len()].clone()
    }

    fn cast(&mut self, of: &Known, dtype: DType) -> Known {
        if of.dtype == dtype {
            return of.clone();
        }
        let elements = of.elements.iter().map(|&x| wrap(dtype, x.into())).collect();
        let text = format!("Cast({}) {{to={}}}", of.name, dtype.code());
        self.node(dtype, "[3]", &text, elements)
    }

    /// Adds a node that returns the first element of a list.
    fn first(&mut self, of: &Known) -> Known {
        let text = format!("Gather({}, 0:i64) {{axis=0}}", of.name);
        self.node(of.dtype, "[]", &text, of.elements[..1].to_vec())
    }

    fn step(&mut self, &(op, a, b, c): &(u8, usize, usize, usize)) {
        let a = self.pick(a);
        let b = self.pick(b);
        let b = self.cast(&b, a.dtype);
        let c = self.pick(c);
        let (x, y) = (a.name.as_str(), b.name.as_str());
        let each = |f: fn(i64, i64) -> i64| -> Vec<i64> {
            a.elements.iter().zip(&b.elements).map(|(&a, &b)| f(a, b)).collect()
        };
        match op % 12 {
            0 => {
                let cast = self.cast(&a, TYPES[b.elements[0].unsigned_abs() as usize % 7]);
                self.lists.push(cast);
            }
            1 => self.list(a.dtype, &format!("Max({x}, {y})"), each(i64::max)),
            2 => self.list(a.dtype, &format!("Min({x}, {y})"), each(i64::min)),
            3 => self.list(a.dtype, &format!("Relu({x})"), each(|a, _| a.max(0))),
            4 => {
                let moved = vec![a.elements[2], a.elements[0], a.elements[2]];
                self.list(a.dtype, &format!("Gather({x}, [2, 0, -1]:i64) {{axis=0}}"), moved);
            }
            5 => {
                let c = self.cast(&c, a.dtype);
                let flags = each(|a, b| i64::from(a < b));
                let text = format!("Less({x}, {y})");
                let flag = self.node(DType::Bool, "[3]", &text, flags);
                let chosen = (0..3)
                    .map(|at| if flag.elements[at] != 0 { a.elements[at] } else { c.elements[at] });
                let chosen = chosen.collect();
                self.list(a.dtype, &format!("Where({}, {x}, {})", flag.name, c.name), chosen);
            }
            6 => {
                let c = self.cast(&c, a.dtype);
                let (low, high) = (self.first(&b), self.first(&c));
                let (from, to) = (low.elements[0], high.elements[0]);
                let clipped = a.elements.iter().map(|&x| x.max(from).min(to)).collect();
                let text = format!("Clip({x}, {}, {})", low.name, high.name);
                self.list(a.dtype, &text, clipped);
            }
            7 => {
                let both = [&a.elements[..], &b.elements].concat();
                let text = format!("Concat({x}, {y}) {{axis=0}}");
                let joined = self.node(a.dtype, "[6]", &text, both.clone());
                let text = format!("Slice({}, [4]:i64, [0]:i64, [0]:i64, [-1]:i64)", joined.name);
                let reversed =
                    self.node(a.dtype, "[4]", &text, both[1..5].iter().rev().copied().collect());
                let text = format!("ArgMax({}) {{axis=0, keepdims=1}}", reversed.name);
                let largest = reversed.elements.iter().max().copied();
                let place = reversed.elements.iter().position(|&x| Some(x) == largest);
                let place = place.unwrap_or_default() as i64;
                let found = self.node(DType::I64, "[1]", &text, vec![place]);
                let text = format!("Expand({}, [3]:i64)", found.name);
                self.list(DType::I64, &text, vec![place; 3]);
            }
            8 => self.range(&a, &b, &c),
            9 => self.arithmetic(c.elements[0], &a, &b),
            10 => self.unary(c.elements[0], &a),
            _ => self.bits(c.elements[0], &a, &b),
        }
    }

    /// Adds a list of exact numbers that are wrapped to a type.
    fn wrapped(&mut self, dtype: DType, text: &str, exact: impl IntoIterator<Item = i128>) {
        let elements = exact.into_iter().map(|number| wrap(dtype, number)).collect();
        self.list(dtype, text, elements);
    }

    fn arithmetic(&mut self, which: i64, a: &Known, b: &Known) {
        let (x, y) = (&a.name, &b.name);
        let pairs = a.elements.iter().zip(&b.elements).map(|(&a, &b)| (a.into(), b.into()));
        let pairs: Vec<(i128, i128)> = pairs.collect();
        let each = |f: fn(i128, i128) -> i128| pairs.iter().map(move |&(a, b)| f(a, b));
        match which.unsigned_abs() % 6 {
            0 => self.wrapped(a.dtype, &format!("Add({x}, {y})"), each(|a, b| a + b)),
            1 => self.wrapped(a.dtype, &format!("Sub({x}, {y})"), each(|a, b| a - b)),
            2 => self.wrapped(a.dtype, &format!("Mul({x}, {y})"), each(|a, b| a * b)),
            3 => self.wrapped(a.dtype, &format!("Mul({x}, {x})"), each(|a, _| a * a)),
            4 if b.elements.iter().all(|&b| b > 0) => {
                self.wrapped(a.dtype, &format!("Div({x}, {y})"), each(|a, b| a / b));
            }
            5 if b.elements.iter().all(|&b| b > 0) => {
                self.wrapped(a.dtype, &format!("Mod({x}, {y})"), each(i128::rem_euclid));
                self.wrapped(a.dtype, &format!("Mod({x}, {y}) {{fmod=1}}"), each(|a, b| a % b));
            }
            _ => {}
        }
    }

    fn unary(&mut self, which: i64, a: &Known) {
        let x = &a.name;
        let wide: Vec<i128> = a.elements.iter().map(|&x| x.into()).collect();
        let each = |f: fn(i128) -> i128| wide.iter().copied().map(f);
        match which.unsigned_abs() % 5 {
            0 => self.wrapped(a.dtype, &format!("Neg({x})"), each(|x| -x)),
            1 => self.wrapped(a.dtype, &format!("Abs({x})"), each(i128::abs)),
            2 => self.wrapped(a.dtype, &format!("Sign({x})"), each(i128::signum)),
            3 => {
                let sum = wrap(a.dtype, wide.iter().sum());
                self.reduced(a.dtype, &format!("ReduceSum({x}, [0]:i64)"), sum);
            }
            _ => {
                let largest = a.elements.iter().max().copied().unwrap_or_default();
                self.reduced(a.dtype, &format!("ReduceMax({x}, [0]:i64)"), largest);
            }
        }
    }

    /// Adds a reduction, and a list that repeats its result.
    fn reduced(&mut self, dtype: DType, text: &str, result: i64) {
        let reduced = self.node(dtype, "[1]", text, vec![result]);
        self.list(dtype, &format!("Expand({}, [3]:i64)", reduced.name), vec![result; 3]);
    }

    fn bits(&mut self, which: i64, a: &Known, b: &Known) {
        let (x, y) = (&a.name, &b.name);
        let pairs: Vec<(i64, i64)> =
            a.elements.iter().copied().zip(b.elements.iter().copied()).collect();
        let each = |f: fn(i64, i64) -> i64| pairs.iter().map(move |&(a, b)| f(a, b).into());
        let width = a.dtype.bits() as i64;
        let can_shift =
            a.dtype.is_unsigned_int() && b.elements.iter().all(|b| (0..width).contains(b));
        let shift = |direction: &str| format!("BitShift({x}, {y}) {{direction=\"{direction}\"}}");
        match which.unsigned_abs() % 5 {
            0 => self.wrapped(a.dtype, &format!("BitwiseAnd({x}, {y})"), each(|a, b| a & b)),
            1 => self.wrapped(a.dtype, &format!("BitwiseOr({x}, {y})"), each(|a, b| a | b)),
            2 => self.wrapped(a.dtype, &format!("BitwiseXor({x}, {y})"), each(|a, b| a ^ b)),
            3 if can_shift => self.wrapped(a.dtype, &shift("LEFT"), each(|a, b| a << b)),
            4 if can_shift => self.wrapped(a.dtype, &shift("RIGHT"), each(|a, b| a >> b)),
            _ => {}
        }
    }

    /// Adds a range. The test checks only its first and last elements.
    fn range(&mut self, a: &Known, b: &Known, c: &Known) {
        let c = self.cast(c, a.dtype);
        let (start, limit, step) = (self.first(a), self.first(b), self.first(&c));
        let (from, to, by) = (start.elements[0], limit.elements[0], step.elements[0]);
        if by == 0 {
            return;
        }
        let distance = wrap(a.dtype, i128::from(to) - i128::from(from));
        let count = (distance as f64 / by as f64).ceil() as i128;
        if count > i128::from(i32::MAX) {
            return;
        }
        let at = |place: i128| wrap(a.dtype, i128::from(from) + place * i128::from(by));
        let elements =
            if count > 0 { vec![at(0), at(count / 2), at(count - 1)] } else { Vec::new() };
        let text = format!("Range({}, {}, {})", start.name, limit.name, step.name);
        self.node(a.dtype, "[N]", &text, elements);
    }

    fn text(&self) -> String {
        let last = self.results.last().map_or("in0", |last| &last.name);
        format!("graph g({}) -> ({last})\n{}", self.inputs.join(", "), self.nodes)
    }

    fn tensor(&self, name: &str) -> Option<&Known> {
        self.lists.iter().chain(&self.results).find(|known| known.name == name)
    }
}

fn extreme() -> impl Strategy<Value = i64> {
    let edges = vec![0, 1, -1, 2, 3, 127, 128, 255, 256, -128, -129];
    let wide = vec![i64::MIN, i64::MAX, 1 << 31, (1 << 31) - 1, -(1 << 31), (1 << 53) + 1];
    prop_oneof![
        proptest::sample::select(edges),
        proptest::sample::select(wide),
        -9_i64..9,
        any::<i64>(),
    ]
}

fn program() -> impl Strategy<Value = Program> {
    let input = (0..TYPES.len(), proptest::array::uniform3(extreme()));
    let step = (any::<u8>(), 0..99_usize, 0..99_usize, 0..99_usize);
    let inputs = proptest::collection::vec(input, 2..5);
    (inputs, proptest::collection::vec(step, 1..8)).prop_map(|(inputs, steps)| {
        let mut program = Program::default();
        for (dtype, elements) in &inputs {
            program.input(TYPES[*dtype], elements);
        }
        for step in &steps {
            program.step(step);
        }
        program
    })
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\n{:#?}", self.text(), self.lists)
    }
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 500, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() }
}

/// Makes some inputs constants, so that bounds can use their values.
fn with_constants(program: &Program) -> String {
    let mut text = program.text();
    for known in program.lists.iter().filter(|known| known.name.starts_with("in")).step_by(2) {
        let literal = format!("{:?}:{}", known.elements, known.dtype);
        text = text.replace(&format!("({},", known.name), &format!("({literal},"));
        text = text.replace(&format!("({})", known.name), &format!("({literal})"));
        text = text.replace(&format!(", {})", known.name), &format!(", {literal})"));
    }
    text
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_fact_about_integers_holds(program in program()) {
        for text in [program.text(), with_constants(&program)] {
            let mut model = onnx::text::parse_graph(&text).expect(&text);
            let mut wrong = None;
            model.edit(&mut |edit| {
                for (index, known) in program.results.iter().enumerate() {
                    let result: ValueId = edit.node(index).outputs[0];
                    let fact = edit.fact(result);
                    let holds = fact.ints().is_none_or(|(low, high)| {
                        known.elements.iter().all(|element| (low..=high).contains(element))
                    });
                    let is_negative = known.elements.iter().any(|&element| element < 0);
                    if !holds || (is_negative && !fact.may_be_negative()) {
                        wrong = Some((known.clone(), fact));
                    }
                }
            });
            prop_assert!(wrong.is_none(), "{:?} in\n{}", wrong, text);
        }
    }

    #[test]
    fn integers_are_folded_exactly(program in program()) {
        let text = program.text();
        let mut model = onnx::text::parse_graph(&text).expect("a graph");
        let mut wrong = None;
        model.edit(&mut |edit| {
            for (index, known) in program.results.iter().enumerate() {
                let node = edit.node(index);
                let operand = |at: usize| {
                    let id = edit.input(index, at)?;
                    if let Some(tensor) = edit.tensor(id) {
                        return Some(tensor.clone());
                    }
                    let made = edit.producer(id).map(|maker| &program.results[maker]);
                    let known = made.or_else(|| program.tensor(edit.name(id)?))?;
                    let shape = edit.shape(id)?.iter().map(onnx::Dim::known).collect::<Option<_>>()?;
                    Tensor::of_ints(known.dtype, shape, &known.elements)
                };
                let operands: Option<Vec<Tensor>> = (0..node.inputs.len()).map(operand).collect();
                let shape = edit.ty(node.outputs[0]).expect("a type").shape.iter();
                let shape: Option<Vec<i64>> = shape.map(onnx::Dim::known).collect();
                let (Some(operands), Some(shape)) = (operands, shape) else {
                    continue;
                };
                let operands: Vec<&Tensor> = operands.iter().collect();
                let folded = eval(node, &operands, known.dtype, shape);
                if folded.is_some_and(|folded| folded.ints() != Some(known.elements.clone())) {
                    wrong = Some(known.clone());
                }
            }
        });
        prop_assert!(wrong.is_none(), "{:?} in\n{}", wrong, text);
    }
}
