use expect_test::expect;

use super::check;

#[test]
fn a_node_is_shown_with_its_call_path() {
    check(
        "where indexed.onnx tanh",
        &expect![[r#"
            exit 0
            Tanh `tanh`
              --> mlp.py:17:12, in body
               |
            17 |     return jnp.tanh(carry) * SCALE, None
               |            ^^^^^^^^^^^^^^^
              called from mlp.py:23:12, in predict
               |
            23 |     y, _ = jax.lax.scan(body, y, None, length=3)
               |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
               = through   scan
               = plugin    TanhPlugin.lower, crates/lowering/src/plugins.rs:118
               = inside    body of scan
               = in        scan.body.input_2  f32[B,3]
               = out       tanh  f32[B,3]
        "#]],
    );
}

#[test]
fn a_fused_node_is_shown_with_all_its_lines() {
    check(
        "where mapped.onnx LayerNormalization",
        &expect![[r#"
            exit 0
            LayerNormalization `head/layer_norm`
              --> mlp.py:13:12, in normalize
               |
            13 |     return centred / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
               |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              called from mlp.py:22:21, in predict
               |
            22 |         y = jnp.sin(normalize(x)) @ WEIGHT
               |                     ^^^^^^^^^^^^
               = scope     head
               = plugin    DivPlugin.lower, crates/lowering/src/elementwise/arithmetic.rs:11
               = in        x  f32[B,8]
               = in        head/layer_norm.const  f32[8]
               = out       head/layer_norm  f32[B,8]
            also from
              --> mlp.py:12:15, in normalize
               |
            12 |     centred = x - x.mean(-1, keepdims=True)
               |               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        "#]],
    );
}

#[test]
fn a_node_of_an_optimised_model_is_found_by_the_map() {
    check(
        "where optimised.onnx head/sin --map mapped.onnx.map",
        &expect![[r#"
            exit 0
            Sin `head/sin`
              --> mlp.py:22:13, in predict
               |
            22 |         y = jnp.sin(normalize(x)) @ WEIGHT
               |             ^^^^^^^^^^^^^^^^^^^^^
               = scope     head
               = plugin    SinPlugin.lower, crates/lowering/src/plugins.rs:115
               = in        head/layer_norm  f32[B,8]
               = out       head/sin  f32[B,8]
        "#]],
    );
}

#[test]
fn full_has_files_and_minimal_has_functions() {
    check(
        "where full.onnx head/sin",
        &expect![[r#"
            exit 0
            Sin `head/sin`
              --> mlp.py:22, in predict
               |
            22 |         y = jnp.sin(normalize(x)) @ WEIGHT
               = plugin    SinPlugin.lower, crates/lowering/src/plugins.rs:115
               = in        head/layer_norm  f32[B,8]
               = out       head/sin  f32[B,8]
        "#]],
    );
}

#[test]
fn minimal_has_no_files() {
    check(
        "where minimal.onnx head/sin",
        &expect![[r#"
            exit 0
            Sin `head/sin`
              --> line 22, in predict
               = file      the level `minimal` does not record files: export with `provenance="indexed"`
               = plugin    SinPlugin.lower, line 115
               = in        head/layer_norm  f32[B,8]
               = out       head/sin  f32[B,8]
        "#]],
    );
}

#[test]
fn a_model_that_says_nothing_still_has_types() {
    check(
        "where off.onnx head/sin",
        &expect![[r#"
            exit 0
            Sin `head/sin`
               = origin    the model contains no provenance: pass its source map with --map, or export it with `provenance="indexed"`
               = in        head/layer_norm  f32[B,8]
               = out       head/sin  f32[B,8]
        "#]],
    );
}

#[test]
fn a_weight_is_shown_with_its_readers() {
    check(
        "where indexed.onnx WEIGHT",
        &expect![[r#"
            exit 0
            initializer `WEIGHT`
              --> mlp.py:22:13, in predict
               |
            22 |         y = jnp.sin(normalize(x)) @ WEIGHT
               |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
               = origin    the lines that read it
               = path      WEIGHT
               = out       WEIGHT  f32[8,3]
               = read by   head/dot_general, mlp.py:22, in predict
        "#]],
    );
}

#[test]
fn an_ambiguous_name_lists_the_candidates() {
    check(
        "where indexed.onnx head",
        &expect![[r#"
            exit 1
            --- stderr
            `head` matches 4 names:
              #0  head/layer_norm  LayerNormalization, mlp.py:13
              #1  head/sin  Sin, mlp.py:22
              #2  head/dot_general  MatMul, mlp.py:22
              head/layer_norm.const  an input or a weight
        "#]],
    );
}

#[test]
fn a_missing_name_lists_similar_names() {
    check(
        "where indexed.onnx tahn",
        &expect![[r#"
            exit 1
            --- stderr
            no node or value has the name `tahn`

            hint: a similar name is `tanh`
        "#]],
    );
}

#[test]
fn a_missing_number_lists_the_numbers() {
    check(
        "where indexed.onnx #999",
        &expect![[r#"
            exit 1
            --- stderr
            no node or value has the name `#999`

            hint: the nodes of the model are `#0` to `#10`
        "#]],
    );
}

#[test]
fn a_name_that_the_runtime_made_is_resolved() {
    check(
        "where indexed.onnx head/sin/MatMulAddFusion",
        &expect![[r#"
            exit 0
            runtime name `head/sin/MatMulAddFusion`
              --> mlp.py:22:13, in predict
               |
            22 |         y = jnp.sin(normalize(x)) @ WEIGHT
               |             ^^^^^^^^^^^^^^^^^^^^^
               = sure      the node replaces nodes from all of these lines
               = scope     head
               = plugin    SinPlugin.lower, crates/lowering/src/plugins.rs:115
        "#]],
    );
}

#[test]
fn torch_has_a_stack_trace_and_scopes() {
    check(
        "where foreign/torch.onnx node_linear_1",
        &expect![[r#"
            exit 0
            Gemm `node_linear_1`
              --> /home/ann/project/torch_model.py:15, in forward
               |
            15 | return self.fc2(torch.relu(self.fc1(x)))
               = scope     fc2
               = plugin    aten.linear.default
               = in        relu  f32[2,3]
               = in        fc2.weight  f32[2,3]
               = in        fc2.bias  f32[2]
               = out       linear_1  f32[2,2]
            --- stderr
            note: `/home/ann/project/torch_model.py` was not found here: pass its folder with --source-root
        "#]],
    );
}

#[test]
fn torch_with_its_source_at_hand() {
    check(
        "where foreign/torch.onnx node_relu --source-root foreign",
        &expect![[r#"
            exit 0
            Relu `node_relu`
              --> /home/ann/project/torch_model.py:15, in forward
               |
            15 |         return self.fc2(torch.relu(self.fc1(x)))
               = plugin    aten.relu.default
               = in        linear  f32[2,3]
               = out       relu  f32[2,3]
        "#]],
    );
}

#[test]
fn old_torch_has_frames_in_doc_strings() {
    check(
        "where foreign/torch_doc.onnx /fc1/Gemm --source-root foreign",
        &expect![[r#"
            exit 0
            Gemm `/fc1/Gemm`
              --> /home/ann/project/torch_model.py:15, in forward
               |
            15 |         return self.fc2(torch.relu(self.fc1(x)))
               = in        onnx::Gemm_0  f32[2,4]
               = in        fc1.weight  f32[3,4]
               = in        fc1.bias  f32[3]
               = out       /fc1/Gemm_output_0  ?
        "#]],
    );
}

#[test]
fn the_python_package_at_minimal() {
    check(
        "where foreign/python_minimal.onnx node_Tanh_0",
        &expect![[r#"
            exit 0
            Tanh `node_Tanh_0`
              --> line 8, in activate
               = file      the level `minimal` does not record files: export with `provenance="indexed"`
               = plugin    JnpTanhPlugin.lower, line 105
               = in        in_0  f32[B,4]
               = out       jnp_tanh_out_0  f32[B,4]
        "#]],
    );
}

#[test]
fn the_python_package_at_full() {
    check(
        "where foreign/python_full.onnx node_Tanh_0 --source-root foreign",
        &expect![[r#"
            exit 0
            Tanh `node_Tanh_0`
              --> /home/ann/project/reference_model.py:8, in activate
               |
             8 |     return jnp.tanh(x) + 1.0
              called from /home/ann/project/reference_model.py:12, in predict
               |
            12 |     y = activate(x) * 2.0
               = plugin    JnpTanhPlugin.lower, line 105
               = in        in_0  f32[B,4]
               = out       jnp_tanh_out_0  f32[B,4]
        "#]],
    );
}
