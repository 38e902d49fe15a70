//! How passes are tested: graph text in, graph text out, with the lines that each node stands for.

use std::fmt::Write;

use expect_test::Expect;
use onnx::{Edit, Model, Node};

/// Runs one pass on the graph. A node of the text has the line it stands on as its origin; behind
/// each node that is left stand the lines it answers for, the one shown first at the front.
#[track_caller]
pub(crate) fn check(pass: fn(&mut Edit<'_>), graph: &str, expect: Expect) {
    check_all(&[pass], graph, expect);
}

/// As [`check`], with another opset than that of the text.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "a test is two texts")]
pub(crate) fn check_at(opset: i64, pass: fn(&mut Edit<'_>), graph: &str, expect: Expect) {
    let mut model = onnx::text::parse_graph(graph).expect("the graph of a test can be parsed");
    for (_, version) in model.opsets.iter_mut().filter(|(domain, _)| domain.is_empty()) {
        *version = opset;
    }
    model.edit(&mut |edit| pass(edit));
    onnx::check::check(&model).expect("a pass leaves a valid model");
    expect.assert_eq(&text_with_lines(&model));
}

/// As [`check`], where results need not be exact for NaN.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "a test is two texts")]
pub(crate) fn check_ignoring_nan(pass: fn(&mut Edit<'_>), graph: &str, expect: Expect) {
    let mut model = onnx::text::parse_graph(graph).expect("the graph of a test can be parsed");
    model.exact_nan = false;
    model.edit(&mut |edit| pass(edit));
    onnx::check::check(&model).expect("a pass leaves a valid model");
    expect.assert_eq(&text_with_lines(&model));
}

/// As [`check`], without what the pass leaves unread.
#[track_caller]
pub(crate) fn check_lean(pass: fn(&mut Edit<'_>), graph: &str, expect: Expect) {
    check_all(&[pass, crate::drop_dead::run], graph, expect);
}

/// As [`check`], with several passes.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "a test is two texts")]
pub(crate) fn check_all(passes: &[fn(&mut Edit<'_>)], graph: &str, expect: Expect) {
    let mut model = onnx::text::parse_graph(graph).expect("the graph of a test can be parsed");
    for pass in passes {
        model.edit(&mut |edit| pass(edit));
    }
    onnx::check::check(&model).expect("a pass leaves a valid model");
    expect.assert_eq(&text_with_lines(&model));
}

/// Runs one pass on the model, whose functions were all asked for under one name.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "a test is two texts")]
pub(crate) fn check_model(pass: fn(&mut Model), text: &str, expect: Expect) {
    let mut model = onnx::text::parse_graph(text).expect("the model of a test can be parsed");
    for function in &mut model.functions {
        function.title = "f".into();
    }
    pass(&mut model);
    onnx::check::check(&model).expect("a pass leaves a valid model");
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
