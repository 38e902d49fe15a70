use expect_test::{Expect, expect};

use super::*;

/// Reads a text and prints it again.
#[track_caller]
fn check(text: &str, expect: &Expect) {
    match parse_graph(text) {
        Ok(model) => expect.assert_eq(&model.text().to_string()),
        Err(error) => expect.assert_eq(&error.to_string()),
    }
}

/// Checks that a text is printed as it was read.
#[track_caller]
fn unchanged(text: &str) {
    let model = parse_graph(text).unwrap();
    assert_eq!(model.typed_text().to_string(), text);
}

#[test]
fn a_graph_is_a_line_for_each_node() {
    check(
        "graph f(x:f32[3]) -> (y)
         w = const f32[3,4]
         %a:f32[3] = Div(x, 2.0)
         %b = Tanh(%a)
         y:f32[3] = Mul(%b, w) {axis=1}",
        &expect![[r"
            graph f(x:f32[3]) -> (y)
            w = const f32[3,4]
            %0 = Div(x, 2.0)
            %1 = Tanh(%0)
            y:f32[3] = Mul(%1, w) {axis=1}
        "]],
    );
}

#[test]
fn constants_say_their_type_unless_it_is_clear() {
    unchanged(
        "graph f() -> (2:i64, [[1, 2], [3, 4]]:u8, []:i64, 1e-5)
%0 = A(-0.0, inf, nan, -inf:f64, 0.33325195:f16, true, [true, false], [\"a\\\"b\", \"\"])
%1 = B(const f32[3,4], const f32[0,3], const u4[3] 0x2103, const c64[] 0x0000000000000000)
",
    );
}

#[test]
fn attributes_are_sorted_and_keep_their_kind() {
    unchanged(
        "graph f(x:f32[B,2*B + 1,floordiv(B, 2)]) -> (%0)
%0, _ = com.microsoft::Op(x, _, x) {a=1, b=1.0, c=\"s\", d=[1, 2], e=[1.0, 2.5], f=[\"a\", \"b\"], g=[], h=[]:floats, i=[]:strings, j=tensor [1, 2]:i64}
",
    );
}

#[test]
fn bodies_are_indented_and_see_what_is_around_them() {
    unchanged(
        "graph f(x:f32[3], c:bool[]) -> (y)
%0:f32[3] = Neg(x)
y:f32[3] = If(c) {else_branch={
  graph no() -> (%1)
  %1 = Mul(%0, x)
}, then_branch={
  graph yes() -> (b)
  b = If(c) {then_branch={
    graph inner() -> (%2)
    %2 = Neg(%0)
  }}
}}
function local::g(a) -> (b)
b = Neg(a)
",
    );
}

#[test]
fn names_that_are_not_words_are_in_backticks() {
    unchanged(
        "graph f(`dot:0`:f32[], a/b.c:f32[], `nan`:f32[]) -> (`\\``)\n`\\`` = Sum(`dot:0`, a/b.c, `nan`)\n",
    );
}

#[test]
fn every_node_has_the_origin_of_its_line() {
    let model = parse_graph("graph f(x:f32[]) -> (y)\n\n%0 = Neg(x)\ny = Neg(%0)").unwrap();
    let line = |node| {
        let origin = model.provenance.get_origin(model.origin_of(node));
        provenance::render::callsite(&model.provenance, origin.primary).unwrap()
    };
    assert_eq!(model.graph.nodes.iter().map(line).collect::<Vec<_>>(), ["f:3", "f:4"]);
}

#[test]
fn an_error_is_reported_with_its_position() {
    check(
        "graph f(x:f32[]) -> (y)\ny = Neg(z)",
        &expect!["line 2, column 10: expected a value that is defined before, not `z`"],
    );
    check("graph f(x:f23[]) -> (y)", &expect!["line 1, column 11: expected an element type"]);
    check(
        "graph f() -> ([[1], [2, 3]]:i64)",
        &expect!["line 1, column 27: expected rows of one length"],
    );
    check("graph f() -> (1)", &expect!["line 1, column 16: expected `:` and an element type"]);
}
