//! Tests plugins: a test takes the text of a jaxpr and expects the text of a graph.

use expect_test::Expect;
use options::Options;
use provenance::{SiteId, Table};

use crate::lower::{Call, lower};

/// Lowers the jaxpr and compares the graph or the refusal with the expectation.
#[track_caller]
pub(crate) fn check(jaxpr: &str, expect: Expect) {
    check_with(Options::default(), jaxpr, expect);
}

/// Does the same with other options.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "a test is two texts")]
pub(crate) fn check_with(options: Options, jaxpr: &str, expect: Expect) {
    let program = jaxpr::parse(jaxpr).expect("the jaxpr of a test can be parsed");
    let options = Options { model_name: "test".into(), ..options };
    let text = match lower(program, &options, &Call::default()) {
        Ok(mut model) => {
            inline_composites(&mut model);
            model.text().to_string()
        }
        Err(failure) => format!("refused: {}\n", failure.errors[0]),
    };
    expect.assert_eq(&text);
}

/// Lowers the jaxpr and compares the location of each node, or of the refusal, with the
/// expectation: the functions and lines, innermost first, and the name scopes, outermost first.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "a test is two texts")]
pub(crate) fn check_places(jaxpr: &str, expect: Expect) {
    let program = jaxpr::parse(jaxpr).expect("the jaxpr of a test can be parsed");
    let options = Options { model_name: "test".into(), ..Options::default() };
    let text = match lower(program, &options, &Call::default()) {
        Ok(mut model) => {
            inline_composites(&mut model);
            let table = &model.provenance;
            let place =
                |node: &onnx::Node| place(table, table.get_origin(model.origin_of(node)).primary);
            let functions = model.functions.iter().flat_map(|function| &function.body.nodes);
            let nodes = model.graph.nodes.iter().chain(functions);
            let lines: Vec<String> =
                nodes.map(|node| format!("{} {}", node.op.name(), place(node))).collect();
            lines.join("\n") + "\n"
        }
        Err(failure) => {
            let place = place(&failure.table, failure.errors[0].site);
            format!("refused {place}: {}\n", failure.errors[0])
        }
    };
    expect.assert_eq(&text);
}

/// Replaces composites by the nodes of their formulas.
fn inline_composites(model: &mut onnx::Model) {
    model.edit(&mut |edit| edit.inline_composites());
}

fn place(table: &Table, site: SiteId) -> String {
    let site = table.get_site(site);
    let frames = site.stack.into_iter().flat_map(|stack| table.frames(stack));
    let frames: Vec<String> = frames
        .map(|location| {
            let location = table.get_location(location);
            format!("{}:{}", table.get_function(location.function), location.line)
        })
        .collect();
    let scopes = site.scope.into_iter().flat_map(|scope| table.scope_path(scope).into_iter().rev());
    let scopes: Vec<&str> = scopes.map(|scope| &*table.get_scope(scope).name).collect();
    format!("@ {} #{}", frames.join(" < "), scopes.join("/"))
}
