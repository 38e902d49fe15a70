//! Tests that facts about values hold, on random graphs.

#![expect(clippy::unwrap_used, reason = "a test panics if it fails")]

mod floats;
mod integers;

use onnx::facts::floats::NegativeZero;
use onnx::{Fact, Facts, Weights};

/// Asserts a fact about `y`, which the nodes compute from `x`, from `u` between −3 and 3, and from integers.
#[track_caller]
fn check(nodes: &str, holds: impl Fn(Fact) -> bool) {
    let inputs = "x:f32[2,4], u:f32[2,4], n:u32[2,4], k:i32[2,4], c:bool[2,4]";
    let graph = format!("graph g({inputs}) -> (y)\n%u:f32[2,4] = Clip(u, -3.0, 3.0)\n{nodes}");
    let mut model = onnx::text::parse_graph(&graph).unwrap();
    model.edit(&mut |edit| {
        let fact = edit.fact(edit.node(edit.len() - 1).outputs[0]);
        assert!(holds(fact), "{nodes}: {fact:?}");
    });
}

/// Asserts which signs the last value may have.
#[track_caller]
fn signs(nodes: &str, negative: bool, negative_zero: bool) {
    check(nodes, |fact| {
        (fact.may_be_negative(), fact.may_be_negative_zero()) == (negative, negative_zero)
    });
}

/// Asserts the largest absolute value of the last value, up to a few last digits. It is infinite if there is no limit.
#[track_caller]
fn most(nodes: &str, most: f64) {
    check(nodes, |fact| {
        let found = fact.floats().most();
        found == most || (found >= most && found <= most * 1.001)
    });
}

#[test]
fn a_square_and_an_absolute_value_have_no_sign() {
    signs("y:f32[2,4] = Mul(x, x)", false, false);
    signs("y:f32[2,4] = Mul(x, 2.0)", true, true);
    signs("%0:f32[2,4] = Abs(x)\ny:f32[2,4] = Mul(%0, 2.0)", false, false);
    signs("%0:f32[2,4] = Abs(x)\ny:f32[2,4] = Mul(%0, -2.0)", true, true);
    signs("%0:f32[2,4] = Abs(x)\n%1:f32[2,4] = Exp(x)\ny:f32[2,4] = Div(%0, %1)", false, false);
}

#[test]
fn a_sum_is_a_negative_zero_only_if_both_terms_are() {
    signs("y:f32[2,4] = Add(x, x)", true, true);
    signs("y:f32[2,4] = Add(x, 0.0)", true, false);
    signs("y:f32[2,4] = Add(x, -0.0)", true, true);
    signs("y:f32[2,4] = Sub(0.0, x)", true, false);
    signs("y:f32[2,4] = Sub(x, 0.0)", true, true);
}

#[test]
fn rounding_and_a_maximum_leave_a_negative_zero() {
    signs("y:f32[2,4] = Relu(x)", false, true);
    signs("y:f32[2,4] = Max(x, 0.0)", false, true);
    signs("y:f32[2,4] = Max(x, 1.0)", false, false);
    signs("%0:f32[2,4] = Sub(1.0, x)\ny:f16[2,4] = Cast(%0) {to=10}", true, true);
    signs("%0:f32[2,4] = Abs(x)\ny:f32[2,4] = Sqrt(%0)", false, false);
    signs("y:f32[2,4] = Sqrt(x)", false, true);
}

#[test]
fn a_zero_by_underflow_is_a_separate_case() {
    let zeros = |nodes: &str, expected| {
        check(nodes, |fact| fact.floats().negative_zero == expected);
    };
    zeros("%0:f32[2,4] = Add(x, 0.0)\ny:f32[2,4] = Mul(%0, 0.5)", NegativeZero::IfTooSmall);
    zeros("y:f32[2,4] = Mul(x, 0.5)", NegativeZero::Possible);
    zeros("y:f32[2,4] = Add(x, 0.0)", NegativeZero::Never);
}

#[test]
fn integers_have_one_zero_and_wrap() {
    signs("y:f32[2,4] = Cast(n) {to=1}", false, false);
    signs("y:f32[2,4] = Cast(k) {to=1}", true, false);
    for nodes in [
        "y:i32[2,4] = Mul(k, k)",
        "y:i32[2,4] = Abs(k)",
        "y:i32[2,4] = Cast(n) {to=6}",
        "y:i32[2,4] = BitCast(n) {to=6}",
        "%0:i32[2,4] = Abs(k)\ny:i32[2,4] = Add(%0, 1:i32)",
        "y:i32[1,1] = ReduceSumSquare(k)",
        "y:i32[2,4] = Cast(x) {to=6}",
    ] {
        signs(nodes, true, false);
    }
    for nodes in [
        "y:i64[2,4] = Cast(n) {to=7}",
        "y:u32[2,4] = Add(n, n)",
        "%0:i32[2,4] = Clip(k, -9:i32, 9:i32)\ny:i32[2,4] = Mul(%0, %0)",
        "%0:i32[2,4] = Max(k, -9:i32)\ny:i32[2,4] = Abs(%0)",
        "%0:i64[2,4] = Cast(k) {to=7}\n%1:i64[2,4] = Abs(%0)\ny:f32[2,4] = Cast(%1) {to=1}",
    ] {
        signs(nodes, false, false);
    }
}

#[test]
fn sums_and_products_are_limited_by_their_operands() {
    most("y:f32[2,4] = Sub(%u, 2.0)", 5.0);
    most("y:f32[2,4] = Mul(%u, %u)", 9.0);
    most("y:f32[2,4] = Div(%u, -0.5)", 6.0);
    most("%0:f32[4,2] = Transpose(%u) {perm=[1, 0]}\ny:f32[2,2] = MatMul(%u, %0)", 36.0);
    most("y:f32[2,4] = Where(c, %u, -7.0)", 7.0);
    most("y:f32[2,8] = Concat(%u, %u) {axis=1}", 3.0);
}

#[test]
fn a_value_that_may_overflow_has_no_limit() {
    most("%0:f32[2,4] = Mul(%u, 1e20)\ny:f32[2,4] = Mul(%0, 1e20)", f64::INFINITY);
    most("y:f32[2,4] = Div(%u, 0.0)", f64::INFINITY);
    most("%0:f32[2,4] = Mul(%u, 100.0)\ny:f32[2,4] = Exp(%0)", f64::INFINITY);
    most("y:f32[2,4] = Div(%u, %u)", f64::INFINITY);
    most("y:f32[2,4] = Neg(x)", f64::INFINITY);
}

#[test]
fn a_norm_is_limited_by_its_size_for_any_operand() {
    let norm = |x| {
        format!(
            "y:f32[2,4] = LayerNormalization({x}, [5.0, 5.0, 5.0, 5.0], [1.0, 1.0, 1.0, 1.0]) {{axis=1, epsilon=1e-5}}"
        )
    };
    most(&norm("x"), 11.0);
    check(&norm("x"), |fact| fact.floats().nan);
    check(&norm("x"), |fact| fact.floats().length < 12.1);
}

#[test]
fn a_table_of_angles_is_never_nan() {
    let angle = "%0:f32[2,4] = Cast(n) {to=1}\n%2:f32[2,4] = Mul(%0, 1e-4)";
    check(&format!("{angle}\ny:f32[2,4] = Cos(%2)"), |fact| !fact.floats().nan);
    check("y:f32[2,4] = Cos(x)", |fact| fact.floats().nan);
}

#[test]
fn a_large_constant_is_assumed_to_be_ordinary_and_checked_later() {
    use onnx::facts::ASSUMED;
    use onnx::tensor::Assumptions;
    use onnx::{DType, Tensor};

    for (number, is_wrong) in [(1.0, false), (1e7, true), (f64::NAN, true)] {
        let mut numbers = vec![1.0; 1 << 15];
        numbers[12_345] = number;
        let mut model = onnx::text::parse_graph(
            "graph g(x:f32[32768]) -> (y)\nw:f32[32768] = Neg(x)\ny:f32[32768] = Add(x, w)",
        )
        .unwrap();
        model.assumptions = Some(Assumptions::default());
        let assumptions = model.assumptions.clone().unwrap();
        model.edit(&mut |edit| {
            let tensor = Tensor::of_floats(DType::F32, vec![1 << 15], &numbers).unwrap();
            assert!(edit.patch(0, |patch| patch.done(&[], tensor)));
            let weight = edit.input(1, 1).unwrap();
            let mut facts = Facts::with(Weights::Assumed);
            assert_eq!(facts.of(edit, weight).floats().most(), ASSUMED);
            assert_eq!(
                edit.fact(weight),
                Fact::of_type(DType::F32),
                "nothing is assumed by default"
            );
            assert!(!assumptions.are_wrong(), "nothing makes use of it yet");
            facts.assume(edit);
            assert_eq!(assumptions.are_wrong(), is_wrong, "{number}");
        });
    }
}
