//! Tests of `drop-dead`.

use expect_test::expect;

use testing::check;

#[test]
fn unread_nodes_are_dropped_with_their_unread_inputs() {
    check(
        |edit| edit.drop_unread(),
        "graph g(x:f32[3]) -> (y)
%0:f32[3] = Sin(x)
%1:f32[3] = Cos(%0)
y:f32[3] = Exp(x)",
        expect![[r#"
            graph g(x:f32[3]) -> (y)
            y:f32[3] = Exp(x)  # 4
        "#]],
    );
}

#[test]
fn a_value_that_only_a_body_reads_is_kept() {
    check(
        |edit| edit.drop_unread(),
        "graph g(x:f32[3], c:bool[]) -> (y)
%0:f32[3] = Sin(x)
y:f32[3] = If(c) {else_branch={
  graph e() -> (z)
  z:f32[3] = Cos(%0)
}, then_branch={
  graph t() -> (w)
  w:f32[3] = Exp(x)
}}",
        expect![[r#"
            graph g(x:f32[3], c:bool[]) -> (y)
            %0 = Sin(x)  # 2
            y:f32[3] = If(c) {else_branch={  # 3
              graph e() -> (z)
              z:f32[3] = Cos(%0)  # 5
            }, then_branch={
              graph t() -> (w)
              w:f32[3] = Exp(x)  # 8
            }}
        "#]],
    );
}

#[test]
fn nodes_that_were_inserted_after_the_last_node_are_kept() {
    use onnx::{Op, OpType};
    check(
        |edit| {
            let Some(x) = edit.input(1, 0) else { return };
            let back = |value| Op::new(OpType::Cast, &[value]).attr("to", 1);
            let tanh = Op::new(OpType::Tanh, &[x]);
            assert!(edit.patch(1, |patch| {
                patch.retype(1, &[], tanh, &back).ok()?;
                patch.finish()
            }));
            edit.drop_unread();
        },
        "graph g(x:f64[3]) -> (y)
%0:f64[3] = Sin(x)
y:f32[3] = Exp(%0)",
        expect![[r#"
            graph g(x:f64[3]) -> (y)
            %0 = Sin(x)  # 2
            %1 = Tanh(%0)  # 3
            y:f32[3] = Cast(%1) {to=1}  # 3
        "#]],
    );
}
