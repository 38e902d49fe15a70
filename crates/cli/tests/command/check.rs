use expect_test::expect;

use super::{check, check_arguments, fixtures, run_arguments};

#[test]
fn a_sound_model_has_no_findings() {
    check(
        "check indexed.onnx",
        &expect![[r#"
        exit 0
        indexed.onnx: 0 errors, 0 warnings
    "#]],
    );
}

#[test]
fn an_operator_that_onnx_does_not_have_is_an_error() {
    let mut model = std::fs::read(fixtures().join("indexed.onnx")).expect("a model");
    let place = model.windows(6).position(|bytes| bytes == b"\x22\x04Tanh").expect("an operator");
    model[place + 5] = b'k';
    let name = format!("jax2onnx-unknown-{}.onnx", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, model).expect("the model can be written");
    let output = run_arguments(&["check", &path.to_string_lossy()], &fixtures());
    std::fs::remove_file(&path).expect("the model is removed");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(printed.contains("error[unknown-operator]: ONNX has no operator `Tank`"), "{printed}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_path_that_leaks_is_a_warning() {
    check(
        "check foreign/torch.onnx",
        &expect![[r#"
            exit 0
            warning[path-leak]: `pkg.torch.onnx.stack_trace` of a node contains an absolute path from the exporting machine: `/home/ann/project/torch_model.py` (`node_linear`, /home/ann/project/torch_model.py:15, in forward)
            foreign/torch.onnx: 0 errors, 1 warning
        "#]],
    );
}

#[test]
fn strict_fails_on_warnings() {
    check(
        "check foreign/torch.onnx --strict",
        &expect![[r#"
            exit 1
            warning[path-leak]: `pkg.torch.onnx.stack_trace` of a node contains an absolute path from the exporting machine: `/home/ann/project/torch_model.py` (`node_linear`, /home/ann/project/torch_model.py:15, in forward)
            foreign/torch.onnx: 0 errors, 1 warning
        "#]],
    );
}

#[test]
fn weights_outside_are_errors() {
    check(
        "check ../../../../fuzz/corpus/model/outside.onnx",
        &expect![[r#"
            exit 1
            error[external-data]: `../../etc/passwd` is outside the folder of the model
            error[external-data]: `/etc/passwd` is an absolute path
            error[external-data]: `weights.bin` does not exist
            error[weight-shape]: `w0` has too many elements: f32[4611686018427387904,4611686018427387904]
            error[weight-shape]: `w1` has too many elements: f32[4611686018427387904,4611686018427387904]
            error[weight-shape]: `w2` has too many elements: f32[4611686018427387904,4611686018427387904]
            error[weight-shape]: the shape of `neg` has a negative size: type 99[-1]
            warning[node-name]: 1 node has no name
            warning[opset]: opset 28 is newer than 26, the newest that jax2onnx knows
            ../../../../fuzz/corpus/model/outside.onnx: 7 errors, 2 warnings
        "#]],
    );
}

#[test]
fn functions_that_call_themselves_are_errors() {
    check(
        "check ../../../../fuzz/corpus/model/cyclic.onnx --format json",
        &expect![[r#"
            exit 1
            {
              "version": 1,
              "model": "../../../../fuzz/corpus/model/cyclic.onnx",
              "errors": 2,
              "warnings": 1,
              "findings": [
                {
                  "severity": "error",
                  "rule": "function",
                  "message": "the function `d::f` calls itself",
                  "node": null,
                  "callsite": null
                },
                {
                  "severity": "error",
                  "rule": "function",
                  "message": "the function `d::g` calls itself",
                  "node": null,
                  "callsite": null
                },
                {
                  "severity": "warning",
                  "rule": "node-name",
                  "message": "3 nodes have no name",
                  "node": null,
                  "callsite": null
                }
              ],
              "budgets": []
            }
        "#]],
    );
}

#[test]
fn findings_are_lines_for_editors() {
    check(
        "check foreign/torch.onnx --format lines",
        &expect![[r#"
            exit 0
            /home/ann/project/torch_model.py:15:1: warning: `pkg.torch.onnx.stack_trace` of a node contains an absolute path from the exporting machine: `/home/ann/project/torch_model.py` (`node_linear`) [path-leak]
        "#]],
    );
    check(
        "check ../../../../fuzz/corpus/model/outside.onnx --format lines",
        &expect![[r#"
            exit 1
            ../../../../fuzz/corpus/model/outside.onnx: error: `../../etc/passwd` is outside the folder of the model [external-data]
            ../../../../fuzz/corpus/model/outside.onnx: error: `/etc/passwd` is an absolute path [external-data]
            ../../../../fuzz/corpus/model/outside.onnx: error: `weights.bin` does not exist [external-data]
            ../../../../fuzz/corpus/model/outside.onnx: error: `w0` has too many elements: f32[4611686018427387904,4611686018427387904] [weight-shape]
            ../../../../fuzz/corpus/model/outside.onnx: error: `w1` has too many elements: f32[4611686018427387904,4611686018427387904] [weight-shape]
            ../../../../fuzz/corpus/model/outside.onnx: error: `w2` has too many elements: f32[4611686018427387904,4611686018427387904] [weight-shape]
            ../../../../fuzz/corpus/model/outside.onnx: error: the shape of `neg` has a negative size: type 99[-1] [weight-shape]
            ../../../../fuzz/corpus/model/outside.onnx: warning: 1 node has no name [node-name]
            ../../../../fuzz/corpus/model/outside.onnx: warning: opset 28 is newer than 26, the newest that jax2onnx knows [opset]
        "#]],
    );
}

#[test]
fn findings_are_sarif_for_code_scanning() {
    check(
        "check foreign/torch.onnx --format sarif",
        &expect![[r#"
            exit 0
            {
              "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
              "version": "2.1.0",
              "runs": [
                {
                  "tool": {
                    "driver": {
                      "name": "jax2onnx",
                      "version": "0.1.0",
                      "rules": [
                        {
                          "id": "path-leak"
                        }
                      ]
                    }
                  },
                  "columnKind": "unicodeCodePoints",
                  "artifacts": [
                    {
                      "location": {
                        "uri": "foreign/torch.onnx"
                      }
                    }
                  ],
                  "results": [
                    {
                      "ruleId": "path-leak",
                      "ruleIndex": 0,
                      "level": "warning",
                      "message": {
                        "text": "`pkg.torch.onnx.stack_trace` of a node contains an absolute path from the exporting machine: `/home/ann/project/torch_model.py`"
                      },
                      "locations": [
                        {
                          "physicalLocation": {
                            "artifactLocation": {
                              "uri": "file:///home/ann/project/torch_model.py"
                            },
                            "region": {
                              "startLine": 15
                            }
                          },
                          "logicalLocations": [
                            {
                              "name": "node_linear",
                              "kind": "element"
                            }
                          ]
                        }
                      ]
                    }
                  ]
                }
              ]
            }
        "#]],
    );
}

#[test]
fn a_budget_that_is_met_is_printed() {
    check_arguments(
        &[
            "check",
            "indexed.onnx",
            "--budget",
            "flops<=1G",
            "--budget",
            "peak<=1MB",
            "--size",
            "B=4",
        ],
        &expect![[r#"
            exit 0
            flops<=1G: 464, 0.0 % of the budget
            peak<=1MB: 256 B, 0.0 % of the budget
            indexed.onnx: 0 errors, 0 warnings
        "#]],
    );
}

#[test]
fn a_budget_that_is_exceeded_is_an_error_at_the_line_that_contributes_most() {
    check_arguments(
        &["check", "indexed.onnx", "--budget", "flops<=100", "--size", "B=4", "--format", "lines"],
        &expect![[r#"
            exit 1
            mlp.py:13:12: error: the budget is exceeded: flops<=100: 464, 464.0 % of the budget; most of it is at mlp.py:13, in normalize (200), mlp.py:22, in predict (192), mlp.py:17, in body (36) (`head/layer_norm`) [budget]
        "#]],
    );
}

#[test]
fn a_budget_without_sizes_says_which_it_needs() {
    check_arguments(
        &["check", "indexed.onnx", "--budget", "flops<=100"],
        &expect![[r#"
        exit 2
        --- stderr
        error: the budget `flops<=100` needs numbers: give a size for `B`
    "#]],
    );
}

#[test]
fn what_is_not_a_budget_is_refused() {
    check_arguments(
        &["check", "indexed.onnx", "--budget", "speed<=100"],
        &expect![[r#"
        exit 2
        --- stderr
        error: invalid value 'speed<=100' for '--budget <COST<=LIMIT>': `speed` is not a cost: a budget is for `flops`, `transcendentals`, `operations`, `bytes_read`, `bytes_written`, `weights`, `peak`

        For more information, try '--help'.
    "#]],
    );
}
