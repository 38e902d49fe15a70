use expect_test::expect;

use super::check;

#[test]
fn a_model_is_described() {
    check(
        "inspect indexed.onnx",
        &expect![[r#"
            exit 0
            indexed.onnx
              size     6.2 KiB, weights 161 B in 7 tensors
              made by  jax2onnx 0.1.0
              opset    23; IR 11
              in       x  f32[B,8]
              out      out_0  f32[B,3]

            11 nodes, 1 body
                  1  Greater
                  1  Identity
                  1  LayerNormalization
                  1  Loop
                  1  MatMul
                  1  Mul
                  1  Neg
                  1  ReduceSum
                  1  Sin
                  1  Tanh
                  1  Where

            provenance: indexed
              11 of 11 nodes have a line (100 %)
              1 node was fused from several lines

            files, by nodes
                 11  mlp.py

            functions of the source, by nodes
                  8  predict, mlp.py
                  2  body, mlp.py
                  1  normalize, mlp.py

            scopes, by nodes
                  3  head
        "#]],
    );
}

#[test]
fn an_optimised_model_is_described_by_the_map_of_what_it_was() {
    check(
        "inspect optimised.onnx --map mapped.onnx.map",
        &expect![[r#"
            exit 0
            optimised.onnx
              size     1.6 KiB, weights 161 B in 7 tensors
              made by  jax2onnx 0.1.0
              opset    23, ai.onnx.ml 5, ai.onnx.training 1, ai.onnx.preview 1, com.microsoft 1, ai.onnx.preview.training 1, com.microsoft.experimental 1, com.microsoft.nchwc 1, org.pytorch.aten 1; IR 11
              in       x  f32[B,8]
              out      out_0  f32[B,3]

            11 nodes, 1 body
                  1  Greater
                  1  Identity
                  1  LayerNormalization
                  1  Loop
                  1  MatMul
                  1  Mul
                  1  Neg
                  1  ReduceSum
                  1  Sin
                  1  Tanh
                  1  Where

            provenance: source map mapped.onnx.map
              11 of 11 nodes have a line (100 %)
              1 node was fused from several lines

            files, by nodes
                 11  mlp.py

            functions of the source, by nodes
                  8  predict, mlp.py
                  2  body, mlp.py
                  1  normalize, mlp.py

            scopes, by nodes
                  3  head
        "#]],
    );
}

#[test]
fn a_model_without_provenance_says_so() {
    check(
        "inspect off.onnx",
        &expect![[r#"
            exit 0
            off.onnx
              size     1.3 KiB, weights 161 B in 7 tensors
              made by  jax2onnx 0.1.0
              opset    23; IR 11
              in       x  f32[B,8]
              out      out_0  f32[B,3]

            11 nodes, 1 body
                  1  Greater
                  1  Identity
                  1  LayerNormalization
                  1  Loop
                  1  MatMul
                  1  Mul
                  1  Neg
                  1  ReduceSum
                  1  Sin
                  1  Tanh
                  1  Where

            provenance: off
        "#]],
    );
}

#[test]
fn programs_get_the_description_as_json() {
    check(
        "inspect minimal.onnx --format json",
        &expect![[r#"
            exit 0
            {
              "version": 1,
              "model": "minimal.onnx",
              "bytes": 3089,
              "producer": "jax2onnx",
              "producer_version": "0.1.0",
              "ir_version": 11,
              "opsets": [
                {
                  "domain": "",
                  "version": 23
                }
              ],
              "inputs": [
                {
                  "name": "x",
                  "type": "f32[B,8]",
                  "path": "x"
                }
              ],
              "outputs": [
                {
                  "name": "out_0",
                  "type": "f32[B,3]",
                  "path": "out_0"
                }
              ],
              "positive_sizes": [],
              "weights": {
                "count": 7,
                "elements": 38,
                "bytes": 161,
                "external_bytes": 0,
                "files": []
              },
              "nodes": 11,
              "bodies": 1,
              "ops": [
                {
                  "op": "Greater",
                  "nodes": 1
                },
                {
                  "op": "Identity",
                  "nodes": 1
                },
                {
                  "op": "LayerNormalization",
                  "nodes": 1
                },
                {
                  "op": "Loop",
                  "nodes": 1
                },
                {
                  "op": "MatMul",
                  "nodes": 1
                },
                {
                  "op": "Mul",
                  "nodes": 1
                },
                {
                  "op": "Neg",
                  "nodes": 1
                },
                {
                  "op": "ReduceSum",
                  "nodes": 1
                },
                {
                  "op": "Sin",
                  "nodes": 1
                },
                {
                  "op": "Tanh",
                  "nodes": 1
                },
                {
                  "op": "Where",
                  "nodes": 1
                }
              ],
              "functions": [],
              "provenance": {
                "level": "minimal",
                "map": null,
                "debug_id": null,
                "nodes_with_line": 11,
                "nodes_with_user_line": 11,
                "nodes_fused": 1,
                "sure": [],
                "files": [
                  {
                    "file": null,
                    "tier": "user",
                    "nodes": 11
                  }
                ],
                "functions": [
                  {
                    "file": null,
                    "function": "predict",
                    "nodes": 8
                  },
                  {
                    "file": null,
                    "function": "body",
                    "nodes": 2
                  },
                  {
                    "file": null,
                    "function": "normalize",
                    "nodes": 1
                  }
                ],
                "scopes": []
              }
            }
        "#]],
    );
}

#[test]
fn the_sizes_that_must_be_positive_are_listed_with_the_nodes_that_need_them() {
    check(
        "inspect pool.onnx",
        &expect![[r#"
            exit 0
            pool.onnx
              size     3.8 KiB, weights 8 B in 2 tensors
              made by  jax2onnx 0.1.0
              opset    23; IR 11
              in       x  f32[B,T,2]
              in       y  f32[S,4]
              out      out_0  f32[B,T,2]
              out      out_1  i32[4]
              positive S  for ArgMax at pool.py:11
              positive T  for MaxPool at pool.py:9, and 1 more node

            8 nodes
                  2  MaxPool
                  2  Mul
                  2  Transpose
                  1  ArgMax
                  1  Cast

            provenance: indexed
              8 of 8 nodes have a line (100 %)
              1 node was fused from several lines

            files, by nodes
                  8  pool.py

            functions of the source, by nodes
                  8  pool, pool.py
        "#]],
    );
}

#[test]
fn programs_get_the_sizes_that_must_be_positive_as_json() {
    check(
        "inspect pool.onnx --format json",
        &expect![[r#"
        exit 0
        {
          "version": 1,
          "model": "pool.onnx",
          "bytes": 3871,
          "producer": "jax2onnx",
          "producer_version": "0.1.0",
          "ir_version": 11,
          "opsets": [
            {
              "domain": "",
              "version": 23
            }
          ],
          "inputs": [
            {
              "name": "x",
              "type": "f32[B,T,2]",
              "path": "x"
            },
            {
              "name": "y",
              "type": "f32[S,4]",
              "path": "y"
            }
          ],
          "outputs": [
            {
              "name": "out_0",
              "type": "f32[B,T,2]",
              "path": "out_0"
            },
            {
              "name": "out_1",
              "type": "i32[4]",
              "path": "out_1"
            }
          ],
          "positive_sizes": [
            {
              "size": "S",
              "needed_by": [
                {
                  "node": "argmax",
                  "op": "ArgMax",
                  "callsite": {
                    "file": "pool.py",
                    "line": 11,
                    "function": "pool",
                    "span": {
                      "column": 17,
                      "end_line": 11,
                      "end_column": 28
                    },
                    "tier": "user"
                  }
                }
              ]
            },
            {
              "size": "T",
              "needed_by": [
                {
                  "node": "reduce_window_max_2",
                  "op": "MaxPool",
                  "callsite": {
                    "file": "pool.py",
                    "line": 9,
                    "function": "pool",
                    "span": {
                      "column": 11,
                      "end_line": 9,
                      "end_column": 77
                    },
                    "tier": "user"
                  }
                },
                {
                  "node": "reduce_window_max_3",
                  "op": "MaxPool",
                  "callsite": {
                    "file": "pool.py",
                    "line": 10,
                    "function": "pool",
                    "span": {
                      "column": 11,
                      "end_line": 10,
                      "end_column": 80
                    },
                    "tier": "user"
                  }
                }
              ]
            }
          ],
          "weights": {
            "count": 2,
            "elements": 2,
            "bytes": 8,
            "external_bytes": 0,
            "files": []
          },
          "nodes": 8,
          "bodies": 0,
          "ops": [
            {
              "op": "MaxPool",
              "nodes": 2
            },
            {
              "op": "Mul",
              "nodes": 2
            },
            {
              "op": "Transpose",
              "nodes": 2
            },
            {
              "op": "ArgMax",
              "nodes": 1
            },
            {
              "op": "Cast",
              "nodes": 1
            }
          ],
          "functions": [],
          "provenance": {
            "level": "indexed",
            "map": null,
            "debug_id": null,
            "nodes_with_line": 8,
            "nodes_with_user_line": 8,
            "nodes_fused": 1,
            "sure": [],
            "files": [
              {
                "file": "pool.py",
                "tier": "user",
                "nodes": 8
              }
            ],
            "functions": [
              {
                "file": "pool.py",
                "function": "pool",
                "nodes": 8
              }
            ],
            "scopes": []
          }
        }
    "#]],
    );
}

#[test]
fn a_model_of_torch_is_described() {
    check(
        "inspect foreign/torch.onnx",
        &expect![[r#"
            exit 0
            foreign/torch.onnx
              size     3.7 KiB, weights 92 B in 4 tensors
              made by  pytorch 2.15.0+cu132
              opset    20; IR 10
              in       x  f32[2,4]
              out      linear_1  f32[2,2]

            3 nodes
                  2  Gemm
                  1  Relu

            provenance: from torch.onnx
              3 of 3 nodes have a line (100 %)

            files, by nodes
                  3  /home/ann/project/torch_model.py

            functions of the source, by nodes
                  3  forward, /home/ann/project/torch_model.py

            scopes, by nodes
                  1  fc1
                  1  fc2
        "#]],
    );
}

#[test]
fn a_model_of_the_python_package_is_described() {
    check(
        "inspect foreign/python_full.onnx",
        &expect![[r#"
            exit 0
            foreign/python_full.onnx
              size     9.8 KiB, weights 24 B in 5 tensors
              made by  jax2onnx 0.17.1
              opset    23; IR 10
              in       in_0  f32[B,4]
              out      reducesum_out_0  f32[B]

            5 nodes
                  1  Add
                  1  Mul
                  1  ReduceSum
                  1  Sigmoid
                  1  Tanh

            provenance: full
              5 of 5 nodes have a line (100 %)

            files, by nodes
                  5  /home/ann/project/reference_model.py

            functions of the source, by nodes
                  3  predict, /home/ann/project/reference_model.py
                  2  activate, /home/ann/project/reference_model.py
        "#]],
    );
}
