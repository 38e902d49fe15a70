//! What ARCHITECTURE.md says of the workspace, held.
#![expect(clippy::expect_used, reason = "a test fails where it cannot look")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Who may use whom. A crate that is not here may use none of the others.
const ARROWS: &[(&str, &[&str])] = &[
    ("jaxpr", &["cursor", "provenance", "sizes"]),
    ("onnx", &["cursor", "provenance", "sizes"]),
    ("lowering", &["provenance", "jaxpr", "onnx"]),
    ("passes", &["provenance", "onnx"]),
    ("jax2onnx", &["provenance", "jaxpr", "onnx", "lowering", "passes"]),
    ("inspect", &["provenance", "onnx"]),
    ("cli", &["provenance", "onnx", "inspect", "lowering"]),
    ("python", &["provenance", "jaxpr", "onnx", "jax2onnx", "inspect", "cli"]),
];

/// Longer files are split; what a tool writes is not read by people.
const MOST_LINES: usize = 600;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(pattern: &str) -> Vec<PathBuf> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", pattern])
        .current_dir(root())
        .output()
        .expect("git lists the files");
    let listed = String::from_utf8(listed.stdout).expect("names of files are UTF-8");
    listed.lines().map(|name| root().join(name)).filter(|path| path.exists()).collect()
}

#[test]
fn crates_use_only_what_the_arrows_allow() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo describes the workspace");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let short = |name: &str| name.strip_prefix("jax2onnx-").unwrap_or(name).to_owned();
    let packages = metadata["packages"].as_array().expect("there are packages");
    let names: BTreeSet<String> =
        packages.iter().filter_map(|package| package["name"].as_str()).map(short).collect();
    for package in packages {
        let name = short(package["name"].as_str().expect("a package has a name"));
        let allowed = ARROWS.iter().find(|(from, _)| *from == name).map_or(&[][..], |(_, to)| to);
        for dependency in package["dependencies"].as_array().expect("a list of dependencies") {
            let used = short(dependency["name"].as_str().expect("a dependency has a name"));
            let is_ours = names.contains(&used);
            assert!(
                !is_ours || allowed.contains(&used.as_str()),
                "`{name}` uses `{used}`: that arrow is not in the list"
            );
        }
    }
}

#[test]
fn only_one_crate_knows_python_and_only_one_folder_knows_protobuf() {
    for path in files("*.rs") {
        let text = std::fs::read_to_string(&path).expect("a source file can be read");
        let name = path.to_string_lossy().replace('\\', "/");
        if !name.contains("/crates/python/") && !name.ends_with("/architecture.rs") {
            assert!(!text.contains("pyo3"), "{name} mentions pyo3");
        }
        let is_proto = name.contains("/crates/onnx/src/proto")
            || name.contains("/tools/generate-proto/")
            || name.ends_with("/architecture.rs");
        if !is_proto {
            assert!(!text.contains("prost::"), "{name} mentions prost");
        }
    }
}

#[test]
fn no_file_is_too_long_to_read() {
    for path in files("*.rs").into_iter().chain(files("*.py")) {
        if path.ends_with("generated.rs") {
            continue;
        }
        let lines =
            std::fs::read_to_string(&path).expect("a source file can be read").lines().count();
        assert!(lines <= MOST_LINES, "{} has {lines} lines", path.display());
    }
}

#[test]
fn every_test_that_architecture_md_names_exists() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("it can be read");
    let sources: Vec<String> = files("*.rs")
        .into_iter()
        .chain(files("*.py"))
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .collect();
    let mut named = 0;
    for line in text.lines().filter(|line| line.starts_with("Held by")) {
        for test in line.split('`').skip(1).step_by(2) {
            let test = test.rsplit("::").next().unwrap_or(test);
            named += 1;
            let definitions = [format!("fn {test}("), format!("def {test}(")];
            let exists = definitions.iter().any(|definition| {
                sources.iter().any(|source| source.contains(definition.as_str()))
            });
            assert!(exists, "ARCHITECTURE.md names `{test}`, which is no test");
        }
    }
    assert!(named >= 10, "ARCHITECTURE.md names only {named} tests");
}
