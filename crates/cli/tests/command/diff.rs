use expect_test::expect;

use super::check;

#[test]
fn two_versions_read_like_a_review() {
    check(
        "diff indexed.onnx second.onnx",
        &expect![[r#"
            exit 1

            mlp.py, in body
              line 17
                  - Tanh
                  + Cos

            weights
              - WEIGHT  f32[8,3]
              + WEIGHT/folded  f32[8,3]

            1 line changed, 0 new, 0 gone, 2 moved; 11 → 11 nodes
        "#]],
    );
}

#[test]
fn two_levels_of_one_export_are_the_same() {
    check(
        "diff full.onnx indexed.onnx",
        &expect![[r#"
        exit 0
        no difference
    "#]],
    );
}

#[test]
fn one_without_files_is_compared_by_functions() {
    check(
        "diff minimal.onnx second.onnx",
        &expect![[r#"
            exit 1

            in body
              line 17
                  - Tanh
                  + Cos

            weights
              - WEIGHT  f32[8,3]
              + WEIGHT/folded  f32[8,3]

            1 line changed, 0 new, 0 gone, 2 moved; 11 → 11 nodes
        "#]],
    );
}

#[test]
fn models_without_lines_are_compared_by_name() {
    check(
        "diff off.onnx optimised.onnx",
        &expect![[r#"
        exit 1
        + opset ai.onnx.ml 5
        + opset ai.onnx.preview 1
        + opset ai.onnx.preview.training 1
        + opset ai.onnx.training 1
        + opset com.microsoft 1
        + opset com.microsoft.experimental 1
        + opset com.microsoft.nchwc 1
        + opset org.pytorch.aten 1

        0 lines changed, 0 new, 0 gone, 0 moved; 11 → 11 nodes
    "#]],
    );
}

#[test]
fn programs_get_the_difference_as_json() {
    check(
        "diff indexed.onnx second.onnx --format json",
        &expect![[r#"
            exit 1
            {
              "version": 1,
              "before": "indexed.onnx",
              "after": "second.onnx",
              "same": false,
              "model": [],
              "lines": [
                {
                  "file": "mlp.py",
                  "file_before": "mlp.py",
                  "function": "body",
                  "before": 17,
                  "after": 17,
                  "lost": [
                    {
                      "op": "Tanh",
                      "count": 1
                    }
                  ],
                  "gained": [
                    {
                      "op": "Cos",
                      "count": 1
                    }
                  ],
                  "changed": [],
                  "cost": null
                }
              ],
              "lines_moved": 2,
              "files_renamed": [],
              "nodes_without_line": [],
              "weights": [
                {
                  "name": "WEIGHT",
                  "kind": "gone",
                  "before": "f32[8,3]",
                  "after": null,
                  "read_at": []
                },
                {
                  "name": "WEIGHT/folded",
                  "kind": "new",
                  "before": null,
                  "after": "f32[8,3]",
                  "read_at": []
                }
              ],
              "nodes_before": 11,
              "nodes_after": 11,
              "cost": null
            }
        "#]],
    );
}

#[test]
fn what_a_change_costs_is_shown_by_line_and_in_total() {
    check(
        "diff indexed.onnx pool.onnx --cost --size B=4",
        &expect![[r#"
        exit 1
        ~ in x f32[B,8] → f32[B,T,2]
        + in y f32[S,4]
        ~ out out_0 f32[B,3] → f32[B,T,2]
        + out out_1 i32[4]

        mlp.py, in normalize
        - line 13  return centred / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
              - LayerNormalization
              flops 200 → 0
              transcendentals 4 → 0
              bytes read 160 B → 0 B
              bytes written 128 B → 0 B
              weights 32 B → 0 B

        mlp.py, in body
        - line 17  return jnp.tanh(carry) * SCALE, None
              - Mul, Tanh
              flops 36 → 0
              transcendentals 36 → 0
              bytes read 300 B → 0 B
              bytes written 288 B → 0 B
              weights 4 B → 0 B

        mlp.py, in predict
        - line 22  y = jnp.sin(normalize(x)) @ WEIGHT
              - MatMul, Sin
              flops 192 → 0
              transcendentals 32 → 0
              bytes read 352 B → 0 B
              bytes written 176 B → 0 B
              weights 96 B → 0 B
        - line 23  y, _ = jax.lax.scan(body, y, None, length=3)
              - Identity, Loop
              weights 9 B → 0 B
        - line 24  return jnp.where(y.sum() > 0, y, -y)
              - Greater, Neg, ReduceSum, Where
              flops 36 → 0
              bytes read 217 B → 0 B
              bytes written 101 B → 0 B
              weights 20 B → 0 B

        pool.py, in pool
        + line 9  most = lax.reduce_window(x, -jnp.inf, lax.max, window, (1, 1, 1), "SAME")
              + MaxPool, Mul, Transpose
              flops 0 → 24*T
              bytes read 0 B → 96*T + 4
              bytes written 0 B → 96*T
              weights 0 B → 4 B
        + line 10  most = lax.reduce_window(most, -jnp.inf, lax.max, window, (1, 1, 1), "SAME")
              + MaxPool, Mul, Transpose
              flops 0 → 24*T
              bytes read 0 B → 96*T + 4
              bytes written 0 B → 96*T
              weights 0 B → 4 B
        + line 11  return most, y.argmax(0)
              + ArgMax, Cast
              flops 0 → 4*S - 4
              operations 0 → 4
              bytes read 0 B → 16*S + 32
              bytes written 0 B → 48 B

        weights
          - WEIGHT  f32[8,3]
          - head/layer_norm.const  f32[8]

        costs
          flops 464 → 48*T + 4*S - 4
          transcendentals 72 → 0
          operations 0 → 4
          bytes read 1.0 KiB → 192*T + 16*S + 40
          bytes written 693 B → 192*T + 48
          weights 161 B → 8 B (-95.0 %)
          peak 256 B → 64*T + 16

        0 lines changed, 3 new, 5 gone, 0 moved; 11 → 8 nodes
    "#]],
    );
}

#[test]
fn a_change_that_costs_nothing_shows_no_costs() {
    check(
        "diff indexed.onnx second.onnx --cost",
        &expect![[r#"
        exit 1

        mlp.py, in body
          line 17
              - Tanh
              + Cos

        weights
          - WEIGHT  f32[8,3]
          + WEIGHT/folded  f32[8,3]

        1 line changed, 0 new, 0 gone, 2 moved; 11 → 11 nodes
    "#]],
    );
}
