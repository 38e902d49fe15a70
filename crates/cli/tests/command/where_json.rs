use expect_test::expect;

use super::check;

#[test]
fn programs_get_the_call_path_as_json() {
    check(
        "where mapped.onnx tanh --format json",
        &expect![[r#"
            exit 0
            {
              "version": 1,
              "model": "mapped.onnx",
              "asked": "tanh",
              "found": {
                "name": "tanh",
                "kind": "node",
                "op": "Tanh",
                "provenance": {
                  "sure": "exact",
                  "callsite": {
                    "file": "mlp.py",
                    "line": 17,
                    "function": "body",
                    "span": {
                      "column": 11,
                      "end_line": 17,
                      "end_column": 26
                    },
                    "tier": "user",
                    "source": "same",
                    "text": "    return jnp.tanh(carry) * SCALE, None"
                  },
                  "frames": [
                    {
                      "file": "jax/_src/source_info_util.py",
                      "line": 213,
                      "function": "current",
                      "span": {
                        "column": 48,
                        "end_line": 213,
                        "end_column": 84
                      },
                      "tier": "internal",
                      "source": "missing",
                      "text": null
                    },
                    {
                      "file": "jax/_src/interpreters/partial_eval.py",
                      "line": 1922,
                      "function": "DynamicJaxprTrace.process_primitive",
                      "span": {
                        "column": 18,
                        "end_line": 1922,
                        "end_column": 44
                      },
                      "tier": "internal",
                      "source": "missing",
                      "text": null
                    },
                    {
                      "file": "jax/_src/core.py",
                      "line": 713,
                      "function": "Primitive.bind_with_trace",
                      "span": {
                        "column": 11,
                        "end_line": 713,
                        "end_column": 54
                      },
                      "tier": "internal",
                      "source": "missing",
                      "text": null
                    },
                    {
                      "file": "jax/_src/core.py",
                      "line": 705,
                      "function": "Primitive.bind",
                      "span": {
                        "column": 13,
                        "end_line": 705,
                        "end_column": 66
                      },
                      "tier": "internal",
                      "source": "missing",
                      "text": null
                    },
                    {
                      "file": "jax/_src/pjit.py",
                      "line": 142,
                      "function": "_run_python_pjit",
                      "span": {
                        "column": 17,
                        "end_line": 142,
                        "end_column": 51
                      },
                      "tier": "internal",
                      "source": "missing",
                      "text": null
                    },
                    {
                      "file": "jax/_src/pjit.py",
                      "line": 259,
                      "function": "_cpp_pjit.<locals>.cache_miss",
                      "span": {
                        "column": 46,
                        "end_line": 260,
                        "end_column": 41
                      },
                      "tier": "internal",
                      "source": "missing",
                      "text": null
                    },
                    {
                      "file": "jax/_src/traceback_util.py",
                      "line": 195,
                      "function": "api_boundary.<locals>.reraise_with_filtered_traceback",
                      "span": {
                        "column": 13,
                        "end_line": 195,
                        "end_column": 33
                      },
                      "tier": "internal",
                      "source": "missing",
                      "text": null
                    },
                    {
                      "file": "mlp.py",
                      "line": 17,
                      "function": "body",
                      "span": {
                        "column": 11,
                        "end_line": 17,
                        "end_column": 26
                      },
                      "tier": "user",
                      "source": "same",
                      "text": "    return jnp.tanh(carry) * SCALE, None"
                    },
                    {
                      "file": "jax/_src/source_info_util.py",
                      "line": 213,
                      "function": "current",
                      "span": {
                        "column": 48,
                        "end_line": 213,
                        "end_column": 84
                      },
                      "tier": "internal",
                      "source": "missing",
                      "text": null
                    },
                    {
                      "file": "jax/_src/interpreters/partial_eval.py",
                      "line": 1922,
                      "function": "DynamicJaxprTrace.process_primitive",
                      "span": {
                        "column": 18,
                        "end_line": 1922,
                        "end_column": 44
                      },
                      "tier": "internal",
                      "source": "missing",
                      "text": null
                    },
                    {
                      "file": "jax/_src/core.py",
                      "line": 713,
                      "function": "Primitive.bind_with_trace",
                      "span": {
                        "column": 11,
                        "end_line": 713,
                        "end_column": 54
                      },
                      "tier": "internal",
                      "source": "missing",
                      "text": null
                    },
                    {
                      "file": "jax/_src/core.py",
                      "line": 705,
                      "function": "Primitive.bind",
                      "span": {
                        "column": 13,
                        "end_line": 705,
                        "end_column": 66
                      },
                      "tier": "internal",
                      "source": "missing",
                      "text": null
                    },
                    {
                      "file": "jax/_src/lax/control_flow/loops.py",
                      "line": 466,
                      "function": "scan",
                      "span": {
                        "column": 8,
                        "end_line": 469,
                        "end_column": 34
                      },
                      "tier": "internal",
                      "source": "missing",
                      "text": null
                    },
                    {
                      "file": "jax/_src/traceback_util.py",
                      "line": 195,
                      "function": "api_boundary.<locals>.reraise_with_filtered_traceback",
                      "span": {
                        "column": 13,
                        "end_line": 195,
                        "end_column": 33
                      },
                      "tier": "internal",
                      "source": "missing",
                      "text": null
                    },
                    {
                      "file": "mlp.py",
                      "line": 23,
                      "function": "predict",
                      "span": {
                        "column": 11,
                        "end_line": 23,
                        "end_column": 48
                      },
                      "tier": "user",
                      "source": "same",
                      "text": "    y, _ = jax.lax.scan(body, y, None, length=3)"
                    }
                  ],
                  "fused_from": [],
                  "plugin": {
                    "name": "TanhPlugin.lower",
                    "file": "crates/lowering/src/plugins.rs",
                    "line": 118
                  },
                  "scope": [],
                  "transforms": [
                    "scan"
                  ]
                },
                "path": null,
                "inside": [
                  "body of scan"
                ],
                "inputs": [
                  {
                    "name": "scan.body.input_2",
                    "type": "f32[B,3]"
                  }
                ],
                "outputs": [
                  {
                    "name": "tanh",
                    "type": "f32[B,3]"
                  }
                ],
                "called_by": [],
                "read_by": []
              },
              "candidates": [],
              "nearest": []
            }
        "#]],
    );
}

#[test]
fn programs_get_the_candidates_as_json() {
    check(
        "where indexed.onnx head --format json",
        &expect![[r#"
            exit 1
            {
              "version": 1,
              "model": "indexed.onnx",
              "asked": "head",
              "found": null,
              "candidates": [
                {
                  "name": "head/layer_norm",
                  "node": 0,
                  "callsite": {
                    "file": "mlp.py",
                    "line": 13,
                    "function": "normalize",
                    "span": {
                      "column": 11,
                      "end_line": 13,
                      "end_column": 62
                    },
                    "tier": "user"
                  }
                },
                {
                  "name": "head/sin",
                  "node": 1,
                  "callsite": {
                    "file": "mlp.py",
                    "line": 22,
                    "function": "predict",
                    "span": {
                      "column": 12,
                      "end_line": 22,
                      "end_column": 33
                    },
                    "tier": "user"
                  }
                },
                {
                  "name": "head/dot_general",
                  "node": 2,
                  "callsite": {
                    "file": "mlp.py",
                    "line": 22,
                    "function": "predict",
                    "span": {
                      "column": 12,
                      "end_line": 22,
                      "end_column": 42
                    },
                    "tier": "user"
                  }
                },
                {
                  "name": "head/layer_norm.const",
                  "node": null,
                  "callsite": null
                }
              ],
              "nearest": []
            }
        "#]],
    );
}
