//! Tests that random small graphs compute the same before and after a rewrite, including for special values.

use std::fmt::Write;

use onnx::{DType, Edit, Model};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::canonicalize;
use crate::formulas::merge_affine;
use crate::guard::keep_zero_signs;
use crate::layout::fold_products;
use testing::SPECIAL_FLOATS;
use testing::interpret::{Array, Semantics, interpret};

const F32: DType = DType::F32;

const FLOAT_CONSTANTS: [&str; 14] = [
    "0.0",
    "-0.0",
    "1.0",
    "-1.0",
    "2.0",
    "0.5",
    "inf",
    "-inf",
    "nan",
    "[0.0]",
    "[1.0, 1.0, 1.0]",
    "[0.0, -0.0, nan]",
    "[-inf, 1.0, -0.0]",
    "[0.0, 0.0, 0.0]",
];

/// Operators with a constant that does not change the other operand, or almost not.
const NEUTRAL: [(&str, &str); 10] = [
    ("Add", "0.0"),
    ("Add", "-0.0"),
    ("Sub", "0.0"),
    ("Sub", "-0.0"),
    ("Mul", "1.0"),
    ("Div", "1.0"),
    ("Max", "-inf"),
    ("Max", "inf"),
    ("Min", "inf"),
    ("Min", "-inf"),
];

const INT_CONSTANTS: [&str; 8] = [
    "0:i32",
    "1:i32",
    "-1:i32",
    "256:i32",
    "2147483647:i32",
    "-2147483648:i32",
    "[0, 0, 0]:i32",
    "[1, 0, -7]:i32",
];

const FLAG_CONSTANTS: [&str; 5] =
    ["true", "false", "[true, true, true]", "[true, false, true]", "[false]"];

const CHAIN_CONSTANTS: [&str; 16] = [
    "0.0",
    "-0.0",
    "1.0",
    "-1.0",
    "3.0",
    "0.1",
    "-7.5",
    "1e9",
    "1e-9",
    "1e30",
    "1e-30",
    "50.0",
    "8388608.0",
    "inf",
    "nan",
    "[2.0, 0.0, -3.0]",
];

const CHAIN_INPUTS: [f64; 12] = [
    0.0,
    -0.0,
    1.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    0.3,
    -2.5,
    1e10,
    3e38,
    -1e30,
    1e-5,
];

/// Numbers to fold into weights. One is too large for that, and one is too small.
const FACTORS: [&str; 8] = ["0.0", "-1.0", "2.0", "0.1", "-0.5", "1e12", "1e-12", "30.0"];

const WEIGHTS: [f64; 6] = [1.0, -1.0, 0.5, -3.0, 0.0, 1e-5];

const PRODUCT_INPUTS: [[f64; 4]; 5] = [
    [0.0, 1.0, -0.3, 2.5],
    [1e27, 1e27, 1e27, -1e27],
    [f64::INFINITY, 1.0, 0.0, f64::NEG_INFINITY],
    [f64::NAN, 1.0, 1.0, 0.0],
    [-0.0, 1e5, 1e-20, 7.0],
];

/// The random choice of an operator and of its operands.
type Step = (u8, usize, usize, usize);

/// A graph over lists of three floats, integers and booleans.
struct Program {
    nodes: String,
    made: usize,
    floats: Vec<String>,
    ints: Vec<String>,
    flags: Vec<String>,
}

impl Program {
    fn of(steps: &[Step]) -> Program {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let mut program = Program {
            nodes: String::new(),
            made: 0,
            floats: names(&["x", "y"]),
            ints: names(&["m", "n"]),
            flags: names(&["c", "d"]),
        };
        for &step in steps {
            program.step(step);
        }
        program
    }

    fn node(&mut self, ty: &str, formula: &str) -> String {
        let name = format!("%{}", self.made);
        let _ = writeln!(self.nodes, "{name}:{ty} = {formula}");
        self.made += 1;
        name
    }

    fn float(&mut self, formula: &str) {
        let name = self.node("f32[3]", formula);
        self.floats.push(name);
    }

    fn int(&mut self, formula: &str) {
        let name = self.node("i32[3]", formula);
        self.ints.push(name);
    }

    fn flag(&mut self, formula: &str) {
        let name = self.node("bool[3]", formula);
        self.flags.push(name);
    }

    fn step(&mut self, (op, a, b, c): Step) {
        let list = |of: &[String], place: usize| of[of.len() - 1 - place % of.len().min(5)].clone();
        let any = |of: &[String], constants: &[&str], place: usize| match place % 2 {
            0 => list(of, place / 2),
            _ => constants[place / 2 % constants.len()].to_owned(),
        };
        let (f, i, t) = (list(&self.floats, a), list(&self.ints, a), list(&self.flags, a));
        let g = any(&self.floats, &FLOAT_CONSTANTS, b);
        let j = any(&self.ints, &INT_CONSTANTS, b);
        let u = any(&self.flags, &FLAG_CONSTANTS, b);
        let (number, integer) =
            (FLOAT_CONSTANTS[c % 9].to_owned(), INT_CONSTANTS[c % 6].to_owned());
        let swapped = |a: &str, b: &str| match c % 2 {
            0 => format!("({a}, {b})"),
            _ => format!("({b}, {a})"),
        };
        let comparison = ["Less", "LessOrEqual", "Greater", "Equal", "GreaterOrEqual"][c % 5];
        match op % 28 {
            0 => self.float(&format!("Add{}", swapped(&f, &g))),
            1 => self.float(&format!("Sub{}", swapped(&f, &g))),
            2 => self.float(&format!("Mul{}", swapped(&f, &g))),
            3 => self.float(&format!("Div{}", swapped(&f, &g))),
            4 => self.float(&format!("{}({f})", ["Neg", "Abs", "Sqrt", "Exp", "Sign"][c % 5])),
            5 if a % 3 == 0 => self.float(&format!("Relu({f})")),
            5 => self.float(&format!("{}{}", ["Max", "Min"][a % 2], swapped(&f, &g))),
            // No plugin clips to NaN.
            6 => {
                let (low, high) = (FLOAT_CONSTANTS[c % 8], FLOAT_CONSTANTS[b % 8]);
                self.float(&format!("Clip({f}, {low}, {high})"));
            }
            7 => self.float(&format!("Where{}", swapped_choice(&u, &f, &g, c))),
            8 => {
                let flag = self.node("bool[3]", &format!("{comparison}{}", swapped(&f, "0.0")));
                self.float(&format!("Where({flag}, {f}, {g})"));
            }
            9 | 10 => self.flag(&format!("{comparison}({f}, {g})")),
            11 => self.flag(&format!("{comparison}({i}, {j})")),
            12 => self.flag(&format!("Not({t})")),
            13 => {
                self.flag(&format!("{}{}", ["And", "Or", "Xor", "Equal"][a % 4], swapped(&t, &u)));
            }
            14 => self.int(&format!("{}{}", ["Add", "Sub", "Mul"][a % 3], swapped(&i, &j))),
            15 => self.int(&format!("{}{}", ["Max", "Min"][a % 2], swapped(&i, &j))),
            16 => self.int(&format!("Clip({i}, {integer}, {})", INT_CONSTANTS[b % 6])),
            17 => self.int(&format!("{}({i})", ["Neg", "Abs", "Sign", "Relu"][c % 4])),
            18 => self.int(&format!("Where{}", swapped_choice(&u, &i, &j, c))),
            19 => self.int(&format!("Div({i}, {})", ["1:i32", "2:i32", "[3, 1, -2]:i32"][c % 3])),
            20 => self.casts(&f, &i, &t, c),
            21 => {
                let constant = [("f32", number), ("i32", integer), ("bool", "true".to_owned())];
                let (dtype, constant) = &constant[a % 3];
                let name =
                    self.node(&format!("{dtype}[3]"), &format!("Expand({constant}, [3]:i64)"));
                [&mut self.floats, &mut self.ints, &mut self.flags][a % 3].push(name);
            }
            22 => {
                let row = self.node("f32[1,3]", &format!("Unsqueeze({f}, [0]:i64)"));
                let op = ["Mul", "Sub", "Add"][c % 3];
                let row = self.node("f32[1,3]", &format!("{op}({row}, {g})"));
                self.float(&format!("Squeeze({row}, [0]:i64)"));
            }
            23 => {
                let equal = self.node("bool[3]", &format!("Equal{}", swapped(&f, &g)));
                let differs = self.node("bool[3]", &format!("Not({equal})"));
                let less = ["Less", "Greater", "LessOrEqual"][a % 3];
                let less = self.node("bool[3]", &format!("{less}({f}, {g})"));
                self.flag(&format!("And{}", swapped(&less, &differs)));
            }
            24 | 26 => {
                let flag = list(&self.flags, b);
                self.choice_as_flag(&t, &flag, a, b, c);
            }
            25 => {
                let (dtype, code, one) = [("f32", 1, "1.0"), ("i32", 6, "1:i32")][a % 2];
                let zero = one.replace('1', "0");
                let number = self.node(&format!("{dtype}[3]"), &format!("Cast({t}) {{to={code}}}"));
                let constant = if c % 3 == 0 { one } else { &zero };
                self.flag(&format!("Equal{}", swapped(&number, constant)));
            }
            _ => {
                let (op, number) = NEUTRAL[b % NEUTRAL.len()];
                self.float(&format!("{op}{}", swapped(&f, number)));
            }
        }
    }

    /// Adds a cast to another type and back. Some of these casts lose digits.
    fn casts(&mut self, f: &str, i: &str, t: &str, c: usize) {
        match c % 6 {
            0 => {
                let wide = self.node("f64[3]", &format!("Cast({f}) {{to=11}}"));
                self.float(&format!("Cast({wide}) {{to=1}}"));
            }
            1 => {
                let narrow = self.node("f16[3]", &format!("Cast({f}) {{to=10}}"));
                self.float(&format!("Cast({narrow}) {{to=1}}"));
            }
            2 => self.flag(&format!("Cast({f}) {{to=9}}")),
            3 => self.int(&format!("Cast({f}) {{to=6}}")),
            4 => {
                let byte = self.node("u8[3]", &format!("Cast({i}) {{to=2}}"));
                self.int(&format!("Cast({byte}) {{to=6}}"));
            }
            _ => self.float(&format!("Cast({t}) {{to=1}}")),
        }
    }

    /// Adds a choice between bytes, of which one was cast, and casts it to a boolean.
    fn choice_as_flag(&mut self, condition: &str, flag: &str, a: usize, b: usize, c: usize) {
        let constant = ["0:i32", "1:i32", "256:i32", "0.5", "1e-300:f64", "true"][a % 6];
        let byte = match a % 6 {
            4 => {
                let single = self.node("f32[]", &format!("Cast({constant}) {{to=1}}"));
                let flag = self.node("bool[]", &format!("Cast({single}) {{to=9}}"));
                self.node("u8[]", &format!("Cast({flag}) {{to=2}}"))
            }
            3 => {
                let whole = self.node("i32[]", &format!("Cast({constant}) {{to=6}}"));
                self.node("u8[]", &format!("Cast({whole}) {{to=2}}"))
            }
            _ => self.node("u8[]", &format!("Cast({constant}) {{to=2}}")),
        };
        let other = match b % 3 {
            0 => "0:u8".to_owned(),
            1 => "1:u8".to_owned(),
            _ => self.node("u8[3]", &format!("Cast({flag}) {{to=2}}")),
        };
        let chosen =
            self.node("u8[3]", &format!("Where{}", swapped_choice(condition, &byte, &other, c)));
        self.flag(&format!("Cast({chosen}) {{to=9}}"));
    }

    fn model(&self) -> Model {
        onnx::text::parse_graph(&self.text()).expect("a graph of a test can be parsed")
    }

    /// Returns the text of the graph. Its outputs are the last values of each type.
    fn text(&self) -> String {
        let results = [&self.floats, &self.ints, &self.flags];
        let results =
            results.iter().filter_map(|made| made.last().filter(|name| name.starts_with('%')));
        let results: Vec<&str> = results.map(String::as_str).collect();
        let inputs = "x:f32[3], y:f32[3], m:i32[3], n:i32[3], c:bool[3], d:bool[3]";
        format!("graph g({inputs}) -> ({})\n{}", results.join(", "), self.nodes)
    }
}

fn swapped_choice(condition: &str, a: &str, b: &str, c: usize) -> String {
    match c % 2 {
        0 => format!("({condition}, {a}, {b})"),
        _ => format!("({condition}, {b}, {a})"),
    }
}

/// Inputs of a graph, which consist of special values.
fn inputs(seed: usize) -> Vec<Array> {
    const INTS: [f64; 6] = [0.0, 1.0, -1.0, 256.0, 2_147_483_647.0, -2_147_483_648.0];
    let float =
        |at: usize| SPECIAL_FLOATS[(seed * 7 + at * 5 + seed / 5 * at) % SPECIAL_FLOATS.len()];
    let int = |at: usize| INTS[(seed + at * 5) % INTS.len()];
    let flag = |at: usize| f64::from(u8::from((seed >> (at % 6)) & 1 == 1));
    let list = |dtype, from: &dyn Fn(usize) -> f64, at: usize| {
        Array::new(dtype, &[3], &[from(at), from(at + 1), from(at + 2)])
    };
    vec![
        list(F32, &float, 0),
        list(F32, &float, 3),
        list(DType::I32, &int, 0),
        list(DType::I32, &int, 3),
        list(DType::Bool, &flag, 0),
        list(DType::Bool, &flag, 3),
    ]
}

fn run(model: &mut Model, passes: &[fn(&mut Edit<'_>)]) {
    for pass in passes {
        model.edit(&mut |edit| pass(edit));
    }
    onnx::check::check(model).expect("a pass leaves a valid model");
}

fn same_bits(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

fn same_number(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}

/// True if a comparison holds for all results.
fn are_same(before: &[Array], after: &[Array], same: fn(f64, f64) -> bool) -> bool {
    before.iter().zip(after).all(|(before, after)| {
        before.elements.iter().zip(&after.elements).all(|(&a, &b)| same(a, b))
    })
}

/// Sums and products with constants. `@` is the operand that is not constant.
fn with_constant(op: usize, constant: &str) -> String {
    match op % 5 {
        0 => format!("Add(@, {constant})"),
        1 => format!("Sub(@, {constant})"),
        2 => format!("Sub({constant}, @)"),
        3 => format!("Mul({constant}, @)"),
        _ => format!("Div(@, {constant})"),
    }
}

/// Checks a rewrite that may round differently. The difference is small compared with the absolute values of all terms.
/// A finite result stays finite, and inputs that are NaN or infinite have the same result.
fn differ_by_rounding([before, after]: [&Model; 2], input: &Array) -> Result<(), TestCaseError> {
    let sizes: Vec<f64> = input.elements.iter().map(|element| element.abs()).collect();
    let sizes = Array::new(F32, &input.shape, &sizes);
    let [wanted, found] =
        [before, after].map(|model| interpret(model, std::slice::from_ref(input), Semantics::Jax));
    let magnitudes = interpret(before, &[sizes], Semantics::Magnitude);
    let is_finite = input.elements.iter().all(|element| element.is_finite());
    for ((&wanted, &found), size) in
        wanted[0].elements.iter().zip(&found[0].elements).zip(&magnitudes[0].elements)
    {
        let is_same = same_number(wanted, found) || (wanted - found).abs() <= 1e-6 * size + 1e-37;
        let has_overflown = is_finite && !wanted.is_finite();
        prop_assert!(
            is_same || has_overflown,
            "{}\nbecame\n{}\n{:?}: {:e}, not {:e}",
            before.text(),
            after.text(),
            input,
            found,
            wanted,
        );
    }
    Ok(())
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec((any::<u8>(), 0..60_usize, 0..60_usize, 0..60_usize), 1..9)
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 600, rng_seed: RngSeed::Fixed(5), ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_canonical_graph_computes_the_same_bits(steps in steps(), seed in 0..64_usize) {
        let program = Program::of(&steps);
        let (before, mut after) = (program.model(), program.model());
        run(&mut after, &[canonicalize::everything, testing::drop_dead]);
        for seed in seed..seed + 4 {
            let inputs = inputs(seed);
            let [wanted, found] =
                [&before, &after].map(|model| interpret(model, &inputs, Semantics::Jax));
            prop_assert!(
                are_same(&wanted, &found, same_bits),
                "{}\nbecame\n{}\n{:?}\n{:?}\nnot\n{:?}", program.text(), after.text(), inputs, found, wanted,
            );
        }
    }

    #[test]
    fn the_runtime_computes_the_zeros_of_jax(mut steps in steps(), seed in 0..64_usize) {
        // The last quotient depends on the sign of zero.
        steps.push((3, 0, 4, 1));
        let program = Program::of(&steps);
        let (before, mut after) = (program.model(), program.model());
        run(&mut after, &[canonicalize::everything, testing::drop_dead]);
        keep_zero_signs::run(&mut after);
        for (seed, returns_first_zero) in [(seed, true), (seed, false), (seed + 1, true), (seed + 2, false)] {
            let inputs = inputs(seed);
            let wanted = interpret(&before, &inputs, Semantics::Jax);
            let found = interpret(&after, &inputs, Semantics::Runtime { returns_first_zero });
            prop_assert!(
                are_same(&wanted, &found, same_number),
                "{}\nbecame\n{}\n{:?}\n{:?}\nnot\n{:?}", program.text(), after.text(), inputs, found, wanted,
            );
        }
    }

    #[test]
    fn a_merged_chain_differs_by_rounding(
        steps in proptest::collection::vec((0..5_usize, 0..CHAIN_CONSTANTS.len()), 2..6),
    ) {
        let mut text = String::from("graph g(x:f32[3]) -> (y)\n");
        for (place, &(op, constant)) in steps.iter().enumerate() {
            let formula = with_constant(op, CHAIN_CONSTANTS[constant]);
            let from = if place == 0 { "x".to_owned() } else { format!("%{}", place - 1) };
            let _ = writeln!(text, "%{place}:f32[3] = {}", formula.replace('@', &from));
        }
        let _ = writeln!(text, "y:f32[3] = Identity(%{})", steps.len() - 1);
        let before = onnx::text::parse_graph(&text).expect("a graph of a test can be parsed");
        let mut after = before.clone();
        run(&mut after, &[merge_affine::run, testing::drop_dead]);
        for numbers in CHAIN_INPUTS.chunks_exact(3) {
            differ_by_rounding([&before, &after], &Array::new(F32, &[3], numbers))?;
        }
    }

    #[test]
    fn a_folded_product_differs_by_rounding(
        steps in proptest::collection::vec((0..5_usize, 0..FACTORS.len(), 0..FACTORS.len()), 1..4),
        at in 0..4_usize,
        weights in proptest::array::uniform4(proptest::sample::select(&WEIGHTS[..])),
        is_convolution in any::<bool>(),
    ) {
        let [a, b, c, d] = weights;
        let (ty, product) = match is_convolution {
            true => ("f32[1,2,2]", format!("Conv(@, [[[{a:?}], [{b:?}]], [[{c:?}], [{d:?}]]])")),
            false => ("f32[2,2]", format!("MatMul(@, [[{a:?}, {b:?}], [{c:?}, {d:?}]])")),
        };
        let mut formulas: Vec<String> = steps
            .iter()
            .map(|&(op, a, b)| match is_convolution {
                _ if a % 2 == 0 => with_constant(op, FACTORS[a]),
                true => with_constant(op, &format!("[[{}], [{}]]", FACTORS[a], FACTORS[b])),
                false => with_constant(op, &format!("[{}, {}]", FACTORS[a], FACTORS[b])),
            })
            .collect();
        formulas.insert(at.min(formulas.len()), product);
        let mut text = format!("graph g(x:{ty}) -> (%{})\n", formulas.len() - 1);
        for (place, formula) in formulas.iter().enumerate() {
            let from = if place == 0 { "x".to_owned() } else { format!("%{}", place - 1) };
            let _ = writeln!(text, "%{place}:{ty} = {}", formula.replace('@', &from));
        }
        let before = onnx::text::parse_graph(&text).expect("a graph of a test can be parsed");
        let mut after = before.clone();
        run(&mut after, &[fold_products::run, testing::drop_dead]);
        let shape: &[usize] = if is_convolution { &[1, 2, 2] } else { &[2, 2] };
        for numbers in PRODUCT_INPUTS {
            differ_by_rounding([&before, &after], &Array::new(F32, shape, &numbers))?;
        }
    }
}
