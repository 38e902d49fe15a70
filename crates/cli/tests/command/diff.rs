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
                  "changed": []
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
              "nodes_after": 11
            }
        "#]],
    );
}
