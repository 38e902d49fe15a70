use expect_test::expect;

use super::check;

#[test]
fn source_lines_are_shown_with_their_nodes() {
    check(
        "blame mapped.onnx mlp.py",
        &expect![[r#"
            exit 0
             nodes    weights  line
                                  1 | """The function of the fixtures; `tools/command_fixtures.py` exports it."""
                                  2 |
                                  3 | import jax
                                  4 | import jax.numpy as jnp
                                  5 | import numpy as np
                                  6 |
                                  7 | SCALE = np.float32(2.0)
                                  8 | WEIGHT = np.arange(24, dtype=np.float32).reshape(8, 3)
                                  9 |
                                 10 |
                                 11 | def normalize(x):
                                 12 |     centred = x - x.mean(-1, keepdims=True)                     (LayerNormalization)
                 1       32 B    13 |     return centred / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)  LayerNormalization
                                 14 |
                                 15 |
                                 16 | def body(carry, _):
                 2        4 B    17 |     return jnp.tanh(carry) * SCALE, None                        Tanh, Mul
                                 18 |
                                 19 |
                                 20 | def predict(x):
                                 21 |     with jax.named_scope("head"):
                 2       96 B    22 |         y = jnp.sin(normalize(x)) @ WEIGHT                      Sin, MatMul
                 2        9 B    23 |     y, _ = jax.lax.scan(body, y, None, length=3)                Loop, Identity
                 4       20 B    24 |     return jnp.where(y.sum() > 0, y, -y)                        ReduceSum, Greater, Neg, Where
        "#]],
    );
}

#[test]
fn a_range_of_lines_can_be_shown() {
    check(
        "blame indexed.onnx mlp.py:11-18",
        &expect![[r#"
            exit 0
             nodes    weights  line
                                 11 | def normalize(x):
                                 12 |     centred = x - x.mean(-1, keepdims=True)                     (LayerNormalization)
                 1       32 B    13 |     return centred / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)  LayerNormalization
                                 14 |
                                 15 |
                                 16 | def body(carry, _):
                 2        4 B    17 |     return jnp.tanh(carry) * SCALE, None                        Tanh, Mul
                                 18 |
        "#]],
    );
}

#[test]
fn without_a_file_there_is_a_summary() {
    check(
        "blame indexed.onnx",
        &expect![[r#"
            exit 0
                11      161 B  mlp.py
                 1       32 B    normalize:12-13
                 2        4 B    body:17
                 8      125 B    predict:22-24
        "#]],
    );
}

#[test]
fn a_missing_file_lists_the_files_that_exist() {
    check(
        "blame indexed.onnx model.py",
        &expect![[r#"
            exit 1
            --- stderr
            no node came from a file `model.py`

            hint: the model has nodes from
              mlp.py
        "#]],
    );
}

#[test]
fn minimal_has_no_files() {
    check(
        "blame minimal.onnx mlp.py",
        &expect![[r#"
            exit 1
            --- stderr
            no node came from a file `mlp.py`

            hint: the level `minimal` does not record files: export with `provenance="indexed"`
        "#]],
    );
}

#[test]
fn a_model_without_lines_has_nothing_to_blame() {
    check(
        "blame off.onnx",
        &expect![[r#"
            exit 1
            --- stderr
            no node of `off.onnx` has a line

            hint: the model contains no provenance: pass its source map with --map, or export it with `provenance="indexed"`
        "#]],
    );
}

#[test]
fn lines_without_nodes_are_nothing() {
    check(
        "blame indexed.onnx mlp.py:1-3",
        &expect![[r#"
            exit 1
             nodes    weights  line
                                  1 | """The function of the fixtures; `tools/command_fixtures.py` exports it."""
                                  2 |
                                  3 | import jax
            --- stderr
            no node came from mlp.py:1-3
        "#]],
    );
}

#[test]
fn an_invalid_range_of_lines_is_an_error() {
    check(
        "blame indexed.onnx mlp.py:9-3",
        &expect![[r#"
            exit 2
            --- stderr
            error: invalid value 'mlp.py:9-3' for '[FILE[:LINE[-LINE]]]': `9-3` is not a range of lines: use FIRST-LAST, counted from 1

            For more information, try '--help'.
        "#]],
    );
}

#[test]
fn programs_get_lines_as_json() {
    check(
        "blame mapped.onnx mlp.py:17 --format json",
        &expect![[r#"
        exit 0
        {
          "version": 1,
          "model": "mapped.onnx",
          "file": "mlp.py",
          "source": "same",
          "lines": [
            {
              "nodes": [
                {
                  "node": "tanh",
                  "op": "Tanh"
                },
                {
                  "node": "mul",
                  "op": "Mul"
                }
              ],
              "fused": [],
              "weight_bytes": 4,
              "line": 17,
              "text": "    return jnp.tanh(carry) * SCALE, None"
            }
          ],
          "candidates": []
        }
    "#]],
    );
}

#[test]
fn torch_models_have_lines_too() {
    check(
        "blame foreign/torch.onnx torch_model.py:14-15 --source-root foreign",
        &expect![[r#"
            exit 0
             nodes    weights  line
                                 14 |     def forward(self, x):
                 3       92 B    15 |         return self.fc2(torch.relu(self.fc1(x)))  Gemm ×2, Relu
        "#]],
    );
}

#[test]
fn the_python_package_has_lines_too() {
    check(
        "blame foreign/python_full.onnx reference_model.py --source-root foreign --only-nodes",
        &expect![[r#"
            exit 0
             nodes    weights  line
                 2        4 B     8 |     return jnp.tanh(x) + 1.0               Tanh, Add
                 1        4 B    12 |     y = activate(x) * 2.0                  Mul
                 2        8 B    13 |     return jax.nn.sigmoid(y).sum(axis=-1)  Sigmoid, ReduceSum
        "#]],
    );
}
