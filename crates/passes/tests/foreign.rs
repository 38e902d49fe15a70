//! Checks that passes leave operators of other domains unchanged, even if they have the name of an ONNX operator.

use onnx::{Model, OpType};
use options::Options;
use passes::optimize;

#[expect(clippy::expect_used, reason = "only tests call it")]
fn optimized(text: &str) -> Model {
    let mut model = onnx::text::parse_graph(text).expect("the graph of a test can be parsed");
    optimize(&mut model, &Options::default(), true, &mut |_| {});
    onnx::check::check(&model).expect("the passes leave a valid model");
    model
}

fn names(model: &Model) -> Vec<String> {
    let nodes = model.graphs().into_iter().flat_map(|graph| &graph.nodes);
    nodes.map(|node| format!("{}::{}", node.op.domain(), node.op.name())).collect()
}

/// Each calls the foreign operator where passes look for ONNX's: between nodes that compute, behind
/// constants, beside neutral numbers, twice, and around what undoes it.
const PLACES: &[&str] = &[
    "graph g(x:f32[2,3]) -> (y)
%0:f32[2,3] = Sin(x)
%1:f32[2,3] = custom::@(%0)
y:f32[2,3] = Exp(%1)",
    "graph g(x:f32[2,3]) -> (y)
%0:f32[2,3] = Sin(x)
%1:f32[2,3] = custom::@(%0, [2, 3]:i64)
y:f32[2,3] = Add(%1, x)",
    "graph g(x:f32[2,3]) -> (y)
%0:f32[2,3] = custom::@(1.0, [2, 3]:i64)
y:f32[2,3] = Mul(%0, x)",
    "graph g(x:f32[2,3]) -> (y)
%0:f32[2,3] = custom::@(x, 1.0)
%1:f32[2,3] = custom::@(%0, 0.0)
y:f32[2,3] = Exp(%1)",
    "graph g(x:f32[2,3]) -> (y)
%0:f32[3,2] = Transpose(x) {perm=[1, 0]}
%1:f32[3,2] = custom::@(%0) {perm=[1, 0]}
y:f32[2,3] = Transpose(%1) {perm=[1, 0]}",
    "graph g(x:f32[2,3], w:f32[3,3]) -> (y)
%0:f32[2,3] = MatMul(x, w)
%1:f32[2,3] = custom::@(%0, [1.0, 2.0, 3.0])
y:f32[2,3] = Add(%1, [1.0, 2.0, 3.0])",
    "graph g(x:f32[2,3], c:bool[2,3]) -> (y)
%0:bool[2,3] = custom::@(c, true)
%1:bool[2,3] = Not(%0)
y:f32[2,3] = Where(%1, x, 0.0)",
    "graph g(x:i32[2,3]) -> (y)
%0:i64[2,3] = Cast(x) {to=7}
%1:i64[2,3] = custom::@(%0) {to=7}
y:i32[2,3] = Cast(%1) {to=6}",
    "graph g(x:f32[2,3]) -> (y)
%0:f32[2,3] = custom::@(x, [1]:i64) {axis=1}
%1:f32[2,1] = ReduceSum(%0, [1]:i64) {keepdims=1}
%2:f32[2,3] = Expand(%1, [2, 3]:i64)
y:f32[2,3] = Div(%0, %2)",
];

#[test]
fn an_operator_of_another_domain_stays_whatever_its_name_is() {
    for op in OpType::ALL {
        for place in PLACES {
            let text = place.replace('@', op.name());
            let before = text.matches("custom::").count();
            let after = optimized(&text);
            let wanted = format!("custom::{op}");
            let left = names(&after).into_iter().filter(|name| *name == wanted).count();
            assert_eq!(left, before, "{text}\nbecame\n{}", after.text());
        }
    }
}

/// A formula, the operator that it becomes, and the operators in it.
const FORMULAS: &[(&str, &str, &[&str])] = &[
    (
        "graph g(x:f32[3]) -> (y)
%0:f32[3] = Softplus(x)
%1:f32[3] = Tanh(%0)
y:f32[3] = Mul(x, %1)",
        "::Mish",
        &["Softplus", "Tanh", "Mul"],
    ),
    (
        "graph g(x:f32[3]) -> (y)
%0:f32[3] = Mul(0.5, x)
%1:f32[3] = Neg(x)
%2:f32[3] = Mul(%1, 0.70710677)
%3:f32[3] = jax2onnx.composite::erfc(%2)
y:f32[3] = Mul(%0, %3)",
        "::Gelu",
        &["jax2onnx.composite::erfc"],
    ),
];

#[test]
fn a_formula_with_an_operator_of_another_domain_is_not_the_formula() {
    for (formula, fused, operators) in FORMULAS {
        assert_eq!(names(&optimized(formula)), [*fused]);
        for operator in *operators {
            let name = operator.rsplit("::").next().unwrap_or(operator);
            let foreign = format!("custom::{name}");
            let text = formula.replace(&format!(" {operator}("), &format!(" {foreign}("));
            let left = names(&optimized(&text));
            assert!(left.contains(&foreign) && !left.contains(&(*fused).into()), "{left:?}");
        }
    }
}

#[test]
fn a_loop_of_another_domain_is_not_a_loop() {
    for op in ["Loop", "Scan", "If"] {
        let text = format!(
            "graph g(x:f32[3]) -> (y)
y:f32[3] = custom::{op}(5:i64, true, x) {{body={{
  graph b(%0:i64[], %1:bool[], %2:f32[3]) -> (%3, %4)
  %3:bool[] = Identity(%1)
  %5:f32[3] = Sin(x)
  %4:f32[3] = Add(%5, %5)
}}}}"
        );
        let after = optimized(&text);
        let body = after.graph.nodes[0].bodies().next().expect("the node has its body");
        assert_eq!(body.inputs.len(), 3, "{}", after.text());
        assert_eq!(body.outputs.len(), 2, "{}", after.text());
        assert!(body.nodes.iter().any(|node| node.op == OpType::Sin), "{}", after.text());
    }
}
