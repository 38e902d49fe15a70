//! Checks that each task has only one implementation in the crates with rewrites.

#![expect(clippy::expect_used, reason = "a test fails if it cannot look")]

use std::path::{Path, PathBuf};

/// Returns the source files of these crates, each with its text without tests and white space.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    let crates = ["algebra", "loops", "targets", "passes"];
    let mut open: Vec<PathBuf> = crates.iter().map(|name| root.join(name).join("src")).collect();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).expect("the sources are there") {
            let path = entry.expect("an entry can be read").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") && !path.ends_with("tests.rs")
            {
                let text = std::fs::read_to_string(&path).expect("a source file can be read");
                let text = text.split("#[cfg(test)]").next().unwrap_or_default();
                let name = path.strip_prefix(&root).expect("it is below the root");
                let name = name.to_string_lossy().replace('\\', "/");
                found.push((name, text.split_whitespace().collect()));
            }
        }
    }
    found
}

/// Checks that a text occurs only in these files, and there once.
#[track_caller]
fn occurs_only_in(text: &str, files: &[&str]) {
    let sources = sources();
    let mut places = Vec::new();
    for (name, source) in &sources {
        places.extend(source.matches(text).map(|_| name.as_str()));
    }
    assert_eq!(places, files, "{text}");
}

#[test]
fn one_place_reads_permutations_and_one_writes_them() {
    // `Edit::perm` reads them.
    occurs_only_in(r#".attr("perm")"#, &[]);
    occurs_only_in(r#".attr("perm","#, &["algebra/src/axis_map/emit.rs"]);
}

#[test]
fn no_file_counts_axes_from_the_end_by_itself() {
    for (name, source) in sources() {
        for text in ["axis<0", "axis+rank", "axis+self.rank", "Attr::Int(-1)", "Attr::Int(rank-1)"]
        {
            assert!(!source.contains(text), "{name} has {text}");
        }
    }
}

#[test]
fn no_file_lists_the_layout_ops_or_walks_through_them_by_itself() {
    let reshapes = ["OpType::Reshape", "OpType::Squeeze", "OpType::Unsqueeze"];
    for (name, source) in sources() {
        for (a, b) in reshapes.iter().flat_map(|a| reshapes.iter().map(move |b| (a, b))) {
            for separator in ["|", ","] {
                let list = format!("{a}{separator}{b}");
                assert!(!source.contains(&list), "{name} lists {list}");
            }
        }
    }
    // `Edit::walk` does.
    occurs_only_in("std::iter::successors(step(value)", &[]);
}
