//! Checks the statements of ARCHITECTURE.md about the workspace.
#![expect(clippy::expect_used, reason = "a panic fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The crates that each crate may use. A crate that is not in this list may use none of the others.
const ARROWS: &[(&str, &[&str])] = &[
    ("sizes", &["cursor"]),
    ("jaxpr", &["cursor", "provenance", "sizes"]),
    ("onnx", &["cursor", "provenance", "sizes"]),
    ("options", &["provenance"]),
    ("lowering", &["provenance", "jaxpr", "onnx", "options"]),
    ("algebra", &["onnx"]),
    ("loops", &["onnx", "options", "algebra"]),
    ("targets", &["onnx", "algebra", "loops"]),
    ("passes", &["provenance", "onnx", "options", "algebra", "loops", "targets"]),
    ("testing", &["onnx", "algebra"]),
    ("jax2onnx", &["provenance", "jaxpr", "onnx", "options", "lowering", "passes"]),
    ("inspect", &["provenance", "onnx"]),
    ("cli", &["provenance", "onnx", "options", "inspect", "lowering"]),
    ("python", &["provenance", "jaxpr", "onnx", "options", "jax2onnx", "inspect", "cli"]),
];

/// The crates that the tests of a crate may use besides.
const ARROWS_OF_TESTS: &[(&str, &[&str])] =
    &[("loops", &["passes", "testing"]), ("targets", &["testing"]), ("passes", &["testing"])];

/// Libraries that only one crate may use, so that the others cannot depend on them.
const SOLE_USERS: &[(&str, &str)] = &[("pyo3", "python"), ("prost", "onnx")];

/// The maximum number of lines per file, except generated ones.
const MAX_LINES: usize = 600;

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
        let to = |arrows: &[(&str, &'static [&'static str])]| {
            arrows.iter().find(|(from, _)| *from == name).map_or(&[][..], |(_, to)| to)
        };
        for dependency in package["dependencies"].as_array().expect("a list of dependencies") {
            let used = short(dependency["name"].as_str().expect("a dependency has a name"));
            let is_ours = names.contains(&used);
            let for_tests = if dependency["kind"] == "dev" { to(ARROWS_OF_TESTS) } else { &[] };
            assert!(
                !is_ours || to(ARROWS).contains(&&*used) || for_tests.contains(&&*used),
                "`{name}` uses `{used}`: that arrow is not in the list"
            );
            let sole_user = SOLE_USERS.iter().find(|(library, _)| *library == used);
            assert!(
                sole_user.is_none_or(|(_, user)| *user == name),
                "`{name}` uses `{used}`, which only another crate may use"
            );
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
        assert!(lines <= MAX_LINES, "{} has {lines} lines", path.display());
    }
}

/// Returns the name of a module and the names after `crate::` in its code, without tests.
fn module_and_its_uses(path: &Path) -> (String, BTreeSet<String>) {
    let below = path.to_string_lossy().split("/src/").last().unwrap_or_default().to_owned();
    let module = below.split(['/', '.']).next().unwrap_or_default().to_owned();
    let text = std::fs::read_to_string(path).expect("a source file can be read");
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let is_in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let uses = code.split("crate::").skip(1).map(|rest| rest.split(|c| !is_in_name(c)).next());
    let uses = uses.map(|name| name.unwrap_or_default().to_owned());
    (module.clone(), uses.filter(|name| *name != module).collect())
}

#[test]
fn modules_of_the_lowering_do_not_use_each_other_in_circles() {
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in files("crates/lowering/src/*.rs") {
        let (module, used) = module_and_its_uses(&path);
        uses.entry(module).or_default().extend(used);
    }
    assert!(uses.len() > 20, "the modules are not found");
    uses.remove("lib");
    // In each step, remove the modules that use none of the others.
    while !uses.is_empty() {
        let names: BTreeSet<String> = uses.keys().cloned().collect();
        uses.retain(|_, used| !used.is_disjoint(&names));
        assert!(uses.len() < names.len(), "modules use each other in a circle: {uses:#?}");
    }
}

/// Functions that create, write, rename or link files.
const WRITERS: [&str; 11] = [
    "File::create",
    "fs::write",
    "OpenOptions",
    "File::options",
    "fs::rename",
    "fs::copy",
    "hard_link",
    "symlink(",
    "create_dir",
    "set_len",
    "tempfile",
];

/// `python/tests/process/test_outputs.py` checks the same for the Python package.
#[test]
fn only_the_gate_writes_files() {
    let gate = ["crates/onnx/src/staged", "crates/onnx/src/outputs.rs", "external_data/copy.rs"];
    let mut writing = 0;
    for path in files("crates/*/src/*.rs") {
        let name = path.strip_prefix(root()).expect("files are below the root").to_string_lossy();
        let text = std::fs::read_to_string(&path).expect("a source file can be read");
        // Test code is at the end of a file or in a separate file.
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        if name.ends_with("tests.rs") || !WRITERS.iter().any(|writer| code.contains(writer)) {
            continue;
        }
        writing += 1;
        assert!(gate.iter().any(|part| name.contains(part)), "{name} writes files");
    }
    assert!(writing > 2, "the files of the gate are not found");
}

#[test]
fn only_the_compat_files_know_versions_of_jax() {
    let rust = files("crates/python/src/*.rs");
    for path in rust.into_iter().chain(files("python/jax2onnx/*.py")) {
        let text = std::fs::read_to_string(&path).expect("a source file can be read");
        if !path.ends_with("compat.rs") && !path.ends_with("compat.py") {
            assert!(!text.contains("JAX 0."), "{} mentions a version of JAX", path.display());
            assert!(!text.contains("jax.__version__"), "{} asks for it", path.display());
        }
    }
}

#[test]
fn every_invariant_names_tests_that_exist() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("it can be read");
    let paragraphs: Vec<&str> = text.split("\n\n").collect();
    for paragraph in &paragraphs {
        let is_invariant = paragraph.starts_with("**Architecture Invariant:");
        let is_held = ["\nHeld by `", "\nMeasured by `"].iter().any(|by| paragraph.contains(by));
        assert!(!is_invariant || is_held, "an invariant names no test:\n{paragraph}");
    }
    let tests: BTreeSet<String> = files("*.rs")
        .into_iter()
        .chain(files("*.py"))
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .flat_map(|source| names_of_tests(&source))
        .collect();
    let named: Vec<&str> = paragraphs.iter().flat_map(|paragraph| held_by(paragraph)).collect();
    assert!(named.len() >= 60, "ARCHITECTURE.md names only {} tests", named.len());
    for test in named {
        assert!(tests.contains(test), "ARCHITECTURE.md names `{test}`, which is not a test");
    }
}

#[test]
fn a_list_of_tests_may_continue_on_the_next_line() {
    let paragraph = "It holds.\nHeld by `one`,\n`module::two`.";
    assert_eq!(held_by(paragraph), ["one", "two"]);
    assert!(held_by("`three` is not held by a test.").is_empty());
}

/// Returns the tests after `Held by`, up to the end of the paragraph.
fn held_by(paragraph: &str) -> Vec<&str> {
    let Some((_, list)) = paragraph.split_once("\nHeld by ") else {
        return Vec::new();
    };
    let name = |test| str::rsplit(test, "::").next().unwrap_or(test);
    list.split('`').skip(1).step_by(2).map(name).collect()
}

/// Returns the Rust functions after `#[test]`, and the Python functions that begin with `test_`.
fn names_of_tests(source: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_test = false;
    for line in source.lines() {
        let line = line.trim_start();
        is_test |= line.starts_with("#[test]");
        let rust = line.strip_prefix("fn ").filter(|_| is_test);
        let python = line.strip_prefix("def ").filter(|rest| rest.starts_with("test_"));
        if let Some((name, _)) = rust.or(python).and_then(|rest| rest.split_once('(')) {
            names.push(name.to_owned());
            is_test = false;
        }
    }
    names
}
