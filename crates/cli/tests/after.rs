//! Runs `explain` and `profile` as whole commands, and checks their output and exit codes.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use cli::Screen;
use expect_test::{Expect, expect};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a command. Paths are relative to the folder of the crate `inspect`.
fn run(arguments: &[&str]) -> (i32, String, String) {
    let folder = repository().join("crates/inspect/tests");
    let named = arguments.iter().map(|argument| match argument.split_once('@') {
        Some(("", file)) => folder.join(file).into(),
        _ => argument.into(),
    });
    let root = ["--source-root".into(), repository().into()];
    let program = std::iter::once("jax2onnx".into()).chain(named).chain(root).collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = cli::run(program, &mut out, &mut err, Screen::plain(), None);
    let shown = |bytes| shown(bytes).replace(&format!("{}/", folder.display()), "");
    (code, shown(out), shown(err))
}

/// Returns the output, without notes that a checkout is newer than its models.
fn shown(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap().replace(" (dated after the model: it may have changed)", "")
}

#[track_caller]
fn check(arguments: &[&str], expect: &Expect) {
    let (code, out, err) = run(arguments);
    expect.assert_eq(&format!("{out}--- stderr\n{err}--- exit {code}\n"));
}

#[test]
fn an_error_within_a_branch_within_a_loop() {
    check(
        &[
            "explain",
            "@failures/in_a_branch_of_a_scan.onnx",
            "@failures/in_a_branch_of_a_scan.disable.log",
        ],
        &expect![[r#"
            error: Attempting to broadcast an axis by a dimension other than 1. 3 by 4
              --> tools/failing/bodies.py:89:31, in in_a_branch_of_a_scan.<locals>.fn.<locals>.step.<locals>.<lambda>
               |
            89 |             heavy = lambda c: jnp.exp(c) + y  # <- fails
               |                               ^^^^^^^^^^^^^^
              called from tools/failing/bodies.py:91:20, in in_a_branch_of_a_scan.<locals>.fn.<locals>.step
               |
            91 |             return lax.cond(flag > 0, heavy, light, carry), flag
               |                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              called from tools/failing/bodies.py:93:16, in in_a_branch_of_a_scan.<locals>.fn
               |
            93 |         return lax.scan(step, x, flags)[0]
               |                ^^^^^^^^^^^^^^^^^^^^^^^^
               = certain: `add` is a node of the model
               = from the message: running Add node. Name:'add'
               = node: Add `add`
               = within: Scan `scan` / If `cond`
               = reads: exp f32[N], y f32[N]
               = makes: add f32[N]

            hint: the shapes of the inputs do not match; a size with the same name in several inputs (`B` in `f32[B,3]`) must have the same value in all of them
            --- stderr
            --- exit 0
        "#]],
    );
}

#[test]
fn a_node_that_the_runtime_fused() {
    check(
        &[
            "explain",
            "@failures/product_before_bias.onnx",
            "@failures/product_before_bias.extended.log",
        ],
        &expect![[r#"
            error: GEMM: Dimension mismatch, W: {5,4} K: 3 N:4
              --> tools/failing/fused.py:27:19, in product_before_bias.<locals>.fn
               |
            27 |         product = x @ w  # <- fails
               |                   ^^^^^
               = likely: the runtime derived the name `fused dot_general` from a node of the model; the node also replaces tools/failing/fused.py:28, which the message does not concern
               = from the message: running FusedGemm node. Name:'fused dot_general'
               = node: Gemm `dot_general`
               = reads: sin f32[M,K], w f32[K,4], b f32[4]
               = makes: dot_general f32[M,4]

            hint: the shapes of the inputs do not match; a size with the same name in several inputs (`B` in `f32[B,3]`) must have the same value in all of them
            --- stderr
            --- exit 0
        "#]],
    );
}

#[test]
fn one_of_several_lines() {
    check(
        &[
            "explain",
            "@failures/skip_and_normalization.onnx",
            "@failures/skip_and_normalization.extended.log",
        ],
        &expect![[r#"
            error: last two dimensions of skip needs to be same as input
               --> tools/failing/fused.py:205:17, in skip_and_normalization.<locals>.fn
                |
            205 |         total = x + y  # <- fails
                |                 ^^^^^
               --> tools/failing/fused.py:208:16, in skip_and_normalization.<locals>.fn
                |
            208 |         return (total - mean) / jnp.sqrt(variance + 1e-6) * scale + bias
                |                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
               --> tools/failing/fused.py:206:16, in skip_and_normalization.<locals>.fn
                |
            206 |         mean = total.mean(axis=-1, keepdims=True)
                |                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
               --> tools/failing/fused.py:207:31, in skip_and_normalization.<locals>.fn
                |
            207 |         variance = jnp.square(total - mean).mean(axis=-1, keepdims=True)
                |                               ^^^^^^^^^^^^
               = one of these lines: the model has one LayerNormalization node, which the runtime fused into SkipLayerNormalization
               = from the message: running SkipLayerNormalization node. Name:'SkipLayerNormalization'

            hint: the shapes of the inputs do not match; a size with the same name in several inputs (`B` in `f32[B,3]`) must have the same value in all of them
            --- stderr
            --- exit 0
        "#]],
    );
}

#[test]
fn a_message_that_names_nothing() {
    check(
        &[
            "explain",
            "@failures/input_of_another_type.onnx",
            "@failures/input_of_another_type.disable.log",
        ],
        &expect![[r#"
            error: Unexpected input data type. Actual: (tensor(double)) , expected: (tensor(float))
               = the line is not known: the message names no node and no value

            hint: the model takes `x` f32[3], `y` f32[3] and returns `out_0` f32[3]
            --- stderr
            --- exit 1
        "#]],
    );
}

#[test]
fn a_type_without_a_kernel() {
    check(
        &[
            "explain",
            "@failures/no_kernel_in_a_body.onnx",
            "@failures/no_kernel_in_a_body.disable.log",
        ],
        &expect![[r#"
            error: Could not find an implementation for Sinh(22) node with name 'sinh'
              --> tools/failing/loading.py:55:20, in no_kernel_in_a_body.<locals>.fn.<locals>.step
               |
            55 |             return jnp.sinh(carry) + row, carry  # <- fails
               |                    ^^^^^^^^^^^^^^^
              called from tools/failing/loading.py:57:16, in no_kernel_in_a_body.<locals>.fn
               |
            57 |         return lax.scan(step, x[0], x)
               |                ^^^^^^^^^^^^^^^^^^^^^^^
               = certain: `sinh` is a node of the model
               = from the message: Could not find an implementation for Sinh(22) node with name 'sinh'
               = node: Sinh `sinh`
               = reads: scan.body.input_0 bf16[2]
               = makes: sinh bf16[2]

            hint: ONNX Runtime has no kernel for this operator with these types on this device: cast the operands to `float32` (`x.astype(jnp.float32)`), and cast the result back; ONNX Runtime supports Sinh for f32
            --- stderr
            --- exit 0
        "#]],
    );
}

#[test]
fn two_errors_in_one_log() {
    check(
        &[
            "explain",
            "@failures/two_failures_in_one_log.onnx",
            "@failures/two_failures_in_one_log.disable.log",
        ],
        &expect![[r#"
            error: Attempting to broadcast an axis by a dimension other than 1. 3 by 4
               --> tools/failing/shapes.py:196:17, in two_failures_in_one_log.<locals>.fn
                |
            196 |         first = x + y  # <- fails
                |                 ^^^^^
               = certain: `add` is a node of the model
               = from the message: running Add node. Name:'add'
               = node: Add `add`
               = reads: x f32[N], y f32[N]
               = makes: add f32[N]

            hint: the shapes of the inputs do not match; a size with the same name in several inputs (`B` in `f32[B,3]`) must have the same value in all of them

            error: MatMul dimension mismatch
               --> tools/failing/shapes.py:198:16, in two_failures_in_one_log.<locals>.fn
                |
            198 |         return jnp.dot(second, z)  # <- fails
                |                ^^^^^^^^^^^^^^^^^^
               = certain: `dot_general_2` is a node of the model
               = from the message: running MatMul node. Name:'dot_general_2'
               = node: MatMul `dot_general_2`
               = reads: dot_general f32[1,N], dot_general_1 f32[N,1]
               = makes: dot_general_2 f32[1,1]

            hint: the shapes of the inputs do not match; a size with the same name in several inputs (`B` in `f32[B,3]`) must have the same value in all of them
            --- stderr
            --- exit 0
        "#]],
    );
}

#[test]
fn an_explanation_for_programs() {
    let message = "running Add node. Name:'add' Status Message: invalid expand shape";
    let (code, out, err) =
        run(&["explain", "@failures/add_of_two_lengths.onnx", "-m", message, "--format", "json"]);
    let mut answer: serde_json::Value = serde_json::from_str(&out).unwrap();
    // The frames of JAX do not matter here.
    answer["findings"][0]["origin"]["frames"] = serde_json::Value::Null;
    assert_eq!((code, err.as_str()), (0, ""));
    expect![[r#"
        {
          "version": 1,
          "model": "failures/add_of_two_lengths.onnx",
          "findings": [
            {
              "message": "invalid expand shape",
              "class": "shape",
              "used": "running Add node. Name:'add'",
              "names": [
                {
                  "node": "add",
                  "op": "Add"
                }
              ],
              "sure": "certain",
              "how": "`add` is a node of the model",
              "lines": [
                {
                  "file": "tools/failing/shapes.py",
                  "line": 16,
                  "function": "add_of_two_lengths.<locals>.fn",
                  "span": {
                    "column": 15,
                    "end_line": 16,
                    "end_column": 23
                  },
                  "tier": "user",
                  "source": "unchecked",
                  "text": "        both = warm + y  # <- fails"
                }
              ],
              "origin": {
                "sure": "exact",
                "callsite": {
                  "file": "tools/failing/shapes.py",
                  "line": 16,
                  "function": "add_of_two_lengths.<locals>.fn",
                  "span": {
                    "column": 15,
                    "end_line": 16,
                    "end_column": 23
                  },
                  "tier": "user",
                  "source": "unchecked",
                  "text": "        both = warm + y  # <- fails"
                },
                "frames": null,
                "fused_from": [],
                "plugin": {
                  "name": "AddPlugin.lower",
                  "file": "crates/lowering/src/plugins.rs",
                  "line": 50
                },
                "scope": [],
                "transforms": []
              },
              "node": {
                "name": "add",
                "op": "Add"
              },
              "within": [],
              "values": [
                {
                  "name": "tanh",
                  "role": "reads",
                  "type": "f32[N]"
                },
                {
                  "name": "y",
                  "role": "reads",
                  "type": "f32[N]"
                },
                {
                  "name": "add",
                  "role": "makes",
                  "type": "f32[N]"
                }
              ],
              "advice": "the shapes of the inputs do not match; a size with the same name in several inputs (`B` in `f32[B,3]`) must have the same value in all of them"
            }
          ],
          "cut": false
        }"#]].assert_eq(&format!("{answer:#}"));
}

#[test]
fn a_log_that_is_piped() {
    let folder = repository().join("crates/inspect/tests/failures");
    let log = File::open(folder.join("in_a_function.disable.log")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_jax2onnx"))
        .args(["explain", "in_a_function.onnx", "-", "--source-root", "../../../.."])
        .current_dir(folder)
        .stdin(log)
        .output()
        .unwrap();
    expect![[r#"
        error: Attempting to broadcast an axis by a dimension other than 1. 3 by 4
           --> tools/failing/bodies.py:118:16, in in_a_function.<locals>.gate
            |
        118 |         return opened * y  # <- fails
            |                ^^^^^^^^^^
           = likely: `_inlfunc_gate_token_0_gate/mul` is a node of a function that the runtime inlined
           = from the message: running Mul node. Name:'_inlfunc_gate_token_0_gate/mul'
           = node: Mul `gate/mul`
           = reads: gate/logistic f32[N], gate.input_1 f32[N]
           = makes: gate/mul f32[N]

        hint: the shapes of the inputs do not match; a size with the same name in several inputs (`B` in `f32[B,3]`) must have the same value in all of them
    "#]].assert_eq(&shown(output.stdout));
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn a_model_of_torch() {
    let message =
        "running Gemm node. Name:'node_linear' Status Message: GEMM: Dimension mismatch, W: {3,4}";
    check(
        &["explain", "@../../cli/tests/fixtures/foreign/torch.onnx", "-m", message],
        &expect![[r#"
            error: GEMM: Dimension mismatch, W: {3,4}
              --> /home/ann/project/torch_model.py:15, in forward
               |
            15 | return self.fc2(torch.relu(self.fc1(x)))
               = certain: `node_linear` is a node of the model
               = from the message: running Gemm node. Name:'node_linear'
               = node: Gemm `node_linear`
               = scope: fc1
               = reads: x f32[2,4], fc1.weight f32[3,4], fc1.bias f32[3]
               = makes: linear f32[2,3]

            hint: the shapes of the inputs do not match; a size with the same name in several inputs (`B` in `f32[B,3]`) must have the same value in all of them
            --- stderr
            note: `/home/ann/project/torch_model.py` was not found here: pass its folder with --source-root
            --- exit 0
        "#]],
    );
}

#[test]
fn a_model_without_origins() {
    let message = "running MatMul node. Name:'head/dot_general'";
    check(
        &["explain", "@../../cli/tests/fixtures/off.onnx", "-m", message],
        &expect![[r#"
        error: running MatMul node. Name:'head/dot_general'
           = the line is not known: `head/dot_general` is a node of the model; the model contains no provenance: pass its source map with --map, or export it with `provenance="indexed"`
           = from the message: running MatMul node. Name:'head/dot_general'
           = node: MatMul `head/dot_general`
           = reads: head/sin f32[B,8], WEIGHT f32[8,3]
           = makes: head/dot_general f32[B,3]
        --- stderr
        --- exit 1
    "#]],
    );
}

#[test]
fn a_text_without_an_error_explains_nothing() {
    check(
        &["explain", "@failures/add_of_two_lengths.onnx", "-m", "all is well"],
        &expect![[r#"
            --- stderr
            note: jax2onnx does not recognize an error in this text; `jax2onnx where MODEL NAME` looks up a node
            --- exit 1
        "#]],
    );
}

#[test]
fn a_node_that_the_model_does_not_have() {
    let message = "running Add node. Name:'encoder/add' Status Message: x";
    check(
        &["explain", "@failures/add_of_two_lengths.onnx", "-m", message],
        &expect![[r#"
            error: x
               = the line is not known: the model has no node `encoder/add`: is this the model that ran?
               = from the message: running Add node. Name:'encoder/add'
            --- stderr
            --- exit 1
        "#]],
    );
}

#[test]
fn a_model_that_is_cut_off() {
    check(
        &["explain", "@failures/file_that_is_cut.onnx", "@failures/file_that_is_cut.disable.log"],
        &expect![[r#"
            --- stderr
            error: failures/file_that_is_cut.onnx: this is not an ONNX model: it is truncated
            --- exit 2
        "#]],
    );
}

#[test]
fn a_missing_log_is_an_error() {
    check(
        &["explain", "@failures/add_of_two_lengths.onnx", "@gone.log"],
        &expect![[r#"
        --- stderr
        error: cannot read `gone.log`: No such file or directory (os error 2)
        --- exit 2
    "#]],
    );
}

#[test]
fn the_time_by_line() {
    check(
        &["profile", "@profiles/loop.onnx", "@profiles/loop.json"],
        &expect![[r#"
            3 runs: 275 µs in kernels per run, ± 6.00 µs, 290 µs from start to end
            Excluded 1 warm-up run (475 µs)
            100.0 % of the time is in your lines, 0.0 % in lines of libraries

              median        ±   share  calls  line
              116 µs  6.00 µs  42.2 %      1  tools/profiles.py:68, in loop  [Scan]
                                                last, sums = lax.scan(step, x, jnp.ones((6, 24, 24)))
             82.0 µs  2.00 µs  29.8 %     12  tools/profiles.py:65, in loop.<locals>.step  [FusedGemm, MatMul]
                                                mixed = jnp.tanh(carry @ carry.T) @ carry
             59.0 µs  0.00 µs  21.5 %     12  tools/profiles.py:66, in loop.<locals>.step  [Add, ReduceSum]
                                                return mixed + row, mixed.sum()
             18.0 µs  0.00 µs   6.5 %      3  tools/profiles.py:69, in loop  [MatMul, Add, ReduceSum]
                                                return last @ last + sums.sum()
            --- stderr
            --- exit 0
        "#]],
    );
}

#[test]
fn the_time_by_operator() {
    let options = ["--by", "op", "--top", "3", "--warmup", "0"];
    let files = ["profile", "@profiles/transformer.onnx", "@profiles/transformer.json"];
    check(
        &[&files[..], &options].concat(),
        &expect![[r#"
            4 runs: 304 µs in kernels per run, ± 16.0 µs, 486 µs from start to end
            100.0 % of the time is in your lines, 0.0 % in lines of libraries

              median        ±   share  calls  op
             66.5 µs  3.50 µs  21.9 %      7  MatMul
             49.5 µs  1.50 µs  16.3 %      7  Add
             45.0 µs  2.50 µs  14.8 %      5  LayerNormalization
              143 µs  9.00 µs  47.0 %         … 7 more
            --- stderr
            --- exit 0
        "#]],
    );
}

#[test]
fn lines_that_another_provider_runs_are_listed_with_their_copies() {
    check(
        &[
            "profile",
            "@profiles/devices.onnx",
            "@profiles/devices.json",
            "--top",
            "2",
            "--by",
            "op",
        ],
        &expect![[r#"
            3 runs: 8.97 ms in kernels per run, ± 648 µs, 17.7 ms from start to end
            Excluded 1 warm-up run (2.48 s)
            The machine was busy: the kernels of a run took 11.3 ms ± 648 µs,
            and the medians of the rows add up to 8.97 ms.
            Profile again on a quiet machine, or with more runs.
            100.0 % of the time is in your lines, 0.0 % in lines of libraries
            16 of 29 nodes run on WebGpuExecutionProvider; 4 lines run on the CPU and cost 8 copies (3.6 KiB in each run)

              median        ±   share  calls  op
             7.36 ms   617 µs  82.1 %      5  MemcpyToHost
              549 µs  24.0 µs   6.1 %      1  Scan
             1.06 ms  32.0 µs  11.8 %         … 14 more

            nodes copies  provider    line
                1      3  CPU         tools/profiles.py:111, in devices  [Scan]
                                      last, sums = lax.scan(rank, ranked, jnp.ones((3, 8, 8)))
                                      copies gather_1, f32[8,8], to the CPU
                                      copies scan:1, f32[3,8,8], from the CPU
                                      copies scan:0, f32[8,8], from the CPU
                5      2  CPU         tools/profiles.py:108, in devices  [Cast, IsNaN, Min, TopK, Where]
                                      order = jnp.argsort(hidden[:, 0])
                                      copies gather, f32[8], to the CPU
                                      copies sort_4:1, i64[8], from the CPU
            … 2 more
            --- stderr
            --- exit 0
        "#]],
    );
}

#[test]
fn a_profile_of_another_model_is_not_known() {
    let files = ["profile", "@failures/matmul_inner_size.onnx", "@profiles/transformer.json"];
    check(
        &[&files[..], &["--top", "2"]].concat(),
        &expect![[r#"
            3 runs: 289 µs in kernels per run, ± 5.00 µs, 468 µs from start to end
            Excluded 1 warm-up run (629 µs)
            3.4 % of the time is in your lines, 0.0 % in lines of libraries

              median        ±   share  calls  line
              280 µs  5.00 µs  96.9 %     32  (not known)  [MatMul, Add, LayerNormalization, Attention, Reshape, Gemm, Split, Gelu, Clip, Gather]
             9.00 µs  0.00 µs   3.1 %      1  tools/failing/shapes.py:39, in matmul_inner_size.<locals>.fn  [MatMul]
                                                z = x @ y  # <- fails
            --- stderr
            note: only 3 % of the time is in nodes of this model: is this the model that ran?
            --- exit 0
        "#]],
    );
}

#[test]
fn a_file_that_is_not_a_profile_is_an_error() {
    let files = ["profile", "@profiles/loop.onnx", "@profiles/transformer.onnx"];
    check(
        &files,
        &expect![[r#"
            --- stderr
            error: profiles/transformer.onnx: this is not an ONNX Runtime profile: expected value at line 1 column 1
            --- exit 2
        "#]],
    );
}
