use expect_test::expect;

use super::check;

#[test]
fn a_file_that_is_not_there() {
    check(
        "inspect gone.onnx",
        &expect![[r#"
            exit 2
            --- stderr
            error: cannot read `gone.onnx`: No such file or directory (os error 2)
        "#]],
    );
}

#[test]
fn a_folder_is_no_model() {
    check(
        "inspect foreign",
        &expect![[r#"
            exit 2
            --- stderr
            error: `foreign` is not a file
        "#]],
    );
}

#[test]
fn a_text_is_no_model() {
    check(
        "where mlp.py x",
        &expect![[r#"
            exit 2
            --- stderr
            error: mlp.py: this is not an ONNX model: a field has the unknown kind 7, in the `ModelProto` at byte 0
        "#]],
    );
}

#[test]
fn a_file_that_is_cut_off() {
    check(
        "inspect ../../../../fuzz/corpus/model/length.onnx",
        &expect![[r#"
        exit 2
        --- stderr
        error: ../../../../fuzz/corpus/model/length.onnx: this is not an ONNX model: it is cut off, in the `ModelProto` at byte 0
    "#]],
    );
}

#[test]
fn a_file_that_is_nested_without_end() {
    check(
        "blame ../../../../fuzz/corpus/model/nested.onnx",
        &expect![[r#"
        exit 2
        --- stderr
        error: ../../../../fuzz/corpus/model/nested.onnx: graphs or types are nested more than 100 deep
    "#]],
    );
}

#[test]
fn a_name_that_is_not_utf_8() {
    check(
        "check ../../../../fuzz/corpus/model/latin.onnx",
        &expect![[r#"
        exit 2
        --- stderr
        error: ../../../../fuzz/corpus/model/latin.onnx: the text at byte 6, in a `NodeProto`, is not UTF-8
    "#]],
    );
}

#[test]
fn the_map_of_another_model() {
    check(
        "where mapped.onnx tanh --map second.map",
        &expect![[r#"
            exit 2
            --- stderr
            error: second.map: this is the source map of another model: its debug id is `57fa03e5bad81131605493869bde4a6e`, and the debug id of the model is `2f6b36e593baef8543384ff9740dd53f`
        "#]],
    );
}

#[test]
fn a_map_that_is_none() {
    check(
        "where off.onnx tanh --map mlp.py",
        &expect![[r#"
            exit 2
            --- stderr
            error: mlp.py: this is neither a source map nor a model that says where its nodes came from: this is not an ONNX model: a field has the unknown kind 7, in the `ModelProto` at byte 0
        "#]],
    );
}

#[test]
fn a_wrong_option() {
    check(
        "where indexed.onnx tanh --sourceroot x",
        &expect![[r#"
        exit 2
        --- stderr
        error: unexpected argument '--sourceroot' found

          tip: a similar argument exists: '--source-root'

        Usage: jax2onnx where --source-root <DIR> <MODEL> <NODE|OUTPUT>

        For more information, try '--help'.
    "#]],
    );
}

#[test]
fn nothing_is_asked() {
    check(
        "where indexed.onnx",
        &expect![[r#"
        exit 2
        --- stderr
        error: the following required arguments were not provided:
          <NODE|OUTPUT>

        Usage: jax2onnx where <MODEL> <NODE|OUTPUT>

        For more information, try '--help'.
    "#]],
    );
}

#[test]
fn an_export_needs_python() {
    check(
        "export m:f -o m.onnx",
        &expect![[r#"
        exit 2
        --- stderr
        error: `export` traces with JAX, so it needs Python: pip install jax2onnx-rs
    "#]],
    );
}

#[test]
fn a_shell_that_is_not_known() {
    check(
        "completions csh",
        &expect![[r#"
        exit 2
        --- stderr
        error: invalid value 'csh' for '<SHELL>'
          [possible values: bash, elvish, fish, powershell, zsh]

          tip: a similar value exists: 'zsh'

        For more information, try '--help'.
    "#]],
    );
}
