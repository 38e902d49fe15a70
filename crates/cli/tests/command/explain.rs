use expect_test::{Expect, expect};

use super::check_arguments;

/// Explains a message about the sample model.
#[track_caller]
fn explain(message: &str, expect: &Expect) {
    check_arguments(&["explain", "indexed.onnx", "-m", message], expect);
}

#[test]
fn a_type_that_was_fed_is_an_error_without_its_prefix() {
    explain(
        "Unexpected input data type. Actual: (tensor(double)) , expected: (tensor(float))",
        &expect![[r#"
            exit 1
            error: Unexpected input data type. Actual: (tensor(double)) , expected: (tensor(float))
               = the line is not known: the message names no node and no value

            hint: the model takes `x` f32[B,8] and returns `out_0` f32[B,3]
        "#]],
    );
}

#[test]
fn a_name_that_was_fed_is_an_error_without_its_prefix() {
    explain(
        "Invalid Feed Input Name:token",
        &expect![[r#"
            exit 1
            error: Invalid Feed Input Name:token
               = the line is not known: the message names no node and no value

            hint: the model takes `x` f32[B,8] and returns `out_0` f32[B,3]
        "#]],
    );
}

#[test]
fn an_error_in_a_node_has_the_line_of_the_node() {
    explain(
        "error in node 'head/sin'",
        &expect![[r#"
            exit 0
            error: error in node 'head/sin'
              --> mlp.py:22:13, in predict
               |
            22 |         y = jnp.sin(normalize(x)) @ WEIGHT
               |             ^^^^^^^^^^^^^^^^^^^^^
               = certain: `head/sin` is a node of the model
               = from the message: error in node 'head/sin'
               = node: Sin `head/sin`
               = scope: head
               = reads: head/layer_norm f32[B,8]
               = makes: head/sin f32[B,8]
        "#]],
    );
}

#[test]
fn an_operator_that_is_there_once_has_its_line() {
    explain(
        "MatMul dimension mismatch",
        &expect![[r#"
            exit 0
            error: MatMul dimension mismatch
              --> mlp.py:22:13, in predict
               |
            22 |         y = jnp.sin(normalize(x)) @ WEIGHT
               |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
               = likely: the model has one MatMul node
               = from the message: MatMul dimension mismatch
               = node: MatMul `head/dot_general`
               = scope: head
               = reads: head/sin f32[B,8], WEIGHT f32[8,3]
               = makes: head/dot_general f32[B,3]

            hint: the shapes of the inputs do not match; a size with the same name in several inputs (`B` in `f32[B,3]`) must have the same value in all of them
        "#]],
    );
}

#[test]
fn the_name_of_a_node_is_enough() {
    explain(
        "head/dot_general",
        &expect![[r#"
        exit 0
        error: head/dot_general
          --> mlp.py:22:13, in predict
           |
        22 |         y = jnp.sin(normalize(x)) @ WEIGHT
           |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
           = certain: `head/dot_general` is a node of the model
           = from the message: head/dot_general
           = node: MatMul `head/dot_general`
           = scope: head
           = reads: head/sin f32[B,8], WEIGHT f32[8,3]
           = makes: head/dot_general f32[B,3]
    "#]],
    );
}

#[test]
fn a_name_of_another_program_is_not_an_error() {
    explain(
        "kubernetes moved the pod to node 'worker-3'",
        &expect![[r#"
        exit 1
        --- stderr
        note: jax2onnx does not recognize an error in this text; `jax2onnx where MODEL NAME` looks up a node
    "#]],
    );
}
