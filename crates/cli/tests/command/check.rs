use expect_test::expect;

use super::check;

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
fn a_path_that_leaks_is_a_warning() {
    check(
        "check foreign/torch.onnx",
        &expect![[r#"
        exit 0
        warning[path-leak]: `pkg.torch.onnx.stack_trace` of a node contains an absolute path of the machine that made it: `/home/ann/project/torch_model.py` (`node_linear`, /home/ann/project/torch_model.py:15, in forward)
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
        warning[path-leak]: `pkg.torch.onnx.stack_trace` of a node contains an absolute path of the machine that made it: `/home/ann/project/torch_model.py` (`node_linear`, /home/ann/project/torch_model.py:15, in forward)
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
            warning[opset]: opset 28 is newer than 26, the newest known here
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
          ]
        }
    "#]],
    );
}
