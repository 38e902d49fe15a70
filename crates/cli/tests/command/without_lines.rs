//! Questions about models that record no lines, or lines without files: the answer says how to get them.

use std::fs;

use super::hostile::Folder;
use super::{fixtures, run};

const PROFILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../inspect/tests/profiles");
const NO_LINES: &str = "the model contains no provenance: pass its source map with --map, or export it with \
                        `provenance=\"indexed\"`";
const NO_FILES: &str =
    "the level `minimal` does not record files: export with `provenance=\"indexed\"`";

/// Runs a command beside the fixtures, and returns standard output, standard error and the exit code.
fn answer(line: &str) -> (String, String, Option<i32>) {
    let output = run(line, &fixtures());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("what is printed is UTF-8");
    (text(output.stdout), text(output.stderr), output.status.code())
}

#[test]
fn where_says_how_to_get_lines() {
    // A node, a weight, and an input.
    for name in ["head/sin", "WEIGHT", "x"] {
        let (out, _, code) = answer(&format!("where off.onnx {name}"));
        assert!(out.contains(&format!("= origin    {NO_LINES}")), "{out}");
        assert_eq!(code, Some(0));
    }
    assert!(answer("where minimal.onnx head/sin").0.contains(NO_FILES));
    assert!(!answer("where indexed.onnx head/sin").0.contains("provenance="));
}

#[test]
fn blame_says_how_to_get_lines() {
    for line in ["blame off.onnx", "blame off.onnx mlp.py"] {
        let (out, err, code) = answer(line);
        assert!(out.is_empty() && err.ends_with(&format!("\n\nhint: {NO_LINES}\n")), "{err}");
        assert_eq!(code, Some(1));
    }
    let (_, err, _) = answer("blame minimal.onnx mlp.py");
    assert!(err.ends_with(&format!("\n\nhint: {NO_FILES}\n")), "{err}");
    // The model has files, but not this one.
    assert!(!answer("blame indexed.onnx other.py").1.contains("provenance="));
}

#[test]
fn view_says_how_to_get_lines_in_the_page_too() {
    let folder = Folder::new("no-lines");
    for (model, expected) in [("off", NO_LINES), ("minimal", NO_FILES)] {
        let page = folder.0.join(format!("{model}.html"));
        let (_, err, code) = answer(&format!("view {model}.onnx -o {}", page.display()));
        let expected = format!("{}.", expected.replacen("the ", "The ", 1));
        assert_eq!(err, format!("note: {expected}\n"));
        assert_eq!(code, Some(0));
        assert!(page.is_file());
        // The data for other programs are complete.
        let (out, err, _) = answer(&format!("view {model}.onnx --format json"));
        assert!(err.is_empty() && out.contains("\"left_out\": []"), "{err}");
    }
    let page = folder.0.join("indexed.html");
    assert_eq!(answer(&format!("view indexed.onnx -o {}", page.display())).1, "");
}

#[test]
fn profile_says_how_to_get_lines() {
    let folder = Folder::new("no-lines-profile");
    for (level, by, expected) in [
        ("off", "line", Some(NO_LINES)),
        ("off", "function", Some(NO_LINES)),
        ("off", "plugin", Some(NO_LINES)),
        ("off", "op", None),
        ("minimal", "line", Some(NO_FILES)),
        ("minimal", "plugin", None),
        ("minimal", "node", None),
    ] {
        let model = folder.0.join(format!("{level}.onnx"));
        let stripped = model.display();
        answer(&format!("strip {PROFILES}/transformer.onnx -o {stripped} --level {level}"));
        let (out, err, _) =
            answer(&format!("profile {stripped} {PROFILES}/transformer.json --by {by}"));
        match expected {
            Some(expected) => assert!(out.ends_with(&format!("\n\nhint: {expected}\n")), "{out}"),
            None => assert!(!out.contains("hint: "), "{level} {by}: {out}"),
        }
        assert!(!err.contains("is this the model that ran?"), "{level} {by}: {err}");
    }
    let (out, err, _) =
        answer(&format!("profile {PROFILES}/transformer.onnx {PROFILES}/transformer.json"));
    assert!(!format!("{out}{err}").contains("hint: "), "{out}{err}");
}

#[test]
fn a_model_of_pytorch_without_lines_gets_advice_for_pytorch() {
    let folder = Folder::new("no-lines-torch");
    let bytes = fs::read(fixtures().join("off.onnx")).expect("the fixture");
    // The byte before a name is its length.
    let at = bytes.windows(9).position(|it| it == b"\x08jax2onnx").expect("the producer");
    let mut torch = bytes[..at].to_vec();
    torch.extend_from_slice(b"\x07pytorch");
    torch.extend_from_slice(&bytes[at + 9..]);
    let model = folder.0.join("torch.onnx");
    fs::write(&model, torch).expect("the model");
    let (_, err, _) = answer(&format!("blame {}", model.display()));
    assert!(err.contains("torch.onnx.export(..., dynamo=True)"), "{err}");
    assert!(!err.contains("provenance="), "{err}");
}
