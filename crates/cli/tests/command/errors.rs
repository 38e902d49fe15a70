use expect_test::expect;

use super::check;

#[test]
fn a_missing_file_is_an_error() {
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
fn a_folder_is_not_a_model() {
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
fn a_text_file_is_not_a_model() {
    check(
        "where mlp.py x",
        &expect![[r#"
            exit 2
            --- stderr
            error: mlp.py: this is not an ONNX model: a field has the unknown kind 7
        "#]],
    );
}

#[test]
fn a_truncated_file_is_an_error() {
    check(
        "inspect ../../../../fuzz/corpus/model/length.onnx",
        &expect![[r#"
        exit 2
        --- stderr
        error: ../../../../fuzz/corpus/model/length.onnx: this is not an ONNX model: it is truncated
    "#]],
    );
}

#[test]
fn a_deeply_nested_file_is_an_error() {
    check(
        "blame ../../../../fuzz/corpus/model/nested.onnx",
        &expect![[r#"
        exit 2
        --- stderr
        error: ../../../../fuzz/corpus/model/nested.onnx: messages are nested more than 300 deep
    "#]],
    );
}

#[test]
fn a_name_that_is_not_utf_8_is_an_error() {
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
fn the_map_of_another_model_is_an_error() {
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
fn a_file_that_is_not_a_map_is_an_error() {
    check(
        "where off.onnx tanh --map mlp.py",
        &expect![[r#"
            exit 2
            --- stderr
            error: mlp.py: this is neither a source map nor a model with provenance: this is not an ONNX model: a field has the unknown kind 7
        "#]],
    );
}

#[test]
fn a_misspelled_option_is_an_error() {
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
fn a_missing_argument_is_an_error() {
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
fn an_unknown_shell_is_an_error() {
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

#[test]
fn a_file_of_another_kind_is_named() {
    let folder = std::env::temp_dir().join(format!("jax2onnx-kinds-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    for (bytes, what) in [
        (&b""[..], "the file is empty"),
        (b"version https://git-lfs.github.com/spec/v1\n", "it is a pointer of Git LFS"),
        (b"<!DOCTYPE html><html>", "it is a web page"),
        (b"PK\x03\x04", "it is a ZIP archive"),
        (b"\x89HDF\r\n", "it is an HDF5 file"),
    ] {
        std::fs::write(folder.join("model.onnx"), bytes).expect("the file can be written");
        let output = super::run("where model.onnx y", &folder);
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = format!("error: model.onnx: this is not an ONNX model: {what}");
        assert!(printed.starts_with(&expected), "{printed}");
    }
    std::fs::remove_dir_all(&folder).expect("the folder is removed");
}
