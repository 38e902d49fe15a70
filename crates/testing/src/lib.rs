//! Tests passes: a test takes the text of a graph and expects the text of the new graph, with the lines of each node.

#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test panics if it fails"
)]

pub mod interpret;

use std::fmt::Write;

use algebra::rewrite::{Formulas, RewriteNode, run_each};
use expect_test::Expect;
use onnx::{Edit, Model, Node};

/// Numbers for which mathematically equal formulas may differ. The property tests draw from them.
pub const SPECIAL_FLOATS: [f64; 19] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.3,
    -2.5,
    7.0,
    1e-3,
    -1e-8,
    1e-40,
    -1e-45,
    300.0,
    -65504.0,
    1e10,
    1e30,
    3e38,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

/// Runs one pass on the graph. The origin of each node is its line in the text. In the result, a comment after each node
/// lists the lines of its origins, the first one first.
#[track_caller]
pub fn check(pass: impl Fn(&mut Edit<'_>), graph: &str, expect: Expect) {
    check_all(&[&pass], graph, expect);
}

/// Applies a rewrite to each node, in order.
pub fn each(rewrite: RewriteNode) -> impl Fn(&mut Edit<'_>) {
    move |edit| run_each(edit, rewrite)
}

/// Runs the stages of formulas.
pub fn formulas(formulas: &Formulas) -> impl Fn(&mut Edit<'_>) {
    |edit| formulas.run(edit)
}

/// Like [`check`], with another opset.
#[track_caller]
pub fn check_at(opset: i64, pass: impl Fn(&mut Edit<'_>), graph: &str, expect: Expect) {
    let set_opset = |model: &mut Model| {
        for (_, version) in model.opsets.iter_mut().filter(|(domain, _)| domain.is_empty()) {
            *version = opset;
        }
    };
    check_model_of(graph, set_opset, &[&pass], expect);
}

/// Like [`check`], for a runtime.
#[track_caller]
pub fn check_for(target: &str, pass: RewriteNode, graph: &str, expect: Expect) {
    let target = onnx::kernels::Target::parse([target]).unwrap();
    check_model_of(graph, |model| model.target = target, &[&each(pass), &drop_dead], expect);
}

/// Like [`check`], with results that need not be exact for NaN.
#[track_caller]
pub fn check_ignoring_nan(pass: impl Fn(&mut Edit<'_>), graph: &str, expect: Expect) {
    check_model_of(graph, |model| model.exact_nan = false, &[&pass], expect);
}

/// Like [`check_lean`], for a model that dequantizes weights in each run.
#[track_caller]
pub fn check_dequantizing(pass: impl Fn(&mut Edit<'_>), graph: &str, expect: Expect) {
    check_model_of(graph, |model| model.dequantizes = true, &[&pass, &drop_dead], expect);
}

/// Like [`check`], but drops unread nodes after the pass.
#[track_caller]
pub fn check_lean(pass: impl Fn(&mut Edit<'_>), graph: &str, expect: Expect) {
    check_all(&[&pass, &drop_dead], graph, expect);
}

/// Like [`check`], with several passes.
#[track_caller]
pub fn check_all(passes: &[&dyn Fn(&mut Edit<'_>)], graph: &str, expect: Expect) {
    check_model_of(graph, |_| {}, passes, expect);
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "a test is two texts")]
fn check_model_of(
    graph: &str,
    prepare: impl Fn(&mut Model),
    passes: &[&dyn Fn(&mut Edit<'_>)],
    expect: Expect,
) {
    let mut model = onnx::text::parse_graph(graph).expect("the graph of a test can be parsed");
    prepare(&mut model);
    for pass in passes {
        model.edit(&mut |edit| pass(edit));
    }
    onnx::check::check(&model).expect("a pass leaves a valid model");
    onnx::check::check_types(&model).expect("a pass leaves types that follow from operands");
    expect.assert_eq(&text_with_lines(&model));
}

/// Runs one pass on the model. All functions get the same title.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "a test is two texts")]
pub fn check_model(pass: fn(&mut Model), text: &str, expect: Expect) {
    let mut model = onnx::text::parse_graph(text).expect("the model of a test can be parsed");
    for function in &mut model.functions {
        function.title = "f".into();
    }
    pass(&mut model);
    onnx::check::check(&model).expect("a pass leaves a valid model");
    onnx::check::check_types(&model).expect("a pass leaves types that follow from operands");
    expect.assert_eq(&text_with_lines(&model));
}

fn text_with_lines(model: &Model) -> String {
    let functions = model.functions.iter().flat_map(|function| &function.body.nodes);
    let mut nodes = nodes_in_order(model.graph.nodes.iter().chain(functions)).into_iter();
    let mut text = String::new();
    for line in model.text().to_string().lines() {
        text.push_str(line);
        if line.contains(" = ")
            && !line.contains(" = const")
            && let Some(node) = nodes.next()
        {
            let _ = write!(text, "  # {}", lines(model, node));
        }
        text.push('\n');
    }
    text
}

fn nodes_in_order<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Vec<&'a Node> {
    let with_bodies = |node| {
        let inner = Node::bodies(node).flat_map(|body| nodes_in_order(&body.nodes));
        std::iter::once(node).chain(inner).collect::<Vec<_>>()
    };
    nodes.into_iter().flat_map(with_bodies).collect()
}

fn lines(model: &Model, node: &Node) -> String {
    let table = &model.provenance;
    let line = |site| {
        let stack = table.get_site(site).stack.expect("a node of a test has a frame");
        table.get_location(table.get_frame(stack).location).line.to_string()
    };
    let sites = table.get_origin(model.origin_of(node)).sites();
    sites.map(line).collect::<Vec<_>>().join(" ")
}

/// The rewrite `drop-dead`.
pub fn drop_dead(edit: &mut Edit<'_>) {
    edit.drop_unread();
}
