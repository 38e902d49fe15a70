//! How plugins are tested: jaxpr text in, graph text out.

use expect_test::Expect;

use crate::lower::{Options, lower};

/// Lowers the jaxpr and compares the graph, or the refusal, with what is expected.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "an expectation is written where it is passed")]
pub(crate) fn check(jaxpr: &str, expect: Expect) {
    let program = jaxpr::parse(jaxpr).expect("the jaxpr of a test can be parsed");
    let options = Options { model_name: "test".into(), opset: 23 };
    let text = match lower(program, &options) {
        Ok(model) => model.text().to_string(),
        Err(failure) => format!("refused: {}\n", failure.error),
    };
    expect.assert_eq(&text);
}
